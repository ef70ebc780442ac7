// Reads the sensors of a power log and finds the one that measures a device of the trace.
//
// 1. Collector keeps the readings of power and energy of all channels (at most kMostReadings), the
//    device list, clock lines, marks and power limits.
// 2. Candidates selects the devices of the log that may be the trace's device: those that --map
//    names, else those with the same ordinal, else all devices of that kind without an ordinal.
// 3. If one device is left, BestSensor takes the sensor with the lowest rank (RankOf): a counter
//    measures energy exactly, while a mean power only samples it. If several processors are left,
//    their package counters are added.
// 4. PollsOfOne converts readings to the capture's axis and makes counters continuous across wraps.
//    At a reset or an impossible jump it begins a new part.
//
// All steps are O(readings).
#include "energy/sensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "power/log.h"
#include "power/sources.h"
#include "status.h"

namespace xplane_time::energy {
namespace {

constexpr uint32_t kNoSensor = ~uint32_t{0};

class Collector : public power::LogSink {
 public:
  explicit Collector(SensorLog* log) : log_(log) {}

  void Header(power::LogHeader header) override {
    log_->devices = std::move(header.inventory.devices);
    for (PowerChannel& channel : header.inventory.channels) Add(std::move(channel));
    if (header.clocks.has_value()) log_->clocks.push_back(*header.clocks);
  }
  void Channel(PowerChannel channel, PowerDevice device) override {
    const bool is_new = std::ranges::find(log_->devices, device) == log_->devices.end();
    if (!device.id.empty() && is_new) log_->devices.push_back(std::move(device));
    Add(std::move(channel));
  }
  void Readings(size_t /*s*/, int64_t t_ns, std::span<const power::Reading> readings) override {
    for (const power::Reading& reading : readings) {
      AddLimit(reading);
      const uint32_t sensor = sensor_of_channel_[reading.channel];
      if (sensor == kNoSensor || !reading.value.has_value() || kept_ == kMostReadings) continue;
      if (*reading.value < 0) {
        NegativeReadings& negative = log_->sensors[sensor].negative;
        if (negative.count++ > 0) continue;
        negative.first_value = *reading.value;
        negative.first_place = Cat(log_->path, ", t ", t_ns);
        continue;
      }
      std::vector<power::Reading>& kept = log_->sensors[sensor].readings;
      // Skip readings that go back in time.
      if (!kept.empty() && reading.before_ns < kept.back().after_ns) continue;
      kept.push_back(reading);
      ++kept_;
    }
  }
  void Mark(int64_t t_ns, std::string_view window, bool end) override {
    log_->marks.push_back({t_ns, std::string(window), end});
  }
  void ClocksAt(int64_t /*t_ns*/, const power::Clocks& clocks) override {
    const bool is_later =
        log_->clocks.empty() || clocks.monotonic_ns > log_->clocks.back().monotonic_ns;
    if (is_later) log_->clocks.push_back(clocks);
  }

  bool too_many() const { return kept_ == kMostReadings; }

 private:
  void Add(PowerChannel channel) {
    sensor_of_channel_.push_back(kNoSensor);
    limit_of_.emplace_back();
    if (channel.quantity == "power_limit_mw") limit_of_.back() = {channel.device, channel.domain};
    if (!IsPowerOrEnergy(channel)) return;
    sensor_of_channel_.back() = static_cast<uint32_t>(log_->sensors.size());
    log_->sensors.push_back({.channel = std::move(channel), .readings = {}});
  }

  void AddLimit(const power::Reading& reading) {
    const std::pair<std::string, std::string>& of = limit_of_[reading.channel];
    if (of.first.empty() || reading.value.value_or(0) <= 0) return;
    double& highest_w = log_->power_limit_w[of];
    highest_w = std::max(highest_w, static_cast<double>(*reading.value) / 1e3);
  }

