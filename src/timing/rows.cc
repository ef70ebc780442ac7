// One row a function, program and device.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "parallel.h"
#include "saturate.h"
#include "timing/analysis.h"
#include "timing/compiled_programs.h"
#include "timing/origins.h"

namespace xplane_time {
namespace {

// Samples of one program on one device.
struct Group {
  const DeviceAnalysis* device;
  std::span<const RunSample> samples;
  bool are_ranges;
};

void AddGroups(const DeviceAnalysis& device, std::span<const RunSample> samples, bool are_ranges,
               std::vector<Group>* groups) {
  for (size_t first = 0; first < samples.size();) {
    const uint32_t program = samples[first].program;
    size_t end = first;
    while (end < samples.size() && samples[end].program == program) ++end;
    groups->push_back({&device, samples.subspan(first, end - first), are_ranges});
    first = end;
  }
}

// By device as they come.
std::vector<Group> GroupsOf(const Analysis& analysis) {
  std::vector<Group> groups;
  for (const DeviceAnalysis& device : analysis.devices) {
    AddGroups(device, device.samples, /*are_ranges=*/false, &groups);
    AddGroups(device, device.ranges, /*are_ranges=*/true, &groups);
  }
  return groups;
}

const std::string& FunctionOf(const Group& group) {
  return group.device->tables->programs[group.samples[0].program].function;
}

// Which program and device a row is about.
template <typename Row>
void Identify(const Analysis& analysis, const Group& group, Row* row) {
  const ProgramInfo& info = group.device->tables->programs[group.samples[0].program];
  row->device = group.device->row.device;
  row->function = info.function;
  row->program_id = info.program_id;
  row->variant_id = analysis.filters.id.Capture(info.function);
}

// The treatment of samples. A sample counts if it is not suspect, not warm-up, and has the same
// kind of value as the others. The trim policy excludes some of these, by the metric.
enum class Use : uint8_t { kNotCounted, kTrimmed, kKept };

std::vector<Use> UsesOf(std::span<const RunSample> samples, const ReportOptions& options) {
  const bool any_active = std::any_of(samples.begin(), samples.end(), [](const RunSample& sample) {
    return sample.has_active && !sample.suspect;
  });
  std::vector<Use> uses;
  std::vector<int64_t> values;
  uses.reserve(samples.size());
  values.reserve(samples.size());
  for (const RunSample& sample : samples) {
    const bool counts = !sample.suspect && !sample.skipped && (sample.has_active || !any_active);
    uses.push_back(counts ? Use::kKept : Use::kNotCounted);
    if (counts) values.push_back(any_active ? sample.Metric(options.metric) : sample.span_ps);
  }
  const std::vector<bool> kept = KeptByTrim(values, options.trim);
  size_t next = 0;
  for (Use& use : uses) {
    if (use == Use::kKept && !kept[next++]) use = Use::kTrimmed;
  }
  return uses;
}

// Fills runs, kernels and the summaries from samples of one function.
void SummarizeSamples(std::span<const RunSample> samples, const ReportOptions& options,
                      FunctionRow* row) {
  row->runs = samples.size();
  bool first = true, any_incomplete = false, any_in_doubt = false;
  for (const RunSample& sample : samples) {
    row->suspect_runs += sample.suspect ? 1 : 0;
    row->kernels_total += sample.kernels;
    if (sample.uncertain) row->status = RowStatus::kRunsUncertain;
    any_incomplete |= sample.incomplete;
    any_in_doubt |= sample.in_doubt;
    if (!sample.has_active && samples.size() > 1) continue;
    if (first || row->clock != sample.clock) {
      row->clock = first ? std::optional(sample.clock) : std::nullopt;
    }
    first = false;
  }
  if (first && !samples.empty()) row->clock = Clock::kProfile;
  const std::vector<Use> uses = UsesOf(samples, options);
  const auto kept = static_cast<size_t>(std::count(uses.begin(), uses.end(), Use::kKept));
  row->dropped_samples = row->runs - row->suspect_runs - kept;
  std::vector<int64_t> active, span, gap, sum;
  for (std::vector<int64_t>* values : {&active, &span, &gap, &sum}) values->reserve(kept);
  uint64_t kernels = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (uses[i] != Use::kKept) continue;
    span.push_back(samples[i].span_ps);
    kernels += samples[i].kernels;
    if (!samples[i].has_active) continue;
    active.push_back(samples[i].active_ps);
    gap.push_back(samples[i].gap_ps());
    sum.push_back(samples[i].sum_ps);
  }
  if (kept > 0) {
    row->kernels_per_run = static_cast<double>(kernels) / static_cast<double>(kept);
    if (active.empty()) row->status = RowStatus::kNoOps;
  }
  if (any_in_doubt || (any_incomplete && kept == 0)) row->status = RowStatus::kLostExecutions;
  const auto summary = [&](const std::vector<int64_t>& values) {
    return values.empty() ? std::nullopt : std::optional(Summarize(values, options.seed));
  };
  row->active_ps = summary(active);
  // For runs of one kernel each, all three metrics are equal.
  row->span_ps = span == active ? row->active_ps : summary(span);
  row->sum_ps = sum == active ? row->active_ps : summary(sum);
  row->gap_ps = summary(gap);
}

// By device as they come, then by total of the metric, descending.
int64_t Total(const FunctionRow& row, Metric metric) {
  const auto& summary = row.metric(metric).has_value() ? row.metric(metric) : row.span_ps;
  return summary.has_value() ? static_cast<int64_t>(summary->mean * static_cast<double>(summary->n))
                             : 0;
}

FunctionRow FunctionRowOf(const Analysis& analysis, const Group& group,
                          const ReportOptions& options) {
  FunctionRow row;
  Identify(analysis, group, &row);
  row.is_range = group.are_ranges;
  if (row.is_range) {
    row.empty_runs =
        static_cast<uint64_t>(std::ranges::count(group.samples, false, &RunSample::has_active));
  }
  SummarizeSamples(group.samples, options, &row);
  return row;
}

// For each device.
void OrderFunctionRows(std::span<const Group> groups, Metric metric, std::span<FunctionRow> rows) {
  for (size_t first_row = 0, end = 0; first_row < rows.size(); first_row = end) {
    while (end < rows.size() && groups[end].device == groups[first_row].device) ++end;
    std::ranges::stable_sort(
        rows.subspan(first_row, end - first_row), [&](const FunctionRow& a, const FunctionRow& b) {
          const int64_t total_a = Total(a, metric), total_b = Total(b, metric);
          if (total_a != total_b) return total_a > total_b;
          return std::pair(a.function, a.program_id) < std::pair(b.function, b.program_id);
        });
  }
}

}  // namespace

