#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core_power.h"
#include "core_status.h"
#include "status.h"
#include "workload/run_rows.h"
#include "xplane_time/power_run.h"

namespace nb = nanobind;

namespace xplane_time::python {
namespace {

nb::object (*run_rows_to_python)(arrow::Table table) = nullptr;

// An exception that ends the run: Ctrl-C, or what is none of the record's own. It dies with the
// GIL.
using Raised = std::optional<nb::python_error>;

// Status, answer, message; tokens in and out; milliseconds to the first token.
using PyAnswer = std::tuple<std::string, std::string, std::string, std::optional<int64_t>,
                            std::optional<int64_t>, std::optional<double>>;

// `ask(problem, subject, dataset_metadata_json)`, which raises no Exception.
class PythonClient : public InferenceClient {
 public:
  PythonClient(const nb::object& ask, Raised* raised) : ask_(ask), raised_(raised) {}

  absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
                                const std::function<void()>& /*again*/) override {
    const nb::gil_scoped_acquire acquire;
    try {
      auto [status, answer, message, input, output, first_ms] =
          nb::cast<PyAnswer>(ask_(record.problem, record.subject, record.dataset_metadata_json));
      return RunAnswer{.status = std::move(status),
                       .answer = std::move(answer),
                       .message = std::move(message),
                       .input_tokens = input,
                       .output_tokens = output,
                       .time_to_first_token_ms = first_ms};
    } catch (nb::python_error& error) {
      raised_->emplace(std::move(error));
      return Cancelled("stopped");
    } catch (const std::bad_cast&) {
      return RunAnswer{.status = "bad_answer", .message = "a count of tokens is too large"};
    }
  }

 private:
  const nb::object& ask_;
  Raised* const raised_;
};

struct Run {
  PowerRunOptions options;
  DatasetOptions dataset;
  PowerSourceOptions from;
  std::string path, warning, directory;
  PowerRunOutcome outcome;
};

// The directory's FailedPrecondition is a choice of options.
absl::Status AsArgument(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? InvalidArgument(std::string(status.message()))
                                            : status;
}

absl::Status DoRun(Run* run, InferenceClient* client) {
  ASSIGN_OR_RETURN(const auto source, OpenDataset(run->path, run->dataset));
  ASSIGN_OR_RETURN(const auto telemetry, StartTelemetry(run->from, [run](const std::string& text) {
                     run->warning = text;
                   }));
  const RunHardware hardware = PrimeHardware(telemetry.get(), run->options.stopped);
  run->options.input_records = source->size();
  auto directory = RunDirectory::Open(run->options, source->sha256(), hardware);
  if (!directory.ok()) return AsArgument(directory.status());
  run->directory = (*directory)->path();
  ASSIGN_OR_RETURN(run->outcome, RunPower(run->options, source.get(), client, telemetry.get(),
                                          directory->get(), /*on_record=*/nullptr));
  return run->outcome.stopped_by;
}

std::tuple<std::string, std::string> RunPowerOf(
    const std::string& path, const nb::object& ask, const std::map<std::string, std::string>& names,
    std::optional<uint64_t> limit, std::optional<uint64_t> shuffle, bool resume, bool retry_failed,
    bool overwrite, const std::vector<std::string>& sources,
    const std::map<std::string, std::string>& environment) {
  Raised raised;
  Run run;
  run.path = path;
  run.dataset = {.problem_field = names.at("problem_field"),
                 .answer_field = names.at("answer_field"),
                 .subject_field = names.at("subject_field"),
                 .shuffle_seed = shuffle,
                 .python = names.at("python")};
  run.options.model = names.at("model");
  run.options.dataset = names.at("dataset");
  run.options.output_root = names.at("output_dir");
  run.options.config_json = names.at("config");
  run.options.max_queries = limit;
  run.options.shuffle_seed = shuffle;
  run.options.problem_field = run.dataset.problem_field;
  run.options.resume = resume;
  run.options.retry_failed = retry_failed;
  run.options.overwrite = overwrite;
  run.options.stopped = [&raised] {
    const nb::gil_scoped_acquire acquire;
    if (!raised.has_value() && PyErr_CheckSignals() != 0) raised.emplace();
    return raised.has_value();
  };
  run.from.sources = sources;
  run.from.environment = environment;
  run.from.gpm = true;  // as the command
  run.from.roots.sysfs = names.at("sysfs_root");
  run.from.roots.nvml_library = names.at("nvml_library");
  PythonClient client(ask, &raised);
  const absl::Status status = [&] {
    const nb::gil_scoped_release release;
    return DoRun(&run, &client);
  }();
  if (raised.has_value()) throw nb::python_error(*std::move(raised));
  if (!status.ok()) Throw(status);
  return {run.directory, run.warning};
}

nb::object RunRows(const std::string& path) {
  const std::vector<RunRow> rows = WithoutGil([&] { return ReadRunRows(path); });
  return run_rows_to_python(arrow::FromRows(result::TableOf("", std::span(rows))));
}

}  // namespace

void AddPowerRun(nb::module_* module, nb::object (*to_python)(arrow::Table table)) {
  run_rows_to_python = to_python;
  module->def("run_power", &RunPowerOf, nb::arg("path"), nb::arg("ask"), nb::arg("names"),
              nb::arg("limit").none(), nb::arg("shuffle").none(), nb::arg("resume"),
              nb::arg("retry_failed"), nb::arg("overwrite"), nb::arg("sources"),
              nb::arg("environment"));
  module->def("run_rows", &RunRows, nb::arg("path"));
}

}  // namespace xplane_time::python
