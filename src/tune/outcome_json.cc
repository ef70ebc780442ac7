// The JSON of results and states, and the tests for tails (outcome_json.h explains the tests).
//
// ResultOf translates places in the decider's space to ids; everything else is a mapping of fields.
// ReadTuneResult reads results of earlier versions: missing fields keep their defaults. Tails need
// O(n log n) for sorting each variant's times and for each rival.
#include "tune/outcome_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "stats/order_statistics.h"
#include "tune/space_json.h"

namespace xplane_time {
namespace {

using json::Dump, json::FromJson, json::Json, json::Parse, json::ToJson;

// Not below 0, and no -0.
std::optional<double> Share(const std::optional<double>& value) {
  return value.has_value() ? std::optional(*value > 0 ? *value : 0.0) : std::nullopt;
}

TuneResult::Interval IntervalOf(std::optional<double> lo, std::optional<double> hi) {
  if (!lo.has_value() && !hi.has_value()) return std::nullopt;
  return std::array{lo, hi};
}

TuneResult::Row RowOf(const TuneOutcome& outcome, const TunedVariant& variant) {
  TuneResult::Row row;
  static_cast<VariantState&>(row) = variant.state;
  static_cast<Tail&>(row) = variant.tail;
  row.id = variant.configuration.id;
  row.params = tune::Stored(variant.configuration.params_json);
  row.raced = variant.measured.has_value();
  row.searched = variant.searched;
  if (!variant.search_failure.empty()) row.search_failure = variant.search_failure;
  if (variant.alias_of) row.alias_of = outcome.variants[*variant.alias_of].configuration.id;
  return row;
}

Json StatesJson(std::span<const TunedVariant> variants) {
  Json states = Json::object();
  for (const TunedVariant& each : variants) states[each.configuration.id] = ToJson(each.state);
  return states;
}

}  // namespace

TuneResult ResultOf(const TuneOutcome& outcome) {
  const Verdict& verdict = outcome.verdict;
  // The index of the variant at a place in the decider's space.
  std::vector<size_t> at(outcome.variants.size());
  for (size_t i = 0; i < at.size(); ++i) {
    if (const auto& place = outcome.variants[i].measured; place.has_value()) at.at(*place) = i;
  }
  const auto id_of = [&](std::optional<uint32_t> place) {
    return place ? std::optional(outcome.variants[at.at(*place)].configuration.id) : std::nullopt;
  };
  TuneResult result = {.pick = id_of(verdict.pick),
                       .claim = verdict.claim,
                       .objective = outcome.decide.objective,
                       .stop_reason = verdict.stop_reason,
                       .interrupted = outcome.interrupted,
                       .search = outcome.search,
                       .confirmation = outcome.confirmation,
                       .devices = outcome.devices,
                       .tail_flags = outcome.tail_flags,
                       .p_best = verdict.p_best,
                       .regret = {Share(verdict.regret_est), Share(verdict.regret_hi)},
                       .delta = verdict.rule.empty() ? std::nullopt : std::optional(verdict.delta),
                       .mde = verdict.mde,
                       .budget = {outcome.decide.budget_runs, outcome.decide.budget_time_ps},
                       .runs = verdict.runs,
                       .rounds = verdict.rounds,
                       .rule = verdict.rule,
                       .seed = verdict.seed,
                       .session = outcome.session,
                       .resumed = outcome.resumed,
                       .harness = outcome.harness};
  if (!outcome.energy_kinds.empty()) {
    result.energy_kind = absl::StrJoin(outcome.energy_kinds, " and ");
  }
  for (const uint32_t each : verdict.tied) result.tied.push_back(*id_of(each));
  if (const auto& of = verdict.canary; of.has_value()) {
    result.canary = {of->rounds, of->ratio, IntervalOf(of->lo, of->hi), of->biased};
  }
  for (const TunedVariant& each : outcome.variants) result.variants.push_back(RowOf(outcome, each));
  for (const Ratio& each : verdict.ratios) {
    TuneResult::Row& row = result.variants[at.at(each.variant)];
    row.ratio = each.est;
    row.ratio_ci = IntervalOf(each.lo, each.hi);
  }
  for (const Elimination& each : verdict.eliminated) {
    result.variants[at.at(each.variant)].eliminated = {id_of(each.by), each.round, each.reason};
  }
  return result;
}

std::string OutcomeJson(const TuneOutcome& outcome) {
  Json out = ToJson(ResultOf(outcome));
  for (Json& row : out["variants"]) {
    if (row["message"] == "") row.erase("message");  // NOLINT: an empty text, no empty list
  }
  return Dump(out);
}

namespace {

// Whether `read` has the same values as `given`, for all members that both have.
bool Keeps(const Json& read, const Json& given) {
  if (given.is_object() && read.is_object()) {
    for (const auto& [name, value] : given.items()) {
      const auto at = read.find(name);
      if (at != read.end() && !Keeps(*at, value)) return false;
    }
    return true;
  }
  if (given.is_array() && read.is_array()) {
    return std::equal(read.begin(), read.end(), given.begin(), given.end(), Keeps);
  }
  return read == given;
}

}  // namespace

std::optional<TuneResult> ReadTuneResult(std::string_view json) {
  const Json parsed = Parse(json);
  if (!parsed.is_object()) return std::nullopt;
  TuneResult result;
  FromJson(parsed, &result);
  return Keeps(ToJson(result), parsed) ? std::optional(std::move(result)) : std::nullopt;
}

std::string DecideConfigJson(const DecideConfig& config, std::string_view incumbent,
                             std::string_view search) {
  Json out = ToJson(config);
  out["incumbent"] = json::TextOrNull(incumbent);
  // sessions of earlier versions lack it
  if (config.rounds_at_once == 1) out.erase("rounds_at_once");
  if (!search.empty()) out["search"] = search;
  return Dump(out);
}

std::string PreparationJson(const HarnessInfo& harness, std::span<const TunedVariant> variants) {
  return Dump({{"harness", ToJson(harness)}, {"variants", StatesJson(variants)}});
}

absl::StatusOr<std::map<std::string, VariantState>> PreparationFromJson(std::string_view json) {
  const Json parsed = Parse(json);
  const Json* variants = json::Find(parsed, "variants");
  const auto damaged = absl::DataLossError("the state of the session's variants is damaged");
  if (variants == nullptr || !variants->is_object()) return damaged;
  std::map<std::string, VariantState> states;
  for (const auto& [id, state] : variants->items()) {
    if (!json::TextOf(state, "status").has_value()) return damaged;
    FromJson(state, &states[id]);
  }
  return states;
}

std::string StageHeadJson(const StageHead& head, std::span<const TunedVariant> fresh) {
  return Dump({{"variants", StatesJson(fresh)}, {"stage", ToJson(head)}});
}

absl::StatusOr<StageHead> StageHeadFromJson(std::string_view json) {
  const Json notes = Parse(json);
  const Json* stage = json::Find(notes, "stage");
  StageHead head;
  if (stage != nullptr && FromJson(*stage, &head)) return head;
  return absl::DataLossError("the state of the session's search is damaged");
}

std::string WithNote(const std::string& notes_json, std::string_view name, Json note) {
  Json notes = Parse(notes_json);
  if (!notes.is_object()) notes = Json::object();
  notes[std::string(name)] = std::move(note);
  return Dump(notes);
}

namespace {

constexpr double kWrong = 0.01;       // probability that any flag is wrong
constexpr size_t kFewestForP95 = 20;  // with fewer samples it would be the maximum
constexpr double kSpike = 0.1, kDeviations = 6;

// A variant's times by round (the first if a round has two), and its energies, if all are known.
struct Runs {
  std::map<size_t, double> times = {};
  std::optional<std::vector<double>> energies = std::vector<double>();
};

std::vector<Runs> RunsOf(std::span<const RoundResult> rounds, size_t places) {
  std::vector<Runs> runs(places);
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i].discarded) continue;
    for (const Sample& sample : rounds[i].samples) {
      if (sample.status != SampleStatus::kOk || sample.variant >= places) continue;
      Runs& of = runs[sample.variant];
      of.times.emplace(i, static_cast<double>(sample.t_ps));
      if (!sample.energy_uj.has_value()) of.energies.reset();
      if (of.energies.has_value()) of.energies->push_back(*sample.energy_uj);
    }
  }
  return runs;
}

