// Compares the library with the slow reference on all tiny traces of some shapes and on seeded
// random traces of each kind of device, with both readers and several threads.
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "tests/support/random.h"
#include "tests/support/slow_report.h"
#include "tests/support/trace_builder.h"
#include "tests/timing/report_of.h"

namespace xplane_time::testing {
namespace {

constexpr int kRandomTraces = 500;

using Reference = SlowReport (*)(const proto::XSpace&);

struct How {
  Reader reader;
  int threads;
};
constexpr How kEveryWay[] = {{Reader::kWire, 1},     {Reader::kWire, 2},
                             {Reader::kWire, 7},     {Reader::kProtobuf, 1},
                             {Reader::kProtobuf, 2}, {Reader::kProtobuf, 7}};

// False if they disagree, so a caller can stop at the first difference.
bool Agrees(const TraceBuilder& trace, Reference reference, std::span<const How> ways) {
  const SlowReport slow = reference(trace.proto());
  for (const How& how : ways) {
    ReportOptions options;
    options.threads = how.threads;
    const SlowReport fast = ToSlow(ReportOf(trace, options, how.reader));
    EXPECT_EQ(fast, slow) << (how.reader == Reader::kWire ? "wire" : "protobuf") << " reader, "
                          << how.threads << " threads";
    if (::testing::Test::HasFailure()) return false;
  }
  return true;
}

// -- All tiny traces ---------------------------------------------------------

// Calls `visit` with every multiset of `size` numbers from 0 to `choices` - 1, until it returns
// false.
bool ForEachMultiset(int size, int choices,
                     const std::function<bool(const std::vector<int>&)>& visit,
                     std::vector<int> chosen = {}) {
  if (static_cast<int>(chosen.size()) == size) return visit(chosen);
  for (int next = chosen.empty() ? 0 : chosen.back(); next < choices; ++next) {
    chosen.push_back(next);
    if (!ForEachMultiset(size, choices, visit, chosen)) return false;
    chosen.pop_back();
  }
  return true;
}

// Decodes a number into choices.
class Digits {
 public:
  explicit Digits(int number) : rest_(number) {}
  int64_t Next(int choices) {
    const int digit = rest_ % choices;
    rest_ /= choices;
    return digit;
  }

 private:
  int rest_;
};

// Kernels of two runs per program. The host events separate the runs.
struct TinyGpu {
  int kernels, offsets, durations, functions, streams;
  int choices() const { return offsets * durations * functions * streams * 2; }

