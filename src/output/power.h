// What the files on power share.
#pragma once

#include <optional>
#include <string>

#include "output/results.h"
#include "xplane_time/power.h"

namespace xplane_time::output {

struct ModelledCarbon {
  double kwh = 0, co2e_g = 0;
};
// Empty where the energy or the intensity is not known.
std::optional<ModelledCarbon> CarbonOf(const std::optional<double>& energy_j,
                                       const CarbonModel& model);

std::string PowerOpenMetrics(const PowerSummary& summary, const CarbonModel& carbon);

// "nvml 0 gpu", or with the device's id where it has no index.
std::string DomainName(const PowerSummary& summary, const std::string& source,
                       const std::string& device, const std::string& domain);
// "step", "step #2"; "whole run".
std::string WindowName(const WindowSummary& window);
// "nvml: absent: why; the way out".
std::string AbsenceLine(const PowerAbsence& absence);

}  // namespace xplane_time::output
