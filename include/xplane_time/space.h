// Space: what may be chosen from, as data, and the ways to list it.
//
// Enters: the text of a search space: our own JSON (schema xplane-time.space.v1,
// docs/space.md), a T1 input or a cache file of kernel_tuner, or autotuning data of
// tokamax; recognized by content. Leaves: a SearchSpace, and configurations in a fixed
// order. Not handled here: which of them is fastest (decide.h), what was measured (store.h).
//
//   auto space = ReadSpace("matmul.json");
//   // InvalidArgument: matmul.json: $.constraints[1]: at 8: expected a value, found "&"; ...
//   auto all = ChooseConfigurations(*space, {.strategy = Strategy::kGrid});
//   all->front().id == "v3f0c...", all->front().params_json == R"({"block_m":32})"
//   // InvalidArgument: matmul.json: contradictory constraints: ... leaves none of the ...
//
// A grid point is a value for each parameter, the last parameter running fastest.
// Constraints apply to grid points and to explicit variants. A configuration is out where
// some constraint is false; where none is false but one cannot be computed (division by
// zero, overflow, types), listing is an error that names constraint and configuration.
//
// An id is a function of the parameters alone: "v" and 16 hex digits of a hash of their
// canonical JSON (keys sorted by byte, no spaces, shortest numbers, floats with ".0" or an
// exponent). The place in a list, the order of keys and the file's format do not matter.
// Free functions of const data; safe to call from several threads.
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
  std::vector<ParameterValue> values;  // distinct, of the type, in the order given
};

// A point to measure.
struct Configuration {
  std::string id;
  std::string params_json;           // canonical
  std::optional<int64_t> mem_bytes;  // breaks ties: less is better
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

// One of several shapes that share the choice. Without any there is one, unnamed.
struct Workload {
  std::string id;
  std::string params_json;  // canonical
  double weight = 1;        // > 0, finite; relative to the others
  friend bool operator==(const Workload&, const Workload&) = default;
};

struct SearchSpace {
  std::string source;  // the file's name, for messages
  std::string name;    // as the file has it, or empty
  std::vector<Parameter> parameters;
  std::vector<std::string> constraints;  // expressions (docs/space.md)
  std::string mem_bytes;                 // expression for grid points, or empty
  std::vector<Configuration> variants;   // explicit ones, in file order, ids distinct
  std::vector<Workload> workloads;
  std::vector<std::string> notes;  // what an import left out or repaired
};

// Errors: InvalidArgument with file, JSON path, value and way out.
absl::StatusOr<SearchSpace> ParseSpace(std::string_view text, std::string_view source);
// Also NotFound, PermissionDenied, Unavailable (I/O), ResourceExhausted (over 1 GiB, of a
// pipe or a device 64 MiB).
absl::StatusOr<SearchSpace> ReadSpace(const std::string& path);

// The space in our own format; parsing it gives the same space.
std::string SpaceToJson(const SearchSpace& space);
// 32 hex digits of what decides the configurations and the workloads: equal for equal
// spaces, whatever file they came from.
std::string SpaceHash(const SearchSpace& space);

// `params_json` as an object in canonical form. Errors: InvalidArgument.
absl::StatusOr<std::string> CanonicalParams(std::string_view params_json);
// Of canonical parameters.
std::string VariantId(std::string_view canonical_params);

// Product of the numbers of values, before constraints; 0 without parameters; saturates.
uint64_t GridPoints(const SearchSpace& space);

enum class Strategy : uint8_t {
  kList,    // the explicit variants
  kGrid,    // those and every grid point
  kRandom,  // those and `count` grid points, drawn without replacement, in grid order
};

struct Choice {
  Strategy strategy = Strategy::kGrid;
  uint64_t count = 0;  // kRandom; all points where the grid has no more
  uint64_t seed = 0;   // kRandom: the same seed, the same points
  uint64_t most = 4'000'000;
};

// Explicit variants first; a grid point with the parameters of one of them is left out.
// Without constraints a sample costs O(count) at any grid size. With them, grids up to 10^7
// points are enumerated (about 0.2 us a point and constraint); larger ones are sampled by
// rejection, then by a bounded search, which is exact where it ends.
// An empty space is an empty list; constraints that leave nothing of a space that is not
// empty are an error. Errors: InvalidArgument (contradictory constraints: names the first
// one that, with those before it, leaves nothing; a constraint that cannot be computed),
// ResourceExhausted (more than `most`; a large grid whose constraints leave too little to
// find).
absl::StatusOr<std::vector<Configuration>> ChooseConfigurations(const SearchSpace& space,
                                                                const Choice& choice);

// The grid point with these parameters, whatever their order; a float may be written as an
// integer. InvalidArgument: not an object, a parameter too many or too few, a value that the
// space does not have, a constraint that is false or cannot be computed: says which.
absl::StatusOr<Configuration> FindPoint(const SearchSpace& space, std::string_view params_json);

// Explicit variants and grid points one by one, as kGrid, without keeping them; the visitor
// returns false to stop. Errors: as above.
absl::Status VisitConfigurations(const SearchSpace& space,
                                 absl::FunctionRef<bool(const Configuration&)> visit);

}  // namespace xplane_time
