// Event streams of model servers: the way a stream is cut into pieces does not change its events,
// and the buffer is bounded. The first byte sets the size of the pieces.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "workload/event_stream.h"

namespace {

constexpr size_t kMostBytes = 64;

struct Said {
  std::string events;
  bool is_good = true, is_cut = false;

  bool operator==(const Said&) const = default;
};

Said PushIn(std::string_view stream, size_t piece) {
  xplane_time::EventStream events(kMostBytes);
  Said said;
  for (size_t at = 0; at < stream.size() && said.is_good; at += piece) {
    said.is_good = events
                       .Push(stream.substr(at, piece),
                             [&](const xplane_time::ServerEvent& event) {
                               if (event.data.size() > kMostBytes) std::abort();
                               said.events += event.type + "\x01" + event.data + "\x02";
                               return absl::OkStatus();
                             })
                       .ok();
  }
  said.is_cut = said.is_good && events.HasCutEvent();
  return said;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Said whole = PushIn(stream, size);
  for (const size_t piece : {size_t{1}, size_t{1} + data[0]}) {
    if (PushIn(stream, piece) != whole) std::abort();
  }
  return 0;
}
