// Tests how the kernels of a GPU program are split into runs: by evidence of the host, or otherwise
// by the period of their sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_builder.h"
#include "tests/timing/report_of.h"

namespace xplane_time::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Field;

// The kernels of a run as "hlo_op/kernel", or "op" if both names are equal. A "-" before the name
// means that the annotation was lost.
using RunOfKernels = std::vector<std::string>;

enum class Evidence { kNone, kSameLine, kOtherLine, kScope };
constexpr Evidence kEveryEvidence[] = {Evidence::kNone, Evidence::kSameLine, Evidence::kOtherLine,
                                       Evidence::kScope};

// Writes consecutive runs of jit_f: a kernel of 7 ps every 10 ps on alternating streams, with 1000
// ps from the start of a run to the next.
class RunsTrace {
 public:
  explicit RunsTrace(Evidence evidence) : evidence_(evidence) {}

  void Add(const RunOfKernels& kernels) {
    const int64_t start_ps = 1000 * (1 + runs_++);
    int64_t at_ps = start_ps;
    const bool on_host = evidence_ == Evidence::kSameLine || evidence_ == Evidence::kOtherLine;
    if (on_host) t_.Host().Thread("python").ModuleExecution("jit_f", start_ps - 500, 400);
    for (std::string kernel : kernels) {
      AddKernel(kernel, at_ps, on_host);
      at_ps += 10;
    }
  }

  Report Build() { return ReportOf(t_); }
  TraceBuilder& trace() { return t_; }

 private:
  void AddKernel(std::string kernel, int64_t at_ps, bool on_host) {
    const uint64_t id = ++correlation_id_;
    const bool lost = kernel.starts_with("-");
    if (lost) kernel.erase(0, 1);
    const size_t slash = kernel.find('/');
    KernelSpec spec{.name = slash == std::string::npos ? kernel : kernel.substr(slash + 1),
                    .start_ps = at_ps,
                    .duration_ps = 7,
                    .correlation_id = id};
    if (!lost) {
      spec.hlo_module = "jit_f";
      spec.program_id = 3;
      spec.hlo_op = kernel.substr(0, slash);
      // The scope of the module is the root. Each kernel has a scope below it.
      if (evidence_ == Evidence::kScope) {
        spec.scope_range_id = 1000 * runs_ + static_cast<int64_t>(id);
        t_.ScopeParent(spec.scope_range_id, runs_);
      }
    }
    t_.Gpu(0).Stream(16 + static_cast<int64_t>(id % 2)).Kernel(spec);
    if (!on_host) return;
    t_.Host()
        .Thread(evidence_ == Evidence::kSameLine ? "python" : "Host Threads/1")
        .Launch({.start_ps = at_ps - 450, .duration_ps = 2, .correlation_id = id});
  }

  Evidence evidence_;
  TraceBuilder t_;
  int64_t runs_ = 0;
  uint64_t correlation_id_ = 0;
};

std::string NameOf(Evidence evidence) {
  constexpr const char* kNames[] = {"no evidence", "same line", "other line", "scope"};
  return kNames[static_cast<size_t>(evidence)];
}

struct SplitCase {
  const char* name;
  std::vector<RunOfKernels> runs;
};

// Runs that every way of splitting must find.
const SplitCase kFoundByAll[] = {
    {"one kernel a run", {{"a"}, {"a"}, {"a"}}},
    {"single run, nothing repeats", {{"a", "b", "c"}}},
    {"complete runs", {{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}}},
    {"one hlo_op emits two kernels, first in the program",
     {{"dot/k1", "dot/k2", "add"}, {"dot/k1", "dot/k2", "add"}, {"dot/k1", "dot/k2", "add"}}},
    {"one kernel emitted by two ops", {{"a/k", "b/k"}, {"a/k", "b/k"}, {"a/k", "b/k"}}},
    {"a loop inside", {{"a", "b", "b", "b"}, {"a", "b", "b", "b"}, {"a", "b", "b", "b"}}},
    {"the first op comes again in the run",
     {{"a", "b", "a", "c"}, {"a", "b", "a", "c"}, {"a", "b", "a", "c"}}},
    {"streams swap neighbours",
     {{"a", "b", "c", "d"},
      {"a", "c", "b", "d"},
      {"a", "b", "c", "d"},
      {"b", "a", "c", "d"},
      {"a", "b", "d", "c"},
      {"a", "b", "c", "d"}}},
    {"the last run is cut short",
     {{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}, {"a"}}},
};

