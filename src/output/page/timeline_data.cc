#include "output/page/timeline_data.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "json/json.h"
#include "output/view.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using insight::Timeline;
using insight::TimelineLane;

constexpr size_t kMostLanes = 300;    // of devices; a page draws no more
constexpr size_t kMaxHostLanes = 64;  // levels of threads
constexpr size_t kMaxThreads = 8;     // of one host
constexpr size_t kMaxLevels = 8;      // of a thread: events within events
// Longer numbers are text in the page, as doubles do not hold all of them.
constexpr int64_t kExact = 1'000'000'000'000'000;
constexpr int64_t kGrains = 64;  // of a bin: finer than a pixel

// The level of detail of lanes with `all` executions together.
struct Budget {
  size_t all_listed;  // of so many executions each is listed
  size_t max_listed;  // else the most that are listed one by one
  size_t max_bins;    // and the most bins
};
Budget DeviceBudget(size_t all) {
  return {60'000, std::min<size_t>(150'000, 10'000 + all / 20),
          std::min<size_t>(500'000, 30'000 + all / 5)};
}
// Host events have a separate budget, so that they take no detail from the devices.
Budget HostBudget(size_t all) {
  return {30'000, std::min<size_t>(40'000, 10'000 + all / 40),
          std::min<size_t>(120'000, 15'000 + all / 10)};
}

// Times as whole ticks.
struct Axis {
  int64_t tick_ps = 0;
  bool rounded = false;  // else each time is so many ticks exactly
  int64_t first = 0, last = 0;
};

int64_t CommonTick(std::span<const TimelineLane> lanes) {
  int64_t tick_ps = 0;
  const auto add = [&](int64_t time_ps) {
    if (tick_ps == 0 || time_ps % tick_ps != 0) tick_ps = std::gcd(tick_ps, time_ps);
  };
  for (const TimelineLane& lane : lanes) {
    for (size_t i = 0; i < lane.size() && tick_ps != 1; ++i) {
      add(lane.start_ps[i]);
      add(lane.duration_ps[i]);
    }
  }
  return std::max<int64_t>(tick_ps, 1);
}

// Times of the lanes, which are in order, become ticks.
Axis ToTicks(std::span<TimelineLane> lanes) {
  Axis axis{.tick_ps = CommonTick(lanes)};
  int64_t first_ps = std::numeric_limits<int64_t>::max(), last_ps = 0;
  for (const TimelineLane& lane : lanes) {
    first_ps = std::min(first_ps, lane.start_ps[0]);
    for (size_t i = 0; i < lane.size(); ++i) {
      last_ps = std::max(last_ps, lane.start_ps[i] + lane.duration_ps[i]);
    }
  }
  while (std::max(last_ps / axis.tick_ps, -(first_ps / axis.tick_ps)) >= kExact) {
    axis.tick_ps *= 10;
    axis.rounded = true;
  }
  for (TimelineLane& lane : lanes) {
    for (int64_t& time : lane.start_ps) time /= axis.tick_ps;
    for (int64_t& time : lane.duration_ps) time /= axis.tick_ps;
  }
  axis.first = first_ps / axis.tick_ps;
  axis.last = last_ps / axis.tick_ps;
  return axis;
}

// Whole numbers of a column: "[3,1,1]".
class NumberColumn {
 public:
  void Add(int64_t value) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data() + 1, digits.data() + digits.size(), value).ptr;
    digits[0] = ',';
    const size_t skipped = text_.empty() ? 1 : 0;
    text_.append(digits.data() + skipped, end);
  }
  // The difference to the one before, which of the first is 0.
  void AddStep(int64_t value) { Add(value - std::exchange(before_, value)); }
  void Put(const char* name, std::string* json) const {
    absl::StrAppend(json, ",\"", name, "\":[", text_, "]");
  }

 private:
  std::string text_;
  int64_t before_ = 0;
};

// How much of the lanes is shown.
struct Detail {
  std::vector<bool> whole;  // by lane; the others have bins
  int bin_bits = 0;         // a bin is 2^bin_bits ticks wide
  int64_t least = 0;  // in the other lanes, executions of at least this many ticks are also listed
};

size_t CountBins(const TimelineLane& lane, int bin_bits) {
  size_t count = 0;
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const int64_t start : lane.start_ps) {
    const int64_t bin = start >> bin_bits;
    count += std::exchange(last, bin) != bin ? 1 : 0;
  }
  return count;
}

// The duration of the shortest of the `most` longest; one tick more if this would list too many of
// equal length.
int64_t LeastListed(const std::vector<const TimelineLane*>& lanes, size_t most) {
  std::vector<int64_t> durations;
  for (const TimelineLane* lane : lanes) {
    durations.insert(durations.end(), lane->duration_ps.begin(), lane->duration_ps.end());
  }
  if (durations.size() <= most) return 1;
  const auto at = durations.begin() + static_cast<ptrdiff_t>(most);
  std::ranges::nth_element(durations, at, std::greater());
  return *at + 1;
}

