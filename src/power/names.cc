#include <algorithm>
#include <optional>

#include "power/inventory.h"
#include "xplane_time/power.h"

namespace xplane_time {
namespace {

// In the order of the enumerations.
constexpr std::string_view kReasons[] = {
    "known",  "permission_denied", "unsupported",     "no_samples",     "reset",
    "gap",    "device_lost",       "driver_mismatch", "reset_required", "hung",
    "absent", "suspended",         "implausible"};
constexpr std::string_view kKinds[] = {"cumulative", "instant", "average", "gauge"};
constexpr std::string_view kEstimators[] = {"best", "counter", "held", "trapezoid",
                                            "endpoint-mean"};
constexpr std::string_view kUnbounded[] = {"between_readings", "broken_counter", "few_updates",
                                           "counter_covers_part"};
static_assert(std::size(kReasons) == size_t{1} + static_cast<size_t>(PowerReason::kImplausible) &&
              std::size(kKinds) == size_t{1} + static_cast<size_t>(ReadingKind::kGauge));

using Names = std::span<const std::string_view>;

template <typename Enum>
std::string_view NameIn(Names names, Enum value, Enum first = Enum()) {
  const size_t at = static_cast<size_t>(value) - static_cast<size_t>(first);
  return at < names.size() ? names[at] : "unknown";
}

template <typename Enum>
std::optional<Enum> ValueIn(Names names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<Enum>(at - names.begin()));
}

}  // namespace

bool IsPowerOrEnergy(const PowerChannel& channel) {
  return channel.quantity == "power_mw" || channel.quantity == "energy_uj";
}

Names NamesOf(PowerReason) { return kReasons; }
Names NamesOf(ReadingKind) { return kKinds; }

std::string_view PowerReasonName(PowerReason reason) { return NameIn(kReasons, reason); }
std::optional<PowerReason> PowerReasonOf(std::string_view name) {
  return ValueIn<PowerReason>(kReasons, name);
}
std::string_view ReadingKindName(ReadingKind kind) { return NameIn(kKinds, kind); }
std::optional<ReadingKind> ReadingKindOf(std::string_view name) {
  return ValueIn<ReadingKind>(kKinds, name);
}
std::string_view EnergyEstimatorName(EnergyEstimator estimator) {
  return NameIn(kEstimators, estimator);
}
std::optional<EnergyEstimator> EnergyEstimatorOf(std::string_view name) {
  return ValueIn<EnergyEstimator>(kEstimators, name);
}
std::string_view UnboundedReasonName(EnergyLimits limits) {
  return NameIn(kUnbounded, limits, EnergyLimits::kBetweenReadings);
}

}  // namespace xplane_time