TEST(GpuRuns, FoundByEveryWay) {
  for (const SplitCase& test : kFoundByAll) {
    for (Evidence evidence : kEveryEvidence) {
      SCOPED_TRACE(std::string(test.name) + ", " + NameOf(evidence));
      RunsTrace t(evidence);
      std::vector<uint64_t> counts;
      std::vector<int64_t> active, span;
      for (const RunOfKernels& run : test.runs) {
        t.Add(run);
        const auto n = static_cast<int64_t>(run.size());
        counts.push_back(run.size());
        active.push_back(7 * n);
        span.push_back(10 * n - 3);
      }
      const Report report = t.Build();
      EXPECT_THAT(KernelCounts(report, "jit_f"), ElementsAreArray(counts));
      EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAreArray(active));
      EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAreArray(span));
      EXPECT_EQ(TheFunction(report, "jit_f").status, RowStatus::kOk);
    }
  }
}

// The runs of these programs differ, so only evidence can split them.
const SplitCase kFoundByEvidence[] = {
    {"a loop of one kernel", {{"a", "a", "a"}, {"a", "a", "a"}}},
    {"varying trip counts",
     {{"a", "b", "b"}, {"a", "b"}, {"a", "b", "b", "b"}, {"a", "b", "b"}, {"a", "b"}}},
    {"a conditional with 3 or 4 ops",
     {{"a", "b", "c"},
      {"a", "b", "x", "c"},
      {"a", "b", "c"},
      {"a", "b", "x", "c"},
      {"a", "b", "x", "c"},
      {"a", "b", "c"}}},
};

TEST(GpuRuns, VaryingProgramsAreNotSuspect) {
  for (const SplitCase& test : kFoundByEvidence) {
    for (Evidence evidence : {Evidence::kSameLine, Evidence::kOtherLine, Evidence::kScope}) {
      SCOPED_TRACE(std::string(test.name) + ", " + NameOf(evidence));
      RunsTrace t(evidence);
      std::vector<uint64_t> counts;
      for (const RunOfKernels& run : test.runs) {
        t.Add(run);
        counts.push_back(run.size());
      }
      const Report report = t.Build();
      EXPECT_THAT(KernelCounts(report, "jit_f"), ElementsAreArray(counts));
      EXPECT_EQ(TheFunction(report, "jit_f").suspect_runs, 0u);
      EXPECT_EQ(TheFunction(report, "jit_f").active_ps.value().n, test.runs.size());
    }
  }
}

// One of five runs of jit_f lacks two kernels.
void ExpectSuspectRun(const RunOfKernels& complete, size_t damaged_run, size_t x, size_t y,
                      Evidence evidence) {
  SCOPED_TRACE(NameOf(evidence) + ", run " + std::to_string(damaged_run) + " without " +
               complete[x] + complete[y]);
  RunsTrace t(evidence);
  for (size_t run = 0; run < 5; ++run) {
    RunOfKernels kernels = complete;
    if (run == damaged_run) kernels[x] = "-" + kernels[x];
    if (run == damaged_run) kernels[y] = "-" + kernels[y];
    t.Add(kernels);
  }
  const Report report = t.Build();
  const FunctionRow row = TheFunction(report, "jit_f");
  EXPECT_EQ(row.runs, 5u);
  EXPECT_EQ(row.suspect_runs, 1u);
  EXPECT_EQ(row.kernels_total, 23u);
  EXPECT_EQ(row.kernels_per_run, 5.0);
  EXPECT_EQ(row.active_ps.value().n, 4u);
  EXPECT_EQ(row.active_ps.value().min, 35);
  EXPECT_EQ(row.span_ps.value().max, 47);
  std::vector<uint64_t> counts(5, 5);
  counts[damaged_run] = 3;
  EXPECT_THAT(KernelCounts(report, "jit_f"), ElementsAreArray(counts));
  EXPECT_EQ(DiagnosticCount(report, "suspect_run"), 1u);
}

// In a recorded trace, one of 5 runs had only 3 of its 5 kernels. The trace contained the other
// two, but without their hlo_module.
TEST(GpuRuns, SuspectRunWhicheverKernelsAreLost) {
  for (Evidence evidence : kEveryEvidence) {
    for (size_t damaged_run = 0; damaged_run < 5; ++damaged_run) {
      for (size_t x = 0; x < 5; ++x) {
        for (size_t y = x + 1; y < 5; ++y) {
          ExpectSuspectRun({"a", "b", "c", "d", "e"}, damaged_run, x, y, evidence);
        }
      }
    }
  }
}

