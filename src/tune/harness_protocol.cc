// Messages of harnesses and proposers: checks each field, and turns results into times.
//
// A result has samples, one for each slot, or a trace of the round. TimesOfTrace opens the trace,
// finds the runs of each variant by its id (RunsOf) and combines the devices of a run: the k-th run
// on each device is one run and takes as long as on the slowest device. It checks that each variant
// has exactly the expected number of runs. Then it skips the untimed run of the first variant and
// averages `calls` runs for each slot. Linear in the events of the trace.
#include "tune/harness_protocol.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "harness/messages.h"
#include "json/field.h"
#include "status.h"
#include "tune/space_json.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {
namespace {

using harness::Misfit;
using json::Field, json::Json, json::kNeeded, json::kOptional;

Json JsonOf(const SearchSpace& space) { return json::Parse(SpaceToJson(space)); }

void ReadStatus(const Field& fields, std::string* status) {
  fields.Read("status", status, kNeeded);
  const auto known = ParseSampleStatus(*status);  // a harness that crashed cannot report it
  const bool is_known = known.value_or(SampleStatus::kCrash) != SampleStatus::kCrash;
  fields.At("status").Expect(is_known || *status == "cancelled",
                             "a status listed in docs/harness.md");
}

void ReadHello(const Field& fields, HarnessAnswer* answer) {
  HarnessInfo& hello = answer->hello;
  fields.Read("name", &hello.name);
  fields.Read("device", &hello.device, kNeeded);
  fields.Read("device_class", &hello.device_class, kNeeded);
  fields.Read("clock", &hello.clock, kNeeded);
  const bool is_clock =
      hello.clock == "device" || hello.clock == "profile" || hello.clock == "wall";
  fields.At("clock").Expect(is_clock, "device, profile or wall");
  fields.Read("driver", &hello.driver);
  hello.framework = fields.Object("versions").dump();
  fields.Read("flags", &hello.flags);
  fields.Read("code_hash", &hello.code_hash);
  fields.Read("parallel_prepare", &answer->parallel_prepare, kOptional, 1);
  fields.Read("verifies", &hello.verifies);
}

// An unknown metric is null and is skipped.
void ReadMetrics(const Field& fields, std::map<std::string, double>* metrics) {
  constexpr size_t kMostMetrics = 256, kMostName = 100;
  const Json& given = fields.Object("metrics");
  const Field all(given, fields.wrong(), "metrics");
  all.Expect(given.size() <= kMostMetrics, Cat("at most ", kMostMetrics, " numbers"));
  for (const auto& [name, value] : given.items()) {
    const Field metric = all.Item(name);
    if (name.empty() || name.size() > kMostName) {
      metric.Error("the name must have 1 to ", kMostName, " bytes");
    }
    if (std::ranges::find(kNoMetrics, name) != std::end(kNoMetrics)) {
      metric.Error(name == "t_ps" || name == "energy_uj"
                       ? "belongs in the sample itself, not in its metrics"
                       : "is a column that grid writes to results.csv; use another name");
    }
    if (!value.is_null()) metric.Read(&(*metrics)[name]);
  }
}

void ReadSample(const Field& fields, SlotSample* sample) {
  fields.Read("slot", &sample->slot, kNeeded, 0);
  ReadStatus(fields, &sample->status);
  fields.Read("t_ps", &sample->t_ps, json::Need(sample->status == "ok"), 1);
  fields.Read("energy_uj", &sample->energy_uj, kOptional, 0);
  fields.Read("message", &sample->message);
  fields.Read("t0_ns", &sample->begin_ns, kOptional, 0);
  fields.Read("t1_ns", &sample->end_ns, kOptional, 0);
  if (fields.Has("metrics")) ReadMetrics(fields, &sample->metrics);
}

void ReadTrace(const Field& trace, HarnessAnswer* result) {
  std::string base64;
  trace.Read("path", &result->trace_path);
  trace.Read("base64", &base64);
  if (result->trace_path.empty() == base64.empty()) trace.Error("requires path or base64");
  if (!absl::Base64Unescape(base64, &result->trace_bytes)) trace.At("base64").Error("is damaged");
}

void ReadResult(const Field& fields, HarnessAnswer* result) {
  fields.Read("throttled", &result->throttled);
  result->notes_json = fields.Object("notes").dump();
  if (fields.Has("samples")) {
    fields.At("samples").Each(
        [&](const Field& each) { ReadSample(each, &result->samples.emplace_back()); });
  }
  if (fields.Has("trace")) ReadTrace(fields.At("trace"), result);
}

}  // namespace

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line) {
  ASSIGN_OR_RETURN(const Json message, harness::ParseMessage(line));
  std::string wrong;
  const Field fields(message, &wrong);
  HarnessAnswer answer = {.type = message["type"]};
  const std::string& type = answer.type;
  const bool has_state = type == "prepared" || type == "verified" || type == "result";
  if (type == "hello") {
    ReadHello(fields, &answer);
  } else if (has_state || type == "slot") {
    fields.Read("request", &answer.request, kNeeded, 0);
  } else {
    fields.At("type").Error("\"", type, "\" is unknown");
  }
  if (type == "slot") fields.Read("slot", &answer.slot, kNeeded, 0);
  if (has_state) {
    ReadStatus(fields, &answer.state.status);
    fields.Read("message", &answer.state.message);
  }
  if (type == "prepared") {
    fields.Read("fingerprint", &answer.state.fingerprint);
    fields.Read("mem_bytes", &answer.state.mem_bytes, kOptional, 0);
  }
  if (type == "result") ReadResult(fields, &answer);
  if (!wrong.empty()) return Misfit(line, wrong);
  return answer;
}

