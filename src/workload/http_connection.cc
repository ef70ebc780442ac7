// One HTTP exchange at a time with libcurl's multi interface.
//
// The loop in Transfer::ToItsEnd performs, polls and checks the time limits and the stop flag every
// 100 ms. libcurl calls TakeHeader and Take from within. They return false to end the exchange,
// with the reason in failed_. After the caller has everything it needs (HttpBody::kIsOver), the
// body may end within 20 ms, so that the connection can be reused. A reply that needs more time is
// cut off.
#include "workload/http_connection.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "harness/process.h"
#include "power/machine.h"
#include "status.h"
#include "workload/curl_library.h"
#include "xplane_time/version.h"

namespace xplane_time {
namespace {

// A stream has about 300 bytes for each token.
constexpr size_t kMaxBody = size_t{1} << 30;
constexpr std::chrono::milliseconds kTransferStopCheck(100);
// The end of a body may come in a packet after its last bytes.
constexpr std::chrono::milliseconds kForTheEnd(20);

// Parses the seconds of a Retry-After header and saturates them; empty if the header has a date.
std::optional<int64_t> ReadDelay(std::string_view value) {
  int64_t seconds = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, seconds);
  if (stop != end || seconds < 0) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
  return error == std::errc() ? std::optional(seconds) : std::nullopt;
}

double Seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

// Converts a failed transfer to the caller's error.
absl::Status ErrorOfCode(CURLcode code, const char* details, const CurlLibrary& curl) {
  const std::string why = details[0] != '\0' ? details : curl.easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:  // only connecting: the other limits are enforced here
      return Unavailable("cannot connect: ", why);
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // the reply is not HTTP
      return Unavailable("the connection was lost: ", why);
    case CURLE_PEER_FAILED_VERIFICATION:
      return FailedPrecondition(why, "; set trusted certificates with SSL_CERT_FILE=FILE");
    default:
      return FailedPrecondition(why);
  }
}

}  // namespace

