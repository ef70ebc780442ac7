// The options of tune and its subcommands.
#include "options_tune.h"

#include <charconv>
#include <filesystem>
#include <limits>

#include "absl/strings/escaping.h"

#include "options_parts.h"

namespace xplane_time::tools {
namespace {

constexpr char kDecision[] = "Decision", kMeasuring[] = "Measuring", kStoring[] = "Store";

void AddDecision(CLI::App* app, TuneCommand* o, TuneTexts* t) {
  app->add_option("--stop", t->stop,
                  "pick: when no variant can be more than delta faster than the pick; claim: when "
                  "a winner or a tie is proved, at several times the runs [pick]")
      ->check(CLI::IsMember({"pick", "claim"}))
      ->type_name("WHEN")
      ->group(kDecision);
  app->add_option("--objective", t->objective,
                  "time, energy, edp (energy times time), ed2p or pareto [time]")
      ->check(CLI::IsMember({"time", "energy", "edp", "ed2p", "pareto"}))
      ->type_name("NAME")
      ->group(kDecision);
  app->add_option("--delta", t->delta, "What is no difference [0.5%]")
      ->type_name("SHARE")
      ->group(kDecision);
  app->add_option("--alpha", t->alpha, "How often a faster variant may be dropped [1%]")
      ->type_name("SHARE")
      ->group(kDecision);
  app->add_option("--tie-alpha", t->tie_alpha, "How often a tie may be claimed wrongly [5%]")
      ->type_name("SHARE")
      ->group(kDecision);
  app->add_option("--incumbent", o->incumbent,
                  "Stays unless a faster variant is proved; its id, or its parameters as JSON")
      ->type_name("ID")
      ->group(kDecision);
  app->add_option("--budget-runs", o->decide.budget_runs, "At most so many timed runs of the race")
      ->check(CLI::Range(int64_t{1}, kMaxRuns))
      ->type_name("N")
      ->group(kDecision);
  app->add_option("--budget-time", t->budget_time_s, "At most so much measured time, in seconds")
      ->type_name("S")
      ->group(kDecision);
  app->add_option("--seed", t->seed, "Of orders and of the bootstrap")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kDecision);
}

void AddMeasuring(CLI::App* app, TuneCommand* o, TuneTexts* t) {
  app->add_option("--canary", o->decide.canary,
                  "The leader runs twice in each N-th round, as a check of the measuring; 0: never "
                  "[25]")
      ->type_name("N")
      ->group(kMeasuring);
  app->add_option("--strategy", t->strategy,
                  "all, list (explicit variants only) or random:N grid points are raced; halving:N "
                  "races the best N of a search, ask:N the best 8 of N that --proposer names [all]")
      ->type_name("NAME")
      ->group(kMeasuring);
  app->add_option("--proposer", o->proposer,
                  "Command of an optimizer: python -m xplane_time.propose_optuna "
                  "(docs/space.md)")
      ->type_name("COMMAND")
      ->group(kMeasuring);
  app->add_option("--calls", o->calls, "Calls a timed run; its time is that of one [1]")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->group(kMeasuring);
  app->add_option("--slot-timeout", o->slot_timeout_s,
                  "A run that takes longer is ended, in seconds [60]")
      ->check(NumberValidator(0.001, 1'000'000))
      ->type_name("S")
      ->group(kMeasuring);
  app->add_option("--run-limit", o->run_limit,
                  "A run that takes K times as long as the fastest variant's, and over a second, "
                  "is ended; 0: never [10]")
      ->check(CLI::Validator(
          [](std::string& text) {
            const double times = std::atof(text.c_str());
            return times == 0 || times >= 2 ? "" : "--run-limit: 0, or at least 2";
          },
          ""))
      ->type_name("K")
      ->group(kMeasuring);
  app->add_option("--prepare-timeout", o->prepare_timeout_s, "The same for compiling [600]")
      ->check(NumberValidator(0.001, 1'000'000))
      ->type_name("S")
      ->group(kMeasuring);
  app->add_option(
         "--baseline", o->baseline,
         "Compared with the pick in fresh rounds at the end; as --incumbent [the incumbent]")
      ->type_name("ID")
      ->group(kMeasuring);
  app->add_option("--confirm", o->confirmation_rounds, "How many fresh rounds [10]")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kMeasuring);
  app->add_option("--power-source", o->power.sources,
                  "For objectives with energy: nvml, rapl, hwmon, constant:WATTS [the first three]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME")
      ->group(kMeasuring);
  AddSensorPlaces(app, kMeasuring, &o->power, &t->ordinals);
  app->add_option("--harness-log", o->harness_log, "What the harness prints is kept there")
      ->type_name("FILE")
      ->group(kMeasuring);
}

