#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
  return absl::FailedPreconditionError(absl::StrCat(path, ": no plane's name contains \"", device,
                                                    "\"; there are: ", names,
                                                    "; choose with --device"));
}

std::string DeviceOf(const Trace& trace, const AnswerOptions& options) {
  if (!options.device.empty()) return options.device;
  for (const char* word : {"gpu", "tpu"}) {
    if (!PlanesWith(trace, word).empty()) return word;
  }
  return "cpu";
}

// Planes of each capture, in order. The same content twice is one capture. Errors:
// FailedPrecondition where a capture has none.
absl::StatusOr<std::vector<std::vector<uint32_t>>> PlanesByCapture(const Trace& trace,
                                                                   const std::string& device) {
  std::map<uint32_t, std::vector<uint32_t>> captures;
  for (const TraceFile& file : trace.files) captures[file.capture];
  for (const uint32_t plane : PlanesWith(trace, device)) {
    captures[trace.files[trace.planes[plane].file].capture].push_back(plane);
  }
  std::vector<std::vector<uint32_t>> found;
  for (auto& [capture, planes] : captures) {
    if (planes.empty()) return NoPlane(trace, capture, device);
    found.push_back(std::move(planes));
  }
  return found;
}

void AddKeys(const Trace& trace, uint32_t plane, const std::vector<KeyTime>& times,
             Answer* answer) {
  for (const KeyTime& time : times) {
    answer->keys.push_back({trace.planes[plane].file, std::string(trace.planes[plane].name), time});
  }
}

absl::Status AnswerAsEjkernel(const Trace& trace, const AnswerOptions& options, Answer* answer) {
  const auto found = PlanesByCapture(trace, answer->device);
  if (!found.ok()) return found.status();
  std::vector<std::vector<KeyTime>> captures;
  for (const std::vector<uint32_t>& planes : *found) {
    auto times = EjkernelTimes(trace, planes[0], options.ejkernel);
    if (!times.ok()) return times.status();
    AddKeys(trace, planes[0], *times, answer);
    captures.push_back(*std::move(times));
  }
  answer->variants = EjkernelVariants(captures);
  return absl::OkStatus();
}

absl::Status AnswerAsTuneJax(const Trace& trace, const AnswerOptions& options, Answer* answer) {
  const auto found = PlanesByCapture(trace, answer->device);
  if (!found.ok()) return found.status();
  std::vector<std::vector<PlaneTimes>> captures;
  for (const std::vector<uint32_t>& planes : *found) {
    std::vector<PlaneTimes>& capture = captures.emplace_back();
    for (const uint32_t plane : planes) {
      auto times = TuneJaxTimes(trace, plane, options.tune_jax);
      if (!times.ok()) return times.status();
      AddKeys(trace, plane, *times, answer);
      capture.push_back({std::string(trace.planes[plane].name), *std::move(times)});
    }
  }
  auto variants = TuneJaxVariants(captures);
  if (!variants.ok()) return variants.status();
  answer->variants = *std::move(variants);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Answer> AnswerAs(const Trace& trace, const AnswerOptions& options) {
  Answer answer = {.tool = options.tool, .device = DeviceOf(trace, options)};
  absl::Status status;
  if (options.tool == Tool::kXprof) {
    auto times = XprofDeviceTimes(trace, options.xprof);
    status = times.status();
    if (times.ok()) answer.xprof = *std::move(times);
  } else if (options.tool == Tool::kTuneJax) {
    status = AnswerAsTuneJax(trace, options, &answer);
  } else {
    status = AnswerAsEjkernel(trace, options, &answer);
  }
  if (!status.ok()) return status;
  return answer;
}

}  // namespace xplane_time::compat
