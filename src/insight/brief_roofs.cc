#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "devices/device_kind.h"
#include "insight/findings.h"
#include "xplane_time/headroom.h"

namespace xplane_time::insight {
namespace {

// Nearer to its roof a kernel is as good as most get: the line that Nsight Compute draws.
constexpr double kNearRoof = 0.6;
// Shares of the time of all devices: unroofed compute above the first is reported, a single op
// above the second.
constexpr double kMuchUnknown = 0.1, kLargeOp = 0.2;
// The likely part of the recoverable time, for a roofline and for an op without one. An op that
// takes less than kDominant counts 0, so that it comes after all measured times.
constexpr double kLikelyOfRoof = 0.5, kLikelyOfOp = 1.0 / 3, kDominant = 0.35;

// Words of a name: "nhwcAddPaddingKernel" has nhwc, add, padding, kernel.
std::vector<std::string> WordsIn(std::string_view name) {
  std::vector<std::string> words(1);
  bool was_lower = false;
  for (const char c : name) {
    const bool upper = 'A' <= c && c <= 'Z', lower = 'a' <= c && c <= 'z';
    if ((upper && was_lower) || (!upper && !lower)) words.emplace_back();
    if (upper || lower) words.back() += upper ? static_cast<char>(c - 'A' + 'a') : c;
    was_lower = lower;
  }
  return words;
}

bool HasWord(std::string_view name, std::span<const std::string_view> wanted) {
  return std::ranges::any_of(WordsIn(name), [&](const std::string& word) {
    return std::ranges::find(wanted, word) != wanted.end();
  });
}

// Ops that only fill up shapes.
bool Pads(const HeadroomRow& row) {
  constexpr std::string_view kPadding[] = {"pad", "padding"};
  const auto pads = [&](std::string_view name) { return HasWord(name, kPadding); };
  // The innermost scope describes the op: "jit(f)/jit(_pad)/pad".
  const std::string_view op_name = row.op_name ? *row.op_name : std::string_view();
  return pads(row.op) || pads(row.kernel) || op_name.substr(op_name.rfind('/') + 1) == "pad";
}

// Matrix products, convolutions and attention: the main work of models, so a large share is not
// suspicious.
bool IsProduct(const HeadroomRow& row) {
  constexpr std::string_view kProducts[] = {"gemm",  "dot",   "matmul",  "conv",     "convolution",
                                            "gemv",  "mma",   "cutlass", "cublas",   "sgemm",
                                            "hgemm", "flash", "fmha",    "attention"};
  const auto is_product = [&](std::string_view name) {
    return HasWord(name, kProducts) || name.find("gemm") != name.npos;
  };
  return is_product(row.op) || is_product(row.kernel) || row.flops.value_or(0) > 0;
}

class Roofs {
 public:
  Roofs(const HeadroomReport& headroom, FindingList* findings)
      : headroom_(headroom), findings_(*findings) {
    for (size_t i = 0; i < findings_.devices().size(); ++i) {
      index_of_.try_emplace(findings_.RefOf(i), i);
    }
  }

  struct OfOp {
    FindingList::SparseTimes by_device;
    const HeadroomRow* row = nullptr;  // the longest
    int64_t total_ps = 0;
    double roof_ps = 0;
  };
  using OpKey = std::tuple<std::string, std::string, std::string>;  // function, program, op

  void Add() {
    const OwnedByOp owned = OwnedOfOps();
    std::map<OpKey, OfOp> ops;
    std::map<std::string, Unroofed> unroofed, padding;  // by name
    for (const HeadroomRow& row : headroom_.ops) {
      const std::optional<size_t> device = IndexOf(row.device);
      if (!device.has_value() || row.category != Category::kCompute) continue;
      const auto found = owned.find({*device, KeyOf(row)});
      const double left_ps = found == owned.end() ? 0 : found->second;
      const bool has_roof = row.roof_ps.has_value() && row.recoverable_ps.has_value();
      if (Pads(row) || !has_roof) {
        Unroofed& op = (Pads(row) ? padding : unroofed)[NameOf(row)];
        op.by_device[*device] += std::llround(left_ps);
        op.kernels += row.kernels;
        if (op.row == nullptr || row.total_ps > op.row->total_ps) op.row = &row;
        continue;
      }
      OfOp& op = ops[KeyOf(row)];
      const double back_ps = std::min(*row.recoverable_ps, left_ps - *row.roof_ps);
      op.by_device[*device] += static_cast<int64_t>(std::max(back_ps, 0.0));
      op.total_ps = SaturatingAdd(op.total_ps, row.total_ps);
      op.roof_ps += *row.roof_ps;
      if (op.row == nullptr || row.total_ps > op.row->total_ps) op.row = &row;
    }
    OfOp others;
    size_t count = 0;
    for (const auto& [key, op] : ops) {
      if (op.roof_ps >= kNearRoof * AsDouble(op.total_ps)) {
        findings_.AddNearRoof(TotalPs(op));
        continue;
      }
      if (findings_.IsWorthAWord(op.by_device)) {
        AddRoof(op);
        continue;
      }
      ++count;
      for (const auto& [device, ps] : op.by_device) others.by_device[device] += ps;
      others.total_ps = SaturatingAdd(others.total_ps, op.total_ps);
      others.roof_ps += op.roof_ps;
      if (others.row == nullptr || op.row->recoverable_ps > others.row->recoverable_ps) {
        others.row = op.row;
      }
    }
    AddOtherRoofs(others, count);
    AddPadding(padding);
    AddLargest(&unroofed);
    AddRoofUnknown(unroofed);
  }