  SensorLog* const log_;
  std::vector<uint32_t> sensor_of_channel_;
  // By channel: the device and domain that the power limit belongs to.
  std::vector<std::pair<std::string, std::string>> limit_of_;
  size_t kept_ = 0;
};

SensorChoice Without(std::string_view reason, std::string message) {
  SensorChoice choice;
  choice.reason = reason;
  choice.message = std::move(message);
  return choice;
}

power::Measures MeasuresOf(DeviceKind kind) {
  if (kind == DeviceKind::kGpu) return power::Measures::kGpus;
  if (kind == DeviceKind::kCpu) return power::Measures::kProcessors;
  return power::Measures::kOther;
}

bool Measures(const PowerChannel& channel, DeviceKind kind) {
  const power::Measures measures = power::FactsOf(channel.source).measures;
  return measures == MeasuresOf(kind) || measures == power::Measures::kWhateverIsAsked;
}

// The ids of the log's devices that have a sensor for `kind` and that `wanted` accepts, in the
// log's order.
template <typename Wanted>
std::vector<std::string> IdsOf(const SensorLog& log, DeviceKind kind, const Wanted& wanted) {
  std::vector<std::string> ids;
  for (const SensorReadings& sensor : log.sensors) {
    const std::string& id = sensor.channel.device;
    if (!Measures(sensor.channel, kind) || std::ranges::count(ids, id) > 0) continue;
    const auto device = std::ranges::find(log.devices, id, &PowerDevice::id);
    if (wanted(id, device == log.devices.end() ? nullptr : &*device)) ids.push_back(id);
  }
  return ids;
}

// The devices of the log that may be the trace's device.
std::vector<std::string> Candidates(const SensorLog& log, const TraceDevice& device,
                                    const std::map<int32_t, std::string>& map) {
  const auto mapped =
      device.ordinal.has_value() ? map.find(static_cast<int32_t>(*device.ordinal)) : map.end();
  if (mapped != map.end()) {
    return IdsOf(log, device.kind, [&](const std::string& id, const PowerDevice*) {
      return id.starts_with(mapped->second);
    });
  }
  std::vector<std::string> ids =
      IdsOf(log, device.kind, [&](const std::string&, const PowerDevice* of) {
        return of != nullptr && of->ordinal.has_value() && of->ordinal == device.ordinal;
      });
  if (!ids.empty() || !map.empty()) return ids;
  // If the log has no ordinals, a single device is the device; several devices are ambiguous.
  return IdsOf(log, device.kind, [](const std::string&, const PowerDevice* of) {
    return of == nullptr || !of->ordinal.has_value();
  });
}

// The most informative sensor of a device.
const SensorReadings* BestSensor(const SensorLog& log, const std::string& id, DeviceKind kind,
                                 bool* has_module) {
  const SensorReadings* best = nullptr;
  for (const SensorReadings& sensor : log.sensors) {
    const PowerChannel& channel = sensor.channel;
    if (channel.device != id || !Measures(channel, kind)) continue;
    *has_module |= channel.domain == "module";
    const size_t rank = RankOf(channel);
    // If only negative ones are left, the caller reports them.
    if (rank == kNoRank || sensor.readings.size() + sensor.negative.count < 2) continue;
    const auto order = [](const SensorReadings& of) {
      return std::pair(of.readings.size() < 2, RankOf(of.channel));
    };
    if (best == nullptr || order(sensor) < order(*best)) best = &sensor;
  }
  return best;
}

// The counters of all processor packages of the machine, because the program may run on any of
// them. Not psys, which also measures other parts.
SensorChoice Packages(const SensorLog& log, const std::vector<std::string>& ids) {
  SensorChoice choice;
  for (const std::string& id : ids) {
    bool has_module = false;
    const SensorReadings* const best = BestSensor(log, id, DeviceKind::kCpu, &has_module);
    if (best == nullptr || RankOf(best->channel) != 0) continue;
    choice.sensors.push_back(best);
    absl::StrAppend(&choice.device, choice.device.empty() ? "" : ", ", id);
  }
  return choice;
}

// Makes the values of a counter continuous: a wrap adds the counter's range.
class Counter {
 public:
  explicit Counter(const PowerChannel& channel) : channel_(channel) {}

