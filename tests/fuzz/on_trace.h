// Common code of the fuzz targets that process every trace that a reader accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "io/gzip.h"
#include "xplane_time/read.h"

namespace xplane_time {

inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Calls `try_all(trace, reading)` if the bytes are a trace.
template <typename TryAll>
int OnTrace(const uint8_t* data, size_t size, TryAll try_all) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (LooksLikeGzip(bytes)) return 0;
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "trace", {}, &reading);
  if (trace.ok()) try_all(*trace, reading);
  return 0;
}

}  // namespace xplane_time
