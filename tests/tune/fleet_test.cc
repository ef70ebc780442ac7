// One tuning on several devices: simulated ones, whose differences are known.
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/json.h"
#include "status.h"
#include "tests/decide/simulated_device.h"
#include "tests/tune/configurations.h"
#include "tune/device_check.h"
#include "tune/harness_fleet.h"
#include "xplane_time/tune.h"

namespace xplane_time {
namespace {

using testing::Configurations;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// What several devices do together.
struct Together {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0, most = 0;
  // Waits until so many run, or for two seconds.
  void Run(int wanted) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++running);
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(2), [&] { return most >= wanted; });
    --running;
  }
};

struct Behaviour {
  std::string label = "";
  std::vector<double> log_times = {};
  testing::DeviceNoise noise = {};
  uint64_t seed = 0;
  std::string device_class = "simulated";
  int rounds = 1 << 30;  // then it is lost
  std::string lost_as = {};
  std::set<std::string> not_compiled = {}, wrong = {}, fails = {};
  std::map<std::string, std::string> fingerprints = {};
  Together* together = nullptr;  // of the first rounds
  std::atomic<int>* ran = nullptr;
};

class Simulated : public Harness {
 public:
  explicit Simulated(const Behaviour& how)
      : how_(how), device_({.log_times = how.log_times, .noise = how.noise, .seed = how.seed}) {}

  absl::StatusOr<HarnessInfo> Hello() override {
    if (how_.rounds < 0) return Unavailable("no such device\nand more");
    return HarnessInfo{.name = "simulated",
                       .device = "sim",
                       .device_class = how_.device_class,
                       .verifies = !how_.wrong.empty()};
  }
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override {
    for (size_t i = 0; i < variants.size(); ++i) {
      const bool fails = how_.not_compiled.contains(variants[i].id);
      const auto own = how_.fingerprints.find(variants[i].id);
      done(i, {.status = fails ? "compile_error" : "ok",
               .fingerprint = own == how_.fingerprints.end() ? "" : own->second,
               .message = fails ? "too large" : ""});
    }
    return absl::OkStatus();
  }
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override {
    return VariantState{.status = how_.wrong.contains(variant.id) ? "wrong_result" : "ok"};
  }
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view /*workload*/,
                                      std::span<const Configuration* const> order) override {
    if (how_.rounds-- <= 0) return Unavailable("fell off the bus");
    if (how_.together != nullptr) how_.together->Run(2);
    if (how_.ran != nullptr) ++*how_.ran;
    std::vector<uint32_t> places;
    for (const Configuration* each : order) {
      places.push_back(static_cast<uint32_t>(std::stoul(each->id)));
    }
    const RoundResult result =
        device_.Run(static_cast<uint64_t>(batch), static_cast<uint64_t>(round), places);
    RoundTimes times;
    for (const Sample& each : result.samples) {
      const bool fails = how_.fails.contains(std::to_string(each.variant));
      times.slots.push_back({.status = fails ? "runtime_error" : "ok",
                             .t_ps = each.t_ps,
                             .message = fails ? "illegal address" : ""});
    }
    return times;
  }

 private:
  Behaviour how_;
  testing::SimulatedDevice device_;
};

struct Tuned {
  absl::StatusOr<TuneOutcome> outcome;
  std::vector<std::string> told;
  std::vector<RoundRecord> rounds;
};

