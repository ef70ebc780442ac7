// Tests GPU traces with several batches per line, with runs by scope, by correlation and by period.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "tests/timing/report_of.h"
#include "tests/timing/stream_check.h"

namespace xplane_time::testing {
namespace {

// The evidence that ties a kernel to its run.
struct Ties {
  bool scope = false, launch = false;
};
constexpr Ties kByScope = {.scope = true}, kByLaunch = {.launch = true}, kByPeriod = {},
               kByBoth = {.scope = true, .launch = true};

// Writes runs of programs, with consecutive kernels.
class GpuTrace {
 public:
  GpuTrace(TraceBuilder* t, int64_t streams) : t_(t), streams_(streams) {}

  // Returns the ties of a kernel, by its position in the run.
  using TiesOf = std::function<Ties(int64_t kernel)>;

  void Run(int64_t program, int64_t kernels, const TiesOf& ties_of) {
    Begin(program);
    for (int64_t kernel = 0; kernel < kernels; ++kernel) Add(run_, kernel, ties_of(kernel));
  }
  // Interleaves two runs, kernel by kernel.
  void TwoRuns(int64_t program, int64_t kernels, const TiesOf& ties_of) {
    const int64_t first = Begin(program), second = Begin(program);
    for (int64_t kernel = 0; kernel < kernels; ++kernel) {
      Add(first, kernel, ties_of(kernel));
      Add(second, kernel, ties_of(kernel));
    }
  }

  static std::string Module(int64_t program) { return "jit_f" + std::to_string(program); }

 private:
  int64_t Begin(int64_t program) {
    program_ = program;
    return ++run_;
  }

  void Add(int64_t run, int64_t kernel, const Ties& ties) {
    at_ps_ += 10;
    KernelSpec spec{.name = "k" + std::to_string(kernel % 5),
                    .start_ps = kFirstPs + at_ps_,
                    .duration_ps = 6 + kernel % 3 * 4,
                    .hlo_module = Module(program_),
                    .program_id = program_,
                    .hlo_op = "op" + std::to_string(kernel / 2)};
    if (ties.scope) {
      spec.scope_range_id = ++scope_;
      t_->ScopeParent(spec.scope_range_id, run);
    }
    if (ties.launch) AddLaunch(run, &spec);
    t_->Gpu(0).Stream(next_stream_++ % streams_).Kernel(spec);
  }

  void AddLaunch(int64_t run, KernelSpec* spec) {
    const int64_t host_ps = kFirstPs + 1000 * run;
    auto python = t_->Host().Thread("python");
    if (executed_ < run) python.ModuleExecution(spec->hlo_module, host_ps, 900);
    executed_ = std::max(executed_, run);
    spec->correlation_id = ++correlation_id_;
    python.Launch({.start_ps = host_ps + static_cast<int64_t>(correlation_id_ % 900),
                   .correlation_id = correlation_id_});
  }

  TraceBuilder* t_;
  const int64_t streams_;
  int64_t program_ = 0, run_ = 0, executed_ = 0, scope_ = 1'000'000, at_ps_ = 0, next_stream_ = 0;
  uint64_t correlation_id_ = 0;
};

TEST(StreamedGpu, RunsByEveryWay) {
  for (const Ties& ties : {kByScope, kByLaunch, kByPeriod, kByBoth}) {
    for (const int64_t streams : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << ties.scope << ties.launch << streams);
      TraceBuilder t;
      GpuTrace gpu(&t, streams);
      // Batches end at different positions of runs.
      for (int run = 0; run < 160 * streams; ++run) gpu.Run(1, 7, [&](int64_t) { return ties; });
      EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport));
      EXPECT_EQ(TheFunction(StreamReport(t), "jit_f1").runs, static_cast<size_t>(160 * streams));
    }
  }
}

TEST(StreamedGpu, RunsThatOverlap) {
  for (const Ties& ties : {kByScope, kByLaunch}) {
    TraceBuilder t;
    GpuTrace gpu(&t, 2);
    for (int run = 0; run < 110; ++run) gpu.TwoRuns(1, 13, [&](int64_t) { return ties; });
    EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport));
    EXPECT_EQ(TheFunction(StreamReport(t), "jit_f1").runs, 220u);
  }
}

