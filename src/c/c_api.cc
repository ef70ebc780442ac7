// The C interface of the library. No exception crosses it.
#include "status.h"
#include "xplane_time/c.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/event_table.h"
#include "arrow/table.h"
#include "result/rows.h"
#include "xplane_time/energy.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/version.h"

struct xplane_time_trace {
  xplane_time::Trace trace;
  xplane_time::Diagnostics reading;
};

namespace xplane_time {
namespace {

static_assert(XPLANE_TIME_INVALID_ARGUMENT == static_cast<int>(absl::StatusCode::kInvalidArgument));
static_assert(XPLANE_TIME_NOT_FOUND == static_cast<int>(absl::StatusCode::kNotFound));
static_assert(XPLANE_TIME_PERMISSION_DENIED ==
              static_cast<int>(absl::StatusCode::kPermissionDenied));
static_assert(XPLANE_TIME_RESOURCE_EXHAUSTED ==
              static_cast<int>(absl::StatusCode::kResourceExhausted));
static_assert(XPLANE_TIME_FAILED_PRECONDITION ==
              static_cast<int>(absl::StatusCode::kFailedPrecondition));
static_assert(XPLANE_TIME_INTERNAL == static_cast<int>(absl::StatusCode::kInternal));
static_assert(XPLANE_TIME_UNAVAILABLE == static_cast<int>(absl::StatusCode::kUnavailable));
static_assert(XPLANE_TIME_DATA_LOSS == static_cast<int>(absl::StatusCode::kDataLoss));

int Fail(absl::StatusCode code, std::string_view message, char** error) {
  if (error != nullptr) *error = strndup(message.data(), message.size());
  return static_cast<int>(code);
}

// `work` returns a status.
template <typename Work>
int Guarded(char** error, Work work) {
  try {
    const absl::Status status = work();
    if (status.ok()) return XPLANE_TIME_OK;
    return Fail(status.code(), std::string(status.message()), error);
  } catch (const std::bad_alloc&) {
    return Fail(absl::StatusCode::kResourceExhausted, "not enough memory", error);
  } catch (const std::exception& bug) {
    return Fail(absl::StatusCode::kInternal, bug.what(), error);
  }
}

// Copies the options as far as the caller's struct goes; all zero for null.
template <typename Options>
absl::Status CopyOptions(const Options* from, Options* to) {
  *to = {};
  if (from == nullptr) return absl::OkStatus();
  if (from->struct_size < sizeof from->struct_size) {
    return absl::InvalidArgumentError("options without struct_size; set it to sizeof the struct");
  }
  if (from->struct_size > sizeof *from) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the options belong to a newer library than this one, ", XPLANE_TIME_VERSION_STRING));
  }
  std::memcpy(to, from, from->struct_size);
  return absl::OkStatus();
}

absl::Status Needed(const void* pointer, const char* name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": must not be null"));
}

// Texts of a list; none may be null.
absl::StatusOr<std::vector<std::string>> Texts(const char* const* texts, size_t count,
                                               const char* name) {
  std::vector<std::string> found;
  for (size_t i = 0; i < count; ++i) {
    if (texts == nullptr || texts[i] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(name, "[", i, "]: must not be null"));
    }
    found.emplace_back(texts[i]);
  }
  return found;
}

std::string Text(const char* text) { return text != nullptr ? text : ""; }

absl::StatusOr<ReportOptions> ToReportOptions(const xplane_time_select_options* given) {
  xplane_time_select_options from;
  RETURN_IF_ERROR(CopyOptions(given, &from));
  ReportOptions to;
  to.device = Text(from.device);
  to.function = Text(from.function);
  to.exclude = Text(from.exclude);
  to.kernel = Text(from.kernel);
  to.exclude_kernel = Text(from.exclude_kernel);
  to.scope = Text(from.scope);
  to.categories = {.collective = Text(from.collective_re), .copy = Text(from.copy_re)};
  to.skip_runs = from.skip_runs;
  to.threads = from.threads > 0 ? from.threads : 1;
  if (from.metric != nullptr) {
    ASSIGN_OR_RETURN(to.metric, ParseMetric(from.metric));
  }
  if (from.clock != nullptr) {
    ASSIGN_OR_RETURN(to.clock, ParseClockChoice(from.clock));
  }
  if (from.trim != nullptr) {
    ASSIGN_OR_RETURN(to.trim, ParseTrim(from.trim));
  }
  return to;
}

