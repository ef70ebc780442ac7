#include "decide/messages.h"

#include <array>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "json/described.h"
#include "status.h"
#include "xplane_time/decide.h"

namespace xplane_time {

XPLANE_TIME_JSON_FIELDS(CanaryReport, rounds, ratio, lo, hi, biased)

namespace decide {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using xplane_time::json::OrNull, xplane_time::json::ToJson;

absl::Status Wrong(const std::string& field, std::string_view wanted) {
  return InvalidArgument(field, ": must be ", absl::string_view(wanted.data(), wanted.size()));
}

// Null where the field is absent or null.
const json* Field(const json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// Fields of one object. The first error stays; what is absent leaves its target as it is.
class Fields {
 public:
  Fields(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) status_ = Wrong(place_.empty() ? "the line" : place_, "an object");
  }

  const absl::Status& status() const { return status_; }
  std::string Place(const char* name) const {
    return place_.empty() ? std::string(name) : absl::StrCat(place_, ".", name);
  }

  const json* Find(const char* name, bool required = false) {
    if (!status_.ok()) return nullptr;
    const json* value = Field(object_, name);
    if (value == nullptr && required) Fail(name, "present");
    return value;
  }
  bool Fail(const char* name, std::string_view wanted) {
    if (status_.ok()) status_ = Wrong(Place(name), wanted);
    return false;
  }

  // Whether it is there and fits.
  template <typename T>
  bool Read(const char* name, T* target, bool required = false) {
    const json* value = Find(name, required);
    if (value == nullptr) return false;
    if constexpr (std::is_same_v<T, bool>) {
      if (!value->is_boolean()) return Fail(name, "true or false");
    } else if constexpr (std::is_same_v<T, double>) {
      if (!value->is_number()) return Fail(name, "a number");
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value->is_string()) return Fail(name, "a string");
    } else {
      if (!value->is_number_integer()) return Fail(name, "an integer");
      const bool fits = value->is_number_unsigned() ? std::in_range<T>(value->get<uint64_t>())
                                                    : std::in_range<T>(value->get<int64_t>());
      if (!fits) {
        return Fail(
            name, std::is_signed_v<T> ? "an integer of 64 bits" : "an integer from 0, and smaller");
      }
    }
    *target = value->get<T>();
    return true;
  }
  template <typename T>
  void Read(const char* name, std::optional<T>* target) {
    T value = {};
    if (Read(name, &value)) *target = value;
  }

