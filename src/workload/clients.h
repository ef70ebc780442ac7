// The clients of power run, by name: who answers, and what can be set of each.
//
//   ASSIGN_OR_RETURN(const ClientKind* kind, FindClient("openai"));
//   ASSIGN_OR_RETURN(options.parameters, ParseParameters(*kind, {"temperature=0"}));
//   // InvalidArgument: --client-param: temperature: must be a number of at least 0, and is "hot"
//   ASSIGN_OR_RETURN(const auto client, kind->make(options));
//
// A new one is a line in clients.cc (CONTRIBUTING.md).
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
  std::string_view default_text = {};  // empty: not given, and the server's own
  std::string_view help = {};
  double least = 0;  // of a number
};
// A parameter that the client does not know: the server gets it as it is.
struct PassedOn {
  std::string json;
};
using ClientParameterValue = std::variant<int64_t, double, std::string, PassedOn>;
// By name: those that are given or have a default.
using ClientParameters = std::map<std::string, ClientParameterValue, std::less<>>;

struct ClientOptions {
  std::vector<std::string> command = {};  // of a client that runs one
  std::string base_url = {};              // of a client over HTTP
  std::string model = {};
  std::chrono::milliseconds timeout{600'000};  // of an answer
  int most_failures = 3;  // answers in a row that were lost with the process or the connection
  ClientParameters parameters = {};
  std::function<bool()> stopped = [] { return false; };
};

struct ClientKind {
  std::string_view name, help;
  // Has a base URL, may be asked several questions at once, and passes parameters on that it does
  // not know.
  bool over_http = false;
  std::string_view default_base_url = {};  // empty: it must be given
  std::span<const ClientParameter> parameters = {};
  // Errors: InvalidArgument (options), Unavailable (what it stands on is not installed).
  absl::StatusOr<std::unique_ptr<InferenceClient>> (*make)(const ClientOptions& options);
};

std::span<const ClientKind> Clients();
// Errors: InvalidArgument, with those that there are.
absl::StatusOr<const ClientKind*> FindClient(std::string_view name);
// Of "NAME=VALUE" each, and the defaults. A value that is passed on is JSON, or else a text:
// top_k=5 is a number, reasoning_effort=high a text. Errors: InvalidArgument (a known parameter
// with another type; one that the client sets itself, or that would keep a key in the results; no
// UTF-8; any unknown one, of a client that is not over HTTP).
absl::StatusOr<ClientParameters> ParseParameters(const ClientKind& kind,
                                                 const std::vector<std::string>& texts);

}  // namespace xplane_time
