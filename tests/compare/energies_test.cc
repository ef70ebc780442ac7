// Energies: read from results of energy, and compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/inputs.h"
#include "tests/compare/made.h"
#include "xplane_time/compare.h"

namespace xplane_time {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::Noise;

struct MadeEnergy {
  double truth_j = 0.01;
  double half_width = 0.01;  // of the 95 % interval, as a share
  double offset_std = 0;     // of processes, beside what the interval knows of
};

// Energies as a process finds them: off by chance, as its interval says.
Measurements Process(const std::vector<MadeEnergy>& functions, Noise* noise) {
  Measurements out;
  for (const MadeEnergy& function : functions) {
    Series& series = out.series.emplace_back();
    series.function = "f" + std::to_string(out.series.size());
    series.metric = "energy";
    const double error = function.half_width / 1.96 * noise->Normal();
    const double found =
        function.truth_j * (1 + error) * std::exp(function.offset_std * noise->Normal());
    const double half = found * function.half_width;
    series.energy = {{found, std::array{found - half, found + half}}, 100, 600};
  }
  return out;
}

std::vector<Measurements> Processes(int count, const std::vector<MadeEnergy>& functions,
                                    Noise* noise) {
  std::vector<Measurements> out;
  for (int i = 0; i < count; ++i) out.push_back(Process(functions, noise));
  return out;
}

Comparison Compared(const std::vector<Measurements>& base, const std::vector<Measurements>& head,
                    const CompareOptions& options = {}) {
  auto comparison = Compare(base, head, options);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return comparison.ok() ? *std::move(comparison) : Comparison();
}

TEST(CompareEnergiesTest, SeveralProcessesProveARise) {
  Noise noise(1);
  const Comparison comparison =
      Compared(Processes(8, {{0.01}, {0.02}}, &noise), Processes(8, {{0.011}, {0.02}}, &noise));
  EXPECT_EQ(comparison.outcome, Outcome::kSlower);
  EXPECT_EQ(comparison.quantity, Quantity::kEnergy);
  const ComparedRow& row = comparison.rows[0];
  EXPECT_EQ(row.function, "f1");
  EXPECT_NEAR(*row.base.energy_j, 0.01, 0.0002);
  EXPECT_NEAR(*row.ratio, 1.1, 0.02);
  EXPECT_FALSE(row.base.centre_ps.has_value());
  EXPECT_EQ(comparison.rows[1].verdict, FunctionVerdict::kSame);
}

TEST(CompareEnergiesTest, OneProcessASideHasWhatItStates) {
  Noise noise(2);
  const auto base = Processes(1, {{0.01}}, &noise), much = Processes(1, {{0.013}}, &noise);
  const Comparison comparison = Compared(base, much);
  EXPECT_EQ(comparison.outcome, Outcome::kSlower);
  EXPECT_THAT(comparison.notes, Contains(HasSubstr("1 % is assumed")));
  EXPECT_TRUE(comparison.rows[0].base.lo_j.has_value());
  // Less than what processes may differ by proves nothing, nor that nothing changed.
  const auto little = Processes(1, {{0.0104}}, &noise);
  EXPECT_EQ(Compared(base, little).outcome, Outcome::kTooLittleData);
  EXPECT_EQ(Compared(base, Processes(1, {{0.013, 0.2}}, &noise)).outcome, Outcome::kTooLittleData)
      << "a wide interval";
}

// Agreement of a few is no precision: each states what it may be off by.
TEST(CompareEnergiesTest, ProcessesThatAgreeAreNoSurerThanTheyState) {
  const auto exactly = [](int count, double joules) {
    Measurements one;
    Series& series = one.series.emplace_back();
    series.function = "f";
    series.metric = "energy";
    series.energy = {{joules, std::array{joules * 0.8, joules * 1.2}}, 10, 600};
    return std::vector(static_cast<size_t>(count), one);
  };
  EXPECT_EQ(Compared(exactly(5, 1), exactly(5, 1.1)).outcome, Outcome::kTooLittleData);
  EXPECT_EQ(Compared(exactly(5, 1), exactly(5, 1.1), {.paired = true}).outcome,
            Outcome::kTooLittleData);
  // One that is alone on its side is not as sure as the others are.
  Noise noise(3);
  auto base = Processes(10, {{1, 0.001}}, &noise);
  for (Measurements& each : base) each.series[0].function = "f";
  EXPECT_EQ(Compared(base, exactly(1, 1.1)).outcome, Outcome::kTooLittleData);
  EXPECT_EQ(Compared(exactly(1, 1.1), base).outcome, Outcome::kTooLittleData);
}

TEST(CompareEnergiesTest, WhatIsUnknownIsNeitherZeroNorATie) {
  Noise noise(4);
  const auto base = Processes(5, {{0.01}, {0.02}}, &noise);
  auto head = Processes(5, {{0.01}, {0.02}}, &noise);
  for (Measurements& each : head) {
    each.series[1].energy.reset();
    each.series[1].unknown = "not_separable";
  }
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(comparison.outcome, Outcome::kTooLittleData);
  const ComparedRow& row = comparison.rows[0];
  EXPECT_EQ(row.function, "f2");
  EXPECT_FALSE(row.ratio.has_value());
  EXPECT_EQ(row.reason, "its energy is unknown in 5 of 5 captures of head: not_separable");
  for (Measurements& each : head) each.series.erase(each.series.begin());
  const auto none = Compare(base, head, {});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("not_separable"));
}

