// write_power_world KIND SEED OUT: writes a simulated device (power_world.h) as OUT.xplane.pb and
// OUT.power.jsonl, in the form of a profiler and `power record`. OUT.truth.json has the energy of
// each kernel. OUT.layers.csv has its executions as runs of layers, in UNIX seconds. KIND: mix,
// pair, periodic, other_load, draws_nothing, blocks, and others below.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/power_world.h"
#include "tests/support/trace_builder.h"

namespace {

using namespace xplane_time;
using test::PowerSchedule;
using test::PowerSensor;
using test::World;
using test::WorldOptions;

constexpr int64_t kStartUnixNs = 1'770'000'000'000'000'000, kStartMonotonicNs = 5'000'000'000'000;
constexpr double kPsPerS = 1e12, kNsPerS = 1e9;

enum class PowerCounters { kNone, kPower, kDeltas, kReset, kEnergies };  // counters in the trace

struct Kind {
  WorldOptions options = {};
  bool start_is_known = true;  // the start of the capture is known
  const char* domain = "gpu";  // domain of the sensor
  // ordinals of the log's devices: one device, or two that cannot be distinguished
  const char* ordinals = "0";
  int64_t clock_off_ns = 0;  // clock error of the log
  double log_s = 1e9;        // length of the log
  PowerCounters counters = PowerCounters::kNone;
  bool variants = false;    // each kernel is a function and a variant
  size_t windows = 200;     // number of sensor windows
  int64_t stop_off_ns = 0;  // error of the capture's end in the trace
};

const std::map<std::string, Kind> kKinds = {
    {"mix", {}},
    {"average", {.options = {.sensor = PowerSensor::kSecond}}},
    {"quarter", {.options = {.sensor = PowerSensor::kQuarter}}},
    {"pair", {.options = {.schedule = PowerSchedule::kPairs}}},
    {"periodic", {.options = {.schedule = PowerSchedule::kPeriodic}}},
    {"blocks", {.options = {.kernels = 4, .schedule = PowerSchedule::kBlocks}}},
    {"busy", {.options = {.schedule = PowerSchedule::kNeverIdle}}},
    {"other_load", {.options = {.other_load_w = 60}}},
    {"draws_nothing", {.options = {.draws_nothing = true}}},
    {"no_clock", {.options = {.pause_s = 0.5}, .start_is_known = false}},
    {"module", {.domain = "module"}},
    {"no_map", {.ordinals = "null"}},
    {"hour", {.clock_off_ns = 3'600'000'000'000}},
    {"half", {.log_s = 8}},
    {"variants", {.variants = true}},
    {"dated",
     {.options =
          {.sensor = PowerSensor::kInstant, .poll_s = 0.02, .dated = true, .period_s = 0.019},
      .windows = 700}},
    {"stop_of_centuries", {.options = {.kernels = 12}, .stop_off_ns = 4'000'000'000'000'000}},
    {"large", {.options = {.kernels = 1000}, .windows = 10'000}},
    {"counter_power",
     {.options = {.sensor = PowerSensor::kQuarter}, .counters = PowerCounters::kPower}},
    {"counter_deltas", {.counters = PowerCounters::kDeltas}},
    {"counter_reset", {.counters = PowerCounters::kReset}},
    {"counter_energies", {.counters = PowerCounters::kEnergies}},
};

// Adds the readings of the sensor as counters of the trace, one per poll.
void AddCounters(const World& world, PowerCounters which, testing::PlaneBuilder plane) {
  if (which == PowerCounters::kNone) return;
  auto line = plane.Line({.name = "_counters_"});
  int64_t last_uj = world.polls[0].value;
  for (const energy::Poll& poll : world.polls) {
    const auto at_ps = static_cast<int64_t>(poll.before_s * kPsPerS);
    const auto add = [&](const char* name, int64_t value) {
      line.Event({.name = name, .start_ps = at_ps, .stats = {{name, value}}});
    };
    line.Event({.name = "gpu_temp_c", .start_ps = at_ps, .stats = {{"gpu_temp_c", int64_t{60}}}});
    if (which == PowerCounters::kPower) add("power_mw", poll.value);
    if (which == PowerCounters::kDeltas) add("chip_energy_nj", (poll.value - last_uj) * 1000);
    if (which == PowerCounters::kReset) {  // after two thirds of the polls
      const energy::Poll& reset = world.polls[world.polls.size() * 2 / 3];
      add("chip_energy_nj", (poll.value - (&poll < &reset ? 0 : reset.value)) * 1000);
    }
    if (which == PowerCounters::kEnergies) {
      add("chip_energy_nj", poll.value * 1000);
      add("hbm_energy_nj", poll.value * 10);
    }
    last_uj = poll.value;
  }
}

std::string TraceOf(const World& world, const Kind& kind) {
  testing::TraceBuilder trace;
  auto stream = trace.Gpu(0).Stream(16);
  std::vector<std::pair<Interval, size_t>> executions;  // by time, like a profiler
  for (size_t k = 0; k < world.executions.size(); ++k) {
    for (const Interval& each : world.executions[k]) executions.emplace_back(each, k);
  }
  std::ranges::sort(executions, {}, [](const auto& each) { return each.first.start_ps; });
  for (const auto& [each, k] : executions) {
    stream.Kernel({.name = "kernel_" + std::to_string(k),
                   .start_ps = each.start_ps,
                   .duration_ps = each.end_ps - each.start_ps,
                   .hlo_module = kind.variants ? "jit_autotune_fn_" + std::to_string(k)
                                               : "jit_f" + std::to_string(k / 2),
                   .program_id = static_cast<int64_t>(kind.variants ? k : k / 2),
                   .hlo_op = "op." + std::to_string(k),
                   .tf_op = "model/layer_" + std::to_string(k / 2) + "/op"});
  }
  AddCounters(world, kind.counters, trace.Gpu(0));
  if (kind.start_is_known) {
    const auto length_ns = static_cast<int64_t>(world.capture_s * kNsPerS);
    trace.Environment(static_cast<uint64_t>(kStartUnixNs),
                      static_cast<uint64_t>(kStartUnixNs + length_ns + kind.stop_off_ns));
  }
  return trace.Bytes();
}

std::string LogOf(const World& world, const Kind& kind) {
  const bool is_counter = world.kind == ReadingKind::kCumulative;
  const auto at_ns = [&](double s) {
    return kStartMonotonicNs + static_cast<int64_t>(s * kNsPerS);
  };
  const int64_t first_ns = at_ns(world.polls[0].before_s);
  const auto text = [](int64_t value) { return std::to_string(value); };
  const auto device = [&](const std::string& id) {
    return R"({"id":")" + id + R"(","name":"Made Up","source":"nvml","index":0,"ordinal":)" +
           kind.ordinals + R"(,"pci_bus_id":"","driver":"","mig":false,"shared":false,"note":""})";
  };
  const auto channel = [&](const std::string& id) {
    const std::string window =
        world.prior_window_s ? text(static_cast<int64_t>(*world.prior_window_s * kNsPerS)) : "null";
    return R"({"source":"nvml","device":")" + id + R"(","domain":")" + kind.domain +
           R"(","quantity":")" + (is_counter ? "energy_uj" : "power_mw") + R"(","kind":")" +
           (is_counter ? "cumulative" : "instant") +
           R"(","slow":false,"in_total":true,"wrap_range":null,"max_plausible_mw":null,)"
           R"("prior_period_ns":100000000,"prior_window_ns":)" +
           window + R"(,"note":""})";
  };
  const bool two = std::string(kind.ordinals) == "null";
  std::string log =
      R"({"schema":"xplane-time.power-log.v1","t":)" + text(first_ns) +
      R"(,"clocks":{"monotonic_ns":)" + text(kStartMonotonicNs) + R"(,"realtime_ns":)" +
      text(kStartUnixNs + kind.clock_off_ns) + R"(,"boottime_ns":)" + text(kStartMonotonicNs) +
      R"(},"machine":{"host":"world","kernel":"","cpu":""},"command":"","periods_ns":{"nvml":50000000},)" +
      R"("devices":[)" + device("GPU-a") + (two ? "," + device("GPU-b") : "") +
      R"(],"channels":[)" + channel("GPU-a") + (two ? "," + channel("GPU-b") : "") +
      R"(],"absent":[]})" + "\n";
  for (const energy::Poll& poll : world.polls) {
    if (poll.before_s > kind.log_s) break;
    const int64_t before_ns = at_ns(poll.before_s), after_ns = at_ns(poll.after_s);
    const auto reading = [&](int channel_number) {
      return "[" + std::to_string(channel_number) + ",0," + text(after_ns - before_ns) + "," +
             text(poll.value) +
             (poll.sampled_s ? ",null," + text(at_ns(*poll.sampled_s) - before_ns) : "") + "]";
    };
    log += R"({"t":)" + text(before_ns) + R"(,"s":0,"r":[)" + reading(0) +
           (two ? "," + reading(1) : "") + "]}\n";
  }
  if (kind.log_s < world.capture_s) return log;  // its recorder was killed
  return log + R"({"t":)" + text(at_ns(world.polls.back().after_s)) +
         R"(,"end":{"reason":"stopped","readers":[],"dropped":0}})" + "\n";
}

std::string TruthOf(const World& world) {
  std::string truth = "{";
  for (size_t k = 0; k < world.energy_j.size(); ++k) {
    truth += (k == 0 ? "" : ", ") + ("\"kernel_" + std::to_string(k)) +
             "\": " + std::to_string(world.energy_j[k]);
  }
  return truth + "}\n";
}

std::string LayersOf(const World& world) {
  std::string csv = "layer_name,exec_id,start_time,end_time\r\n";
  int64_t exec_id = 0;
  const auto seconds = [](int64_t ps) {
    const int64_t ns = kStartUnixNs + ps / 1000;
    std::string fraction = std::to_string(ns % 1'000'000'000);
    fraction.insert(0, 9 - fraction.size(), '0');
    return std::to_string(ns / 1'000'000'000) + "." + fraction;
  };
  for (size_t k = 0; k < world.executions.size(); ++k) {
    for (const Interval& each : world.executions[k]) {
      csv += "\"layer, \"\"" + std::to_string(k) + "\"\"\"," + std::to_string(exec_id++) + "," +
             seconds(each.start_ps) + "," + seconds(each.end_ps) + "\r\n";
    }
  }
  return csv;
}

bool Write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return static_cast<bool>(out);
}

}  // namespace

int main(int argc, char** argv) {
  const auto kind = argc == 4 ? kKinds.find(argv[1]) : kKinds.end();
  if (kind == kKinds.end()) {
    std::fputs("usage: write_power_world KIND SEED OUT\n", stderr);
    return 64;
  }
  WorldOptions options = kind->second.options;
  options.windows = kind->second.windows;
  const World world = test::MakeWorld(options, std::stoull(argv[2]));
  const std::string out = argv[3];
  const bool ok = Write(out + ".xplane.pb", TraceOf(world, kind->second)) &&
                  Write(out + ".power.jsonl", LogOf(world, kind->second)) &&
                  Write(out + ".layers.csv", LayersOf(world)) &&
                  Write(out + ".truth.json", TruthOf(world));
  return ok ? 0 : 73;
}
