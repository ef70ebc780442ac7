// Lists configurations. A grid is walked depth first, one parameter for each level. A constraint is
// evaluated as soon as its last parameter has a value:
//
//   a=1  b=1  c=1 2 3 4     "a * b < 4" belongs to level b: it is evaluated once for all c,
//        b=2  c=1 2 3 4     and if it is false, the whole branch is skipped
//
// A constraint that cannot be evaluated there excludes no points yet: it is an error only if no
// other constraint excludes the configuration.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "stats/random.h"
#include "status.h"
#include "tune/expression.h"
#include "tune/space_json.h"

namespace xplane_time {
namespace {

using stats::Random;
using tune::Evaluation, tune::Expression, tune::Value;

constexpr uint64_t kEnumerable = 10'000'000;   // grid points that a sample may enumerate
constexpr uint64_t kMostSteps = 200'000'000;   // steps without another configuration
constexpr uint64_t kSearchSteps = 30'000'000;  // steps of a sample after rejection sampling
constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMostTries = 2'000'000;  // tries of rejection sampling

// A grid point: the index of each parameter's value.
using Point = std::vector<uint32_t>;

struct CompiledConstraints {
  std::vector<std::string> names = {};  // names that they may use
  std::vector<Expression> constraints = {};
  std::optional<Expression> mem_bytes = {};
};

// The parameters or, if there are none, those of explicit variants.
std::vector<std::string> ConstraintNames(const SearchSpace& space) {
  std::vector<std::string> names;
  for (const Parameter& parameter : space.parameters) names.push_back(parameter.name);
  if (!names.empty()) return names;
  std::set<std::string> listed;
  for (const Configuration& variant : space.variants) {
    const tune::Json params = tune::Stored(variant.params_json);
    for (const auto& [name, unused] : params.items()) listed.insert(name);
  }
  return {listed.begin(), listed.end()};
}

absl::StatusOr<CompiledConstraints> CompileConstraints(const SearchSpace& space) {
  CompiledConstraints out;
  if (space.constraints.empty() && space.mem_bytes.empty()) return out;
  out.names = ConstraintNames(space);
  const auto compile = [&](const std::string& place, const std::string& text) {
    auto parsed = Expression::Parse(text, out.names);
    if (parsed.ok()) return parsed;
    parsed =
        InvalidArgument(space.source, ": ", place, ": \"", text, "\": ", parsed.status().message());
    return parsed;
  };
  for (size_t i = 0; i < space.constraints.size(); ++i) {
    ASSIGN_OR_RETURN(out.constraints.emplace_back(),
                     compile(absl::StrCat("$.constraints[", i, "]"), space.constraints[i]));
  }
  if (space.mem_bytes.empty()) return out;
  ASSIGN_OR_RETURN(out.mem_bytes, compile("$.mem_bytes", space.mem_bytes));
  return out;
}

// A space that is ready to be walked. Holds references into `space`.
class Grid {
 public:
  static absl::StatusOr<Grid> Make(const SearchSpace& space) {
    ASSIGN_OR_RETURN(auto compiled, CompileConstraints(space));
    return Grid(space, std::move(compiled));
  }

  const SearchSpace& space() const { return *space_; }
  uint64_t points() const { return GridPoints(*space_); }

  // From now on, only the first `count` constraints apply.
  void UseConstraints(size_t count) {
    used_ = count;
    at_level_.assign(levels(), {});
    for (uint32_t i = 0; i < count && levels() > 0; ++i) {
      const std::vector<uint32_t>& names = compiled_.constraints[i].names_used;
      at_level_[names.empty() ? 0 : names.back()].push_back(i);
    }
  }
  size_t used_constraints() const { return used_; }

  // From now on, skips points with these parameters.
  void Exclude(const std::string& params_json) { excluded_.insert(params_json); }

