// What driver and harness say to each other: docs/harness.md, as structs.
//
// Pure: texts to structs and back. Answers are the words of a stranger: each field is
// checked, and an answer that does not fit is InvalidArgument that quotes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/space.h"
#include "xplane_time/tune.h"

namespace xplane_time {

struct HelloAnswer : HarnessInfo {
  int64_t parallel_prepare = 1;
};

struct PreparedAnswer : VariantState {
  int64_t request = 0;
};

struct VerifiedAnswer : VariantState {  // status and message
  int64_t request = 0;
};

struct SlotAnswer {
  int64_t request = 0, slot = 0;
};

struct SlotSample : SlotTime {
  int64_t slot = 0;
};

struct ResultAnswer {
  int64_t request = 0;
  std::string status;
  std::vector<SlotSample> samples = {};
  std::string trace_path = {}, trace_bytes = {};  // of which at most one is set
  bool throttled = false;
  std::string notes_json = "{}", message = {};
};

using HarnessAnswer =
    std::variant<HelloAnswer, PreparedAnswer, VerifiedAnswer, SlotAnswer, ResultAnswer>;

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line);

struct RoundRequest {
  int64_t request = 0, batch = 0, round = 0, calls = 1;
  std::string workload = {};
  std::vector<std::string> order = {};
};

// Lines, without their end.
std::string HelloRequest(std::string_view session, std::span<const Workload> workloads);
std::string PrepareRequest(int64_t request, const Configuration& variant);
std::string VerifyRequest(int64_t request, std::string_view variant);
std::string RunRoundRequest(const RoundRequest& round);
std::string CancelRequest(int64_t request);
std::string ByeRequest();

// What a harness says of a round, as a time a slot.

// From its samples, or from its trace: there the n-th distinct variant of the order is the
// function with the variant id n, and its runs, in order of time, are: one of no slot where it
// opened the round, then `calls` a slot. A slot without a sample is no_events. A status other
// than ok is that of all slots: it should be one that nobody is to blame for. Errors:
// InvalidArgument (a slot that is not there, or twice; neither samples nor a trace), DataLoss
// (a trace that cannot be read or does not have these runs).
absl::StatusOr<RoundTimes> TimesOfResult(const ResultAnswer& result, const RoundRequest& request);

}  // namespace xplane_time
