#include "power/denied.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace xplane_time::power {
namespace {

// RAPL's packages and their memory, GPUs, and their power.
bool IsOfTotal(const PowerAbsence& absence) {
  const std::string_view what = absence.what;
  if (absence.source == "rapl") {
    const bool event = what.find("energy-") != std::string_view::npos;
    return !event || what.ends_with("energy-pkg") || what.ends_with("energy-ram");
  }
  if (absence.source == "nvml") {
    return what == "devices" || what.starts_with("GPU ") || what.ends_with(" power");
  }
  return what.ends_with(" power_mw") || what.ends_with(" energy_uj");
}

std::string_view DomainOf(const PowerAbsence& absence) {
  return absence.source == "rapl" ? "package" : "gpu";
}

}  // namespace

std::string DeniedPart(std::span<const PowerChannel> channels,
                       std::span<const PowerAbsence> absences, std::string_view domain) {
  for (const PowerAbsence& absence : absences) {
    if (absence.reason != PowerReason::kPermissionDenied || !IsOfTotal(absence)) continue;
    if (!domain.empty() && domain != DomainOf(absence)) continue;
    const std::string_view device =
        std::string_view(absence.what).substr(0, absence.what.find(' '));
    const auto reads = [&](const PowerChannel& each) {
      return each.in_total && each.source == absence.source && each.device == device;
    };
    if (std::any_of(channels.begin(), channels.end(), reads)) continue;
    return absl::StrCat(absence.source, " ", absence.what);
  }
  return "";
}

}  // namespace xplane_time::power
