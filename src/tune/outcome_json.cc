#include "tune/outcome_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include "stats/order_statistics.h"

namespace xplane_time {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

// Not below 0, and no -0.
Json Share(const std::optional<double>& value) {
  return value.has_value() ? Json(*value > 0 ? *value : 0.0) : Json();
}

Json Interval(std::optional<double> lo, std::optional<double> hi) {
  if (!lo.has_value() && !hi.has_value()) return nullptr;
  return Json::array({OrNull(lo), OrNull(hi)});
}

Json Parsed(const std::string& json) {
  Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json() : value;
}

std::string Text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(const TuneOutcome& outcome) : outcome_(outcome) {
    const std::vector<TunedVariant>& variants = outcome.variants;
    size_t places = 0;
    for (const TunedVariant& each : variants) places += each.measured.has_value() ? 1 : 0;
    rows_.resize(places);
    for (size_t i = 0; i < variants.size(); ++i) {
      if (variants[i].measured.has_value()) rows_.at(*variants[i].measured).variant = i;
    }
    for (const Ratio& each : outcome.verdict.ratios) rows_.at(each.variant).ratio = &each;
    for (const Elimination& each : outcome.verdict.eliminated) rows_.at(each.variant).out = &each;
  }

  Json Write() const {
    const Verdict& verdict = outcome_.verdict;
    Json out = {{"schema", "xplane-time.tune-result.v1"}};
    out["pick"] = IdOf(verdict.pick);
    out["claim"] = ClaimName(verdict.claim);
    out["objective"] = ObjectiveName(outcome_.objective);
    out["tied"] = Json::array();
    for (const uint32_t each : verdict.tied) out["tied"].push_back(IdOf(each));
    out["stop_reason"] = verdict.stop_reason;
    out["interrupted"] = outcome_.interrupted;
    out["search"] = SearchJson();
    out["confirmation"] = ConfirmationJson();
    out["tail_flags"] = Json::array();
    for (const TailFlag& each : outcome_.tail_flags) {
      out["tail_flags"].push_back({{"rival", IdOf(each.rival)},
                                   {"what", each.what},
                                   {"pick", each.pick},
                                   {"other", each.other}});
    }
    out["p_best"] = OrNull(verdict.p_best);
    out["regret"] = {{"est", Share(verdict.regret_est)}, {"hi", Share(verdict.regret_hi)}};
    out["delta"] = verdict.delta;
    out["mde"] = OrNull(verdict.mde);
    out["canary"] = CanaryJson();
    out["budget"] = {{"runs", OrNull(outcome_.budget_runs)},
                     {"time_ps", OrNull(outcome_.budget_time_ps)}};
    out["runs"] = verdict.runs;
    out["rounds"] = verdict.rounds;
    out["rule"] = verdict.rule;
    out["seed"] = verdict.seed;
    out["session"] = outcome_.session;
    out["resumed"] = outcome_.resumed;
    out["harness"] = HarnessJson(outcome_.harness);
    out["variants"] = Json::array();
    for (const TunedVariant& each : outcome_.variants) out["variants"].push_back(VariantJson(each));
    return out;
  }

  static Json HarnessJson(const HarnessInfo& harness) {
    return {{"name", harness.name},
            {"device", harness.device},
            {"device_class", harness.device_class},
            {"clock", harness.clock},
            {"driver", harness.driver},
            {"framework", harness.framework},
            {"flags", harness.flags},
            {"code_hash", harness.code_hash}};
  }

 private:
  Json IdOf(std::optional<uint32_t> measured) const {
    if (!measured.has_value()) return nullptr;
    return outcome_.variants[rows_.at(*measured).variant].configuration.id;
  }

  Json SearchJson() const {
    if (!outcome_.search.has_value()) return nullptr;
    const SearchReport& of = *outcome_.search;
    return {{"strategy", of.strategy}, {"searched", of.searched}, {"raced", of.raced},
            {"stages", of.stages},     {"rounds", of.rounds},     {"runs", of.runs},
            {"proposed", of.proposed}, {"refused", of.refused},   {"repeated", of.repeated}};
  }