absl::StatusOr<EnergyOptions> ToEnergyOptions(const xplane_time_energy_options* given) {
  xplane_time_energy_options from;
  RETURN_IF_ERROR(CopyOptions(given, &from));
  EnergyOptions to;
  to.trace.device = Text(from.device);
  to.trace.function = Text(from.function);
  to.trace.exclude = Text(from.exclude);
  to.trace.kernel = Text(from.kernel);
  to.trace.exclude_kernel = Text(from.exclude_kernel);
  to.trace.scope = Text(from.scope);
  to.trace.threads = from.threads > 0 ? from.threads : 1;
  to.power_log = Text(from.power_log);
  to.layer_pattern = Text(from.layer_re);
  if (from.layers != nullptr) {
    ASSIGN_OR_RETURN(to.layers, ReadLayerRuns(from.layers));
  }
  ASSIGN_OR_RETURN(const auto ids, Texts(from.map_ids, from.map_count, "map_ids"));
  if (!ids.empty()) RETURN_IF_ERROR(Needed(from.map_ordinals, "map_ordinals"));
  for (size_t i = 0; i < ids.size(); ++i) to.map.emplace(from.map_ordinals[i], ids[i]);
  return to;
}

void ExportRows(const result::Table& rows, ArrowArrayStream* stream) {
  if (stream == nullptr) return;
  arrow::Export(std::make_shared<const arrow::Table>(arrow::FromRows(rows)), stream);
}

void ExportEnergy(const EnergyReport& report, const xplane_time_energy_streams& to) {
  ExportRows(result::TableOf("", std::span(report.devices)), to.devices);
  ExportRows(result::EnergyTable("", "kernel", report.kernels), to.kernels);
  ExportRows(result::EnergyTable("", "function", report.functions), to.functions);
  ExportRows(result::EnergyTable("", "layer", report.layers), to.layers);
  ExportRows(result::EnergyTable("", "source", report.sources), to.sources);
  ExportRows(result::TableOf("", std::span(report.groups)), to.groups);
  ExportRows(result::TableOf("", std::span(report.findings)), to.findings);
}

// `make(trace)` returns a table.
template <typename Make>
int ExportTable(const xplane_time_trace* trace, ArrowArrayStream* stream, char** error, Make make) {
  return Guarded(error, [&]() -> absl::Status {
    absl::Status status = Needed(trace, "trace");
    status.Update(Needed(stream, "stream"));
    RETURN_IF_ERROR(status);
    ASSIGN_OR_RETURN(arrow::Table table, make(*trace));
    arrow::Export(std::make_shared<const arrow::Table>(std::move(table)), stream);
    return absl::OkStatus();
  });
}

enum class ReportTable : uint8_t { kFunctions, kKernels, kSamples };

// `rows_of(report)` returns the rows of the table.
template <typename RowsOf>
int ExportReport(const xplane_time_trace* trace, const xplane_time_select_options* given,
                 ReportTable table, ArrowArrayStream* stream, char** error, RowsOf rows_of) {
  return ExportTable(
      trace, stream, error, [&](const xplane_time_trace& of) -> absl::StatusOr<arrow::Table> {
        ASSIGN_OR_RETURN(ReportOptions options, ToReportOptions(given));
        options.samples = table == ReportTable::kSamples;
        options.launches = options.sources = table == ReportTable::kKernels;
        ASSIGN_OR_RETURN(const Report report, BuildReport(of.trace, options, of.reading));
        return arrow::FromRows(rows_of(report));
      });
}

