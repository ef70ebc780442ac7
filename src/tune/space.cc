// Our own format: reading, writing, ids. The other formats are in space_import.cc.
#include "xplane_time/space.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/whole_file.h"
#include "status.h"
#include "tune/expression.h"
#include "tune/space_json.h"

namespace xplane_time {
namespace {

using tune::Field, tune::Json;

constexpr std::string_view kSchema = "xplane-time.space.v1";
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr uint64_t kMostBytesOfAPipe = uint64_t{64} << 20;  // it may be endless

absl::Status TooManyValues(const Field& field) {
  return field.Error("more than ", tune::kMostValues,
                     " values; widen the step, or narrow min and max");
}

// min, min + step, ... or min, min * factor, ... up to max, max included.
template <typename Number>
struct Range {
  Number min = 0, max = 0, step = 0;
  bool multiplies = false;
};

template <typename Number>
absl::StatusOr<Range<Number>> CheckedRange(const Field& field) {
  Range<Number> range = {.multiplies = field.Has("multiply")};
  const char* by = range.multiplies ? "multiply" : "step";
  RETURN_IF_ERROR(field.Read("min", &range.min));
  RETURN_IF_ERROR(field.Read("max", &range.max));
  RETURN_IF_ERROR(field.Read(by, &range.step));
  if (range.step <= (range.multiplies ? 1 : 0)) {
    return field.At(by).BadValue(range.multiplies ? "is not above 1" : "is not above 0");
  }
  if (range.multiplies && range.min <= 0) {
    return field.At("min").BadValue("is not above 0, as \"multiply\" needs; use \"step\"");
  }
  return range;
}

absl::StatusOr<std::vector<ParameterValue>> IntRange(const Field& field) {
  ASSIGN_OR_RETURN(const Range<int64_t> range, CheckedRange<int64_t>(field));
  std::vector<ParameterValue> values;
  for (int64_t value = range.min; value <= range.max;) {
    if (values.size() == tune::kMostValues) return TooManyValues(field);
    values.emplace_back(value);
    const bool over = range.multiplies ? __builtin_mul_overflow(value, range.step, &value)
                                       : __builtin_add_overflow(value, range.step, &value);
    if (over) break;
  }
  return values;
}

// 0.1 + 2 * 0.1 is 0.30000000000000004; whoever writes a step of 0.1 means 0.3.
double AsWritten(double value) {
  double rounded = value;
  static_cast<void>(absl::SimpleAtod(absl::StrFormat("%.15g", value), &rounded));
  return rounded == 0 ? 0.0 : rounded;
}

absl::StatusOr<std::vector<ParameterValue>> FloatRange(const Field& field) {
  ASSIGN_OR_RETURN(const Range<double> range, CheckedRange<double>(field));
  const auto [min, max, step, multiplies] = range;
  // From the number of steps, not by repeated addition: errors do not add up. A billionth of
  // a step of tolerance, so that 0 to 1 by 0.1 ends at 1.
  const double steps = multiplies ? std::log(max / min) / std::log(step) : (max - min) / step;
  if (steps >= static_cast<double>(tune::kMostValues)) return TooManyValues(field);
  std::vector<ParameterValue> values;
  for (int i = 0; max >= min && i <= std::floor(steps + 1e-9); ++i) {
    const double value = multiplies ? min * std::pow(step, i) : AsWritten(min + step * i);
    values.emplace_back(std::min(value, max));
  }
  return values;
}

absl::StatusOr<std::vector<ParameterValue>> ReadRange(const Field& range, ParameterType type) {
  RETURN_IF_ERROR(range.ExpectObject({"min", "max", "step", "multiply"}));
  if (type != ParameterType::kInt && type != ParameterType::kFloat) {
    return range.Error("only int and float have ranges; list the \"values\"");
  }
  if (!range.Has("min") || !range.Has("max") || range.Has("step") == range.Has("multiply")) {
    return range.Error("needs min, max and one of step and multiply");
  }
  return type == ParameterType::kInt ? IntRange(range) : FloatRange(range);
}

absl::Status ReadParameter(const Field& field, Parameter* parameter) {
  RETURN_IF_ERROR(field.ExpectObject({"name", "type", "values", "range"}));
  if (!field.Has("name")) return field.Error("has no \"name\"");
  if (!field.Has("type")) return field.Error("has no \"type\"; int, float, string or bool");
  RETURN_IF_ERROR(field.Read("name", &parameter->name));
  if (parameter->name.empty()) return field.At("name").BadValue("is empty");
  std::string name;
  RETURN_IF_ERROR(field.Read("type", &name));
  const auto type = tune::TypeNamed(name);
  if (!type.has_value()) {
    return field.At("type").BadValue("is no type; there are int, float, string, bool");
  }
  parameter->type = *type;
  if (field.Has("values") && field.Has("range")) {
    return field.Error("has both \"values\" and \"range\"; keep one");
  }
  if (field.Has("values")) {
    const Field values = field.At("values");
    RETURN_IF_ERROR(values.ExpectArray());
    if (values.value().size() > tune::kMostValues) return TooManyValues(values);
    ASSIGN_OR_RETURN(parameter->values, tune::ReadValues(values, *type));
  } else if (field.Has("range")) {
    ASSIGN_OR_RETURN(parameter->values, ReadRange(field.At("range"), *type));
  } else if (*type == ParameterType::kBool) {
    parameter->values = {false, true};
  } else {
    return field.Error("has neither \"values\" nor \"range\"");
  }
  return absl::OkStatus();
}

// What variants and workloads have in common: each has an id or parameters.
template <typename Item>
absl::Status ReadParamsAndId(const Field& field, Item* item) {
  if (!field.Has("id") && !field.Has("params")) return field.Error("needs an id or params");
  item->params_json = "{}";
  if (field.Has("params")) {
    ASSIGN_OR_RETURN(item->params_json, tune::ReadParams(field.At("params")));
  }
  item->id = VariantId(item->params_json);
  RETURN_IF_ERROR(field.Read("id", &item->id));
  return item->id.empty() ? field.At("id").BadValue("is empty") : absl::OkStatus();
}

absl::Status ReadItem(const Field& field, Configuration* variant) {
  RETURN_IF_ERROR(field.ExpectObject({"id", "params", "mem_bytes"}));
  RETURN_IF_ERROR(ReadParamsAndId(field, variant));
  if (!field.Has("mem_bytes") || field.At("mem_bytes").value().is_null()) return absl::OkStatus();
  RETURN_IF_ERROR(field.Read("mem_bytes", &variant->mem_bytes.emplace()));
  return *variant->mem_bytes < 0 ? field.At("mem_bytes").BadValue("is below 0") : absl::OkStatus();
}

absl::Status ReadItem(const Field& field, Workload* workload) {
  RETURN_IF_ERROR(field.ExpectObject({"id", "params", "weight"}));
  RETURN_IF_ERROR(ReadParamsAndId(field, workload));
  RETURN_IF_ERROR(field.Read("weight", &workload->weight));
  return workload->weight > 0 ? absl::OkStatus()
                              : field.At("weight").BadValue("is not above 0; leave the shape out");
}

// Both kinds have ids, which must differ.
template <typename Item>
absl::Status ReadList(const Field& field, std::vector<Item>* out) {
  absl::flat_hash_set<std::string> seen;
  return field.Each([&](const Field& at) -> absl::Status {
    Item& item = out->emplace_back();
    RETURN_IF_ERROR(ReadItem(at, &item));
    if (seen.insert(item.id).second) return absl::OkStatus();
    return at.Error("the id \"", item.id, "\" occurs twice; give one of them another \"id\"");
  });
}

absl::Status ReadOwn(const Field& root, SearchSpace* space) {
  if (root.At("schema").value() != kSchema) {
    return root.At("schema").BadValue("is not read by this version; it reads ", kSchema);
  }
  RETURN_IF_ERROR(root.ExpectObject(
      {"schema", "name", "parameters", "constraints", "mem_bytes", "variants", "workloads"}));
  RETURN_IF_ERROR(root.Read("name", &space->name));
  RETURN_IF_ERROR(root.Read("mem_bytes", &space->mem_bytes));
  if (root.Has("parameters")) {
    RETURN_IF_ERROR(tune::ReadParameters(root.At("parameters"), "name", ReadParameter, space));
  }
  if (root.Has("constraints")) {
    RETURN_IF_ERROR(root.At("constraints").Each([&](const Field& item) {
      return item.Read(&space->constraints.emplace_back());
    }));
  }
  if (root.Has("variants")) RETURN_IF_ERROR(ReadList(root.At("variants"), &space->variants));
  if (root.Has("workloads")) RETURN_IF_ERROR(ReadList(root.At("workloads"), &space->workloads));
  return absl::OkStatus();
}

Json SpaceJson(const SearchSpace& space) {
  Json out = {{"schema", kSchema},
              {"parameters", Json::array()},
              {"variants", Json::array()},
              {"workloads", Json::array()},
              {"constraints", space.constraints}};
  if (!space.name.empty()) out["name"] = space.name;
  if (!space.mem_bytes.empty()) out["mem_bytes"] = space.mem_bytes;
  for (const Parameter& parameter : space.parameters) {
    Json values = Json::array();
    for (const ParameterValue& value : parameter.values) values.push_back(tune::JsonOf(value));
    out["parameters"].push_back({{"name", parameter.name},
                                 {"type", tune::TypeName(parameter.type)},
                                 {"values", std::move(values)}});
  }
  for (const Configuration& variant : space.variants) {
    Json json = {{"id", variant.id}, {"params", tune::Stored(variant.params_json)}};
    if (variant.mem_bytes.has_value()) json["mem_bytes"] = *variant.mem_bytes;
    out["variants"].push_back(std::move(json));
  }
  for (const Workload& workload : space.workloads) {
    out["workloads"].push_back({{"id", workload.id},
                                {"params", tune::Stored(workload.params_json)},
                                {"weight", workload.weight}});
  }
  return out;
}

}  // namespace

absl::StatusOr<SearchSpace> ParseSpace(std::string_view text, std::string_view source) {
  absl::StatusOr<Json> document = tune::ParseJson(text, source);
  std::string closed;
  if (!document.ok()) {
    closed = tune::CloseOpenCache(text);
    if (closed.empty()) return document.status();
    document = tune::ParseJson(closed, source);
    if (!document.ok()) return document.status();
  }
  SearchSpace space;
  space.source = std::string(source);
  const Field root(*document, source, "$");
  const auto imported = root.Has("schema") ? ReadOwn(root, &space) : ImportSpace(root, &space);
  if (!imported.has_value()) {
    return root.Error("no search space; expected \"schema\": \"", kSchema,
                      "\", a kernel_tuner T1 or cache file, or tokamax autotuning data");
  }
  RETURN_IF_ERROR(*imported);
  if (!closed.empty()) {
    space.notes.push_back("the cache file was not closed; read up to its last whole entry");
  }
  // Mistakes in constraints show when the file is read, not when it is used.
  RETURN_IF_ERROR(tune::CheckConstraints(space));
  return space;
}

absl::StatusOr<SearchSpace> ReadSpace(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return NotFound(path, ": no such file; give the search space's path");
  }
  if (std::filesystem::is_directory(status)) {
    return InvalidArgument(path, ": is a directory; give a JSON file");
  }
  const bool is_regular = std::filesystem::is_regular_file(status);
  const uint64_t most = is_regular ? kMostBytes : kMostBytesOfAPipe;
  const std::optional<std::string> text = io::ReadFile(path, most + 1);
  if (!text.has_value()) {
    return errno == EIO ? Unavailable(path, ": cannot be read")
                        : PermissionDenied(path, ": cannot be opened");
  }
  if (text->size() > most) {
    return ResourceExhausted(path, is_regular
                                       ? ": over 1 GiB; use ranges"
                                       : ": over 64 MiB, and no regular file; give the space as "
                                         "a file, or use ranges");
  }
  return ParseSpace(*text, path);
}

std::string SpaceToJson(const SearchSpace& space) {
  return SpaceJson(space).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string SpaceHash(const SearchSpace& space) {
  Json json = SpaceJson(space);
  json.erase("name");
  return tune::StableHash(tune::CanonicalJson(json));
}

absl::StatusOr<std::string> CanonicalParams(std::string_view params_json) {
  ASSIGN_OR_RETURN(const auto json, tune::ParseJson(params_json, "params"));
  return tune::ReadParams(Field(json, "params", "$"));
}

std::string VariantId(std::string_view canonical_params) {
  return "v" + tune::StableHash(canonical_params).substr(16);
}

uint64_t GridPoints(const SearchSpace& space) {
  if (space.parameters.empty()) return 0;
  uint64_t points = 1;
  bool saturated = false;
  for (const Parameter& parameter : space.parameters) {
    if (parameter.values.empty()) return 0;
    saturated |= __builtin_mul_overflow(points, uint64_t{parameter.values.size()}, &points);
  }
  return saturated ? std::numeric_limits<uint64_t>::max() : points;
}

}  // namespace xplane_time
