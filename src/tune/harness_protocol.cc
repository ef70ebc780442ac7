#include "tune/harness_protocol.h"

#include <algorithm>
#include <array>
#include <filesystem>
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
#include "status.h"
#include "tune/space_json.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {
namespace {

using harness::Misfit, harness::MisfitOf;
using json::Fields, json::Json, json::kNeeded;

Json JsonOf(const SearchSpace& space) { return json::Parse(SpaceToJson(space)); }

std::string StatusField(Fields* fields) {
  std::string status = fields->Text("status", kNeeded);
  const auto known = ParseSampleStatus(status);  // a harness that crashed does not say so
  if (status != "cancelled" && known.value_or(SampleStatus::kCrash) == SampleStatus::kCrash) {
    fields->Fail("status", "one of those in docs/harness.md");
  }
  return status;
}

std::string ObjectText(Fields* fields, const char* name) {
  const Json* object = fields->Find(name);
  if (object != nullptr && !object->is_object()) fields->Fail(name, "an object");
  return object != nullptr && object->is_object() ? object->dump() : "{}";
}

void Hello(Fields* fields, HarnessAnswer* answer) {
  HarnessInfo& hello = answer->hello;
  hello.name = fields->Text("name");
  hello.device = fields->Text("device", kNeeded);
  hello.device_class = fields->Text("device_class", kNeeded);
  hello.clock = fields->Text("clock", kNeeded);
  if (hello.clock != "device" && hello.clock != "profile" && hello.clock != "wall") {
    fields->Fail("clock", "device, profile or wall");
  }
  hello.driver = fields->Text("driver");
  hello.framework = ObjectText(fields, "versions");
  hello.flags = fields->Text("flags");
  hello.code_hash = fields->Text("code_hash");
  answer->parallel_prepare = fields->Integer("parallel_prepare", 1).value_or(1);
  hello.verifies = fields->Flag("verifies").value_or(false);
}

std::string Samples(const Json& list, std::vector<SlotSample>* samples) {
  if (!list.is_array()) return "its samples are not a list";
  for (const Json& each : list) {
    if (!each.is_object()) return "a sample is not an object";
    Fields fields(each);
    SlotSample sample;
    sample.slot = fields.Integer("slot", 0, kNeeded).value_or(0);
    sample.status = StatusField(&fields);
    sample.t_ps = fields.Integer("t_ps", 1);
    sample.energy_uj = fields.Integer("energy_uj", 0);
    sample.message = fields.Text("message");
    sample.begin_ns = fields.Integer("t0_ns", 0);
    sample.end_ns = fields.Integer("t1_ns", 0);
    if (sample.status == "ok" && !sample.t_ps.has_value()) fields.Fail("t_ps", "it is missing");
    if (!fields.ok()) return absl::StrCat("in a sample ", MisfitOf(fields));
    samples->push_back(std::move(sample));
  }
  return "";
}

std::string Trace(const Json& trace, HarnessAnswer* result) {
  if (!trace.is_object()) return "its trace is not an object";
  Fields fields(trace);
  result->trace_path = fields.Text("path");
  const std::string base64 = fields.Text("base64");
  if (!fields.ok()) return absl::StrCat("in its trace ", MisfitOf(fields));
  if (result->trace_path.empty() == base64.empty()) return "its trace needs path or base64";
  if (!base64.empty() && !absl::Base64Unescape(base64, &result->trace_bytes)) {
    return "the base64 of its trace is damaged";
  }
  return "";
}

std::string Result(Fields* fields, HarnessAnswer* result) {
  result->throttled = fields->Flag("throttled").value_or(false);
  result->notes_json = ObjectText(fields, "notes");
  std::string error;
  if (const Json* samples = fields->Find("samples")) error = Samples(*samples, &result->samples);
  const Json* trace = error.empty() ? fields->Find("trace") : nullptr;
  return trace == nullptr ? error : Trace(*trace, result);
}

}  // namespace

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line) {
  ASSIGN_OR_RETURN(const Json message, harness::ParseMessage(line));
  Fields fields(message);
  HarnessAnswer answer = {.type = message["type"]};
  const std::string& type = answer.type;
  const bool has_state = type == "prepared" || type == "verified" || type == "result";
  std::string error;
  if (type == "hello") {
    Hello(&fields, &answer);
  } else if (has_state || type == "slot") {
    answer.request = fields.Integer("request", 0, kNeeded).value_or(0);
  } else {
    error = absl::StrCat("its type \"", type, "\" is not known");
  }
  if (type == "slot") answer.slot = fields.Integer("slot", 0, kNeeded).value_or(0);
  if (has_state) {
    answer.state.status = StatusField(&fields);
    answer.state.message = fields.Text("message");
  }
  if (type == "prepared") {
    answer.state.fingerprint = fields.Text("fingerprint");
    answer.state.mem_bytes = fields.Integer("mem_bytes", 0);
  }
  if (type == "result") error = Result(&fields, &answer);
  if (!fields.ok()) error = MisfitOf(fields);
  if (!error.empty()) return Misfit(line, error);
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
  for (const Input& each : inputs) {  // opening a pipe could wait forever
    std::error_code error;
    if (std::filesystem::is_regular_file(each.path, error)) continue;
    return InvalidArgument(each.path, " is not a regular file");
  }
  return OpenTrace(inputs, {}, diagnostics);
}

struct Run {
  int64_t start_ps = 0;
  std::optional<int64_t> active_ps = {};  // unknown, or not to be trusted
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
  seen[request.order.front()].used = 1;  // the one that opened the round
  RoundTimes times;
  for (const std::string& variant : request.order) {
    auto& [id, slots, used] = seen[variant];
    const auto& found = runs[id];
    const size_t wanted = slots * calls + (variant == request.order.front() ? 1 : 0);
    if (found.size() != wanted) {
      return DataLoss(kTrace, ": variant ", variant, " ran ", found.size(), " times, not ", wanted,
                      "; its function's name should end in _", id);
    }
    times.slots.push_back(TimeOfCalls(std::span(found).subspan(used, calls)));
    used += calls;
  }
  return times;
}

absl::StatusOr<RoundTimes> TimesOfSamples(const HarnessAnswer& result,
                                          const RoundRequest& request) {
  if (result.samples.empty()) {
    return absl::InvalidArgumentError("a result that is ok has neither samples nor a trace");
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
  if (list == answer.end() || !list->is_array()) return Misfit(line, "\"params\" is no list");
  if (list->size() > most) {
    return Misfit(line, absl::StrCat(list->size(), " proposals, and ", most, " were asked for"));
  }
  std::vector<std::string> proposals;
  for (const Json& each : *list) {
    if (!each.is_object()) return Misfit(line, "a proposal is not an object");
    proposals.push_back(json::Dump(each));
  }
  return proposals;
}

}  // namespace xplane_time