  Json ConfirmationJson() const {
    if (!outcome_.confirmation.has_value()) return nullptr;
    const Confirmation& of = *outcome_.confirmation;
    return {{"baseline", outcome_.variants[of.baseline].configuration.id},
            {"rounds", of.rounds},
            {"metric", of.metric},
            {"speedup", of.speedup},
            {"speedup_ci95", Interval(of.lo, of.hi)}};
  }

  Json CanaryJson() const {
    if (!outcome_.verdict.canary.has_value()) return nullptr;
    const CanaryReport& of = *outcome_.verdict.canary;
    return {
        {"rounds", of.rounds}, {"ratio", of.ratio}, {"ci", {of.lo, of.hi}}, {"biased", of.biased}};
  }

  Json VariantJson(const TunedVariant& variant) const {
    Json row = {{"id", variant.configuration.id},
                {"params", Parsed(variant.configuration.params_json)},
                {"status", variant.state.status}};
    if (!variant.state.message.empty()) row["message"] = variant.state.message;
    row["mem_bytes"] = OrNull(variant.state.mem_bytes);
    row["raced"] = variant.measured.has_value();
    row["searched"] = OrNull(variant.searched);
    row["search_failure"] = variant.search_failure.empty() ? Json() : Json(variant.search_failure);
    row["alias_of"] = variant.alias_of.has_value()
                          ? Json(outcome_.variants[*variant.alias_of].configuration.id)
                          : Json();
    row["ratio"] = nullptr;
    row["ratio_ci"] = nullptr;
    row["eliminated"] = nullptr;
    row["samples"] = variant.tail.has_value() ? variant.tail->samples : 0;
    row["typical_ps"] = variant.tail.has_value() ? Json(variant.tail->typical_ps) : Json();
    row["typical_uj"] = variant.tail.has_value() ? OrNull(variant.tail->typical_uj) : Json();
    row["p95_ratio"] = variant.tail.has_value() ? OrNull(variant.tail->p95_ratio) : Json();
    row["spike_rate"] = variant.tail.has_value() ? Json(variant.tail->spike_rate) : Json();
    if (!variant.measured.has_value()) return row;
    const Row& of = rows_.at(*variant.measured);
    if (of.ratio != nullptr) {
      row["ratio"] = of.ratio->est;
      row["ratio_ci"] = Interval(of.ratio->lo, of.ratio->hi);
    }
    if (of.out != nullptr) {
      row["eliminated"] = {
          {"by", IdOf(of.out->by)}, {"round", of.out->round}, {"reason", of.out->reason}};
    }
    return row;
  }

  // What the verdict says of a place in the decider's space: looked up once, whatever the
  // number of variants.
  struct Row {
    size_t variant = 0;
    const Ratio* ratio = nullptr;
    const Elimination* out = nullptr;
  };

  const TuneOutcome& outcome_;
  std::vector<Row> rows_;
};

}  // namespace

std::string OutcomeJson(const TuneOutcome& outcome) { return Text(Writer(outcome).Write()); }

std::string DecideSpaceJson(std::span<const Configuration> configurations) {
  Json variants = Json::array();
  for (const Configuration& each : configurations) {
    Json variant = {{"id", each.id}, {"params", Parsed(each.params_json)}};
    if (each.mem_bytes.has_value()) variant["mem_bytes"] = *each.mem_bytes;
    variants.push_back(std::move(variant));
  }
  return Text({{"variants", std::move(variants)}});
}