// An exchange in progress, with the callbacks for libcurl.
class HttpConnection::Transfer {
 public:
  Transfer(const HttpConnection* connection, const HttpRequest& request, OnHttpBody on_body)
      : curl_(*connection->curl_), connection_(*connection), request_(request), on_body_(on_body) {}
  ~Transfer() {
    curl_.multi_remove_handle(connection_.multi_, connection_.easy_);
    curl_.easy_reset(connection_.easy_);  // removes pointers to this object
    curl_.slist_free_all(headers_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  absl::StatusOr<HttpReply> ToItsEnd() {
    RETURN_IF_ERROR(SetUp());
    curl_.multi_add_handle(connection_.multi_, connection_.easy_);
    deadline_ = MonotonicClock::now() + request_.timeout;
    for (int running = 1; running > 0;) {
      const CURLMcode code = curl_.multi_perform(connection_.multi_, &running);
      if (code != CURLM_OK) return FailedPrecondition(curl_.multi_strerror(code));
      if (running == 0) break;
      RETURN_IF_ERROR(CheckTime());
      const Deadline end = is_over_by_.value_or(deadline_);
      if (MonotonicClock::now() >= end) break;
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - MonotonicClock::now());
      const auto wait = std::clamp(left, std::chrono::milliseconds(1), kTransferStopCheck);
      curl_.multi_poll(connection_.multi_, nullptr, 0, static_cast<int>(wait.count()), nullptr);
    }
    return Finish();
  }

 private:
  // Options that the request does not set keep the defaults of libcurl and its environment.
  absl::Status SetUp() {
    CURL* const easy = connection_.easy_;
    const auto set = [&](CURLoption option, auto value) {
      const CURLcode code = curl_.easy_setopt(easy, option, value);
      if (failed_.ok() && code != CURLE_OK) failed_ = FailedPrecondition(curl_.easy_strerror(code));
    };
    set(CURLOPT_URL, request_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_ACCEPT_ENCODING, "");  // everything that libcurl can unpack
    set(CURLOPT_USERAGENT, "xplane-time/" XPLANE_TIME_VERSION_STRING);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout.count()));
    set(CURLOPT_ERRORBUFFER, details_);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
    if (const char* const trusted = std::getenv("SSL_CERT_FILE")) set(CURLOPT_CAINFO, trusted);
    if (!request_.api_key.empty()) Header("Authorization: Bearer " + request_.api_key);
    if (request_.json_body.has_value()) {
      Header("Content-Type: application/json");
      Header("Expect:");  // otherwise the reply to it would come before the answer
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.json_body->size()));
      set(CURLOPT_POSTFIELDS, request_.json_body->c_str());
    }
    set(CURLOPT_HTTPHEADER, headers_);
    return std::exchange(failed_, absl::OkStatus());
  }

  void Header(const std::string& line) { headers_ = curl_.slist_append(headers_, line.c_str()); }

  static size_t OnHeader(char* bytes, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->TakeHeader({bytes, size * count}) ? size * count : 0;
  }
  // Returns false to end the exchange.
  bool TakeHeader(std::string_view line) {
    if (line.starts_with("HTTP/")) codings_ = 0;  // earlier replies are interim, or from a proxy
    const size_t colon = line.find(':');
    if (colon == line.npos) return true;
    const absl::string_view name = Absl(line.substr(0, colon)),
                            value = absl::StripAsciiWhitespace(Absl(line.substr(colon + 1)));
    if (absl::EqualsIgnoreCase(name, "Retry-After")) {
      delay_s_ = ReadDelay({value.data(), value.size()});
    }
    if (absl::EqualsIgnoreCase(name, "Content-Encoding") ||
        absl::EqualsIgnoreCase(name, "Transfer-Encoding")) {
      for (absl::string_view coding : absl::StrSplit(value, ',')) {
        coding = absl::StripAsciiWhitespace(coding);
        const bool packs = !coding.empty() && !absl::EqualsIgnoreCase(coding, "chunked") &&
                           !absl::EqualsIgnoreCase(coding, "identity");
        codings_ += packs ? 1 : 0;
      }
    }
    // libcurl unpacks all codings in one call. A body that is compressed several times can keep it
    // there for hours, even without a byte for OnBody.
    if (codings_ > 1) {
      failed_ = ResourceExhausted("its body is compressed ", codings_, " times (",
                                  Absl(line.substr(0, colon)), ")");
    }
    return failed_.ok();
  }

  static size_t OnBody(char* bytes, size_t size, size_t count, void* self) {
    auto* const transfer = static_cast<Transfer*>(self);
    transfer->last_ns_ = power::MonotonicNow();
    return transfer->Take({bytes, size * count}) ? size * count : CURL_WRITEFUNC_ERROR;
  }
  // Also checks the time limit and the stop flag, because a few compressed bytes can lead to
  // millions of calls. Returns false to end the exchange.
  bool Take(std::string_view bytes) {
    if (reply_.status == 0) reply_.status = Info<long>(CURLINFO_RESPONSE_CODE);
    body_bytes_ += bytes.size();
    failed_ = CheckTime();
    if (failed_.ok() && is_over_by_.has_value()) return !(has_enough_ = true);
    if (failed_.ok() && body_bytes_ > kMaxBody) {
      failed_ = ResourceExhausted("a body longer than ", kMaxBody, " bytes");
    }
    if (!failed_.ok()) return false;
    if (reply_.status / 100 != 2) {
      reply_.error_body += bytes.substr(0, HttpReply::kMaxErrorBody - reply_.error_body.size());
      return !(has_enough_ = reply_.error_body.size() == HttpReply::kMaxErrorBody);
    }
    const absl::StatusOr<HttpBody> body = on_body_(bytes, last_ns_);
    failed_ = body.status();
    if (body.ok() && *body == HttpBody::kIsOver) is_over_by_ = MonotonicClock::now() + kForTheEnd;
    return failed_.ok();
  }

  absl::Status CheckTime() const {
    if (is_over_by_.has_value()) return absl::OkStatus();
    if (connection_.stopped_()) return absl::CancelledError("stopped");
    if (MonotonicClock::now() >= deadline_) {
      return absl::DeadlineExceededError(
          Cat("no complete answer within ", Seconds(request_.timeout), " s (--timeout)"));
    }
    const std::chrono::nanoseconds since(power::MonotonicNow() - last_ns_);
    if (last_ns_ == 0 || since < request_.stall_timeout) return absl::OkStatus();
    return absl::DeadlineExceededError(Cat("the stream stalled: no data for ",
                                           Seconds(request_.stall_timeout),
                                           " s (stall_timeout_s)"));
  }

  absl::StatusOr<HttpReply> Finish() {
    RETURN_IF_ERROR(failed_);
    int left = 0;
    const CURLMsg* const message = curl_.multi_info_read(connection_.multi_, &left);
    const CURLcode cut = is_over_by_.has_value() ? CURLE_OK : CURLE_RECV_ERROR;
    const CURLcode code = message == nullptr ? cut : message->data.result;
    if (code != CURLE_OK && !has_enough_) return ErrorOfCode(code, details_, curl_);
    reply_.status = Info<long>(CURLINFO_RESPONSE_CODE);
    reply_.content_type = Text(CURLINFO_CONTENT_TYPE);
    reply_.location = Text(CURLINFO_REDIRECT_URL);
    const int64_t delay_s = delay_s_.value_or(Info<curl_off_t>(CURLINFO_RETRY_AFTER));
    if (delay_s > 0) reply_.retry_after = std::chrono::seconds(delay_s);
    return std::move(reply_);
  }

  template <typename T>
  T Info(CURLINFO what) const {
    T value{};
    curl_.easy_getinfo(connection_.easy_, what, &value);
    return value;
  }
  std::string Text(CURLINFO what) const {
    const char* const text = Info<const char*>(what);
    return text == nullptr ? "" : text;
  }

  const CurlLibrary& curl_;
  const HttpConnection& connection_;
  const HttpRequest& request_;
  const OnHttpBody on_body_;
  curl_slist* headers_ = nullptr;
  char details_[CURL_ERROR_SIZE] = {};
  Deadline deadline_;
  absl::Status failed_;    // why this side ended the exchange
  int64_t last_ns_ = 0;    // when a piece of the body came; 0: none yet
  size_t body_bytes_ = 0;  // after decompression
  int codings_ = 0;
  std::optional<int64_t> delay_s_;  // from the Retry-After header
  std::optional<Deadline> is_over_by_;
  bool has_enough_ = false;  // this side ended the exchange without an error
  HttpReply reply_;
};