  // Visits the grid points that fit, in grid order, until `visit` returns false or an error.
  // Errors: ResourceExhausted after kMostSteps without a point, or after `most_steps` in total.
  using Visit = absl::FunctionRef<absl::StatusOr<bool>(const Point&)>;
  absl::Status Walk(uint64_t most_steps, Visit visit) {
    if (points() == 0) return absl::OkStatus();
    Point point(levels());
    most_steps_ = steps_left_ = most_steps;
    dry_steps_left_ = kMostSteps;
    unknown_.clear();
    error_ = absl::OkStatus();
    Descend(0, &point, visit);
    return error_;
  }

  // Whether a point or an explicit variant fits. Returns an error if a constraint cannot be
  // evaluated and no other one is false.
  absl::StatusOr<bool> Fits(const Point& point) {
    Bind(point);
    ASSIGN_OR_RETURN(const bool fits, BoundFits([&] { return ParamsJson(point); }));
    return fits && !IsExcluded(point);
  }
  absl::StatusOr<bool> Fits(const Configuration& variant) {
    const tune::Json params = tune::Stored(variant.params_json);
    for (size_t i = 0; i < compiled_.names.size(); ++i) {
      values_[i] = ValueIn(params, compiled_.names[i]);
    }
    return BoundFits([&] { return variant.params_json; });
  }

  absl::StatusOr<Configuration> Make(const Point& point) {
    Configuration out;
    out.params_json = ParamsJson(point);
    out.id = VariantId(out.params_json);
    if (!compiled_.mem_bytes.has_value()) return out;
    Bind(point);
    Evaluation run = {values_};
    const auto value = compiled_.mem_bytes->Evaluate(run);
    const auto* bytes = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
    if (bytes != nullptr && *bytes >= 0) {
      out.mem_bytes = *bytes;
      return out;
    }
    if (value.has_value()) run.reason = "is not an integer of at least 0";
    return CannotCompute("$.mem_bytes", *compiled_.mem_bytes, run, out.params_json);
  }

 private:
  enum class Fit : uint8_t { kIn, kOut, kUnknown };

  Grid(const SearchSpace& space, CompiledConstraints compiled)
      : space_(&space), compiled_(std::move(compiled)) {
    values_.resize(std::max(compiled_.names.size(), space.parameters.size()));
    UseConstraints(space.constraints.size());
  }

  size_t levels() const { return space_->parameters.size(); }

  std::string ParamsJson(const Point& point) const {
    tune::Json params = tune::Json::object();
    for (size_t level = 0; level < levels(); ++level) {
      const Parameter& of = space_->parameters[level];
      params[of.name] = tune::JsonOf(of.values[point[level]]);
    }
    return tune::CanonicalJson(params);
  }

  bool IsExcluded(const Point& point) const {
    return !excluded_.empty() && excluded_.contains(ParamsJson(point));
  }

  void Bind(size_t level, uint32_t value) {
    values_[level] = tune::ValueOf(space_->parameters[level].values[value]);
  }
  void Bind(const Point& point) {
    for (size_t level = 0; level < levels(); ++level) Bind(level, point[level]);
  }

  Fit Test(uint32_t constraint) const {
    Evaluation run = {values_};
    const auto value = compiled_.constraints[constraint].Evaluate(run);
    if (!value.has_value()) return Fit::kUnknown;
    return tune::IsTrue(*value) ? Fit::kIn : Fit::kOut;
  }

  absl::StatusOr<bool> BoundFits(absl::FunctionRef<std::string()> params_json) const {
    std::optional<uint32_t> unknown;
    for (uint32_t i = 0; i < used_; ++i) {
      const Fit fit = Test(i);
      if (fit == Fit::kOut) return false;
      if (fit == Fit::kUnknown && !unknown.has_value()) unknown = i;
    }
    if (unknown.has_value()) return Unknown(*unknown, params_json());
    return true;
  }