struct Store {
  Store() {
    static std::atomic<int> number = 0;
    path = std::filesystem::path(::testing::TempDir()) /
           ("fleet" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(path);
  }
  ~Store() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

Tuned TuneOn(const std::vector<Behaviour>& devices, TuneOptions options, const Store& at) {
  Tuned tuned;
  std::vector<HarnessFleet::Member> members;
  for (size_t i = 0; i < devices.size(); ++i) {
    members.push_back({devices[i].label, std::make_unique<Simulated>(devices[i])});
  }
  HarnessFleet fleet(std::move(members),
                     [&](const std::string& line) { tuned.told.push_back(line); });
  auto store = TuneStore::Open(at.path / "tune.db", {.durability = Durability::kProcessLoss});
  EXPECT_TRUE(store.ok()) << store.status();
  options.decide.rounds_at_once = static_cast<uint32_t>(devices.size());
  TuneWatcher watcher;
  tuned.outcome =
      Tune(Configurations(devices[0].log_times.size()), options, &fleet, &*store, &watcher);
  if (tuned.outcome.ok()) {
    tuned.rounds = *store->ReadRounds(tuned.outcome->session);
  }
  return tuned;
}

std::string DeviceOf(const RoundRecord& record) {
  return json::TextOf(json::Parse(record.notes_json), "device").value_or("");
}

std::vector<double> Percent(std::initializer_list<double> values) {
  std::vector<double> logs;
  for (const double each : values) logs.push_back(std::log1p(each / 100));
  return logs;
}

std::vector<Behaviour> Devices(size_t count, const std::vector<double>& log_times, uint64_t seed) {
  std::vector<Behaviour> devices(count, {.log_times = log_times});
  for (size_t i = 0; i < count; ++i) {
    devices[i].seed = seed * 1009 + i;
    devices[i].label = std::to_string(i);
  }
  return devices;
}

TEST(Fleet, ADeviceThatIsSlowerChangesNoPick) {
  int wrong = 0, divided = 0, slow = 0;
  constexpr int kTrials = 150;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Store store;
    auto devices = Devices(2, Percent({1, 0, 2, 6}), static_cast<uint64_t>(trial));
    for (double& each : devices[1].log_times) each += 0.05;
    const Tuned tuned = TuneOn(devices, {}, store);
    ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
    wrong += tuned.outcome->verdict.pick != 1;
    divided += tuned.outcome->devices->classes.size() > 1;
    slow += tuned.outcome->devices->devices[1].verdict == "slow";
  }
  EXPECT_LE(wrong, 5);  // alpha is 1 %
  EXPECT_LE(divided, 5);
  EXPECT_GE(slow, 135);
}

TEST(Fleet, OneVariantThatIsSlowerOnOneDeviceMakesTwoClasses) {
  int divided = 0;
  constexpr int kTrials = 100;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Store store;
    auto devices = Devices(2, Percent({0, 2, 4}), static_cast<uint64_t>(trial) + 5000);
    devices[1].log_times[0] += std::log1p(0.03);
    const Tuned tuned = TuneOn(devices, {}, store);
    ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
    divided += tuned.outcome->devices->classes.size() == 2;
    if (divided == 0) continue;
    EXPECT_EQ(tuned.outcome->verdict.claim == Claim::kUndecided,
              tuned.outcome->devices->classes.size() == 2);
  }
  EXPECT_GE(divided,
            90);  // which device takes which round is chance; bench/fleet_tune_simulation: 98
}

TEST(Fleet, ThreeOfEightAreAClassOfTheirOwn) {
  int right = 0;
  for (uint64_t trial = 0; trial < 20; ++trial) {
    const Store store;
    auto devices = Devices(8, Percent({0, 2, 4}), trial + 9000);
    for (const size_t i : {1, 4, 6}) devices[i].log_times[1] -= 0.04;
    const Tuned tuned = TuneOn(devices, {}, store);
    ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
    const DeviceCheck& check = *tuned.outcome->devices;
    const std::vector<std::vector<std::string>> wanted = {
        {"sim (0)", "sim (2)", "sim (3)", "sim (5)", "sim (7)"}, {"sim (1)", "sim (4)", "sim (6)"}};
    right += check.classes == wanted;
  }
  EXPECT_GE(right, 16);
}

TEST(Fleet, RoundsRunAtOnceAndEachOnOneDevice) {
  const Store store;
  Together together;
  auto devices = Devices(2, Percent({0, 2, 4}), 1);
  for (Behaviour& each : devices) each.together = &together;
  const Tuned tuned = TuneOn(devices, {}, store);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  EXPECT_EQ(together.most, 2);
  std::set<std::string> seen;
  for (const RoundRecord& each : tuned.rounds) {
    if (each.batch > 0) seen.insert(DeviceOf(each));
  }
  EXPECT_THAT(seen, UnorderedElementsAre("sim (0)", "sim (1)"));
  EXPECT_EQ(tuned.outcome->harness.device, "sim (0), sim (1)");
}

