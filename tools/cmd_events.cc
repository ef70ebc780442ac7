// events: rows stream from the reader to the output; nothing is kept.
#include <algorithm>
#include <optional>
#include <utility>

#include "output/events.h"
#include "read/damaged_hosts.h"
#include "status.h"
#include "timing/filters.h"
#include "trace_command.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time::tools {
namespace {

class Events : public TraceCommand {
 public:
  explicit Events(CLI::App* app) : TraceCommand(app, {.columns = false}) {
    const Heading own = Own();
    own.Value("--stat", &stat_columns_, "NAME", "Show this stat as a column (repeat for more)")
        ->allow_extra_args(false);
    own.Value("--line", &line_, "RE", "Only lines that match");
    own.Value("--name", &name_, "RE", "Only events whose name matches");
    own.Parsed("--min-duration", &report_.min_duration_ps, "NS", "Leave out shorter events",
               ParseNs);
    own.Count("--max-events", &report_.max_events, "Stop after N events");
  }

  absl::StatusOr<int> Run() override {
    const uint64_t top = printing_.how.top.value_or(0);  // with it, both limits hold
    most_ = report_.max_events.value_or(printing_.how.top.value_or(kEndless));
    if (top > 0) most_ = std::min(most_, top);
    ASSIGN_OR_RETURN(const Opened opened, Open());
    ASSIGN_OR_RETURN(OutputFile out, OutputFile::Open(printing_.path));
    WarnOfLeftOut(DescribeDiagnostics(opened.trace, opened.diagnostics));
    Diagnostics diagnostics;
    // Rows that were streamed before damage showed stay on standard output, labelled by the exit
    // code; a file is left absent.
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
    ASSIGN_OR_RETURN(const auto planes, SelectPlanes(trace, report_.device));
    RETURN_IF_ERROR(CheckStatNames(trace, stat_columns_));
    stats_.resize(stat_columns_.size());
    stat_seen_.resize(stat_columns_.size());
    output::EventWriter writer(printing_.how, stat_columns_, [&](std::string_view text) {
      write_status_ = out->Write(text);
      return write_status_.ok();
    });
    writer_ = &writer;
    DamagedHosts damaged(trace);
    for (uint32_t plane : planes) {
      const Plane& at = trace.planes[plane];
      for (uint32_t i = at.first_line; i < at.first_line + at.line_count && rows_ < most_; ++i) {
        if (damaged.Has(at.file) || !line.Matches(trace.lines[i].shown_name())) continue;
        // Rows that were written before the damage showed remain.
        RETURN_IF_ERROR(damaged.LeaveOut(at.file, StreamLine(trace, at, i, diagnostics)));
      }
    }
    damaged.Note(diagnostics);
    if (rows_ == 0) {
      RETURN_IF_ERROR(damaged.First());
      return absl::FailedPreconditionError(
          trace.files[0].path +
          ": no event matches; xplane-time planes lists what is there, --device all takes every "
          "plane");
    }
    for (size_t column = 0; column < stats_.size(); ++column) {
      if (stat_seen_[column]) continue;
      diagnostics->Note(DiagnosticCode::kStatWithoutValue, stat_columns_[column]);
    }
    return writer.End() ? absl::OkStatus() : write_status_;
  }

  absl::Status StreamLine(const Trace& trace, const Plane& plane, uint32_t index,
                          Diagnostics* diagnostics) {
    const Line& line = trace.lines[index];
    row_.input = plane.file;
    row_.host = plane.host;
    row_.plane = plane.name;
    row_.line = line.shown_name();
    row_.stats = stats_;
    const std::vector<std::string_view> stat_names(stat_columns_.begin(), stat_columns_.end());
    return VisitEvents(trace, index, stat_names, diagnostics, [&](const EventBatch& batch) {
      for (size_t i = 0; i < batch.size() && rows_ < most_; ++i) {
        if (!WriteRow(plane, batch, i)) return write_status_;
      }
      return absl::OkStatus();
    });
  }

  bool WriteRow(const Plane& plane, const EventBatch& batch, size_t i) {
    if (report_.min_duration_ps.value_or(0) > batch.duration_ps[i]) return true;
    if (batch.metadata[i] == kNoMetadata) {
      missing_name_ = EventName(plane, kNoMetadata, batch.metadata_id[i]);
      row_.name = missing_name_;
    } else {
      const EventMetadata& metadata = plane.event_metadata.entries[batch.metadata[i]];
      row_.name = metadata.display_name.empty() ? metadata.name : metadata.display_name;
    }
    if (!name_filter_.Matches(row_.name)) return true;
    row_.start_ps = batch.start_ps[i];
    if (batch.start_ps[i] == kNoTimePs) row_.start_ps = std::nullopt;
    row_.duration_ps = batch.duration_ps[i];
    row_.occurrences = batch.occurrences[i];
    for (size_t column = 0; column < stats_.size(); ++column) {
      stats_[column] = batch.Stat(column, i);
      stat_seen_[column] = stat_seen_[column] || stats_[column].type != StatType::kAbsent;
      if (stats_[column].type == StatType::kCompressedString) Decompress(column);
    }
    ++rows_;
    return writer_->Row(row_);
  }

  // Shows the text instead of its compressed bytes, where it is sound and not huge.
  void Decompress(size_t column) {
    constexpr uint64_t kMostBytes = uint64_t{1} << 20;
    texts_.resize(stats_.size());
    auto text = DecompressText(stats_[column].text, kMostBytes);
    if (!text.ok()) return;
    texts_[column] = *std::move(text);
    stats_[column] = {StatType::kString, 0, texts_[column]};
  }

  static constexpr uint64_t kEndless = ~uint64_t{0};

  std::vector<std::string> stat_columns_;
  std::string line_, name_;  // RE2
  NameFilter name_filter_;
  absl::Status write_status_;
  output::EventWriter* writer_ = nullptr;
  output::EventRow row_;
  std::vector<StatValue> stats_;
  std::vector<bool> stat_seen_;     // by column
  std::vector<std::string> texts_;  // decompressed, by column
  std::string missing_name_;
  uint64_t rows_ = 0, most_ = kEndless;
};

}  // namespace

void AddEvents(CommandLine* line) {
  line->Add<Events>({"events", "The raw events, streamed in file order",
                     R"(  xplane-time events trace.xplane.pb --device all --format csv
  xplane-time events trace.xplane.pb --line 'Stream #' --stat hlo_op
)"});
}

}  // namespace xplane_time::tools