  void Build(const std::vector<int>& chosen, TraceBuilder* t) const {
    auto python = t->Host().Thread("python");
    for (int64_t function = 0; function < functions; ++function) {
      for (int64_t run : {0, 1}) {
        python.ModuleExecution("jit_f" + std::to_string(function),
                               100 + 1000 * function + 100 * run, 50);
      }
    }
    uint64_t correlation_id = 0;
    for (int number : chosen) {
      Digits digits(number);
      const int64_t offset_ps = digits.Next(offsets), duration_ps = digits.Next(durations);
      const int64_t function = digits.Next(functions), run = digits.Next(2);
      const std::string name = "k" + std::to_string(++correlation_id % 2);
      t->Gpu(0)
          .Stream(16 + digits.Next(streams))
          .Kernel({.name = name,
                   .start_ps = kFirstPs + offset_ps,
                   .duration_ps = duration_ps,
                   .hlo_module = "jit_f" + std::to_string(function),
                   .program_id = function,
                   .hlo_op = name,
                   .correlation_id = correlation_id});
      t->Host()
          .Thread("Host Threads/1")
          .Launch(
              {.start_ps = 110 + 1000 * function + 100 * run, .correlation_id = correlation_id});
    }
  }
};

TEST(AllTinyTraces, Gpu) {
  constexpr TinyGpu kShapes[] = {
      {.kernels = 1, .offsets = 5, .durations = 3, .functions = 2, .streams = 2},
      {.kernels = 2, .offsets = 5, .durations = 3, .functions = 2, .streams = 1},
      {.kernels = 2, .offsets = 5, .durations = 3, .functions = 1, .streams = 2},
      {.kernels = 3, .offsets = 5, .durations = 2, .functions = 1, .streams = 1},
      {.kernels = 3, .offsets = 3, .durations = 3, .functions = 1, .streams = 1},
      {.kernels = 4, .offsets = 2, .durations = 2, .functions = 1, .streams = 1},
  };
  for (const TinyGpu& shape : kShapes) {
    SCOPED_TRACE(shape.kernels);
    EXPECT_TRUE(
        ForEachMultiset(shape.kernels, shape.choices(), [&](const std::vector<int>& chosen) {
          TraceBuilder t;
          shape.Build(chosen, &t);
          return Agrees(t, BuildSlowGpuReport, {kEveryWay, 1});
        }));
  }
}

// The positions of the two modules: touching, apart, or one of them empty.
struct TinyTpu {
  int64_t first_start, first_ps, second_start, second_ps;
};

TEST(AllTinyTraces, Tpu) {
  constexpr TinyTpu kShapes[] = {{0, 2, 2, 2}, {1, 2, 4, 1}, {2, 0, 2, 2}};
  for (const TinyTpu& shape : kShapes) {
    for (int ops : {1, 2, 3}) {
      for (bool device_clock : {false, true}) {
        SCOPED_TRACE(device_clock);
        EXPECT_TRUE(ForEachMultiset(ops, 5 * 3, [&](const std::vector<int>& chosen) {
          TraceBuilder t;
          auto tpu = t.Tpu(0);
          tpu.Module({"jit_f", 1, kFirstPs + shape.first_start, shape.first_ps});
          tpu.Module({"jit_f", 1, kFirstPs + shape.second_start, shape.second_ps});
          for (int number : chosen) {
            Digits digits(number);
            OpSpec op{.name = "op" + std::to_string(number % 2)};
            op.start_ps = kFirstPs + digits.Next(5);
            op.duration_ps = digits.Next(3);
            if (device_clock) op.device_offset_ps = 70 + number % 4;
            if (device_clock) op.device_duration_ps = 2 - op.duration_ps;
            tpu.Op(op);
          }
          return Agrees(t, BuildSlowTpuReport, {kEveryWay, 1});
        }));
      }
    }
  }
}

// Thunks of two runs per program.
struct TinyCpu {
  int thunks, offsets, durations, functions, ordinals;
  int choices() const { return offsets * durations * functions * ordinals * 2; }

  void Build(const std::vector<int>& chosen, TraceBuilder* t) const {
    for (int number : chosen) {
      Digits digits(number);
      ThunkSpec thunk{.start_ps = kFirstPs + digits.Next(offsets)};
      thunk.duration_ps = digits.Next(durations);
      thunk.run_id = digits.Next(2) - 1;
      const int64_t function = digits.Next(functions);
      thunk.hlo_op = "op" + std::to_string(number % 2);
      thunk.hlo_module = "jit_f" + std::to_string(function);
      thunk.program_id = function;
      thunk.device_ordinal = digits.Next(ordinals);
      t->Host().Thread("worker/" + std::to_string(number % 2)).Thunk(thunk);
    }
  }
};

TEST(AllTinyTraces, Cpu) {
  constexpr TinyCpu kShapes[] = {
      {.thunks = 1, .offsets = 5, .durations = 3, .functions = 2, .ordinals = 2},
      {.thunks = 2, .offsets = 5, .durations = 3, .functions = 2, .ordinals = 1},
      {.thunks = 2, .offsets = 5, .durations = 3, .functions = 1, .ordinals = 2},
      {.thunks = 3, .offsets = 5, .durations = 2, .functions = 1, .ordinals = 1},
      {.thunks = 3, .offsets = 3, .durations = 3, .functions = 1, .ordinals = 1},
      {.thunks = 4, .offsets = 2, .durations = 2, .functions = 1, .ordinals = 1},
  };
  for (const TinyCpu& shape : kShapes) {
    SCOPED_TRACE(shape.thunks);
    EXPECT_TRUE(ForEachMultiset(shape.thunks, shape.choices(), [&](const std::vector<int>& chosen) {
      TraceBuilder t;
      shape.Build(chosen, &t);
      return Agrees(t, BuildSlowCpuReport, {kEveryWay, 1});
    }));
  }
}

// -- Random traces -----------------------------------------------------------

enum class GpuEvidence { kCorrelation, kScope, kPeriod };

// Several GPUs, and modules with one or two programs each. Runs lose kernels if evidence separates
// the runs.
class RandomGpu {
 public:
  RandomGpu(Random* random, TraceBuilder* t)
      : random_(random), t_(t), evidence_(static_cast<GpuEvidence>(random->Below(3))) {}

