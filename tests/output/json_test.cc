#include "output/output.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/output/rendered.h"
#include "tests/output/sample_report.h"

namespace xplane_time::output {
namespace {

using Json = nlohmann::ordered_json;

Json Parsed(const std::string& text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(value.is_discarded()) << text;
  return value;
}

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

using Names = std::vector<std::string>;

// The few words of JSON Schema that the schemas use; empty: `value` is valid.
std::string Violation(const Json& schema, const Json& root, const Json& value,
                      const std::string& where) {
  if (schema.contains("$ref")) {
    const std::string pointer = schema["$ref"].get<std::string>().substr(1);
    return Violation(root.at(Json::json_pointer(pointer)), root, value, where);
  }
  if (schema.contains("const") && schema["const"] != value) return where + ": not the constant";
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    bool matches = false;
    for (const auto& type : types) {
      const std::string name = type.get<std::string>();
      matches |= name == value.type_name() || (name == "integer" && value.is_number_integer());
    }
    if (!matches) return where + ": is a " + value.type_name();
  }
  if (value.is_null()) return "";
  if (schema.contains("required")) {
    for (const auto& key : schema["required"]) {
      if (!value.contains(key)) return where + ": lacks " + key.get<std::string>();
    }
  }
  if (schema.contains("minimum") && value < schema["minimum"]) return where + ": too small";
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      // Tolerant of more, but we do not write what the schema does not know.
      const Json& properties = schema.value("properties", Json::object());
      if (!properties.contains(key) && !schema.contains("additionalProperties")) {
        return where + ": unknown member " + key;
      }
      const Json& of_member =
          properties.contains(key) ? properties[key] : schema["additionalProperties"];
      const std::string found = Violation(of_member, root, member, where + "." + key);
      if (!found.empty()) return found;
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (const auto& item : value) {
      const std::string found = Violation(schema["items"], root, item, where + "[]");
      if (!found.empty()) return found;
    }
  }
  return "";
}

void ExpectValid(std::string_view command, const std::string& text) {
  ASSERT_NE(JsonSchema(command), nullptr) << command;
  const Json schema = Parsed(JsonSchema(command));
  EXPECT_EQ(Violation(schema, schema, Parsed(text), "$"), "") << command;
}

TEST(JsonTest, DocumentsMatchTheirSchemas) {
  Report report = SmallReport();
  AddSamples(&report);
  report.variants = {report.functions[0], report.combined[1]};
  ExpectValid("report", *RenderReport(report, kJson));
  ExpectValid("functions", *RenderFunctions(report, kJson, true, true));
  ExpectValid("kernels", *RenderKernels(report, kJson));
  ExpectValid("tree", RenderTree(SmallTree(), kJson));
  ExpectValid("planes", RenderPlanes(SmallPlanes(true), kJson));
  ExpectValid("planes", RenderPlanes(SmallPlanes(false), kJson));
}

TEST(JsonTest, EmptyReportsMatchToo) {
  ExpectValid("report", *RenderReport(Report(), kJson));
  ExpectValid("functions", *RenderFunctions(Report(), kJson, true, true));
  ExpectValid("kernels", *RenderKernels(Report(), kJson));
  ExpectValid("tree", RenderTree(TreeReport(), kJson));
  ExpectValid("planes", RenderPlanes(PlanesReport(), kJson));
  EXPECT_EQ(JsonSchema("compile"), nullptr);
}

TEST(JsonTest, MembersInTheOrderOfTheContract) {
  Report report = SmallReport();
  AddSamples(&report);
  const Json json = Parsed(*RenderReport(report, kJson));
  EXPECT_EQ(Keys(json), (Names{"schema", "inputs", "capture", "devices", "functions", "combined",
                               "kernels", "samples", "diagnostics"}));
  EXPECT_EQ(Keys(json["devices"][0]),
            (Names{"input", "plane", "ordinal", "host", "kind", "executions", "busy_ps", "sum_ps",
                   "first_ps", "last_ps", "steps"}));
  EXPECT_EQ(Keys(json["functions"][0]),
            (Names{"input", "plane", "ordinal", "host", "function", "program_id", "variant_id",
                   "clock", "runs", "suspect_runs", "dropped_samples", "kernels_total",
                   "kernels_per_run", "active_ps", "span_ps", "gap_ps", "sum_ps", "status"}));
  EXPECT_EQ(Keys(json["functions"][0]["active_ps"]),
            (Names{"n", "mean", "std", "std_sample", "min", "max", "median", "mad", "p50", "p95",
                   "p99", "median_ci95"}));
  EXPECT_EQ(Keys(json["combined"][0])[0], "function");
  EXPECT_FALSE(json["combined"][0].contains("program_id"));
  EXPECT_EQ(Keys(json["diagnostics"][0]), (Names{"code", "severity", "count", "message", "plane",
                                                 "line", "event", "byte_offset"}));
}

