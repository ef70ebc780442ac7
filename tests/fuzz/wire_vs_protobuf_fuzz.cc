// Both readers on the same bytes: they accept the same bytes, with equal values.
//
// The generated parser decodes everything, so every line is decoded here with all stats. gzip_fuzz
// covers gzip, which would hide the bytes from mutations.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "io/gzip.h"
#include "tests/read/dump_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (xplane_time::LooksLikeGzip(bytes)) return 0;
  const std::string disagreement = xplane_time::testing::DisagreementOn(bytes);
  if (disagreement.empty()) return 0;
  std::fprintf(stderr, "%s\n", disagreement.c_str());
  std::abort();
}