TEST(Fleet, OneThatIsLostCostsItsRoundAndIsNamed) {
  const Store store;
  auto devices = Devices(3, Percent({0, 2, 4}), 2);
  devices[1].rounds = 1;
  const Tuned tuned = TuneOn(devices, {}, store);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  EXPECT_EQ(tuned.outcome->verdict.pick, 0);
  ASSERT_THAT(tuned.outcome->devices->lost, SizeIs(1));
  EXPECT_EQ(tuned.outcome->devices->lost[0].device, "sim (1)");
  EXPECT_EQ(tuned.outcome->devices->lost[0].message, "fell off the bus");
  EXPECT_THAT(tuned.told, ElementsAre(HasSubstr("lost the device sim (1)")));
  EXPECT_LE(tuned.outcome->devices->devices[1].rounds,
            1);  // the race may have left it to the others
  EXPECT_EQ(tuned.outcome->devices->devices[1].verdict, "cannot_tell");
  EXPECT_THAT(tuned.outcome->devices->classes, SizeIs(1));
  std::set<std::pair<int64_t, int64_t>> rounds;
  for (const RoundRecord& each : tuned.rounds) {
    EXPECT_TRUE(rounds.emplace(each.batch, each.round).second);
  }
}

TEST(Fleet, OneThatDoesNotStartIsLeftOut) {
  const Store store;
  auto devices = Devices(2, Percent({0, 2}), 3);
  devices[0].rounds = -1;
  const Tuned tuned = TuneOn(devices, {}, store);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  EXPECT_EQ(tuned.outcome->harness.device, "sim (1)");
  EXPECT_THAT(tuned.outcome->devices->classes, ElementsAre(ElementsAre("sim (1)")));
  EXPECT_FALSE(tuned.outcome->devices->mde.has_value());
}

TEST(Fleet, WithoutAnyDeviceItEnds) {
  const Store store;
  auto devices = Devices(2, Percent({0, 2}), 3);
  for (Behaviour& each : devices) each.rounds = 1;
  const Tuned tuned = TuneOn(devices, {}, store);
  EXPECT_TRUE(absl::IsUnavailable(tuned.outcome.status())) << tuned.outcome.status();
  EXPECT_THAT(std::string(tuned.outcome.status().message()), HasSubstr("fell off the bus"));
}

TEST(Fleet, DevicesOfDifferentKindsAreRefused) {
  const Store store;
  auto devices = Devices(2, Percent({0, 2}), 4);
  devices[1].device_class = "another";
  const Tuned tuned = TuneOn(devices, {}, store);
  EXPECT_THAT(std::string(tuned.outcome.status().message()),
              HasSubstr("sim (1) has device_class \"another\", but sim (0) has \"simulated\""));
}

TEST(Fleet, WhatFailsOnOneDeviceHasFailed) {
  const Store store;
  auto devices = Devices(2, Percent({0, 2, 4}), 5);
  devices[0].wrong = {"9"};  // it verifies
  devices[1].wrong = {"1"};
  devices[1].not_compiled = {"0"};
  const Tuned tuned = TuneOn(devices, {}, store);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  const auto& variants = tuned.outcome->variants;
  EXPECT_EQ(variants[0].state.status, "compile_error");
  EXPECT_EQ(variants[0].state.message, "sim (1): too large");
  EXPECT_EQ(variants[1].state.status, "wrong_result");
  EXPECT_EQ(variants[2].state.status, "ok");
}

TEST(Fleet, ADeviceOnWhichAllFailsIsLostAndBlamesNobody) {
  for (const bool compiles : {true, false}) {
    const Store store;
    auto devices = Devices(3, Percent({0, 2, 4}), 7);
    (compiles ? devices[2].fails : devices[2].not_compiled) = {"0", "1", "2"};
    const Tuned tuned = TuneOn(devices, {}, store);
    ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
    EXPECT_EQ(tuned.outcome->verdict.pick, 0);
    for (const TunedVariant& each : tuned.outcome->variants) EXPECT_EQ(each.state.status, "ok");
    ASSERT_THAT(tuned.outcome->devices->lost, SizeIs(1));
    EXPECT_THAT(tuned.outcome->devices->lost[0].message, HasSubstr("fail on it"));
    EXPECT_THAT(tuned.outcome->devices->classes, ElementsAre(ElementsAre("sim (0)", "sim (1)")));
  }
}

