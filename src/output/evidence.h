// What is printed of evidence (src/evidence). What is given outlives the Output.
#pragma once

#include <string>
#include <vector>

#include "evidence/grid.h"
#include "evidence/verify.h"
#include "output/output.h"

namespace xplane_time::output {

// Whether a bundle is sound, and what is not. CSV has the problems.
Output VerificationOutput(const evidence::Verification& verification);

// Of a grid: a row a setting, as results.json and csv/results.csv have them.
Output GridOutput(const evidence::GridResult& result);
// What settings are called below a title that has the workload: without its name in front.
std::vector<std::string> ShortNames(const evidence::GridRun& run);
// figs/latency.svg, and figs/energy_latency.svg where there are energies.
std::vector<evidence::ZipFile> GridFigures(const evidence::GridResult& result);

}  // namespace xplane_time::output
