#include "output/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/compare/made.h"
#include "tests/output/rendered.h"

namespace xplane_time::output {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::Captures;
using testing::Noise;

Comparison Sample() {
  Noise noise(1);
  const auto base = Captures(8, {{"a<&\">"}, {"same"}, {"gone"}}, 0.001, &noise);
  const auto head = Captures(8, {{"a<&\">", 1.2e7}, {"same"}}, 0.001, &noise);
  return *Compare(base, head, {});
}

TEST(JunitTest, SlowerFailsAndOneSidedIsSkipped) {
  const std::string xml = RenderComparison(Sample(), Format::kJunit);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(xml, HasSubstr("name=\"a&lt;&amp;&quot;&gt;\""));
  EXPECT_THAT(xml, HasSubstr("<failure type=\"slower\" message=\"slower: +2"));
  EXPECT_THAT(xml, HasSubstr("<skipped message=\"only_base\""));
}

TEST(BenchmarkTest, HoldsTheTimesOfHeadInNanoseconds) {
  const Json document = Json::parse(RenderComparison(Sample(), Format::kBenchmark));
  ASSERT_EQ(document["benchmarks"].size(), 2);
  const Json& slower = document["benchmarks"][0];
  EXPECT_EQ(slower["run_name"], "a<&\">");
  EXPECT_EQ(slower["time_unit"], "ns");
  EXPECT_NEAR(slower["real_time"].get<double>(), 12000, 100);
  EXPECT_NEAR(slower["ratio"].get<double>(), 1.2, 0.01);
}

TEST(BencherTest, HasBoundsAroundTheValue) {
  const Json document = Json::parse(RenderComparison(Sample(), Format::kBmf));
  EXPECT_EQ(document.size(), 2);
  const Json& latency = document["same"]["latency"];
  EXPECT_LT(latency["lower_value"], latency["value"]);
  EXPECT_GT(latency["upper_value"], latency["value"]);
}

TEST(BencherTest, OneCaptureHasNoBounds) {
  Noise noise(2);
  const auto one = Captures(1, {{"a"}}, 0, &noise);
  const Json document = Json::parse(RenderComparison(*Compare(one, one, {}), Format::kBmf));
  EXPECT_FALSE(document["a"]["latency"].contains("lower_value"));
}

TEST(TextTest, PercentAndChange) {
  EXPECT_EQ(PercentText(0.01), "1 %");
  EXPECT_EQ(PercentText(0.005), "0.5 %");
  EXPECT_EQ(PercentText(0.1234), "12.3 %");
  EXPECT_EQ(PercentText(0), "0 %");
  EXPECT_EQ(ChangeText(1.051), "+5.10");
  EXPECT_EQ(ChangeText(0.5), "-50.0");
  EXPECT_EQ(ChangeText(1), "0.00");
}

}  // namespace
}  // namespace xplane_time::output
