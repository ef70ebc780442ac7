#include "tune/process_harness.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/harness_protocol.h"
#include "tune/measuring.h"

namespace xplane_time {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kToCancel(2000);
constexpr int kTries = 2;           // of what crashes or hangs: twice is no accident
constexpr int kTransientTries = 4;  // of what nobody is to blame for

bool IsTransient(std::string_view status) {
  return status == "infra" || status == "throttled" || status == "no_events";
}

// How a request ended that was not answered as it should be.
struct Failure {
  std::string status, message;      // crash(11), timeout, oom, infra, no_events, ...
  std::optional<size_t> slot = {};  // of the variant to blame
  bool over_limit = false;          // of runs; not over the timeout
};

// When the slots of a round began, and until when the one that runs may.
struct Slots {
  RunLimit& limit;
  const milliseconds timeout;
  const RoundRequest& request;
  const Deadline sent;
  const bool confirms;

  struct Seen {
    std::optional<Deadline> begin = {}, end = {};
  };
  std::vector<Seen> seen = std::vector<Seen>(request.order.size());
  const Deadline latest =
      MonotonicClock::now() + timeout * (static_cast<int64_t>(request.order.size()) + 1);
  Deadline deadline = latest, began = {}, done = {};
  std::optional<size_t> running = {};
  bool is_limited = false;
  RunLimit::Duration most{0};  // of the slot that runs
  std::vector<std::pair<size_t, RunLimit::Duration>> took = {};

  void Begin(size_t slot) {
    const Deadline now = MonotonicClock::now();
    seen[slot].begin = now;
    if (running == slot) return;  // said again, it has no more time
    if (running.has_value()) seen[*running].end = now;
    if (running.has_value() && *running > 0 && slot > *running) {
      took.emplace_back(*running, now - began);
    }
    running = slot;
    began = now;
    const std::string& variant = request.order[slot];
    std::optional<RunLimit::Duration> allowed;
    if (confirms) {
      allowed = limit.Alone(request.workload, variant);
    } else if (request.order.size() > 1) {
      const bool is_last = slot + 1 == request.order.size();
      allowed = limit.Of(request.workload, variant,
                         is_last     ? RunLimit::Place::kLast
                         : slot == 0 ? RunLimit::Place::kFirst
                                     : RunLimit::Place::kWithin);
    }
    is_limited = allowed.has_value();
    most = allowed.value_or(timeout);
    deadline = std::min(latest, now + most);
  }

  // The round is complete.
  void End() {
    done = MonotonicClock::now();
    if (!running.has_value() || confirms) return;
    limit.Ended(request.workload, done - began);
    for (const auto& [slot, duration] : took) {
      limit.Took(request.workload, request.order[slot], duration);
    }
    limit.EndRound();
  }

  // When its calls were timed. What the harness says holds where it lies within what was seen of
  // the round: another clock does not. Else it is from its last `slot` to what was said next.
  void Stamp(RoundTimes* times) const {
    const auto ns = [](Deadline at) {
      return std::chrono::nanoseconds(at.time_since_epoch()).count();
    };
    for (size_t slot = 0; slot < seen.size(); ++slot) {
      SlotTime& at = times->slots[slot];
      const bool holds = at.begin_ns.has_value() && at.end_ns.has_value() &&
                         *at.begin_ns >= ns(sent) && *at.begin_ns < *at.end_ns &&
                         *at.end_ns <= ns(done);
      if (holds) continue;
      at.begin_ns.reset();
      at.end_ns.reset();
      if (!seen[slot].begin.has_value()) continue;
      at.begin_ns = ns(*seen[slot].begin);
      at.end_ns = ns(seen[slot].end.value_or(done));
    }
  }

  std::string OverLimit() const {
    const auto seconds = [](RunLimit::Duration duration) {
      return std::chrono::duration<double>(duration).count();
    };
    return absl::StrCat("a run of it took more than ", seconds(most), " s, and the fastest takes ",
                        seconds(limit.Fastest(request.workload)), " s: --run-limit ",
                        limit.times());
  }
};

class Process : public ProcessHarness {
 public:
  explicit Process(ProcessHarnessOptions options)
      : options_(std::move(options)), limit_(options_.run_limit, options_.slot_timeout) {}

  absl::StatusOr<HarnessInfo> Hello() override {
    RETURN_IF_ERROR(EnsureStarted());
    return HarnessInfo(*hello_);
  }

  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override {
    Preparing preparing = {variants, done};
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
      if (status.ok()) status = TakePrepared(&preparing);
      if (status.ok()) continue;
      // One of those under way is to blame: each alone.
      RETURN_IF_ERROR(StateOf(status).status());
      for (const auto& [request, variant] : std::exchange(preparing.waiting, {})) {
        preparing.again.push_back(variant);
      }
      RETURN_IF_ERROR(PrepareAgain(&preparing));
    }
    return PrepareAgain(&preparing);
  }

