// The OpenAI API: chat completions as server-sent events.
#include <utility>

#include "json/field.h"
#include "status.h"
#include "workload/chat_json.h"
#include "workload/event_stream.h"
#include "workload/model_server.h"

namespace xplane_time {
namespace {

using json::Field, json::Json;

class OpenAiStream : public ChatStream {
 public:
  explicit OpenAiStream(const ApiKey& key) : key_(key) {}

  absl::Status Push(std::string_view bytes, int64_t now_ns) override {
    return events_.Push(bytes, [&](const ServerEvent& event) { return Take(event, now_ns); });
  }
  bool HasCutPiece() const override { return events_.HasCutEvent(); }

 private:
  absl::Status Take(const ServerEvent& event, int64_t now_ns) {
    if (answer.is_over) return absl::OkStatus();
    if (event.data == "[DONE]") {
      answer.is_whole = answer.is_over = true;
      return absl::OkStatus();
    }
    if (event.type == "error") return ServerFailed(event.data);
    ASSIGN_OR_RETURN(const Json chunk, ParsePiece(event.data, key_));
    if (json::Find(chunk, "error") != nullptr) return ServerFailed(event.data);
    std::string wrong;
    absl::Status too_long;
    const Field fields(chunk, &wrong);
    if (fields.Has("choices")) {
      fields.At("choices").Each([&](const Field& choice) {
        if (too_long.ok()) too_long = TakeChoice(choice, now_ns);
      });
    }
    if (fields.Has("usage")) TakeUsage(fields.At("usage"));
    if (!wrong.empty()) return MisfitPiece(event.data, wrong, key_);
    return too_long;
  }

  absl::Status ServerFailed(std::string_view data) const {
    return Internal("the server failed: ", ErrorMessageIn(data, key_));
  }

  // If there are several answers to a question, only the first is used.
  absl::Status TakeChoice(const Field& choice, int64_t now_ns) {
    int64_t index = 0;
    choice.Read("index", &index);
    if (index != 0) return absl::OkStatus();
    std::string content, reasoning;
    if (choice.Has("delta")) {
      const Field delta = choice.At("delta");
      delta.Read("content", &content);
      for (const char* name : {"reasoning", "reasoning_content"}) {
        if (reasoning.empty()) delta.Read(name, &reasoning);
      }
    }
    choice.Read("finish_reason", &answer.finish_reason);
    answer.is_whole |= !answer.finish_reason.empty();
    answer.AddReasoning(reasoning, now_ns);
    return answer.Add(content, now_ns);
  }

  // Some servers send the usage with every chunk; the last one covers the whole answer.
  void TakeUsage(const Field& usage) {
    answer.message.clear();
    answer.input_tokens = TokensIn(usage.value(), "prompt_tokens", key_, &answer.message);
    answer.output_tokens = TokensIn(usage.value(), "completion_tokens", key_, &answer.message);
  }

  const ApiKey key_;
  EventStream events_{StreamedAnswer::kMostBytes};
};

class OpenAi : public ChatProtocol {
 public:
  explicit OpenAi(const ClientOptions& options)
      : model_(options.model), parameters_(options.parameters) {}

  std::string_view chat_path() const override { return "/chat/completions"; }
  std::string_view models_path() const override { return "/models"; }

  std::string ChatRequest(const RunRecord& record) const override {
    Json request = {{"model", model_},
                    {"messages", MessagesJson(parameters_, record.problem)},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}}};
    for (const char* name : {"temperature", "top_p", "max_tokens", "seed"}) {
      SetParameter(parameters_, name, name, &request);
    }
    PassParametersOn(parameters_, &request);
    return json::Dump(request);
  }

  std::unique_ptr<ChatStream> NewStream(const ApiKey& key) const override {
    return std::make_unique<OpenAiStream>(key);
  }

  std::optional<std::vector<std::string>> Models(std::string_view text) const override {
    return ModelNamesIn(text, "data", "id");
  }

 private:
  const std::string model_;
  const ClientParameters parameters_;
};

}  // namespace

std::unique_ptr<ChatProtocol> NewOpenAiProtocol(const ClientOptions& options) {
  return std::make_unique<OpenAi>(options);
}

}  // namespace xplane_time