// The runs are longer than a batch.
TEST(StreamedGpu, ALongRun) {
  for (const Ties& ties : {kByScope, kByLaunch, kByPeriod}) {
    TraceBuilder t;
    GpuTrace gpu(&t, 1);
    for (int run = 0; run < 2; ++run) {
      gpu.Run(1, kBatch + 400, [&](int64_t) { return ties; });
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport));
  }
}

// If only some kernels of a program have a scope, scopes are not used.
TEST(StreamedGpu, AProgramThatLosesItsTiesLate) {
  struct Case {
    const char* name;
    Ties usual, odd, usual_without_scopes, odd_without_scopes;
  };
  const Case cases[] = {
      {"the scope, launches are left", kByBoth, kByLaunch, kByLaunch, kByLaunch},
      {"the scope, nothing is left", kByScope, kByPeriod, kByPeriod, kByPeriod},
      {"the scope, and the launch", kByBoth, kByPeriod, kByLaunch, kByPeriod},
      {"the launch", kByLaunch, kByPeriod, kByLaunch, kByPeriod},
      {"other kernels have scopes than launches", kByLaunch, kByScope, kByLaunch, kByPeriod},
      {"other kernels have launches than scopes", kByScope, kByLaunch, kByPeriod, kByLaunch},
  };
  for (const Case& c : cases) {
    for (const int64_t odd_run : {0, 1, 159}) {
      for (const int64_t odd_kernel : {0, 6}) {  // not between two kernels of the same run
        SCOPED_TRACE(::testing::Message() << c.name << ", run " << odd_run << ", " << odd_kernel);
        TraceBuilder t, like;
        GpuTrace gpu(&t, 1), gpu_like(&like, 1);
        for (int64_t run = 0; run < 160; ++run) {
          const auto is_odd = [=](int64_t kernel) {
            return run == odd_run && kernel == odd_kernel;
          };
          gpu.Run(1, 7, [&](int64_t kernel) { return is_odd(kernel) ? c.odd : c.usual; });
          gpu_like.Run(1, 7, [&](int64_t kernel) {
            return is_odd(kernel) ? c.odd_without_scopes : c.usual_without_scopes;
          });
        }
        EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport, like));
      }
    }
  }
}

// The first kernel of a program has only a scope, and the second only a launch. So neither can be
// used, and the period of all kernels is searched.
TEST(StreamedGpu, TheFirstKernelHasOnlyAScopeAndTheSecondOnlyALaunch) {
  for (const int64_t runs : {2, 400}) {
    TraceBuilder t, like;
    GpuTrace gpu(&t, 1), gpu_like(&like, 1);
    for (int64_t run = 0; run < runs; ++run) {
      gpu.Run(1, 5, [](int64_t kernel) { return kernel == 0 ? kByScope : kByLaunch; });
      gpu_like.Run(1, 5, [](int64_t kernel) { return kernel == 0 ? kByPeriod : kByLaunch; });
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport, like));
  }
}

TEST(StreamedGpu, ProgramsOfAllKindsAtOnce) {
  TraceBuilder t, like;
  GpuTrace gpu(&t, 3), gpu_like(&like, 3);
  for (int64_t run = 0; run < 130; ++run) {
    for (GpuTrace* each : {&gpu, &gpu_like}) {
      const bool is_like = each == &gpu_like;
      each->Run(1, 5, [](int64_t) { return kByScope; });
      each->Run(2, 4, [](int64_t) { return kByLaunch; });
      each->Run(3, 6, [](int64_t) { return kByPeriod; });
      // This program loses a launch late, and the next one a scope.
      each->Run(4, 5, [&](int64_t k) { return run == 100 && k == 0 ? kByPeriod : kByLaunch; });
      each->Run(5, 3, [&](int64_t k) {
        return is_like || (run == 128 && k == 2) ? kByPeriod : kByScope;
      });
      if (run >= 60) each->Run(6, 2, [](int64_t) { return kByPeriod; });
    }
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport, like));
}

