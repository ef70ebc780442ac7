#include "xplane_time/tune.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stats/distributions.h"
#include "stats/location.h"
#include "status.h"
#include "tune/measuring.h"
#include "tune/outcome_json.h"
#include "tune/search_run.h"
#include "tune/session_variants.h"

namespace xplane_time {
namespace {

class Tuning {
 public:
  Tuning(const TuneOptions& options, Harness* harness, TuneStore* store, TuneWatcher* watcher)
      : options_(options), store_(store), watcher_(watcher), measuring_(options, harness, store) {}

  absl::StatusOr<TuneOutcome> Run(std::span<const Configuration> configurations) {
    for (const Configuration& each : configurations) {
      outcome_.variants.push_back({.configuration = each});
    }
    const absl::Status status = Race(configurations);
    outcome_.interrupted = absl::IsCancelled(status);
    if (!outcome_.interrupted) RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(Conclude());
    return std::move(outcome_);
  }

 private:
  absl::Status Race(std::span<const Configuration> configurations) {
    RETURN_IF_ERROR(Begin(configurations));
    RETURN_IF_ERROR(PrepareAll());
    RETURN_IF_ERROR(Search());
    RETURN_IF_ERROR(OpenDecider());
    RETURN_IF_ERROR(Decide());
    return Confirm();
  }

  absl::Status Begin(std::span<const Configuration> configurations) {
    RETURN_IF_ERROR(measuring_.Begin(&outcome_.harness));
    outcome_.session = measuring_.session().id;
    outcome_.resumed = measuring_.session().resumed;
    outcome_.objective = options_.decide.objective;
    outcome_.budget_runs = options_.decide.budget_runs;
    outcome_.budget_time_ps = options_.decide.budget_time_ps;
    watcher_->OnHello(outcome_.harness, measuring_.session());
    ASSIGN_OR_RETURN(const auto unfinished, measuring_.FindUnfinished());
    if (unfinished.has_value()) {
      watcher_->OnAnother(unfinished->session, unfinished->differs);
    }
    return measuring_.Register(configurations);
  }

  absl::Status PrepareAll() {
    if (const RoundRecord* known = measuring_.Stored(kOwnBatch, kPreparation)) {
      RETURN_IF_ERROR(TakeStates(known->notes_json, &outcome_.variants));
    } else {
      size_t done = 0;
      RETURN_IF_ERROR(measuring_.Prepare(outcome_.variants, [&](const TunedVariant& variant) {
        watcher_->OnPrepared(variant, ++done, outcome_.variants.size());
      }));
      RoundRecord record = {.batch = kOwnBatch, .round = kPreparation};
      record.notes_json = PreparationJson(outcome_.harness, outcome_.variants);
      RETURN_IF_ERROR(measuring_.Append(record));
    }
    prepared_ = true;
    AssignAliases(&outcome_.variants);
    return absl::OkStatus();
  }

  absl::Status Search() {
    if (options_.searcher != nullptr) {
      SearchRun search(options_, &measuring_, watcher_, &outcome_.variants,
                       &outcome_.search.emplace());
      RETURN_IF_ERROR(search.Run());
    }
    AssignPlaces(&outcome_.variants);
    return absl::OkStatus();
  }

  absl::Status OpenDecider() {
    Space space = SpaceOf(outcome_.variants);
    places_ = PlacesOf(outcome_.variants);
    for (const TunedVariant& variant : outcome_.variants) {
      if (variant.measured.has_value()) measured_.push_back(&variant.configuration);
    }
    if (outcome_.search.has_value()) outcome_.search->raced = measured_.size();
    if (space.variants.empty()) return absl::OkStatus();
    DecideConfig config = options_.decide;
    config.incumbent = PlaceOf(outcome_.variants, options_.incumbent);
    ASSIGN_OR_RETURN(auto decider, Decider::Open(std::move(space), config));
    decider_.emplace(std::move(decider));
    for (const auto& [number, record] : measuring_.stored()) {
      if (IsRaceBatch(record.batch)) results_.push_back(ResultOf(places_, record));
    }
    outcome_.rounds_before = results_.size();
    if (const char* spent = SpentBudget(); spent != nullptr) {
      return ResumeSpent(std::move(config), spent);
    }
    const absl::Status resumed = decider_->Resume(results_);
    // A budget that is smaller than the one before may have ended the race earlier.
    if (!absl::IsInvalidArgument(resumed)) return resumed;
    if (config.budget_runs.has_value()) return ResumeSpent(std::move(config), "budget_runs");
    if (config.budget_time_ps.has_value()) return ResumeSpent(std::move(config), "budget_time");
    return resumed;
  }

