#include "bench/grow.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "xplane_time/aggregate.h"

namespace xplane_time::bench {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr int64_t kPsPerNs = 1000, kGapPs = 1'000'000;

// Tags of one byte: field number and wire type.
constexpr uint8_t kPlanesTag = 1 << 3 | 2, kLinesTag = 3 << 3 | 2, kEventsTag = 4 << 3 | 2;

// A message whose long repeated field is written separately: the bytes before and after it.
struct Around {
  std::string head, tail;
};

// The stats of a plane that each repetition changes, by metadata id; 0: the plane has none.
struct MovingStats {
  int64_t id = 0;               // correlation ids
  int64_t device_start_ps = 0;  // on the device's own clock
};

struct LineParts {
  Around around;
  MovingStats stats;
  google::protobuf::RepeatedPtrField<proto::XEvent> events;
  uint64_t bytes = 0;  // size of the message after growing
};

struct PlaneParts {
  Around around;
  std::vector<LineParts> lines;
  uint64_t bytes = 0;
};

struct Growth {
  int64_t times = 1;
  int64_t span_ps = 0;
  uint64_t id_span = 0;
};

std::string Serialized(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps by key
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

uint64_t VarintBytes(uint64_t value) { return CodedOutputStream::VarintSize64(value); }

// Size of a field with a tag, a length and this content.
uint64_t FieldBytes(uint64_t content) { return 1 + VarintBytes(content) + content; }

uint64_t AroundBytes(const Around& around) { return around.head.size() + around.tail.size(); }

bool Moves(const proto::XEvent& event) {
  return event.data_case() != proto::XEvent::kNumOccurrences;
}

// The metadata id of a stat in a plane, or 0.
int64_t StatNamed(std::string_view name, const proto::XPlane& plane) {
  for (const auto& [id, metadata] : plane.stat_metadata()) {
    if (metadata.name() == name) return id;
  }
  return 0;
}

MovingStats MovingStatsOf(const proto::XPlane& plane) {
  return {StatNamed("correlation_id", plane), StatNamed("device_offset_ps", plane)};
}

// The stat of an event, if it is a uint64; else null.
proto::XStat* FindNumber(int64_t stat_id, proto::XEvent* event) {
  for (proto::XStat& stat : *event->mutable_stats()) {
    const bool found = stat_id != 0 && stat.metadata_id() == stat_id;
    if (found && stat.value_case() == proto::XStat::kUint64Value) return &stat;
  }
  return nullptr;
}

// The largest correlation id plus 1.
uint64_t IdSpan(proto::XSpace* space) {
  uint64_t most = 0;
  for (proto::XPlane& plane : *space->mutable_planes()) {
    const int64_t id_stat = MovingStatsOf(plane).id;
    if (id_stat == 0) continue;
    for (proto::XLine& line : *plane.mutable_lines()) {
      for (proto::XEvent& event : *line.mutable_events()) {
        const proto::XStat* id = FindNumber(id_stat, &event);
        if (id != nullptr) most = std::max(most, id->uint64_value());
      }
    }
  }
  return most + 1;
}

absl::StatusOr<Growth> Plan(proto::XSpace* space, int64_t times) {
  bool any = false;
  Int128 first_ps = 0, last_ps = 0, furthest_ps = 0;
  for (const proto::XPlane& plane : space->planes()) {
    for (const proto::XLine& line : plane.lines()) {
      for (const proto::XEvent& event : line.events()) {
        const Int128 start_ps = Int128{line.timestamp_ns()} * kPsPerNs + event.offset_ps();
        const Int128 end_ps = start_ps + event.duration_ps();
        first_ps = any ? std::min(first_ps, start_ps) : start_ps;
        last_ps = any ? std::max(last_ps, end_ps) : end_ps;
        furthest_ps = std::max(furthest_ps, Int128{event.offset_ps()});
        any = true;
      }
    }
  }
  if (!any) return absl::InvalidArgumentError("no events");
  const Int128 span_ps = last_ps - first_ps + kGapPs;
  constexpr Int128 kMost = std::numeric_limits<int64_t>::max();
  if (span_ps > kMost || furthest_ps + span_ps * (times - 1) > kMost) {
    return absl::InvalidArgumentError("so long a trace has times beyond int64 picoseconds");
  }
  const uint64_t id_span = IdSpan(space);
  if (id_span > std::numeric_limits<uint64_t>::max() / static_cast<uint64_t>(times)) {
    return absl::InvalidArgumentError("so long a trace has correlation ids beyond 64 bits");
  }
  return Growth{times, static_cast<int64_t>(span_ps), id_span};
}

// Moves an event to the next repetition.
void Advance(const Growth& growth, const MovingStats& stats, proto::XEvent* event) {
  if (Moves(*event)) event->set_offset_ps(event->offset_ps() + growth.span_ps);
  const auto move = [event](int64_t stat_id, uint64_t by) {
    proto::XStat* stat = FindNumber(stat_id, event);
    if (stat != nullptr) stat->set_uint64_value(stat->uint64_value() + by);
  };
  move(stats.id, growth.id_span);
  move(stats.device_start_ps, static_cast<uint64_t>(growth.span_ps));
}

// Size of all repetitions of an event, with tags and lengths.
uint64_t EventsBytes(proto::XEvent event, const Growth& growth, const MovingStats& stats) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < growth.times; ++i) {
    if (i > 0) Advance(growth, stats, &event);
    bytes += FieldBytes(event.ByteSizeLong());
  }
  return bytes;
}

