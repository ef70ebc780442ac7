// The stages of a search (search_run.h), and three searchers: asking, halving, counting.
//
// SearchRun: HeadOf takes a stored head or asks the searcher for the next stage, prepares its new
// variants and stores the head. MeasureStage makes passes over the variants that still need values;
// the order of each pass follows from the seed, the stage and the pass. Then the searcher gets each
// variant's value, the lower median of all of its samples. Since everything depends only on the
// seed and on stored rounds, a resumed run repeats the same stages.
//
// Cost: the sum of rounds of all stages; bookkeeping is linear in the samples.
#include "tune/search_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "harness/messages.h"
#include "harness/process.h"
#include "stats/order_statistics.h"
#include "stats/random.h"
#include "status.h"
#include "tune/harness_protocol.h"

namespace xplane_time {
namespace {

constexpr uint64_t kSearchStream = 7;

class SearchRun {
 public:
  SearchRun(Measuring* measuring, std::vector<TunedVariant>* variants, SearchReport* report)
      : measuring_(*measuring),
        options_(measuring->options),
        variants_(*variants),
        report_(*report),
        rules_(measuring->options.searcher->Rules()),
        known_(variants->size()) {
    for (size_t i = 0; i < variants->size(); ++i) at_.emplace((*variants)[i].configuration.id, i);
  }

  absl::Status Run() {
    report_.strategy = options_.searcher->Name();
    options_.searcher->Begin(ConfigurationsOf(variants_));
    for (int64_t batch = kFirstSearchBatch;; ++batch) {
      ASSIGN_OR_RETURN(auto head, HeadOf(batch));
      CountStage(head, &report_);
      if (head.ids.empty()) return End(batch, std::move(head));
      RETURN_IF_ERROR(MeasureStage(batch, head));
      TellSearcher(head);
    }
  }

 private:
  // A configuration's results over all stages.
  struct Known {
    std::vector<double> values = {};
    std::string failure = {};
    uint32_t failures = 0;
    size_t in_stage = 0;  // number of values in this stage
  };

  // The stored head, or that of a newly requested stage.
  absl::StatusOr<StageHead> HeadOf(int64_t batch) {
    const RoundRecord* stored = measuring_.Stored(batch, kStageHead);
    if (stored == nullptr) return AskForStage(batch);
    ASSIGN_OR_RETURN(auto head, StageHeadFromJson(stored->notes_json));
    ASSIGN_OR_RETURN(const auto registered, measuring_.store->ReadVariants(measuring_.session.id));
    ASSIGN_OR_RETURN(const auto prepared, PreparedIn(stored->notes_json, registered));
    for (const std::string& id : head.ids) {
      if (at_.contains(id)) continue;
      const auto found = prepared.find(id);
      if (found == prepared.end()) {
        return DataLoss("the session has no state of the variant ", id,
                        " of its search; run tune without --resume");
      }
      Add(found->second);
    }
    AssignAliases(&variants_);
    return head;
  }

  void Add(const TunedVariant& variant) {
    if (!at_.emplace(variant.configuration.id, variants_.size()).second) return;
    variants_.push_back(variant);
    known_.emplace_back();
  }

  absl::StatusOr<StageHead> AskForStage(int64_t batch) {
    if (options_.stopped()) return absl::CancelledError("stopped");
    ASSIGN_OR_RETURN(auto stage, options_.searcher->Next());
    StageHead head = {.rounds = stage.rounds,
                      .proposed = stage.proposed,
                      .refused = stage.refused,
                      .repeated = stage.repeated};
    for (const Configuration& each : stage.configurations) head.ids.push_back(each.id);
    if (head.ids.empty()) return head;
    const size_t before = variants_.size();
    for (const Configuration& each : stage.configurations) Add({.configuration = each});
    const std::span<TunedVariant> fresh = std::span(variants_).subspan(before);
    RETURN_IF_ERROR(measuring_.Register(fresh));
    if (!fresh.empty()) RETURN_IF_ERROR(measuring_.Prepare(fresh));
    RETURN_IF_ERROR(measuring_.Append(
        {.batch = batch, .round = kStageHead, .notes_json = StageHeadJson(head, fresh)}));
    AssignAliases(&variants_);
    return head;
  }

