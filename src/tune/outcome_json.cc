#include "tune/outcome_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

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

}  // namespace xplane_time
