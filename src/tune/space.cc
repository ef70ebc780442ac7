// Spaces in this project's format: reading, writing, ids. space_import.cc reads other formats.
//
// ReadSpace takes a file or a pipe, repairs unclosed kernel_tuner caches, parses the JSON and
// decides by its members: a space of this project, a list of variants, or a format of another
// tuner. Each field is checked and an error has its JSON path. Constraints are compiled once, to
// report mistakes early.
//
// The id of a variant is a hash of its canonical parameters, unless the file has one. So the order
// of members and the text of numbers do not matter.
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

using tune::BadValue, tune::ExpectObject;

constexpr std::string_view kSpaceSchema = "xplane-time.space.v1";
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxPipeBytes = uint64_t{64} << 20;  // a pipe may be endless

void TooManyValues(const tune::Field& field) {
  field.Error("more than ", tune::kMostValues, " values; widen the step, or narrow min and max");
}

// min, min + step, ... or min, min * factor, ... up to and including max.
template <typename Number>
struct Range {
  Number min = 0, max = 0, step = 0;
  bool multiplies = false;
};

template <typename Number>
Range<Number> CheckedRange(const tune::Field& field) {
  Range<Number> range = {.multiplies = field.Has("multiply")};
  const char* by = range.multiplies ? "multiply" : "step";
  field.Read("min", &range.min);
  field.Read("max", &range.max);
  field.Read(by, &range.step);
  if (range.step <= (range.multiplies ? 1 : 0)) {
    BadValue(field.At(by), range.multiplies ? "is not above 1" : "is not above 0");
  }
  if (range.multiplies && range.min <= 0) {
    BadValue(field.At("min"), "is not above 0, which \"multiply\" requires; use \"step\"");
  }
  return range;
}

std::vector<ParameterValue> IntRange(const tune::Field& field) {
  const auto range = CheckedRange<int64_t>(field);
  std::vector<ParameterValue> values;
  for (int64_t value = range.min; field.ok() && value <= range.max;) {
    if (values.size() == tune::kMostValues) TooManyValues(field);
    values.emplace_back(value);
    const bool over = range.multiplies ? __builtin_mul_overflow(value, range.step, &value)
                                       : __builtin_add_overflow(value, range.step, &value);
    if (over) break;
  }
  return values;
}

// 0.1 + 2 * 0.1 is 0.30000000000000004; a step of 0.1 means 0.3.
double AsWritten(double value) {
  double rounded = value;
  static_cast<void>(absl::SimpleAtod(absl::StrFormat("%.15g", value), &rounded));
  return rounded == 0 ? 0.0 : rounded;
}

std::vector<ParameterValue> FloatRange(const tune::Field& field) {
  const auto [min, max, step, multiplies] = CheckedRange<double>(field);
  // Computed from the number of steps; repeated addition would accumulate errors. The tolerance is
  // a billionth of a step, so that 0 to 1 by 0.1 ends at 1.
  const double steps = multiplies ? std::log(max / min) / std::log(step) : (max - min) / step;
  if (steps >= static_cast<double>(tune::kMostValues)) TooManyValues(field);
  std::vector<ParameterValue> values;
  for (int i = 0; field.ok() && max >= min && i <= std::floor(steps + 1e-9); ++i) {
    const double value = multiplies ? min * std::pow(step, i) : AsWritten(min + step * i);
    values.emplace_back(std::min(value, max));
  }
  return values;
}

std::vector<ParameterValue> ReadRange(const tune::Field& range, ParameterType type) {
  ExpectObject(range, {"min", "max", "step", "multiply"});
  if (type != ParameterType::kInt && type != ParameterType::kFloat) {
    range.Error("only int and float have ranges; list the \"values\"");
  }
  if (!range.Has("min") || !range.Has("max") || range.Has("step") == range.Has("multiply")) {
    range.Error("requires min, max and one of step and multiply");
  }
  return type == ParameterType::kInt ? IntRange(range) : FloatRange(range);
}

