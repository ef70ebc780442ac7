#include "core_power.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core_status.h"
#include "output/results.h"
#include "power/log.h"
#include "result/rows.h"
#include "xplane_time/power.h"

namespace nb = nanobind;

namespace xplane_time::python {
namespace {

constexpr double kNsPerS = 1e9;

nb::object (*table_to_python)(arrow::Table table) = nullptr;

PowerSourceOptions From(const std::vector<std::string>& sources, const std::string& sysfs_root,
                        const std::string& nvml_library,
                        const std::map<int32_t, std::string>& ordinals,
                        const std::map<std::string, std::string>& environment) {
  PowerSourceOptions from = {.sources = sources, .environment = environment, .ordinals = ordinals};
  from.roots.sysfs = sysfs_root;
  from.roots.nvml_library = nvml_library;
  return from;
}

class PySummary {
 public:
  explicit PySummary(PowerSummary summary) : summary_(std::move(summary)) {}

  nb::object Energies() const { return ToPython(result::PowerRows(summary_)); }
  nb::object Gauges() const { return ToPython(result::PowerGaugeRows(summary_)); }
  nb::object Readers() const { return ToPython(summary_.readers); }
  nb::object Repeats() const { return ToPython(summary_.repeats); }
  std::string Json() const {
    return output::Render(output::PowerOutput(summary_, {}), {.format = output::Format::kJson});
  }
  std::string Svg() const { return output::PowerSvg(summary_); }
  bool complete() const { return summary_.complete; }

  // Findings, and what is not there.
  std::vector<std::string> Doubts() const {
    std::vector<std::string> lines;
    for (const PowerFinding& each : summary_.findings) {
      lines.push_back(absl::StrCat(each.count, " x ", each.code, ": ", each.message));
    }
    for (const PowerAbsence& each : summary_.inventory.absences) {
      lines.push_back(absl::StrCat("missing: ", output::AbsenceLine(each)));
    }
    return lines;
  }

  // Name, number; energy, mean power, coverage, why not; from, to, and what these two are.
  using Total = std::tuple<std::string, uint64_t, std::optional<double>, std::optional<double>,
                           double, std::optional<std::string>, std::optional<double>,
                           std::optional<double>, std::optional<std::string>>;
  std::vector<Total> Totals() const {
    std::vector<Total> totals;
    for (const WindowSummary& window : summary_.windows) {
      const PowerTotal& total = window.total;
      std::optional<std::string> reason;
      if (total.reason != PowerReason::kKnown) reason = PowerReasonName(total.reason);
      std::optional<std::string> limits;
      if (total.energy_j.has_value()) limits = result::LimitsName(total.limits);
      totals.emplace_back(window.name, window.number, total.energy_j, total.mean_w, total.coverage,
                          reason, total.lo_j, total.hi_j, limits);
    }
    return totals;
  }

 private:
  template <typename Row>
  static nb::object ToPython(const std::vector<Row>& rows) {
    return table_to_python(arrow::FromRows(result::TableOf("", std::span(rows))));
  }

  PowerSummary summary_;
};

PySummary Summarize(const std::string& path, const std::string& estimator,
                    const std::string& idle_window) {
  PowerSummaryOptions options = {.idle_window = idle_window};
  const auto known = EnergyEstimatorOf(estimator);
  if (!known) {
    Throw(absl::InvalidArgumentError(absl::StrCat(
        "estimator: must be best, counter, held, trapezoid or endpoint-mean, not ", estimator)));
  }
  options.estimator = *known;
  return PySummary(WithoutGil([&] { return SummarizePowerLog(path, options); }));
}

// When it was read, in the middle of the read; the value, or why there is none.
using ReadingRow = std::tuple<int64_t, std::optional<int64_t>, std::string>;

// By channel, in the order of the log's.
class ReadingsOfLog : public power::LogSink {
 public:
  void Header(power::LogHeader header) override { rows_.resize(header.inventory.channels.size()); }
  void Channel(PowerChannel /*channel*/, PowerDevice /*device*/) override { rows_.emplace_back(); }
  void Readings(size_t /*s*/, int64_t /*t_ns*/, std::span<const power::Reading> readings) override {
    for (const power::Reading& each : readings) {
      std::string reason(each.value.has_value() ? "" : PowerReasonName(each.reason));
      const int64_t t_ns = each.before_ns + (each.after_ns - each.before_ns) / 2;
      rows_[each.channel].emplace_back(t_ns, each.value, std::move(reason));
    }
  }
  const std::vector<std::vector<ReadingRow>>& rows() const { return rows_; }

