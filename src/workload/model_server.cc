// Asks model servers over HTTP: attempts, retries, times and errors.
//
// Ask repeats AskOnce until an answer is complete, an error is permanent, or the retries are used
// up. An attempt is retried after 429, 503 or a lost connection, after the server's Retry-After or
// an exponential backoff, whichever is longer. AskOnce sends the request on an idle or new
// connection; the protocol's ChatStream collects the answer and its times. Several threads may ask
// at once; the mutex guards the list of idle connections and the count of successive losses. The
// key is removed from all texts of the server before they are stored or shown.
#include "workload/model_server.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_join.h"
#include "harness/process.h"
#include "power/machine.h"
#include "status.h"
#include "workload/api_key.h"
#include "workload/curl_library.h"
#include "workload/http_connection.h"

namespace xplane_time {
namespace {

using std::chrono::milliseconds;

constexpr int kTooManyRequests = 429, kNotNow = 503;

template <typename T>
T Given(const ClientOptions& options, std::string_view name, T otherwise) {
  const auto at = options.parameters.find(name);
  return at == options.parameters.end() ? otherwise : std::get<T>(at->second);
}

milliseconds Milliseconds(double seconds) {
  constexpr double kMostSeconds = 1e6;
  return milliseconds(std::llround(std::min(seconds, kMostSeconds) * 1000));
}

std::optional<double> MsBetween(std::optional<int64_t> to_ns, int64_t from_ns) {
  if (!to_ns.has_value()) return std::nullopt;
  return static_cast<double>(*to_ns - from_ns) * 1e-6;
}

RunAnswer AnswerOf(StreamedAnswer streamed, int64_t begin_ns) {
  streamed.End();
  const auto gap_ms = [&](double share) -> std::optional<double> {
    const auto gap_ns = streamed.gaps_ns.Quantile(share);
    return gap_ns.has_value() ? std::optional(*gap_ns * 1e-6) : std::nullopt;
  };
  RunAnswer answer = {.answer = std::move(streamed.text), .message = std::move(streamed.message)};
  answer.input_tokens = streamed.input_tokens;
  answer.output_tokens = streamed.output_tokens;
  answer.time_to_first_token_ms = MsBetween(streamed.first_ns, begin_ns);
  answer.time_to_first_reasoning_token_ms = MsBetween(streamed.first_reasoning_ns, begin_ns);
  answer.inter_token_ms = {.p50 = gap_ms(0.5), .p95 = gap_ms(0.95), .p99 = gap_ms(0.99)};
  answer.finish_reason = std::move(streamed.finish_reason);
  return answer;
}

// One attempt to get an answer.
struct Attempt {
  RunAnswer answer;
  bool may_help_again = false;
  milliseconds wait{0};  // minimum wait before the next attempt
};

Attempt FailedAttempt(const char* status, std::string message) {
  return {.answer = {.status = status, .message = std::move(message)}};
}
Attempt LostAttempt(std::string message) {
  Attempt attempt = FailedAttempt("infra", std::move(message));
  attempt.may_help_again = true;
  return attempt;
}

class ModelServer : public InferenceClient {
 public:
  ModelServer(const CurlLibrary* curl, std::string base_url, ApiKey key,
              std::unique_ptr<ChatProtocol> protocol, const ClientOptions& options)
      : curl_(curl),
        base_url_(std::move(base_url)),
        key_(std::move(key)),
        protocol_(std::move(protocol)),
        options_(options) {}

  absl::Status Start() override { return WithoutKey(CheckModel()); }

  absl::Status Ready() override {
    const std::lock_guard lock(mutex_);
    if (lost_in_a_row_ < options_.most_failures) return absl::OkStatus();
    return Unavailable(base_url_, " failed ", lost_in_a_row_, " times in a row: ", last_loss_,
                       "; check that the server runs, and continue with --resume");
  }

  absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
                                const std::function<void()>& again) override {
    const HttpRequest request = RequestOf(protocol_->chat_path(), protocol_->ChatRequest(record));
    std::string before;  // why the previous attempt failed
    for (int64_t attempts = 1;; ++attempts) {
      auto attempt = AskOnce(request);
      if (!attempt.ok()) return WithoutKey(attempt.status());
      RunAnswer& answer = attempt->answer;
      answer.attempts = attempts;
      for (std::string* const said : {&answer.message, &answer.answer, &answer.finish_reason}) {
        *said = key_.Hide(*said);
      }
      const milliseconds wait = std::max(attempt->wait, Backoff(attempts));
      const bool is_last = attempts > retries_ || wait > options_.timeout;
      if (!attempt->may_help_again || is_last) {
        CountLoss(attempt->may_help_again, answer.message);
        if (attempts > 1) {
          Append(&answer.message, answer.message.empty() ? "" : "; ", "asked ", attempts,
                 " times, previous failure: ", before);
        }
        return std::move(answer);
      }
      before = answer.message;
      RETURN_IF_ERROR(Wait(wait));
      again();
    }
  }

 private:
  HttpRequest RequestOf(std::string_view path, std::optional<std::string> json_body) const {
    const auto limit = [&](const char* name, double otherwise_s) {
      return Milliseconds(Given(options_, name, otherwise_s));
    };
    return {.url = Cat(base_url_, path),
            .json_body = std::move(json_body),
            .api_key = key_.text(),
            .connect_timeout = limit("connect_timeout_s", 10),
            .timeout = options_.timeout,
            .stall_timeout = limit("stall_timeout_s", 60)};
  }

  // A server may have this model even if it has no list of models.
  absl::Status CheckModel() {
    const HttpRequest request = RequestOf(protocol_->models_path(), std::nullopt);
    std::string text;
    for (int64_t attempts = 1;; ++attempts) {
      text.clear();
      const auto take = [&](std::string_view bytes,
                            int64_t /*now_ns*/) -> absl::StatusOr<HttpBody> {
        if (text.size() + bytes.size() > StreamedAnswer::kMostBytes) {
          return FailedPrecondition("its list of models is too long");
        }
        text += bytes;
        return HttpBody::kGoesOn;
      };
      const auto reply = Exchange(request, take);
      if (absl::IsCancelled(reply.status())) return reply.status();
      if (!reply.ok()) {
        return Unavailable(request.url, ": ", reply.status().message(),
                           "; start the server, or correct --base-url");
      }
      RETURN_IF_ERROR(RefusalForGood(request.url, *reply));
      const bool later = reply->status == kTooManyRequests || reply->status == kNotNow;
      if (later && attempts > retries_) {
        return Unavailable(request.url, ": ", RefusalText(*reply), "; asked ", attempts, " times");
      }
      if (!later) return reply->status == 200 ? FindModel(text) : absl::OkStatus();
      const milliseconds wait = std::max(WaitOf(*reply), Backoff(attempts));
      if (wait > options_.timeout) {
        return Unavailable(request.url, ": ", RefusalText(*reply),
                           "; the requested wait exceeds --timeout");
      }
      RETURN_IF_ERROR(Wait(wait));
    }
  }

  absl::Status FindModel(std::string_view text) const {
    const auto models = protocol_->Models(text);
    if (!models.has_value() || std::ranges::find(*models, options_.model) != models->end()) {
      return absl::OkStatus();
    }
    constexpr size_t kMostShown = 20;
    const size_t shown = std::min(models->size(), kMostShown);
    std::string names =
        absl::StrJoin(models->begin(), models->begin() + static_cast<std::ptrdiff_t>(shown), ", ");
    if (shown < models->size()) Append(&names, " and ", models->size() - shown, " more");
    return Unavailable(base_url_, ": the server has no model \"", options_.model,
                       "\" (--model); models: ", names.empty() ? "none" : names);
  }

