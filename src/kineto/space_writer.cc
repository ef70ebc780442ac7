#include "kineto/space_writer.h"

#include <utility>

#include "status.h"

namespace xplane_time::kineto {
namespace {

// Field numbers of XSpace, XPlane, XLine and map entries (proto/xplane.proto).
constexpr uint32_t kPlanes = 1, kErrors = 2, kWarnings = 3, kHostnames = 4;
constexpr uint32_t kPlaneName = 2, kLines = 3, kEventMetadata = 4, kStatMetadata = 5;
constexpr uint32_t kLineId = 1, kLineName = 2, kTimestampNs = 3, kEvents = 4, kDisplayId = 10;
constexpr uint32_t kKey = 1, kValue = 2;
constexpr uint32_t kId = 1, kName = 2;
constexpr uint32_t kStatId = 1, kDouble = 2, kUint64 = 3, kInt64 = 4, kText = 5;

template <typename AddValue>
void AddStat(uint32_t field, uint64_t id, WireWriter* out, AddValue add_value) {
  out->AddMessage(field, [&] {
    out->AddVarint(kStatId, id);
    add_value();
  });
}

void PutEntry(uint32_t field, uint64_t id, const WireWriter& value, WireWriter* out) {
  WireWriter entry;
  entry.AddVarint(kKey, id);
  entry.AddText(kValue, value.bytes());
  out->AddText(field, entry.bytes());
}

}  // namespace

void AddIntegerStat(uint32_t field, uint64_t id, int64_t value, WireWriter* out) {
  AddStat(field, id, out, [&] { out->AddVarint(kInt64, static_cast<uint64_t>(value)); });
}

void AddUnsignedStat(uint32_t field, uint64_t id, uint64_t value, WireWriter* out) {
  AddStat(field, id, out, [&] { out->AddVarint(kUint64, value); });
}

void AddDoubleStat(uint32_t field, uint64_t id, double value, WireWriter* out) {
  AddStat(field, id, out, [&] { out->AddDouble(kDouble, value); });
}

void AddTextStat(uint32_t field, uint64_t id, std::string_view text, WireWriter* out) {
  AddStat(field, id, out, [&] { out->AddText(kText, text); });
}

void LineWriter::Add(std::string_view event) {
  waiting_.AddText(kEvents, event);
  spill_->Take(this);
}

void Spill::Write(LineWriter* line) {
  const std::string_view events = line->waiting_.bytes();
  line->spilled_.push_back({bytes_.size(), events.size()});
  line->spilled_bytes_ += events.size();
  bytes_.Append(events);
  line->waiting_.Clear();
}

LineWriter* PlaneWriter::AddLine() {
  lines_.push_back(spill_->AddLine(static_cast<int64_t>(lines_.size()) + 1));
  return lines_.back();
}

uint64_t PlaneWriter::AddEventMetadata(std::string_view name, const WireWriter& stats) {
  const uint64_t id = ++event_ids_;
  WireWriter metadata;
  metadata.AddVarint(kId, id);
  metadata.AddText(kName, name);
  metadata.AddFields(stats.bytes());
  PutEntry(kEventMetadata, id, metadata, &metadata_);
  return id;
}

uint64_t PlaneWriter::StatId(std::string_view name) {
  const auto [found, is_new] = stat_ids_.try_emplace(Absl(name), stat_ids_.size() + 1);
  if (!is_new) return found->second;
  WireWriter metadata;
  metadata.AddVarint(kId, found->second);
  metadata.AddText(kName, name);
  PutEntry(kStatMetadata, found->second, metadata, &metadata_);
  return found->second;
}

class SpaceWriter {
 public:
  SpaceWriter(Spill* spill, int64_t timestamp_ns) : spill_(*spill), timestamp_ns_(timestamp_ns) {}

  Space Write(const SpaceParts& parts) {
    for (const SpaceParts::Host& host : parts.hosts) {
      for (const PlaneWriter* plane : host.planes) {
        if (!PutPlane(*plane, PartsOf(*plane))) return {};
      }
      WireWriter name;
      if (!host.name.empty()) name.AddText(kHostnames, host.name);
      out_.Append(name.bytes());
    }
    WireWriter messages;
    for (const std::string& error : parts.errors) messages.AddText(kErrors, error);
    for (const std::string& warning : parts.warnings) messages.AddText(kWarnings, warning);
    out_.Append(messages.bytes());
    return out_.Take();
  }

 private:
  // Everything of a plane except its events.
  struct PlaneParts {
    WireWriter header;
    std::vector<WireWriter> lines;
    uint64_t size = 0;
  };

  PlaneParts PartsOf(const PlaneWriter& plane) const {
    PlaneParts parts;
    parts.header.AddText(kPlaneName, plane.name_);
    parts.size = plane.metadata_.bytes().size() + plane.stats_.bytes().size();
    for (const LineWriter* line : plane.lines_) {
      WireWriter header, line_header;
      header.AddVarint(kLineId, static_cast<uint64_t>(line->id_));
      header.AddText(kLineName, line->name_);
      header.AddVarint(kTimestampNs, static_cast<uint64_t>(timestamp_ns_));
      if (line->number_ != 0) header.AddVarint(kDisplayId, static_cast<uint64_t>(line->number_));
      line_header.AddHeader(kLines, header.bytes().size() + line->bytes());
      parts.size += line_header.bytes().size() + header.bytes().size() + line->bytes();
      parts.lines.push_back(std::move(line_header));
      parts.lines.push_back(std::move(header));
    }
    parts.size += parts.header.bytes().size();
    return parts;
  }

  // Appends a plane to the output. False: the scratch file cannot be read.
  bool PutPlane(const PlaneWriter& plane, const PlaneParts& parts) {
    WireWriter header;
    header.AddHeader(kPlanes, parts.size);
    out_.Append(header.bytes());
    out_.Append(parts.header.bytes());
    for (size_t i = 0; i < plane.lines_.size(); ++i) {
      out_.Append(parts.lines[2 * i].bytes());
      out_.Append(parts.lines[2 * i + 1].bytes());
      for (const LineWriter::Piece& piece : plane.lines_[i]->spilled_) {
        if (!spill_.bytes_.CopyTo(piece.offset, piece.size, &out_)) return false;
      }
      out_.Append(plane.lines_[i]->waiting_.bytes());
    }
    out_.Append(plane.metadata_.bytes());
    out_.Append(plane.stats_.bytes());
    return true;
  }

  Spill& spill_;
  const int64_t timestamp_ns_;
  ScratchLog out_{kInMemory};
};

Space WriteSpace(const SpaceParts& parts, Spill* spill) {
  return SpaceWriter(spill, parts.timestamp_ns).Write(parts);
}

}  // namespace xplane_time::kineto
