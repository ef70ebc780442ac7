#include "tune/harness_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/messages.h"

namespace xplane_time {
namespace {

using ::testing::HasSubstr;

TEST(ParseAnswer, Hello) {
  const auto answer = ParseAnswer(
      R"({"v":1,"type":"hello","name":"h","device":"gpu:0","device_class":"H100","clock":"device",)"
      R"("driver":"550","versions":{"jax":"0.10"},"parallel_prepare":4,"verifies":true,"new":[]})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->type, "hello");
  const HarnessInfo& hello = answer->hello;
  EXPECT_EQ(hello.device, "gpu:0");
  EXPECT_EQ(hello.clock, "device");
  EXPECT_EQ(hello.framework, R"({"jax":"0.10"})");
  EXPECT_EQ(answer->parallel_prepare, 4);
  EXPECT_TRUE(hello.verifies);
}

TEST(ParseAnswer, PreparedVerifiedAndSlot) {
  const auto prepared =
      *ParseAnswer(R"({"v":1,"type":"prepared","request":7,"status":"oom","mem_bytes":null})");
  EXPECT_EQ(prepared.type, "prepared");
  EXPECT_EQ(prepared.request, 7);
  EXPECT_EQ(prepared.state.status, "oom");
  EXPECT_FALSE(prepared.state.mem_bytes.has_value());
  const auto verified = *ParseAnswer(
      R"({"v":1,"type":"verified","request":8,"status":"wrong_result","message":"off"})");
  EXPECT_EQ(verified.type, "verified");
  EXPECT_EQ(verified.state.message, "off");
  const auto slot = *ParseAnswer(R"({"v":1,"type":"slot","request":9,"slot":3})");
  EXPECT_EQ(slot.type, "slot");
  EXPECT_EQ(slot.slot, 3);
}

TEST(ParseAnswer, ResultWithSamplesOrTrace) {
  const auto samples = *ParseAnswer(
      R"({"v":1,"type":"result","request":1,"status":"ok","throttled":true,"notes":{"mhz":1},)"
      R"("samples":[{"slot":0,"status":"ok","t_ps":5,"energy_uj":2,"t0_ns":3,"t1_ns":9},{"slot":1,"status":"timeout"}]})");
  EXPECT_EQ(samples.type, "result");
  EXPECT_TRUE(samples.throttled);
  EXPECT_EQ(samples.notes_json, R"({"mhz":1})");
  ASSERT_EQ(samples.samples.size(), 2u);
  EXPECT_EQ(samples.samples[0].t_ps, 5);
  EXPECT_EQ(samples.samples[0].energy_uj, 2);
  EXPECT_EQ(samples.samples[0].begin_ns, 3);
  EXPECT_EQ(samples.samples[0].end_ns, 9);
  EXPECT_FALSE(samples.samples[1].t_ps.has_value());
  const auto trace = *ParseAnswer(
      R"({"v":1,"type":"result","request":1,"status":"ok","trace":{"base64":"CgUKAw=="}})");
  EXPECT_EQ(trace.trace_bytes, "\x0a\x05\x0a\x03");
}

TEST(ParseAnswer, MetricsAreNumbersByNameAndUnknownIsLeftOut) {
  const auto answer = *ParseAnswer(
      R"({"v":1,"type":"result","request":1,"status":"ok","samples":[{"slot":0,"status":"ok",)"
      R"("t_ps":5,"metrics":{"accuracy":0.5,"bytes":7,"energy":null}}]})");
  EXPECT_EQ(answer.samples[0].metrics,
            (std::map<std::string, double>{{"accuracy", 0.5}, {"bytes", 7}}));
}

struct BadAnswer {
  std::string line, message;
};

TEST(ParseAnswer, WhatDoesNotFitIsQuoted) {
  const std::vector<BadAnswer> cases = {
      {"", "not a JSON object"},
      {"hello", "it starts with \"hello\""},
      {"[1]", "not a JSON object"},
      {R"({"type":"hello"})", "v: must be present"},
      {R"({"v":2,"type":"hello"})", "version is 2"},
      {R"({"v":1,"type":"bogus"})", "\"bogus\" is unknown"},
      {R"({"v":1,"type":"hello","device":5,"device_class":"a","clock":"wall"})",
       "device: must be a string"},
      {R"({"v":1,"type":"hello","device":"a","device_class":"a","clock":"sun"})",
       "clock: must be device, profile or wall"},
      {R"({"v":1,"type":"prepared","request":-1,"status":"ok"})",
       "request: must be a whole number of at least 0"},
      {R"({"v":1,"type":"prepared","request":1,"status":"fine"})",
       "status: must be a status listed in docs/harness.md"},
      {R"({"v":1,"type":"prepared","request":18446744073709551615,"status":"ok"})",
       "request: must be a whole number of at least 0"},
      {R"({"v":1,"type":"result","request":1,"status":"ok","samples":[{"slot":0,"status":"ok"}]})",
       "samples[0].t_ps: must be present"},
      {R"({"v":1,"type":"result","request":1,"status":"ok",)"
       R"("samples":[{"slot":0,"status":"ok","t_ps":0}]})",
       "samples[0].t_ps: must be a whole number of at least 1"},
      {R"({"v":1,"type":"result","request":1,"status":"ok",)"
       R"("samples":[{"slot":0,"status":"ok","t_ps":1,"metrics":{"a":"b"}}]})",
       "metrics[\"a\"]: must be a number"},
      {R"({"v":1,"type":"result","request":1,"status":"ok",)"
       R"("samples":[{"slot":0,"status":"ok","t_ps":1,"metrics":{"":1}}]})",
       "the name must have 1 to 100 bytes"},
      {R"({"v":1,"type":"result","request":1,"status":"ok",)"
       R"("samples":[{"slot":0,"status":"ok","t_ps":1,"metrics":[1]}]})",
       "metrics: must be an object"},
      {R"({"v":1,"type":"result","request":1,"status":"ok","samples":{}})",
       "samples: must be a list"},
      {R"({"v":1,"type":"result","request":1,"status":"ok","trace":{"base64":"*"}})",
       "trace.base64: is damaged"},
      {R"({"v":1,"type":"result","request":1,"status":"ok","trace":{}})", "path or base64"},
      {std::string(100'000, '['), "nested too deeply"}};
  for (const BadAnswer& bad : cases) {
    const auto answer = ParseAnswer(bad.line);
    EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << bad.line;
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(bad.message));
    EXPECT_LT(answer.status().message().size(), 1500u);
  }
}

TEST(Requests, AreOneLineOfJson) {
  const std::vector<Workload> workloads = {{"a\nb", R"({"n":1})", 2}};
  const Configuration variant = {"v\"1", R"({"x":[1,"y"]})", {}};
  for (const std::string& line :
       {HelloRequest("s", workloads), PrepareRequest(1, variant),
        harness::Line("verify", {{"request", 2}, {"variant", variant.id}}),
        RunRoundRequest({.request = 3, .batch = 4, .round = 5, .order = {"a", "b", "a"}}),
        harness::Line("bye")}) {
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_EQ(parsed["v"], 1);
  }
  const auto round = nlohmann::json::parse(
      RunRoundRequest({.request = 3, .batch = 4, .round = 5, .order = {"a", "b", "a"}}));
  EXPECT_EQ(round["order"].dump(), R"(["a","b","a"])");
  EXPECT_EQ(nlohmann::json::parse(PrepareRequest(1, variant))["params"]["x"][1], "y");
}

}  // namespace
}  // namespace xplane_time
