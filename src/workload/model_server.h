// A client of model servers: what is the same over HTTP whatever the server speaks, and what each
// of them speaks.
//
//   questions -> ChatProtocol's request -> HttpConnection -> ChatStream -> RunAnswer
//
// A connection for each question that is under way; it stays for the next.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "stats/quantile_sketch.h"
#include "workload/api_key.h"
#include "workload/clients.h"
#include "workload/surrogates.h"
#include "xplane_time/power_run.h"

namespace xplane_time {

// What a stream has said so far; bounded. Times are CLOCK_MONOTONIC.
struct StreamedAnswer {
  static constexpr size_t kMostBytes = size_t{16} << 20;

  std::string text = {};
  std::optional<int64_t> first_ns = {}, first_reasoning_ns = {}, last_ns = {};
  stats::QuantileSketch gaps_ns = {};
  std::optional<int64_t> input_tokens = {}, output_tokens = {};
  std::string finish_reason = {};
  std::string message = {};  // of what was dropped
  bool is_whole = false;     // the server said that it is
  bool is_over = false;      // and that nothing comes after it

  // A piece of the answer; ResourceExhausted where all of it is too long. An empty one is none.
  absl::Status Add(std::string_view piece, int64_t now_ns);
  void AddReasoning(std::string_view piece, int64_t now_ns);
  void End();  // no piece follows

 private:
  SurrogateJoiner surrogates_ = {};
};

// Of one answer. Errors of Push: InvalidArgument (it is no such stream), ResourceExhausted, and
// Internal: the server says in the stream that it failed.
class ChatStream {
 public:
  virtual ~ChatStream() = default;
  virtual absl::Status Push(std::string_view bytes, int64_t now_ns) = 0;
  virtual bool HasCutPiece() const = 0;  // what came last is not whole
  StreamedAnswer answer = {};
};

// What a server speaks: the same for all questions, and for several threads.
class ChatProtocol {
 public:
  virtual ~ChatProtocol() = default;
  virtual std::string_view chat_path() const = 0;  // below the base URL
  virtual std::string_view models_path() const = 0;
  // A JSON text.
  virtual std::string ChatRequest(const RunRecord& record) const = 0;
  // `key` is hidden in what its errors show of the stream.
  virtual std::unique_ptr<ChatStream> NewStream(const ApiKey& key) const = 0;
  // Of what models_path() gave; nothing where it is no such list.
  virtual std::optional<std::vector<std::string>> Models(std::string_view text) const = 0;
};
using ChatProtocolFactory = std::unique_ptr<ChatProtocol> (*)(const ClientOptions& options);
std::unique_ptr<ChatProtocol> NewOpenAiProtocol(const ClientOptions& options);
std::unique_ptr<ChatProtocol> NewOllamaProtocol(const ClientOptions& options);

// Errors: InvalidArgument (the base URL, the key), Unavailable (no libcurl).
absl::StatusOr<std::unique_ptr<InferenceClient>> NewModelServerClient(ChatProtocolFactory protocol,
                                                                      const ClientOptions& options);

// The message in the body of an error, or the body, without the key; at most 2000
// bytes of a message and 300 of a body.
std::string ErrorMessageIn(std::string_view body, const ApiKey& key);

}  // namespace xplane_time