std::vector<SampleRow> SampleRows(const Analysis& analysis, const ReportOptions& options) {
  std::vector<SampleRow> rows;
  for (const Group& group : GroupsOf(analysis)) {
    SampleRow row;
    Identify(analysis, group, &row);
    const std::vector<Use> uses = UsesOf(group.samples, options);
    for (size_t i = 0; i < uses.size(); ++i) {
      const RunSample& sample = group.samples[i];
      if (uses[i] == Use::kTrimmed || sample.skipped) continue;
      if (group.are_ranges && !sample.has_active) continue;  // it has no time
      row.run = sample.ordinal;
      row.start_ps = sample.start_ps;
      row.span_ps = sample.span_ps;
      row.active_ps = sample.has_active ? std::optional(sample.active_ps) : std::nullopt;
      row.sum_ps = sample.has_active ? std::optional(sample.sum_ps) : std::nullopt;
      row.kernels = sample.kernels;
      row.clock = sample.clock;
      row.suspect = sample.suspect;
      rows.push_back(row);
    }
  }
  return rows;
}

// Combined rows: a function over all devices of a capture, pooled over captures.
//
//   GPU:0   |--run 0--|      |--run 1--|
//   GPU:1   |----run 0----|   |-run 1-|       combined: run 0 of GPU:1, run 1 of GPU:0
//
// The k-th run on each device is one run of the function, and the slowest device determines its
// time, if the devices have equal counts and the k-th runs overlap. On CPU, equal run_ids belong
// together. If this fails and a device has suspect runs, which may be pieces, sound runs are
// matched by overlap. Then runs that are sound on every device keep their time.

