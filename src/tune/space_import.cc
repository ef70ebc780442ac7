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

// The schema wants Python text; arrays are seen, too.
absl::Status ReadT1Values(const Field& field, Parameter* parameter) {
  Json values = field.value();
  if (!values.is_array()) {
    std::string text;
    RETURN_IF_ERROR(field.Read(&text));
    const auto parsed = ParsePythonValues(text);
    if (!parsed.ok()) return field.BadValue(": ", parsed.status().message());
    values = Json::array();
    for (const ParameterValue& value : *parsed) values.push_back(JsonOf(value));
  }
  for (Json& value : values) {
    const bool is_bool = parameter->type == ParameterType::kBool;
    if (is_bool && (value == 0 || value == 1)) value = value == 1;
    auto typed = ReadValue(Field(value, "", ""), parameter->type);
    if (!typed.ok()) return field.Error("the value ", CanonicalJson(value), " is not of its Type");
    parameter->values.push_back(*std::move(typed));
  }
  return absl::OkStatus();
}

absl::Status ReadT1Parameter(const Field& field, Parameter* parameter) {
  for (const char* key : {"Name", "Type", "Values"}) {
    if (!field.Has(key)) return field.Error("has no \"", key, "\"");
  }
  RETURN_IF_ERROR(field.Read("Name", &parameter->name));
  std::string name;
  RETURN_IF_ERROR(field.Read("Type", &name));
  const auto type = TypeNamed(name == "uint" ? "int" : name);
  if (!type.has_value()) {
    return field.At("Type").BadValue("is no T1 type; there are int, uint, float, bool, string");
  }
  parameter->type = *type;
  return ReadT1Values(field.At("Values"), parameter);
}

// A configuration or a workload, which its parameters name.
template <typename Item>
Item NamedBy(const Json& params) {
  Item item;
  item.params_json = CanonicalJson(params);
  item.id = VariantId(item.params_json);
  return item;
}

// {"problem_size": ...} is the only workload, where the file has it.
void TakeNameAndSize(const Field& owner, const char* name, const char* size, SearchSpace* space) {
  if (owner.Has(name, Kind::string)) space->name = owner.value()[name].get<std::string>();
  if (!owner.Has(size)) return;
  space->workloads.push_back(NamedBy<Workload>({{"problem_size", owner.value()[size]}}));
}

absl::Status ImportT1(const Field& root, SearchSpace* space) {
  const Field configuration = root.At("ConfigurationSpace");
  if (!configuration.Has("TuningParameters", Kind::array)) {
    return configuration.Error("has no array \"TuningParameters\"");
  }
  RETURN_IF_ERROR(
      ReadParameters(configuration.At("TuningParameters"), "Name", ReadT1Parameter, space));
  if (configuration.Has("Conditions", Kind::array)) {
    RETURN_IF_ERROR(configuration.At("Conditions").Each([&](const Field& item) {
      return item.Has("Expression") ? item.Read("Expression", &space->constraints.emplace_back())
                                    : item.Error("has no \"Expression\"");
    }));
  }
  if (root.Has("KernelSpecification", Kind::object)) {
    TakeNameAndSize(root.At("KernelSpecification"), "KernelName", "ProblemSize", space);
  }
  return absl::OkStatus();
}

// --- Caches of kernel_tuner.

// The one type of a list, which declares none.
absl::StatusOr<ParameterType> TypeOfList(const Field& field) {
  std::set<ParameterType> types;
  for (const Json& value : field.value()) {
    if (value.is_structured() || value.is_null()) {
      return field.Error("holds a value that is no number, string or bool");
    }
    types.insert(value.is_boolean()          ? ParameterType::kBool
                 : value.is_number_integer() ? ParameterType::kInt
                 : value.is_number_float()   ? ParameterType::kFloat
                                             : ParameterType::kString);
  }
  if (types == std::set{ParameterType::kInt, ParameterType::kFloat}) return ParameterType::kFloat;
  if (types.size() > 1) return field.Error("mixes types; list configurations as \"variants\"");
  return types.empty() ? ParameterType::kInt : *types.begin();
}

