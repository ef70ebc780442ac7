// A harness process: starts it, asks it with deadlines, restarts it, and finds the variant that is
// responsible for a failure.
//
//   prepare   several variants at once. If the process ends, each of them is tried alone, because
//             any of them may be responsible.
//   round     RunOnce prepares what this process has not prepared, sends the order and follows the
//             slots (Slots). If it fails, the variant of the running slot is responsible. If no
//             slot is known, each variant runs alone. The responsible variant leaves the round, and
//             the rest runs again.
//   limits    the end of a slot must come before its timeout and its run limit (RunLimit). A run
//             over the limit is repeated alone with more time, because the machine may have stood
//             still.
//
// A transient status (infra, throttled, no_events) counts against the harness, not against a
// variant. After `most_failures` in a row, the harness is unavailable.
#include "tune/process_harness.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "harness/messages.h"
#include "status.h"
#include "tune/harness_protocol.h"
#include "tune/measuring.h"

namespace xplane_time {
namespace {

using std::chrono::milliseconds;
using Order = std::span<const Configuration* const>;

constexpr int kTries = 2;           // for a crash or a hang: twice is no accident
constexpr int kTransientTries = 4;  // for transient failures

bool IsTransient(std::string_view status) {
  return status == "infra" || status == "throttled" || status == "no_events";
}

// The end of a round: its times, or a failure.
struct RoundEnd {
  VariantState state = {};          // ok, crash(11), timeout, oom, infra, no_events, ...
  RoundTimes times = {};            // valid if the state is ok
  std::optional<size_t> slot = {};  // slot of the responsible variant, if it failed
  bool over_limit = false;          // it exceeded the run limit, not the timeout
  bool blames() const { return state.status != "ok" && !IsTransient(state.status); }
};

// The begin times of a round's slots, and the deadline of the running one.
struct Slots {
  RunLimit& limit;
  const milliseconds timeout;
  const RoundRequest& request;
  const bool confirms;

  // The harness may report a begin twice: the second time after the untimed run.
  struct Seen {
    Deadline first = {}, last = {}, end = {};
  };
  std::vector<Seen> seen = std::vector<Seen>(request.order.size());
  const Deadline sent = MonotonicClock::now();
  const Deadline latest = sent + timeout * (static_cast<int64_t>(request.order.size()) + 1);
  Deadline deadline = latest;
  std::optional<size_t> running = {};
  bool is_limited = false;
  RunLimit::Duration most{0};  // limit of the running slot

  void Begin(size_t slot) {
    const Deadline now = MonotonicClock::now();
    seen[slot].last = now;
    if (running == slot) return;  // reported again; the deadline does not change
    if (running.has_value()) seen[*running].end = now;
    seen[slot].first = now;
    running = slot;
    const auto allowed = Allowed(slot);
    is_limited = allowed.has_value();
    most = allowed.value_or(timeout);
    deadline = std::min(latest, now + most);
  }

  std::optional<RunLimit::Duration> Allowed(size_t slot) const {
    const std::string& variant = request.order[slot];
    if (confirms) return limit.Alone(request.workload, variant);
    if (request.order.size() == 1) return std::nullopt;
    return limit.Of(request.workload, variant, slot, request.order.size());
  }

