#include "tune/harness_protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "harness/messages.h"

namespace xplane_time {
namespace {

using harness::Fields;
using harness::Json;
using harness::Message;
using harness::Misfit;
using harness::ParseMessage;

constexpr std::array<std::string_view, 10> kStatuses = {
    "ok",           "compile_error", "runtime_error", "timeout", "oom",
    "wrong_result", "no_events",     "throttled",     "infra",   "cancelled"};

std::string StatusField(Fields* fields) {
  std::string status = fields->Text("status", /*needed=*/true);
  if (std::find(kStatuses.begin(), kStatuses.end(), status) == kStatuses.end()) {
    fields->Fail("status", "one of those in docs/harness.md");
  }
  return status;
}

HelloAnswer Hello(Fields* fields) {
  HelloAnswer hello;
  hello.name = fields->Text("name");
  hello.device = fields->Text("device", true);
  hello.device_class = fields->Text("device_class", true);
  hello.clock = fields->Text("clock", true);
  if (hello.clock != "device" && hello.clock != "profile" && hello.clock != "wall") {
    fields->Fail("clock", "device, profile or wall");
  }
  hello.driver = fields->Text("driver");
  hello.versions_json = fields->ObjectText("versions");
  hello.flags = fields->Text("flags");
  hello.code_hash = fields->Text("code_hash");
  hello.parallel_prepare = fields->Integer("parallel_prepare", 1).value_or(1);
  hello.verifies = fields->Flag("verifies");
  return hello;
}

PreparedAnswer Prepared(Fields* fields) {
  return {fields->Integer("request", 0, true).value_or(0), StatusField(fields),
          fields->Text("fingerprint"), fields->Text("message"), fields->Integer("mem_bytes", 0)};
}

std::string Samples(const Json& list, std::vector<SlotSample>* samples) {
  if (!list.is_array()) return "its samples are not a list";
  for (const Json& each : list) {
    if (!each.is_object()) return "a sample is not an object";
    Fields fields(each);
    SlotSample sample = {fields.Integer("slot", 0, true).value_or(0),
                         StatusField(&fields),
                         fields.Integer("t_ps", 1),
                         fields.Integer("energy_uj", 0),
                         fields.Text("message"),
                         fields.Integer("t0_ns", 0),
                         fields.Integer("t1_ns", 0)};
    if (sample.status == "ok" && !sample.t_ps.has_value()) fields.Fail("t_ps", "it is missing");
    if (!fields.error().empty()) return absl::StrCat("in a sample ", fields.error());
    samples->push_back(std::move(sample));
  }
  return "";
}

std::string Trace(const Json& trace, ResultAnswer* result) {
  if (!trace.is_object()) return "its trace is not an object";
  Fields fields(trace);
  result->trace_path = fields.Text("path");
  const std::string base64 = fields.Text("base64");
  if (!fields.error().empty()) return absl::StrCat("in its trace ", fields.error());
  if (result->trace_path.empty() == base64.empty()) return "its trace needs path or base64";
  if (!base64.empty() && !absl::Base64Unescape(base64, &result->trace_bytes)) {
    return "the base64 of its trace is damaged";
  }
  return "";
}

std::string Result(Fields* fields, ResultAnswer* result) {
  result->request = fields->Integer("request", 0, true).value_or(0);
  result->status = StatusField(fields);
  result->throttled = fields->Flag("throttled");
  result->notes_json = fields->ObjectText("notes");
  result->message = fields->Text("message");
  std::string error;
  if (const Json* samples = fields->Find("samples", false)) {
    error = Samples(*samples, &result->samples);
  }
  if (const Json* trace = fields->Find("trace", false); trace != nullptr && error.empty()) {
    error = Trace(*trace, result);
  }
  return error;
}

Json Parsed(std::string_view json) {
  return Json::parse(json, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line) {
  const auto answer = ParseMessage(line);
  if (!answer.ok()) return answer.status();
  Fields fields(answer->object);
  const std::string& type = answer->type;
  HarnessAnswer parsed;
  std::string error;
  if (type == "hello") {
    parsed = Hello(&fields);
  } else if (type == "prepared") {
    parsed = Prepared(&fields);
  } else if (type == "verified") {
    parsed = VerifiedAnswer{fields.Integer("request", 0, true).value_or(0), StatusField(&fields),
                            fields.Text("message")};
  } else if (type == "slot") {
    parsed = SlotAnswer{fields.Integer("request", 0, true).value_or(0),
                        fields.Integer("slot", 0, true).value_or(0)};
  } else if (type == "result") {
    ResultAnswer result;
    error = Result(&fields, &result);
    parsed = std::move(result);
  } else {
    error = absl::StrCat("its type \"", type, "\" is not known");
  }
  if (!fields.error().empty()) error = fields.error();
  if (!error.empty()) return Misfit(line, error);
  return parsed;
}

std::string HelloRequest(std::string_view session, std::span<const Workload> workloads) {
  Json message = Message("hello");
  message["session"] = session;
  message["workloads"] = Json::array();
  for (const Workload& workload : workloads) {
    message["workloads"].push_back({{"id", workload.id},
                                    {"params", Parsed(workload.params_json)},
                                    {"weight", workload.weight}});
  }
  return harness::Line(message);
}

std::string PrepareRequest(int64_t request, const Configuration& variant) {
  Json message = Message("prepare");
  message["request"] = request;
  message["variant"] = variant.id;
  message["params"] = Parsed(variant.params_json);
  return harness::Line(message);
}

std::string VerifyRequest(int64_t request, std::string_view variant) {
  Json message = Message("verify");
  message["request"] = request;
  message["variant"] = variant;
  return harness::Line(message);
}

std::string RunRoundRequest(const RoundRequest& round) {
  Json message = Message("run_round");
  message["request"] = round.request;
  message["batch"] = round.batch;
  message["round"] = round.round;
  message["workload"] = round.workload;
  message["order"] = round.order;
  message["calls"] = round.calls;
  return harness::Line(message);
}

std::string CancelRequest(int64_t request) {
  Json message = Message("cancel");
  message["request"] = request;
  return harness::Line(message);
}

std::string ByeRequest() { return harness::Line(Message("bye")); }

}  // namespace xplane_time