  void Build() {
    const int64_t gpus = 1 + random_->Below(2);
    for (int64_t gpu = 0; gpu < gpus; ++gpu) {
      for (int64_t program = 0, n = 1 + random_->Below(4); program < n; ++program) {
        AddProgram(gpu, program);
      }
      for (int64_t i = random_->Below(3); i > 0; --i) {
        AddKernel(gpu, {.name = "unattributed", .start_ps = SomeTime()});
      }
    }
  }

 private:
  int64_t SomeTime() { return kFirstPs + random_->Below(300); }

  void AddProgram(int64_t gpu, int64_t program) {
    const int64_t kernels = 1 + random_->Below(4), runs = 1 + random_->Below(6);
    const bool loses_kernels = random_->OneIn(2);
    int64_t in_order_ps = kFirstPs;
    for (int64_t run = 0; run < runs; ++run) {
      ++run_;
      const int64_t lost = loses_kernels && random_->OneIn(5) ? random_->Below(kernels) : -1;
      for (int64_t kernel = 0; kernel < kernels; ++kernel) {
        in_order_ps += 1 + random_->Below(20);
        if (kernel == lost && evidence_ != GpuEvidence::kPeriod) continue;
        // The first two kernels belong to one op.
        KernelSpec spec{.name = "k" + std::to_string(kernel),
                        .hlo_module = "jit_f" + std::to_string(program / 2),
                        .hlo_op = "op" + std::to_string(kernel < 2 ? 0 : kernel)};
        spec.start_ps = evidence_ == GpuEvidence::kPeriod ? in_order_ps : SomeTime();
        if (program != 3) spec.program_id = program;
        if (evidence_ == GpuEvidence::kScope) AddScope(&spec);
        if (evidence_ == GpuEvidence::kCorrelation) AddLaunch(&spec);
        AddKernel(gpu, spec);
      }
    }
  }

  // Adds a scope one or two levels below the scope of the run.
  void AddScope(KernelSpec* spec) {
    spec->scope_range_id = ++scope_;
    int64_t parent = run_;
    if (random_->OneIn(2)) {
      parent = ++scope_;
      t_->ScopeParent(parent, run_);
    }
    t_->ScopeParent(spec->scope_range_id, parent);
  }

  // Adds a launch. The first kernel of a run also adds the host event that executes the module.
  void AddLaunch(KernelSpec* spec) {
    const int64_t host_ps = kFirstPs + 100 * run_;
    if (run_ != executed_) {
      t_->Host().Thread("python").ModuleExecution(spec->hlo_module, host_ps, 90);
      executed_ = run_;
    }
    spec->correlation_id = ++correlation_id_;
    t_->Host()
        .Thread(run_ % 2 == 0 ? "python" : "Host Threads/1")
        .Launch({.start_ps = host_ps + random_->Below(90), .correlation_id = correlation_id_});
  }

  void AddKernel(int64_t gpu, KernelSpec spec) {
    spec.duration_ps = random_->Below(30);
    const int64_t stream = random_->Below(3);
    t_->Gpu(gpu).Stream(stream, stream == 2 ? "" : "Kernel", stream).Kernel(spec);
  }

