// Writes timelines and power as a Perfetto trace: input by input, device by device.
//
// ContentOf groups the lanes, power and energy of each device. MoveOrigin finds the smallest time,
// because negative times are not allowed. AddLane distributes a lane's events to tracks on which
// they nest (nesting.h), and writes the begins and ends in order, with a stack of open ends.
// AddPower writes two counters at the begin of each window, and slices for the times without a
// window.
#include "perfetto/timeline_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "output/view.h"
#include "perfetto/nesting.h"
#include "saturate.h"
#include "status.h"

namespace xplane_time::perfetto {
namespace {

using insight::Timeline, insight::TimelineLane;

constexpr int64_t kPsPerNs = 1000;
constexpr double kNsPerS = 1e9;

// Rounds to the nearest nanosecond.
int64_t RoundedNs(int64_t ps) {
  const int64_t up = SaturatingAdd(ps, kPsPerNs / 2), rest = up % kPsPerNs;
  return up / kPsPerNs - (rest < 0 ? 1 : 0);
}

// The known content of a device.
struct DeviceContent {
  DeviceRef device;
  std::vector<const TimelineLane*> lanes = {};
  const EnergyTimeline* power = nullptr;
  const EnergyDevice* energy = nullptr;
};

// By input; devices in order of first occurrence.
std::vector<std::vector<DeviceContent>> ContentOf(const Timeline& timeline,
                                                  const EnergyReport* energy, size_t input_count) {
  std::vector<std::vector<DeviceContent>> inputs(input_count);
  std::map<output::DeviceKey, size_t> places;
  const auto content_of = [&](const DeviceRef& device) -> DeviceContent& {
    std::vector<DeviceContent>& devices = inputs.at(device.input);
    const auto [known, is_new] = places.try_emplace(output::KeyOf(device), devices.size());
    if (is_new) devices.push_back({device});
    return devices[known->second];
  };
  for (const TimelineLane& lane : timeline.lanes) content_of(lane.device).lanes.push_back(&lane);
  if (energy == nullptr) return inputs;
  for (const EnergyDevice& each : energy->devices) content_of(each.device).energy = &each;
  for (const EnergyTimeline& each : energy->timelines) content_of(each.device).power = &each;
  return inputs;
}

// The parts of an axis that no window covers.
std::vector<Span> GapsOf(std::span<const Span> windows, const Span& capture) {
  // A shorter gap is a rounding error.
  constexpr int64_t kLeastNs = 1000;
  std::vector<Span> gaps;
  int64_t known_ns = capture.start_ns;
  const auto look_until = [&](int64_t ns) {
    if (ns - known_ns >= kLeastNs) gaps.push_back({known_ns, ns});
  };
  for (const Span& each : windows) {
    look_until(each.start_ns);
    known_ns = std::max(known_ns, each.end_ns);
  }
  look_until(capture.end_ns);
  return gaps;
}

class Writer {
 public:
  Writer(Timeline timeline, const EnergyReport* energy, std::span<const InputRow> inputs, Sink sink)
      : timeline_(Named(std::move(timeline))),
        energy_(energy),
        inputs_(inputs),
        out_(timeline_.names, sink) {}

  absl::Status Write() && {
    const auto content = ContentOf(timeline_, energy_, inputs_.size());
    MoveOrigin();
    for (size_t input = 0; input < inputs_.size(); ++input) {
      const uint64_t root =
          out_.AddTrack({.name = inputs_[input].path, .rank = static_cast<int32_t>(input)});
      const output::DeviceNames names(content[input]);
      int32_t rank = 0;
      for (const DeviceContent& each : content[input]) AddDevice(each, names, root, rank++);
    }
    return out_.Finish();
  }

 private:
  static Timeline Named(Timeline timeline) {
    timeline.names.emplace_back("power unknown");
    return timeline;
  }
  uint32_t unknown() const { return static_cast<uint32_t>(timeline_.names.size() - 1); }

  // Moves the origin so that no time is negative.
  void MoveOrigin() {
    int64_t first_ns = 0;
    const auto take = [&](int64_t ns) { first_ns = std::min(first_ns, ns); };
    for (const TimelineLane& lane : timeline_.lanes) take(NsOf(lane.start_ps[0]));
    for (size_t i = 0; energy_ != nullptr && i < energy_->timelines.size(); ++i) {
      const EnergyTimeline& power = energy_->timelines[i];
      take(NsOf(power.start_ps));
      for (const auto& each : power.windows) take(NsOf(power, each.from_s));
    }
    origin_ns_ = first_ns;
  }
  int64_t NsOf(int64_t ps) const { return RoundedNs(ps) - origin_ns_; }
  int64_t NsOf(const EnergyTimeline& power, double s) const {
    return NsOf(power.start_ps) + std::llround(s * kNsPerS);
  }

  void AddDevice(const DeviceContent& content, const output::DeviceNames& names, uint64_t root,
                 int32_t rank) {
    group_ = out_.AddTrack({.name = names.Name(content.device),
                            .description = DescriptionOf(content),
                            .parent = root,
                            .rank = rank});
    rank_ = 0;
    if (content.power != nullptr) AddPower(*content.power);
    for (const TimelineLane* lane : content.lanes) AddLane(*lane);
  }