 private:
  const json& object_;
  std::string place_;
  absl::Status status_;
};

absl::Status ParseVariant(const json& item, const std::string& place, OpenMessage* open) {
  Fields fields(item, place);
  Variant variant;
  fields.Read("mem_bytes", &variant.mem_bytes);
  const json* params = fields.Find("params");
  const json* id = fields.Find("id", /*required=*/true);
  if (!fields.status().ok()) return fields.status();
  if (absl::Status status = open->ids.Add(*id); !status.ok()) {
    return InvalidArgument(place, ".id: ", status.message());
  }
  variant.id = id->dump();
  if (params != nullptr) variant.params_json = params->dump();
  open->space.variants.push_back(std::move(variant));
  return absl::OkStatus();
}

absl::Status ParseSpace(const json& message, OpenMessage* open) {
  Fields fields(message, "");
  const json* space = fields.Find("space", /*required=*/true);
  if (space == nullptr) return fields.status();
  Fields space_fields(*space, "space");
  const json* variants = space_fields.Find("variants", /*required=*/true);
  if (variants == nullptr) return space_fields.status();
  if (!variants->is_array()) return Wrong("space.variants", "an array");
  if (variants->size() > kMaxVariants) {
    return Wrong("space.variants", absl::StrCat("of at most ", kMaxVariants,
                                                " variants: draw a sample of the space first"));
  }
  size_t position = 0;
  for (const json& item : *variants) {
    const std::string place = absl::StrCat("space.variants[", position++, "]");
    RETURN_IF_ERROR(ParseVariant(item, place, open));
  }
  return absl::OkStatus();
}

void ParseCanary(Fields& fields, DecideConfig* config) {
  const json* canary = fields.Find("canary");
  if (canary == nullptr) return;
  if (!canary->is_boolean()) {
    fields.Read("canary", &config->canary);
  } else if (!canary->get<bool>()) {
    config->canary = 0;
  }
}

void ParseChoices(Fields& fields, DecideConfig* config) {
  std::string name;
  if (fields.Read("stop", &name)) {
    config->stop = name == "pick" ? Stop::kPick : Stop::kClaim;
    if (name != "pick" && name != "claim") fields.Fail("stop", "pick or claim");
  }
  if (!fields.Read("objective", &name)) return;
  if (!xplane_time::json::FromJson(name, &config->objective)) {
    fields.Fail("objective", "time, energy, edp, ed2p or pareto");
  }
}

absl::Status ParseBudget(const json& budget, DecideConfig* config) {
  Fields fields(budget, "config.budget");
  fields.Read("runs", &config->budget_runs);
  fields.Read("time_ps", &config->budget_time_ps);
  return fields.status();
}

absl::Status ParseConfig(const json& message, OpenMessage* open) {
  const json* object = Field(message, "config");
  if (object == nullptr) return absl::OkStatus();
  Fields fields(*object, "config");
  DecideConfig& config = open->config;
  fields.Read("alpha", &config.alpha);
  fields.Read("tie_alpha", &config.tie_alpha);
  fields.Read("delta", &config.delta);
  fields.Read("seed", &config.seed);
  ParseCanary(fields, &config);
  ParseChoices(fields, &config);
  if (const json* incumbent = fields.Find("incumbent")) {
    config.incumbent = open->ids.Find(*incumbent);
    if (!config.incumbent) fields.Fail("incumbent", "the id of a variant, or null");
  }
  const json* budget = fields.Find("budget");
  if (!fields.status().ok() || budget == nullptr) return fields.status();
  return ParseBudget(*budget, &config);
}

absl::StatusOr<Sample> ParseSample(const json& item, const std::string& place, const Ids& ids) {
  Fields fields(item, place);
  Sample sample;
  if (const json* id = fields.Find("id", /*required=*/true)) {
    const auto variant = ids.Find(*id);
    if (variant) {
      sample.variant = *variant;
    } else {
      fields.Fail("id", "the id of a variant of the space");
    }
  }
  fields.Read("slot", &sample.slot, /*required=*/true);
  if (std::string name; fields.Read("status", &name, /*required=*/true)) {
    const auto status = ParseSampleStatus(name);
    sample.status = status.value_or(SampleStatus::kOk);
    if (!status) {
      fields.Fail("status",
                  "ok, compile_error, runtime_error, crash, timeout, oom, wrong_result, "
                  "no_events, throttled or infra");
    }
  }
  fields.Read("t_ps", &sample.t_ps, /*required=*/sample.status == SampleStatus::kOk);
  fields.Read("energy_uj", &sample.energy_uj);
  if (!fields.status().ok()) return fields.status();
  return sample;
}

ordered_json IdOrNull(const std::optional<uint32_t>& variant, const Ids& ids) {
  return variant ? ordered_json(ids[*variant]) : ordered_json(nullptr);
}

ordered_json EliminatedJson(const Verdict& verdict, const Ids& ids) {
  ordered_json result = ordered_json::array();
  for (const Elimination& out : verdict.eliminated) {
    result.push_back({{"id", ids[out.variant]},
                      {"by", IdOrNull(out.by, ids)},
                      {"round", out.round},
                      {"reason", out.reason},
                      {"ratio", OrNull(out.ratio)},
                      {"lo", OrNull(out.lo)}});
  }
  return result;
}

ordered_json RatiosJson(const Verdict& verdict, const Ids& ids) {
  ordered_json result = ordered_json::array();
  for (const Ratio& ratio : verdict.ratios) {
    result.push_back({{"id", ids[ratio.variant]},
                      {"est", ratio.est},
                      {"lo", OrNull(ratio.lo)},
                      {"hi", OrNull(ratio.hi)}});
  }
  return result;
}

}  // namespace

absl::Status Ids::Add(const json& id) {
  if (!id.is_string() && !id.is_number_integer()) {
    return absl::InvalidArgumentError("must be a string or an integer");
  }
  if (!positions_.emplace(id.dump(), static_cast<uint32_t>(ids_.size())).second) {
    return InvalidArgument(id.dump(), " is there twice");
  }
  ids_.push_back(id);
  return absl::OkStatus();
}

