// One row a kernel, function, program and device.
#include <algorithm>
#include <map>
#include <utility>

#include "timing/analysis.h"
#include "timing/saturate.h"
#include "xplane_time/nest.h"

namespace xplane_time {
namespace {

// Self time of every execution of a device, on its clock. Empty where unknown. Only
// TPU and CPU lines nest; the events of a GPU stream follow each other.
class SelfTimes {
 public:
  SelfTimes(const DeviceAnalysis& device, int64_t tolerance_ps)
      : tolerance_ps_(tolerance_ps), self_ps_(device.executions.size()) {
    const DeviceExecutions& rows = device.executions;
    std::map<std::pair<uint32_t, Clock>, std::vector<uint32_t>> timelines;
    for (uint32_t row = 0; row < rows.size(); ++row) {
      const auto clock = ClockOf(device, rows.program[row]);
      if (!clock.has_value()) continue;
      if (rows.plane.kind == DeviceKind::kTpu || rows.plane.kind == DeviceKind::kCpu) {
        timelines[{rows.line[row], *clock}].push_back(row);
      } else {
        self_ps_[row] = rows.duration_ps[row];
      }
    }
    for (const auto& [key, members] : timelines) NestTimeline(rows, members, key.second);
  }

  static std::optional<Clock> ClockOf(const DeviceAnalysis& device, uint32_t program) {
    return device.clocks[std::min<size_t>(program, device.clocks.size() - 1)];
  }

  std::optional<int64_t> operator[](size_t row) const { return self_ps_[row]; }

 private:
  void NestTimeline(const DeviceExecutions& rows, const std::vector<uint32_t>& members,
                    Clock clock) {
    std::vector<Interval> intervals;
    for (uint32_t row : members) intervals.push_back(ExecutionInterval(rows, row, clock));
    const Nesting nesting = Nest(intervals, tolerance_ps_);
    for (size_t i = 0; i < members.size(); ++i) {
      const bool unknown = !rows.asynchronous.empty() && rows.asynchronous[members[i]] != 0;
      if (!unknown) self_ps_[members[i]] = nesting.self_ps[i];
    }
  }

  int64_t tolerance_ps_;
  std::vector<std::optional<int64_t>> self_ps_;
};

// Collects what is known about one row.
struct Accumulator {
  std::vector<int64_t> durations_ps;
  uint64_t aggregated = 0;
  int64_t total_ps = 0;
  std::optional<int64_t> self_ps = 0;
  std::vector<uint32_t> ops;  // distinct
  std::optional<int64_t> flops = 0, bytes_accessed = 0;

  void Add(const DeviceExecutions& rows, uint32_t op, uint64_t count, int64_t ps) {
    total_ps = SaturatingAdd(total_ps, ps);
    if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
    AddKnown(&flops, rows.ops[op].flops, count);
    AddKnown(&bytes_accessed, rows.ops[op].bytes_accessed, count);
  }