TEST(JsonTest, ValuesAreExact) {
  const Json json = Parsed(*RenderReport(SmallReport(), kJson));
  EXPECT_EQ(json["schema"], "xplane-time.report.v1");
  EXPECT_EQ(json["capture"]["base_ns"].get<int64_t>(), 1'755'770'000'000'000'123);
  EXPECT_EQ(json["functions"][1]["program_id"], "18446744073709551615");
  const Json& active = json["functions"][0]["active_ps"];
  EXPECT_EQ(active["mean"].get<double>(), 611'000'000 + 1.0 / 3);
  EXPECT_TRUE(active["min"].is_number_integer());
  EXPECT_TRUE(active["median"].is_number_float());
  EXPECT_EQ(json["functions"][1]["active_ps"]["median_ci95"].size(), 2U);
}

TEST(JsonTest, UnknownIsNull) {
  const Json json = Parsed(*RenderReport(SmallReport(), kJson));
  EXPECT_TRUE(json["devices"][1]["first_ps"].is_null());
  const Json& nothing = json["functions"][4];
  EXPECT_TRUE(nothing["active_ps"].is_null());
  EXPECT_TRUE(nothing["program_id"].is_null());
  EXPECT_TRUE(nothing["clock"].is_null());
  EXPECT_TRUE(nothing["kernels_per_run"].is_null());
  EXPECT_TRUE(json["functions"][3]["active_ps"]["median_ci95"].is_null());
  EXPECT_TRUE(json["functions"][3]["active_ps"]["std_sample"].is_null());
  EXPECT_TRUE(json["kernels"][2]["function"].is_null());
  EXPECT_TRUE(json["diagnostics"][0]["line"].is_null());
}

TEST(JsonTest, NeverNanOrInfinity) {
  Report report = SmallReport();
  report.kernels[0].mean_ps = std::numeric_limits<double>::quiet_NaN();
  report.kernels[0].share = -std::numeric_limits<double>::infinity();
  report.functions[0].active_ps->std = std::numeric_limits<double>::infinity();
  report.functions[1].active_ps->median_ci95_hi = std::numeric_limits<double>::infinity();
  const std::string text = *RenderReport(report, kJson);
  const Json json = Parsed(text);
  EXPECT_TRUE(json["kernels"][0]["mean_ps"].is_null());
  EXPECT_TRUE(json["kernels"][0]["share"].is_null());
  EXPECT_TRUE(json["functions"][0]["active_ps"]["std"].is_null());
  EXPECT_TRUE(json["functions"][1]["active_ps"]["median_ci95"].is_null());
  ExpectValid("report", text);
}

TEST(JsonTest, NamesKeepTheirCharacters) {
  const Json json = Parsed(*RenderKernels(SmallReport(), kJson));
  EXPECT_EQ(json["kernels"][2]["kernel"], "odd\\xff\"q\",|\n\x1b[2J<T> µ");
}

TEST(JsonTest, OneRowALine) {
  const std::string text = RenderTree(SmallTree(), kJson);
  EXPECT_EQ(text.substr(0, text.find("    {\"input\"")),
            "{\n  \"schema\": \"xplane-time.tree.v1\",\n  \"inputs\": [\n"
            "    {\"path\":\"run/node-1.xplane.pb\",\"bytes\":1234567,\"host\":\"node-1\","
            "\"capture\":0,\"base_ns\":0}\n  ],\n  \"tree\": [\n");
  EXPECT_EQ(text.substr(text.size() - 24), ",\n  \"diagnostics\": []\n}\n");
}

TEST(JsonTest, TopCutsTreesAndKernels) {
  const OutputOptions top = {.format = Format::kJson, .top = 2};
  EXPECT_EQ(Parsed(RenderTree(SmallTree(), top))["tree"].size(), 2U);
  EXPECT_EQ(Parsed(*RenderKernels(SmallReport(), top))["kernels"].size(), 2U);
  EXPECT_EQ(Parsed(*RenderReport(SmallReport(), top))["devices"].size(), 8U);
}

}  // namespace
}  // namespace xplane_time::output
