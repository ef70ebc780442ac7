// The Pareto front of time and energy. A variant is dropped when one of the front is, by the
// evidence, not more than delta worse in either. A variant of the front belongs there when no
// other of it is more than delta better in both.
#include <algorithm>
#include <cmath>

#include "decide/race.h"

namespace xplane_time::decide {

std::vector<uint32_t> Race::Front() const {
  struct Point {
    uint32_t variant;
    double time, energy;
  };
  std::vector<Point> points;
  if (!leader_) return {};
  for (const uint32_t v : alive()) {
    if (observations_->cells(v).empty()) continue;
    points.push_back({v, v == *leader_ ? 0 : objective_.Compare(v, *leader_).centre,
                      v == *leader_ ? 0 : energy_.Compare(v, *leader_).centre});
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.time < b.time || (a.time == b.time && a.energy < b.energy);
  });
  std::vector<uint32_t> front;
  double least_energy = INFINITY;
  for (const Point& point : points) {
    if (point.energy >= least_energy) continue;
    least_energy = point.energy;
    front.push_back(point.variant);
  }
  return front;
}

void Race::DropDominated() {
  const std::vector<uint32_t> front = Front();
  std::vector<uint32_t> rest;
  for (const uint32_t v : alive()) {
    if (std::find(front.begin(), front.end(), v) == front.end()) rest.push_back(v);
  }
  const double needed = static_cast<double>(rest.size()) / rules_.alpha;
  const Hypothesis better{-delta_, 2 * delta_};
  for (const uint32_t v : rest) {
    for (const uint32_t member : front) {
      const Comparison in_time = objective_.Compare(v, member);
      if (std::min(Evidence(in_time, better), Evidence(energy_.Compare(v, member), better)) <
          needed) {
        continue;
      }
      Drop(v, member, in_time);
      break;
    }
  }
}

bool Race::BelongsToFront(uint32_t variant, const std::vector<uint32_t>& front,
                          double alpha) const {
  const Hypothesis worse{-delta_, 2 * delta_};
  return std::all_of(front.begin(), front.end(), [&](uint32_t other) {
    if (other == variant) return true;
    return std::max(Evidence(objective_.Compare(other, variant), worse),
                    Evidence(energy_.Compare(other, variant), worse)) *
               alpha >=
           1;
  });
}

Outcome Race::ParetoOutcome() const {
  const std::vector<uint32_t> front = Front();
  if (front.size() < alive().size()) return Outcome::kRunning;
  const double pairs = static_cast<double>(front.size() * (front.size() - 1));
  const double alpha = rules_.alpha / std::max(pairs * 2, 1.0);
  const bool all_belong = std::all_of(front.begin(), front.end(),
                                      [&](uint32_t v) { return BelongsToFront(v, front, alpha); });
  return all_belong ? Outcome::kCertified : Outcome::kRunning;
}

}  // namespace xplane_time::decide