std::optional<uint32_t> Ids::Find(const json& id) const {
  if (!id.is_string() && !id.is_number_integer()) return std::nullopt;
  const auto it = positions_.find(id.dump());
  if (it == positions_.end()) return std::nullopt;
  return it->second;
}

absl::StatusOr<OpenMessage> ParseOpen(const json& message) {
  OpenMessage open;
  RETURN_IF_ERROR(ParseSpace(message, &open));
  RETURN_IF_ERROR(ParseConfig(message, &open));
  Fields fields(message, "");
  fields.Read("history", &open.history);
  if (!fields.status().ok()) return fields.status();
  return open;
}

absl::StatusOr<RoundResult> ParseResult(const json& message, const Ids& ids) {
  Fields fields(message, "");
  RoundResult result;
  fields.Read("batch", &result.batch, /*required=*/true);
  fields.Read("round", &result.round, /*required=*/true);
  fields.Read("discarded", &result.discarded);
  const json* samples = fields.Find("samples", /*required=*/true);
  if (!fields.status().ok()) return fields.status();
  if (!samples->is_array()) return Wrong("samples", "an array");
  for (const json& item : *samples) {
    ASSIGN_OR_RETURN(auto sample,
                     ParseSample(item, absl::StrCat("samples[", result.samples.size(), "]"), ids));
    result.samples.push_back(sample);
  }
  return result;
}

absl::StatusOr<std::vector<RoundResult>> ParseHistory(const json& message, const Ids& ids) {
  Fields fields(message, "");
  const json* items = fields.Find("results", /*required=*/true);
  if (!fields.status().ok()) return fields.status();
  if (!items->is_array()) return Wrong("results", "an array");
  std::vector<RoundResult> results;
  for (const json& item : *items) {
    auto result = ParseResult(item, ids);
    if (!result.ok()) {
      return InvalidArgument("results[", results.size(), "].", result.status().message());
    }
    results.push_back(*std::move(result));
  }
  return results;
}

ordered_json BatchJson(const Batch& batch, const Ids& ids) {
  ordered_json rounds = ordered_json::array();
  for (const auto& round : batch.rounds) {
    ordered_json order = ordered_json::array();
    for (const uint32_t variant : round) order.emplace_back(ids[variant]);
    rounds.push_back(std::move(order));
  }
  return {{"batch", batch.batch}, {"rounds", std::move(rounds)}};
}

ordered_json VerdictJson(const Verdict& verdict, const Ids& ids) {
  ordered_json tied = ordered_json::array();
  for (const uint32_t variant : verdict.tied) tied.emplace_back(ids[variant]);
  const std::string_view claim = ClaimName(verdict.claim);
  return {{"pick", IdOrNull(verdict.pick, ids)},
          {"claim", std::string(claim)},
          {"tied", std::move(tied)},
          {"eliminated", EliminatedJson(verdict, ids)},
          {"ratios", RatiosJson(verdict, ids)},
          {"p_best", OrNull(verdict.p_best)},
          {"regret", {{"est", OrNull(verdict.regret_est)}, {"hi", OrNull(verdict.regret_hi)}}},
          {"delta", verdict.delta},
          {"canary", ToJson(verdict.canary)},
          {"mde", OrNull(verdict.mde)},
          {"runs", verdict.runs},
          {"rounds", verdict.rounds},
          {"stop_reason", verdict.stop_reason},
          {"rule", verdict.rule},
          {"seed", verdict.seed}};
}

}  // namespace decide

// Names of the enumerations, as they stand in messages.

namespace {

constexpr std::array<std::string_view, 10> kStatusNames = {
    "ok",  "compile_error", "runtime_error", "crash",     "timeout",
    "oom", "wrong_result",  "no_events",     "throttled", "infra"};

}  // namespace

std::string_view SampleStatusName(SampleStatus status) {
  return kStatusNames[static_cast<size_t>(status)];
}

std::optional<SampleStatus> ParseSampleStatus(std::string_view name) {
  if (name.starts_with("crash(") && name.ends_with(")")) return SampleStatus::kCrash;
  for (size_t i = 0; i < kStatusNames.size(); ++i) {
    if (kStatusNames[i] == name) return static_cast<SampleStatus>(i);
  }
  return std::nullopt;
}

std::string_view ObjectiveName(Objective objective) {
  return NamesOf(objective)[static_cast<size_t>(objective)];
}

}  // namespace xplane_time