namespace {

using Samples = std::vector<const RunSample*>;  // of one device
using DeviceSamples = std::vector<Samples>;     // by device as they come

bool Earlier(const RunSample* a, const RunSample* b) {
  return a->profile.start_ps < b->profile.start_ps;
}

// The slowest of runs that belong together; suspect or skipped if one of them is.
RunSample Slowest(const Samples& together, Metric metric) {
  const auto time = [&](const RunSample* s) {
    return s->has_active ? s->Metric(metric) : s->span_ps;
  };
  RunSample slowest =
      **std::max_element(together.begin(), together.end(),
                         [&](const RunSample* a, const RunSample* b) { return time(a) < time(b); });
  for (const RunSample* sample : together) {
    slowest.suspect |= sample->suspect;
    slowest.skipped |= sample->skipped;
    slowest.incomplete |= sample->incomplete;
    slowest.in_doubt |= sample->in_doubt;
    slowest.uncertain |= sample->uncertain;
  }
  return slowest;
}

bool Overlap(const Samples& together) {
  int64_t latest_start = together[0]->profile.start_ps, first_end = together[0]->profile.end_ps;
  for (const RunSample* sample : together) {
    latest_start = std::max(latest_start, sample->profile.start_ps);
    first_end = std::min(first_end, sample->profile.end_ps);
  }
  return latest_start <= first_end;
}

std::vector<RunSample> MatchByKey(const DeviceSamples& devices, Metric metric) {
  std::map<int64_t, Samples> by_key;
  for (const Samples& samples : devices) {
    for (const RunSample* sample : samples) by_key[*sample->key].push_back(sample);
  }
  std::vector<RunSample> matched;
  for (const auto& [ignored, together] : by_key) matched.push_back(Slowest(together, metric));
  std::sort(matched.begin(), matched.end(),
            [](const RunSample& a, const RunSample& b) { return Earlier(&a, &b); });
  return matched;
}

// For devices in order. Empty if they do not match.
std::optional<std::vector<RunSample>> MatchByOrder(const DeviceSamples& devices, Metric metric) {
  const size_t count = devices[0].size();
  for (const Samples& samples : devices) {
    if (samples.size() != count) return std::nullopt;
  }
  std::vector<RunSample> matched;
  matched.reserve(count);
  Samples together;
  for (size_t k = 0; k < count; ++k) {
    together.clear();
    for (const Samples& samples : devices) together.push_back(samples[k]);
    if (!Overlap(together)) return std::nullopt;
    matched.push_back(Slowest(together, metric));
  }
  return matched;
}

// Adds the sound runs of a device to the runs of `reference` that they overlap. False: a run
// overlaps none or several, or a run is missing although no run is suspect.
bool AddSound(const Samples& samples, const Samples& reference, std::vector<Samples>* together) {
  size_t k = 0;
  for (const RunSample* sample : samples) {
    if (sample->suspect) continue;
    const auto start = [&](size_t at) { return reference[at]->profile.start_ps; };
    while (k < reference.size() && reference[k]->profile.end_ps < sample->profile.start_ps) ++k;
    if (k == reference.size() || start(k) > sample->profile.end_ps) return false;
    if (k + 1 < reference.size() && start(k + 1) <= sample->profile.end_ps) return false;
    (*together)[k++].push_back(sample);
  }
  return samples.size() == reference.size() || std::ranges::any_of(samples, &RunSample::suspect);
}

// By the runs of a device that has no suspect ones. A run that is not sound everywhere is suspect.
std::optional<std::vector<RunSample>> MatchSound(const DeviceSamples& devices, Metric metric) {
  const auto reference = std::ranges::find_if(devices, [](const Samples& samples) {
    return std::ranges::none_of(samples, &RunSample::suspect);
  });
  if (reference == devices.end()) return std::nullopt;
  std::vector<Samples> together(reference->size());
  for (const Samples& samples : devices) {
    if (!AddSound(samples, *reference, &together)) return std::nullopt;
  }
  std::vector<RunSample> matched;
  for (const Samples& run : together) {
    if (!Overlap(run)) return std::nullopt;
    matched.push_back(Slowest(run, metric));
    matched.back().suspect |= run.size() < devices.size();
  }
  return matched;
}

std::optional<std::vector<RunSample>> Match(DeviceSamples* devices, Metric metric) {
  const bool keyed = std::ranges::all_of(*devices, [](const Samples& samples) {
    return std::ranges::all_of(samples,
                               [](const RunSample* each) { return each->key.has_value(); });
  });
  if (keyed) return MatchByKey(*devices, metric);
  for (Samples& samples : *devices) {
    if (!std::ranges::is_sorted(samples, Earlier)) std::ranges::stable_sort(samples, Earlier);
  }
  auto matched = MatchByOrder(*devices, metric);
  return matched.has_value() ? matched : MatchSound(*devices, metric);
}

// By capture: how many devices have runs that are ranges of host time.
using RangeDevices = std::map<uint32_t, size_t>;

RangeDevices CountRangeDevices(const Analysis& analysis) {
  RangeDevices count;
  for (const DeviceAnalysis& device : analysis.devices) {
    if (!device.ranges.empty()) ++count[device.capture];
  }
  return count;
}

// All groups of a function (or variant), by device as they come.
void Combine(std::span<const Group> groups, const RangeDevices& range_devices,
             const ReportOptions& options, FunctionRow* row) {
  std::map<uint32_t, DeviceSamples> by_capture;
  const DeviceAnalysis* last = nullptr;
  for (const Group& group : groups) {
    DeviceSamples& devices = by_capture[group.device->capture];
    if (std::exchange(last, group.device) != group.device) devices.emplace_back();
    for (const RunSample& sample : group.samples) {
      if (!group.are_ranges || sample.has_active) devices.back().push_back(&sample);
    }
  }
  std::vector<RunSample> pooled;
  bool all_matched = true;
  size_t most_runs = 0;
  for (auto& [capture, devices] : by_capture) {
    for (const Samples& samples : devices) most_runs = std::max(most_runs, samples.size());
    auto matched = Match(&devices, options.metric);
    // A rank without executions in the range has no k-th run.
    const bool everywhere = !groups[0].are_ranges || devices.size() == range_devices.at(capture);
    all_matched &= everywhere && matched.has_value();
    if (!matched.has_value()) continue;
    if (pooled.empty()) {
      pooled = *std::move(matched);
    } else {
      pooled.insert(pooled.end(), matched->begin(), matched->end());
    }
  }
  if (all_matched) return SummarizeSamples(pooled, options, row);
  row->status = RowStatus::kDevicesUnmatched;
  row->runs = row->dropped_samples = most_runs;
}

// The rows of functions (or variants), in whatever order.
class Combination {
 public:
  // `groups`: all of the analysis; both must outlive this.
  Combination(const Analysis& analysis, std::span<const Group> groups, const ReportOptions& options,
              bool by_variant)
      : analysis_(analysis), options_(options), range_devices_(CountRangeDevices(analysis)) {
    std::map<std::string, std::vector<Group>> by_name;
    for (const Group& group : groups) {
      const std::string& function = FunctionOf(group);
      const auto name =
          by_variant ? analysis.filters.id.Capture(function) : std::optional(function);
      if (name.has_value()) by_name[*name].push_back(group);
    }
    for (auto& [ignored, of_name] : by_name) groups_.push_back(std::move(of_name));
    rows_.resize(groups_.size());
  }