TEST(CompareEnergiesTest, TimesAndEnergiesAreNeverCompared) {
  Noise noise(5);
  const auto base = Processes(2, {{0.01}}, &noise);
  const auto head = testing::Captures(2, {{"f1"}}, 0, &noise);
  for (const bool allowed : {false, true}) {
    const auto comparison = Compare(base, head, {.allow_mismatch = allowed});
    EXPECT_THAT(std::string(comparison.status().message()), HasSubstr("times, others energies"));
  }
}

// At most alpha of all comparisons call what did not change more or less, whatever the captures;
// and what did change is found.
TEST(CompareEnergiesSimulationTest, TheErrorRateIsThatOfTimes) {
  constexpr int kRepetitions = 400;
  struct Case {
    int base, head;
    double offset_std;
  };
  constexpr double kAlpha = 0.05;
  for (const Case& at : {Case{1, 1, 0},
                         {1, 1, 0.01},
                         {2, 2, 0.01},
                         {4, 4, 0.01},
                         {10, 10, 0},
                         {10, 10, 0.02},
                         {1, 10, 0}}) {
    int wrong = 0;
    for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
      Noise noise(repetition * 7 + 1);
      std::vector<MadeEnergy> functions;
      for (const double half : {0.003, 0.01, 0.05, 0.2}) {
        functions.push_back({0.001 / half, half, at.offset_std});
      }
      const Comparison comparison =
          Compared(Processes(at.base, functions, &noise), Processes(at.head, functions, &noise),
                   {.min_effect = 0, .alpha = kAlpha});
      wrong += comparison.Count(FunctionVerdict::kSlower) > 0 ||
               comparison.Count(FunctionVerdict::kFaster) > 0;
    }
    const double expected = kRepetitions * kAlpha;
    EXPECT_LE(wrong, expected + 3 * std::sqrt(expected))
        << at.base << " and " << at.head << ", processes differ by " << at.offset_std;
  }
}

TEST(CompareEnergiesSimulationTest, ARiseIsFound) {
  int found = 0, alone = 0;
  for (uint64_t repetition = 0; repetition < 100; ++repetition) {
    Noise noise(repetition);
    const std::vector<MadeEnergy> before = {{1, 0.01, 0.005}}, after = {{1.05, 0.01, 0.005}},
                                  much = {{1.1, 0.01, 0.005}};
    found += Compared(Processes(8, before, &noise), Processes(8, after, &noise)).outcome ==
             Outcome::kSlower;
    alone += Compared(Processes(1, before, &noise), Processes(1, much, &noise)).outcome ==
             Outcome::kSlower;
  }
  EXPECT_GE(found, 95);
  EXPECT_GE(alone, 95);
}

constexpr char kHead[] = R"({"schema": "xplane-time.energy.v1", "devices": [
    {"input": 0, "plane": "/device:GPU:0", "ordinal": 0, "host": null, "poor_fit": POOR,
     "shared": false, "sensor": "nvml GPU-1 gpu energy_uj"}], "functions": [)";
constexpr char kRow[] = R"({"input": 0, "plane": "/device:GPU:0", "ordinal": 0, "host": null,
    "function": "jit_autotune_fn_1", "program_id": "1", "variant_id": "1", "count": 10,
    "kind": "attributed", "energy_j": 5.0, "energy_j_ci95": [4.5, 5.5], "runs": 10, "per_run_j": 0.5, "windows": 600,
    "reason": null})";

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << what;
  return text.replace(at, what.size(), with);
}

std::string File(const std::string& rows, const char* poor_fit = "false") {
  return Replaced(kHead, "POOR", poor_fit) + rows + "]}";
}

absl::StatusOr<std::vector<Measurements>> Read(const std::string& json,
                                               MeasureOptions options = {}) {
  options.quantity = Quantity::kEnergy;
  return compare::FromJson("file.json", json, options);
}