void AddStore(CLI::App* app, TuneCommand* o) {
  app->add_option("--store", o->store_path, "The file of sessions [tune.db]")
      ->type_name("FILE")
      ->group(kStoring);
}

void AddSession(CLI::App* app, TuneCommand* o) {
  AddStore(app, o);
  app->add_option("SESSION", o->session, "Its number [the latest]")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
}

}  // namespace

void AddTune(CLI::App* tune, TuneCommand* o, TuneTexts* t) {
  tune->require_subcommand(0, 1);
  tune->add_option("SPACE", o->space_path,
                   "What to choose from (docs/space.md); the harness and its arguments come after "
                   "-- (docs/harness.md)");
  AddDecision(tune, o, t);
  AddMeasuring(tune, o, t);
  AddStore(tune, o);
  tune->add_flag("--resume", o->resume,
                 "Go on where the last run of the same question ended, whatever ended it")
      ->group(kStoring);
  tune->add_option("--workload", o->workload, "What the store calls it [the space's name]")
      ->type_name("NAME")
      ->group(kStoring);
  tune->add_flag("--list", o->list,
                 "Only list what would be raced or searched, and estimate the runs: no harness, "
                 "no store")
      ->group(kOut);
  AddFormatAndOutput(tune, {"table", "json"}, &o->format, &o->output_path);
  tune->add_option("--progress", o->progress,
                   "auto (a terminal: live, else a log), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->group(kOut);
  tune->add_flag("--quiet", o->quiet, "Errors only on standard error")->group(kOut);
  tune->add_flag("--json-schema", o->json_schema, "Print the JSON Schema of this command's output")
      ->group(kOut);

  CLI::App* decide = AddAction(tune, "decide", "The decision alone: JSON Lines in and out",
                               "  xplane-time tune decide < requests.jsonl\n"
                               "  xplane-time tune decide --space space.json\n",
                               [o] { o->action = TuneAction::kDecide; });
  decide->add_option("--space", o->space_path, "The space, where `open` brings none")
      ->type_name("FILE");
  CLI::App* replay = AddAction(tune, "replay", "Decide a recorded session again, by another rule",
                               "  xplane-time tune replay --delta 1%\n"
                               "  xplane-time tune replay 3 --stop claim --budget-runs 200\n",
                               [o] { o->action = TuneAction::kReplay; });
  AddSession(replay, o);
  AddDecision(replay, o, t);
  AddFormatAndOutput(replay, {"table", "json"}, &o->format, &o->output_path);
  CLI::App* show = AddAction(tune, "show", "Sessions of a store, or one of them",
                             "  xplane-time tune show\n"
                             "  xplane-time tune show 3 --store other.db -o result.json\n",
                             [o] { o->action = TuneAction::kShow; });
  AddSession(show, o);
  AddFormatAndOutput(show, {"table", "json"}, &o->format, &o->output_path);
  CLI::App* exported = AddAction(tune, "export", "A session's samples, or the tuned table",
                                 "  xplane-time tune export 3 -o samples.csv\n"
                                 "  xplane-time tune export --format tuned -o tuned.json\n",
                                 [o] { o->action = TuneAction::kExport; });
  AddSession(exported, o);
  AddFormatAndOutput(exported, {"csv", "json", "t4", "tuned"}, &o->format, &o->output_path);
}

namespace {

// N of "name:N".
std::optional<uint64_t> CountAfter(const std::string& text, const std::string& name) {
  if (!text.starts_with(name + ":")) return std::nullopt;
  std::string count = text.substr(name.size() + 1);
  if (!CountValidator()(count).empty()) return std::nullopt;
  return std::stoull(count);
}

std::string ConvertStrategy(const std::string& text, TuneCommand* o) {
  o->strategy = text;
  if (text == "all") {
    o->choice.strategy = Strategy::kGrid;
  } else if (text == "list") {
    o->choice.strategy = Strategy::kList;
  } else if (const auto random = CountAfter(text, "random"); random.has_value()) {
    o->choice.strategy = Strategy::kRandom;
    o->choice.count = *random;
  } else if (const auto halving = CountAfter(text, "halving"); halving.value_or(0) > 0) {
    o->halve_to = *halving;
  } else if (const auto ask = CountAfter(text, "ask"); ask.value_or(0) > 0) {
    o->ask_for = *ask;
  } else {
    return absl::StrCat("--strategy: all, list, random:N, halving:N or ask:N, not '", text, "'");
  }
  if ((o->ask_for > 0) == o->proposer.empty()) {
    return "--strategy ask:N and --proposer COMMAND go together";
  }
  if ((o->halve_to > 0 || o->ask_for > 0) && o->decide.objective == Objective::kPareto) {
    return "--strategy: a search needs one objective, and pareto is several; take all or random:N";
  }
  return "";
}

// For what was given, by the names of the decider's config.
std::string ChangesJson(const TuneTexts& t, const TuneCommand& o) {
  const DecideConfig& decide = o.decide;
  std::vector<std::string> fields;
  const auto add = [&](bool given, const char* name, const std::string& value) {
    if (given) fields.push_back(absl::StrCat("\"", name, "\":", value));
  };
  add(!t.delta.empty(), "delta", absl::StrCat(decide.delta));
  add(!t.alpha.empty(), "alpha", absl::StrCat(decide.alpha));
  add(!t.tie_alpha.empty(), "tie_alpha", absl::StrCat(decide.tie_alpha));
  add(!t.stop.empty(), "stop", absl::StrCat("\"", t.stop, "\""));
  add(!t.objective.empty(), "objective", absl::StrCat("\"", t.objective, "\""));
  add(t.seed.has_value(), "seed", absl::StrCat(decide.seed));
  std::vector<std::string> budget;
  if (decide.budget_runs.has_value()) {
    budget.push_back(absl::StrCat("\"runs\":", *decide.budget_runs));
  }
  if (decide.budget_time_ps.has_value()) {
    budget.push_back(absl::StrCat("\"time_ps\":", *decide.budget_time_ps));
  }
  add(!budget.empty(), "budget", absl::StrCat("{", CLI::detail::join(budget, ","), "}"));
  add(!o.incumbent.empty(), "incumbent", absl::StrCat("\"", absl::CHexEscape(o.incumbent), "\""));
  return absl::StrCat("{", CLI::detail::join(fields, ","), "}");
}

std::string ConvertBudgetTime(const std::string& text, DecideConfig* decide) {
  if (text.empty()) return "";
  constexpr double kPsPerSecond = 1e12, kMostSeconds = 9e6;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0) ||
      seconds > kMostSeconds) {
    return absl::StrCat("--budget-time: '", text,
                        "' is not a number of seconds above 0, and at most 9000000");
  }
  decide->budget_time_ps = std::max<int64_t>(1, static_cast<int64_t>(seconds * kPsPerSecond));
  return "";
}

