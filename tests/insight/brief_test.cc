// Brief against traces with planted faults: is the fault among the first findings, and is the
// amount that of the fault? And against traces without: is nothing found?
#include "xplane_time/brief.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "output/results.h"
#include "stats/random.h"
#include "tests/insight/made_programs.h"
#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kUs = 1'000'000;
constexpr int64_t kBytesPerS = 1'555'000'000;  // so that dot.1 takes 18 us at its roof
constexpr double kRoofPs = kDotBytes * 1e12 / kBytesPerS;

// Devices that run a training step again and again, and what is wrong with them.
struct World {
  uint64_t seed = 0;
  size_t devices = 1;
  int steps = 30, kernels = 6;
  double noise = 0.01;
  double of_roof = 0.75;
  int64_t host_gap_ps = 0;    // before each step
  int64_t launch_gap_ps = 0;  // before each kernel
  int64_t collective_ps = 0;  // after each step, when all devices are there
  int64_t copy_ps = 0;        // after each step
  int64_t compile_ps = 0;     // before each step, which has a program of its own
  double slow_device = 1;     // how much longer the last device computes
  int slow_from = 0, slow_to = 0;
  double slow_runs = 1;      // how much longer runs from `slow_from` to `slow_to` compute
  bool slow_in_one = false;  // of its kernels only
  int short_run = -1;        // lacks a kernel

  int64_t planted_ps = 0;  // of the fault, when the trace is made
};

class WorldTrace : public TraceBuilder {
 public:
  explicit WorldTrace(World* world) : world_(*world), random_(world->seed) {
    at_.assign(world_.devices, 1000 * kUs);
    for (size_t i = 0; i < world_.devices; ++i) {
      TellPeaks({.bytes_per_s = kBytesPerS}, Gpu(static_cast<int64_t>(i)));
    }
    launch_at_ = at_;
    AddProgram(DotProgram(), this);
    for (int step = 0; step < world_.steps; ++step) AddStep(step);
    world->planted_ps = world_.planted_ps;
  }

 private:
  LineBuilder StreamOf(size_t device) { return Gpu(static_cast<int64_t>(device)).Stream(1); }
  LineBuilder ThreadOf(size_t device) { return Host().Thread("python" + std::to_string(device)); }

  void AddStep(int step) {
    std::vector<int64_t> computed;  // by device: when
    for (size_t device = 0; device < world_.devices; ++device) AddRun(device, step);
    if (world_.collective_ps == 0) return;
    const int64_t last_ps = *std::ranges::max_element(at_);
    for (size_t device = 0; device < world_.devices; ++device) {
      const int64_t end_ps = last_ps + world_.collective_ps;
      Launched(device, "ncclDevKernel_AllReduce", "all-reduce.1", end_ps - at_[device], step);
    }
  }

  void AddRun(size_t device, int step) {
    const bool waits = world_.host_gap_ps > 0 || world_.compile_ps > 0;
    const int64_t before_ps = at_[device];
    at_[device] += world_.host_gap_ps + world_.compile_ps;
    if (world_.compile_ps > 0) {
      ThreadOf(device).Event(
          {.name = "backend_compile", .start_ps = before_ps, .duration_ps = world_.compile_ps});
      world_.planted_ps += step == 0 ? 0 : world_.compile_ps;
    }
    if (step > 0) world_.planted_ps += world_.host_gap_ps;
    // The host is a step ahead, or just in time.
    const int64_t launch_ps = waits ? at_[device] : launch_at_[device];
    const int kernels = world_.kernels - (step == world_.short_run ? 1 : 0);
    launch_at_[device] = at_[device] + 2 * kUs;
    next_launch_ps_ = launch_ps - kUs;
    ThreadOf(device).ModuleExecution("jit_f", next_launch_ps_ - 100, kUs / 2);
    for (int i = 0; i < kernels; ++i) {
      if (i > 0) {
        at_[device] += world_.launch_gap_ps;
        world_.planted_ps += world_.launch_gap_ps;
      }
      // The last is another op, of which nothing is known.
      const bool is_other = world_.slow_runs > 1 && i + 1 == kernels;
      Launched(device, is_other ? "other_kernel" : "gemm_kernel", is_other ? "other.1" : "dot.1",
               ComputePs(device, step, !world_.slow_in_one || is_other), step);
    }
    if (world_.copy_ps == 0) return;
    world_.planted_ps += world_.copy_ps;
    Launched(device, "MemcpyD2H", "", world_.copy_ps, step);
  }

