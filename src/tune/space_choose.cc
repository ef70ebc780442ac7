// Listing configurations. A grid is walked depth first, one parameter a level, and a
// constraint is looked at as soon as its last parameter has a value:
//
//   a=1  b=1  c=1 2 3 4     "a * b < 4" stands at level b: it is computed once for all c,
//        b=2  c=1 2 3 4     and where it is false the whole branch is left out
//
// A constraint that cannot be computed there excludes nothing yet: only if no other one
// excludes the configuration is it an error.
#include <algorithm>
#include <limits>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "stats/random.h"
#include "status.h"
#include "tune/space_internal.h"

namespace xplane_time {
namespace {

using stats::Random;
using tune::Absl;
using tune::CompiledConstraints;
using tune::EvaluationError;
using tune::Expression;
using tune::Json;
using tune::Value;

constexpr uint64_t kEnumerable = 10'000'000;   // grid points that are enumerated to sample
constexpr uint64_t kMostSteps = 200'000'000;   // without a further configuration
constexpr uint64_t kSearchSteps = 30'000'000;  // of a sample after rejection has failed
constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMostTries = 2'000'000;  // of rejection

// Digits of a grid point: the index of each parameter's value.
using Point = std::vector<uint32_t>;

enum class Fit : uint8_t { kIn, kOut, kUnknown };

// A space ready to walk. Holds references into `space`.
class Grid {
 public:
  static absl::StatusOr<Grid> Make(const SearchSpace& space) {
    ASSIGN_OR_RETURN(auto compiled, tune::CompileConstraints(space));
    Grid grid(space, std::move(compiled));
    grid.UseConstraints(space.constraints.size());
    return grid;
  }

  const SearchSpace& space() const { return *space_; }
  uint64_t points() const { return GridPoints(*space_); }

  // Only the first `count` constraints apply from now on.
  void UseConstraints(size_t count) {
    used_ = count;
    at_level_.assign(levels(), {});
    for (uint32_t i = 0; i < count && levels() > 0; ++i) {
      const std::vector<uint32_t>& names = compiled_.constraints[i].names_used();
      at_level_[names.empty() ? 0 : names.back()].push_back(i);
    }
  }
  size_t used_constraints() const { return used_; }

  // Visits grid points that no constraint excludes, in grid order, until `visit` returns
  // false: visit(point, constraint that cannot be computed or -1). False: gave up after
  // kMostSteps without a point, or after `most_steps` in all.
  using Visit = absl::FunctionRef<bool(const Point&, int)>;
  bool Walk(uint64_t most_steps, Visit visit) {
    if (points() == 0) return true;
    Point point(levels());
    steps_left_ = most_steps;
    dry_steps_left_ = kMostSteps;
    unknown_.clear();
    return Descend(0, &point, visit) != Outcome::kGaveUp;
  }

  // Whether a point fits, and the first constraint that cannot be computed.
  Fit Test(const Point& point, int* unknown) {
    for (size_t level = 0; level < levels(); ++level) Bind(level, point[level]);
    return TestBound(unknown);
  }

  // The same of an explicit variant.
  Fit TestVariant(const Configuration& variant, int* unknown) {
    const Json params = Json::parse(variant.params_json, nullptr, /*allow_exceptions=*/false);
    for (size_t i = 0; i < compiled_.names.size(); ++i) {
      values_[i] = ValueIn(params, compiled_.names[i]);
    }
    return TestBound(unknown);
  }

  std::string ParamsJson(const Point& point) const {
    std::string json = "{";
    for (uint32_t level : by_name_) {
      if (json.size() > 1) json.push_back(',');
      json.append(fragments_[level][point[level]]);
    }
    json.push_back('}');
    return json;
  }

  absl::StatusOr<Configuration> Make(const Point& point) {
    Configuration out;
    out.params_json = ParamsJson(point);
    out.id = VariantId(out.params_json);
    if (compiled_.mem_bytes.empty()) return out;
    for (size_t level = 0; level < levels(); ++level) Bind(level, point[level]);
    Value value;
    EvaluationError error;
    const Expression& expression = compiled_.mem_bytes[0];
    if (!expression.Evaluate(values_, &value, &error)) {
      return CannotCompute("$.mem_bytes", expression, error, out.params_json);
    }
    if (value.kind != tune::ValueKind::kInt || value.integer < 0) {
      return CannotCompute("$.mem_bytes", expression, {"is no integer from 0 up", 0},
                           out.params_json);
    }
    out.mem_bytes = value.integer;
    return out;
  }

  // Why a constraint has no value for a configuration; its values are those bound last.
  absl::Status Unknown(int constraint, const std::string& params_json) {
    const Expression& expression = compiled_.constraints[static_cast<size_t>(constraint)];
    Value value;
    EvaluationError error;
    expression.Evaluate(values_, &value, &error);
    return CannotCompute(absl::StrCat("$.constraints[", constraint, "]"), expression, error,
                         params_json);
  }

