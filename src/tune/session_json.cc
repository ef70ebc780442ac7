#include "tune/session_json.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace xplane_time::tune {
namespace {

Json Number(const std::optional<int64_t>& value) {
  return value.has_value() ? Json(*value) : Json();
}

// JSON of a sample, or of one of its workloads.
Json MeasuredJson(const std::string& id, const auto& of) {
  return {{"id", id},
          {"status", of.status},
          {"t_ps", Number(of.t_ps)},
          {"energy_uj", Number(of.energy_uj)}};
}

void ReadMeasured(const Field& fields, std::string* id, auto* of) {
  fields.Read("id", id, json::kNeeded);
  fields.Read("status", &of->status, json::kNeeded);
  fields.Read("t_ps", &of->t_ps);
  fields.Read("energy_uj", &of->energy_uj);
}

void ReadSample(const Field& fields, SampleRecord* sample) {
  ReadMeasured(fields, &sample->variant, sample);
  fields.Read("slot", &sample->slot, json::kNeeded, 0);
  if (!fields.Has("workloads")) return;
  fields.At("workloads").Each([&](const Field& each) {
    WorkloadSample& own = sample->workloads.emplace_back();
    ReadMeasured(each, &own.workload, &own);
  });
}

}  // namespace

Json SessionJson(const SessionInfo& info) {
  Json json = {{"id", absl::StrCat(info.id)},
               {"space_hash", info.space_hash},
               {"config", Stored(info.config_json)},
               {"seed", info.seed},
               {"device", info.device},
               {"started_unix_s", info.started_unix_s}};
  for (const auto& [name, member] : kKeyParts) json[name] = info.key.*member;
  return json;
}

Json VariantJson(const Configuration& variant) {
  return {{"id", variant.id},
          {"params", Stored(variant.params_json)},
          {"mem_bytes", Number(variant.mem_bytes)}};
}

Json RoundJson(const RoundRecord& round) {
  Json samples = Json::array();
  for (const SampleRecord& sample : round.samples) {
    Json json = MeasuredJson(sample.variant, sample);
    json["slot"] = sample.slot;
    for (const WorkloadSample& own : sample.workloads) {
      json["workloads"].push_back(MeasuredJson(own.workload, own));
    }
    samples.push_back(std::move(json));
  }
  return {{"batch", round.batch},
          {"round", round.round},
          {"discarded", round.discarded},
          {"notes", Stored(round.notes_json)},
          {"samples", std::move(samples)}};
}

void ReadSession(const Field& session, SessionInfo* info) {
  std::string id;
  session.Read("id", &id, json::kNeeded);
  session.At("id").Expect(absl::SimpleAtoi(id, &info->id), "a number in a string");
  session.Read("space_hash", &info->space_hash, json::kNeeded);
  info->config_json = CanonicalJson(session.Object("config"));
  session.Read("seed", &info->seed, json::kNeeded);
  session.Read("device", &info->device, json::kNeeded);
  session.Read("started_unix_s", &info->started_unix_s, json::kNeeded);
  for (const auto& [name, member] : kKeyParts) session.Read(name, &(info->key.*member));
}

void ReadVariant(const Field& variant, Configuration* configuration) {
  variant.Read("id", &configuration->id, json::kNeeded);
  configuration->params_json = CanonicalJson(variant.Object("params"));
  variant.Read("mem_bytes", &configuration->mem_bytes);
}

void ReadRound(const Field& round, RoundRecord* record) {
  round.Read("batch", &record->batch, json::kNeeded, 0);
  round.Read("round", &record->round, json::kNeeded, 0);
  round.Read("discarded", &record->discarded, json::kNeeded);
  record->notes_json = CanonicalJson(round.Object("notes"));
  round.At("samples").Each(
      [&](const Field& each) { ReadSample(each, &record->samples.emplace_back()); });
}

}  // namespace xplane_time::tune