// A run lacks a kernel, and the program repeats an op. The repetition within a run must not be
// taken for a repetition of runs.
TEST(GpuRuns, LostKernelOfAProgramWithALoop) {
  const RunOfKernels programs[] = {
      {"a", "b", "b", "c"}, {"a", "a", "b", "c"}, {"a", "b", "c", "b"}, {"a", "b", "c", "c"}};
  for (const RunOfKernels& program : programs) {
    for (Evidence evidence : kEveryEvidence) {
      for (size_t lost = 0; lost < program.size(); ++lost) {
        SCOPED_TRACE(program[0] + program[1] + program[2] + program[3] + " without kernel " +
                     std::to_string(lost) + ", " + NameOf(evidence));
        RunsTrace t(evidence);
        for (size_t run = 0; run < 6; ++run) {
          RunOfKernels kernels = program;
          if (run == 3) kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(lost));
          t.Add(kernels);
        }
        const Report report = t.Build();
        EXPECT_THAT(KernelCounts(report, "jit_f"), ElementsAre(4, 4, 4, 3, 4, 4));
        EXPECT_EQ(TheFunction(report, "jit_f").suspect_runs, 1u);
      }
    }
  }
}

TEST(GpuRuns, LostKernelsInsideARunAreDiagnosed) {
  RunsTrace t(Evidence::kSameLine);
  for (int run = 0; run < 4; ++run) t.Add({"a", "b", "c"});
  t.Add({"a", "-b", "c"});
  const Report report = t.Build();
  EXPECT_EQ(DiagnosticCount(report, "kernel_without_function"), 1u);
  EXPECT_EQ(TheFunction(report, "jit_f").suspect_runs, 1u);
}

// A run is suspect if its kernels are a strict subset of the mode, which has at least 3/4 of at
// least 4 runs.
TEST(GpuRuns, SuspectsNeedAMode) {
  struct {
    const char* name;
    int complete, partial, other;
    uint64_t suspects;
  } const cases[] = {
      {"3 of 4", 3, 1, 0, 1},     {"3 runs in all", 2, 1, 0, 0}, {"2 of 4", 2, 2, 0, 0},
      {"6 of 8", 6, 2, 0, 2},     {"5 of 7", 5, 2, 0, 0},        {"not a subset", 4, 0, 1, 0},
      {"both kinds", 6, 1, 1, 1},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    RunsTrace t(Evidence::kOtherLine);
    for (int i = 0; i < test.complete; ++i) t.Add({"a", "b", "c"});
    for (int i = 0; i < test.partial; ++i) t.Add({"a", "c"});
    for (int i = 0; i < test.other; ++i) t.Add({"a", "x"});
    const FunctionRow row = TheFunction(t.Build(), "jit_f");
    EXPECT_EQ(row.suspect_runs, test.suspects);
    EXPECT_EQ(row.runs, static_cast<uint64_t>(test.complete + test.partial + test.other));
  }
}

// The number of host executions is a cross-check. Six equal kernels look like six runs, but the
// host executed the module twice.
TEST(GpuRuns, UncertainWhereTheHostDisagreesWithThePeriod) {
  RunsTrace t(Evidence::kNone);
  for (int i = 0; i < 6; ++i) t.Add({"a"});
  t.trace()
      .Host()
      .Thread("python")
      .ModuleExecution("jit_f", 100, 50)
      .ModuleExecution("jit_f", 200, 50);
  const Report report = t.Build();
  EXPECT_EQ(TheFunction(report, "jit_f").status, RowStatus::kRunsUncertain);
  EXPECT_EQ(DiagnosticCount(report, "runs_uncertain"), 1u);
}

// Three runs of a b c on two streams, without scopes and without launches on the host. If kernels
// swap, the correlation ids show the order of the launches.
TEST(GpuRuns, TwoStreamsWithoutEvidence) {
  constexpr int64_t kUs = 1'000'000;
  const struct {
    const char* name;
    std::vector<std::string> kernels;
    std::vector<uint64_t> launches;  // launches 1 to 9 are a b c a b c a b c
    std::vector<int64_t> starts_us;
    RowStatus status;
  } cases[] = {
      {"apart",
       {"a", "c", "b", "b", "a", "c", "a", "b", "c"},
       {1, 3, 2, 5, 4, 6, 7, 8, 9},
       {0, 1, 2, 30, 31, 32, 70, 71, 72},
       RowStatus::kOk},
      {"not apart",
       {"a", "c", "b", "b", "a", "c", "a", "b", "c"},
       {1, 3, 2, 5, 4, 6, 7, 8, 9},
       {0, 2, 4, 6, 8, 10, 12, 14, 16},
       RowStatus::kRunsUncertain},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    TraceBuilder t;
    for (size_t i = 0; i < test.kernels.size(); ++i) {
      t.Gpu(0)
          .Stream(16 + static_cast<int64_t>(i % 2))
          .Kernel({.name = test.kernels[i],
                   .start_ps = test.starts_us[i] * kUs,
                   .duration_ps = kUs,
                   .hlo_module = "jit_f",
                   .program_id = 1,
                   .hlo_op = test.kernels[i],
                   .correlation_id = test.launches[i]});
    }
    const Report report = ReportOf(t);
    EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(3 * kUs, 3 * kUs, 3 * kUs));
    EXPECT_EQ(TheFunction(report, "jit_f").status, test.status);
  }
}

