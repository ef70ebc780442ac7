// The witness of a grid while it runs, its bundle, and the check of that.
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

// What decides what is measured.
struct GridConfiguration {
  std::string workload, space_hash, baseline;  // baseline: a name
  uint64_t samples = 0, seed = 0;
  int64_t calls = 1;
  HarnessInfo harness = {};
};
XPLANE_TIME_JSON_FIELDS(GridConfiguration, workload, space_hash, baseline, samples, seed, calls,
                        harness)

// A chain a setting, in FOLDER/witness, and their samples. What is there already has to be what the
// store says (WitnessWriter).
class GridWitness {
 public:
  // The folder is there. `configuration` is in every head, by its fingerprint.
  absl::Status Open(const std::string& folder, const GridConfiguration& configuration,
                    const std::vector<GridSetting>& settings);
  // Errors: of WitnessWriter.
  absl::Status Add(const RoundRecord& round);
  absl::Status Finish();

  const GridSamples& samples() const { return samples_; }  // in the order of the settings

 private:
  std::vector<WitnessWriter> writers_;
  GridSamples samples_;
  std::map<std::string, size_t> at_;  // by id
};

// What a bundle has: the files of the result, the space, the chains. `space_json`: SpaceToJson.
BundleSpec GridBundle(const GridResult& result, const GridConfiguration& configuration,
                      const std::string& space_json);

// Of a bundle whose hashes and chains hold: the samples give the tables. Numbers may differ by what
// another machine rounds.
void CheckGrid(const Bundle& bundle, std::vector<std::string>* checked,
               std::vector<Problem>* problems);

}  // namespace xplane_time::evidence