  size_t size() const { return rows_.size(); }
  uint64_t RunsOf(size_t i) const {
    return IsAlone(i) ? 0
                      : std::accumulate(groups_[i].begin(), groups_[i].end(), uint64_t{0},
                                        [](uint64_t runs, const Group& group) {
                                          return runs + group.samples.size();
                                        });
  }
  // Different ones on different threads.
  void Fill(size_t i) {
    if (!IsAlone(i)) Combine(groups_[i], range_devices_, options_, &rows_[i]);
  }
  // Once all are filled. `functions`: the rows of all groups.
  std::vector<FunctionRow> Finish(std::span<const FunctionRow> functions) {
    absl::flat_hash_map<absl::string_view, const FunctionRow*> row_of;
    for (const FunctionRow& row : functions) row_of[row.function] = &row;
    for (size_t i = 0; i < rows_.size(); ++i) {
      FunctionRow& row = rows_[i];
      const std::string& function = FunctionOf(groups_[i][0]);
      if (IsAlone(i)) row = *row_of.at(function);
      row.device.reset();
      row.program_id.reset();
      row.function = function;
      row.is_range = groups_[i][0].are_ranges;
      row.variant_id = analysis_.filters.id.Capture(function);
    }
    std::ranges::stable_sort(rows_, std::greater<>(), [&](const FunctionRow& row) {
      const auto& metric = row.metric(options_.metric);
      return metric.has_value() ? metric->mean * static_cast<double>(metric->n) : 0.0;
    });
    return std::move(rows_);
  }

