#include "tune/run_limit.h"

#include <algorithm>

namespace xplane_time {
namespace {

constexpr size_t kKept = 9;  // of a variant: enough for a median

// At most `most`.
RunLimit::Duration Times(double times, RunLimit::Duration duration, RunLimit::Duration most) {
  const double product = times * static_cast<double>(duration.count());
  if (product >= static_cast<double>(most.count())) return most;
  return RunLimit::Duration(static_cast<int64_t>(product));
}

}  // namespace

void RunLimit::Took(const std::string& workload, const std::string& variant, Duration duration) {
  std::vector<Duration>& slots = workloads_[workload].slots[variant];
  if (slots.size() == kKept) return;
  slots.insert(std::upper_bound(slots.begin(), slots.end(), duration), duration);
}

void RunLimit::Ended(const std::string& workload, Duration duration) {
  std::optional<Duration>& shortest = workloads_[workload].shortest_end;
  shortest = std::min(shortest.value_or(duration), duration);
}

void RunLimit::EndRound() {
  for (auto& [name, workload] : workloads_) {
    workload.fastest.reset();
    for (const auto& [variant, slots] : workload.slots) {
      const Duration typical = slots[slots.size() / 2];
      workload.fastest = std::min(workload.fastest.value_or(typical), typical);
    }
  }
}

RunLimit::Duration RunLimit::EndOf(const OfWorkload& workload) const {
  const Duration shortest = workload.shortest_end.value_or(Duration(0));
  return Times(times_, shortest, timeout_);
}

std::optional<RunLimit::Duration> RunLimit::Of(const std::string& workload,
                                               const std::string& variant, Place place) const {
  const auto known = workloads_.find(workload);
  if (times_ == 0 || known == workloads_.end() || !known->second.fastest.has_value()) {
    return std::nullopt;
  }
  if (exempt_.contains(variant)) return std::nullopt;
  Duration limit = std::max(kFloor, Times(times_, *known->second.fastest, timeout_));
  if (place == Place::kFirst) limit *= 2;
  if (place == Place::kLast) limit += EndOf(known->second);
  return limit < timeout_ ? std::optional(limit) : std::nullopt;
}

RunLimit::Duration RunLimit::Alone(const std::string& workload, const std::string& variant) const {
  const auto limit = Of(workload, variant, Place::kFirst);
  if (!limit.has_value()) return timeout_;
  return std::min(timeout_, 2 * *limit + EndOf(workloads_.at(workload)));
}

RunLimit::Duration RunLimit::Fastest(const std::string& workload) const {
  const auto known = workloads_.find(workload);
  return known == workloads_.end() ? Duration(0) : known->second.fastest.value_or(Duration(0));
}

}  // namespace xplane_time
