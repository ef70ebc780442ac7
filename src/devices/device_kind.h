// A device kind is one file: which planes it claims, what its lines are, which stats
// it needs, what an event means and how executions split into runs.
//
// To add a kind: write src/devices/KIND.cc with a KindRules, and add it to kKinds in
// registry.cc.
#ifndef XPLANE_TIME_SRC_DEVICES_DEVICE_KIND_H_
#define XPLANE_TIME_SRC_DEVICES_DEVICE_KIND_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "xplane_time/read.h"
#include "xplane_time/runs.h"
#include "xplane_time/select.h"

namespace xplane_time {

enum class LineRole : uint8_t {
  kExecution,  // what the device executed
  kRun,        // one event a run
  kHost,       // host threads: launches, module executions
  kDerived,    // computed by the profiler from other lines: counting it counts twice
  kAsync,      // spans that overlap each other
  kCounter,
};
std::string_view LineRoleName(LineRole role);

// One event as its kind understands it; views into the trace.
struct Draft {
  std::string_view kernel, hlo_op, tf_op, scope, source;
  std::string_view hlo_category;
  bool is_copy = false;  // the trace says so (memcpy_details)
  std::optional<int64_t> flops, bytes_accessed;
  std::string_view function;  // empty: unattributed
  StatValue program_id;
  std::optional<int64_t> ordinal;  // CPU
  int64_t device_start_ps = kNoTimePs, device_duration_ps = kNoTimePs;
  int64_t run_id = 0;
  uint64_t correlation_id = 0;
  int64_t scope_range_id = 0;
  // CPU: a flow id ties a thunk to its completion marker.
  bool is_completion = false;
  std::optional<uint64_t> flow_id;
  bool is_execution = true;
};

struct KindRules {
  DeviceKind kind;
  // Whether a plane with this name is such a device; sets its ordinal where it has one.
  bool (*claims)(std::string_view plane_name, std::optional<int64_t>* ordinal);
  LineRole (*role)(std::string_view line_name);
  // Stats of execution events, in the order that `interpret` expects.
  std::span<const std::string_view> stats;
  // Fills the draft from row `row` of the batch. `name` is the event's shown name.
  void (*interpret)(const EventBatch& batch, size_t row, std::string_view name, Draft* draft);
  // Assigns runs; see AssignRuns.
  std::vector<Run> (*split)(DeviceExecutions* device, const HostEvidence& evidence,
                            Diagnostics* diagnostics);
};

extern const KindRules kGpuRules, kTpuRules, kCpuRules, kCustomRules;

const KindRules& RulesOf(DeviceKind kind);
std::span<const KindRules* const> AllKinds();

// "/device:GPU:7" or "/device:GPU:7 [pid]" with prefix "/device:GPU:": the number.
std::optional<int64_t> OrdinalAfter(std::string_view plane_name, std::string_view prefix);

// From what the trace says and from names; never from line names.
Category Classify(const Draft& draft);

// Stat access: numbers as they are, doubles not converted.
std::optional<int64_t> IntegerOf(const StatValue& value);

// Runs from one label a row (kNone: in no run): rows with equal (program, label) are a
// run. Fills device->run; runs come ordered by (program, start).
std::vector<Run> RunsFromLabels(DeviceExecutions* device, const std::vector<uint32_t>& label);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_DEVICES_DEVICE_KIND_H_
