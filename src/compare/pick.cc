// Picks the fastest of several variants (pick.h has the rules and the references).
//
// 1. CollectVariants and ListVariants: one row per variant, with its status and the doubts
//    (Doubts).
// 2. MakeUnits (differences.h): rounds or captures as units.
// 3. Chooser::FindLeader: the variant that is faster than each other one in their common units. If
//    there is none, the pairs of variants contradict each other. Then a variant leads that no other
//    one is proved to beat; if every variant is beaten (FindCycle), there is no pick.
// 4. Against: the difference of each rival to the leader, with a simultaneous interval
//    (Bonferroni).
// 5. ClaimOf: winner, tie (all pairs within delta), pick or undecided. Doubts make it undecided.
// 6. Evidence: regret, mde and the number of units needed, from the nearest rival. There is no
//    number if the sign of its difference is uncertain, or if the clock's step hides it.
// 7. CheckByDevice: contradictions between the devices. NotePulledIn: a note if outliers decide.
#include "xplane_time/pick.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/differences.h"
#include "compare/inputs.h"
#include "compare/needed_captures.h"
#include "json/json.h"
#include "stats/distributions.h"
#include "stats/order_statistics.h"
#include "status.h"
#include "xplane_time/compare.h"
#include "xplane_time/report.h"

namespace xplane_time {
namespace {

using compare::Difference;
using compare::DifferenceOf;
using compare::NaturalLess;
using compare::Units;
using stats::StudentQuantile;

constexpr size_t kLeastRounds = 4;
constexpr uint64_t kMaxUnitsNeeded = 10'000;
// A wider range of needed units is no number.
constexpr uint64_t kMaxRange = 20;
// A difference is taken for real, for advice on the number of units, if its own interval of 95 %
// excludes 0.
constexpr double kSignTail = 0.025;
constexpr double kEndlessDf = std::numeric_limits<double>::infinity();
// Larger ties are not proved: each pair of a tie is tested, and each member against each other
// variant.
constexpr size_t kMaxTied = 500;
constexpr size_t kMaxPairsOfTie = 500'000;
// Rivals may beat each other in a cycle, because each pair has other common units, and because
// robust centres of ratios do not add up. A search follows at most so many of them.
constexpr size_t kMaxSteps = 16;

// A variant compared with the leader.
struct Rival {
  std::string id;
  Difference difference;  // log rival - log leader
  double half = 0;        // half of the simultaneous interval
  bool enough = false;    // whether there are enough units
  double lo() const { return difference.estimate - half; }
  double hi() const { return difference.estimate + half; }
  bool slower() const { return enough && lo() > 0; }
  bool faster() const { return enough && hi() < 0; }
};

using RowById = std::unordered_map<std::string_view, VariantRow*>;

struct Chooser {
  const Units& units;
  const PickOptions& options;
  const std::vector<std::string> ids;
  // StudentQuantile by tail and degrees of freedom, which most pairs have in common.
  mutable std::map<std::pair<double, double>, double> quantiles = {};

  double Quantile(double tail, double df) const {
    const auto [at, is_new] = quantiles.try_emplace({tail, df}, 0);
    if (is_new) at->second = StudentQuantile(tail, df);
    return at->second;
  }

  void Choose(PickResult* choice) const {
    const Standing first = FindLeader();
    std::string leader = first.id;
    if (first.is_beaten) {
      choice->cycle = FindCycle(leader);
      choice->doubts.push_back(DescribeCycle(choice->cycle));
    }
    std::vector<Rival> rivals = Against(leader);
    std::vector<std::string> tied;
    choice->claim = ClaimOf(leader, rivals, &tied);
    if (!choice->doubts.empty()) {
      choice->claim = Claim::kUndecided;
      tied.clear();
    }
    if (choice->claim == Claim::kTie) {
      leader = FirstUnbeaten(tied);
      rivals = Against(leader);
    }
    choice->tied = std::move(tied);
    choice->leader = leader;
    choice->pick = choice->cycle.empty() ? leader : "";
    Evidence(rivals, choice);
    Fill(rivals, choice);
  }