TEST(Fleet, AMessageNamesTheDeviceOnWhichAVariantFails) {
  const Store store;
  auto devices = Devices(2, Percent({0, 2, 4, 6}), 8);
  devices[1].fails = {"3"};
  TuneOptions options;
  options.decide.stop = Stop::kClaim;
  const Tuned tuned = TuneOn(devices, options, store);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  EXPECT_EQ(tuned.outcome->variants[3].state.message, "sim (1): illegal address");
}

TEST(Fleet, OneProgramIsOneOnEveryDevice) {
  const Store store;
  auto devices = Devices(2, Percent({0, 2, 4}), 9);
  devices[0].fingerprints = {{"0", "x"}, {"1", "x"}, {"2", "x"}};
  devices[1].fingerprints = {{"0", "x"}, {"1", "y"}, {"2", "x"}};
  const Tuned tuned = TuneOn(devices, {}, store);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  EXPECT_FALSE(tuned.outcome->variants[1].alias_of.has_value());
  EXPECT_EQ(tuned.outcome->variants[2].alias_of, 0);
}

// The race is over, and whether devices agree was not seen: nothing is decided, by replay neither.
TEST(Fleet, StoppedBeforeDevicesWereComparedItIsUndecided) {
  const Store at;
  std::atomic<int> ran = 0;
  auto devices = Devices(2, Percent({0, 10}), 10);
  for (Behaviour& each : devices) each.ran = &ran;
  TuneOptions options;
  options.stopped = [&] { return ran >= 8; };
  const Tuned tuned = TuneOn(devices, options, at);
  ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
  EXPECT_EQ(tuned.outcome->verdict.claim, Claim::kUndecided);
  EXPECT_EQ(tuned.outcome->verdict.stop_reason, "devices_unchecked");
  const auto store = TuneStore::OpenReadOnly(at.path / "tune.db");
  EXPECT_THAT(store->Tuned()->entries(), IsEmpty());
  const auto replayed = Replay(*ReadSession(*store, 1), "{}");
  EXPECT_EQ(replayed->verdict.claim, Claim::kUndecided) << replayed.status();
}

TEST(Fleet, WhatWasStoppedGoesOnWithoutARoundTwice) {
  for (const int stop_at : {1, 5, 9, 20, 40}) {
    const Store store;
    std::atomic<int> ran = 0;
    auto devices = Devices(2, Percent({0, 1, 1, 3}), 6);
    for (Behaviour& each : devices) each.ran = &ran;
    TuneOptions options;
    options.stopped = [&] { return ran >= stop_at; };
    const Tuned first = TuneOn(devices, options, store);
    ASSERT_TRUE(first.outcome.ok()) << first.outcome.status();
    ASSERT_TRUE(first.outcome->interrupted);
    options.stopped = [] { return false; };
    const Tuned second = TuneOn(devices, options, store);
    ASSERT_TRUE(second.outcome.ok()) << second.outcome.status();
    EXPECT_TRUE(second.outcome->resumed);
    EXPECT_EQ(second.outcome->session, first.outcome->session);
    EXPECT_TRUE(second.outcome->verdict.pick.has_value());
    EXPECT_EQ(second.rounds.size(), static_cast<size_t>(ran) + 1);  // the preparation is one
    std::set<std::pair<int64_t, int64_t>> rounds;
    for (const RoundRecord& each : second.rounds) rounds.emplace(each.batch, each.round);
    EXPECT_EQ(rounds.size(), second.rounds.size());
    const Tuned third = TuneOn(devices, options, store);
    EXPECT_EQ(third.rounds.size(), second.rounds.size());
    EXPECT_EQ(third.outcome->verdict.pick, second.outcome->verdict.pick);
    EXPECT_EQ(third.outcome->devices->classes, second.outcome->devices->classes);
  }
}

