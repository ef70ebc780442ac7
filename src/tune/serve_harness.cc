#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "harness/messages.h"
#include "io/whole_file.h"
#include "json/json.h"
#include "power/machine.h"
#include "xplane_time/harness.h"

namespace xplane_time {
namespace {

using json::Json;

constexpr int kExitUsage = 64, kExitIo = 74;

std::optional<int> DescriptorOf(const char* name) {
  const char* text = std::getenv(name);
  int fd = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &fd) || fd < 0) return std::nullopt;
  return fd;
}

class Server {
 public:
  Server(const HarnessCode& code, int out) : code_(code), out_(out) {}
  ~Server() { std::free(line_); }

  int Serve(std::FILE* in) {
    while (!lost_ && getline(&line_, &size_, in) > 0) {
      const Json request = json::Parse(line_);
      const std::string type = Text(request, "type");
      if (type == "bye") return 0;
      if (type == "hello") Hello(request);
      if (type == "prepare") Prepare(request);
      if (type == "verify") Verify(request);
      if (type == "run_round") RunRound(request);
    }
    return kExitIo;
  }

 private:
  void Answer(const char* type, const Json& request, Json fields) {
    fields["request"] = json::WholeOf(request, "request").value_or(0);
    lost_ = lost_ || !io::WriteAll(out_, harness::Line(type, fields) + "\n");
  }

  static Json Ended(const absl::Status& status, const char* otherwise) {
    if (status.ok()) return {{"status", "ok"}};
    const char* name = absl::IsResourceExhausted(status) ? "oom"
                       : absl::IsUnavailable(status)     ? "infra"
                                                         : otherwise;
    return {{"status", name}, {"message", std::string(status.message())}};
  }

  static std::string Text(const Json& request, const char* name) {
    return json::TextOf(request, name).value_or("");
  }

  static Json List(const Json& request, const char* name) {
    const Json* list = json::Find(request, name);
    return list != nullptr && list->is_array() ? *list : Json::array();
  }

  void Hello(const Json& request) {
    workloads_.clear();
    for (const Json& each : List(request, "workloads")) workloads_.push_back(Text(each, "id"));
    if (workloads_.empty()) workloads_.emplace_back();
    const Json versions = json::Parse(code_.versions_json);
    Answer("hello", request,
           {{"name", "C++"},
            {"device", code_.device},
            {"device_class", code_.device_class},
            {"clock", code_.clock},
            {"driver", code_.driver},
            {"versions", versions.is_object() ? versions : Json::object()},
            {"flags", code_.flags},
            {"code_hash", code_.code_hash},
            {"verifies", code_.verify != nullptr}});
  }

  void Prepare(const Json& request) {
    const std::string variant = Text(request, "variant");
    const Json params = request.contains("params") ? request["params"] : Json::object();
    const auto fingerprint = code_.prepare(variant, params.dump());
    Json fields = Ended(fingerprint.status(), "compile_error");
    if (code_.verify == nullptr) {  // the first, untimed run
      for (const std::string& workload : workloads_) {
        if (fields["status"] != "ok") break;
        fields = Ended(code_.run(variant, workload).status(), "runtime_error");
      }
    }
    if (fields["status"] == "ok") fields["fingerprint"] = *fingerprint;
    Answer("prepared", request, std::move(fields));
  }

  void Verify(const Json& request) {
    const absl::Status status = code_.verify ? code_.verify(Text(request, "variant"))
                                             : absl::UnimplementedError("no reference");
    const bool is_wrong = absl::IsFailedPrecondition(status);
    Answer("verified", request, Ended(status, is_wrong ? "wrong_result" : "runtime_error"));
  }

  void RunRound(const Json& request) {
    const std::string workload = Text(request, "workload");
    const int64_t calls = std::max<int64_t>(1, json::WholeOf(request, "calls").value_or(1));
    std::vector<std::string> order;
    for (const Json& each : List(request, "order")) {
      if (each.is_string()) order.push_back(each.get<std::string>());
    }
    Json samples = Json::array();
    for (size_t slot = 0; slot < order.size(); ++slot) {
      Answer("slot", request, {{"slot", slot}});
      if (slot == 0) static_cast<void>(code_.run(order[0], workload));
      Json sample = {{"slot", slot}, {"status", "ok"}};
      int64_t sum_ps = 0;
      sample["t0_ns"] = power::MonotonicNow();
      for (int64_t call = 0; call < calls && sample["status"] == "ok"; ++call) {
        const auto time_ps = code_.run(order[slot], workload);
        sample.update(Ended(time_ps.status(), "runtime_error"));
        sum_ps += time_ps.value_or(0);
      }
      sample["t1_ns"] = power::MonotonicNow();
      if (sample["status"] == "ok") sample["t_ps"] = std::max<int64_t>(1, sum_ps / calls);
      samples.push_back(std::move(sample));
    }
    Answer("result", request, {{"status", "ok"}, {"samples", std::move(samples)}});
  }

  const HarnessCode& code_;
  const int out_;
  std::vector<std::string> workloads_;
  bool lost_ = false;
  char* line_ = nullptr;  // buffer of getline
  size_t size_ = 0;
};

}  // namespace

int ServeHarness(const HarnessCode& code) {
  const auto in = DescriptorOf("XPLANE_TIME_HARNESS_IN");
  const auto out = DescriptorOf("XPLANE_TIME_HARNESS_OUT");
  std::FILE* const requests = in.has_value() ? fdopen(*in, "r") : nullptr;
  if (requests == nullptr || !out.has_value() || !code.prepare || !code.run) {
    std::fputs("a harness requires a driver; start it with xplane-time tune SPACE -- HARNESS\n",
               stderr);
    return kExitUsage;
  }
  return Server(code, *out).Serve(requests);
}

}  // namespace xplane_time
