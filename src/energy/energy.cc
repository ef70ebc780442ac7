// AttributeEnergy: device by device, from the trace and the log to rows.
#include "xplane_time/energy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "energy/attribution.h"
#include "energy/sensors.h"
#include "saturate.h"
#include "status.h"
#include "timing/analysis.h"

namespace xplane_time {
namespace {

using energy::Attribution;
using energy::BusyCurve;

constexpr double kPsPerS = 1e12;
// Less of the capture is "a part of it".
constexpr double kWhole = 0.9;

// Where a device's axis begins and ends, and what its origin was on the calendar's clock.
struct CaptureSpan {
  int64_t from_ps = 0, to_ps = 0;
  std::optional<int64_t> unix_ns;  // of from_ps
};

CaptureSpan SpanOf(const Trace& trace, const DeviceAnalysis& device) {
  const TraceFile& file = trace.files[device.row.device.input];
  CaptureSpan span = {device.row.first_ps.value_or(0), device.row.last_ps.value_or(0), {}};
  // Times of a saved capture count from its start, others from base_ns on the calendar's clock.
  std::optional<int64_t> origin_ns;
  if (trace.base_ns != 0) {
    origin_ns = trace.base_ns;
  } else if (file.profile_start_unix_ns.has_value()) {
    origin_ns = static_cast<int64_t>(*file.profile_start_unix_ns);
  }
  if (!origin_ns.has_value()) return span;
  // Of the edges that are known, as far as they hold what ran.
  const auto at_ps = [&](uint64_t unix_ns) {
    // Far from the origin the edge is none.
    const int64_t ns = SaturatingSub(static_cast<int64_t>(unix_ns), *origin_ns);
    return std::abs(ns) < kAxisLimitPs / 1000 ? ns * 1000 : 0;
  };
  if (file.profile_start_unix_ns.has_value()) {
    span.from_ps = std::min(span.from_ps, at_ps(*file.profile_start_unix_ns));
  }
  if (file.profile_stop_unix_ns.has_value()) {
    span.to_ps = std::max(span.to_ps, at_ps(*file.profile_stop_unix_ns));
  }
  span.unix_ns = SaturatingAdd(*origin_ns, span.from_ps / 1000);
  return span;
}

// A kernel of a device: its row, and the op that it is of.
struct Kernel {
  KernelRow row;
  const OpInfo* op = nullptr;
};

// When each of the rows ran, since the span began. Takes it from the device.
std::vector<BusyCurve> TakeBusy(const CaptureSpan& span, std::span<const KernelOfCells> rows,
                                DeviceAnalysis* device) {
  std::vector<BusyCurve> busy;
  busy.reserve(rows.size());
  for (const KernelOfCells& row : rows) {
    std::vector<Interval> ran = std::move(device->ran[row.cells[0]]);
    for (const size_t cell : std::span(row.cells).subspan(1)) {
      const std::vector<Interval> more = std::move(device->ran[cell]);
      ran.insert(ran.end(), more.begin(), more.end());
    }
    for (Interval& each : ran) {
      each.start_ps -= span.from_ps;
      each.end_ps -= span.from_ps;
    }
    busy.emplace_back(std::move(ran));
  }
  return busy;
}

class DeviceEnergy {
 public:
  DeviceEnergy(const EnergyOptions& options, const Filters& shown, const energy::SensorLog& log,
               EnergyReport* report)
      : options_(options), shown_(shown), log_(log), report_(report) {}

  void Add(const Trace& trace, DeviceAnalysis* analysis) {
    EnergyDevice device;
    device.device = analysis->row.device;
    const CaptureSpan span = SpanOf(trace, *analysis);
    std::vector<KernelOfCells> rows = KernelsOf(*analysis);
    busy_ = TakeBusy(span, rows, analysis);
    for (KernelOfCells& each : rows) {
      const OpInfo& op = analysis->tables->ops[analysis->cells[each.cells[0]].op];
      kernels_.push_back({std::move(each.row), &op});
    }
    found_ = Find(span, *analysis, &device);
    if (found_.reason.empty()) {
      Describe(span, &device);
      AddGroups(device.device);
    }
    device.reason = found_.reason;
    device.message = found_.message;
    AddRows(*analysis);
    AddFindings(device);
    report_->devices.push_back(std::move(device));
  }

 private:
  using Members = std::vector<size_t>;  // indices into kernels_

