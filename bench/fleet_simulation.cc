// Error rates of FindFleetOutliers in simulated fleets of 100 hosts with 5 captures each, of which
// two hosts are slower by 2 %. The numbers do not depend on the machine.
//
//   fleet_simulation [FLEETS]
#include <cstdio>
#include <cstdlib>

#include "tests/fleet/made_summary.h"

namespace {

using namespace xplane_time;

struct Rates {
  int found = 0, false_alarm = 0;  // fleets with all slow hosts found; fleets with any other claim
};

Rates RatesOf(const testing::MadeFleet& made, int fleets) {
  Rates rates;
  for (int fleet = 0; fleet < fleets; ++fleet) {
    const FleetSummary summary = testing::MakeFleet(made, static_cast<uint32_t>(fleet));
    size_t found = 0, false_alarms = 0;
    for (const FleetOutlier& row : FindFleetOutliers(summary, {})) {
      const bool is_slow = static_cast<size_t>(std::atoi(row.host.c_str() + 4)) < made.slow_hosts;
      if (row.verdict <= FleetVerdict::kFast) ++(is_slow ? found : false_alarms);
    }
    rates.found += found == made.slow_hosts * made.functions ? 1 : 0;
    rates.false_alarm += false_alarms > 0 ? 1 : 0;
  }
  return rates;
}

}  // namespace

int main(int argc, char** argv) {
  const int fleets = argc > 1 ? std::atoi(argv[1]) : 1000;
  std::printf(
      "hosts differ  captures differ  functions  slow  found  false alarm  (of %d fleets)\n",
      fleets);
  for (const size_t functions : {1, 10}) {
    for (const double host_sd : {0.001, 0.002, 0.003}) {
      for (const double capture_sd : {0.002, 0.005}) {
        for (const size_t slow : {0, 2}) {
          testing::MadeFleet made;
          made.functions = functions;
          made.host_sd = host_sd;
          made.capture_sd = capture_sd;
          made.slow_hosts = slow;
          const Rates rates = RatesOf(made, fleets);
          std::printf("%10.1f %%  %13.1f %%  %9zu  %4zu  %5d  %11d\n", 100 * host_sd,
                      100 * capture_sd, functions, slow, rates.found, rates.false_alarm);
        }
      }
    }
  }
}