void ReadParameter(const tune::Field& field, Parameter* parameter) {
  ExpectObject(field, {"name", "type", "values", "range"});
  if (!field.Has("name")) field.Error("has no \"name\"");
  if (!field.Has("type")) field.Error("has no \"type\"; use int, float, string or bool");
  field.Read("name", &parameter->name);
  if (parameter->name.empty()) BadValue(field.At("name"), "is empty");
  std::string name;
  field.Read("type", &name);
  const auto type = tune::TypeNamed(name);
  if (!type.has_value()) {
    return BadValue(field.At("type"), "is not a type; use int, float, string or bool");
  }
  parameter->type = *type;
  const tune::Field values = field.At("values");
  if (field.Has("values") && field.Has("range")) {
    field.Error("has both \"values\" and \"range\"; keep one");
  } else if (field.Has("values")) {
    if (values->is_array() && values->size() > tune::kMostValues) return TooManyValues(values);
    parameter->values = tune::ReadValues(values, *type);
  } else if (field.Has("range")) {
    parameter->values = ReadRange(field.At("range"), *type);
  } else if (*type == ParameterType::kBool) {
    parameter->values = {false, true};
  } else {
    field.Error("has neither \"values\" nor \"range\"");
  }
}

// The common part of variants and workloads: each has an id or parameters.
template <typename Item>
void ReadParamsAndId(const tune::Field& field, Item* item) {
  if (!field.Has("id") && !field.Has("params")) field.Error("requires an id or params");
  item->params_json = field.Has("params") ? tune::ReadParams(field.At("params")) : "{}";
  item->id = VariantId(item->params_json);
  if (field.Has("id") && field.At("id")->is_number_integer()) {
    item->id = field.At("id")->dump();
  } else {
    field.Read("id", &item->id);
  }
  if (item->id.empty()) BadValue(field.At("id"), "is empty");
}

void ReadListed(const tune::Field& field, Configuration* variant) {
  field.Expect(field->is_object(), "an object");
  ReadParamsAndId(field, variant);
}

void ReadVariant(const tune::Field& field, Configuration* variant) {
  ExpectObject(field, {"id", "params", "mem_bytes"});
  ReadParamsAndId(field, variant);
  field.Read("mem_bytes", &variant->mem_bytes, json::kOptional, 0);
}

void ReadWorkload(const tune::Field& field, Workload* workload) {
  ExpectObject(field, {"id", "params", "weight"});
  ReadParamsAndId(field, workload);
  field.Read("weight", &workload->weight);
  if (workload->weight <= 0) {
    BadValue(field.At("weight"), "is not above 0; remove the shape");
  }
}

// Ids of variants, and those of workloads, must be distinct.
template <typename Item>
void ReadList(const tune::Field& root, const char* name, void (*read)(const tune::Field&, Item*),
              std::vector<Item>* out) {
  absl::flat_hash_set<std::string> seen;
  if (!root.Has(name)) return;
  root.At(name).Each([&](const tune::Field& at) {
    Item& item = out->emplace_back();
    read(at, &item);
    if (seen.insert(item.id).second) return;
    at.Error("the id \"", item.id, "\" occurs twice; give one of them another \"id\"");
  });
}

void ReadOwn(const tune::Field& root, SearchSpace* space) {
  if (root.At("schema").value() != kSpaceSchema) {
    BadValue(root.At("schema"), "is not supported by this version; it supports ", kSpaceSchema);
  }
  ExpectObject(
      root, {"schema", "name", "parameters", "constraints", "mem_bytes", "variants", "workloads"});
  root.Read("name", &space->name);
  root.Read("mem_bytes", &space->mem_bytes);
  if (root.Has("parameters")) {
    tune::ReadParameters(root.At("parameters"), "name", ReadParameter, space);
  }
  if (root.Has("constraints")) {
    root.At("constraints").Each([&](const tune::Field& item) {
      item.Read(&space->constraints.emplace_back());
    });
  }
  ReadList(root, "variants", ReadVariant, &space->variants);
  ReadList(root, "workloads", ReadWorkload, &space->workloads);
}

