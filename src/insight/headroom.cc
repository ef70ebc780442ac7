#include "xplane_time/headroom.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "devices/device_kind.h"
#include "hlo/program.h"
#include "insight/declared_work.h"
#include "insight/op_costs.h"
#include "insight/peaks.h"
#include "insight/reports.h"
#include "saturate.h"
#include "status.h"
#include "timing/analysis.h"
#include "timing/compiled_programs.h"
#include "timing/origins.h"

namespace xplane_time {
namespace {

using insight::OpCost, insight::OpCosts;

constexpr double kPsPerSecond = 1e12;
// Below that share of both peaks an op is bound by neither: the line that Nsight Compute draws.
constexpr double kBoundShare = 0.6;

// In the order of their enums.
constexpr const char* kPeakSources[] = {"trace", "table", "user"};
constexpr const char* kFigureSources[] = {"counted", "modelled", "declared"};
constexpr const char* kRoofs[] = {"full", "memory", "compute"};
constexpr const char* kBounds[] = {"memory", "compute", "neither"};
constexpr const char* kNoRoofs[] = {
    "host",    "not_compute",        "pair",          "no_program", "not_in_program", "no_model",
    "no_peak", "executions_unknown", "flops_unknown", "above_peak"};

// The cells of one row.
using Cells = std::vector<const KernelCell*>;

class DeviceHeadroom {
 public:
  // `works` outlives it.
  DeviceHeadroom(const Trace& trace, const HeadroomOptions& options,
                 const insight::DeclaredWorks& works, const DeviceAnalysis& device,
                 Diagnostics* diagnostics)
      : works_(works),
        device_(device),
        tables_(*device.tables),
        rules_(RulesOf(device.plane.kind)),
        compiled_(device, diagnostics),
        origins_(/*with_stacks=*/false) {
    row_.device = device.row.device;
    row_.kind = device.plane.kind;
    row_.self_ps = device.self_ps;
    bool unbelievable = false;
    row_.peaks = insight::PeaksOf(trace.planes[device.plane.plane], &unbelievable);
    if (unbelievable) {
      diagnostics->Count(DiagnosticCode::kUnbelievablePeak, {.plane = device.plane.plane});
    }
    TakePeaks(options);
  }

  // Its ops, in no order that means anything.
  struct Op {
    HeadroomRow row;
    Cells cells;
  };
  std::vector<Op> Ops() {
    std::map<std::pair<uint32_t, std::string_view>, Cells> ops;
    for (const KernelCell& cell : device_.cells) {
      if (cell.count == 0) continue;
      const OpInfo& op = tables_.ops[cell.op];
      ops[{cell.program, op.hlo_op.empty() ? op.kernel : op.hlo_op}].push_back(&cell);
    }
    std::vector<Op> all;
    for (auto& [key, cells] : ops) {
      HeadroomRow row = RowOf(key.second, cells);
      all.push_back({std::move(row), std::move(cells)});
    }
    return all;
  }

  // `some`: only some of its ops are selected, and shares are relative to their time.
  HeadroomDevice AddTo(bool some, std::vector<HeadroomRow>* rows) {
    if (some) row_.self_ps = 0;
    for (Op& op : Ops()) {
      if (some) row_.self_ps = SaturatingAdd(row_.self_ps, op.row.total_ps);
      rows->push_back(std::move(op.row));
    }
    if (row_.self_ps > 0) {
      row_.roofed_share = static_cast<double>(row_.roofed_ps) / static_cast<double>(row_.self_ps);
    }
    return std::move(row_);
  }

 private:
  void TakePeaks(const HeadroomOptions& options) {
    DevicePeaks& peaks = row_.peaks;
    if (options.peak_flops_per_s.has_value()) {
      peaks.flops_per_s = options.peak_flops_per_s;
      peaks.f8_flops_per_s.reset();
      peaks.of_all_types = true;
      peaks.flops_source = PeakSource::kUser;
    }
    if (options.peak_bytes_per_s.has_value()) {
      peaks.bytes_per_s = options.peak_bytes_per_s;
      peaks.bytes_source = PeakSource::kUser;
    }
  }

