#include "compare/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/compare/made.h"
#include "xplane_time/measurements.h"

namespace xplane_time::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<Measurements>> Read(std::string_view json,
                                               const MeasureOptions& options = {}) {
  return FromJson("file.json", json, options);
}

std::vector<double> Values(const Series& series) {
  std::vector<double> values;
  for (const Sampled& sample : series.samples) values.push_back(sample.value);
  return values;
}

TEST(LooksLikeJsonTest, TracesMayBeginWithALineFeedAndABrace) {
  EXPECT_TRUE(LooksLikeJson("{\"schema\""));
  EXPECT_TRUE(LooksLikeJson(" \n{ \n \"a\""));
  EXPECT_TRUE(LooksLikeJson("\xef\xbb\xbf{}"));
  EXPECT_FALSE(LooksLikeJson("\n{\x08\x01"));
  EXPECT_FALSE(LooksLikeJson("\n{"));
  EXPECT_FALSE(LooksLikeJson(""));
  EXPECT_FALSE(LooksLikeJson("\x1f\x8b"));
}

constexpr char kBenchmark[] = R"({
  "context": {"num_cpus": 8, "library_build_type": "release", "host_name": "h"},
  "benchmarks": [
    {"name": "BM_a", "run_name": "BM_a", "run_type": "iteration", "real_time": 10.5,
     "cpu_time": 9, "time_unit": "ns"},
    {"name": "BM_a", "run_name": "BM_a", "run_type": "iteration", "real_time": 11,
     "cpu_time": 9.5, "time_unit": "ns"},
    {"name": "BM_a_mean", "run_name": "BM_a", "run_type": "aggregate", "aggregate_name": "mean",
     "real_time": 10.75, "cpu_time": 9.25, "time_unit": "ns"},
    {"name": "BM_b", "real_time": 2, "cpu_time": 1, "time_unit": "ms"},
    {"name": "BM_c", "error_occurred": true, "error_message": "no device"}]})";

TEST(BenchmarkJsonTest, RepetitionsAreSamplesAndAggregatesAreNot) {
  const auto captures = Read(kBenchmark);
  ASSERT_TRUE(captures.ok()) << captures.status();
  ASSERT_EQ(captures->size(), 1);
  const auto& series = (*captures)[0].series;
  ASSERT_EQ(series.size(), 3);
  EXPECT_THAT(Values(series[0]), ::testing::ElementsAre(10500, 11000));
  EXPECT_THAT(Values(series[1]), ::testing::ElementsAre(2e9));
  EXPECT_EQ(series[0].metric, "real_time");
  EXPECT_EQ(series[2].failure, "no device");
  EXPECT_TRUE(series[2].samples.empty());
  EXPECT_THAT((*captures)[0].facts, ::testing::Contains(Fact{"library_build_type", "release"}));
  EXPECT_THAT((*captures)[0].labels, ::testing::Contains(Fact{"host_name", "h"}));
}

// As Google Benchmark writes what has no value.
TEST(BenchmarkJsonTest, WhatIsNotANumberIsUnknown) {
  const auto captures = Read(R"({"benchmarks": [
    {"name": "NaN", "real_time": 5, "cpu_time": NaN, "bytes": Infinity, "label": "\"NaN"},
    {"name": "b", "real_time": -NaN, "cpu_time": 2},
    {"name": "c", "real_time": -Infinity, "cpu_time": 2}]})");
  ASSERT_TRUE(captures.ok()) << captures.status();
  const auto& series = (*captures)[0].series;
  ASSERT_EQ(series.size(), 3);
  EXPECT_EQ(series[0].function, "NaN");
  EXPECT_THAT(Values(series[0]), ::testing::ElementsAre(5000));
  EXPECT_EQ(series[1].failure, "real_time is not a number");
  EXPECT_TRUE(series[2].samples.empty());
  EXPECT_EQ(Read(R"({"benchmarks": [NaNNaN]})").status().code(), absl::StatusCode::kDataLoss);
}