  // Errors end the run.
  absl::StatusOr<Attempt> AskOnce(const HttpRequest& request) {
    const std::unique_ptr<ChatStream> stream = protocol_->NewStream(key_);
    const int64_t begin_ns = power::MonotonicNow();
    const auto take = [&](std::string_view bytes, int64_t now_ns) -> absl::StatusOr<HttpBody> {
      RETURN_IF_ERROR(stream->Push(bytes, now_ns));
      return stream->answer.is_over ? HttpBody::kIsOver : HttpBody::kGoesOn;
    };
    const auto reply = Exchange(request, take);
    if (!reply.ok() && !stream->answer.is_whole) return FailureOf(reply.status(), *stream);
    if (reply.ok()) {
      RETURN_IF_ERROR(RefusalForGood(request.url, *reply));
      if (reply->status / 100 != 2) return RefusalOf(*reply);
      if (!stream->answer.is_whole) return CutStream(*reply, *stream);
    }
    Attempt attempt = {.answer = AnswerOf(std::move(stream->answer), begin_ns)};
    if (!reply.ok()) attempt.answer.message = Cat("after the answer: ", reply.status().message());
    if (attempt.answer.answer.empty() && attempt.answer.finish_reason.empty()) {
      attempt.answer.message = "the answer is empty: the server sent no text";
    }
    return attempt;
  }

  absl::StatusOr<Attempt> FailureOf(const absl::Status& failed, const ChatStream& stream) const {
    const std::string message = Cat(failed.message(), SoFar(stream));
    switch (failed.code()) {
      case absl::StatusCode::kDeadlineExceeded:
        return FailedAttempt("timeout", message);
      case absl::StatusCode::kUnavailable:
        return LostAttempt(message);
      case absl::StatusCode::kInternal:
        return FailedAttempt("runtime_error", message);
      case absl::StatusCode::kInvalidArgument:
      case absl::StatusCode::kResourceExhausted:
        return FailedAttempt("bad_answer", message);
      case absl::StatusCode::kCancelled:
        return failed;
      default:
        return Unavailable(base_url_, ": ", failed.message());
    }
  }

  // A status other than 2xx that another attempt or another question may avoid.
  Attempt RefusalOf(const HttpReply& reply) const {
    constexpr int kOfServer = 500;
    Attempt attempt =
        FailedAttempt(reply.status < kOfServer ? "runtime_error" : "infra", RefusalText(reply));
    if (reply.status == kTooManyRequests || reply.status == kNotNow) {
      attempt = LostAttempt(RefusalText(reply));
      attempt.wait = WaitOf(reply);
    }
    return attempt;
  }

  static Attempt CutStream(const HttpReply& reply, const ChatStream& stream) {
    const bool is_stream = reply.content_type.find("event-stream") != std::string::npos ||
                           reply.content_type.find("ndjson") != std::string::npos;
    const bool has_begun = stream.answer.last_ns || stream.answer.first_reasoning_ns;
    if (!is_stream && !has_begun) {
      return FailedAttempt("bad_answer", Cat("the answer is not a stream: its Content-Type is \"",
                                             reply.content_type, "\""));
    }
    return LostAttempt(Cat("the stream ended before the end of the answer", SoFar(stream)));
  }

  static std::string SoFar(const ChatStream& stream) {
    return Cat(", after ", stream.answer.text.size(), " bytes of the answer",
               stream.HasCutPiece() ? " and within a piece" : "");
  }

