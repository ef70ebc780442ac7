// Reports built by hand, for the tests of every format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xplane_time/report.h"

namespace xplane_time::output {

inline Summary MakeSummary(uint64_t n, double median, double half_interval) {
  Summary s;
  s.n = n;
  s.mean = median + 1.0 / 3;
  s.std = half_interval / 2;
  s.min = static_cast<int64_t>(median - half_interval);
  s.max = static_cast<int64_t>(median + half_interval);
  s.median = s.p50 = median;
  s.mad = half_interval / 4;
  s.p95 = s.p99 = median + half_interval;
  if (n > 1) s.std_sample = half_interval / 1.5;
  if (n > 5) {
    s.median_ci95_lo = median - half_interval / 2;
    s.median_ci95_hi = median + half_interval;
  }
  return s;
}

inline DeviceRef Gpu(int64_t ordinal) {
  return {.plane = "/device:GPU:" + std::to_string(ordinal), .ordinal = ordinal, .host = "node-1"};
}

inline FunctionRow MakeFunction(std::string name, std::optional<DeviceRef> device, uint64_t n,
                                double median_ps) {
  FunctionRow row;
  row.device = std::move(device);
  row.function = std::move(name);
  row.clock = Clock::kProfile;
  row.runs = n;
  row.kernels_total = 2 * n;
  row.kernels_per_run = 2;
  row.active_ps = MakeSummary(n, median_ps, median_ps / 50);
  row.span_ps = MakeSummary(n, median_ps * 1.25, median_ps / 40);
  row.gap_ps = MakeSummary(n, median_ps * 0.25, median_ps / 100);
  row.sum_ps = row.active_ps;
  return row;
}

inline KernelRow MakeKernel(std::string name, DeviceRef device, uint64_t count, int64_t total_ps,
                            double share) {
  KernelRow row;
  row.device = std::move(device);
  row.kernel = std::move(name);
  row.function = "jit_dot";
  row.program_id = "49";
  row.count = count;
  row.total_ps = total_ps;
  row.self_ps = total_ps;
  row.mean_ps = static_cast<double>(total_ps) / static_cast<double>(count);
  row.median_ps = row.mean_ps;
  row.std_ps = 0.1;
  row.min_ps = total_ps / 100;
  row.max_ps = total_ps / 2;
  row.share = share;
  return row;
}

inline DiagnosticRow MakeDiagnostic(std::string code, std::string severity, uint64_t count,
                                    std::string message, std::string plane, std::string line = "") {
  DiagnosticRow row;
  row.code = std::move(code);
  row.severity = std::move(severity);
  row.count = count;
  row.message = std::move(message);
  row.plane = std::move(plane);
  row.line = std::move(line);
  return row;
}

inline DeviceRow MakeDevice(DeviceRef device, uint64_t executions, int64_t busy_ps,
                            std::optional<int64_t> first_ps, std::optional<int64_t> last_ps) {
  return {.device = std::move(device),
          .executions = executions,
          .busy_ps = busy_ps,
          .sum_ps = busy_ps,
          .first_ps = first_ps,
          .last_ps = last_ps};
}

inline InputRow MakeInput(std::string path, uint64_t bytes, std::string host) {
  return {.path = std::move(path), .bytes = bytes, .host = std::move(host)};
}

// A long name, as hipBLASLt gives them.
inline std::string LongKernelName() {
  return "Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x16x1_SN_1LDSB1_APM1_ABV0_ACED0_AF0EM1_WGM1.kd";
}

// Bad UTF-8, control characters, quotes, separators, and characters beyond ASCII.
inline std::string OddName() { return "odd\xff\"q\",|\n\x1b[2J<T> µ"; }

// One busy GPU beside idle ones.
inline Report SmallReport() {
  Report report;
  report.inputs = {MakeInput("run/node-1.xplane.pb", 1'234'567, "node-1")};
  report.capture.planes = 11;
  report.capture.lines = 40;
  report.capture.events = 3782;
  report.capture.base_ns = 1'755'770'000'000'000'123;
  report.capture.start_unix_ns = 1'755'770'000'000'000'000;
  report.capture.stop_unix_ns = 1'755'770'012'500'000'000;
  report.capture.hostnames = {"node-1"};
  report.devices = {MakeDevice(Gpu(0), 54, 3'475'484'000, 1'220'562'000, 10'676'774'000)};
  for (int i = 1; i < 8; ++i) {
    report.devices.push_back(MakeDevice(Gpu(i), 0, 0, std::nullopt, std::nullopt));
  }
  report.functions = {MakeFunction("jit_dot", Gpu(0), 3, 611'000'000),
                      MakeFunction("jit_convert_element_type", Gpu(0), 12, 15'786'666),
                      MakeFunction("jit_dot", Gpu(0), 3, 117'426'667),
                      MakeFunction(OddName(), Gpu(0), 1, 5'500'000)};
  report.functions[0].program_id = "49";
  report.functions[1].program_id = "18446744073709551615";
  report.functions[2].program_id = "79";
  report.functions[2].suspect_runs = 1;
  report.functions[2].status = RowStatus::kRunsUncertain;
  FunctionRow empty;
  empty.device = Gpu(0);
  empty.function = "jit_nothing";
  empty.runs = 1;
  empty.status = RowStatus::kNoOps;
  report.functions.push_back(empty);
  for (const FunctionRow& row : report.functions) {
    report.combined.push_back(row);
    report.combined.back().device.reset();
    report.combined.back().program_id.reset();
  }
  report.kernels = {MakeKernel(LongKernelName(), Gpu(0), 3, 1'833'003'000, 0.5274),
                    MakeKernel("loop_add_fusion.kd", Gpu(0), 12, 189'440'000, 0.0545),
                    MakeKernel(OddName(), Gpu(0), 1, 5'500'000, 0.0016)};
  report.kernels[2].function.reset();
  report.kernels[2].self_ps.reset();
  report.kernels[2].category = Category::kCopy;
  report.kernels[2].scope = "jit(f)/a|b";
  report.diagnostics = {
      MakeDiagnostic("idle_accelerator", "info", 7, "an accelerator executed nothing",
                     "/device:GPU:1"),
      MakeDiagnostic("suspect_run", "warning", 1,
                     "runs lack kernels that the other runs have; left out of the statistics",
                     "/device:GPU:0", "Stream #16"),
      MakeDiagnostic("negative_duration", "error", 3,
                     "events with a negative duration were skipped", "/host:CPU", "python")};
  report.diagnostics[1].event = 17;
  report.diagnostics[1].byte_offset = 5127;
  return report;
}

inline void AddSamples(Report* report) {
  for (uint64_t run = 0; run < 3; ++run) {
    SampleRow row;
    row.device = Gpu(0);
    row.function = "jit_dot";
    row.program_id = "49";
    row.run = run;
    row.start_ps = 1'220'562'000 + static_cast<int64_t>(run) * 700'000'000;
    row.span_ps = 612'000'000;
    if (run > 0) row.active_ps = row.sum_ps = 611'000'000;
    row.kernels = 2;
    row.suspect = run == 0;
    report->samples.push_back(row);
  }
}

// `devices` GPUs that run the same `functions`, and as many kernels, under long names.
inline Report WideReport(int devices, int functions, int diagnostics) {
  Report report;
  for (int d = 0; d < devices; ++d) {
    report.inputs.push_back(MakeInput(
        "log/plugins/profile/2025_08_21/host-" + std::to_string(d) + ".xplane.pb", 80'000'000, ""));
    report.devices.push_back(
        MakeDevice(Gpu(d), 1504, 78'784'927'635'502, 5'439'011'744'500, 97'916'094'777'172));
    for (int f = 0; f < functions; ++f) {
      const std::string name = "jit_a_function_with_quite_a_long_name_" + std::to_string(f);
      report.functions.push_back(MakeFunction(name, Gpu(d), 100, 1e9 * (f + 1)));
      report.functions.back().program_id = std::to_string(12'190'760'917'235'803'885U + d);
      report.functions.back().clock = f % 2 == 0 ? Clock::kDevice : Clock::kProfile;
      if (d == 0) {
        report.combined.push_back(MakeFunction(name, std::nullopt, 100, 1e9 * (f + 1)));
        if (f == 0) report.combined.back().status = RowStatus::kDevicesUnmatched;
        if (f == 0) report.combined.back().active_ps.reset();
      }
      report.kernels.push_back(MakeKernel(LongKernelName() + std::to_string(f), Gpu(d), 100,
                                          int64_t{1'000'000'000} * (f + 1),
                                          2.0 * (f + 1) / (functions * (functions + 1))));
    }
  }
  for (int i = 0; i < diagnostics; ++i) {
    report.diagnostics.push_back(MakeDiagnostic(
        "clocks_disagree", "warning", 412,
        "runs whose duration differs by more than 1 % between the profile clock and the device's "
        "own; the device clock is used",
        "/device:TPU:" + std::to_string(i), "XLA Modules"));
  }
  return report;
}

inline TreeReport SmallTree() {
  TreeReport report;
  report.inputs = SmallReport().inputs;
  const auto add = [&](std::string name, uint32_t depth, std::optional<uint32_t> parent,
                       int64_t total_ps, std::optional<int64_t> self_ps) {
    TreeRow row;
    row.device = Gpu(0);
    row.name = std::move(name);
    row.depth = depth;
    row.parent = parent;
    row.count = 3;
    row.total_ps = total_ps;
    row.self_ps = self_ps;
    if (self_ps) row.child_ps = total_ps - *self_ps;
    row.status = self_ps ? "ok" : "asynchronous";
    report.rows.push_back(row);
  };
  add("jit_dot", 0, std::nullopt, 1'833'000'000, 33'000'000);
  add("while", 1, 0, 1'800'000'000, std::nullopt);
  add(LongKernelName(), 2, 1, 1'700'000'000, 1'700'000'000);
  add(OddName(), 1, 0, 100'000'000, 100'000'000);
  return report;
}

inline PlanesReport SmallPlanes(bool with_stats) {
  PlanesReport report;
  report.inputs = SmallReport().inputs;
  report.capture = SmallReport().capture;
  PlaneRow gpu;
  gpu.name = "/device:GPU:0";
  gpu.host = "node-1";
  gpu.kind = DeviceKind::kGpu;
  gpu.events = 54;
  gpu.first_ps = 1'220'562'000;
  gpu.last_ps = 10'676'774'000;
  gpu.lines.resize(2);
  gpu.lines[0].id = 16;
  gpu.lines[0].name = "Stream #16(Kernel)";
  gpu.lines[0].role = "execution";
  gpu.lines[0].events = 54;
  gpu.lines[0].first_ps = gpu.first_ps;
  gpu.lines[0].last_ps = gpu.last_ps;
  gpu.lines[0].sum_ps = 3'475'484'000;
  gpu.lines[1].id = INT64_MIN;
  gpu.lines[1].name = OddName();
  gpu.lines[1].role = "derived";
  PlaneRow host;
  host.name = "/host:metadata";
  if (with_stats) {
    gpu.stats = {{.name = "correlation_id", .type = "uint64", .owner = "event", .count = 54},
                 {.name = "a|b,c", .type = "str", .owner = "plane", .count = 1}};
  }
  report.planes = {gpu, host};
  report.diagnostics = SmallReport().diagnostics;
  return report;
}

}  // namespace xplane_time::output
