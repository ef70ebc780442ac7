#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "stats/order_statistics.h"
#include "tests/fleet/made_summary.h"
#include "tests/read/says.h"
#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/fleet.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

using testing::RandomSummary, testing::Says;

TEST(DurationHistogram, BucketsCoverEveryDurationOnce) {
  EXPECT_EQ(DurationHistogram::FirstOf(0), 0);
  for (uint16_t number = 0; number + 1 < DurationHistogram::kBuckets; ++number) {
    const int64_t first = DurationHistogram::FirstOf(number),
                  next = DurationHistogram::FirstOf(static_cast<uint16_t>(number + 1));
    ASSERT_LT(first, next);
    ASSERT_LE(next - first, std::max<int64_t>(1, first / 64));
    ASSERT_EQ(DurationHistogram::NumberOf(first), number);
    ASSERT_EQ(DurationHistogram::NumberOf(next - 1), number);
  }
  EXPECT_EQ(DurationHistogram::NumberOf(std::numeric_limits<int64_t>::max()),
            DurationHistogram::kBuckets - 1);
  EXPECT_EQ(DurationHistogram::NumberOf(-5), 0);
}

TEST(DurationHistogram, QuantilesAreNearThoseOfTheValues) {
  testing::Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> values(static_cast<size_t>(1 + random.Below(50)));
    TimeSum sum;
    for (int64_t& each : values) {
      each = random.Below(int64_t{1} << (1 + random.Below(60)));
      sum.Add(each);
    }
    std::ranges::sort(values);
    for (const double share : {0.0, 0.25, 0.5, 0.95, 1.0}) {
      const int64_t exact = values[stats::NearestRank(values.size(), share)];
      ASSERT_NEAR(static_cast<double>(*sum.QuantilePs(share)), static_cast<double>(exact),
                  static_cast<double>(exact) / 127);
    }
    ASSERT_EQ(sum.min_ps, values.front());
    ASSERT_EQ(sum.max_ps, values.back());
    ASSERT_EQ(sum.durations.count(), values.size());
  }
  EXPECT_FALSE(TimeSum().QuantilePs(0.5).has_value());
  EXPECT_FALSE(TimeSum().MeanPs().has_value());
}

TEST(TimeSum, StopsAtItsEndWhateverTheOrder) {
  TimeSum large;
  large.Add(std::numeric_limits<int64_t>::max(), std::numeric_limits<uint64_t>::max());
  TimeSum twice = large;
  twice.Merge(large);
  EXPECT_EQ(twice.count, std::numeric_limits<uint64_t>::max());
  EXPECT_GT(twice.total_ps, large.total_ps);
  for (int i = 0; i < 4; ++i) twice.Merge(twice);
  TimeSum one = twice;
  one.Add(1);
  EXPECT_EQ(one.total_ps, twice.total_ps);
}

// Into any groups, in any order.
std::string MergedAtRandom(std::vector<FleetSummary> summaries, const FleetBy& by,
                           testing::Random* random) {
  while (summaries.size() > 1) {
    std::ranges::shuffle(summaries, std::mt19937(static_cast<uint32_t>(random->Below(1 << 30))));
    FleetMerger merger(by);
    for (int64_t some = 2 + random->Below(3); some > 0 && !summaries.empty(); --some) {
      // Through a file, now and then.
      const FleetSummary& last = summaries.back();
      if (random->OneIn(2)) {
        const auto read = DecodeFleetSummary(EncodeFleetSummary(last), "s.xts");
        EXPECT_TRUE(read.ok()) << read.status();
        EXPECT_TRUE(merger.Add(*read).ok());
      } else {
        EXPECT_TRUE(merger.Add(last).ok());
      }
      summaries.pop_back();
    }
    summaries.push_back(merger.Take());
  }
  FleetMerger merger(by);
  EXPECT_TRUE(merger.Add(summaries[0]).ok());
  return EncodeFleetSummary(merger.Take());
}

