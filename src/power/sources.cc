#include "power/sources.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"

namespace xplane_time::power {
namespace {

// RAPL's packages and their memory.
bool IsOfPackages(std::string_view what) {
  const bool event = what.find("energy-") != std::string_view::npos;
  return !event || what.ends_with("energy-pkg") || what.ends_with("energy-ram");
}
// The whole GPU, or its power.
bool IsOfGpu(std::string_view what) {
  return what == "devices" || what.starts_with("GPU ") || what.ends_with(" power");
}
bool IsOfPowerOrEnergy(std::string_view what) {
  return what.ends_with(" power_mw") || what.ends_with(" energy_uj");
}

// A source: its static facts and its factory, in the order of help texts and errors.
struct Room {
  SourceFacts facts;
  std::unique_ptr<Reader> (*open)(const PowerSourceOptions& options);
};
constexpr Room kRooms[] = {
    {{"nvml", Measures::kGpus, /*modelled=*/false, IsOfGpu}, NewNvmlReader},
    {{"rapl", Measures::kProcessors, /*modelled=*/false, IsOfPackages}, NewRaplReader},
    {{"hwmon", Measures::kGpus, /*modelled=*/false, IsOfPowerOrEnergy}, NewHwmonReader},
    {{"process", Measures::kOther, /*modelled=*/false, IsOfPowerOrEnergy}, NewProcessReader},
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
    return InvalidArgument(
        "the power source \"", spec,
        "\" is invalid; use constant:WATTS with WATTS from 0, such as constant:100");
  }
  return InvalidArgument("unknown power source \"", spec, "\"; use ",
                         absl::StrJoin(SourceNames(/*of_energy=*/false), ", "),
                         ", constant:WATTS and replay:LOG");
}

// Runs in its own thread, because a driver may hang; empty if it does.
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

std::vector<std::string> SourceNames(bool of_energy) {
  std::vector<std::string> names;
  for (const Room& room : kRooms) {
    if (!of_energy || room.facts.measures != Measures::kOther) {
      names.emplace_back(room.facts.source);
    }
  }
  return names;
}

std::string SourcesHelp(bool of_energy, std::string_view more) {
  constexpr const char* kNumbers[] = {"none", "one",  "two", "three",
                                      "four", "five", "six", "seven"};
  const std::vector<std::string> names = SourceNames(of_energy);
  return Cat(absl::StrJoin(names, ", "), ", constant:WATTS", more, " (default: the first ",
             kNumbers[names.size()], ")");
}

const SourceFacts& FactsOf(std::string_view source) {
  for (const Room& room : kRooms) {
    if (room.facts.source == source) return room.facts;
  }
  return source == kConstant.source ? kConstant : kUnknown;
}

std::string DeniedPart(std::span<const PowerChannel> channels,
                       std::span<const PowerAbsence> absences, std::string_view domain) {
  absl::flat_hash_set<std::pair<std::string_view, std::string_view>> read;
  for (const PowerChannel& each : channels) {
    if (each.in_total) read.emplace(each.source, each.device);
  }
  for (const PowerAbsence& absence : absences) {
    const SourceFacts& facts = FactsOf(absence.source);
    const bool is_denied = absence.reason == PowerReason::kPermissionDenied;
    if (!is_denied || !facts.is_of_total(absence.what)) continue;
    const bool of_package = facts.measures == Measures::kProcessors;
    if (!domain.empty() && domain != (of_package ? "package" : "gpu")) continue;
    const std::string_view device =
        std::string_view(absence.what).substr(0, absence.what.find(' '));
    if (read.contains({absence.source, device})) continue;
    return Cat(absence.source, " ", absence.what);
  }
  return "";
}

absl::StatusOr<FoundReaders> FindReaders(const PowerSourceOptions& options, int64_t hung_after_ns) {
  const std::vector<std::string> asked =
      options.sources.empty() ? SourceNames(/*of_energy=*/false) : options.sources;
  FoundReaders found;
  std::string last_source;
  for (const std::string& spec : std::set<std::string>(asked.begin(), asked.end())) {
    ASSIGN_OR_RETURN(std::shared_ptr<Reader> reader, NewReader(spec, options));
    ASSIGN_OR_RETURN(auto inventory, DiscoverWithin(reader, hung_after_ns));
    if (!inventory.has_value()) {
      found.all.absences.push_back(
          {spec, "everything", PowerReason::kHung,
           Cat("the search for sensors did not return within ", hung_after_ns / 1'000'000, " ms"),
           "the driver may have failed; check dmesg"});
      continue;
    }
    if (reader->source() == last_source) {
      return InvalidArgument("two power sources have the same name: ", last_source);
    }
    last_source = reader->source();
    found.readers.push_back({std::move(reader), *std::move(inventory)});
  }
  const auto add = [](const auto& rows, auto* to) {
    to->insert(to->end(), rows.begin(), rows.end());
  };
  for (const FoundReader& each : found.readers) {
    add(each.inventory.devices, &found.all.devices);
    add(each.inventory.channels, &found.all.channels);
    add(each.inventory.absences, &found.all.absences);
  }
  return found;
}

}  // namespace xplane_time::power

xplane_time::PowerInventory xplane_time::ListPowerSources(const PowerSourceOptions& options) {
  constexpr int64_t kLimitNs = 5'000'000'000;
  auto found = power::FindReaders(options, kLimitNs);
  if (found.ok()) return std::move(found->all);
  const std::string message(found.status().message());
  return {{}, {}, {{.source = "", .what = "everything", .message = message}}};
}
