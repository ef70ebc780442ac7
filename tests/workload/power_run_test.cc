#include "xplane_time/power_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "earlier_tools/power_run_rates.h"
#include "earlier_tools/power_run_result_json.h"
#include "power/machine.h"
#include "tests/read/temp_dir.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class FakeSource : public RecordSource {
 public:
  explicit FakeSource(uint64_t size) : size_(size) {}
  absl::StatusOr<std::optional<RunRecord>> Next() override {
    if (next_ == size_) return std::optional<RunRecord>();
    return std::optional(RunRecord{.index = next_++, .problem = "p"});
  }
  uint64_t size() const override { return size_; }
  std::string sha256() const override { return "hash"; }

 private:
  uint64_t size_, next_ = 0;
};

class FakeClient : public InferenceClient {
 public:
  absl::Status Ready() override {
    steps.emplace_back("ready");
    return not_ready;
  }
  absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
                                const std::function<void()>& again) override {
    steps.emplace_back("ask");
    asked.push_back(record.index);
    if (record.index == lost_at) return absl::UnavailableError("lost");
    RunAnswer answer;
    for (; answer.attempts < attempts; ++answer.attempts) {
      again();
      steps.emplace_back("ask");
    }
    answer.status = record.index == failed_at ? "timeout" : "ok";
    return answer;
  }
  std::vector<uint64_t> asked;
  std::vector<std::string> steps;
  absl::Status not_ready;
  uint64_t lost_at = UINT64_MAX, failed_at = UINT64_MAX;
  int64_t attempts = 1;
};

class FakeSink : public RecordSink {
 public:
  absl::StatusOr<bool> Has(const RunRecord& record) const override {
    return has.contains(record.index);
  }
  absl::Status Write(const RunResult& result) override {
    if (result.record.index == broken_at) return absl::InternalError("full");
    has.insert(result.record.index);
    results.push_back(result);
    return absl::OkStatus();
  }
  absl::Status Checkpoint(std::string_view stop_reason) override {
    checkpoints.emplace_back(stop_reason);
    return absl::OkStatus();
  }
  void Add(const RunSpan& span) override { spans.push_back(span); }
  std::set<uint64_t> has;
  std::vector<RunResult> results;
  std::vector<std::string> checkpoints;
  std::vector<RunSpan> spans;
  uint64_t broken_at = UINT64_MAX;
};

class BrokenTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override { return {}; }
  absl::Status Begin(std::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view) override {
    return absl::DataLossError("the log is gone");
  }
  absl::StatusOr<RunTelemetry> Lap(std::string_view name) override { return End(name); }
};

TEST(RunPower, AsksWhatIsNotKeptUpToTheMost) {
  FakeSource source(5);
  FakeClient client;
  FakeSink sink;
  sink.has = {0, 2};
  PowerRunOptions options;
  options.max_queries = 4;
  const auto telemetry = NewNoTelemetry();
  const auto outcome = RunPower(options, &source, &client, telemetry.get(), &sink, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(client.asked, ElementsAre(1, 3));
  EXPECT_EQ(outcome->asked, 2u);
  EXPECT_EQ(outcome->skipped, 2u);
  EXPECT_EQ(outcome->stop_reason, "");
  EXPECT_THAT(sink.checkpoints, ElementsAre("running", ""));
}

TEST(RunPower, CheckpointsAtTheStartEveryHundredRecordsOrTenSeconds) {
  struct Case {
    uint64_t records;
    std::chrono::milliseconds each;
    size_t checkpoints;  // but the last
  };
  // Of 3 s each: at the start, after 4, 8, 12 and 16 records.
  for (const Case& each :
       {Case{250, std::chrono::milliseconds(0), 3}, Case{17, std::chrono::milliseconds(3000), 5},
        Case{5, std::chrono::milliseconds(1), 1}}) {
    SCOPED_TRACE(each.records);
    FakeSource source(each.records);
    FakeClient client;
    FakeSink sink;
    PowerRunOptions options;
    options.clock = [&] {
      return std::chrono::steady_clock::time_point(client.asked.size() * each.each);
    };
    const auto telemetry = NewNoTelemetry();
    ASSERT_TRUE(RunPower(options, &source, &client, telemetry.get(), &sink, nullptr).ok());
    std::vector<std::string> wanted(each.checkpoints, "running");
    wanted.emplace_back("");
    EXPECT_EQ(sink.checkpoints, wanted);
  }
}

class SteppedTelemetry : public Telemetry {
 public:
  explicit SteppedTelemetry(std::vector<std::string>* steps) : steps_(steps) {}
  RunHardware Hardware() override { return {}; }
  absl::Status Begin(std::string_view) override {
    steps_->emplace_back("begin");
    return absl::OkStatus();
  }
  absl::StatusOr<RunTelemetry> End(std::string_view) override {
    steps_->emplace_back("end");
    return RunTelemetry{};
  }
  absl::StatusOr<RunTelemetry> Lap(std::string_view name) override { return End(name); }

 private:
  std::vector<std::string>* steps_;
};

TEST(RunPower, TheWindowIsOfTheAnswerNotOfTheStart) {
  FakeSource source(1);
  FakeClient client;
  FakeSink sink;
  SteppedTelemetry telemetry(&client.steps);
  ASSERT_TRUE(RunPower({}, &source, &client, &telemetry, &sink, nullptr).ok());
  EXPECT_THAT(client.steps, ElementsAre("ready", "begin", "ask", "end"));
}

TEST(RunPower, TheWindowIsOfTheLastAttempt) {
  FakeSource source(1);
  FakeClient client;
  client.attempts = 3;
  FakeSink sink;
  SteppedTelemetry telemetry(&client.steps);
  ASSERT_TRUE(RunPower({}, &source, &client, &telemetry, &sink, nullptr).ok());
  EXPECT_THAT(client.steps,
              ElementsAre("ready", "begin", "ask", "begin", "ask", "begin", "ask", "end"));
  const RunResult& result = sink.results.at(0);
  EXPECT_LT(result.asked_ns, result.begin_ns);
  const Json record = Json::parse(RunResultJson(result));
  const Json& latency = record["model_metrics"][""]["latency_metrics"];
  EXPECT_EQ(record["attempts"], 3);
  EXPECT_GT(latency["all_attempts_seconds"], latency["total_query_seconds"]);
}

// Answers its records only when as many are asked at once as there may be.
class CrowdClient : public InferenceClient {
 public:
  explicit CrowdClient(int crowd) : crowd_(crowd) {}
  absl::StatusOr<RunAnswer> Ask(const RunRecord& record, const std::function<void()>&) override {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++now_);
    came_.notify_all();
    came_.wait(lock, [this] { return most_ >= crowd_; });
    --now_;
    if (record.index == lost_at) return absl::UnavailableError("lost");
    return RunAnswer{.output_tokens = 2};
  }
  int most() const { return most_; }
  uint64_t lost_at = UINT64_MAX;

 private:
  const int crowd_;
  std::mutex mutex_;
  std::condition_variable came_;
  int now_ = 0, most_ = 0;
};