std::string DecideConfigJson(const DecideConfig& config, std::string_view incumbent,
                             std::string_view search) {
  Json out = {{"alpha", config.alpha},
              {"tie_alpha", config.tie_alpha},
              {"delta", config.delta},
              {"stop", config.stop == Stop::kPick ? "pick" : "claim"},
              {"objective", ObjectiveName(config.objective)},
              {"incumbent", incumbent.empty() ? Json() : Json(incumbent)},
              {"canary", config.canary},
              {"seed", config.seed}};
  if (!search.empty()) out["search"] = search;
  return Text(out);
}

std::string PreparationJson(const HarnessInfo& harness, std::span<const TunedVariant> variants) {
  Json states = Json::object();
  for (const TunedVariant& variant : variants) {
    const VariantState& state = variant.state;
    states[variant.configuration.id] = {{"status", state.status},
                                        {"fingerprint", state.fingerprint},
                                        {"message", state.message},
                                        {"mem_bytes", OrNull(state.mem_bytes)}};
  }
  return Text({{"harness", Writer::HarnessJson(harness)}, {"variants", std::move(states)}});
}

absl::StatusOr<std::map<std::string, VariantState>> PreparationFromJson(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto variants = parsed.is_object() ? parsed.find("variants") : parsed.end();
  const auto damaged = absl::DataLossError("what the session knew of its variants is damaged");
  if (!parsed.is_object() || variants == parsed.end() || !variants->is_object()) return damaged;
  std::map<std::string, VariantState> states;
  for (const auto& [id, state] : variants->items()) {
    if (!state.is_object() || !state.contains("status") || !state["status"].is_string()) {
      return damaged;
    }
    VariantState& into = states[id];
    into.status = state["status"];
    into.fingerprint = state.value("fingerprint", "");
    into.message = state.value("message", "");
    const auto mem_bytes = state.find("mem_bytes");
    if (mem_bytes != state.end() && mem_bytes->is_number_integer()) into.mem_bytes = *mem_bytes;
  }
  return states;
}

std::string NotesJson(std::string_view harness_notes_json,
                      const std::map<std::string, std::string>& failures) {
  Json notes = Parsed(std::string(harness_notes_json));
  if (!notes.is_object()) notes = Json::object();
  notes["failures"] = failures;
  return Text(notes);
}

std::map<std::string, std::string> FailuresOf(std::string_view notes_json) {
  std::map<std::string, std::string> failures;
  const Json notes = Parsed(std::string(notes_json));
  const auto found = notes.is_object() ? notes.find("failures") : notes.end();
  if (!notes.is_object() || found == notes.end() || !found->is_object()) return failures;
  for (const auto& [id, message] : found->items()) {
    if (message.is_string()) failures[id] = message;
  }
  return failures;
}

