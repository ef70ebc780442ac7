// Tests DeviceMeter with more distinct durations of a kernel than the memory limit allows.
#include "timing/device_meter.h"

#include <gtest/gtest.h>

#include <memory>

namespace xplane_time {
namespace {

TEST(DeviceMeterTest, TooManyDistinctDurationsAreRounded) {
  DevicePlane plane;
  plane.kind = DeviceKind::kGpu;
  auto tables = std::make_shared<ExecutionTables>();
  tables->ops.push_back({}).kernel = "k";
  const auto filters = Filters::Compile({});
  ASSERT_TRUE(filters.ok());
  const ClockPlan clocks;
  MeterSettings settings;
  settings.filters = &*filters;
  settings.clocks = &clocks;
  settings.most_duration_bytes = 4096;
  DeviceMeter meter(plane, tables, {}, settings);
  constexpr int64_t kChunks = 2048, kRows = 4, kFirstPs = 1'000'000'000'000;
  int64_t now_ps = 0, total_ps = 0;
  for (int64_t i = 0; i < kChunks; ++i) {
    Executions chunk;
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t duration_ps = kFirstPs + i * kRows + row;
      chunk.push_back({.start_ps = now_ps, .duration_ps = duration_ps, .op = 0});
      now_ps += duration_ps;
      total_ps += duration_ps;
    }
    meter.Add(chunk);
  }
  Diagnostics diagnostics;
  meter.Finish({}, &diagnostics);
  const std::vector<KernelCell>& cells = meter.cells;
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_TRUE(cells[0].durations.rounded());
  EXPECT_LE(cells[0].durations.memory_bytes(), 8192u);
  EXPECT_EQ(cells[0].count, static_cast<uint64_t>(kChunks * kRows));
  EXPECT_EQ(cells[0].total_ps, total_ps);
  EXPECT_EQ(cells[0].min_ps, kFirstPs);
  EXPECT_EQ(cells[0].max_ps, kFirstPs + kChunks * kRows - 1);
  const double median_ps = CountedMedian(cells[0].durations.Sorted(), cells[0].count);
  EXPECT_NEAR(median_ps / kFirstPs, 1, 1.0 / 256);
  EXPECT_EQ(diagnostics.count(DiagnosticCode::kRoundedDurations), 1u);
}

}  // namespace
}  // namespace xplane_time