struct Shape {
  double median = 0, p95 = 0, spike_at = 0;
};

Shape ShapeOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto quantile = [&times](double share) {
    return times[stats::NearestRank(times.size(), share)];
  };
  Shape shape = {.median = quantile(0.5), .p95 = quantile(0.95)};
  const double mad = stats::LowerMedian(stats::AbsoluteDeviations(times, shape.median));
  shape.spike_at =
      shape.median + std::max(kSpike * shape.median, kDeviations * (stats::kMadToSd * mad));
  return shape;
}

int64_t CountOver(const std::vector<double>& times, double threshold) {
  return std::count_if(times.begin(), times.end(), [&](double t) { return t > threshold; });
}

double RateOver(const std::vector<double>& times, double threshold) {
  return static_cast<double>(CountOver(times, threshold)) / static_cast<double>(times.size());
}

bool IsWorse(const std::vector<double>& pick, double pick_over, const std::vector<double>& rival,
             double rival_over, double alpha) {
  return FisherWorse(CountOver(pick, pick_over), static_cast<int64_t>(pick.size()),
                     CountOver(rival, rival_over), static_cast<int64_t>(rival.size())) < alpha;
}

// Tests the rounds in which both have a time.
void Flag(const Runs& pick, const Runs& other, const std::string& rival, double delta, double alpha,
          std::vector<TailFlag>* flags) {
  std::vector<double> own, others;
  for (const auto& [round, time] : pick.times) {
    const auto found = other.times.find(round);
    if (found == other.times.end()) continue;
    own.push_back(time);
    others.push_back(found->second);
  }
  if (own.empty()) return;
  std::vector<double> both = own;
  both.insert(both.end(), others.begin(), others.end());
  const Shape a = ShapeOf(own), b = ShapeOf(others);
  const double over = ShapeOf(std::move(both)).p95;
  if (own.size() >= kFewestForP95 && a.p95 > b.p95 * (1 + delta) &&
      IsWorse(own, over, others, over, alpha)) {
    flags->push_back({rival, "p95", a.p95 / a.median, b.p95 / b.median});
  }
  if (IsWorse(own, a.spike_at, others, b.spike_at, alpha)) {
    flags->push_back({rival, "spikes", RateOver(own, a.spike_at), RateOver(others, b.spike_at)});
  }
}