 private:
  // The row of its only group is its row.
  bool IsAlone(size_t i) const {
    const bool elsewhere = groups_[i][0].are_ranges &&
                           (range_devices_.size() > 1 ||
                            (!range_devices_.empty() && range_devices_.begin()->second > 1));
    return groups_[i].size() == 1 && !elsewhere;
  }

  const Analysis& analysis_;
  const ReportOptions& options_;
  const RangeDevices range_devices_;
  std::vector<std::vector<Group>> groups_;  // by row, by device as they come
  std::vector<FunctionRow> rows_;
};

}  // namespace

FunctionTables FunctionTablesOf(const Analysis& analysis, const ReportOptions& options) {
  const std::vector<Group> groups = GroupsOf(analysis);
  FunctionTables tables;
  std::vector<FunctionRow>& functions = tables.functions;
  functions.resize(groups.size());
  Combination combined(analysis, groups, options, /*by_variant=*/false);
  Combination variants(analysis, options.by_variant ? std::span(groups) : std::span<const Group>(),
                       options,
                       /*by_variant=*/true);
  std::vector<uint64_t> runs;  // of the rows of all three
  for (const Group& group : groups) runs.push_back(group.samples.size());
  for (size_t i = 0; i < combined.size(); ++i) runs.push_back(combined.RunsOf(i));
  for (size_t i = 0; i < variants.size(); ++i) runs.push_back(variants.RunsOf(i));
  ParallelForLongestFirst(runs, options.threads, [&](size_t i) {
    if (i < groups.size()) {
      functions[i] = FunctionRowOf(analysis, groups[i], options);
    } else if (i - groups.size() < combined.size()) {
      combined.Fill(i - groups.size());
    } else {
      variants.Fill(i - groups.size() - combined.size());
    }
  });
  OrderFunctionRows(groups, options.metric, functions);
  functions.insert(functions.end(), analysis.without_executions.begin(),
                   analysis.without_executions.end());
  tables.combined = combined.Finish(functions);
  tables.variants = variants.Finish(functions);
  return tables;
}

// One row a kernel, function, program and device.