  // Ops of one name without a roof, whatever the program.
  struct Unroofed {
    FindingList::SparseTimes by_device;
    uint64_t kernels = 0;
    const HeadroomRow* row = nullptr;  // the longest

    int64_t TimePs() const {
      int64_t ps = 0;
      for (const auto& [device, of_device_ps] : by_device) ps = SaturatingAdd(ps, of_device_ps);
      return ps;
    }
  };

  void AddPadding(const std::map<std::string, Unroofed>& ops) {
    if (ops.empty()) return;
    FindingList::SparseTimes by_device;
    uint64_t kernels = 0;
    const Unroofed* largest = nullptr;
    for (const auto& [name, op] : ops) {
      for (const auto& [device, ps] : op.by_device) by_device[device] += ps;
      kernels += op.kernels;
      if (largest == nullptr || op.TimePs() > largest->TimePs()) largest = &op;
    }
    if (!findings_.IsWorthAWord(by_device)) return;
    const HeadroomRow& row = *largest->row;
    BriefFinding finding = {
        .code = "padding",
        .certainty = Certainty::kUpperBound,
        .function = row.function,
        .what =
            Cat("padding: ", ShortName(NameOf(row)),
                ops.size() == 1 ? "" : Cat(" and ", CountText(ops.size() - 1, "other"), " only"),
                ops.size() == 1 ? " only pads shapes" : " pad shapes"),
        .evidence = Cat(CountText(kernels, "execution"),
                        "; choose shapes that need no padding, or pad once outside of the loop",
                        SourceText(row)),
        .command = findings_.Command("kernels", {"--top", "10"})};
    findings_.Add(std::move(finding), by_device);
  }

  // The largest op without a roof, if it takes much of the time. For matrix products, no time is
  // claimed.
  void AddLargest(std::map<std::string, Unroofed>* ops) {
    const auto largest =
        std::ranges::max_element(*ops, {}, [](const auto& each) { return each.second.TimePs(); });
    if (largest == ops->end()) return;
    const Unroofed& op = largest->second;
    const double share = AsDouble(op.TimePs()) / AsDouble(findings_.span_ps());
    if (share < kLargeOp || IsProduct(*op.row)) return;
    const HeadroomRow& row = *op.row;
    BriefFinding finding = {
        .code = "largest_op",
        .certainty = Certainty::kUpperBound,
        .function = row.function,
        .op = row.op,
        .what = Cat("largest op: ", ShortName(largest->first)),
        .evidence =
            Cat(CountText(op.kernels, "execution"), ", ",
                TimeText(AsDouble(op.TimePs()) / AsDouble(std::max<uint64_t>(op.kernels, 1))),
                op.kernels > 1 ? " each on average" : "",
                ", without the time in which a later op runs; its roof is unknown (",
                WhyText(row.reason.value_or(NoRoof::kNoModel)),
                "), so all of its time is an upper bound", SourceText(row)),
        .command = row.function
                       ? findings_.FunctionCommand("kernels", *row.function, {"--top", "10"})
                       : findings_.Command("kernels", {"--top", "10"})};
    findings_.Add(std::move(finding), op.by_device, share < kDominant ? 0 : kLikelyOfOp);
    ops->erase(largest);
  }

  static std::string SourceText(const HeadroomRow& row) {
    return Cat(row.op_name ? Cat("; ", *row.op_name) : "",
               row.source ? Cat("; ", *row.source) : "");
  }