  Attribution Find(const CaptureSpan& span, const DeviceAnalysis& analysis, EnergyDevice* device) {
    Attribution none;
    const energy::SensorChoice choice =
        energy::ChooseSensor(log_, {analysis.row.kind, analysis.row.device.ordinal}, options_.map);
    none.reason = choice.reason;
    none.message = choice.message;
    if (choice.sensor == nullptr) return none;
    const PowerChannel& channel = choice.sensor->channel;
    device->sensor =
        Cat(channel.source, " ", choice.device, " ", channel.domain, " ", channel.quantity);
    device->shared = choice.shared;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!busy_[k].intervals().empty()) continue;
      none.reason = "no_times";
      none.message = Cat(kernels_[k].row.kernel,
                         ": only sums of its executions are in the trace, not when they ran");
      return none;
    }
    if (busy_.empty()) {
      none.reason = "nothing_ran";
      none.message = "nothing ran on it";
      return none;
    }
    const bool clock_known = span.unix_ns.has_value() && !log_.clocks.empty();
    std::vector<energy::Poll> polls =
        energy::PollsOn(log_, *choice.sensor, span.unix_ns.value_or(0));
    return energy::Attribute(channel, std::move(polls), busy_,
                             static_cast<double>(span.to_ps - span.from_ps) / kPsPerS, clock_known);
  }

  void Describe(const CaptureSpan& span, EnergyDevice* device) const {
    const auto ns = [](double s) { return std::llround(s * 1e9); };
    device->poor_fit = !found_.poor_fit.empty();
    device->clock = found_.clock;
    device->coverage = std::min(
        1.0, found_.covered_s / (static_cast<double>(span.to_ps - span.from_ps) / kPsPerS));
    device->windows = static_cast<uint64_t>(found_.fit.energy_j.size());
    device->measured_j = found_.measured_j;
    const double half_j = found_.idle_half_width_j;
    device->active_j = {found_.active_j, {found_.active_j - half_j, found_.active_j + half_j}};
    device->idle_j = {found_.idle_j, {found_.idle_j - half_j, found_.idle_j + half_j}};
    device->residual_j = found_.residual_j;
    device->residual_share = found_.residual_share;
    device->lag_ns = ns(found_.fit.lag_s);
    if (found_.fit.window_s > 0) device->window_ns = ns(found_.fit.window_s);
    device->period_ns = ns(found_.fit.grid.period_s);
  }

  static double Sum(const Eigen::VectorXd& values, const Members& members) {
    double sum = 0;
    for (const size_t k : members) sum += values[static_cast<Eigen::Index>(k)];
    return sum;
  }

  // Where the interval is narrow enough beside `scale_j`.
  static std::optional<Joules> Known(double value_j, double half_j, double scale_j) {
    if (!(half_j <= energy::kKnownShare * scale_j)) return std::nullopt;
    return Joules{value_j, {value_j - half_j, value_j + half_j}};
  }

  std::optional<Joules> EnergyOf(const Members& members) const {
    const double energy_j = Sum(found_.energies.energy_j, members);
    return Known(energy_j, found_.energies.HalfWidthJ(members), energy_j);
  }
  std::optional<Joules> ActiveOf(const Members& members) const {
    return Known(Sum(found_.energies.active_j, members), found_.energies.ActiveHalfWidthJ(members),
                 Sum(found_.energies.energy_j, members));
  }

