// What a page carries of a timeline, against the lanes that it was made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "output/page/timeline_data.h"
#include "tests/support/random.h"

namespace xplane_time::output {
namespace {

using insight::Timeline;
using insight::TimelineLane;
using nlohmann::json;
using testing::Random;

TimelineLane Lane(int64_t ordinal, std::string line) {
  TimelineLane lane;
  lane.device.plane = "/device:GPU:" + std::to_string(ordinal);
  lane.device.ordinal = ordinal;
  lane.line = std::move(line);
  return lane;
}

// `scale`: all times are multiples of it.
Timeline RandomTimeline(Random* random, size_t lanes, size_t events, int64_t scale) {
  Timeline timeline{{"a", "b\"\n\xff", "c"}};
  for (size_t i = 0; i < lanes; ++i) {
    TimelineLane lane = Lane(static_cast<int64_t>(i), "Stream");
    int64_t at = random->Below(1000) - 500;
    for (size_t k = 0; k < events; ++k) {
      const int64_t duration = random->OneIn(20) ? random->Below(5000) : random->Below(60);
      lane.Add(at * scale, duration * scale, static_cast<uint32_t>(random->Below(3)));
      at += random->Below(200);
    }
    timeline.lanes.push_back(std::move(lane));
  }
  return timeline;
}

std::vector<int64_t> RunningSum(const json& differences) {
  std::vector<int64_t> values = differences.get<std::vector<int64_t>>();
  std::partial_sum(values.begin(), values.end(), values.begin());
  return values;
}

// The executions that are listed are those of so many ticks, exactly.
void CheckEvents(const TimelineLane& lane, const json& data, int64_t tick_ps) {
  const json& events = data.at("events");
  const int64_t least = events.at("least");
  const std::vector<int64_t> starts = RunningSum(events.at("start"));
  size_t listed = 0;
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane.duration_ps[i] < least * tick_ps) continue;
    ASSERT_LT(listed, starts.size());
    ASSERT_EQ(starts[listed] * tick_ps, lane.start_ps[i]);
    ASSERT_EQ(events.at("duration")[listed].get<int64_t>() * tick_ps, lane.duration_ps[i]);
    ASSERT_EQ(events.at("name")[listed], lane.name[i]);
    ++listed;
  }
  EXPECT_EQ(listed, starts.size());
  EXPECT_EQ(data.at("count"), lane.size());
  EXPECT_EQ(least == 0, !data.contains("bins"));
}

// Each bin has what starts in it: the count, the place of the first, the end of the last, how long
// nothing ran, and the name of the longest.
void CheckBins(const TimelineLane& lane, const json& data, int64_t tick_ps) {
  const json& bins = data.at("bins");
  const int64_t width = bins.at("width"), grain = bins.at("grain");
  const std::vector<int64_t> indices = RunningSum(bins.at("index"));
  size_t event = 0;
  for (size_t bin = 0; bin < indices.size(); ++bin) {
    ASSERT_TRUE(bin == 0 || indices[bin] > indices[bin - 1]);
    const int64_t begin = indices[bin] * width, more = bins.at("more")[bin];
    const int64_t unit = more == 0 ? 1 : grain;
    int64_t count = 0, end = 0, longest = -1, busy = 0, reach = std::numeric_limits<int64_t>::min();
    const int64_t first = lane.start_ps[event] / tick_ps;
    std::vector<uint32_t> longest_names;
    for (; event < lane.size() && lane.start_ps[event] / tick_ps < begin + width; ++event) {
      const int64_t start = lane.start_ps[event] / tick_ps,
                    ticks = lane.duration_ps[event] / tick_ps;
      ASSERT_GE(start, begin);
      busy += std::max<int64_t>(0, start + ticks - std::max(start, reach));
      reach = std::max(reach, start + ticks);
      end = count == 0 ? start + ticks : std::max(end, start + ticks);
      if (ticks > longest) longest_names.clear();
      if (ticks >= longest) longest_names.push_back(lane.name[event]);
      longest = std::max(longest, ticks);
      ++count;
    }
    ASSERT_EQ(count, more + 1);
    ASSERT_EQ(bins.at("first")[bin], (first - begin) / unit);
    ASSERT_EQ(bins.at("span")[bin], (end - first + unit - 1) / unit);
    ASSERT_EQ(bins.at("idle")[bin], (end - first - busy + unit - 1) / unit);
    ASSERT_EQ(std::ranges::count(longest_names, bins.at("name")[bin].get<uint32_t>()) > 0, true);
  }
  EXPECT_EQ(event, lane.size());
}

