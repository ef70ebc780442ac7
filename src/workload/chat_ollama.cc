// Ollama's API: chats as a JSON object a line.
#include <utility>

#include "harness/messages.h"
#include "json/field.h"
#include "status.h"
#include "workload/chat_json.h"
#include "workload/event_stream.h"
#include "workload/model_server.h"

namespace xplane_time {
namespace {

using json::Field, json::Json;

class OllamaStream : public ChatStream {
 public:
  absl::Status Push(std::string_view bytes, int64_t now_ns) override {
    return lines_.Push(bytes, [&](std::string_view line) {
      return line.empty() ? absl::OkStatus() : Take(std::string(line), now_ns);
    });
  }
  bool HasCutPiece() const override { return !lines_.rest().empty(); }

 private:
  absl::Status Take(const std::string& line, int64_t now_ns) {
    if (line.starts_with("data:")) {
      return InvalidArgument("a stream of the OpenAI API; see --client openai");
    }
    const Json chunk = json::Parse(line);
    if (json::Find(chunk, "error") != nullptr) {
      return Internal("the server failed: ", ErrorMessageIn(line));
    }
    std::string wrong, content, thinking;
    const Field fields(chunk, &wrong);
    if (fields.Has("message")) {
      fields.At("message").Read("content", &content);
      fields.At("message").Read("thinking", &thinking);
    }
    fields.Read("done", &answer.is_whole);
    answer.is_over = answer.is_whole;
    if (answer.is_whole) {
      fields.Read("done_reason", &answer.finish_reason);
      answer.input_tokens = TokensIn(chunk, "prompt_eval_count", &answer.message);
      answer.output_tokens = TokensIn(chunk, "eval_count", &answer.message);
    }
    if (!wrong.empty()) return harness::Misfit(line, wrong);
    answer.AddReasoning(thinking, now_ns);
    return answer.Add(content, now_ns);
  }

  LineSplitter lines_{StreamedAnswer::kMostBytes};
};

class Ollama : public ChatProtocol {
 public:
  explicit Ollama(const ClientOptions& options)
      : model_(options.model), parameters_(options.parameters) {}

  std::string_view chat_path() const override { return "/api/chat"; }
  std::string_view models_path() const override { return "/api/tags"; }

  std::string ChatRequest(const RunRecord& record) const override {
    Json options = Json::object();
    for (const char* name : {"temperature", "top_p", "seed"}) {
      SetParameter(parameters_, name, name, &options);
    }
    SetParameter(parameters_, "max_tokens", "num_predict", &options);
    const Json request = {{"model", model_},
                          {"messages", MessagesJson(parameters_, record.problem)},
                          {"stream", true},
                          {"options", options}};
    return json::Dump(request);
  }

  std::unique_ptr<ChatStream> NewStream() const override {
    return std::make_unique<OllamaStream>();
  }

  // "llama3" is llama3:latest.
  std::optional<std::vector<std::string>> Models(std::string_view text) const override {
    auto names = ModelNamesIn(text, "models", "name");
    if (!names.has_value()) return names;
    for (const std::string& name : std::vector(*names)) {
      constexpr std::string_view kLatest = ":latest";
      if (name.ends_with(kLatest)) names->push_back(name.substr(0, name.size() - kLatest.size()));
    }
    return names;
  }

 private:
  const std::string model_;
  const ClientParameters parameters_;
};

}  // namespace

std::unique_ptr<ChatProtocol> NewOllamaProtocol(const ClientOptions& options) {
  return std::make_unique<Ollama>(options);
}

}  // namespace xplane_time