// A kernel without a launch between two kernels of a run belongs to it, also across chunks.
TEST(StreamedGpu, AGapInsideARunAcrossABatch) {
  for (int64_t gap = kBatch - 2; gap < kBatch + 2; ++gap) {
    TraceBuilder t, like;
    for (TraceBuilder* each : {&t, &like}) {
      GpuTrace gpu(each, 1);
      for (int64_t run = 0; run < 2; ++run) {
        gpu.Run(1, kBatch + 40, [&](int64_t kernel) {
          return each == &t && run == 0 && kernel == gap ? kByPeriod : kByLaunch;
        });
      }
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport, like));
  }
}

// One stream is much denser than the other, or ends early, or the streams follow each other.
TEST(StreamedGpu, StreamsThatHoldOtherTimes) {
  const std::function<int64_t(int64_t)> stream_of[] = {
      [](int64_t kernel) { return kernel % 500 == 0 ? 1 : 0; },
      [](int64_t kernel) { return kernel < 40 ? kernel % 2 : 1; },
      [](int64_t kernel) { return kernel < 1500 ? 1 : 0; },
      [](int64_t kernel) { return kernel < kBatch       ? 0
                                  : kernel < 2 * kBatch ? 1
                                                        : 2; },
  };
  for (const auto& stream : stream_of) {
    TraceBuilder t;
    for (int64_t i = 0; i < 3000; ++i) {
      t.Gpu(0).Stream(stream(i)).Kernel({.name = "k" + std::to_string(i % 6),
                                         .start_ps = kFirstPs + i / 2 * 10,
                                         .duration_ps = 5 + i % 4,
                                         .hlo_module = "jit_f",
                                         .program_id = 1,
                                         .hlo_op = "op",
                                         .scope_range_id = 1 + i / 6});
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowGpuReport));
  }
}

// -- Random traces -----------------------------------------------------------

// Runs overlap, lose kernels, and begin at the same time. The evidence differs between programs.
void BuildRandomGpuStream(Random* random, TraceBuilder* t) {
  struct Placed {
    int64_t stream;
    KernelSpec spec;
  };
  std::vector<Placed> kernels;
  const int64_t programs = 1 + random->Below(3), streams = 1 + random->Below(4);
  const int64_t apart_ps = 5 + random->Below(60);
  std::vector<int64_t> way, size;
  for (int64_t i = 0; i < programs; ++i) way.push_back(random->Below(2));
  for (int64_t i = 0; i < programs; ++i) size.push_back(1 + random->Below(12));
  uint64_t correlation_id = 0;
  for (int64_t run = 1; kernels.size() < 2000; ++run) {
    const int64_t program = random->Below(programs), host_ps = kFirstPs + 100 * run;
    const auto at = static_cast<size_t>(program);
    const std::string module = GpuTrace::Module(program);
    const bool by_launch = way[at] == 0;
    if (by_launch) t->Host().Thread("python").ModuleExecution(module, host_ps, 90);
    for (int64_t kernel = 0; kernel < size[at]; ++kernel) {
      if (size[at] > 1 && random->OneIn(60)) continue;  // the kernel is lost
      KernelSpec spec{.name = "k" + std::to_string(kernel),
                      .start_ps = kFirstPs + run * apart_ps + random->Below(2 * apart_ps),
                      .duration_ps = random->Below(30),
                      .hlo_module = module,
                      .program_id = program,
                      .hlo_op = "op" + std::to_string(kernel / 2)};
      if (by_launch) {
        spec.correlation_id = ++correlation_id;
        t->Host().Thread("python").Launch(
            {.start_ps = host_ps + random->Below(90), .correlation_id = correlation_id});
      } else {
        spec.scope_range_id = run;
      }
      kernels.push_back({random->OneIn(3) ? random->Below(streams) : 0, spec});
    }
    if (random->OneIn(20)) {
      kernels.push_back({0, {.name = "unattributed", .start_ps = kFirstPs + run * apart_ps}});
    }
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const Placed& a, const Placed& b) {
    return a.spec.start_ps < b.spec.start_ps;
  });
  for (const Placed& kernel : kernels) t->Gpu(0).Stream(kernel.stream).Kernel(kernel.spec);
}

TEST(StreamedGpu, RandomTraces) {
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    BuildRandomGpuStream(&random, &t);
    ASSERT_TRUE(StreamAgrees(t, BuildSlowGpuReport));
  }
}

}  // namespace
}  // namespace xplane_time::testing
