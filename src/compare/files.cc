// The commands compare and pick without their options: reads files, decides, and adds the notes of
// reading to those of the decision.
#include <algorithm>
#include <utility>

#include "status.h"
#include "xplane_time/compare.h"
#include "xplane_time/pick.h"

namespace xplane_time {
namespace {

bool HasCpuTime(const MeasurementSet& side) {
  return std::ranges::any_of(side.captures, [](const Measurements& capture) {
    return std::ranges::find(capture.series, "cpu_time", &Series::metric) != capture.series.end();
  });
}

// A thunk of a CPU may pass its work to threads without events (docs/runs.md).
bool IsActiveTimeOfCpu(const MeasurementSet& side, const MeasureOptions& measure) {
  if (measure.objective != Objective::kTime || measure.report.metric != Metric::kActive) {
    return false;
  }
  return std::ranges::any_of(side.captures, [](const Measurements& capture) {
    return std::ranges::any_of(capture.facts, [](const auto& fact) {
      return fact.name == "device kind" && fact.value.find("cpu") != std::string::npos;
    });
  });
}

}  // namespace

absl::StatusOr<Comparison> CompareFiles(std::span<const std::string> base,
                                        std::span<const std::string> head, MeasureOptions measure,
                                        const CompareOptions& options) {
  measure.objective = options.objective;
  ASSIGN_OR_RETURN(const MeasurementSet base_set, ReadMeasurements(base, measure));
  ASSIGN_OR_RETURN(const MeasurementSet head_set, ReadMeasurements(head, measure));
  if (measure.benchmark_time == BenchmarkTime::kCpu && !HasCpuTime(base_set) &&
      !HasCpuTime(head_set)) {
    return InvalidArgument("--benchmark-time cpu requires JSON of Google Benchmark");
  }
  ASSIGN_OR_RETURN(Comparison comparison, Compare(base_set.captures, head_set.captures, options));
  for (const MeasurementSet* side : {&base_set, &head_set}) {
    for (const std::string& note : side->notes) {
      // Both sides may have the same files.
      if (std::ranges::find(comparison.notes, note) != comparison.notes.end()) continue;
      comparison.notes.push_back(note);
    }
  }
  if (IsActiveTimeOfCpu(base_set, measure) || IsActiveTimeOfCpu(head_set, measure)) {
    comparison.notes.emplace_back(
        "on a CPU, work may continue on other threads after a thunk ends, and active time does not "
        "include it; --metric span is safer");
  }
  return comparison;
}

absl::StatusOr<PickResult> PickFiles(std::span<const std::string> paths, MeasureOptions measure,
                                     const PickOptions& options) {
  measure.objective = options.objective;
  measure.by_variant = true;
  measure.slowest_device = true;
  ASSIGN_OR_RETURN(const MeasurementSet measured, ReadMeasurements(paths, measure));
  ASSIGN_OR_RETURN(PickResult choice, Pick(measured.captures, options));
  choice.notes.insert(choice.notes.end(), measured.notes.begin(), measured.notes.end());
  return choice;
}

}  // namespace xplane_time
