#include "insight/diff_verdicts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "compare/differences.h"
#include "stats/distributions.h"
#include "status.h"

namespace xplane_time::insight {
namespace {

using compare::Difference;
using stats::Centre;

// As in compare: processes of one program differ by at least this much.
constexpr double kLeastSpread = 0.001;
constexpr uint64_t kLeastUnits = 2;
constexpr std::string_view kSideNames[kSides] = {"base", "head"};

class Judge {
 public:
  Judge(const std::array<Units, kSides>& units, const DiffReport& report, int64_t clock_step_ps)
      : units_(units),
        decision_(report.decision),
        per_(report.per),
        clock_step_ps_(static_cast<double>(clock_step_ps)) {}

  void Run(std::vector<Draft>* drafts) const {
    const double small_ps = kSmallShare * LevelOf(drafts->back().row);
    std::vector<std::pair<DiffRow*, Difference>> judged;
    std::vector<double> p_values;
    for (Draft& draft : *drafts) {
      draft.row.reason = WhyNone(draft);
      if (!draft.row.reason.empty()) continue;
      if (LevelOf(draft.row) < small_ps) {
        draft.row.verdict = DiffVerdict::kSmall;
        continue;
      }
      const Difference difference = DifferenceOf(draft);
      p_values.push_back(ChanceOf(difference));
      judged.emplace_back(&draft.row, difference);
    }
    const std::vector<double> adjusted = stats::HolmAdjusted(p_values);
    const double tail =
        (1 - decision_.confidence) / 2 / static_cast<double>(std::max<size_t>(1, judged.size()));
    for (size_t i = 0; i < judged.size(); ++i) {
      const auto& [row, difference] = judged[i];
      const double half_ps =
          difference.standard_error == 0
              ? 0
              : stats::StudentQuantile(tail, difference.df) * difference.standard_error;
      row->lo_ps = difference.estimate - half_ps;
      row->hi_ps = difference.estimate + half_ps;
      row->p_value = adjusted[i];
      row->verdict = VerdictOf(*row);
      if (row->verdict == DiffVerdict::kUnproven && *row->p_value <= decision_.alpha) {
        row->reason = Cat("the change is not proved to exceed --min-effect, ",
                          100 * decision_.min_effect, " % of base");
      }
    }
  }

 private:
  // How often each side was measured: in captures (with `paired`, in pairs in which both sides were
  // measured), or in units if the variation between captures is stated.
  std::array<uint64_t, kSides> TimesMeasured(const Draft& draft) const {
    const std::array<std::vector<uint64_t>, kSides> units = {units_[0].Measured(draft.blocks),
                                                             units_[1].Measured(draft.blocks)};
    std::array<uint64_t, kSides> times = {};
    for (size_t side = 0; side < kSides; ++side) {
      for (size_t c = 0; c < units[side].size(); ++c) {
        if (decision_.paired && units[1 - side][c] == 0) continue;
        times[side] += decision_.offset_std.has_value() ? units[side][c] : units[side][c] > 0;
      }
    }
    return times;
  }

  bool OnOneSideOnly(const Draft& draft) const {
    return std::ranges::any_of(draft.blocks, [this](uint32_t block) {
      return std::ranges::any_of(units_, [block](const Units& units) {
        const std::vector<uint64_t> measured = units.Measured({block});
        return std::ranges::count(measured, uint64_t{0}) == std::ssize(measured);
      });
    });
  }

