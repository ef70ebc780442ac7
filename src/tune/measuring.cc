#include "tune/measuring.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/outcome_json.h"
#include "tune/session_variants.h"

namespace xplane_time {
namespace {

absl::Status NoEnergy(Objective objective, const HarnessInfo& harness) {
  const std::string_view name = ObjectiveName(objective);
  return Unavailable(
      "the harness \"", harness.name, "\" gives no energy, and --objective ",
      absl::string_view(name.data(), name.size()),
      " needs it: each sample of run_round must have energy_uj (docs/harness.md), and 0 is "
      "unknown: longer runs (--calls), measure power, or take --objective time; the round is not "
      "stored, --resume goes on");
}

// What failed, with why, beside what the harness noted.
std::string NotesWith(const RoundTimes& times, std::span<const Configuration* const> order) {
  std::map<std::string, std::string> messages;
  for (size_t slot = 0; slot < order.size(); ++slot) {
    if (!times.slots[slot].message.empty()) messages[order[slot]->id] = times.slots[slot].message;
  }
  return messages.empty() ? times.notes_json : NotesJson(times.notes_json, messages);
}

// Of one value a workload, in their order. Weights are relative: the mean is a typical value,
// whatever their size. Exact where all weigh the same.
class WeightedMean {
 public:
  explicit WeightedMean(std::span<const double> weights)
      : weights_(weights), heaviest_(*std::max_element(weights.begin(), weights.end())) {}

  // A value that is unknown, or 0, makes the mean unknown.
  void Add(const std::optional<int64_t>& value) {
    const double weight = weights_[at_++] / heaviest_;
    known_ &= value.value_or(0) > 0;
    sum_ += weight * static_cast<double>(value.value_or(0));
    total_ += weight;
  }

  std::optional<int64_t> Get() const {
    // Doubles have no int64_t's largest value; the one below is.
    constexpr double kLargest = 9223372036854774784.0;
    if (!known_) return std::nullopt;
    return std::max<int64_t>(1, std::llround(std::min(sum_ / total_, kLargest)));
  }

