#include "tune/harness_protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "json_nesting.h"

namespace xplane_time {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostLevels = 64;

constexpr std::array<std::string_view, 10> kStatuses = {
    "ok",           "compile_error", "runtime_error", "timeout", "oom",
    "wrong_result", "no_events",     "throttled",     "infra",   "cancelled"};

// Fields of an answer; the first that does not fit is kept as an error.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::string Text(const char* name, bool needed = false) {
    const Json* at = Find(name, needed);
    if (at == nullptr) return "";
    if (at->is_string()) return at->get<std::string>();
    Fail(name, "a text");
    return "";
  }
  std::optional<int64_t> Integer(const char* name, int64_t least, bool needed = false) {
    const Json* at = Find(name, needed);
    if (at == nullptr) return std::nullopt;
    const bool fits = at->is_number_integer() &&
                      !(at->is_number_unsigned() && at->get<uint64_t>() > INT64_MAX) &&
                      at->get<int64_t>() >= least;
    if (fits) return at->get<int64_t>();
    Fail(name, absl::StrCat("a whole number of at least ", least));
    return std::nullopt;
  }
  bool Flag(const char* name) {
    const Json* at = Find(name, false);
    if (at == nullptr) return false;
    if (at->is_boolean()) return at->get<bool>();
    Fail(name, "true or false");
    return false;
  }
  std::string ObjectText(const char* name) {
    const Json* at = Find(name, false);
    if (at == nullptr) return "{}";
    if (at->is_object()) return at->dump();
    Fail(name, "an object");
    return "{}";
  }
  std::string Status() {
    std::string status = Text("status", /*needed=*/true);
    if (std::find(kStatuses.begin(), kStatuses.end(), status) == kStatuses.end()) {
      Fail("status", "one of those in docs/harness.md");
    }
    return status;
  }
  const Json* Find(const char* name, bool needed) {
    const auto at = object_.find(name);
    if (at != object_.end() && !at->is_null()) return &*at;
    if (needed) Fail(name, "needed");
    return nullptr;
  }
  void Fail(std::string_view name, std::string_view wanted) {
    if (error_.empty()) {
      error_ = absl::StrCat("its field \"", std::string(name),
                            "\" is not as it should be: ", std::string(wanted));
    }
  }
  const std::string& error() const { return error_; }

 private:
  const Json& object_;
  std::string error_;
};

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
  return {fields->Integer("request", 0, true).value_or(0), fields->Status(),
          fields->Text("fingerprint"), fields->Text("message"), fields->Integer("mem_bytes", 0)};
}

std::string Samples(const Json& list, std::vector<SlotSample>* samples) {
  if (!list.is_array()) return "its samples are not a list";
  for (const Json& each : list) {
    if (!each.is_object()) return "a sample is not an object";
    Fields fields(each);
    SlotSample sample = {fields.Integer("slot", 0, true).value_or(0), fields.Status(),
                         fields.Integer("t_ps", 1), fields.Integer("energy_uj", 0),
                         fields.Text("message")};
    if (sample.status == "ok" && !sample.t_ps.has_value()) fields.Fail("t_ps", "needed");
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
  result->status = fields->Status();
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

absl::Status Misfit(std::string_view line, std::string_view why) {
  constexpr size_t kShown = 200;
  return absl::InvalidArgumentError(
      absl::StrCat("an answer that is none of the protocol's: ", std::string(why), "; it begins ",
                   "with \"", absl::CEscape(std::string(line.substr(0, kShown))), "\""));
}

std::string Line(Json message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Message(const char* type) { return {{"v", kVersion}, {"type", type}}; }

Json Parsed(std::string_view json) {
  return Json::parse(json, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

absl::StatusOr<HarnessAnswer> ParseAnswer(std::string_view line) {
  if (NestsDeeper(line, kMostLevels)) return Misfit(line, "it is nested too deeply");
  const Json answer = Parsed(line);
  if (!answer.is_object()) return Misfit(line, "it is not a JSON object");
  Fields fields(answer);
  const int64_t version = fields.Integer("v", 0, true).value_or(0);
  const std::string type = fields.Text("type", true);
  if (!fields.error().empty()) return Misfit(line, fields.error());
  if (version != kVersion) return Misfit(line, absl::StrCat("its version is ", version, ", not 1"));
  HarnessAnswer parsed;
  std::string error;
  if (type == "hello") {
    parsed = Hello(&fields);
  } else if (type == "prepared") {
    parsed = Prepared(&fields);
  } else if (type == "verified") {
    parsed = VerifiedAnswer{fields.Integer("request", 0, true).value_or(0), fields.Status(),
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
  return Line(std::move(message));
}

std::string PrepareRequest(int64_t request, const Configuration& variant) {
  Json message = Message("prepare");
  message["request"] = request;
  message["variant"] = variant.id;
  message["params"] = Parsed(variant.params_json);
  return Line(std::move(message));
}

std::string VerifyRequest(int64_t request, std::string_view variant) {
  Json message = Message("verify");
  message["request"] = request;
  message["variant"] = variant;
  return Line(std::move(message));
}

std::string RunRoundRequest(const RoundRequest& round) {
  Json message = Message("run_round");
  message["request"] = round.request;
  message["batch"] = round.batch;
  message["round"] = round.round;
  message["workload"] = round.workload;
  message["order"] = round.order;
  message["calls"] = round.calls;
  return Line(std::move(message));
}

std::string CancelRequest(int64_t request) {
  Json message = Message("cancel");
  message["request"] = request;
  return Line(std::move(message));
}

std::string ByeRequest() { return Line(Message("bye")); }

}  // namespace xplane_time