  HeadroomRow RowOf(std::string_view op, const Cells& cells) {
    HeadroomRow row;
    row.device = row_.device;
    row.op = op;
    const uint32_t program = cells[0]->program;
    if (program != kNone) {
      row.function = tables_.programs[program].function;
      row.program_id = tables_.programs[program].program_id;
    }
    row.clock = device_.clocks.Of(program).value_or(Clock::kProfile);
    const OpInfo& longest = CountKernels(cells, &row);
    row.kernel = longest.kernel;
    row.category = longest.category;
    OpCost cost = CostOf(longest, cells, &row);
    const bool is_declared = TakeDeclared(cells, &cost, &row);
    FillRates(&row);
    FillRoof(cost, is_declared, &row);
    if (row.roof_ps.has_value() && !row.has_unknown_side()) AddRoofed(cells);
    if (row.recoverable_ps.has_value()) {
      row_.recoverable_ps = row_.recoverable_ps.value_or(0) + *row.recoverable_ps;
    }
    return row;
  }

  void AddRoofed(const Cells& cells) {
    for (const KernelCell* cell : cells) {
      row_.roofed_ps = SaturatingAdd(row_.roofed_ps, cell->self_ps.value_or(cell->total_ps));
    }
  }

  // Counts and times; the op of the kernel that took longest.
  const OpInfo& CountKernels(const Cells& cells, HeadroomRow* row) const {
    struct Kernel {
      uint64_t count = 0;
      int64_t total_ps = 0;
      const OpInfo* op = nullptr;
    };
    std::map<std::string_view, Kernel> kernels;
    for (const KernelCell* cell : cells) {
      const OpInfo& op = tables_.ops[cell->op];
      Kernel& kernel = kernels[op.kernel];
      kernel.count += cell->count;
      kernel.total_ps = SaturatingAdd(kernel.total_ps, cell->total_ps);
      kernel.op = &op;
      row->kernels += cell->count;
      row->total_ps = SaturatingAdd(row->total_ps, cell->total_ps);
    }
    const Kernel* longest = &kernels.begin()->second;
    uint64_t least = longest->count;
    for (const auto& [name, kernel] : kernels) {
      if (kernel.total_ps > longest->total_ps) longest = &kernel;
      least = std::min(least, kernel.count);
    }
    const bool multiples = std::ranges::all_of(
        kernels, [least](const auto& each) { return each.second.count % least == 0; });
    if (multiples) row->executions = least;
    return *longest->op;
  }

  // The cost of one execution, by the rules of the device kind.
  OpCost CostOf(const OpInfo& op, const Cells& cells, HeadroomRow* row) {
    Origin origin = origins_.Of(op, compiled_.Find(op, cells[0]->program));
    if (!origin.scope.empty()) row->op_name = std::move(origin.scope);
    if (!origin.source.empty()) row->source = std::move(origin.source);
    if (IsPair(op)) {
      row->reason = NoRoof::kPair;
      return {};
    }
    OpCost cost;
    if (rules_.tells_costs) {
      cost = {.flops = op.flops, .bytes = op.hbm_bytes};
    } else {
      cost = CompiledCost(op, cells[0]->program, row);
    }
    if (cost.flops.has_value()) {
      row->flops = static_cast<double>(*cost.flops);
      row->flops_source = FigureSource::kModelled;
    }
    if (cost.bytes.has_value()) {
      row->bytes = static_cast<double>(*cost.bytes);
      row->bytes_source = FigureSource::kModelled;
    }
    CountCopied(cells, row);
    return cost;
  }

  // The user's figures replace others. The type of the products is not declared. So they are
  // compared with the peak of 16-bit floats, and the recoverable time stays an upper bound.
  bool TakeDeclared(const Cells& cells, OpCost* cost, HeadroomRow* row) const {
    std::vector<std::string_view> kernels;
    for (const KernelCell* cell : cells) kernels.push_back(tables_.ops[cell->op].kernel);
    const DeclaredWork* const work = works_.Find(row->op, kernels);
    if (work == nullptr) return false;
    if (work->flops.has_value()) {
      row->flops = work->flops;
      row->flops_source = FigureSource::kDeclared;
      cost->flops_type = HloShape::kF16;
    }
    if (work->bytes.has_value()) {
      row->bytes = work->bytes;
      row->bytes_source = FigureSource::kDeclared;
    }
    if (row->reason != NoRoof::kPair) row->reason.reset();
    return true;
  }

