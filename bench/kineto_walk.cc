// Compares the minimum cost of reading a Kineto trace with ours. `kineto_walk TRACE.json` walks
// through all fields and args of every event with simdjson, and then transcodes the trace to an
// XSpace. Prints the CPU times of both and their ratio.
#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

#include "io/whole_file.h"
#include "kineto/transcode.h"

namespace {

namespace ondemand = simdjson::ondemand;

constexpr int kUsage = 64, kBadTrace = 65, kNoInput = 66;
constexpr int kRounds = 5;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The number of bytes of values, so that each value is visited.
size_t WalkObject(ondemand::object object) {
  size_t bytes = 0;
  for (auto field : object) {
    bytes += field.key().value().raw() != nullptr ? 1 : 0;
    ondemand::value value = field.value();
    if (value.type() == ondemand::json_type::object) {
      bytes += WalkObject(value.get_object());
    } else {
      bytes += value.raw_json_token().size();
    }
  }
  return bytes;
}

size_t Walk(const simdjson::padded_string& json) {
  ondemand::parser parser;
  ondemand::document document = parser.iterate(json);
  size_t bytes = 0;
  for (auto event : document["traceEvents"].get_array()) bytes += WalkObject(event.get_object());
  return bytes;
}

template <typename Work>
double LeastSeconds(Work work) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = CpuSeconds();
    work();
    least = std::min(least, CpuSeconds() - begin);
  }
  return least;
}

int Measure(const char* path) {
  simdjson::padded_string json;
  if (simdjson::padded_string::load(path).get(json) != simdjson::SUCCESS) return kNoInput;
  size_t walked = 0, written = 0;
  const double walk_s = LeastSeconds([&] { walked = Walk(json); });
  absl::Status status;
  const double transcode_s = LeastSeconds([&] {
    xplane_time::Diagnostics untold;
    const auto space =
        xplane_time::kineto::Transcode({json.data(), json.size()}, path, /*threads=*/1, &untold);
    status = space.status();
    written = space.ok() ? space->bytes.size() : 0;
  });
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return kBadTrace;
  }
  std::printf("%zu bytes (%zu of values), %zu of XSpace\n", json.size(), walked, written);
  std::printf("simdjson %.3f s, transcoding %.3f s: %.2f times\n", walk_s, transcode_s,
              transcode_s / walk_s);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return kUsage;
  try {
    return Measure(argv[1]);
  } catch (const simdjson::simdjson_error& error) {
    std::fprintf(stderr, "kineto_walk: %s: %s\n", argv[1], error.what());
    return kBadTrace;
  }
}