 private:
  enum class Outcome : uint8_t { kDone, kStopped, kGaveUp };

  Grid(const SearchSpace& space, CompiledConstraints compiled)
      : space_(&space), compiled_(std::move(compiled)) {
    values_.resize(std::max(compiled_.names.size(), space.parameters.size()));
    for (const Parameter& parameter : space.parameters) {
      std::vector<std::string>& texts = fragments_.emplace_back();
      const std::string name = tune::CanonicalJson(Json(parameter.name));
      for (const ParameterValue& value : parameter.values) {
        texts.push_back(absl::StrCat(name, ":", tune::CanonicalJson(tune::JsonOf(value))));
      }
      by_name_.push_back(static_cast<uint32_t>(by_name_.size()));
    }
    std::sort(by_name_.begin(), by_name_.end(), [&](uint32_t a, uint32_t b) {
      return space.parameters[a].name < space.parameters[b].name;
    });
  }

  size_t levels() const { return space_->parameters.size(); }

  void Bind(size_t level, uint32_t value) {
    values_[level] = tune::ValueOf(space_->parameters[level].values[value]);
  }

  Fit TestConstraint(uint32_t i) const {
    Value value;
    EvaluationError error;
    if (!compiled_.constraints[i].Evaluate(values_, &value, &error)) return Fit::kUnknown;
    return tune::IsTrue(value) ? Fit::kIn : Fit::kOut;
  }

  Fit TestBound(int* unknown) const {
    *unknown = -1;
    for (uint32_t i = 0; i < used_; ++i) {
      const Fit fit = TestConstraint(i);
      if (fit == Fit::kOut) return fit;
      if (fit == Fit::kUnknown && *unknown < 0) *unknown = static_cast<int>(i);
    }
    return *unknown < 0 ? Fit::kIn : Fit::kUnknown;
  }

  Outcome Descend(size_t level, Point* point, Visit visit) {
    const size_t unknown_before = unknown_.size();
    const size_t count = space_->parameters[level].values.size();
    for (uint32_t value = 0; value < count; ++value) {
      if (steps_left_-- == 0 || dry_steps_left_-- == 0) return Outcome::kGaveUp;
      (*point)[level] = value;
      Bind(level, value);
      if (!Fits(level)) {
        unknown_.resize(unknown_before);
        continue;
      }
      if (level + 1 < levels()) {
        const Outcome outcome = Descend(level + 1, point, visit);
        if (outcome != Outcome::kDone) return outcome;
      } else {
        dry_steps_left_ = kMostSteps;
        const auto first = std::min_element(unknown_.begin(), unknown_.end());
        if (!visit(*point, first == unknown_.end() ? -1 : static_cast<int>(*first))) {
          return Outcome::kStopped;
        }
      }
      unknown_.resize(unknown_before);
    }
    return Outcome::kDone;
  }

  bool Fits(size_t level) {
    for (uint32_t i : at_level_[level]) {
      const Fit fit = TestConstraint(i);
      if (fit == Fit::kOut) return false;
      if (fit == Fit::kUnknown) unknown_.push_back(i);
    }
    return true;
  }

  Value ValueIn(const Json& params, const std::string& name) {
    const auto found = params.find(name);
    if (found == params.end() || found->is_structured()) return Value::Other();
    if (found->is_null()) return Value::None();
    if (found->is_boolean()) return Value::Bool(found->get<bool>());
    if (found->is_string()) return Value::Text(&(texts_[name] = found->get<std::string>()));
    const bool fits = !found->is_number_unsigned() ||
                      found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
    if (found->is_number_integer() && fits) return Value::Int(found->get<int64_t>());
    return Value::Float(found->get<double>());
  }

  absl::Status CannotCompute(std::string_view path, const Expression& expression,
                             const EvaluationError& error, const std::string& params_json) const {
    std::string missing;
    for (uint32_t name : expression.names_used()) {
      if (values_[name].kind != tune::ValueKind::kOther) continue;
      absl::StrAppend(&missing, "; there is no plain value of \"", compiled_.names[name], "\"");
    }
    return InvalidArgument(space_->source, ": ", Absl(path), ": \"", expression.text(),
                           "\" cannot be computed for ", params_json, ": at ", error.position, ": ",
                           error.reason, missing,
                           "; guard it (\"b != 0 and a % b == 0\") or exclude that configuration");
  }