  // How a variant stands against the others.
  struct Standing {
    std::string id;
    double behind = 0;       // log of the ratio of the fastest rival to `id`, at most 0
    std::string fastest;     // this rival, if behind < 0
    std::string beaten_by;   // the fastest of the rivals that are proved faster
    bool is_beaten = false;  // a rival is proved faster
  };

  Standing Stand(const std::string& id) const {
    Standing standing;
    standing.id = id;
    double by = 0;
    for (const Rival& rival : Against(id)) {
      const double estimate = rival.difference.estimate;
      if (rival.faster() && estimate < by) {
        standing.is_beaten = true;
        standing.beaten_by = rival.id;
        by = estimate;
      }
      if (!(estimate < standing.behind)) continue;
      standing.behind = estimate;
      standing.fastest = rival.id;
    }
    return standing;
  }

  static bool IsBetter(const Standing& one, const Standing& other) {
    if (one.is_beaten != other.is_beaten) return other.is_beaten;
    return one.behind > other.behind;
  }

  // The variant with the smallest typical time, unless a rival is faster in their common units. If
  // every variant has a faster rival, it is one that no rival is proved to beat, and among several
  // the one that loses the least.
  Standing FindLeader() const {
    const auto typical = [this](const std::string& id) { return units.typical.at(id).value; };
    Standing next = Stand(*std::ranges::min_element(ids, {}, typical));
    Standing best = next;
    std::set<std::string> seen;
    while (seen.size() < kMaxSteps && seen.insert(next.id).second) {
      if (!(next.behind < 0)) return next;
      if (IsBetter(next, best)) best = next;
      next = Stand(next.fastest);
    }
    // The steps may circle around a variant that is faster than each other one. If it exists, it
    // wins a knock-out.
    std::string last = best.id;
    for (const std::string& id : ids) {
      if (id != last && DifferenceOf(units, last, id, options.drift_std).estimate < 0) last = id;
    }
    next = Stand(last);
    if (IsBetter(next, best)) best = next;
    // From a variant that is beaten, the proofs may lead to one that is not.
    next = best;
    for (size_t step = 0; step < kMaxSteps && next.is_beaten; ++step) next = Stand(next.beaten_by);
    return next.is_beaten ? best : next;
  }

  // Variants each of which is proved slower than the next one, and the last than the first (for
  // over kMaxSteps variants, only the first part). `leader` is beaten.
  std::vector<std::string> FindCycle(const std::string& leader) const {
    std::vector<std::string> path = {leader};
    while (path.size() <= kMaxSteps) {
      const std::string next = Stand(path.back()).beaten_by;
      const auto from = std::ranges::find(path, next);
      if (from != path.end()) {
        path.erase(path.begin(), from);
        path.push_back(path.front());
        break;
      }
      path.push_back(next);
    }
    return path;
  }

  // "no variant is the fastest: variant 0 is proved slower than variant 1, 1 than 2, 2 than 0".
  std::string DescribeCycle(const std::vector<std::string>& cycle) const {
    constexpr size_t kMaxShown = 6;
    const bool of_energy = options.objective == Objective::kEnergy;
    std::string text = absl::StrCat(
        of_energy ? "no variant takes the least energy" : "no variant is the fastest",
        ": within the ", units.in_rounds ? "rounds" : "captures", " that both ran in, variant ",
        cycle[0],
        of_energy ? " is proved to take more than variant " : " is proved slower than variant ",
        cycle[1]);
    for (size_t i = 1; i + 1 < std::min(cycle.size(), kMaxShown); ++i) {
      absl::StrAppend(&text, ", ", cycle[i], " than ", cycle[i + 1]);
    }
    if (cycle.size() > kMaxShown) absl::StrAppend(&text, ", and so on");
    return text;
  }

  double Bar(double df) const {
    return Quantile(options.alpha / 2 / static_cast<double>(ids.size() - 1), df);
  }

