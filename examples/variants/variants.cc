// A tuning harness in miniature: reads a trace from memory and prints the time of each
// variant (functions named jit_autotune_fn_N), fastest first.
//
//   cmake -S . -B build && cmake --build build && build/variants trace.xplane.pb
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <xplane_time/read.h>
#include <xplane_time/report.h>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: variants TRACE [DEVICE]\n");
    return 64;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

  xplane_time::Diagnostics diagnostics;
  const auto trace = xplane_time::OpenTraceFromMemory(bytes, argv[1], {}, &diagnostics);
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", std::string(trace.status().message()).c_str());
    return 65;
  }
  xplane_time::ReportOptions options;
  options.device = argc > 2 ? argv[2] : "";
  options.by_variant = true;
  auto report = xplane_time::BuildReport(*trace, options, diagnostics);
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", std::string(report.status().message()).c_str());
    return 65;
  }
  auto& variants = report->variants;
  std::erase_if(variants, [](const auto& row) { return !row.active_ps.has_value(); });
  std::sort(variants.begin(), variants.end(),
            [](const auto& a, const auto& b) { return a.active_ps->median < b.active_ps->median; });
  for (const auto& row : variants) {
    std::printf("variant %s: median %.3f us over %llu runs\n", row.variant_id->c_str(),
                row.active_ps->median / 1e6, static_cast<unsigned long long>(row.active_ps->n));
  }
  if (variants.empty()) {
    std::fprintf(stderr, "%s: no function is named jit_autotune_fn_N, so there are no variants\n",
                 argv[1]);
    return 65;
  }
  return 0;
}