Detail DetailOf(std::span<const TimelineLane> lanes, const Axis& axis,
                Budget (*budget_of)(size_t all)) {
  size_t all = 0, listed = 0;
  std::vector<size_t> by_size;
  for (size_t i = 0; i < lanes.size(); ++i) {
    by_size.push_back(i);
    all += lanes[i].size();
  }
  const Budget budget = budget_of(all);
  Detail detail{.whole = std::vector<bool>(lanes.size(), all <= budget.all_listed)};
  if (all <= budget.all_listed) return detail;
  std::ranges::sort(by_size, {}, [&](size_t i) { return lanes[i].size(); });
  std::vector<const TimelineLane*> binned;
  for (const size_t i : by_size) {
    detail.whole[i] = listed + lanes[i].size() <= budget.max_listed / 2;
    if (detail.whole[i])
      listed += lanes[i].size();
    else
      binned.push_back(&lanes[i]);
  }
  detail.least = LeastListed(binned, budget.max_listed - listed);
  const auto count_bins = [&] {
    size_t bins = 0;
    for (const TimelineLane* lane : binned) bins += CountBins(*lane, detail.bin_bits);
    return bins;
  };
  // With finer bins, even a page full of equal bins would have none with two executions.
  const auto finest = static_cast<uint64_t>(axis.last - axis.first) / (64 * budget.max_bins);
  detail.bin_bits = static_cast<int>(std::bit_width(finest / binned.size()));
  while (count_bins() > budget.max_bins) ++detail.bin_bits;
  return detail;
}

// Which names the data needs.
class UsedNames {
 public:
  explicit UsedNames(size_t count) : used_(count) {}
  void Add(uint32_t name) { used_[name] = true; }
  bool contains(size_t name) const { return used_[name]; }

 private:
  std::vector<bool> used_;
};

void PutEvents(const TimelineLane& lane, int64_t least, UsedNames* used, std::string* json) {
  NumberColumn start, duration, name;
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane.duration_ps[i] < least) continue;
    start.AddStep(lane.start_ps[i]);
    duration.Add(lane.duration_ps[i]);
    name.Add(lane.name[i]);
    used->Add(lane.name[i]);
  }
  absl::StrAppend(json, ",\"events\":{\"least\":", least);
  start.Put("start", json);
  duration.Put("duration", json);
  name.Put("name", json);
  json->append("}");
}

// The executions that start in one bin.
struct Bin {
  int64_t index = 0, first = 0, last_end = 0, busy = 0, longest = -1;
  int64_t count = 0;
  uint32_t name = 0;

  void Add(int64_t start, int64_t duration, uint32_t of_name) {
    const int64_t end = start + duration;
    if (count++ == 0) first = last_end = start;
    if (end > last_end) busy += end - std::max(start, last_end);
    last_end = std::max(last_end, end);
    if (duration > longest) {
      longest = duration;
      name = of_name;
    }
  }
};

class Bins {
 public:
  explicit Bins(int bits)
      : width_(int64_t{1} << bits), grain_(std::max<int64_t>(1, width_ / kGrains)) {}

  void Add(const Bin& bin) {
    const int64_t grain = bin.count > 1 ? grain_ : 1;
    const auto up = [&](int64_t ticks) { return (ticks + grain - 1) / grain; };
    const int64_t span = bin.last_end - bin.first;
    index_.AddStep(bin.index);
    first_.Add((bin.first - bin.index * width_) / grain);
    span_.Add(up(span));
    idle_.Add(up(span - bin.busy));
    more_.Add(bin.count - 1);
    name_.Add(bin.name);
  }

  void Put(std::string* json) const {
    absl::StrAppend(json, ",\"bins\":{\"width\":", width_, ",\"grain\":", grain_);
    index_.Put("index", json);
    first_.Put("first", json);
    span_.Put("span", json);
    idle_.Put("idle", json);
    more_.Put("more", json);
    name_.Put("name", json);
    json->append("}");
  }

 private:
  const int64_t width_, grain_;
  NumberColumn index_, first_, span_, idle_, more_, name_;
};

void PutBins(const TimelineLane& lane, int bin_bits, UsedNames* used, std::string* json) {
  Bins bins(bin_bits);
  Bin bin;
  const auto add = [&] {
    bins.Add(bin);
    used->Add(bin.name);
  };
  for (size_t i = 0; i < lane.size(); ++i) {
    const int64_t index = lane.start_ps[i] >> bin_bits;
    if (bin.count > 0 && index != bin.index) {
      add();
      bin = {};
    }
    bin.index = index;
    bin.Add(lane.start_ps[i], lane.duration_ps[i], lane.name[i]);
  }
  add();
  bins.Put(json);
}

// Cut in the middle if it is too long to read.
std::string Quoted(std::string_view name) {
  constexpr size_t kMostLetters = 300;
  return json::Dump(ShortenMiddle(Printable(name), kMostLetters, "…"));
}

constexpr std::string_view kKinds[] = {"steps", "runs", "executions", "host"};

// The events of a thread by how many others they lie in, the outermost first.
struct Levels {
  std::vector<TimelineLane> lanes;
  uint64_t left_out = 0;  // events that lie deeper
};