TEST(RunPower, SeveralAtOnceShareOneWindow) {
  FakeSource source(250);
  CrowdClient client(3);
  FakeSink sink;
  sink.has = {1};
  std::vector<std::string> steps;
  SteppedTelemetry telemetry(&steps);
  PowerRunOptions options;
  options.concurrency = 3;
  const auto outcome = RunPower(options, &source, &client, &telemetry, &sink, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(client.most(), 3);
  EXPECT_EQ(outcome->asked, 249u);
  EXPECT_EQ(sink.has.size(), 250u);  // each once
  EXPECT_EQ(sink.results.size(), 249u);
  EXPECT_THAT(steps, ElementsAre("begin", "end", "end", "end"));  // of spans, at checkpoints
  ASSERT_EQ(sink.spans.size(), 3u);
  EXPECT_EQ(sink.spans[0].end_ns, sink.spans[1].begin_ns);
  const Json record = Json::parse(RunResultJson(sink.results.at(0)));
  const Json& metrics = record["model_metrics"][""];
  EXPECT_EQ(metrics["energy_metrics"]["reason"], "shared_window");
  EXPECT_EQ(metrics["energy_metrics"]["cpu_reason"], "shared_window");
  EXPECT_EQ(metrics["energy_metrics"]["per_query_joules"], nullptr);
  EXPECT_EQ(metrics["power_metrics"]["gpu"]["per_query_watts"]["reason"], "shared_window");
  EXPECT_EQ(metrics["memory_metrics"]["cpu_mb"]["reason"], "shared_window");
}

TEST(RunPower, WhatIsUnderWayWhenTheClientIsLostIsKept) {
  FakeSource source(100);
  CrowdClient client(4);
  client.lost_at = 1;
  FakeSink sink;
  const auto telemetry = NewNoTelemetry();
  PowerRunOptions options;
  options.concurrency = 4;
  const auto outcome = RunPower(options, &source, &client, telemetry.get(), &sink, nullptr);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->stop_reason, "no_client");
  EXPECT_THAT(sink.has, ::testing::IsSupersetOf({0, 2, 3}));
  EXPECT_FALSE(sink.has.contains(1));
  EXPECT_EQ(sink.results.size(), outcome->asked);
}

TEST(RunPower, AClientThatIsNotReadyEndsIt) {
  FakeSource source(1);
  FakeClient client;
  client.not_ready = absl::UnavailableError("gone");
  FakeSink sink;
  const auto telemetry = NewNoTelemetry();
  const auto outcome = RunPower({}, &source, &client, telemetry.get(), &sink, nullptr);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->stop_reason, "no_client");
  EXPECT_EQ(outcome->stopped_by.message(), "gone");
  EXPECT_THAT(client.asked, ElementsAre());
}

TEST(RunPower, WhatEndsItIsLabelledAndWhatFailsIsCounted) {
  FakeSource source(5);
  FakeClient client;
  client.failed_at = 1;
  client.lost_at = 3;
  FakeSink sink;
  const auto telemetry = NewNoTelemetry();
  const auto outcome = RunPower({}, &source, &client, telemetry.get(), &sink, nullptr);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->asked, 3u);
  EXPECT_EQ(outcome->failed, 1u);
  EXPECT_EQ(outcome->stop_reason, "no_client");
  EXPECT_TRUE(absl::IsUnavailable(outcome->stopped_by));
  EXPECT_THAT(sink.checkpoints, ElementsAre("running", "no_client"));
}