  bool IsEnough(const Difference& d) const {
    return d.df > 0 && (!units.in_rounds || d.units >= kLeastRounds);
  }

  Rival Compare(const std::string& leader, const std::string& id) const {
    const Difference d = DifferenceOf(units, leader, id, options.drift_std);
    return {.id = id,
            .difference = d,
            .half = d.standard_error == 0 && d.df > 0 ? 0 : Bar(d.df) * d.standard_error,
            .enough = IsEnough(d)};
  }

  std::vector<Rival> Against(const std::string& leader) const {
    std::vector<Rival> rivals;
    for (const std::string& id : ids) {
      if (id != leader) rivals.push_back(Compare(leader, id));
    }
    return rivals;
  }

  Claim ClaimOf(const std::string& leader, const std::vector<Rival>& rivals,
                std::vector<std::string>* tied) const {
    std::vector<std::string> open = {leader}, others;
    bool enough = true, bounded = true;
    for (const Rival& rival : rivals) {
      (rival.slower() ? others : open).push_back(rival.id);
      if (rival.slower()) continue;
      enough &= rival.enough;
      bounded &= rival.enough && rival.lo() > -std::log1p(options.delta);
    }
    if (rivals.empty()) return Claim::kPick;  // there was no rival
    if (open.size() == 1) return Claim::kWinner;
    if (!enough) return Claim::kTooLittleData;
    if (IsTie(&open, std::move(others))) {
      *tied = std::move(open);
      return Claim::kTie;
    }
    return bounded ? Claim::kPick : Claim::kUndecided;
  }

  // Whether all pairs of `members` are within delta, after the variants of `others` that some
  // member is not proved to beat have joined them. Sorts the members.
  bool IsTie(std::vector<std::string>* members, std::vector<std::string> others) const {
    for (bool has_grown = true; has_grown;) {
      if (members->size() > kMaxTied || members->size() * others.size() > kMaxPairsOfTie ||
          !AllWithinDelta(*members)) {
        return false;
      }
      const auto beats_all = [&](const std::string& other) {
        return std::ranges::all_of(
            *members, [&](const std::string& member) { return Compare(member, other).slower(); });
      };
      const auto joining = std::stable_partition(
          others.begin(), others.end(), [&](const std::string& other) { return beats_all(other); });
      has_grown = joining != others.end();
      members->insert(members->end(), joining, others.end());
      others.erase(joining, others.end());
    }
    std::sort(members->begin(), members->end(), NaturalLess());
    return true;
  }

  // Half of the interval with which a pair of a tie is tested. A tie is an intersection-union test,
  // so each pair is tested at alpha.
  double HalfInTie(const Difference& d) const {
    return d.standard_error == 0 ? 0 : Quantile(options.alpha, d.df) * d.standard_error;
  }

  bool AllWithinDelta(const std::vector<std::string>& open) const {
    for (size_t i = 0; i < open.size(); ++i) {
      for (size_t j = i + 1; j < open.size(); ++j) {
        const Difference d = DifferenceOf(units, open[i], open[j], options.drift_std);
        if (!IsEnough(d)) return false;
        if (!(std::abs(d.estimate) + HalfInTie(d) <= std::log1p(options.delta))) return false;
      }
    }
    return true;
  }

  // The first member of a tie that no other member is proved to beat. There is one, because the
  // leader is not beaten.
  std::string FirstUnbeaten(const std::vector<std::string>& tied) const {
    return *std::ranges::find_if(tied, [&](const std::string& id) {
      return std::ranges::none_of(tied, [&](const std::string& other) {
        return other != id && Compare(id, other).faster();
      });
    });
  }

  // The upper limit of what the pick may lose, as a log; of a tie, by the tests that prove it.
  double FindRegret(const std::vector<Rival>& rivals, const PickResult& choice) const {
    double regret = 0;
    for (const Rival& rival : rivals) {
      const bool is_tied = std::ranges::binary_search(choice.tied, rival.id, NaturalLess());
      const double half = is_tied ? HalfInTie(rival.difference) : rival.half;
      regret = std::max(regret, half - rival.difference.estimate);
    }
    return regret;
  }