  // The next runs depend only on stored rounds.
  absl::Status MeasureStage(int64_t batch, const StageHead& head) {
    for (Known& each : known_) each.in_stage = 0;
    int64_t round = kStageHead + 1;
    for (uint32_t pass = 0; pass < head.rounds + rules_.spare_rounds; ++pass) {
      std::vector<size_t> due;
      for (const std::string& id : head.ids) {
        const size_t variant = at_.at(id);
        const TunedVariant& of = variants_[variant];
        const Known& known = known_[variant];
        const bool is_other = of.alias_of.has_value() && !rules_.measures_aliases;
        if (of.state.status != "ok" || is_other || known.failures >= rules_.failures) continue;
        if (known.in_stage < head.rounds) due.push_back(variant);
      }
      if (due.empty()) break;
      RETURN_IF_ERROR(MeasurePass(batch, pass, std::move(due), &round));
    }
    return absl::OkStatus();
  }

  absl::Status MeasurePass(int64_t batch, uint32_t pass, std::vector<size_t> due, int64_t* round) {
    const uint64_t stage = static_cast<uint64_t>(batch - kFirstSearchBatch);
    constexpr uint64_t kPasses = 1024;
    stats::Random random =
        stats::RandomFor(options_.decide.seed, kSearchStream, stage * kPasses + pass);
    random.Shuffle(due);
    const size_t rounds = (due.size() + kBlockRuns - 1) / kBlockRuns;
    std::vector<WantedRound> wanted(rounds);
    for (size_t i = 0; i < rounds; ++i) {
      wanted[i].round = (*round)++;
      for (size_t k = due.size() * i / rounds; k < due.size() * (i + 1) / rounds; ++k) {
        wanted[i].order.push_back(&variants_[due[k]].configuration);
      }
    }
    return measuring_.Rounds(batch, wanted, [&](const RoundRecord& record) {
      Take(record);
      measuring_.watcher->OnSearching(report_, due.size());
      return absl::OkStatus();
    });
  }

  void Take(const RoundRecord& record) {
    ++report_.rounds;
    report_.runs += record.samples.size();
    for (const SampleRecord& sample : record.samples) {
      const auto at = at_.find(sample.variant);
      if (at == at_.end() || record.discarded) continue;
      Known& known = known_[at->second];
      if (const auto value = ObjectiveValue(options_.decide.objective, sample); value.has_value()) {
        if (known.values.empty()) ++report_.searched;
        known.values.push_back(*value);
        ++known.in_stage;
      } else if (!BlamesNobody(sample.status)) {
        if (known.values.empty() && known.failure.empty()) ++report_.searched;
        known.failure = sample.status;
        ++known.failures;
      }
    }
  }

  void TellSearcher(const StageHead& head) {
    std::vector<Searched> told;
    for (const std::string& id : head.ids) {
      const size_t variant = at_.at(id);
      TunedVariant& of = variants_[variant];
      const bool is_alias = of.alias_of.has_value() && !rules_.measures_aliases;
      const Known& known = known_[is_alias ? *of.alias_of : variant];
      Searched searched = {
          .configuration = &of.configuration, .status = of.state.status, .is_alias = is_alias};
      if (of.state.status == "ok" && known.failures >= rules_.failures) {
        searched.status = of.search_failure = known.failure;
      } else if (of.state.status == "ok" && known.values.empty()) {
        searched.status = "infra";
      } else if (of.state.status == "ok") {
        // The lower median: of two values, the higher one may be a spike, and spikes only slow
        // down.
        searched.value = stats::LowerMedian(std::vector(known.values));
      }
      of.searched = searched.value;
      told.push_back(searched);
    }
    options_.searcher->Tell(told);
  }

  absl::Status End(int64_t batch, StageHead head) {
    if (measuring_.Stored(batch, kStageHead) == nullptr) {
      head.finalists = options_.searcher->Finalists();
      for (const std::string& id : {options_.incumbent, options_.baseline}) {
        if (!id.empty()) head.finalists.push_back(id);
      }
      RETURN_IF_ERROR(measuring_.Append(
          {.batch = batch, .round = kStageHead, .notes_json = StageHeadJson(head, {})}));
    }
    DropAllBut(head.finalists, &variants_);
    return absl::OkStatus();
  }

  Measuring& measuring_;
  const TuneOptions& options_;
  std::vector<TunedVariant>& variants_;
  SearchReport& report_;
  const StageRules rules_;
  absl::flat_hash_map<std::string, size_t> at_ = {};  // indices in variants, by id
  std::vector<Known> known_;                          // by variant
};

constexpr int kMostAsksInVain = 50;
constexpr uint64_t kAtOnce = 8;

// Variants with their own value, best first. Equal values keep the order of the list.
template <typename Tried>
std::vector<const Tried*> BestFirst(std::span<const Tried> all) {
  std::vector<const Tried*> sound;
  for (const Tried& each : all) {
    if (each.value.has_value() && !each.is_alias) sound.push_back(&each);
  }
  std::stable_sort(sound.begin(), sound.end(),
                   [](const Tried* a, const Tried* b) { return *a->value < *b->value; });
  return sound;
}

class AskSearcher : public Searcher {
 public:
  AskSearcher(AskOptions options, const SearchSpace& space)
      : options_(std::move(options)), space_(space) {}

