// Names of the enumerations, as they stand in messages.
#include <array>

#include "xplane_time/decide.h"

namespace xplane_time {
namespace {

constexpr std::array<std::string_view, 10> kStatusNames = {
    "ok",  "compile_error", "runtime_error", "crash",     "timeout",
    "oom", "wrong_result",  "no_events",     "throttled", "infra"};

}  // namespace

std::string_view SampleStatusName(SampleStatus status) {
  return kStatusNames[static_cast<size_t>(status)];
}

std::optional<SampleStatus> ParseSampleStatus(std::string_view name) {
  if (name.starts_with("crash(") && name.ends_with(")")) return SampleStatus::kCrash;
  for (size_t i = 0; i < kStatusNames.size(); ++i) {
    if (kStatusNames[i] == name) return static_cast<SampleStatus>(i);
  }
  return std::nullopt;
}

std::string_view ObjectiveName(Objective objective) {
  constexpr std::array<std::string_view, 5> kNames = {"time", "energy", "edp", "ed2p", "pareto"};
  return kNames[static_cast<size_t>(objective)];
}

std::string_view ClaimName(Claim claim) {
  constexpr std::array<std::string_view, 5> kNames = {"winner", "tie", "pick", "undecided",
                                                      "all_failed"};
  return kNames[static_cast<size_t>(claim)];
}

}  // namespace xplane_time