TEST(GpuRuns, CopiesOfAModuleAreKernelsOfItsRuns) {
  TraceBuilder t;
  for (int64_t run = 0; run < 3; ++run) {
    t.Gpu(0).Stream(16).Kernel({.name = "k",
                                .start_ps = 100 * run,
                                .duration_ps = 10,
                                .hlo_module = "jit_f",
                                .program_id = 1,
                                .hlo_op = "dot"});
    t.Gpu(0)
        .Stream(17, "MemcpyD2D")
        .Kernel({.name = "MemcpyD2D",
                 .start_ps = 100 * run + 20,
                 .duration_ps = 5,
                 .hlo_module = "jit_f",
                 .program_id = 1,
                 .hlo_op = "copy.1",
                 .stats = {{.name = "memcpy_details", .value = "kind:DtoD size:4"}}});
    t.Gpu(0)
        .Stream(17, "MemcpyD2D")
        .Kernel({.name = "MemcpyH2D", .start_ps = 100 * run + 30, .duration_ps = 4});
  }
  const Report report = ReportOf(t);
  EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(15, 15, 15));
  EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(25, 25, 25));
  EXPECT_EQ(TheKernel(report, "MemcpyD2D").category, Category::kCopy);
  EXPECT_EQ(TheKernel(report, "MemcpyD2D").function, "jit_f");
  EXPECT_EQ(TheKernel(report, "MemcpyH2D").function, std::nullopt);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").executions, 9u);
}

// Many programs have a kernel with the same name. Each program is counted separately.
TEST(GpuRuns, ProgramsOfOneModuleAreKeptApart) {
  TraceBuilder t;
  for (int64_t i = 0; i < 6; ++i) {
    t.Gpu(0).Stream(1).Kernel({.name = "loop_convert_fusion.kd",
                               .start_ps = 10 * i,
                               .duration_ps = 1 + i % 2,
                               .hlo_module = "jit_f",
                               .program_id = i % 2,
                               .hlo_op = "convert"});
  }
  const Report report = ReportOf(t);
  EXPECT_EQ(FunctionsNamed(report, "jit_f").size(), 2u);
  EXPECT_THAT(report.kernels, Each(Field(&KernelRow::count, 3u)));
  EXPECT_EQ(report.kernels.size(), 2u);
}

// Two runs overlap on the device. Only the host events separate them.
TEST(GpuRuns, OverlappingRunsByCorrelation) {
  TraceBuilder t;
  auto python = t.Host().Thread("python");
  for (uint64_t run : {0, 1}) {
    const auto at_ps = static_cast<int64_t>(10 * run);
    python.ModuleExecution("jit_f", at_ps, 8);
    for (uint64_t kernel : {0, 1}) {
      const uint64_t id = 1 + 2 * run + kernel;
      python.Launch({.start_ps = at_ps + 1 + static_cast<int64_t>(kernel),
                     .duration_ps = 1,
                     .correlation_id = id});
      t.Gpu(0)
          .Stream(static_cast<int64_t>(run))
          .Kernel({.name = "k" + std::to_string(kernel),
                   .start_ps = 100 + static_cast<int64_t>(5 * run + 20 * kernel),
                   .duration_ps = 10,
                   .hlo_module = "jit_f",
                   .program_id = 1,
                   .hlo_op = "op" + std::to_string(kernel),
                   .correlation_id = id});
    }
  }
  const Report report = ReportOf(t);
  EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(20, 20));
  EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(30, 30));
}