// `open(read_options, run, diagnostics)` returns a trace.
template <typename Open>
int OpenWith(const xplane_time_open_options* given, xplane_time_trace** trace, char** error,
             Open open) {
  return Guarded(error, [&]() -> absl::Status {
    xplane_time_open_options options;
    RETURN_IF_ERROR(Needed(trace, "trace"));
    RETURN_IF_ERROR(CopyOptions(given, &options));
    auto opened = std::make_unique<xplane_time_trace>();
    const ReadOptions read = {.threads = options.threads > 0 ? options.threads : 1};
    ASSIGN_OR_RETURN(opened->trace, open(read, Text(options.run), &opened->reading));
    *trace = opened.release();
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace xplane_time

using namespace xplane_time;  // NOLINT: the library's names in the functions of C

int xplane_time_open(const char* const* paths, size_t path_count,
                     const xplane_time_open_options* options, xplane_time_trace** trace,
                     char** error) {
  return OpenWith(options, trace, error,
                  [&](const ReadOptions& read, const std::string& run,
                      Diagnostics* reading) -> absl::StatusOr<Trace> {
                    ASSIGN_OR_RETURN(const auto arguments, Texts(paths, path_count, "paths"));
                    if (arguments.empty())
                      return absl::InvalidArgumentError("paths: must not be empty");
                    ASSIGN_OR_RETURN(const auto inputs, FindInputs(arguments, {.run = run}));
                    return OpenTrace(inputs, read, reading);
                  });
}

int xplane_time_open_memory(const void* bytes, size_t size, const xplane_time_open_options* options,
                            xplane_time_trace** trace, char** error) {
  return OpenWith(options, trace, error,
                  [&](const ReadOptions& read, const std::string& /*run*/,
                      Diagnostics* reading) -> absl::StatusOr<Trace> {
                    if (size > 0) {
                      RETURN_IF_ERROR(Needed(bytes, "bytes"));
                    }
                    const std::string_view content(static_cast<const char*>(bytes), size);
                    return OpenTraceFromMemory(content, "memory", read, reading);
                  });
}

void xplane_time_close(xplane_time_trace* trace) { delete trace; }

int xplane_time_functions(const xplane_time_trace* trace, const xplane_time_select_options* options,
                          ArrowArrayStream* stream, char** error) {
  return ExportReport(
      trace, options, ReportTable::kFunctions, stream, error, [](const Report& report) {
        return result::FunctionTable("", std::span(report.functions), /*with_device=*/true);
      });
}

int xplane_time_kernels(const xplane_time_trace* trace, const xplane_time_select_options* options,
                        ArrowArrayStream* stream, char** error) {
  return ExportReport(
      trace, options, ReportTable::kKernels, stream, error,
      [](const Report& report) { return result::TableOf("", std::span(report.kernels)); });
}

int xplane_time_samples(const xplane_time_trace* trace, const xplane_time_select_options* options,
                        ArrowArrayStream* stream, char** error) {
  return ExportReport(
      trace, options, ReportTable::kSamples, stream, error,
      [](const Report& report) { return result::TableOf("", std::span(report.samples)); });
}

int xplane_time_events(const xplane_time_trace* trace, const xplane_time_event_options* given,
                       ArrowArrayStream* stream, char** error) {
  return ExportTable(
      trace, stream, error, [&](const xplane_time_trace& of) -> absl::StatusOr<arrow::Table> {
        xplane_time_event_options from;
        RETURN_IF_ERROR(CopyOptions(given, &from));
        arrow::EventTableOptions options = {.device = Text(from.device),
                                            .line = Text(from.line),
                                            .name = Text(from.name),
                                            .threads = from.threads > 0 ? from.threads : 1};
        ASSIGN_OR_RETURN(options.stats, Texts(from.stats, from.stat_count, "stats"));
        Diagnostics diagnostics;
        return arrow::EventsTable(of.trace, options, &diagnostics);
      });
}

int xplane_time_planes(const xplane_time_trace* trace, ArrowArrayStream* stream, char** error) {
  return ExportTable(
      trace, stream, error, [](const xplane_time_trace& of) -> absl::StatusOr<arrow::Table> {
        ASSIGN_OR_RETURN(const PlanesReport report, DescribePlanes(of.trace, {}, of.reading));
        return arrow::FromRows(result::PlaneLines(report));
      });
}

int xplane_time_energy(const xplane_time_trace* trace, const xplane_time_energy_options* given,
                       const xplane_time_energy_streams* streams, char** error) {
  return Guarded(error, [&]() -> absl::Status {
    absl::Status status = Needed(trace, "trace");
    status.Update(Needed(streams, "streams"));
    RETURN_IF_ERROR(status);
    xplane_time_energy_streams to;
    RETURN_IF_ERROR(CopyOptions(streams, &to));
    ASSIGN_OR_RETURN(const EnergyOptions options, ToEnergyOptions(given));
    ASSIGN_OR_RETURN(const EnergyReport report,
                     AttributeEnergy(trace->trace, options, trace->reading));
    ExportEnergy(report, to);
    return absl::OkStatus();
  });
}

void xplane_time_free_text(char* text) { std::free(text); }

const char* xplane_time_version(void) { return XPLANE_TIME_VERSION_STRING; }
