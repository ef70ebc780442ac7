#include "power/sources.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <iterator>
#include <optional>

#include "absl/strings/numbers.h"

namespace xplane_time::power {
namespace {

// RAPL's packages and their memory.
bool IsOfPackages(std::string_view what) {
  const bool event = what.find("energy-") != std::string_view::npos;
  return !event || what.ends_with("energy-pkg") || what.ends_with("energy-ram");
}
// All of a GPU, or its power.
bool IsOfGpu(std::string_view what) {
  return what == "devices" || what.starts_with("GPU ") || what.ends_with(" power");
}
bool IsOfPowerOrEnergy(std::string_view what) {
  return what.ends_with(" power_mw") || what.ends_with(" energy_uj");
}

// A room: what is known of it, and how it is opened.
struct Room {
  SourceFacts facts;
  std::unique_ptr<Reader> (*open)(const PowerSourceOptions& options);
};
constexpr Room kRooms[] = {
    {{"hwmon", Measures::kGpus, /*modelled=*/false, IsOfPowerOrEnergy}, NewHwmonReader},
    {{"nvml", Measures::kGpus, /*modelled=*/false, IsOfGpu}, NewNvmlReader},
    {{"process", Measures::kOther, /*modelled=*/false, IsOfPowerOrEnergy}, NewProcessReader},
    {{"rapl", Measures::kProcessors, /*modelled=*/false, IsOfPackages}, NewRaplReader},
};
constexpr SourceFacts kConstant = {"constant", Measures::kWhateverIsAsked, /*modelled=*/true,
                                   IsOfPowerOrEnergy};
constexpr SourceFacts kUnknown = {"", Measures::kOther, /*modelled=*/false, IsOfPowerOrEnergy};

absl::StatusOr<std::unique_ptr<Reader>> NewReader(const std::string& spec,
                                                  const PowerSourceOptions& options) {
  for (const Room& room : kRooms) {
    if (room.facts.source == spec) return room.open(options);
  }
  if (spec.starts_with("replay:")) return NewReplayReader(spec.substr(sizeof("replay:") - 1));
  if (spec.starts_with("constant:")) {
    constexpr double kMostWatts = 1e9, kMilli = 1000;
    double watts = 0;
    if (absl::SimpleAtod(spec.substr(sizeof("constant:") - 1), &watts) && watts >= 0 &&
        watts <= kMostWatts) {
      return NewConstantReader(std::llround(watts * kMilli));
    }
  }
  if (spec.starts_with("constant")) {
    return InvalidArgument("the power source \"", spec,
                           "\": constant:WATTS, from 0, as constant:100");
  }
  return InvalidArgument("no power source \"", spec,
                         "\"; there are nvml, rapl, hwmon, process, constant:WATTS and replay:LOG");
}

// In a thread of its own, because a driver may hang in it; nothing: it does.
absl::StatusOr<std::optional<PowerInventory>> DiscoverWithin(const std::shared_ptr<Reader>& reader,
                                                             int64_t limit_ns) {
  auto promise = std::make_shared<std::promise<PowerInventory>>();
  std::future<PowerInventory> found = promise->get_future();
  ASSIGN_OR_RETURN(std::thread thread,
                   StartThread([reader, promise] { promise->set_value(reader->Discover()); }));
  thread.detach();
  if (found.wait_for(std::chrono::nanoseconds(limit_ns)) != std::future_status::ready) {
    return std::nullopt;
  }
  return found.get();
}

}  // namespace

const SourceFacts& FactsOf(std::string_view source) {
  for (const Room& room : kRooms) {
    if (room.facts.source == source) return room.facts;
  }
  return source == kConstant.source ? kConstant : kUnknown;
}

std::string DeniedPart(std::span<const PowerChannel> channels,
                       std::span<const PowerAbsence> absences, std::string_view domain) {
  for (const PowerAbsence& absence : absences) {
    const SourceFacts& facts = FactsOf(absence.source);
    const bool is_denied = absence.reason == PowerReason::kPermissionDenied;
    if (!is_denied || !facts.is_of_total(absence.what)) continue;
    const bool of_package = facts.measures == Measures::kProcessors;
    if (!domain.empty() && domain != (of_package ? "package" : "gpu")) continue;
    const std::string_view device =
        std::string_view(absence.what).substr(0, absence.what.find(' '));
    const auto reads = [&](const PowerChannel& each) {
      return each.in_total && each.source == absence.source && each.device == device;
    };
    if (std::any_of(channels.begin(), channels.end(), reads)) continue;
    return Cat(absence.source, " ", absence.what);
  }
  return "";
}

void Join(PowerInventory from, PowerInventory* to) {
  const auto move_all = [](auto* rows, auto* into) {
    into->insert(into->end(), std::make_move_iterator(rows->begin()),
                 std::make_move_iterator(rows->end()));
  };
  move_all(&from.devices, &to->devices);
  move_all(&from.channels, &to->channels);
  move_all(&from.absences, &to->absences);
}

absl::StatusOr<std::vector<FoundReader>> FindReaders(const PowerSourceOptions& options,
                                                     int64_t hung_after_ns,
                                                     std::vector<PowerAbsence>* absences) {
  std::vector<std::string> sources = options.sources;
  if (sources.empty()) {
    for (const Room& room : kRooms) sources.emplace_back(room.facts.source);
  }
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  std::vector<FoundReader> readers;
  std::string last_source;
  for (const std::string& spec : sources) {
    ASSIGN_OR_RETURN(std::shared_ptr<Reader> reader, NewReader(spec, options));
    ASSIGN_OR_RETURN(auto inventory, DiscoverWithin(reader, hung_after_ns));
    if (!inventory.has_value()) {
      absences->push_back(
          {spec, "everything", PowerReason::kHung,
           Cat("looking for sensors did not return within ", hung_after_ns / 1'000'000, " ms"),
           "the driver may be in trouble: see dmesg"});
      continue;
    }
    if (reader->source() == last_source) {
      return InvalidArgument("two power sources of one name: ", last_source);
    }
    last_source = reader->source();
    readers.push_back({std::move(reader), *std::move(inventory)});
  }
  return readers;
}

}  // namespace xplane_time::power

namespace xplane_time {

PowerInventory ListPowerSources(const PowerSourceOptions& options) {
  constexpr int64_t kLimitNs = 5'000'000'000;
  PowerInventory all;
  auto readers = power::FindReaders(options, kLimitNs, &all.absences);
  if (!readers.ok()) {
    const std::string message(readers.status().message());
    all.absences.push_back({.source = "", .what = "everything", .message = message});
    return all;
  }
  for (power::FoundReader& each : *readers) power::Join(std::move(each.inventory), &all);
  return all;
}

}  // namespace xplane_time
