// A built trace as `diff` measures it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "insight/diff.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {

inline insight::DiffCapture Captured(const TraceBuilder& t, const std::string& name,
                                     const DiffOptions& options = {}) {
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, name, {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  auto capture = insight::MeasureForDiff(*trace, options, reading);
  EXPECT_TRUE(capture.ok()) << capture.status();
  capture->source = name;
  return *std::move(capture);
}

}  // namespace xplane_time::testing