  // The rest of the device's compute time for each op, after slow devices and slow runs took their
  // parts.
  using OwnedByOp = std::map<std::pair<size_t, OpKey>, double>;
  OwnedByOp OwnedOfOps() const {
    OwnedByOp owned;
    for (size_t i = 0; i < findings_.devices().size(); ++i) {
      const ExecutionTables& tables = *findings_.devices()[i].analysis->tables;
      std::map<uint32_t, int64_t> compute_ps;
      for (const OwnedTimes& each : findings_.devices()[i].sweep->owners()) {
        if (each.rank == kCompute) compute_ps[each.program] += each.busy_ps;
      }
      for (const OwnedTimes& each : findings_.devices()[i].sweep->owners()) {
        if (each.rank != kCompute || each.busy_ps <= 0) continue;
        const OpInfo& op = tables.ops[each.op];
        OpKey key = {"", "", op.hlo_op.empty() ? op.kernel : op.hlo_op};
        if (const ProgramInfo* const program =
                findings_.ProgramOf(findings_.devices()[i], each.program)) {
          std::get<0>(key) = program->function;
          std::get<1>(key) = program->program_id.value_or("");
        }
        const double taken = TakenShare(i, each.program, compute_ps);
        owned[{i, std::move(key)}] += (1 - taken) * AsDouble(each.busy_ps);
      }
    }
    return owned;
  }

  // The share of a program's compute time that belongs to slow devices and slow runs.
  double TakenShare(size_t device, uint32_t program,
                    const std::map<uint32_t, int64_t>& compute_ps) const {
    const auto& claims = findings_.devices()[device].claims.compute_ps;
    double share = 0;
    if (const auto own = claims.find(program); own != claims.end() && program != kNone) {
      share += AsDouble(own->second) / AsDouble(compute_ps.at(program));
    }
    if (const auto all = claims.find(kNone); all != claims.end()) {
      int64_t all_ps = 0;
      for (const auto& [each, ps] : compute_ps) all_ps = SaturatingAdd(all_ps, ps);
      share += AsDouble(all->second) / AsDouble(all_ps);
    }
    return std::min(share, 1.0);
  }

  static OpKey KeyOf(const HeadroomRow& row) {
    return {row.function.value_or(""), row.program_id.value_or(""), row.op};
  }
  static std::string NameOf(const HeadroomRow& row) { return NameOp(row.op, row.function); }
  std::optional<size_t> IndexOf(const DeviceRef& device) const {
    const auto found = index_of_.find(device);
    return found == index_of_.end() ? std::nullopt : std::optional(found->second);
  }
  static int64_t TotalPs(const OfOp& op) {
    int64_t total_ps = 0;
    for (const auto& [device, ps] : op.by_device) total_ps += ps;
    return total_ps;
  }

  // Notes that the recoverable time is smaller than the times suggest, because of overlaps.
  static void AddCountedOnce(const OfOp& op, BriefFinding* finding) {
    constexpr double kNearlyAll = 0.98;
    if (AsDouble(TotalPs(op)) > kNearlyAll * (AsDouble(op.total_ps) - op.roof_ps)) return;
    finding->evidence += "; overlapping time counts once";
  }

  void AddRoof(const OfOp& op) {
    const HeadroomRow& row = *op.row;
    BriefFinding finding = {
        .code = "below_roof",
        .certainty = Certainty::kUpperBound,
        .function = row.function,
        .what = Cat(ShortName(NameOf(row)), " at ", ShareText(op.roof_ps / AsDouble(op.total_ps)),
                    row.roof == Roof::kCompute ? " of its compute roof" : " of its roof")};
    finding.evidence =
        Cat(TimeText(AsDouble(op.total_ps)), " measured, ", TimeText(op.roof_ps), " at the peak");
    if (row.flops_share)
      Append(&finding.evidence, "; ", ShareText(*row.flops_share), " of peak FLOP/s");
    if (row.bytes_share) {
      Append(&finding.evidence, row.flops_share ? ", " : "; ", ShareText(*row.bytes_share),
             " of peak bandwidth");
    }
    if (!row.flops) finding.evidence += "; it computes no product, so its bytes are its roof";
    if (row.roof == Roof::kCompute) finding.evidence += "; its bytes are unknown";
    AddCountedOnce(op, &finding);
    if (row.program_id) Append(&finding.evidence, "; program ", *row.program_id);
    if (row.source) Append(&finding.evidence, "; ", *row.source);
    finding.command = row.function
                          ? findings_.FunctionCommand("headroom", *row.function, {"--top", "10"})
                          : findings_.Command("headroom", {"--top", "10"});
    findings_.Add(std::move(finding), op.by_device, kLikelyOfRoof);
  }

  // One finding for the ops that each gain little.
  void AddOtherRoofs(const OfOp& ops, size_t count) {
    if (!findings_.IsWorthAWord(ops.by_device)) return;
    BriefFinding finding = {
        .code = "below_roof",
        .certainty = Certainty::kUpperBound,
        .what = Cat(count, " ops with small gains each, at ",
                    ShareText(ops.roof_ps / AsDouble(ops.total_ps)), " of their roofs"),
        .command = findings_.Command("headroom", {"--top", "20"})};
    finding.evidence = Cat(TimeText(AsDouble(ops.total_ps)), " measured, ", TimeText(ops.roof_ps),
                           " at the peak; largest gain: ", ShortName(NameOf(*ops.row)), ", ",
                           TimeText(*ops.row->recoverable_ps));
    AddCountedOnce(ops, &finding);
    findings_.Add(std::move(finding), ops.by_device, kLikelyOfRoof);
  }

