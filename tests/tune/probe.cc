// What test_tune.py asks of the library.
//
//   tune_probe expressions < lines    {"text": ..., "values": {...}} -> {"value": ...} | {"error"}
//   tune_probe values < lines         a T1 "Values" string, in JSON -> {"value": [...]} | {"error"}
//   tune_probe export DIR             makes a store, writes DIR/{json,csv,t4}
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "output/tuning.h"
#include "tune/expression.h"
#include "tune/space_json.h"

namespace xplane_time::tune {
namespace {

Json Result(const Value& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<const std::string*>(&value)) return **text;
  return std::holds_alternative<std::monostate>(value) ? Json() : Json("other");
}

Json Evaluated(const Json& request) {
  std::vector<std::string> names;
  std::vector<Value> values;
  std::map<std::string, std::string> texts;
  for (const auto& [name, json] : request["values"].items()) {
    names.push_back(name);
    if (json.is_null()) values.push_back(Value());
    if (json.is_boolean()) values.push_back(json.get<bool>());
    if (json.is_number_integer()) values.push_back(json.get<int64_t>());
    if (json.is_number_float()) values.push_back(json.get<double>());
    if (json.is_string()) {
      values.push_back(&(texts[name] = json.get<std::string>()));
    }
  }
  const auto parsed = Expression::Parse(request["text"].get<std::string>(), names);
  if (!parsed.ok()) return {{"error", "parse: " + std::string(parsed.status().message())}};
  Evaluation run = {values};
  const auto value = parsed->Evaluate(run);
  if (!value.has_value()) return {{"error", run.reason}};
  return {{"value", Result(*value)}};
}

Json PythonList(const Json& request) {
  const auto values = ParsePythonValues(request.get<std::string>());
  if (!values.ok()) return {{"error", std::string(values.status().message())}};
  Json list = Json::array();
  for (const ParameterValue& value : *values) list.push_back(JsonOf(value));
  return {{"value", list}};
}

int AnswerLines(Json (*answer)(const Json&)) {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line)).dump() << "\n";
  }
  return 0;
}

int Export(const std::string& directory) {
  auto store = TuneStore::Open(directory + "/t.db", {});
  if (!store.ok()) return 1;
  auto session = store->Begin({.key = {.workload = "w"}, .seed = 1});
  const std::vector<Configuration> variants = {{"a", R"({"n":1,"s":"x, \"y\""})", 5},
                                               {"b", R"({"n":2.5})", {}}};
  if (!session.ok() || !store->RegisterVariants(*session, variants).ok()) return 1;
  for (int64_t i = 0; i < 3; ++i) {
    const RoundRecord round = {
        .round = i,
        .discarded = i == 1,
        .samples = {{"a", 0, "ok", 1'500'000 + i, 3}, {"b", 1, "compile_error", {}, {}}}};
    if (!store->Append(*session, round).ok()) return 1;
  }
  for (const std::string format : {"json", "csv", "t4"}) {
    std::ofstream out(directory + "/" + format);
    const auto text = output::Export(*store, session->id, format);
    if (!text.ok()) return 1;
    out << *text;
  }
  return 0;
}

}  // namespace
}  // namespace xplane_time::tune

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "expressions") return xplane_time::tune::AnswerLines(xplane_time::tune::Evaluated);
  if (mode == "values") return xplane_time::tune::AnswerLines(xplane_time::tune::PythonList);
  if (mode == "export" && argc == 3) return xplane_time::tune::Export(argv[2]);
  std::fprintf(stderr, "usage: tune_probe expressions | values | export DIR\n");
  return 2;
}
