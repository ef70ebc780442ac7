#include <utility>

#include "commands.h"
#include "output/results.h"

namespace xplane_time::tools {
namespace {

bool AnyCpuTime(const MeasurementSet& base, const MeasurementSet& head) {
  for (const MeasurementSet* side : {&base, &head}) {
    for (const Measurements& capture : side->captures) {
      for (const Series& series : capture.series) {
        if (series.metric == "cpu_time") return true;
      }
    }
  }
  return false;
}

}  // namespace

int RunCompare(const Options& options) {
  MeasureOptions measure;
  measure.report = options.report;
  measure.find = options.find;
  measure.read = options.read;
  measure.by_variant = options.by_id;
  measure.benchmark_time = options.decide.benchmark_time;
  auto base = ReadMeasurements(options.decide.base, measure);
  if (!base.ok()) return Fail(base.status());
  auto head = ReadMeasurements(options.decide.head, measure);
  if (!head.ok()) return Fail(head.status());
  if (options.decide.benchmark_time == BenchmarkTime::kCpu && !AnyCpuTime(*base, *head)) {
    return Fail(absl::InvalidArgumentError(
        "--benchmark-time cpu is for Google Benchmark's JSON, and none is given"));
  }
  auto comparison = Compare(base->captures, head->captures, options.decide.compare);
  if (!comparison.ok()) return Fail(comparison.status());
  for (const MeasurementSet* side : {&*base, &*head}) {
    comparison->notes.insert(comparison->notes.end(), side->notes.begin(), side->notes.end());
  }
  output::OutputOptions how = options.output;
  how.format = options.decide.format;
  const int written =
      WriteText(options.output_path, output::Render(output::CompareOutput(*comparison), how));
  return written != 0 ? written : static_cast<int>(comparison->outcome);
}

}  // namespace xplane_time::tools
