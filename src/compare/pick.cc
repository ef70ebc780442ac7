#include "xplane_time/pick.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/differences.h"
#include "compare/inputs.h"
#include "stats/distributions.h"
#include "stats/order_statistics.h"
#include "status.h"
#include "xplane_time/compare.h"

namespace xplane_time {
namespace {

using compare::Difference;
using compare::DifferenceOf;
using compare::NaturalLess;
using compare::Units;
using stats::StudentQuantile;

constexpr size_t kLeastRounds = 4;
constexpr double kPower = 0.8;
constexpr double kMostNeeded = 1e6;

// A variant against the leader.
struct Rival {
  std::string id;
  Difference difference;  // log rival - log leader
  double half = 0;        // of the simultaneous interval
  bool enough = false;    // units
  double lo() const { return difference.estimate - half; }
  bool slower() const { return enough && lo() > 0; }
};

struct Chooser {
  const Units& units;
  const PickOptions& options;
  const std::vector<std::string> ids;

  void Choose(PickResult* choice) const {
    std::string leader = Leader();
    std::vector<Rival> rivals = Against(leader);
    choice->claim = ClaimOf(leader, rivals, &choice->tied);
    if (!choice->doubts.empty() && ExitCode(choice->claim) == 0) {
      choice->claim = Claim::kUndecided;
      choice->tied.clear();
    }
    choice->pick = leader;
    if (choice->claim == Claim::kTie) {
      choice->pick = choice->tied.front();
      rivals = Against(choice->pick);
    }
    Evidence(rivals, choice);
    for (const Rival& rival : rivals) Fill(rival, choice);
  }

  // The smallest centre, unless a rival is faster in the units that both share.
  std::string Leader() const {
    const auto centre = [this](const std::string& id) {
      return units.CentreOf(units.Present(id)).value;
    };
    std::string leader = *std::ranges::min_element(ids, {}, centre);
    for (size_t step = 0; step < ids.size(); ++step) {
      const auto behind = [&](const std::string& id) {
        return id == leader ? 0 : DifferenceOf(units, leader, id, options.drift_std).estimate;
      };
      const std::string fastest = *std::ranges::min_element(ids, {}, behind);
      if (!(behind(fastest) < 0)) break;
      leader = fastest;
    }
    return leader;
  }

  double Bar(double df) const {
    return StudentQuantile(options.alpha / 2 / static_cast<double>(ids.size() - 1), df);
  }

  std::vector<Rival> Against(const std::string& leader) const {
    std::vector<Rival> rivals;
    for (const std::string& id : ids) {
      if (id == leader) continue;
      const Difference d = DifferenceOf(units, leader, id, options.drift_std);
      rivals.push_back(
          {.id = id,
           .difference = d,
           .half = d.standard_error == 0 && d.df > 0 ? 0 : Bar(d.df) * d.standard_error,
           .enough = d.df > 0 && (!units.in_rounds || d.units >= kLeastRounds)});
    }
    return rivals;
  }

  Claim ClaimOf(const std::string& leader, const std::vector<Rival>& rivals,
                std::vector<std::string>* tied) const {
    std::vector<std::string> open = {leader};
    bool enough = true, bounded = true;
    for (const Rival& rival : rivals) {
      if (rival.slower()) continue;
      open.push_back(rival.id);
      enough &= rival.enough;
      bounded &= rival.enough && rival.lo() > -std::log1p(options.delta);
    }
    if (rivals.empty()) return Claim::kPick;  // nobody was beaten
    if (open.size() == 1) return Claim::kWinner;
    if (!enough) return Claim::kTooLittleData;
    if (AllWithinDelta(open)) {
      std::sort(open.begin(), open.end(), NaturalLess());
      *tied = std::move(open);
      return Claim::kTie;
    }
    return bounded ? Claim::kPick : Claim::kUndecided;
  }