TEST(BenchmarkJsonTest, TimesThatDoNotCountAreCounted) {
  const auto captures = Read(R"({"benchmarks": [
    {"name": "a", "real_time": -5}, {"name": "a", "real_time": 0}, {"name": "a", "real_time": 7},
    {"name": "b", "real_time": 1e308}, {"name": "b", "real_time": 1e17, "time_unit": "us"}]})");
  ASSERT_TRUE(captures.ok()) << captures.status();
  EXPECT_THAT(Values((*captures)[0].series[0]), ElementsAre(7000));
  EXPECT_TRUE((*captures)[0].series[1].samples.empty());
  EXPECT_EQ((*captures)[0].series[1].failure, "");
  EXPECT_THAT((*captures)[0].notes,
              ElementsAre("file.json: 4 of 5 times left out (negative: 1, over 106 days: 2, "
                          "zero: 1)"));
}

TEST(TuningJsonTest, TimesThatDoNotCountAreCountedAndFailuresAreKept) {
  const auto captures = Read(R"({"schema": "xplane-time.tune.v1", "session": {}, "rounds": [
    {"samples": [{"id": "a", "status": "ok", "t_ps": 5}, {"id": "b", "status": "oom", "t_ps": null},
                 {"id": "c", "status": "crash", "t_ps": null}, {"id": "c", "status": "ok", "t_ps": 0},
                 {"id": "c", "status": "ok", "t_ps": 4}]}]})");
  ASSERT_TRUE(captures.ok()) << captures.status();
  const auto& [a, c, b] =
      std::tie((*captures)[0].series[0], (*captures)[0].series[1], (*captures)[0].series[2]);
  EXPECT_THAT(Values(a), ElementsAre(5));
  EXPECT_EQ(c.function, "c");
  EXPECT_EQ(c.failure, "") << "it works";
  EXPECT_EQ(b.failure, "oom");
  EXPECT_THAT((*captures)[0].notes, ElementsAre("file.json: 1 of 3 times left out (zero: 1)"));
}

TEST(BenchmarkJsonTest, CpuTimeAndFilters) {
  MeasureOptions options;
  options.benchmark_time = BenchmarkTime::kCpu;
  options.report.function = "BM_b";
  const auto captures = Read(kBenchmark, options);
  ASSERT_TRUE(captures.ok());
  ASSERT_EQ((*captures)[0].series.size(), 1);
  EXPECT_THAT(Values((*captures)[0].series[0]), ::testing::ElementsAre(1e9));
  EXPECT_EQ((*captures)[0].series[0].metric, "cpu_time");
}

TEST(JsonTest, WhatIsNotUsableSaysWhy) {
  struct Case {
    const char* json;
    absl::StatusCode code;
    const char* says;
  };
  const Case cases[] = {
      {"{\"benchmarks\": [", absl::StatusCode::kDataLoss, "truncated or damaged JSON"},
      {"{}", absl::StatusCode::kFailedPrecondition, "neither"},
      {"{\"benchmarks\": [3]}", absl::StatusCode::kDataLoss, "benchmarks[0]"},
      {"{\"benchmarks\": [{\"name\": \"a\"}]}", absl::StatusCode::kDataLoss, "real_time"},
      {"{\"benchmarks\": [{\"name\": \"a\", \"real_time\": 1, \"time_unit\": \"h\"}]}",
       absl::StatusCode::kDataLoss, "time_unit"},
      {"{\"benchmarks\": [{\"name\": \"a\", \"run_type\": \"aggregate\"}]}",
       absl::StatusCode::kFailedPrecondition, "aggregates"},
      {"{\"schema\": \"xplane-time.report.v1\"}", absl::StatusCode::kFailedPrecondition,
       "--samples"},
      {"{\"schema\": \"xplane-time.report.v1\", \"samples\": [1]}", absl::StatusCode::kDataLoss,
       "samples[0]"},
      {"{\"schema\": \"xplane-time.report.v1\", \"samples\": [{\"function\": \"f\"}]}",
       absl::StatusCode::kDataLoss, "lacks"}};
  for (const Case& at : cases) {
    const auto read = Read(at.json);
    EXPECT_EQ(read.status().code(), at.code) << at.json << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("file.json")) << at.json;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(at.says)) << at.json;
  }
}

