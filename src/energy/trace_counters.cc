// Power counters inside a trace: chooses one, reads its samples, and makes polls from them.
//
// NamesOf finds the counters of a device. SamplesOf reads the events of one counter in order of
// time; the stat with the event's name has the value. For energies, CountedFrom decides whether the
// values are cumulative. Instead of an option, it uses the share of decreases: a counter hardly
// ever decreases, increments decrease half of the time. Between an eighth and a quarter the answer
// is unclear.
#include "energy/trace_counters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "devices/device_kind.h"
#include "devices/power_counters.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::energy {
namespace {

// Empty if the value is not a number or does not fit.
std::optional<int64_t> WholeOf(const StatValue& value) {
  if (value.type == StatType::kInt64) return std::bit_cast<int64_t>(value.bits);
  if (value.type == StatType::kUint64 && value.bits <= INT64_MAX) {
    return static_cast<int64_t>(value.bits);
  }
  if (value.type != StatType::kDouble) return std::nullopt;
  const auto number = std::bit_cast<double>(value.bits);
  return std::abs(number) < 9e18 ? std::optional(std::llround(number)) : std::nullopt;
}

std::set<std::string_view> NamesOf(const Plane& plane) {
  std::set<std::string_view> names;
  for (const EventMetadata& entry : plane.event_metadata.entries) {
    if (IsPowerCounter(entry.name)) names.insert(entry.name);
  }
  return names;
}

absl::StatusOr<std::vector<CounterSample>> SamplesOf(const Trace& trace, const DevicePlane& device,
                                                     std::string_view name) {
  const Plane& plane = trace.planes[device.plane];
  const auto role = RulesOf(device.kind).role;
  std::vector<CounterSample> samples;
  Diagnostics of_others;  // errors of lines are reported by the reader of executions
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    if (role(trace.lines[line].name) != LineRole::kCounter) continue;
    RETURN_IF_ERROR(
        VisitEvents(trace, line, std::span(&name, 1), &of_others, [&](const EventBatch& batch) {
          for (size_t row = 0; row < batch.size(); ++row) {
            const uint32_t entry = batch.metadata[row];
            if (entry == kNoMetadata || batch.start_ps[row] == kNoTimePs ||
                plane.event_metadata.entries[entry].name != name) {
              continue;
            }
            const std::optional<int64_t> value = WholeOf(batch.Stat(0, row));
            if (value.has_value()) samples.push_back({batch.start_ps[row], *value});
          }
          return absl::OkStatus();
        }));
  }
  std::ranges::stable_sort(samples, {}, &CounterSample::t_ps);
  return samples;
}

// Sums increments up to a counter. Empty if an increment is negative or the sum overflows.
std::optional<std::vector<CounterSample>> Summed(std::vector<CounterSample> samples) {
  int64_t total = 0;
  for (CounterSample& each : samples) {
    if (each.value < 0 || __builtin_add_overflow(total, each.value, &total)) return std::nullopt;
    each.value = total;
  }
  return samples;
}

// Begins a new part at each decrease.
std::vector<CounterSample> InParts(std::vector<CounterSample> samples) {
  for (size_t i = 1; i < samples.size(); ++i) {
    samples[i].part = samples[i - 1].part + (samples[i].value < samples[i - 1].value);
  }
  return samples;
}

}  // namespace

std::optional<std::vector<CounterSample>> CountedFrom(std::vector<CounterSample> samples) {
  // A counter only decreases at resets, which are few. Among increments, half of the changes are
  // decreases.
  constexpr uint64_t kMostOfACounter = 8, kLeastOfSteps = 4;
  uint64_t falls = 0, changes = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    falls += samples[i].value < samples[i - 1].value;
    changes += samples[i].value != samples[i - 1].value;
  }
  if (falls * kMostOfACounter <= changes) return InParts(std::move(samples));
  if (falls * kLeastOfSteps < changes) return std::nullopt;
  return Summed(std::move(samples));
}

absl::StatusOr<TraceCounter> CounterOf(const Trace& trace, const DevicePlane& device,
                                       int64_t origin_ps,
                                       const std::map<int32_t, std::string>& map) {
  TraceCounter found;
  const std::set<std::string_view> names = NamesOf(trace.planes[device.plane]);
  const auto asked =
      device.ordinal.has_value() ? map.find(static_cast<int32_t>(*device.ordinal)) : map.end();
  std::vector<std::string> wanted(names.begin(), names.end());
  if (asked != map.end()) {
    std::erase_if(wanted,
                  [&](const std::string& name) { return !name.starts_with(asked->second); });
  } else if (names.contains(kPowerCounter)) {
    wanted = {std::string(kPowerCounter)};
  }
  if (wanted.size() != 1) {
    found.reason = wanted.empty() ? "no_sensor" : "several_sensors";
    found.message = wanted.empty()
                        ? "the trace contains no power of this device; record it together with the "
                          "profiler (xplane-time power record) and give --power LOG"
                        : Cat("the trace contains several counters of this device; choose one with "
                              "--map N=NAME: ",
                              absl::StrJoin(wanted, ", "));
    return found;
  }
  const bool is_energy = wanted[0] != kPowerCounter;
  ASSIGN_OR_RETURN(std::vector<CounterSample> samples, SamplesOf(trace, device, wanted[0]));
  if (is_energy) {
    std::optional<std::vector<CounterSample>> counted = CountedFrom(std::move(samples));
    if (!counted.has_value()) {
      found.reason = "counter_unclear";
      found.message =
          Cat(wanted[0],
              " of the trace contains neither counter values nor energies of single events: too "
              "many values decrease or are negative; record the power together with the profiler "
              "(xplane-time power record) and give --power LOG");
      return found;
    }
    samples = *std::move(counted);
  }
  found.channel.source = "trace";
  found.channel.device = wanted[0];
  found.channel.domain = "device";
  found.channel.quantity = is_energy ? "energy_uj" : "power_mw";
  found.channel.kind = is_energy ? ReadingKind::kCumulative : ReadingKind::kInstant;
  for (const CounterSample& each : samples) {
    constexpr int64_t kNjPerUj = 1000;
    const double at_s = static_cast<double>(each.t_ps - origin_ps) / 1e12;
    if (!is_energy && each.value < 0) {
      if (found.negative.count++ > 0) continue;
      found.negative.first_value = each.value;
      found.negative.first_place = Cat(wanted[0], " at ", at_s, " s of the capture");
      continue;
    }
    found.polls.push_back({.before_s = at_s,
                           .after_s = at_s,
                           .value = is_energy ? each.value / kNjPerUj : each.value,
                           .part = each.part});
  }
  return found;
}

}  // namespace xplane_time::energy
