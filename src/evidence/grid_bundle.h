// The witness of a running grid, its bundle, and the check of the bundle.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evidence/bundle.h"
#include "evidence/grid.h"
#include "evidence/witness.h"

namespace xplane_time::evidence {

inline constexpr char kGridKind[] = "grid";

// The configuration of the measurement.
struct GridConfiguration {
  std::string workload, space_hash, baseline;  // baseline: a name
  uint64_t samples = 0, seed = 0;
  int64_t calls = 1;
  HarnessInfo harness = {};
};
XPLANE_TIME_JSON_FIELDS(GridConfiguration, workload, space_hash, baseline, samples, seed, calls,
                        harness)

// Writes a chain for each setting in FOLDER/witness, and collects the samples. Existing lines must
// agree with the store (WitnessWriter).
class GridWitness {
 public:
  // The folder must exist. Every head has the fingerprint of `configuration`.
  absl::Status Open(const std::string& folder, const GridConfiguration& configuration,
                    const std::vector<GridSetting>& settings);
  // Errors: those of WitnessWriter.
  absl::Status Add(const RoundRecord& round);
  absl::Status Finish();

  const GridSamples& samples() const { return samples_; }  // in the order of the settings

 private:
  std::vector<WitnessWriter> writers_;
  GridSamples samples_;
  std::map<std::string, size_t> at_;  // by id
};

// The content of a bundle: the files of the result, the space, the chains. `space_json` comes from
// SpaceToJson.
BundleSpec GridBundle(const GridResult& result, const GridConfiguration& configuration,
                      const std::string& space_json);

// For a bundle whose hashes and chains are valid: makes the tables again from the samples. Numbers
// may differ by rounding errors of another machine.
void CheckGrid(const Bundle& bundle, std::vector<std::string>* checked,
               std::vector<Problem>* problems);

}  // namespace xplane_time::evidence
