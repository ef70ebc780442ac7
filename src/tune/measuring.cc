// Measures rounds and keeps them in the store, and derives run limits (RunLimit).
//
// Begin says hello and looks for a session with the same identity. Its rounds become `stored`.
// Rounds then yields stored rounds at once and measures the missing ones: one after the other, or
// on a fleet as concurrent jobs. Keep writes a round to the store before it is used. So a killed
// tuning repeats the same requests after a restart and continues without measuring anything twice.
//
// A round with several workloads runs the same order on each workload. The time of a slot is the
// weighted mean.
#include "tune/measuring.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"
#include "json/json.h"
#include "power/machine.h"
#include "status.h"
#include "tune/harness_fleet.h"
#include "tune/outcome_json.h"

namespace xplane_time {
namespace {

using json::Json;

absl::Status NoReportedEnergy(Objective objective, const HarnessInfo& harness) {
  return Unavailable("the harness \"", harness.name, "\" reports no energy, but --objective ",
                     ObjectiveName(objective),
                     " requires it: each sample of run_round must have energy_uj above 0 "
                     "(docs/harness.md); use longer runs (--calls), measure power, or use "
                     "--objective time; the round is not stored, continue with --resume");
}

// Whole numbers are written as integers, for example bytes.
Json NumberOf(double value) {
  constexpr double kMostExact = 0x1p53;
  const bool is_whole = std::trunc(value) == value && std::abs(value) <= kMostExact;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

// The notes of a round: those of the harness, the reasons of failures, and metrics. Only the last
// workload's metrics are known here, so with workloads none are kept. `device` is only set if there
// are several.
std::string NotesWith(const RoundTimes& times, std::span<const Configuration* const> order,
                      const std::string& device) {
  std::map<std::string, std::string> failures;
  Json metrics = Json::array();
  bool any = false;
  for (size_t slot = 0; slot < order.size(); ++slot) {
    const SlotTime& at = times.slots[slot];
    if (!at.message.empty()) {
      failures[order[slot]->id] = device.empty() ? at.message : device + ": " + at.message;
    }
    Json& own = metrics.emplace_back(Json::object());
    for (const auto& [name, value] : at.metrics) own[name] = NumberOf(value);
    any |= !at.metrics.empty();
  }
  std::string notes = times.notes_json;
  if (!device.empty()) notes = WithNote(notes, "device", device);
  if (!failures.empty()) notes = WithNote(notes, "failures", failures);
  if (!any) return notes;
  constexpr int64_t kNsPerUs = 1000;
  return WithNote(WithNote(notes, "metrics", metrics), "unix_us",
                  power::NowOf(CLOCK_REALTIME) / kNsPerUs);
}

// By id.
std::map<std::string, std::string> FailuresOf(const std::string& notes_json) {
  std::map<std::string, std::string> failures;
  const Json notes = json::Parse(notes_json);
  const Json* found = json::Find(notes, "failures");
  if (found == nullptr || !found->is_object()) return failures;
  for (const auto& [id, message] : found->items()) {
    if (message.is_string()) failures[id] = message;
  }
  return failures;
}

// The weighted mean. Weights are relative, so the mean is a typical value whatever their size.
// Exact if all weights are equal. An unknown value, or 0, makes the mean unknown.
std::optional<int64_t> WeightedMean(std::span<const Workload> workloads,
                                    std::span<const WorkloadSample> samples,
                                    std::optional<int64_t> WorkloadSample::*value) {
  // The largest double below 2^63, since INT64_MAX is not a double.
  constexpr double kLargest = 9223372036854774784.0;
  double heaviest = 0, sum = 0, total = 0;
  for (const Workload& each : workloads) heaviest = std::max(heaviest, each.weight);
  for (size_t i = 0; i < workloads.size(); ++i) {
    const int64_t own = (samples[i].*value).value_or(0);
    if (own <= 0) return std::nullopt;
    const double weight = workloads[i].weight / heaviest;
    sum += weight * static_cast<double>(own);
    total += weight;
  }
  return std::max<int64_t>(1, std::llround(std::min(sum / total, kLargest)));
}

// Runs the same order on every workload; times are weighted means.
absl::StatusOr<RoundTimes> RunWorkloads(const std::vector<Workload>& workloads, Harness* harness,
                                        int64_t batch, int64_t round,
                                        std::span<const Configuration* const> order) {
  if (workloads.empty()) return harness->RunRound(batch, round, "", order);
  RoundTimes all;
  all.slots.resize(order.size());
  for (const Workload& workload : workloads) {
    ASSIGN_OR_RETURN(auto times, harness->RunRound(batch, round, workload.id, order));
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
    }
  }
  for (SlotTime& at : all.slots) {
    at.t_ps = WeightedMean(workloads, at.workloads, &WorkloadSample::t_ps);
    at.energy_uj = WeightedMean(workloads, at.workloads, &WorkloadSample::energy_uj);
  }
  return all;
}

// Returns an error if all variants fail on a device by their own fault. With several devices, such
// a device counts as broken.
absl::Status WorksAt(const RoundRecord& record) {
  std::set<std::string_view> failed;
  for (const SampleRecord& each : record.samples) {
    if (each.status == "ok" || BlamesNobody(each.status)) return absl::OkStatus();
    failed.insert(each.variant);
  }
  if (failed.size() < 2) return absl::OkStatus();
  const std::map<std::string, std::string> why = FailuresOf(record.notes_json);
  return Unavailable("all variants of a round fail on it, for example ", record.samples[0].variant,
                     ": ", why.empty() ? record.samples[0].status : why.begin()->second);
}

// The differences between a session and a request: names of parts of the identity, and of fields of
// the decision's configuration. {"code_hash", "delta"}
std::vector<std::string> Differences(const SessionInfo& session, const SessionSpec& asked) {
  std::vector<std::string> names;
  for (const auto& [name, part] : kKeyParts) {
    const bool differs = session.key.*part != asked.key.*part;
    const bool is_protocol = part == &TuneKey::protocol_hash;
    if (part == &TuneKey::objective) continue;  // a field of the configuration
    if (differs) {
      names.emplace_back(is_protocol ? "the measurement (--calls, --power-source)" : name);
    }
    if (part == &TuneKey::device_class && session.device != asked.device) {
      names.emplace_back("device");
    }
  }
  std::set<std::string> fields;
  for (const Json& change :
       Json::diff(json::Parse(session.config_json), json::Parse(asked.config_json))) {
    const std::vector<std::string> path = absl::StrSplit(change["path"].get<std::string>(), '/');
    if (path.size() > 1) fields.insert(path[1]);
  }
  names.insert(names.end(), fields.begin(), fields.end());
  return names;
}

// If this session is new, reports the latest unfinished session of the same space.
absl::Status TellUnfinished(const Measuring& of, const SessionSpec& asked) {
  if (of.session.resumed || asked.resume == Resume::kNever) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto sessions, of.store->Sessions());
  const auto is_unfinished = [&](const SessionInfo& each) {
    const bool decided = each.claim == "winner" || each.claim == "pick" || each.claim == "tie";
    return each.id != of.session.id && each.space_hash == asked.space_hash && !decided;
  };
  const auto latest = std::find_if(sessions.rbegin(), sessions.rend(), is_unfinished);
  if (latest != sessions.rend()) of.watcher->OnAnother(latest->id, Differences(*latest, asked));
  return absl::OkStatus();
}

}  // namespace