// No prefix of a good file, and no single changed byte, may crash.
TEST(JsonTest, DamageNeverCrashes) {
  const std::string good = kBenchmark;
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_FALSE(Read(good.substr(0, cut)).ok()) << cut;
  }
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char c : {'\0', '{', '"', '9', '\xff'}) {
      std::string damaged = good;
      damaged[at] = c;
      refused += Read(damaged).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(JsonTest, DeepNestingIsRefused) {
  const std::string open(1000000, '['), close(1000000, ']');
  for (const std::string& json :
       {"{\"benchmarks\": [" + open + close + "]}",
        "{\"context\": {\"caches\": " + open + close + "}, \"benchmarks\": []}"}) {
    const auto read = Read(json);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("deep"));
  }
}

// The rows of one capture say nothing about another, although both have a GPU 0.
TEST(ResultJsonTest, FunctionsAndKernelsBelongToTheirCapture) {
  const auto captures = Read(R"({"schema": "xplane-time.report.v1",
    "inputs": [{"capture": 0}, {"capture": 1}],
    "samples": [
      {"input": 0, "plane": "/device:GPU:0", "function": "f", "clock": "profile", "run": 0,
       "start_ps": 1, "span_ps": 9, "active_ps": 8, "sum_ps": 8},
      {"input": 1, "plane": "/device:GPU:0", "function": "f", "clock": "profile", "run": 0,
       "start_ps": 1, "span_ps": 7, "active_ps": 6, "sum_ps": 6}],
    "functions": [
      {"input": 0, "plane": "/device:GPU:0", "function": "f", "runs": 2,
       "status": "runs_uncertain"},
      {"input": 1, "plane": "/device:GPU:0", "function": "f", "runs": 1, "status": "ok"}],
    "kernels": [
      {"input": 0, "plane": "/device:GPU:0", "function": "f", "kernel": "k", "self_ps": 8,
       "total_ps": 9},
      {"input": 1, "plane": "/device:GPU:0", "function": "f", "kernel": "k", "total_ps": 6}]})");
  ASSERT_TRUE(captures.ok()) << captures.status();
  ASSERT_EQ(captures->size(), 2);
  const Measurements &first = (*captures)[0], &second = (*captures)[1];
  EXPECT_EQ(first.source, "file.json #1");
  EXPECT_TRUE(first.series[0].uncertain);
  EXPECT_FALSE(second.series[0].uncertain);
  EXPECT_EQ(first.kernels[0].run_ps, 4);
  EXPECT_EQ(second.kernels[0].run_ps, 6);
}

SampleRow Sample(const std::string& function, const std::string& program, uint64_t run,
                 int64_t start_ps, int64_t active_ps) {
  SampleRow row;
  row.device = {"/device:GPU:0", 0, "", 0};
  row.function = function;
  row.program_id = program;
  row.run = run;
  row.start_ps = start_ps;
  row.active_ps = active_ps;
  row.sum_ps = active_ps + 1;
  row.span_ps = active_ps + 2;
  return row;
}

std::vector<Series> Collect(const std::vector<SampleRow>& rows,
                            const MeasureOptions& options = {}) {
  const auto filters = Filters::Compile(options.report);
  EXPECT_TRUE(filters.ok());
  Report report;
  report.samples = rows;
  Measurements capture;
  AddRows(report, *filters, options, &capture);
  return capture.series;
}

TEST(SeriesTest, ProgramsOfOneNameAreNumberedByTheirFirstRun) {
  const auto series = Collect({Sample("f", "9", 0, 100, 10), Sample("f", "9", 1, 300, 11),
                               Sample("f", "10", 0, 200, 20), Sample("g", "1", 0, 50, 5)});
  ASSERT_EQ(series.size(), 3);
  for (const Series& one : series) {
    EXPECT_EQ(one.program, Values(one)[0] == 20 ? 1 : 0);
    EXPECT_EQ(one.device, "GPU:0");
    EXPECT_EQ(one.metric, "active");
  }
}

