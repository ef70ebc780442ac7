#include "output/tuning.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/decisions.h"
#include "output/json_document.h"
#include "output/page.h"
#include "output/sections.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

constexpr size_t kParamsWidth = 16;

// What is there of a JSON object.
std::string Text(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? Printable(at->get<std::string>()) : "";
}

std::optional<double> Number(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

Json Member(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() ? Json() : *at;
}

std::optional<std::pair<double, double>> Interval(const Json& object, const char* name) {
  const Json at = Member(object, name);
  if (!at.is_array() || at.size() != 2 || !at[0].is_number() || !at[1].is_number()) {
    return std::nullopt;
  }
  return std::pair(at[0].get<double>(), at[1].get<double>());
}

std::string ParamsText(const Json& params) {
  if (!params.is_object()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : params.items()) {
    parts.push_back(
        absl::StrCat(name, "=", value.is_string() ? value.get<std::string>() : Dump(value)));
  }
  return Printable(absl::StrJoin(parts, " "));
}

const Json* VariantOf(const Json& result, const std::string& id) {
  const auto variants = result.find("variants");
  if (variants == result.end()) return nullptr;
  const auto found = std::find_if(variants->begin(), variants->end(),
                                  [&](const Json& each) { return Text(each, "id") == id; });
  return found == variants->end() ? nullptr : &*found;
}

std::string Named(const Json& result, const std::string& id) {
  const Json* variant = VariantOf(result, id);
  const std::string params = variant == nullptr ? "" : ParamsText(Member(*variant, "params"));
  return params.empty() ? id : absl::StrCat(id, " (", params, ")");
}

std::string WhatWasDecided(const Json& result) {
  const std::string claim = Text(result, "claim"), pick = Text(result, "pick");
  if (pick.empty()) {
    if (claim == "all_failed") return "every variant failed: nothing to pick";
    return Member(result, "search").is_object()
               ? "stopped in the search, before the race; --resume goes on"
               : "stopped before anything was measured";
  }
  const std::string named = Named(result, pick);
  if (claim == "winner") return absl::StrCat("winner: ", named);
  if (claim == "tie") return absl::StrCat("tie, and the first of it: ", named);
  if (claim == "pick") return absl::StrCat("pick: ", named);
  return absl::StrCat("undecided; leads so far: ", named);
}

// What the search left out is not certified.
std::optional<std::string> SearchText(const Json& result) {
  const Json search = Member(result, "search");
  if (!search.is_object()) return std::nullopt;
  const double raced = Number(search, "raced").value_or(0);
  std::string text = absl::StrCat("Searched by ", Text(search, "strategy"), ": ",
                                  Number(search, "searched").value_or(0), " configurations in ",
                                  Number(search, "runs").value_or(0), " runs");
  if (raced > 0) {
    absl::StrAppend(&text, "; ", raced,
                    " entered the race, and what is said of the pick holds among ", "these ", raced,
                    " only");
  }
  return text + ".";
}

// What the typical time, which decided, does not show.
std::string TailText(const Json& flag) {
  const double pick = Number(flag, "pick").value_or(0), other = Number(flag, "other").value_or(0);
  const std::string than = absl::StrCat("than that of ", Text(flag, "rival"));
  if (Text(flag, "what") == "spikes") {
    return absl::StrCat("Its tail is worse ", than, ": ", FormatPercent(pick),
                        " % of its runs are spikes, against ", FormatPercent(other), " %.");
  }
  return absl::StrCat("Its tail is worse ", than, ": its p95 is ", FormatFixed(pick, 3),
                      " times its typical time, against ", FormatFixed(other, 3), ".");
}

std::vector<std::string> Reasons(const Json& result) {
  std::vector<std::string> reasons;
  if (auto search = SearchText(result); search.has_value()) reasons.push_back(*std::move(search));
  const std::string claim = Text(result, "claim");
  const std::string delta = PercentText(Number(result, "delta").value_or(0));
  if (claim == "winner") reasons.push_back("Every other variant is proved slower.");
  if (claim == "pick") {
    reasons.push_back(absl::StrCat("No variant is more than ", delta,
                                   " faster; not proved that "
                                   "it is the fastest (--stop claim does)."));
  }
  if (claim == "tie") {
    reasons.push_back(absl::StrCat("All of the tie are within ", delta, " of each other."));
  }
  if (claim == "undecided") {
    reasons.push_back(absl::StrCat("It stopped (", Text(result, "stop_reason"),
                                   ") before the data decided; --resume goes on."));
  }
  const auto regret = Number(Member(result, "regret"), "hi");
  const auto p_best = Number(result, "p_best");
  if (regret.has_value() && p_best.has_value()) {
    constexpr double kNothing = 5e-5;
    reasons.push_back(absl::StrCat(
        "It is the fastest with ", FormatPercent(*p_best), " %; what it may lose is ",
        *regret < kNothing ? "nothing" : absl::StrCat("below ", PercentText(*regret)), " (95 %)."));
  }
  const Json confirmation = Member(result, "confirmation");
  if (const auto speedup = Number(confirmation, "speedup"); speedup.has_value()) {
    std::string text = absl::StrCat(FormatFixed(*speedup, 4), " times as fast as ",
                                    Text(confirmation, "baseline"));
    if (const auto ci = Interval(confirmation, "speedup_ci95"); ci.has_value()) {
      absl::StrAppend(&text, " (", FormatFixed(ci->first, 4), " to ", FormatFixed(ci->second, 4),
                      ")");
    }
    reasons.push_back(absl::StrCat(text, " in ", Number(confirmation, "rounds").value_or(0),
                                   " rounds of their own."));
  }
  const Json flags = Member(result, "tail_flags");
  for (const Json& flag : flags.is_array() ? flags : Json::array()) {
    reasons.push_back(TailText(flag));
  }
  reasons.push_back(absl::StrCat(Number(result, "runs").value_or(0), " runs in ",
                                 Number(result, "rounds").value_or(0), " rounds, session ",
                                 Number(result, "session").value_or(0), "."));
  const Json canary = Member(result, "canary");
  if (canary.is_object() && canary.value("biased", false)) {
    reasons.push_back(
        "The canary is biased: one program against itself differs, so what is no "
        "difference was widened.");
  }
  return reasons;
}

std::string Fate(const Json& result, const Json& variant) {
  if (const std::string status = Text(variant, "status"); status != "ok") return status;
  if (const std::string alias = Text(variant, "alias_of"); !alias.empty()) {
    return absl::StrCat("alias of ", alias);
  }
  if (Member(result, "search").is_object() && !variant.value("raced", true)) {
    return Number(result["search"], "raced").value_or(0) > 0 ? "left by the search" : "";
  }
  const Json out = Member(variant, "eliminated");
  if (!out.is_object()) return Text(variant, "id") == Text(result, "pick") ? "picked" : "";
  return absl::StrCat(Text(out, "reason"), ", round ", Number(out, "round").value_or(0));
}

Section VariantSection(const Json& result) {
  std::vector<std::string> ids, params, ratios, intervals, fates;
  std::vector<const Json*> rows;
  const Json variants = Member(result, "variants");
  if (variants.is_array()) {
    for (const Json& each : variants) rows.push_back(&each);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json* a, const Json* b) {
    return Number(*a, "ratio").value_or(1e300) < Number(*b, "ratio").value_or(1e300);
  });
  for (const Json* row : rows) {
    ids.push_back(Text(*row, "id"));
    params.push_back(ParamsText(Member(*row, "params")));
    const auto ratio = Number(*row, "ratio");
    ratios.push_back(ratio.has_value() ? ChangeText(*ratio) : "-");
    const auto ci = Interval(*row, "ratio_ci");
    intervals.push_back(
        ci.has_value() ? absl::StrCat(ChangeText(ci->first), " .. ", ChangeText(ci->second)) : "-");
    fates.push_back(Fate(result, *row));
  }
  Section section;
  section.grid.columns = {TextColumn("variant", std::move(ids)),
                          NameColumn("parameters", std::move(params), kParamsWidth),
                          NumberColumn("time %", std::move(ratios)),
                          NumberColumn("interval", std::move(intervals), /*drop=*/1),
                          TextColumn("outcome", std::move(fates))};
  section.notes = {"time %: how much slower than the pick"};
  return section;
}

}  // namespace

