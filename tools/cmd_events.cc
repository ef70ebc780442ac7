// events: streams rows from the reader to the output, without storing them.
#include <algorithm>

#include "output/events.h"
#include "read/damaged_hosts.h"
#include "read/event_names.h"
#include "status.h"
#include "timing/filters.h"
#include "trace_command.h"
#include "xplane_time/read.h"

namespace xplane_time::tools {
namespace {

class Events : public TraceCommand {
 public:
  explicit Events(CLI::App* app) : TraceCommand(app, {.columns = false, .streams = true}) {
    const Heading own = Own();
    own.Value("--stat", &stat_columns_, "NAME", "Show this stat as a column; repeatable")
        ->allow_extra_args(false);
    own.Value("--line", &line_, "RE", "Include only lines that match");
    own.Value("--name", &name_, "RE", "Include only events with matching names");
    own.Parsed("--min-duration", &report_.min_duration_ps, "NS",
               "Exclude shorter events, in nanoseconds", ParseNs);
    own.Count("--max-events", &report_.max_events, "Stop after N events");
  }

  absl::StatusOr<int> Run() override {
    const uint64_t top = printing_.how.top.value_or(0);  // both limits apply
    most_ = report_.max_events.value_or(printing_.how.top.value_or(kEndless));
    if (top > 0) most_ = std::min(most_, top);
    ASSIGN_OR_RETURN(const Opened opened, Open());
    ASSIGN_OR_RETURN(OutputFile out, OutputFile::Open(printing_.path));
    WarnOfLeftOut(DescribeDiagnostics(opened.trace, opened.diagnostics));
    Diagnostics diagnostics;
    // If damage is found, rows that were already streamed stay on standard output, and the exit
    // code reports it. A file is not created.
    RETURN_IF_ERROR(Stream(opened.trace, &out, &diagnostics));
    for (const DiagnosticRow& row : DescribeDiagnostics(opened.trace, diagnostics)) {
      if (row.severity != "info" && !printing_.quiet) Warn(row);
    }
    RETURN_IF_ERROR(out.Commit());
    return 0;
  }

 private:
  absl::Status Stream(const Trace& trace, OutputFile* out, Diagnostics* diagnostics) {
    ASSIGN_OR_RETURN(const NameFilter line, NameFilter::Compile("--line", line_));
    ASSIGN_OR_RETURN(name_filter_, NameFilter::Compile("--name", name_));
    ASSIGN_OR_RETURN(const auto lines, SelectLines(trace, report_.device, line));
    RETURN_IF_ERROR(CheckStatNames(trace, stat_columns_));
    stats_.resize(stat_columns_.size());
    stat_seen_.resize(stat_columns_.size());
    const auto write = [&](std::string_view text) {
      write_status_ = out->Write(text);
      return write_status_.ok();
    };
    std::vector<output::EventPlace> places;
    for (const uint32_t i : lines) places.push_back(PlaceOf(trace, i));
    output::EventWriter writer(printing_.how, stat_columns_, write, places);
    DamagedHosts damaged(trace);
    for (const uint32_t i : lines) {
      if (rows_ >= most_) break;
      // Rows that were written before the damage was found remain.
      RETURN_IF_ERROR(damaged.Read(trace.planes[trace.lines[i].plane].file,
                                   [&] { return StreamLine(trace, i, diagnostics, &writer); }));
    }
    damaged.Note(diagnostics);
    if (rows_ == 0) {
      RETURN_IF_ERROR(damaged.First());
      return absl::FailedPreconditionError(trace.files[0].path +
                                           ": no event matches; xplane-time planes lists the "
                                           "planes, --device all selects every plane");
    }
    for (size_t column = 0; column < stats_.size(); ++column) {
      if (stat_seen_[column]) continue;
      diagnostics->Note(DiagnosticCode::kStatWithoutValue, stat_columns_[column]);
    }
    // The number of further rows is unknown, because they are not read.
    const bool cut = rows_ == printing_.how.top;
    return writer.End(cut ? "... possibly more; omit --top to see all" : "") ? absl::OkStatus()
                                                                             : write_status_;
  }

  static output::EventPlace PlaceOf(const Trace& trace, uint32_t index) {
    const Line& line = trace.lines[index];
    const Plane& plane = trace.planes[line.plane];
    return {plane.file, plane.host, plane.name, line.shown_name()};
  }

  absl::Status StreamLine(const Trace& trace, uint32_t index, Diagnostics* diagnostics,
                          output::EventWriter* writer) {
    EventNames names(trace.planes[trace.lines[index].plane]);
    writer->StartLine(PlaceOf(trace, index));
    const std::vector<std::string_view> stat_names(stat_columns_.begin(), stat_columns_.end());
    return VisitEvents(trace, index, stat_names, diagnostics, [&](const EventBatch& batch) {
      for (size_t i = 0; i < batch.size() && rows_ < most_; ++i) {
        if (report_.min_duration_ps.value_or(0) > batch.duration_ps[i]) continue;
        const std::string_view name = names.Of(batch, i);
        if (!name_filter_.Matches(name)) continue;
        for (size_t column = 0; column < stats_.size(); ++column) {
          stats_[column] = batch.Stat(column, i);
          stat_seen_[column] = stat_seen_[column] || stats_[column].type != StatType::kAbsent;
        }
        ++rows_;
        if (!writer->Row(
                {name, batch.start_ps[i], batch.duration_ps[i], batch.occurrences[i], stats_})) {
          return write_status_;
        }
      }
      return absl::OkStatus();
    });
  }

  static constexpr uint64_t kEndless = ~uint64_t{0};

  std::vector<std::string> stat_columns_;
  std::string line_, name_;  // RE2
  NameFilter name_filter_;
  absl::Status write_status_;
  std::vector<StatValue> stats_;
  std::vector<bool> stat_seen_;  // by column
  uint64_t rows_ = 0, most_ = kEndless;
};

}  // namespace

void AddEvents(CommandLine* line) {
  line->Add<Events>({"events", "Print raw events in file order",
                     R"(  xplane-time events trace.xplane.pb --device all --format csv
  xplane-time events trace.xplane.pb --line 'Stream #' --stat hlo_op
)"});
}

}  // namespace xplane_time::tools