  // The reason for no verdict; empty: a verdict is possible.
  std::string WhyNone(const Draft& draft) const {
    const std::array<uint64_t, kSides> times = TimesMeasured(draft);
    if (std::ranges::min(times) >= kLeastUnits) return "";
    if (OnOneSideOnly(draft)) {
      return draft.of_kernels ? "its function ran on one side only"
                              : "some functions ran on one side only";
    }
    const bool stated = decision_.offset_std.has_value(), paired = decision_.paired && !stated;
    const std::string unit(paired ? "pair of captures" : stated ? DiffPerName(per_) : "capture");
    const auto in = [&](uint64_t count) { return Cat(count == 0 ? "no " : "one ", unit); };
    std::string where = Cat(in(times[0]), paired ? "" : " a side");
    if (times[0] != times[1]) {
      const size_t side = times[0] < times[1] ? 0 : 1;
      where = Cat(in(times[side]), " of ", kSideNames[side]);
    }
    return Cat(draft.blocks.empty() ? "there is "
               : draft.of_kernels   ? "its function ran in "
                                    : "all functions ran in ",
               where, ", but a verdict needs two");
  }

  // One centre per capture. If the row is absent on a side, it took 0 in captures in which its
  // function ran.
  std::array<std::vector<Centre>, kSides> CentresOf(const Draft& draft) const {
    std::array<std::map<size_t, Centre>, kSides> by_capture;
    for (size_t side = 0; side < kSides; ++side) {
      for (const auto& [c, value] : units_[side].Values(draft.amounts[side], draft.blocks)) {
        Centre centre = {.value = value, .variance = 0, .df = 0};
        if (c < draft.within[side].size()) {
          centre.variance = draft.within[side][c].variance;
          centre.df = draft.within[side][c].df;
        }
        by_capture[side].emplace(c, centre);
      }
    }
    std::array<std::vector<Centre>, kSides> centres;
    for (size_t side = 0; side < kSides; ++side) {
      for (const auto& [c, centre] : by_capture[side]) {
        if (!decision_.paired || by_capture[1 - side].contains(c)) centres[side].push_back(centre);
      }
    }
    return centres;
  }

  Difference DifferenceOf(const Draft& draft) const {
    const auto& [base, head] = CentresOf(draft);
    const double level_ps = LevelOf(draft.row);
    std::optional<double> offset_ps;
    if (decision_.offset_std.has_value()) offset_ps = *decision_.offset_std * level_ps;
    Difference difference = decision_.paired ? compare::PairedDifference(base, head, offset_ps)
                                             : compare::UnpairedDifference(base, head, offset_ps);
    const double floor_ps =
        std::min(kLeastSpread, decision_.offset_std.value_or(kLeastSpread)) * level_ps *
        std::sqrt(1 / static_cast<double>(base.size()) + 1 / static_cast<double>(head.size()));
    // A time is off by up to half a step of the clock, in all captures of a side alike.
    const double executions = std::max(draft.counts[0], draft.counts[1]);
    difference.resolution = clock_step_ps_ * executions * std::sqrt(2.0 / 12);
    difference.standard_error =
        std::hypot(std::max(difference.standard_error, floor_ps), difference.resolution);
    return difference;
  }

  static double ChanceOf(const Difference& difference) {
    if (difference.standard_error > 0) {
      const double t = std::abs(difference.estimate) / difference.standard_error;
      return std::min(1.0, 2 * stats::StudentTail(t, difference.df));
    }
    return difference.estimate != 0 ? 0 : 1;
  }

  DiffVerdict VerdictOf(const DiffRow& row) const {
    const double base_ps = row.base.has_value() ? std::abs(row.base->mean_ps) : 0;
    const double effect_ps = decision_.min_effect * base_ps;
    if (*row.p_value > decision_.alpha) return DiffVerdict::kUnproven;
    if (*row.lo_ps > effect_ps) return DiffVerdict::kMore;
    if (*row.hi_ps < -effect_ps) return DiffVerdict::kLess;
    return DiffVerdict::kUnproven;
  }

  const std::array<Units, kSides>& units_;
  const CompareOptions& decision_;
  const DiffPer per_;
  const double clock_step_ps_;
};

}  // namespace

void JudgeDrafts(const std::array<Units, kSides>& units, const DiffReport& report,
                 int64_t clock_step_ps, std::vector<Draft>* drafts) {
  Judge(units, report, clock_step_ps).Run(drafts);
}

}  // namespace xplane_time::insight
