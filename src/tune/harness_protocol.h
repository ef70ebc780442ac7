// The messages between driver and harness (docs/harness.md), and between driver and proposer
// (docs/space.md), as structs.
//
// Pure conversion between text and structs. Answers come from programs that we do not control: each
// field is checked, and a wrong answer is an InvalidArgument that quotes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/space.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// Names that metrics must not have: fields of a sample, and columns that `grid` writes to
// results.csv.
inline constexpr std::string_view kNoMetrics[] = {"t_ps",
                                                  "energy_uj",
                                                  "setting",
                                                  "n",
                                                  "failed",
                                                  "p95_latency_us",
                                                  "p99_latency_us",
                                                  "median_latency_us",
                                                  "median_latency_us_ci95_lo",
                                                  "median_latency_us_ci95_hi",
                                                  "status",
                                                  "message"};

// The properties of a harness that its times depend on, in addition to `device`.
inline constexpr std::pair<const char*, std::string HarnessInfo::*> kTimesHoldFor[] = {
    {"device_class", &HarnessInfo::device_class}, {"clock", &HarnessInfo::clock},
    {"code_hash", &HarnessInfo::code_hash},       {"driver", &HarnessInfo::driver},
    {"versions", &HarnessInfo::framework},        {"flags", &HarnessInfo::flags}};

struct SlotSample : SlotTime {
  int64_t slot = 0;
};

// The type of an answer, and the fields for that type.
struct HarnessAnswer {
  std::string type = {};  // hello, prepared, verified, slot, result
  int64_t request = 0;    // 0 for hello
  HarnessInfo hello = {};
  int64_t parallel_prepare = 1;
  VariantState state = {};  // of a result: its status and message
  int64_t slot = 0;
  std::vector<SlotSample> samples = {};
  std::string trace_path = {}, trace_bytes = {};  // at most one of the two is set
  bool throttled = false;
  std::string notes_json = "{}";
};

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line);

struct RoundRequest {
  int64_t request = 0, batch = 0, round = 0, calls = 1;
  std::string workload = {};
  std::vector<std::string> order = {};
};

// Lines without a line end.
std::string HelloRequest(std::string_view session, std::span<const Workload> workloads);
std::string PrepareRequest(int64_t request, const Configuration& variant);
std::string RunRoundRequest(const RoundRequest& round);

// Converts a result into one time for each slot. The times come from its samples or from its trace.
// In the trace, the n-th distinct variant of the order is the function with the variant id n. Its
// runs, in order of time, are: one untimed run if it opened the round, then `calls` for each slot.
// A slot without a sample is no_events. A status other than ok applies to all slots; it should be a
// transient one. Errors: InvalidArgument (a missing or repeated slot; neither samples nor a trace),
// DataLoss (a trace that cannot be read or lacks these runs).
absl::StatusOr<RoundTimes> TimesOfResult(const HarnessAnswer& result, const RoundRequest& request);

// --- Proposers.

// Lines without a line end. `told` is the number of results that come before the first `ask`.
std::string ProposerHello(const SearchSpace& space, uint64_t seed, size_t told);
// Identifies a proposal.
struct Proposal {
  int64_t request = 0;
  size_t index = 0;
};
struct Told {
  std::string id;  // empty: refused, because it is not in the space
  std::string params_json;
  std::string status;
  std::optional<double> value = {};
  std::string message = {};
  bool repeated = false;
  std::optional<Proposal> proposal = {};  // empty: not proposed by this process
};
std::string TellRequest(const Told& told);

absl::Status ParseProposerHello(std::string_view line);
// Returns objects of parameters. Errors: InvalidArgument, also if there are more than `most`.
absl::StatusOr<std::vector<std::string>> ParseProposals(std::string_view line, int64_t request,
                                                        uint64_t most);

}  // namespace xplane_time