  bool AllWithinDelta(const std::vector<std::string>& open) const {
    for (size_t i = 0; i < open.size(); ++i) {
      for (size_t j = i + 1; j < open.size(); ++j) {
        const Difference d = DifferenceOf(units, open[i], open[j], options.drift_std);
        const double half =
            d.standard_error == 0 ? 0 : StudentQuantile(options.alpha, d.df) * d.standard_error;
        if (!(std::abs(d.estimate) + half <= std::log1p(options.delta))) return false;
      }
    }
    return true;
  }

  // Regret, and what a firmer answer would take: the rival nearest to the pick decides.
  void Evidence(const std::vector<Rival>& rivals, PickResult* choice) const {
    double regret = 0;
    bool known = choice->doubts.empty();
    const Rival* nearest = nullptr;
    for (const Rival& rival : rivals) {
      known &= rival.enough;
      regret = std::max(regret, -rival.lo());
      if (!rival.slower() && (nearest == nullptr || rival.lo() < nearest->lo())) nearest = &rival;
    }
    if (known && std::isfinite(regret)) choice->regret = std::expm1(regret);
    if (nearest == nullptr || !nearest->enough || !(nearest->difference.standard_error > 0)) return;
    const Difference& d = nearest->difference;
    const double reach = (Bar(d.df) + StudentQuantile(1 - kPower, d.df)) * d.standard_error;
    if (std::isfinite(reach)) choice->mde = std::expm1(reach);
    const bool sole_capture = !units.in_rounds && units.size() == 1;
    if (choice->claim != Claim::kUndecided || sole_capture || !choice->doubts.empty()) return;
    // A gap beyond delta is to be proved; within delta the tie is.
    const double tie = std::log1p(options.delta), gap = std::abs(d.estimate);
    const double wanted = gap > tie ? gap : std::max(tie - gap, tie / 4);
    const double needed = static_cast<double>(d.units) * std::pow(reach / wanted, 2);
    if (needed < kMostNeeded) choice->needed = static_cast<uint64_t>(std::ceil(needed));
  }