TEST(SeriesTest, WarmUpSuspectAndTrimmedRunsAreLeftOut) {
  std::vector<SampleRow> rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back(Sample("f", "1", static_cast<uint64_t>(i), i * 100, 10 + i));
  }
  rows[3].suspect = true;
  MeasureOptions options;
  options.report.skip_runs = 2;
  options.report.trim = {Trim::Policy::kDropExtremes, 0};
  const auto series = Collect(rows, options);
  EXPECT_THAT(Values(series[0]), ::testing::ElementsAre(14, 15, 16));
  EXPECT_THAT(series[0].left_out, ::testing::UnorderedElementsAre(0, 100, 200, 300, 700));
}

TEST(SeriesTest, WithoutOpsOnlySpansAreKnown) {
  SampleRow row = Sample("f", "1", 0, 10, 5);
  row.active_ps = row.sum_ps = std::nullopt;
  const auto series = Collect({row});
  EXPECT_EQ(series[0].metric, "span");
  EXPECT_THAT(Values(series[0]), ::testing::ElementsAre(7));
}

Series OnDevice(const std::string& device, const std::vector<Sampled>& samples) {
  Series series;
  series.function = "f";
  series.device = device;
  series.metric = "active";
  series.samples = samples;
  return series;
}

Series Variant(const std::string& id, const std::string& device,
               const std::vector<Sampled>& samples) {
  Series series = OnDevice(device, samples);
  series.variant_id = id;
  return series;
}

TEST(SlowestTest, TheSlowestDeviceIsTheTimeOfARun) {
  const std::vector<Series> devices = {OnDevice("GPU:0", {{10, 0}, {30, 100}}),
                                       OnDevice("GPU:1", {{20, 1}, {15, 101}})};
  const auto combined = SlowestDevice(devices);
  ASSERT_EQ(combined.size(), 1);
  EXPECT_THAT(Values(combined[0]), ::testing::ElementsAre(20, 30));
  EXPECT_EQ(combined[0].obstacle, "");
  ASSERT_EQ(combined[0].by_device.size(), 2);
  EXPECT_EQ(combined[0].by_device[1].device, "GPU:1");
  EXPECT_EQ(combined[0].by_device[1].typical, 17.5);
}

TEST(SlowestTest, RunsThatDoNotMatchCannotBeJudged) {
  const std::vector<Series> counts = {OnDevice("GPU:0", {{10, 0}, {30, 100}}),
                                      OnDevice("GPU:1", {{20, 1}})};
  EXPECT_TRUE(SlowestDevice(counts)[0].samples.empty());
  EXPECT_EQ(SlowestDevice(counts)[0].obstacle,
            "its runs on 2 devices do not match: 2 on GPU:0, 1 on GPU:1");
  const std::vector<Series> apart = {OnDevice("GPU:0", {{10, 0}}), OnDevice("GPU:1", {{20, 500}})};
  EXPECT_TRUE(SlowestDevice(apart)[0].samples.empty());
  EXPECT_THAT(SlowestDevice(apart)[0].obstacle, HasSubstr("run 1 of 1 is not at the same time"));
  std::vector<Series> clocks = {OnDevice("GPU:0", {{10, 0}}), OnDevice("GPU:1", {{20, 1}})};
  clocks[1].clock = "device";
  EXPECT_THAT(SlowestDevice(clocks)[0].obstacle, HasSubstr("metric and clock"));
}

TEST(SlowestTest, ARunThatIsLeftOutOnOneDeviceIsLeftOut) {
  std::vector<Series> devices = {OnDevice("GPU:0", {{10, 0}, {30, 100}, {12, 200}}),
                                 OnDevice("GPU:1", {{20, 1}, {15, 201}})};
  devices[1].left_out = {101};
  const Series combined = SlowestDevice(devices)[0];
  EXPECT_THAT(Values(combined), ::testing::ElementsAre(20, 15));
  EXPECT_THAT(combined.left_out, ::testing::ElementsAre(100));
  EXPECT_EQ(combined.obstacle, "");
}