  // Call when the round is complete. Sets when the timed calls ran. The harness's own times are
  // used if they lie within the observed round (another clock's do not). Otherwise the times are
  // from the slot's last `slot` message to the next message.
  void End(Deadline done, RoundTimes* times) {
    if (running.has_value()) seen[*running].end = done;
    if (running.has_value() && !confirms) {
      std::vector<RunLimit::Slot> took;
      for (size_t slot = 1; slot < seen.size(); ++slot) {
        if (slot == running || seen[slot].end == Deadline()) continue;
        took.emplace_back(request.order[slot], seen[slot].end - seen[slot].first);
      }
      limit.EndRound(request.workload, took, done - seen[*running].first);
    }
    const auto ns = [](Deadline at) {
      return std::chrono::nanoseconds(at.time_since_epoch()).count();
    };
    for (size_t slot = 0; slot < seen.size(); ++slot) {
      SlotTime& at = times->slots[slot];
      const bool holds = at.begin_ns.has_value() && at.end_ns.has_value() &&
                         *at.begin_ns >= ns(sent) && *at.begin_ns < *at.end_ns &&
                         *at.end_ns <= ns(done);
      if (holds) continue;
      const bool was_seen = seen[slot].end != Deadline();
      at.begin_ns = was_seen ? std::optional(ns(seen[slot].last)) : std::nullopt;
      at.end_ns = was_seen ? std::optional(ns(seen[slot].end)) : std::nullopt;
    }
  }

  std::string OverLimit() const {
    const auto seconds = [](RunLimit::Duration duration) {
      return std::chrono::duration<double>(duration).count();
    };
    return absl::StrCat("a run took more than ", seconds(most), " s, but the fastest run takes ",
                        seconds(limit.Fastest(request.workload)), " s: --run-limit ",
                        limit.times());
  }
};

class Process : public Harness {
 public:
  explicit Process(ProcessHarnessOptions options)
      : options_(std::move(options)), limit_(options_.run_limit, options_.slot_timeout) {}
  ~Process() override {
    if (process_ != nullptr) process_->SayBye();
  }

  absl::StatusOr<HarnessInfo> Hello() override {
    RETURN_IF_ERROR(EnsureStarted());
    return hello_->hello;
  }

  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override {
    std::map<int64_t, size_t> waiting;  // in progress, by request
    std::vector<size_t> alone;          // to be tried alone
    for (size_t next = 0; next < variants.size() || !waiting.empty();) {
      RETURN_IF_ERROR(EnsureStarted());
      absl::Status status;
      const auto most = static_cast<size_t>(hello_->parallel_prepare);
      while (status.ok() && next < variants.size() && waiting.size() < most) {
        waiting.emplace(next_request_, next);
        status = process_->Send(PrepareRequest(next_request_++, variants[next++]),
                                MonotonicClock::now() + options_.prepare_timeout);
      }
      if (status.ok()) {
        const auto answer = Await("prepared", MonotonicClock::now() + options_.prepare_timeout,
                                  [&](int64_t request) { return waiting.contains(request); });
        status = answer.status();
        if (status.ok()) {
          const size_t variant = waiting.extract(answer->request).mapped();
          if (!TakePrepared(variants[variant], answer->state)) {
            alone.push_back(variant);
          } else {
            done(variant, answer->state);
          }
          continue;
        }
      }
      // One of those in progress is responsible, so try each alone.
      RETURN_IF_ERROR(StateOf(status).status());
      for (const auto& [request, variant] : std::exchange(waiting, {})) alone.push_back(variant);
      RETURN_IF_ERROR(PrepareEach(variants, std::exchange(alone, {}), done));
    }
    return PrepareEach(variants, alone, done);
  }

  absl::StatusOr<VariantState> Verify(const Configuration& variant) override {
    auto state = Try([&]() -> absl::StatusOr<VariantState> {
      auto prepared = PrepareAlone(variant);
      if (!prepared.ok() || prepared->status != "ok") return prepared;
      return AskForState(
          "verified",
          harness::Line("verify", {{"request", next_request_}, {"variant", variant.id}}),
          options_.slot_timeout);
    });
    if (state.ok() && state->status == "ok") failures_in_a_row_ = 0;
    return state;
  }