void Check(const Timeline& timeline) {
  const json data = json::parse(TimelineData(timeline));
  const int64_t tick_ps = data.at("tick_ps");
  EXPECT_EQ(data.at("rounded"), false);
  ASSERT_EQ(data.at("lanes").size(), timeline.lanes.size());
  int64_t first_ps = std::numeric_limits<int64_t>::max(), last_ps = 0;
  for (size_t i = 0; i < timeline.lanes.size(); ++i) {
    const TimelineLane& lane = timeline.lanes[i];
    CheckEvents(lane, data.at("lanes")[i], tick_ps);
    if (data.at("lanes")[i].contains("bins")) CheckBins(lane, data.at("lanes")[i], tick_ps);
    for (size_t k = 0; k < lane.size(); ++k) {
      first_ps = std::min(first_ps, lane.start_ps[k]);
      last_ps = std::max(last_ps, lane.start_ps[k] + lane.duration_ps[k]);
    }
  }
  EXPECT_EQ(data.at("start").get<int64_t>() * tick_ps, first_ps);
  EXPECT_EQ(data.at("end").get<int64_t>() * tick_ps, last_ps);
}

TEST(TimelineData, ListsFewExecutionsOneByOne) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Check(RandomTimeline(&random, 1 + static_cast<size_t>(random.Below(5)),
                         1 + static_cast<size_t>(random.Below(40)), seed % 2 == 0 ? 1 : 1000));
  }
}