 private:
  std::span<const double> weights_;
  double heaviest_;
  size_t at_ = 0;
  double sum_ = 0, total_ = 0;
  bool known_ = true;
};

}  // namespace

std::optional<double> ObjectiveValue(Objective objective, const SampleRecord& sample) {
  if (sample.status != "ok" || !sample.t_ps.has_value()) return std::nullopt;
  const auto time = static_cast<double>(*sample.t_ps);
  if (objective == Objective::kTime) return time;
  if (sample.energy_uj.value_or(0) <= 0) return std::nullopt;  // 0: less than the meter can tell
  const auto energy = static_cast<double>(*sample.energy_uj);
  if (objective == Objective::kEdp) return energy * time;
  return objective == Objective::kEd2p ? energy * time * time : energy;
}

absl::Status Measuring::LockDevice(const std::string& device) {
  if (options_.device_locks.empty()) return absl::OkStatus();
  auto lock = FileLock::Acquire(options_.device_locks, device);
  if (absl::IsFailedPrecondition(lock.status())) {
    return FailedPrecondition("the device ", device, " is in use by another tuning, of ",
                              FileLock::HolderOf(options_.device_locks, device), " (",
                              options_.device_locks, "); one at a time: wait for it, or stop it");
  }
  if (!lock.ok()) return lock.status();
  device_lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status Measuring::Begin(HarnessInfo* harness) {
  ASSIGN_OR_RETURN(auto info, harness_->Hello());
  *harness = std::move(info);
  const HarnessInfo& of = *harness;
  const std::string search = options_.searcher == nullptr ? "" : options_.searcher->Name();
  spec_ = {
      .key = {options_.workload, of.device_class, of.driver, of.framework, of.flags, of.code_hash,
              options_.protocol, std::string(ObjectiveName(options_.decide.objective))},
      .space_hash = options_.space_hash,
      .config_json = DecideConfigJson(options_.decide, options_.incumbent, search),
      .seed = options_.decide.seed,
      .device = of.device,
      .now_unix_s = options_.now_unix_s,
      .resume = options_.resume};
  RETURN_IF_ERROR(LockDevice(of.device));
  ASSIGN_OR_RETURN(auto session, store_->Begin(spec_));
  session_ = std::move(session);
  if (session_.resumed) {  // damage shows before anything is measured
    RETURN_IF_ERROR(store_->CheckFile());
    RETURN_IF_ERROR(store_->ReadVariants(session_.id).status());
  }
  ASSIGN_OR_RETURN(auto rounds, store_->ReadRounds(session_.id));
  for (RoundRecord& each : rounds) {
    failures_.merge(FailuresOf(each.notes_json));
    stored_[{each.batch, each.round}] = std::move(each);
  }
  harness_info_ = of;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Measuring::Unfinished>> Measuring::FindUnfinished() const {
  if (session_.resumed || options_.resume == Resume::kNever) return std::nullopt;
  ASSIGN_OR_RETURN(const auto sessions, store_->Sessions());
  std::optional<Unfinished> found;
  for (const SessionInfo& each : sessions) {
    if (each.id == session_.id || each.space_hash != spec_.space_hash) continue;
    if (HasDecided(each)) continue;
    found = {each.id, Differences(each, spec_)};
  }
  return found;
}

const RoundRecord* Measuring::Stored(int64_t batch, int64_t round) const {
  const auto found = stored_.find({batch, round});
  return found == stored_.end() ? nullptr : &found->second;
}

absl::Status Measuring::Register(std::span<const Configuration> configurations) {
  return store_->RegisterVariants(session_, configurations);
}

absl::StatusOr<std::map<std::string, Configuration>> Measuring::Registered() const {
  ASSIGN_OR_RETURN(auto known, store_->ReadVariants(session_.id));
  std::map<std::string, Configuration> by_id;
  for (Configuration& each : known) by_id[each.id] = std::move(each);
  return by_id;
}

absl::Status Measuring::Prepare(std::span<TunedVariant> variants,
                                absl::FunctionRef<void(const TunedVariant&)> done) {
  std::vector<Configuration> configurations;
  for (const TunedVariant& each : variants) configurations.push_back(each.configuration);
  const bool verifies = harness_info_.verifies;
  absl::Status status =
      harness_->Prepare(configurations, [&](size_t place, const VariantState& state) {
        variants[place].state = state;
        if (!verifies || state.status != "ok") done(variants[place]);
      });
  if (!status.ok() || !verifies) return status;
  for (TunedVariant& variant : variants) {
    if (variant.state.status != "ok") continue;
    if (options_.stopped()) return absl::CancelledError("stopped");
    ASSIGN_OR_RETURN(auto verified, harness_->Verify(variant.configuration));
    variant.state.status = verified.status;
    if (verified.status != "ok") variant.state.message = verified.message;
    done(variant);
  }
  return absl::OkStatus();
}

absl::Status Measuring::Append(const RoundRecord& record) {
  return store_->Append(session_, record).status();
}

absl::StatusOr<RoundRecord> Measuring::Round(int64_t batch, int64_t round,
                                             std::span<const Configuration* const> order) {
  if (const RoundRecord* known = Stored(batch, round)) return *known;
  if (options_.stopped()) return absl::CancelledError("stopped");
  ASSIGN_OR_RETURN(auto times, RunWorkloads(batch, round, order));
  RoundRecord record = {.batch = batch,
                        .round = round,
                        .discarded = times.throttled,
                        .notes_json = NotesWith(times, order)};
  for (size_t slot = 0; slot < order.size(); ++slot) {
    const SlotTime& at = times.slots[slot];
    record.samples.push_back({.variant = order[slot]->id,
                              .slot = static_cast<int32_t>(slot),
                              .status = at.status,
                              .t_ps = at.status == "ok" ? at.t_ps : std::nullopt,
                              .energy_uj = at.energy_uj,
                              .workloads = at.workloads});
    const SampleRecord& sample = record.samples.back();
    const Objective objective = options_.decide.objective;
    if (at.status != "ok") continue;
    // What is stored can always be decided on again.
    if (sample.t_ps.value_or(0) <= 0) {
      return Unavailable("the harness \"", harness_info_.name, "\" gives no time for a run of ",
                         sample.variant, "; t_ps must be at least 1");
    }
    if (!ObjectiveValue(objective, sample).has_value()) return NoEnergy(objective, harness_info_);
  }
  RETURN_IF_ERROR(Append(record));
  failures_.merge(FailuresOf(record.notes_json));
  return record;
}

// The same order on every workload; times are weighted means.
absl::StatusOr<RoundTimes> Measuring::RunWorkloads(int64_t batch, int64_t round,
                                                   std::span<const Configuration* const> order) {
  if (options_.workloads.empty()) return harness_->RunRound(batch, round, "", order);
  std::vector<double> weights;
  for (const Workload& workload : options_.workloads) weights.push_back(workload.weight);
  RoundTimes all;
  all.slots.resize(order.size());
  std::vector<WeightedMean> time_ps(order.size(), WeightedMean(weights)), energy_uj = time_ps;
  for (const Workload& workload : options_.workloads) {
    ASSIGN_OR_RETURN(auto times, harness_->RunRound(batch, round, workload.id, order));
    all.throttled |= times.throttled;
    all.notes_json = times.notes_json;
    for (size_t slot = 0; slot < order.size(); ++slot) {
      const SlotTime& own = times.slots[slot];
      SlotTime& at = all.slots[slot];
      at.workloads.push_back(
          {workload.id, own.status, own.status == "ok" ? own.t_ps : std::nullopt, own.energy_uj});
      if (at.status == "ok") {
        at.status = own.status;
        at.message = own.message;
      }
      time_ps[slot].Add(own.t_ps);
      energy_uj[slot].Add(own.energy_uj);
    }
  }
  for (size_t slot = 0; slot < order.size(); ++slot) {
    all.slots[slot].t_ps = time_ps[slot].Get();
    all.slots[slot].energy_uj = energy_uj[slot].Get();
  }
  return all;
}

namespace {

constexpr size_t kKept = 9;  // of a variant: enough for a median

// At most `most`.
RunLimit::Duration Times(double times, RunLimit::Duration duration, RunLimit::Duration most) {
  const double product = times * static_cast<double>(duration.count());
  if (product >= static_cast<double>(most.count())) return most;
  return RunLimit::Duration(static_cast<int64_t>(product));
}

}  // namespace

void RunLimit::Took(const std::string& workload, const std::string& variant, Duration duration) {
  std::vector<Duration>& slots = workloads_[workload].slots[variant];
  if (slots.size() == kKept) return;
  slots.insert(std::upper_bound(slots.begin(), slots.end(), duration), duration);
}

void RunLimit::Ended(const std::string& workload, Duration duration) {
  std::optional<Duration>& shortest = workloads_[workload].shortest_end;
  shortest = std::min(shortest.value_or(duration), duration);
}

void RunLimit::EndRound() {
  for (auto& [name, workload] : workloads_) {
    workload.fastest.reset();
    for (const auto& [variant, slots] : workload.slots) {
      const Duration typical = slots[slots.size() / 2];
      workload.fastest = std::min(workload.fastest.value_or(typical), typical);
    }
  }
}

RunLimit::Duration RunLimit::EndOf(const OfWorkload& workload) const {
  const Duration shortest = workload.shortest_end.value_or(Duration(0));
  return Times(times_, shortest, timeout_);
}

std::optional<RunLimit::Duration> RunLimit::Of(const std::string& workload,
                                               const std::string& variant, Place place) const {
  const auto known = workloads_.find(workload);
  if (times_ == 0 || known == workloads_.end() || !known->second.fastest.has_value()) {
    return std::nullopt;
  }
  if (exempt_.contains(variant)) return std::nullopt;
  Duration limit = std::max(kFloor, Times(times_, *known->second.fastest, timeout_));
  if (place == Place::kFirst) limit *= 2;
  if (place == Place::kLast) limit += EndOf(known->second);
  return limit < timeout_ ? std::optional(limit) : std::nullopt;
}

RunLimit::Duration RunLimit::Alone(const std::string& workload, const std::string& variant) const {
  const auto limit = Of(workload, variant, Place::kFirst);
  if (!limit.has_value()) return timeout_;
  return std::min(timeout_, 2 * *limit + EndOf(workloads_.at(workload)));
}

RunLimit::Duration RunLimit::Fastest(const std::string& workload) const {
  const auto known = workloads_.find(workload);
  return known == workloads_.end() ? Duration(0) : known->second.fastest.value_or(Duration(0));
}

}  // namespace xplane_time