namespace {

// The cells of one row: those of its ops.
using Cells = std::vector<const KernelCell*>;

// A total is unknown as soon as a part is.
void AddKnown(std::optional<int64_t>* total, std::optional<int64_t> each, uint64_t count) {
  int64_t product;
  if (!total->has_value() || !each.has_value() || __builtin_mul_overflow(*each, count, &product)) {
    *total = std::nullopt;
  } else {
    *total = SaturatingAdd(**total, product);
  }
}

// The scope that all ops share.
std::optional<std::string> ScopeOf(const ExecutionTables& tables, const Cells& cells) {
  const auto shown = [&](const KernelCell* cell) -> const std::string& {
    const OpInfo& info = tables.ops[cell->op];
    if (!info.scope.empty()) return info.scope;
    return info.tf_op.empty() ? info.source : info.tf_op;
  };
  for (const KernelCell* cell : cells) {
    if (shown(cell) != shown(cells[0])) return std::nullopt;
  }
  return shown(cells[0]).empty() ? std::nullopt : std::optional<std::string>(shown(cells[0]));
}

std::vector<DurationCount> Durations(const Cells& cells) {
  if (cells.size() == 1) return cells[0]->durations.Sorted();
  DurationCounts together;
  for (const KernelCell* cell : cells) {
    for (const DurationCount& each : cell->durations.Sorted()) {
      together.Add(each.value, each.count);
    }
  }
  return together.Sorted();
}

// For cells in which all durations are known.
void FillStatistics(const Cells& cells, KernelRow* row) {
  row->min_ps = cells[0]->min_ps;
  row->max_ps = cells[0]->max_ps;
  bool rounded = false;
  for (const KernelCell* cell : cells) {
    row->min_ps = std::min(*row->min_ps, cell->min_ps);
    row->max_ps = std::max(*row->max_ps, cell->max_ps);
    rounded |= cell->durations.rounded();
  }
  const std::vector<DurationCount> sorted = Durations(cells);
  Moments moments;
  for (const DurationCount& each : sorted) moments.Add(each.value, each.count);
  if (!rounded) row->mean_ps = moments.mean();
  row->std_ps = moments.std();
  row->median_ps = CountedMedian(sorted, row->count);
}

// The most frequent configuration; of two the one with more time. Unknown if some were dropped.
void FillLaunch(const ExecutionTables& tables, const Cells& cells, KernelRow* row) {
  struct Sum {
    uint64_t count = 0;
    int64_t total_ps = 0;
  };
  std::map<LaunchConfig, Sum> sums;
  for (const KernelCell* cell : cells) {
    const OpInfo& op = tables.ops[cell->op];
    if (op.launch_dropped) return;
    if (!op.launch.has_value()) continue;
    Sum& sum = sums[*op.launch];
    sum.count += cell->count;
    sum.total_ps = SaturatingAdd(sum.total_ps, cell->total_ps);
  }
  if (sums.empty()) return;
  const auto most = std::ranges::max_element(sums, {}, [](const auto& each) {
    return std::pair(each.second.count, each.second.total_ps);
  });
  row->launch = most->first;
  row->launch_count = most->second.count;
  row->launch_configs = sums.size();
}

KernelRow MakeKernelRow(const DeviceAnalysis& device, const Cells& cells) {
  const ExecutionTables& tables = *device.tables;
  const uint32_t program = cells[0]->program;
  KernelRow row;
  row.device = device.row.device;
  row.kernel = tables.ops[cells[0]->op].kernel;
  if (program != kNone) {
    row.function = tables.programs[program].function;
    row.program_id = tables.programs[program].program_id;
  }
  row.category = tables.ops[cells[0]->op].category;
  row.scope = ScopeOf(tables, cells);
  row.clock = device.clocks.Of(program).value_or(Clock::kProfile);
  row.self_ps = row.flops = row.bytes_accessed = 0;
  bool any_aggregated = false;
  for (const KernelCell* cell : cells) {
    const OpInfo& op = tables.ops[cell->op];
    row.count += cell->count;
    row.impossible_count += cell->impossible;
    row.total_ps = SaturatingAdd(row.total_ps, cell->total_ps);
    AddKnown(&row.self_ps, cell->self_ps, 1);
    AddKnown(&row.flops, op.flops, cell->count);
    AddKnown(&row.bytes_accessed, op.bytes_accessed, cell->count);
    any_aggregated |= cell->aggregated > 0;
  }
  row.mean_ps = static_cast<double>(row.total_ps) / static_cast<double>(row.count);
  if (!any_aggregated) FillStatistics(cells, &row);
  FillLaunch(tables, cells, &row);
  if (row.self_ps.has_value() && device.self_ps > 0) {
    row.share = static_cast<double>(*row.self_ps) / static_cast<double>(device.self_ps);
  }
  return row;
}

}  // namespace

// Headroom reports problems of compiled programs.
void FillSources(const DeviceAnalysis& device, std::span<KernelOfCells> kernels) {
  Diagnostics ignored;
  CompiledPrograms compiled(device, &ignored);
  Origins origins(/*with_stacks=*/false);
  for (KernelOfCells& kernel : kernels) {
    std::set<std::string> sources;
    for (const size_t at : kernel.cells) {
      const KernelCell& cell = device.cells[at];
      const OpInfo& op = device.tables->ops[cell.op];
      sources.insert(origins.Of(op, compiled.Find(op, cell.program)).source);
    }
    if (sources.size() == 1 && !sources.begin()->empty()) kernel.row.source = *sources.begin();
  }
}

std::vector<KernelOfCells> KernelsOf(const DeviceAnalysis& device) {
  // By kernel, function, program id, program.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view, uint32_t>, Cells> rows;
  for (const KernelCell& cell : device.cells) {
    if (cell.count == 0) continue;
    std::string_view function, program_id;
    if (cell.program != kNone) {
      const ProgramInfo& program = device.tables->programs[cell.program];
      function = program.function;
      if (program.program_id.has_value()) program_id = *program.program_id;
    }
    rows[{device.tables->ops[cell.op].kernel, function, program_id, cell.program}].push_back(&cell);
  }
  std::vector<KernelOfCells> kernels;
  for (const auto& [key, cells] : rows) {
    KernelOfCells& kernel = kernels.emplace_back();
    kernel.row = MakeKernelRow(device, cells);
    for (const KernelCell* cell : cells) {
      kernel.cells.push_back(static_cast<size_t>(cell - device.cells.data()));
    }
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const KernelOfCells& a, const KernelOfCells& b) {
                     return a.row.total_ps > b.row.total_ps;
                   });
  return kernels;
}

}  // namespace xplane_time
