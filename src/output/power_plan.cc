// power plan: what an experiment costs, and its steps, as data and for people.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "energy/plan_sensor.h"
#include "output/results.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

using energy::PlannedExperiment;
using energy::PlanStep;
using result::FieldSink;

constexpr size_t kSteps = 10;  // that a table shows

int64_t Ns(double time_s) { return std::llround(time_s * kNsPerS); }

void SensorFields(const energy::PlannedFor& by, FieldSink* sink) {
  sink->BeginGroup("sensor", /*known=*/true);
  const PowerChannel& channel = by.channel;
  XPLANE_TIME_FIELDS(sink, channel.source, channel.device, channel.domain, channel.quantity,
                     ReadingKindName(channel.kind), by.origin);
  const bool has_window = channel.kind != ReadingKind::kCumulative;
  sink->Field("period_ns", Ns(by.sensor.period_s));
  sink->Field("window_ns", has_window ? std::optional(Ns(by.sensor.window_s)) : std::nullopt);
  sink->Field("lag_ns", Ns(by.sensor.lag_s));
  XPLANE_TIME_FIELDS(sink, by.sensor.noise, by.sensor.idle_w, by.sensor.most_w);
  sink->EndGroup();
}

result::Table Kernels(const PlannedExperiment& experiment) {
  struct Row {
    std::string kernel, function;
    int64_t duration_ps = 0;
    energy::PlannedKernel planned;
  };
  std::vector<Row> rows;
  for (size_t k = 0; k < experiment.kernels.size(); ++k) {
    const energy::PlanKernel& kernel = experiment.kernels[k];
    rows.push_back({kernel.name, kernel.function, std::llround(kernel.duration_s * kPsPerS),
                    experiment.plan.kernels[k]});
  }
  return result::TableOf("kernels", std::move(rows), [](const Row& row, FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, row.kernel);
    sink->Field("function", result::KnownText(row.function));
    XPLANE_TIME_FIELDS(sink, row.duration_ps, row.planned.repetitions, row.planned.busy_s,
                       row.planned.half_width);
  });
}

result::Table Steps(const PlannedExperiment& experiment) {
  return result::TableOf("steps", std::span(experiment.plan.steps),
                         [&experiment](const PlanStep& step, FieldSink* sink) {
                           sink->Field("start_s", step.start_s);
                           const energy::PlanKernel& kernel = experiment.kernels[step.kernel];
                           sink->Field("kernel", kernel.name);
                           sink->Field("function", result::KnownText(kernel.function));
                           XPLANE_TIME_FIELDS(sink, step.repetitions, step.duration_s,
                                              step.pause_s);
                         });
}

Section KernelSection(const PlannedExperiment& experiment, const OutputOptions& options) {
  std::vector<size_t> rows(experiment.kernels.size());
  for (size_t k = 0; k < rows.size(); ++k) rows[k] = k;
  RowGrid grid(rows);
  const auto& kernels = experiment.kernels;
  const auto& planned = experiment.plan.kernels;
  grid.Name("kernel", 16, [&](size_t k) { return kernels[k].name; });
  const auto function = [&](size_t k) {
    return kernels[k].function.empty() ? std::nullopt : std::optional(kernels[k].function);
  };
  grid.Name("function", 14, function).HideIfUnknown();
  grid.Times("each", options.unit, [&](size_t k) { return kernels[k].duration_s * kPsPerS; });
  grid.Number("repetitions", [&](size_t k) { return planned[k].repetitions; });
  grid.Number("s", [&](size_t k) { return FormatFixed(planned[k].busy_s, 2); });
  grid.Number("+- %", [&](size_t k) { return FormatFixed(planned[k].half_width * 100, 2); });
  return {.title = "kernels, with the expected 95 % interval of the energy",
          .grid = std::move(grid).Take()};
}

