// The clients of power run, by name: who answers, and what can be set of each.
//
//   ASSIGN_OR_RETURN(const ClientKind* kind, FindClient("openai"));
//   ASSIGN_OR_RETURN(options.parameters, ParseParameters(*kind, {"temperature=0"}));
//   // InvalidArgument: --client-param: openai has no parameter "heat"; it has temperature, top_p,
//   ... ASSIGN_OR_RETURN(const auto client, kind->make(options));
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
using ClientParameterValue = std::variant<int64_t, double, std::string>;
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
  bool over_http = false;                  // has a base URL, and may be asked several at once
  std::string_view default_base_url = {};  // empty: it must be given
  std::span<const ClientParameter> parameters = {};
  // Errors: InvalidArgument (options), Unavailable (what it stands on is not installed).
  absl::StatusOr<std::unique_ptr<InferenceClient>> (*make)(const ClientOptions& options);
};

std::span<const ClientKind> Clients();
// Errors: InvalidArgument, with those that there are.
absl::StatusOr<const ClientKind*> FindClient(std::string_view name);
// Of "NAME=VALUE" each, and the defaults. Errors: InvalidArgument, with what there is.
absl::StatusOr<ClientParameters> ParseParameters(const ClientKind& kind,
                                                 const std::vector<std::string>& texts);

}  // namespace xplane_time
