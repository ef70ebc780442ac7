// The module behind the Python package: traces, reports and tables. Its names are private;
// python/xplane_time has the public interface. The GIL is released while a trace is read.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/event_table.h"
#include "arrow/table.h"
#include "compare/inputs.h"
#include "core_compat.h"
#include "core_power.h"
#include "core_status.h"
#include "core_trackers.h"
#include "insight/timeline.h"
#include "output/page/page.h"
#include "output/page/timeline_data.h"
#include "output/results.h"
#include "perfetto/timeline_trace.h"
#include "result/rows.h"
#include "sqlite/result_database.h"
#include "status.h"
#include "xplane_time/brief.h"
#include "xplane_time/compare.h"
#include "xplane_time/diff.h"
#include "xplane_time/energy.h"
#include "xplane_time/fleet.h"
#include "xplane_time/headroom.h"
#include "xplane_time/pick.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/space.h"
#include "xplane_time/version.h"
#include "xplane_time/where.h"

namespace nb = nanobind;

namespace xplane_time::python {
namespace {

using TablePointer = std::shared_ptr<const arrow::Table>;

TablePointer Share(arrow::Table table) {
  return std::make_shared<const arrow::Table>(std::move(table));
}

class PyTable {
 public:
  explicit PyTable(TablePointer table) : table_(std::move(table)) {}
  explicit PyTable(arrow::Table table) : table_(Share(std::move(table))) {}
  explicit PyTable(const result::Table& rows) : PyTable(arrow::FromRows(rows)) {}
  template <typename Row>
  explicit PyTable(const std::vector<Row>& rows) : PyTable(result::TableOf("", std::span(rows))) {}

  size_t row_count() const { return table_->row_count(); }
  std::vector<std::string> column_names() const {
    std::vector<std::string> names;
    for (const arrow::Column& column : table_->columns) names.push_back(column.name());
    return names;
  }
  // Arrow's format string of each column, such as "l" for int64.
  std::vector<std::string> column_formats() const {
    std::vector<std::string> formats;
    for (const arrow::Column& column : table_->columns) {
      formats.emplace_back(1, static_cast<char>(column.type()));
    }
    return formats;
  }

  // Rows [begin, end) of a column as Python values; unknown values become None.
  nb::typed<nb::list, nb::object> Values(size_t column, size_t begin, size_t end) const {
    const arrow::Column& from = table_->columns.at(column);
    nb::typed<nb::list, nb::object> values;
    for (size_t row = begin; row < std::min(end, from.size()); ++row) {
      std::visit([&](const auto& value) { values.append(ToPython(value)); }, from.At(row));
    }
    return values;
  }

  nb::capsule Stream(const nb::object& /*requested_schema*/) const {
    auto* stream = new ArrowArrayStream;
    arrow::Export(table_, stream);
    return {stream, "arrow_array_stream", [](void* at) noexcept {
              auto* own = static_cast<ArrowArrayStream*>(at);
              if (own->release != nullptr) own->release(own);
              delete own;
            }};
  }

  nb::capsule Schema() const {
    auto* schema = new ArrowSchema;
    arrow::ExportSchema(*table_, schema);
    return {schema, "arrow_schema", [](void* at) noexcept {
              auto* own = static_cast<ArrowSchema*>(at);
              if (own->release != nullptr) own->release(own);
              delete own;
            }};
  }

 private:
  static nb::object ToPython(std::monostate) { return nb::none(); }
  static nb::object ToPython(std::string_view text) { return nb::str(text.data(), text.size()); }
  template <typename T>
  static nb::object ToPython(T value) {
    return nb::cast(value);
  }

  TablePointer table_;
};

// A command's result: its tables, its JSON, its files, and its text and page for people.
class PyResult {
 public:
  // `print(report, how)` returns the output, which refers to the report. The report outlives it.
  template <typename Report, typename Print>
  PyResult(Report report, std::vector<GivenOption> given, Print print)
      : given_(std::move(given)),
        print_([report = std::make_shared<const Report>(std::move(report)),
                print](const output::OutputOptions& how) { return print(*report, how); }) {}

  std::vector<std::string> TableNames() const {
    std::vector<std::string> names;
    for (const auto& part : print_(JsonOptions()).result.parts) {
      const auto* const table = std::get_if<result::Table>(&part);
      if (table != nullptr) names.push_back(table->name);
    }
    return names;
  }
  PyTable TableOf(const std::string& name) const {
    for (const auto& part : print_(JsonOptions()).result.parts) {
      const auto* const table = std::get_if<result::Table>(&part);
      if (table != nullptr && table->name == name) return PyTable(*table);
    }
    Throw(absl::NotFoundError("no table " + name));
  }
  // The table of the command's CSV.
  PyTable Csv() const { return PyTable(print_(JsonOptions()).result.csv); }
  std::string Json() const { return Text(JsonOptions()); }
  std::string Table(int width) const { return Text({.width = width}); }
  std::string Markdown() const { return Text({.format = output::Format::kMarkdown}); }
  std::string Page(std::string timeline) const {
    const output::OutputOptions how = {.format = output::Format::kHtml, .given = given_};
    return WithoutGil([&]() -> absl::StatusOr<std::string> {
      output::Output output = print_(how);
      output.timeline = std::move(timeline);
      return output::PageOf(output, how);
    });
  }
  nb::bytes Database() const {
    const std::string bytes =
        WithoutGil([&] { return sqlite::DatabaseOf(print_(JsonOptions()).result); });
    return nb::bytes(bytes.data(), bytes.size());
  }