  void AddRoofUnknown(const std::map<std::string, Unroofed>& ops) {
    Tally tally(findings_.devices().size());
    std::map<NoRoof, int64_t> reasons;
    for (const auto& [name, op] : ops) {
      const NoRoof reason = op.row->reason.value_or(NoRoof::kNoModel);
      if (reason == NoRoof::kHost) continue;
      for (const auto& [device, ps] : op.by_device) tally.Add(device, name, ps, op.kernels);
      reasons[reason] += op.TimePs();
    }
    const double share = AsDouble(tally.total_ps()) / AsDouble(findings_.span_ps());
    if (!(share >= kMuchUnknown)) return;
    const auto most =
        std::ranges::max_element(reasons, {}, [](const auto& each) { return each.second; });
    findings_.AddUnknown(
        {.code = "roof_unknown",
         .certainty = Certainty::kCannotTell,
         .what = Cat("roof unknown for ", ShareText(share), " of the time, in ",
                     CountText(tally.names(), "op")),
         .evidence = Cat(WhyText(most->first), "; ", tally.MostlyText(), " ",
                         ShortName(tally.most().name), ", ", TimeText(AsDouble(tally.most().ps))),
         .command = findings_.Command("headroom", {"--top", "10"})});
  }

  static const char* WhyText(NoRoof reason) {
    switch (reason) {
      case NoRoof::kHost:
        return "no roofs on a CPU";
      case NoRoof::kNoProgram:
        return "the FLOPs are unknown, because the trace has no compiled program (PyTorch "
               "records none); headroom --work FILE declares them";
      case NoRoof::kNotInProgram:
        return "not in the compiled program";
      case NoRoof::kNoPeak:
        return "the peak of the device is unknown, perhaps for this type of product only: "
               "--peak-flops, --peak-bandwidth";
      case NoRoof::kNoFlops:
        return "the FLOPs are unknown, so the bytes alone do not show a roof";
      case NoRoof::kAbovePeak:
        return "faster than the roof: the peak or the model is wrong";
      case NoRoof::kExecutions:
        return "the number of executions is unknown";
      default:
        return "the FLOPs and bytes are unknown";
    }
  }

  const HeadroomReport& headroom_;
  FindingList& findings_;
  std::map<DeviceRef, size_t> index_of_;
};

}  // namespace

void AddRoofs(const HeadroomReport& headroom, FindingList* findings) {
  Roofs(headroom, findings).Add();
}

std::vector<BriefOp> FindLargestOps(const HeadroomReport& headroom, const FindingList& findings) {
  constexpr size_t kMaxOps = 10;
  using Key = std::pair<std::string, std::string>;  // function, op
  std::map<Key, BriefOp> by_name;
  std::map<Key, int64_t> longest_ps;  // of a kernel
  for (const OfDevice& device : findings.devices()) {
    for (const OwnedTimes& owner : device.sweep->owners()) {
      const OpInfo& info = device.analysis->tables->ops[owner.op];
      const ProgramInfo* const program = findings.ProgramOf(device, owner.program);
      const Key key = {program == nullptr ? "" : program->function,
                       info.hlo_op.empty() ? info.kernel : info.hlo_op};
      BriefOp& op = by_name[key];
      if (program != nullptr) op.function = program->function;
      op.op = key.second;
      op.executions += owner.count;
      op.time_ps = SaturatingAdd(op.time_ps, owner.busy_ps);
      if (owner.busy_ps < longest_ps[key]) continue;
      longest_ps[key] = owner.busy_ps;
      op.kernel = info.kernel;
      op.category = info.category;
    }
  }
  for (const HeadroomRow& row : headroom.ops) {
    const auto op = by_name.find({row.function.value_or(""), row.op});
    if (op == by_name.end()) continue;
    if (!op->second.source.has_value()) op->second.source = row.source;
    if (!op->second.op_name.has_value()) op->second.op_name = row.op_name;
  }
  std::vector<BriefOp> ops;
  for (auto& [key, op] : by_name) {
    if (op.time_ps > 0) ops.push_back(std::move(op));
  }
  std::ranges::stable_sort(ops, std::greater(), &BriefOp::time_ps);
  if (ops.size() > kMaxOps) ops.resize(kMaxOps);
  for (BriefOp& op : ops) op.share = AsDouble(op.time_ps) / AsDouble(findings.span_ps());
  return ops;
}

}  // namespace xplane_time::insight