  int64_t ComputePs(size_t device, int step, bool may_be_slow) {
    const double usual_ps =
        kRoofPs / world_.of_roof * (std::max(0.2, 1 + world_.noise * random_.Normal()));
    double factor = device + 1 == world_.devices ? world_.slow_device : 1;
    if (may_be_slow && step >= world_.slow_from && step < world_.slow_to) {
      factor *= world_.slow_runs;
    }
    world_.planted_ps += static_cast<int64_t>((factor - 1) * usual_ps);
    return static_cast<int64_t>(factor * usual_ps);
  }

  void Launched(size_t device, const std::string& name, const std::string& hlo_op,
                int64_t duration_ps, int step) {
    KernelSpec kernel = {.name = name,
                         .start_ps = at_[device],
                         .duration_ps = duration_ps,
                         .hlo_op = hlo_op,
                         .correlation_id = ++launches_};
    if (hlo_op.empty()) {
      kernel.stats = {{"memcpy_details", std::string("kind:DtoH size:4096 async:0")}};
    } else {
      kernel.hlo_module = "jit_f";
      kernel.program_id = world_.compile_ps > 0 ? step + 1 : 1;
    }
    StreamOf(device).Kernel(kernel);
    ThreadOf(device).Launch(
        {.start_ps = next_launch_ps_, .duration_ps = 10, .correlation_id = launches_});
    next_launch_ps_ += 20;
    at_[device] += duration_ps;
  }

  World world_;
  stats::Random random_;
  uint64_t launches_ = 0;
  int64_t next_launch_ps_ = 0;
  std::vector<int64_t> at_, launch_at_;
};

BriefReport BriefOf(const std::string& bytes, const std::string& name = "t.pb") {
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, name, {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  auto report = FindBrief(*trace, {}, reading);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

BriefReport BriefOf(World* world) { return BriefOf(WorldTrace(world).Bytes()); }

std::string Text(const BriefReport& report) {
  return *output::BriefText(report, {.findings = 100}, {.width = 200});
}

const BriefFinding* Find(const BriefReport& report, std::string_view code, size_t within = 3) {
  for (size_t i = 0; i < std::min(within, report.findings.size()); ++i) {
    if (report.findings[i].code == code) return &report.findings[i];
  }
  return nullptr;
}

// ---- planted faults ----------------------------------------------------------------------------

constexpr uint64_t kSeeds = 24;

// Makes `plant` some world of a seed, whose fault must be found, and its amount within `tolerance`
// of itself (0: nobody can tell).
template <typename Plant>
void ExpectFound(std::string_view code, double tolerance, Plant plant) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    stats::Random random(seed);
    World world = {.seed = seed};
    world.steps += static_cast<int>(random.Below(30));
    world.kernels += static_cast<int>(random.Below(8));
    plant(&world, &random);
    const BriefReport report = BriefOf(&world);
    const BriefFinding* const found = Find(report, code);
    ASSERT_NE(found, nullptr) << code << ", seed " << seed << "\n" << Text(report);
    if (tolerance == 0) {
      EXPECT_EQ(found->recoverable_ps, std::nullopt);
      continue;
    }
    EXPECT_NEAR(static_cast<double>(found->recoverable_ps.value_or(0)),
                static_cast<double>(world.planted_ps),
                tolerance * static_cast<double>(world.planted_ps))
        << code << ", seed " << seed << "\n"
        << Text(report);
  }
}

int64_t Some(stats::Random* random, int64_t least_us, int64_t most_us) {
  return kUs * (least_us +
                static_cast<int64_t>(random->Below(static_cast<uint64_t>(most_us - least_us))));
}

TEST(BriefRecall, HostBoundLoop) {
  ExpectFound("host_bound", 0.05, [](World* world, stats::Random* random) {
    world->host_gap_ps = Some(random, 30, 300);
  });
}

TEST(BriefRecall, GapsBetweenLaunchAndStart) {
  ExpectFound("launch_gap", 0.05, [](World* world, stats::Random* random) {
    world->launch_gap_ps = Some(random, 3, 20);
  });
}

