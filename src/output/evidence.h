// What is printed of evidence (src/evidence). What is given outlives the Output.
#pragma once

#include "evidence/verify.h"
#include "output/output.h"

namespace xplane_time::output {

// Whether a bundle is sound, and what is not. CSV has the problems.
Output VerificationOutput(const evidence::Verification& verification);

}  // namespace xplane_time::output