  // Regret, and the units that a firmer claim needs, which the rival nearest to the pick
  // determines.
  void Evidence(const std::vector<Rival>& rivals, PickResult* choice) const {
    const Rival* nearest = nullptr;
    for (const Rival& rival : rivals) {
      if (!rival.slower() && (nearest == nullptr || rival.lo() < nearest->lo())) nearest = &rival;
    }
    const bool known = choice->doubts.empty() && std::ranges::all_of(rivals, &Rival::enough);
    if (const double regret = FindRegret(rivals, *choice); known && std::isfinite(regret)) {
      choice->regret = std::expm1(regret);
    }
    if (nearest == nullptr || !nearest->enough || !(nearest->difference.standard_error > 0)) return;
    const Difference& d = nearest->difference;
    const double reach =
        (Bar(d.df) + StudentQuantile(1 - compare::kPower, d.df)) * d.standard_error;
    if (std::isfinite(reach)) choice->mde = std::expm1(reach);
    const bool sole_capture = !units.in_rounds && units.size() == 1;
    if (choice->claim != Claim::kUndecided || sole_capture || !choice->doubts.empty()) return;
    choice->rival = nearest->id;
    choice->needs_captures = d.captures_differ || !units.in_rounds;
    const double tie = std::log1p(options.delta);
    // With endless units, only the error of the clock is left.
    const double least =
        (Bar(kEndlessDf) + StudentQuantile(1 - compare::kPower, kEndlessDf)) * d.resolution;
    if (d.resolution > 0 && least >= std::abs(d.estimate) + tie) {
      choice->clock_step_ps =
          std::max(units.step_ps.at(choice->leader), units.step_ps.at(nearest->id));
    }
    const double sign_bar = StudentQuantile(kSignTail, d.df);
    choice->may_be_equal = !(std::abs(d.estimate) > sign_bar * d.standard_error);
    if (choice->may_be_equal || d.estimate < 0 || choice->clock_step_ps.has_value()) return;
    FindNeeded(d, static_cast<double>(std::ranges::count_if(rivals, std::not_fn(&Rival::slower))),
               choice);
  }

  // What counts is the distance of the gap from -delta in standard errors. `needed` takes a lower
  // bound of the distance that is seen, given that the gap is one that is taken for real.
  void FindNeeded(const Difference& d, double open, PickResult* choice) const {
    if (d.captures_differ && d.captures < 2) return;  // their scatter is that of other variants
    const double tie = std::log1p(options.delta) / d.standard_error;
    const double distance = d.estimate / d.standard_error + tie;
    const double sign_bar = StudentQuantile(kSignTail, d.df);
    choice->needed_least = UnitsNeeded(d, open, distance);
    choice->needed =
        UnitsNeeded(d, open,
                    std::max(compare::LowerBoundOfDistance(distance, sign_bar + tie, d.df),
                             tie / compare::UpperBoundOfNoise(d.df)));
    const bool is_range = choice->needed_least.has_value() && choice->needed.has_value() &&
                          *choice->needed <= kMaxRange * *choice->needed_least;
    if (!is_range) choice->needed.reset();
  }