// The variants that the pick is compared with, each once.
std::set<uint32_t> Rivals(const Verdict& verdict, std::optional<uint32_t> baseline) {
  std::set<uint32_t> rivals(verdict.tied.begin(), verdict.tied.end());
  const Ratio* runner_up = nullptr;
  for (const Ratio& each : verdict.ratios) {
    if (each.variant == verdict.pick) continue;
    if (runner_up == nullptr || each.est < runner_up->est) runner_up = &each;
  }
  if (runner_up != nullptr) rivals.insert(runner_up->variant);
  if (baseline.has_value()) rivals.insert(*baseline);
  rivals.erase(*verdict.pick);
  return rivals;
}

}  // namespace

double FisherWorse(int64_t a_over, int64_t a, int64_t b_over, int64_t b) {
  const auto log_choose = [](int64_t n, int64_t k) {
    const auto log_factorial = [](int64_t of) { return std::lgamma(static_cast<double>(of) + 1); };
    return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
  };
  const int64_t over = a_over + b_over;
  double chance = 0;
  for (int64_t k = a_over; k <= std::min(over, a); ++k) {
    if (over - k > b) continue;
    chance += std::exp(log_choose(a, k) + log_choose(b, over - k) - log_choose(a + b, over));
  }
  return std::min(1.0, chance);
}

void AddTails(std::span<const RoundResult> rounds, std::optional<uint32_t> baseline,
              TuneOutcome* outcome) {
  size_t places = 0;
  for (const TunedVariant& each : outcome->variants) places += each.measured.has_value() ? 1 : 0;
  const std::vector<Runs> runs = RunsOf(rounds, places);
  for (TunedVariant& each : outcome->variants) {
    if (!each.measured.has_value() || runs[*each.measured].times.empty()) continue;
    const Runs& of = runs[*each.measured];
    std::vector<double> times;
    for (const auto& [round, time] : of.times) times.push_back(time);
    const Shape shape = ShapeOf(times);
    each.tail = {.samples = times.size(),
                 .typical_ps = shape.median,
                 .spike_rate = RateOver(times, shape.spike_at)};
    if (of.energies.has_value()) each.tail.typical_uj = ShapeOf(*of.energies).median;
    if (times.size() >= kFewestForP95) each.tail.p95_ratio = shape.p95 / shape.median;
  }
  const Verdict& verdict = outcome->verdict;
  if (!verdict.pick.has_value()) return;
  const std::set<uint32_t> rivals = Rivals(verdict, baseline);
  const double alpha = kWrong / (2.0 * std::max<double>(1, static_cast<double>(rivals.size())));
  for (const uint32_t rival : rivals) {
    const std::string& id = outcome->variants[*outcome->VariantOf(rival)].configuration.id;
    Flag(runs[*verdict.pick], runs[rival], id, verdict.delta, alpha, &outcome->tail_flags);
  }
}

}  // namespace xplane_time
