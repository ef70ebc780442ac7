// Arbitrary bytes as a trace in JSON: no crash. Both readers agree on the resulting XSpace, and if
// simdjson finds a trace, this reader does as well.
#include <simdjson.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kineto/transcode.h"
#include "tests/read/dump_trace.h"
#include "tests/read/says.h"

namespace xplane_time {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

bool SimdjsonFindsEvents(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) return false;
  return root.is_array() || root["traceEvents"].is_array();
}

void Check(std::string_view json) {
  Diagnostics diagnostics;
  const auto space = kineto::Transcode(json, "fuzz", /*threads=*/1, &diagnostics);
  if (!space.ok()) {
    Require(absl::IsDataLoss(space.status()), "DataLoss");
    const bool nothing = testing::Says(space.status(), "was anything profiled?");
    const bool no_base = testing::Says(space.status(), "not a whole number of nanoseconds");
    const bool other_writer = testing::Says(space.status(), "Chrome JSON that JAX") ||
                              testing::Says(space.status(), "trace of an Ascend NPU");
    Require(nothing || no_base || other_writer || !SimdjsonFindsEvents(json),
            "what simdjson reads is read");
    return;
  }
  const std::string difference = testing::DisagreementOn(space->bytes);
  if (!difference.empty()) std::fprintf(stderr, "%s\n", difference.c_str());
  Require(difference.empty(), "both readers read it alike");
  Require(kineto::CheckHead(json, "fuzz").ok(), "a whole trace is the beginning of one");
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  if (xplane_time::kineto::LooksLikeJson(json)) xplane_time::Check(json);
  return 0;
}
