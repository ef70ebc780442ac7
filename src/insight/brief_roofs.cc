#include <cmath>
#include <optional>
#include <tuple>

#include "devices/device_kind.h"
#include "insight/findings.h"
#include "xplane_time/headroom.h"

namespace xplane_time::insight {
namespace {

// Nearer to its roof a kernel is as good as most get: the line that Nsight Compute draws.
constexpr double kNearRoof = 0.6;
// Of the time of all devices: compute without a roof that is worth a word.
constexpr double kMuchUnknown = 0.1;

class Roofs {
 public:
  Roofs(const HeadroomReport& headroom, FindingList* findings)
      : headroom_(headroom), findings_(*findings) {
    for (size_t i = 0; i < findings_.devices().size(); ++i) {
      index_of_.try_emplace(KeyOf(findings_.RefOf(i)), i);
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
    Tally unknown(findings_.devices().size());
    std::map<NoRoof, int64_t> reasons;
    for (const HeadroomRow& row : headroom_.ops) {
      const std::optional<size_t> device = IndexOf(row.device);
      if (!device.has_value() || row.category != Category::kCompute) continue;
      const auto found = owned.find({*device, KeyOf(row)});
      const double left_ps = found == owned.end() ? 0 : found->second;
      if (!row.roof_ps.has_value() || !row.recoverable_ps.has_value()) {
        if (row.reason == NoRoof::kHost) continue;
        unknown.Add(*device, NameOf(row), std::llround(left_ps), row.kernels);
        reasons[row.reason.value_or(NoRoof::kNoModel)] += std::llround(left_ps);
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
    AddRoofUnknown(unknown, reasons);
  }

  // What is left of the device's compute time for each op, when slow devices and runs have theirs.
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
        const auto claimed = findings_.devices()[i].claims.compute_ps.find(each.program);
        const double taken =
            claimed == findings_.devices()[i].claims.compute_ps.end()
                ? 0
                : std::min(1.0, AsDouble(claimed->second) / AsDouble(compute_ps[each.program]));
        owned[{i, std::move(key)}] += (1 - taken) * AsDouble(each.busy_ps);
      }
    }
    return owned;
  }

  static OpKey KeyOf(const HeadroomRow& row) {
    return {row.function.value_or(""), row.program_id.value_or(""), row.op};
  }
  static std::string NameOf(const HeadroomRow& row) {
    return row.function.has_value() ? OfFunction(row.op, *row.function) : row.op;
  }
  using DeviceKey = std::tuple<uint32_t, std::string, std::optional<int64_t>, std::string>;
  static DeviceKey KeyOf(const DeviceRef& device) {
    return {device.input, device.plane, device.ordinal, device.host};
  }
  std::optional<size_t> IndexOf(const DeviceRef& device) const {
    const auto found = index_of_.find(KeyOf(device));
    return found == index_of_.end() ? std::nullopt : std::optional(found->second);
  }
  static int64_t TotalPs(const OfOp& op) {
    int64_t total_ps = 0;
    for (const auto& [device, ps] : op.by_device) total_ps += ps;
    return total_ps;
  }

  // Where less could be had back than the times say.
  static void AddCountedOnce(const OfOp& op, BriefFinding* finding) {
    constexpr double kNearlyAll = 0.98;
    if (AsDouble(TotalPs(op)) > kNearlyAll * (AsDouble(op.total_ps) - op.roof_ps)) return;
    finding->evidence += "; what ran at once counts once";
  }

  void AddRoof(const OfOp& op) {
    const HeadroomRow& row = *op.row;
    BriefFinding finding = {
        .code = "below_roof",
        .certainty = Certainty::kUpperBound,
        .function = row.function,
        .what = Cat(ShortName(NameOf(row)), " at ", ShareText(op.roof_ps / AsDouble(op.total_ps)),
                    " of its roof")};
    finding.evidence =
        Cat(TimeText(AsDouble(op.total_ps)), ", of which the peak needs ", TimeText(op.roof_ps));
    if (row.flops_share) Append(&finding.evidence, "; ", ShareText(*row.flops_share), " of FLOP/s");
    if (row.bytes_share) {
      Append(&finding.evidence, row.flops_share ? ", " : "; ", ShareText(*row.bytes_share),
             " of bandwidth");
    }
    if (!row.flops) finding.evidence += ", and its arithmetic is not modelled";
    AddCountedOnce(op, &finding);
    if (row.program_id) Append(&finding.evidence, "; program ", *row.program_id);
    if (row.source) Append(&finding.evidence, "; ", *row.source);
    finding.command = row.function
                          ? findings_.FunctionCommand("headroom", *row.function, {"--top", "10"})
                          : findings_.Command("headroom", {"--top", "10"});
    findings_.Add(std::move(finding), op.by_device);
  }

  // Those of which none gives much by itself.
  void AddOtherRoofs(const OfOp& ops, size_t count) {
    if (!findings_.IsWorthAWord(ops.by_device)) return;
    BriefFinding finding = {
        .code = "below_roof",
        .certainty = Certainty::kUpperBound,
        .what = Cat(count, " ops, none of which gives much, at ",
                    ShareText(ops.roof_ps / AsDouble(ops.total_ps)), " of their roofs"),
        .command = findings_.Command("headroom", {"--top", "20"})};
    finding.evidence =
        Cat(TimeText(AsDouble(ops.total_ps)), ", of which the peaks need ", TimeText(ops.roof_ps),
            "; most gives ", ShortName(NameOf(*ops.row)), ", ", TimeText(*ops.row->recoverable_ps));
    AddCountedOnce(ops, &finding);
    findings_.Add(std::move(finding), ops.by_device);
  }

  void AddRoofUnknown(const Tally& tally, const std::map<NoRoof, int64_t>& reasons) {
    const double share = AsDouble(tally.total_ps()) / AsDouble(findings_.span_ps());
    if (!(share >= kMuchUnknown)) return;
    const auto most =
        std::ranges::max_element(reasons, {}, [](const auto& each) { return each.second; });
    findings_.AddUnknown(
        {.code = "roof_unknown",
         .certainty = Certainty::kCannotTell,
         .what = Cat("how far ", ShareText(share), " of the time, that of ",
                     CountText(tally.names(), "op"), ", is from its roof"),
         .evidence = Cat(WhyText(most->first), "; ", tally.MostlyText(), " ",
                         ShortName(tally.most().name), ", ", TimeText(AsDouble(tally.most().ps))),
         .command = findings_.Command("headroom", {"--top", "10"})});
  }

  static const char* WhyText(NoRoof reason) {
    switch (reason) {
      case NoRoof::kNoProgram:
        return "the trace has no Hlo Proto of them";
      case NoRoof::kNotInProgram:
        return "the Hlo Proto has no such ops";
      case NoRoof::kNoPeak:
        return "nothing says what the device is capable of (--peak-flops, --peak-bandwidth)";
      case NoRoof::kAbovePeak:
        return "they were faster than their roof: the peak or the model is wrong";
      case NoRoof::kExecutions:
        return "their kernels do not tell how often they ran";
      default:
        return "nothing says what they compute or move";
    }
  }

  const HeadroomReport& headroom_;
  FindingList& findings_;
  std::map<DeviceKey, size_t> index_of_;
};

}  // namespace

void AddRoofs(const HeadroomReport& headroom, FindingList* findings) {
  Roofs(headroom, findings).Add();
}

}  // namespace xplane_time::insight
