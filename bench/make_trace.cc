// make_trace tpu|gpu|cpu OUT [--runs N]: writes a small trace of a usual shape (shapes.h), as input
// of grow_trace.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "bench/shapes.h"

namespace {

constexpr int kUsage = 64, kNoOutput = 73, kDefaultRuns = 20, kMostRuns = 100'000;

// 0: not a valid count.
int Count(std::string_view text) {
  int count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool all = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return all && count > 0 && count <= kMostRuns ? count : 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace xplane_time::bench;
  int runs = argc == 3 ? kDefaultRuns : 0;
  if (argc == 5 && std::string_view(argv[3]) == "--runs") runs = Count(argv[4]);
  const auto shape = argc > 1 ? ShapeNamed(argv[1]) : std::nullopt;
  if (!shape || runs == 0) {
    std::fputs("usage: make_trace tpu|gpu|cpu OUT [--runs N]    (default 20)\n", stderr);
    return kUsage;
  }
  const std::string bytes = ShapedTrace(*shape, runs);
  std::ofstream out(argv[2], std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    std::fprintf(stderr, "make_trace: %s: cannot write\n", argv[2]);
    return kNoOutput;
  }
  std::printf("%s: %zu bytes\n", argv[2], bytes.size());
  return 0;
}