bool BlamesNobody(std::string_view status) {
  const auto known = ParseSampleStatus(status);
  return !known.has_value() || known == SampleStatus::kInfra || known == SampleStatus::kThrottled ||
         known == SampleStatus::kNoEvents;
}

std::optional<double> ObjectiveValue(Objective objective, const SampleRecord& sample) {
  if (sample.status != "ok" || !sample.t_ps.has_value()) return std::nullopt;
  const auto time = static_cast<double>(*sample.t_ps);
  if (objective == Objective::kTime) return time;
  // 0: below the resolution of the meter
  if (sample.energy_uj.value_or(0) <= 0) return std::nullopt;
  const auto energy = static_cast<double>(*sample.energy_uj);
  if (objective == Objective::kEdp) return energy * time;
  return objective == Objective::kEd2p ? energy * time * time : energy;
}

absl::Status Measuring::Begin() {
  ASSIGN_OR_RETURN(info, harness->Hello());
  const std::string search = options.searcher == nullptr ? "" : options.searcher->Name();
  const SessionSpec spec = {
      .key = {options.workload, info.device_class, info.driver, info.framework, info.flags,
              info.code_hash, options.protocol,
              std::string(ObjectiveName(options.decide.objective))},
      .space_hash = options.space_hash,
      .config_json = DecideConfigJson(options.decide, options.incumbent, search),
      .seed = options.decide.seed,
      .device = info.device,
      .devices =
          harness->Fleet() != nullptr ? harness->Fleet()->names() : std::vector<std::string>(),
      .device_locks = options.device_locks,
      .now_unix_s = options.now_unix_s,
      .resume = options.resume};
  ASSIGN_OR_RETURN(session, store->Begin(spec));
  if (session.resumed) {  // damage is reported before anything is measured
    RETURN_IF_ERROR(store->CheckFile());
    RETURN_IF_ERROR(store->ReadVariants(session.id).status());
  }
  ASSIGN_OR_RETURN(auto rounds, store->ReadRounds(session.id));
  for (RoundRecord& each : rounds) {
    TakeNotes(each);
    stored[{each.batch, each.round}] = std::move(each);
  }
  watcher->OnHello(info, session);
  return TellUnfinished(*this, spec);
}