TEST(Fleet, ASlowDeviceIsNamedAndTheOthersAreTypical) {
  int named = 0, others = 0;
  for (uint64_t trial = 0; trial < 20; ++trial) {
    const Store store;
    auto devices = Devices(4, Percent({0, 2, 4}), trial + 700);
    for (Behaviour& each : devices) each.noise.drift = 0.005;
    for (double& each : devices[2].log_times) each += 0.03;
    const Tuned tuned = TuneOn(devices, {}, store);
    ASSERT_TRUE(tuned.outcome.ok()) << tuned.outcome.status();
    const auto& rows = tuned.outcome->devices->devices;
    named += rows[2].verdict == "slow";
    for (const size_t i : {0, 1, 3}) {
      others += rows[i].verdict == "slow" || rows[i].verdict == "fast";
    }
  }
  EXPECT_GE(named, 17);
  EXPECT_LE(others, 3);
}

// Two classes: the answer of all holds nowhere for sure, those of the classes on their devices.
TEST(Fleet, TunedTablesHaveAnAnswerForEachClass) {
  const Store at;
  auto devices = Devices(2, Percent({0, 2, 4}), 11);
  for (Behaviour& each : devices) each.noise.sd = 0.002;
  devices[1].log_times[0] += 0.05;
  const auto table = [&](std::optional<int64_t> session = std::nullopt) {
    return TuneStore::OpenReadOnly(at.path / "tune.db")->Tuned(DefaultFallbacks(), session);
  };
  const TuneKey key = {.device_class = "simulated"};
  const auto all = TuneOn(devices, {}, at);
  ASSERT_TRUE(all.outcome.ok()) << all.outcome.status();
  ASSERT_THAT(all.outcome->devices->classes, SizeIs(2));
  EXPECT_THAT(table()->entries(), IsEmpty());
  EXPECT_THAT(std::string(table(1).status().message()), HasSubstr("several classes of device"));

  for (const Behaviour& each : devices) ASSERT_TRUE(TuneOn({each}, {}, at).outcome.ok());
  const auto found = table();
  ASSERT_THAT(found->entries(), SizeIs(2));
  EXPECT_EQ(found->Find(key, "sim (0)")->entry->configuration.id, "0");
  EXPECT_EQ(found->Find(key, "sim (1)")->entry->configuration.id, "1");
  EXPECT_FALSE(found->Find(key).has_value());
  EXPECT_FALSE(found->Find(key, "sim (2)").has_value());
  const auto again = TunedTable::FromJson(found->ToJson(), "tuned.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), found->ToJson());
  EXPECT_EQ(again->Find(key, "sim (1)")->entry->configuration.id, "1");
  EXPECT_EQ(table(3)->Find(key, "sim (1)")->entry->configuration.id, "1");

  // One device anew: the other keeps its own.
  devices[1].log_times = Percent({8, 6, 0});
  TuneOptions again_1;
  again_1.resume = Resume::kNever;
  ASSERT_TRUE(TuneOn({devices[1]}, again_1, at).outcome.ok());
  EXPECT_EQ(table()->Find(key, "sim (0)")->entry->configuration.id, "0");
  EXPECT_EQ(table()->Find(key, "sim (1)")->entry->configuration.id, "2");
  devices[1].log_times = devices[0].log_times;

  // Since then all agree: one answer.
  TuneOptions anew;
  anew.resume = Resume::kNever;
  ASSERT_TRUE(TuneOn(devices, anew, at).outcome.ok());
  EXPECT_EQ(table()->Find(key)->entry->configuration.id, "0");
  EXPECT_THAT(table()->entries(), SizeIs(1));
}

// ---- The plan by itself.

TEST(DevicePlan, OneDeviceOrOneVariantNeedsNone) {
  EXPECT_THAT(DevicePlan({"a"}, {}, 0, {}).Next(), IsEmpty());
  EXPECT_THAT(DevicePlan({"a", "b"}, {}, 0, {}).Next(), IsEmpty());
}

TEST(DevicePlan, RivalsAreThoseThatDidBestOnAnyDevice) {
  std::vector<DevicePlan::RaceRound> race;
  for (const char* device : {"a", "b"}) {
    DevicePlan::LogTimes times = {{0, 0.0}};
    for (uint32_t rival = 1; rival <= 8; ++rival) times[rival] = 0.01 * rival;
    times[8] = *device == 'a' ? 0.3 : -0.1;  // the worst of all, on average
    race.push_back({device, times});
  }
  DevicePlan plan({"a", "b"}, {}, 0, race);
  const auto rounds = plan.Next();
  ASSERT_EQ(rounds.size(), 2 * DevicePlan::kFirst);
  EXPECT_THAT(rounds[0].order, UnorderedElementsAre(0, 8, 1, 2, 3, 4));
  EXPECT_EQ(rounds[0].device, "a");
  EXPECT_EQ(rounds[1].device, "b");
}

TEST(DevicePlan, OneWithoutAPickIsAClassAndOneWithoutRoundsIsNone) {
  const std::vector<DevicePlan::RaceRound> race = {{"a", {{0, 0.0}, {1, 0.01}, {2, 0.02}}}};
  DevicePlan plan({"a", "b", "c", "d"}, {}, 0, race);
  for (auto next = plan.Next(); !next.empty(); next = plan.Next()) {
    for (const auto& each : next) {
      const double noise = 0.001 * static_cast<double>(each.round % 7);
      DevicePlan::LogTimes times = {{0, noise}, {1, 0.01}, {2, 0.02}};
      if (each.device == "b") times.erase(0);
      if (each.device != "c") plan.Take(each.device, times);
    }
  }
  const DeviceCheck check = plan.Found([](uint32_t place) { return std::to_string(place); });
  EXPECT_THAT(check.classes, ElementsAre(ElementsAre("a", "d"), ElementsAre("b")));
  EXPECT_EQ(check.devices[2].rounds, 0);
}

TEST(DevicePlan, ThePickItselfIsNamedWhereItIsTheOddOne) {
  const std::vector<DevicePlan::RaceRound> race = {
      {"a", {{0, 0.0}, {1, 0.01}, {2, 0.02}, {3, 0.3}}}};
  DevicePlan plan({"a", "b", "c"}, {}, 0, race);
  for (auto next = plan.Next(); !next.empty(); next = plan.Next()) {
    for (const auto& each : next) {
      EXPECT_THAT(each.order, UnorderedElementsAre(0, 1, 2));  // 3 is too far off
      const double noise = 0.001 * static_cast<double>(each.round % 5);
      const double more = each.device == "b" ? 0.05 : 0;
      plan.Take(each.device, {{0, more + noise}, {1, 0.01}, {2, 0.02}});
    }
  }
  const DeviceCheck check = plan.Found([](uint32_t place) { return std::to_string(place); });
  EXPECT_THAT(check.classes, ElementsAre(ElementsAre("a", "c"), ElementsAre("b")));
  ASSERT_THAT(check.splits, SizeIs(1));
  EXPECT_EQ(check.splits[0].variant, "0");
  EXPECT_THAT(check.splits[0].devices, ElementsAre("b"));
  for (const auto& each : check.devices) EXPECT_NE(each.verdict, "slow") << each.name;
}

TEST(DevicePlan, WithoutNoiseADifferenceBeyondDeltaIsSeen) {
  for (const double difference : {0.004, 0.006}) {
    const std::vector<DevicePlan::RaceRound> race = {{"a", {{0, 0.0}, {1, 0.01}}}};
    DevicePlan plan({"a", "b", "c"}, {}, 0, race);
    for (auto next = plan.Next(); !next.empty(); next = plan.Next()) {
      for (const auto& each : next) {
        const double more = each.device == "c" ? difference : 0;
        plan.Take(each.device, {{0, 0.0}, {1, 0.01 + more}});
      }
    }
    const DeviceCheck check = plan.Found([](uint32_t place) { return std::to_string(place); });
    EXPECT_EQ(check.classes.size(), difference > 0.005 ? 2 : 1);
    if (difference <= 0.005) continue;
    EXPECT_THAT(check.classes, ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
    ASSERT_THAT(check.splits, SizeIs(1));
    EXPECT_EQ(check.splits[0].variant, "1");
    EXPECT_NEAR(check.splits[0].ratio, std::exp(0.016), 1e-5);
    EXPECT_NEAR(check.splits[0].others_ratio, std::exp(0.01), 1e-5);
  }
}

}  // namespace
}  // namespace xplane_time