  // A failed variant leaves the round, and the rest runs again.
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      Order order) override {
    RoundRequest request = {.batch = batch, .round = round, .calls = options_.calls};
    request.workload = workload;
    RoundTimes times;
    times.slots.resize(order.size(), SlotTime{"infra"});
    std::vector<size_t> left(order.size());
    std::iota(left.begin(), left.end(), size_t{0});
    while (!left.empty()) {
      std::vector<const Configuration*> order_left;
      for (const size_t slot : left) order_left.push_back(order[slot]);
      ASSIGN_OR_RETURN(const auto run, RunOnce(request, order_left));
      if (run.state.status == "ok") {
        for (size_t i = 0; i < left.size(); ++i) times.slots[left[i]] = run.times.slots[i];
        times.throttled = run.times.throttled;
        times.notes_json = run.times.notes_json;
        break;
      }
      ASSIGN_OR_RETURN(const auto guilty, FindTheGuilty(request, order_left, run));
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

 private:
  static constexpr std::string_view kLate =
      "no answer in time; --prepare-timeout and --slot-timeout set the limits";
  using Guilty = std::map<const Configuration*, VariantState>;

  absl::Status EnsureStarted() {
    if (process_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(process_, HarnessProcess::Start(options_.process));
    prepared_.clear();
    const auto answer =
        Ask("hello", 0, HelloRequest(options_.session, options_.workloads), options_.hello_timeout);
    if (!answer.ok()) {
      const double seconds = std::chrono::duration<double>(options_.hello_timeout).count();
      ASSIGN_OR_RETURN(const auto failure,
                       FailureOf(answer.status(),
                                 absl::StrCat("no answer within ", seconds,
                                              " s, so it was killed; make it send hello before it "
                                              "does long work, or raise --hello-timeout")));
      return Unavailable("the harness \"", options_.process.command[0],
                         "\" did not send hello: ", failure.message,
                         "; docs/harness.md describes the protocol");
    }
    if (hello_.has_value()) return CompareHello(answer->hello);
    hello_ = *answer;
    return absl::OkStatus();
  }

  // A restarted harness may have found another device or other code; its times would not belong to
  // this session.
  absl::Status CompareHello(const HarnessInfo& now) const {
    std::string all;
    const auto compare = [&](const char* what, const std::string& before,
                             const std::string& after) {
      if (before != after)
        absl::StrAppend(&all, " ", what, " \"", after, "\", not \"", before, "\";");
    };
    compare("device", hello_->hello.device, now.device);
    for (const auto& [what, part] : kTimesHoldFor) compare(what, hello_->hello.*part, now.*part);
    if (all.empty()) return absl::OkStatus();
    return Unavailable("the harness changed after a restart:", all,
                       " the new times cannot be compared with earlier ones. All measurements so "
                       "far are stored; continue with --resume and the first harness");
  }

  // Sends a line and waits for the answer to `request`.
  absl::StatusOr<HarnessAnswer> Ask(std::string_view type, int64_t request, std::string_view line,
                                    milliseconds timeout) {
    const Deadline deadline = MonotonicClock::now() + timeout;
    RETURN_IF_ERROR(process_->Send(line, deadline));
    return Await(type, deadline, [request](int64_t each) { return each == request; });
  }

  // The next answer of this type or, while waiting for a result, a `slot` message. Skips late
  // answers to earlier requests.
  absl::StatusOr<HarnessAnswer> Await(std::string_view type, Deadline deadline,
                                      absl::FunctionRef<bool(int64_t request)> is_awaited) {
    for (;;) {
      ASSIGN_OR_RETURN(const auto line, process_->Receive(deadline));
      ASSIGN_OR_RETURN(auto answer, ParseAnswer(line));
      if (answer.type == "hello" && type != "hello") {
        return absl::InvalidArgumentError("an unexpected hello");
      }
      if (answer.request >= next_request_) {
        return InvalidArgument("an answer to request ", answer.request, ", which was never sent");
      }
      if (!is_awaited(answer.request)) continue;
      if (answer.type == type || (answer.type == "slot" && type == "result")) return answer;
      return InvalidArgument("an answer of another type than ", type);
    }
  }

  // The failure of a request that was not answered correctly; the harness process has ended then.
  // `late`: the message if it exceeded a time limit. Errors: Cancelled.
  absl::StatusOr<VariantState> FailureOf(const absl::Status& status, std::string_view late = kLate,
                                         std::string_view cancel = {}) {
    if (absl::IsCancelled(status)) {
      if (process_ != nullptr) process_->SayBye(cancel);
      process_.reset();
      return status;
    }
    const auto loss = process_->LossBy(
        absl::IsDeadlineExceeded(status) ? absl::DeadlineExceededError(std::string(late)) : status);
    process_.reset();
    return VariantState{.status = loss.status, .message = loss.message};
  }

  // Counts a failure that no variant is responsible for.
  absl::Status CountFailure(const VariantState& failure) {
    if (++failures_in_a_row_ < options_.most_failures) return absl::OkStatus();
    return Unavailable("the harness failed ", failures_in_a_row_,
                       " times in a row, and no variant caused it: ", failure.message,
                       "; all measurements so far are stored; continue with --resume");
  }

  // FailureOf, for a request about one variant. Errors: also those of CountFailure.
  absl::StatusOr<VariantState> StateOf(const absl::Status& status) {
    ASSIGN_OR_RETURN(auto failure, FailureOf(status));
    if (IsTransient(failure.status)) {  // an answer that violates the protocol
      RETURN_IF_ERROR(CountFailure(failure));
    }
    return failure;
  }

  // Returns false for a transient failure.
  bool TakePrepared(const Configuration& variant, const VariantState& state) {
    if (IsTransient(state.status)) return false;
    failures_in_a_row_ = 0;
    if (state.status == "ok") prepared_.insert(variant.id);
    return true;
  }

  absl::Status PrepareEach(std::span<const Configuration> variants,
                           const std::vector<size_t>& alone, PreparedCallback done) {
    for (const size_t variant : alone) {
      ASSIGN_OR_RETURN(const auto state, PrepareAlone(variants[variant]));
      if (state.status == "ok") failures_in_a_row_ = 0;
      done(variant, state);
    }
    return absl::OkStatus();
  }

  // Sends `line`, which has the next request number, and returns the answer about its variant.
  absl::StatusOr<VariantState> AskForState(std::string_view type, const std::string& line,
                                           milliseconds timeout) {
    const int64_t request = next_request_++;
    const auto answer = Ask(type, request, line, timeout);
    return answer.ok() ? answer->state : StateOf(answer.status());
  }

  // Repeats a crash once, and transient failures a few times.
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
      auto state =
          AskForState("prepared", PrepareRequest(next_request_, variant), options_.prepare_timeout);
      if (state.ok() && state->status == "ok") prepared_.insert(variant.id);
      return state;
    });
  }

