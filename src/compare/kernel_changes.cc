#include "compare/kernel_changes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace xplane_time::compare {
namespace {

using Key = std::pair<std::string, std::string>;  // function, kernel

struct Sum {
  double time_ps = 0;
  uint64_t captures = 0;
  std::optional<double> mean() const {
    if (captures == 0) return std::nullopt;
    return time_ps / static_cast<double>(captures);
  }
};

struct Both {
  Sum base, head;
};

// Returns the functions of the side.
std::set<std::string> AddSide(std::span<const Measurements> side, Sum Both::*sum,
                              std::map<Key, Both>* kernels) {
  std::set<std::string> functions;
  for (const Measurements& capture : side) {
    for (const KernelTime& kernel : capture.kernels) {
      Sum& own = (*kernels)[{kernel.function, kernel.kernel}].*sum;
      own.time_ps += kernel.run_ps;
      ++own.captures;
      functions.insert(kernel.function);
    }
  }
  return functions;
}

double Distance(const KernelChange& change) {
  return std::abs(change.head_ps.value_or(0) - change.base_ps.value_or(0));
}

}  // namespace

std::vector<KernelTime> KernelTimes::Take() const {
  std::vector<KernelTime> kernels;
  for (const auto& [key, time_ps] : times_ps_) {
    const auto runs = runs_.find(key.first);
    if (runs == runs_.end() || runs->second == 0) continue;
    kernels.push_back({key.first, key.second, time_ps / static_cast<double>(runs->second)});
  }
  return kernels;
}

std::vector<KernelChange> KernelChanges(std::span<const Measurements> base,
                                        std::span<const Measurements> head) {
  std::map<Key, Both> kernels;
  const std::set<std::string> in_base = AddSide(base, &Both::base, &kernels);
  const std::set<std::string> in_head = AddSide(head, &Both::head, &kernels);
  std::vector<KernelChange> changes;
  for (const auto& [key, both] : kernels) {
    if (!in_base.contains(key.first) || !in_head.contains(key.first)) continue;
    KernelChange change = {key.first, key.second, both.base.mean(), both.head.mean()};
    if (Distance(change) > 0) changes.push_back(std::move(change));
  }
  std::stable_sort(
      changes.begin(), changes.end(),
      [](const KernelChange& a, const KernelChange& b) { return Distance(a) > Distance(b); });
  return changes;
}

}  // namespace xplane_time::compare
