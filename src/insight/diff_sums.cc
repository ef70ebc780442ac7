#include "insight/diff_sums.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "insight/diff_amounts.h"
#include "insight/diff_verdicts.h"
#include "saturate.h"
#include "stats/location.h"

namespace xplane_time::insight {
namespace {

using stats::Centre;

// The assumed noise if there are too few captures: of unchanged kernels, and of waiting. Three
// standard errors within the captures are added.
constexpr double kUsualNoise = 0.1, kUsualWaitNoise = 0.5, kNoiseErrors = 3;

class Summing {
 public:
  Summing(const Side& base, const Side& head, DiffReport* report)
      : sides_{&base, &head},
        units_{Units(base, report->per), Units(head, report->per)},
        report_(report) {}

  void Run(const std::vector<OpMatch>& matches) {
    for (const OpMatch& match : matches) AddKernels(match);
    AddWaiting();
    Draft total;
    total.blocks = AllBlocks();
    for (const Draft& draft : drafts_) {
      for (size_t side = 0; side < kSides; ++side) {
        total.amounts[side].Add(draft.amounts[side]);
      }
    }
    for (size_t side = 0; side < kSides; ++side) {
      PartOf(side, &total);
      total.within[side] = FindWithin(side, &UnitTimes::span_ps, &UnitTimes::Squares::span);
      total.counts[side] = static_cast<double>(units_[side].scopes());
    }
    FinishDelta(&total);
    drafts_.push_back(std::move(total));
    JudgeDrafts(units_, *report_, std::max(sides_[0]->clock_step_ps, sides_[1]->clock_step_ps),
                &drafts_);
    FillReport();
  }

 private:
  std::optional<DiffPart>& PartOf(size_t side, Draft* draft) const {
    std::optional<DiffPart>& part = side == 0 ? draft->row.base : draft->row.head;
    if (!part.has_value()) part.emplace();
    part->mean_ps = units_[side].Mean(draft->amounts[side]);
    part->total_ps = draft->amounts[side].total_ps();
    return part;
  }

  static void FinishDelta(Draft* draft) {
    DiffRow& row = draft->row;
    row.delta_ps = (row.head.has_value() ? row.head->mean_ps : 0) -
                   (row.base.has_value() ? row.base->mean_ps : 0);
  }

  // If units are runs, an amount that belongs to no single function needs all functions.
  Blocks AllBlocks() const {
    Blocks blocks;
    if (report_->per != DiffPer::kRun) return blocks;
    for (const Side* side : sides_) {
      for (const SideProgram& program : side->programs) blocks.insert(program.block);
    }
    return blocks;
  }

  void AddKernels(const OpMatch& match) {
    Draft draft;
    draft.of_kernels = true;
    draft.row.match = match.match;
    draft.row.similarity = match.similarity;
    for (size_t side = 0; side < kSides; ++side) {
      const std::vector<uint32_t>& ops = side == 0 ? match.base : match.head;
      if (!ops.empty()) AddSide(side, ops, &draft);
    }
    FinishDelta(&draft);
    drafts_.push_back(std::move(draft));
  }