TEST(RunPower, StoppedBetweenRecords) {
  FakeSource source(5);
  FakeClient client;
  FakeSink sink;
  PowerRunOptions options;
  options.stopped = [&] { return client.asked.size() == 2; };
  const auto telemetry = NewNoTelemetry();
  const auto outcome = RunPower(options, &source, &client, telemetry.get(), &sink, nullptr);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->stop_reason, "interrupted");
  EXPECT_EQ(sink.results.size(), 2u);
}

TEST(RunPower, ARecordThatCannotBeKeptIsAnError) {
  FakeSource source(5);
  FakeClient client;
  FakeSink sink;
  sink.broken_at = 1;
  const auto telemetry = NewNoTelemetry();
  const auto outcome = RunPower({}, &source, &client, telemetry.get(), &sink, nullptr);
  EXPECT_TRUE(absl::IsInternal(outcome.status()));
  EXPECT_THAT(client.asked, ElementsAre(0, 1));
}

TEST(RunPower, AnswersOutliveTelemetryThatFails) {
  FakeSource source(1);
  FakeClient client;
  FakeSink sink;
  BrokenTelemetry telemetry;
  ASSERT_TRUE(RunPower({}, &source, &client, &telemetry, &sink, nullptr).ok());
  const Json record = Json::parse(RunResultJson(sink.results.at(0)));
  EXPECT_EQ(record["status"], "ok");
  EXPECT_EQ(record["telemetry_error"], "the log is gone");
  EXPECT_TRUE(record["model_metrics"][""]["energy_metrics"]["per_query_joules"].is_null());
}

EnergyEstimate Estimate(const char* device, const char* domain, std::optional<double> energy_j) {
  EnergyEstimate estimate;
  estimate.source = "s";
  estimate.device = device;
  estimate.domain = domain;
  estimate.in_total = true;
  estimate.energy_j = energy_j;
  estimate.coverage = energy_j.has_value() ? 1 : 0;
  if (!energy_j.has_value()) estimate.reason = PowerReason::kReset;
  return estimate;
}

struct Gauge {
  const char *domain, *quantity;
  double avg;
  std::string device = "0";
  ReadingKind kind = ReadingKind::kInstant;
  uint64_t n = 2;  // 0: nothing was read
  std::optional<int64_t> nearest_age_ns = {};
  std::string source = "";
  bool changes = true;  // within the window
};

Json MetricsOf(std::vector<EnergyEstimate> energies, const std::vector<Gauge>& gauges = {},
               std::vector<PowerAbsence> absences = {}) {
  RunResult result;
  result.model = "m";
  result.telemetry.emplace();
  result.telemetry->absences = std::move(absences);
  result.telemetry->window.energies = std::move(energies);
  for (const Gauge& each : gauges) {
    GaugeSummary gauge;
    gauge.channel = result.telemetry->channels.size();
    gauge.n = each.n;
    gauge.nearest_age_ns = each.nearest_age_ns;
    if (each.n > 0 || each.nearest_age_ns) {
      gauge.avg = each.avg;
      gauge.max = each.changes ? each.avg * 2 : each.avg;
      gauge.median = each.avg;
      gauge.min = each.changes ? each.avg / 2 : each.avg;
    } else {
      gauge.reason = PowerReason::kHung;
    }
    result.telemetry->window.gauges.push_back(gauge);
    PowerChannel& channel = result.telemetry->channels.emplace_back();
    channel.source = each.source;
    channel.domain = each.domain;
    channel.quantity = each.quantity;
    channel.device = each.device;
    channel.kind = each.kind;
  }
  return Json::parse(RunResultJson(result))["model_metrics"]["m"];
}

TEST(RunResultJson, EnergyOfSeveralDevicesIsKnownWhereAllAre) {
  struct Case {
    std::string name;
    std::vector<EnergyEstimate> energies;
    Json gpu, cpu, gpu_reason;
  };
  EnergyEstimate part = Estimate("0", "gpu", 9);
  part.in_total = false;
  const std::vector<Case> cases = {
      {"none", {}, nullptr, nullptr, "absent"},
      {"one each", {Estimate("0", "gpu", 2), Estimate("p", "package", 3)}, 2.0, 3.0, nullptr},
      {"two", {Estimate("0", "gpu", 2), Estimate("1", "gpu", 5)}, 7.0, nullptr, nullptr},
      {"one of two is unknown",
       {Estimate("0", "gpu", 2), Estimate("1", "gpu", {})},
       nullptr,
       nullptr,
       "reset"},
      {"the other of two",
       {Estimate("0", "gpu", {}), Estimate("1", "gpu", 2)},
       nullptr,
       nullptr,
       "reset"},
      {"a part of another", {Estimate("0", "gpu", 2), part}, 2.0, nullptr, nullptr},
      {"a module is no GPU", {Estimate("0", "module", 2)}, nullptr, nullptr, "absent"},
      {"negative", {Estimate("0", "gpu", -1)}, nullptr, nullptr, nullptr},
      {"not finite", {Estimate("0", "gpu", kNaN)}, nullptr, nullptr, nullptr},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Json energy = MetricsOf(each.energies)["energy_metrics"];
    EXPECT_EQ(energy["per_query_joules"], each.gpu);
    EXPECT_EQ(energy["total_joules"], each.gpu);
    EXPECT_EQ(energy["cpu_per_query_joules"], each.cpu);
    EXPECT_EQ(energy["reason"], each.gpu_reason);
  }
}

