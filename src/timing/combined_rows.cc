// Combined rows: a function over all devices of a capture, pooled over captures.
//
//   GPU:0   |--run 0--|      |--run 1--|
//   GPU:1   |----run 0----|   |-run 1-|       combined: run 0 of GPU:1, run 1 of GPU:0
//
// The k-th run on each device is one run of the function, and the slowest device is its
// time, if the devices have equal counts and the k-th runs overlap. On CPU the run_id
// says which runs belong together. Where that fails and a device has suspect runs, which may be
// pieces, its sound runs are taken by what they overlap: what is sound everywhere keeps its time.
#include <algorithm>
#include <map>
#include <utility>

#include "parallel.h"
#include "timing/analysis.h"

namespace xplane_time {
namespace {

// One function (or variant) in one capture: the samples of each device.
struct Group {
  std::string function;
  std::optional<std::string> variant_id;
  std::map<uint32_t, std::map<size_t, std::vector<const RunSample*>>>
      by_capture;  // capture -> device
};

using GroupKey = std::pair<std::string, std::string>;

std::map<GroupKey, Group> GroupSamples(const Analysis& analysis, bool by_variant) {
  std::map<GroupKey, Group> groups;
  for (size_t d = 0; d < analysis.devices.size(); ++d) {
    const DeviceAnalysis& device = analysis.devices[d];
    std::vector<const RunSample*>* own = nullptr;  // of the program at hand
    for (size_t i = 0; i < device.samples.size(); ++i) {
      const RunSample& sample = device.samples[i];
      if (i == 0 || sample.program != device.samples[i - 1].program) {
        const std::string& function = device.tables->programs[sample.program].function;
        const auto variant = analysis.filters.id.Capture(function);
        own = nullptr;
        if (by_variant && !variant.has_value()) continue;
        Group& group = groups[{by_variant ? "" : function, variant.value_or("")}];
        if (group.function.empty()) group.function = function;
        group.variant_id = variant;
        own = &group.by_capture[device.capture][d];
      }
      if (own != nullptr) own->push_back(&sample);
    }
  }
  return groups;
}

// The slowest of runs that belong together; suspect or skipped if one of them is.
RunSample Slowest(const std::vector<const RunSample*>& together, Metric metric) {
  const auto time = [&](const RunSample* s) {
    return s->has_active ? s->Metric(metric) : s->span_ps;
  };
  RunSample slowest =
      **std::max_element(together.begin(), together.end(),
                         [&](const RunSample* a, const RunSample* b) { return time(a) < time(b); });
  for (const RunSample* sample : together) {
    slowest.suspect |= sample->suspect;
    slowest.skipped |= sample->skipped;
    slowest.uncertain |= sample->uncertain;
  }
  return slowest;
}

bool Overlap(const std::vector<const RunSample*>& together) {
  int64_t latest_start = together[0]->profile.start_ps, first_end = together[0]->profile.end_ps;
  for (const RunSample* sample : together) {
    latest_start = std::max(latest_start, sample->profile.start_ps);
    first_end = std::min(first_end, sample->profile.end_ps);
  }
  return latest_start <= first_end;
}

using DeviceSamples = std::map<size_t, std::vector<const RunSample*>>;

std::vector<RunSample> MatchByKey(const DeviceSamples& devices, Metric metric) {
  std::map<int64_t, std::vector<const RunSample*>> by_key;
  for (const auto& [ignored, samples] : devices) {
    for (const RunSample* sample : samples) by_key[sample->key].push_back(sample);
  }
  std::vector<RunSample> matched;
  for (const auto& [ignored, together] : by_key) matched.push_back(Slowest(together, metric));
  std::sort(matched.begin(), matched.end(), [](const RunSample& a, const RunSample& b) {
    return a.profile.start_ps < b.profile.start_ps;
  });
  return matched;
}

void SortByStart(DeviceSamples* devices) {
  const auto earlier = [](const RunSample* a, const RunSample* b) {
    return a->profile.start_ps < b->profile.start_ps;
  };
  for (auto& [ignored, samples] : *devices) {
    if (!std::is_sorted(samples.begin(), samples.end(), earlier)) {
      std::stable_sort(samples.begin(), samples.end(), earlier);
    }
  }
}

// Of devices in order. Nothing where they do not match.
std::optional<std::vector<RunSample>> MatchByOrder(const DeviceSamples& devices, Metric metric) {
  const size_t count = devices.begin()->second.size();
  for (const auto& [ignored, samples] : devices) {
    if (samples.size() != count) return std::nullopt;
  }
  std::vector<RunSample> matched;
  matched.reserve(count);
  std::vector<const RunSample*> together;
  for (size_t k = 0; k < count; ++k) {
    together.clear();
    for (const auto& [ignored, samples] : devices) together.push_back(samples[k]);
    if (!Overlap(together)) return std::nullopt;
    matched.push_back(Slowest(together, metric));
  }
  return matched;
}

bool IsSuspect(const RunSample* sample) { return sample->suspect; }

// Adds the sound runs of one device each to the run of `reference` that it overlaps. False: one
// overlaps none or several, or a run is missing though none is suspect.
bool AddSound(const std::vector<const RunSample*>& samples,
              const std::vector<const RunSample*>& reference,
              std::vector<std::vector<const RunSample*>>* together) {
  size_t k = 0;
  for (const RunSample* sample : samples) {
    if (sample->suspect) continue;
    const auto start = [&](size_t at) { return reference[at]->profile.start_ps; };
    while (k < reference.size() && reference[k]->profile.end_ps < sample->profile.start_ps) ++k;
    if (k == reference.size() || start(k) > sample->profile.end_ps) return false;
    if (k + 1 < reference.size() && start(k + 1) <= sample->profile.end_ps) return false;
    (*together)[k++].push_back(sample);
  }
  return samples.size() == reference.size() ||
         std::any_of(samples.begin(), samples.end(), IsSuspect);
}

// By the runs of a device that has no suspect ones. A run that is not sound everywhere is suspect.
std::optional<std::vector<RunSample>> MatchSound(const DeviceSamples& devices, Metric metric) {
  const auto reference = std::find_if(devices.begin(), devices.end(), [](const auto& device) {
    return std::none_of(device.second.begin(), device.second.end(), IsSuspect);
  });
  if (reference == devices.end()) return std::nullopt;
  std::vector<std::vector<const RunSample*>> together(reference->second.size());
  for (const auto& [ignored, samples] : devices) {
    if (!AddSound(samples, reference->second, &together)) return std::nullopt;
  }
  std::vector<RunSample> matched;
  for (const std::vector<const RunSample*>& run : together) {
    if (!Overlap(run)) return std::nullopt;
    matched.push_back(Slowest(run, metric));
    matched.back().suspect |= run.size() < devices.size();
  }
  return matched;
}

std::optional<std::vector<RunSample>> Match(DeviceSamples* devices, Metric metric) {
  const bool keyed = std::all_of(devices->begin(), devices->end(), [](const auto& device) {
    return std::all_of(device.second.begin(), device.second.end(),
                       [](const RunSample* sample) { return sample->has_key; });
  });
  if (keyed) return MatchByKey(*devices, metric);
  SortByStart(devices);
  auto matched = MatchByOrder(*devices, metric);
  return matched.has_value() ? matched : MatchSound(*devices, metric);
}

void Combine(Group* group, const ReportOptions& options, FunctionRow* row) {
  row->function = group->function;
  row->variant_id = group->variant_id;
  std::vector<RunSample> pooled;
  bool all_matched = true;
  size_t most_runs = 0;
  for (auto& [capture, devices] : group->by_capture) {
    for (const auto& [device, samples] : devices) most_runs = std::max(most_runs, samples.size());
    auto matched = Match(&devices, options.metric);
    all_matched &= matched.has_value();
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

}  // namespace

std::vector<FunctionRow> CombinedRows(Analysis* analysis, const ReportOptions& options,
                                      bool by_variant) {
  std::vector<Group> groups;
  for (auto& [key, group] : GroupSamples(*analysis, by_variant)) groups.push_back(std::move(group));
  std::vector<FunctionRow> rows(groups.size());
  ParallelFor(groups.size(), options.threads,
              [&](size_t i) { Combine(&groups[i], options, &rows[i]); });
  for (const FunctionRow& row : rows) {
    if (by_variant || row.status != RowStatus::kDevicesUnmatched) continue;
    analysis->diagnostics.Note(DiagnosticCode::kDevicesUnmatched, row.function);
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const FunctionRow& a, const FunctionRow& b) {
    const auto total = [&](const FunctionRow& row) {
      const auto& metric = row.metric(options.metric);
      return metric.has_value() ? metric->mean * static_cast<double>(metric->n) : 0.0;
    };
    return total(a) > total(b);
  });
  return rows;
}

}  // namespace xplane_time