HttpConnection::HttpConnection(const CurlLibrary* curl, std::function<bool()> stopped)
    : curl_(curl),
      stopped_(std::move(stopped)),
      multi_(curl->multi_init()),
      easy_(curl->easy_init()) {}

HttpConnection::~HttpConnection() {
  curl_->easy_cleanup(easy_);
  curl_->multi_cleanup(multi_);
}

absl::StatusOr<HttpReply> HttpConnection::Exchange(const HttpRequest& request, OnHttpBody on_body) {
  if (multi_ == nullptr || easy_ == nullptr) return FailedPrecondition("libcurl: out of memory");
  return Transfer(this, request, on_body).ToItsEnd();
}

absl::StatusOr<std::string> CheckBaseUrl(const CurlLibrary& curl, const std::string& url) {
  const std::unique_ptr<CURLU, decltype(curl.url_cleanup)> parsed(curl.url(), curl.url_cleanup);
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (curl.url_get(parsed.get(), which, &text, 0) != CURLUE_OK) return std::string();
    std::string copy = text;
    curl.free(text);
    return copy;
  };
  const CURLUcode code = curl.url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0);
  const std::string scheme = part(CURLUPART_SCHEME);
  if (code != CURLUE_OK || (scheme != "http" && scheme != "https")) {
    return InvalidArgument("--base-url: must be http://HOST[:PORT][/PATH], or https://...");
  }
  if (!part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty() ||
      !part(CURLUPART_QUERY).empty() || !part(CURLUPART_FRAGMENT).empty()) {
    return InvalidArgument(
        "--base-url: contains a user, a password or a query, which would be stored in the results; "
        "pass a key in the environment (--client-param api_key_env=NAME)");
  }
  return url.substr(0, url.find_last_not_of('/') + 1);
}

}  // namespace xplane_time
