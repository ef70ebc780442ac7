// GPU planes: "/device:GPU:7". Executions are the events of stream lines, kernels and
// copies alike; every other line is derived.
//
// Runs of a program, by the first way that applies:
//   1. root scope_range_id of its kernels (the profiler numbers annotation scopes; the
//      outermost one of a kernel is the module's execution)
//   2. correlation_id -> host launch -> the host event that executes the module
//   3. the smallest period of the sequence of (hlo_op, kernel)
//
//   python         |-- jit_f:XLA GPU module --|   |-- jit_f:XLA GPU module --|
//   Host Threads/1    |launch 7|  |launch 8|         |launch 9| |launch 10|
//   Stream #16             |--7--| |-8-|                  |--9--| |-10-|
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "devices/device_kind.h"
#include "timing/period.h"

namespace xplane_time {
namespace {

enum StatColumnIndex : size_t {
  kHloModule,
  kProgramId,
  kHloOp,
  kCorrelationId,
  kScopeRangeId,
  kTfOp,
  kName,
  kSource,
  kMemcpyDetails,
  kFlops,
  kBytesAccessed,
};
constexpr std::string_view kStats[] = {
    "hlo_module", "program_id", "hlo_op",         "correlation_id", "scope_range_id", "tf_op",
    "name",       "source",     "memcpy_details", "flops",          "bytes_accessed"};

bool Claims(std::string_view name, std::optional<int64_t>* ordinal) {
  *ordinal = OrdinalAfter(name, "/device:GPU:");
  return ordinal->has_value();
}

LineRole Role(std::string_view line) {
  if (line.starts_with("Stream #")) return LineRole::kExecution;
  if (line == "_counters_") return LineRole::kCounter;
  return LineRole::kDerived;
}

void Interpret(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
  const auto stat = [&](size_t column) -> const StatValue& { return batch.Stat(column, row); };
  draft->kernel = name;
  draft->function = stat(kHloModule).text;
  draft->program_id = stat(kProgramId);
  draft->hlo_op = stat(kHloOp).text;
  // The annotation is "XlaModule:" for every kernel of JAX; the op is in `name`.
  const std::string_view tf_op = stat(kTfOp).text;
  draft->tf_op = tf_op.starts_with("XlaModule:") ? std::string_view() : tf_op;
  draft->scope = stat(kName).text;
  draft->source = stat(kSource).text;
  draft->is_copy = stat(kMemcpyDetails).type != StatType::kAbsent;
  draft->correlation_id = stat(kCorrelationId).bits;
  draft->scope_range_id = static_cast<int64_t>(stat(kScopeRangeId).bits);
  draft->flops = IntegerOf(stat(kFlops));
  draft->bytes_accessed = IntegerOf(stat(kBytesAccessed));
}

// Rows of one program, in order of start.
using Rows = std::vector<uint32_t>;
// A label a row of `Rows`, or nothing where the way does not apply.
using Labels = std::optional<std::vector<uint32_t>>;

// Numbers any keys from 0 in order of appearance.
template <typename Key>
std::vector<uint32_t> Number(const std::vector<Key>& keys) {
  std::map<Key, uint32_t> number;
  std::vector<uint32_t> labels;
  labels.reserve(keys.size());
  for (const Key& key : keys) {
    labels.push_back(number.try_emplace(key, static_cast<uint32_t>(number.size())).first->second);
  }
  return labels;
}

Labels ByScopeRange(const DeviceExecutions& device, const Rows& rows) {
  std::vector<int64_t> roots;
  for (uint32_t row : rows) {
    if (device.root_scope_id[row] == 0) return std::nullopt;
    roots.push_back(device.root_scope_id[row]);
  }
  return Number(roots);
}

// The module execution around a launch: on the launch's line the last to begin, else
// the only one on any line.
const HostEvidence::Execution* ExecutionOf(const HostEvidence::Launch& launch,
                                           const std::vector<HostEvidence::Execution>& executions) {
  const int64_t time_ps = launch.interval.start_ps;
  auto at = std::upper_bound(executions.begin(), executions.end(), time_ps,
                             [](int64_t time, const HostEvidence::Execution& execution) {
                               return time < execution.interval.start_ps;
                             });
  const HostEvidence::Execution* found = nullptr;
  size_t count = 0;
  while (at != executions.begin()) {
    --at;
    if (at->furthest_end_ps <= time_ps) break;
    if (at->interval.end_ps <= time_ps) continue;
    if (at->line == launch.line) return &*at;
    found = &*at;
    ++count;
  }
  return count == 1 ? found : nullptr;
}

// A kernel without a launch of its own between two of one run belongs to that run.
bool FillGaps(std::vector<uint32_t>* labels) {
  std::vector<uint32_t>& all = *labels;
  std::vector<uint32_t> next(all.size(), kNone);
  for (size_t i = all.size(); i-- > 1;) next[i - 1] = all[i] != kNone ? all[i] : next[i];
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != kNone) continue;
    const uint32_t before = i == 0 ? kNone : all[i - 1];
    if (before == kNone || before != next[i]) return false;
    all[i] = before;
  }
  return true;
}

