#include "kineto/space_writer.h"

#include <utility>

#include "status.h"

namespace xplane_time::kineto {
namespace {

// Fields of XSpace, XPlane, XLine and the entries of maps (proto/xplane.proto).
constexpr uint32_t kPlanes = 1, kHostnames = 4;
constexpr uint32_t kPlaneName = 2, kLines = 3, kEventMetadata = 4, kStatMetadata = 5;
constexpr uint32_t kLineId = 1, kLineName = 2, kTimestampNs = 3, kEvents = 4, kDisplayId = 10;
constexpr uint32_t kKey = 1, kValue = 2;
constexpr uint32_t kId = 1, kName = 2;

void PutEntry(uint32_t field, uint64_t id, const WireBytes& value, WireBytes* out) {
  WireBytes entry;
  entry.Number(kKey, id);
  entry.Bytes(kValue, value.bytes());
  out->Bytes(field, entry.bytes());
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

}  // namespace

void WireBytes::DoubleStat(uint32_t field, uint64_t id, double value) {
  Header(field, 1 + VarintSize(id) + 1 + sizeof(value));
  Number(1, id);
  char* const at = Room(1 + sizeof(value));
  *at = 2 << 3 | 1;
  std::memcpy(at + 1, &value, sizeof(value));  // little-endian, as all supported machines
  Took(at + 1 + sizeof(value));
}

void WireBytes::TextStat(uint32_t field, uint64_t id, std::string_view text) {
  Header(field, 1 + VarintSize(id) + 1 + VarintSize(text.size()) + text.size());
  Number(1, id);
  Bytes(5, text);
}

void LineWriter::Add(std::string_view event) {
  waiting_.push_back(kEvents << 3 | 2);
  uint64_t size = event.size();
  for (; size >= 0x80; size >>= 7) waiting_.push_back(static_cast<char>(size | 0x80));
  waiting_.push_back(static_cast<char>(size));
  waiting_.append(event);
  spill_->Take(this);
}

void Spill::Write(LineWriter* line) {
  std::string& events = line->waiting_;
  if (size_ + events.size() > bytes_.capacity()) bytes_.Grow(size_, 2 * (size_ + events.size()));
  std::memcpy(bytes_.data() + size_, events.data(), events.size());
  line->spilled_.push_back({size_, events.size()});
  line->spilled_bytes_ += events.size();
  size_ += events.size();
  events.clear();
}

LineWriter* PlaneWriter::AddLine() {
  lines_.push_back(spill_->AddLine(static_cast<int64_t>(lines_.size()) + 1));
  return lines_.back();
}

uint64_t PlaneWriter::AddEventMetadata(std::string_view name, const WireBytes& stats) {
  const uint64_t id = ++event_ids_;
  WireBytes metadata;
  metadata.Number(kId, id);
  metadata.Bytes(kName, name);
  metadata.Append(stats.bytes());
  PutEntry(kEventMetadata, id, metadata, &metadata_);
  return id;
}

uint64_t PlaneWriter::StatId(std::string_view name) {
  const auto [found, is_new] = stat_ids_.try_emplace(Absl(name), stat_ids_.size() + 1);
  if (!is_new) return found->second;
  WireBytes metadata;
  metadata.Number(kId, found->second);
  metadata.Bytes(kName, name);
  PutEntry(kStatMetadata, found->second, metadata, &metadata_);
  return found->second;
}

class SpaceWriter {
 public:
  SpaceWriter(const Spill& spill, int64_t timestamp_ns)
      : spill_(spill), timestamp_ns_(timestamp_ns) {}

  Space Write(const std::vector<PlaneWriter*>& planes, std::string_view hostname) {
    std::vector<PlaneParts> parts;
    uint64_t size = hostname.size() + kMostHeader;
    for (const PlaneWriter* plane : planes) {
      parts.push_back(PartsOf(*plane));
      size += parts.back().size + kMostHeader;
    }
    constexpr size_t kInMemory = size_t{16} << 20;
    Space space = {std::make_shared<ScratchBytes>(kInMemory)};
    space.bytes->Grow(0, size);
    at_ = space.bytes->data();
    for (size_t i = 0; i < planes.size(); ++i) PutPlane(*planes[i], parts[i]);
    WireBytes name;
    if (!hostname.empty()) name.Bytes(kHostnames, hostname);
    Put(name.bytes());
    space.size = static_cast<size_t>(at_ - space.bytes->data());
    return space;
  }

 private:
  static constexpr size_t kMostHeader = 20;
  // All of a plane but its events.
  struct PlaneParts {
    WireBytes header;
    std::vector<WireBytes> lines;
    uint64_t size = 0;
  };

  PlaneParts PartsOf(const PlaneWriter& plane) const {
    PlaneParts parts;
    parts.header.Bytes(kPlaneName, plane.name_);
    parts.size = plane.metadata_.bytes().size() + plane.stats_.bytes().size();
    for (const LineWriter* line : plane.lines_) {
      WireBytes header, line_header;
      header.Number(kLineId, static_cast<uint64_t>(line->id_));
      header.Bytes(kLineName, line->name_);
      header.Number(kTimestampNs, static_cast<uint64_t>(timestamp_ns_));
      if (line->number_ != 0) header.Number(kDisplayId, static_cast<uint64_t>(line->number_));
      line_header.Header(kLines, header.bytes().size() + line->bytes());
      parts.size += line_header.bytes().size() + header.bytes().size() + line->bytes();
      parts.lines.push_back(std::move(line_header));
      parts.lines.push_back(std::move(header));
    }
    parts.size += parts.header.bytes().size();
    return parts;
  }

  void PutPlane(const PlaneWriter& plane, const PlaneParts& parts) {
    WireBytes header;
    header.Header(kPlanes, parts.size);
    Put(header.bytes());
    Put(parts.header.bytes());
    for (size_t i = 0; i < plane.lines_.size(); ++i) {
      Put(parts.lines[2 * i].bytes());
      Put(parts.lines[2 * i + 1].bytes());
      for (const LineWriter::Piece& piece : plane.lines_[i]->spilled_) {
        Put({spill_.bytes_.data() + piece.offset, piece.size});
      }
      Put(plane.lines_[i]->waiting_);
    }
    Put(plane.metadata_.bytes());
    Put(plane.stats_.bytes());
  }

  void Put(std::string_view bytes) {
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }

  const Spill& spill_;
  const int64_t timestamp_ns_;
  char* at_ = nullptr;
};

Space WriteSpace(const std::vector<PlaneWriter*>& planes, const Spill& spill, int64_t timestamp_ns,
                 std::string_view hostname) {
  return SpaceWriter(spill, timestamp_ns).Write(planes, hostname);
}

}  // namespace xplane_time::kineto
