// Answers of earlier tools: selects the planes that each tool reads, and combines captures as it
// does.
//
// ejkernel takes the first plane of a capture that matches the device; tune-jax and xprof take all
// of them. From several captures, the tuners take the mean and standard deviation of a function's
// times; of more than two times, the smallest and the largest are dropped. tune-jax first takes the
// slowest plane of each capture and refuses a function that occurs twice in a plane.
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compat/python.h"
#include "status.h"
#include "xplane_time/compat.h"

namespace xplane_time::compat {
namespace {

absl::Status NoPlane(const Trace& trace, uint32_t capture, const std::string& device) {
  std::string names, path;
  for (const Plane& plane : trace.planes) {
    if (trace.files[plane.file].capture != capture) continue;
    path = trace.files[plane.file].path;
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(plane.name));
  }
  return FailedPrecondition(path, ": no plane's name contains \"", device,
                            "\"; the trace has: ", names, "; choose one with --device");
}

std::string DeviceOf(const Trace& trace, const AnswerOptions& options) {
  if (!options.device.empty()) return options.device;
  for (const char* word : {"gpu", "tpu"}) {
    if (!PlanesWith(trace, word).empty()) return word;
  }
  return "cpu";
}

// The planes of each capture, in order. Repeated content is one capture. Errors: FailedPrecondition
// if a capture has no plane.
absl::StatusOr<std::map<uint32_t, std::vector<uint32_t>>> PlanesByCapture(
    const Trace& trace, const std::string& device) {
  std::map<uint32_t, std::vector<uint32_t>> captures;
  for (const TraceFile& file : trace.files) captures[file.capture];
  for (const uint32_t plane : PlanesWith(trace, device)) {
    captures[trace.files[trace.planes[plane].file].capture].push_back(plane);
  }
  for (const auto& [capture, planes] : captures) {
    if (planes.empty()) return NoPlane(trace, capture, device);
  }
  return captures;
}

}  // namespace

std::vector<uint32_t> PlanesWith(const Trace& trace, std::string_view text) {
  std::vector<uint32_t> found;
  for (uint32_t plane = 0; plane < trace.planes.size(); ++plane) {
    if (absl::StrContains(Lower(trace.planes[plane].name), Lower(text))) found.push_back(plane);
  }
  return found;
}

absl::StatusOr<Answer> AnswerAs(const Trace& trace, const AnswerOptions& options) {
  Answer answer = {.tool = options.tool, .device = DeviceOf(trace, options)};
  if (options.tool == Tool::kXprof) {
    ASSIGN_OR_RETURN(answer.xprof, XprofDeviceTimes(trace, options.xprof));
    return answer;
  }
  const bool tune_jax = options.tool == Tool::kTuneJax;
  ASSIGN_OR_RETURN(const auto by_capture, PlanesByCapture(trace, answer.device));
  std::vector<std::vector<PlaneTimes>> captures;
  std::vector<std::vector<KeyTime>> first_planes;  // ejkernel only uses the first plane
  for (const auto& [number, planes] : by_capture) {
    std::vector<PlaneTimes>& capture = captures.emplace_back();
    for (const uint32_t plane : std::span(planes).first(tune_jax ? planes.size() : 1)) {
      const Plane& of = trace.planes[plane];
      ASSIGN_OR_RETURN(std::vector<KeyTime> times,
                       tune_jax ? TuneJaxTimes(trace, plane, options.tune_jax)
                                : EjkernelTimes(trace, plane, options.ejkernel));
      for (const KeyTime& time : times) {
        answer.keys.push_back({of.file, std::string(of.name), time});
      }
      capture.push_back({std::string(of.name), std::move(times)});
    }
    first_planes.push_back(capture[0].times);
  }
  if (!tune_jax) {
    answer.variants = EjkernelVariants(first_planes);
    return answer;
  }
  ASSIGN_OR_RETURN(answer.variants, TuneJaxVariants(captures));
  return answer;
}

// The results that the tuners of ejkernel and tune-jax derive from the times of several captures.

namespace {

using SamplesById = InOrder<std::string, std::vector<double>>;

std::vector<VariantTime> TimesOf(const SamplesById& samples) {
  std::vector<VariantTime> times;
  for (auto [id, sorted] : samples.rows()) {
    if (sorted.size() > 2) {
      std::ranges::sort(sorted);
      sorted = {sorted.begin() + 1, sorted.end() - 1};
    }
    const MeanStd of = NumpyMeanStd(sorted);
    times.push_back({id, sorted.size(), of.mean, of.std});
  }
  return times;
}

absl::Status TwiceInAPlane(const PlaneTimes& plane) {
  std::vector<std::string> keys;
  for (const KeyTime& time : plane.times) keys.push_back(time.key);
  std::ranges::sort(keys);
  return FailedPrecondition(
      "plane \"", plane.plane,
      "\": a tuned function appears more than once, so tune-jax cannot time it; "
      "keys: ",
      absl::StrJoin(keys, ", "), "; our own definition (no --compat) can");
}

}  // namespace

std::vector<VariantTime> EjkernelVariants(std::span<const std::vector<KeyTime>> captures) {
  static const RE2 number("^jit_autotune_fn_0*([0-9]+)");  // without leading zeros, like int()
  SamplesById samples;
  for (const std::vector<KeyTime>& capture : captures) {
    for (const KeyTime& time : capture) {
      std::string id;
      if (RE2::PartialMatch(time.key, number, &id)) samples[id].push_back(time.time_s);
    }
  }
  return TimesOf(samples);
}

absl::StatusOr<std::vector<VariantTime>> TuneJaxVariants(
    std::span<const std::vector<PlaneTimes>> captures) {
  static const RE2 number("^jit_tune_jax_fn_0*([0-9]+)");
  SamplesById samples;
  for (const std::vector<PlaneTimes>& capture : captures) {
    SamplesById of_planes;
    for (const PlaneTimes& plane : capture) {
      absl::flat_hash_set<std::string> seen;
      for (const KeyTime& time : plane.times) {
        std::string id;
        if (!RE2::PartialMatch(time.key, number, &id)) continue;
        if (!seen.insert(id).second) return TwiceInAPlane(plane);
        if (time.time_s > 0) of_planes[id].push_back(time.time_s);
      }
    }
    for (const auto& [id, times] : of_planes.rows()) {
      samples[id].push_back(std::ranges::max(times));
    }
  }
  return TimesOf(samples);
}

}  // namespace xplane_time::compat
