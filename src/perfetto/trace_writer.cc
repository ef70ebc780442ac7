#include "perfetto/trace_writer.h"

#include "output/text.h"

namespace xplane_time::perfetto {
namespace {

constexpr size_t kFlushBytes = 1 << 18;

// Field numbers and values, with the names of the schema.
constexpr uint32_t kPacket = 1;
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kTrustedPacketSequenceId = 10,
                   kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
                   kPreviousPacketDropped = 42, kTracePacketDefaults = 59, kTrackDescriptor = 60,
                   kFirstPacketOnSequence = 87;
constexpr uint64_t kIncrementalStateCleared = 1, kNeedsIncrementalState = 2;
namespace clock {
constexpr uint32_t kClocks = 1, kClockId = 1, kTimestamp = 2, kIsIncremental = 3;
constexpr uint64_t kBoottime = 6, kOfSequence = 64;
}  // namespace clock
namespace defaults {
constexpr uint32_t kTrackEventDefaults = 11, kTimestampClockId = 58, kTrackUuid = 11;
}  // namespace defaults
namespace descriptor {
constexpr uint32_t kUuid = 1, kName = 2, kParentUuid = 5, kCounter = 8, kChildOrdering = 11,
                   kSiblingOrderRank = 12, kDescription = 14, kSiblingMergeBehavior = 15,
                   kSiblingMergeKeyInt = 17;
constexpr uint64_t kExplicit = 3, kMergeNone = 2, kMergeByKey = 3;
constexpr uint32_t kUnitName = 6, kYAxisShareKey = 7;  // of the counter
}  // namespace descriptor
namespace event {
constexpr uint32_t kDebugAnnotations = 4, kType = 9, kNameIid = 10, kDoubleCounterValue = 44;
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
}  // namespace event
namespace annotation {
constexpr uint32_t kNameIid = 1, kIntValue = 4;
}  // namespace annotation
namespace interned {
constexpr uint32_t kEventNames = 2, kDebugAnnotationNames = 3, kIid = 1, kName = 2;
}  // namespace interned

// iids of annotations. The iid of a name is its index + 1, because 0 means that there is none.
constexpr uint64_t kStartPs = 1, kDurationPs = 2;
// 1 belongs to Perfetto's service.
constexpr uint64_t kFirstSequence = 2;

}  // namespace

TraceWriter::TraceWriter(std::span<const std::string> names, Sink sink)
    : names_(names), sink_(sink), told_in_(names.size()) {}

template <typename Fill>
void TraceWriter::AddPacket(Fill fill) {
  if (out_.bytes().size() >= kFlushBytes) Flush();
  out_.AddMessage(kPacket, fill);
}

uint64_t TraceWriter::AddTrack(const Track& track) {
  ++tracks_;
  const auto add_counter = [&] {
    out_.AddText(descriptor::kUnitName, track.unit);
    out_.AddText(descriptor::kYAxisShareKey, track.unit);
  };
  const auto describe = [&] {
    out_.AddVarint(descriptor::kUuid, tracks_);
    out_.AddText(descriptor::kName, output::ValidUtf8(track.name));
    if (track.parent != 0) out_.AddVarint(descriptor::kParentUuid, track.parent);
    if (!track.unit.empty()) out_.AddMessage(descriptor::kCounter, add_counter);
    out_.AddVarint(descriptor::kChildOrdering, descriptor::kExplicit);
    out_.AddVarint(descriptor::kSiblingOrderRank, static_cast<uint64_t>(track.rank));
    if (!track.description.empty()) {
      out_.AddText(descriptor::kDescription, output::ValidUtf8(track.description));
    }
    // By default, tracks with the same name are drawn as one, but lines may share a name.
    if (track.drawn_as_one == 0) {
      out_.AddVarint(descriptor::kSiblingMergeBehavior, descriptor::kMergeNone);
    } else {
      out_.AddVarint(descriptor::kSiblingMergeBehavior, descriptor::kMergeByKey);
      out_.AddVarint(descriptor::kSiblingMergeKeyInt, track.drawn_as_one);
    }
  };
  AddPacket([&] { out_.AddMessage(kTrackDescriptor, describe); });
  return tracks_;
}

void TraceWriter::Begin(uint64_t track) {
  sequence_ = kFirstSequence + track;
  last_ns_ = 0;
  // Both clocks are 0 at the same time.
  const auto clocks = [&] {
    for (const uint64_t id : {clock::kBoottime, clock::kOfSequence}) {
      out_.AddMessage(clock::kClocks, [&] {
        out_.AddVarint(clock::kClockId, id);
        out_.AddVarint(clock::kTimestamp, 0);
        if (id == clock::kOfSequence) out_.AddVarint(clock::kIsIncremental, 1);
      });
    }
  };
  const auto defaults = [&] {
    out_.AddMessage(defaults::kTrackEventDefaults,
                    [&] { out_.AddVarint(defaults::kTrackUuid, track); });
    out_.AddVarint(defaults::kTimestampClockId, clock::kOfSequence);
  };
  const auto name = [&](uint64_t iid, std::string_view text) {
    out_.AddMessage(interned::kDebugAnnotationNames, [&] {
      out_.AddVarint(interned::kIid, iid);
      out_.AddText(interned::kName, text);
    });
  };
  AddPacket([&] {
    out_.AddMessage(kClockSnapshot, clocks);
    out_.AddVarint(kTrustedPacketSequenceId, sequence_);
    out_.AddMessage(kInternedData, [&] {
      name(kStartPs, "start_ps");
      name(kDurationPs, "duration_ps");
    });
    out_.AddVarint(kSequenceFlags, kIncrementalStateCleared);
    out_.AddVarint(kPreviousPacketDropped, 1);
    out_.AddMessage(kTracePacketDefaults, defaults);
    out_.AddVarint(kFirstPacketOnSequence, 1);
  });
}

template <typename Fill>
void TraceWriter::AddEvent(int64_t ns, uint64_t type, Fill fill) {
  AddPacket([&] {
    out_.AddVarint(kTimestamp, static_cast<uint64_t>(ns - last_ns_));
    last_ns_ = ns;
    out_.AddVarint(kTrustedPacketSequenceId, sequence_);
    out_.AddMessage(kTrackEvent, [&] {
      out_.AddVarint(event::kType, type);
      fill();
    });
    out_.AddVarint(kSequenceFlags, kNeedsIncrementalState);
  });
}

void TraceWriter::AddExact(uint64_t name, std::optional<int64_t> ps) {
  if (!ps.has_value()) return;
  out_.AddMessage(event::kDebugAnnotations, [&] {
    out_.AddVarint(annotation::kNameIid, name);
    out_.AddVarint(annotation::kIntValue, static_cast<uint64_t>(*ps));
  });
}

void TraceWriter::TellName(uint32_t name) {
  told_in_[name] = sequence_;
  AddPacket([&] {
    out_.AddVarint(kTrustedPacketSequenceId, sequence_);
    out_.AddMessage(kInternedData, [&] {
      out_.AddMessage(interned::kEventNames, [&] {
        out_.AddVarint(interned::kIid, uint64_t{name} + 1);
        // Every track repeats the name, so it is shortened.
        constexpr size_t kMostLetters = 300;
        out_.AddText(interned::kName,
                     output::ShortenMiddle(output::ValidUtf8(names_[name]), kMostLetters, "…"));
      });
    });
    out_.AddVarint(kSequenceFlags, kNeedsIncrementalState);
  });
}

void TraceWriter::BeginSlice(const SliceBegin& slice) {
  if (told_in_[slice.name] != sequence_) TellName(slice.name);
  AddEvent(slice.ns, event::kSliceBegin, [&] {
    out_.AddVarint(event::kNameIid, uint64_t{slice.name} + 1);
    AddExact(kStartPs, slice.start_ps);
    AddExact(kDurationPs, slice.duration_ps);
  });
}

void TraceWriter::EndSlice(int64_t ns) {
  AddEvent(ns, event::kSliceEnd, [] {});
}

void TraceWriter::AddValue(int64_t ns, double value) {
  AddEvent(ns, event::kCounter, [&] { out_.AddDouble(event::kDoubleCounterValue, value); });
}

void TraceWriter::Flush() {
  if (status_.ok()) status_ = sink_(out_.bytes());
  out_.Clear();
}

absl::Status TraceWriter::Finish() {
  Flush();
  return status_;
}

}  // namespace xplane_time::perfetto