  std::string RefusalText(const HttpReply& reply) const {
    const std::string later = reply.retry_after.has_value()
                                  ? Cat("; Retry-After ", reply.retry_after->count(), " s")
                                  : "";
    return Cat("HTTP ", reply.status, ": ", ErrorMessageIn(reply.error_body, key_), later);
  }
  // A server may ask for a wait that exceeds the range of milliseconds.
  static milliseconds WaitOf(const HttpReply& reply) {
    constexpr std::chrono::seconds kMaxWait(1'000'000'000), kNoWait(0);
    return std::min(reply.retry_after.value_or(kNoWait), kMaxWait);
  }

  // An error that applies to all questions. `url`: the list of models may be missing.
  absl::Status RefusalForGood(const std::string& url, const HttpReply& reply) const {
    constexpr int kUnauthorized = 401, kNotFound = 404, kNotAllowed = 405;
    if (reply.status / 100 == 3) {
      return Unavailable(url, ": HTTP ", reply.status, ": redirects to ", reply.location,
                         "; redirects are not followed, to protect the API key; if that is the "
                         "server, set it with --base-url");
    }
    if (reply.status == kUnauthorized) {
      const std::string missing = key_.MissingReason();
      return Unavailable(url, ": ", RefusalText(reply), missing.empty() ? "" : "; ", missing);
    }
    const bool is_list = url == Cat(base_url_, protocol_->models_path());
    if (!is_list && (reply.status == kNotFound || reply.status == kNotAllowed)) {
      return Unavailable(url, ": ", RefusalText(reply),
                         "; check --base-url (for an OpenAI API, it ends with /v1) and --model");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<HttpReply> Exchange(const HttpRequest& request, OnHttpBody on_body) {
    std::unique_ptr<HttpConnection> connection;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        connection = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (connection == nullptr)
      connection = std::make_unique<HttpConnection>(curl_, options_.stopped);
    auto reply = connection->Exchange(request, on_body);
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(connection));
    }
    // The key is replaced before texts are shortened. libcurl has already shortened its messages,
    // and long bodies are incomplete.
    if (!reply.ok()) return WithoutKey(reply.status(), /*is_cut=*/true);
    reply->error_body =
        key_.Hide(reply->error_body, reply->error_body.size() == HttpReply::kMaxErrorBody);
    return reply;
  }

  milliseconds Backoff(int64_t attempts) const {
    constexpr int64_t kMostDoublings = 30;
    const double first_s = Given(options_, "backoff_s", 0.5);
    return Milliseconds(
        std::ldexp(first_s, static_cast<int>(std::min(attempts - 1, kMostDoublings))));
  }

  absl::Status Wait(milliseconds time) const {
    constexpr milliseconds kStopCheck(50);
    const Deadline deadline = MonotonicClock::now() + time;
    while (!options_.stopped()) {
      const auto left = deadline - MonotonicClock::now();
      if (left <= left.zero()) return absl::OkStatus();
      std::this_thread::sleep_for(std::min<MonotonicClock::duration>(left, kStopCheck));
    }
    return absl::CancelledError("stopped");
  }

  void CountLoss(bool is_lost, const std::string& message) {
    const std::lock_guard lock(mutex_);
    lost_in_a_row_ = is_lost ? lost_in_a_row_ + 1 : 0;
    if (is_lost) last_loss_ = message;
  }

  absl::Status WithoutKey(const absl::Status& status, bool is_cut = false) const {
    const absl::string_view message = status.message();
    return absl::Status(status.code(), key_.Hide({message.data(), message.size()}, is_cut));
  }

  const CurlLibrary* const curl_;
  const std::string base_url_;
  const ApiKey key_;
  const std::unique_ptr<ChatProtocol> protocol_;
  const ClientOptions options_;
  const int64_t retries_ = Given(options_, "retries", int64_t{3});
  std::mutex mutex_;  // guards the following members
  std::vector<std::unique_ptr<HttpConnection>> idle_;
  int lost_in_a_row_ = 0;
  std::string last_loss_;
};

}  // namespace

absl::Status StreamedAnswer::Add(std::string_view piece, int64_t now_ns) {
  if (piece.empty()) return absl::OkStatus();
  if (text.size() + piece.size() > kMostBytes) {
    return ResourceExhausted("an answer longer than ", kMostBytes, " bytes");
  }
  surrogates_.Join(piece, &text);
  if (last_ns.has_value()) gaps_ns.Add(now_ns - *last_ns);
  if (!first_ns.has_value()) first_ns = now_ns;
  last_ns = now_ns;
  return absl::OkStatus();
}

void StreamedAnswer::End() { surrogates_.End(&text); }

void StreamedAnswer::AddReasoning(std::string_view piece, int64_t now_ns) {
  if (!piece.empty() && !first_reasoning_ns.has_value()) first_reasoning_ns = now_ns;
}

absl::StatusOr<std::unique_ptr<InferenceClient>> NewModelServerClient(
    ChatProtocolFactory protocol, const ClientOptions& options) {
  ASSIGN_OR_RETURN(const CurlLibrary* const curl, LoadCurl());
  ASSIGN_OR_RETURN(std::string base_url, CheckBaseUrl(*curl, options.base_url));
  ASSIGN_OR_RETURN(ApiKey key,
                   ApiKey::FromEnvironment(Given(options, "api_key_env", std::string())));
  return std::make_unique<ModelServer>(curl, std::move(base_url), std::move(key), protocol(options),
                                       options);
}

}  // namespace xplane_time
