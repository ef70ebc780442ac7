// events: rows stream from the reader to the output; nothing is kept.
#include <utility>

#include "commands.h"
#include "output/events.h"
#include "read/damaged_hosts.h"
#include "timing/filters.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time::tools {
namespace {

class EventStream {
 public:
  EventStream(const Options& options, const Opened& opened, OutputFile* out)
      : options_(options),
        trace_(opened.trace),
        writer_(options.output, options.stats,
                [this, out](std::string_view text) {
                  write_status_ = out->Write(text);
                  return write_status_.ok();
                }),
        stat_names_(options.stats.begin(), options.stats.end()),
        stats_(options.stats.size()),
        stat_seen_(options.stats.size()),
        most_(options.report.max_events.value_or(options.output.top.value_or(kEndless))) {}

  absl::Status Run() {
    auto line = NameFilter::Compile("--line", options_.line);
    if (!line.ok()) return line.status();
    auto name = NameFilter::Compile("--name", options_.name);
    if (!name.ok()) return name.status();
    name_filter_ = *name;
    auto planes = SelectPlanes(trace_, options_.report.device);
    if (!planes.ok()) return planes.status();
    if (absl::Status status = CheckStatNames(trace_, options_.stats); !status.ok()) return status;
    DamagedHosts damaged(trace_);
    for (uint32_t plane : *planes) {
      const Plane& at = trace_.planes[plane];
      for (uint32_t i = at.first_line; i < at.first_line + at.line_count && rows_ < most_; ++i) {
        if (damaged.Has(at.file) || !line->Matches(trace_.lines[i].shown_name())) continue;
        absl::Status status = StreamLine(at, i);
        // Rows that were written before the damage showed remain.
        if (!status.ok()) status = damaged.LeaveOut(at.file, status);
        if (!status.ok()) return status;
      }
    }
    damaged.Note(&diagnostics_);
    if (rows_ == 0) {
      if (damaged.any()) return damaged.First();
      return absl::FailedPreconditionError(
          trace_.files[0].path +
          ": no event matches; xplane-time planes lists what is there, --device all takes every "
          "plane");
    }
    for (size_t column = 0; column < stats_.size(); ++column) {
      if (stat_seen_[column]) continue;
      diagnostics_.Note(DiagnosticCode::kStatWithoutValue, options_.stats[column]);
    }
    return writer_.End() ? absl::OkStatus() : write_status_;
  }

  const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  static constexpr uint64_t kEndless = ~uint64_t{0};

  absl::Status StreamLine(const Plane& plane, uint32_t index) {
    const Line& line = trace_.lines[index];
    row_.input = plane.file;
    row_.host = plane.host;
    row_.plane = plane.name;
    row_.line = line.shown_name();
    row_.stats = stats_;
    return VisitEvents(trace_, index, stat_names_, &diagnostics_, [&](const EventBatch& batch) {
      for (size_t i = 0; i < batch.size() && rows_ < most_; ++i) {
        if (!WriteRow(plane, batch, i)) return write_status_;
      }
      return absl::OkStatus();
    });
  }

  bool WriteRow(const Plane& plane, const EventBatch& batch, size_t i) {
    if (options_.report.min_duration_ps.value_or(0) > batch.duration_ps[i]) return true;
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
    if (rows_++ == 0 && !writer_.Begin()) return false;
    return writer_.Row(row_);
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

  const Options& options_;
  const Trace& trace_;
  absl::Status write_status_;
  output::EventWriter writer_;
  std::vector<std::string_view> stat_names_;
  NameFilter name_filter_;
  output::EventRow row_;
  std::vector<StatValue> stats_;
  std::vector<bool> stat_seen_;     // by column
  std::vector<std::string> texts_;  // decompressed, by column
  std::string missing_name_;
  uint64_t rows_ = 0;
  const uint64_t most_;
  Diagnostics diagnostics_;
};

}  // namespace

absl::Status RunEvents(const Options& options, const Opened& opened, OutputFile* out) {
  WarnOfLeftOut(options, DescribeDiagnostics(opened.trace, opened.diagnostics));
  EventStream stream(options, opened, out);
  const absl::Status status = stream.Run();
  if (!status.ok() || options.quiet) return status;
  for (const DiagnosticRow& row : DescribeDiagnostics(opened.trace, stream.diagnostics())) {
    if (row.severity != "info") Warn(row);
  }
  return status;
}

}  // namespace xplane_time::tools
