#include "tests/perfetto/decoded_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/perfetto/perfetto_trace.pb.h"

namespace xplane_time::testing {
namespace {

using perfetto_test::TracePacket, perfetto_test::TrackDescriptor;

constexpr uint32_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
constexpr uint32_t kCleared = 1, kNeeds = 2, kBoottime = 6;
constexpr size_t kMostLevels = 512;

struct Event {
  int64_t ns = 0;
  uint64_t track = 0;
  uint32_t type = 0;
  double value = 0;
  DecodedSlice slice = {};
};

// What a packet sequence has told so far.
struct Sequence {
  bool is_cleared = false;
  uint64_t track = 0;
  uint32_t clock = 0;
  int64_t ns = 0;
  std::map<uint64_t, std::string> names, annotations;
};

class Decoder {
 public:
  void Take(const TracePacket& packet) {
    if (packet.has_track_descriptor()) return Describe(packet.track_descriptor());
    Sequence& sequence = sequences_[packet.trusted_packet_sequence_id()];
    ASSERT_GT(packet.trusted_packet_sequence_id(), 1U);
    if ((packet.sequence_flags() & kCleared) != 0) Clear(packet, &sequence);
    ASSERT_TRUE(sequence.is_cleared);
    for (const auto& each : packet.interned_data().event_names()) {
      ASSERT_GT(each.iid(), 0U);
      ASSERT_TRUE(sequence.names.emplace(each.iid(), each.name()).second);
    }
    for (const auto& each : packet.interned_data().debug_annotation_names()) {
      sequence.annotations[each.iid()] = each.name();
    }
    if (packet.has_track_event()) Add(packet, &sequence);
  }

  std::map<uint64_t, DecodedTrack> Finish() && {
    std::ranges::stable_sort(events_, {}, &Event::ns);
    std::map<uint64_t, std::vector<size_t>> open;
    for (const Event& event : events_) {
      DecodedTrack& track = tracks_.at(event.track);
      std::vector<size_t>& stack = open[event.track];
      if (event.type == kCounter) {
        EXPECT_FALSE(track.unit.empty());
        track.values.push_back({event.ns, event.value});
      } else if (event.type == kSliceBegin) {
        EXPECT_TRUE(track.unit.empty());
        EXPECT_LT(stack.size(), kMostLevels);
        stack.push_back(track.slices.size());
        track.slices.push_back(event.slice);
      } else {
        EXPECT_FALSE(stack.empty());
        End(event.ns, &track.slices[stack.back()]);
        stack.pop_back();
      }
    }
    for (const auto& [track, stack] : open) EXPECT_TRUE(stack.empty()) << track;
    return std::move(tracks_);
  }

 private:
  void Describe(const TrackDescriptor& described) {
    EXPECT_GT(described.uuid(), 0U);
    EXPECT_EQ(described.has_parent_uuid(), tracks_.contains(described.parent_uuid()));
    EXPECT_FALSE(tracks_.contains(described.uuid()));
    EXPECT_EQ(described.child_ordering(), 3U);  // EXPLICIT
    EXPECT_EQ(described.sibling_merge_behavior(), described.has_sibling_merge_key_int() ? 3U : 2U);
    DecodedTrack& track = tracks_[described.uuid()];
    track.name = described.name();
    track.description = described.description();
    track.unit = described.counter().unit_name();
    track.parent = described.parent_uuid();
    track.drawn_as_one = described.sibling_merge_key_int();
    track.rank = described.sibling_order_rank();
  }

  void Clear(const TracePacket& packet, Sequence* sequence) {
    ASSERT_FALSE(sequence->is_cleared);
    EXPECT_TRUE(packet.first_packet_on_sequence() && packet.previous_packet_dropped());
    sequence->is_cleared = true;
    sequence->track = packet.trace_packet_defaults().track_event_defaults().track_uuid();
    sequence->clock = packet.trace_packet_defaults().timestamp_clock_id();
    const auto& clocks = packet.clock_snapshot().clocks();
    ASSERT_EQ(clocks.size(), 2);
    EXPECT_EQ(clocks[0].clock_id(), kBoottime);
    EXPECT_EQ(clocks[1].clock_id(), sequence->clock);
    EXPECT_TRUE(sequence->clock >= 64 && sequence->clock < 128 && clocks[1].is_incremental());
    EXPECT_TRUE(clocks[0].has_timestamp() && clocks[1].has_timestamp());
    sequence->ns = static_cast<int64_t>(clocks[0].timestamp());
  }

  void Add(const TracePacket& packet, Sequence* sequence) {
    EXPECT_EQ(packet.sequence_flags() & kNeeds, kNeeds);
    EXPECT_TRUE(packet.has_timestamp());
    sequence->ns += static_cast<int64_t>(packet.timestamp());
    EXPECT_GE(sequence->ns, 0);
    Event& event = events_.emplace_back();
    event.ns = sequence->ns;
    event.track = sequence->track;
    event.type = packet.track_event().type();
    event.value = packet.track_event().double_counter_value();
    if (event.type != kSliceBegin) return;
    event.slice.start_ns = event.ns;
    event.slice.name = sequence->names.at(packet.track_event().name_iid());
    for (const auto& each : packet.track_event().debug_annotations()) {
      const std::string& name = sequence->annotations.at(each.name_iid());
      const bool of_start = name == "start_ps";
      EXPECT_TRUE(of_start || name == "duration_ps") << name;
      (of_start ? event.slice.says_start : event.slice.says_duration) = true;
      (of_start ? event.slice.start_ps : event.slice.duration_ps) = each.int_value();
    }
  }

  static void End(int64_t ns, DecodedSlice* slice) {
    slice->end_ns = ns;
    if (!slice->says_start) slice->start_ps = slice->start_ns * 1000;
    if (!slice->says_duration) slice->duration_ps = (ns - slice->start_ns) * 1000;
  }

  std::map<uint32_t, Sequence> sequences_;
  std::map<uint64_t, DecodedTrack> tracks_;
  std::vector<Event> events_;
};

}  // namespace

std::map<uint64_t, DecodedTrack> DecodeTrace(std::string_view bytes) {
  perfetto_test::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(std::string(bytes)));
  Decoder decoder;
  for (const TracePacket& packet : trace.packet()) decoder.Take(packet);
  return std::move(decoder).Finish();
}

std::string PathOf(const std::map<uint64_t, DecodedTrack>& tracks, uint64_t uuid) {
  const DecodedTrack& track = tracks.at(uuid);
  return track.parent == 0 ? track.name : PathOf(tracks, track.parent) + "/" + track.name;
}

}  // namespace xplane_time::testing