TEST(BriefRecall, ExposedCollective) {
  ExpectFound("exposed_collective", 0.05, [](World* world, stats::Random* random) {
    world->devices = 1 + random->Below(4);
    world->noise = 0;  // nobody waits
    world->collective_ps = Some(random, 20, 200);
    world->planted_ps = static_cast<int64_t>(world->devices) * world->steps * world->collective_ps;
  });
}

TEST(BriefRecall, CopyInTheLoop) {
  ExpectFound("exposed_copy", 0.01,
              [](World* world, stats::Random* random) { world->copy_ps = Some(random, 10, 100); });
}

TEST(BriefRecall, KernelFarBelowItsRoof) {
  ExpectFound("below_roof", 0.05, [](World* world, stats::Random* random) {
    world->of_roof = 0.05 + 0.45 * random->Uniform();
    world->planted_ps =
        static_cast<int64_t>(world->steps * world->kernels * kRoofPs * (1 / world->of_roof - 1));
  });
}

TEST(BriefRecall, Recompilation) {
  ExpectFound("recompilation", 0.05, [](World* world, stats::Random* random) {
    world->compile_ps = Some(random, 50, 500);
  });
}

TEST(BriefRecall, OneSlowDevice) {
  ExpectFound("slow_device", 0.15, [](World* world, stats::Random* random) {
    world->devices = 3 + random->Below(4);
    world->slow_device = 1.1 + 0.4 * random->Uniform();
    world->collective_ps = kUs / 10;
    // Its own time, and the others wait as long.
    const double usual_ps = kRoofPs / world->of_roof;
    world->planted_ps =
        static_cast<int64_t>(static_cast<double>(world->devices - 1) * (world->slow_device - 1) *
                             usual_ps * world->steps * world->kernels);
  });
}

TEST(BriefRecall, ThrottlingForGood) {
  ExpectFound("slowing_down", 0.1, [](World* world, stats::Random* random) {
    world->slow_runs = 1.1 + 0.4 * random->Uniform();
    world->slow_from = 12 + static_cast<int>(random->Below(8));
    world->slow_to = world->steps;
  });
}

TEST(BriefRecall, ThrottlingForAWhile) {
  ExpectFound("slowing_down", 0.1, [](World* world, stats::Random* random) {
    world->slow_runs = 1.15 + 0.4 * random->Uniform();
    world->slow_from = 8;
    world->slow_to = 18 + static_cast<int>(random->Below(4));
  });
}

TEST(Brief, AClockThatIsLoweredSlowsAllKernelsAlike) {
  World world = {.slow_from = 15, .slow_to = 30, .slow_runs = 1.3};
  BriefReport report = BriefOf(&world);
  ASSERT_NE(Find(report, "slowing_down"), nullptr) << Text(report);
  EXPECT_EQ(
      Find(report, "slowing_down")->what,
      "throttling: jit_f got 30 % slower from run 15 on, all kernels alike, as when the clock "
      "drops");
  EXPECT_THAT(Find(report, "slowing_down")->evidence, HasSubstr("all 2 kernels got slower, by"));
  world.slow_runs = 2;
  world.slow_in_one = true;
  report = BriefOf(&world);
  ASSERT_NE(Find(report, "slowing_down"), nullptr) << Text(report);
  EXPECT_THAT(Find(report, "slowing_down")->what, HasSubstr("slowing down: jit_f got"));
  EXPECT_THAT(Find(report, "slowing_down")->evidence, HasSubstr("mostly other.1"));
}

TEST(BriefRecall, ASuspectRun) {
  ExpectFound("suspect_runs", 0, [](World* world, stats::Random* random) {
    world->short_run = static_cast<int>(random->Below(30));
  });
}

TEST(Brief, WithoutAHostNobodyCanTellWhetherProgramsWereCompiled) {
  TraceBuilder t;
  for (int64_t i = 0; i < 8; ++i) {
    t.Gpu(0).Stream(1).Kernel({.name = "k",
                               .start_ps = i * kUs,
                               .duration_ps = kUs,
                               .hlo_module = "jit_f",
                               .program_id = 1 + i,
                               .hlo_op = "k.1"});
  }
  const BriefReport report = BriefOf(t.Bytes());
  const BriefFinding* const found = Find(report, "recompilation");
  ASSERT_NE(found, nullptr) << Text(report);
  EXPECT_EQ(found->recoverable_ps, std::nullopt);
  EXPECT_THAT(found->evidence, HasSubstr("8 programs in 8 runs"));
  t.Host().Thread("python").Event({.name = "work", .duration_ps = kUs});
  EXPECT_EQ(Find(BriefOf(t.Bytes()), "recompilation"), nullptr);  // it would be there
}

