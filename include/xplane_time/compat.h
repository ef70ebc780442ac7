// The numbers of earlier tools, by their own definitions, bit for bit.
//
// Input: a Trace. Output: the results of ejkernel 0.0.80.3, tune-jax 0.8.3 and xprof 2.24.2 for it,
// with their units (seconds, microseconds), their keys and their order of rows. These are not our
// definition of a function's time, which is in report.h. docs/migrating.md shows the differences
// and their causes on one trace.
//
// Example:
//
//   ReadOptions unchanged;
//   unchanged.keep_identical_planes = true;
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), unchanged, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   for (uint32_t plane : compat::PlanesWith(*trace, "gpu")) {
//     auto times = compat::TuneJaxTimes(*trace, plane, {});
//     if (!times.ok()) return times.status();  // DataLoss, as from EventReader
//     std::cout << times->size() << " keys\n";
//   }
//
// These tools see raw events, including events with zero or negative durations and events outside
// their lines. The packages themselves are the source of the definitions, and our tests compare
// their results with ours. Sums follow Python 3.11; later versions sum more exactly. All functions
// are pure and thread-safe. Memory: about 50 bytes per event of a plane.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/trace.h"

namespace xplane_time::compat {

// A filter on an event's key or name, called once for each key or name. Empty: no filter, which
// differs from a filter that accepts everything.
using NameTest = std::function<bool(std::string_view)>;

// A key, such as "jit_dot(5)", and its time. Keys are unique, in the order of the tool's dict.
struct KeyTime {
  std::string key;
  double time_s = 0;
};

// Planes with a name that contains `text`, ignoring ASCII case, in file order.
std::vector<uint32_t> PlanesWith(const Trace& trace, std::string_view text);

struct EjkernelOptions {
  std::string prefix = "jit_";
  double min_duration_ns = 1000;
  std::optional<uint64_t> max_events = 10000;
  // if set, the time of an event is the time that its children of these names cover
  NameTest children = {};
};

// Computes ejkernel's Profiler.get_events_from_plane on raw protos.
absl::StatusOr<std::vector<KeyTime>> EjkernelTimes(const Trace& trace, uint32_t plane,
                                                   const EjkernelOptions& options);

struct TuneJaxOptions {
  std::string prefix = {};
  // If set, times come from XSpace protos. Otherwise they are those of jax.profiler.ProfileData,
  // which drops everything below a nanosecond.
  bool raw_protos = false;
  NameTest children = {};
};

// Computes tune_jax.profile_reader.get_events_from_plane.
absl::StatusOr<std::vector<KeyTime>> TuneJaxTimes(const Trace& trace, uint32_t plane,
                                                  const TuneJaxOptions& options);

// The time of a variant over several captures: mean and population standard deviation. If there are
// more than two samples, the smallest and the largest are dropped first.
struct VariantTime {
  std::string id;
  uint64_t n = 0;  // number of samples that remain
  double mean_s = 0, std_s = 0;
};

// Variants from the keys "jit_autotune_fn_N..." of captures. Each capture has the times of its
// first plane.
std::vector<VariantTime> EjkernelVariants(std::span<const std::vector<KeyTime>> captures);

// The name of a plane, and its TuneJaxTimes with the prefix "jit_".
struct PlaneTimes {
  std::string plane;
  std::vector<KeyTime> times;
};

// Variants from the keys "jit_tune_jax_fn_N...". The slowest plane of each capture counts; a time
// of zero never counts. Errors: FailedPrecondition (a plane has an id twice).
absl::StatusOr<std::vector<VariantTime>> TuneJaxVariants(
    std::span<const std::vector<PlaneTimes>> captures);

struct XprofOptions {
  uint64_t limit = 10;  // maximum number of records; 0: all
  bool intra_kernel_regions = false;
  std::optional<std::string> kernel_name = {};  // if set, only this kernel, without a limit
  NameTest names = {};
};

struct XprofKernel {
  std::string name, canonical_name;
  double total_us = 0, mean_us = 0;  // rounded to 4 decimals
  uint64_t count = 0;
  bool intra_kernel_region = false;
};

// Sums over all device planes.
struct XprofTimes {
  int64_t total_device_ns = 0;  // time that kernels cover
  struct LineTime {
    std::string line;
    int64_t covered_ns = 0;
  };
  std::vector<LineTime> lines;
  double custom_call_us = 0, custom_call_percent = 0;
  std::vector<XprofKernel> kernels;  // longest first, at most `limit`
  std::vector<double> steps_us;
  double mean_us = 0, std_us = 0;  // of the steps; without steps, of the total time of the device
  uint64_t kernel_count = 0, top_level_kernel_count = 0;
  double outermost_us = 0;  // sum of durations of events that no other event covers
  std::vector<std::string> excluded_lines;
};

// Computes xprof's get_device_time_attribution. Errors: FailedPrecondition (no result).
absl::StatusOr<XprofTimes> XprofDeviceTimes(const Trace& trace, const XprofOptions& options);

enum class Tool : uint8_t { kEjkernel, kTuneJax, kXprof };

struct AnswerOptions {
  Tool tool = Tool::kEjkernel;
  // a word in names of planes; empty: the first of gpu, tpu and cpu that has planes
  std::string device = {};
  EjkernelOptions ejkernel = {};
  TuneJaxOptions tune_jax = {};
  XprofOptions xprof = {};
};

// The result of a tool for a whole trace. Parts that the tool does not report are empty.
struct Answer {
  Tool tool = Tool::kEjkernel;
  std::string device;
  struct KeyRow {
    uint32_t input = 0;
    std::string plane;
    KeyTime time;
  };
  std::vector<KeyRow> keys = {};
  std::vector<VariantTime> variants = {};  // over all captures
  std::optional<XprofTimes> xprof = {};
};

// The result of a tool. ejkernel uses the first plane of each capture whose name has the device's
// word, tune-jax all such planes, and xprof all device planes. Errors: as above, and
// FailedPrecondition (no plane has the word).
absl::StatusOr<Answer> AnswerAs(const Trace& trace, const AnswerOptions& options);

}  // namespace xplane_time::compat
