#include "xplane_time/trackers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "io/sha256.h"
#include "tests/read/temp_dir.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class TrackersTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return at_.Path(name); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::vector<std::vector<std::string>> Cells(const std::string& text) {
    std::vector<std::vector<std::string>> lines;
    std::stringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      std::vector<std::string>& cells = lines.emplace_back();
      size_t begin = 0;
      for (size_t end; (end = line.find(',', begin)) != std::string::npos; begin = end + 1) {
        cells.push_back(line.substr(begin, end - begin));
      }
      cells.push_back(line.substr(begin));
    }
    return lines;
  }

  const testing::TempDir at_;
};

PowerTracker TrackerOf(const std::vector<std::pair<double, double>>& seconds_and_watts) {
  PowerTracker tracker("test");
  for (const auto& [s, watts] : seconds_and_watts) {
    tracker.Add({static_cast<int64_t>(std::llround(s * 1e9)), 0,
                 std::isnan(watts) ? std::nullopt : std::optional(watts)});
  }
  return tracker;
}

struct EnergyCase {
  std::string name;
  std::vector<std::pair<double, double>> samples;
  std::optional<double> trapezoid, held, endpoints;
  double covered_trapezoid = 0, covered_held = 0;
};

TEST(PowerTracker, EnergyOfEachEstimator) {
  const std::vector<EnergyCase> cases = {
      {"none", {}, {}, {}, {}, 0, 0},
      {"one sample is no energy", {{1, 100}}, {}, {}, {}, 0, 0},
      {"constant", {{0, 100}, {2, 100}, {5, 100}}, 500, 500, 500, 5, 5},
      {"a ramp", {{0, 0}, {1, 100}}, 50, 0, 50, 1, 1},
      {"a step", {{0, 100}, {1, 100}, {2, 300}, {4, 300}}, 900, 800, 800, 4, 4},
      {"unknown in the middle", {{0, 100}, {1, kNaN}, {2, 100}, {3, 100}}, 100, 200, 300, 1, 2},
      {"unknown at the ends", {{0, kNaN}, {1, 50}, {2, 50}, {3, kNaN}}, 50, 100, {}, 1, 2},
      {"nothing known", {{0, kNaN}, {1, kNaN}}, {}, {}, {}, 0, 0},
      {"no time passed", {{1, 100}, {1, 100}}, {}, {}, {}, 0, 0},
  };
  for (const EnergyCase& each : cases) {
    SCOPED_TRACE(each.name);
    const PowerTracker tracker = TrackerOf(each.samples);
    const TrackedEnergy trapezoid = tracker.Energy();
    EXPECT_EQ(trapezoid.total_joules, each.trapezoid);
    EXPECT_EQ(trapezoid.covered_s, each.covered_trapezoid);
    EXPECT_EQ(trapezoid.mean_watts.has_value(), each.trapezoid.has_value());
    for (const EnergyEstimator held : {EnergyEstimator::kHeld, EnergyEstimator::kBest}) {
      EXPECT_EQ(tracker.Energy(held).total_joules, each.held);
      EXPECT_EQ(tracker.Energy(held).covered_s, each.covered_held);
    }
    EXPECT_EQ(tracker.Energy(EnergyEstimator::kEndpointMean).total_joules, each.endpoints);
    EXPECT_EQ(tracker.Energy(EnergyEstimator::kCounter).total_joules, std::nullopt);
  }
}

TEST(PowerTracker, MeanPeakAndCounts) {
  const TrackedEnergy energy = TrackerOf({{0, 10}, {1, 30}, {2, kNaN}, {4, 20}, {6, 20}}).Energy();
  EXPECT_THAT(energy.total_joules, Optional(60.0));
  EXPECT_EQ(energy.covered_s, 3);
  EXPECT_THAT(energy.mean_watts, Optional(20.0));
  EXPECT_THAT(energy.peak_watts, Optional(30.0));
  EXPECT_THAT(energy.duration_s, Optional(6.0));
  EXPECT_EQ(energy.samples, 4u);
  EXPECT_EQ(energy.unknown, 1u);
  EXPECT_THAT(TrackerOf({{3, 75}}).Energy().peak_watts, Optional(75.0));
}

