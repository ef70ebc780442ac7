// The formats of other tuners. Sources: kernel_tuner 1.5.0 (schema/T1/1.0.0/input-schema.json,
// tune_kernel_T1, process_cache); tokamax (_src/autotuning/{api,autotuner,cache}.py and the
// files in data/autotuning).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/space_internal.h"

namespace xplane_time::tune {
namespace {

using Kind = Json::value_t;

bool Has(Kind kind, const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].type() == kind;
}

// A JSON object inside a string, as tokamax writes its keys; null where it is none.
Json ObjectIn(const std::string& text) {
  if (text.empty() || text[0] != '{') return nullptr;
  absl::StatusOr<Json> parsed = ParseJson(text, "");
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : Json();
}

absl::StatusOr<ParameterType> T1Type(const Field& field) {
  ASSIGN_OR_RETURN(std::string name, field.Text());
  if (name == "uint") name = "int";
  const auto* const known = std::find(kTypeNames.begin(), kTypeNames.end(), name);
  if (known != kTypeNames.end()) return static_cast<ParameterType>(known - kTypeNames.begin());
  return field.BadValue("is no T1 type; there are int, uint, float, bool, string");
}

// The schema wants Python text; arrays are seen, too.
absl::StatusOr<std::vector<ParameterValue>> T1Values(const Field& field, ParameterType type) {
  Json values = field.value();
  if (!values.is_array()) {
    ASSIGN_OR_RETURN(const auto text, field.Text());
    const auto parsed = ParsePythonValues(text);
    if (!parsed.ok()) return field.BadValue(absl::StrCat(": ", parsed.status().message()));
    values = Json::array();
    for (const ParameterValue& value : *parsed) values.push_back(JsonOf(value));
  }
  std::vector<ParameterValue> out;
  for (Json& value : values) {
    if (type == ParameterType::kBool && (value == 0 || value == 1)) value = value == 1;
    auto typed = ReadValue(Field(value, "", ""), type);
    if (!typed.ok()) {
      return field.Error(absl::StrCat("the value ", CanonicalJson(value), " is not of its Type"));
    }
    out.push_back(*std::move(typed));
  }
  return out;
}

absl::StatusOr<Parameter> T1Parameter(const Field& field) {
  for (const char* key : {"Name", "Type", "Values"}) {
    if (!field.Has(key)) return field.Error(absl::StrCat("has no \"", key, "\""));
  }
  Parameter parameter;
  RETURN_IF_ERROR(field.Read("Name", &parameter.name));
  ASSIGN_OR_RETURN(parameter.type, T1Type(field.At("Type")));
  ASSIGN_OR_RETURN(parameter.values, T1Values(field.At("Values"), parameter.type));
  RETURN_IF_ERROR(CheckDistinct(parameter, field));
  return parameter;
}

// A configuration or a workload, which its parameters name.
template <typename Item>
Item NamedBy(const Json& params) {
  Item item;
  item.params_json = CanonicalJson(params);
  item.id = VariantId(item.params_json);
  return item;
}

// {"ProblemSize": ...} as the only workload, where the file has it.
void TakeProblemSize(const Json& owner, const char* key, SearchSpace* space) {
  if (!owner.is_object() || !owner.contains(key)) return;
  space->workloads.push_back(NamedBy<Workload>({{"problem_size", owner[key]}}));
}

void TakeName(const Json& owner, const char* key, SearchSpace* space) {
  if (Has(Kind::string, owner, key)) space->name = owner[key].get<std::string>();
}

// The one type of a kernel_tuner list, which declares none.
absl::StatusOr<ParameterType> TypeOfList(const Field& field) {
  std::set<ParameterType> types;
  for (const Json& value : field.value()) {
    if (value.is_boolean()) types.insert(ParameterType::kBool);
    if (value.is_number_integer()) types.insert(ParameterType::kInt);
    if (value.is_number_float()) types.insert(ParameterType::kFloat);
    if (value.is_string()) types.insert(ParameterType::kString);
    if (value.is_structured() || value.is_null()) {
      return field.Error("holds a value that is no number, string or bool");
    }
  }
  if (types.size() == 2 && types.contains(ParameterType::kInt) &&
      types.contains(ParameterType::kFloat)) {
    return ParameterType::kFloat;
  }
  if (types.size() > 1) return field.Error("mixes types; list configurations as \"variants\"");
  return types.empty() ? ParameterType::kInt : *types.begin();
}

// A cache without entries: the grid of its lists.
absl::Status GridOfCache(const Field& root, const std::vector<std::string>& names,
                         SearchSpace* space) {
  const Field lists = root.At("tune_params");
  for (const std::string& name : names) {
    if (!Has(Kind::array, lists.value(), name.c_str())) {
      return lists.Error(absl::StrCat("has no list for \"", name, "\" of tune_params_keys"));
    }
    const Field list = lists.At(name.c_str());
    Parameter parameter = {.name = name, .values = {}};
    ASSIGN_OR_RETURN(parameter.type, TypeOfList(list));
    ASSIGN_OR_RETURN(parameter.values, ReadValues(list, parameter.type));
    RETURN_IF_ERROR(CheckDistinct(parameter, list));
    space->parameters.push_back(std::move(parameter));
  }
  return absl::OkStatus();
}

// The entries as variants, in order of their keys. Those that the restrictions of the tuner
// had excluded are left out.
absl::Status VariantsOfCache(const Field& root, const std::vector<std::string>& names,
                             SearchSpace* space) {
  size_t excluded = 0;
  std::set<std::string> seen;
  for (const auto& [key, entry] : root.At("cache").value().items()) {
    const Field field(entry, space->source, absl::StrCat("$.cache[\"", key, "\"]"));
    Json params = Json::object();
    for (const std::string& name : names) {
      if (!field.Has(name.c_str())) {
        return field.Error(absl::StrCat("has no \"", name, "\" of tune_params_keys"));
      }
      params[name] = entry[name];
    }
    if (Has(Kind::string, entry, "time") && entry["time"] == "InvalidConfig") {
      ++excluded;
      continue;
    }
    auto variant = NamedBy<Configuration>(params);
    if (seen.insert(variant.id).second) space->variants.push_back(std::move(variant));
  }
  if (excluded > 0) {
    space->notes.push_back(absl::StrCat(excluded, " configurations marked InvalidConfig left out"));
  }
  return absl::OkStatus();
}

// Configurations of tokamax by their JSON, with the most memory that any shape needed.
using MemoryOfConfig = std::map<std::string, std::optional<int64_t>>;

absl::Status TakeTokamaxConfigs(const Field& field, MemoryOfConfig* configs) {
  if (!field.value().is_object()) return field.BadValue("is not an object of configurations");
  for (const auto& [key, benchmark] : field.value().items()) {
    const Json config = ObjectIn(key);
    if (!config.is_object()) {
      return field.Error(absl::StrCat("the key \"", key, "\" is not a configuration in JSON"));
    }
    std::optional<int64_t>& bytes = (*configs)[CanonicalJson(config)];
    if (!benchmark.is_object() || !benchmark.contains("peak_memory_mb")) continue;
    const Json& peak_mb = benchmark["peak_memory_mb"];
    if (!peak_mb.is_number()) continue;
    const double peak_bytes = std::round(peak_mb.get<double>() * 1e6);
    if (!(peak_bytes >= 0 && peak_bytes < 9e18)) continue;
    bytes = std::max(bytes.value_or(0), static_cast<int64_t>(peak_bytes));
  }
  return absl::OkStatus();
}

// {"device_kind": ..., "data": [[arguments, {config: benchmark}], ...]}
absl::Status TakeTokamaxResult(const Field& root, MemoryOfConfig* configs, SearchSpace* space) {
  const Field data = root.At("data");
  std::set<std::string> seen;  // arguments come once for each implementation
  for (size_t i = 0; i < data.value().size(); ++i) {
    const Field pair = data.Item(i);
    if (!pair.value().is_array() || pair.value().size() != 2 || !pair.value()[0].is_object()) {
      return pair.BadValue("is not a pair of arguments and configurations");
    }
    Workload workload = NamedBy<Workload>(pair.value()[0]);
    if (seen.insert(workload.id).second) space->workloads.push_back(std::move(workload));
    RETURN_IF_ERROR(TakeTokamaxConfigs(pair.Item(1), configs));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsT1(const Json& document) { return Has(Kind::object, document, "ConfigurationSpace"); }

absl::StatusOr<SearchSpace> ImportT1(const Json& document, std::string_view source) {
  SearchSpace space;
  space.source = std::string(source);
  const Field root(document, space.source, "$");
  const Field configuration = root.At("ConfigurationSpace");
  if (!Has(Kind::array, configuration.value(), "TuningParameters")) {
    return configuration.Error("has no array \"TuningParameters\"");
  }
  const Field parameters = configuration.At("TuningParameters");
  if (parameters.value().size() > kMostParameters) return parameters.Error("more than 256");
  std::set<std::string> seen;
  RETURN_IF_ERROR(parameters.Each([&](const Field& item) -> absl::Status {
    ASSIGN_OR_RETURN(auto parameter, T1Parameter(item));
    if (!seen.insert(parameter.name).second) {
      return item.At("Name").BadValue("is the name of two parameters");
    }
    space.parameters.push_back(std::move(parameter));
    return absl::OkStatus();
  }));
  if (Has(Kind::array, configuration.value(), "Conditions")) {
    RETURN_IF_ERROR(configuration.At("Conditions").Each([&](const Field& item) {
      return item.Has("Expression") ? item.Read("Expression", &space.constraints.emplace_back())
                                    : item.Error("has no \"Expression\"");
    }));
  }
  if (Has(Kind::object, document, "KernelSpecification")) {
    const Json& kernel = document["KernelSpecification"];
    TakeName(kernel, "KernelName", &space);
    TakeProblemSize(kernel, "ProblemSize", &space);
  }
  return space;
}

bool IsKernelTunerCache(const Json& document) {
  return Has(Kind::array, document, "tune_params_keys") &&
         Has(Kind::object, document, "tune_params") && Has(Kind::object, document, "cache");
}

absl::StatusOr<SearchSpace> ImportKernelTunerCache(const Json& document, std::string_view source) {
  SearchSpace space;
  space.source = std::string(source);
  const Field root(document, space.source, "$");
  std::vector<std::string> names;
  RETURN_IF_ERROR(root.At("tune_params_keys").Each([&](const Field& item) {
    return item.Read(&names.emplace_back());
  }));
  TakeName(document, "kernel_name", &space);
  TakeProblemSize(document, "problem_size", &space);
  RETURN_IF_ERROR(document["cache"].empty() ? GridOfCache(root, names, &space)
                                            : VariantsOfCache(root, names, &space));
  return space;
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
    // Level 2 is inside "cache": just opened, or an entry just closed.
    if (level == 2 && i > cache) last_whole = i;
  }
  if (last_whole == std::string_view::npos) return "";
  return std::string(text.substr(0, last_whole + 1)) + "}}";
}

bool IsTokamax(const Json& document) {
  if (Has(Kind::string, document, "device_kind") && Has(Kind::array, document, "data")) return true;
  if (!document.is_object() || document.empty()) return false;
  return std::all_of(document.items().begin(), document.items().end(), [](const auto& item) {
    return item.value().is_object() && ObjectIn(item.key()).is_object();
  });
}

absl::StatusOr<SearchSpace> ImportTokamax(const Json& document, std::string_view source) {
  SearchSpace space;
  space.source = std::string(source);
  const Field root(document, space.source, "$");
  MemoryOfConfig configs;
  if (Has(Kind::array, document, "data")) {
    RETURN_IF_ERROR(TakeTokamaxResult(root, &configs, &space));
  } else {
    for (const auto& [key, value] : document.items()) {
      space.workloads.push_back(NamedBy<Workload>(ObjectIn(key)));
      const Field field(value, space.source, absl::StrCat("$[\"", key.substr(0, 60), "\"]"));
      RETURN_IF_ERROR(TakeTokamaxConfigs(field, &configs));
    }
  }
  for (const auto& [params, bytes] : configs) {
    space.variants.push_back({VariantId(params), params, bytes});
  }
  return space;
}

}  // namespace xplane_time::tune