  bool IsPair(const OpInfo& op) const {
    return rules_.tells_costs && (op.is_start || !op.start_op.empty() || IsHalfOfPair(op.hlo_op));
  }

  // The mean of the bytes that the driver reports for copies; unknown unless all copies have them.
  static void CountCopied(const Cells& cells, HeadroomRow* row) {
    int64_t bytes = 0;
    uint64_t told = 0, count = 0;
    for (const KernelCell* cell : cells) {
      bytes = SaturatingAdd(bytes, cell->copied_bytes);
      told += cell->copies_told;
      count += cell->count;
    }
    const bool too_many = bytes == std::numeric_limits<int64_t>::max();
    if (told != count || too_many || !row->executions.has_value()) return;
    row->bytes = static_cast<double>(bytes) / static_cast<double>(*row->executions);
    row->bytes_source = FigureSource::kCounted;
  }

  OpCost CompiledCost(const OpInfo& op, uint32_t program, HeadroomRow* row) {
    if (program == kNone || op.hlo_op.empty()) {
      row->reason = NoRoof::kNoProgram;
      return {};
    }
    const HloPrograms::FoundOp found = compiled_.Find(op, program);
    if (found.instruction == nullptr) {
      row->reason = found.program == nullptr ? NoRoof::kNoProgram : NoRoof::kNotInProgram;
      return {};
    }
    return costs_.try_emplace(found.program, *found.program).first->second.Of(*found.instruction);
  }

  static void FillRates(HeadroomRow* row) {
    if (!row->executions.has_value() || row->total_ps <= 0) return;
    const double per_s =
        static_cast<double>(*row->executions) * kPsPerSecond / static_cast<double>(row->total_ps);
    if (row->flops.has_value()) row->flops_per_s = *row->flops * per_s;
    if (row->bytes.has_value()) row->bytes_per_s = *row->bytes * per_s;
  }

  // Categories that compute; on a TPU also copies.
  bool MayHaveRoof(Category category) const {
    return category == Category::kCompute || (category == Category::kCopy && rules_.tells_costs);
  }

  // The reason why no roof is possible, independent of peaks and figures.
  std::optional<NoRoof> Excluded(const HeadroomRow& row, bool is_declared) const {
    if (rules_.is_host) return NoRoof::kHost;
    if (row.reason == NoRoof::kPair) return NoRoof::kPair;
    if (!is_declared && !MayHaveRoof(row.category)) return NoRoof::kNotCompute;
    if (!row.executions.has_value()) return NoRoof::kExecutions;
    return std::nullopt;
  }

  void FillRoof(const OpCost& cost, bool is_declared, HeadroomRow* row) const {
    if (const auto excluded = Excluded(*row, is_declared); excluded.has_value()) {
      row->reason = excluded;
      return;
    }
    const auto flops_peak = insight::FlopsPeakFor(row_.peaks, cost.flops_type);
    const std::optional<double>& bytes_peak = row_.peaks.bytes_per_s;
    const bool compute = row->flops.has_value() && flops_peak.has_value(),
               memory = row->bytes.has_value() && bytes_peak.has_value();
    const double compute_s = compute ? *row->flops / *flops_peak : 0,
                 memory_s = memory ? *row->bytes / *bytes_peak : 0;
    // A single known side of 0 is not a roof.
    if ((!compute || !memory) && compute_s == 0 && memory_s == 0) {
      const bool any = row->flops.value_or(0) > 0 || row->bytes.value_or(0) > 0;
      if (!row->reason.has_value()) row->reason = any ? NoRoof::kNoPeak : NoRoof::kNoModel;
      return;
    }
    row->roof = compute && memory ? Roof::kFull : memory ? Roof::kMemory : Roof::kCompute;
    const double roof_ps =
        static_cast<double>(*row->executions) * std::max(compute_s, memory_s) * kPsPerSecond;
    const auto total_ps = static_cast<double>(row->total_ps);
    row->roof_ps = roof_ps;
    row->above_peak = roof_ps > total_ps;
    const bool may_have_flops = row->flops.has_value() ? *row->flops > 0
                                                       : !is_declared && !cost.has_no_products &&
                                                             row->category == Category::kCompute;
    if (*row->above_peak) {
      row->reason = NoRoof::kAbovePeak;
    } else if (!compute && may_have_flops) {
      row->reason = row->flops.has_value() ? NoRoof::kNoPeak : NoRoof::kNoFlops;
    } else {
      row->recoverable_ps = total_ps - roof_ps;
    }
    FillBound(compute ? flops_peak : std::nullopt, memory ? bytes_peak : std::nullopt, row);
  }

