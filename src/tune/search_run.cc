#include "tune/search_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "decide/orders.h"
#include "tune/outcome_json.h"
#include "tune/session_variants.h"

namespace xplane_time {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSearchStream = 7;
constexpr uint32_t kSparePasses = 2;  // for those that gave nothing, and are not to blame

bool IsTransient(std::string_view status) {
  const auto known = ParseSampleStatus(status);
  return !known.has_value() || known == SampleStatus::kInfra || known == SampleStatus::kThrottled ||
         known == SampleStatus::kNoEvents;
}

// Of two values one may be a spike, and spikes slow down: the lower one.
double LowerMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::string StageHeadJson(const StageHead& head, std::span<const TunedVariant> fresh) {
  Json out = Json::parse(PreparationJson({}, fresh), nullptr, /*allow_exceptions=*/false);
  out.erase("harness");
  out["stage"] = {{"ids", head.ids},           {"rounds", head.rounds},
                  {"proposed", head.proposed}, {"refused", head.refused},
                  {"repeated", head.repeated}, {"finalists", head.finalists}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<StageHead> StageHeadFromJson(std::string_view json) {
  const auto damaged = absl::DataLossError("what the session knew of its search is damaged");
  const Json notes = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto found = notes.is_object() ? notes.find("stage") : notes.end();
  if (!notes.is_object() || found == notes.end() || !found->is_object()) return damaged;
  StageHead head;
  const auto texts = [&](const char* name, std::vector<std::string>* into) {
    const auto list = found->find(name);
    if (list == found->end() || !list->is_array()) return false;
    for (const Json& each : *list) {
      if (!each.is_string()) return false;
      into->push_back(each);
    }
    return true;
  };
  const auto count = [&](const char* name, auto* into) {
    const auto at = found->find(name);
    if (at == found->end() || !at->is_number_unsigned()) return false;
    *into = *at;
    return true;
  };
  if (!texts("ids", &head.ids) || !texts("finalists", &head.finalists) ||
      !count("rounds", &head.rounds) || !count("proposed", &head.proposed) ||
      !count("refused", &head.refused) || !count("repeated", &head.repeated)) {
    return damaged;
  }
  return head;
}

void DropAllBut(std::span<const std::string> finalists, std::vector<TunedVariant>* variants) {
  absl::flat_hash_map<std::string, size_t> at;
  for (size_t i = 0; i < variants->size(); ++i) at.emplace((*variants)[i].configuration.id, i);
  for (TunedVariant& each : *variants) each.dropped = true;
  for (const std::string& id : finalists) {
    const auto found = at.find(id);
    if (found == at.end()) continue;
    TunedVariant& variant = (*variants)[found->second];
    variant.dropped = false;
    if (variant.alias_of.has_value()) (*variants)[*variant.alias_of].dropped = false;
  }
}

SearchRun::SearchRun(const TuneOptions& options, Measuring* measuring, TuneWatcher* watcher,
                     std::vector<TunedVariant>* variants, SearchReport* report)
    : options_(options),
      measuring_(measuring),
      watcher_(watcher),
      variants_(variants),
      report_(report),
      known_(variants->size()) {
  for (size_t i = 0; i < variants->size(); ++i) at_.emplace((*variants)[i].configuration.id, i);
}

size_t SearchRun::Original(size_t variant) const {
  return (*variants_)[variant].alias_of.value_or(variant);
}

absl::Status SearchRun::Run() {
  report_->strategy = options_.searcher->Name();
  std::vector<Configuration> known;
  for (const TunedVariant& each : *variants_) known.push_back(each.configuration);
  options_.searcher->Begin(known);
  for (int64_t batch = kFirstSearchBatch;; ++batch) {
    auto head = HeadOf(batch);
    if (!head.ok()) return head.status();
    report_->proposed += head->proposed;
    report_->refused += head->refused;
    report_->repeated += head->repeated;
    if (head->ids.empty()) return End(batch, *std::move(head));
    ++report_->stages;
    if (absl::Status status = MeasureStage(batch, *head); !status.ok()) return status;
    TellSearcher(*head);
  }
}

// Stored, or of a stage that is asked for now.
absl::StatusOr<StageHead> SearchRun::HeadOf(int64_t batch) {
  const RoundRecord* stored = measuring_->Stored(batch, kStageHead);
  if (stored == nullptr) return AskForStage(batch);
  auto head = StageHeadFromJson(stored->notes_json);
  if (!head.ok()) return head;
  auto states = PreparationFromJson(stored->notes_json);
  if (!states.ok()) return states.status();
  auto registered = measuring_->Registered();
  if (!registered.ok()) return registered.status();
  for (const std::string& id : head->ids) {
    if (at_.contains(id)) continue;
    const auto configuration = registered->find(id);
    const auto state = states->find(id);
    if (configuration == registered->end() || state == states->end()) {
      return absl::DataLossError(absl::StrCat("the session does not know the variant ", id,
                                              " of its search; tune without --resume"));
    }
    at_.emplace(id, variants_->size());
    variants_->push_back({.configuration = configuration->second, .state = state->second});
  }
  known_.resize(variants_->size());
  AssignAliases(variants_);
  return head;
}

absl::StatusOr<StageHead> SearchRun::AskForStage(int64_t batch) {
  if (options_.stopped()) return absl::CancelledError("stopped");
  auto stage = options_.searcher->Next();
  if (!stage.ok()) return stage.status();
  StageHead head = {.rounds = stage->rounds,
                    .proposed = stage->proposed,
                    .refused = stage->refused,
                    .repeated = stage->repeated};
  for (const Configuration& each : stage->configurations) head.ids.push_back(each.id);
  if (head.ids.empty()) return head;
  const size_t before = variants_->size();
  for (const Configuration& each : stage->configurations) {
    if (!at_.emplace(each.id, variants_->size()).second) continue;
    variants_->push_back({.configuration = each});
  }
  known_.resize(variants_->size());
  const std::span<TunedVariant> fresh = std::span(*variants_).subspan(before);
  std::vector<Configuration> configurations;
  for (const TunedVariant& each : fresh) configurations.push_back(each.configuration);
  absl::Status status = measuring_->Register(configurations);
  size_t done = 0;
  if (status.ok() && !fresh.empty()) {
    status = measuring_->Prepare(fresh, [&](const TunedVariant& variant) {
      watcher_->OnPrepared(variant, ++done, fresh.size());
    });
  }
  if (status.ok()) {
    status = measuring_->Append(
        {.batch = batch, .round = kStageHead, .notes_json = StageHeadJson(head, fresh)});
  }
  if (!status.ok()) return status;
  AssignAliases(variants_);
  return head;
}

// Which runs come next depends on stored rounds alone.
absl::Status SearchRun::MeasureStage(int64_t batch, const StageHead& head) {
  for (Known& each : known_) each.in_stage = 0;
  int64_t round = kStageHead + 1;
  for (uint32_t pass = 0; pass < head.rounds + kSparePasses; ++pass) {
    std::vector<size_t> due;
    for (const std::string& id : head.ids) {
      const size_t variant = at_.at(id);
      const TunedVariant& of = (*variants_)[variant];
      const Known& known = known_[variant];
      if (of.state.status != "ok" || of.alias_of.has_value()) continue;
      if (known.failure.empty() && known.in_stage < head.rounds) due.push_back(variant);
    }
    if (due.empty()) break;
    absl::Status status = MeasurePass(batch, pass, std::move(due), &round);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SearchRun::MeasurePass(int64_t batch, uint32_t pass, std::vector<size_t> due,
                                    int64_t* round) {
  const uint64_t stage = static_cast<uint64_t>(batch - kFirstSearchBatch);
  constexpr uint64_t kPasses = 1024;
  decide::Random random =
      decide::RandomFor(options_.decide.seed, kSearchStream, stage * kPasses + pass);
  random.Shuffle(due);
  const size_t rounds = (due.size() + kBlockRuns - 1) / kBlockRuns;
  for (size_t i = 0; i < rounds; ++i) {
    std::vector<const Configuration*> order;
    for (size_t k = due.size() * i / rounds; k < due.size() * (i + 1) / rounds; ++k) {
      order.push_back(&(*variants_)[due[k]].configuration);
    }
    auto record = measuring_->Round(batch, (*round)++, order);
    if (!record.ok()) return record.status();
    Take(*record);
    watcher_->OnSearching(*report_, due.size());
  }
  return absl::OkStatus();
}

void SearchRun::Take(const RoundRecord& record) {
  ++report_->rounds;
  report_->runs += record.samples.size();
  for (const SampleRecord& sample : record.samples) {
    const auto at = at_.find(sample.variant);
    if (at == at_.end() || record.discarded) continue;
    Known& known = known_[at->second];
    if (const auto value = ObjectiveValue(options_.decide.objective, sample); value.has_value()) {
      if (known.values.empty()) ++report_->searched;
      known.values.push_back(*value);
      ++known.in_stage;
    } else if (!IsTransient(sample.status)) {
      if (known.values.empty() && known.failure.empty()) ++report_->searched;
      known.failure = sample.status;
    }
  }
}

void SearchRun::TellSearcher(const StageHead& head) {
  std::vector<Searched> told;
  for (const std::string& id : head.ids) {
    const size_t variant = at_.at(id);
    TunedVariant& of = (*variants_)[variant];
    const Known& known = known_[Original(variant)];
    Searched searched = {.configuration = &of.configuration,
                         .status = of.state.status,
                         .is_alias = of.alias_of.has_value()};
    if (of.state.status == "ok" && !known.failure.empty()) {
      searched.status = of.search_failure = known.failure;
    } else if (of.state.status == "ok" && known.values.empty()) {
      searched.status = "infra";
    } else if (of.state.status == "ok") {
      searched.value = LowerMedian(known.values);
    }
    of.searched = searched.value;
    told.push_back(searched);
  }
  options_.searcher->Tell(told);
}

absl::Status SearchRun::End(int64_t batch, StageHead head) {
  if (measuring_->Stored(batch, kStageHead) == nullptr) {
    head.finalists = options_.searcher->Finalists();
    for (const std::string& id : {options_.incumbent, options_.baseline}) {
      if (!id.empty()) head.finalists.push_back(id);
    }
    absl::Status status = measuring_->Append(
        {.batch = batch, .round = kStageHead, .notes_json = StageHeadJson(head, {})});
    if (!status.ok()) return status;
  }
  DropAllBut(head.finalists, variants_);
  return absl::OkStatus();
}

}  // namespace xplane_time
