// What driver and harness say to each other: docs/harness.md, as structs. And what driver and
// proposer do: docs/space.md.
//
// Pure: texts to structs and back. Answers are the words of a stranger: each field is
// checked, and an answer that does not fit is InvalidArgument that quotes it.
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

// No names of metrics: fields of a sample, and columns of `grid`'s results.csv that it makes
// itself.
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

// What a harness says that times hold for; `device` besides.
inline constexpr std::pair<const char*, std::string HarnessInfo::*> kTimesHoldFor[] = {
    {"device_class", &HarnessInfo::device_class}, {"clock", &HarnessInfo::clock},
    {"code_hash", &HarnessInfo::code_hash},       {"driver", &HarnessInfo::driver},
    {"versions", &HarnessInfo::framework},        {"flags", &HarnessInfo::flags}};

struct SlotSample : SlotTime {
  int64_t slot = 0;
};

// A type, and what an answer of it has of the others.
struct HarnessAnswer {
  std::string type = {};  // hello, prepared, verified, slot, result
  int64_t request = 0;    // hello: 0
  HarnessInfo hello = {};
  int64_t parallel_prepare = 1;
  VariantState state = {};  // of a result its status and message
  int64_t slot = 0;
  std::vector<SlotSample> samples = {};
  std::string trace_path = {}, trace_bytes = {};  // of which at most one is set
  bool throttled = false;
  std::string notes_json = "{}";
};

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line);

struct RoundRequest {
  int64_t request = 0, batch = 0, round = 0, calls = 1;
  std::string workload = {};
  std::vector<std::string> order = {};
};

// Lines, without their end.
std::string HelloRequest(std::string_view session, std::span<const Workload> workloads);
std::string PrepareRequest(int64_t request, const Configuration& variant);
std::string RunRoundRequest(const RoundRequest& round);

// What a harness says of a round, as a time a slot.
// From its samples, or from its trace: there the n-th distinct variant of the order is the
// function with the variant id n, and its runs, in order of time, are: one of no slot where it
// opened the round, then `calls` a slot. A slot without a sample is no_events. A status other
// than ok is that of all slots: it should be one that nobody is to blame for. Errors:
// InvalidArgument (a slot that is not there, or twice; neither samples nor a trace), DataLoss
// (a trace that cannot be read or does not have these runs).
absl::StatusOr<RoundTimes> TimesOfResult(const HarnessAnswer& result, const RoundRequest& request);

// --- Proposers.

// Lines, without their end. `told`: results that come before the first `ask`.
std::string ProposerHello(const SearchSpace& space, uint64_t seed, size_t told);
// Which of the proposals it was.
struct Proposal {
  int64_t request = 0;
  size_t index = 0;
};
struct Told {
  std::string id;  // empty: refused, no point of the space
  std::string params_json;
  std::string status;
  std::optional<double> value = {};
  std::string message = {};
  bool repeated = false;
  std::optional<Proposal> proposal = {};  // none: it was not proposed by this process
};
std::string TellRequest(const Told& told);

absl::Status ParseProposerHello(std::string_view line);
// Objects of parameters. Errors: InvalidArgument, also where there are more than `most`.
absl::StatusOr<std::vector<std::string>> ParseProposals(std::string_view line, int64_t request,
                                                        uint64_t most);

}  // namespace xplane_time