  // Returns whether the walk continues.
  bool Descend(size_t level, Point* point, Visit visit) {
    const size_t unknown_before = unknown_.size();
    const size_t count = space_->parameters[level].values.size();
    for (uint32_t value = 0; value < count; ++value) {
      if (steps_left_-- == 0 || dry_steps_left_-- == 0) return GiveUp();
      (*point)[level] = value;
      Bind(level, value);
      if (FitsAt(level)) {
        const bool is_last = level + 1 == levels();
        if (!(is_last ? Found(*point, visit) : Descend(level + 1, point, visit))) return false;
      }
      unknown_.resize(unknown_before);
    }
    return true;
  }

  bool GiveUp() {
    error_ = ResourceExhausted(
        space_->source, ": too few valid configurations within ", std::min(most_steps_, kMostSteps),
        " steps in a grid of ", points(),
        " points; constrain the first parameters, list fewer values, or use a random sample");
    return false;
  }

  bool Found(const Point& point, Visit visit) {
    dry_steps_left_ = kMostSteps;
    const auto first = std::min_element(unknown_.begin(), unknown_.end());
    absl::StatusOr<bool> goes_on = true;
    if (first != unknown_.end()) {
      goes_on = Unknown(*first, ParamsJson(point));
    } else if (!IsExcluded(point)) {
      goes_on = visit(point);
    }
    error_ = goes_on.status();
    return error_.ok() && *goes_on;
  }

  bool FitsAt(size_t level) {
    for (uint32_t i : at_level_[level]) {
      const Fit fit = Test(i);
      if (fit == Fit::kOut) return false;
      if (fit == Fit::kUnknown) unknown_.push_back(i);
    }
    return true;
  }

  Value ValueIn(const tune::Json& params, const std::string& name) {
    const auto found = params.find(name);
    if (found == params.end() || found->is_structured()) return tune::NoPlainValue();
    if (found->is_null()) return Value();
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_string()) return &(texts_[name] = found->get<std::string>());
    const bool fits = !found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{INT64_MAX};
    if (found->is_number_integer() && fits) return found->get<int64_t>();
    return found->get<double>();
  }

  // Why a constraint has no value for a configuration whose values are bound.
  absl::Status Unknown(uint32_t constraint, const std::string& params_json) const {
    const Expression& expression = compiled_.constraints[constraint];
    Evaluation run = {values_};
    expression.Evaluate(run);
    return CannotCompute(absl::StrCat("$.constraints[", constraint, "]"), expression, run,
                         params_json);
  }

  absl::Status CannotCompute(std::string_view path, const Expression& expression,
                             const Evaluation& run, const std::string& params_json) const {
    std::string missing;
    for (uint32_t name : expression.names_used) {
      if (!std::holds_alternative<tune::NoPlainValue>(values_[name])) continue;
      absl::StrAppend(&missing, "; this configuration has no plain value of \"",
                      compiled_.names[name], "\"");
    }
    // The types are the same in all configurations.
    const bool is_of_value = run.reason == std::string_view(tune::kByZero);
    return InvalidArgument(space_->source, ": ", path, ": \"", expression.text,
                           "\" cannot be computed for ", params_json, ": at ", run.position, ": ",
                           run.reason, missing,
                           is_of_value ? "; guard it (\"b != 0 and a % b == 0\")" : "; correct it",
                           " or exclude that configuration");
  }

