// The output of evidence (src/evidence). Arguments must outlive the Output.
#pragma once

#include <string>
#include <vector>

#include "evidence/grid.h"
#include "evidence/verify.h"
#include "output/output.h"

namespace xplane_time::output {

// Whether a bundle is sound, and its problems. CSV lists the problems.
Output VerificationOutput(const evidence::Verification& verification);

// A grid: one row per setting, like results.json and csv/results.csv.
Output GridOutput(const evidence::GridResult& result);
// Names of settings without the workload's name in front, for use below a title that has it.
std::vector<std::string> ShortNames(const evidence::GridRun& run);
// figs/latency.svg, and figs/energy_latency.svg if energies are known.
std::vector<evidence::ZipFile> GridFigures(const evidence::GridResult& result);

}  // namespace xplane_time::output
