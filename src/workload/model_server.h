// A client of model servers: the common part over HTTP, and the interface of the protocols.
//
//   questions -> ChatProtocol's request -> HttpConnection -> ChatStream -> RunAnswer
//
// Each question in progress has its own connection, which is reused for a later question.
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

// The content of a stream so far; bounded. Times are CLOCK_MONOTONIC.
struct StreamedAnswer {
  static constexpr size_t kMostBytes = size_t{16} << 20;

  std::string text = {};
  std::optional<int64_t> first_ns = {}, first_reasoning_ns = {}, last_ns = {};
  stats::QuantileSketch gaps_ns = {};
  std::optional<int64_t> input_tokens = {}, output_tokens = {};
  std::string finish_reason = {};
  std::string message = {};  // about dropped values
  bool is_whole = false;     // the server marked it as complete
  bool is_over = false;      // the stream has ended

  // Appends a piece of the answer. ResourceExhausted if the answer becomes too long. Empty pieces
  // are ignored.
  absl::Status Add(std::string_view piece, int64_t now_ns);
  void AddReasoning(std::string_view piece, int64_t now_ns);
  void End();  // call after the last piece

 private:
  SurrogateJoiner surrogates_ = {};
};

// The stream of one answer. Errors of Push: InvalidArgument (not such a stream), ResourceExhausted,
// and Internal if the server reports an error in the stream.
class ChatStream {
 public:
  virtual ~ChatStream() = default;
  virtual absl::Status Push(std::string_view bytes, int64_t now_ns) = 0;
  virtual bool HasCutPiece() const = 0;  // whether the last piece is incomplete
  StreamedAnswer answer = {};
};

// The protocol of a server; shared by all questions and by several threads.
class ChatProtocol {
 public:
  virtual ~ChatProtocol() = default;
  virtual std::string_view chat_path() const = 0;  // below the base URL
  virtual std::string_view models_path() const = 0;
  // Returns JSON.
  virtual std::string ChatRequest(const RunRecord& record) const = 0;
  // Hides `key` in the parts of the stream that errors quote.
  virtual std::unique_ptr<ChatStream> NewStream(const ApiKey& key) const = 0;
  // The names in the reply of models_path(); empty if it is not such a list.
  virtual std::optional<std::vector<std::string>> Models(std::string_view text) const = 0;
};
using ChatProtocolFactory = std::unique_ptr<ChatProtocol> (*)(const ClientOptions& options);
std::unique_ptr<ChatProtocol> NewOpenAiProtocol(const ClientOptions& options);
std::unique_ptr<ChatProtocol> NewOllamaProtocol(const ClientOptions& options);

// Errors: InvalidArgument (the base URL, the key), Unavailable (no libcurl).
absl::StatusOr<std::unique_ptr<InferenceClient>> NewModelServerClient(ChatProtocolFactory protocol,
                                                                      const ClientOptions& options);

// The message in the body of an error, or the body, without the key; at most 2000 bytes of a
// message and 300 of a body.
std::string ErrorMessageIn(std::string_view body, const ApiKey& key);

}  // namespace xplane_time