  void AddGroups(const DeviceRef& device) {
    first_group_ = static_cast<uint32_t>(report_->groups.size());
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!found_.known[k].group.has_value()) continue;
      const size_t group = *found_.known[k].group;
      if (group >= members_of_group_.size()) members_of_group_.resize(group + 1);
      members_of_group_[group].push_back(k);
    }
    for (const Members& members : members_of_group_) {
      EnergyGroup& group = report_->groups.emplace_back();
      group.device = device;
      group.group = static_cast<uint32_t>(report_->groups.size()) - 1;
      for (const size_t k : members) group.kernels.push_back(kernels_[k].row.kernel);
      group.energy_j = EnergyOf(members);
    }
  }

  // What is known of the sum over `members`.
  void Fill(const Members& members, EnergyRow* row) const {
    for (const size_t k : members) {
      row->count += kernels_[k].row.count;
      row->busy_ps += std::llround(busy_[k].total_s() * kPsPerS);
    }
    row->reason = found_.reason;
    if (!found_.reason.empty()) return;
    const auto is_measured = [&](size_t k) { return found_.measured[k]; };
    const Standing standing = StandingOf(members);
    for (const size_t k : members) row->windows = std::max(row->windows, found_.windows[k]);
    row->group = standing.group;
    row->reason = standing.reason;
    if (!standing.reason.empty()) return;
    row->energy_j = EnergyOf(members);
    row->active_j = ActiveOf(members);
    row->kind =
        std::ranges::all_of(members, is_measured) ? EnergyKind::kMeasured : EnergyKind::kAttributed;
    const double busy_s = Sum(found_.busy_s, members);
    row->mean_w = row->energy_j->value / busy_s;
    row->share = row->energy_j->value / found_.energies.energy_j.sum();
    // Of one execution, in the capture's own terms: of a part of it, energies are smaller.
    const double per_execution_s =
        static_cast<double>(row->busy_ps) / kPsPerS / static_cast<double>(row->count);
    row->per_execution_j = *row->mean_w * per_execution_s;
    row->edp_js = *row->per_execution_j * per_execution_s;
    if (row->runs) {
      row->per_run_j =
          *row->per_execution_j * static_cast<double>(row->count) / static_cast<double>(*row->runs);
    }
    row->busy_ps = std::llround(busy_s * kPsPerS);
  }

  struct Standing {
    std::optional<uint32_t> group;
    std::string_view reason;
  };
  Standing StandingOf(const Members& members) const {
    if (members.size() > 1) return {{}, EnergyOf(members) ? "" : "too_uncertain"};
    const energy::Known& known = found_.known[members[0]];
    if (known.alone) return {};
    if (!known.group.has_value()) return {{}, "too_uncertain"};
    return {first_group_ + static_cast<uint32_t>(*known.group), "not_separable"};
  }

  // Nothing where it is not certain.
  static std::optional<uint64_t> RunsOf(const DeviceAnalysis& analysis, const EnergyRow& row) {
    const auto& programs = analysis.tables->programs;
    const auto program = std::ranges::find_if(programs, [&](const ProgramInfo& each) {
      return each.function == row.name && each.program_id == row.program_id;
    });
    const auto id = static_cast<uint32_t>(program - programs.begin());
    const auto& samples = analysis.samples;
    const auto first = std::ranges::lower_bound(samples, id, {}, &RunSample::program);
    const auto last = std::ranges::upper_bound(samples, id, {}, &RunSample::program);
    const bool is_certain = first != last && std::none_of(first, last, [](const RunSample& each) {
                              return each.uncertain;
                            });
    return is_certain ? std::optional(static_cast<uint64_t>(last - first)) : std::nullopt;
  }

  bool IsShown(const Kernel& kernel) const {
    const std::optional<std::string>& function = kernel.row.function;
    return (!shown_.any_op() || shown_.WantsOp(*kernel.op)) &&
           (function.has_value() ? shown_.WantsFunction(*function) : !shown_.any_function());
  }

  // A row for each key of a kernel; kernels without one have none.
  using KeyOf = std::function<std::optional<std::string>(const Kernel&)>;
  void AddSums(const DeviceAnalysis& analysis, const KeyOf& key_of, bool is_function,
               std::vector<EnergyRow>* rows) const {
    std::map<std::string, Members> members;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!IsShown(kernels_[k])) continue;
      if (const auto key = key_of(kernels_[k]); key.has_value()) members[*key].push_back(k);
    }
    const size_t first = rows->size();
    for (const auto& [key, of_key] : members) {
      EnergyRow& row = rows->emplace_back();
      row.device = analysis.row.device;
      const KernelRow& kernel = kernels_[of_key[0]].row;
      row.name = is_function ? *kernel.function : key;
      if (is_function) {
        row.program_id = kernel.program_id;
        row.variant_id = shown_.id.Capture(row.name);
        row.runs = RunsOf(analysis, row);
      }
      Fill(of_key, &row);
    }
    Sort(first, rows);
  }

  static void Sort(size_t first, std::vector<EnergyRow>* rows) {
    std::stable_sort(rows->begin() + static_cast<ptrdiff_t>(first), rows->end(),
                     [](const EnergyRow& a, const EnergyRow& b) {
                       const auto of = [](const EnergyRow& row) {
                         return row.energy_j ? row.energy_j->value : -1;
                       };
                       return std::pair(of(a), a.busy_ps) > std::pair(of(b), b.busy_ps);
                     });
  }

  void AddRows(const DeviceAnalysis& analysis) {
    const size_t first = report_->kernels.size();
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!IsShown(kernels_[k])) continue;
      const KernelRow& kernel = kernels_[k].row;
      EnergyRow& row = report_->kernels.emplace_back();
      row.device = kernel.device;
      row.name = kernel.kernel;
      row.function = kernel.function;
      row.program_id = kernel.program_id;
      if (kernel.function) row.variant_id = shown_.id.Capture(*kernel.function);
      Fill({k}, &row);
    }
    Sort(first, &report_->kernels);
    AddSums(
        analysis,
        [](const Kernel& kernel) {
          const KernelRow& row = kernel.row;
          return row.function ? std::optional(Cat(*row.function, "\n", row.program_id.value_or("")))
                              : std::nullopt;
        },
        /*is_function=*/true, &report_->functions);
    const auto known = [](const std::string& text) {
      return text.empty() ? std::nullopt : std::optional(text);
    };
    AddSums(
        analysis, [&](const Kernel& kernel) { return known(kernel.op->scope); },
        /*is_function=*/false, &report_->layers);
    AddSums(
        analysis, [&](const Kernel& kernel) { return known(kernel.op->source); },
        /*is_function=*/false, &report_->sources);
  }

  void AddFindings(const EnergyDevice& device) const {
    const auto add = [&](std::string_view code, std::string_view severity, std::string message) {
      report_->findings.push_back({code, severity, device.device, std::move(message)});
    };
    if (!device.reason.empty()) add(device.reason, "warning", device.message);
    if (device.poor_fit) add("poor_fit", "warning", std::string(found_.poor_fit));
    if (device.shared) {
      add("shared_device", "warning",
          "others use the device, too: its power is not all the trace's");
    }
    if (device.coverage && *device.coverage < kWhole) {
      add("coverage", "warning",
          Cat("the log covers ", std::llround(*device.coverage * 100),
              " % of the capture: energies are of that part"));
    }
    if (found_.idle_half_width_j > energy::kKnownShare * found_.measured_j) {
      add("never_idle", "warning",
          "how the energy parts into active and idle is not known: too little of the capture is "
          "without load; record some seconds before and after it");
    }
    if (device.clock == EnergyClock::kEstimated) {
      add("clock_estimated", "info",
          "where the log lies on the trace's axis is estimated from its power");
    }
  }

  const EnergyOptions& options_;
  const Filters& shown_;
  const energy::SensorLog& log_;
  EnergyReport* const report_;
  std::vector<Kernel> kernels_;
  std::vector<BusyCurve> busy_;  // of each
  Attribution found_;
  std::vector<Members> members_of_group_;
  uint32_t first_group_ = 0;
};

