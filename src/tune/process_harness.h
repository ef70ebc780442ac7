// A Harness that is a process: requests and answers of docs/harness.md, with deadlines. What
// hangs, dies or talks nonsense is killed and started anew, and blamed on the variant that
// was running.
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
  int64_t calls = 1;     // a slot
  double run_limit = 0;  // of a slot, in times of the fastest variant's; 0: none (measuring.h)
  std::chrono::milliseconds hello_timeout{120'000}, prepare_timeout{600'000}, slot_timeout{60'000};
  int most_failures = 3;  // in a row that no variant is to blame for; then it cannot work
};

// Says bye at its end.
std::unique_ptr<Harness> NewProcessHarness(ProcessHarnessOptions options);

}  // namespace xplane_time