  // The budget that what is stored has taken: of this size, or of a smaller one.
  const char* SpentBudget() const {
    int64_t runs = 0;
    double time_ps = 0;
    for (const RoundResult& round : results_) {
      runs += static_cast<int64_t>(round.samples.size());
      for (const Sample& sample : round.samples) time_ps += static_cast<double>(sample.t_ps);
    }
    const DecideConfig& of = options_.decide;
    if (runs > 0 && of.budget_runs.has_value() && runs >= *of.budget_runs) {
      return "budget_runs";
    }
    const bool is_late =
        of.budget_time_ps.has_value() && time_ps >= static_cast<double>(*of.budget_time_ps);
    return is_late ? "budget_time" : nullptr;
  }

  // What is stored was asked for with other budgets, and is judged as it is.
  absl::Status ResumeSpent(DecideConfig config, const char* spent) {
    spent_ = spent;
    config.budget_runs = std::nullopt;
    config.budget_time_ps = std::nullopt;
    ASSIGN_OR_RETURN(auto decider, Decider::Open(SpaceOf(outcome_.variants), config));
    decider_.emplace(std::move(decider));
    return decider_->Resume(results_);
  }

  absl::Status Decide() {
    if (!decider_.has_value()) return absl::OkStatus();
    if (spent_ != nullptr && decider_->Next() != nullptr) {
      outcome_.verdict = decider_->Judge(spent_);
      return absl::OkStatus();
    }
    while (const Batch* next = decider_->Next()) {
      const Batch batch = *next;
      for (size_t i = 0; i < batch.rounds.size(); ++i) {
        const auto number = static_cast<int64_t>(batch.batch);
        const auto round = static_cast<int64_t>(i);
        if (measuring_.Stored(number, round) != nullptr) continue;
        ASSIGN_OR_RETURN(auto record, Measure(number, round, batch.rounds[i]));
        results_.push_back(ResultOf(places_, record));
        RETURN_IF_ERROR(decider_->Fold(results_.back()).status());
        watcher_->OnRound(*decider_, outcome_.variants);
      }
    }
    outcome_.verdict = decider_->verdict();
    return absl::OkStatus();
  }

  absl::StatusOr<RoundRecord> Measure(int64_t batch, int64_t round,
                                      std::span<const uint32_t> variants) {
    std::vector<const Configuration*> order;
    for (const uint32_t variant : variants) order.push_back(measured_[variant]);
    return measuring_.Round(batch, round, order);
  }

  std::optional<size_t> Baseline() const {
    const std::string& id = options_.baseline.empty() ? options_.incumbent : options_.baseline;
    const auto measured = PlaceOf(outcome_.variants, id);
    return measured.has_value() ? outcome_.VariantOf(measured) : std::nullopt;
  }

  // Pick and baseline take turns at being first.
  absl::Status Confirm() {
    if (!decider_.has_value()) return absl::OkStatus();
    const auto baseline = Baseline();
    const auto pick = outcome_.verdict.pick;
    if (!baseline.has_value() || !pick.has_value()) return absl::OkStatus();
    const uint32_t other = *outcome_.variants[*baseline].measured;
    if (other == *pick) return absl::OkStatus();
    std::vector<double> log_ratios;
    for (uint64_t i = 0; i < options_.confirmation_rounds; ++i) {
      const int64_t round = kFirstConfirmation + static_cast<int64_t>(i);
      const std::vector<uint32_t> order =
          i % 2 == 0 ? std::vector{*pick, other} : std::vector{other, *pick};
      ASSIGN_OR_RETURN(const auto record, Measure(kOwnBatch, round, order));
      if (const auto ratio = LogSpeedup(record, *measured_[*pick]); ratio.has_value()) {
        log_ratios.push_back(*ratio);
      }
      watcher_->OnConfirming(i + 1, options_.confirmation_rounds);
    }
    outcome_.confirmation = ConfirmationOf(*baseline, log_ratios);
    if (outcome_.confirmation.has_value()) {
      outcome_.confirmation->metric = ObjectiveName(ConfirmedMetric());
    }
    return absl::OkStatus();
  }

  // Of a front, the time is what is easiest to check.
  Objective ConfirmedMetric() const {
    const Objective objective = options_.decide.objective;
    return objective == Objective::kPareto ? Objective::kTime : objective;
  }