// The energy of all executions does not depend on how they split into runs.
Diagnostics WithoutRuns(const Diagnostics& all) {
  constexpr DiagnosticCode kOfRuns[] = {DiagnosticCode::kKernelWithoutFunction,
                                        DiagnosticCode::kExecutionOutsideModule,
                                        DiagnosticCode::kSuspectRun,
                                        DiagnosticCode::kRunsUncertain,
                                        DiagnosticCode::kNoOps,
                                        DiagnosticCode::kClocksDisagree,
                                        DiagnosticCode::kMixedClocks,
                                        DiagnosticCode::kDevicesUnmatched,
                                        DiagnosticCode::kAsynchronousBody};
  Diagnostics kept;
  for (const Diagnostic& each : all.List()) {
    if (std::ranges::find(kOfRuns, each.code) != std::end(kOfRuns)) continue;
    if (each.text.empty()) {
      kept.Count(each.code, each.first, each.count);
    } else {
      kept.Note(each.code, each.text, each.first, each.count);
    }
  }
  return kept;
}

// What is shown of it does not change what ran.
ReportOptions WithoutFilters(const ReportOptions& options) {
  ReportOptions all;
  all.device = options.device;
  all.id_pattern = options.id_pattern;
  all.threads = options.threads;
  all.events_done = options.events_done;
  return all;
}

}  // namespace

std::string_view EnergyKindName(EnergyKind kind) {
  return kind == EnergyKind::kMeasured ? "measured" : "attributed";
}

std::string_view EnergyClockName(EnergyClock clock) {
  constexpr std::string_view kNames[] = {"capture_start", "estimated", "ambiguous"};
  return kNames[static_cast<size_t>(clock)];
}

absl::StatusOr<EnergyReport> AttributeEnergy(const Trace& trace, const EnergyOptions& options,
                                             const Diagnostics& reading) {
  ASSIGN_OR_RETURN(const energy::SensorLog log, energy::ReadSensorLog(options.power_log));
  ASSIGN_OR_RETURN(const Filters shown, Filters::Compile(options.trace));
  ASSIGN_OR_RETURN(Analysis analysis,
                   Analyze(trace, WithoutFilters(options.trace), reading, Keep::kIntervals));
  EnergyReport report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  if (!log.complete) {
    EnergyFinding& finding = report.findings.emplace_back();
    finding.code = "log_without_end";
    finding.severity = "info";
    finding.message =
        Cat(log.path, ": it has no last line: its recorder was killed, or is not done");
  }
  for (DeviceAnalysis& device : analysis.devices) {
    if (device.row.executions == 0) continue;
    DeviceEnergy(options, shown, log, &report).Add(trace, &device);
  }
  report.diagnostics = DescribeDiagnostics(trace, WithoutRuns(analysis.diagnostics));
  const auto has_numbers = [](const EnergyDevice& device) { return device.reason.empty(); };
  if (std::ranges::none_of(report.devices, has_numbers)) {
    return FailedPrecondition(options.power_log,
                              ": no energy can be told: ", DeviceName(report.devices[0].device),
                              ": ", report.devices[0].message);
  }
  return report;
}

}  // namespace xplane_time