  // `confirms`: a slot that exceeded the limit runs again, alone.
  absl::StatusOr<RoundEnd> RunOnce(RoundRequest request, Order order, bool confirms = false) {
    for (size_t slot = 0; slot < order.size(); ++slot) {
      ASSIGN_OR_RETURN(const auto state, PrepareAlone(*order[slot]));
      if (state.status != "ok") return RoundEnd{.state = state, .slot = slot};
      request.order.push_back(order[slot]->id);
    }
    // Preparing one variant may have ended the process that had prepared another.
    for (const Configuration* variant : order) {
      if (prepared_.contains(variant->id)) continue;
      return RoundEnd{
          .state = {.status = "infra", .message = "the harness ended between prepare and run"}};
    }
    request.request = next_request_++;
    Slots slots = {limit_, options_.slot_timeout, request, confirms};
    auto end = RunTo(&slots);
    if (end.ok()) return end;
    RoundEnd failed;
    ASSIGN_OR_RETURN(
        failed.state,
        FailureOf(end.status(), kLate, harness::Line("cancel", {{"request", request.request}})));
    if (failed.blames()) failed.slot = slots.running;
    failed.over_limit = failed.state.status == "timeout" && slots.is_limited;
    if (failed.over_limit) failed.state.message = slots.OverLimit();
    return failed;
  }

