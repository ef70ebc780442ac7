// The formats of other tuners. Sources: kernel_tuner 1.5.0 (schema/T1/1.0.0/input-schema.json,
// tune_kernel_T1, process_cache); tokamax (_src/autotuning/{api,autotuner,cache}.py and the
// files in data/autotuning).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/expression.h"
#include "tune/space_json.h"

namespace xplane_time::tune {
namespace {

// --- T1.

// The schema requires Python text; some files have arrays.
void ReadT1Values(const Field& field, Parameter* parameter) {
  Json values = field.value();
  if (!values.is_array()) {
    std::string text;
    field.Read(&text);
    const auto parsed = ParsePythonValues(text);
    if (!parsed.ok()) return BadValue(field, ": ", parsed.status().message());
    values = Json::array();
    for (const ParameterValue& value : *parsed) values.push_back(JsonOf(value));
  }
  for (Json& value : values) {
    const bool is_bool = parameter->type == ParameterType::kBool;
    if (is_bool && (value == 0 || value == 1)) value = value == 1;
    std::string wrong;
    parameter->values.push_back(ReadValue(Field(value, &wrong), parameter->type));
    if (!wrong.empty())
      field.Error("the value ", CanonicalJson(value), " does not have the declared Type");
  }
}

void ReadT1Parameter(const Field& field, Parameter* parameter) {
  for (const char* key : {"Name", "Type", "Values"}) {
    if (!field.Has(key)) field.Error("has no \"", key, "\"");
  }
  field.Read("Name", &parameter->name);
  std::string name;
  field.Read("Type", &name);
  const auto type = TypeNamed(name == "uint" ? "int" : name);
  if (!type.has_value()) {
    return BadValue(field.At("Type"), "is not a T1 type; use int, uint, float, bool or string");
  }
  parameter->type = *type;
  ReadT1Values(field.At("Values"), parameter);
}

// A configuration or workload whose id follows from its parameters.
template <typename Item>
Item NamedBy(const Json& params) {
  Item item;
  item.params_json = CanonicalJson(params);
  item.id = VariantId(item.params_json);
  return item;
}

// {"problem_size": ...} is the only workload, if the file has it.
void TakeNameAndSize(const Field& owner, const char* name, const char* size, SearchSpace* space) {
  if (owner.Has(name, Kind::string)) space->name = owner.At(name)->get<std::string>();
  if (!owner.Has(size)) return;
  space->workloads.push_back(NamedBy<Workload>({{"problem_size", owner.At(size).value()}}));
}

void ImportT1(const Field& root, SearchSpace* space) {
  const Field configuration = root.At("ConfigurationSpace");
  if (!configuration.Has("TuningParameters", Kind::array)) {
    return configuration.Error("has no array \"TuningParameters\"");
  }
  ReadParameters(configuration.At("TuningParameters"), "Name", ReadT1Parameter, space);
  if (configuration.Has("Conditions", Kind::array)) {
    configuration.At("Conditions").Each([&](const Field& item) {
      if (!item.Has("Expression")) item.Error("has no \"Expression\"");
      item.Read("Expression", &space->constraints.emplace_back());
    });
  }
  if (root.Has("KernelSpecification", Kind::object)) {
    TakeNameAndSize(root.At("KernelSpecification"), "KernelName", "ProblemSize", space);
  }
}

// --- Caches of kernel_tuner.

// The type of a list's values; the file does not declare it.
ParameterType TypeOfList(const Field& field) {
  std::set<ParameterType> types;
  for (const Json& value : field.value()) {
    if (value.is_structured() || value.is_null()) {
      field.Error("contains a value that is not a number, string or bool");
    }
    types.insert(value.is_boolean()          ? ParameterType::kBool
                 : value.is_number_integer() ? ParameterType::kInt
                 : value.is_number_float()   ? ParameterType::kFloat
                                             : ParameterType::kString);
  }
  if (types == std::set{ParameterType::kInt, ParameterType::kFloat}) return ParameterType::kFloat;
  if (types.size() > 1) field.Error("mixes types; list configurations as \"variants\"");
  return types.empty() ? ParameterType::kInt : *types.begin();
}

// A cache without entries: the grid of its lists.
void GridOfCache(const Field& lists, const std::vector<std::string>& names, SearchSpace* space) {
  for (const std::string& name : names) {
    if (!lists.Has(name.c_str(), Kind::array)) {
      return lists.Error("has no list for \"", name, "\" of tune_params_keys");
    }
    const Field list = lists.At(name.c_str());
    Parameter& parameter = space->parameters.emplace_back(Parameter{.name = name, .values = {}});
    parameter.type = TypeOfList(list);
    parameter.values = ReadValues(list, parameter.type);
    CheckDistinct(parameter, list);
  }
}

// The entries as variants, in order of their keys. Skips entries that the tuner's restrictions had
// excluded.
void VariantsOfCache(const Field& cache, const std::vector<std::string>& names,
                     SearchSpace* space) {
  size_t excluded = 0;
  std::set<std::string> seen;
  for (const auto& [key, entry] : cache->items()) {
    Json params = Json::object();
    for (const std::string& name : names) {
      if (!entry.is_object() || !entry.contains(name)) {
        return cache.Item(key).Error("has no \"", name, "\" of tune_params_keys");
      }
      params[name] = entry[name];
    }
    if (entry.is_object() && entry.value("time", Json()) == "InvalidConfig") {
      ++excluded;
      continue;
    }
    auto variant = NamedBy<Configuration>(params);
    if (seen.insert(variant.id).second) space->variants.push_back(std::move(variant));
  }
  if (excluded > 0) {
    space->notes.push_back(absl::StrCat(excluded, " configurations marked InvalidConfig excluded"));
  }
}

void ImportCache(const Field& root, SearchSpace* space) {
  std::vector<std::string> names;
  root.At("tune_params_keys").Each([&](const Field& item) { item.Read(&names.emplace_back()); });
  if (!root.ok()) return;
  TakeNameAndSize(root, "kernel_name", "problem_size", space);
  const Field cache = root.At("cache");
  if (cache->empty()) return GridOfCache(root.At("tune_params"), names, space);
  VariantsOfCache(cache, names, space);
}

// --- Data of tokamax.

// A JSON object inside a string, as used for keys; null if it is not one.
Json ObjectIn(const std::string& text) {
  if (text.empty() || text[0] != '{') return nullptr;
  absl::StatusOr<Json> parsed = ParseJson(text, "");
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : Json();
}

// Configurations by their JSON, with the maximum memory over all shapes.
using MemoryOfConfig = std::map<std::string, std::optional<int64_t>>;

void TakeConfigs(const Field& field, MemoryOfConfig* configs) {
  if (!field->is_object()) return BadValue(field, "is not an object of configurations");
  for (const auto& [key, benchmark] : field->items()) {
    const Json config = ObjectIn(key);
    if (!config.is_object()) {
      return field.Error("the key \"", key, "\" is not a configuration in JSON");
    }
    std::optional<int64_t>& bytes = (*configs)[CanonicalJson(config)];
    if (!benchmark.is_object() || !benchmark.contains("peak_memory_mb")) continue;
    const Json& peak_mb = benchmark["peak_memory_mb"];
    if (!peak_mb.is_number()) continue;
    const double peak_bytes = std::round(peak_mb.get<double>() * 1e6);
    if (!(peak_bytes >= 0 && peak_bytes < 9e18)) continue;
    bytes = std::max(bytes.value_or(0), static_cast<int64_t>(peak_bytes));
  }
}

// {"device_kind": ..., "data": [[arguments, {config: benchmark}], ...]}
void TakeResult(const Field& data, MemoryOfConfig* configs, SearchSpace* space) {
  std::set<std::string> seen;  // arguments are repeated for each implementation
  data.Each([&](const Field& pair) {
    if (!pair->is_array() || pair->size() != 2 || !pair.value()[0].is_object()) {
      return BadValue(pair, "is not a pair of arguments and configurations");
    }
    Workload workload = NamedBy<Workload>(pair.value()[0]);
    if (seen.insert(workload.id).second) space->workloads.push_back(std::move(workload));
    TakeConfigs(pair.Item(1), configs);
  });
}

bool IsTokamax(const Field& root) {
  if (root.Has("device_kind", Kind::string) && root.Has("data", Kind::array)) return true;
  const Json& document = root.value();
  if (!document.is_object() || document.empty()) return false;
  return std::all_of(document.items().begin(), document.items().end(), [](const auto& item) {
    return item.value().is_object() && ObjectIn(item.key()).is_object();
  });
}

void ImportTokamax(const Field& root, SearchSpace* space) {
  MemoryOfConfig configs;
  if (root.Has("data", Kind::array)) {
    TakeResult(root.At("data"), &configs, space);
  } else {
    for (const auto& [key, value] : root->items()) {
      space->workloads.push_back(NamedBy<Workload>(ObjectIn(key)));
      TakeConfigs(root.Item(key), &configs);
    }
  }
  for (const auto& [params, bytes] : configs) {
    space->variants.push_back({VariantId(params), params, bytes});
  }
}

// These formats list parameters, so a name can occur twice.
void CheckNames(const Field& root, const SearchSpace& space) {
  std::set<std::string> seen;
  for (const Parameter& parameter : space.parameters) {
    if (seen.insert(parameter.name).second) continue;
    return root.Error("the parameter \"", parameter.name, "\" occurs twice; list it once");
  }
}

}  // namespace

bool ImportSpace(const Field& root, SearchSpace* space) {
  if (root.Has("ConfigurationSpace", Kind::object)) {
    ImportT1(root, space);
  } else if (root.Has("tune_params_keys", Kind::array) && root.Has("tune_params", Kind::object) &&
             root.Has("cache", Kind::object)) {
    ImportCache(root, space);
  } else if (IsTokamax(root)) {
    ImportTokamax(root, space);
  } else {
    return false;
  }
  CheckNames(root, *space);
  return true;
}

std::string CloseOpenCache(std::string_view text) {
  if (text.find("\"tune_params_keys\"") == std::string_view::npos) return "";
  const size_t cache = text.find("\"cache\"");
  if (cache == std::string_view::npos) return "";
  size_t level = 0, last_whole = std::string_view::npos;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_text = !in_text;
    if (in_text && c == '\\') ++i;
    const bool opens = !in_text && (c == '{' || c == '['),
               closes = !in_text && (c == '}' || c == ']');
    if (!opens && !closes) continue;
    if (closes && level == 0) return "";
    level = opens ? level + 1 : level - 1;
    // Level 2 is inside "cache": it was just opened, or an entry was just closed.
    if (level == 2 && i > cache) last_whole = i;
  }
  if (last_whole == std::string_view::npos) return "";
  return std::string(text.substr(0, last_whole + 1)) + "}}";
}

}  // namespace xplane_time::tune
