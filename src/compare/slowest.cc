#include "compare/slowest.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace xplane_time::compare {
namespace {

// By function, variant and program.
using Key = std::tuple<std::string, std::string, uint32_t>;

bool Overlap(const std::vector<const Series*>& devices, size_t run) {
  double latest_start = -1e300, first_end = 1e300;
  for (const Series* device : devices) {
    const Sampled& sample = device->samples[run];
    const double start = static_cast<double>(sample.start_ps);
    latest_start = std::max(latest_start, start);
    first_end = std::min(first_end, start + sample.time_ps);
  }
  return latest_start <= first_end;
}

bool RunsMatch(const std::vector<const Series*>& devices) {
  const size_t runs = devices[0]->samples.size();
  for (const Series* device : devices) {
    if (device->samples.size() != runs || device->left_out > 0) return false;
    if (device->metric != devices[0]->metric || device->clock != devices[0]->clock) return false;
  }
  for (size_t run = 0; run < runs; ++run) {
    if (!Overlap(devices, run)) return false;
  }
  return true;
}

Series Combined(const std::vector<const Series*>& devices) {
  Series out = *devices[0];
  out.device = absl::StrCat("slowest of ", devices.size());
  for (const Series* device : devices) {
    out.uncertain |= device->uncertain;
    for (size_t run = 0; run < out.samples.size(); ++run) {
      if (device->samples[run].time_ps > out.samples[run].time_ps) {
        out.samples[run] = device->samples[run];
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Series> SlowestDevice(std::span<const Series> series, std::vector<std::string>* notes) {
  std::map<Key, std::vector<const Series*>> functions;
  for (const Series& one : series) {
    const std::string variant = one.variant_id.value_or("");
    functions[{variant.empty() ? one.function : "", variant, one.program}].push_back(&one);
  }
  std::vector<Series> out;
  for (const auto& [key, devices] : functions) {
    if (devices.size() == 1) {
      out.push_back(*devices[0]);
    } else if (RunsMatch(devices)) {
      out.push_back(Combined(devices));
    } else {
      Series& none = out.emplace_back(*devices[0]);
      none.device = absl::StrCat("slowest of ", devices.size());
      none.samples.clear();
      notes->push_back(absl::StrCat(none.function, ": the runs on ", devices.size(),
                                    " devices do not match; choose one with --device"));
    }
  }
  return out;
}

}  // namespace xplane_time::compare