std::string TuningText(std::string_view result_json, const OutputOptions& options) {
  const Json result = Json::parse(result_json, nullptr, /*allow_exceptions=*/false);
  Page page(options);
  if (!result.is_object()) {
    page.Line("a result that cannot be read", kRed);
    return std::move(page).Take();
  }
  const std::string claim = Text(result, "claim");
  const bool good = claim == "winner" || claim == "pick" || claim == "tie";
  page.Wrapped(WhatWasDecided(result), good ? kGreen : claim == "all_failed" ? kRed : kYellow);
  for (const std::string& reason : Reasons(result)) page.Wrapped(reason);
  page.Add(VariantSection(result), /*tell_dropped=*/true);
  return std::move(page).Take();
}

std::string SessionsText(std::span<const SessionInfo> sessions, const OutputOptions& options) {
  Page page(options);
  if (sessions.empty()) {
    page.Line("no session yet");
    return std::move(page).Take();
  }
  std::vector<std::string> ids, begun, workloads, devices, rounds, picks;
  for (const SessionInfo& each : sessions) {
    constexpr uint64_t kNsPerSecond = 1'000'000'000;
    ids.push_back(absl::StrCat(each.id));
    begun.push_back(FormatUtc(static_cast<uint64_t>(each.started_unix_s) * kNsPerSecond));
    workloads.push_back(Printable(each.key.workload));
    devices.push_back(Printable(each.key.device_class));
    rounds.push_back(absl::StrCat(each.rounds));
    const Json result = Json::parse(each.verdict_json.value_or("{}"), nullptr, false);
    picks.push_back(
        result.is_object() ? absl::StrCat(Text(result, "claim"), " ", Text(result, "pick")) : "");
  }
  Section section;
  section.title = "sessions";
  section.grid.columns = {NumberColumn("session", std::move(ids)),
                          TextColumn("begun", std::move(begun)),
                          NameColumn("workload", std::move(workloads), kParamsWidth),
                          NumberColumn("rounds", std::move(rounds), /*drop=*/1),
                          TextColumn("decided", std::move(picks)),
                          NameColumn("device", std::move(devices), kParamsWidth)};
  section.grid.columns.back().drop = 2;
  page.Add(section, /*tell_dropped=*/true);
  return std::move(page).Take();
}

std::string SessionsJson(std::span<const SessionInfo> sessions) {
  Document document("xplane-time.tune-sessions.v1");
  document.Section("sessions", sessions, [](const SessionInfo& each) -> Json {
    const Json result = Json::parse(each.verdict_json.value_or("null"), nullptr, false);
    return {{"session", each.id},
            {"started_unix_s", each.started_unix_s},
            {"workload", ValidUtf8(each.key.workload)},
            {"device_class", ValidUtf8(each.key.device_class)},
            {"device", ValidUtf8(each.device)},
            {"rounds", each.rounds},
            {"samples", each.samples},
            {"claim", result.is_object() ? Member(result, "claim") : Json()},
            {"pick", result.is_object() ? Member(result, "pick") : Json()}};
  });
  return std::move(document).Finish();
}

}  // namespace xplane_time::output