  const SearchSpace* space_;
  CompiledConstraints compiled_;
  size_t used_ = 0;
  std::vector<std::vector<uint32_t>> at_level_;      // constraints by their last parameter
  std::vector<Value> values_;                        // of compiled_.names
  std::map<std::string, std::string> texts_;         // of a variant, which values_ points to
  std::vector<std::vector<std::string>> fragments_;  // "name":value, by parameter and value
  std::vector<uint32_t> by_name_;
  std::vector<uint32_t> unknown_;  // constraints of the branch that cannot be computed
  uint64_t steps_left_ = 0, dry_steps_left_ = 0;
};

// --- Contradictions.

bool AnyFits(Grid* grid, bool with_grid) {
  int unknown = 0;
  for (const Configuration& variant : grid->space().variants) {
    if (grid->TestVariant(variant, &unknown) != Fit::kOut) return true;
  }
  bool found = false;
  const bool ended = !with_grid || grid->Walk(kEndless, [&](const Point&, int) {
    found = true;
    return false;
  });
  return found || !ended;
}

// The first constraint that leaves nothing with those before it. More constraints never
// leave more, so it is found by bisection.
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
                         space.constraints[of], "\"", of == 0 ? "" : " with those before it",
                         " leaves none of the ", points, space.variants.size(),
                         " listed variants; relax one of them");
}

// --- Choosing.

// What has been chosen so far, and what a grid point must not repeat.
class Chosen {
 public:
  Chosen(Grid* grid, uint64_t most) : grid_(grid), most_(most) {}

  // Those of the explicit variants that fit.
  absl::Status TakeVariants() {
    for (const Configuration& variant : grid_->space().variants) {
      int unknown = -1;
      const Fit fit = grid_->TestVariant(variant, &unknown);
      if (fit == Fit::kUnknown) return grid_->Unknown(unknown, variant.params_json);
      if (fit == Fit::kOut) continue;
      listed_.insert(variant.params_json);
      out_.push_back(variant);
    }
    return out_.size() > most_ ? TooMany() : absl::OkStatus();
  }

  bool IsListed(const Point& point) const {
    return !listed_.empty() && listed_.contains(grid_->ParamsJson(point));
  }

  absl::Status Take(const Point& point) {
    if (out_.size() == most_) return TooMany();
    ASSIGN_OR_RETURN(auto made, grid_->Make(point));
    out_.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Configuration>> Finish() {
    absl::flat_hash_set<absl::string_view> ids;
    ids.reserve(out_.size());
    for (const Configuration& c : out_) {
      if (ids.insert(c.id).second) continue;
      return InvalidArgument(grid_->space().source, ": two configurations have the id \"", c.id,
                             "\"; list one of them as a variant with another \"id\"");
    }
    return std::move(out_);
  }

  bool empty() const { return out_.empty(); }

 private:
  absl::Status TooMany() const {
    return ResourceExhausted(grid_->space().source, ": more than ", most_,
                             " configurations; add constraints, or draw a random sample of them");
  }

  Grid* grid_;
  uint64_t most_;
  absl::flat_hash_set<std::string> listed_;
  std::vector<Configuration> out_;
};

absl::Status GaveUp(const Grid& grid, uint64_t steps) {
  return ResourceExhausted(
      grid.space().source, ": not enough configurations in ", steps, " steps through a grid of ",
      grid.points(),
      " points; state constraints over the first parameters, list fewer values, or "
      "draw a random sample");
}

// Visits grid points that fit and are not listed, until `visit` says no. False: gave up.
absl::StatusOr<bool> WalkUnlisted(Grid* grid, const Chosen& chosen, uint64_t most_steps,
                                  absl::FunctionRef<absl::StatusOr<bool>(const Point&)> visit) {
  absl::StatusOr<bool> goes_on = true;
  const bool ended = grid->Walk(most_steps, [&](const Point& point, int unknown) {
    if (unknown >= 0) {
      goes_on = grid->Unknown(unknown, grid->ParamsJson(point));
    } else if (!chosen.IsListed(point)) {
      goes_on = visit(point);
    }
    return goes_on.ok() && *goes_on;
  });
  if (!goes_on.ok()) return goes_on.status();
  return ended;
}

absl::Status TakeGrid(Grid* grid, Chosen* chosen) {
  const auto take = [&](const Point& point) -> absl::StatusOr<bool> {
    RETURN_IF_ERROR(chosen->Take(point));
    return true;
  };
  ASSIGN_OR_RETURN(const bool ended, WalkUnlisted(grid, *chosen, kEndless, take));
  return ended ? absl::OkStatus() : GaveUp(*grid, kMostSteps);
}

// A sample of `count` out of all that fit (algorithm R). False: gave up.
absl::StatusOr<bool> Reservoir(Grid* grid, const Chosen& chosen, uint64_t count,
                               uint64_t most_steps, Random* random, std::vector<Point>* sample) {
  uint64_t seen = 0;
  return WalkUnlisted(grid, chosen, most_steps, [&](const Point& point) {
    ++seen;
    if (sample->size() < count) {
      sample->push_back(point);
    } else if (const uint64_t slot = random->BelowUnbiased(seen); slot < count) {
      (*sample)[slot] = point;
    }
    return true;
  });
}

// Draws points until `count` different ones fit; fewer where the tries run out.
absl::Status Reject(Grid* grid, const Chosen& chosen, uint64_t count, Random* random,
                    std::vector<Point>* sample) {
  const std::vector<Parameter>& parameters = grid->space().parameters;
  absl::flat_hash_set<Point> seen;
  Point point(parameters.size());
  const uint64_t tries = std::max(kMostTries, 10 * count);
  for (uint64_t i = 0; i < tries && sample->size() < count; ++i) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      point[p] = static_cast<uint32_t>(random->BelowUnbiased(parameters[p].values.size()));
    }
    int unknown = -1;
    const Fit fit = grid->Test(point, &unknown);
    if (fit == Fit::kUnknown) return grid->Unknown(unknown, grid->ParamsJson(point));
    if (fit == Fit::kOut || chosen.IsListed(point)) continue;
    if (seen.insert(point).second) sample->push_back(point);
  }
  return absl::OkStatus();
}