Labels ByCorrelation(const DeviceExecutions& device, const Rows& rows,
                     const HostEvidence& evidence) {
  const std::string& function = device.programs[device.program[rows[0]]].function;
  const auto executions = evidence.executions.find(function);
  if (executions == evidence.executions.end()) return std::nullopt;
  std::vector<uint32_t> labels;
  for (uint32_t row : rows) {
    const auto launch = evidence.launches.find(device.correlation_id[row]);
    const HostEvidence::Execution* execution = nullptr;
    if (device.correlation_id[row] != 0 && launch != evidence.launches.end() &&
        !launch->second.ambiguous) {
      execution = ExecutionOf(launch->second, executions->second);
    }
    labels.push_back(execution == nullptr
                         ? kNone
                         : static_cast<uint32_t>(execution - executions->second.data()));
  }
  if (!FillGaps(&labels)) return std::nullopt;
  return labels;
}

std::vector<uint32_t> ByPeriod(const DeviceExecutions& device, const Rows& rows) {
  std::vector<std::pair<std::string_view, std::string_view>> keys;
  std::vector<int64_t> idle_ps;
  int64_t end_ps = device.start_ps[rows[0]];
  for (uint32_t row : rows) {
    const OpInfo& op = device.ops[device.op[row]];
    keys.emplace_back(op.hlo_op, op.kernel);
    idle_ps.push_back(std::max<int64_t>(0, device.start_ps[row] - end_ps));
    end_ps = std::max(end_ps, device.end_ps(row));
  }
  return SplitByPeriod(Number(keys), idle_ps);
}

size_t CountDistinct(std::vector<uint32_t> labels) {
  std::sort(labels.begin(), labels.end());
  return static_cast<size_t>(std::unique(labels.begin(), labels.end()) - labels.begin());
}

// How often the host executed a function on this device, where that is not `runs`: its
// executions on the lines from which this device was driven, where correlation tells;
// else all, shared equally by the devices.
std::optional<size_t> HostDisagrees(size_t runs, const std::vector<uint32_t>& matched_executions,
                                    const std::vector<HostEvidence::Execution>& executions,
                                    size_t device_count) {
  if (runs == executions.size()) return std::nullopt;
  std::vector<uint32_t> lines;
  for (uint32_t i : matched_executions) lines.push_back(executions[i].line);
  std::sort(lines.begin(), lines.end());
  if (lines.empty()) {
    const bool shared = executions.size() % runs == 0 && executions.size() / runs <= device_count;
    return shared ? std::nullopt : std::optional(executions.size());
  }
  const auto on_lines = std::count_if(executions.begin(), executions.end(), [&](const auto& e) {
    return std::binary_search(lines.begin(), lines.end(), e.line);
  });
  const auto count = static_cast<size_t>(on_lines);
  return runs == count ? std::nullopt : std::optional(count);
}

// What is known of one function on this device; the host does not tell programs apart.
struct Tally {
  size_t runs = 0;
  std::vector<uint32_t> matched;  // host executions
  bool disagree = false;          // scopes and correlation
};
using Tallies = std::map<std::string, Tally>;  // by function

// Labels the rows of one program by the first way that applies.
std::vector<uint32_t> LabelProgram(const DeviceExecutions& device, const Rows& rows,
                                   const HostEvidence& evidence, Tally* tally) {
  const Labels by_scope = ByScopeRange(device, rows);
  const Labels by_correlation = ByCorrelation(device, rows, evidence);
  std::vector<uint32_t> labels = by_scope.has_value()         ? *by_scope
                                 : by_correlation.has_value() ? *by_correlation
                                                              : ByPeriod(device, rows);
  tally->runs += CountDistinct(labels);
  if (by_correlation.has_value()) {
    tally->matched.insert(tally->matched.end(), by_correlation->begin(), by_correlation->end());
    tally->disagree |= by_scope.has_value() && Number(*by_scope) != Number(*by_correlation);
  }
  return labels;
}

// Marks the runs of functions of which the host's record says otherwise.
void CrossCheck(const DeviceExecutions& device, const HostEvidence& evidence,
                const Tallies& tallies, std::vector<Run>* runs, Diagnostics* diagnostics) {
  for (const auto& [function, tally] : tallies) {
    const auto executions = evidence.executions.find(function);
    if (executions == evidence.executions.end()) continue;
    const auto on_host =
        HostDisagrees(tally.runs, tally.matched, executions->second, evidence.device_count);
    if (!tally.disagree && !on_host.has_value()) continue;
    diagnostics->Note(DiagnosticCode::kRunsUncertain,
                      function + ": " + std::to_string(tally.runs) + " runs on the device, " +
                          std::to_string(on_host.value_or(tally.runs)) + " executions on the host",
                      {.plane = device.plane.plane});
    for (Run& run : *runs) run.uncertain |= device.programs[run.program].function == function;
  }
}

std::vector<Run> Split(DeviceExecutions* device, const HostEvidence& evidence,
                       Diagnostics* diagnostics) {
  std::vector<Rows> rows_of_program(device->programs.size());
  for (uint32_t row = 0; row < device->size(); ++row) {
    if (device->program[row] != kNone) rows_of_program[device->program[row]].push_back(row);
  }
  Tallies tallies;
  std::vector<uint32_t> label(device->size(), kNone);
  for (const Rows& rows : rows_of_program) {
    if (rows.empty()) continue;
    Tally& tally = tallies[device->programs[device->program[rows[0]]].function];
    const std::vector<uint32_t> labels = LabelProgram(*device, rows, evidence, &tally);
    for (size_t i = 0; i < rows.size(); ++i) label[rows[i]] = labels[i];
  }
  std::vector<Run> runs = RunsFromLabels(device, label);
  CrossCheck(*device, evidence, tallies, &runs, diagnostics);
  return runs;
}

}  // namespace

const KindRules kGpuRules = {DeviceKind::kGpu, Claims, Role, kStats, Interpret, Split};

}  // namespace xplane_time
