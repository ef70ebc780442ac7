// Sources by name: the list of sources, the static facts about each, and the search for readers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "power/reader.h"
#include "status.h"

namespace xplane_time::power {

// The domain of a sensor that measures a whole socket. It includes RAPL's package, so only one of
// both counts.
inline constexpr std::string_view kSocketDomain = "socket";
// Follows the device in `what` of an absence of its utilization (GPM).
inline constexpr std::string_view kGpmAbsence = " gpm";

// The default sources. If `of_energy`, without sources that measure no energy.
std::vector<std::string> SourceNames(bool of_energy);
// "nvml, rapl, ..., constant:WATTS", then `more`, and the number of default sources: "[the first
// four]".
std::string SourcesHelp(bool of_energy, std::string_view more);

// The devices whose energy a source measures.
enum class Measures : uint8_t { kGpus, kProcessors, kOther, kWhateverIsAsked };

// The meaning of channels and absences of a source; logs only contain its name.
struct SourceFacts {
  std::string_view source;
  Measures measures = Measures::kOther;
  bool modelled = false;  // the user states the power
  // Whether a missing part (`what` of an absence) would belong to a total.
  bool (*is_of_total)(std::string_view what) = nullptr;
};
const SourceFacts& FactsOf(std::string_view source);  // also for unknown sources

// The first part of `domain` ("gpu", "package" including its memory; empty: any), such as "rapl
// package-0", that is denied and that no channel in the total replaces; empty if there is none.
std::string DeniedPart(std::span<const PowerChannel> channels,
                       std::span<const PowerAbsence> absences, std::string_view domain);

// Shared with a thread that may hang in the reader.
struct FoundReader {
  std::shared_ptr<Reader> reader;
  PowerInventory inventory = {};
};
struct FoundReaders {
  std::vector<FoundReader> readers;
  // The inventories of all readers in order, after the absences of sources that hang.
  PowerInventory all;
};

// Creates a reader for each requested source, in the order of names. A source that hangs is
// skipped. Errors: InvalidArgument (unknown source), Unavailable (no more threads).
absl::StatusOr<FoundReaders> FindReaders(const PowerSourceOptions& options, int64_t hung_after_ns);

// Starts a thread, or returns Unavailable with the reason.
template <typename Function>
absl::StatusOr<std::thread> StartThread(Function&& function) {
  try {
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    return Unavailable("cannot start a thread: ", error.what(),
                       "; check ulimit -u, -s and -v, and the process limit of the container");
  }
}

}  // namespace xplane_time::power