  // Empty if the counter was reset or jumped; it then restarts at its own value.
  std::optional<int64_t> Next(const power::Reading& reading) {
    const int64_t value = *reading.value;
    if (channel_.kind != ReadingKind::kCumulative) return value;
    const std::optional<power::Reading> last = std::exchange(last_, reading);
    if (!last.has_value()) return value;
    int64_t gained = 0;
    const bool wraps = value < *last->value && channel_.wrap_range.has_value();
    bool fails = __builtin_sub_overflow(value, *last->value, &gained) ||
                 __builtin_add_overflow(gained, wraps ? *channel_.wrap_range : 0, &gained) ||
                 __builtin_add_overflow(more_, wraps ? *channel_.wrap_range : 0, &more_);
    // One second more, because a counter may publish late.
    const double longest_s = static_cast<double>(reading.after_ns - last->before_ns) / 1e9 + 1;
    const double most_j = channel_.max_plausible_mw.has_value()
                              ? static_cast<double>(*channel_.max_plausible_mw) / 1e3 * longest_s
                              : std::numeric_limits<double>::infinity();
    int64_t total = 0;
    fails |= gained < 0 || static_cast<double>(gained) / 1e6 > most_j ||
             __builtin_add_overflow(value, more_, &total);
    if (!fails) return total;
    more_ = 0;
    return std::nullopt;
  }

 private:
  const PowerChannel& channel_;
  std::optional<power::Reading> last_;
  int64_t more_ = 0;  // sum of the ranges that it wrapped through
};

}  // namespace

absl::StatusOr<SensorLog> ReadSensorLog(const std::string& path) {
  SensorLog log;
  log.path = path;
  Collector collector(&log);
  ASSIGN_OR_RETURN(const power::LogEnd end, power::ReadPowerLog(path, &collector));
  if (collector.too_many()) {
    return ResourceExhausted(path, ": more than ", kMostReadings,
                             " readings; keep only the part of the log that covers the trace");
  }
  log.complete = end.complete;
  log.damaged_lines = end.damaged_lines;
  return log;
}

std::optional<double> SensorLog::LimitOf(const PowerChannel& channel) const {
  const auto found = power_limit_w.find({channel.device, channel.domain});
  return found == power_limit_w.end() ? std::nullopt : std::optional(found->second);
}

size_t RankOf(const PowerChannel& channel) {
  constexpr std::array kOrder = {ReadingKind::kCumulative, ReadingKind::kInstant,
                                 ReadingKind::kAverage};
  if (power::FactsOf(channel.source).modelled) return kOrder.size();
  if (channel.domain != "gpu" && channel.domain != "package") return kNoRank;
  const auto* const at = std::ranges::find(kOrder, channel.kind);
  return at == kOrder.end() ? kNoRank : static_cast<size_t>(at - kOrder.begin());
}

SensorChoice ChooseSensor(const SensorLog& log, const TraceDevice& device,
                          const std::map<int32_t, std::string>& map) {
  const std::vector<std::string> ids = Candidates(log, device, map);
  const std::string name =
      Cat(DeviceKindName(device.kind), ":", device.ordinal.has_value() ? Cat(*device.ordinal) : "");
  if (ids.empty() && MeasuresOf(device.kind) == power::Measures::kOther) {
    return Without("no_sensor", Cat("no sensor of power record measures ", name,
                                    "; without --power, counters of the trace are used"));
  }
  if (ids.empty()) {
    const std::vector<std::string> all =
        IdsOf(log, device.kind, [](const std::string&, const PowerDevice*) { return true; });
    return Without("no_sensor", Cat("the log has no sensor for ", name,
                                    all.empty() ? "" : "; choose a device of the log with --map: ",
                                    absl::StrJoin(all, ", ")));
  }
  if (ids.size() > 1) {
    SensorChoice packages = device.kind == DeviceKind::kCpu ? Packages(log, ids) : SensorChoice();
    if (!packages.sensors.empty()) return packages;
    return Without("no_map", Cat("the log does not identify the device of ", name,
                                 "; choose it with --map: ", absl::StrJoin(ids, ", ")));
  }
  bool has_module = false;
  SensorChoice choice;
  const SensorReadings* const best = BestSensor(log, ids[0], device.kind, &has_module);
  if (best == nullptr) {
    return has_module
               ? Without("module", Cat("the sensor of ", ids[0],
                                       " measures the whole module including processor and memory; "
                                       "the energy of a kernel cannot be separated"))
               : Without("no_sensor", Cat("the log contains no power or energy of ", ids[0]));
  }
  choice.sensors = {best};
  choice.device = ids[0];
  const auto of = std::ranges::find(log.devices, ids[0], &PowerDevice::id);
  choice.shared = of != log.devices.end() && of->shared;
  return choice;
}

namespace {

std::vector<Poll> PollsOfOne(int64_t origin_ns, const SensorReadings& sensor) {
  // Unsigned overflow is harmless, because only differences matter.
  const auto seconds = [&](int64_t t_ns) {
    return static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(t_ns) -
                                                    static_cast<uint64_t>(origin_ns))) /
           1e9;
  };
  std::vector<Poll> polls;
  Counter counter(sensor.channel);
  uint32_t part = 0;
  for (const power::Reading& reading : sensor.readings) {
    const std::optional<int64_t> value = counter.Next(reading);
    if (!value.has_value()) ++part;
    Poll& poll = polls.emplace_back();
    poll.before_s = seconds(reading.before_ns);
    poll.after_s = seconds(reading.after_ns);
    poll.value = value.value_or(*reading.value);
    poll.part = part;
    if (reading.sampled_ns.has_value()) poll.sampled_s = seconds(*reading.sampled_ns);
  }
  return polls;
}

