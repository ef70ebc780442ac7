#include "bench/shapes.h"

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/trace_builder.h"

namespace xplane_time::bench {
namespace {

using testing::LineBuilder, testing::OpSpec, testing::Ref, testing::StatSpec, testing::TraceBuilder;

// The capture runs for seconds, so that offsets have as many digits as in recorded traces.
constexpr int64_t kFirstPs = 5'000'000'000'000, kCapturePs = 60'000'000'000'000;
constexpr int64_t kEveryPs = 700'000'000;
constexpr int64_t kStartUnixNs = 1'760'000'000'000'000'000;
constexpr int64_t kProgramId = 1'219'076'091;

// Devices start a run at the same time, within a microsecond.
int64_t RunStartPs(int64_t run, int64_t ordinal) {
  return kFirstPs + run * kEveryPs + ordinal * 200'000;
}

class Jitter {
 public:
  explicit Jitter(uint64_t seed) : random_(seed) {}
  // From `least` to `most` in the steps of a real clock.
  int64_t operator()(int64_t least, int64_t most) {
    const auto range = static_cast<uint64_t>(most - least);
    return least + static_cast<int64_t>(random_() % range / 1250 * 1250);
  }

 private:
  std::mt19937_64 random_;
};

std::string Numbered(std::string_view name, int64_t number) {
  return std::string(name) + std::to_string(number);
}

// Adds events without stats, each inside the previous one.
void AddFrames(LineBuilder line, int64_t count, int64_t start_ps, int64_t duration_ps) {
  for (int64_t i = 0; i < count; ++i) {
    line.Event({.name = Numbered("$train.py:", 40 + i) + " step",
                .start_ps = start_ps + i * 10'000,
                .duration_ps = duration_ps - i * 20'000});
  }
}

// The ops of one run from *now_ps on: 12 ops, a loop with 6 iterations of 7 ops, and 12 more ops.
std::vector<OpSpec> TpuOps(Jitter* jitter, int64_t* now_ps) {
  std::vector<OpSpec> ops;
  const auto add = [&](const std::string& name, const char* category, int64_t most_ps) {
    const int64_t duration_ps = (*jitter)(50'000, most_ps);
    ops.push_back({.name = name,
                   .start_ps = *now_ps,
                   .duration_ps = duration_ps,
                   .device_offset_ps = *now_ps + 3'750,
                   .device_duration_ps = duration_ps - 1'250,
                   .hlo_category = category,
                   .tf_op = "jit(train)/jit(main)/transformer/" + name,
                   .flops = 4'194'304,
                   .bytes_accessed = 1'048'576});
    *now_ps += duration_ps + (*jitter)(1'250, 5'000);
  };
  for (int64_t i = 0; i < 12; ++i) add(Numbered("fusion.", i), "loop fusion", 900'000);
  const size_t loop = ops.size();
  const int64_t loop_ps = *now_ps;
  add("while.1", "while", 60'000);
  *now_ps = loop_ps + 2'500;
  for (int64_t i = 0; i < 6; ++i) {
    add("copy-start.1", "copy-start", 60'000);
    for (int64_t k = 0; k < 5; ++k) {
      add(Numbered("convolution.", k), "convolution fusion", 2'000'000);
    }
    add("copy-done.1", "copy-done", 60'000);
  }
  ops[loop].duration_ps = *now_ps - loop_ps;
  ops[loop].device_duration_ps = *now_ps - loop_ps - 1'250;
  *now_ps += 2'500;
  for (int64_t i = 12; i < 24; ++i) add(Numbered("fusion.", i), "output fusion", 900'000);
  return ops;
}

void AddTpu(TraceBuilder* trace, int64_t ordinal, int runs) {
  auto plane = trace->Tpu(ordinal);
  auto steps = plane.Line({.id = 1, .name = "Steps"});
  auto modules = plane.Line({.id = 2, .name = "XLA Modules"});
  plane.Line({.id = 3, .name = "XLA Ops"});
  auto async = plane.Line({.id = 4, .name = "Async XLA Ops"});
  auto tracing = plane.Line({.id = 6, .name = "XLA TraceMe"});
  auto host = trace->Host().Thread(Numbered("py_xla_execute/", 3'118'851 + ordinal), 212'990);
  Jitter jitter(static_cast<uint64_t>(ordinal));
  for (int64_t run = 0; run < runs; ++run) {
    const int64_t start_ps = RunStartPs(run, ordinal);
    int64_t now_ps = start_ps;
    for (const OpSpec& op : TpuOps(&jitter, &now_ps)) {
      plane.Op(op);
      if (op.name != "copy-start.1") continue;
      async.Event({.name = "async-copy",
                   .start_ps = op.start_ps,
                   .duration_ps = 5'000'000,
                   .stats = {{"hlo_op", std::string("copy-done.1")},
                             {"_a", int64_t{1}},
                             {"flow", static_cast<uint64_t>(op.start_ps / 1250)},
                             {"id", uint64_t{0}}}});
    }
    const int64_t flow_id = (ordinal << 34) + run;
    modules.Event({.name = "jit_train(12190760917235803885)",
                   .start_ps = start_ps,
                   .duration_ps = now_ps - start_ps,
                   .stats = {{"run_id", static_cast<uint64_t>(run)},
                             {"replica_id", int64_t{0}},
                             {"queue_id", uint64_t{0}},
                             {"core_type", uint64_t{0}},
                             {"_ct", int64_t{12}},
                             {"_c", flow_id}}});
    steps.Event({.name = std::to_string(run),
                 .start_ps = start_ps,
                 .duration_ps = now_ps - start_ps,
                 .stats = {{"group_id", run}}});
    tracing.Event({.name = "dependency-wait", .start_ps = start_ps, .duration_ps = 30'000});
    host.Event({.name = "tpu::System::Execute=>IssueSequencedEvent",
                .start_ps = start_ps - 90'000'000,
                .duration_ps = 60'000'000,
                .stats = {{"_pt", int64_t{12}}, {"_p", flow_id}}});
    AddFrames(host, 12, start_ps - 95'000'000, 80'000'000);
  }
}

// Five more stats per kernel, as in recorded traces.
std::vector<StatSpec> KernelDetails(int64_t k) {
  return {{"kernel_details", Ref{Numbered("regs:32 grid:8,1,1 block:128,1,1 shared:", 1024 * k)}},
          {"context_id", Ref{"$$1"}},
          {"theoretical_occupancy_pct", 62.5},
          {"occupancy_min_grid_size", int64_t{264}},
          {"occupancy_suggested_block_size", int64_t{1024}}};
}

// About 2 to 9 us, within 2 % of the usual duration of the kernel, in steps of the clock.
int64_t KernelDurationPs(int64_t k, Jitter* jitter) {
  const int64_t usual_ps = 2'000'000 + k * 170'000;
  return usual_ps / 1000 * 1000 + (*jitter)(0, usual_ps / 50) / 1000 * 1000;
}

// One run: 40 kernels on two streams, and copies to and from the device.
void AddGpuRun(TraceBuilder* trace, int64_t ordinal, int64_t run, Jitter* jitter) {
  constexpr int64_t kKernels = 40;
  auto plane = trace->Gpu(ordinal);
  auto host = trace->Host().Thread(Numbered("Host Threads/", 1083 + ordinal), 711'141);
  int64_t now_ps = RunStartPs(run, ordinal);
  const int64_t start_ps = now_ps - 20'000'000;
  AddFrames(host, 6, start_ps - 100'000, 400'000'000);
  host.ModuleExecution("jit_train", start_ps, (kKernels + 2) * 500'000);
  for (int64_t k = 0; k < kKernels + 2; ++k) {
    const bool is_copy = k >= kKernels;
    const auto correlation_id = static_cast<uint64_t>((run * 3 + ordinal) * 64 + k + 1);
    const std::string op = Numbered(k % 5 == 0 ? "cublas-gemm." : "loop_fusion.", k);
    const char* copy = k == kKernels ? "MemcpyH2D" : "MemcpyD2H";
    testing::KernelSpec kernel = {.name = is_copy ? copy : "void xla::" + op + "(float const*)",
                                  .start_ps = now_ps,
                                  .duration_ps = KernelDurationPs(k, jitter),
                                  .correlation_id = correlation_id};
    if (is_copy) {
      kernel.stats = {{"memcpy_details", Ref{"kind_src:pinned kind_dst:device size:4096 dest:0"}},
                      {"context_id", Ref{"$$1"}}};
    } else {
      kernel.hlo_module = "jit_train";
      kernel.program_id = kProgramId;
      kernel.hlo_op = op;
      kernel.tf_op = "XlaModule:jit_train";
      kernel.stats = KernelDetails(k);
    }
    plane.Stream(is_copy ? k - kKernels + 18 : 16 + k % 2, is_copy ? copy : "Kernel", 711'141)
        .Kernel(kernel);
    kernel.name = is_copy ? "cuMemcpyAsync" : "cuLaunchKernel";
    kernel.start_ps = start_ps + k * 500'000;
    kernel.duration_ps = 400'000;
    kernel.stats = {{"device_id", static_cast<uint64_t>(ordinal)}, {"context_id", Ref{"$$1"}}};
    host.Kernel(kernel);
    now_ps += (*jitter)(4'500'000, 9'500'000);  // two kernels later the same stream is free again
  }
}

// The thunks of one run on one device, each with its completion.
void AddCpuRun(TraceBuilder* trace, int64_t ordinal, int64_t run, Jitter* jitter) {
  int64_t now_ps = RunStartPs(run, ordinal);
  auto line = trace->Host().Thread(Numbered("tf_XLAPjRtCpuClient/", 4'284'268 + ordinal), 6'172);
  AddFrames(trace->Host().Thread("python", 6'172), 15, now_ps, 60'000'000);
  for (int64_t k = 0; k < 20; ++k) {
    const int64_t duration_ps = (*jitter)(500'000, 3'000'000);
    line.Thunk({.start_ps = now_ps,
                .duration_ps = duration_ps,
                .hlo_op = Numbered(k % 4 == 0 ? "dot." : "broadcast_add_fusion.", k),
                .hlo_module = "jit_train",
                .program_id = kProgramId,
                .run_id = run + 1,
                .device_ordinal = ordinal});
    line.Event({.name = "ThreadpoolListener::StartRegion",
                .start_ps = now_ps + duration_ps,
                .duration_ps = 40'000,
                .stats = {{"_ct", int64_t{15}}, {"_c", run * 64 + k}}});
    now_ps += duration_ps + 60'000;
  }
}

}  // namespace

std::optional<Shape> ShapeNamed(std::string_view name) {
  if (name == "tpu") return Shape::kTpu;
  if (name == "gpu") return Shape::kGpu;
  if (name == "cpu") return Shape::kCpu;
  return std::nullopt;
}

std::string ShapedTrace(Shape shape, int runs) {
  TraceBuilder trace;
  trace.Hostname("benchhost");
  const int64_t devices = shape == Shape::kTpu ? 4 : shape == Shape::kGpu ? 3 : 2;
  for (int64_t ordinal = 0; ordinal < devices; ++ordinal) {
    if (shape == Shape::kTpu) {
      AddTpu(&trace, ordinal, runs);
      continue;
    }
    Jitter jitter(static_cast<uint64_t>(ordinal));
    const auto add_run = shape == Shape::kGpu ? AddGpuRun : AddCpuRun;
    for (int64_t run = 0; run < runs; ++run) add_run(&trace, ordinal, run, &jitter);
  }
  trace.Environment(kStartUnixNs, kStartUnixNs + kCapturePs / 1000);
  return trace.Bytes();
}

}  // namespace xplane_time::bench