namespace {

constexpr double kWrong = 0.01;       // of all flags together
constexpr size_t kFewestForP95 = 20;  // below, it would be the maximum
constexpr double kSpike = 0.1, kDeviations = 6;

// Times of a variant by round; of two in a round the first.
using Times = std::map<size_t, double>;

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

struct Pair {
  std::vector<double> pick, rival;
};

Pair InCommon(const Times& pick, const Times& rival) {
  Pair pair;
  for (const auto& [round, time] : pick) {
    const auto other = rival.find(round);
    if (other == rival.end()) continue;
    pair.pick.push_back(time);
    pair.rival.push_back(other->second);
  }
  return pair;
}

bool IsWorse(const std::vector<double>& pick, double pick_over, const std::vector<double>& rival,
             double rival_over, double alpha) {
  return FisherWorse(CountOver(pick, pick_over), static_cast<int64_t>(pick.size()),
                     CountOver(rival, rival_over), static_cast<int64_t>(rival.size())) < alpha;
}

void Flag(const Pair& pair, uint32_t rival, double delta, double alpha,
          std::vector<TailFlag>* flags) {
  if (pair.pick.empty()) return;
  const Shape pick = ShapeOf(pair.pick), other = ShapeOf(pair.rival);
  std::vector<double> both = pair.pick;
  both.insert(both.end(), pair.rival.begin(), pair.rival.end());
  const double over = ShapeOf(both).p95;
  if (pair.pick.size() >= kFewestForP95 && pick.p95 > other.p95 * (1 + delta) &&
      IsWorse(pair.pick, over, pair.rival, over, alpha)) {
    flags->push_back({rival, "p95", pick.p95 / pick.median, other.p95 / other.median});
  }
  if (IsWorse(pair.pick, pick.spike_at, pair.rival, other.spike_at, alpha)) {
    flags->push_back({rival, "spikes", RateOver(pair.pick, pick.spike_at),
                      RateOver(pair.rival, other.spike_at)});
  }
}

// Those that the pick is held against, each once.
std::vector<uint32_t> Rivals(const Verdict& verdict, std::optional<uint32_t> baseline) {
  std::vector<uint32_t> rivals = verdict.tied;
  const Ratio* runner_up = nullptr;
  for (const Ratio& each : verdict.ratios) {
    if (each.variant == verdict.pick) continue;
    if (runner_up == nullptr || each.est < runner_up->est) runner_up = &each;
  }
  if (runner_up != nullptr) rivals.push_back(runner_up->variant);
  if (baseline.has_value()) rivals.push_back(*baseline);
  std::sort(rivals.begin(), rivals.end());
  rivals.erase(std::unique(rivals.begin(), rivals.end()), rivals.end());
  std::erase(rivals, *verdict.pick);
  return rivals;
}

std::vector<Times> TimesOf(std::span<const RoundResult> rounds, size_t places) {
  std::vector<Times> times(places);
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i].discarded) continue;
    for (const Sample& sample : rounds[i].samples) {
      if (sample.status != SampleStatus::kOk || sample.variant >= places) continue;
      times[sample.variant].emplace(i, static_cast<double>(sample.t_ps));
    }
  }
  return times;
}

// Of each variant all or none.
std::vector<std::optional<std::vector<double>>> EnergiesOf(std::span<const RoundResult> rounds,
                                                           size_t places) {
  std::vector<std::optional<std::vector<double>>> energies(places, std::vector<double>());
  for (const RoundResult& round : rounds) {
    if (round.discarded) continue;
    for (const Sample& sample : round.samples) {
      if (sample.status != SampleStatus::kOk || sample.variant >= places) continue;
      auto& of = energies[sample.variant];
      if (!sample.energy_uj.has_value()) of.reset();
      if (of.has_value()) of->push_back(*sample.energy_uj);
    }
  }
  return energies;
}

std::optional<double> Median(std::optional<std::vector<double>> values) {
  if (!values.has_value() || values->empty()) return std::nullopt;
  return ShapeOf(*std::move(values)).median;
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
  const std::vector<Times> times = TimesOf(rounds, places);
  std::vector<std::optional<std::vector<double>>> energies = EnergiesOf(rounds, places);
  for (TunedVariant& each : outcome->variants) {
    if (!each.measured.has_value() || times[*each.measured].empty()) continue;
    std::vector<double> own;
    for (const auto& [round, time] : times[*each.measured]) own.push_back(time);
    const Shape shape = ShapeOf(own);
    each.tail = {.samples = own.size(),
                 .typical_ps = shape.median,
                 .typical_uj = Median(std::move(energies[*each.measured])),
                 .spike_rate = RateOver(own, shape.spike_at)};
    if (own.size() >= kFewestForP95) each.tail->p95_ratio = shape.p95 / shape.median;
  }
  const Verdict& verdict = outcome->verdict;
  if (!verdict.pick.has_value()) return;
  const std::vector<uint32_t> rivals = Rivals(verdict, baseline);
  const double alpha = kWrong / (2.0 * std::max<double>(1, static_cast<double>(rivals.size())));
  for (const uint32_t rival : rivals) {
    Flag(InCommon(times[*verdict.pick], times[rival]), rival, verdict.delta, alpha,
         &outcome->tail_flags);
  }
}

}  // namespace xplane_time