// The others' energy stays, and says that it is not all.
TEST(RunResultJson, WhatMayNotBeReadIsNamed) {
  RunResult result;
  result.model = "m";
  result.telemetry.emplace();
  RunTelemetry& telemetry = *result.telemetry;
  telemetry.window.energies = {Estimate("0", "gpu", 2), Estimate("package-1", "package", 3)};
  PowerAbsence& denied = telemetry.absences.emplace_back();
  denied.source = "rapl";
  denied.what = "package-0";
  denied.reason = PowerReason::kPermissionDenied;
  Json record = Json::parse(RunResultJson(result));
  Json energy = record["model_metrics"]["m"]["energy_metrics"];
  EXPECT_EQ(energy["cpu_per_query_joules"], 3.0);
  EXPECT_EQ(energy["cpu_reason"], "permission_denied");
  EXPECT_EQ(energy["cpu_missing"], "rapl package-0");
  EXPECT_EQ(energy["reason"], nullptr);
  EXPECT_EQ(energy["missing"], nullptr);
  EXPECT_EQ(record["missing"], "rapl package-0");
  PowerRunTotals totals;
  power::AddToTotals(record, &totals);
  EXPECT_EQ(totals.cpu.partial, 1u);
  EXPECT_EQ(totals.gpu.partial, 0u);
  EXPECT_EQ(totals.all.joules, 5.0);
  EXPECT_EQ(totals.all.partial, 1u);
  // All of a domain.
  telemetry.window.energies.pop_back();
  energy = Json::parse(RunResultJson(result))["model_metrics"]["m"]["energy_metrics"];
  EXPECT_EQ(energy["cpu_per_query_joules"], nullptr);
  EXPECT_EQ(energy["cpu_reason"], "permission_denied");
  // The power of one of two GPUs.
  denied.source = "nvml";
  denied.what = "GPU-b power";
  energy = Json::parse(RunResultJson(result))["model_metrics"]["m"]["energy_metrics"];
  EXPECT_EQ(energy["missing"], "nvml GPU-b power");
  EXPECT_EQ(energy["per_query_joules"], 2.0);
}

