// Sends requests to a server, one at a time, over a connection that is kept open if the server
// allows it.
//
//   HttpConnection connection(curl);
//   auto reply = connection.Exchange(request, [&](std::string_view bytes, int64_t now_ns) { ... });
//   // reply->status 200: on_body received everything; otherwise see reply->error_body
//
// Redirects are not followed, because a key must not reach another server. Proxies and certificates
// follow libcurl's defaults. A compressed body is unpacked. A body that is compressed twice or
// exceeds 1 GiB is refused. For one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time {

struct CurlLibrary;

struct HttpRequest {
  std::string url;
  std::optional<std::string> json_body = {};  // empty: GET, otherwise POST
  std::string api_key = {};                   // may be empty
  std::chrono::milliseconds connect_timeout{10'000}, timeout{600'000};
  std::chrono::milliseconds stall_timeout{60'000};  // between pieces of a body
};

struct HttpReply {
  static constexpr size_t kMaxErrorBody = size_t{64} << 10;

  int64_t status = 0;
  std::string content_type = {};
  std::string location = {};    // of a redirect
  std::string error_body = {};  // for a status other than 2xx: the first kMaxErrorBody bytes
  std::optional<std::chrono::seconds> retry_after = {};
};

// kIsOver means that the caller has everything it needs. The server then has 20 ms to end the body,
// so that the connection can be reused; any further byte ends the exchange at once.
enum class HttpBody : uint8_t { kGoesOn, kIsOver };
// Called with the bytes of a 2xx body as they arrive; `now_ns` is CLOCK_MONOTONIC. An error ends
// the exchange.
using OnHttpBody =
    absl::FunctionRef<absl::StatusOr<HttpBody>(std::string_view bytes, int64_t now_ns)>;

class HttpConnection {
 public:
  // `curl` must outlive it. `stopped` is called ten times a second.
  HttpConnection(const CurlLibrary* curl, std::function<bool()> stopped);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Errors: Cancelled (stopped), DeadlineExceeded, Unavailable (no connection, or it was lost; a
  // retry may help), FailedPrecondition (TLS, a proxy, an address; a retry does not help),
  // ResourceExhausted (a body that is too long or compressed twice), those of `on_body`.
  absl::StatusOr<HttpReply> Exchange(const HttpRequest& request, OnHttpBody on_body);

 private:
  class Transfer;

  const CurlLibrary* const curl_;
  const std::function<bool()> stopped_;
  void* const multi_;  // CURLM, which owns the connections
  void* const easy_;   // CURL
};

// Checks and normalizes "http://HOST[:PORT][/PATH]" or https; removes the / at the end. Errors:
// InvalidArgument (another scheme, a user name or password, a query), with advice.
absl::StatusOr<std::string> CheckBaseUrl(const CurlLibrary& curl, const std::string& url);

}  // namespace xplane_time