std::string HelloRequest(std::string_view session, std::span<const Workload> workloads) {
  SearchSpace space;
  space.workloads.assign(workloads.begin(), workloads.end());
  return harness::Line("hello", {{"session", session}, {"workloads", JsonOf(space)["workloads"]}});
}

std::string PrepareRequest(int64_t request, const Configuration& variant) {
  return harness::Line("prepare", {{"request", request},
                                   {"variant", variant.id},
                                   {"params", json::Parse(variant.params_json)}});
}

std::string RunRoundRequest(const RoundRequest& round) {
  return harness::Line("run_round", {{"request", round.request},
                                     {"batch", round.batch},
                                     {"round", round.round},
                                     {"workload", round.workload},
                                     {"order", round.order},
                                     {"calls", round.calls}});
}

namespace {

constexpr char kTrace[] = "the trace of a round";

absl::StatusOr<xplane_time::Trace> Open(const HarnessAnswer& result, Diagnostics* diagnostics) {
  if (result.trace_path.empty()) {
    return OpenTraceFromMemory(result.trace_bytes, kTrace, {}, diagnostics);
  }
  const std::array<std::string, 1> paths = {result.trace_path};
  ASSIGN_OR_RETURN(auto inputs, FindInputs(paths, {}));
  for (const Input& each : inputs) {  // opening a pipe could block forever
    std::error_code error;
    if (std::filesystem::is_regular_file(each.path, error)) continue;
    return InvalidArgument(each.path, " is not a regular file");
  }
  return OpenTrace(inputs, {}, diagnostics);
}

struct Run {
  int64_t start_ps = 0;
  std::optional<int64_t> active_ps = {};  // empty: unknown or unreliable
};
using RunsOfDevice = std::map<std::string, std::vector<Run>>;

// The k-th run on each device is one run, and takes as long as on the slowest.
absl::StatusOr<std::vector<Run>> OneOfDevices(const std::string& id, RunsOfDevice* devices) {
  std::vector<Run> runs;
  for (auto& [device, own] : *devices) {
    std::sort(own.begin(), own.end(),
              [](const Run& a, const Run& b) { return a.start_ps < b.start_ps; });
    if (runs.empty()) {
      runs = own;
      continue;
    }
    if (own.size() != runs.size()) {
      return DataLoss(kTrace, ": variant id ", id, " ran ", own.size(), " times on ", device,
                      " and ", runs.size(), " times on another device");
    }
    for (size_t k = 0; k < runs.size(); ++k) {
      const bool both = runs[k].active_ps.has_value() && own[k].active_ps.has_value();
      runs[k].active_ps =
          both ? std::optional(std::max(*runs[k].active_ps, *own[k].active_ps)) : std::nullopt;
    }
  }
  return runs;
}

using RunsById = std::map<std::string, std::vector<Run>>;

absl::StatusOr<RunsById> RunsOf(const HarnessAnswer& result) {
  Diagnostics diagnostics;
  auto trace = Open(result, &diagnostics);
  if (!trace.ok()) return DataLoss(kTrace, ": ", trace.status().message());
  ReportOptions options;
  options.samples = true;
  const auto report = BuildReport(*trace, options, diagnostics);
  if (!report.ok()) return DataLoss(kTrace, ": ", report.status().message());
  std::map<std::string, RunsOfDevice> by_device;
  for (const SampleRow& sample : report->samples) {
    if (!sample.variant_id.has_value()) continue;
    const bool sound = sample.active_ps.has_value() && !sample.suspect;
    const std::string device =
        absl::StrCat(sample.device.plane, " ", sample.device.ordinal.value_or(-1));
    by_device[*sample.variant_id][device].push_back(
        {sample.start_ps, sound ? sample.active_ps : std::nullopt});
  }
  RunsById runs;
  for (auto& [id, devices] : by_device) {
    ASSIGN_OR_RETURN(auto one, OneOfDevices(id, &devices));
    runs[id] = std::move(one);
  }
  return runs;
}

// The mean of the slot's calls.
SlotTime TimeOfCalls(std::span<const Run> calls) {
  int64_t sum_ps = 0;
  for (const Run& call : calls) {
    if (!call.active_ps.has_value()) return {"no_events"};
    sum_ps += *call.active_ps;
  }
  return {"ok", std::max<int64_t>(1, sum_ps / static_cast<int64_t>(calls.size()))};
}

absl::StatusOr<RoundTimes> TimesOfTrace(const HarnessAnswer& result, const RoundRequest& request) {
  ASSIGN_OR_RETURN(auto runs, RunsOf(result));
  struct Seen {
    std::string id;  // in the trace
    size_t slots = 0, used = 0;
  };
  std::map<std::string, Seen> seen;  // by variant
  for (const std::string& variant : request.order) {
    ++seen.emplace(variant, Seen{absl::StrCat(seen.size())}).first->second.slots;
  }
  const auto calls = static_cast<size_t>(request.calls);
  seen[request.order.front()].used = 1;  // the untimed run that opened the round
  RoundTimes times;
  for (const std::string& variant : request.order) {
    auto& [id, slots, used] = seen[variant];
    const auto& found = runs[id];
    const size_t wanted = slots * calls + (variant == request.order.front() ? 1 : 0);
    if (found.size() != wanted) {
      return DataLoss(kTrace, ": variant ", variant, " ran ", found.size(), " times instead of ",
                      wanted, "; the name of its function must end in _", id);
    }
    times.slots.push_back(TimeOfCalls(std::span(found).subspan(used, calls)));
    used += calls;
  }
  return times;
}

absl::StatusOr<RoundTimes> TimesOfSamples(const HarnessAnswer& result,
                                          const RoundRequest& request) {
  if (result.samples.empty()) {
    return absl::InvalidArgumentError("a result with status ok has neither samples nor a trace");
  }
  RoundTimes times;
  times.slots.resize(request.order.size(), SlotTime{"no_events"});
  std::vector<bool> seen(request.order.size());
  for (const SlotSample& sample : result.samples) {
    const auto slot = static_cast<size_t>(sample.slot);
    if (slot >= seen.size() || seen[slot]) {
      return InvalidArgument("a result with slot ", slot, slot < seen.size() ? " twice" : "",
                             " of ", seen.size());
    }
    seen[slot] = true;
    times.slots[slot] = sample;
    if (sample.status == "ok") times.slots[slot].message.clear();
  }
  return times;
}

// --- Proposers.

absl::StatusOr<Json> ParsedProposal(std::string_view line, const char* type) {
  ASSIGN_OR_RETURN(Json answer, harness::ParseMessage(line));
  if (answer["type"] != type) return Misfit(line, Cat("its type is not ", type));
  return answer;
}

}  // namespace