TEST(Brief, OfTwoDevicesNobodyCanTellWhichIsSlow) {
  World world = {.devices = 2, .collective_ps = kUs / 10, .slow_device = 1.3};
  const BriefReport report = BriefOf(&world);
  const BriefFinding* const found = Find(report, "slow_device", 10);
  ASSERT_NE(found, nullptr) << Text(report);
  EXPECT_EQ(found->certainty, Certainty::kCannotTell);
  EXPECT_EQ(found->recoverable_ps, std::nullopt);
  EXPECT_NE(Find(report, "exposed_collective"), nullptr);
}

TEST(Brief, WhatOthersWaitForASlowDeviceIsCountedOnce) {
  World world = {.devices = 4, .slow_device = 1.3};
  world.collective_ps = 10 * kUs;
  const BriefReport report = BriefOf(&world);
  const BriefFinding* const slow = Find(report, "slow_device");
  ASSERT_NE(slow, nullptr) << Text(report);
  EXPECT_EQ(slow->parts.size(), 4u);
  const BriefFinding* const collective = Find(report, "exposed_collective");
  ASSERT_NE(collective, nullptr) << Text(report);
  // The collectives themselves, and the noise of three devices.
  const auto planted = static_cast<double>(4 * world.steps * world.collective_ps);
  EXPECT_NEAR(static_cast<double>(*collective->recoverable_ps), planted, 0.15 * planted)
      << Text(report);
}

// ---- nothing to find ---------------------------------------------------------------------------

TEST(BriefFalseAlarms, CleanTracesHaveNoFinding) {
  int wrong = 0;
  constexpr int kTraces = 300;
  for (uint64_t seed = 0; seed < kTraces; ++seed) {
    stats::Random random(seed);
    World world = {.seed = seed + 1000};
    world.devices = seed % 3 == 0 ? 4 : 1;
    world.steps = 12 + static_cast<int>(random.Below(40));
    world.noise = 0.3 * random.Uniform();
    world.of_roof = 0.65 + 0.3 * random.Uniform();
    const BriefReport report = BriefOf(&world);
    EXPECT_EQ(report.findings.empty(), report.recoverable_ps == 0);
    wrong += report.findings.empty() ? 0 : 1;
    if (!report.findings.empty()) std::cerr << Text(report);
  }
  EXPECT_LE(wrong, 8);  // 3 are to be expected at 1 %
}

TEST(Brief, NothingToFindIsOneSentence) {
  World world = {.seed = 5};
  const std::string text = Text(BriefOf(&world));
  EXPECT_THAT(text, HasSubstr("device-bound: the device is busy"));
  EXPECT_THAT(text, HasSubstr("; no finding could save 1 % of it\n"));
  EXPECT_EQ(text.find("see: "), text.npos);
}

// ---- disjoint ----------------------------------------------------------------------------------

std::string RandomTrace(uint32_t seed) {
  Random random(seed);
  TraceBuilder t;
  AddProgram(DotProgram(), &t);
  const char* const kernels[] = {"gemm_kernel", "ncclDevKernel_AllReduce", "MemcpyD2H", "memset"};
  const char* const ops[] = {"dot.1", "all-reduce.1", "", ""};
  uint64_t launches = 0;
  const int64_t devices = 1 + random.Below(4);
  for (int64_t device = 0; device < devices; ++device) {
    TellPeaks({.bytes_per_s = kBytesPerS}, t.Gpu(device));
    for (int64_t stream = 1; stream <= 1 + random.Below(3); ++stream) {
      for (int64_t i = random.Below(25); i > 0; --i) {
        const auto which = static_cast<size_t>(random.Below(4));
        const int64_t start_ps = random.Below(1000) * kUs;
        KernelSpec kernel = {.name = kernels[which],
                             .start_ps = start_ps,
                             .duration_ps = random.Below(60) * kUs,
                             .hlo_op = ops[which],
                             .correlation_id = ++launches};
        if (which < 2) kernel.hlo_module = "jit_f", kernel.program_id = 1 + random.Below(2);
        t.Gpu(device).Stream(stream).Kernel(kernel);
        if (random.OneIn(3)) continue;
        t.Host().Thread("python").Launch(
            {.start_ps = std::max<int64_t>(0, start_ps - random.Below(100) * kUs),
             .correlation_id = launches});
      }
    }
    t.Gpu(device).Stream(1).Kernel({.name = "k", .start_ps = 5, .duration_ps = 1});
  }
  for (int64_t i = random.Below(5); i > 0; --i) {
    t.Host()
        .Thread("compiler")
        .Event({.name = "backend_compile",
                .start_ps = random.Below(1000) * kUs,
                .duration_ps = random.Below(200) * kUs});
  }
  return t.Bytes();
}

