// A Harness that runs as a process: requests and answers of docs/harness.md, with deadlines. A
// process that hangs, dies or sends invalid answers is killed and restarted; the failure counts
// against the variant that was running.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/process.h"
#include "xplane_time/tune.h"

namespace xplane_time {

struct ProcessHarnessOptions {
  HarnessProcess::Options process;
  std::string session = {};
  std::vector<Workload> workloads = {};
  int64_t calls = 1;     // in a slot
  double run_limit = 0;  // of a slot, as a multiple of the fastest variant's time; 0: no limit
                         // (measuring.h)
  std::chrono::milliseconds hello_timeout{120'000}, prepare_timeout{600'000}, slot_timeout{60'000};
  int most_failures = 3;  // successive failures without a responsible variant; then the harness has
                          // failed
};

// The destructor says bye.
std::unique_ptr<Harness> NewProcessHarness(ProcessHarnessOptions options);

}  // namespace xplane_time