TEST(FleetMerger, OrderAndGroupingMakeNoDifference) {
  testing::Random random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<FleetSummary> summaries;
    for (int64_t i = 1 + random.Below(8); i > 0; --i) summaries.push_back(RandomSummary(&random));
    for (const FleetBy by : {FleetBy{}, FleetBy{.host = true, .device = false},
                             FleetBy{.host = false, .device = false}}) {
      FleetMerger at_once(by);
      for (const FleetSummary& each : summaries) ASSERT_TRUE(at_once.Add(each).ok());
      const std::string want = EncodeFleetSummary(at_once.Take());
      ASSERT_EQ(MergedAtRandom(summaries, by, &random), want);
      // With detail first, and less of it later.
      FleetMerger less(by), all({});
      for (const FleetSummary& each : summaries) ASSERT_TRUE(all.Add(each).ok());
      ASSERT_TRUE(less.Add(all.Take()).ok());
      ASSERT_EQ(EncodeFleetSummary(less.Take()), want);
    }
  }
}

TEST(FleetMerger, RowsOfOneKeyAreOneRow) {
  FleetSummary one;
  one.names = {"", "a", "f"};
  one.functions = {{.host = 1, .function = 2, .runs = 3, .centres_ps = {70}},
                   {.host = 1, .function = 2, .runs = 4, .centres_ps = {60}}};
  FleetSummary other = one;
  other.names = {"", "f", "a"};  // other ids of the same names
  for (FleetFunction& row : other.functions) std::swap(row.host, row.function);
  FleetMerger merger({});
  ASSERT_TRUE(merger.Add(one).ok());
  ASSERT_TRUE(merger.Add(other).ok());
  const FleetSummary merged = merger.Take();
  ASSERT_EQ(merged.functions.size(), 1U);
  EXPECT_EQ(merged.functions[0].runs, 14U);
  EXPECT_EQ(merged.functions[0].centres_ps, (CaptureCentres{60, 60, 70, 70}));
  EXPECT_EQ(merged.names[merged.functions[0].function], "f");
}

TEST(FleetMerger, RefusesWhatWasMeasuredOtherwise) {
  FleetSummary plain, skipping, coarse;
  plain.captures = skipping.captures = coarse.captures = {{.path = "a"}};
  skipping.options["skip_runs"] = "2";
  coarse.by.device = false;
  FleetMerger merger({});
  ASSERT_TRUE(merger.Add(plain).ok());
  const absl::Status options = merger.Add(skipping), by = merger.Add(coarse);
  EXPECT_TRUE(absl::IsFailedPrecondition(options) && Says(options, "skip_runs=2")) << options;
  EXPECT_TRUE(absl::IsFailedPrecondition(by) && Says(by, "--by")) << by;
  // A summary of failures alone was not measured.
  FleetSummary failed;
  failed.failures = {{.path = "b", .message = "damaged"}};
  EXPECT_TRUE(merger.Add(failed).ok());
  EXPECT_EQ(merger.Take().failures.size(), 1U);
}

TEST(FleetSummaryFile, IsRefusedWhereItIsCut) {
  testing::Random random(3);
  FleetSummary made = RandomSummary(&random);
  while (made.functions.size() < 3) made = RandomSummary(&random);
  FleetMerger merger({});
  ASSERT_TRUE(merger.Add(made).ok());
  const std::string whole = EncodeFleetSummary(merger.Take());
  ASSERT_TRUE(DecodeFleetSummary(whole, "s.xts").ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::Status status = DecodeFleetSummary(whole.substr(0, size), "s.xts").status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
    ASSERT_TRUE(Says(status, "s.xts: ") && Says(status, "(byte ")) << status;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeFleetSummary(whole + whole, "s.xts").status()));
  std::string later = whole;
  later[later.find(".v1") + 2] = '2';
  EXPECT_TRUE(Says(DecodeFleetSummary(later, "s.xts").status(), "another version"));
}

