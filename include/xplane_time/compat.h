// The numbers of earlier tools, from their own definitions, bit for bit.
//
// Enters: a Trace. Leaves: what ejkernel 0.0.80.3, tune-jax 0.8.3 and xprof 2.24.2 say of
// it, with their units (seconds, microseconds), their keys and their order of rows. Not
// our definition of a function's time: that is report.h, and docs/migrating.md shows on
// one trace how and why they differ.
//
//   ReadOptions as_it_is;
//   as_it_is.keep_identical_planes = true;
//   auto trace = OpenTrace(inputs, as_it_is, &diagnostics);
//   for (uint32_t plane : compat::PlanesWith(*trace, "gpu")) {
//     auto times = compat::TuneJaxTimes(*trace, plane, {});
//     if (!times.ok()) ...            // DataLoss, as of EventReader
//   }
//
// They see raw events: none is skipped, zero durations, negative ones and those outside
// their lines included. Source of the definitions: the packages themselves, which our
// tests run side by side with this. Times of Python 3.11: later versions sum more exactly.
// All functions are pure and safe to call from several threads. Memory: some 50 bytes an
// event of a plane.
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

// Whether an event's key or name is wanted; asked once for each. Empty: no filter, which is
// not the same as one that everything passes.
using NameTest = std::function<bool(std::string_view)>;

// A key, such as "jit_dot(5)", and its time. Keys are unique, in their dict's order.
struct KeyTime {
  std::string key;
  double time_s = 0;
};

// Planes whose name contains `text`, in any (ASCII) case, in file order.
std::vector<uint32_t> PlanesWith(const Trace& trace, std::string_view text);

struct EjkernelOptions {
  std::string prefix = "jit_";
  double min_duration_ns = 1000;
  std::optional<uint64_t> max_events = 10000;
  NameTest children = {};  // with it, time is what these cover inside an event
};

// ejkernel's Profiler.get_events_from_plane, on raw protos.
absl::StatusOr<std::vector<KeyTime>> EjkernelTimes(const Trace& trace, uint32_t plane,
                                                   const EjkernelOptions& options);

struct TuneJaxOptions {
  std::string prefix = {};
  // Times as of XSpace protos; else as jax.profiler.ProfileData gives them, which drops what
  // is below a nanosecond.
  bool raw_protos = false;
  NameTest children = {};
};

// tune_jax.profile_reader.get_events_from_plane.
absl::StatusOr<std::vector<KeyTime>> TuneJaxTimes(const Trace& trace, uint32_t plane,
                                                  const TuneJaxOptions& options);

// A variant's time over several captures: mean and population standard deviation, after the
// smallest and the largest of more than two samples were dropped.
struct VariantTime {
  std::string id;
  uint64_t n = 0;  // samples that were left
  double mean_s = 0, std_s = 0;
};

// Keys "jit_autotune_fn_N..." of captures, each the times of its first plane.
std::vector<VariantTime> EjkernelVariants(std::span<const std::vector<KeyTime>> captures);

// Of a plane: its name and TuneJaxTimes with the prefix "jit_".
struct PlaneTimes {
  std::string plane;
  std::vector<KeyTime> times;
};

// Keys "jit_tune_jax_fn_N..."; the slowest plane of each capture counts, zero never does.
// Errors: FailedPrecondition where a plane has an id twice.
absl::StatusOr<std::vector<VariantTime>> TuneJaxVariants(
    std::span<const std::vector<PlaneTimes>> captures);

struct XprofOptions {
  uint64_t limit = 10;  // records; 0: all
  bool intra_kernel_regions = false;
  std::optional<std::string> kernel_name = {};  // only this one, and no limit
  NameTest names = {};
};

struct XprofKernel {
  std::string name, canonical_name;
  double total_us = 0, mean_us = 0;  // rounded to 4 digits after the point
  uint64_t count = 0;
  bool intra_kernel_region = false;
};

// Of all device planes together.
struct XprofTimes {
  int64_t total_device_ns = 0;  // what kernels cover
  struct LineTime {
    std::string line;
    int64_t covered_ns = 0;
  };
  std::vector<LineTime> lines;
  double custom_call_us = 0, custom_call_percent = 0;
  std::vector<XprofKernel> kernels;  // largest first, `limit` of them
  std::vector<double> steps_us;
  double mean_us = 0, std_us = 0;  // of the steps; without steps all of the device's time
  uint64_t kernel_count = 0, top_level_kernel_count = 0;
  double outermost_us = 0;  // sum of durations of events that no other one covers
  std::vector<std::string> excluded_lines;
};

// xprof's get_device_time_attribution. Errors: FailedPrecondition where it finds nothing.
absl::StatusOr<XprofTimes> XprofDeviceTimes(const Trace& trace, const XprofOptions& options);

enum class Tool : uint8_t { kEjkernel, kTuneJax, kXprof };

struct AnswerOptions {
  Tool tool = Tool::kEjkernel;
  std::string device = {};  // a word in names of planes; empty: the first of gpu, tpu, cpu there
  EjkernelOptions ejkernel = {};
  TuneJaxOptions tune_jax = {};
  XprofOptions xprof = {};
};

// What a tool says of a whole trace; what the tool does not say is empty.
struct Answer {
  Tool tool = Tool::kEjkernel;
  std::string device;
  struct KeyRow {
    uint32_t input = 0;
    std::string plane;
    KeyTime time;
  };
  std::vector<KeyRow> keys = {};
  std::vector<VariantTime> variants = {};  // over the captures
  std::optional<XprofTimes> xprof = {};
};

// ejkernel: the first plane of each capture with the device's word. tune-jax: all of them.
// xprof: all device planes, whatever the word. Errors: as above, and FailedPrecondition where
// no plane has the word.
absl::StatusOr<Answer> AnswerAs(const Trace& trace, const AnswerOptions& options);

}  // namespace xplane_time::compat