  // A total is unknown as soon as a part is.
  static void AddKnown(std::optional<int64_t>* total, std::optional<int64_t> each, uint64_t count) {
    int64_t product;
    if (!total->has_value() || !each.has_value() ||
        __builtin_mul_overflow(*each, count, &product)) {
      *total = std::nullopt;
    } else {
      *total = SaturatingAdd(**total, product);
    }
  }
};

// The scope that all ops share.
std::optional<std::string> ScopeOf(const DeviceExecutions& rows, const std::vector<uint32_t>& ops) {
  const auto shown = [&](uint32_t op) -> const std::string& {
    const OpInfo& info = rows.ops[op];
    if (!info.scope.empty()) return info.scope;
    return info.tf_op.empty() ? info.source : info.tf_op;
  };
  for (uint32_t op : ops) {
    if (shown(op) != shown(ops[0])) return std::nullopt;
  }
  return shown(ops[0]).empty() ? std::nullopt : std::optional<std::string>(shown(ops[0]));
}

void FillStatistics(Accumulator* from, KernelRow* row) {
  std::vector<int64_t>& values = from->durations_ps;
  row->count = values.size() + from->aggregated;
  row->total_ps = from->total_ps;
  row->mean_ps = static_cast<double>(from->total_ps) / static_cast<double>(row->count);
  if (values.empty() || from->aggregated > 0) return;  // not all durations are known
  std::sort(values.begin(), values.end());
  Moments moments;
  for (int64_t value : values) moments.Add(value);
  row->mean_ps = moments.mean();
  row->std_ps = moments.std();
  row->median_ps = Percentile(values, 0.5);
  row->min_ps = values.front();
  row->max_ps = values.back();
}

using RowKey = std::pair<std::string_view, uint32_t>;  // kernel name, program

bool Wanted(const DeviceAnalysis& device, const Filters& filters, uint32_t op, uint32_t program) {
  if (device.op_wanted.has_value() && !(*device.op_wanted)[op]) return false;
  return program == kNone ? !filters.any_function() : device.program_wanted[program];
}

KernelRow MakeRow(const DeviceAnalysis& device, const RowKey& key, int64_t device_self_ps,
                  Accumulator* from) {
  const DeviceExecutions& rows = device.executions;
  KernelRow row;
  row.device = device.ref;
  row.kernel = key.first;
  if (key.second != kNone) {
    row.function = rows.programs[key.second].function;
    row.program_id = rows.programs[key.second].program_id;
  }
  row.category = rows.ops[from->ops[0]].category;
  row.scope = ScopeOf(rows, from->ops);
  row.clock = *SelfTimes::ClockOf(device, key.second);
  row.self_ps = from->self_ps;
  row.flops = from->flops;
  row.bytes_accessed = from->bytes_accessed;
  FillStatistics(from, &row);
  if (row.self_ps.has_value() && device_self_ps > 0) {
    row.share = static_cast<double>(*row.self_ps) / static_cast<double>(device_self_ps);
  }
  return row;
}

void AddDeviceRows(const DeviceAnalysis& device, const Filters& filters, int64_t tolerance_ps,
                   Diagnostics* diagnostics, std::vector<KernelRow>* out) {
  const DeviceExecutions& rows = device.executions;
  const SelfTimes self(device, tolerance_ps);
  std::map<RowKey, Accumulator> accumulators;
  int64_t device_self_ps = 0;
  uint64_t left_out = 0;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    const auto clock = SelfTimes::ClockOf(device, rows.program[row]);
    device_self_ps = SaturatingAdd(device_self_ps, self[row].value_or(0));
    if (!clock.has_value()) continue;
    if (!Wanted(device, filters, rows.op[row], rows.program[row])) {
      ++left_out;
      continue;
    }
    Accumulator& to = accumulators[{rows.ops[rows.op[row]].kernel, rows.program[row]}];
    const Interval interval = ExecutionInterval(rows, row, *clock);
    to.Add(rows, rows.op[row], 1, interval.end_ps - interval.start_ps);
    to.durations_ps.push_back(interval.end_ps - interval.start_ps);
    to.self_ps = to.self_ps.has_value() && self[row].has_value()
                     ? std::optional(SaturatingAdd(*to.self_ps, *self[row]))
                     : std::nullopt;
  }
  for (const AggregatedExecution& sum : rows.aggregated) {
    if (sum.occurrences == 0 || !Wanted(device, filters, sum.op, sum.program)) continue;
    if (!SelfTimes::ClockOf(device, sum.program).has_value()) continue;
    Accumulator& to = accumulators[{rows.ops[sum.op].kernel, sum.program}];
    to.Add(rows, sum.op, static_cast<uint64_t>(sum.occurrences), sum.total_ps);
    to.aggregated += static_cast<uint64_t>(sum.occurrences);
    to.self_ps = std::nullopt;
  }
  const Location where = {.plane = rows.plane.plane};
  diagnostics->Count(DiagnosticCode::kLeftOutByFilter, where, left_out);
  diagnostics->Count(
      DiagnosticCode::kAsynchronousBody, where,
      static_cast<uint64_t>(std::count(rows.asynchronous.begin(), rows.asynchronous.end(), 1)));
  const size_t first_row = out->size();
  for (auto& [key, from] : accumulators)
    out->push_back(MakeRow(device, key, device_self_ps, &from));
  std::stable_sort(out->begin() + static_cast<ptrdiff_t>(first_row), out->end(),
                   [](const KernelRow& a, const KernelRow& b) { return a.total_ps > b.total_ps; });
}

}  // namespace

std::vector<KernelRow> KernelRows(Analysis* analysis, int64_t tolerance_ps) {
  std::vector<KernelRow> rows;
  for (const DeviceAnalysis& device : analysis->devices) {
    AddDeviceRows(device, analysis->filters, tolerance_ps, &analysis->diagnostics, &rows);
  }
  return rows;
}

}  // namespace xplane_time