  // Another command is a different search.
  std::string Name() const override {
    return absl::StrCat("ask:", options_.count, " of ", options_.command);
  }

  void Begin(std::span<const Configuration> known) override {
    known_.assign(known.begin(), known.end());
    listed_ = known.size();
  }

  absl::StatusOr<SearchStage> Next() override {
    SearchStage stage = {.configurations = std::exchange(known_, {}), .rounds = kAskRounds};
    if (!stage.configurations.empty()) return stage;
    for (int in_vain = 0; in_vain < kMostAsksInVain && !Enough(); ++in_vain) {
      RETURN_IF_ERROR(Start());
      RETURN_IF_ERROR(SayWhatIsNew());
      const int64_t request = next_request_++;
      const uint64_t count = std::min(kAtOnce, listed_ + options_.count - results_.size());
      RETURN_IF_ERROR(Send(harness::Line("ask", {{"request", request}, {"count", count}})));
      ASSIGN_OR_RETURN(const auto answer, Receive());
      const auto proposals = ParseProposals(answer, request, count);
      RETURN_IF_ERROR(Sound(proposals.status()));
      stage.proposed += proposals->size();
      RETURN_IF_ERROR(Sort(request, *proposals, &stage));
      if (!stage.configurations.empty()) return stage;
      if (proposals->empty()) break;
    }
    if (process_ != nullptr) process_->SayBye();
    process_.reset();
    return stage;
  }

  void Tell(std::span<const Searched> stage) override {
    known_.clear();  // the first stage was stored and contained them
    for (const Searched& each : stage) {
      if (!at_.emplace(each.configuration->id, results_.size()).second) continue;
      results_.push_back(
          {{each.configuration->id, each.configuration->params_json, each.status, each.value},
           each.is_alias});
    }
  }

  std::vector<std::string> Finalists() const override {
    std::vector<std::string> ids;
    for (const Result* each : BestFirst<Result>(results_)) {
      if (ids.size() < kAskFinalists) ids.push_back(each->id);
    }
    return ids;
  }

 private:
  struct Result : Told {
    bool is_alias = false;
  };

  bool Enough() const { return results_.size() >= listed_ + options_.count; }

  absl::Status Start() {
    if (process_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(process_,
                     HarnessProcess::Start({.command = {"/bin/sh", "-c", options_.command},
                                            .role = "proposer",
                                            .stopped = options_.stopped}));
    RETURN_IF_ERROR(Send(ProposerHello(space_, options_.seed, results_.size())));
    ASSIGN_OR_RETURN(const auto answer, Receive());
    return Sound(ParseProposerHello(answer));
  }

  // Adds new proposals to the stage. For the others, the proposer gets the result or the reason.
  absl::Status Sort(int64_t request, const std::vector<std::string>& proposals,
                    SearchStage* stage) {
    proposed_as_.clear();
    for (size_t i = 0; i < proposals.size(); ++i) {
      Told told = {.id = "", .params_json = proposals[i], .status = "refused"};
      told.proposal = Proposal{request, i};
      auto point = FindPoint(space_, proposals[i]);
      if (!point.ok()) {
        ++stage->refused;
        told.message = std::string(point.status().message());
        RETURN_IF_ERROR(Send(TellRequest(told)));
        continue;
      }
      if (const auto known = at_.find(point->id); known != at_.end()) {
        ++stage->repeated;
        Told again = results_[known->second];
        again.params_json = proposals[i];
        again.repeated = true;
        again.proposal = told.proposal;
        RETURN_IF_ERROR(Send(TellRequest(again)));
      } else if (!proposed_as_.emplace(point->id, *told.proposal).second) {
        ++stage->repeated;  // twice in one answer: reported once, after it has been measured
      } else {
        stage->configurations.push_back(*std::move(point));
      }
    }
    return absl::OkStatus();
  }

  absl::Status SayWhatIsNew() {
    for (; said_ < results_.size(); ++said_) {
      Told told = results_[said_];
      const auto proposed = proposed_as_.find(told.id);
      if (proposed != proposed_as_.end()) told.proposal = proposed->second;
      RETURN_IF_ERROR(Send(TellRequest(told)));
    }
    return absl::OkStatus();
  }

  absl::Status Send(const std::string& line) {
    return Sound(process_->Send(line, MonotonicClock::now() + options_.answer_timeout));
  }

  absl::StatusOr<std::string> Receive() {
    auto line = process_->Receive(MonotonicClock::now() + options_.answer_timeout);
    RETURN_IF_ERROR(Sound(line.status()));
    return line;
  }

  // Adds all known details to an error; the process has ended then.
  absl::Status Sound(const absl::Status& status) {
    if (status.ok() || absl::IsCancelled(status)) return status;
    const std::string why = process_->LossBy(status).message;
    process_.reset();
    return Unavailable("the proposer \"", options_.command, "\" failed: ", why,
                       "; docs/space.md describes the protocol; continue with --resume, all "
                       "measurements so far are stored");
  }

  AskOptions options_;
  const SearchSpace& space_;
  std::unique_ptr<HarnessProcess> process_;
  std::vector<Configuration> known_;             // to be measured first
  size_t listed_ = 0;                            // their number
  std::vector<Result> results_;                  // in the order in which they were reported
  std::map<std::string, size_t> at_;             // indices in results_, by id
  std::map<std::string, Proposal> proposed_as_;  // by id, for the current stage
  size_t said_ = 0;                              // results that the process has received
  int64_t next_request_ = 1;
};

class HalvingSearcher : public Searcher {
 public:
  explicit HalvingSearcher(uint64_t finalists) : finalists_(finalists) {}