  static void FillBound(const std::optional<double>& flops_peak,
                        const std::optional<double>& bytes_peak, HeadroomRow* row) {
    if (row->total_ps <= 0) return;
    if (flops_peak.has_value()) row->flops_share = *row->flops_per_s / *flops_peak;
    if (bytes_peak.has_value()) row->bytes_share = *row->bytes_per_s / *bytes_peak;
    const double compute = row->flops_share.value_or(0), memory = row->bytes_share.value_or(0);
    if (std::max(compute, memory) >= kBoundShare) {
      row->bound = compute > memory ? Bound::kCompute : Bound::kMemory;
    } else if (row->roof == Roof::kFull) {
      row->bound = Bound::kNeither;
    }
  }

  const insight::DeclaredWorks& works_;
  const DeviceAnalysis& device_;
  const ExecutionTables& tables_;
  const KindRules& rules_;
  CompiledPrograms compiled_;
  Origins origins_;
  std::map<const HloProgram*, OpCosts> costs_;
  HeadroomDevice row_;
};

absl::Status CheckPeak(const char* name, const std::optional<double>& peak, double most) {
  if (!peak.has_value() || (*peak >= kLeastPeak && *peak <= most)) return absl::OkStatus();
  return InvalidArgument(name, " of ", *peak, " a second is not plausible; give a value from ",
                         kLeastPeak, " to ", most);
}

// The rates of a device's kernels, derived from its ops. If an op has several kernels, their shares
// of its work are unknown.
class KernelRates {
 public:
  explicit KernelRates(std::vector<DeviceHeadroom::Op> ops, const DeviceAnalysis& device)
      : ops_(std::move(ops)), op_of_cell_(device.cells.size(), kNone), device_(device) {
    for (uint32_t i = 0; i < ops_.size(); ++i) {
      for (const KernelCell* cell : ops_[i].cells) op_of_cell_[IndexOf(cell)] = i;
    }
    for (const KernelCell& cell : device.cells) ++kernels_of_op_[KeyOf(cell)];
  }

  void Fill(KernelOfCells* kernel) const {
    std::map<uint32_t, size_t> own;  // by op, how many of its kernels are in the row
    for (const size_t cell : kernel->cells) ++own[op_of_cell_[cell]];
    Sum flops, bytes, roof_ps;
    for (const auto& [at, kernels] : own) {
      const DeviceHeadroom::Op& op = ops_[at];
      const bool whole = kernels == kernels_of_op_.at(KeyOf(*op.cells[0]));
      const double times = whole ? static_cast<double>(op.row.executions.value_or(0)) : 0;
      flops.Add(op.row.flops, times);
      bytes.Add(op.row.bytes, times);
      roof_ps.Add(op.row.has_unknown_side() ? std::nullopt : op.row.roof_ps, times > 0 ? 1 : 0);
    }
    KernelRow* const row = &kernel->row;
    // The thunks of a CPU return before their work is done, so a rate could be above any peak.
    if (row->total_ps <= 0 || RulesOf(device_.plane.kind).is_host) return;
    const bool is_pair = ops_[own.begin()->first].row.reason == NoRoof::kPair;
    const auto per_s = [&](const Sum& sum, const std::optional<int64_t>& told) {
      const std::optional<double> all = sum.known ? std::optional(sum.of_all)
                                        : told.has_value() && !is_pair
                                            ? std::optional(static_cast<double>(*told))
                                            : std::nullopt;
      return all.has_value()
                 ? std::optional(*all / static_cast<double>(row->total_ps) * kPsPerSecond)
                 : std::nullopt;
    };
    row->flops_per_s = per_s(flops, row->flops);
    row->bytes_per_s = per_s(bytes, row->bytes_accessed);
    if (roof_ps.known) row->roof_share = roof_ps.of_all / static_cast<double>(row->total_ps);
  }

