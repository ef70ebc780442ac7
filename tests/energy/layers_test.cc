// Tests of marked layers: their file, their time, and the kernel times within them.
#include "energy/layers.h"

#include <cmath>
#include <fstream>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace xplane_time::energy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<LayerRuns> Read(const std::string& text) {
  const std::string path = ::testing::TempDir() + "layers.csv";
  std::ofstream(path, std::ios::binary) << text;
  return ReadLayerRuns(path);
}

TEST(ReadLayerRuns, TakesColumnsByTheirNames) {
  const auto runs = Read(
      "exec_id,end_time,layer_name,start_time,duration_ms\r\n"
      "0,1770000000.25,\"a, \"\"b\"\"\n2\",1770000000.1234567899,126\r\n"
      "\r\n"
      "1,3,plain,2,1000");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->runs.size(), 2);
  EXPECT_EQ(runs->runs[0].layer, "a, \"b\"\n2");
  EXPECT_EQ(runs->runs[0].start_ns, 1'770'000'000'123'456'789);
  EXPECT_EQ(runs->runs[0].end_ns, 1'770'000'000'250'000'000);
  EXPECT_EQ(runs->runs[1].layer, "plain");
  EXPECT_EQ(runs->runs[1].start_ns, 2'000'000'000);
}

TEST(ReadLayerRuns, SpreadsheetsBeginWithAMark) {
  const auto runs = Read("\xef\xbb\xbflayer_name,start_time,end_time\r\na,1,2\r\n");
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->runs[0].layer, "a");
}

TEST(ReadLayerRuns, SaysWhatIsWrongAndWhere) {
  const std::string head = "layer_name,start_time,end_time\n";
  const std::pair<std::string, std::string> kCases[] = {
      {"", ":1: missing column layer_name"},
      {"layer_name,start_time\n", ":1: missing column end_time"},
      {"\"layer_name", ":1: unterminated quote"},
      {head + "a,1,2\nb,1\n", ":3: 2 fields, but the first line has 3"},
      {head, ": contains no runs of layers"},
      {head + "\n\r\n", ": contains no runs of layers"},
      {"\xef\xbb" + head, ":1: missing column layer_name"},
      {head + "a,x,2\n", ":2: start_time 'x' is not a UNIX time"},
      {head + "a,1,nan\n", ":2: end_time 'nan' is not a UNIX time"},
      {head + "a,1,\n", ":2: end_time '' is not a UNIX time"},
      {head + "a,-1,2\n", ":2: start_time '-1' is not a UNIX time"},
      {head + "a,1,1e9\n", ":2: end_time '1e9' is not a UNIX time"},
      {head + "a,2,1\n", ":2: end_time is before start_time"},
      {head + "a,1,99999999999\n", ":2: end_time '99999999999' is not a UNIX time"},
      {head + "a,1,2\n\"b,1,2\n", ":3: unterminated quote"},
  };
  for (const auto& [text, words] : kCases) {
    const auto runs = Read(text);
    ASSERT_FALSE(runs.ok()) << text;
    EXPECT_EQ(runs.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(runs.status().message()), HasSubstr(words));
  }
  EXPECT_EQ(ReadLayerRuns("/none/such").status().code(), absl::StatusCode::kNotFound);
}

TEST(LayerTimes, AnInstantIsThatOfTheLayerThatBeganLast) {
  LayerRuns runs;
  runs.runs = {{"softmax", 12, 15}, {"attention", 10, 19}, {"attention", 30, 31}};
  const auto times = TimesOf(runs);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->from_ns, 10);
  EXPECT_EQ(times->to_ns, 31);
  ASSERT_EQ(times->layers.size(), 2);
  EXPECT_EQ(times->layers[1].name, "attention");
  EXPECT_EQ(times->layers[1].count, 2);
  EXPECT_THAT(times->layers[1].lengths_ns, ElementsAre(9, 1));
  EXPECT_NEAR(BusyCurve(times->layers[1].own).total_s(), 7e-9, 1e-15);
  EXPECT_NEAR(BusyCurve(times->layers[0].own).total_s(), 3e-9, 1e-15);
}

