#include "tune/process_harness.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/harness_protocol.h"

namespace xplane_time {
namespace {

constexpr std::chrono::milliseconds kToCancel(2000);
constexpr int kTries = 2;           // of what crashes or hangs: twice is no accident
constexpr int kTransientTries = 4;  // of what nobody is to blame for

bool IsTransient(std::string_view status) {
  return status == "infra" || status == "throttled" || status == "no_events";
}

// A failure that a variant is to blame for.
bool IsOfAVariant(std::string_view status) {
  return status != "ok" && status != "cancelled" && !IsTransient(status);
}

}  // namespace

absl::StatusOr<HarnessInfo> ProcessHarness::Hello() {
  RETURN_IF_ERROR(EnsureStarted());
  return HarnessInfo(*hello_);
}

absl::Status ProcessHarness::EnsureStarted() {
  if (process_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(process_, HarnessProcess::Start(options_.process));
  prepared_.clear();
  const auto answer =
      Ask(0, HelloRequest(options_.session, options_.workloads), options_.hello_timeout);
  absl::Status status = answer.status();
  if (answer.ok() && !std::holds_alternative<HelloAnswer>(*answer)) {
    status = absl::InvalidArgumentError("its first answer is not hello");
  }
  if (!status.ok()) {
    ASSIGN_OR_RETURN(const auto failure, FailureOf(status));
    return Unavailable("the harness \"", options_.process.command[0],
                       "\" did not say hello: ", failure.message,
                       "; docs/harness.md says what it should");
  }
  const auto& hello = std::get<HelloAnswer>(*answer);
  if (hello_.has_value()) return CompareHello(hello);
  hello_ = hello;
  return absl::OkStatus();
}

// One that was started anew may have found another device, or other code: its times are not
// those of this session.
absl::Status ProcessHarness::CompareHello(const HelloAnswer& now) const {
  constexpr std::pair<const char*, std::string HarnessInfo::*> kParts[] = {
      {"device", &HarnessInfo::device}, {"device_class", &HarnessInfo::device_class},
      {"clock", &HarnessInfo::clock},   {"code_hash", &HarnessInfo::code_hash},
      {"driver", &HarnessInfo::driver}, {"versions", &HarnessInfo::framework},
      {"flags", &HarnessInfo::flags}};
  std::string all;
  for (const auto& [what, part] : kParts) {
    const std::string &before = (*hello_).*part, &after = now.*part;
    if (before == after) continue;
    absl::StrAppend(&all, " ", what, " \"", after, "\", not \"", before, "\";");
  }
  if (all.empty()) return absl::OkStatus();
  return Unavailable("the harness was started anew and is another one:", all,
                     " its times cannot be compared with those before; what was measured so far is "
                     "kept, and --resume goes on from there with a harness that is as the first");
}

absl::StatusOr<HarnessAnswer> ProcessHarness::Ask(int64_t request, std::string_view line,
                                                  std::chrono::milliseconds timeout) {
  const Deadline deadline = MonotonicClock::now() + timeout;
  RETURN_IF_ERROR(process_->Send(line, deadline));
  return Await(request, deadline);
}

// Late answers to earlier requests are passed over.
absl::StatusOr<HarnessAnswer> ProcessHarness::Await(int64_t request, Deadline deadline) {
  for (;;) {
    ASSIGN_OR_RETURN(auto line, process_->Receive(deadline));
    ASSIGN_OR_RETURN(auto answer, ParseAnswer(line));
    if (std::holds_alternative<HelloAnswer>(answer)) {
      if (request == 0) return answer;
      return absl::InvalidArgumentError("a hello that nobody asked for");
    }
    const int64_t answered = std::visit(
        [](const auto& each) -> int64_t {
          if constexpr (requires { each.request; }) return each.request;
          return 0;
        },
        answer);
    if (answered == request) return answer;
    if (answered > request) {
      return InvalidArgument("an answer to request ", answered, " while ", request,
                             " is waited for");
    }
  }
}

absl::StatusOr<ProcessHarness::Failure> ProcessHarness::FailureOf(const absl::Status& status) {
  if (absl::IsCancelled(status)) {
    process_.reset();
    return status;
  }
  Failure failure;
  if (absl::IsDeadlineExceeded(status)) {
    failure = {"timeout",
               "no answer in time; --prepare-timeout and --slot-timeout say how long to wait"};
  } else if (absl::IsUnavailable(status)) {
    const std::string ending = process_->Ending();
    failure = {StatusOfEnding(ending), absl::StrCat("it ended: ", ending)};
  } else {
    failure = {"infra", std::string(status.message())};
  }
  const std::string printed = process_->Printed();
  if (!printed.empty()) {
    absl::StrAppend(&failure.message,
                    "; it printed last: ", std::string(absl::StripAsciiWhitespace(printed)));
  }
  process_.reset();
  return failure;
}

// Of failures that no variant is to blame for.
absl::Status ProcessHarness::CountFailure(const Failure& failure) {
  if (++failures_in_a_row_ < options_.most_failures) return absl::OkStatus();
  return Unavailable("the harness failed ", failures_in_a_row_,
                     " times in a row, and no variant is to blame: ", failure.message,
                     "; what was measured so far is kept, and --resume goes on from there");
}

absl::StatusOr<VariantState> ProcessHarness::StateOf(const absl::Status& status) {
  ASSIGN_OR_RETURN(const auto failure, FailureOf(status));
  if (IsTransient(failure.status)) {  // it said what no harness says
    RETURN_IF_ERROR(CountFailure(failure));
  }
  return VariantState{failure.status, "", failure.message, {}};
}

absl::Status ProcessHarness::Prepare(std::span<const Configuration> variants,
                                     PreparedCallback done) {
  Preparing preparing;
  size_t next = 0;
  while (next < variants.size() || !preparing.waiting.empty()) {
    RETURN_IF_ERROR(EnsureStarted());
    absl::Status status;
    const auto most = static_cast<size_t>(hello_->parallel_prepare);
    while (status.ok() && next < variants.size() && preparing.waiting.size() < most) {
      const int64_t request = next_request_++;
      preparing.waiting.emplace(request, next);
      status = process_->Send(PrepareRequest(request, variants[next++]),
                              MonotonicClock::now() + options_.prepare_timeout);
    }
    if (status.ok()) status = TakePrepared(variants, &preparing, done);
    if (status.ok()) continue;
    // One of those under way is to blame: each alone.
    RETURN_IF_ERROR(StateOf(status).status());
    for (const auto& [request, variant] : std::exchange(preparing.waiting, {})) {
      preparing.again.push_back(variant);
    }
    RETURN_IF_ERROR(PrepareAgain(variants, &preparing, done));
  }
  return PrepareAgain(variants, &preparing, done);
}

absl::Status ProcessHarness::PrepareAgain(std::span<const Configuration> variants,
                                          Preparing* preparing, PreparedCallback done) {
  for (const size_t variant : std::exchange(preparing->again, {})) {
    ASSIGN_OR_RETURN(const auto state, PrepareAlone(variants[variant]));
    if (state.status == "ok") failures_in_a_row_ = 0;
    done(variant, state);
  }
  return absl::OkStatus();
}

// The next answer; late ones to other requests give no more time.
absl::Status ProcessHarness::TakePrepared(std::span<const Configuration> variants,
                                          Preparing* preparing, PreparedCallback done) {
  const Deadline deadline = MonotonicClock::now() + options_.prepare_timeout;
  for (;;) {
    ASSIGN_OR_RETURN(const auto line, process_->Receive(deadline));
    ASSIGN_OR_RETURN(const auto answer, ParseAnswer(line));
    const auto* prepared = std::get_if<PreparedAnswer>(&answer);
    if (prepared == nullptr) return absl::InvalidArgumentError("an answer that is not prepared");
    const auto at = preparing->waiting.find(prepared->request);
    if (at == preparing->waiting.end()) continue;
    const size_t variant = at->second;
    preparing->waiting.erase(at);
    if (IsTransient(prepared->status)) {
      preparing->again.push_back(variant);
      return absl::OkStatus();
    }
    failures_in_a_row_ = 0;
    if (prepared->status == "ok") prepared_.insert(variants[variant].id);
    done(variant, *prepared);
    return absl::OkStatus();
  }
}

template <typename Answer>
absl::StatusOr<VariantState> ProcessHarness::AskForState(
    absl::FunctionRef<std::string(int64_t request)> line, std::chrono::milliseconds timeout,
    const char* what) {
  const int64_t request = next_request_++;
  const auto answer = Ask(request, line(request), timeout);
  if (!answer.ok()) return StateOf(answer.status());
  if (const auto* state = std::get_if<Answer>(&*answer)) return VariantState(*state);
  return StateOf(InvalidArgument("an answer that is not ", what));
}

absl::StatusOr<VariantState> ProcessHarness::PrepareOnce(const Configuration& variant) {
  RETURN_IF_ERROR(EnsureStarted());
  if (prepared_.contains(variant.id)) return VariantState{};
  ASSIGN_OR_RETURN(
      auto state,
      AskForState<PreparedAnswer>([&](int64_t request) { return PrepareRequest(request, variant); },
                                  options_.prepare_timeout, "prepared"));
  if (state.status == "ok") prepared_.insert(variant.id);
  return state;
}

absl::StatusOr<VariantState> ProcessHarness::Try(
    absl::FunctionRef<absl::StatusOr<VariantState>()> once) {
  int ended = 0, in_vain = 0;
  for (;;) {
    ASSIGN_OR_RETURN(auto state, once());
    if (IsTransient(state.status)) {
      if (++in_vain == kTransientTries) return state;
    } else if (process_ != nullptr || ++ended == kTries) {
      return state;
    }
  }
}

absl::StatusOr<VariantState> ProcessHarness::PrepareAlone(const Configuration& variant) {
  return Try([&] { return PrepareOnce(variant); });
}

absl::StatusOr<VariantState> ProcessHarness::VerifyOnce(const Configuration& variant) {
  auto state = PrepareAlone(variant);
  if (!state.ok() || state->status != "ok") return state;
  return AskForState<VerifiedAnswer>(
      [&](int64_t request) { return VerifyRequest(request, variant.id); }, options_.slot_timeout,
      "verified");
}

absl::StatusOr<VariantState> ProcessHarness::Verify(const Configuration& variant) {
  auto state = Try([&] { return VerifyOnce(variant); });
  if (state.ok() && state->status == "ok") failures_in_a_row_ = 0;
  return state;
}

// What fails leaves the round, and the rest of it is run again.
absl::StatusOr<RoundTimes> ProcessHarness::RunRound(int64_t batch, int64_t round,
                                                    std::string_view workload, Order order) {
  RoundRequest request = {.batch = batch, .round = round, .calls = options_.calls};
  request.workload = workload;
  RoundTimes times;
  times.slots.resize(order.size(), SlotTime{"infra"});
  std::vector<size_t> left(order.size());
  std::iota(left.begin(), left.end(), size_t{0});
  while (!left.empty()) {
    std::vector<const Configuration*> order_left;
    for (const size_t slot : left) order_left.push_back(order[slot]);
    ASSIGN_OR_RETURN(auto result, RunOnce(request, order_left));
    if (auto* run = std::get_if<RoundTimes>(&result)) {
      for (size_t i = 0; i < left.size(); ++i) times.slots[left[i]] = run->slots[i];
      times.throttled = run->throttled;
      times.notes_json = run->notes_json;
      break;
    }
    ASSIGN_OR_RETURN(const auto guilty,
                     FindTheGuilty(request, order_left, std::get<Failure>(result)));
    std::erase_if(left, [&](size_t slot) {
      const auto found = guilty.find(order[slot]);
      if (found == guilty.end()) return false;
      times.slots[slot].status = found->second.status;
      times.slots[slot].message = found->second.message;
      return true;
    });
  }
  failures_in_a_row_ = 0;
  return times;
}

absl::StatusOr<ProcessHarness::Round> ProcessHarness::RunOnce(RoundRequest request, Order order,
                                                              bool confirms) {
  for (size_t slot = 0; slot < order.size(); ++slot) {
    ASSIGN_OR_RETURN(const auto state, PrepareAlone(*order[slot]));
    if (state.status != "ok") return Failure{state.status, state.message, slot};
    request.order.push_back(order[slot]->id);
  }
  // Preparing one may have ended the process that had prepared another.
  for (const Configuration* variant : order) {
    if (!prepared_.contains(variant->id)) return Failure{"infra", "the harness did not stay"};
  }
  request.request = next_request_++;
  const Deadline now = MonotonicClock::now();
  const absl::Status sent = process_->Send(RunRoundRequest(request), now + options_.slot_timeout);
  if (sent.ok()) return AwaitResult(request, order, now, confirms);
  ASSIGN_OR_RETURN(auto failure, FailureOf(sent));
  return failure;
}

// When the slots of a round began, and until when the one that runs may.
class ProcessHarness::Slots {
 public:
  Slots(RunLimit* limit, const ProcessHarnessOptions& options, const RoundRequest& request,
        Deadline sent, bool confirms)
      : limit_(limit),
        options_(options),
        request_(request),
        confirms_(confirms),
        sent_(sent),
        seen_(request.order.size()) {
    const auto slots = static_cast<int64_t>(request.order.size());
    latest_ = deadline_ = MonotonicClock::now() + options.slot_timeout * (slots + 1);
  }

  std::optional<size_t> running() const { return running_; }
  Deadline deadline() const { return deadline_; }
  bool is_limited() const { return is_limited_; }

  void Begin(size_t slot) {
    const Deadline now = MonotonicClock::now();
    seen_[slot].begin = now;
    if (running_ == slot) return;  // said again, it has no more time
    if (running_.has_value()) seen_[*running_].end = now;
    if (running_.has_value() && *running_ > 0 && slot > *running_) {
      took_.emplace_back(*running_, now - began_);
    }
    running_ = slot;
    began_ = now;
    const std::string& variant = request_.order[slot];
    std::optional<RunLimit::Duration> limit;
    if (confirms_) {
      limit = limit_->Alone(request_.workload, variant);
    } else if (request_.order.size() > 1) {
      const bool is_last = slot + 1 == request_.order.size();
      limit = limit_->Of(request_.workload, variant,
                         is_last     ? RunLimit::Place::kLast
                         : slot == 0 ? RunLimit::Place::kFirst
                                     : RunLimit::Place::kWithin);
    }
    is_limited_ = limit.has_value();
    most_ = limit.value_or(options_.slot_timeout);
    deadline_ = std::min(latest_, now + most_);
  }

  // The round is complete.
  void End() {
    done_ = MonotonicClock::now();
    if (!running_.has_value() || confirms_) return;
    limit_->Ended(request_.workload, done_ - began_);
    for (const auto& [slot, duration] : took_) {
      limit_->Took(request_.workload, request_.order[slot], duration);
    }
    limit_->EndRound();
  }

  // When its calls were timed. What the harness says holds where it lies within what was seen of
  // the round: another clock does not. Else it is from its last `slot` to what was said next.
  void Stamp(RoundTimes* times) const {
    const auto ns = [](Deadline at) {
      return std::chrono::nanoseconds(at.time_since_epoch()).count();
    };
    for (size_t slot = 0; slot < seen_.size(); ++slot) {
      SlotTime& at = times->slots[slot];
      const bool holds = at.begin_ns.has_value() && at.end_ns.has_value() &&
                         *at.begin_ns >= ns(sent_) && *at.begin_ns < *at.end_ns &&
                         *at.end_ns <= ns(done_);
      if (holds) continue;
      at.begin_ns.reset();
      at.end_ns.reset();
      if (!seen_[slot].begin.has_value()) continue;
      at.begin_ns = ns(*seen_[slot].begin);
      at.end_ns = ns(seen_[slot].end.value_or(done_));
    }
  }

  std::string OverLimit() const {
    const auto seconds = [](RunLimit::Duration duration) {
      return std::chrono::duration<double>(duration).count();
    };
    return absl::StrCat("a run of it took more than ", seconds(most_), " s, and the fastest takes ",
                        seconds(limit_->Fastest(request_.workload)), " s: --run-limit ",
                        limit_->times());
  }

 private:
  RunLimit* limit_;
  const ProcessHarnessOptions& options_;
  const RoundRequest& request_;
  const bool confirms_;
  const Deadline sent_;
  Deadline done_;
  struct Seen {
    std::optional<Deadline> begin = {}, end = {};
  };
  std::vector<Seen> seen_;
  std::optional<size_t> running_;
  Deadline began_, deadline_, latest_;  // latest_: of the round
  bool is_limited_ = false;
  RunLimit::Duration most_{0};  // of the slot that runs
  std::vector<std::pair<size_t, RunLimit::Duration>> took_;
};

absl::StatusOr<ProcessHarness::Round> ProcessHarness::AwaitResult(const RoundRequest& request,
                                                                  Order order, Deadline sent,
                                                                  bool confirms) {
  Slots slots(&limit_, options_, request, sent, confirms);
  for (;;) {
    auto answer = Await(request.request, slots.deadline());
    absl::Status status = answer.status();
    if (const auto* slot = answer.ok() ? std::get_if<SlotAnswer>(&*answer) : nullptr) {
      if (static_cast<size_t>(slot->slot) < order.size()) {
        slots.Begin(static_cast<size_t>(slot->slot));
        continue;
      }
      status = InvalidArgument("slot ", slot->slot, " of ", order.size());
    } else if (auto* result = answer.ok() ? std::get_if<ResultAnswer>(&*answer) : nullptr) {
      // It blames nobody, or all: which one it was is found by running each alone.
      if (IsOfAVariant(result->status)) {
        const std::string said = result->message.empty() ? "" : ": " + result->message;
        return Failure{result->status,
                       absl::StrCat("the round's status is ", result->status, said)};
      }
      slots.End();
      auto times = TimesOfResult(*result, request);
      if (times.ok()) {
        slots.Stamp(&*times);
        return *std::move(times);
      }
      if (absl::IsDataLoss(times.status())) {
        return Failure{"no_events", std::string(times.status().message())};
      }
      status = times.status();
    } else if (answer.ok()) {
      status = absl::InvalidArgumentError("an answer that is no result");
    }
    if (absl::IsCancelled(status)) {
      // It may say what it has; nobody waits for long.
      static_cast<void>(
          process_->Send(CancelRequest(request.request), MonotonicClock::now() + kToCancel));
    }
    ASSIGN_OR_RETURN(auto failure, FailureOf(status));
    if (!IsTransient(failure.status)) failure.slot = slots.running();
    failure.over_limit = failure.status == "timeout" && slots.is_limited();
    if (failure.over_limit) failure.message = slots.OverLimit();
    return failure;
  }
}

// The machine may have stood still: once is nobody's fault. It runs again, alone and with
// more than twice the time; where that is enough, it is slow, and the limit is not for it.
absl::StatusOr<ProcessHarness::Guilty> ProcessHarness::ConfirmOverLimit(const RoundRequest& request,
                                                                        Order order,
                                                                        const Failure& failure) {
  ASSIGN_OR_RETURN(auto alone,
                   RunOnce(request, order.subspan(*failure.slot, 1), /*confirms=*/true));
  const Configuration* variant = order[*failure.slot];
  const auto* failed = std::get_if<Failure>(&alone);
  Guilty guilty;
  if (failed != nullptr && !IsTransient(failed->status)) {
    guilty.emplace(variant, *failed);
  } else if (failed == nullptr) {
    limit_.Exempt(variant->id);
  } else
    RETURN_IF_ERROR(CountFailure(*failed));
  return guilty;
}

// Statuses of those to blame. Where nobody knows which one ran, each is run alone. Nobody to
// blame is counted.
absl::StatusOr<ProcessHarness::Guilty> ProcessHarness::FindTheGuilty(const RoundRequest& request,
                                                                     Order order,
                                                                     const Failure& failure) {
  if (failure.over_limit) return ConfirmOverLimit(request, order, failure);
  Guilty guilty;
  const bool blames = !IsTransient(failure.status);
  if (blames && (failure.slot.has_value() || order.size() == 1)) {
    guilty[order[failure.slot.value_or(0)]] = failure;
    return guilty;
  }
  std::set<const Configuration*> tried;
  for (size_t slot = 0; blames && slot < order.size(); ++slot) {
    if (!tried.insert(order[slot]).second) continue;
    ASSIGN_OR_RETURN(auto alone, RunOnce(request, order.subspan(slot, 1)));
    const auto* failed = std::get_if<Failure>(&alone);
    if (failed != nullptr && !IsTransient(failed->status)) guilty[order[slot]] = *failed;
  }
  if (!guilty.empty()) return guilty;
  RETURN_IF_ERROR(CountFailure(failure));
  return guilty;
}

void ProcessHarness::Finish() {
  if (process_ == nullptr) return;
  const Deadline deadline = MonotonicClock::now() + kToCancel;
  static_cast<void>(process_->Send(ByeRequest(), deadline));
  process_->End(deadline);
  process_.reset();
}

}  // namespace xplane_time