 private:
  // Unknown as soon as a part is, or how often it is there (0).
  struct Sum {
    double of_all = 0;
    bool known = true;
    void Add(const std::optional<double>& each, double times) {
      known &= each.has_value() && times > 0;
      of_all += each.value_or(0) * times;
    }
  };
  using OpKey = std::pair<uint32_t, std::string_view>;
  OpKey KeyOf(const KernelCell& cell) const {
    const OpInfo& op = device_.tables->ops[cell.op];
    return {cell.program, op.hlo_op.empty() ? op.kernel : op.hlo_op};
  }
  size_t IndexOf(const KernelCell* cell) const {
    return static_cast<size_t>(cell - device_.cells.data());
  }

  std::vector<DeviceHeadroom::Op> ops_;
  std::vector<uint32_t> op_of_cell_;
  const DeviceAnalysis& device_;
  std::map<OpKey, size_t> kernels_of_op_;  // also those that filters exclude
};

}  // namespace

std::string_view PeakSourceName(PeakSource source) {
  return kPeakSources[static_cast<size_t>(source)];
}
std::string_view FigureSourceName(FigureSource source) {
  return kFigureSources[static_cast<size_t>(source)];
}
std::string_view RoofName(Roof roof) { return kRoofs[static_cast<size_t>(roof)]; }
std::string_view BoundName(Bound bound) { return kBounds[static_cast<size_t>(bound)]; }
std::string_view NoRoofName(NoRoof reason) { return kNoRoofs[static_cast<size_t>(reason)]; }

absl::StatusOr<HeadroomReport> BuildHeadroom(const Trace& trace, const HeadroomOptions& options,
                                             const Diagnostics& reading) {
  RETURN_IF_ERROR(insight::CheckPeaks(options));
  ASSIGN_OR_RETURN(Analysis analysis, Analyze(trace, options.select, reading));
  return insight::HeadroomOf(trace, &analysis, options);
}

absl::Status insight::CheckPeaks(const HeadroomOptions& options) {
  RETURN_IF_ERROR(CheckPeak("peak FLOPs", options.peak_flops_per_s, kMostPeakFlops));
  return CheckPeak("peak bandwidth", options.peak_bytes_per_s, kMostPeakBytes);
}

absl::StatusOr<HeadroomReport> insight::HeadroomOf(const Trace& trace, Analysis* analysis,
                                                   const HeadroomOptions& options) {
  ASSIGN_OR_RETURN(const DeclaredWorks works, DeclaredWorks::Compile(options.work));
  if (!options.work.empty()) {
    std::set<std::string_view> names;  // of all that ran, whatever filters choose
    for (const DeviceAnalysis& device : analysis->devices) {
      for (size_t i = 0; i < device.tables->ops.size(); ++i) {
        names.insert(device.tables->ops[i].kernel);
        names.insert(device.tables->ops[i].hlo_op);
      }
    }
    names.erase("");
    RETURN_IF_ERROR(works.CheckUsed(names));
  }
  HeadroomReport report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  const bool some = analysis->filters.any_function() || analysis->filters.any_op();
  for (const DeviceAnalysis& device : analysis->devices) {
    if (device.row.executions == 0) continue;
    DeviceHeadroom headroom(trace, options, works, device, &analysis->diagnostics);
    report.devices.push_back(headroom.AddTo(some, &report.ops));
  }
  std::stable_sort(report.ops.begin(), report.ops.end(),
                   [](const HeadroomRow& a, const HeadroomRow& b) {
                     constexpr double kUnknown = -1;
                     return std::tuple(a.recoverable_ps.value_or(kUnknown), a.total_ps) >
                            std::tuple(b.recoverable_ps.value_or(kUnknown), b.total_ps);
                   });
  report.diagnostics = DescribeDiagnostics(trace, analysis->diagnostics);
  return report;
}

absl::StatusOr<Report> BuildReportWithRates(const Trace& trace, const ReportOptions& options,
                                            const Diagnostics& reading) {
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeForReport(trace, options, reading));
  const insight::DeclaredWorks none;
  Diagnostics ignored;  // headroom reports the missing roofs
  ReportOptions how = options;
  how.sources = true;
  return ReportOf(trace, how, &analysis,
                  [&](const DeviceAnalysis& device, std::span<KernelOfCells> kernels) {
                    if (kernels.empty()) return;
                    DeviceHeadroom headroom(trace, {}, none, device, &ignored);
                    const KernelRates rates(headroom.Ops(), device);
                    for (KernelOfCells& kernel : kernels) rates.Fill(&kernel);
                  });
}

}  // namespace xplane_time