 private:
  std::vector<std::vector<ReadingRow>> rows_;
};

std::vector<std::vector<ReadingRow>> ReadingsOf(const std::string& path) {
  ReadingsOfLog readings;
  WithoutGil([&] { return power::ReadPowerLog(path, &readings); });
  return readings.rows();
}

class PyRecorder {
 public:
  PyRecorder(PowerSourceOptions from, double period_s, const std::string& log_path) {
    PowerRecordOptions options = {.from = std::move(from),
                                  .period_ns = std::llround(period_s * kNsPerS),
                                  .log_path = log_path};
    recorder_ = WithoutGil([&] { return PowerRecorder::Start(options); });
  }

  void Begin(const std::string& window) { Check(Recorder().Begin(window)); }
  void End(const std::string& window) { Check(Recorder().End(window)); }
  void Gauge(const std::string& quantity, int64_t value) {
    Check(Recorder().Gauge(quantity, value));
  }
  void AwaitReadings(double at_most_s) {
    PowerRecorder& recorder = Recorder();
    const nb::gil_scoped_release release;
    recorder.AwaitReadings(std::chrono::nanoseconds(std::llround(at_most_s * kNsPerS)));
  }
  void Stop() {
    const absl::Status status = [&] {
      const nb::gil_scoped_release release;
      return Recorder().Stop();
    }();
    Check(status);
  }
  std::string log_path() const { return Recorder().log_path(); }
  // Somebody else may record into the log.
  void Close() { recorder_.reset(); }

 private:
  PowerRecorder& Recorder() const {
    if (recorder_ == nullptr) {
      Throw(absl::InvalidArgumentError("the recording has ended; start another one"));
    }
    return *recorder_;
  }
  static void Check(const absl::Status& status) {
    if (!status.ok()) Throw(status);
  }

  std::unique_ptr<PowerRecorder> recorder_;
};

}  // namespace

void AddPower(nb::module_* module, nb::object (*to_python)(arrow::Table table)) {
  table_to_python = to_python;
  nb::class_<PySummary>(*module, "PowerSummary")
      .def("energies", &PySummary::Energies)
      .def("gauges", &PySummary::Gauges)
      .def("readers", &PySummary::Readers)
      .def("repeats", &PySummary::Repeats)
      .def("json", &PySummary::Json)
      .def("svg", &PySummary::Svg)
      .def("doubts", &PySummary::Doubts)
      .def("totals", &PySummary::Totals)
      .def_prop_ro("complete", &PySummary::complete);
  nb::class_<PyRecorder>(*module, "PowerRecorder")
      .def(
          "__init__",
          [](PyRecorder* self, const std::vector<std::string>& sources, double period_s,
             const std::string& log_path, const std::string& sysfs_root,
             const std::string& nvml_library, const std::map<int32_t, std::string>& ordinals,
             const std::map<std::string, std::string>& environment) {
            new (self) PyRecorder(From(sources, sysfs_root, nvml_library, ordinals, environment),
                                  period_s, log_path);
          },
          nb::arg("sources"), nb::arg("period_s"), nb::arg("log_path"), nb::arg("sysfs_root"),
          nb::arg("nvml_library"), nb::arg("ordinals"), nb::arg("environment"))
      .def("begin", &PyRecorder::Begin, nb::arg("window"))
      .def("end", &PyRecorder::End, nb::arg("window"))
      .def("gauge", &PyRecorder::Gauge, nb::arg("quantity"), nb::arg("value"))
      .def("await_readings", &PyRecorder::AwaitReadings, nb::arg("at_most_s"))
      .def("stop", &PyRecorder::Stop)
      .def("close", &PyRecorder::Close)
      .def_prop_ro("log_path", &PyRecorder::log_path);
  module->def("summarize_power", &Summarize, nb::arg("path"), nb::arg("estimator"),
              nb::arg("idle_window"));
  module->def("power_readings", &ReadingsOf, nb::arg("path"));
  module->def(
      "power_sources",
      [](const std::vector<std::string>& sources, const std::string& sysfs_root,
         const std::string& nvml_library, const std::map<std::string, std::string>& environment) {
        const PowerSourceOptions from = From(sources, sysfs_root, nvml_library, {}, environment);
        const nb::gil_scoped_release release;
        return output::Render(output::PowerSourcesOutput(ListPowerSources(from)),
                              {.format = output::Format::kJson});
      },
      nb::arg("sources"), nb::arg("sysfs_root"), nb::arg("nvml_library"), nb::arg("environment"));
  AddPowerRun(module, to_python);
}

}  // namespace xplane_time::python