  void Fill(const Rival& rival, PickResult* choice) const {
    const auto row = std::ranges::find(choice->variants, rival.id, &VariantRow::id);
    row->ratio = std::exp(rival.difference.estimate);
    const bool is_tied = std::ranges::count(choice->tied, rival.id) > 0;
    const auto slower = VerdictName(FunctionVerdict::kSlower, options.objective);
    row->status = is_tied ? "tied" : rival.slower() ? slower : "open";
    if (!std::isfinite(rival.half) || rival.difference.df <= 0) return;
    row->lo = std::exp(rival.lo());
    row->hi = std::exp(rival.difference.estimate + rival.half);
  }
};

absl::Status CheckAlike(std::span<const Measurements> captures) {
  const Series* first = nullptr;
  for (const Measurements& capture : captures) {
    std::set<std::string> seen;
    for (const Series& series : capture.series) {
      if (!series.variant_id.has_value()) continue;
      if (!seen.insert(*series.variant_id).second) {
        return FailedPrecondition(
            capture.source, ": variant ", *series.variant_id,
            " ran on several devices or as several functions; choose with --device or --function",
            series.metric == kEnergyMetric ? " of xplane-time energy" : "");
      }
      if (series.samples.empty()) continue;
      if (first == nullptr) first = &series;
      if (series.metric != first->metric || series.clock != first->clock) {
        return FailedPrecondition(
            capture.source, ": variant ", *series.variant_id, " was measured by ", series.metric,
            " (", series.clock, " clock), variant ", *first->variant_id, " by ", first->metric,
            " (", first->clock, " clock); see --metric span and --clock profile");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const PickOptions& options) {
  if (!(options.alpha > 0 && options.alpha < 0.5)) {
    return InvalidArgument("alpha must lie between 0 and 0.5");
  }
  if (!(options.delta >= 0) || !(options.drift_std >= 0)) {
    return InvalidArgument("delta and drift must not be negative");
  }
  return absl::OkStatus();
}

// Why no claim is made, whatever the numbers say: of energies only.
void AddDoubt(const Measurements& capture, const Series& series, PickResult* choice) {
  if (choice->options.objective != Objective::kEnergy) return;
  const bool unknown = !series.failure.empty();
  if (!unknown && series.doubt.empty()) return;
  choice->doubts.push_back(absl::StrCat(
      capture.source, ": ",
      unknown ? absl::StrCat("the energy of variant ", *series.variant_id, " is unknown: ") : "",
      unknown ? series.failure : series.doubt));
  const auto earlier = std::prev(choice->doubts.end());
  if (std::find(choice->doubts.begin(), earlier, *earlier) != earlier) choice->doubts.pop_back();
}

// One row a variant, seen or expected, before it is judged.
void ListVariants(std::span<const Measurements> captures, PickResult* choice) {
  std::map<std::string, VariantRow, NaturalLess> rows;
  for (const KnownVariant& known : choice->options.known) {
    rows[known.id].id = known.id;
    rows[known.id].params = known.params;
  }
  for (const Measurements& capture : captures) {
    for (const Series& series : capture.series) {
      if (!series.variant_id.has_value()) continue;
      VariantRow& row = rows[*series.variant_id];
      row.id = *series.variant_id;
      row.function = series.function;
      row.samples += series.samples.size();
      row.left_out += series.left_out.size();
      row.uncertain |= series.uncertain;
      AddDoubt(capture, series, choice);
      if (series.samples.empty() || !choice->metric.empty()) continue;
      choice->metric = series.metric;
      choice->clock = series.clock;
    }
  }
  for (auto& [ignored, row] : rows) {
    const bool unknown = row.samples == 0 && choice->options.objective == Objective::kEnergy &&
                         !row.function.empty();
    row.status = unknown ? "unknown" : row.samples == 0 ? "no_samples" : "open";
    choice->variants.push_back(std::move(row));
  }
}

// A space that names none of what ran is that of something else.
absl::Status CheckKnown(PickResult* choice) {
  std::set<std::string> known;
  for (const KnownVariant& each : choice->options.known) known.insert(each.id);
  std::vector<std::string> ran, foreign;
  for (const VariantRow& row : choice->variants) {
    if (row.function.empty()) continue;
    ran.push_back(row.id);
    if (!known.contains(row.id)) foreign.push_back(row.id);
  }
  if (known.empty() || foreign.empty()) return absl::OkStatus();
  constexpr size_t kMostShown = 5;
  const size_t count = foreign.size();
  if (count > kMostShown) foreign.resize(kMostShown);
  const std::string names =
      absl::StrCat(absl::StrJoin(foreign, ", "), count > kMostShown ? ", ..." : "");
  if (count == ran.size()) {
    return FailedPrecondition(choice->sources[0],
                              ": the space names none of the variants that ran (", names,
                              "); give their space, or an --id-pattern whose group is its ids");
  }
  choice->notes.push_back(absl::StrCat("the space does not name ", count, " of the ", ran.size(),
                                       " variants that ran: ", names));
  return absl::OkStatus();
}

// Of a variant in the captures that have it.
double MeanStated(const std::vector<stats::Centre>& within) {
  double sum = 0, count = 0;
  for (const stats::Centre& centre : within) {
    sum += centre.variance;
    count += centre.df > 0 ? 1 : 0;
  }
  return count > 0 ? sum / count : 0;
}

void DescribeValues(std::span<const Measurements> captures, const Units& units, double alpha,
                    VariantRow* row) {
  std::vector<double> values;
  for (const Measurements& capture : captures) {
    for (const Series& series : capture.series) {
      if (series.variant_id != row->id) continue;
      for (const Sampled& sample : series.samples) values.push_back(sample.value);
    }
  }
  std::sort(values.begin(), values.end());
  if (!units.stated) row->p95 = stats::InterpolatedQuantileFromBelow(values, 0.95);
  const std::vector<double> logs = units.Present(row->id);
  row->units = logs.size();
  stats::Centre centre = stats::HuberCentre(logs);
  if (!units.in_rounds && units.size() == 1) {
    const stats::Centre& own = units.within.at(row->id)[0];
    centre.variance = own.variance;
    centre.df = own.df;
  } else if (units.stated) {
    centre.variance += MeanStated(units.within.at(row->id));
  }
  row->centre = std::exp(centre.value);
  const double half = StudentQuantile(alpha / 2, centre.df) * std::sqrt(centre.variance);
  if (!(centre.df > 0) || !std::isfinite(half)) return;
  row->centre_lo = std::exp(centre.value - half);
  row->centre_hi = std::exp(centre.value + half);
}

// Where the verdict is another one when no run is pulled in.
void NotePulledIn(std::span<const Measurements> captures, const std::vector<std::string>& ids,
                  PickResult* choice) {
  const size_t wild = compare::WildRuns(captures);
  if (wild == 0) return;
  PickResult in_full = *choice;
  in_full.tied.clear();
  const Units units = compare::MakeUnits(captures, /*robust=*/false);
  Chooser{units, choice->options, ids}.Choose(&in_full);
  if (in_full.claim == choice->claim && in_full.pick == choice->pick) return;
  choice->notes.push_back(absl::StrCat(
      wild, wild == 1 ? " run lies" : " runs lie",
      " far from the others of the variant and counts less; counted in full, the verdict would be ",
      Absl(ClaimName(in_full.claim)), " (variant ", in_full.pick, ")"));
}

}  // namespace

absl::StatusOr<PickResult> Pick(std::span<const Measurements> captures,
                                const PickOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  PickResult choice;
  choice.options = options;
  choice.captures = captures.size();
  for (const Measurements& capture : captures) choice.sources.push_back(capture.source);
  RETURN_IF_ERROR(compare::CheckMeasuredAlike(captures, {}, /*allowed=*/false, &choice.notes));
  if (const auto at = std::ranges::find(captures, true, &Measurements::lacks_runs);
      at != captures.end()) {
    return FailedPrecondition(at->source, ": was written with --trim, and without the runs that ",
                              "were left out rounds cannot be told apart; write it without, and ",
                              "give --trim here");
  }
  RETURN_IF_ERROR(CheckAlike(captures));
  ListVariants(captures, &choice);
  RETURN_IF_ERROR(CheckKnown(&choice));
  if (choice.variants.empty()) {
    return FailedPrecondition(
        choice.sources.empty() ? "no capture" : choice.sources[0], ": no function is a variant",
        captures.empty() ? "" : compare::PassesFilters(captures[0]),
        "; --id-pattern says which are, xplane-time functions lists what is there");
  }
  const Units units = compare::MakeUnits(captures);
  choice.in_rounds = units.in_rounds;
  if (units.log_time.empty()) {
    choice.claim = Claim::kAllFailed;
    return choice;
  }
  for (VariantRow& row : choice.variants) {
    if (row.samples > 0) DescribeValues(captures, units, options.alpha, &row);
  }
  std::vector<std::string> ids;
  for (const auto& [id, log_times] : units.log_time) ids.push_back(id);
  Chooser{units, options, ids}.Choose(&choice);
  NotePulledIn(captures, ids, &choice);
  const bool too_little = choice.claim == Claim::kTooLittleData;
  const bool open = too_little || choice.claim == Claim::kUndecided;
  std::map<std::string, double> p_best;
  if (!too_little && choice.doubts.empty()) {
    p_best = compare::ProbabilityOfBest(units, options.drift_std, options.replicates, options.seed);
  }
  for (VariantRow& row : choice.variants) {
    if (const auto found = p_best.find(row.id); found != p_best.end()) row.p_best = found->second;
    if (row.id != choice.pick) continue;
    row.ratio = row.lo = row.hi = 1;
    row.status = choice.claim == Claim::kTie ? "tied" : open ? "leads" : "picked";
  }
  if (!units.in_rounds && units.size() == 1) {
    choice.notes.push_back(absl::StrCat(
        "the variants did not run in rounds, so drift may favour one: differences count beyond an "
        "allowance of ",
        options.drift_std * 100, " % (std)"));
  }
  std::ranges::stable_sort(choice.variants, {}, [](const VariantRow& row) {
    return std::pair(!row.ratio.has_value(), row.ratio.value_or(0));
  });
  return choice;
}

}  // namespace xplane_time
