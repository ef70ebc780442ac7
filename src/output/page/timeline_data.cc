#include "output/page/timeline_data.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
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

constexpr size_t kMostLanes = 300;     // a page draws no more
constexpr size_t kAllListed = 60'000;  // of so many executions each is listed
// Longer numbers are text in the page, as doubles do not hold all of them.
constexpr int64_t kExact = 1'000'000'000'000'000;
constexpr int64_t kGrains = 64;  // of a bin: finer than a pixel

// How many executions are listed one by one, and how many bins there are, of `all`.
size_t MostListed(size_t all) { return std::min<size_t>(150'000, 10'000 + all / 20); }
size_t MostBins(size_t all) { return std::min<size_t>(500'000, 30'000 + all / 5); }

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
class Column {
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
  int64_t least = 0;        // of the others, each execution of so many ticks is listed, too
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

// The shortest of the `most` longest; one more where with its like they are more.
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

Detail DetailOf(std::span<const TimelineLane> lanes, const Axis& axis) {
  size_t all = 0, listed = 0;
  std::vector<size_t> by_size;
  for (size_t i = 0; i < lanes.size(); ++i) {
    by_size.push_back(i);
    all += lanes[i].size();
  }
  Detail detail{.whole = std::vector<bool>(lanes.size(), all <= kAllListed)};
  if (all <= kAllListed) return detail;
  std::ranges::sort(by_size, {}, [&](size_t i) { return lanes[i].size(); });
  std::vector<const TimelineLane*> binned;
  for (const size_t i : by_size) {
    detail.whole[i] = listed + lanes[i].size() <= MostListed(all) / 2;
    if (detail.whole[i])
      listed += lanes[i].size();
    else
      binned.push_back(&lanes[i]);
  }
  detail.least = LeastListed(binned, MostListed(all) - listed);
  const auto count_bins = [&] {
    size_t bins = 0;
    for (const TimelineLane* lane : binned) bins += CountBins(*lane, detail.bin_bits);
    return bins;
  };
  // Finer than this, even a page full of equal bins would have none with two executions.
  const auto finest = static_cast<uint64_t>(axis.last - axis.first) / (64 * MostBins(all));
  detail.bin_bits = static_cast<int>(std::bit_width(finest / binned.size()));
  while (count_bins() > MostBins(all)) ++detail.bin_bits;
  return detail;
}

void PutEvents(const TimelineLane& lane, int64_t least, std::string* json) {
  Column start, duration, name;
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane.duration_ps[i] < least) continue;
    start.AddStep(lane.start_ps[i]);
    duration.Add(lane.duration_ps[i]);
    name.Add(lane.name[i]);
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
  Column index_, first_, span_, idle_, more_, name_;
};

void PutBins(const TimelineLane& lane, int bin_bits, std::string* json) {
  Bins bins(bin_bits);
  Bin bin;
  for (size_t i = 0; i < lane.size(); ++i) {
    const int64_t index = lane.start_ps[i] >> bin_bits;
    if (bin.count > 0 && index != bin.index) {
      bins.Add(bin);
      bin = {};
    }
    bin.index = index;
    bin.Add(lane.start_ps[i], lane.duration_ps[i], lane.name[i]);
  }
  bins.Add(bin);
  bins.Put(json);
}

// Cut in the middle where it is longer than anybody reads.
std::string Quoted(std::string_view name) {
  constexpr size_t kMostLetters = 300;
  return json::Dump(ShortenMiddle(Printable(name), kMostLetters, "…"));
}

constexpr std::string_view kKinds[] = {"steps", "runs", "executions"};

}  // namespace

std::string TimelineData(Timeline timeline) {
  const DeviceNames names(timeline.lanes);
  const size_t shown = std::min(timeline.lanes.size(), kMostLanes);
  const std::span<TimelineLane> lanes = std::span(timeline.lanes).first(shown);
  const Axis axis = lanes.empty() ? Axis() : ToTicks(lanes);
  const Detail detail = DetailOf(lanes, axis);
  std::string json =
      absl::StrCat("{\"tick_ps\":", axis.tick_ps, ",\"rounded\":", axis.rounded ? "true" : "false",
                   ",\"start\":", axis.first, ",\"end\":", axis.last,
                   ",\"lanes_left_out\":", timeline.lanes.size() - shown, ",\"names\":[");
  for (size_t i = 0; i < timeline.names.size(); ++i) {
    absl::StrAppend(&json, i == 0 ? "" : ",", Quoted(timeline.names[i]));
  }
  json.append("],\"lanes\":[");
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&json, i == 0 ? "" : ",", "{\"device\":", Quoted(names.Name(lanes[i].device)),
                    ",\"name\":", Quoted(lanes[i].name_of_lane()), ",\"of\":\"",
                    Absl(kKinds[static_cast<size_t>(lanes[i].of)]), "\",\"clock\":\"",
                    Absl(ClockName(lanes[i].clock)), "\",\"count\":", lanes[i].size());
    if (!detail.whole[i]) PutBins(lanes[i], detail.bin_bits, &json);
    PutEvents(lanes[i], detail.whole[i] ? 0 : detail.least, &json);
    json.append("}");
  }
  json.append("]}");
  return json;
}

}  // namespace xplane_time::output