void Measuring::TakeNotes(const RoundRecord& round) {
  failures.merge(FailuresOf(round.notes_json));
  energy_kinds.merge(EnergyKindsOf(round.notes_json));
}

std::set<std::string> EnergyKindsOf(const std::string& notes_json) {
  std::vector<std::string> kinds;
  const Json notes = json::Parse(notes_json);
  const Json* found = json::Find(notes, "energy_kinds");
  if (found != nullptr) json::FromJson(*found, &kinds);
  return {kinds.begin(), kinds.end()};
}

const RoundRecord* Measuring::Stored(int64_t batch, int64_t round) const {
  const auto found = stored.find({batch, round});
  return found == stored.end() ? nullptr : &found->second;
}

absl::Status Measuring::Register(std::span<const TunedVariant> variants) {
  return store->RegisterVariants(session, ConfigurationsOf(variants));
}

absl::Status Measuring::Prepare(std::span<TunedVariant> variants) {
  const std::vector<Configuration> configurations = ConfigurationsOf(variants);
  size_t done = 0;
  RETURN_IF_ERROR(harness->Prepare(configurations, [&](size_t place, const VariantState& state) {
    variants[place].state = state;
    if (info.verifies && state.status == "ok") return;
    watcher->OnPrepared(variants[place], ++done, variants.size());
  }));
  for (TunedVariant& variant : variants) {
    if (!info.verifies || variant.state.status != "ok") continue;
    if (options.stopped()) return absl::CancelledError("stopped");
    ASSIGN_OR_RETURN(auto verified, harness->Verify(variant.configuration));
    variant.state.status = verified.status;
    if (verified.status != "ok") variant.state.message = verified.message;
    watcher->OnPrepared(variant, ++done, variants.size());
  }
  return absl::OkStatus();
}

absl::Status Measuring::Rounds(int64_t batch, std::span<const WantedRound> rounds,
                               DoneCallback done) {
  std::vector<const WantedRound*> missing;
  for (const WantedRound& wanted : rounds) {
    const RoundRecord* known = Stored(batch, wanted.round);
    if (known == nullptr) {
      missing.push_back(&wanted);
      continue;
    }
    RETURN_IF_ERROR(watcher->OnRecord(*known));
    RETURN_IF_ERROR(done(*known));
  }
  if (HarnessFleet* const fleet = harness->Fleet()) {
    std::vector<absl::StatusOr<RoundRecord>> records(missing.size());
    std::vector<FleetJob> jobs;
    for (const WantedRound* wanted : missing) jobs.push_back({wanted->device});
    const auto work = [&](size_t job, const std::string& name, Harness* device) {
      records[job] = Measured(device, name, batch, *missing[job]);
      if (records[job].ok() && fleet->living() > 1) return WorksAt(*records[job]);
      return records[job].status();
    };
    return fleet->Run(jobs, work, [&](size_t job) {
      RETURN_IF_ERROR(Keep(*records[job]));
      return done(*records[job]);
    });
  }
  for (const WantedRound* wanted : missing) {
    ASSIGN_OR_RETURN(const auto record, Measured(harness, "", batch, *wanted));
    RETURN_IF_ERROR(Keep(record));
    RETURN_IF_ERROR(done(record));
  }
  return absl::OkStatus();
}

