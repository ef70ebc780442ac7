// What the parts of the space reader share: importers, and constraints ready to evaluate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/expression.h"
#include "tune/space_json.h"
#include "xplane_time/space.h"

namespace xplane_time::tune {

inline constexpr size_t kMostValues = 1'000'000;  // of one parameter
inline constexpr size_t kMostParameters = 256;

// Each takes a document that `Is...` recognized.
bool IsT1(const Json& document);
absl::StatusOr<SearchSpace> ImportT1(const Json& document, std::string_view source);

bool IsKernelTunerCache(const Json& document);
absl::StatusOr<SearchSpace> ImportKernelTunerCache(const Json& document, std::string_view source);
// A cache file that its writer did not close: the text up to its last whole entry, closed;
// empty where it is no such file.
std::string CloseOpenCache(std::string_view text);

bool IsTokamax(const Json& document);
absl::StatusOr<SearchSpace> ImportTokamax(const Json& document, std::string_view source);

// Parameter values as T1 writes them in Python: a list, a range, list(range(...)), or a
// comprehension over one of these. Errors: InvalidArgument without a place.
absl::StatusOr<std::vector<ParameterValue>> ParsePythonValues(std::string_view text);

// The names that constraints may use: parameters; without any, those of explicit variants.
std::vector<std::string> ConstraintNames(const SearchSpace& space);

// Constraints and the memory expression, parsed. Errors: InvalidArgument with place.
struct CompiledConstraints {
  std::vector<std::string> names;
  std::vector<Expression> constraints;
  std::vector<Expression> mem_bytes;  // none or one
};
absl::StatusOr<CompiledConstraints> CompileConstraints(const SearchSpace& space);

// References into `value`.
Value ValueOf(const ParameterValue& value);
Json JsonOf(const ParameterValue& value);

// Fails where two values are equal.
absl::Status CheckDistinct(const Parameter& parameter, const Field& field);

}  // namespace xplane_time::tune
