#include "power/sources.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "power/start_thread.h"

namespace xplane_time::power {
namespace {

constexpr double kMostWatts = 1e9;

absl::StatusOr<std::unique_ptr<Reader>> NewReader(const std::string& spec,
                                                  const PowerSourceOptions& options) {
  if (spec == "nvml") return NewNvmlReader(options);
  if (spec == "rapl") return NewRaplReader(options);
  if (spec == "hwmon") return NewHwmonReader(options);
  if (spec == "process") return NewProcessReader(options);
  if (spec.starts_with("replay:")) return NewReplayReader(spec.substr(sizeof("replay:") - 1));
  if (spec.starts_with("constant:")) {
    double watts = 0;
    constexpr double kMilli = 1000;
    if (absl::SimpleAtod(spec.substr(sizeof("constant:") - 1), &watts) && watts >= 0 &&
        watts <= kMostWatts) {
      return NewConstantReader(std::llround(watts * kMilli));
    }
  }
  if (spec.starts_with("constant")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the power source \"", spec, "\": constant:WATTS, from 0, as constant:100"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no power source \"", spec,
                   "\"; there are nvml, rapl, hwmon, process, constant:WATTS and replay:LOG"));
}

// In a thread of its own, because a driver may hang in it; nothing: it does.
absl::StatusOr<std::optional<PowerInventory>> DiscoverWithin(const std::shared_ptr<Reader>& reader,
                                                             int64_t limit_ns) {
  auto promise = std::make_shared<std::promise<PowerInventory>>();
  std::future<PowerInventory> found = promise->get_future();
  auto thread = StartThread([reader, promise] { promise->set_value(reader->Discover()); });
  if (!thread.ok()) return thread.status();
  thread->detach();
  if (found.wait_for(std::chrono::nanoseconds(limit_ns)) != std::future_status::ready) {
    return std::nullopt;
  }
  return found.get();
}

}  // namespace

absl::StatusOr<std::vector<FoundReader>> FindReaders(const PowerSourceOptions& options,
                                                     int64_t hung_after_ns,
                                                     std::vector<PowerAbsence>* absences) {
  std::vector<std::string> sources = options.sources;
  if (sources.empty()) sources = {"hwmon", "nvml", "process", "rapl"};
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  std::vector<FoundReader> readers;
  std::string last_source;
  for (const std::string& spec : sources) {
    auto made = NewReader(spec, options);
    if (!made.ok()) return made.status();
    FoundReader found = {.reader = *std::move(made)};
    auto discovered = DiscoverWithin(found.reader, hung_after_ns);
    if (!discovered.ok()) return discovered.status();
    std::optional<PowerInventory>& inventory = *discovered;
    if (!inventory.has_value()) {
      absences->push_back({.source = spec,
                           .what = "everything",
                           .reason = PowerReason::kHung,
                           .message = absl::StrCat("looking for sensors did not return within ",
                                                   hung_after_ns / 1'000'000, " ms"),
                           .fix = "the driver may be in trouble: see dmesg"});
      continue;
    }
    if (found.reader->source() == last_source) {
      return absl::InvalidArgumentError(
          absl::StrCat("two power sources of one name: ", last_source));
    }
    last_source = found.reader->source();
    found.inventory = *std::move(inventory);
    readers.push_back(std::move(found));
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
  for (power::FoundReader& each : *readers) {
    const auto move_all = [](auto* from, auto* to) {
      to->insert(to->end(), std::make_move_iterator(from->begin()),
                 std::make_move_iterator(from->end()));
    };
    move_all(&each.inventory.devices, &all.devices);
    move_all(&each.inventory.channels, &all.channels);
    move_all(&each.inventory.absences, &all.absences);
  }
  return all;
}

}  // namespace xplane_time
