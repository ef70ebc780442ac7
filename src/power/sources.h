// Sources by name: the list of rooms, what is known of each without asking it, and what they find.
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

// The domain of a sensor of a whole socket, which holds RAPL's package: one of both counts.
inline constexpr std::string_view kSocketDomain = "socket";
// After the device: what an absence of its utilization (GPM) is of.
inline constexpr std::string_view kGpmAbsence = " gpm";

// Those that are taken where none is named. `of_energy`: without those that have none.
std::vector<std::string> SourceNames(bool of_energy);
// "nvml, rapl, ..., constant:WATTS", then `more`, and how many are taken where none is named: "[the
// first four]".
std::string SourcesHelp(bool of_energy, std::string_view more);

// What the energies of a source are of.
enum class Measures : uint8_t { kGpus, kProcessors, kOther, kWhateverIsAsked };

// What a channel or an absence means, by its source; logs have no more than the name.
struct SourceFacts {
  std::string_view source;
  Measures measures = Measures::kOther;
  bool modelled = false;  // somebody states it
  // Whether what is missing would be in a total: `what` of an absence.
  bool (*is_of_total)(std::string_view what) = nullptr;
};
const SourceFacts& FactsOf(std::string_view source);  // also of sources that nobody knows

// The first thing of `domain` ("gpu", "package" with its memory; empty: any), as "rapl package-0",
// that is denied and that no channel in the total stands in for; empty: nothing.
std::string DeniedPart(std::span<const PowerChannel> channels,
                       std::span<const PowerAbsence> absences, std::string_view domain);

// Shared with a thread that may hang in it.
struct FoundReader {
  std::shared_ptr<Reader> reader;
  PowerInventory inventory = {};
};
struct FoundReaders {
  std::vector<FoundReader> readers;
  // Theirs, one after the other, after the absences of sources that hang.
  PowerInventory all;
};

// A reader for each source asked for, in the order of their names. A source that hangs is left
// out. Errors: InvalidArgument (no such source), Unavailable (no more threads).
absl::StatusOr<FoundReaders> FindReaders(const PowerSourceOptions& options, int64_t hung_after_ns);

// A thread, or Unavailable: why there is none.
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