TEST(TimelineData, BinsManyAndListsTheLongest) {
  for (const size_t events : {20'000U, 90'000U, 500'000U}) {
    SCOPED_TRACE(events);
    Random random(1);
    Timeline timeline = RandomTimeline(&random, 4, events, 1000);
    TimelineLane few = Lane(9, "few");
    few.Add(5000, 1000, 0);
    timeline.lanes.push_back(few);
    Check(timeline);
    const std::string text = TimelineData(timeline);
    const json data = json::parse(text);
    size_t listed = 0, bins = 0;
    for (const json& lane : data.at("lanes")) {
      listed += lane.at("events").at("start").size();
      if (lane.contains("bins")) bins += lane.at("bins").at("index").size();
    }
    EXPECT_FALSE(data.at("lanes")[4].contains("bins"));
    EXPECT_LE(listed, 150'001U);
    EXPECT_GT(listed, events / 50);
    EXPECT_LE(bins, 500'000U);
    EXPECT_GT(bins, 30'000U);
  }
}

TEST(TimelineData, ManyLanesOfOneSizeAreNotAllWhole) {
  Random random(2);
  const json data = json::parse(TimelineData(RandomTimeline(&random, 290, 400, 1)));
  size_t listed = 0;
  for (const json& lane : data.at("lanes")) listed += lane.at("events").at("start").size();
  EXPECT_LE(listed, 20'000U + 290 * 400 / 20);
}

TimelineLane HostLane(const std::string& host, const std::string& thread) {
  TimelineLane lane;
  lane.device.plane = "/host:CPU";
  lane.device.host = host;
  lane.of = TimelineLane::Of::kHost;
  lane.line = thread;
  return lane;
}

TEST(TimelineData, HasALaneForEachLevelOfAThread) {
  Timeline timeline{{"k", "outer", "inner", "never drawn"}};
  timeline.lanes.push_back(Lane(0, "Stream"));
  timeline.lanes[0].Add(0, 10, 0);
  TimelineLane thread = HostLane("", "py\x1b");
  thread.Add(0, 100, 1);
  thread.Add(10, 20, 2);
  thread.Add(30, 5, 2);
  thread.Add(100, 50, 1);  // begins where the first ends
  timeline.lanes.push_back(thread);
  const json data = json::parse(TimelineData(timeline));
  ASSERT_EQ(data.at("lanes").size(), 3U);
  EXPECT_EQ(data.at("names"), json({"k", "outer", "inner", ""}));
  EXPECT_EQ(data.at("lanes")[1].at("of"), "host");
  EXPECT_EQ(data.at("lanes")[1].at("device"), "CPU");
  EXPECT_EQ(data.at("lanes")[1].at("name"), "py\\x1b");
  EXPECT_FALSE(data.at("lanes")[1].contains("level"));
  EXPECT_EQ(data.at("lanes")[1].at("events").at("start"), json({0, 20}));
  EXPECT_EQ(data.at("lanes")[2].at("level"), 1);
  EXPECT_EQ(data.at("lanes")[2].at("events").at("start"), json({2, 4}));
  EXPECT_EQ(data.at("lanes")[2].at("events").at("duration"), json({4, 1}));
  EXPECT_EQ(data.at("events_left_out"), 0);
}

// Within a level no two events overlap, and all events are in one level or counted.
TEST(TimelineData, LevelsOfRandomThreads) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TimelineLane thread = HostLane("h", "t");
    int64_t at = 0;
    for (int64_t i = 0; i < 60; ++i) {
      thread.Add(at, random.Below(random.OneIn(3) ? 200 : 10), 0);
      at += random.Below(5);
    }
    const json data = json::parse(TimelineData({{"a"}, {thread}}));
    uint64_t count = data.at("events_left_out");
    EXPECT_LE(data.at("lanes").size(), 8U);
    for (const json& lane : data.at("lanes")) {
      const std::vector<int64_t> starts = RunningSum(lane.at("events").at("start"));
      count += starts.size();
      for (size_t i = 0; i + 1 < starts.size(); ++i) {
        ASSERT_LE(starts[i] + lane.at("events").at("duration")[i].get<int64_t>(), starts[i + 1]);
      }
    }
    EXPECT_EQ(count, thread.size());
  }
}

TEST(TimelineData, HostEventsTakeNoDetailFromDevices) {
  Random random(4);
  Timeline timeline = RandomTimeline(&random, 3, 10'000, 1000);
  const json alone = json::parse(TimelineData(timeline));
  TimelineLane thread = HostLane("h", "t");
  for (int64_t i = 0; i < 1'000'000; ++i) thread.Add(i * 1000, 1000 * random.Below(2), 0);
  timeline.lanes.push_back(thread);
  const json data = json::parse(TimelineData(timeline));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(data.at("lanes")[i], alone.at("lanes")[i]);
  EXPECT_LE(data.at("lanes")[3].at("bins").at("index").size(), 120'000U);
  EXPECT_LE(data.at("lanes")[3].at("events").at("start").size(), 40'001U);
}

TEST(TimelineData, CountsThreadsThatItLeavesOut) {
  Timeline timeline{{"a"}};
  for (int host = 0; host < 20; ++host) {
    for (int thread = 0; thread < 10; ++thread) {
      timeline.lanes.push_back(HostLane("h" + std::to_string(host), "t"));
      timeline.lanes.back().Add(0, 1, 0);
    }
  }
  const json data = json::parse(TimelineData(timeline));
  EXPECT_EQ(data.at("lanes").size(), 64U);
  EXPECT_EQ(data.at("lanes_left_out"), 200 - 64);
}

TEST(TimelineData, SaysHowManyLanesItLeavesOut) {
  Random random(3);
  const json data = json::parse(TimelineData(RandomTimeline(&random, 1000, 3, 1)));
  EXPECT_EQ(data.at("lanes").size(), 300U);
  EXPECT_EQ(data.at("lanes_left_out"), 700);
}

TEST(TimelineData, RoundsWhatJavaScriptCannotHold) {
  Timeline timeline{{"a"}};
  TimelineLane lane = Lane(0, "s");
  const int64_t edge = int64_t{1} << 61;
  lane.Add(-edge, 1, 0);
  lane.Add(3, 7, 0);
  lane.Add(edge, 1, 0);
  timeline.lanes.push_back(lane);
  const json data = json::parse(TimelineData(timeline));
  EXPECT_EQ(data.at("rounded"), true);
  const int64_t tick_ps = data.at("tick_ps");
  // The page takes longer integers for texts.
  EXPECT_LT(data.at("end").get<int64_t>(), 1'000'000'000'000'000);
  EXPECT_GT(data.at("end").get<int64_t>(), 10'000'000'000'000);
  EXPECT_EQ(RunningSum(data.at("lanes")[0].at("events").at("start")).back(), edge / tick_ps);
}

TEST(TimelineData, OfNothingIsNothing) {
  EXPECT_EQ(json::parse(TimelineData({})).at("lanes").size(), 0U);
}

TEST(TimelineData, ShowsBytesThatAreNoText) {
  Timeline timeline{{"b\"\n\xff", std::string(1'000'000, 'x')}};
  TimelineLane lane = Lane(0, "s");
  lane.Add(0, 1, 0);
  timeline.lanes.push_back(lane);
  const std::string text = TimelineData(timeline);
  EXPECT_EQ(json::parse(text).at("names")[0], "b\"\\n\\xff");
  EXPECT_LT(text.size(), 1000U);
}

}  // namespace
}  // namespace xplane_time::output
