// The definitions on traces small enough to follow by hand. That they are the originals'
// is what python/tests/test_compat.py shows, beside the packages themselves.
#include "xplane_time/compat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::compat {

void PrintTo(const KeyTime& time, std::ostream* out) { *out << time.key << " " << time.time_s; }

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using xplane_time::testing::TraceBuilder;

MATCHER_P2(Takes, key, time_s, "") { return arg.key == key && arg.time_s == time_s; }

class CompatTest : public ::testing::Test {
 protected:
  const Trace& Open() {
    bytes_ = builder_.Bytes();
    Diagnostics diagnostics;
    auto trace = OpenTraceFromMemory(bytes_, "test", {.keep_identical_planes = true}, &diagnostics);
    EXPECT_TRUE(trace.ok()) << trace.status();
    trace_ = *std::move(trace);
    return trace_;
  }
  std::vector<KeyTime> Ejkernel(const EjkernelOptions& options) {
    return *EjkernelTimes(Open(), 0, options);
  }
  std::vector<KeyTime> TuneJax(const TuneJaxOptions& options) {
    return *TuneJaxTimes(Open(), 0, options);
  }

  TraceBuilder builder_;
  std::string bytes_;
  Trace trace_;
};

constexpr int64_t kUs = 1'000'000;

// Two runs of 10 us, 90 us apart, of kernels of 4 and 6 us.
void AddTwoRuns(TraceBuilder* builder) {
  auto stream = builder->Gpu(0).Stream(16);
  for (const int64_t start_ps : {int64_t{0}, 100 * kUs}) {
    stream.Kernel({.name = "a",
                   .start_ps = start_ps,
                   .duration_ps = 4 * kUs,
                   .hlo_module = "jit_f",
                   .program_id = 5});
    stream.Kernel({.name = "b",
                   .start_ps = start_ps + 4 * kUs,
                   .duration_ps = 6 * kUs,
                   .hlo_module = "jit_f",
                   .program_id = 5});
  }
}

TEST_F(CompatTest, EjkernelTakesTheLastKernelOfAKey) {
  AddTwoRuns(&builder_);
  EXPECT_THAT(Ejkernel({}), ElementsAre(Takes("jit_f(5-None)", 6e-6)));
}

TEST_F(CompatTest, TuneJaxTakesTheEnvelopeOfRunsWithNothingBetween) {
  AddTwoRuns(&builder_);
  EXPECT_THAT(TuneJax({.prefix = "jit_"}), ElementsAre(Takes("jit_f(5)", 110e-6)));
}

TEST_F(CompatTest, TuneJaxNumbersRunsThatComeBack) {
  AddTwoRuns(&builder_);
  builder_.Gpu(0).Stream(16).Kernel({.name = "c",
                                     .start_ps = 50 * kUs,
                                     .duration_ps = kUs,
                                     .hlo_module = "jit_g",
                                     .program_id = 6});
  EXPECT_THAT(
      TuneJax({.prefix = "jit_"}),
      ElementsAre(Takes("jit_f(5)", 10e-6), Takes("jit_g(6)", 1e-6), Takes("jit_f(5)[1]", 10e-6)));
}

TEST_F(CompatTest, ChildrenAreUnitedAndMayStickOutByTwoNanosecondsInTuneJaxAlone) {
  auto line = builder_.Plane("/device:TPU:0").Line({.name = "L"});
  line.Event({.name = "jit_f", .start_ps = 0, .duration_ps = 20 * kUs});
  line.Event({.name = "op", .start_ps = kUs, .duration_ps = 4 * kUs});
  line.Event({.name = "op", .start_ps = 3 * kUs, .duration_ps = 4 * kUs});
  line.Event({.name = "op", .start_ps = 19 * kUs, .duration_ps = kUs + 2000});
  const NameTest ops = [](std::string_view name) { return name.starts_with("op"); };
  EXPECT_THAT(Ejkernel({.children = ops}), ElementsAre(Takes("jit_f(None-None)", 6e-6)));
  EXPECT_THAT(TuneJax({.prefix = "jit_", .children = ops}),
              ElementsAre(Takes("jit_f(None)", 7.002e-6)));
}

TEST_F(CompatTest, ZeroIsNoneInEjkernelAndAValueInTuneJax) {
  auto stream = builder_.Gpu(0).Stream(1);
  stream.Kernel({.name = "a",
                 .duration_ps = kUs,
                 .hlo_module = "jit_f",
                 .program_id = 0,
                 .stats = {{"run_id", int64_t{9}}}});
  EXPECT_THAT(Ejkernel({}), ElementsAre(Takes("jit_f(None-None)", 1e-6)));
  EXPECT_THAT(TuneJax({}), ElementsAre(Takes("jit_f(0)", 1e-6)));
}

