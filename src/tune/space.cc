// Our own format: reading, writing, ids. The other formats are in space_import*.cc.
#include "xplane_time/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "tune/space_internal.h"

namespace xplane_time {
namespace {

using tune::Absl;
using tune::Field;
using tune::Json;

constexpr std::string_view kSchema = "xplane-time.space.v1";
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr uint64_t kMostBytesOfAPipe = uint64_t{64} << 20;  // it may be endless

absl::StatusOr<ParameterType> ReadType(const Field& field) {
  const absl::StatusOr<std::string> name = field.Text();
  if (!name.ok()) return name.status();
  if (*name == "int") return ParameterType::kInt;
  if (*name == "float") return ParameterType::kFloat;
  if (*name == "string") return ParameterType::kString;
  if (*name == "bool") return ParameterType::kBool;
  return field.BadValue("is no type; there are int, float, string, bool");
}

absl::Status TooManyValues(const Field& field) {
  return field.Error(absl::StrCat("more than ", tune::kMostValues,
                                  " values; widen the step, or narrow min and max"));
}

// min, min + step, ... or min, min * factor, ... up to max, max included.
absl::StatusOr<std::vector<ParameterValue>> IntRange(const Field& range) {
  const bool multiplies = range.Has("multiply");
  const Field by = range.At(multiplies ? "multiply" : "step");
  const auto min = range.At("min").Int(), max = range.At("max").Int(), step = by.Int();
  if (!min.ok()) return min.status();
  if (!max.ok()) return max.status();
  if (!step.ok()) return step.status();
  if (*step <= (multiplies ? 1 : 0)) {
    return by.BadValue(multiplies ? "is not above 1" : "is not above 0");
  }
  if (multiplies && *min <= 0) {
    return range.At("min").BadValue("is not above 0, as \"multiply\" needs; use \"step\"");
  }
  std::vector<ParameterValue> values;
  for (int64_t value = *min; value <= *max;) {
    if (values.size() == tune::kMostValues) return TooManyValues(range);
    values.emplace_back(value);
    const bool over = multiplies ? __builtin_mul_overflow(value, *step, &value)
                                 : __builtin_add_overflow(value, *step, &value);
    if (over) break;
  }
  return values;
}

// 0.1 + 2 * 0.1 is 0.30000000000000004; whoever writes a step of 0.1 means 0.3.
double AsWritten(double value) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, 15).ptr;
  double rounded = value;
  std::from_chars(text, end, rounded);
  return rounded == 0 ? 0.0 : rounded;
}

absl::StatusOr<std::vector<ParameterValue>> FloatRange(const Field& range) {
  const bool multiplies = range.Has("multiply");
  const Field by = range.At(multiplies ? "multiply" : "step");
  const auto min = range.At("min").Real(), max = range.At("max").Real(), step = by.Real();
  if (!min.ok()) return min.status();
  if (!max.ok()) return max.status();
  if (!step.ok()) return step.status();
  if (*step <= (multiplies ? 1.0 : 0.0)) {
    return by.BadValue(multiplies ? "is not above 1" : "is not above 0");
  }
  if (multiplies && *min <= 0) {
    return range.At("min").BadValue("is not above 0, as \"multiply\" needs; use \"step\"");
  }
  // From the number of steps, not by repeated addition: errors do not add up. A billionth of
  // a step of tolerance, so that 0 to 1 by 0.1 ends at 1.
  const double steps = multiplies ? std::log(*max / *min) / std::log(*step) : (*max - *min) / *step;
  if (steps >= static_cast<double>(tune::kMostValues)) return TooManyValues(range);
  std::vector<ParameterValue> values;
  for (int i = 0; *max >= *min && i <= std::floor(steps + 1e-9); ++i) {
    const double value = multiplies ? *min * std::pow(*step, i) : AsWritten(*min + *step * i);
    values.emplace_back(std::min(value, *max));
  }
  return values;
}

