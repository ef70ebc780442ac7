#include "insight/diff_amounts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace xplane_time::insight {

Units::Units(const Side& side, DiffPer per) : side_(side), by_run_(per == DiffPer::kRun) {
  for (const SideProgram& program : side.programs) {
    std::vector<uint64_t>& units = units_of_block_[program.block];
    units.assign(captures(), 0);
    if (!by_run_) continue;
    for (size_t c = 0; c < captures(); ++c) units[c] = program.times[c].units;
  }
  if (by_run_) return;
  for (const SideOp& op : side.ops) {
    std::vector<uint64_t>& units = units_of_block_[side.programs[op.program].block];
    for (size_t c = 0; c < captures(); ++c) {
      if (op.times[c].count > 0 || op.times[c].own_ps != 0) units[c] = side.times[c].units;
    }
  }
}

double Units::Mean(const Amount& amount) const {
  double sum = 0;
  for (const auto& [scope, of] : amount.times_ps) {
    double means = 0, captures = 0;
    for (size_t c = 0; c < of.size(); ++c) {
      const uint64_t units = Of(scope)[c].units;
      if (units == 0) continue;
      means += static_cast<double>(of[c]) / static_cast<double>(units);
      captures += 1;
    }
    if (captures > 0) sum += means / captures;
  }
  return sum;
}

std::vector<uint64_t> Units::Measured(const Blocks& blocks) const {
  std::vector<uint64_t> measured(captures(), std::numeric_limits<uint64_t>::max());
  for (size_t c = 0; blocks.empty() && c < captures(); ++c) measured[c] = side_.times[c].units;
  for (const uint32_t block : blocks) {
    const auto known = units_of_block_.find(block);
    if (known == units_of_block_.end()) return std::vector<uint64_t>(captures(), 0);
    for (size_t c = 0; c < captures(); ++c) measured[c] = std::min(measured[c], known->second[c]);
  }
  return measured;
}

std::vector<std::pair<size_t, double>> Units::Values(const Amount& amount,
                                                     const Blocks& blocks) const {
  const std::vector<uint64_t> units = Measured(by_run_ ? blocks : Blocks());
  std::vector<std::pair<size_t, double>> values;
  for (size_t c = 0; c < captures(); ++c) {
    if (units[c] == 0) continue;
    double value = 0;
    for (const auto& [scope, of] : amount.times_ps) {
      value += static_cast<double>(of[c]) / static_cast<double>(Of(scope)[c].units);
    }
    values.emplace_back(c, value);
  }
  return values;
}

double LevelOf(const DiffRow& row) {
  const double base_ps = row.base.has_value() ? std::abs(row.base->mean_ps) : 0;
  const double head_ps = row.head.has_value() ? std::abs(row.head->mean_ps) : 0;
  return (base_ps + head_ps) / 2;
}

}  // namespace xplane_time::insight