// Whatever is changed: refused, or a summary that can be written and read again.
TEST(FleetSummaryFile, AnyBytesEndWell) {
  testing::Random random(4);
  for (int round = 0; round < 3000; ++round) {
    FleetMerger merger({});
    ASSERT_TRUE(merger.Add(RandomSummary(&random)).ok());
    std::string bytes = EncodeFleetSummary(merger.Take());
    for (int64_t i = random.Below(4); i >= 0; --i) {
      bytes[static_cast<size_t>(random.Below(static_cast<int64_t>(bytes.size())))] =
          static_cast<char>(random.Below(256));
    }
    const auto read = DecodeFleetSummary(bytes, "s.xts");
    if (!read.ok()) continue;
    FleetMerger again({});
    if (!again.Add(*read).ok()) continue;
    const std::string written = EncodeFleetSummary(again.Take());
    const auto reread = DecodeFleetSummary(written, "s.xts");
    ASSERT_TRUE(reread.ok()) << reread.status();
    ASSERT_EQ(EncodeFleetSummary(*reread), written);
  }
}

class SummarizeTest : public ::testing::Test {
 protected:
  static FleetSummary Summarized(const testing::TraceBuilder& trace, const std::string& name,
                                 const ReportOptions& options = {}) {
    const std::string bytes = trace.Bytes();
    Diagnostics diagnostics;
    const auto opened = OpenTraceFromMemory(bytes, name, {}, &diagnostics);
    EXPECT_TRUE(opened.ok()) << opened.status();
    auto summary = SummarizeTrace(*opened, options, diagnostics, "");
    EXPECT_TRUE(summary.ok()) << summary.status();
    return *std::move(summary);
  }
  static void AddRun(uint64_t run, int64_t start_ps, int64_t duration_ps,
                     testing::TraceBuilder* trace) {
    trace->Gpu(0).Stream(7).Kernel({.name = "dot",
                                    .start_ps = start_ps,
                                    .duration_ps = duration_ps,
                                    .hlo_module = "jit_f",
                                    .program_id = 1,
                                    .hlo_op = "dot.1",
                                    .correlation_id = run});
  }
};

TEST_F(SummarizeTest, HasTheSumsOfTheReport) {
  testing::TraceBuilder trace;
  AddRun(1, 1000, 500, &trace);
  AddRun(2, 3000, 700, &trace);
  AddRun(3, 9000, 600, &trace);
  const FleetSummary summary = Summarized(trace, "dir/node7.xplane.pb");
  const auto name = [&](NameId id) { return summary.names[id]; };
  ASSERT_EQ(summary.devices.size(), 1U);
  EXPECT_EQ(name(summary.devices[0].host), "node7");
  EXPECT_EQ(name(summary.devices[0].device), "GPU:0");
  EXPECT_EQ(summary.devices[0].busy_ps, 1800);
  EXPECT_EQ(summary.devices[0].span_ps, 8600);
  EXPECT_EQ(summary.devices[0].compute_ps + summary.devices[0].idle_ps, 8600);
  ASSERT_EQ(summary.kernels.size(), 1U);
  const FleetKernel& kernel = summary.kernels[0];
  EXPECT_EQ(name(kernel.kernel), "dot");
  EXPECT_EQ(kernel.time.count, 3U);
  EXPECT_EQ(kernel.time.total_ps, 1800);
  EXPECT_EQ(kernel.time.min_ps, 500);
  EXPECT_EQ(kernel.time.durations.count(), 3U);
  EXPECT_EQ(kernel.self_ps, 1800);
  ASSERT_EQ(summary.captures.size(), 1U);
  EXPECT_EQ(summary.captures[0].events, 3U);
  ASSERT_EQ(summary.functions.size(), 1U);
  EXPECT_EQ(summary.functions[0].active.total_ps, 1800);
  EXPECT_EQ(summary.functions[0].centres_ps.size(), 1U);
}

TEST_F(SummarizeTest, SaysHowItWasMeasured) {
  testing::TraceBuilder trace;
  AddRun(1, 1000, 500, &trace);
  EXPECT_TRUE(Summarized(trace, "a").options.empty());
  ReportOptions given;
  given.device = "gpu";
  given.skip_runs = 1;
  const auto options = Summarized(trace, "a", given).options;
  EXPECT_EQ(options.at("device"), "gpu");
  EXPECT_EQ(options.at("skip_runs"), "1");
}

}  // namespace
}  // namespace xplane_time