// A file with variants that has no other sign of a space.
bool IsList(const tune::Field& root) {
  const bool is_space = root.Has("parameters") || root.Has("constraints") || root.Has("workloads");
  const std::string schema = root.Has("schema") ? tune::Shown(root.At("schema").value()) : "";
  return root.Has("variants") && !is_space && !schema.starts_with("\"xplane-time.space.");
}

tune::Json SpaceJson(const SearchSpace& space) {
  tune::Json out = {{"schema", kSpaceSchema},
                    {"parameters", tune::Json::array()},
                    {"variants", tune::Json::array()},
                    {"workloads", tune::Json::array()},
                    {"constraints", space.constraints}};
  if (!space.name.empty()) out["name"] = space.name;
  if (!space.mem_bytes.empty()) out["mem_bytes"] = space.mem_bytes;
  for (const Parameter& parameter : space.parameters) {
    tune::Json values = tune::Json::array();
    for (const ParameterValue& value : parameter.values) values.push_back(tune::JsonOf(value));
    out["parameters"].push_back({{"name", parameter.name},
                                 {"type", tune::TypeName(parameter.type)},
                                 {"values", std::move(values)}});
  }
  for (const Configuration& variant : space.variants) {
    tune::Json json = {{"id", variant.id}, {"params", tune::Stored(variant.params_json)}};
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
  absl::StatusOr<tune::Json> document = tune::ParseJson(text, source);
  std::string closed;
  if (!document.ok()) {
    closed = tune::CloseOpenCache(text);
    if (closed.empty()) return document.status();
    document = tune::ParseJson(closed, source);
    if (!document.ok()) return document.status();
  }
  SearchSpace space;
  space.source = std::string(source);
  std::string wrong;
  const tune::Field root(*document, &wrong, Cat(source, ": $"));
  if (document->is_object() && IsList(root)) {
    ReadList(root, "variants", ReadListed, &space.variants);
  } else if (document->is_object() && root.Has("schema")) {
    ReadOwn(root, &space);
  } else if (!document->is_object() || !tune::ImportSpace(root, &space)) {
    root.Error(
        "not a search space; expected \"schema\": \"", kSpaceSchema,
        "\", a list of \"variants\", a kernel_tuner T1 or cache file, or tokamax autotuning data");
  }
  if (!wrong.empty()) return InvalidArgument(wrong);
  if (!closed.empty()) {
    space.notes.push_back("the cache file is incomplete; read up to its last complete entry");
  }
  // Report mistakes in constraints when the file is read, not when it is used.
  RETURN_IF_ERROR(tune::CheckConstraints(space));
  return space;
}

absl::StatusOr<SearchSpace> ReadSpace(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return NotFound(path, ": no such file; give the path of the search space");
  }
  if (std::filesystem::is_directory(status)) {
    return InvalidArgument(path, ": this is a directory; give a JSON file");
  }
  const bool is_regular = std::filesystem::is_regular_file(status);
  const uint64_t most = is_regular ? kMaxFileBytes : kMaxPipeBytes;
  const std::optional<std::string> text = io::ReadFile(path, most + 1);
  if (!text.has_value()) {
    return errno == EIO ? Unavailable(path, ": cannot be read")
                        : PermissionDenied(path, ": cannot be opened");
  }
  if (text->size() > most) {
    return ResourceExhausted(path, is_regular ? ": larger than 1 GiB; use ranges"
                                              : ": larger than 64 MiB and not a regular file; give "
                                                "the space as a file, or use ranges");
  }
  return ParseSpace(*text, path);
}

std::string SpaceToJson(const SearchSpace& space) {
  return SpaceJson(space).dump(2, ' ', false, tune::Json::error_handler_t::replace) + "\n";
}

std::string SpaceHash(const SearchSpace& space) {
  tune::Json json = SpaceJson(space);
  json.erase("name");
  return tune::StableHash(tune::CanonicalJson(json));
}

absl::StatusOr<std::string> CanonicalParams(std::string_view params_json) {
  ASSIGN_OR_RETURN(const auto json, tune::ParseJson(params_json, "params"));
  std::string wrong, params = tune::ReadParams(tune::Field(json, &wrong, "params: $"));
  if (!wrong.empty()) return InvalidArgument(wrong);
  return params;
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