absl::Status TakeSample(Grid* grid, const Choice& choice, Chosen* chosen) {
  const uint64_t points = grid->points();
  const uint64_t count = std::min(choice.count, points);
  if (count == 0) return absl::OkStatus();
  if (count > choice.most) {
    return ResourceExhausted(grid->space().source, ": a sample of ", count, " is over ",
                             choice.most, "; ask for less");
  }
  Random random(choice.seed);
  std::vector<Point> sample;
  bool small = points / 4 < count || (grid->used_constraints() > 0 && points <= kEnumerable);
  if (!small) {
    RETURN_IF_ERROR(Reject(grid, *chosen, count, &random, &sample));
    if (sample.size() < count) sample.clear(), small = true;
  }
  if (small && sample.empty()) {
    const uint64_t steps = points / 4 < count || points <= kEnumerable ? kEndless : kSearchSteps;
    ASSIGN_OR_RETURN(const auto ended, Reservoir(grid, *chosen, count, steps, &random, &sample));
    if (!ended) return GaveUp(*grid, std::min(steps, kMostSteps));
  }
  std::sort(sample.begin(), sample.end());
  for (const Point& point : sample) {
    RETURN_IF_ERROR(chosen->Take(point));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Configuration>> ChooseConfigurations(const SearchSpace& space,
                                                                const Choice& choice) {
  ASSIGN_OR_RETURN(auto grid, Grid::Make(space));
  const bool with_grid = choice.strategy != Strategy::kList && grid.points() > 0;
  if (!with_grid && space.variants.empty() && grid.points() > 0) {
    return InvalidArgument(space.source, ": lists no variants; take the grid or a random sample");
  }
  Chosen chosen(&grid, choice.most);
  absl::Status status = chosen.TakeVariants();
  if (status.ok() && with_grid) {
    status = choice.strategy == Strategy::kGrid ? TakeGrid(&grid, &chosen)
                                                : TakeSample(&grid, choice, &chosen);
  }
  if (!status.ok()) return status;
  const bool asked = !with_grid || choice.strategy == Strategy::kGrid || choice.count > 0;
  const bool something = with_grid || !space.variants.empty();
  if (chosen.empty() && something && asked && !space.constraints.empty()) {
    return Contradiction(&grid, with_grid);
  }
  return chosen.Finish();
}

absl::Status VisitConfigurations(const SearchSpace& space,
                                 absl::FunctionRef<bool(const Configuration&)> visit) {
  ASSIGN_OR_RETURN(auto grid, Grid::Make(space));
  Chosen chosen(&grid, std::numeric_limits<uint64_t>::max());
  RETURN_IF_ERROR(chosen.TakeVariants());
  bool any = !chosen.empty();
  ASSIGN_OR_RETURN(const auto variants, chosen.Finish());
  for (const Configuration& variant : variants) {
    if (!visit(variant)) return absl::OkStatus();
  }
  const auto take = [&](const Point& point) -> absl::StatusOr<bool> {
    any = true;
    ASSIGN_OR_RETURN(const auto made, grid.Make(point));
    return visit(made);
  };
  ASSIGN_OR_RETURN(const bool ended, WalkUnlisted(&grid, chosen, kEndless, take));
  if (!ended) return GaveUp(grid, kMostSteps);
  const bool something = grid.points() > 0 || !space.variants.empty();
  if (any || !something || space.constraints.empty()) return absl::OkStatus();
  return Contradiction(&grid, /*with_grid=*/true);
}

}  // namespace xplane_time