TEST(LayerTimes, RefusesWhatIsNoTime) {
  LayerRuns runs;
  EXPECT_EQ(TimesOf(runs).status().code(), absl::StatusCode::kInvalidArgument);
  runs.runs = {{"a", 2, 1}};
  EXPECT_THAT(std::string(TimesOf(runs).status().message()), HasSubstr("ends before it starts"));
  runs.runs = {{"a", 0, 1}, {"a", INT64_MAX - 1, INT64_MAX}};
  EXPECT_THAT(std::string(TimesOf(runs).status().message()), HasSubstr("100 days"));
  runs.runs = {{"a", INT64_MIN, INT64_MAX}};
  EXPECT_FALSE(TimesOf(runs).ok());
  runs.runs.clear();
  for (int i = 0; i < 5000; ++i) runs.runs.push_back({std::to_string(i), i, i + 1});
  EXPECT_EQ(TimesOf(runs).status().code(), absl::StatusCode::kResourceExhausted);
}

// Compares with a simulation in steps of 1 ms, at which kernels and layers begin and end.
TEST(LayerTimes, SecondsAreOfWhatRanBetweenTheMarks) {
  constexpr int kSteps = 300;
  constexpr double kStepS = 1e-3, kBeginS = 0.02, kFromS = 0.03, kToS = 0.25;
  const double capture_s = kSteps * kStepS;
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const auto pieces = [&](int64_t unit) {
      std::vector<Interval> parts;
      for (int64_t at = 0; at < kSteps - 10; at += 1 + static_cast<int64_t>(random() % 9)) {
        const int64_t end = at + 1 + static_cast<int64_t>(random() % 4);
        parts.push_back({at * unit, end * unit});
      }
      return parts;
    };
    const std::vector<BusyCurve> kernels = {BusyCurve(pieces(1'000'000'000)),
                                            BusyCurve(pieces(1'000'000'000))};
    LayerRuns runs;
    runs.runs = {{"a", 0, 1}};  // the origin of the times
    for (const char* name : {"a", "b"}) {
      for (const Interval& each : pieces(1'000'000)) {
        runs.runs.push_back({name, each.start_ps, each.end_ps});
      }
    }
    const LayerTimes times = *TimesOf(runs);
    Fit fit;
    fit.idle_terms = 2;
    fit.power_w = Eigen::VectorXd::Zero(4);
    const Eigen::MatrixXd seconds =
        SecondsIn(times, kBeginS, kFromS, kToS, kernels, fit, capture_s);

    Eigen::MatrixXd expected = Eigen::MatrixXd::Zero(2, 4);
    for (Eigen::Index layer = 0; layer < 2; ++layer) {
      const BusyCurve own(times.layers[static_cast<size_t>(layer)].own);
      for (int step = 0; step < kSteps; ++step) {
        const double middle_s = (step + 0.5) * kStepS;
        const auto runs_then = [](const BusyCurve& curve, double at_s) {
          const std::vector<double> before_s = curve.At(std::vector{at_s - 1e-6, at_s + 1e-6});
          return before_s[1] > before_s[0];
        };
        if (middle_s < kFromS || middle_s > kToS || !runs_then(own, middle_s - kBeginS)) continue;
        bool any = false;
        for (Eigen::Index k = 0; k < 2; ++k) {
          if (!runs_then(kernels[static_cast<size_t>(k)], middle_s)) continue;
          expected(layer, k) += kStepS;
          any = true;
        }
        if (any) expected.row(layer) += kStepS * fit.IdleTerms(middle_s, capture_s).transpose();
      }
    }
    EXPECT_LT((seconds - expected).cwiseAbs().maxCoeff(), 2e-5) << seconds << "\n" << expected;
  }
}

}  // namespace
}  // namespace xplane_time::energy
