// Perfetto traces, read back by another decoder, against the timeline and the power that they are
// of.
#include "perfetto/timeline_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "perfetto/nesting.h"
#include "tests/perfetto/decoded_trace.h"
#include "tests/support/random.h"

namespace xplane_time::perfetto {
namespace {

using insight::Timeline, insight::TimelineLane;
using testing::DecodedTrack, testing::DecodedSlice, testing::Random;
using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::SizeIs;
using Of = TimelineLane::Of;
using Event = std::tuple<int64_t, int64_t, std::string>;  // start and duration in ps, name

std::vector<InputRow> Inputs(const std::vector<std::string>& paths) {
  std::vector<InputRow> inputs;
  for (const std::string& each : paths) inputs.emplace_back().path = each;
  return inputs;
}

std::string BytesOf(const Timeline& timeline, const EnergyReport* energy,
                    const std::vector<std::string>& inputs) {
  std::string bytes;
  const absl::Status written =
      WriteTrace(timeline, energy, Inputs(inputs), [&](std::string_view part) {
        EXPECT_LT(part.size(), 1U << 20);  // it is not held as a whole
        bytes.append(part);
        return absl::OkStatus();
      });
  EXPECT_TRUE(written.ok()) << written;
  return bytes;
}

std::map<uint64_t, DecodedTrack> TracksIn(const Timeline& timeline,
                                          const EnergyReport* energy = nullptr,
                                          const std::vector<std::string>& inputs = {"t"}) {
  return testing::DecodeTrace(BytesOf(timeline, energy, inputs));
}

TimelineLane LaneOf(int64_t device, Of of, const std::string& line = "") {
  TimelineLane lane;
  lane.device.plane = absl::StrCat("/device:GPU:", device);
  lane.device.ordinal = device;
  lane.of = of;
  lane.line = line;
  return lane;
}

const DecodedTrack& At(const std::map<uint64_t, DecodedTrack>& tracks, const std::string& path) {
  for (const auto& [uuid, track] : tracks) {
    if (PathOf(tracks, uuid) == path) return track;
  }
  ADD_FAILURE() << "no track " << path;
  static const DecodedTrack none;
  return none;
}

Event EventOf(const DecodedSlice& slice) { return {slice.start_ps, slice.duration_ps, slice.name}; }

TEST(TimelineTrace, HasDevicesWithStepsRunsAndLinesInThisOrder) {
  Timeline timeline{.names = {"0", "jit_f", "a"}};
  timeline.lanes = {LaneOf(0, Of::kSteps), LaneOf(0, Of::kRuns),
                    LaneOf(0, Of::kExecutions, "Stream #1"), LaneOf(1, Of::kRuns)};
  timeline.lanes[0].Add(5000, 90'000, 0);
  timeline.lanes[1].Add(5000, 80'000, 1);
  timeline.lanes[2].Add(5000, 7000, 2);
  timeline.lanes[2].Add(12'000, 0, 2);
  timeline.lanes[3].Add(1000, 2000, 1);
  const auto tracks = TracksIn(timeline);
  std::vector<std::pair<std::string, int32_t>> ranks;
  for (const auto& [uuid, track] : tracks) ranks.emplace_back(PathOf(tracks, uuid), track.rank);
  using Rank = std::pair<std::string, int32_t>;
  EXPECT_THAT(ranks, ElementsAre(Rank("t", 0), Rank("t/GPU:0", 0), Rank("t/GPU:0/steps", 1),
                                 Rank("t/GPU:0/runs", 2), Rank("t/GPU:0/Stream #1", 3),
                                 Rank("t/GPU:1", 1), Rank("t/GPU:1/runs", 1)));
  const std::vector<DecodedSlice>& slices = At(tracks, "t/GPU:0/Stream #1").slices;
  ASSERT_THAT(slices, SizeIs(2));
  EXPECT_EQ(EventOf(slices[0]), Event(5000, 7000, "a"));
  EXPECT_EQ(EventOf(slices[1]), Event(12'000, 0, "a"));
  // What is whole nanoseconds says so by itself.
  EXPECT_FALSE(slices[0].says_start || slices[0].says_duration || slices[1].says_duration);
  EXPECT_EQ(At(tracks, "t/GPU:0").description, "Plane /device:GPU:0. Times use the profile clock.");
}

TEST(TimelineTrace, KeepsPicosecondsBesideRoundedNanoseconds) {
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kExecutions, "s")};
  TimelineLane& lane = timeline.lanes[0];
  lane.Add(1499, 1000, 0);      // from 1 to 2: the duration is as it was
  lane.Add(2500, 10'499, 0);    // from 3 to 13
  lane.Add(3000, 499, 0);       // from 3 to 3
  lane.Add(1'000'000, 999, 0);  // a whole start
  const std::vector<DecodedSlice> slices = At(TracksIn(timeline), "t/GPU:0/s").slices;
  ASSERT_THAT(slices, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(EventOf(slices[i]), Event(lane.start_ps[i], lane.duration_ps[i], "a")) << i;
  }
  EXPECT_TRUE(slices[0].start_ns == 1 && slices[0].end_ns == 2 && !slices[0].says_duration);
  EXPECT_TRUE(slices[1].start_ns == 3 && slices[1].end_ns == 13);
  EXPECT_TRUE(slices[2].start_ns == 3 && slices[2].end_ns == 3 && !slices[2].says_start);
  EXPECT_TRUE(slices[3].end_ns == 1001 && !slices[3].says_start && slices[3].says_duration);
}

TEST(TimelineTrace, MovesTimesBeforeTheBaseAndTellsThem) {
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kExecutions, "s"), LaneOf(1, Of::kExecutions, "s")};
  timeline.lanes[0].Add(-7'000'400, 1000, 0);
  timeline.lanes[1].Add(2000, 1000, 0);
  const auto tracks = TracksIn(timeline);
  EXPECT_EQ(At(tracks, "t/GPU:0/s").slices[0].start_ns, 0);
  EXPECT_EQ(At(tracks, "t/GPU:1/s").slices[0].start_ns, 7002);
  EXPECT_EQ(At(tracks, "t/GPU:0/s").slices[0].start_ps, -7'000'400);
  EXPECT_EQ(At(tracks, "t/GPU:1/s").slices[0].start_ps, 2000);
}

TEST(TimelineTrace, HoldsTheEdgesOfTheAxis) {
  constexpr int64_t kEdgePs = int64_t{1} << 61;
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kExecutions, "s")};
  timeline.lanes[0].Add(-kEdgePs, 2 * kEdgePs, 0);
  timeline.lanes[0].Add(kEdgePs - 1, 1, 0);
  const std::vector<DecodedSlice> slices = At(TracksIn(timeline), "t/GPU:0/s").slices;
  ASSERT_THAT(slices, SizeIs(2));
  EXPECT_EQ(EventOf(slices[0]), Event(-kEdgePs, 2 * kEdgePs, "a"));
  EXPECT_EQ(EventOf(slices[1]), Event(kEdgePs - 1, 1, "a"));
}

TEST(TimelineTrace, ShowsBytesThatAreNoTextAndTellsLinesOfOneNameApart) {
  Timeline timeline{.names = {"a\xff", std::string(300, 'n')}};
  timeline.lanes = {LaneOf(0, Of::kExecutions, "s\xfe"), LaneOf(0, Of::kExecutions, "s\xfe")};
  timeline.lanes[0].Add(0, 10'000, 0);
  timeline.lanes[0].Add(5000, 10'000, 1);  // overlaps in part
  timeline.lanes[1].Add(1000, 1000, 0);
  const auto tracks = TracksIn(timeline, nullptr, {"\xfd"});
  std::vector<std::pair<std::string, uint64_t>> lanes;
  for (const auto& [uuid, track] : tracks) {
    if (!track.slices.empty()) lanes.emplace_back(PathOf(tracks, uuid), track.drawn_as_one);
  }
  const std::string path = "\\xfd/GPU:0/s\\xfe";
  using Lane = std::pair<std::string, uint64_t>;
  EXPECT_THAT(lanes, ElementsAre(Lane(path, 1), Lane(path, 1), Lane(path, 0)));
  EXPECT_EQ(At(tracks, path).slices[0].name, "a\\xff");
}

TEST(TimelineTrace, GivesEachInputAGroup) {
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kRuns), LaneOf(0, Of::kRuns)};
  timeline.lanes[1].device.input = 1;
  timeline.lanes[0].Add(1000, 1000, 0);
  timeline.lanes[1].Add(3000, 1000, 0);
  const auto tracks = TracksIn(timeline, nullptr, {"one.pb", "two.pb"});
  EXPECT_EQ(At(tracks, "one.pb/GPU:0/runs").slices[0].start_ns, 1);
  EXPECT_EQ(At(tracks, "two.pb/GPU:0/runs").slices[0].start_ns, 3);
}

// A file of no bytes is no trace.
TEST(TimelineTrace, OfNothingHasTheInputs) {
  const auto tracks = TracksIn({});
  ASSERT_THAT(tracks, SizeIs(1));
  EXPECT_EQ(tracks.begin()->second.name, "t");
}

TEST(TimelineTrace, HasTenThousandDevices) {
  constexpr int64_t kDevices = 10'000;
  Timeline timeline{.names = {"a"}};
  for (int64_t i = 0; i < kDevices; ++i) {
    timeline.lanes.push_back(LaneOf(i, Of::kRuns));
    timeline.lanes.back().Add(i * 10, 1000, 0);
  }
  const auto tracks = TracksIn(timeline);
  EXPECT_THAT(tracks, SizeIs(1 + 2 * kDevices));
  EXPECT_EQ(At(tracks, "t/GPU:9999/runs").slices[0].start_ps, 99'990);
}

TEST(TimelineTrace, EndsWithTheErrorOfTheSink) {
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kRuns)};
  for (int64_t i = 0; i < 100'000; ++i) timeline.lanes[0].Add(i * 1000, 1000, 0);
  int calls = 0;
  const absl::Status written = WriteTrace(timeline, nullptr, Inputs({"t"}), [&](std::string_view) {
    ++calls;
    return absl::InternalError("the disk is full");
  });
  EXPECT_EQ(written, absl::InternalError("the disk is full"));
  EXPECT_EQ(calls, 1);
}

// Some lanes, with nesting, overlaps in part, what starts together, and no length.
Timeline RandomTimeline(Random* random) {
  Timeline timeline{.names = {"a", "b", "c", "d"}};
  const int64_t step_ps = random->OneIn(2) ? 1 : 1000;
  for (int64_t device = 0; device < 1 + random->Below(3); ++device) {
    for (int64_t lane = 0; lane < 1 + random->Below(4); ++lane) {
      TimelineLane& made =
          timeline.lanes.emplace_back(LaneOf(device, Of::kExecutions, absl::StrCat("s", lane)));
      std::vector<std::pair<int64_t, int64_t>> events;
      for (int64_t i = 0; i < 1 + random->Below(60); ++i) {
        const int64_t start = random->Below(40'000) - (random->OneIn(90) ? 50'000 : 0);
        events.emplace_back(start * step_ps, -random->Below(1 + random->Below(20'000)) * step_ps);
      }
      std::ranges::sort(events);
      for (const auto& [start, minus] : events) {
        made.Add(start, -minus, static_cast<uint32_t>(random->Below(4)));
      }
    }
  }
  return timeline;
}

TEST(TimelineTrace, OfRandomTimelinesHasEveryEvent) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Timeline timeline = RandomTimeline(&random);
    const auto tracks = TracksIn(timeline);
    std::map<std::string, std::vector<Event>> expected, found;
    for (const TimelineLane& lane : timeline.lanes) {
      std::vector<Event>& events = expected["t/" + DeviceName(lane.device) + "/" + lane.line];
      for (size_t i = 0; i < lane.size(); ++i) {
        events.emplace_back(lane.start_ps[i], lane.duration_ps[i], timeline.names[lane.name[i]]);
      }
    }
    for (const auto& [uuid, track] : tracks) {
      for (const DecodedSlice& slice : track.slices) {
        found[PathOf(tracks, uuid)].push_back(EventOf(slice));
        EXPECT_LE(std::abs((slice.end_ns - slice.start_ns) * 1000 - slice.duration_ps), 1000);
      }
    }
    for (auto* each : {&expected, &found}) {
      for (auto& [path, events] : *each) std::ranges::sort(events);
    }
    EXPECT_EQ(found, expected);
  }
}

// ---- Power

EnergyReport PowerOf(std::vector<EnergyTimeline::Window> windows) {
  EnergyReport report;
  report.capture.emplace();
  EnergyDevice& device = report.devices.emplace_back();
  device.device = LaneOf(0, Of::kRuns).device;
  device.sensor = "nvml GPU-1 gpu energy_uj";
  EnergyTimeline& timeline = report.timelines.emplace_back();
  timeline.device = device.device;
  timeline.start_ps = 1'000'000'000;
  timeline.capture_s = 10;
  timeline.windows = std::move(windows);
  return report;
}

TEST(TimelineTrace, HasPowerAsCountersAndItsGapsAsSlices) {
  // Out of order, one that is no number, two gaps between, and one at each end.
  const EnergyReport power = PowerOf({{4, 5, 200, 190},
                                      {1, 2, 100, 90},
                                      {2, 3, 150, 160},
                                      {3, 4, std::numeric_limits<double>::quiet_NaN(), 1},
                                      {5 + 1e-8, 6, 250, 240},
                                      {8, 9, 0, 0}});
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kRuns)};
  timeline.lanes[0].Add(5000, 1000, 0);
  const auto tracks = TracksIn(timeline, &power);
  const DecodedTrack &measured = At(tracks, "t/GPU:0/power"),
                     &explained = At(tracks, "t/GPU:0/power explained"),
                     &unknown = At(tracks, "t/GPU:0/power unknown");
  EXPECT_EQ(measured.unit, "W");
  EXPECT_EQ(explained.unit, "W");
  constexpr int64_t kStartMs = 1;
  std::vector<std::tuple<int64_t, double, double>> values;  // ms, watts
  for (size_t i = 0; i < measured.values.size(); ++i) {
    EXPECT_EQ(measured.values[i].ns, explained.values.at(i).ns);
    values.emplace_back(measured.values[i].ns / 1'000'000 - kStartMs, measured.values[i].value,
                        explained.values[i].value);
  }
  using Value = std::tuple<int64_t, double, double>;
  EXPECT_THAT(values, ElementsAre(Value(1000, 100, 90), Value(2000, 150, 160),
                                  Value(4000, 200, 190), Value(5000, 250, 240), Value(8000, 0, 0)));
  std::vector<std::pair<int64_t, int64_t>> gaps;
  for (const DecodedSlice& each : unknown.slices) {
    EXPECT_EQ(each.name, "power unknown");
    gaps.emplace_back(each.start_ns / 1'000'000 - kStartMs, each.end_ns / 1'000'000 - kStartMs);
  }
  using Gap = std::pair<int64_t, int64_t>;
  EXPECT_THAT(gaps, ElementsAre(Gap(0, 1000), Gap(3000, 4000), Gap(6000, 8000), Gap(9000, 10'000)));
  EXPECT_THAT(At(tracks, "t/GPU:0").description,
              HasSubstr("Power of nvml GPU-1 gpu energy_uj, on the profile clock."));
}

TEST(TimelineTrace, SaysWhyPowerIsUnknown) {
  EnergyReport none = PowerOf({});
  none.timelines.clear();
  none.devices[0].reason = "no_sensor";
  none.devices[0].message = "the log has no sensor of it";
  const auto tracks = TracksIn({}, &none);
  EXPECT_THAT(At(tracks, "t/GPU:0").description,
              HasSubstr("Power unknown: the log has no sensor of it."));
  EXPECT_THAT(tracks, SizeIs(2));
  none.devices[0].reason = "";
  EXPECT_THAT(At(TracksIn({}, &none), "t/GPU:0").description,
              HasSubstr("Power was stated, not measured, so it has no curve."));
}

TEST(TimelineTrace, OfMarkedLayersSaysWhatTimesCountFrom) {
  EnergyReport power = PowerOf({{0, 10, 100, 100}});
  power.capture.reset();
  power.timelines[0].start_ps = 0;
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kExecutions, "layers")};
  timeline.lanes[0].Add(0, 1000, 0);
  EXPECT_EQ(At(TracksIn(timeline, &power), "t/GPU:0").description,
            "Plane /device:GPU:0. Times are relative to the first layer. Power of nvml GPU-1 gpu "
            "energy_uj.");
}

// From the first window on all is known; a capture that begins before the base moves the rest.
TEST(TimelineTrace, HasPowerOfACaptureThatBeginsBeforeTheBase) {
  EnergyReport power = PowerOf({{0, 10, 100, 100}});
  power.timelines[0].start_ps = -2'000'000;
  Timeline timeline{.names = {"a"}};
  timeline.lanes = {LaneOf(0, Of::kRuns)};
  timeline.lanes[0].Add(5000, 1000, 0);
  const auto tracks = TracksIn(timeline, &power);
  EXPECT_EQ(At(tracks, "t/GPU:0/power").values.at(0).ns, 0);
  EXPECT_EQ(At(tracks, "t/GPU:0/runs").slices.at(0).start_ns, 2005);
  EXPECT_THAT(tracks, SizeIs(5));  // none for gaps
}

}  // namespace
}  // namespace xplane_time::perfetto