  // The plane, the clock, and the state of its power.
  std::string DescriptionOf(const DeviceContent& content) const {
    std::string text = Cat("Plane ", content.device.plane, ".");
    const bool is_captured = energy_ == nullptr || energy_->capture.has_value();
    if (!is_captured) {
      text += " Times are relative to the first layer.";
    } else if (!content.lanes.empty()) {
      Append(&text, " Times use the ", ClockName(content.lanes[0]->clock), " clock.");
    }
    if (content.energy == nullptr) return text;
    if (!content.energy->reason.empty()) {
      Append(&text, " Power unknown: ", content.energy->message, ".");
    } else if (content.power == nullptr) {
      text += " Power was stated, not measured, so it has no curve.";
    } else {
      Append(&text, " Power of ", content.energy->sensor,
             is_captured ? ", on the profile clock." : ".");
    }
    return text;
  }

  // ---- Lanes

  void AddLane(const TimelineLane& lane) {
    const std::vector<std::vector<uint32_t>> tracks =
        TracksOf(lane.size(), [&](uint32_t i) { return SpanOf(lane, i); });
    const Track track = {.name = std::string(lane.name_of_lane()),
                         .parent = group_,
                         .rank = ++rank_,
                         .drawn_as_one = tracks.size() > 1 ? static_cast<uint64_t>(rank_) : 0};
    for (const std::vector<uint32_t>& places : tracks) {
      if (!out_.ok()) return;
      out_.Begin(out_.AddTrack(track));
      AddSlices(lane, places);
    }
  }

  Span SpanOf(const TimelineLane& lane, uint32_t i) const {
    return {NsOf(lane.start_ps[i]), NsOf(SaturatingAdd(lane.start_ps[i], lane.duration_ps[i]))};
  }

  void AddSlices(const TimelineLane& lane, std::span<const uint32_t> places) {
    std::vector<int64_t> open;
    const auto close_until = [&](int64_t ns) {
      for (; !open.empty() && open.back() <= ns; open.pop_back()) out_.EndSlice(open.back());
    };
    for (const uint32_t i : places) {
      const Span span = SpanOf(lane, i);
      close_until(span.start_ns);
      out_.BeginSlice(SliceOf(lane, i, span));
      open.push_back(span.end_ns);
    }
    close_until(INT64_MAX);
  }

  SliceBegin SliceOf(const TimelineLane& lane, uint32_t i, const Span& span) const {
    SliceBegin slice = {.ns = span.start_ns, .name = lane.name[i]};
    const int64_t start_ps = lane.start_ps[i], duration_ps = lane.duration_ps[i];
    if (origin_ns_ != 0 || start_ps % kPsPerNs != 0) slice.start_ps = start_ps;
    const bool is_whole = duration_ps % kPsPerNs == 0;
    if (!is_whole || duration_ps / kPsPerNs != span.end_ns - span.start_ns) {
      slice.duration_ps = duration_ps;
    }
    return slice;
  }

  // ---- Power

  void AddPower(const EnergyTimeline& power) {
    using Window = EnergyTimeline::Window;
    std::vector<Window> windows = power.windows;
    std::erase_if(windows, [](const Window& each) { return !std::isfinite(each.measured_w); });
    std::ranges::sort(windows, {}, &Window::from_s);
    std::vector<Span> spans;
    for (const Window& each : windows) {
      spans.push_back({NsOf(power, each.from_s), NsOf(power, each.to_s)});
    }
    const auto add_counter = [&](const char* name, const char* of, double Window::*watts) {
      out_.Begin(
          out_.AddTrack({.name = name,
                         .description = Cat(of, ": mean of the window that starts at each point"),
                         .parent = group_,
                         .rank = ++rank_,
                         .unit = "W"}));
      for (size_t i = 0; i < windows.size(); ++i) {
        out_.AddValue(spans[i].start_ns, windows[i].*watts);
      }
    };
    add_counter("power", "Measured", &Window::measured_w);
    add_counter("power explained", "Explained by the executions", &Window::explained_w);
    AddGaps(GapsOf(spans, {NsOf(power.start_ps), NsOf(power, power.capture_s)}));
  }

  void AddGaps(std::span<const Span> gaps) {
    if (gaps.empty()) return;
    out_.Begin(out_.AddTrack(
        {.name = "power unknown",
         .description =
             "Times without a window of the sensor; the counters keep their last value there.",
         .parent = group_,
         .rank = ++rank_}));
    for (const Span& each : gaps) {
      out_.BeginSlice({.ns = each.start_ns, .name = unknown()});
      out_.EndSlice(each.end_ns);
    }
  }

  const Timeline timeline_;
  const EnergyReport* const energy_;
  const std::span<const InputRow> inputs_;
  TraceWriter out_;
  int64_t origin_ns_ = 0;  // on the captures' axes
  uint64_t group_ = 0;     // track of the device
  int32_t rank_ = 0;       // rank of its last track
};

}  // namespace

absl::Status WriteTrace(Timeline timeline, const EnergyReport* energy,
                        std::span<const InputRow> inputs, Sink sink) {
  return Writer(std::move(timeline), energy, inputs, sink).Write();
}

}  // namespace xplane_time::perfetto