// A source that says one thing after the other.
class ScriptedSource : public PowerSource {
 public:
  explicit ScriptedSource(std::vector<absl::StatusOr<double>> script)
      : script_(std::move(script)) {}
  absl::StatusOr<double> ReadWatts() override { return script_[next_++]; }

 private:
  std::vector<absl::StatusOr<double>> script_;
  size_t next_ = 0;
};

TEST(PowerTracker, WhatIsNotAPowerIsUnknownAndNeverZero) {
  ScriptedSource source({12.5, absl::PermissionDeniedError("energy_uj: not readable"), -1.0, kNaN,
                         std::numeric_limits<double>::infinity(), 0.0});
  PowerTracker tracker("gpu");
  for (int i = 0; i < 6; ++i) tracker.Sample(&source);
  std::vector<std::optional<double>> watts;
  for (const PowerSample& sample : tracker.samples()) watts.push_back(sample.watts);
  EXPECT_THAT(watts, ElementsAre(Optional(12.5), std::nullopt, std::nullopt, std::nullopt,
                                 std::nullopt, Optional(0.0)));
  EXPECT_THAT(tracker.last_error(), HasSubstr("inf"));
  EXPECT_EQ(tracker.label(), "gpu");
}

TEST_F(TrackersTest, MemoryIsThatOfTheProcess) {
  MemoryTracker tracker("own");
  tracker.Snapshot({.kv_cache_bytes = 7});
  ASSERT_EQ(tracker.snapshots().size(), 1u);
  const int64_t page = sysconf(_SC_PAGESIZE);
  ASSERT_TRUE(tracker.snapshots()[0].peak_rss_bytes.has_value());
  EXPECT_GE(*tracker.snapshots()[0].peak_rss_bytes, page);
  EXPECT_GT(tracker.snapshots()[0].timestamp_us, 1'600'000'000'000'000);
  EXPECT_EQ(tracker.snapshots()[0].parts.activation_bytes, std::nullopt);
}

TEST_F(TrackersTest, MemoryOfAnyStatusFile) {
  const std::vector<std::pair<std::string, std::optional<int64_t>>> cases = {
      {"Name:\tx\nVmRSS:\t    1234 kB\nThreads:\t1\n", 1234 * 1024},
      {"VmRSS:\t0 kB\n", 0},
      {"Name:\tx\n", std::nullopt},
      {"VmRSS:\t kB\n", std::nullopt},
      {"VmRSS:\t12\n", std::nullopt},
      {"VmRSS: kB 12\n", std::nullopt},
      {"VmRSS:\t9223372036854775807 kB\n", std::nullopt},
      {"VmRSS:\t99999999999999999999 kB\n", std::nullopt},
      {"", std::nullopt},
  };
  std::filesystem::create_directories(Path("self"));
  for (const auto& [text, bytes] : cases) {
    SCOPED_TRACE(text);
    std::ofstream(Path("self/status")) << text;
    MemoryTracker tracker("fake", at_.path());
    tracker.Snapshot();
    EXPECT_EQ(tracker.snapshots()[0].peak_rss_bytes, bytes);
  }
  MemoryTracker nowhere("none", Path("absent"));
  nowhere.Snapshot();
  EXPECT_EQ(nowhere.Report().peak_rss, std::nullopt);
}

TEST(MemoryTracker, ReportIsOfWhatIsKnown) {
  MemoryTracker tracker("report");
  EXPECT_EQ(tracker.Report().mean_rss, std::nullopt);
  tracker.Add({1, 100, {.kv_cache_bytes = 5}});
  tracker.Add({2, std::nullopt, {.kv_cache_bytes = 6}});
  tracker.Add({3, 300, {}});
  const MemoryReport report = tracker.Report();
  EXPECT_THAT(report.peak_rss, Optional(300));
  EXPECT_THAT(report.mean_rss, Optional(200.0));
  EXPECT_THAT(report.kv_cache_total, Optional(11));
  EXPECT_EQ(report.activation_total, std::nullopt);
  EXPECT_EQ(report.snapshots, 3u);
  tracker.Add({4, 1, {.kv_cache_bytes = INT64_MAX}});
  EXPECT_EQ(tracker.Report().kv_cache_total, std::nullopt);  // does not fit, is not wrong
}

std::vector<LatencyRecord> Latencies(const std::vector<int64_t>& wall_us) {
  std::vector<LatencyRecord> records;
  for (const int64_t each : wall_us) {
    records.push_back({.sample_id = static_cast<int64_t>(records.size()), .wall_time_us = each});
  }
  return records;
}

TEST(LatencyStats, EmptyIsUnknown) {
  const LatencyStats stats = ComputeLatencyStats({});
  EXPECT_EQ(stats.n, 0u);
  for (const auto& each : {stats.p50_us, stats.p95_us, stats.p99_us, stats.mean_us, stats.std_us}) {
    EXPECT_EQ(each, std::nullopt);
  }
}

TEST(LatencyStats, AgainstAPlainCalculation) {
  std::mt19937_64 random(7);
  for (size_t n = 1; n <= 60; ++n) {
    std::vector<int64_t> wall_us;
    for (size_t i = 0; i < n; ++i) wall_us.push_back(static_cast<int64_t>(random() % 1000));
    const LatencyStats stats = ComputeLatencyStats(Latencies(wall_us));
    std::sort(wall_us.begin(), wall_us.end());
    const auto percentile = [&](double p) {  // at p (n - 1), between neighbours
      const double place = p * static_cast<double>(n - 1);
      const auto below = static_cast<size_t>(std::floor(place));
      const size_t above = std::min(below + 1, n - 1);
      const double share = place - static_cast<double>(below);
      return static_cast<double>(wall_us[below]) * (1 - share) +
             static_cast<double>(wall_us[above]) * share;
    };
    double sum = 0, squares = 0;
    for (const int64_t each : wall_us) sum += static_cast<double>(each);
    const double mean = sum / static_cast<double>(n);
    for (const int64_t each : wall_us) squares += std::pow(static_cast<double>(each) - mean, 2);
    EXPECT_NEAR(*stats.p50_us, percentile(0.50), 1e-9);
    EXPECT_NEAR(*stats.p95_us, percentile(0.95), 1e-9);
    EXPECT_NEAR(*stats.p99_us, percentile(0.99), 1e-9);
    EXPECT_NEAR(*stats.mean_us, mean, 1e-9);
    EXPECT_NEAR(*stats.std_us, std::sqrt(squares / static_cast<double>(n)), 1e-9);
    EXPECT_EQ(stats.n, n);
  }
}

TEST(Sha256, KnownAnswers) {  // FIPS 180-4
  EXPECT_EQ(io::Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(io::Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

BenchConfig Config() {
  return {.model_commit = "abc1234",
          .weights_hash = "def5678",
          .lambda = 0.5,
          .tau = 2,
          .eps = 0.01,
          .compiler_flags = "-O3"};
}

TEST(ConfigHash, TheTextIsCanonicalAndTheDigestIsOfIt) {
  EXPECT_EQ(*CanonicalConfigJson(Config()),
            R"({"compiler_flags":"-O3","eps":0.01,"lambda":0.5,"model_commit":"abc1234",)"
            R"("tau":2,"weights_hash":"def5678"})");
  // printf '{"compiler_flags":...}' | sha256sum
  EXPECT_EQ(*ConfigHash(Config()),
            "9607eb196846e9863231ad4d4ce204c525df9b6b1c17584d7ef84807605b0070");
}

TEST(ConfigHash, EveryFieldCounts) {
  std::vector<BenchConfig> changed(6, Config());
  changed[0].model_commit += "x";
  changed[1].weights_hash += "x";
  changed[2].lambda = std::nextafter(0.5, 1);
  changed[3].tau = 3;
  changed[4].eps = 0.02;
  changed[5].compiler_flags = "";
  std::set<std::string> digests = {*ConfigHash(Config())};
  for (const BenchConfig& each : changed) digests.insert(*ConfigHash(each));
  EXPECT_EQ(digests.size(), 7u);
  for (const std::string& each : digests) {
    EXPECT_EQ(each.size(), 64u);
    EXPECT_EQ(each.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(ConfigHash, NumbersAsRfc8785WritesThem) {  // its appendix B, and edges
  const std::vector<std::pair<double, std::string>> cases = {
      {0.0, "0"},
      {-0.0, "0"},
      {5e-324, "5e-324"},
      {-5e-324, "-5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {9007199254740992, "9007199254740992"},
      {295147905179352830000.0, "295147905179352830000"},
      {9.999999999999997e22, "9.999999999999997e+22"},
      {1e23, "1e+23"},
      {999999999999999700000.0, "999999999999999700000"},
      {1e21, "1e+21"},
      {9.999999999999997e-7, "9.999999999999997e-7"},
      {0.000001, "0.000001"},
      {333333333.33333329, "333333333.3333333"},
      {-0.0000033333333333333333, "-0.0000033333333333333333"},
      {1, "1"},
      {-10.5, "-10.5"},
      {123456, "123456"},
  };
  for (const auto& [value, text] : cases) {
    BenchConfig config = Config();
    config.lambda = value;
    EXPECT_THAT(*CanonicalConfigJson(config), HasSubstr("\"lambda\":" + text + ",")) << text;
  }
}

TEST(ConfigHash, WhatHasNoCanonicalFormIsRefused) {
  std::vector<std::pair<BenchConfig, std::string>> cases(5, {Config(), ""});
  cases[0].first.lambda = kNaN;
  cases[0].second = "lambda is nan";
  cases[1].first.eps = std::numeric_limits<double>::infinity();
  cases[1].second = "eps is inf";
  cases[2].first.tau = INT64_MIN;
  cases[2].second = "2^53";
  cases[3].first.compiler_flags = "\xff";
  cases[3].second = "compiler_flags is not UTF-8";
  cases[4].first.model_commit = "\xc3";
  cases[4].second = "model_commit is not UTF-8";
  for (const auto& [config, message] : cases) {
    const auto digest = ConfigHash(config);
    EXPECT_TRUE(absl::IsInvalidArgument(digest.status())) << digest.status();
    EXPECT_THAT(std::string(digest.status().message()), HasSubstr(message));
  }
}

// The loop of the earlier tool's own document.
TEST_F(TrackersTest, AThousandIterations) {
  MemoryTracker memory("mincut_l0.5_t2");
  ConstantPowerSource source(75.0);
  PowerTracker power("gpu");
  std::vector<LatencyRecord> latencies;
  for (int64_t i = 0; i < 1000; ++i) {
    memory.Snapshot({.kv_cache_bytes = i, .activation_bytes = 2 * i, .temp_buffer_bytes = {}});
    power.Sample(&source);
    latencies.push_back(
        {.sample_id = i, .wall_time_us = 850 + i % 7, .kernel_time_us = 780, .seq_len = 128});
  }
  const TrackedEnergy energy = power.Energy();
  ASSERT_TRUE(energy.total_joules.has_value());
  EXPECT_NEAR(*energy.total_joules, 75 * *energy.duration_s, 1e-6 * *energy.total_joules);
  EXPECT_EQ(energy.samples, 1000u);
  const LatencyStats stats = ComputeLatencyStats(latencies);
  EXPECT_EQ(stats.n, 1000u);
  EXPECT_THAT(stats.p50_us, Optional(853.0));
  EXPECT_THAT(memory.Report().kv_cache_total, Optional(999 * 500));

  ASSERT_TRUE(WriteLatencyCsv(Path("latency.csv"), latencies).ok());
  std::string expected = "sample_id,wall_time_us,kernel_time_us,seq_len\n";
  for (int i = 0; i < 1000; ++i) {
    expected += std::to_string(i) + "," + std::to_string(850 + i % 7) + ",780,128\n";
  }
  EXPECT_EQ(Read(Path("latency.csv")), expected);

  ASSERT_TRUE(WriteMemoryCsv(Path("memory.csv"), memory.snapshots()).ok());
  const auto lines = Cells(Read(Path("memory.csv")));
  ASSERT_EQ(lines.size(), 1001u);
  EXPECT_THAT(lines[0], ElementsAre("timestamp_us", "peak_rss_bytes", "kv_cache_bytes",
                                    "activation_bytes", "temp_buffer_bytes"));
  for (size_t i = 0; i < 1000; ++i) {
    const MemorySnapshot& taken = memory.snapshots()[i];
    EXPECT_THAT(lines[i + 1], ElementsAre(std::to_string(taken.timestamp_us),
                                          std::to_string(*taken.peak_rss_bytes), std::to_string(i),
                                          std::to_string(2 * i), ""));
  }
}

TEST_F(TrackersTest, ResultsAsTheDocumentShowsThem) {
  ASSERT_TRUE(WriteResultsCsv(Path("results.csv"),
                              std::vector<ResultRow>{
                                  {"mincut_l0.5_t2", -0.003, 0.25, 0.18, 0.12, 1150, 0.994},
                                  {"a, \"b\"\n", kNaN, {}, {}, {}, {}, 1e-9},
                              })
                  .ok());
  EXPECT_EQ(Read(Path("results.csv")),
            "setting,coherence_delta,kv_cache_reduction,peak_mem_reduction,energy_reduction,"
            "p95_latency_us,accuracy\n"
            "mincut_l0.5_t2,-0.003,0.25,0.18,0.12,1150,0.994\n"
            "\"a, \"\"b\"\"\n\",,,,,,1e-09\n");
}

TEST_F(TrackersTest, EmptyFilesHaveTheirHeader) {
  ASSERT_TRUE(WriteLatencyCsv(Path("l.csv"), {}).ok());
  EXPECT_EQ(Read(Path("l.csv")), "sample_id,wall_time_us,kernel_time_us,seq_len\n");
  ASSERT_TRUE(WriteMemoryCsv(Path("m.csv"), {}).ok());
  EXPECT_EQ(Read(Path("m.csv")),
            "timestamp_us,peak_rss_bytes,kv_cache_bytes,activation_bytes,temp_buffer_bytes\n");
}

TEST_F(TrackersTest, ADeviceIsWrittenTo) {
  std::filesystem::create_symlink("/dev/null", Path("device"));
  EXPECT_TRUE(WriteLatencyCsv(Path("device"), {}).ok());
  EXPECT_TRUE(std::filesystem::is_character_file(Path("device")));
}

TEST_F(TrackersTest, AFileIsCompleteOrAsItWas) {
  const absl::Status absent = WriteLatencyCsv(Path("no/such/l.csv"), {});
  EXPECT_TRUE(absl::IsInternal(absent));
  EXPECT_THAT(std::string(absent.message()), HasSubstr("no/such/l.csv: cannot write: No such"));
  ASSERT_EQ(mkdir(Path("taken").c_str(), 0755), 0);
  EXPECT_FALSE(WriteLatencyCsv(Path("taken"), {}).ok());
  std::vector<std::string> left;
  for (const auto& each : std::filesystem::directory_iterator(at_.path())) {
    left.push_back(each.path().filename().string());
  }
  EXPECT_THAT(left, ElementsAre("taken"));  // nothing half-written remains
}

}  // namespace
}  // namespace xplane_time