// A cache without entries: the grid of its lists.
absl::Status GridOfCache(const Field& lists, const std::vector<std::string>& names,
                         SearchSpace* space) {
  for (const std::string& name : names) {
    if (!lists.Has(name.c_str(), Kind::array)) {
      return lists.Error("has no list for \"", name, "\" of tune_params_keys");
    }
    const Field list = lists.At(name.c_str());
    Parameter& parameter = space->parameters.emplace_back(Parameter{.name = name, .values = {}});
    ASSIGN_OR_RETURN(parameter.type, TypeOfList(list));
    ASSIGN_OR_RETURN(parameter.values, ReadValues(list, parameter.type));
    RETURN_IF_ERROR(CheckDistinct(parameter, list));
  }
  return absl::OkStatus();
}

// The entries as variants, in order of their keys. Those that the restrictions of the tuner
// had excluded are left out.
absl::Status VariantsOfCache(const Json& cache, const std::vector<std::string>& names,
                             SearchSpace* space) {
  size_t excluded = 0;
  std::set<std::string> seen;
  for (const auto& [key, entry] : cache.items()) {
    const Field field(entry, space->source, absl::StrCat("$.cache[\"", key, "\"]"));
    Json params = Json::object();
    for (const std::string& name : names) {
      if (!field.Has(name.c_str())) {
        return field.Error("has no \"", name, "\" of tune_params_keys");
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
    space->notes.push_back(absl::StrCat(excluded, " configurations marked InvalidConfig left out"));
  }
  return absl::OkStatus();
}

absl::Status ImportCache(const Field& root, SearchSpace* space) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(root.At("tune_params_keys").Each([&](const Field& item) {
    return item.Read(&names.emplace_back());
  }));
  TakeNameAndSize(root, "kernel_name", "problem_size", space);
  const Json& cache = root.At("cache").value();
  return cache.empty() ? GridOfCache(root.At("tune_params"), names, space)
                       : VariantsOfCache(cache, names, space);
}

// --- Data of tokamax.

// A JSON object inside a string, as its keys are; null where it is none.
Json ObjectIn(const std::string& text) {
  if (text.empty() || text[0] != '{') return nullptr;
  absl::StatusOr<Json> parsed = ParseJson(text, "");
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : Json();
}

// Configurations by their JSON, with the most memory that any shape needed.
using MemoryOfConfig = std::map<std::string, std::optional<int64_t>>;

absl::Status TakeConfigs(const Field& field, MemoryOfConfig* configs) {
  if (!field.value().is_object()) return field.BadValue("is not an object of configurations");
  for (const auto& [key, benchmark] : field.value().items()) {
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
  return absl::OkStatus();
}

// {"device_kind": ..., "data": [[arguments, {config: benchmark}], ...]}
absl::Status TakeResult(const Field& data, MemoryOfConfig* configs, SearchSpace* space) {
  std::set<std::string> seen;  // arguments come once for each implementation
  return data.Each([&](const Field& pair) -> absl::Status {
    if (!pair.value().is_array() || pair.value().size() != 2 || !pair.value()[0].is_object()) {
      return pair.BadValue("is not a pair of arguments and configurations");
    }
    Workload workload = NamedBy<Workload>(pair.value()[0]);
    if (seen.insert(workload.id).second) space->workloads.push_back(std::move(workload));
    return TakeConfigs(pair.Item(1), configs);
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

absl::Status ImportTokamax(const Field& root, SearchSpace* space) {
  MemoryOfConfig configs;
  if (root.Has("data", Kind::array)) {
    RETURN_IF_ERROR(TakeResult(root.At("data"), &configs, space));
  } else {
    for (const auto& [key, value] : root.value().items()) {
      space->workloads.push_back(NamedBy<Workload>(ObjectIn(key)));
      const Field field(value, space->source, absl::StrCat("$[\"", key.substr(0, 60), "\"]"));
      RETURN_IF_ERROR(TakeConfigs(field, &configs));
    }
  }
  for (const auto& [params, bytes] : configs) {
    space->variants.push_back({VariantId(params), params, bytes});
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<absl::Status> ImportSpace(const Field& root, SearchSpace* space) {
  if (root.Has("ConfigurationSpace", Kind::object)) return ImportT1(root, space);
  if (root.Has("tune_params_keys", Kind::array) && root.Has("tune_params", Kind::object) &&
      root.Has("cache", Kind::object)) {
    return ImportCache(root, space);
  }
  return IsTokamax(root) ? std::optional(ImportTokamax(root, space)) : std::nullopt;
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

}  // namespace xplane_time::tune
