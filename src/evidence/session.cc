// Bundles of tuning sessions: writes them, reads them, and decides again.
//
// CheckDecision replays the decision on the stored rounds with the stored rule and budget, and
// compares the result with the stored verdict field by field. Numbers may differ by rounding errors
// of another machine. Some fields cannot be recomputed from the rounds; ListNotCompared names them,
// so that a reader knows what the check does not cover.
#include "evidence/session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "evidence/witness.h"
#include "status.h"
#include "tune/outcome_json.h"
#include "tune/session_json.h"

namespace xplane_time::evidence {
namespace {

using tune::Field, tune::Json;

constexpr char kSession[] = "session.json", kRounds[] = "witness/rounds.jsonl";

std::string SpaceText(const RecordedSession& session) {
  SearchSpace space;
  space.name = session.info.key.workload;
  space.variants = session.variants;
  return SpaceToJson(space);
}

Json HeadOf(const RecordedSession& session) {
  return {{"schema", "xplane-time.witness.v1"},
          {"of", "rounds"},
          {"session", tune::SessionJson(session.info)}};
}

std::string WitnessOf(const RecordedSession& session) {
  std::string line = WitnessLine(std::nullopt, tune::CanonicalJson(HeadOf(session)));
  std::string text = line + "\n";
  for (const RoundRecord& each : session.rounds) {
    line = WitnessLine(line, tune::CanonicalJson(tune::RoundJson(each)));
    Append(&text, line, "\n");
  }
  return text;
}

// For readers who only have the manifest.
Json ResultJson(const SessionInfo& info) {
  return {{"pick", info.pick ? Json(*info.pick) : Json()}, {"claim", info.claim.value_or("")}};
}

absl::Status ReadRounds(const Bundle& bundle, RecordedSession* session) {
  ASSIGN_OR_RETURN(const Witness witness, ReadWitness(kRounds, bundle.ContentOf(kRounds)));
  if (witness.samples[0] != tune::CanonicalJson(HeadOf(*session))) {
    return DataLoss(kRounds, ": line 1: belongs to another session than ", kSession);
  }
  for (size_t i = 1; i < witness.samples.size(); ++i) {
    ASSIGN_OR_RETURN(const Json round, tune::ParseJson(witness.samples[i], kRounds));
    std::string wrong;
    tune::ReadRound(Field(round, &wrong, Cat("line ", i + 1, ": sample")),
                    &session->rounds.emplace_back());
    if (!wrong.empty()) return DataLoss(kRounds, ": ", wrong);
  }
  return absl::OkStatus();
}

// Tolerates the rounding errors of another machine's mathematical functions.
bool IsSame(const std::optional<double>& a, const std::optional<double>& b) {
  constexpr double kRounding = 1e-6;
  if (a.has_value() != b.has_value() || !a.has_value()) return a.has_value() == b.has_value();
  return std::abs(*a - *b) <= kRounding * std::max(std::abs(*a), std::abs(*b));
}

// Verdicts of recorded rounds use a different claim for this case.
Claim Plain(Claim claim) { return claim == Claim::kTooLittleData ? Claim::kUndecided : claim; }

bool IsSame(const TuneResult::Interval& a, const TuneResult::Interval& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return IsSame((*a)[0], (*b)[0]) && IsSame((*a)[1], (*b)[1]);
}

bool IsSame(const TuneResult::Row& a, const TuneResult::Row& b) {
  const auto out = [](const TuneResult::Row& row) {
    const auto& of = row.eliminated;
    return of.has_value() ? Cat(of->by.value_or(""), " ", of->round, " ", of->reason) : "";
  };
  return a.id == b.id && a.params == b.params && a.status == b.status && a.raced == b.raced &&
         a.alias_of == b.alias_of && a.samples == b.samples && out(a) == out(b) &&
         a.mem_bytes == b.mem_bytes && IsSame(a.ratio, b.ratio) && IsSame(a.ratio_ci, b.ratio_ci) &&
         IsSame(a.typical_ps, b.typical_ps) && IsSame(a.typical_uj, b.typical_uj) &&
         IsSame(a.p95_ratio, b.p95_ratio) && IsSame(a.spike_rate, b.spike_rate);
}

bool IsSame(const std::optional<TuneResult::Canary>& a,
            const std::optional<TuneResult::Canary>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->rounds == b->rounds && a->biased == b->biased && IsSame(a->ratio, b->ratio) &&
         IsSame(a->ci, b->ci);
}

// The number of searched variants is only known during the search; it excludes samples without a
// value.
bool IsSame(const std::optional<SearchReport>& a, const std::optional<SearchReport>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->strategy == b->strategy && a->raced == b->raced && a->stages == b->stages &&
         a->rounds == b->rounds && a->runs == b->runs && a->proposed == b->proposed &&
         a->refused == b->refused && a->repeated == b->repeated;
}

bool IsSame(const std::optional<Confirmation>& a, const std::optional<Confirmation>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->baseline == b->baseline && a->rounds == b->rounds && a->metric == b->metric &&
         IsSame(a->speedup, b->speedup) && IsSame(a->speedup_ci95, b->speedup_ci95);
}

// Compares the verdict's fields with its session. A later run of the session may use a harness with
// another name or clock; all other properties of a harness are part of the session's key.
std::vector<std::string> SessionDifferences(const TuneResult& stored, const SessionInfo& info) {
  std::vector<std::string> names;
  const auto compare = [&](const char* name, bool is_same) {
    if (!is_same) names.emplace_back(name);
  };
  const HarnessInfo& harness = stored.harness;
  compare("harness.device", harness.device == info.device);
  compare("harness.device_class", harness.device_class == info.key.device_class);
  compare("harness.driver", harness.driver == info.key.driver);
  compare("harness.framework", harness.framework == info.key.framework);
  compare("harness.flags", harness.flags == info.key.flags);
  compare("harness.code_hash", harness.code_hash == info.key.code_hash);
  compare("session", stored.session == info.id);
  compare("key.objective", ObjectiveName(stored.objective) == info.key.objective);
  return names;
}

// Fields that are compared neither with the rounds nor with the session.
std::vector<std::string> ListNotCompared(const TuneResult& stored) {
  std::vector<std::string> names = {"budget",  "harness.clock", "harness.name", "interrupted",
                                    "resumed", "stop_reason",   "tail_flags",   "variants.message"};
  if (stored.devices.has_value()) names.emplace_back("devices");
  if (stored.search.has_value()) {
    for (const char* name : {"search.searched", "variants.searched", "variants.search_failure"}) {
      names.emplace_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> Differences(const TuneResult& stored, const TuneResult& replayed) {
  std::vector<std::string> names;
  const auto compare = [&](const char* name, bool is_same) {
    if (!is_same) names.emplace_back(name);
  };
  compare("pick", stored.pick == replayed.pick);
  compare("claim", Plain(stored.claim) == Plain(replayed.claim));
  compare("objective", stored.objective == replayed.objective);
  compare("energy_kind", stored.energy_kind == replayed.energy_kind);
  compare("tied", stored.tied == replayed.tied);
  compare("delta", IsSame(stored.delta, replayed.delta));
  compare("mde", IsSame(stored.mde, replayed.mde));
  compare("canary", IsSame(stored.canary, replayed.canary));
  compare("p_best", IsSame(stored.p_best, replayed.p_best));
  compare("regret", IsSame(stored.regret.est, replayed.regret.est) &&
                        IsSame(stored.regret.hi, replayed.regret.hi));
  compare("runs", stored.runs == replayed.runs);
  compare("rounds", stored.rounds == replayed.rounds);
  compare("rule", stored.rule == replayed.rule);
  compare("seed", stored.seed == replayed.seed);
  // A verdict that was stopped during its search has the counts up to then.
  if (!stored.interrupted) compare("search", IsSame(stored.search, replayed.search));
  compare("confirmation", IsSame(stored.confirmation, replayed.confirmation));
  compare("variants",
          std::ranges::equal(stored.variants, replayed.variants,
                             [](const auto& a, const auto& b) { return IsSame(a, b); }));
  return names;
}

absl::StatusOr<TuneResult> ReplayedResult(const RecordedSession& session,
                                          const TuneResult& stored) {
  const Json budget = {{"runs", stored.budget.runs ? Json(*stored.budget.runs) : Json()},
                       {"time_ps", stored.budget.time_ps ? Json(*stored.budget.time_ps) : Json()}};
  ASSIGN_OR_RETURN(TuneOutcome replayed, Replay(session, Json{{"budget", budget}}.dump()));
  if (replayed.verdict.rounds != stored.rounds) {
    // Runs with larger budgets stored more rounds, so decide without a budget.
    ASSIGN_OR_RETURN(replayed, Replay(session, "{}"));
  }
  TuneResult result = ResultOf(replayed);
  result.confirmation =
      RecordedConfirmation(session, result.pick.value_or(""), replayed.decide.objective);
  return result;
}

}  // namespace

absl::StatusOr<BundleSpec> SessionBundle(const RecordedSession& session) {
  if (!session.info.verdict_json.has_value()) {
    return FailedPrecondition(
        session.source, ": session ", session.info.id,
        " has no verdict yet, which a bundle requires; continue with tune --resume");
  }
  Json stored = {{"schema", "xplane-time.session.v1"},
                 {"session", tune::SessionJson(session.info)},
                 {"variants", Json::array()},
                 {"verdict", tune::Stored(*session.info.verdict_json)}};
  for (const Configuration& each : session.variants) {
    stored["variants"].push_back(tune::VariantJson(each));
  }
  return BundleSpec{
      .kind = kSessionKind,
      .configuration = tune::SessionJson(session.info),
      .result = ResultJson(session.info),
      .files = {{kSession, stored.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"},
                {kSpace, SpaceText(session) + "\n"},
                {kRounds, WitnessOf(session)}}};
}

absl::StatusOr<RecordedSession> SessionOf(const Bundle& bundle) {
  const auto stored = tune::ParseJson(bundle.ContentOf(kSession), kSession);
  if (!stored.ok()) return DataLoss(stored.status().message());
  RecordedSession session = {.source = bundle.path};
  std::string wrong;
  const Field root(*stored, &wrong, "$");
  tune::ReadSession(root.At("session"), &session.info);
  root.At("variants").Each([&](const Field& each) {
    tune::ReadVariant(each, &session.variants.emplace_back());
  });
  session.info.verdict_json = tune::CanonicalJson(root.Object("verdict"));
  if (!wrong.empty()) return DataLoss(kSession, ": ", wrong);
  const Json verdict = root.Object("verdict");
  session.info.pick = json::TextOf(verdict, "pick");
  session.info.claim = json::TextOf(verdict, "claim");
  const Json* const result = json::Find(bundle.manifest, "result");
  if (result == nullptr || *result != ResultJson(session.info)) {
    return DataLoss(kManifest, ": result: differs from the pick and the claim of ", kSession);
  }
  const Json* const configuration = json::Find(bundle.manifest, "configuration");
  if (configuration == nullptr || *configuration != tune::SessionJson(session.info)) {
    return DataLoss(kManifest, ": configuration: differs from the session of ", kSession);
  }
  if (bundle.ContentOf(kSpace) != SpaceText(session) + "\n") {
    return DataLoss(kSpace, ": its variants differ from those of ", kSession);
  }
  RETURN_IF_ERROR(ReadRounds(bundle, &session));
  return session;
}

absl::StatusOr<DecisionCheck> CheckDecision(const RecordedSession& session) {
  const json::Json verdict = json::Parse(session.info.verdict_json.value_or(""));
  const json::Json* const claim = verdict.is_object() ? json::Find(verdict, "claim") : nullptr;
  Claim known = Claim::kUndecided;
  if (claim == nullptr || !json::FromJson(*claim, &known)) {
    return DataLoss(kSession, ": $.verdict.claim: unknown claim");
  }
  const auto stored = ReadTuneResult(*session.info.verdict_json);
  if (!stored.has_value()) return DataLoss(kSession, ": $.verdict cannot be read");
  DecisionCheck check = {.claim = std::string(ClaimName(stored->claim)),
                         .pick = stored->pick.value_or(""),
                         .differences = SessionDifferences(*stored, session.info),
                         .not_compared = ListNotCompared(*stored)};
  const auto replayed = ReplayedResult(session, *stored);
  if (absl::IsFailedPrecondition(replayed.status())) {
    // There was no race, so there must be no pick.
    if (stored->pick.has_value()) check.differences.emplace_back("pick");
    check.reason = "the session has no rounds of a race";
    return check;
  }
  if (!replayed.ok()) return DataLoss(kSession, ": ", replayed.status().message());
  check.replayed_claim = ClaimName(replayed->claim);
  check.replayed_pick = replayed->pick.value_or("");
  for (std::string& name : Differences(*stored, *replayed)) {
    check.differences.push_back(std::move(name));
  }
  return check;
}

}  // namespace xplane_time::evidence