  // Units in all, including those that gave `d`, with which the leader is proved to lose at most
  // delta to the rival, with a probability of compare::kPower for all `open` rivals together, if
  // the gap lies `distance` of the standard errors of `d` above -delta.
  std::optional<uint64_t> UnitsNeeded(const Difference& d, double open, double distance) const {
    const uint64_t at_hand = d.captures_differ ? d.captures : d.units;
    const double scatter =
        std::sqrt(d.standard_error * d.standard_error - d.resolution * d.resolution);
    const double power = 1 - (1 - compare::kPower) / open;
    const auto is_enough = [&](uint64_t n) {
      const double factor = static_cast<double>(n) / static_cast<double>(at_hand);
      const double more = static_cast<double>(n - 1) / static_cast<double>(at_hand - 1);
      const double df =
          d.captures_differ ? d.df * more : std::max(d.df, static_cast<double>(n) - 1);
      const double capped = units.stated ? std::min(df, compare::kStatedDf) : df;
      const double then = std::hypot(scatter / std::sqrt(factor), d.resolution);
      return stats::NoncentralStudentTail(Bar(capped), capped,
                                          distance * d.standard_error / then) >= power;
    };
    uint64_t below = at_hand, enough = 2 * at_hand;
    while (!is_enough(enough)) {
      below = enough;
      enough *= 2;
      if (enough > kMaxUnitsNeeded) return std::nullopt;
    }
    while (enough - below > 1) {
      const uint64_t middle = below + (enough - below) / 2;
      (is_enough(middle) ? enough : below) = middle;
    }
    return enough;
  }

  void Fill(const std::vector<Rival>& rivals, PickResult* choice) const {
    const std::set<std::string_view> tied(choice->tied.begin(), choice->tied.end());
    RowById rows;
    for (VariantRow& row : choice->variants) rows[row.id] = &row;
    const auto slower = VerdictName(FunctionVerdict::kSlower, options.objective);
    for (const Rival& rival : rivals) {
      VariantRow* const row = rows.at(rival.id);
      if (rival.difference.units > 0) row->ratio = std::exp(rival.difference.estimate);
      row->status = tied.contains(rival.id) ? "tied" : rival.slower() ? slower : "open";
      // With too few rounds the error itself is unknown.
      if (!std::isfinite(rival.half) || !rival.enough) continue;
      row->lo = std::exp(rival.lo());
      row->hi = std::exp(rival.difference.estimate + rival.half);
    }
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
    return InvalidArgument("delta and drift_std must not be negative");
  }
  return absl::OkStatus();
}

// The series of a variant in all captures. Some captures may have no samples of it.
struct Seen {
  VariantRow row;
  std::vector<std::pair<const Measurements*, const Series*>> series;
};
using SeenVariants = std::map<std::string, Seen, NaturalLess>;

// Parameters, each as canonical JSON.
std::vector<Fact> ParseParams(const std::string& params_json) {
  std::vector<Fact> params;
  const json::Json object = json::Parse(params_json);
  if (!object.is_object()) return params;
  for (const auto& [name, value] : object.items()) params.push_back({name, json::Dump(value)});
  return params;
}

SeenVariants CollectVariants(std::span<const Measurements> captures,
                             std::span<const Configuration> known) {
  SeenVariants variants;
  for (const Configuration& each : known) {
    variants[each.id].row.id = each.id;
    variants[each.id].row.params = ParseParams(each.params_json);
  }
  for (const Measurements& capture : captures) {
    for (const Series& series : capture.series) {
      if (!series.variant_id.has_value()) continue;
      Seen& seen = variants[*series.variant_id];
      seen.row.id = *series.variant_id;
      seen.row.function = series.function;
      seen.row.samples += series.samples.size();
      seen.row.left_out += series.left_out.size();
      seen.row.uncertain |= series.uncertain;
      seen.series.emplace_back(&capture, &series);
    }
  }
  return variants;
}

// "variants 1, 2 and 5 more".
std::string ListIds(const std::vector<std::string>& ids) {
  constexpr size_t kMaxShown = 5;
  const size_t shown = std::min(ids.size(), kMaxShown);
  return absl::StrCat(ids.size() == 1 ? "variant " : "variants ",
                      absl::StrJoin(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(shown), ", "),
                      shown < ids.size() ? absl::StrCat(" and ", ids.size() - shown, " more") : "");
}

// Collects doubts, which prevent any claim, whatever the numbers are. Variants with the same reason
// are listed together. Problems that do not prevent a claim become notes.
class Doubts {
 public:
  explicit Doubts(Objective objective) : of_energy_(objective == Objective::kEnergy) {}