  std::optional<double> LogSpeedup(const RoundRecord& record, const Configuration& pick) const {
    std::optional<double> of_pick, of_other;
    for (const SampleRecord& sample : record.samples) {
      const auto value = ObjectiveValue(ConfirmedMetric(), sample);
      if (record.discarded || !value.has_value() || *value <= 0) continue;
      (sample.variant == pick.id ? of_pick : of_other) = std::log(*value);
    }
    if (!of_pick.has_value() || !of_other.has_value()) return std::nullopt;
    return *of_other - *of_pick;
  }

  static std::optional<Confirmation> ConfirmationOf(size_t baseline,
                                                    const std::vector<double>& log_ratios) {
    if (log_ratios.empty()) return std::nullopt;
    const stats::Centre centre = stats::HuberCentre(log_ratios);
    Confirmation confirmation = {
        .baseline = baseline, .rounds = log_ratios.size(), .speedup = std::exp(centre.value)};
    if (centre.df > 0) {
      constexpr double kTail = 0.025;
      const double half = stats::StudentQuantile(kTail, centre.df) * std::sqrt(centre.variance);
      confirmation.lo = std::exp(centre.value - half);
      confirmation.hi = std::exp(centre.value + half);
    }
    return confirmation;
  }

  absl::Status Conclude() {
    for (TunedVariant& each : outcome_.variants) {
      const auto failed = measuring_.failures().find(each.configuration.id);
      if (failed != measuring_.failures().end()) each.state.message = failed->second;
    }
    if (!decider_.has_value()) {
      outcome_.verdict = {};
      outcome_.verdict.claim = outcome_.interrupted ? Claim::kUndecided : Claim::kAllFailed;
      outcome_.verdict.stop_reason = outcome_.interrupted ? "interrupted" : "all_failed";
    } else if (outcome_.interrupted) {
      outcome_.verdict = decider_->Judge("interrupted");
    }
    const auto baseline = Baseline();
    AddTails(results_, baseline.has_value() ? outcome_.variants[*baseline].measured : std::nullopt,
             &outcome_);
    if (outcome_.interrupted && !prepared_) {
      return absl::OkStatus();  // nothing was measured: there is no verdict to keep
    }
    return store_->RecordVerdict(measuring_.session(), OutcomeJson(outcome_), options_.now_unix_s);
  }

  const TuneOptions& options_;
  TuneStore* store_;
  TuneWatcher* watcher_;
  Measuring measuring_;
  TuneOutcome outcome_;
  bool prepared_ = false;                       // the states of the variants are stored
  const char* spent_ = nullptr;                 // the budget that nothing is left of
  std::optional<Decider> decider_;              // none: no variant can be measured
  std::vector<RoundResult> results_;            // of the race
  Places places_;                               // in the decider's space, by id
  std::vector<const Configuration*> measured_;  // by place in the decider's space
};

}  // namespace

std::optional<size_t> TuneOutcome::VariantOf(std::optional<uint32_t> measured) const {
  for (size_t i = 0; measured.has_value() && i < variants.size(); ++i) {
    if (variants[i].measured == measured) return i;
  }
  return std::nullopt;
}

absl::Status CheckTuneOptions(std::span<const Configuration> configurations,
                              const TuneOptions& options) {
  if (configurations.empty() && options.searcher == nullptr) {
    return absl::InvalidArgumentError("the space has no configuration: nothing to choose from");
  }
  for (const auto& [what, id] :
       {std::pair("incumbent", options.incumbent), std::pair("baseline", options.baseline)}) {
    const bool is_there =
        std::any_of(configurations.begin(), configurations.end(),
                    [&id = id](const Configuration& each) { return each.id == id; });
    if (id.empty() || is_there) continue;
    return InvalidArgument("the ", what, " \"", id,
                           "\" is none of the configurations; ids are what "
                           "the space lists");
  }
  return Decider::Open({.variants = {{.id = "any"}}}, options.decide).status();
}

absl::StatusOr<TuneOutcome> Tune(std::span<const Configuration> configurations,
                                 const TuneOptions& options, Harness* harness, TuneStore* store,
                                 TuneWatcher* watcher) {
  RETURN_IF_ERROR(CheckTuneOptions(configurations, options));
  return Tuning(options, harness, store, watcher).Run(configurations);
}

}  // namespace xplane_time