TEST_F(CompatTest, EjkernelLeavesOutShortEventsAndStops) {
  auto line = builder_.Plane("gpu").Line({.name = "L"});
  line.Event({.name = "jit_short", .start_ps = 0, .duration_ps = 999'999});
  line.Event({.name = "jit_a", .start_ps = 1, .duration_ps = kUs});
  line.Event({.name = "jit_b", .start_ps = 2, .duration_ps = kUs});
  EXPECT_THAT(Ejkernel({.max_events = 1}), ElementsAre(Takes("jit_a(None-None)", 1e-6)));
  EXPECT_THAT(Ejkernel({.min_duration_ns = 2000}), IsEmpty());
  EXPECT_FALSE(EjkernelTimes(trace_, 0, {.min_duration_ns = std::nan("")}).ok());
}

TEST_F(CompatTest, ProfileDataCutsBelowANanosecond) {
  builder_.Plane("tpu")
      .Line({.name = "L"})
      .Event({.name = "jit_f", .start_ps = 1500, .duration_ps = 2999});
  EXPECT_THAT(TuneJax({}), ElementsAre(Takes("jit_f(None)", 2e-9)));
  EXPECT_THAT(TuneJax({.raw_protos = true}), ElementsAre(Takes("jit_f(None)", 2.999e-9)));
}

TEST(VariantsTest, LastDigitsDecideAndExtremesGo) {
  const std::vector<std::vector<KeyTime>> captures = {
      {{"jit_autotune_fn_1(5-None)", 1}, {"jit_autotune_fn_12(5-None)", 7}},
      {{"jit_autotune_fn_1(5-None)", 2}, {"jit_other(5-None)", 9}},
      {{"jit_autotune_fn_01(5-None)", 30}, {"jit_autotune_fn_x", 9}}};
  const std::vector<VariantTime> times = EjkernelVariants(captures);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].id, "1");
  EXPECT_EQ(times[0].n, 1u);
  EXPECT_EQ(times[0].mean_s, 2);
  EXPECT_EQ(times[1].id, "12");
}

TEST(VariantsTest, TheSlowestPlaneCountsAndZeroNever) {
  const std::vector<std::vector<PlaneTimes>> captures = {
      {{"gpu:0", {{"jit_tune_jax_fn_3(1)", 1}, {"jit_tune_jax_fn_4(1)", 0}}},
       {"gpu:1", {{"jit_tune_jax_fn_3(1)", 2}}}}};
  const auto times = TuneJaxVariants(captures);
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 1u);
  EXPECT_EQ((*times)[0].mean_s, 2);
  const std::vector<std::vector<PlaneTimes>> twice = {
      {{"gpu:0", {{"jit_tune_jax_fn_3(1)", 1}, {"jit_tune_jax_fn_3(1)[1]", 1}}}}};
  EXPECT_THAT(std::string(TuneJaxVariants(twice).status().message()),
              HasSubstr("plane \"gpu:0\": a tuned function appears more than once"));
}

TEST_F(CompatTest, XprofCountsDerivedLinesAndUnitesDevices) {
  AddTwoRuns(&builder_);
  builder_.Gpu(0)
      .Line({.name = "Steps"})
      .Event({.name = "7", .start_ps = 0, .duration_ps = 110 * kUs});
  builder_.Gpu(0)
      .Line({.name = "XLA Modules"})
      .Event({.name = "m", .start_ps = 0, .duration_ps = 500 * kUs});
  const auto times = XprofDeviceTimes(Open(), {});
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->total_device_ns, 110'000);
  EXPECT_EQ(times->kernels[0].name, "7");
  EXPECT_EQ(times->kernels[1].name, "b");
  EXPECT_EQ(times->kernels[1].total_us, 12);
  ASSERT_EQ(times->lines.size(), 3u);
  EXPECT_EQ(times->lines[0].covered_ns, 20'000);
  EXPECT_EQ(times->lines[2].covered_ns, 500'000);
}

TEST_F(CompatTest, XprofWithoutKernelsIsAnError) {
  builder_.Plane("/host:CPU").Line({.name = "L"}).Event({.name = "x", .duration_ps = 5});
  EXPECT_TRUE(absl::IsFailedPrecondition(XprofDeviceTimes(Open(), {}).status()));
}

TEST_F(CompatTest, PlanesByAWordOfTheirName) {
  builder_.Plane("/device:GPU:0");
  builder_.Plane("/host:CPU");
  builder_.Plane("my gpu plane");
  EXPECT_THAT(PlanesWith(Open(), "Gpu"), ElementsAre(0, 2));
  EXPECT_THAT(PlanesWith(trace_, "xpu"), IsEmpty());
}

TEST_F(CompatTest, DamageIsTold) {
  builder_.Gpu(0).Stream(1).Kernel(
      {.name = "a", .duration_ps = kUs, .hlo_module = "jit_f", .program_id = 5});
  std::string bytes = builder_.Bytes();
  // The program id's stat: its length says more than there is.
  const size_t at = bytes.find(std::string("\x22\x04\x08", 3));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = '\xff';
  Diagnostics diagnostics;
  const auto trace = OpenTraceFromMemory(bytes, "test", {}, &diagnostics);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::Status status = TuneJaxTimes(*trace, 0, {}).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("event 0"));
}

}  // namespace
}  // namespace xplane_time::compat