absl::StatusOr<RoundRecord> Measuring::Measured(Harness* device, const std::string& name,
                                                int64_t batch, const WantedRound& wanted) const {
  const auto& order = wanted.order;
  if (options.stopped()) return absl::CancelledError("stopped");
  ASSIGN_OR_RETURN(auto times, RunWorkloads(options.workloads, device, batch, wanted.round, order));
  RoundRecord record = {.batch = batch,
                        .round = wanted.round,
                        .discarded = times.throttled,
                        .notes_json = NotesWith(times, order, name)};
  for (size_t slot = 0; slot < order.size(); ++slot) {
    const SlotTime& at = times.slots[slot];
    record.samples.push_back({.variant = order[slot]->id,
                              .slot = static_cast<int32_t>(slot),
                              .status = at.status,
                              .t_ps = at.status == "ok" ? at.t_ps : std::nullopt,
                              .energy_uj = at.energy_uj,
                              .workloads = at.workloads});
  }
  return record;
}

absl::Status Measuring::Keep(const RoundRecord& record) {
  const Objective objective = options.decide.objective;
  for (const SampleRecord& sample : record.samples) {
    if (sample.status != "ok") continue;
    // A stored round must always be usable for a decision.
    if (sample.t_ps.value_or(0) <= 0) {
      return Unavailable("the harness \"", info.name, "\" reports no time for a run of ",
                         sample.variant, "; t_ps must be at least 1");
    }
    if (!ObjectiveValue(objective, sample).has_value()) return NoReportedEnergy(objective, info);
  }
  RETURN_IF_ERROR(Append(record));
  TakeNotes(record);
  ++rounds_measured;
  return watcher->OnRecord(record);
}

std::vector<Configuration> ConfigurationsOf(std::span<const TunedVariant> variants) {
  std::vector<Configuration> configurations;
  for (const TunedVariant& each : variants) configurations.push_back(each.configuration);
  return configurations;
}

absl::StatusOr<std::map<std::string, TunedVariant>> PreparedIn(
    std::string_view notes_json, std::span<const Configuration> configurations) {
  ASSIGN_OR_RETURN(const auto states, PreparationFromJson(notes_json));
  std::map<std::string, TunedVariant> prepared;
  for (const Configuration& each : configurations) {
    const auto state = states.find(each.id);
    if (state != states.end()) {
      prepared[each.id] = {.configuration = each, .state = state->second};
    }
  }
  if (prepared.size() == states.size()) return prepared;
  const auto lost = std::ranges::find_if(
      states, [&](const auto& state) { return !prepared.contains(state.first); });
  return DataLoss("the variant \"", lost->first,
                  "\" was prepared but is missing; the session was damaged after it was written");
}

void AssignAliases(std::vector<TunedVariant>* variants) {
  std::map<std::string, size_t> first_with;
  for (size_t i = 0; i < variants->size(); ++i) {
    TunedVariant& variant = (*variants)[i];
    if (variant.state.status != "ok" || variant.state.fingerprint.empty()) continue;
    const auto [at, is_new] = first_with.emplace(variant.state.fingerprint, i);
    if (!is_new) variant.alias_of = at->second;
  }
}

void AssignPlaces(std::vector<TunedVariant>* variants) {
  uint32_t next = 0;
  for (TunedVariant& variant : *variants) {
    if (variant.state.status != "ok" || variant.alias_of.has_value() || variant.dropped) continue;
    variant.measured = next++;
  }
}