TEST(SlowestTest, OtherDevicesThanMostCannotBeJudged) {
  const std::vector<Series> devices = {
      Variant("a", "GPU:0", {{10, 0}}), Variant("a", "GPU:1", {{10, 0}}),
      Variant("b", "GPU:0", {{9, 50}}), Variant("c", "GPU:0", {{10, 90}}),
      Variant("c", "GPU:1", {{10, 90}})};
  const auto combined = SlowestDevice(devices);
  ASSERT_EQ(combined.size(), 3);
  EXPECT_EQ(combined[0].obstacle, "");
  EXPECT_EQ(combined[1].obstacle, "it ran on GPU:0, and the others ran on GPU:0, GPU:1");
  EXPECT_TRUE(combined[1].samples.empty());
  EXPECT_EQ(combined[1].by_device.size(), 1);
  // On one device, whichever it is, nothing is combined.
  const std::vector<Series> one = {Variant("a", "GPU:3", {{10, 0}}), Variant("b", "GPU:3", {})};
  EXPECT_EQ(SlowestDevice(one)[0].device, "GPU:3");
  EXPECT_EQ(SlowestDevice(one)[0].by_device.size(), 0);
}

TEST(ReadTest, TheSameFileTwiceIsOneCapture) {
  const std::string trace = XPLANE_TIME_TESTDATA "/jax_cpu_variants.xplane.pb";
  const auto set = ReadMeasurements(std::vector<std::string>{trace, trace}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->captures.size(), 1);
  EXPECT_THAT(set->notes, ::testing::Contains(HasSubstr("not a second process")));
  EXPECT_EQ(set->captures[0].series.size(), 8);
  EXPECT_THAT(set->captures[0].facts, ::testing::Contains(Fact{"device kind", "cpu"}));
}

// Energies.

MeasureOptions OfEnergy() {
  MeasureOptions options;
  options.objective = Objective::kEnergy;
  return options;
}

// One device with these functions.
constexpr char kSoundFit[] = R"(, "poor_fit": false)";

std::string EnergyJson(const std::string& functions, const std::string& device = kSoundFit,
                       const std::string& more = "") {
  return absl::StrCat(R"({"schema": "xplane-time.energy.v1",)", more, R"( "devices": [
    {"input": 0, "plane": "/device:GPU:0", "ordinal": 0, "sensor": "nvml GPU-1 gpu energy_uj")",
                      device, R"(}], "functions": [)", functions, "]}");
}

std::string EnergyRowJson(const std::string& name, const std::string& values,
                          const std::string& program = "1") {
  return absl::StrCat(R"({"input": 0, "plane": "/device:GPU:0", "ordinal": 0, "program_id": ")",
                      program, R"(", "function": ")", name, R"(", )", values, "}");
}

constexpr char kKnown[] =
    R"("energy_j": 100, "energy_j_ci95": [98, 102], "per_run_j": 0.5, "status": "ok")";
constexpr char kUnknown[] =
    R"("energy_j": null, "energy_j_ci95": null, "per_run_j": null, "status": "unknown",
       "reason": "not_separable")";

TEST(EnergyJsonTest, AFunctionHasOneValueAndItsError) {
  const auto captures = Read(EnergyJson(absl::StrCat(EnergyRowJson("jit_autotune_fn_3", kKnown),
                                                     ",", EnergyRowJson("g", kUnknown))),
                             OfEnergy());
  ASSERT_TRUE(captures.ok()) << captures.status();
  ASSERT_EQ(captures->size(), 1);
  EXPECT_THAT((*captures)[0].facts, ElementsAre(Fact{"sensor", "nvml GPU-1 gpu energy_uj"}));
  const auto& series = (*captures)[0].series;
  ASSERT_EQ(series.size(), 2);
  EXPECT_THAT(Values(series[0]), ElementsAre(0.5));
  EXPECT_NEAR(*series[0].log_error, std::log(100.0 / 98) / 1.96, 1e-9);
  EXPECT_EQ(series[0].device, "GPU:0");
  EXPECT_EQ(series[0].variant_id, "3");
  EXPECT_EQ(series[0].metric, kEnergyMetric);
  EXPECT_EQ(series[0].doubt, "");
  EXPECT_TRUE(series[1].samples.empty());
  EXPECT_EQ(series[1].failure, "not_separable");
}