  // Examines a variant and sets the status of its row.
  void Examine(Seen* seen) {
    VariantRow& row = seen->row;
    row.status = row.samples > 0 ? "open" : "no_samples";
    if (seen->series.empty()) return;  // known, but not in the captures
    bool failed = false;
    for (const auto& [capture, series] : seen->series) {
      failed |= !series->failure.empty();
      const std::string& why = !series->failure.empty() ? series->failure : series->obstacle;
      if (row.reason.empty()) row.reason = why;
      if (of_energy_) {
        AddOfEnergy(*capture, *series);
      } else if (!series->obstacle.empty() && row.samples == 0) {
        Add(absl::StrCat(capture->source, ": "), series->obstacle, row.id);
      } else if (!series->obstacle.empty()) {
        notes_.push_back(absl::StrCat(capture->source, ": variant ", row.id,
                                      " is excluded: ", series->obstacle));
      }
    }
    if (row.samples > 0) {
      row.reason.clear();
      for (const auto& [capture, series] : seen->series) {
        if (!of_energy_ && !series->doubt.empty()) {
          Add(absl::StrCat(capture->source, ": "), series->doubt, row.id);
        }
      }
      if (row.uncertain) Add("", "the split into runs is uncertain", row.id);
      return;
    }
    row.status = of_energy_ ? "unknown" : failed ? "failed" : "not_judged";
    if (failed || of_energy_ || !row.reason.empty()) return;
    row.reason = "it has no usable run";
    Add("", row.reason, row.id);
  }

  void MoveTo(PickResult* choice) {
    constexpr size_t kMaxShown = 10;
    for (const auto& [source, reason] : order_) {
      if (choice->doubts.size() == kMaxShown) {
        choice->doubts.push_back(
            absl::StrCat(order_.size() - kMaxShown, " more reasons, see the variants in JSON"));
        break;
      }
      const std::vector<std::string>& ids = ids_.at({source, reason});
      choice->doubts.push_back(
          absl::StrCat(source, ids.empty() ? "" : ListIds(ids) + ": ", reason));
    }
    for (std::string& note : notes_) choice->notes.push_back(std::move(note));
  }

 private:
  using Key = std::pair<std::string, std::string>;  // source, reason

  void Add(std::string source, std::string reason, const std::string& id) {
    const auto [at, is_new] = ids_.try_emplace({std::move(source), std::move(reason)});
    if (is_new) order_.push_back(at->first);
    if (!id.empty()) at->second.push_back(id);
  }

  void AddOfEnergy(const Measurements& capture, const Series& series) {
    const std::string source = absl::StrCat(capture.source, ": ");
    if (!series.failure.empty()) {
      Add(source,
          absl::StrCat("the energy of variant ", *series.variant_id,
                       " is unknown: ", series.failure),
          "");
    } else if (!series.doubt.empty()) {
      Add(source, series.doubt, "");
    }
  }

