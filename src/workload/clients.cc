#include "workload/clients.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "json/json.h"
#include "json/json_cursor.h"
#include "status.h"
#include "workload/chat_json.h"
#include "workload/model_server.h"

namespace xplane_time {
namespace {

using enum ClientParameterType;

absl::StatusOr<std::unique_ptr<InferenceClient>> MakeCommand(const ClientOptions& options) {
  return CommandClient::New({.command = options.command,
                             .model = options.model,
                             .timeout = options.timeout,
                             .most_failures = options.most_failures,
                             .stopped = options.stopped});
}

template <ChatProtocolFactory protocol>
absl::StatusOr<std::unique_ptr<InferenceClient>> MakeModelServer(const ClientOptions& options) {
  return NewModelServerClient(protocol, options);
}

// Parameters of the generation, then of the connection.
constexpr std::array<ClientParameter, 10> ServerParameters(std::string_view api_key_env) {
  constexpr double kAny = std::numeric_limits<double>::lowest();
  return {{{"temperature", kNumber, "", "Sampling temperature"},
           {"top_p", kNumber, "", "Probability mass to sample from"},
           {"max_tokens", kWhole, "", "Maximum number of tokens in an answer", 1},
           {"seed", kWhole, "", "Seed of the sampling", kAny},
           {"system", kText, "", "System prompt"},
           {"retries", kWhole, "3", "Retries after HTTP 429, 503 and lost connections"},
           {"backoff_s", kNumber, "0.5", "Wait before the 2nd attempt; doubles each time"},
           {"connect_timeout_s", kNumber, "10", "Time limit to connect", 0.001},
           {"stall_timeout_s", kNumber, "60", "Time limit between two pieces of a stream", 0.001},
           {"api_key_env", kText, api_key_env, "Environment variable with the API key"}}};
}
constexpr auto kOpenAiParameters = ServerParameters("OPENAI_API_KEY"),
               kOllamaParameters = ServerParameters("");

constexpr ClientKind kClients[] = {
    {.name = "command", .help = "A command that reads and writes JSON lines", .make = MakeCommand},
    {.name = "openai",
     .help = "A server with the OpenAI API",
     .over_http = true,
     .parameters = kOpenAiParameters,
     .make = MakeModelServer<NewOpenAiProtocol>},
    {.name = "ollama",
     .help = "Ollama, with its native API",
     .over_http = true,
     .default_base_url = "http://127.0.0.1:11434",
     .parameters = kOllamaParameters,
     .make = MakeModelServer<NewOllamaProtocol>}};

// Returns "temperature, top_p, ..."
template <typename Named>
std::string NamesIn(std::span<const Named> all) {
  std::string names;
  for (const Named& each : all) Append(&names, names.empty() ? "" : ", ", each.name);
  return names;
}

std::optional<ClientParameterValue> ValueOf(const ClientParameter& parameter,
                                            std::string_view text) {
  int64_t whole = 0;
  double number = 0;
  switch (parameter.type) {
    case kText:
      if (text.empty()) return std::nullopt;
      return std::string(text);
    case kWhole:
      if (!absl::SimpleAtoi(Absl(text), &whole)) return std::nullopt;
      number = static_cast<double>(whole);
      break;
    case kNumber:
      if (!absl::SimpleAtod(Absl(text), &number) || !std::isfinite(number)) return std::nullopt;
  }
  if (number < parameter.least) return std::nullopt;
  return parameter.type == kWhole ? ClientParameterValue(whole) : ClientParameterValue(number);
}

// Explains why a parameter of this name is not passed on; empty if it is.
std::string RefusalOf(std::string_view name) {
  struct Refused {
    std::string_view name, why;
  };
  constexpr Refused kRefused[] = {
      {"model", "is set by --model"},
      {"messages", "is the question; use system=TEXT for the system prompt"},
      {"stream", "is always true, because times are measured on the stream"},
      {"base_url", "is set by --base-url"},
      {"api_key",
       "would be stored in the results; use api_key_env=NAME with the name of an environment "
       "variable"}};
  const auto* const at = std::ranges::find(kRefused, name, &Refused::name);
  return at == std::end(kRefused) ? "" : std::string(at->why);
}

// Converts the value of a parameter that is passed on: JSON, or else text.
absl::StatusOr<PassedOn> ToPassOn(std::string_view name, std::string_view text) {
  json::Json value = json::Parse(text);
  if (value.is_discarded()) value = std::string(text);
  const bool is_body = name == kExtraBody;
  if (is_body && !value.is_object()) {
    return InvalidArgument("--client-param: ", name, ": must be a JSON object");
  }
  std::vector<std::string> names = {std::string(name)};
  for (auto each = value.begin(); is_body && each != value.end(); ++each) {
    names.push_back(each.key());
  }
  for (const std::string& each : names) {
    const std::string why = RefusalOf(each);
    if (!why.empty()) return InvalidArgument("--client-param: ", each, ": ", why);
  }
  return PassedOn{json::Dump(value)};
}

std::string WantedOf(const ClientParameter& parameter) {
  if (parameter.type == kText) return "a string";
  const char* const what = parameter.type == kWhole ? "a whole number" : "a number";
  return std::abs(parameter.least) < 1e9 ? Cat(what, " of at least ", parameter.least) : what;
}

}  // namespace

std::string_view ClientParameterTypeName(ClientParameterType type) {
  constexpr std::string_view kNames[] = {"whole", "number", "text"};
  return kNames[static_cast<size_t>(type)];
}

std::span<const ClientKind> Clients() { return kClients; }

absl::StatusOr<const ClientKind*> FindClient(std::string_view name) {
  const auto at = std::ranges::find(kClients, name, &ClientKind::name);
  if (at != std::end(kClients)) return at;
  return InvalidArgument("--client: unknown client \"", name, "\"; clients: ", NamesIn(Clients()),
                         " (xplane-time power clients)");
}

absl::StatusOr<ClientParameters> ParseParameters(const ClientKind& kind,
                                                 const std::vector<std::string>& texts) {
  ClientParameters values;
  for (const ClientParameter& each : kind.parameters) {
    if (auto value = ValueOf(each, each.default_text)) values.emplace(each.name, *std::move(value));
  }
  for (const std::string_view text : texts) {
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == text.npos || name.empty()) {
      return InvalidArgument("--client-param: \"", text, "\": must be NAME=VALUE");
    }
    if (!json::IsUtf8(text)) return InvalidArgument("--client-param: \"", text, "\": is not UTF-8");
    const auto at = std::ranges::find(kind.parameters, name, &ClientParameter::name);
    if (at == kind.parameters.end() && kind.over_http) {
      ASSIGN_OR_RETURN(PassedOn passed, ToPassOn(name, text.substr(equals + 1)));
      values.insert_or_assign(std::string(name), std::move(passed));
      continue;
    }
    if (at == kind.parameters.end()) {
      const std::string names = NamesIn(kind.parameters);
      return InvalidArgument("--client-param: ", kind.name, " has no parameter \"", name, "\"; ",
                             names.empty() ? "it has no parameters" : "parameters: " + names);
    }
    auto value = ValueOf(*at, text.substr(equals + 1));
    if (!value.has_value()) {
      return InvalidArgument("--client-param: ", name, ": must be ", WantedOf(*at), ", not \"",
                             text.substr(equals + 1), "\"");
    }
    values.insert_or_assign(std::string(name), *std::move(value));
  }
  return values;
}

}  // namespace xplane_time