 protected:
  std::vector<GivenOption> given_;

 private:
  output::OutputOptions JsonOptions() const {
    return {.format = output::Format::kJson, .given = given_};
  }
  std::string Text(const output::OutputOptions& how) const {
    return output::Render(print_(how), how);
  }

  std::function<output::Output(const output::OutputOptions&)> print_;
};

// A report, whose tables are also available separately. Each table is made on request.
class PyReport : public PyResult {
 public:
  PyReport(Report report, const ReportOptions& options)
      : PyReport(std::make_shared<const Report>(std::move(report)), options) {}

  PyTable Inputs() const { return PyTable(report_->inputs); }
  PyTable Devices() const { return PyTable(report_->devices); }
  PyTable Functions() const { return Of(report_->functions, /*with_device=*/true); }
  PyTable Combined() const { return Of(report_->combined, /*with_device=*/false); }
  PyTable Variants() const { return Of(report_->variants, /*with_device=*/false); }
  PyTable Kernels() const { return PyTable(report_->kernels); }
  PyTable Samples() const { return PyTable(report_->samples); }
  PyTable Diagnostics() const { return PyTable(report_->diagnostics); }

  // One part of the report, as the command of this name prints it: "functions", "samples" or
  // "kernels".
  PyResult Part(const std::string& command) const {
    return {report_, given_,
            [command, metric = metric_](const Pointer& of, const output::OutputOptions& how) {
              return Sorted(*of, metric, how, [&](const Report& report, const auto& options) {
                if (command == "kernels") return output::KernelsOutput(report, options);
                return output::FunctionsOutput(report, options, !report.variants.empty(),
                                               /*samples=*/command == "samples");
              });
            }};
  }

 private:
  using Pointer = std::shared_ptr<const Report>;
  PyReport(const Pointer& report, const ReportOptions& options)
      : PyResult(report, GivenOptions(options),
                 [metric = options.metric](const Pointer& of, const output::OutputOptions& how) {
                   return Sorted(*of, metric, how, output::ReportOutput);
                 }),
        report_(report),
        metric_(options.metric) {}

  // Sorts the output for people by `metric`. The order of the tables does not change.
  template <typename Print>
  static output::Output Sorted(const Report& report, Metric metric, output::OutputOptions how,
                               Print print) {
    if (!how.for_people()) return print(report, how);
    how.metric = metric;
    const auto sorted = std::make_shared<Report>(report);
    // The only possible error is an unknown sort key.
    output::OrderReport(how, output::SortKeys::kReport, sorted.get()).IgnoreError();
    output::Output output = print(*sorted, how);
    output.view = [sorted, metric, view = std::move(output.view)](output::OutputOptions of) {
      of.metric = metric;
      return view(of);
    };
    return output;
  }

  static PyTable Of(const std::vector<FunctionRow>& rows, bool with_device) {
    return PyTable(result::FunctionTable("", std::span(rows), with_device));
  }

  Pointer report_;
  Metric metric_;
};

// An energy report, with power and executions over time (for svg() and Perfetto).
class PyEnergyReport : public PyResult {
 public:
  PyEnergyReport(EnergyReport report, const EnergyOptions& options)
      : PyEnergyReport(std::make_shared<const EnergyReport>(std::move(report)), options) {}

  std::string Svg() const { return output::EnergySvg(*report_); }
  const EnergyReport& report() const { return *report_; }

 private:
  using Pointer = std::shared_ptr<const EnergyReport>;
  PyEnergyReport(const Pointer& report, const EnergyOptions& options)
      : PyResult(report, Given(options),
                 [](const Pointer& of, const output::OutputOptions& how) {
                   return output::EnergyOutput(*of, how);
                 }),
        report_(report) {}

  static std::vector<GivenOption> Given(const EnergyOptions& options) {
    std::vector<GivenOption> given = GivenOptions(options.trace);
    for (const auto& [ordinal, id] : options.map) {
      given.push_back({"map", absl::StrCat(ordinal, "=", id)});
    }
    if (options.fold) given.push_back({"fold", int64_t{1}});
    return given;
  }

  Pointer report_;
};

// A table, and the diagnostics of its source.
using PyTableAndDoubts = std::pair<PyTable, PyTable>;

using Keywords = nb::typed<nb::dict, nb::str, nb::object>;

// Reads keyword options. Refuses unknown options and values of the wrong type.
class OptionReader {
 public:
  explicit OptionReader(const Keywords& given) : given_(given) {}

  // `type` is the name of the type in messages: "str", "a count".
  template <typename T>
  void Read(const char* name, const char* type, T* to) {
    if (!given_.contains(name)) return;
    ++used_;
    const nb::object value = given_[name];
    if (nb::try_cast<T>(value, *to)) return;
    const std::string shown = nb::cast<std::string>(nb::repr(value));
    Throw(absl::InvalidArgumentError(std::string(name) + ": must be " + type + ", not " + shown));
  }
  void Text(const char* name, std::string* to) { Read(name, "str", to); }
  template <typename T>
  void Count(const char* name, T* to) {
    Read(name, "a whole number of at least 0", to);
  }
  // A share, as a fraction. Percent by mistake are refused: `limit` is 1, or more if larger shares
  // make sense.
  template <typename T>
  void Share(const char* name, T* to, int limit = 1) {
    Read(name, "a number", to);
    if (!given_.contains(name)) return;
    const double share = nb::cast<double>(given_[name]);
    if (share >= 0 && share < limit) return;
    Throw(absl::InvalidArgumentError(absl::StrCat(
        name, ": must be a share of at least 0 and below ", limit, " (0.05 is 5 %), not ", share)));
  }
  void End() const {
    if (used_ == given_.size()) return;
    Throw(absl::InvalidArgumentError("unknown option"));
  }

