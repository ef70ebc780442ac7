// A harness in C++ for test_tune: the parameters state the times.
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "xplane_time/harness.h"

int main() {
  std::map<std::string, nlohmann::json> variants;
  xplane_time::HarnessCode code;
  code.device_class = "probe";
  code.prepare = [&](const std::string& variant,
                     const std::string& params_json) -> absl::StatusOr<std::string> {
    variants[variant] = nlohmann::json::parse(params_json);
    if (variants[variant].contains("broken")) return absl::InvalidArgumentError("no such tile");
    return "";
  };
  code.verify = [&](const std::string& variant) -> absl::Status {
    if (variants[variant].contains("wrong")) return absl::FailedPreconditionError("not the sum");
    return absl::OkStatus();
  };
  int64_t runs = 0;
  code.run = [&](const std::string& variant,
                 const std::string& /*workload*/) -> absl::StatusOr<int64_t> {
    const nlohmann::json& params = variants[variant];
    if (params.contains("fails")) return absl::InternalError("illegal address");
    if (params.contains("sleep_ms")) {
      const auto begin = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(params["sleep_ms"].get<int64_t>()));
      const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
      return took.count() * 1000;
    }
    return params.value("cost", int64_t{100}) * 1000 + ++runs * 7919 % 13;
  };
  return xplane_time::ServeHarness(code);
}