TEST(RunResultJson, GaugesInTheUnitsOfTheirNames) {
  const Json metrics = MetricsOf(
      {}, {Gauge{"gpu", "temperature_mc", 40'000}, Gauge{"gpu", "memory_used_bytes", 0x1p30},
           Gauge{"gpu", "memory_total_bytes", 0x1p30}, Gauge{"process", "rss_bytes", 0x1p20},
           Gauge{"gpu", "utilization_gpu_ppm", 500'000}});
  const auto stats = [](double avg, double max, double median, double min) {
    return Json{{"avg", avg},
                {"max", max},
                {"median", median},
                {"min", min},
                {"reason", nullptr},
                {"spread_reason", nullptr},
                {"nearest_age_ms", nullptr}};
  };
  EXPECT_EQ(metrics["temperature_metrics"], stats(40, 80, 40, 20));
  EXPECT_EQ(metrics["memory_metrics"]["gpu_mb"], stats(1024, 2048, 1024, 512));
  EXPECT_EQ(metrics["memory_metrics"]["cpu_mb"], stats(1, 2, 1, 0.5));
  const Json& gpu = metrics["hardware_utilization"]["gpu"];
  EXPECT_EQ(gpu["memory_used_gb"], 2.0);
  EXPECT_EQ(gpu["busy_pct"], 50.0);
  EXPECT_TRUE(gpu["compute_utilization_pct"].is_null());
}

TEST(RunResultJson, WhatHasNoSumIsNull) {
  const Json metrics = MetricsOf(
      {}, {Gauge{"gpu", "power_mw", 100'000}, Gauge{"gpu", "power_mw", 300'000, "1"},
           Gauge{"gpu", "temperature_mc", 40'000}, Gauge{"gpu", "temperature_mc", 60'000, "1"}});
  const Json& watts = metrics["power_metrics"]["gpu"]["per_query_watts"];
  EXPECT_EQ(watts["avg"], 400.0);
  EXPECT_TRUE(watts["max"].is_null() && watts["median"].is_null() && watts["min"].is_null());
  EXPECT_EQ(watts["spread_reason"], "several_devices");
  const Json& degrees = metrics["temperature_metrics"];
  EXPECT_EQ(degrees["avg"], 50.0);
  EXPECT_EQ(degrees["max"], 120.0);
  EXPECT_EQ(degrees["min"], 20.0);
  EXPECT_TRUE(degrees["median"].is_null());
  EXPECT_EQ(degrees["spread_reason"], "several_devices");
}

// At most one of the devices changed: the extremes of the sum are sums.
TEST(RunResultJson, MemoryOfSeveralGpusIsTheirSum) {
  const auto memory = [](const char* quantity, double gib, const char* device, bool changes) {
    Gauge gauge = {"gpu", quantity, gib * 0x1p30, device};
    gauge.changes = changes;
    return gauge;
  };
  for (const bool changes : {false, true}) {
    const Json metrics = MetricsOf(
        {},
        {memory("memory_used_bytes", 1, "0", changes), memory("memory_used_bytes", 2, "1", false),
         memory("memory_total_bytes", 8, "0", false), memory("memory_total_bytes", 8, "1", false)});
    const Json &mb = metrics["memory_metrics"]["gpu_mb"],
               &gpu = metrics["hardware_utilization"]["gpu"];
    EXPECT_EQ(mb["avg"], 3072.0);
    EXPECT_EQ(mb["max"], changes ? 4096.0 : 3072.0);
    EXPECT_EQ(mb["median"], 3072.0);
    EXPECT_EQ(mb["min"], changes ? 2560.0 : 3072.0);
    EXPECT_EQ(mb["spread_reason"], nullptr);
    EXPECT_EQ(gpu["memory_used_gb"], changes ? 4.0 : 3.0);
    EXPECT_EQ(gpu["memory_used_reason"], nullptr);
    EXPECT_EQ(gpu["memory_total_gb"], 16.0);
  }
  const Json metrics = MetricsOf(
      {}, {memory("memory_used_bytes", 1, "0", true), memory("memory_used_bytes", 2, "1", true)});
  EXPECT_EQ(metrics["memory_metrics"]["gpu_mb"]["avg"], 3072.0);
  EXPECT_TRUE(metrics["hardware_utilization"]["gpu"]["memory_used_gb"].is_null());
  EXPECT_EQ(metrics["hardware_utilization"]["gpu"]["memory_used_reason"], "several_devices");
}

TEST(RunResultJson, MemoryIsOfTheProcessElseOfTheMachine) {
  const Gauge process = {"process", "rss_bytes", 0x1p20}, tree = {"process_tree", "rss_bytes", 1},
              machine = {"machine", "memory_used_bytes", 0x1p30};
  struct Case {
    std::vector<Gauge> gauges;
    Json mb, of;
  };
  const Case cases[] = {{{}, nullptr, nullptr},
                        {{process, tree, machine}, 1.0, "process"},
                        {{tree, machine}, 1024.0, "machine"},
                        {{tree}, nullptr, nullptr}};
  for (const Case& each : cases) {
    const Json memory = MetricsOf({}, each.gauges)["memory_metrics"];
    EXPECT_EQ(memory["cpu_mb"]["avg"], each.mb);
    EXPECT_EQ(memory["cpu_mb_of"], each.of);
  }
}

TEST(RunResultJson, WithoutReadingsPowerIsThatOfTheEnergy) {
  EnergyEstimate package = Estimate("p", "package", 10);
  package.mean_w = 5;
  package.peak_w = 8;
  const Json watts = MetricsOf({package})["power_metrics"]["cpu"]["total_watts"];
  EXPECT_EQ(watts["avg"], 5.0);
  EXPECT_EQ(watts["max"], 8.0);
  EXPECT_TRUE(watts["median"].is_null());
  EXPECT_EQ(watts["spread_reason"], "no_samples");
}

TEST(RunResultJson, PowerOfADeviceIsOfOneOfItsChannels) {
  constexpr ReadingKind kInstant = ReadingKind::kInstant, kAverage = ReadingKind::kAverage;
  const auto power = [](double mw, const char* device, ReadingKind kind, uint64_t n = 2) {
    return Gauge{"gpu", "power_mw", mw, device, kind, n};
  };
  struct Case {
    std::string name;
    std::vector<Gauge> gauges;
    Json avg, max, reason;
  };
  const std::vector<Case> cases = {
      {"instant first", {power(3e5, "0", kInstant), power(2e5, "0", kAverage)}, 300., 600., {}},
      {"average first", {power(2e5, "0", kAverage), power(3e5, "0", kInstant)}, 300., 600., {}},
      {"average alone", {power(2e5, "0", kAverage)}, 200., 400., {}},
      {"instant was not read",
       {power(3e5, "0", kInstant, 0), power(2e5, "0", kAverage)},
       200.,
       400.,
       {}},
      {"two devices",
       {power(3e5, "0", kInstant), power(2e5, "0", kAverage), power(1e5, "1", kInstant),
        power(9e5, "1", kAverage)},
       400.,
       nullptr,
       {}},
      {"one of two was not read",
       {power(3e5, "0", kInstant), power(1e5, "1", kInstant, 0)},
       nullptr,
       nullptr,
       "hung"},
      {"none", {}, nullptr, nullptr, "absent"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Json watts = MetricsOf({}, each.gauges)["power_metrics"]["gpu"]["per_query_watts"];
    EXPECT_EQ(watts["avg"], each.avg);
    EXPECT_EQ(watts["max"], each.max);
    EXPECT_EQ(watts["median"].is_null(), each.max.is_null());
    EXPECT_EQ(watts["min"].is_null(), each.max.is_null());
    EXPECT_EQ(watts["reason"], each.reason);
  }
}

TEST(RunResultJson, TwoSourcesOfOneDeviceAreOneEnergy) {
  EnergyEstimate other = Estimate("0", "gpu", 3);
  other.source = "t";
  const auto joules = [](std::vector<EnergyEstimate> energies) {
    return MetricsOf(std::move(energies))["energy_metrics"]["per_query_joules"];
  };
  EXPECT_EQ(joules({Estimate("0", "gpu", 2), other}), 2.0);
  EXPECT_EQ(joules({Estimate("0", "gpu", {}), other}), 3.0);
  EXPECT_EQ(joules({Estimate("0", "gpu", 2), other, Estimate("1", "gpu", 1)}), 3.0);
}

TEST(RunResultJson, WhatIsUnknownHasItsReasonBesideIt) {
  const Json metrics =
      MetricsOf({}, {Gauge{"gpu", "temperature_mc", 0, "0", ReadingKind::kGauge, 0},
                     Gauge{"gpu", "memory_used_bytes", 0, "0", ReadingKind::kGauge, 0}});
  EXPECT_EQ(metrics["temperature_metrics"]["reason"], "hung");
  EXPECT_EQ(metrics["memory_metrics"]["gpu_mb"]["reason"], "hung");
  EXPECT_EQ(metrics["memory_metrics"]["cpu_mb"]["reason"], "unsupported");
  const Json& gpu = metrics["hardware_utilization"]["gpu"];
  EXPECT_TRUE(gpu["memory_used_gb"].is_null());
  EXPECT_EQ(gpu["memory_used_reason"], "hung");
  EXPECT_EQ(gpu["memory_total_reason"], "unsupported");
  EXPECT_EQ(gpu["busy_reason"], "unsupported");
  EXPECT_EQ(gpu["compute_utilization_reason"], "unsupported");
}

TEST(RunResultJson, UtilizationIsOfAllGpusOrHasAReason) {
  const auto sm = [](double ppm, const char* device = "0", uint64_t n = 2) {
    return Gauge{"gpu", "gpm_sm_util_ppm", ppm, device, ReadingKind::kGauge, n, {}, "nvml"};
  };
  const auto power = Gauge{"gpu", "power_mw", 1, "0", ReadingKind::kInstant, 2, {}, "nvml"};
  PowerAbsence split, denied;
  split.source = denied.source = "nvml";
  split.what = "GPU-b gpm";
  split.reason = PowerReason::kUnsupported;
  denied.what = "GPU-b gpm";
  denied.reason = PowerReason::kPermissionDenied;
  struct Case {
    std::string name;
    std::vector<Gauge> gauges;
    std::vector<PowerAbsence> absences;
    Json percent, reason;
  };
  const Case cases[] = {
      {"one", {sm(625'000)}, {}, 62.5, nullptr},
      {"two", {sm(200'000), sm(400'000, "1")}, {}, 30.0, nullptr},
      {"one of two fails", {sm(200'000), sm(0, "1", 0)}, {}, nullptr, "hung"},
      {"the other of two has none", {sm(200'000)}, {split}, nullptr, "unsupported"},
      {"denied", {power}, {denied}, nullptr, "permission_denied"},
      {"not asked", {power}, {}, nullptr, "not_asked"},
      {"no NVIDIA GPU", {Gauge{"gpu", "power_mw", 1}}, {}, nullptr, "unsupported"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Json gpu = MetricsOf({}, each.gauges, each.absences)["hardware_utilization"]["gpu"];
    EXPECT_EQ(gpu["compute_utilization_pct"], each.percent);
    EXPECT_EQ(gpu["compute_utilization_reason"], each.reason);
    EXPECT_TRUE(gpu["tensor_core_utilization_pct"].is_null());
    EXPECT_TRUE(gpu["tensor_core_utilization_reason"].is_string());
  }
}

TEST(RunResultJson, EachUtilizationHasItsName) {
  const auto gpm = [](const char* quantity, double ppm) {
    return Gauge{"gpu", quantity, ppm, "0", ReadingKind::kGauge, 2, {}, "nvml"};
  };
  const Json gpu =
      MetricsOf({}, {gpm("gpm_sm_util_ppm", 100'000), gpm("gpm_tensor_util_ppm", 200'000),
                     gpm("gpm_dram_bw_util_ppm", 300'000)})["hardware_utilization"]["gpu"];
  EXPECT_EQ(gpu["compute_utilization_pct"], 10.0);
  EXPECT_EQ(gpu["tensor_core_utilization_pct"], 20.0);
  EXPECT_EQ(gpu["memory_bandwidth_utilization_pct"], 30.0);
}

TEST(RunResultJson, TheNearestReadingIsLabelled) {
  const auto near = [](const char* quantity, double value, int64_t age_ns, const char* device) {
    return Gauge{"gpu", quantity, value, device, ReadingKind::kGauge, 0, age_ns};
  };
  const Json metrics = MetricsOf({}, {near("temperature_mc", 40'000, 20'000'000, "0"),
                                      near("temperature_mc", 60'000, -30'000'000, "1"),
                                      near("utilization_gpu_ppm", 500'000, 10'000'000, "0"),
                                      Gauge{"gpu", "utilization_gpu_ppm", 700'000, "1"}});
  EXPECT_EQ(metrics["temperature_metrics"]["avg"], 50.0);
  EXPECT_EQ(metrics["temperature_metrics"]["nearest_age_ms"], -30.0);  // the furthest
  const Json& gpu = metrics["hardware_utilization"]["gpu"];
  EXPECT_EQ(gpu["busy_pct"], 60.0);
  EXPECT_EQ(gpu["busy_nearest_age_ms"], 10.0);
  EXPECT_TRUE(gpu["memory_used_nearest_age_ms"].is_null());
}

// Of sums, so that a long answer counts more.
TEST(EnergyRates, AreSumsOverSums) {
  power::EnergyRates rates;
  const auto add = [&](const char* status, std::optional<double> joules, std::optional<int64_t> out,
                       double seconds) {
    RunResult result;
    result.model = "m";
    result.answer.status = status;
    result.answer.input_tokens = 1;
    result.answer.output_tokens = out;
    result.end_ns = std::llround(seconds * 1e9);
    result.telemetry.emplace();
    result.telemetry->window.energies = {Estimate("0", "gpu", joules), Estimate("p", "package", 4)};
    rates.Add(power::ResultJson(result));
  };
  EXPECT_TRUE(rates.ToJson()["gpu"]["joules_per_second"]["value"].is_null());
  add("ok", 10, 1, 1);
  add("ok", 50, 9, 3);
  add("ok", 7, std::nullopt, 1);
  add("ok", std::nullopt, 5, 1);
  add("crash", 1000, 5, 1);
  RunResult half;  // measured over a part of its time
  half.model = "m";
  half.answer.output_tokens = 1;
  half.telemetry.emplace().window.energies = {Estimate("0", "gpu", 1)};
  half.telemetry->window.energies[0].coverage = 0.5;
  power::EnergyRates of_half;
  of_half.Add(power::ResultJson(half));
  EXPECT_EQ(of_half.ToJson()["gpu"]["joules_per_output_token"],
            Json({{"value", nullptr}, {"known", 0}, {"unknown", 1}}));
  const json::Json all = rates.ToJson();
  const json::Json &out = all["gpu"]["joules_per_output_token"],
                   &second = all["gpu"]["joules_per_second"];
  EXPECT_EQ(out["value"], 6.0);
  EXPECT_EQ(out["known"], 2u);
  EXPECT_EQ(out["unknown"], 2u);
  EXPECT_DOUBLE_EQ(second["value"].get<double>(), 67.0 / 5);
  EXPECT_EQ(all["gpu"]["joules_per_input_token"]["value"], 67.0 / 3);
  EXPECT_EQ(all["gpu"]["joules_per_total_token"]["value"], 60.0 / 12);
  EXPECT_EQ(all["cpu"]["joules_per_output_token"]["value"], 12.0 / 15);
  EXPECT_EQ(all["all"]["joules_per_output_token"]["value"], (14.0 + 54.0) / 10);
}

TEST(PowerRunTotals, BoundsAreThoseOfTheRecordsTogether) {
  PowerRunTotals totals;
  const auto add = [&](std::optional<double> j, std::optional<double> lo,
                       std::optional<double> hi) {
    EnergyEstimate estimate = Estimate("0", "gpu", j);
    estimate.lo_j = lo;
    estimate.hi_j = hi;
    RunResult result;
    result.telemetry.emplace().window.energies = {estimate};
    power::AddToTotals(power::ResultJson(result), &totals);
  };
  add(10, 9, 11.5);
  add(4, 1, 6);  // useless
  add({}, {}, {});
  EXPECT_EQ(totals.gpu.joules, 14);
  EXPECT_EQ(totals.gpu.lo_joules, 10);
  EXPECT_EQ(totals.gpu.hi_joules, 17.5);
  EXPECT_EQ(totals.gpu.known, 2u);
  EXPECT_EQ(totals.gpu.unknown, 1u);
  EXPECT_EQ(totals.gpu.useless, 1u);
  EXPECT_EQ(totals.gpu.unbounded, 0u);
  add(1, {}, {});
  EXPECT_EQ(totals.gpu.unbounded, 1u);
  EXPECT_EQ(totals.cpu.unknown, 4u);
  EXPECT_EQ(totals.gpu.incomplete, 0u);
}

// A counter that began anew, or a sensor that was lost for a while.
TEST(PowerRunTotals, WhatIsMeasuredInPartIsCounted) {
  PowerRunTotals totals;
  RunResult result;
  result.telemetry.emplace().window.energies = {Estimate("0", "gpu", 10),
                                                Estimate("p", "package", 5)};
  power::AddToTotals(power::ResultJson(result), &totals);
  result.telemetry->window.energies[0].coverage = 0.92;
  power::AddToTotals(power::ResultJson(result), &totals);
  EXPECT_EQ(totals.gpu.joules, 20);
  EXPECT_EQ(totals.gpu.incomplete, 1u);
  EXPECT_EQ(totals.cpu.incomplete, 0u);
  EXPECT_EQ(totals.all.incomplete, 1u);
}

TEST(BriefMessage, IsOneLine) {
  for (const auto& [message, brief] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"no answer in time", "no answer in time"},
           {"ValueError: a\nb", "ValueError: a"},
           {"it ended: exit 3; its last words: one\ntwo", "it ended: exit 3; its last words: two"},
           {"it ended: exit 3; its last words: one", "it ended: exit 3; its last words: one"},
           {"a\nb; its last words: c\nd\r\n\n", "a; its last words: d"}}) {
    EXPECT_EQ(power::BriefMessage(message), brief);
  }
}

// At each byte of the last two of three records: those that are whole are kept, the rest goes.
TEST(RunDirectory, TakesUpWhatACutLeft) {
  const testing::TempDir root;
  PowerRunOptions options;
  options.model = "m";
  options.output_root = root.path();
  std::vector<size_t> ends;
  std::string path;
  {
    auto directory = RunDirectory::Open(options, "hash", {});
    ASSERT_TRUE(directory.ok()) << directory.status();
    path = (*directory)->path() + "/records.jsonl";
    for (uint64_t index = 0; index < 3; ++index) {
      RunResult result;
      result.record = {.index = index, .problem = "p"};
      result.model = "m";
      result.answer.status = "ok";
      ASSERT_TRUE((*directory)->Write(result).ok());
      ends.push_back(std::filesystem::file_size(path));
    }
  }
  const std::string text = TextOf(path);
  ASSERT_EQ(text.size(), ends[2]);
  options.resume = true;
  std::filesystem::resize_file(path, ends[0]);
  for (size_t size = ends[0]; size <= text.size(); ++size) {
    SCOPED_TRACE(size);
    // Never longer than this: emptying a file to write it anew waits for the disk.
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << text.substr(0, size);
    const auto directory = RunDirectory::Open(options, "hash", {});
    ASSERT_TRUE(directory.ok()) << directory.status();
    const size_t whole = size < ends[1] ? 1 : size < ends[2] ? 2 : 3;
    for (uint64_t index = 0; index < 3; ++index) {
      EXPECT_EQ(*(*directory)->Has({.index = index, .problem = "p"}), index < whole);
      const auto other = (*directory)->Has({.index = index, .problem = "q"});
      EXPECT_EQ(absl::IsDataLoss(other.status()), index < whole) << other.status();
    }
    EXPECT_EQ((*directory)->totals().records, whole);
    EXPECT_EQ(TextOf(path), text.substr(0, ends[whole - 1]));
  }
}

TEST(RunDirectoryName, IsOnePartOfAPath) {
  EXPECT_EQ(RunDirectoryName("NVIDIA H100 80GB HBM3", "org/model:7b", "gsm8k"),
            "profile_NVIDIA-H100-80GB-HBM3_org-model-7b_gsm8k");
  EXPECT_EQ(RunDirectoryName("", "", ""), "profile_UNKNOWN_HW_model_dataset");
  EXPECT_EQ(RunDirectoryName("//", "\xff\xff", "-"), "profile_UNKNOWN_HW_model_dataset");
  EXPECT_LT(RunDirectoryName(std::string(999, 'a'), std::string(999, 'b'), "c").size(), 255u);
}

TEST(HardwareLabel, TheGpuElseTheProcessor) {
  PowerInventory inventory;
  EXPECT_EQ(HardwareLabel(inventory, "A CPU"), "A CPU");
  EXPECT_EQ(HardwareLabel(inventory, ""), "");
  PowerDevice package, gpu;
  package.id = "package-0";
  package.name = "Package";
  gpu.id = "GPU-1";
  gpu.name = "H100";
  inventory.devices = {package, gpu};
  PowerChannel channel;
  channel.device = "package-0";
  channel.domain = "package";
  inventory.channels = {channel};
  EXPECT_EQ(HardwareLabel(inventory, "A CPU"), "A CPU");
  channel.device = "GPU-1";
  channel.domain = "gpu";
  inventory.channels.push_back(channel);
  EXPECT_EQ(HardwareLabel(inventory, "A CPU"), "H100");
}

TEST(RecorderTelemetry, SummarizesEachWindowAsItIsRead) {
  auto recorder = PowerRecorder::Start({.from = {.sources = {"constant:100"}}});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const auto telemetry = NewRecorderTelemetry(*std::move(recorder));
  EXPECT_THAT(telemetry->Hardware().system_info_json, HasSubstr("\"boot_id\""));
  EXPECT_EQ(telemetry->Hardware().gpu_info_json, "null");
  for (const char* name : {"query", "query", "other"}) {
    ASSERT_TRUE(telemetry->Begin(name).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    const auto result = telemetry->End(name);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->window.name, name);
    EXPECT_EQ(result->window.number, 1u);  // no other window is in it
    ASSERT_EQ(result->window.energies.size(), 1u);
    const EnergyEstimate& energy = result->window.energies[0];
    EXPECT_DOUBLE_EQ(energy.mean_w.value_or(0), 100);
    EXPECT_GT(energy.coverage, 0.3);  // a machine under load leaves gaps, and they are told
    ASSERT_EQ(result->channels.size(), 1u);
    EXPECT_EQ(result->channels[0].source, "constant");
  }
  EXPECT_FALSE(telemetry->End("query").ok());  // it is not open
}

TEST(RecorderTelemetry, AWindowBeginsAnewOrWhereAnotherEnded) {
  auto recorder = PowerRecorder::Start({.from = {.sources = {"constant:100"}}});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const auto telemetry = NewRecorderTelemetry(*std::move(recorder));
  ASSERT_TRUE(telemetry->Begin("query").ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const int64_t anew_ns = power::MonotonicNow();
  ASSERT_TRUE(telemetry->Begin("query").ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto first = telemetry->Lap("query");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GE(first->window.begin_ns, anew_ns);
  const auto second = telemetry->Lap("query"), third = telemetry->End("query");
  ASSERT_TRUE(second.ok() && third.ok()) << second.status() << third.status();
  EXPECT_EQ(second->window.begin_ns, first->window.end_ns);
  EXPECT_EQ(third->window.begin_ns, second->window.end_ns);
  EXPECT_FALSE(telemetry->Lap("query").ok());  // none is open
}

}  // namespace
}  // namespace xplane_time