// Adds the polls of `next` to those of `sum`, round by round. A round begins with a poll of `sum`.
// Rounds without a poll of `next` are dropped.
std::vector<Poll> Added(const std::vector<Poll>& sum, const std::vector<Poll>& next) {
  std::vector<Poll> added;
  auto of_round = next.begin();
  for (size_t i = 0; i < sum.size(); ++i) {
    while (of_round != next.end() && of_round->before_s < sum[i].before_s) ++of_round;
    if (of_round == next.end()) break;
    const bool is_of_next = i + 1 < sum.size() && of_round->before_s - sum[i].before_s >=
                                                      sum[i + 1].before_s - of_round->before_s;
    if (is_of_next) continue;
    // Unsigned overflow is harmless, because only differences matter.
    const uint64_t value =
        static_cast<uint64_t>(sum[i].value) + static_cast<uint64_t>(of_round->value);
    Poll& poll = added.emplace_back();
    poll.before_s = sum[i].before_s;
    poll.after_s = std::max(sum[i].after_s, of_round->after_s);
    poll.value = static_cast<int64_t>(value);
    poll.part = sum[i].part + of_round->part;
  }
  return added;
}

}  // namespace

std::vector<Poll> PollsSince(int64_t origin_ns, const Sensors& sensors) {
  std::vector<Poll> polls;
  for (const SensorReadings* const sensor : sensors) {
    std::vector<Poll> next = PollsOfOne(origin_ns, *sensor);
    polls = sensor == sensors[0] ? std::move(next) : Added(polls, next);
  }
  return polls;
}

std::vector<Poll> PollsOn(const SensorLog& log, const Sensors& sensors,
                          int64_t capture_start_unix_ns) {
  if (sensors[0]->readings.empty()) return {};
  if (log.clocks.empty()) return PollsSince(sensors[0]->readings[0].before_ns, sensors);
  const auto away = [&](const power::Clocks& clocks) {
    return std::abs(static_cast<double>(clocks.realtime_ns) -
                    static_cast<double>(capture_start_unix_ns));
  };
  const power::Clocks nearest = *std::ranges::min_element(log.clocks, {}, away);
  // The start of the capture on the log's clock.
  const uint64_t origin_ns = static_cast<uint64_t>(nearest.monotonic_ns) +
                             static_cast<uint64_t>(capture_start_unix_ns) -
                             static_cast<uint64_t>(nearest.realtime_ns);
  return PollsSince(static_cast<int64_t>(origin_ns), sensors);
}

}  // namespace xplane_time::energy
