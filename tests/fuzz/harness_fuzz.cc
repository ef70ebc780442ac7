// Arbitrary bytes as the answer of a harness are parsed or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tune/harness_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto answer = xplane_time::ParseAnswer(line);
  if (!answer.ok() || answer->type != "result" || !answer->trace_path.empty()) return 0;
  xplane_time::RoundRequest request;
  request.order = {"a", "b", "a"};
  const auto times = xplane_time::TimesOfResult(*answer, request);
  if (times.ok() && times->slots.size() != request.order.size()) std::abort();
  return 0;
}
