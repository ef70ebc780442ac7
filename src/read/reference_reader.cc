// The reference reader: parses files with the generated parser and copies the result into the same
// structs. It is limited to files of 2 GiB and keeps the parsed message in memory. Its purpose is
// to check the wire reader. Generated types are used in this file only.
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "proto/xplane.pb.h"
#include "read/internals.h"
#include "status.h"

namespace xplane_time {
namespace {

StatValue Convert(const proto::XStat& stat) {
  if (stat.has_double_value()) {
    return {StatType::kDouble, std::bit_cast<uint64_t>(stat.double_value()), {}};
  }
  if (stat.has_uint64_value()) return {StatType::kUint64, stat.uint64_value(), {}};
  if (stat.has_int64_value()) {
    return {StatType::kInt64, static_cast<uint64_t>(stat.int64_value()), {}};
  }
  if (stat.has_str_value()) return {StatType::kString, 0, stat.str_value()};
  if (stat.has_bytes_value()) return {StatType::kBytes, 0, stat.bytes_value()};
  if (stat.has_ref_value()) return {StatType::kRef, stat.ref_value(), {}};
  if (!stat.has_compressed_str_value()) return {};
  return {StatType::kCompressedString, 0, stat.compressed_str_value()};
}

// Decodes the events of a parsed line.
class ParsedLine : public LineDecoder {
 public:
  explicit ParsedLine(const proto::XLine& line) : line_(line) {}

  absl::Status Fill(BatchBuilder* builder) override {
    for (; next_ < line_.events_size() && !builder->full(); ++next_) {
      const proto::XEvent& event = line_.events(next_);
      RawEvent raw;
      raw.metadata_id = event.metadata_id();
      raw.aggregated = event.data_case() == proto::XEvent::kNumOccurrences;
      raw.data = raw.aggregated ? event.num_occurrences() : event.offset_ps();
      raw.duration_ps = event.duration_ps();
      for (const proto::XStat& stat : event.stats()) {
        if (!builder->wants_stats()) break;
        const uint32_t column = builder->ColumnOf(stat.metadata_id());
        if (column != BatchBuilder::kNoColumn) builder->SetStat(column, Convert(stat));
      }
      builder->Add(static_cast<uint64_t>(next_), raw);
    }
    return absl::OkStatus();
  }

 private:
  const proto::XLine& line_;
  int next_ = 0;
};

class ReferenceReader : public EventSource {
 public:
  absl::Status AddFile(Source source, const std::string& path) override {
    const std::string_view bytes = source.bytes;
    if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
      return ResourceExhausted(
          path, ": ", bytes.size(),
          " bytes; the generated parser supports up to 2 GiB; use --reader wire");
    }
    auto* space = google::protobuf::Arena::CreateMessage<proto::XSpace>(&arena_);
    if (!space->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return DamageError("damaged (generated parser); --reader wire reports the place",
                         {.file = path});
    }
    spaces_.push_back(space);
    return EventSource::AddFile(std::move(source), path);
  }

  absl::Status IndexPlane(uint32_t file, size_t message, Plane* plane, Trace* trace) override {
    const proto::XPlane& from = spaces_[file]->planes(static_cast<int>(message));
    plane->id = from.id();
    plane->name = from.name();
    CopyMetadata(from, plane);
    for (const proto::XStat& stat : from.stats()) {
      plane->stats.push_back({stat.metadata_id(), Convert(stat)});
    }
    for (const proto::XLine& line : from.lines()) lines_.push_back(&line);
    // The parser does not give the byte positions of lines.
    const std::string_view bytes = FileBytes(file).substr(plane->bytes.offset, plane->bytes.size);
    Damage damage;
    const auto add = [&](const WireField& field) {
      if (field.key() == Length(3)) {
        trace->lines.emplace_back().bytes = {field.offset, field.bytes.size()};
      }
      return true;
    };
    if (ReadMessage(bytes, plane->bytes.offset, 1, &damage, add)) return absl::OkStatus();
    return DamageError(damage.why,
                       {.file = trace->files[file].path, .byte_offset = damage.byte_offset});
  }

  std::vector<absl::Status> IndexLines(int /*threads*/, Trace* trace) const override {
    for (size_t i = 0; i < lines_.size(); ++i) {
      const proto::XLine& from = *lines_[i];
      Line& line = trace->lines[i];
      line.id = from.id();
      line.display_id = from.display_id();
      line.timestamp_ns = from.timestamp_ns();
      line.name = from.name();
      line.display_name = from.display_name();
      line.event_count = static_cast<uint64_t>(from.events_size());
      line.parts = {{line.bytes, 0}};
    }
    return {};
  }

  std::unique_ptr<LineDecoder> Decode(const Trace& /*trace*/, uint32_t line,
                                      const LinePart& /*whole*/) const override {
    return std::make_unique<ParsedLine>(*lines_[line]);
  }

 private:
  static void CopyMetadata(const proto::XPlane& from, Plane* plane) {
    std::vector<int64_t> ids;
    for (const auto& [id, ignored] : from.event_metadata()) ids.push_back(id);
    std::sort(ids.begin(), ids.end());  // the map is unordered
    for (int64_t id : ids) {
      const proto::XEventMetadata& metadata = from.event_metadata().at(id);
      EventMetadata entry{.id = id,
                          .name = metadata.name(),
                          .display_name = metadata.display_name(),
                          .first_stat = static_cast<uint32_t>(plane->metadata_stats.size()),
                          .stat_count = static_cast<uint32_t>(metadata.stats_size())};
      for (const proto::XStat& stat : metadata.stats()) {
        plane->metadata_stats.push_back({stat.metadata_id(), Convert(stat)});
      }
      plane->event_metadata.Set(entry);
    }
    for (const auto& [id, metadata] : from.stat_metadata()) {
      plane->stat_metadata.Set({id, metadata.name()});
    }
  }

  google::protobuf::Arena arena_;
  std::vector<const proto::XSpace*> spaces_;  // one per file
  std::vector<const proto::XLine*> lines_;    // one per line of the trace, in order
};

}  // namespace

std::unique_ptr<EventSource> MakeReferenceReader() { return std::make_unique<ReferenceReader>(); }

}  // namespace xplane_time