  void AddSide(size_t side, const std::vector<uint32_t>& ops, Draft* draft) {
    const Units& units = units_[side];
    Amount hidden, counts;
    draft->within[side].assign(units.captures(), Centre{.value = 0, .variance = 0, .df = 0});
    const SideOp* longest = nullptr;
    int64_t most_ps = -1;
    for (const uint32_t at : ops) {
      const SideOp& op = sides_[side]->ops[at];
      const uint32_t scope = units.ScopeOf(op.program);
      const SideProgram& program = sides_[side]->programs[op.program];
      if (!program.function.empty()) draft->blocks.insert(program.block);
      std::vector<int64_t> own_ps, hidden_ps, count;
      int64_t sum_ps = 0;
      for (size_t c = 0; c < op.times.size(); ++c) {
        const OwnTimes& times = op.times[c];
        own_ps.push_back(times.own_ps);
        hidden_ps.push_back(times.hidden_ps);
        count.push_back(static_cast<int64_t>(times.count));
        sum_ps = SaturatingAdd(sum_ps, times.own_ps);
        const auto own = static_cast<double>(times.own_ps);
        AddVariance({own, times.squares, times.count}, units.Of(scope)[c].units,
                    &draft->within[side][c]);
      }
      draft->amounts[side].Add(scope, own_ps);
      hidden.Add(scope, hidden_ps);
      counts.Add(scope, count);
      if (sum_ps > most_ps) longest = &op;
      most_ps = std::max(most_ps, sum_ps);
    }
    DiffPart& part = *PartOf(side, draft);
    Describe(*longest, ops, side, &part);
    part.count = draft->counts[side] = units.Mean(counts);
    const bool transfers =
        part.category == Category::kCollective || part.category == Category::kCopy;
    if (transfers) part.hidden_ps = units.Mean(hidden);
  }

  // Times that are independent of each other: executions, or units.
  struct Sample {
    double sum, squares;
    uint64_t count;
  };
  // Adds the variance of the sum of a sample, divided by a number of units.
  static void AddVariance(const Sample& sample, uint64_t units, Centre* within) {
    if (sample.count < 2 || units == 0) return;
    const auto n = static_cast<double>(sample.count), of_units = static_cast<double>(units);
    const double of_one = std::max(0.0, (sample.squares - sample.sum * sample.sum / n) / (n - 1));
    within->variance += of_one * n / (of_units * of_units);
    within->df += n - 1;
  }

  void Describe(const SideOp& longest, const std::vector<uint32_t>& ops, size_t side,
                DiffPart* part) const {
    const OpTraits& traits = longest.traits;
    const SideProgram& program = sides_[side]->programs[longest.program];
    if (!program.function.empty()) part->function = program.function;
    part->program_ids = program.program_ids;
    part->kernel = traits.kernel;
    part->op_name = traits.op_name;
    part->source = traits.source;
    part->opcode = traits.opcode;
    part->shape = traits.shape;
    part->category = traits.category;
    for (const uint32_t at : ops) {
      const OpTraits& each = sides_[side]->ops[at].traits;
      part->ops.push_back(each.op.empty() ? each.kernel : each.op);
      for (const std::string& line : each.lines) {
        if (std::ranges::find(part->lines, line) == part->lines.end()) part->lines.push_back(line);
      }
    }
  }

  void AddWaiting() {
    const bool launches = sides_[0]->any_launch && sides_[1]->any_launch;
    using Squares = UnitTimes::Squares;
    const auto add = [this](DiffMatch match, auto time_ps, double Squares::*squares) {
      AddWait(
          match, [=](const UnitTimes& times, int64_t) { return std::invoke(time_ps, times); },
          [=, this](size_t side) { return FindWithin(side, time_ps, squares); });
    };
    AddWait(
        DiffMatch::kOverlap,
        [](const UnitTimes& times, int64_t own_ps) { return times.busy_ps - own_ps; },
        [this](size_t side) { return FindWithin(side, &UnitTimes::busy_ps, &Squares::busy); });
    add(DiffMatch::kForeign, &UnitTimes::foreign_ps, &Squares::foreign);
    if (launches) {
      add(DiffMatch::kIdleHost, &UnitTimes::idle_host_ps, &Squares::idle_host);
      add(DiffMatch::kIdleLaunch, &UnitTimes::idle_launch_ps, &Squares::idle_launch);
      add(DiffMatch::kIdleUnknown, &UnitTimes::idle_unknown_ps, &Squares::idle_unknown);
    } else {
      add(DiffMatch::kIdle, &UnitTimes::idle_ps, &Squares::idle);
    }
  }