// Launches share ids, as in a trace that contains the same span several times. Each launch follows
// the kernels of the previous launch, or precedes them in the second case.
TEST(GpuRuns, LaunchesThatShareIds) {
  for (const bool take_turns : {true, false}) {
    TraceBuilder t;
    auto python = t.Host().Thread("python");
    for (int64_t run = 0; run < 4; ++run) {
      const bool late = run == 2 && !take_turns;
      python.ModuleExecution("jit_f", 1000 * run, 100);
      python.Launch({.start_ps = 1000 * run + 1, .duration_ps = 1, .correlation_id = 5});
      t.Gpu(0).Stream(1).Kernel({.name = "a",
                                 .start_ps = 1000 * run + (late ? 1500 : 200),
                                 .duration_ps = 5 + run,
                                 .hlo_module = "jit_f",
                                 .program_id = 1,
                                 .hlo_op = "a",
                                 .correlation_id = 5});
    }
    const Report report = ReportOf(t);
    if (take_turns) {
      EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(5, 6, 7, 8));
      EXPECT_EQ(TheFunction(report, "jit_f").status, RowStatus::kOk);
    } else {
      EXPECT_EQ(TheFunction(report, "jit_f").kernels_total, 4u);
      EXPECT_EQ(ActivePs(report, "jit_f").size(), 4u);  // the number of executions on the host
    }
  }
}

// A module execution on the same line as the launch takes precedence over one on another line that
// also contains the launch.
TEST(GpuRuns, TheSameLineComesFirst) {
  TraceBuilder t;
  auto a = t.Host().Thread("worker/a");
  auto b = t.Host().Thread("worker/b");
  a.ModuleExecution("jit_f", 0, 100);
  b.ModuleExecution("jit_f", 0, 100);
  for (uint64_t id : {1, 2, 3, 4}) {
    (id % 2 == 0 ? a : b).Launch({.start_ps = 10 * static_cast<int64_t>(id), .correlation_id = id});
    t.Gpu(0).Stream(1).Kernel({.name = "k",
                               .start_ps = 200 + 10 * static_cast<int64_t>(id),
                               .duration_ps = static_cast<int64_t>(id),
                               .hlo_module = "jit_f",
                               .program_id = 1,
                               .hlo_op = "k" + std::to_string((id + 1) / 2),
                               .correlation_id = id});
  }
  EXPECT_THAT(ActivePs(ReportOf(t), "jit_f"), ElementsAre(1 + 3, 2 + 4));
}

// Lines with equal ids are one timeline. The module execution is in one of its pieces, and the
// launches are in another.
TEST(GpuRuns, TheSameTimelineInTwoPieces) {
  TraceBuilder t;
  for (int64_t id : {1, 2}) {
    t.Host().Line({.id = id, .name = "worker"}).ModuleExecution("jit_f", 0, 100);
  }
  for (int64_t id : {1, 2}) {
    const auto correlation_id = static_cast<uint64_t>(id);
    t.Host()
        .Line({.id = id, .name = "worker"})
        .Launch({.start_ps = 10, .correlation_id = correlation_id})
        .Launch({.start_ps = 20, .correlation_id = 10 + correlation_id});
    for (uint64_t kernel : {0, 1}) {
      t.Gpu(0).Stream(id).Kernel({.name = "k",
                                  .start_ps = 200 + id + 10 * static_cast<int64_t>(kernel),
                                  .duration_ps = 1 + id,
                                  .hlo_module = "jit_f",
                                  .program_id = 1,
                                  .hlo_op = "loop",
                                  .correlation_id = 10 * kernel + correlation_id});
    }
  }
  EXPECT_THAT(ActivePs(ReportOf(t), "jit_f"), ElementsAre(4, 6));
}

// Kernels with the same root scope, at any depth, are a run. Cyclic scopes, which exist only in
// damaged traces, belong together.
TEST(GpuRuns, RootsOfDeepAndDamagedScopes) {
  TraceBuilder t;
  for (const auto& [child, parent] : std::vector<std::pair<int64_t, int64_t>>{{111, 110},
                                                                              {110, 100},
                                                                              {112, 100},
                                                                              {211, 200},
                                                                              {31, 32},
                                                                              {32, 33},
                                                                              {33, 31},
                                                                              {34, 33}}) {
    t.ScopeParent(child, parent);
  }
  int64_t start_ps = 0;
  for (const int64_t scope : {111, 112, 100, 211, 200, 34, 31, 32}) {
    t.Gpu(0).Stream(1).Kernel({.name = "k",
                               .start_ps = start_ps,
                               .duration_ps = 5,
                               .hlo_module = "jit_f",
                               .program_id = 1,
                               .hlo_op = "k",
                               .scope_range_id = scope});
    start_ps += 10;
  }
  EXPECT_THAT(ActivePs(ReportOf(t), "jit_f"), ElementsAre(15, 10, 15));
}

}  // namespace
}  // namespace xplane_time::testing