absl::StatusOr<std::vector<ParameterValue>> ReadRange(const Field& range, ParameterType type) {
  if (auto s = range.ExpectObject({"min", "max", "step", "multiply"}); !s.ok()) return s;
  if (type != ParameterType::kInt && type != ParameterType::kFloat) {
    return range.Error("only int and float have ranges; list the \"values\"");
  }
  if (!range.Has("min") || !range.Has("max") || range.Has("step") == range.Has("multiply")) {
    return range.Error("needs min, max and one of step and multiply");
  }
  return type == ParameterType::kInt ? IntRange(range) : FloatRange(range);
}

absl::StatusOr<std::vector<ParameterValue>> ReadValues(const Field& field, ParameterType type) {
  if (auto s = field.ExpectArray(); !s.ok()) return s;
  if (field.value().size() > tune::kMostValues) return TooManyValues(field);
  std::vector<ParameterValue> values;
  for (size_t i = 0; i < field.value().size(); ++i) {
    auto value = tune::ReadValue(field.Item(i), type);
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
  }
  return values;
}

absl::StatusOr<Parameter> ReadParameter(const Field& field) {
  if (auto s = field.ExpectObject({"name", "type", "values", "range"}); !s.ok()) return s;
  if (!field.Has("name")) return field.Error("has no \"name\"");
  if (!field.Has("type")) return field.Error("has no \"type\"; int, float, string or bool");
  const auto name = field.At("name").Text();
  if (!name.ok()) return name.status();
  if (name->empty()) return field.At("name").BadValue("is empty");
  const auto type = ReadType(field.At("type"));
  if (!type.ok()) return type.status();
  Parameter parameter = {*name, *type, {}};
  if (field.Has("values") && field.Has("range")) {
    return field.Error("has both \"values\" and \"range\"; keep one");
  }
  absl::StatusOr<std::vector<ParameterValue>> values = std::vector<ParameterValue>{false, true};
  if (field.Has("values")) {
    values = ReadValues(field.At("values"), *type);
  } else if (field.Has("range")) {
    values = ReadRange(field.At("range"), *type);
  } else if (*type != ParameterType::kBool) {
    return field.Error("has neither \"values\" nor \"range\"");
  }
  if (!values.ok()) return values.status();
  parameter.values = *std::move(values);
  if (auto s = tune::CheckDistinct(parameter, field); !s.ok()) return s;
  return parameter;
}

absl::Status ReadParameters(const Field& field, SearchSpace* space) {
  if (auto s = field.ExpectArray(); !s.ok()) return s;
  if (field.value().size() > tune::kMostParameters) {
    return field.Error(absl::StrCat("more than ", tune::kMostParameters, " parameters"));
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < field.value().size(); ++i) {
    auto parameter = ReadParameter(field.Item(i));
    if (!parameter.ok()) return parameter.status();
    if (!seen.insert(parameter->name).second) {
      return field.Item(i).At("name").BadValue("is the name of two parameters; rename one");
    }
    space->parameters.push_back(*std::move(parameter));
  }
  return absl::OkStatus();
}

