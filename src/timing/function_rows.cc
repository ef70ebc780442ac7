// One row a function, program and device.
#include <algorithm>
#include <utility>

#include "parallel.h"
#include "timing/analysis.h"

namespace xplane_time {
namespace {

std::optional<Summary> Summarized(const std::vector<int64_t>& values, uint64_t seed) {
  if (values.empty()) return std::nullopt;
  return Summarize(values, seed);
}

// Samples of one program on one device.
struct Group {
  const DeviceAnalysis* device;
  std::span<const RunSample> samples;
};

// By device as they come.
std::vector<Group> GroupsOf(const Analysis& analysis) {
  std::vector<Group> groups;
  for (const DeviceAnalysis& device : analysis.devices) {
    for (size_t first = 0; first < device.samples.size();) {
      const uint32_t program = device.samples[first].program;
      size_t end = first;
      while (end < device.samples.size() && device.samples[end].program == program) ++end;
      groups.push_back({&device, std::span(device.samples).subspan(first, end - first)});
      first = end;
    }
  }
  return groups;
}

bool AnyActive(std::span<const RunSample> samples) {
  return std::any_of(samples.begin(), samples.end(),
                     [](const RunSample& sample) { return sample.has_active && !sample.suspect; });
}

// Which samples the trim policy leaves out, by the metric, of those that would count: not
// suspect, not warm-up, and with the same kind of value as the others.
struct Trimmed {
  std::vector<const RunSample*> kept, dropped;
};

Trimmed TrimSamples(std::span<const RunSample> samples, const ReportOptions& options) {
  const bool any_active = AnyActive(samples);
  std::vector<const RunSample*> candidates;
  std::vector<int64_t> values;
  candidates.reserve(samples.size());
  values.reserve(samples.size());
  for (const RunSample& sample : samples) {
    if (sample.suspect || sample.skipped) continue;
    if (any_active && !sample.has_active) continue;
    candidates.push_back(&sample);
    values.push_back(any_active ? sample.Metric(options.metric) : sample.span_ps);
  }
  const std::vector<bool> kept = KeptByTrim(values, options.trim);
  Trimmed out;
  out.kept.reserve(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    (kept[i] ? out.kept : out.dropped).push_back(candidates[i]);
  }
  return out;
}

// By device as they come, then by total of the metric, descending.
int64_t Total(const FunctionRow& row, Metric metric) {
  const auto& summary = row.metric(metric).has_value() ? row.metric(metric) : row.span_ps;
  return summary.has_value() ? static_cast<int64_t>(summary->mean * static_cast<double>(summary->n))
                             : 0;
}

}  // namespace

void SummarizeSamples(std::span<const RunSample> samples, const ReportOptions& options,
                      FunctionRow* row) {
  row->runs = samples.size();
  bool first = true;
  for (const RunSample& sample : samples) {
    row->suspect_runs += sample.suspect ? 1 : 0;
    row->kernels_total += sample.kernels;
    if (sample.uncertain) row->status = RowStatus::kRunsUncertain;
    if (!sample.has_active && samples.size() > 1) continue;
    if (first) {
      row->clock = sample.clock;
    } else if (row->clock != sample.clock) {
      row->clock = std::nullopt;
    }
    first = false;
  }
  if (first && !samples.empty()) row->clock = Clock::kProfile;
  const std::vector<const RunSample*> kept = TrimSamples(samples, options).kept;
  row->dropped_samples = row->runs - row->suspect_runs - kept.size();
  std::vector<int64_t> active, span, gap, sum;
  for (std::vector<int64_t>* values : {&active, &span, &gap, &sum}) values->reserve(kept.size());
  uint64_t kernels = 0;
  for (const RunSample* sample : kept) {
    const RunSample& o = *sample;
    span.push_back(o.span_ps);
    kernels += o.kernels;
    if (!o.has_active) continue;
    active.push_back(o.active_ps);
    gap.push_back(o.gap_ps());
    sum.push_back(o.sum_ps);
  }
  if (!kept.empty()) {
    row->kernels_per_run = static_cast<double>(kernels) / static_cast<double>(kept.size());
    if (active.empty()) row->status = RowStatus::kNoOps;
  }
  row->active_ps = Summarized(active, options.seed);
  row->span_ps = Summarized(span, options.seed);
  row->gap_ps = Summarized(gap, options.seed);
  row->sum_ps = Summarized(sum, options.seed);
}

const std::optional<Summary>& FunctionRow::metric(Metric which) const {
  switch (which) {
    case Metric::kActive:
      return active_ps;
    case Metric::kSpan:
      return span_ps;
    case Metric::kSum:
      break;
  }
  return sum_ps;
}

std::vector<FunctionRow> FunctionRows(const Analysis& analysis, const ReportOptions& options) {
  const std::vector<Group> groups = GroupsOf(analysis);
  std::vector<FunctionRow> rows(groups.size());
  ParallelFor(groups.size(), options.threads, [&](size_t i) {
    const DeviceAnalysis& device = *groups[i].device;
    const ProgramInfo& info = device.tables->programs[groups[i].samples[0].program];
    rows[i].device = device.ref;
    rows[i].function = info.function;
    rows[i].program_id = info.program_id;
    rows[i].variant_id = analysis.filters.id.Capture(info.function);
    SummarizeSamples(groups[i].samples, options, &rows[i]);
  });
  for (size_t first_row = 0, end = 0; first_row < rows.size(); first_row = end) {
    while (end < rows.size() && groups[end].device == groups[first_row].device) ++end;
    std::stable_sort(
        rows.begin() + static_cast<ptrdiff_t>(first_row),
        rows.begin() + static_cast<ptrdiff_t>(end),
        [&](const FunctionRow& a, const FunctionRow& b) {
          const int64_t total_a = Total(a, options.metric), total_b = Total(b, options.metric);
          if (total_a != total_b) return total_a > total_b;
          return std::pair(a.function, a.program_id) < std::pair(b.function, b.program_id);
        });
  }
  return rows;
}

namespace {

SampleRow MakeSampleRow(const Analysis& analysis, const DeviceAnalysis& device,
                        const RunSample& o) {
  const ProgramInfo& info = device.tables->programs[o.program];
  SampleRow row;
  row.device = device.ref;
  row.function = info.function;
  row.program_id = info.program_id;
  row.variant_id = analysis.filters.id.Capture(info.function);
  row.run = o.ordinal;
  row.start_ps = o.start_ps;
  row.span_ps = o.span_ps;
  if (o.has_active) {
    row.active_ps = o.active_ps;
    row.sum_ps = o.sum_ps;
  }
  row.kernels = o.kernels;
  row.clock = o.clock;
  row.suspect = o.suspect;
  return row;
}

}  // namespace

std::vector<SampleRow> SampleRows(const Analysis& analysis, const ReportOptions& options) {
  std::vector<SampleRow> rows;
  for (const Group& group : GroupsOf(analysis)) {
    std::vector<const RunSample*> dropped = TrimSamples(group.samples, options).dropped;
    auto next = dropped.begin();  // in the order of the samples
    for (const RunSample& sample : group.samples) {
      const bool trimmed = next != dropped.end() && *next == &sample;
      if (trimmed) ++next;
      if (trimmed || sample.skipped) continue;
      rows.push_back(MakeSampleRow(analysis, *group.device, sample));
    }
  }
  return rows;
}

}  // namespace xplane_time