  // The variance of each capture's mean of a time, from the times of its units.
  std::vector<Centre> FindWithin(size_t side, auto time_ps, double UnitTimes::Squares::*squares) {
    const Units& units = units_[side];
    std::vector<Centre> within(units.captures(), Centre{.value = 0, .variance = 0, .df = 0});
    for (uint32_t scope = 0; scope < units.scopes(); ++scope) {
      for (size_t c = 0; c < units.captures(); ++c) {
        const UnitTimes& times = units.Of(scope)[c];
        const auto sum = static_cast<double>(std::invoke(time_ps, times));
        AddVariance({sum, times.squares.*squares, times.units}, times.units, &within[c]);
      }
    }
    return within;
  }

  // `time_of(units, own_ps)`: of a program in a capture, whose kernels together ran `own_ps`.
  // `find_within(side)`: the variances within the captures.
  void AddWait(DiffMatch match, auto time_of, auto find_within) {
    Draft draft;
    draft.row.match = match;
    draft.blocks = AllBlocks();
    for (size_t side = 0; side < kSides; ++side) {
      const Units& units = units_[side];
      for (uint32_t scope = 0; scope < units.scopes(); ++scope) {
        std::vector<int64_t> times_ps;
        for (size_t c = 0; c < units.captures(); ++c) {
          times_ps.push_back(time_of(units.Of(scope)[c], OwnPs(side, scope, c)));
        }
        draft.amounts[side].Add(scope, times_ps);
      }
      draft.within[side] = find_within(side);
      draft.counts[side] = static_cast<double>(units.scopes());
      PartOf(side, &draft);
    }
    FinishDelta(&draft);
    const bool nothing = draft.row.base->total_ps == 0 && draft.row.head->total_ps == 0;
    const bool told = match == DiffMatch::kIdle || match == DiffMatch::kIdleHost ||
                      match == DiffMatch::kIdleLaunch;
    if (!nothing || told) drafts_.push_back(std::move(draft));
  }

  int64_t OwnPs(size_t side, uint32_t scope, size_t capture) {
    std::map<std::pair<uint32_t, size_t>, int64_t>& own_ps = own_ps_[side];
    if (own_ps.empty()) {
      for (const SideOp& op : sides_[side]->ops) {
        for (size_t c = 0; c < op.times.size(); ++c) {
          int64_t& sum_ps = own_ps[{units_[side].ScopeOf(op.program), c}];
          sum_ps = SaturatingAdd(sum_ps, op.times[c].own_ps);
        }
      }
    }
    return own_ps[{scope, capture}];
  }

  // How much of a change may be chance. An op that was changed is worth telling in any case.
  static double NoiseOf(const Draft& draft) {
    const DiffRow& row = draft.row;
    const bool changed = row.match != DiffMatch::kExact && !IsWaiting(row.match);
    if (changed) return 0;
    if (row.lo_ps.has_value()) return (*row.hi_ps - *row.lo_ps) / 2;
    if (IsWaiting(row.match)) return 2 * kUsualWaitNoise * LevelOf(row);
    double variance = 0;
    for (const std::vector<Centre>& side : draft.within) {
      double sum = 0;
      for (const Centre& each : side) sum += each.variance;
      const auto captures = static_cast<double>(std::max<size_t>(1, side.size()));
      variance += sum / (captures * captures);
    }
    return kUsualNoise * LevelOf(row) + kNoiseErrors * std::sqrt(variance);
  }