Space SpaceOf(std::span<const TunedVariant> variants) {
  Space space;
  for (const TunedVariant& variant : variants) {
    if (!variant.measured.has_value()) continue;
    const Configuration& of = variant.configuration;
    const auto& known = variant.state.mem_bytes;
    space.variants.push_back({of.id, of.params_json, known.has_value() ? known : of.mem_bytes});
  }
  return space;
}

Places PlacesOf(std::span<const TunedVariant> variants) {
  Places places;
  for (const TunedVariant& each : variants) {
    const auto& place =
        each.alias_of.has_value() ? variants[*each.alias_of].measured : each.measured;
    if (place.has_value()) places.emplace(each.configuration.id, *place);
  }
  return places;
}

std::optional<uint32_t> PlaceOf(const Places& places, const std::string& id) {
  const auto found = places.find(id);
  return found == places.end() ? std::nullopt : std::optional(found->second);
}

RoundResult ResultOf(const Places& places, const RoundRecord& record) {
  RoundResult result = {.batch = static_cast<uint64_t>(record.batch),
                        .round = static_cast<uint64_t>(record.round),
                        .discarded = record.discarded};
  for (const SampleRecord& sample : record.samples) {
    const auto place = PlaceOf(places, sample.variant);
    if (!place.has_value()) continue;
    Sample converted = {.variant = *place,
                        .slot = static_cast<uint32_t>(sample.slot),
                        .status = ParseSampleStatus(sample.status).value_or(SampleStatus::kInfra),
                        .t_ps = sample.t_ps.value_or(0)};
    if (sample.energy_uj.value_or(0) > 0) {  // 0: below the resolution of the meter
      converted.energy_uj = static_cast<double>(*sample.energy_uj);
    }
    result.samples.push_back(converted);
  }
  return result;
}

namespace {

constexpr size_t kKept = 9;  // durations for each variant: enough for a median

// times x duration, at most `most`.
RunLimit::Duration Times(double times, RunLimit::Duration duration, RunLimit::Duration most) {
  const double product = times * static_cast<double>(duration.count());
  if (product >= static_cast<double>(most.count())) return most;
  return RunLimit::Duration(static_cast<int64_t>(product));
}

}  // namespace

void RunLimit::EndRound(const std::string& workload, const std::vector<Slot>& took, Duration end) {
  OfWorkload& of = workloads_[workload];
  of.shortest_end = std::min(of.shortest_end, end);
  for (const auto& [variant, duration] : took) {
    std::vector<Duration>& slots = of.slots[variant];
    if (slots.size() == kKept) continue;
    slots.insert(std::ranges::upper_bound(slots, duration), duration);
  }
  of.fastest.reset();
  for (const auto& [variant, slots] : of.slots) {
    const Duration typical = slots[slots.size() / 2];
    of.fastest = std::min(of.fastest.value_or(typical), typical);
  }
}

std::optional<RunLimit::Duration> RunLimit::Of(const std::string& workload,
                                               const std::string& variant, size_t slot,
                                               size_t slots) const {
  const auto known = workloads_.find(workload);
  if (times_ == 0 || known == workloads_.end() || !known->second.fastest.has_value()) {
    return std::nullopt;
  }
  if (exempt_.contains(variant)) return std::nullopt;
  Duration limit = std::max(kFloor, Times(times_, *known->second.fastest, timeout_));
  if (slot == 0) limit *= 2;
  if (slot + 1 == slots) limit += Times(times_, known->second.shortest_end, timeout_);
  return limit < timeout_ ? std::optional(limit) : std::nullopt;
}

RunLimit::Duration RunLimit::Alone(const std::string& workload, const std::string& variant) const {
  const auto limit = Of(workload, variant, 0, 2);
  if (!limit.has_value()) return timeout_;
  return std::min(timeout_,
                  2 * *limit + Times(times_, workloads_.at(workload).shortest_end, timeout_));
}

RunLimit::Duration RunLimit::Fastest(const std::string& workload) const {
  const auto known = workloads_.find(workload);
  return known == workloads_.end() ? Duration(0) : known->second.fastest.value_or(Duration(0));
}

}  // namespace xplane_time