// --format, or what the suffix of -o says; other names give what is the default.
std::string ConvertTuneFormat(TuneCommand* o) {
  if (!o->format.empty()) return "";
  const bool exports = o->action == TuneAction::kExport;
  const std::string by_suffix = FormatOfSuffix(o->output_path);
  o->format = exports ? "csv" : "table";
  if (by_suffix.empty()) return "";
  if (by_suffix != "json" && !(exports && by_suffix == "csv")) {
    return absl::StrCat("-o ", o->output_path, ": here is no ", by_suffix, "; ",
                        exports ? "csv and json go by the suffix, others by --format"
                                : "json goes by the suffix, a table by --format table");
  }
  o->format = by_suffix;
  return "";
}

// A mistyped subcommand reads as SPACE, and a harness without -- before it, too.
std::string NoHarness(const TuneCommand& o) {
  std::error_code ignored;
  const bool is_word = o.space_path.find_first_of("./") == std::string::npos;
  if (is_word && !std::filesystem::exists(o.space_path, ignored)) {
    return absl::StrCat("tune ", o.space_path,
                        ": no such command (show, export, replay, decide), and no such SPACE");
  }
  return "no harness given: xplane-time tune SPACE -- HARNESS...";
}

}  // namespace

std::string ConvertTune(const TuneTexts& t, TuneCommand* o) {
  DecideConfig& decide = o->decide;
  const std::string error = ConvertShares({{"--delta", &t.delta, &decide.delta},
                                           {"--alpha", &t.alpha, &decide.alpha},
                                           {"--tie-alpha", &t.tie_alpha, &decide.tie_alpha}});
  if (!error.empty()) return error;
  decide.stop = t.stop == "claim" ? Stop::kClaim : Stop::kPick;
  for (const Objective each :
       {Objective::kEnergy, Objective::kEdp, Objective::kEd2p, Objective::kPareto}) {
    if (ObjectiveName(each) == t.objective) decide.objective = each;
  }
  if (std::string bad = ConvertBudgetTime(t.budget_time_s, &decide); !bad.empty()) return bad;
  if (std::string bad = ConvertTuneFormat(o); !bad.empty()) return bad;
  if (std::string bad = ConvertOrdinals(t.ordinals, &o->power); !bad.empty()) return bad;
  decide.seed = t.seed.value_or(decide.seed);
  o->choice.seed = decide.seed;
  o->changes_json = ChangesJson(t, *o);
  if (o->action != TuneAction::kRun || o->json_schema) return "";
  if (o->space_path.empty()) return "no SPACE given; see xplane-time tune --help";
  if (o->harness.empty() && !o->list) return NoHarness(*o);
  return ConvertStrategy(t.strategy, o);
}

}  // namespace xplane_time::tools