LineParts Split(proto::XLine* line, const Growth& growth, const MovingStats& stats) {
  LineParts parts;
  parts.stats = stats;
  parts.events.Swap(line->mutable_events());
  proto::XLine head;
  head.set_id(line->id());
  head.set_name(line->name());
  head.set_timestamp_ns(line->timestamp_ns());
  line->clear_id();
  line->clear_name();
  line->clear_timestamp_ns();
  parts.around = {Serialized(head), Serialized(*line)};
  parts.bytes = AroundBytes(parts.around);
  for (const proto::XEvent& event : parts.events) {
    parts.bytes += EventsBytes(event, growth, stats);
  }
  return parts;
}

PlaneParts Split(proto::XPlane* plane, const Growth& growth) {
  PlaneParts parts;
  const MovingStats stats = MovingStatsOf(*plane);
  for (proto::XLine& line : *plane->mutable_lines()) {
    parts.lines.push_back(Split(&line, growth, stats));
  }
  plane->clear_lines();
  proto::XPlane head;
  head.set_id(plane->id());
  head.set_name(plane->name());
  plane->clear_id();
  plane->clear_name();
  parts.around = {Serialized(head), Serialized(*plane)};
  parts.bytes = AroundBytes(parts.around);
  for (const LineParts& line : parts.lines) parts.bytes += FieldBytes(line.bytes);
  return parts;
}

void WriteHeader(uint8_t tag, uint64_t bytes, CodedOutputStream* out) {
  out->WriteTag(tag);
  out->WriteVarint64(bytes);
}

void WriteEvents(const Growth& growth, LineParts* line, CodedOutputStream* out) {
  for (int64_t i = 0; i < growth.times && !out->HadError(); ++i) {
    for (proto::XEvent& event : line->events) {
      if (i > 0) Advance(growth, line->stats, &event);
      WriteHeader(kEventsTag, event.ByteSizeLong(), out);
      event.SerializeWithCachedSizes(out);
    }
  }
}

void WritePlane(const Growth& growth, PlaneParts* plane, CodedOutputStream* out) {
  WriteHeader(kPlanesTag, plane->bytes, out);
  out->WriteString(plane->around.head);
  for (LineParts& line : plane->lines) {
    WriteHeader(kLinesTag, line.bytes, out);
    out->WriteString(line.around.head);
    WriteEvents(growth, &line, out);
    out->WriteString(line.around.tail);
  }
  out->WriteString(plane->around.tail);
}

}  // namespace

absl::StatusOr<Grown> WriteGrown(proto::XSpace* space, int64_t times,
                                 google::protobuf::io::ZeroCopyOutputStream* out) {
  const absl::StatusOr<Growth> growth = Plan(space, times);
  if (!growth.ok()) return growth.status();
  std::vector<PlaneParts> planes;
  for (proto::XPlane& plane : *space->mutable_planes()) planes.push_back(Split(&plane, *growth));
  space->clear_planes();
  const std::string tail = Serialized(*space);

  Grown grown = {.bytes = tail.size()};
  CodedOutputStream coded(out);  // its count of bytes is an int, so it is not used
  for (PlaneParts& plane : planes) {
    grown.bytes += FieldBytes(plane.bytes);
    for (const LineParts& line : plane.lines) {
      grown.events += static_cast<uint64_t>(line.events.size()) * static_cast<uint64_t>(times);
    }
    WritePlane(*growth, &plane, &coded);
  }
  coded.WriteString(tail);
  coded.Trim();
  if (coded.HadError()) return absl::UnavailableError("cannot write");
  return grown;
}

}  // namespace xplane_time::bench
