// One request after the other to a server, over a connection that stays where the server lets it.
//
//   HttpConnection connection(curl);
//   auto reply = connection.Exchange(request, [&](std::string_view bytes, int64_t now_ns) { ... });
//   // reply->status 200: on_body had it all; else reply->error_body has its beginning
//
// Redirects are not followed: a key must not go to another place. Proxies and certificates are as
// libcurl has them. A compressed body is unpacked; one that is compressed twice or has over 1 GiB
// is refused. One thread at a time.
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
  std::optional<std::string> json_body = {};  // none: GET, else POST
  std::string api_key = {};                   // empty: none is sent
  std::chrono::milliseconds connect_timeout{10'000}, timeout{600'000};
  std::chrono::milliseconds stall_timeout{60'000};  // between pieces of a body
};

struct HttpReply {
  static constexpr size_t kMaxErrorBody = size_t{64} << 10;

  int64_t status = 0;
  std::string content_type = {};
  std::string location = {};    // of a redirect
  std::string error_body = {};  // of a status but 2xx: its first kMaxErrorBody bytes
  std::optional<std::chrono::seconds> retry_after = {};
};

// kIsOver: all that was asked for is there. The server has 20 ms to end the body, so that the
// connection can be used again; any further byte ends the exchange at once.
enum class HttpBody : uint8_t { kGoesOn, kIsOver };
// Bytes of the body of a 2xx, as they come; `now_ns` is CLOCK_MONOTONIC. An error ends the
// exchange.
using OnHttpBody =
    absl::FunctionRef<absl::StatusOr<HttpBody>(std::string_view bytes, int64_t now_ns)>;

class HttpConnection {
 public:
  // `curl` outlives it. `stopped` is asked ten times a second.
  HttpConnection(const CurlLibrary* curl, std::function<bool()> stopped);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Errors: Cancelled (stopped), DeadlineExceeded, Unavailable (no connection, or it was lost: once
  // more may help), FailedPrecondition (TLS, a proxy, an address: once more does not help),
  // ResourceExhausted (a body that is too long, or compressed twice), those of `on_body`.
  absl::StatusOr<HttpReply> Exchange(const HttpRequest& request, OnHttpBody on_body);

 private:
  class Transfer;

  const CurlLibrary* const curl_;
  const std::function<bool()> stopped_;
  void* const multi_;  // CURLM: has the connections
  void* const easy_;   // CURL
};

// "http://HOST[:PORT][/PATH]" or https, without a / at its end. Errors: InvalidArgument (another
// scheme, a user name or password, a query), with the way out.
absl::StatusOr<std::string> CheckBaseUrl(const CurlLibrary& curl, const std::string& url);

}  // namespace xplane_time