absl::StatusOr<RoundTimes> TimesOfResult(const HarnessAnswer& result, const RoundRequest& request) {
  const std::string& status = result.state.status;
  const bool has_trace = !result.trace_path.empty() || !result.trace_bytes.empty();
  auto times = has_trace ? TimesOfTrace(result, request) : TimesOfSamples(result, request);
  if (status != "ok") {
    const SlotTime all = {status == "cancelled" ? "infra" : status};
    times = RoundTimes{.slots = std::vector(request.order.size(), all),
                       .throttled = status == "throttled"};
  }
  if (!times.ok()) return times;
  times->throttled |= result.throttled;
  times->notes_json = result.notes_json;
  return times;
}

std::string ProposerHello(const SearchSpace& space, uint64_t seed, size_t told) {
  const Json json = JsonOf(space);
  return harness::Line("hello", {{"seed", seed},
                                 {"told", told},
                                 {"parameters", json["parameters"]},
                                 {"constraints", json["constraints"]}});
}

std::string TellRequest(const Told& told) {
  Json fields = {{"id", json::TextOrNull(told.id)},
                 {"params", json::Parse(told.params_json)},
                 {"status", told.status},
                 {"value", json::OrNull(told.value)}};
  if (!told.message.empty()) fields["message"] = told.message;
  if (told.repeated) fields["repeated"] = true;
  if (told.proposal.has_value()) {
    fields["request"] = told.proposal->request;
    fields["index"] = told.proposal->index;
  }
  return harness::Line("tell", fields);
}

absl::Status ParseProposerHello(std::string_view line) {
  return ParsedProposal(line, "hello").status();
}

absl::StatusOr<std::vector<std::string>> ParseProposals(std::string_view line, int64_t request,
                                                        uint64_t most) {
  ASSIGN_OR_RETURN(const auto answer, ParsedProposal(line, "configurations"));
  if (answer.value("request", Json()) != request) {
    return Misfit(line, absl::StrCat("it does not answer request ", request));
  }
  const auto list = answer.find("params");
  if (list == answer.end() || !list->is_array()) return Misfit(line, "\"params\" is not a list");
  if (list->size() > most) {
    return Misfit(line, absl::StrCat(list->size(), " proposals, but ", most, " were requested"));
  }
  std::vector<std::string> proposals;
  for (const Json& each : *list) {
    if (!each.is_object()) return Misfit(line, "a proposal is not an object");
    proposals.push_back(json::Dump(each));
  }
  return proposals;
}

}  // namespace xplane_time
