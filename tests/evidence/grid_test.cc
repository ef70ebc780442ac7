#include "evidence/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "output/evidence.h"

namespace xplane_time::evidence {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPsPerUs = 1'000'000;

// Four settings of 300 to 303 us, each with a sample of 45 ms, and one that did not compile.
GridResult Measured() {
  GridRun run = {.workload = "mm", .baseline = "mm_a0", .samples = 100};
  GridSamples samples;
  for (int64_t i = 0; i < 4; ++i) {
    const std::string id = "a" + std::to_string(i);
    run.settings.push_back({.name = "mm_" + id, .id = id});
    auto& own = samples.emplace_back();
    for (int64_t k = 0; k < 100; ++k) {
      const int64_t us = k == 99 ? 45'000 : 300 + i;
      own.push_back({.sample_id = static_cast<uint64_t>(k),
                     .t_ps = us * kPsPerUs + k,
                     .energy_uj = 3000 - i / 2});
    }
  }
  run.settings.push_back({.name = "mm_bad", .id = "bad", .status = "compile_error"});
  samples.emplace_back();
  return MakeGridResult(std::move(run), std::move(samples));
}

std::string Figure(const std::string& name) {
  for (const ZipFile& each : output::GridFigures(Measured())) {
    if (each.name == name) return each.content;
  }
  return "";
}

// The first group, as numbers, of all that fits.
std::vector<double> NumbersIn(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<double> numbers;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    numbers.push_back(std::stod((*at)[1]));
  }
  return numbers;
}

TEST(GridFigures, AFewLongSamplesDoNotSqueezeTheOthers) {
  const std::string figure = Figure("figs/latency.svg");
  EXPECT_THAT(figure, HasSubstr("a3 (n 100, 1 beyond the axis)"));
  EXPECT_THAT(figure, HasSubstr("bad (n 0: compile_error)"));
  const auto medians = NumbersIn(figure, R"x(x1="([\d.]+)"[^/]*stroke-width="2")x");
  ASSERT_EQ(medians.size(), 4u);
  EXPECT_GT(medians[3] - medians[0], 500) << "pixels between 300 and 303 us";
}

TEST(GridFigures, PointsFillThePanelAndLabelsLieApart) {
  const std::string figure = Figure("figs/energy_latency.svg");
  const auto x = NumbersIn(figure, R"x(<circle cx="([\d.]+)")x");
  const auto y = NumbersIn(figure, R"x(<circle cx="[\d.]+" cy="([\d.]+)")x");
  ASSERT_EQ(x.size(), 4u);
  EXPECT_GT(x[3] - x[0], 500);
  EXPECT_GT(std::abs(y[3] - y[0]), 50);
  EXPECT_THAT(figure, HasSubstr(">a0</text>"));
}

TEST(GridFigures, PointsThatLieOnEachOtherHaveLabelsThatDoNot) {
  GridResult result = Measured();
  for (GridRow& row : result.rows) {
    if (row.n > 0) row.median_latency_us = 300;
  }
  const std::string figure = output::GridFigures(result).back().content;
  const auto lefts = NumbersIn(figure, R"x(<text x="([\d.]+)" y="[\d.]+"[^>]*>a\d<)x");
  const auto tops = NumbersIn(figure, R"x(<text x="[\d.]+" y="([\d.]+)"[^>]*>a\d<)x");
  ASSERT_EQ(lefts.size(), 4u);
  for (size_t i = 0; i < lefts.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      EXPECT_TRUE(lefts[i] != lefts[k] || std::abs(tops[i] - tops[k]) >= 10) << i << " " << k;
    }
  }
}

}  // namespace
}  // namespace xplane_time::evidence