Section StepSection(const PlannedExperiment& experiment, const OutputOptions& options) {
  Section section = {.title = "steps"};
  const size_t most = options.format == Format::kTable ? kSteps : SIZE_MAX;
  const auto rows = TopRows(experiment.plan.steps, options.top.value_or(most), "steps",
                            "--format json", &section.notes);
  RowGrid grid(rows);
  grid.Number("at s", [](const PlanStep& step) { return FormatFixed(step.start_s, 3); });
  grid.Name("kernel", 16,
            [&](const PlanStep& step) { return experiment.kernels[step.kernel].name; });
  const auto function = [&](const PlanStep& step) {
    const std::string& name = experiment.kernels[step.kernel].function;
    return name.empty() ? std::nullopt : std::optional(name);
  };
  grid.Name("function", 14, function).HideIfUnknown();
  grid.Number("repetitions", &PlanStep::repetitions);
  grid.Number("s", [](const PlanStep& step) { return FormatFixed(step.duration_s, 3); });
  grid.Number("then pause s", [](const PlanStep& step) { return FormatFixed(step.pause_s, 3); });
  section.grid = std::move(grid).Take();
  return section;
}

std::string SensorText(const energy::PlannedFor& by) {
  const energy::PlanSensor& sensor = by.sensor;
  std::string text = absl::StrCat(by.channel.source, " ", by.channel.device, " ",
                                  std::string(ReadingKindName(by.channel.kind)), ", every ",
                                  FormatFixed(sensor.period_s * 1e3, 1), " ms");
  if (sensor.window_s > 0) {
    absl::StrAppend(&text, ", mean over ", FormatFixed(sensor.window_s * 1e3, 1), " ms");
  }
  return absl::StrCat(text, ", noise ", FormatFixed(sensor.noise * 100, 2), " % (",
                      by.origin == "calibration" ? "calibration" : "assumed", ")");
}

View PlanView(const PlannedExperiment& experiment, const OutputOptions& options) {
  const energy::Plan& plan = experiment.plan;
  View view;
  const std::string goal =
      absl::StrCat("each kernel within ", FormatFixed(experiment.options.precision * 100, 2), " %");
  if (plan.is_reached) {
    view.lines.push_back({absl::StrCat(goal, ": ", FormatFixed(plan.total_s, 1), " s, ",
                                       plan.steps.size(), " steps"),
                          Tone::kBold});
  } else {
    view.lines.push_back(
        {absl::StrCat(goal, ": not possible within ", FormatFixed(experiment.options.most_s, 0),
                      " s; this is the best plan found"),
         Tone::kWarning});
  }
  view.lines.push_back({Printable("sensor: " + SensorText(experiment.by))});
  view.lines.push_back({absl::StrCat("assumed: each kernel draws between ",
                                     FormatFixed(experiment.by.sensor.idle_w, 0), " W (idle) and ",
                                     FormatFixed(experiment.by.sensor.most_w, 0), " W")});
  view.lines.push_back(
      {absl::StrCat("record with --period ", FormatFixed(plan.poll_s * 1e3, 0), " (ms)")});
  view.sections = {KernelSection(experiment, options), StepSection(experiment, options)};
  return view;
}

}  // namespace

Output PowerPlanOutput(const PlannedExperiment& experiment) {
  Output out{.result = result::Result("xplane-time.power-plan.v1")};
  out.result.Say([&experiment](FieldSink* sink) {
    const energy::PlanOptions& options = experiment.options;
    XPLANE_TIME_FIELDS(sink, options.precision, options.seed);
    sink->Field("reached", experiment.plan.is_reached);
    XPLANE_TIME_FIELDS(sink, experiment.plan.total_s, experiment.plan.poll_s);
    SensorFields(experiment.by, sink);
  });
  out.result.Add(Kernels(experiment));
  out.result.Add(Steps(experiment));
  out.result.csv = Steps(experiment);
  out.view = [&experiment](const OutputOptions& options) { return PlanView(experiment, options); };
  return out;
}

}  // namespace xplane_time::output