  void FillReport() {
    report_->total = std::move(drafts_.back().row);
    drafts_.pop_back();
    report_->base.total_ps = report_->total.base->total_ps;
    report_->head.total_ps = report_->total.head->total_ps;
    const double delta_ps = report_->total.delta_ps;
    std::map<DiffMatch, DiffSum> sums;
    for (Draft& draft : drafts_) {
      DiffRow& row = draft.row;
      row.noise_ps = NoiseOf(draft);
      if (delta_ps != 0) row.share = row.delta_ps / delta_ps;
      DiffSum& sum = sums.try_emplace(row.match, DiffSum{row.match, 0, {}, {}, 0}).first->second;
      ++sum.rows;
      if (row.base.has_value()) sum.base_ps = sum.base_ps.value_or(0) + row.base->mean_ps;
      if (row.head.has_value()) sum.head_ps = sum.head_ps.value_or(0) + row.head->mean_ps;
      sum.delta_ps += row.delta_ps;
      report_->rows.push_back(std::move(row));
    }
    for (auto& [match, sum] : sums) report_->sums.push_back(sum);
    const double small_ps = kSmallShare * LevelOf(report_->total);
    const auto order = [small_ps](const DiffRow& row) {
      const double least_ps = std::max(row.noise_ps, small_ps);
      const double change_ps = std::abs(row.delta_ps);
      const double beyond_ps = change_ps > least_ps ? change_ps - row.noise_ps : 0;
      const bool changed = row.match != DiffMatch::kExact && !IsWaiting(row.match);
      return std::tuple(-beyond_ps, -change_ps, !changed);
    };
    std::ranges::stable_sort(report_->rows, {}, order);
    FillMatchedShare();
    if (report_->per == DiffPer::kRun) FillFunctions();
    FillUnits();
  }

  void FillMatchedShare() {
    double matched_ps = 0, all_ps = 0;
    for (const DiffRow& row : report_->rows) {
      if (IsWaiting(row.match)) continue;
      const double both_ps = (row.base.has_value() ? row.base->mean_ps : 0) +
                             (row.head.has_value() ? row.head->mean_ps : 0);
      all_ps += both_ps;
      if (row.match != DiffMatch::kNew && row.match != DiffMatch::kGone) matched_ps += both_ps;
    }
    if (all_ps > 0) report_->matched_share = matched_ps / all_ps;
  }

  void FillUnits() {
    for (size_t side = 0; side < kSides; ++side) {
      uint64_t& count = side == 0 ? report_->base.units : report_->head.units;
      for (uint32_t scope = 0; scope < units_[side].scopes(); ++scope) {
        for (const UnitTimes& of : units_[side].Of(scope)) count += of.units;
      }
    }
  }

  void FillFunctions() {
    std::map<uint32_t, DiffFunction> functions;  // by block
    for (size_t side = 0; side < kSides; ++side) {
      for (uint32_t at = 0; at < sides_[side]->programs.size(); ++at) {
        const SideProgram& program = sides_[side]->programs[at];
        Amount span;
        std::vector<int64_t> spans_ps;
        uint64_t runs = 0;
        for (const UnitTimes& of : program.times) {
          spans_ps.push_back(of.span_ps);
          runs += of.units;
        }
        if (runs == 0) continue;
        span.Add(at, spans_ps);
        DiffFunction& of = functions[program.block];
        (side == 0 ? of.base : of.head) = program.function;
        (side == 0 ? of.base_runs : of.head_runs) = runs;
        (side == 0 ? of.base_suspect_runs : of.head_suspect_runs) = program.suspect_runs;
        (side == 0 ? of.base_ps : of.head_ps) = units_[side].Mean(span);
      }
    }
    for (auto& [block, of] : functions) report_->functions.push_back(std::move(of));
    std::ranges::stable_sort(report_->functions, {}, [](const DiffFunction& of) {
      return -std::abs(of.head_ps.value_or(0) - of.base_ps.value_or(0));
    });
  }

  const std::array<const Side*, kSides> sides_;
  const std::array<Units, kSides> units_;
  DiffReport* const report_;
  std::vector<Draft> drafts_;
  std::array<std::map<std::pair<uint32_t, size_t>, int64_t>, kSides> own_ps_;
};

}  // namespace

void FillSums(const Side& base, const Side& head, const std::vector<OpMatch>& matches,
              DiffReport* report) {
  Summing(base, head, report).Run(matches);
}

}  // namespace xplane_time::insight
