// Grid: the measurements of each setting, and the tables that are made from them.
//
//   input    a run (its settings and baseline), and the samples of each setting
//   output   a row for each setting; the files csv/..., results.json
//
//   GridResult result = MakeGridResult(run, samples);
//   result.rows[1].p95_latency_us        // of its samples that are ok
//   GridFiles(result)                    // {"csv/baseline.csv", ...}, {"csv/results.csv", ...}
//
// A pure function of run and samples, so verify can make the files again from the witness and
// compare them. Reductions are relative to the baseline: 0.25 is a quarter less. Unknown values are
// empty. Names of files and columns are those of an earlier tool (docs/grid.md).
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
  std::string name;  // safe as part of a file name
  std::string id;
  json::Json params = {};
  std::string status = "ok", message = {};  // why it did not yield all of its samples
};

// Everything except the samples.
struct GridRun {
  std::string workload, baseline;  // baseline: a name
  uint64_t samples = 0;            // requested for each setting
  int64_t calls = 1;               // in a sample
  bool complete = false;           // false: it was stopped
  std::optional<std::string> energy_kind = {};
  std::optional<std::string> no_energy = {};  // why there is no energy
  HarnessInfo harness = {};
  std::vector<GridSetting> settings = {};
};
XPLANE_TIME_JSON_FIELDS(GridSetting, name, id, params, status, message)
XPLANE_TIME_JSON_FIELDS(GridRun, workload, baseline, samples, calls, complete, energy_kind,
                        no_energy, harness, settings)

// Names for files, one for each configuration: a listed id, or "SPACE_l0.3_t2" for parameters l and
// t. If that is not a valid name, the id is used. `baseline` is an id. Errors: InvalidArgument (an
// id of the space cannot be a file name).
absl::StatusOr<std::vector<std::string>> SettingNames(std::string_view space,
                                                      std::span<const Configuration> configurations,
                                                      std::string_view baseline);

struct GridSample {
  uint64_t sample_id = 0;  // index among the setting's samples: line sample_id + 2 of its witness
  int64_t batch = 0, round = 0;
  int32_t slot = 0;
  bool discarded = false;
  std::string status = "ok";
  std::optional<int64_t> t_ps = {}, energy_uj = {};
  std::optional<int64_t> unix_us = {};  // end of the round
  json::Json metrics = json::Json::object();

  bool counts() const { return status == "ok" && !discarded && t_ps.has_value(); }
};
XPLANE_TIME_JSON_FIELDS(GridSample, sample_id, batch, round, slot, discarded, status, t_ps,
                        energy_uj, unix_us, metrics)

// The samples of a round with the ids of their settings; sample_id is not set.
std::vector<std::pair<std::string, GridSample>> SamplesOf(const RoundRecord& round);

// One list for each setting, in the order of the run.
using GridSamples = std::vector<std::vector<GridSample>>;

struct GridRow {
  std::string setting;
  std::optional<double> coherence_delta = {}, kv_cache_reduction = {}, peak_mem_reduction = {},
                        energy_reduction = {}, p95_latency_us = {}, accuracy = {};
  uint64_t n = 0, failed = 0;
  std::optional<double> median_latency_us = {};
  std::optional<double> median_lo_us = {}, median_hi_us = {};  // 95 %
  std::optional<double> p99_latency_us = {};
  std::optional<double> energy_uj = {};             // mean
  std::vector<std::optional<double>> metrics = {};  // means of GridResult::metric_names
  std::optional<bool> on_front = {};  // front of median and energy; empty if there is no energy
};

struct GridResult {
  GridRun run;
  GridSamples samples;
  std::vector<std::string> metric_names = {};  // metrics without their own column
  std::vector<GridRow> rows = {};              // one for each setting
};
GridResult MakeGridResult(GridRun run, GridSamples samples);

// csv/results.csv; a latency CSV for each setting (csv/baseline.csv for the baseline);
// csv/NAME.memory.csv for settings with memory metrics; results.json.
std::vector<ZipFile> GridFiles(const GridResult& result);
std::string LatencyFile(const GridRun& run, const GridSetting& setting);
std::string MemoryFile(const GridSetting& setting);
std::string WitnessFile(const GridSetting& setting);

}  // namespace xplane_time::evidence