TEST(ReadEnergiesTest, AFileIsAProcessAndAValueIsOfOneExecution) {
  const auto read = Read(File(kRow));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 1);
  const Series& series = (*read)[0].series[0];
  EXPECT_EQ(series.device, "GPU:0");
  EXPECT_EQ(series.variant_id, "1");
  EXPECT_EQ(series.energy->joules.value, 0.5);
  EXPECT_DOUBLE_EQ(series.energy->joules.ci95->at(0), 0.45);
  EXPECT_EQ(series.energy->executions, 10);
  EXPECT_FALSE(series.uncertain);
  EXPECT_THAT((*read)[0].facts, Contains(Fact{"power sensor", "nvml GPU-1 gpu energy_uj"}));
}

TEST(ReadEnergiesTest, DoubtsAreToldAndReasonsStay) {
  const std::string unknown = R"({"plane": "/device:GPU:0", "function": "g", "variant_id": null,
      "count": 3, "windows": 9, "kind": null, "energy_j": null, "energy_j_ci95": null, "runs": null, "per_run_j": null,
      "reason": "not_separable"})";
  const auto read = Read(File(std::string(kRow) + "," + unknown, "true"));
  ASSERT_TRUE(read.ok()) << read.status();
  const Measurements& one = (*read)[0];
  EXPECT_TRUE(one.series[0].uncertain);
  EXPECT_THAT(one.notes, Contains(HasSubstr("poor_fit")));
  EXPECT_FALSE(one.series[1].measured());
  EXPECT_EQ(one.series[1].unknown, "not_separable");
}

// A log of half the capture: energies are of that half, executions of all.
TEST(ReadEnergiesTest, OneExecutionIsThatOfThePartThatIsCovered) {
  const auto read = Read(Replaced(File(kRow), "\"per_run_j\": 0.5", "\"per_run_j\": 1.0"));
  ASSERT_TRUE(read.ok()) << read.status();
  const Series& series = (*read)[0].series[0];
  EXPECT_EQ(series.energy->joules.value, 1);
  EXPECT_DOUBLE_EQ(series.energy->joules.ci95->at(0), 0.9);
}

TEST(ReadEnergiesTest, AStatedPowerIsNotCompared) {
  const auto read =
      Read(Replaced(Replaced(File(kRow), "[4.5, 5.5]", "null"), "attributed", "modelled"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)[0].series[0].unknown, "its power was stated, not measured");
}

TEST(ReadEnergiesTest, ProgramsOfOneNameHaveNoNumber) {
  const auto read = Read(File(std::string(kRow) + "," + kRow));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ((*read)[0].series.size(), 1);
  EXPECT_FALSE((*read)[0].series[0].measured());
}

TEST(ReadEnergiesTest, WhatIsNotUsableSaysWhy) {
  const std::string good = File(kRow);
  const auto refused = [](const std::string& json, const char* why) {
    const auto read = Read(json);
    EXPECT_FALSE(read.ok()) << json;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("file.json")) << json;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(why)) << json;
  };
  for (size_t cut = 1; cut < good.size(); ++cut) refused(good.substr(0, cut), "cut short");
  refused(Replaced(good, "\"energy_j\": 5.0", "\"energy_j\": NaN"), "no reason why");
  refused(Replaced(good, "\"energy_j\": 5.0", "\"energy_j\": -5.0"), "do not fit together");
  refused(Replaced(good, "[4.5, 5.5]", "[-1, 11]"), "do not fit together");
  refused(Replaced(good, "[4.5, 5.5]", "[5.1, 5.5]"), "do not fit together");
  refused(Replaced(good, "[4.5, 5.5]", "[NaN, 5.5]"), "lacks fields");
  refused(Replaced(good, "[4.5, 5.5]", "null"), "without its interval");
  refused(Replaced(good, "\"per_run_j\": 0.5", "\"per_run_j\": 0.05"), "fit together");
  refused(Replaced(good, "\"count\": 10", "\"count\": -10"), "lacks fields");
  refused(Replaced(good, "energy.v1", "energy.v2"), "no version that this program reads");
  refused(File("3"), "lacks fields");
  refused(File(""), "of no function");
  refused(R"({"schema": "xplane-time.energy.v1"})", "lacks devices");
  refused(R"({"benchmarks": []})", "holds no energies");
  MeasureOptions filtered;
  filtered.report.kernel = "k";
  EXPECT_THAT(std::string(Read(good, filtered).status().message()), HasSubstr("--kernel"));
}

TEST(ReadEnergiesTest, WhereTimesAreAskedForTheyAreRefusedWithTheWayOut) {
  const auto read = compare::FromJson("file.json", File(kRow), {});
  EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("compare --objective energy"));
}

}  // namespace
}  // namespace xplane_time