absl::Status ReadConstraints(const Field& field, SearchSpace* space) {
  if (auto s = field.ExpectArray(); !s.ok()) return s;
  for (size_t i = 0; i < field.value().size(); ++i) {
    auto text = field.Item(i).Text();
    if (!text.ok()) return text.status();
    space->constraints.push_back(*std::move(text));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadId(const Field& field, const std::string& params) {
  if (!field.Has("id")) return VariantId(params);
  auto id = field.At("id").Text();
  if (id.ok() && id->empty()) return field.At("id").BadValue("is empty");
  return id;
}

absl::StatusOr<Configuration> ReadVariant(const Field& field) {
  if (auto s = field.ExpectObject({"id", "params", "mem_bytes"}); !s.ok()) return s;
  Configuration variant;
  variant.params_json = "{}";
  if (!field.Has("id") && !field.Has("params")) return field.Error("needs an id or params");
  if (field.Has("params")) {
    auto params = tune::ReadParams(field.At("params"));
    if (!params.ok()) return params.status();
    variant.params_json = *std::move(params);
  }
  auto id = ReadId(field, variant.params_json);
  if (!id.ok()) return id.status();
  variant.id = *std::move(id);
  if (field.Has("mem_bytes") && !field.At("mem_bytes").value().is_null()) {
    const auto bytes = field.At("mem_bytes").Int();
    if (!bytes.ok()) return bytes.status();
    if (*bytes < 0) return field.At("mem_bytes").BadValue("is below 0");
    variant.mem_bytes = *bytes;
  }
  return variant;
}

absl::StatusOr<Workload> ReadWorkload(const Field& field) {
  if (auto s = field.ExpectObject({"id", "params", "weight"}); !s.ok()) return s;
  Workload workload = {"", "{}", 1};
  if (!field.Has("id") && !field.Has("params")) return field.Error("needs an id or params");
  if (field.Has("params")) {
    auto params = tune::ReadParams(field.At("params"));
    if (!params.ok()) return params.status();
    workload.params_json = *std::move(params);
  }
  auto id = ReadId(field, workload.params_json);
  if (!id.ok()) return id.status();
  workload.id = *std::move(id);
  if (field.Has("weight")) {
    const auto weight = field.At("weight").Real();
    if (!weight.ok()) return weight.status();
    if (*weight <= 0) return field.At("weight").BadValue("is not above 0; leave the shape out");
    workload.weight = *weight;
  }
  return workload;
}

// Both kinds have ids, which must differ.
template <typename T>
absl::Status ReadList(const Field& field, absl::StatusOr<T> (*read)(const Field&),
                      std::vector<T>* out) {
  if (auto s = field.ExpectArray(); !s.ok()) return s;
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < field.value().size(); ++i) {
    auto item = read(field.Item(i));
    if (!item.ok()) return item.status();
    if (!seen.insert(item->id).second) {
      return field.Item(i).Error(
          absl::StrCat("the id \"", item->id, "\" occurs twice; give one of them another \"id\""));
    }
    out->push_back(*std::move(item));
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchSpace> ReadOwn(const Json& document, std::string_view source) {
  const Field root(document, source, "$");
  if (const auto schema = root.At("schema").Text(); !schema.ok() || *schema != kSchema) {
    return root.At("schema").BadValue(
        absl::StrCat("is not read by this version; it reads ", Absl(kSchema)));
  }
  if (auto s = root.ExpectObject(
          {"schema", "name", "parameters", "constraints", "mem_bytes", "variants", "workloads"});
      !s.ok()) {
    return s;
  }
  SearchSpace space;
  space.source = std::string(source);
  for (const auto& [key, to] : {std::pair("name", &space.name), {"mem_bytes", &space.mem_bytes}}) {
    if (!root.Has(key)) continue;
    auto text = root.At(key).Text();
    if (!text.ok()) return text.status();
    *to = *std::move(text);
  }
  absl::Status status;
  if (root.Has("parameters")) status.Update(ReadParameters(root.At("parameters"), &space));
  if (root.Has("constraints")) status.Update(ReadConstraints(root.At("constraints"), &space));
  if (root.Has("variants")) {
    status.Update(ReadList(root.At("variants"), &ReadVariant, &space.variants));
  }
  if (root.Has("workloads")) {
    status.Update(ReadList(root.At("workloads"), &ReadWorkload, &space.workloads));
  }
  if (!status.ok()) return status;
  return space;
}

absl::StatusOr<SearchSpace> ReadDocument(const Json& document, std::string_view source) {
  if (document.is_object() && document.contains("schema")) return ReadOwn(document, source);
  if (tune::IsT1(document)) return tune::ImportT1(document, source);
  if (tune::IsKernelTunerCache(document)) return tune::ImportKernelTunerCache(document, source);
  if (tune::IsTokamax(document)) return tune::ImportTokamax(document, source);
  return absl::InvalidArgumentError(
      absl::StrCat(Absl(source), ": $: no search space; expected \"schema\": \"", Absl(kSchema),
                   "\", a kernel_tuner T1 or cache file, or tokamax autotuning data"));
}

Json ParameterJson(const Parameter& parameter) {
  constexpr const char* kNames[] = {"int", "float", "string", "bool"};
  Json values = Json::array();
  for (const ParameterValue& value : parameter.values) values.push_back(tune::JsonOf(value));
  return {{"name", parameter.name},
          {"type", kNames[static_cast<size_t>(parameter.type)]},
          {"values", std::move(values)}};
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
    out["parameters"].push_back(ParameterJson(parameter));
  }
  for (const Configuration& variant : space.variants) {
    Json json = {{"id", variant.id},
                 {"params", Json::parse(variant.params_json, nullptr, /*allow_exceptions=*/false)}};
    if (variant.mem_bytes.has_value()) json["mem_bytes"] = *variant.mem_bytes;
    out["variants"].push_back(std::move(json));
  }
  for (const Workload& workload : space.workloads) {
    out["workloads"].push_back(
        {{"id", workload.id},
         {"params", Json::parse(workload.params_json, nullptr, /*allow_exceptions=*/false)},
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
  absl::StatusOr<SearchSpace> space = ReadDocument(*document, source);
  if (!space.ok()) return space;
  if (!closed.empty()) {
    space->notes.push_back("the cache file was not closed; read up to its last whole entry");
  }
  // Mistakes in constraints show when the file is read, not when it is used.
  if (auto compiled = tune::CompileConstraints(*space); !compiled.ok()) return compiled.status();
  return space;
}

absl::StatusOr<SearchSpace> ReadSpace(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file; give the search space's path"));
  }
  if (std::filesystem::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory; give a JSON file"));
  }
  const bool is_regular = std::filesystem::is_regular_file(status);
  const uint64_t most = is_regular ? kMostBytes : kMostBytesOfAPipe;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be opened"));
  std::string text;
  std::string buffer(size_t{1} << 16, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    text.append(buffer, 0, static_cast<size_t>(file.gcount()));
    if (text.size() > most) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, is_regular ? ": over 1 GiB; use ranges"
                                        : ": over 64 MiB, and no regular file; give the space as "
                                          "a file, or use ranges"));
    }
  }
  if (file.bad()) return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  return ParseSpace(text, path);
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
  const absl::StatusOr<Json> json = tune::ParseJson(params_json, "params");
  if (!json.ok()) return json.status();
  return tune::ReadParams(Field(*json, "params", "$"));
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

namespace tune {

std::vector<std::string> ConstraintNames(const SearchSpace& space) {
  std::vector<std::string> names;
  for (const Parameter& parameter : space.parameters) names.push_back(parameter.name);
  if (!names.empty()) return names;
  std::set<std::string> listed;
  for (const Configuration& variant : space.variants) {
    const Json params = Json::parse(variant.params_json, nullptr, /*allow_exceptions=*/false);
    for (const auto& [name, unused] : params.items()) listed.insert(name);
  }
  return {listed.begin(), listed.end()};
}

absl::StatusOr<CompiledConstraints> CompileConstraints(const SearchSpace& space) {
  CompiledConstraints out;
  if (space.constraints.empty() && space.mem_bytes.empty()) return out;
  out.names = ConstraintNames(space);
  for (size_t i = 0; i < space.constraints.size(); ++i) {
    auto parsed = Expression::Parse(space.constraints[i], out.names);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(space.source, ": $.constraints[", i, "]: \"",
                                                     space.constraints[i],
                                                     "\": ", parsed.status().message()));
    }
    out.constraints.push_back(*std::move(parsed));
  }
  if (space.mem_bytes.empty()) return out;
  auto parsed = Expression::Parse(space.mem_bytes, out.names);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        space.source, ": $.mem_bytes: \"", space.mem_bytes, "\": ", parsed.status().message()));
  }
  out.mem_bytes.push_back(*std::move(parsed));
  return out;
}

Value ValueOf(const ParameterValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return Value::Bool(*truth);
  if (const auto* integer = std::get_if<int64_t>(&value)) return Value::Int(*integer);
  if (const auto* real = std::get_if<double>(&value)) return Value::Float(*real);
  return Value::Text(std::get_if<std::string>(&value));
}

Json JsonOf(const ParameterValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

absl::Status CheckDistinct(const Parameter& parameter, const Field& field) {
  std::set<ParameterValue> seen;
  for (const ParameterValue& value : parameter.values) {
    if (seen.insert(value).second) continue;
    return field.Error(
        absl::StrCat("the value ", CanonicalJson(JsonOf(value)), " occurs twice; list it once"));
  }
  return absl::OkStatus();
}

}  // namespace tune
}  // namespace xplane_time