  // Errors: those of a harness that does not answer correctly.
  absl::StatusOr<RoundEnd> RunTo(Slots* slots) {
    const RoundRequest& request = slots->request;
    RETURN_IF_ERROR(process_->Send(RunRoundRequest(request), slots->sent + options_.slot_timeout));
    for (;;) {
      ASSIGN_OR_RETURN(const auto answer, Await("result", slots->deadline, [&](int64_t each) {
                         return each == request.request;
                       }));
      if (answer.type == "slot") {
        const auto slot = static_cast<size_t>(answer.slot);
        if (slot >= request.order.size()) {
          return InvalidArgument("slot ", slot, " of ", request.order.size());
        }
        slots->Begin(slot);
        continue;
      }
      // The status applies to the whole round; running each variant alone finds the responsible
      // one.
      const auto& [status, fingerprint, message, mem_bytes] = answer.state;
      if (status != "ok" && status != "cancelled" && !IsTransient(status)) {
        const std::string said = message.empty() ? "" : ": " + message;
        return RoundEnd{
            .state = {.status = status,
                      .message = absl::StrCat("the status of the round is ", status, said)}};
      }
      const Deadline done = MonotonicClock::now();
      auto times = TimesOfResult(answer, request);
      if (absl::IsDataLoss(times.status())) {
        return RoundEnd{
            .state = {.status = "no_events", .message = std::string(times.status().message())}};
      }
      if (!times.ok()) return times.status();
      slots->End(done, &*times);
      return RoundEnd{.times = *std::move(times)};
    }
  }

  // The machine may have stood still, so one overrun is not counted. The variant runs again, alone
  // and with more than twice the time. If that is enough, it is slow, and the limit does not apply
  // to it.
  absl::StatusOr<Guilty> ConfirmOverLimit(const RoundRequest& request, Order order, size_t slot) {
    const Order one = order.subspan(slot, 1);
    ASSIGN_OR_RETURN(const auto alone, RunOnce(request, one, /*confirms=*/true));
    if (alone.blames()) return Guilty{{one[0], alone.state}};
    if (alone.state.status == "ok") {
      limit_.Exempt(one[0]->id);
    } else {
      RETURN_IF_ERROR(CountFailure(alone.state));
    }
    return Guilty();
  }

  // The statuses of the responsible variants. If the running variant is unknown, each runs alone.
  // If no variant is responsible, the failure is counted.
  absl::StatusOr<Guilty> FindTheGuilty(const RoundRequest& request, Order order,
                                       const RoundEnd& end) {
    if (end.over_limit) return ConfirmOverLimit(request, order, *end.slot);
    if (end.blames() && (end.slot.has_value() || order.size() == 1)) {
      return Guilty{{order[end.slot.value_or(0)], end.state}};
    }
    Guilty guilty;
    std::set<const Configuration*> tried;
    for (size_t slot = 0; end.blames() && slot < order.size(); ++slot) {
      if (!tried.insert(order[slot]).second) continue;
      ASSIGN_OR_RETURN(const auto alone, RunOnce(request, order.subspan(slot, 1)));
      if (alone.blames()) guilty[order[slot]] = alone.state;
    }
    if (guilty.empty()) RETURN_IF_ERROR(CountFailure(end.state));
    return guilty;
  }

  ProcessHarnessOptions options_;
  std::unique_ptr<HarnessProcess> process_;
  std::optional<HarnessAnswer> hello_;
  std::set<std::string> prepared_;  // by this process
  int64_t next_request_ = 1;
  int failures_in_a_row_ = 0;
  RunLimit limit_;
};

}  // namespace

std::unique_ptr<Harness> NewProcessHarness(ProcessHarnessOptions options) {
  return std::make_unique<Process>(std::move(options));
}

}  // namespace xplane_time