  std::string Name() const override { return absl::StrCat("halving:", finalists_); }

  void Begin(std::span<const Configuration> known) override {
    left_.assign(known.begin(), known.end());
  }

  absl::StatusOr<SearchStage> Next() override {
    if (left_.size() <= finalists_) return SearchStage{};
    return SearchStage{.configurations = left_, .rounds = rounds_};
  }

  void Tell(std::span<const Searched> stage) override {
    std::vector<const Searched*> sound = BestFirst<Searched>(stage);
    const size_t half = sound.size() - sound.size() / 2;
    sound.resize(std::min(sound.size(), std::max<size_t>(half, finalists_)));
    left_.clear();
    for (const Searched* each : sound) left_.push_back(*each->configuration);
    rounds_ = std::min(2 * rounds_, kMostHalvingRounds);
  }

  std::vector<std::string> Finalists() const override {
    std::vector<std::string> ids;
    for (const Configuration& each : left_) ids.push_back(each.id);
    return ids;
  }

 private:
  uint64_t finalists_;
  uint32_t rounds_ = 1;              // in the next stage
  std::vector<Configuration> left_;  // after the first rung, best first
};

class CountingSearcher : public Searcher {
 public:
  explicit CountingSearcher(uint32_t samples) : samples_(samples) {}

  std::string Name() const override { return absl::StrCat("grid:", samples_); }
  StageRules Rules() const override {
    constexpr uint32_t kSpareShare = 10;  // one more for every ten
    return {.spare_rounds = 2 + samples_ / kSpareShare, .failures = 2, .measures_aliases = true};
  }
  void Begin(std::span<const Configuration> known) override {
    all_.assign(known.begin(), known.end());
  }
  absl::StatusOr<SearchStage> Next() override {
    return SearchStage{.configurations = std::exchange(all_, {}), .rounds = samples_};
  }
  // A stored stage has been measured.
  void Tell(std::span<const Searched> /*stage*/) override { all_.clear(); }
  std::vector<std::string> Finalists() const override { return {}; }

 private:
  uint32_t samples_;
  std::vector<Configuration> all_;  // to be measured
};

}  // namespace

absl::Status RunSearch(Measuring* measuring, std::vector<TunedVariant>* variants,
                       SearchReport* report) {
  return SearchRun(measuring, variants, report).Run();
}

void CountStage(const StageHead& head, SearchReport* report) {
  report->stages += head.ids.empty() ? 0 : 1;
  report->proposed += head.proposed;
  report->refused += head.refused;
  report->repeated += head.repeated;
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

std::unique_ptr<Searcher> NewAskSearcher(AskOptions options, const SearchSpace& space) {
  return std::make_unique<AskSearcher>(std::move(options), space);
}

std::unique_ptr<Searcher> NewCountingSearcher(uint32_t samples) {
  return std::make_unique<CountingSearcher>(samples);
}

std::unique_ptr<Searcher> NewHalvingSearcher(uint64_t finalists) {
  return std::make_unique<HalvingSearcher>(finalists);
}

}  // namespace xplane_time