// Of half a log the energy is of a part, and a run of the mean of all.
TEST(EnergyJsonTest, TheErrorIsThatOfARun) {
  const auto captures =
      Read(EnergyJson(EnergyRowJson("f", absl::StrCat(kKnown, R"(, "per_run_j_ci95": [0.4, 0.6])")),
                      absl::StrCat(kSoundFit, R"(, "coverage": 0.6249)")),
           OfEnergy());
  ASSERT_TRUE(captures.ok()) << captures.status();
  EXPECT_NEAR(*(*captures)[0].series[0].log_error, std::log(0.5 / 0.4) / 1.96, 1e-9);
  EXPECT_THAT((*captures)[0].notes,
              ElementsAre(HasSubstr("GPU:0: the power log covers 62 % of the capture")));
  for (const char* coverage : {R"(, "coverage": 0.95)", R"(, "coverage": null)", ""}) {
    const auto whole =
        Read(EnergyJson(EnergyRowJson("f", kKnown), absl::StrCat(kSoundFit, coverage)), OfEnergy());
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_TRUE((*whole)[0].notes.empty()) << coverage;
  }
}

TEST(EnergyJsonTest, DoubtsAreTheDevices) {
  for (const auto& [device, doubt] :
       {std::pair(R"(, "poor_fit": true)", "(poor_fit)"), std::pair("", "lacks poor_fit"),
        std::pair(R"(, "poor_fit": null)", "lacks poor_fit"),
        std::pair(R"(, "poor_fit": "false")", "lacks poor_fit"),
        std::pair(R"(, "poor_fit": false, "shared": true)", "shared"),
        std::pair(R"(, "poor_fit": false, "clock": "ambiguous")", "clock"),
        std::pair(R"(, "poor_fit": false, "reason": "no_overlap")", "no_overlap"),
        std::pair(R"(, "poor_fit": false, "plane": "/device:GPU:7", "ordinal": 7)",
                  "not among the devices")}) {
    const auto captures = Read(EnergyJson(EnergyRowJson("f", kKnown), device), OfEnergy());
    ASSERT_TRUE(captures.ok()) << captures.status();
    EXPECT_THAT((*captures)[0].series[0].doubt, HasSubstr(doubt));
  }
}