  absl::StatusOr<VariantState> Verify(const Configuration& variant) override {
    auto state = Try([&]() -> absl::StatusOr<VariantState> {
      auto prepared = PrepareAlone(variant);
      if (!prepared.ok() || prepared->status != "ok") return prepared;
      return AskForState<VerifiedAnswer>(
          [&](int64_t request) { return VerifyRequest(request, variant.id); },
          options_.slot_timeout, "verified");
    });
    if (state.ok() && state->status == "ok") failures_in_a_row_ = 0;
    return state;
  }

  // What fails leaves the round, and the rest of it is run again.
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override {
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

  void Finish() override {
    if (process_ == nullptr) return;
    const Deadline deadline = MonotonicClock::now() + kToCancel;
    static_cast<void>(process_->Send(ByeRequest(), deadline));
    process_->End(deadline);
    process_.reset();
  }

 private:
  using Order = std::span<const Configuration* const>;
  using Round = std::variant<RoundTimes, Failure>;
  using Guilty = std::map<const Configuration*, Failure>;

  absl::Status EnsureStarted() {
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
  absl::Status CompareHello(const HelloAnswer& now) const {
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
                       " its times cannot be compared with those before; what was measured so far "
                       "is kept, and --resume goes on from there with a harness that is as the "
                       "first");
  }

  // Sends, and waits for the answer to `request`.
  absl::StatusOr<HarnessAnswer> Ask(int64_t request, std::string_view line, milliseconds timeout) {
    const Deadline deadline = MonotonicClock::now() + timeout;
    RETURN_IF_ERROR(process_->Send(line, deadline));
    return Await(request, deadline);
  }

  // Late answers to earlier requests are passed over.
  absl::StatusOr<HarnessAnswer> Await(int64_t request, Deadline deadline) {
    for (;;) {
      ASSIGN_OR_RETURN(auto line, process_->Receive(deadline));
      ASSIGN_OR_RETURN(auto answer, ParseAnswer(line));
      if (request != 0 && std::holds_alternative<HelloAnswer>(answer)) {
        return absl::InvalidArgumentError("a hello that nobody asked for");
      }
      const auto answered = std::visit([](const auto& each) { return each.request; }, answer);
      if (answered == request) return answer;
      if (answered > request) {
        return InvalidArgument("an answer to request ", answered, " while ", request,
                               " is waited for");
      }
    }
  }

  // Of a harness that did not answer as it should; it is gone then. Errors: Cancelled.
  absl::StatusOr<Failure> FailureOf(const absl::Status& status) {
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
  absl::Status CountFailure(const Failure& failure) {
    if (++failures_in_a_row_ < options_.most_failures) return absl::OkStatus();
    return Unavailable("the harness failed ", failures_in_a_row_,
                       " times in a row, and no variant is to blame: ", failure.message,
                       "; what was measured so far is kept, and --resume goes on from there");
  }

  // FailureOf a request that is about one variant. Errors: CountFailure's too.
  absl::StatusOr<VariantState> StateOf(const absl::Status& status) {
    ASSIGN_OR_RETURN(const auto failure, FailureOf(status));
    if (IsTransient(failure.status)) {  // it said what no harness says
      RETURN_IF_ERROR(CountFailure(failure));
    }
    return VariantState{failure.status, "", failure.message, {}};
  }

  struct Preparing {
    std::span<const Configuration> variants;
    PreparedCallback done;
    std::map<int64_t, size_t> waiting = {};  // under way, by request
    std::vector<size_t> again = {};          // to be tried alone
  };

  absl::Status PrepareAgain(Preparing* preparing) {
    for (const size_t variant : std::exchange(preparing->again, {})) {
      ASSIGN_OR_RETURN(const auto state, PrepareAlone(preparing->variants[variant]));
      if (state.status == "ok") failures_in_a_row_ = 0;
      preparing->done(variant, state);
    }
    return absl::OkStatus();
  }

  // The next answer; late ones to other requests give no more time.
  absl::Status TakePrepared(Preparing* preparing) {
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
      if (prepared->status == "ok") prepared_.insert(preparing->variants[variant].id);
      preparing->done(variant, *prepared);
      return absl::OkStatus();
    }
  }

  // An answer about one variant, named `what`.
  template <typename Answer>
  absl::StatusOr<VariantState> AskForState(auto line, milliseconds timeout, const char* what) {
    const int64_t request = next_request_++;
    const auto answer = Ask(request, line(request), timeout);
    if (!answer.ok()) return StateOf(answer.status());
    if (const auto* state = std::get_if<Answer>(&*answer)) return VariantState(*state);
    return StateOf(InvalidArgument("an answer that is not ", what));
  }

  // Once more, and a few times where nobody is to blame.
  absl::StatusOr<VariantState> Try(absl::FunctionRef<absl::StatusOr<VariantState>()> once) {
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

  absl::StatusOr<VariantState> PrepareAlone(const Configuration& variant) {
    return Try([&]() -> absl::StatusOr<VariantState> {
      RETURN_IF_ERROR(EnsureStarted());
      if (prepared_.contains(variant.id)) return VariantState{};
      auto state = AskForState<PreparedAnswer>(
          [&](int64_t request) { return PrepareRequest(request, variant); },
          options_.prepare_timeout, "prepared");
      if (state.ok() && state->status == "ok") prepared_.insert(variant.id);
      return state;
    });
  }

  // `confirms`: a slot that was over the limit, alone.
  absl::StatusOr<Round> RunOnce(RoundRequest request, Order order, bool confirms = false) {
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
    if (sent.ok()) return AwaitResult(request, now, confirms);
    ASSIGN_OR_RETURN(auto failure, FailureOf(sent));
    return failure;
  }

  absl::StatusOr<Round> AwaitResult(const RoundRequest& request, Deadline sent, bool confirms) {
    Slots slots = {limit_, options_.slot_timeout, request, sent, confirms};
    for (;;) {
      auto answer = Await(request.request, slots.deadline);
      absl::Status status = answer.status();
      if (const auto* slot = answer.ok() ? std::get_if<SlotAnswer>(&*answer) : nullptr) {
        if (static_cast<size_t>(slot->slot) < request.order.size()) {
          slots.Begin(static_cast<size_t>(slot->slot));
          continue;
        }
        status = InvalidArgument("slot ", slot->slot, " of ", request.order.size());
      } else if (auto* result = answer.ok() ? std::get_if<ResultAnswer>(&*answer) : nullptr) {
        // It blames nobody, or all: which one it was is found by running each alone.
        const std::string& of = result->status;
        if (of != "ok" && of != "cancelled" && !IsTransient(of)) {
          const std::string said = result->message.empty() ? "" : ": " + result->message;
          return Failure{of, absl::StrCat("the round's status is ", of, said)};
        }
        slots.End();
        auto times = TimesOfResult(*result, request);
        if (times.ok()) {
          slots.Stamp(&*times);
          return *std::move(times);
        }
        status = times.status();
        if (absl::IsDataLoss(status)) return Failure{"no_events", std::string(status.message())};
      } else if (answer.ok()) {
        status = absl::InvalidArgumentError("an answer that is no result");
      }
      if (absl::IsCancelled(status)) {
        // It may say what it has; nobody waits for long.
        static_cast<void>(
            process_->Send(CancelRequest(request.request), MonotonicClock::now() + kToCancel));
      }
      ASSIGN_OR_RETURN(auto failure, FailureOf(status));
      if (!IsTransient(failure.status)) failure.slot = slots.running;
      failure.over_limit = failure.status == "timeout" && slots.is_limited;
      if (failure.over_limit) failure.message = slots.OverLimit();
      return failure;
    }
  }

  // The machine may have stood still: once is nobody's fault. It runs again, alone and with
  // more than twice the time; where that is enough, it is slow, and the limit is not for it.
  absl::StatusOr<Guilty> ConfirmOverLimit(const RoundRequest& request, Order order,
                                          const Failure& failure) {
    const Order one = order.subspan(*failure.slot, 1);
    ASSIGN_OR_RETURN(auto alone, RunOnce(request, one, /*confirms=*/true));
    const auto* failed = std::get_if<Failure>(&alone);
    if (failed != nullptr && !IsTransient(failed->status)) return Guilty{{one[0], *failed}};
    if (failed == nullptr) limit_.Exempt(one[0]->id);
    if (failed != nullptr) RETURN_IF_ERROR(CountFailure(*failed));
    return Guilty();
  }

  // Statuses of those to blame. Where nobody knows which one ran, each is run alone. Nobody to
  // blame is counted.
  absl::StatusOr<Guilty> FindTheGuilty(const RoundRequest& request, Order order,
                                       const Failure& failure) {
    if (failure.over_limit) return ConfirmOverLimit(request, order, failure);
    const bool blames = !IsTransient(failure.status);
    if (blames && (failure.slot.has_value() || order.size() == 1)) {
      return Guilty{{order[failure.slot.value_or(0)], failure}};
    }
    Guilty guilty;
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

  ProcessHarnessOptions options_;
  std::unique_ptr<HarnessProcess> process_;
  std::optional<HelloAnswer> hello_;
  std::set<std::string> prepared_;  // by this process
  int64_t next_request_ = 1;
  int failures_in_a_row_ = 0;
  RunLimit limit_;
};

}  // namespace

std::unique_ptr<ProcessHarness> ProcessHarness::New(ProcessHarnessOptions options) {
  return std::make_unique<Process>(std::move(options));
}

}  // namespace xplane_time
