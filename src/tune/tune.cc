#include "xplane_time/tune.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compare/intervals.h"
#include "tune/outcome_json.h"
#include "tune/session_variants.h"

namespace xplane_time {
namespace {

class Tuning {
 public:
  Tuning(const TuneOptions& options, Harness* harness, TuneStore* store, TuneWatcher* watcher)
      : options_(options), harness_(harness), store_(store), watcher_(watcher) {}

  absl::StatusOr<TuneOutcome> Run(std::span<const Configuration> configurations) {
    for (const Configuration& each : configurations) {
      outcome_.variants.push_back({.configuration = each});
    }
    absl::Status status = CheckNames();
    if (status.ok()) status = Begin(configurations);
    if (status.ok()) status = PrepareAll(configurations);
    if (status.ok()) status = OpenDecider();
    if (status.ok()) status = Decide();
    if (status.ok()) status = Confirm();
    if (absl::IsCancelled(status)) {
      outcome_.interrupted = true;
      status = absl::OkStatus();
    }
    if (status.ok()) status = Conclude();
    if (!status.ok()) return status;
    return std::move(outcome_);
  }

 private:
  absl::Status CheckNames() const {
    for (const auto& [what, id] :
         {std::pair("incumbent", options_.incumbent), std::pair("baseline", options_.baseline)}) {
      if (!id.empty() && !FindVariant(outcome_.variants, id).has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the ", what, " \"", id,
                         "\" is none of the configurations; ids are what "
                         "the space lists"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Begin(std::span<const Configuration> configurations) {
    auto info = harness_->Hello();
    if (!info.ok()) return info.status();
    outcome_.harness = *std::move(info);
    const HarnessInfo& of = outcome_.harness;
    SessionSpec spec = {.key = {options_.workload, of.device_class, of.driver, of.framework,
                                of.flags, of.code_hash, options_.protocol},
                        .space_hash = options_.space_hash,
                        .config_json = DecideConfigJson(options_.decide, options_.incumbent),
                        .seed = options_.decide.seed,
                        .device = of.device,
                        .now_unix_s = options_.now_unix_s,
                        .resume = options_.resume};
    if (!options_.device_locks.empty()) {
      auto lock = FileLock::Acquire(options_.device_locks, of.device);
      if (absl::IsFailedPrecondition(lock.status())) {
        return absl::FailedPreconditionError(
            absl::StrCat("the device ", of.device, " is in use by another tuning of this machine (",
                         options_.device_locks, "); one at a time"));
      }
      if (!lock.ok()) return lock.status();
      device_lock_ = *std::move(lock);
    }
    auto session = store_->Begin(spec);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    outcome_.session = session_.id;
    outcome_.resumed = session_.resumed;
    watcher_->OnHello(of, session_);
    auto rounds = store_->ReadRounds(session_.id);
    if (!rounds.ok()) return rounds.status();
    for (RoundRecord& each : *rounds) stored_[{each.batch, each.round}] = std::move(each);
    return store_->RegisterVariants(session_, configurations);
  }

  const RoundRecord* Stored(int64_t batch, int64_t round) const {
    const auto found = stored_.find({batch, round});
    return found == stored_.end() ? nullptr : &found->second;
  }

  // Once a session: what was found is its first round.
  absl::Status PrepareAll(std::span<const Configuration> configurations) {
    if (const RoundRecord* known = Stored(kOwnBatch, kPreparation)) {
      absl::Status status = TakeStates(known->notes_json, &outcome_.variants);
      if (!status.ok()) return status;
    } else {
      if (absl::Status status = Prepare(configurations); !status.ok()) return status;
      RoundRecord record = {.batch = kOwnBatch, .round = kPreparation};
      record.notes_json = PreparationJson(outcome_.harness, outcome_.variants);
      auto appended = store_->Append(session_, record);
      if (!appended.ok()) return appended.status();
    }
    AssignPlaces(&outcome_.variants);
    return absl::OkStatus();
  }

  absl::Status Prepare(std::span<const Configuration> configurations) {
    size_t done = 0;
    const bool verifies = outcome_.harness.verifies;
    absl::Status status =
        harness_->Prepare(configurations, [&](size_t place, const VariantState& state) {
          outcome_.variants[place].state = state;
          if (!verifies || state.status != "ok") {
            watcher_->OnPrepared(outcome_.variants[place], ++done, configurations.size());
          }
        });
    if (!status.ok() || !verifies) return status;
    for (TunedVariant& variant : outcome_.variants) {
      if (variant.state.status != "ok") continue;
      if (options_.stopped()) return absl::CancelledError("stopped");
      auto verified = harness_->Verify(variant.configuration);
      if (!verified.ok()) return verified.status();
      variant.state.status = verified->status;
      if (verified->status != "ok") variant.state.message = verified->message;
      watcher_->OnPrepared(variant, ++done, configurations.size());
    }
    return absl::OkStatus();
  }

  absl::Status OpenDecider() {
    Space space = SpaceOf(outcome_.variants);
    places_ = PlacesOf(outcome_.variants);
    for (const TunedVariant& variant : outcome_.variants) {
      if (variant.measured.has_value()) measured_.push_back(&variant.configuration);
    }
    if (space.variants.empty()) return absl::OkStatus();
    DecideConfig config = options_.decide;
    config.incumbent = PlaceOf(outcome_.variants, options_.incumbent);
    auto decider = Decider::Open(std::move(space), config);
    if (!decider.ok()) return decider.status();
    decider_.emplace(*std::move(decider));
    std::vector<RoundResult> history;
    for (const auto& [number, record] : stored_) {
      if (record.batch != kOwnBatch) history.push_back(ResultOf(places_, record));
    }
    outcome_.rounds_before = history.size();
    return decider_->Resume(history);
  }

  absl::Status Decide() {
    if (!decider_.has_value()) return absl::OkStatus();
    while (const Batch* next = decider_->Next()) {
      const Batch batch = *next;
      for (size_t i = 0; i < batch.rounds.size(); ++i) {
        const auto number = static_cast<int64_t>(batch.batch);
        const auto round = static_cast<int64_t>(i);
        if (Stored(number, round) != nullptr) continue;
        auto record = Measure(number, round, batch.rounds[i]);
        if (!record.ok()) return record.status();
        auto folded = decider_->Fold(ResultOf(places_, *record));
        if (!folded.ok()) return folded.status();
        watcher_->OnRound(*decider_, outcome_.variants);
      }
    }
    return absl::OkStatus();
  }

  // A round is stored before it counts.
  absl::StatusOr<RoundRecord> Measure(int64_t batch, int64_t round,
                                      std::span<const uint32_t> variants) {
    if (options_.stopped()) return absl::CancelledError("stopped");
    std::vector<const Configuration*> order;
    for (const uint32_t variant : variants) order.push_back(measured_[variant]);
    auto times = RunWorkloads(batch, round, order);
    if (!times.ok()) return times.status();
    RoundRecord record = {.batch = batch,
                          .round = round,
                          .discarded = times->throttled,
                          .notes_json = times->notes_json};
    for (size_t slot = 0; slot < order.size(); ++slot) {
      const SlotTime& at = times->slots[slot];
      record.samples.push_back({.variant = order[slot]->id,
                                .slot = static_cast<int32_t>(slot),
                                .status = at.status,
                                .t_ps = at.status == "ok" ? at.t_ps : std::nullopt,
                                .energy_uj = at.energy_uj});
    }
    auto appended = store_->Append(session_, record);
    if (!appended.ok()) return appended.status();
    return record;
  }

  // The same order on every workload; times are weighted sums.
  absl::StatusOr<RoundTimes> RunWorkloads(int64_t batch, int64_t round,
                                          std::span<const Configuration* const> order) {
    if (options_.workloads.empty()) return harness_->RunRound(batch, round, "", order);
    RoundTimes sum;
    std::vector<double> time_ps(order.size()), energy_uj(order.size());
    sum.slots.resize(order.size());
    for (const Workload& workload : options_.workloads) {
      auto times = harness_->RunRound(batch, round, workload.id, order);
      if (!times.ok()) return times.status();
      sum.throttled |= times->throttled;
      sum.notes_json = times->notes_json;
      for (size_t slot = 0; slot < order.size(); ++slot) {
        const SlotTime& own = times->slots[slot];
        SlotTime& all = sum.slots[slot];
        if (all.status == "ok") all.status = own.status;
        time_ps[slot] += workload.weight * static_cast<double>(own.t_ps.value_or(0));
        energy_uj[slot] += workload.weight * static_cast<double>(own.energy_uj.value_or(0));
        all.t_ps = std::max<int64_t>(1, std::llround(time_ps[slot]));
        const bool first = &workload == options_.workloads.data();
        const bool known = own.energy_uj.has_value() && (first || all.energy_uj.has_value());
        all.energy_uj = known ? std::optional(std::llround(energy_uj[slot])) : std::nullopt;
      }
    }
    return sum;
  }

  std::optional<size_t> Baseline() const {
    const std::string& id = options_.baseline.empty() ? options_.incumbent : options_.baseline;
    const auto measured = PlaceOf(outcome_.variants, id);
    return measured.has_value() ? outcome_.VariantOf(measured) : std::nullopt;
  }

  // Pick and baseline take turns at being first.
  absl::Status Confirm() {
    if (!decider_.has_value()) return absl::OkStatus();
    outcome_.verdict = decider_->verdict();
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
      const RoundRecord* known = Stored(kOwnBatch, round);
      absl::StatusOr<RoundRecord> record =
          known != nullptr ? *known : Measure(kOwnBatch, round, order);
      if (!record.ok()) return record.status();
      if (const auto ratio = LogSpeedup(*record, *measured_[*pick]); ratio.has_value()) {
        log_ratios.push_back(*ratio);
      }
      watcher_->OnConfirming(i + 1, options_.confirmation_rounds);
    }
    outcome_.confirmation = ConfirmationOf(*baseline, log_ratios);
    return absl::OkStatus();
  }

  static std::optional<double> LogSpeedup(const RoundRecord& record, const Configuration& pick) {
    std::optional<double> of_pick, of_other;
    for (const SampleRecord& sample : record.samples) {
      if (record.discarded || sample.status != "ok" || !sample.t_ps.has_value()) continue;
      (sample.variant == pick.id ? of_pick : of_other) =
          std::log(static_cast<double>(*sample.t_ps));
    }
    if (!of_pick.has_value() || !of_other.has_value()) return std::nullopt;
    return *of_other - *of_pick;
  }

  static std::optional<Confirmation> ConfirmationOf(size_t baseline,
                                                    const std::vector<double>& log_ratios) {
    if (log_ratios.empty()) return std::nullopt;
    const compare::Centre centre = compare::HuberCentre(log_ratios);
    Confirmation confirmation = {
        .baseline = baseline, .rounds = log_ratios.size(), .speedup = std::exp(centre.value)};
    if (centre.df > 0) {
      constexpr double kTail = 0.025;
      const double half = compare::StudentQuantile(kTail, centre.df) * std::sqrt(centre.variance);
      confirmation.lo = std::exp(centre.value - half);
      confirmation.hi = std::exp(centre.value + half);
    }
    return confirmation;
  }

  absl::Status Conclude() {
    if (!decider_.has_value()) {
      outcome_.verdict = {};
      outcome_.verdict.claim = outcome_.interrupted ? Claim::kUndecided : Claim::kAllFailed;
      outcome_.verdict.stop_reason = outcome_.interrupted ? "interrupted" : "all_failed";
    } else if (outcome_.interrupted) {
      outcome_.verdict = decider_->Judge("interrupted");
    }
    if (outcome_.interrupted && Stored(kOwnBatch, kPreparation) == nullptr &&
        !decider_.has_value()) {
      return absl::OkStatus();  // nothing was measured: there is no verdict to keep
    }
    return store_->RecordVerdict(session_, OutcomeJson(outcome_), options_.now_unix_s);
  }

  const TuneOptions& options_;
  Harness* harness_;
  TuneStore* store_;
  TuneWatcher* watcher_;
  FileLock device_lock_;
  TuneSession session_;
  TuneOutcome outcome_;
  std::map<std::pair<int64_t, int64_t>, RoundRecord> stored_;  // by batch and round, before
  std::optional<Decider> decider_;                             // none: no variant can be measured
  Places places_;                                              // in the decider's space, by id
  std::vector<const Configuration*> measured_;                 // by place in the decider's space
};

}  // namespace

std::optional<size_t> TuneOutcome::VariantOf(std::optional<uint32_t> measured) const {
  for (size_t i = 0; measured.has_value() && i < variants.size(); ++i) {
    if (variants[i].measured == measured) return i;
  }
  return std::nullopt;
}

absl::StatusOr<TuneOutcome> Tune(std::span<const Configuration> configurations,
                                 const TuneOptions& options, Harness* harness, TuneStore* store,
                                 TuneWatcher* watcher) {
  if (configurations.empty()) {
    return absl::InvalidArgumentError("the space has no configuration: nothing to choose from");
  }
  return Tuning(options, harness, store, watcher).Run(configurations);
}

}  // namespace xplane_time
