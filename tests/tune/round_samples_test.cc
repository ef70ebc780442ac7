#include "tune/harness_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/trace_builder.h"

namespace xplane_time {
namespace {

using ::testing::HasSubstr;
using xplane_time::testing::TraceBuilder;

constexpr int64_t kUs = 1'000'000;

RoundRequest Round(std::vector<std::string> order, int64_t calls = 1) {
  RoundRequest request;
  request.order = std::move(order);
  request.calls = calls;
  return request;
}

// A run a function, one after the other, on a GPU with the host events that tell them apart.
struct Run {
  int function;
  int64_t active_us;
};

std::string TraceOf(const std::vector<Run>& runs, int devices = 1) {
  TraceBuilder builder;
  auto host = builder.Host().Thread("python");
  uint64_t correlation_id = 1;
  int64_t at_ps = 0;
  for (const Run& run : runs) {
    const std::string module = "jit_autotune_fn_" + std::to_string(run.function);
    host.ModuleExecution(module, at_ps, 90 * kUs);
    for (int device = 0; device < devices; ++device) {
      host.Launch({.start_ps = at_ps + kUs, .duration_ps = kUs, .correlation_id = correlation_id});
      builder.Gpu(device).Stream(1).Kernel({.name = "k",
                                            .start_ps = at_ps + 3 * kUs,
                                            .duration_ps = (run.active_us + device) * kUs,
                                            .hlo_module = module,
                                            .program_id = run.function,
                                            .correlation_id = correlation_id++});
    }
    at_ps += 100 * kUs;
  }
  return builder.Bytes();
}

HarnessAnswer WithTrace(std::string bytes) {
  HarnessAnswer result;
  result.trace_bytes = std::move(bytes);
  return result;
}

std::vector<int64_t> Microseconds(const RoundTimes& times) {
  std::vector<int64_t> us;
  for (const SlotTime& slot : times.slots) us.push_back(slot.t_ps.value_or(-kUs) / kUs);
  return us;
}

TEST(TimesOfResult, RunsOfATraceBecomeSlots) {
  // The opening run of b, then b a b.
  const auto times = TimesOfResult(WithTrace(TraceOf({{0, 50}, {0, 10}, {1, 20}, {0, 12}})),
                                   Round({"b", "a", "b"}));
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(Microseconds(*times), (std::vector<int64_t>{10, 20, 12}));
}

TEST(TimesOfResult, CallsAreAveraged) {
  const auto times = TimesOfResult(
      WithTrace(TraceOf({{0, 50}, {0, 10}, {0, 14}, {1, 20}, {1, 22}})), Round({"a", "b"}, 2));
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(Microseconds(*times), (std::vector<int64_t>{12, 21}));
}

TEST(TimesOfResult, TheSlowestDeviceCounts) {
  const auto times =
      TimesOfResult(WithTrace(TraceOf({{0, 50}, {0, 10}}, /*devices=*/3)), Round({"a"}));
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(Microseconds(*times), (std::vector<int64_t>{12}));
}

TEST(TimesOfResult, ATraceWithoutTheseRunsIsAnError) {
  const auto few = TimesOfResult(WithTrace(TraceOf({{0, 50}, {0, 10}})), Round({"a", "b"}));
  EXPECT_TRUE(absl::IsDataLoss(few.status()));
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("variant b ran 0 times instead of 1"));
  const std::string bytes = TraceOf({{0, 50}, {0, 10}});
  for (const size_t size : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    HarnessAnswer cut = WithTrace(bytes.substr(0, size));
    cut.trace_path = size == 0 ? "/no/such/trace.xplane.pb" : "";
    EXPECT_TRUE(absl::IsDataLoss(TimesOfResult(cut, Round({"a"})).status())) << size;
  }
}

SlotSample SampleOf(int64_t slot, int64_t t_ps) {
  SlotSample sample;
  sample.slot = slot;
  sample.t_ps = t_ps;
  return sample;
}

TEST(TimesOfResult, SlotsWithoutASampleHaveNoEvents) {
  HarnessAnswer result;
  result.samples = {SampleOf(1, 7 * kUs)};
  const auto times = TimesOfResult(result, Round({"a", "b"}));
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->slots[0].status, "no_events");
  EXPECT_EQ(times->slots[1].t_ps, 7 * kUs);
}

TEST(TimesOfResult, SlotsTwiceOrBeyondAreNonsense) {
  HarnessAnswer result;
  result.samples = {SampleOf(0, 1), SampleOf(0, 2)};
  EXPECT_TRUE(absl::IsInvalidArgument(TimesOfResult(result, Round({"a", "b"})).status()));
  result.samples = {SampleOf(2, 1)};
  EXPECT_TRUE(absl::IsInvalidArgument(TimesOfResult(result, Round({"a", "b"})).status()));
}

TEST(TimesOfResult, NeitherSamplesNorATraceIsNonsense) {
  HarnessAnswer result;
  EXPECT_TRUE(absl::IsInvalidArgument(TimesOfResult(result, Round({"a"})).status()));
}

TEST(TimesOfResult, OnlyRegularFilesAreRead) {
  for (const char* path : {"/dev/zero", "-"}) {
    HarnessAnswer result = WithTrace("");
    result.trace_path = path;
    const auto times = TimesOfResult(result, Round({"a"}));
    EXPECT_TRUE(absl::IsDataLoss(times.status()));
    EXPECT_THAT(std::string(times.status().message()), HasSubstr("is not a regular file"));
  }
}

TEST(TimesOfResult, AThrottledRoundSaysSo) {
  HarnessAnswer result;
  result.state.status = "throttled";
  const auto times = TimesOfResult(result, Round({"a"}));
  ASSERT_TRUE(times.ok());
  EXPECT_TRUE(times->throttled);
}

}  // namespace
}  // namespace xplane_time