 private:
  const Keywords& given_;
  size_t used_ = 0;
};

void ReadCategories(OptionReader* from, CategoryPatterns* to) {
  from->Text("collective_re", &to->collective);
  from->Text("copy_re", &to->copy);
}

void ReadReportOptions(OptionReader* from, ReportOptions* to) {
  std::string metric = "active", clock = "auto", trim = "none";
  from->Text("device", &to->device);
  from->Text("function", &to->function);
  from->Text("exclude", &to->exclude);
  from->Text("kernel", &to->kernel);
  from->Text("exclude_kernel", &to->exclude_kernel);
  from->Text("scope", &to->scope);
  ReadCategories(from, &to->categories);
  from->Text("step_re", &to->step);
  from->Text("prefix", &to->prefix);
  from->Text("id_pattern", &to->id_pattern);
  from->Text("metric", &metric);
  from->Text("clock", &clock);
  from->Text("trim", &trim);
  from->Read("min_duration_ps", "a whole number", &to->min_duration_ps);
  from->Count("max_events", &to->max_events);
  from->Count("skip_runs", &to->skip_runs);
  from->Read("tolerance_ps", "a whole number", &to->tolerance_ps);
  from->Count("seed", &to->seed);
  from->Read("samples", "bool", &to->samples);
  from->Read("by_id", "bool", &to->by_variant);
  from->Read("parts", "bool", &to->parts);
  from->Read("launches", "bool", &to->launches);
  to->metric = ValueOf(ParseMetric(metric));
  to->clock = ValueOf(ParseClockChoice(clock));
  to->trim = ValueOf(ParseTrim(trim));
}

void ReadPowerOptions(OptionReader* from, EnergyOptions* to) {
  from->Text("power_log", &to->power_log);
  from->Read("map", "a dict of ordinals and prefixes of ids", &to->map);
  to->timelines = true;  // for svg()
}

// `to`: HeadroomOptions or BriefOptions.
void ReadPeaks(OptionReader* from, auto* to) {
  from->Read("peak_flops_per_s", "a number", &to->peak_flops_per_s);
  from->Read("peak_bytes_per_s", "a number", &to->peak_bytes_per_s);
}

// The bytes of a Python object. While the buffer exists, the object cannot change its size.
class Buffer {
 public:
  explicit Buffer(const nb::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::string_view bytes() const {
    return {static_cast<const char*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_ = {};
};

// The state of the files that a trace maps, when it was opened. If a mapped file is truncated, a
// read beyond its end raises a signal that ends the process.
class MappedFiles {
 public:
  explicit MappedFiles(const Trace& trace) {
    for (const TraceFile& file : trace.files) {
      struct stat now = {};
      const bool plain = stat(file.path.c_str(), &now) == 0 && S_ISREG(now.st_mode) &&
                         static_cast<uint64_t>(now.st_size) == file.bytes;
      if (plain) files_.push_back({file.path, now});
    }
  }
  // Throws if a file was changed in place. If a file was replaced, the mapping still has its old
  // content.
  void Check() const {
    for (const File& file : files_) {
      struct stat now = {};
      if (stat(file.path.c_str(), &now) != 0) continue;
      const bool same_file = now.st_ino == file.was.st_ino && now.st_dev == file.was.st_dev;
      const bool unchanged = now.st_size == file.was.st_size &&
                             now.st_mtim.tv_sec == file.was.st_mtim.tv_sec &&
                             now.st_mtim.tv_nsec == file.was.st_mtim.tv_nsec;
      if (same_file && !unchanged) {
        Throw(absl::DataLossError(file.path +
                                  ": the file changed after it was opened; open it again"));
      }
    }
  }

 private:
  struct File {
    std::string path;
    struct stat was;
  };
  std::vector<File> files_;
};

// Paths as os.fsencode returns them.
std::vector<std::string> DecodePaths(const std::vector<nb::bytes>& encoded) {
  std::vector<std::string> paths;
  for (const nb::bytes& path : encoded) paths.emplace_back(path.c_str(), path.size());
  return paths;
}

class PyTrace {
 public:
  PyTrace(Trace trace, Diagnostics reading, std::unique_ptr<Buffer> buffer, int threads)
      : buffer_(std::move(buffer)),
        trace_(std::move(trace)),
        files_(trace_),
        reading_(std::move(reading)),
        threads_(threads) {}

  // `encoded`: paths in the encoding of os.fsencode.
  static PyTrace OpenPaths(const std::vector<nb::bytes>& encoded, const std::string& run,
                           int threads, bool keep_identical_planes) {
    const std::vector<std::string> paths = DecodePaths(encoded);
    // Callers that keep identical planes need the complete trace, so damaged hosts are errors.
    const ReadOptions options = {.threads = threads,
                                 .keep_identical_planes = keep_identical_planes,
                                 .leave_out_damaged_hosts = !keep_identical_planes};
    Diagnostics reading;
    Trace trace = WithoutGil([&]() -> absl::StatusOr<Trace> {
      auto inputs = FindInputs(paths, {.run = run});
      if (!inputs.ok()) return inputs.status();
      return OpenTrace(*inputs, options, &reading);
    });
    return {std::move(trace), std::move(reading), nullptr, threads};
  }

  // Opens an object with a contiguous buffer. The object lives as long as the trace.
  static PyTrace OpenBuffer(const nb::object& object, const std::string& name, int threads,
                            bool keep_identical_planes) {
    const ReadOptions options = {.threads = threads,
                                 .keep_identical_planes = keep_identical_planes};
    auto buffer = std::make_unique<Buffer>(object);
    Diagnostics reading;
    Trace trace =
        WithoutGil([&] { return OpenTraceFromMemory(buffer->bytes(), name, options, &reading); });
    return {std::move(trace), std::move(reading), std::move(buffer), threads};
  }

  PyReport BuildReport(const Keywords& given) const {
    ReportOptions options;
    options.threads = threads_;
    OptionReader reader(given);
    ReadReportOptions(&reader, &options);
    reader.End();
    const Trace& traced = trace();
    return {WithoutGil([&] { return BuildReportWithRates(traced, options, reading_); }), options};
  }

  PyEnergyReport Energy(const Keywords& given) const {
    EnergyOptions options;
    std::string layers;
    OptionReader reader(given);
    ReadReportOptions(&reader, &options.trace);
    reader.Text("layers", &layers);
    reader.Text("layer_re", &options.layer_pattern);
    reader.Read("fold", "bool", &options.fold);
    ReadPowerOptions(&reader, &options);
    reader.End();
    options.trace.threads = threads_;
    const Trace& traced = trace();
    EnergyReport report = WithoutGil([&]() -> absl::StatusOr<EnergyReport> {
      if (!layers.empty()) {
        ASSIGN_OR_RETURN(options.layers, ReadLayerRuns(layers));
      }
      return AttributeEnergy(traced, options, reading_);
    });
    return {std::move(report), options};
  }

  PyResult Where(const Keywords& given) const {
    ReportOptions options;
    OptionReader reader(given);
    reader.Text("device", &options.device);
    ReadCategories(&reader, &options.categories);
    reader.Text("step_re", &options.step);
    size_t gaps = WhereOptions().gaps;
    reader.Count("gaps", &gaps);
    reader.End();
    const Trace& traced = trace();
    return {WithoutGil([&] {
              return FindWhere(traced,
                               {.device = options.device,
                                .categories = options.categories,
                                .step = options.step,
                                .threads = threads_,
                                .gaps = gaps},
                               reading_);
            }),
            GivenOptions(options), [](const WhereReport& report, const output::OutputOptions& how) {
              return output::WhereOutput(report, how, output::WhereRows::kDevices);
            }};
  }

  // The data from which a page draws the devices.
  std::string Timeline(const Keywords& given) const {
    ReportOptions options;
    options.threads = threads_;
    OptionReader reader(given);
    ReadReportOptions(&reader, &options);
    reader.End();
    const Trace& traced = trace();
    return WithoutGil([&]() -> absl::StatusOr<std::string> {
      ASSIGN_OR_RETURN(insight::Timeline timeline,
                       insight::BuildTimeline(traced, options, reading_));
      return output::TimelineData(std::move(timeline));
    });
  }

  // Passes a Perfetto trace of the devices to `write`, piece by piece. With `energy`, it includes
  // the power.
  void Perfetto(const std::string& device, const PyEnergyReport* energy,
                const nb::typed<nb::callable, nb::object(nb::bytes)>& write) const {
    ReportOptions options;
    options.threads = threads_;
    options.device = device;
    const Trace& traced = trace();
    insight::Timeline timeline =
        WithoutGil([&] { return insight::BuildTimeline(traced, options, reading_); });
    const std::vector<InputRow> inputs = DescribeInputs(traced);
    const absl::Status written =
        perfetto::WriteTrace(std::move(timeline), energy == nullptr ? nullptr : &energy->report(),
                             inputs, [&](std::string_view bytes) {
                               write(nb::bytes(bytes.data(), bytes.size()));
                               return absl::OkStatus();
                             });
    if (!written.ok()) Throw(written);
  }

  PyResult Headroom(const Keywords& given) const {
    HeadroomOptions options;
    OptionReader reader(given);
    ReadReportOptions(&reader, &options.select);
    ReadPeaks(&reader, &options);
    std::string work, work_json;
    reader.Text("work", &work);
    reader.Text("work_json", &work_json);
    reader.End();
    if (!work.empty()) options.work = ValueOf(ReadWork(work));
    if (!work_json.empty()) options.work = ValueOf(ParseWork(work_json, "work"));
    options.select.threads = threads_;
    std::vector<GivenOption> told = GivenOptions(options.select);
    const auto tell = [&](const char* name, const std::optional<double>& peak) {
      if (peak.has_value()) told.push_back({name, absl::StrCat(*peak)});
    };
    tell("peak_flops", options.peak_flops_per_s);
    tell("peak_bandwidth", options.peak_bytes_per_s);
    if (!work.empty() || !work_json.empty()) {
      told.push_back({"work", work.empty() ? work_json : work});
    }
    const Trace& traced = trace();
    return {WithoutGil([&] { return BuildHeadroom(traced, options, reading_); }), std::move(told),
            output::HeadroomOutput};
  }

  PyResult Brief(const Keywords& given, size_t limit) const {
    BriefOptions options;
    options.threads = threads_;
    ReportOptions told;
    OptionReader reader(given);
    reader.Text("device", &options.device);
    ReadCategories(&reader, &options.categories);
    reader.Text("step_re", &options.step);
    ReadPeaks(&reader, &options);
    reader.End();
    told.device = options.device;
    told.categories = options.categories;
    told.step = options.step;
    const Trace& traced = trace();
    return {WithoutGil([&] { return FindBrief(traced, options, reading_); }), GivenOptions(told),
            [limit](const BriefReport& report, const output::OutputOptions& how) {
              return output::BriefOutput(report, limit, how);
            }};
  }

  PyResult BuildTree(const Keywords& given) const {
    TreeOptions options;
    options.select.threads = threads_;
    OptionReader reader(given);
    ReadReportOptions(&reader, &options.select);
    reader.Text("line", &options.line);
    reader.Text("name", &options.name);
    reader.Count("depth", &options.max_depth);
    std::string by = "nesting";
    reader.Text("by", &by);
    options.by = ValueOf(ParseTreeBy(by));
    reader.Read("fold", "bool", &options.fold);
    reader.End();
    if (options.fold && options.by != TreeBy::kScope) {
      Throw(absl::InvalidArgumentError("fold is for name scopes: give it with by=\"scope\""));
    }
    const Trace& traced = trace();
    std::vector<GivenOption> told = GivenOptions(options.select);
    const auto tell = [&](const char* name, const std::string& value) {
      if (!value.empty()) told.push_back({name, value});
    };
    tell("line", options.line);
    tell("name", options.name);
    tell("by", by == "nesting" ? "" : by);
    if (options.fold) told.push_back({"fold", int64_t{1}});
    if (options.max_depth > 0) told.push_back({"depth", static_cast<int64_t>(options.max_depth)});
    return {WithoutGil([&] { return xplane_time::BuildTree(traced, options, reading_); }),
            std::move(told), output::TreeOutput};
  }

  // The content of a summary file. `host`: name of the host, unless it is empty.
  nb::bytes Summarize(const Keywords& given, const std::string& host) const {
    ReportOptions options;
    OptionReader reader(given);
    reader.Text("device", &options.device);
    reader.Count("skip_runs", &options.skip_runs);
    reader.End();
    options.threads = threads_;
    const Trace& traced = trace();
    const std::string bytes = WithoutGil([&]() -> absl::StatusOr<std::string> {
      ASSIGN_OR_RETURN(const FleetSummary summary, SummarizeTrace(traced, options, reading_, host));
      return EncodeFleetSummary(summary);
    });
    return nb::bytes(bytes.data(), bytes.size());
  }

  PyTableAndDoubts Planes(bool stats) const {
    const Trace& traced = trace();
    const PlanesReport report =
        WithoutGil([&] { return DescribePlanes(traced, {.with_stats = stats}, reading_); });
    return {PyTable(stats ? result::PlaneStats(report) : result::PlaneLines(report)),
            PyTable(report.diagnostics)};
  }

  PyTableAndDoubts Events(const Keywords& given) const {
    arrow::EventTableOptions options;
    options.threads = threads_;
    OptionReader reader(given);
    reader.Text("device", &options.device);
    reader.Text("line", &options.line);
    reader.Text("name", &options.name);
    reader.Read("columns", "a list of str", &options.columns);
    reader.Read("stats", "a list of str", &options.stats);
    reader.Read("min_duration_ps", "a whole number", &options.min_duration_ps);
    reader.End();
    const Trace& traced = trace();
    Diagnostics diagnostics = reading_;
    arrow::Table table =
        WithoutGil([&] { return arrow::EventsTable(traced, options, &diagnostics); });
    return {PyTable(std::move(table)), PyTable(DescribeDiagnostics(traced, diagnostics))};
  }

  // The diagnostics of opening the trace.
  PyTable OpeningDiagnostics() const { return PyTable(DescribeDiagnostics(trace_, reading_)); }

  // The trace, after a check that its files are unchanged.
  const Trace& trace() const {
    files_.Check();
    return trace_;
  }
  uint64_t event_count() const { return trace_.event_count; }
  PyTable Inputs() const { return PyTable(DescribeInputs(trace_)); }

 private:
  std::unique_ptr<Buffer> buffer_;  // the source of the trace, if it is a Python object
  Trace trace_;
  MappedFiles files_;
  Diagnostics reading_;
  int threads_;
};

// Name of a layer; start and end of its run in nanoseconds of CLOCK_MONOTONIC.
using PyLayerRun = std::tuple<std::string, int64_t, int64_t>;

// `runs`: the path of a file, or the runs themselves.
PyEnergyReport EnergyOfLayers(const std::variant<std::string, std::vector<PyLayerRun>>& runs,
                              const Keywords& given) {
  EnergyOptions options;
  OptionReader reader(given);
  reader.Text("device", &options.trace.device);
  ReadPowerOptions(&reader, &options);
  reader.End();
  if (const auto* marks = std::get_if<std::vector<PyLayerRun>>(&runs)) {
    options.layers.clock = LayerClock::kMonotonic;
    for (const auto& [layer, start_ns, end_ns] : *marks) {
      options.layers.runs.push_back({layer, start_ns, end_ns});
    }
  }
  EnergyReport report = WithoutGil([&]() -> absl::StatusOr<EnergyReport> {
    if (const auto* path = std::get_if<std::string>(&runs)) {
      ASSIGN_OR_RETURN(options.layers, ReadLayerRuns(*path));
    }
    return AttributeLayers(options);
  });
  return {std::move(report), options};
}

// `sides`: the paths of base and head, in the encoding of os.fsencode.
PyResult Diff(const std::array<std::vector<nb::bytes>, 2>& sides, const Keywords& given,
              int threads) {
  const std::vector<std::string> base = DecodePaths(sides[0]), head = DecodePaths(sides[1]);
  DiffOptions options;
  options.read.leave_out_damaged_hosts = true;
  std::string per;
  OptionReader reader(given);
  ReportOptions& select = options.select;
  reader.Text("device", &select.device);
  reader.Text("function", &select.function);
  reader.Text("exclude", &select.exclude);
  reader.Text("prefix", &select.prefix);
  ReadCategories(&reader, &select.categories);
  reader.Count("skip_runs", &select.skip_runs);
  reader.Text("run", &options.find.run);
  reader.Text("per", &per);
  reader.Share("min_effect", &options.decision.min_effect);
  reader.Share("alpha", &options.decision.alpha);
  reader.Share("offset_std", &options.decision.offset_std);
  reader.Read("paired", "bool", &options.decision.paired);
  reader.End();
  std::vector<GivenOption> told = GivenOptions(select);
  if (!per.empty()) {
    options.per = ValueOf(ParseDiffPer(per));
    told.push_back({"per", per});
  }
  select.threads = threads;
  options.read.threads = threads;
  Interrupt interrupt;
  options.stopped = [&interrupt] { return interrupt.IsPressed(); };
  return {WithoutGil(&interrupt, [&] { return FindDiff(base, head, options); }), std::move(told),
          output::DiffOutput};
}

// Merges summaries of a fleet, each given as the content of its file.
class PyFleetMerger {
 public:
  explicit PyFleetMerger(const std::string& by) : merger_(ValueOf(ParseFleetBy(by))) {}

  void Add(const nb::bytes& summary, const std::string& name) {
    const std::string_view bytes(summary.c_str(), summary.size());
    WithoutGil([&]() -> absl::StatusOr<bool> {
      ASSIGN_OR_RETURN(const FleetSummary decoded, DecodeFleetSummary(bytes, name));
      const absl::Status added = merger_.Add(decoded);
      if (!added.ok()) return FailedPrecondition(name, ": ", added.message());
      return true;
    });
  }
  void AddFailure(const std::string& path, const std::string& message) {
    merger_.AddFailure({path, message});
  }
  nb::bytes Take() {
    const std::string bytes = EncodeFleetSummary(merger_.Take());
    return nb::bytes(bytes.data(), bytes.size());
  }

 private:
  FleetMerger merger_;
};

PyResult FleetOf(const nb::bytes& summary, double alpha, double min_effect) {
  const std::string_view bytes(summary.c_str(), summary.size());
  return {WithoutGil([&]() -> absl::StatusOr<FleetReport> {
            ASSIGN_OR_RETURN(FleetSummary decoded, DecodeFleetSummary(bytes, "summary"));
            return BuildFleetReport(std::move(decoded), {.alpha = alpha, .min_effect = min_effect});
          }),
          {},
          [](const FleetReport& report, const output::OutputOptions&) {
            return output::FleetOutput(report);
          }};
}

// The limit of shares that can be above 1, such as the slowdown that few captures detect.
constexpr int kMaxShare = 10;

// Reads the options of inputs that compare and pick share.
void ReadMeasureOptions(OptionReader* from, int threads, MeasureOptions* measure,
                        Objective* objective) {
  std::string name = "time";
  ReadReportOptions(from, &measure->report);
  from->Text("run", &measure->find.run);
  from->Text("objective", &name);
  if (name != "time" && name != "energy") {
    Throw(absl::InvalidArgumentError("objective: must be \"time\" or \"energy\", not \"" + name +
                                     "\""));
  }
  *objective = name == "time" ? Objective::kTime : Objective::kEnergy;
  measure->report.threads = measure->read.threads = threads;
}

PyResult CompareSides(const std::array<std::vector<nb::bytes>, 2>& sides, const Keywords& given,
                      int threads) {
  CompareOptions options;
  MeasureOptions measure;
  std::string benchmark_time = "real";
  OptionReader reader(given);
  ReadMeasureOptions(&reader, threads, &measure, &options.objective);
  measure.by_variant = measure.report.by_variant;
  reader.Text("benchmark_time", &benchmark_time);
  reader.Share("min_effect", &options.min_effect);
  reader.Share("max_mde", &options.max_mde, kMaxShare);
  reader.Share("alpha", &options.alpha);
  reader.Share("offset_std", &options.offset_std);
  reader.Read("paired", "bool", &options.paired);
  reader.Read("allow_mismatch", "bool", &options.allow_mismatch);
  reader.End();
  if (benchmark_time != "real" && benchmark_time != "cpu") {
    Throw(absl::InvalidArgumentError("benchmark_time: must be \"real\" or \"cpu\", not \"" +
                                     benchmark_time + "\""));
  }
  if (benchmark_time == "cpu") measure.benchmark_time = BenchmarkTime::kCpu;
  const std::vector<std::string> base = DecodePaths(sides[0]), head = DecodePaths(sides[1]);
  Interrupt interrupt;
  measure.stopped = [&interrupt] { return interrupt.IsPressed(); };
  return {
      WithoutGil(&interrupt, [&] { return CompareFiles(base, head, measure, options); }),
      {},
      [](const Comparison& of, const output::OutputOptions&) { return output::CompareOutput(of); }};
}

void ReadPickOptions(OptionReader* from, PickOptions* to) {
  from->Share("delta", &to->delta, kMaxShare);
  from->Share("alpha", &to->alpha);
  from->Share("drift_std", &to->drift_std);
}

PyResult PrintPick(PickResult choice) {
  return {std::move(choice), {}, [](const PickResult& of, const output::OutputOptions&) {
            return output::PickOutput(of);
          }};
}

PyResult PickCaptures(const std::vector<nb::bytes>& captures, const Keywords& given, int threads) {
  PickOptions options;
  MeasureOptions measure;
  std::string space, space_json;
  OptionReader reader(given);
  ReadMeasureOptions(&reader, threads, &measure, &options.objective);
  // The seed is that of P(best). The intervals of medians, which have one, too, are not printed.
  options.seed = std::exchange(measure.report.seed, ReportOptions().seed);
  ReadPickOptions(&reader, &options);
  reader.Text("space", &space);
  reader.Text("space_json", &space_json);
  reader.End();
  const std::vector<std::string> paths = DecodePaths(captures);
  Interrupt interrupt;
  measure.stopped = [&interrupt] { return interrupt.IsPressed(); };
  return PrintPick(WithoutGil(&interrupt, [&]() -> absl::StatusOr<PickResult> {
    if (!space.empty() || !space_json.empty()) {
      ASSIGN_OR_RETURN(const SearchSpace known,
                       space.empty() ? ParseSpace(space_json, "space") : ReadSpace(space));
      ASSIGN_OR_RETURN(options.known, ChooseConfigurations(known, {}));
    }
    return PickFiles(paths, measure, options);
  }));
}

// A run of a variant: variant, device, start and time in picoseconds; no time: it does not count.
using PyVariantRun = std::tuple<std::string, std::string, int64_t, std::optional<int64_t>>;

// As a table, with the number of each run between device and start.
struct NumberedRun {
  std::string variant, device;
  int64_t run = 0, start_ps = 0;
  std::optional<int64_t> time_ps;
};
using PyNumberedRun =
    std::tuple<std::string, std::string, int64_t, int64_t, std::optional<int64_t>>;

PyTable VariantRuns(const std::vector<PyNumberedRun>& runs) {
  std::vector<NumberedRun> rows;
  for (const auto& [variant, device, run, start_ps, time_ps] : runs) {
    rows.push_back({variant, device, run, start_ps, time_ps});
  }
  return PyTable(result::TableOf("runs", std::span<const NumberedRun>(rows),
                                 [](const NumberedRun& row, result::FieldSink* sink) {
                                   XPLANE_TIME_FIELDS(sink, row.variant,
                                                      result::KnownText(row.device), row.run,
                                                      row.start_ps, row.time_ps);
                                 }));
}

// Picks from the runs of one capture.
PyResult PickRuns(const std::vector<PyVariantRun>& runs, const std::string& metric,
                  const std::string& clock, const Keywords& given) {
  PickOptions options;
  OptionReader reader(given);
  ReadPickOptions(&reader, &options);
  reader.End();
  std::map<std::pair<std::string, std::string>, Series> series;
  for (const auto& [variant, device, start_ps, time_ps] : runs) {
    Series& of = series[{variant, device}];
    of.function = variant;
    of.variant_id = variant;
    of.device = device;
    of.metric = metric;
    of.clock = clock;
    if (time_ps.has_value()) {
      of.samples.push_back({static_cast<double>(*time_ps), start_ps});
    } else {
      of.left_out.push_back(start_ps);
    }
  }
  Measurements capture = {.source = "time_variants"};
  for (auto& [key, of] : series) capture.series.push_back(std::move(of));
  capture.series = compare::SlowestDevice(capture.series);
  return PrintPick(WithoutGil([&] { return Pick(std::span(&capture, 1), options); }));
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("VERSION") = XPLANE_TIME_VERSION_STRING;
  nb::class_<PyTable>(module, "Table")
      .def_prop_ro("row_count", &PyTable::row_count)
      .def_prop_ro("column_names", &PyTable::column_names)
      .def_prop_ro("column_formats", &PyTable::column_formats)
      .def("values", &PyTable::Values, nb::arg("column"), nb::arg("begin"), nb::arg("end"))
      .def("stream", &PyTable::Stream, nb::arg("requested_schema").none())
      .def("schema", &PyTable::Schema);
  nb::class_<PyResult>(module, "Result")
      .def_prop_ro("table_names", &PyResult::TableNames)
      .def("table", &PyResult::TableOf, nb::arg("name"))
      .def("csv", &PyResult::Csv)
      .def("json", &PyResult::Json)
      .def("text", &PyResult::Table, nb::arg("width"))
      .def("markdown", &PyResult::Markdown)
      .def("page", &PyResult::Page, nb::arg("timeline"))
      .def("database", &PyResult::Database);
  nb::class_<PyReport, PyResult>(module, "Report")
      .def("inputs", &PyReport::Inputs)
      .def("devices", &PyReport::Devices)
      .def("functions", &PyReport::Functions)
      .def("combined", &PyReport::Combined)
      .def("variants", &PyReport::Variants)
      .def("kernels", &PyReport::Kernels)
      .def("samples", &PyReport::Samples)
      .def("diagnostics", &PyReport::Diagnostics)
      .def("part", &PyReport::Part, nb::arg("command"));
  nb::class_<PyEnergyReport, PyResult>(module, "EnergyReport").def("svg", &PyEnergyReport::Svg);
  nb::class_<PyTrace>(module, "Trace")
      .def("report", &PyTrace::BuildReport, nb::arg("options"))
      .def("timeline", &PyTrace::Timeline, nb::arg("options"))
      .def("perfetto", &PyTrace::Perfetto, nb::arg("device"), nb::arg("energy").none(),
           nb::arg("write"))
      .def("energy", &PyTrace::Energy, nb::arg("options"))
      .def("where", &PyTrace::Where, nb::arg("options"))
      .def("headroom", &PyTrace::Headroom, nb::arg("options"))
      .def("brief", &PyTrace::Brief, nb::arg("options"), nb::arg("limit"))
      .def("tree", &PyTrace::BuildTree, nb::arg("options"))
      .def("planes", &PyTrace::Planes, nb::arg("stats"))
      .def("events", &PyTrace::Events, nb::arg("options"))
      .def("summarize", &PyTrace::Summarize, nb::arg("options"), nb::arg("host"))
      .def("inputs", &PyTrace::Inputs)
      .def("diagnostics", &PyTrace::OpeningDiagnostics)
      .def_prop_ro("event_count", &PyTrace::event_count)
      .def("plane_names", [](const PyTrace& trace) { return PlaneNames(trace.trace()); })
      .def(
          "ejkernel_times",
          [](const PyTrace& trace, size_t plane, const std::string& prefix, double min_duration_ns,
             std::optional<uint64_t> max_events, const Test& children) {
            return EjkernelTimes(trace.trace(), plane, prefix, min_duration_ns, max_events,
                                 children);
          },
          nb::arg("plane"), nb::arg("prefix"), nb::arg("min_duration_ns"),
          nb::arg("max_events").none(), nb::arg("children").none())
      .def(
          "tune_jax_times",
          [](const PyTrace& trace, size_t plane, const std::string& prefix, bool raw_protos,
             const Test& children) {
            return TuneJaxTimes(trace.trace(), plane, prefix, raw_protos, children);
          },
          nb::arg("plane"), nb::arg("prefix"), nb::arg("raw_protos"), nb::arg("children").none())
      .def(
          "xprof_device_times",
          [](const PyTrace& trace, uint64_t limit, bool intra_kernel_regions,
             const std::optional<std::string>& kernel_name, const Test& names) {
            return XprofDeviceTimes(trace.trace(), limit, intra_kernel_regions, kernel_name, names);
          },
          nb::arg("limit"), nb::arg("intra_kernel_regions"), nb::arg("kernel_name").none(),
          nb::arg("names").none());
  module.def("open_paths", &PyTrace::OpenPaths, nb::arg("paths"), nb::arg("run"),
             nb::arg("threads"), nb::arg("keep_identical_planes") = false);
  module.def("open_buffer", &PyTrace::OpenBuffer, nb::arg("buffer"), nb::arg("name"),
             nb::arg("threads"), nb::arg("keep_identical_planes") = false);
  module.def("diff", &Diff, nb::arg("sides"), nb::arg("options"), nb::arg("threads"));
  nb::class_<PyFleetMerger>(module, "FleetMerger")
      .def(nb::init<const std::string&>(), nb::arg("by"))
      .def("add", &PyFleetMerger::Add, nb::arg("summary"), nb::arg("name"))
      .def("add_failure", &PyFleetMerger::AddFailure, nb::arg("path"), nb::arg("message"))
      .def("take", &PyFleetMerger::Take);
  module.def(
      "fleet_by",
      [](const nb::bytes& summary) {
        return FleetByName(FleetByOf(std::string_view(summary.c_str(), summary.size())));
      },
      nb::arg("summary"));
  module.def("fleet", &FleetOf, nb::arg("summary"), nb::arg("alpha"), nb::arg("min_effect"));
  module.def("compare", &CompareSides, nb::arg("sides"), nb::arg("options"), nb::arg("threads"));
  module.def("pick", &PickCaptures, nb::arg("captures"), nb::arg("options"), nb::arg("threads"));
  module.def("variant_runs", &VariantRuns, nb::arg("runs"));
  module.def("pick_runs", &PickRuns, nb::arg("runs"), nb::arg("metric"), nb::arg("clock"),
             nb::arg("options"));
  module.def("energy_of_layers", &EnergyOfLayers, nb::arg("runs"), nb::arg("options"));
  module.def("ejkernel_variants", &EjkernelVariants, nb::arg("captures"));
  module.def("tune_jax_variants", &TuneJaxVariants, nb::arg("captures"));
  AddTrackers(&module);
  AddPower(&module, [](arrow::Table table) { return nb::cast(PyTable(std::move(table))); });
}

}  // namespace xplane_time::python
