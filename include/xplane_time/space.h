// Space: a search space as data, and functions that list its configurations.
//
// Input: the text of a search space. It is our own JSON (schema xplane-time.space.v1,
// docs/space.md), a T1 input or cache file of kernel_tuner, or autotuning data of tokamax; the
// content determines the format. Output: a SearchSpace, and configurations in a fixed order. Not
// handled here: the decision (decide.h) and the storage of measurements (store.h).
//
// Example:
//
//   auto space = ParseSpace(R"({
//     "schema": "xplane-time.space.v1",
//     "parameters": [{"name": "block_m", "type": "int", "values": [32, 64, 128]}],
//     "constraints": ["block_m <= 64"]})",
//                           "matmul.json");
//   if (!space.ok()) return space.status();
//   // InvalidArgument: matmul.json: $.constraints[0]: at 8: expected a value, found "&"; ...
//   auto all = ChooseConfigurations(*space, {.strategy = Strategy::kGrid});
//   if (!all.ok()) return all.status();
//   // InvalidArgument: matmul.json: contradictory constraints: ... leaves none of the ...
//   assert(all->size() == 2 && all->front().params_json == R"({"block_m":32})");
//
// A grid point has a value for each parameter. The last parameter varies fastest. Constraints apply
// to grid points and to explicit variants. A configuration is excluded if some constraint is false.
// If none is false but one cannot be computed (division by zero, overflow, types), the listing
// fails with an error that names the constraint and the configuration.
//
// An id depends on the parameters alone: "v" and 16 hex digits of a hash of their canonical JSON
// (keys sorted by byte, no spaces, shortest numbers, floats with ".0" or an exponent). The position
// in a list, the order of keys and the format of the file do not affect it. The functions are free
// functions of const data and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time {

enum class ParameterType : uint8_t { kInt, kFloat, kString, kBool };

using ParameterValue = std::variant<bool, int64_t, double, std::string>;

struct Parameter {
  std::string name;
  ParameterType type = ParameterType::kInt;
  std::vector<ParameterValue> values;  // distinct, all of `type`, in the order of the file
};

// A point to measure.
struct Configuration {
  std::string id;
  std::string params_json;           // canonical
  std::optional<int64_t> mem_bytes;  // resolves ties: the smaller one wins
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

// One of several shapes that share one configuration. A space without workloads has one unnamed
// workload.
struct Workload {
  std::string id;
  std::string params_json;  // canonical
  double weight = 1;        // > 0, finite; relative to the others
  friend bool operator==(const Workload&, const Workload&) = default;
};

struct SearchSpace {
  std::string source;  // name of the file, for messages
  std::string name;    // name in the file, or empty
  std::vector<Parameter> parameters;
  std::vector<std::string> constraints;  // expressions (docs/space.md)
  std::string mem_bytes;                 // expression that gives mem_bytes of grid points, or empty
  std::vector<Configuration> variants;   // explicit ones, in file order, ids distinct
  std::vector<Workload> workloads;
  std::vector<std::string> notes;  // what an import skipped or repaired
};

// Errors: InvalidArgument with the file, the JSON path, the value and a remedy.
absl::StatusOr<SearchSpace> ParseSpace(std::string_view text, std::string_view source);
// Errors: those of ParseSpace, NotFound, PermissionDenied, Unavailable (I/O), ResourceExhausted
// (over 1 GiB, or 64 MiB from a pipe or device).
absl::StatusOr<SearchSpace> ReadSpace(const std::string& path);

// The space in our own format. ParseSpace of the result gives the same space.
std::string SpaceToJson(const SearchSpace& space);
// 32 hex digits: a hash of everything that determines the configurations and workloads. Equal
// spaces have equal hashes, whatever files they came from.
std::string SpaceHash(const SearchSpace& space);

// `params_json` as an object in canonical form. Errors: InvalidArgument.
absl::StatusOr<std::string> CanonicalParams(std::string_view params_json);
// The id of a configuration. `canonical_params` comes from CanonicalParams.
std::string VariantId(std::string_view canonical_params);

// Number of grid points before constraints. 0 without parameters; saturates.
uint64_t GridPoints(const SearchSpace& space);

enum class Strategy : uint8_t {
  kList,  // the explicit variants
  kGrid,  // the explicit variants and every grid point
  // the explicit variants and `count` grid points, drawn without replacement, in grid order
  kRandom,
};

struct Choice {
  Strategy strategy = Strategy::kGrid;
  uint64_t count = 0;  // for kRandom; all points if the grid has no more
  uint64_t seed = 0;   // for kRandom; equal seeds give equal points
  uint64_t most = 4'000'000;
};

// Lists explicit variants first. A grid point with the same parameters as an explicit variant is
// dropped. Without constraints a sample costs O(count) for any size of the grid. With constraints,
// grids of up to 10^7 points are enumerated (about 0.2 us per point and constraint). Larger grids
// are sampled by rejection, and then by a bounded search, which is exact if it completes.
//
// An empty space gives an empty list. If the space is not empty and the constraints exclude all its
// points, this is an error. Errors: InvalidArgument (contradictory constraints: the message names
// the first one that excludes everything together with those before it; a constraint that cannot be
// computed), ResourceExhausted (more than `most` configurations; a large grid in which too few
// points satisfy the constraints).
absl::StatusOr<std::vector<Configuration>> ChooseConfigurations(const SearchSpace& space,
                                                                const Choice& choice);

// Finds the grid point with these parameters, in any order. A float may be written as an integer.
// Errors: InvalidArgument (not an object, a missing or additional parameter, a value that the space
// does not have, a constraint that is false or cannot be computed); the message names the problem.
absl::StatusOr<Configuration> FindPoint(const SearchSpace& space, std::string_view params_json);

// Visits explicit variants and grid points one by one, as kGrid does, without storing them. The
// visitor returns false to stop. Errors: as ChooseConfigurations.
absl::Status VisitConfigurations(const SearchSpace& space,
                                 absl::FunctionRef<bool(const Configuration&)> visit);

}  // namespace xplane_time
