// Ollama's API: a chat streams one JSON object for each line.
#include <algorithm>
#include <iterator>
#include <utility>

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
  explicit OllamaStream(const ApiKey& key) : key_(key) {}

  absl::Status Push(std::string_view bytes, int64_t now_ns) override {
    return lines_.Push(bytes, [&](std::string_view line) {
      return line.empty() ? absl::OkStatus() : Take(std::string(line), now_ns);
    });
  }
  bool HasCutPiece() const override { return !lines_.rest().empty(); }

 private:
  absl::Status Take(const std::string& line, int64_t now_ns) {
    if (answer.is_over) return absl::OkStatus();
    if (line.starts_with("data:")) {
      return InvalidArgument("a stream of the OpenAI API; use --client openai");
    }
    ASSIGN_OR_RETURN(const Json chunk, ParsePiece(line, key_));
    if (json::Find(chunk, "error") != nullptr) {
      return Internal("the server failed: ", ErrorMessageIn(line, key_));
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
      answer.input_tokens = TokensIn(chunk, "prompt_eval_count", key_, &answer.message);
      answer.output_tokens = TokensIn(chunk, "eval_count", key_, &answer.message);
    }
    if (!wrong.empty()) return MisfitPiece(line, wrong, key_);
    answer.AddReasoning(thinking, now_ns);
    return answer.Add(content, now_ns);
  }

  const ApiKey key_;
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
    Json request = {{"model", model_},
                    {"messages", MessagesJson(parameters_, record.problem)},
                    {"stream", true},
                    {"options", options}};
    Json passed = Json::object();
    PassParametersOn(parameters_, &passed);
    for (auto& [name, value] : passed.items()) {
      if (name == "options" && value.is_object()) {
        request["options"].update(value);
      } else {
        (IsBesideOptions(name) ? request : request["options"])[name] = value;
      }
    }
    return json::Dump(request);
  }

  std::unique_ptr<ChatStream> NewStream(const ApiKey& key) const override {
    return std::make_unique<OllamaStream>(key);
  }

  // "llama3" means llama3:latest.
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
  // These names are members of the request. The model's parameters (num_ctx, top_k, stop, ...) are
  // options.
  static bool IsBesideOptions(std::string_view name) {
    constexpr std::string_view kNames[] = {"think",    "format",       "keep_alive", "tools",
                                           "logprobs", "top_logprobs", "truncate",   "shift"};
    return std::ranges::find(kNames, name) != std::end(kNames);
  }

  const std::string model_;
  const ClientParameters parameters_;
};

}  // namespace

std::unique_ptr<ChatProtocol> NewOllamaProtocol(const ClientOptions& options) {
  return std::make_unique<Ollama>(options);
}

}  // namespace xplane_time
