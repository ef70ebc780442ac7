#include "decide/observations.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace xplane_time::decide {
namespace {

constexpr uint32_t kCrashes = 2;
constexpr uint32_t kTransients = 5;

enum class Blame : uint8_t { kFinal, kCrash, kTransient };

Blame BlameFor(SampleStatus status) {
  switch (status) {
    case SampleStatus::kCompileError:
    case SampleStatus::kWrongResult:
      return Blame::kFinal;
    case SampleStatus::kRuntimeError:
    case SampleStatus::kCrash:
    case SampleStatus::kTimeout:
    case SampleStatus::kOom:
      return Blame::kCrash;
    case SampleStatus::kOk:
    case SampleStatus::kNoEvents:
    case SampleStatus::kThrottled:
    case SampleStatus::kInfra:
      break;
  }
  return Blame::kTransient;
}

Values LogValues(const Sample& sample, Objective objective) {
  const double log_time = std::log(static_cast<double>(sample.t_ps));
  const double log_energy =
      sample.energy_uj ? std::log(*sample.energy_uj) : std::numeric_limits<double>::quiet_NaN();
  switch (objective) {
    case Objective::kTime:
    case Objective::kPareto:
      return {log_time, log_energy};
    case Objective::kEnergy:
      return {log_energy, log_energy};
    case Objective::kEdp:
      return {log_energy + log_time, log_energy};
    case Objective::kEd2p:
      return {log_energy + 2 * log_time, log_energy};
  }
  return {};
}

// In the order of slots: the order in which a result lists its samples means nothing.
std::vector<const Sample*> BySlot(const RoundResult& result) {
  std::vector<const Sample*> samples;
  samples.reserve(result.samples.size());
  for (const Sample& sample : result.samples) samples.push_back(&sample);
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample* a, const Sample* b) { return a->slot < b->slot; });
  return samples;
}

}  // namespace

Observations::Observations(size_t variants, Objective objective)
    : objective_(objective), records_(variants) {}

void Observations::Fold(const RoundResult& result) {
  rounds_.emplace_back();
  for (const Sample& sample : result.samples) {
    ++runs_;
    time_ps_ += static_cast<double>(std::max<int64_t>(sample.t_ps, 0));
  }
  if (result.discarded) {
    ++discarded_;
    return;
  }
  uint32_t slot = 0;
  for (const Sample* sample : BySlot(result)) {
    ++records_[sample->variant].attempts;
    if (sample->status == SampleStatus::kOk) {
      Add(*sample, slot);
    } else {
      Fail(sample->variant, sample->status);
    }
    ++slot;
  }
}

void Observations::Add(const Sample& sample, uint32_t slot) {
  const uint32_t round = static_cast<uint32_t>(rounds_.size() - 1);
  const Values value = LogValues(sample, objective_);
  std::vector<RoundCell>& cells = rounds_.back();
  VariantRecord& record = records_[sample.variant];
  record.log_time_sum += std::log(static_cast<double>(sample.t_ps));
  if (record.cells.empty() || record.cells.back().round != round) {
    record.cells.push_back({round, slot, value});
    cells.push_back({sample.variant, slot, value});
    return;
  }
  // The second of two is a canary. Which of them stands for the variant alternates, so that
  // neither place in the round favours it.
  Cell& first = record.cells.back();
  record.log_time_sum -= std::log(static_cast<double>(sample.t_ps));
  const bool swap = canaries_.size() % 2 == 1;
  const double later_over_earlier = value[kObjective] - first.log_value[kObjective];
  canaries_.push_back(swap ? -later_over_earlier : later_over_earlier);
  if (!swap) return;
  first = {round, slot, value};
  const auto cell = std::find_if(cells.begin(), cells.end(), [&](const RoundCell& other) {
    return other.variant == sample.variant;
  });
  *cell = {sample.variant, slot, value};
}

void Observations::Fail(uint32_t variant, SampleStatus status) {
  VariantRecord& record = records_[variant];
  const Blame blame = BlameFor(status);
  ++(blame == Blame::kTransient ? record.transient : record.failures);
  if (record.quarantine) return;
  const bool is_out = blame == Blame::kFinal ||
                      (blame == Blame::kCrash && record.failures >= kCrashes) ||
                      (record.transient >= kTransients && 2 * record.transient >= record.attempts);
  if (is_out) record.quarantine = SampleStatusName(status);
}

void Observations::Miss(uint32_t variant) {
  ++records_[variant].attempts;
  Fail(variant, SampleStatus::kNoEvents);
}

}  // namespace xplane_time::decide
