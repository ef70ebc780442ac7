// The clients of power run, by name: who answers, and the parameters of each.
//
//   ASSIGN_OR_RETURN(const ClientKind* kind, FindClient("openai"));
//   ASSIGN_OR_RETURN(options.parameters, ParseParameters(*kind, {"temperature=0"}));
//   // InvalidArgument: --client-param: temperature: must be a number of at least 0, and is "hot"
//   ASSIGN_OR_RETURN(const auto client, kind->make(options));
//
// A new client is a line in clients.cc (CONTRIBUTING.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/power_run.h"

namespace xplane_time {

enum class ClientParameterType : uint8_t { kWhole, kNumber, kText };
std::string_view ClientParameterTypeName(ClientParameterType type);  // whole, number, text

struct ClientParameter {
  std::string_view name;
  ClientParameterType type = ClientParameterType::kText;
  std::string_view default_text = {};  // empty: not sent, so the server's default applies
  std::string_view help = {};
  double least = 0;  // minimum of a number
};
// A parameter that the client does not know; it is sent to the server unchanged.
struct PassedOn {
  std::string json;
};
using ClientParameterValue = std::variant<int64_t, double, std::string, PassedOn>;
// By name: the given parameters and those with a default.
using ClientParameters = std::map<std::string, ClientParameterValue, std::less<>>;

struct ClientOptions {
  std::vector<std::string> command = {};  // for clients that run a command
  std::string base_url = {};              // for clients over HTTP
  std::string model = {};
  std::chrono::milliseconds timeout{600'000};  // for an answer
  int most_failures = 3;  // successive answers that were lost with the process or the connection
  ClientParameters parameters = {};
  std::function<bool()> stopped = [] { return false; };
};

struct ClientKind {
  std::string_view name, help;
  // Has a base URL, supports concurrent questions, and passes unknown parameters on.
  bool over_http = false;
  std::string_view default_base_url = {};  // empty: it is required
  std::span<const ClientParameter> parameters = {};
  // Errors: InvalidArgument (options), Unavailable (a dependency is not installed).
  absl::StatusOr<std::unique_ptr<InferenceClient>> (*make)(const ClientOptions& options);
};

std::span<const ClientKind> Clients();
// Errors: InvalidArgument, with the known names.
absl::StatusOr<const ClientKind*> FindClient(std::string_view name);
// Parses texts "NAME=VALUE" and adds the defaults. A value that is passed on is JSON, or else text:
// top_k=5 is a number, reasoning_effort=high a text. Errors: InvalidArgument (a known parameter
// with another type; a parameter that the client sets itself, or that would store a key in the
// results; not UTF-8; an unknown parameter of a client without HTTP).
absl::StatusOr<ClientParameters> ParseParameters(const ClientKind& kind,
                                                 const std::vector<std::string>& texts);

}  // namespace xplane_time