  const SearchSpace* space_;
  CompiledConstraints compiled_;
  size_t used_ = 0;
  std::vector<std::vector<uint32_t>> at_level_;  // constraints by their last parameter
  std::vector<Value> values_;                    // of compiled_.names
  std::map<std::string, std::string> texts_;     // texts of a variant; values_ points to them
  absl::flat_hash_set<std::string> excluded_;
  std::vector<uint32_t> unknown_;  // constraints of the branch that cannot be evaluated
  uint64_t most_steps_ = 0, steps_left_ = 0, dry_steps_left_ = 0;
  absl::Status error_;  // of the walk
};

// --- Contradictions.

bool AnyFits(Grid* grid, bool with_grid) {
  for (const Configuration& variant : grid->space().variants) {
    if (const auto fits = grid->Fits(variant); !fits.ok() || *fits) return true;
  }
  if (!with_grid) return false;
  bool found = false;
  const auto ended = grid->Walk(kEndless, [&](const Point&) {
    found = true;
    return false;
  });
  return found || !ended.ok();
}

// Finds the first constraint that, together with those before it, excludes all configurations. More
// constraints never allow more, so bisection works.
absl::Status Contradiction(Grid* grid, bool with_grid) {
  const SearchSpace& space = grid->space();
  size_t fits = 0, contradicts = space.constraints.size();
  while (contradicts - fits > 1) {
    const size_t middle = fits + (contradicts - fits) / 2;
    grid->UseConstraints(middle);
    (AnyFits(grid, with_grid) ? fits : contradicts) = middle;
  }
  const size_t of = contradicts - 1;
  const std::string points =
      with_grid ? absl::StrCat(grid->points(), " grid points and ") : std::string();
  return InvalidArgument(space.source, ": contradictory constraints: $.constraints[", of, "] \"",
                         space.constraints[of], "\"",
                         of == 0 ? "" : " together with the earlier ones", " leaves none of the ",
                         points, space.variants.size(), " listed variants; relax one of them");
}

// --- Choosing.

absl::Status TooMany(const SearchSpace& space, uint64_t most) {
  return ResourceExhausted(space.source, ": more than ", most,
                           " configurations; add constraints, or use a random sample");
}

// The explicit variants that fit. No grid point repeats them.
absl::StatusOr<std::vector<Configuration>> TakeVariants(Grid* grid) {
  std::vector<Configuration> out;
  for (const Configuration& variant : grid->space().variants) {
    ASSIGN_OR_RETURN(const bool fits, grid->Fits(variant));
    if (!fits) continue;
    grid->Exclude(variant.params_json);
    out.push_back(variant);
  }
  return out;
}

absl::Status CheckIds(const SearchSpace& space, const std::vector<Configuration>& configurations) {
  absl::flat_hash_set<absl::string_view> ids;
  ids.reserve(configurations.size());
  for (const Configuration& each : configurations) {
    if (ids.insert(each.id).second) continue;
    return InvalidArgument(space.source, ": two configurations have the id \"", each.id,
                           "\"; list one of them as a variant with another \"id\"");
  }
  return absl::OkStatus();
}

// A sample of `count` out of all that fit (algorithm R).
absl::Status Reservoir(Grid* grid, uint64_t count, uint64_t most_steps, Random* random,
                       std::vector<Point>* sample) {
  uint64_t seen = 0;
  return grid->Walk(most_steps, [&](const Point& point) {
    ++seen;
    if (sample->size() < count) {
      sample->push_back(point);
    } else if (const uint64_t slot = random->BelowUnbiased(seen); slot < count) {
      (*sample)[slot] = point;
    }
    return true;
  });
}

// Draws points until `count` different ones fit; fewer if the tries are used up.
absl::Status Reject(Grid* grid, uint64_t count, Random* random, std::vector<Point>* sample) {
  const std::vector<Parameter>& parameters = grid->space().parameters;
  absl::flat_hash_set<Point> seen;
  Point point(parameters.size());
  const uint64_t tries = std::max(kMostTries, 10 * count);
  for (uint64_t i = 0; i < tries && sample->size() < count; ++i) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      point[p] = static_cast<uint32_t>(random->BelowUnbiased(parameters[p].values.size()));
    }
    ASSIGN_OR_RETURN(const bool fits, grid->Fits(point));
    if (fits && seen.insert(point).second) sample->push_back(point);
  }
  return absl::OkStatus();
}

