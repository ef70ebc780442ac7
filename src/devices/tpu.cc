// TPU planes: "/device:TPU:0", "/device:TPU:0 SparseCore 1".
//
//   XLA Modules   |---- jit_f(1219...) ----|---- jit_f(1219...) ----|
//   XLA Ops       |-op-||--op--| |--op--|   |-op-|...
//
// An op belongs to the module event with start <= op.start < end on the profile clock. Ops may have
// device_offset_ps and device_duration_ps, which are on the device's own clock.
#include <algorithm>
#include <limits>

#include "devices/device_kind.h"
#include "devices/power_counters.h"
#include "hlo/tpu_metadata.h"

namespace xplane_time {
namespace {

constexpr KindStat kTpuStats[] = {
    {.name = "device_offset_ps",
     .use = StatUse::kNumber,
     .number = Execution::kDeviceStartPs,
     .absent = kNoTimePs},
    {.name = "device_duration_ps",
     .use = StatUse::kNumber,
     .number = Execution::kDeviceDurationPs,
     .absent = kNoTimePs},
    {"hlo_category", StatUse::kMeaning, &Draft::hlo_category},
    {"flops", StatUse::kMeaning, nullptr, &Draft::flops},
    {"bytes_accessed", StatUse::kMeaning, nullptr, &Draft::bytes_accessed},
    {"tf_op", StatUse::kMeaning, &Draft::tf_op},
    {"source", StatUse::kMeaning, &Draft::source},
    {"source_stack", StatUse::kMeaning, &Draft::source_stack},
    {"memory_access_breakdown", StatUse::kMeaning, &Draft::memory_access}};

bool ClaimsTpu(std::string_view name, std::optional<int64_t>* ordinal) {
  const size_t sparse = name.find(" SparseCore ");
  if (sparse != std::string_view::npos &&
      !OrdinalAfter(name.substr(sparse), " SparseCore ").has_value()) {
    return false;
  }
  *ordinal = OrdinalAfter(name.substr(0, sparse), "/device:TPU:");
  return ordinal->has_value();
}

LineRole ClassifyTpuLine(std::string_view line) {
  if (line == "XLA Ops" || line == "Sparse Core Ops") return LineRole::kExecution;
  if (line == "XLA Modules" || line == "Sparse Core Modules") return LineRole::kRun;
  if (line.find("Async") != std::string_view::npos) return LineRole::kAsync;
  if (line == kCountersLine) return LineRole::kCounter;
  return LineRole::kDerived;
}

// Splits "jit_f(12190760917235803885)" into the function and the id of the program.
void ParseModuleName(std::string_view name, Draft* draft) {
  const size_t open = name.rfind('(');
  draft->function = name.empty() ? "(unnamed module)" : name;
  if (open == std::string_view::npos || open == 0 || !name.ends_with(")")) return;
  draft->function = name.substr(0, open);
  draft->program_id = {StatType::kString, 0, name.substr(open + 1, name.size() - open - 2)};
}

// Clears unknown amounts. The compiler writes -1, or 0 for a custom call, if it does not know them.
void ForgetUnknown(bool is_custom_call, std::optional<int64_t>* amount) {
  if (amount->has_value() && (**amount < 0 || (is_custom_call && **amount == 0))) amount->reset();
}

void InterpretTpuEvent(const EventBatch& /*batch*/, size_t /*row*/, std::string_view name,
                       Draft* draft) {
  draft->hlo_op = name;
  const bool is_custom_call = draft->hlo_category == "custom-call";
  ForgetUnknown(is_custom_call, &draft->flops);
  ForgetUnknown(is_custom_call, &draft->bytes_accessed);
  if (is_custom_call && HbmBytes(draft->memory_access) == 0) draft->memory_access = {};
}

// Runs are the module events, in order.
class ModuleSplitter : public RunSplitter {
 public:
  explicit ModuleSplitter(const SplitContext& context)
      : plane_(context.plane), modules_(context.modules) {}

  void Assign(std::span<Execution> chunk) override {
    for (Execution& execution : chunk) {
      if (execution.start_ps >= known_until_ps_) Find(execution.start_ps);
      execution.run = found_;
      execution.program = found_ == kNone ? kNone : modules_[found_].program;
      outside_ += found_ == kNone ? 1 : 0;
    }
  }

  std::vector<Run> Finish(Diagnostics* diagnostics) override {
    diagnostics->Count(DiagnosticCode::kExecutionOutsideModule, {.plane = plane_}, outside_);
    std::vector<Run> runs;
    runs.reserve(modules_.size());
    for (const ModuleEvent& module : modules_) {
      runs.push_back({.program = module.program, .profile = module.interval});
    }
    return runs;
  }

 private:
  // Finds the innermost module event around a time: the last to begin among those that contain it.
  // Times must be ascending.
  void Find(int64_t time_ps) {
    while (begun_ < modules_.size() && modules_[begun_].interval.start_ps <= time_ps) {
      open_.push_back(static_cast<uint32_t>(begun_++));
    }
    while (!open_.empty() && modules_[open_.back()].interval.end_ps <= time_ps) open_.pop_back();
    found_ = open_.empty() ? kNone : open_.back();
    known_until_ps_ = begun_ < modules_.size() ? modules_[begun_].interval.start_ps
                                               : std::numeric_limits<int64_t>::max();
    if (found_ == kNone) return;
    known_until_ps_ = std::min(known_until_ps_, modules_[found_].interval.end_ps);
  }

  const uint32_t plane_;
  std::span<const ModuleEvent> modules_;
  std::vector<uint32_t> open_;  // events that began, the latest on top; lower ones may have ended
  size_t begun_ = 0;
  uint32_t found_ = kNone;
  // found_ remains valid until this time
  int64_t known_until_ps_ = std::numeric_limits<int64_t>::min();
  uint64_t outside_ = 0;
};

}  // namespace

const KindRules kTpuRules = {.kind = DeviceKind::kTpu,
                             .name = "tpu",
                             .claims = ClaimsTpu,
                             .role = ClassifyTpuLine,
                             .line_order = LineOrder::kNested,
                             .stats = kTpuStats,
                             .device_clock_stat = kTpuStats[0].name,
                             .tells_costs = true,
                             .interpret = InterpretTpuEvent,
                             .interpret_run = ParseModuleName,
                             .make_splitter = MakeSplitter<ModuleSplitter>};

}  // namespace xplane_time