TEST(EnergyJsonTest, WhatCannotBeTakenForOneRunIsUnknown) {
  const auto failure = [](const std::string& functions, MeasureOptions options = OfEnergy()) {
    const auto captures = Read(EnergyJson(functions), options);
    EXPECT_TRUE(captures.ok()) << captures.status();
    if (!captures.ok()) return std::string();
    EXPECT_EQ((*captures)[0].series.size(), 1);
    EXPECT_TRUE((*captures)[0].series[0].samples.empty());
    return (*captures)[0].series[0].failure;
  };
  EXPECT_THAT(failure(EnergyRowJson("f", R"("energy_j": 1, "energy_j_ci95": [0.9, 1.1],
                                            "per_run_j": null, "status": "ok")")),
              HasSubstr("runs is uncertain"));
  EXPECT_THAT(failure(EnergyRowJson("f", R"("energy_j": 1, "energy_j_ci95": null, "per_run_j": 0.1,
                                            "kind": "modelled", "status": "ok")")),
              HasSubstr("stated, not measured"));
  EXPECT_EQ(failure(EnergyRowJson("f", R"("energy_j": 1, "energy_j_ci95": [-1, 3],
                                          "per_run_j": 0.1, "status": "ok")")),
            "too_uncertain");
  EXPECT_THAT(
      failure(absl::StrCat(EnergyRowJson("f", kKnown, "1"), ",", EnergyRowJson("f", kKnown, "2"))),
      HasSubstr("2 programs have this name"));
  MeasureOptions by_variant = OfEnergy();
  by_variant.by_variant = true;
  by_variant.report.id_pattern = "f_(.)";
  EXPECT_THAT(
      failure(absl::StrCat(EnergyRowJson("f_1", kKnown), ",", EnergyRowJson("f_12", kKnown)),
              by_variant),
      HasSubstr("2 programs"));
}

TEST(EnergyJsonTest, DamageIsRefusedWithItsPlace) {
  const auto refusal = [](const std::string& text) {
    const auto status = Read(text, OfEnergy()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    return std::string(status.message());
  };
  const auto of_row = [&](const char* values) {
    return refusal(EnergyJson(EnergyRowJson("f", values)));
  };
  for (const char* values :
       {R"("energy_j": -1, "energy_j_ci95": [-2, 0], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 0, "energy_j_ci95": [0, 0], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [2, 3], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [3, 2], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": -1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 1e999], "per_run_j": 1, "status": "ok")",
        R"("energy_j": NaN, "energy_j_ci95": [1, 2], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [NaN, NaN], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1], "per_run_j": 1, "status": "ok")",
        R"("energy_j": "1", "energy_j_ci95": [1, 2], "per_run_j": 1, "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": "1", "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": 1, "per_run_j_ci95": null,
           "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": 1, "per_run_j_ci95": [2, 3],
           "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": 1, "per_run_j_ci95": [1, 1e999],
           "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": 1, "per_run_j_ci95": [1],
           "status": "ok")",
        R"("energy_j": 1, "energy_j_ci95": [1, 2], "per_run_j": 1, "runs": 2, "count": 4,
           "per_execution_j": 0.25, "status": "ok")"}) {
    const std::string message = of_row(values);
    EXPECT_TRUE(message.find("functions[0]") != message.npos ||
                message.find("damaged JSON") != message.npos)
        << values << ": " << message;
  }
  const std::string row = EnergyRowJson("f", kKnown);
  EXPECT_THAT(refusal(EnergyJson(absl::StrCat(row, ",", row))),
              HasSubstr("functions[1] occurs twice"));
  EXPECT_THAT(refusal(R"({"schema": "xplane-time.energy.v1"})"), HasSubstr("lacks devices"));
  EXPECT_THAT(refusal(EnergyJson("1")), HasSubstr("functions[0] lacks a function"));
  const std::string whole = EnergyJson(row);
  for (size_t bytes = 2; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(Read(whole.substr(0, bytes), OfEnergy()).ok()) << bytes;
  }
}

TEST(EnergyJsonTest, WhatIsNotAskedForIsRefusedWithTheWayOut) {
  const auto refusal = [](const std::string& text, const MeasureOptions& options) {
    const auto status = Read(text, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  const std::string whole = EnergyJson(EnergyRowJson("f", kKnown));
  EXPECT_THAT(refusal(whole, {}), HasSubstr("--objective energy"));
  EXPECT_THAT(refusal(kBenchmark, OfEnergy()), HasSubstr("xplane-time energy TRACE"));
  EXPECT_THAT(refusal(R"({"schema": "xplane-time.energy.v2"})", OfEnergy()),
              HasSubstr("xplane-time.energy.v2"));
  EXPECT_THAT(refusal(EnergyJson("", kSoundFit, R"("options": {"top": 3},)"), OfEnergy()),
              HasSubstr("--top"));
  EXPECT_THAT(refusal(EnergyJson("", R"(}, {"plane": "/device:GPU:0", "ordinal": 0, "host": "b")"),
                      OfEnergy()),
              HasSubstr("several hosts"));
  MeasureOptions options = OfEnergy();
  options.report.skip_runs = 1;
  EXPECT_THAT(Read(whole, options).status().message(), HasSubstr("--skip-runs"));
}

}  // namespace
}  // namespace xplane_time::compare