// In grid order.
absl::StatusOr<std::vector<Point>> DrawSample(Grid* grid, const Choice& choice) {
  std::vector<Point> sample;
  const uint64_t points = grid->points(), count = std::min(choice.count, points);
  if (count == 0) return sample;
  if (count > choice.most) {
    return ResourceExhausted(grid->space().source, ": a sample of ", count, " exceeds ",
                             choice.most, "; use a smaller sample");
  }
  Random random(choice.seed);
  const bool is_most = points / 4 < count;
  bool small = is_most || (grid->used_constraints() > 0 && points <= kEnumerable);
  if (!small) {
    RETURN_IF_ERROR(Reject(grid, count, &random, &sample));
    if (sample.size() < count) sample.clear(), small = true;
  }
  if (small) {
    const uint64_t steps = is_most || points <= kEnumerable ? kEndless : kSearchSteps;
    RETURN_IF_ERROR(Reservoir(grid, count, steps, &random, &sample));
  }
  std::sort(sample.begin(), sample.end());
  return sample;
}

// Visits the chosen configurations until `take` returns false or an error.
absl::Status Visit(const SearchSpace& space, const Choice& choice,
                   absl::FunctionRef<absl::StatusOr<bool>(Configuration&&)> take) {
  ASSIGN_OR_RETURN(auto grid, Grid::Make(space));
  const bool with_grid = choice.strategy != Strategy::kList && grid.points() > 0;
  if (!with_grid && space.variants.empty() && grid.points() > 0) {
    return InvalidArgument(space.source, ": lists no variants; use the grid or a random sample");
  }
  ASSIGN_OR_RETURN(auto variants, TakeVariants(&grid));
  RETURN_IF_ERROR(CheckIds(space, variants));
  for (Configuration& variant : variants) {
    ASSIGN_OR_RETURN(const bool goes_on, take(std::move(variant)));
    if (!goes_on) return absl::OkStatus();
  }
  bool any = !variants.empty();
  const auto take_point = [&](const Point& point) -> absl::StatusOr<bool> {
    any = true;
    ASSIGN_OR_RETURN(auto made, grid.Make(point));
    return take(std::move(made));
  };
  if (with_grid && choice.strategy == Strategy::kGrid) {
    RETURN_IF_ERROR(grid.Walk(kEndless, take_point));
  } else if (with_grid) {
    ASSIGN_OR_RETURN(const auto sample, DrawSample(&grid, choice));
    for (const Point& point : sample) RETURN_IF_ERROR(take_point(point).status());
  }
  const bool asked = !with_grid || choice.strategy == Strategy::kGrid || choice.count > 0;
  const bool something = with_grid || !space.variants.empty();
  if (any || !something || !asked || space.constraints.empty()) return absl::OkStatus();
  return Contradiction(&grid, with_grid);
}

// --- A point.

bool IsValue(const tune::Json& given, const ParameterValue& value) {
  const tune::Json known = tune::JsonOf(value);
  return given == known && (known.is_number_float() || !given.is_number_float());
}

absl::Status NoPoint(std::string_view params_json, std::string_view why) {
  constexpr size_t kShown = 200;
  return InvalidArgument(params_json.substr(0, kShown), " is not a point of the space: ", why);
}

}  // namespace

absl::Status tune::CheckConstraints(const SearchSpace& space) {
  return CompileConstraints(space).status();
}

absl::StatusOr<std::vector<Configuration>> ChooseConfigurations(const SearchSpace& space,
                                                                const Choice& choice) {
  std::vector<Configuration> chosen;
  RETURN_IF_ERROR(Visit(space, choice, [&](Configuration&& each) -> absl::StatusOr<bool> {
    if (chosen.size() == choice.most) return TooMany(space, choice.most);
    chosen.push_back(std::move(each));
    return true;
  }));
  RETURN_IF_ERROR(CheckIds(space, chosen));
  return chosen;
}

absl::Status VisitConfigurations(const SearchSpace& space,
                                 absl::FunctionRef<bool(const Configuration&)> visit) {
  return Visit(space, {}, [&](Configuration&& each) { return visit(each); });
}

// Chooses from a space that only consists of this point, so constraints and their messages are the
// same.
absl::StatusOr<Configuration> FindPoint(const SearchSpace& space, std::string_view params_json) {
  const tune::Json params = tune::Json::parse(params_json, nullptr, /*allow_exceptions=*/false);
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
      return NoPoint(params_json, absl::StrCat("\"", parameter.name, "\" never has the value ",
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
