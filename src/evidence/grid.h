// Grid: what was measured of each setting, and the tables that are made from it.
//
//   enters   a run (which settings, which baseline), and the samples of each setting
//   leaves   a row a setting; the files csv/..., results.json
//
//   GridResult result = MakeGridResult(run, samples);
//   result.rows[1].p95_latency_us        // of its samples that are ok
//   GridFiles(result)                    // {"csv/baseline.csv", ...}, {"csv/results.csv", ...}
//
// A pure function of run and samples: verify makes the files again from the witness, and compares.
// Reductions are shares against the baseline, 0.25 is a quarter less. What is not known is empty.
// Names of files and columns are those of an earlier tool (docs/grid.md).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "evidence/zip.h"
#include "tune/outcome_json.h"
#include "xplane_time/tune.h"

namespace xplane_time::evidence {

struct GridSetting {
  std::string name;  // of its files: safe
  std::string id;
  json::Json params = {};
  std::string status = "ok", message = {};  // how it ended, where it did not give all its samples
};

// All but the samples.
struct GridRun {
  std::string workload, baseline;  // baseline: a name
  uint64_t samples = 0;            // that were asked for, of each setting
  int64_t calls = 1;               // a sample
  bool complete = false;           // false: it was stopped
  std::optional<std::string> energy_kind = {};
  std::optional<std::string> no_energy = {};  // why there is none
  HarnessInfo harness = {};
  std::vector<GridSetting> settings = {};
};
XPLANE_TIME_JSON_FIELDS(GridSetting, name, id, params, status, message)
XPLANE_TIME_JSON_FIELDS(GridRun, workload, baseline, samples, calls, complete, energy_kind,
                        no_energy, harness, settings)

// Names of files, one a configuration: a listed id, or "SPACE_l0.3_t2" of parameters l and t; an id
// where that is no name. `baseline`: an id. Errors: InvalidArgument (an id of the space that cannot
// be a name of files).
absl::StatusOr<std::vector<std::string>> SettingNames(std::string_view space,
                                                      std::span<const Configuration> configurations,
                                                      std::string_view baseline);

struct GridSample {
  uint64_t sample_id = 0;  // its place among the setting's: line sample_id + 2 of its witness
  int64_t batch = 0, round = 0;
  int32_t slot = 0;
  bool discarded = false;
  std::string status = "ok";
  std::optional<int64_t> t_ps = {}, energy_uj = {};
  std::optional<int64_t> unix_us = {};  // of the round's end
  json::Json metrics = json::Json::object();

  bool counts() const { return status == "ok" && !discarded && t_ps.has_value(); }
};
XPLANE_TIME_JSON_FIELDS(GridSample, sample_id, batch, round, slot, discarded, status, t_ps,
                        energy_uj, unix_us, metrics)

// The samples of a round, with the ids of their settings, and sample_id not set.
std::vector<std::pair<std::string, GridSample>> SamplesOf(const RoundRecord& round);

// One for each setting, in the order of the run.
using GridSamples = std::vector<std::vector<GridSample>>;

struct GridRow {
  std::string setting;
  std::optional<double> coherence_delta = {}, kv_cache_reduction = {}, peak_mem_reduction = {},
                        energy_reduction = {}, p95_latency_us = {}, accuracy = {};
  uint64_t n = 0, failed = 0;
  std::optional<double> median_latency_us = {};
  std::optional<double> median_lo_us = {}, median_hi_us = {};  // 95 %
  std::optional<double> p99_latency_us = {};
  std::optional<double> energy_uj = {};             // the mean
  std::vector<std::optional<double>> metrics = {};  // means, of GridResult::metric_names
  std::optional<bool> on_front = {};                // of median and energy; none: no energy
};

struct GridResult {
  GridRun run;
  GridSamples samples;
  std::vector<std::string> metric_names = {};  // that have no column of their own
  std::vector<GridRow> rows = {};              // one a setting
};
GridResult MakeGridResult(GridRun run, GridSamples samples);

// csv/results.csv, a latency CSV a setting (of the baseline csv/baseline.csv), and
// csv/NAME.memory.csv where its samples have memory; results.json.
std::vector<ZipFile> GridFiles(const GridResult& result);
std::string LatencyFile(const GridRun& run, const GridSetting& setting);
std::string MemoryFile(const GridSetting& setting);
std::string WitnessFile(const GridSetting& setting);

}  // namespace xplane_time::evidence