// The class of the partition that a finding takes its time from.
int64_t ClassPs(std::string_view code, const TimeParts& time) {
  if (code == "exposed_collective") return *time.collective_exposed_ps;
  if (code == "exposed_copy") return *time.copy_exposed_ps;
  if (code == "host_bound") return time.idle_host_ps.value_or(0);
  if (code == "launch_gap") return time.idle_launch_ps.value_or(0);
  if (code == "idle") return *time.idle_unknown_ps;
  if (code == "below_roof" || code == "slowing_down") return *time.compute_ps;
  if (code == "recompilation") return *time.idle_ps;
  return *time.span_ps;
}

TEST(Brief, FindingsAreDisjointAndWithinTheirClass) {
  size_t findings = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const std::string bytes = RandomTrace(seed);
    Diagnostics reading;
    const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
    ASSERT_TRUE(trace.ok());
    const auto where = FindWhere(*trace, {}, reading);
    const auto report = FindBrief(*trace, {}, reading);
    ASSERT_TRUE(report.ok() && where.ok());
    ASSERT_EQ(report->devices.size(), where->devices.size());
    int64_t all_ps = 0;
    for (size_t i = 0; i < report->devices.size(); ++i) {
      const BriefDevice& device = report->devices[i];
      ASSERT_LE(device.recoverable_ps, device.span_ps) << seed;
      int64_t of_device_ps = 0, idle_ps = 0, compute_ps = 0;
      for (const BriefFinding& finding : report->findings) {
        for (const BriefPart& part : finding.parts) {
          if (part.device.plane != device.device.plane) continue;
          ASSERT_LE(part.recoverable_ps, ClassPs(finding.code, where->devices[i].time)) << seed;
          of_device_ps += part.recoverable_ps;
          const std::string_view code = finding.code;
          if (code == "host_bound" || code == "launch_gap" || code == "idle" ||
              code == "recompilation") {
            idle_ps += part.recoverable_ps;
          }
          if (code == "below_roof" || code == "slowing_down") compute_ps += part.recoverable_ps;
          ++findings;
        }
      }
      ASSERT_EQ(of_device_ps, device.recoverable_ps) << seed;
      ASSERT_LE(idle_ps, *where->devices[i].time.idle_ps) << seed;
      ASSERT_LE(compute_ps, *where->devices[i].time.compute_ps) << seed;
      all_ps += of_device_ps;
    }
    ASSERT_EQ(all_ps, report->recoverable_ps) << seed;
  }
  EXPECT_GT(findings, 100u);
}