Levels SplitLevels(TimelineLane thread) {
  Levels levels;
  std::vector<int64_t> open;  // ends, the innermost last
  for (size_t i = 0; i < thread.size(); ++i) {
    const int64_t start_ps = thread.start_ps[i];
    while (!open.empty() && open.back() <= start_ps) open.pop_back();
    const size_t level = open.size();
    open.push_back(start_ps + thread.duration_ps[i]);
    if (level >= kMaxLevels) {
      ++levels.left_out;
      continue;
    }
    if (level == levels.lanes.size()) {
      levels.lanes.push_back({thread.device, thread.of, thread.line, thread.clock});
    }
    levels.lanes[level].Add(start_ps, thread.duration_ps[i], thread.name[i]);
  }
  return levels;
}

// The lanes that are drawn: of devices, then of host threads by level.
struct DrawnLanes {
  std::vector<TimelineLane> lanes;
  std::vector<size_t> levels;  // by lane; 0 for devices
  size_t of_devices = 0;       // the first so many
  size_t left_out = 0;         // lanes of devices, and threads
  uint64_t events_left_out = 0;
};

DrawnLanes ChooseLanes(std::vector<TimelineLane> lanes) {
  DrawnLanes drawn;
  std::map<std::pair<uint32_t, std::string>, size_t> threads;  // by input and host
  for (TimelineLane& lane : lanes) {
    if (lane.of != TimelineLane::Of::kHost) {
      if (drawn.of_devices == kMostLanes) {
        ++drawn.left_out;
        continue;
      }
      drawn.lanes.push_back(std::move(lane));
      drawn.levels.push_back(0);
      ++drawn.of_devices;
      continue;
    }
    const size_t of_hosts = drawn.lanes.size() - drawn.of_devices;
    size_t& of_host = threads[{lane.device.input, lane.device.host}];
    if (of_host == kMaxThreads || of_hosts == kMaxHostLanes) {
      ++drawn.left_out;
      continue;
    }
    ++of_host;
    Levels levels = SplitLevels(std::move(lane));
    drawn.events_left_out += levels.left_out;
    for (size_t level = 0; level < levels.lanes.size(); ++level) {
      if (drawn.lanes.size() - drawn.of_devices == kMaxHostLanes) {
        drawn.events_left_out += levels.lanes[level].size();
        continue;
      }
      drawn.lanes.push_back(std::move(levels.lanes[level]));
      drawn.levels.push_back(level);
    }
  }
  return drawn;
}

}  // namespace

std::string TimelineData(Timeline timeline) {
  const DeviceNames names(timeline.lanes);
  DrawnLanes drawn = ChooseLanes(std::move(timeline.lanes));
  const std::span<TimelineLane> lanes = drawn.lanes;
  const Axis axis = lanes.empty() ? Axis() : ToTicks(lanes);
  const Detail of_devices = DetailOf(lanes.first(drawn.of_devices), axis, DeviceBudget);
  const Detail of_hosts = DetailOf(lanes.subspan(drawn.of_devices), axis, HostBudget);
  UsedNames used(timeline.names.size());
  for (const TimelineLane& lane : lanes.first(drawn.of_devices)) {
    for (const uint32_t name : lane.name) used.Add(name);  // the search finds all of devices
  }
  std::string shown;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const bool is_host = i >= drawn.of_devices;
    const Detail& detail = is_host ? of_hosts : of_devices;
    const bool whole = detail.whole[is_host ? i - drawn.of_devices : i];
    absl::StrAppend(&shown, i == 0 ? "" : ",", "{\"device\":", Quoted(names.Name(lanes[i].device)),
                    ",\"name\":", Quoted(lanes[i].name_of_lane()), ",\"of\":\"",
                    Absl(kKinds[static_cast<size_t>(lanes[i].of)]), "\",\"clock\":\"",
                    Absl(ClockName(lanes[i].clock)), "\",\"count\":", lanes[i].size());
    if (drawn.levels[i] > 0) absl::StrAppend(&shown, ",\"level\":", drawn.levels[i]);
    if (!whole) PutBins(lanes[i], detail.bin_bits, &used, &shown);
    PutEvents(lanes[i], whole ? 0 : detail.least, &used, &shown);
    shown.append("}");
  }
  std::string json = absl::StrCat(
      "{\"tick_ps\":", axis.tick_ps, ",\"rounded\":", axis.rounded ? "true" : "false",
      ",\"start\":", axis.first, ",\"end\":", axis.last, ",\"lanes_left_out\":", drawn.left_out,
      ",\"events_left_out\":", drawn.events_left_out, ",\"names\":[");
  for (size_t i = 0; i < timeline.names.size(); ++i) {
    absl::StrAppend(&json, i == 0 ? "" : ",",
                    used.contains(i) ? Quoted(timeline.names[i]) : "\"\"");
  }
  absl::StrAppend(&json, "],\"lanes\":[", shown, "]}");
  return json;
}

}  // namespace xplane_time::output