  Random* random_;
  TraceBuilder* t_;
  GpuEvidence evidence_;
  int64_t run_ = 0, executed_ = 0, scope_ = 1'000'000;
  uint64_t correlation_id_ = 0;
};

void BuildRandomGpu(Random* random, TraceBuilder* t) {
  RandomGpu(random, t).Build();
  if (t->proto().planes_size() == 0) t->Gpu(0).Stream(1).Kernel({.name = "k"});
}

enum class OpClock { kProfile, kDevice, kMixed };

void BuildRandomTpu(Random* random, TraceBuilder* t) {
  const auto clock = static_cast<OpClock>(random->Below(3));
  for (int64_t core = 0, cores = 1 + random->Below(2); core < cores; ++core) {
    auto tpu = t->Tpu(core);
    int64_t at_ps = kFirstPs;
    for (int64_t i = random->Below(8); i > 0; --i) {
      at_ps += random->OneIn(2) ? 0 : random->Below(8);  // the events touch or have a gap
      ModuleSpec module{.name = "jit_f" + std::to_string(random->Below(2))};
      module.program_id = 12190760917235803885u + static_cast<uint64_t>(random->Below(2));
      module.start_ps = at_ps;
      module.duration_ps = random->Below(20);
      tpu.Module(module);
      at_ps += module.duration_ps;
    }
    for (int64_t i = 1 + random->Below(30); i > 0; --i) {
      OpSpec op{.name = "op" + std::to_string(random->Below(4))};
      op.start_ps = kFirstPs + random->Below(at_ps - kFirstPs + 4);
      op.duration_ps = random->Below(6);
      if (clock == OpClock::kDevice || (clock == OpClock::kMixed && !random->OneIn(6))) {
        op.device_offset_ps = 90'000 + random->Below(50);
        op.device_duration_ps = random->Below(9);
      }
      tpu.Op(op);
    }
    tpu.AsyncOp({.name = "copy-start", .start_ps = kFirstPs, .duration_ps = 50});
  }
}

void BuildRandomCpu(Random* random, TraceBuilder* t) {
  for (int64_t i = 1 + random->Below(40); i > 0; --i) {
    const int64_t program = random->Below(3);
    ThunkSpec thunk{.start_ps = kFirstPs + random->Below(60), .duration_ps = random->Below(12)};
    thunk.hlo_op = "op" + std::to_string(random->Below(4));
    thunk.hlo_module = "jit_f" + std::to_string(program / 2);
    if (program != 2) thunk.program_id = program;
    thunk.run_id = random->Below(4) - 2;
    thunk.device_ordinal = random->Below(2);
    const int64_t thread = random->Below(3);
    auto line = t->Host().Thread("worker/" + std::to_string(thread), thread);
    line.Thunk(thunk);
    thunk.name = "end: " + thunk.hlo_op;
    if (random->OneIn(4)) line.Thunk(thunk);
    if (random->OneIn(8))
      line.Launch({.start_ps = kFirstPs, .correlation_id = 9, .hlo_op = thunk.hlo_op});
    if (random->OneIn(8))
      line.Event({.name = "PjitFunction(f)", .start_ps = kFirstPs, .duration_ps = 20});
  }
}

void CompareRandom(void (*build)(Random*, TraceBuilder*), Reference reference) {
  for (int seed = 1; seed <= kRandomTraces; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(static_cast<uint32_t>(seed));
    TraceBuilder t;
    build(&random, &t);
    // The first way, and one of the others in turn.
    const How ways[] = {kEveryWay[0], kEveryWay[1 + static_cast<size_t>(seed) % 5]};
    ASSERT_TRUE(Agrees(t, reference, ways));
  }
}

TEST(RandomTraces, Gpu) { CompareRandom(BuildRandomGpu, BuildSlowGpuReport); }
TEST(RandomTraces, Tpu) { CompareRandom(BuildRandomTpu, BuildSlowTpuReport); }
TEST(RandomTraces, Cpu) { CompareRandom(BuildRandomCpu, BuildSlowCpuReport); }

}  // namespace
}  // namespace xplane_time::testing