// All faults at once, of which several take compute, collectives or idle time.
TEST(Brief, FindingsOfManyFaultsAreDisjointToo) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    stats::Random random(seed);
    const auto maybe = [&](int64_t ps) { return random.Below(2) == 0 ? 0 : ps; };
    World world = {.seed = seed, .devices = 1 + random.Below(5), .of_roof = 0.3};
    world.host_gap_ps = maybe(40 * kUs);
    world.launch_gap_ps = maybe(5 * kUs);
    world.collective_ps = maybe(20 * kUs);
    world.copy_ps = maybe(20 * kUs);
    world.compile_ps = maybe(100 * kUs);
    world.slow_device = random.Below(2) == 0 ? 1 : 1.4;
    world.slow_from = 15, world.slow_to = 30;
    world.slow_runs = random.Below(2) == 0 ? 1 : 1.3;
    const std::string bytes = WorldTrace(&world).Bytes();
    Diagnostics reading;
    const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
    ASSERT_TRUE(trace.ok());
    const auto where = FindWhere(*trace, {}, reading);
    const auto report = FindBrief(*trace, {}, reading);
    ASSERT_TRUE(report.ok() && where.ok());
    for (const WhereDevice& device : where->devices) {
      int64_t compute_ps = 0, collective_ps = 0;
      for (const BriefFinding& finding : report->findings) {
        for (const BriefPart& part : finding.parts) {
          if (part.device.plane != device.device.plane) continue;
          const std::string_view code = finding.code;
          const bool waits = code == "slow_device" && finding.device->plane != part.device.plane;
          if (code == "exposed_collective" || waits) {
            collective_ps += part.recoverable_ps;
          } else if (code == "below_roof" || code == "slowing_down" || code == "slow_device") {
            compute_ps += part.recoverable_ps;
          }
        }
      }
      EXPECT_LE(compute_ps, *device.time.compute_ps) << seed << "\n" << Text(*report);
      EXPECT_LE(collective_ps, *device.time.collective_exposed_ps) << seed << "\n" << Text(*report);
    }
    ASSERT_LE(report->recoverable_ps, report->span_ps);
  }
}

// ---- text --------------------------------------------------------------------------------------

TEST(Brief, NoTextIsLargerThanAllowedNorCutsAFinding) {
  World world = {.devices = 4, .slow_device = 1.3};
  world.collective_ps = 10 * kUs;
  world.host_gap_ps = 30 * kUs;
  world.launch_gap_ps = 3 * kUs;
  world.of_roof = 0.4;
  const BriefReport report = BriefOf(WorldTrace(&world).Bytes(),
                                     "tr\xc3\xa4"
                                     "ce with a 'name'.pb");
  ASSERT_GE(report.findings.size(), 4u);
  std::vector<std::string> whole;  // by findings shown
  for (size_t n = 0; n <= report.findings.size(); ++n) {
    whole.push_back(output::Render(
        output::BriefOutput(report, n, {}, /*by_bytes=*/false, /*with_ops=*/false), {}));
  }
  whole.push_back(*output::BriefText(report, {.findings = 100}, {}));
  for (size_t bytes = output::kLeastBriefBytes; bytes < whole.back().size() + 10; ++bytes) {
    const auto text = output::BriefText(report, {.findings = 100, .bytes = bytes}, {});
    ASSERT_TRUE(text.ok());
    ASSERT_LE(text->size(), bytes);
    std::string like = *text;
    const std::string by_bytes = ": more --bytes",
                      by_limit = ": --limit " + std::to_string(report.findings.size());
    if (const size_t at = like.find(by_bytes); at != std::string::npos) {
      like.replace(at, by_bytes.size(), by_limit);
    }
    if (std::ranges::count(whole, like) == 1) continue;
    // Less than the output without findings: the headline remains.
    ASSERT_LT(bytes, whole[0].size() + by_bytes.size());
    if (bytes <= report.headline.size()) {
      EXPECT_TRUE(report.headline.starts_with(text->substr(0, text->find("..."))));
      EXPECT_GT(text->size(), bytes / 2);
    } else {
      EXPECT_TRUE(text->starts_with(report.headline + "\n"));
    }
  }
  const auto data = output::BriefText(report, {.bytes = 100}, {.format = output::Format::kJson});
  EXPECT_TRUE(absl::IsInvalidArgument(data.status()));
  for (size_t bytes = 2500; bytes < 6000; bytes += 7) {
    const auto json =
        output::BriefText(report, {.bytes = bytes}, {.format = output::Format::kJson});
    ASSERT_TRUE(!json.ok() || json->size() <= bytes);
  }
}

TEST(Brief, CommandsAreForAShell) {
  World world = {.host_gap_ps = 100 * kUs};
  const std::string bytes = WorldTrace(&world).Bytes();
  EXPECT_EQ(BriefOf(bytes, "a.pb").findings[0].command, "xplane-time where a.pb");
  EXPECT_EQ(BriefOf(bytes, "it's a.pb").findings[0].command, R"(xplane-time where 'it'\''s a.pb')");
  EXPECT_EQ(BriefOf(bytes, "a\n'b.pb").findings[0].command, R"(xplane-time where $'a\x0a\'b.pb')");
}

}  // namespace
}  // namespace xplane_time::testing
