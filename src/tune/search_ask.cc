#include "tune/search_ask.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace xplane_time {
namespace {

constexpr int kMostAsksInVain = 50;

}  // namespace

// Another command is another question.
std::string AskSearcher::Name() const {
  return absl::StrCat("ask:", options_.count, " of ", options_.command);
}

void AskSearcher::Begin(std::span<const Configuration> known) {
  known_.assign(known.begin(), known.end());
  listed_ = known.size();
}

absl::StatusOr<SearchStage> AskSearcher::Next() {
  SearchStage stage = {.configurations = std::exchange(known_, {}), .rounds = kRounds};
  if (!stage.configurations.empty()) return stage;
  for (int in_vain = 0; in_vain < kMostAsksInVain && !Enough(); ++in_vain) {
    absl::Status status = Start();
    if (status.ok()) status = SayWhatIsNew();
    if (!status.ok()) return status;
    const int64_t request = next_request_++;
    auto proposals = Ask(request, std::min(kAtOnce, listed_ + options_.count - results_.size()));
    if (!proposals.ok()) return proposals.status();
    stage.proposed += proposals->size();
    status = Sort(request, *proposals, &stage);
    if (!status.ok()) return status;
    if (!stage.configurations.empty()) return stage;
    if (proposals->empty()) break;
  }
  Finish();
  return stage;
}

// New ones to the stage; of the others the proposer is told what they are.
absl::Status AskSearcher::Sort(int64_t request, const std::vector<std::string>& proposals,
                               SearchStage* stage) {
  proposed_as_.clear();
  for (size_t i = 0; i < proposals.size(); ++i) {
    Told told = {.id = "", .params_json = proposals[i], .status = "refused"};
    told.proposal = Proposal{request, i};
    auto point = FindPoint(space_, proposals[i]);
    if (!point.ok()) {
      ++stage->refused;
      told.message = std::string(point.status().message());
      if (absl::Status status = Say(told); !status.ok()) return status;
      continue;
    }
    const auto known = at_.find(point->id);
    if (known != at_.end()) {
      ++stage->repeated;
      const Result& result = results_[known->second];
      told.id = result.id;
      told.status = result.status;
      told.value = result.value;
      told.repeated = true;
      if (absl::Status status = Say(told); !status.ok()) return status;
      continue;
    }
    if (!proposed_as_.emplace(point->id, *told.proposal).second) {
      ++stage->repeated;  // twice in one answer: told once, when it is measured
      continue;
    }
    stage->configurations.push_back(*std::move(point));
  }
  return absl::OkStatus();
}

void AskSearcher::Tell(std::span<const Searched> stage) {
  known_.clear();  // a stored first stage was theirs
  for (const Searched& each : stage) {
    if (!at_.emplace(each.configuration->id, results_.size()).second) continue;
    results_.push_back({each.configuration->id, each.configuration->params_json, each.status,
                        each.value, each.is_alias});
  }
}

std::vector<std::string> AskSearcher::Finalists() const {
  std::vector<const Result*> sound;
  for (const Result& each : results_) {
    if (each.value.has_value() && !each.is_alias) sound.push_back(&each);
  }
  std::stable_sort(sound.begin(), sound.end(),
                   [](const Result* a, const Result* b) { return *a->value < *b->value; });
  sound.resize(std::min<size_t>(sound.size(), kFinalists));
  std::vector<std::string> ids;
  for (const Result* each : sound) ids.push_back(each->id);
  return ids;
}

void AskSearcher::Finish() {
  constexpr std::chrono::milliseconds kToEnd(2000);
  if (!process_.has_value()) return;
  const Deadline deadline = MonotonicClock::now() + kToEnd;
  static_cast<void>(process_->Send(ProposerBye(), deadline));
  process_->End(deadline);
  process_.reset();
}

absl::Status AskSearcher::Start() {
  if (process_.has_value()) return absl::OkStatus();
  auto process = HarnessProcess::Start({.command = {"/bin/sh", "-c", options_.command},
                                        .role = "proposer",
                                        .stopped = options_.stopped});
  if (!process.ok()) return process.status();
  process_.emplace(*std::move(process));
  absl::Status status = Send(ProposerHello(space_, options_.seed, results_.size()));
  if (!status.ok()) return status;
  const auto answer = Receive();
  if (!answer.ok()) return answer.status();
  status = ParseProposerHello(*answer);
  return status.ok() ? status : Broken(status);
}

absl::StatusOr<std::vector<std::string>> AskSearcher::Ask(int64_t request, uint64_t count) {
  absl::Status status = Send(AskRequest(request, count));
  if (!status.ok()) return status;
  const auto answer = Receive();
  if (!answer.ok()) return answer.status();
  auto proposals = ParseProposals(*answer, request, count);
  if (!proposals.ok()) return Broken(proposals.status());
  return proposals;
}

absl::Status AskSearcher::SayWhatIsNew() {
  for (; said_ < results_.size(); ++said_) {
    const Result& result = results_[said_];
    Told told = {.id = result.id,
                 .params_json = result.params_json,
                 .status = result.status,
                 .value = result.value};
    const auto proposed = proposed_as_.find(result.id);
    if (proposed != proposed_as_.end()) told.proposal = proposed->second;
    if (absl::Status status = Say(told); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AskSearcher::Say(const Told& told) { return Send(TellRequest(told)); }

absl::Status AskSearcher::Send(const std::string& line) {
  const absl::Status status = process_->Send(line, MonotonicClock::now() + options_.answer_timeout);
  return status.ok() ? status : Broken(status);
}

absl::StatusOr<std::string> AskSearcher::Receive() {
  auto line = process_->Receive(MonotonicClock::now() + options_.answer_timeout);
  if (!line.ok()) return Broken(line.status());
  return line;
}

absl::Status AskSearcher::Broken(const absl::Status& status) {
  if (absl::IsCancelled(status)) return status;
  std::string why(status.message());
  if (absl::IsUnavailable(status)) why = absl::StrCat("it ended: ", process_->Ending());
  const std::string printed = process_->Printed();
  if (!printed.empty()) {
    absl::StrAppend(&why, "; it printed last: ", absl::StripAsciiWhitespace(printed));
  }
  process_.reset();
  return absl::UnavailableError(
      absl::StrCat("the proposer \"", options_.command, "\" does not work: ", why,
                   "; docs/space.md says what it should, and --resume goes on with what was "
                   "measured so far"));
}

}  // namespace xplane_time
