#include <algorithm>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/space_internal.h"

namespace xplane_time {
namespace {

using tune::Json;

bool IsValue(const Json& given, const ParameterValue& value) {
  const Json known = tune::JsonOf(value);
  if (known.is_number_float()) return given.is_number() && given.get<double>() == known;
  return given.type() == known.type() || (given.is_number_integer() && known.is_number_integer())
             ? given == known
             : false;
}

absl::Status NoPoint(std::string_view params_json, std::string_view why) {
  constexpr size_t kShown = 200;
  const std::string_view shown = params_json.substr(0, kShown);
  return InvalidArgument(std::string(shown), " is no point of the space: ", std::string(why));
}

}  // namespace

// A space of this point alone is chosen from: constraints mean the same, and are said the same.
absl::StatusOr<Configuration> FindPoint(const SearchSpace& space, std::string_view params_json) {
  const Json params = Json::parse(params_json, nullptr, /*allow_exceptions=*/false);
  if (!params.is_object()) return NoPoint(params_json, "it is not a JSON object");
  SearchSpace point = space;
  point.variants.clear();
  for (Parameter& parameter : point.parameters) {
    const auto given = params.find(parameter.name);
    if (given == params.end()) {
      return NoPoint(params_json, absl::StrCat("it has no \"", parameter.name, "\""));
    }
    const auto value =
        std::find_if(parameter.values.begin(), parameter.values.end(),
                     [&](const ParameterValue& each) { return IsValue(*given, each); });
    if (value == parameter.values.end()) {
      return NoPoint(params_json, absl::StrCat("\"", parameter.name, "\" is never ",
                                               tune::CanonicalJson(*given)));
    }
    parameter.values = {ParameterValue(*value)};
  }
  if (point.parameters.empty()) return NoPoint(params_json, "the space has no parameters");
  if (params.size() != point.parameters.size()) {
    return NoPoint(params_json, "it has parameters that the space does not have");
  }
  auto chosen = ChooseConfigurations(point, {.strategy = Strategy::kGrid});
  if (!chosen.ok()) return NoPoint(params_json, std::string(chosen.status().message()));
  return chosen->front();
}

}  // namespace xplane_time