  const bool of_energy_;
  std::map<Key, std::vector<std::string>> ids_;
  std::vector<Key> order_;
  std::vector<std::string> notes_;
};

// Makes a row for each variant, measured or expected, before it is judged.
void ListVariants(SeenVariants* variants, PickResult* choice) {
  Doubts doubts(choice->options.objective);
  for (auto& [id, seen] : *variants) {
    doubts.Examine(&seen);
    choice->variants.push_back(seen.row);
    for (const auto& [capture, series] : seen.series) {
      if (series->samples.empty() || !choice->metric.empty()) continue;
      choice->metric = series->metric;
      choice->clock = series->clock;
    }
  }
  doubts.MoveTo(choice);
}

// A variant's typical time on each device alone, as a logarithm: the mean over captures.
std::map<std::string, double> LogsByDevice(const Seen& seen) {
  std::map<std::string, std::pair<double, double>> sums;  // sums and counts
  for (const auto& [capture, series] : seen.series) {
    for (const DeviceTime& time : series->by_device) {
      sums[time.device].first += std::log(time.typical);
      sums[time.device].second += 1;
    }
  }
  std::map<std::string, double> logs;
  for (const auto& [device, sum] : sums) logs[device] = sum.first / sum.second;
  return logs;
}

// If the leader is slower than another variant on every device alone, there is no pick. Ties and
// picks claim differences up to delta only, so smaller differences are no contradiction. Also fills
// fastest_by_device.
void CheckByDevice(const SeenVariants& variants, PickResult* choice) {
  std::map<std::string, DeviceLeader> fastest;
  std::map<std::string, double> of_leader;
  if (!choice->leader.empty()) of_leader = LogsByDevice(variants.at(choice->leader));
  const bool within_delta = choice->claim == Claim::kTie || choice->claim == Claim::kPick;
  const double margin = within_delta ? std::log1p(choice->options.delta) : 0;
  std::string faster_everywhere;
  for (const auto& [id, seen] : variants) {
    size_t shared = 0, slower = 0;
    for (const auto& [device, log_time] : LogsByDevice(seen)) {
      DeviceLeader& best = fastest.try_emplace(device, DeviceLeader{device, "", 0}).first->second;
      const double typical = std::exp(log_time);
      if (best.variant_id.empty() || typical < best.typical) best = {device, id, typical};
      const auto own = of_leader.find(device);
      if (own == of_leader.end()) continue;
      ++shared;
      if (own->second > log_time + margin) ++slower;
    }
    if (shared > 0 && slower == shared && faster_everywhere.empty()) faster_everywhere = id;
  }
  if (!faster_everywhere.empty()) {
    choice->doubts.push_back(absl::StrCat("variant ", choice->leader, " is slower than variant ",
                                          faster_everywhere, " on every device alone"));
  }
  const bool not_judged = std::ranges::any_of(choice->variants, [](const VariantRow& row) {
    return row.status == "not_judged" || row.status == "unknown";
  });
  if (!faster_everywhere.empty() || not_judged) {
    choice->claim = Claim::kUndecided;
    choice->tied.clear();
    choice->pick.clear();
    choice->regret.reset();
    if (not_judged) {
      choice->needed_least.reset();
      choice->needed.reset();
    }
    for (auto& [device, leader] : fastest) choice->fastest_by_device.push_back(leader);
  }
}

// Checks that the space names variants that ran; otherwise it belongs to something else.
absl::Status CheckKnown(PickResult* choice) {
  std::set<std::string> known;
  for (const Configuration& each : choice->options.known) known.insert(each.id);
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
    return FailedPrecondition(choice->sources[0], ": the space lacks all variants that ran (",
                              names,
                              "); give the space of these variants, or an --id-pattern with a "
                              "group that matches the ids of this space");
  }
  choice->notes.push_back(absl::StrCat("the space lacks ", count, " of the ", ran.size(),
                                       " variants that ran: ", names));
  return absl::OkStatus();
}

// The mean stated variance of a variant over the captures that have it.
double MeanStated(const std::vector<stats::Centre>& within) {
  double sum = 0, count = 0;
  for (const stats::Centre& centre : within) {
    sum += centre.variance;
    count += centre.df > 0 ? 1 : 0;
  }
  return count > 0 ? sum / count : 0;
}

void DescribeValues(const Seen& seen, const Units& units, double alpha, VariantRow* row) {
  std::vector<double> values;
  for (const auto& [capture, series] : seen.series) {
    for (const Sampled& sample : series->samples) values.push_back(sample.value);
  }
  std::sort(values.begin(), values.end());
  if (!units.stated) row->p95 = stats::InterpolatedQuantileFromBelow(values, 0.95);
  const std::vector<double> logs = units.Present(row->id);
  row->units = logs.size();
  stats::Centre centre = units.typical.at(row->id);
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

// Adds a note if the verdict would differ without the clamping of outliers.
void NotePulledIn(std::span<const Measurements> captures, const std::vector<std::string>& ids,
                  PickResult* choice) {
  const size_t wild = compare::WildRuns(captures);
  if (wild == 0 || !choice->doubts.empty()) return;
  PickResult in_full = *choice;
  in_full.tied.clear();
  const Units units = compare::MakeUnits(captures, /*robust=*/false);
  Chooser{units, choice->options, ids}.Choose(&in_full);
  if (in_full.claim == choice->claim && in_full.pick == choice->pick) return;
  choice->notes.push_back(absl::StrCat(
      wild,
      wild == 1 ? " run has less weight, because it lies"
                : " runs have less weight, because they lie",
      " far from the other runs of the variant; with full weight, the verdict would be ",
      Absl(ClaimName(in_full.claim)),
      in_full.pick.empty() ? "" : absl::StrCat(" (variant ", in_full.pick, ")")));
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
    return FailedPrecondition(
        at->source, ": was written with --trim and lacks the excluded runs, so ",
        "rounds cannot be recognized; write it again without --trim, and give --trim here");
  }
  RETURN_IF_ERROR(CheckAlike(captures));
  SeenVariants variants = CollectVariants(captures, options.known);
  ListVariants(&variants, &choice);
  RETURN_IF_ERROR(CheckKnown(&choice));
  if (choice.variants.empty()) {
    return FailedPrecondition(
        choice.sources.empty() ? "no capture" : choice.sources[0], ": no function is a variant",
        captures.empty() ? "" : compare::PassesFilters(captures[0]),
        "; variants are the functions whose names match --id-pattern (default '", kDefaultIdPattern,
        "'), and the first capture group of the pattern, (...), is the id of the variant; "
        "xplane-time functions lists the functions");
  }
  const Units units = compare::MakeUnits(captures);
  choice.in_rounds = units.in_rounds;
  if (units.log_time.empty()) {
    // Runs that exist but cannot be judged are not failures.
    const bool ran = std::ranges::any_of(captures, [](const Measurements& capture) {
      return std::ranges::any_of(capture.series,
                                 [](const Series& series) { return !series.obstacle.empty(); });
    });
    choice.claim = ran ? Claim::kUndecided : Claim::kAllFailed;
    if (ran) CheckByDevice(variants, &choice);
    return choice;
  }
  for (VariantRow& row : choice.variants) {
    if (row.samples > 0) DescribeValues(variants.at(row.id), units, options.alpha, &row);
  }
  std::vector<std::string> ids;
  for (const auto& [id, log_times] : units.log_time) ids.push_back(id);
  Chooser{units, options, ids}.Choose(&choice);
  CheckByDevice(variants, &choice);
  NotePulledIn(captures, ids, &choice);
  const bool too_little = choice.claim == Claim::kTooLittleData;
  const bool open = too_little || choice.claim == Claim::kUndecided;
  std::map<std::string, double> p_best;
  if (!too_little && choice.doubts.empty()) {
    p_best = compare::ProbabilityOfBest(units, choice.leader, options.drift_std, options.replicates,
                                        options.seed);
  }
  for (VariantRow& row : choice.variants) {
    if (const auto found = p_best.find(row.id); found != p_best.end()) row.p_best = found->second;
    if (row.id != choice.leader) continue;
    row.ratio = row.lo = row.hi = 1;
    if (!choice.cycle.empty()) continue;  // no variant leads
    row.status = choice.claim == Claim::kTie ? "tied" : open ? "leads" : "picked";
  }
  if (!units.in_rounds && units.size() == 1) {
    choice.notes.push_back(absl::StrCat(
        "the variants did not run in rounds, so drift may favour one: a difference must exceed an "
        "allowance of ",
        options.drift_std * 100, " % (std)"));
  }
  std::ranges::stable_sort(choice.variants, {}, [](const VariantRow& row) {
    return std::pair(!row.ratio.has_value(), row.ratio.value_or(0));
  });
  return choice;
}

}  // namespace xplane_time
