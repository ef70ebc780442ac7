#include "bench/grow.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "xplane_time/aggregate.h"

namespace xplane_time::bench {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr int64_t kPsPerNs = 1000, kGapPs = 1'000'000;

// Tags, all of one byte: field number and wire type.
constexpr uint8_t kPlanesTag = 1 << 3 | 2, kLinesTag = 3 << 3 | 2, kEventsTag = 4 << 3 | 2;

// A message whose long repeated field is written apart: what comes before and after it.
struct Around {
  std::string head, tail;
};

struct LineParts {
  Around around;
  google::protobuf::RepeatedPtrField<proto::XEvent> events;
  uint64_t bytes = 0;  // of the message, grown
};

struct PlaneParts {
  Around around;
  std::vector<LineParts> lines;
  uint64_t bytes = 0;
};

struct Growth {
  int64_t times = 1;
  int64_t span_ps = 0;
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

// Tag, length and content.
uint64_t FieldBytes(uint64_t content) { return 1 + VarintBytes(content) + content; }

uint64_t AroundBytes(const Around& around) { return around.head.size() + around.tail.size(); }

bool Moves(const proto::XEvent& event) {
  return event.data_case() != proto::XEvent::kNumOccurrences;
}

absl::StatusOr<Growth> Plan(const proto::XSpace& space, int64_t times) {
  bool any = false;
  Int128 first_ps = 0, last_ps = 0, furthest_ps = 0;
  for (const proto::XPlane& plane : space.planes()) {
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
  return Growth{times, static_cast<int64_t>(span_ps)};
}

// Of all repetitions of an event, tags and lengths included.
uint64_t EventsBytes(const proto::XEvent& event, const Growth& growth) {
  const uint64_t once = event.ByteSizeLong();
  if (!Moves(event)) return static_cast<uint64_t>(growth.times) * FieldBytes(once);
  const auto offset_bytes = [](int64_t offset_ps) {
    return 1 + VarintBytes(static_cast<uint64_t>(offset_ps));
  };
  const uint64_t rest = event.has_offset_ps() ? once - offset_bytes(event.offset_ps()) : once;
  uint64_t bytes = FieldBytes(once);
  for (int64_t i = 1; i < growth.times; ++i) {
    bytes += FieldBytes(rest + offset_bytes(event.offset_ps() + i * growth.span_ps));
  }
  return bytes;
}

LineParts Split(proto::XLine* line, const Growth& growth) {
  LineParts parts;
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
  for (const proto::XEvent& event : parts.events) parts.bytes += EventsBytes(event, growth);
  return parts;
}

PlaneParts Split(proto::XPlane* plane, const Growth& growth) {
  PlaneParts parts;
  for (proto::XLine& line : *plane->mutable_lines()) parts.lines.push_back(Split(&line, growth));
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
      if (i > 0 && Moves(event)) event.set_offset_ps(event.offset_ps() + growth.span_ps);
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
  const absl::StatusOr<Growth> growth = Plan(*space, times);
  if (!growth.ok()) return growth.status();
  std::vector<PlaneParts> planes;
  for (proto::XPlane& plane : *space->mutable_planes()) planes.push_back(Split(&plane, *growth));
  space->clear_planes();
  const std::string tail = Serialized(*space);

  Grown grown = {.bytes = tail.size()};
  CodedOutputStream coded(out);  // its own count of bytes is an int: never asked for
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
