// Power summaries as text and pictures.
#include "output/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/output/rendered.h"
#include "tests/power/log_text.h"

namespace xplane_time::output {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using xplane_time::testing::ChannelText;
using xplane_time::testing::LogText;

// Two sensors, an idle window, two steps, a gap of the second sensor, one finding.
PowerSummary Sample() {
  LogText log(ChannelText("GPU-1", "power_mw", "instant") + "," +
              ChannelText("GPU-1234567890-abcdef", "power_mw", "average"));
  log.Mark(0, "begin", "idle");
  for (int i = 0; i <= 400; ++i) {
    if (i == 80) log.Mark(4, "end", "idle").Mark(4, "begin", R"(train <&\">)");
    if (i == 200) log.Mark(10, "begin", "step");
    if (i == 300) log.Mark(15, "end", R"(train <&\">)");
    const int load = i < 80 ? 60'000 : 350'000 + 40'000 * (i % 7);
    log.Read(0.05 * i, 0, std::to_string(load));
    if (i < 150 || i > 250) log.Read(0.05 * i, 1, std::to_string(load / 2));
  }
  log.Mark(20, "end", "step").Line("garbage").End(20);
  auto summary = SummarizePowerLogText(log.text(), "p.jsonl", {});
  EXPECT_TRUE(summary.ok()) << summary.status();
  return *std::move(summary);
}

PowerSummary Empty() {
  auto summary = SummarizePowerLogText(LogText("").text(), "p.jsonl", {});
  EXPECT_TRUE(summary.ok()) << summary.status();
  return *std::move(summary);
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(Power, TableAndPlotFitTheWidth) {
  for (const int width : {60, 80, 132}) {
    for (const bool unicode : {false, true}) {
      const OutputOptions options = {.width = width, .unicode = unicode};
      for (const PowerSummary& summary : {Sample(), Empty()}) {
        for (const std::string& text :
             {RenderPower(summary, options, Format::kTable, {}), PowerPlot(summary, options)}) {
          for (const std::string& line : LinesOf(text)) {
            EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << line;
            EXPECT_THAT(line, Not(HasSubstr("\x1b")));
          }
        }
      }
    }
  }
}

TEST(Power, TheTableTellsEnergyReasonsAndFindings) {
  const std::string text =
      RenderPower(Sample(), {.width = 100}, Format::kTable, {.g_per_kwh = 400, .pue = 1.5});
  EXPECT_THAT(text, HasSubstr("whole run"));
  EXPECT_THAT(text, HasSubstr("nvml 0 gpu"));
  EXPECT_THAT(text, HasSubstr("total"));
  EXPECT_THAT(text, HasSubstr("gap"));
  EXPECT_THAT(text, HasSubstr("shared"));
  EXPECT_THAT(text, HasSubstr("damaged_lines (1): line "));
  EXPECT_THAT(text, HasSubstr("missing: rapl: permission_denied: energy_uj; chmod"));
  EXPECT_THAT(text, HasSubstr("modelled, 400.0 g CO2e/kWh, PUE 1.50\n"
                              "window        Wh  CO2e g\n"
                              "whole run   4.37    1.75\n"
                              "idle        0.15    0.06\n"));
}

TEST(Power, TheSameNumbersInEveryFormat) {
  const PowerSummary summary = Sample();
  const CarbonModel carbon = {.g_per_kwh = 400, .pue = 1.5};
  const auto json = nlohmann::json::parse(RenderPower(summary, {}, Format::kJson, carbon));
  const auto& whole = json["windows"][0];
  const double energy_j = summary.windows[0].energies[0].energy_j.value();
  EXPECT_EQ(energy_j, 7766);
  EXPECT_EQ(whole["energies"][0]["energy_j"].get<double>(), energy_j);
  EXPECT_EQ(whole["name"], nullptr);
  EXPECT_EQ(whole["modelled"]["kind"], "modelled");
  EXPECT_NEAR(whole["modelled"]["kwh"].get<double>(),
              summary.windows[0].total.energy_j.value() / 3.6e6 * 1.5, 1e-12);
  const std::vector<std::string> csv = LinesOf(RenderPower(summary, {}, Format::kCsv, {}));
  EXPECT_EQ(csv.size(), 1 + 2 * summary.windows.size());
  EXPECT_THAT(csv[0], HasSubstr("window,number,begin_ns,end_ns,cut,source,device,domain,in_total"));
  EXPECT_THAT(csv[1], HasSubstr(",held,7766,"));
  EXPECT_THAT(RenderPower(summary, {}, Format::kMarkdown, {}), HasSubstr("### energy"));
}

TEST(Power, WithoutAnIntensityNothingIsModelled) {
  const PowerSummary summary = Sample();
  const auto json = nlohmann::json::parse(RenderPower(summary, {}, Format::kJson, {}));
  EXPECT_EQ(json["windows"][0]["modelled"], nullptr);
  EXPECT_THAT(RenderPower(summary, {}, Format::kOpenMetrics, {}), Not(HasSubstr("co2e")));
}

// Every required field of the schema is in the document, at every place that it describes.
void ExpectRequired(const nlohmann::json& schema, const nlohmann::json& at,
                    const nlohmann::json& value) {
  if (at.contains("$ref")) {
    const std::string name = at["$ref"].get<std::string>().substr(8);
    return ExpectRequired(schema, schema["$defs"][name], value);
  }
  if (value.is_array() && at.contains("items")) {
    for (const auto& each : value) ExpectRequired(schema, at["items"], each);
  }
  if (!value.is_object() || !at.contains("required")) return;
  for (const auto& name : at["required"]) EXPECT_TRUE(value.contains(name)) << name << value;
  for (const auto& [name, each] : value.items()) {
    ASSERT_TRUE(at["properties"].contains(name)) << name;
    ExpectRequired(schema, at["properties"][name], each);
  }
}

TEST(Power, JsonHasTheFieldsOfItsSchema) {
  ASSERT_NE(JsonSchema("power"), nullptr);
  const auto schema = nlohmann::json::parse(JsonSchema("power"));
  for (const PowerSummary& summary : {Sample(), Empty()}) {
    auto json = nlohmann::json::parse(RenderPower(summary, {}, Format::kJson, {.g_per_kwh = 1}));
    EXPECT_EQ(json["schema"], "xplane-time.power.v1");
    json.erase("machine");
    auto at = schema;
    at["required"].erase(std::find(at["required"].begin(), at["required"].end(), "machine"));
    ExpectRequired(schema, at, json);
  }
}

// A GPU with a counter, one with readings of power alone, and a stated power; above an idle window.
PowerSummary Bounded(bool with_power) {
  std::string channels = ChannelText("GPU-1", "energy_uj", "cumulative") +
                         R"(,{"source":"constant","device":"constant","domain":"constant",)"
                         R"("quantity":"power_mw","kind":"instant","in_total":true})";
  if (with_power) channels += "," + ChannelText("GPU-2", "power_mw", "instant");
  LogText log(channels);
  log.Mark(0.02, "begin", "idle").Mark(1.02, "end", "idle").Mark(1.02, "begin", "step");
  for (int i = 0; i <= 200; ++i) {
    const double t = 0.05 * i;
    if (i == 160) log.Mark(t + 0.02, "end", "step");
    log.Read(t, 0, std::to_string(15'000'000LL * i)).Read(t, 1, "100000");
    if (with_power) log.Read(t, 2, "80000");
  }
  auto summary = SummarizePowerLogText(log.End(10).text(), "p.jsonl", {});
  EXPECT_TRUE(summary.ok()) << summary.status();
  return *std::move(summary);
}

TEST(Power, BoundsStayInANarrowTable) {
  const std::string text = RenderPower(Bounded(true), {.width = 80}, Format::kTable, {});
  const std::vector<std::string> lines = LinesOf(text);
  EXPECT_EQ(lines[0], "energy, measured and modelled");
  EXPECT_THAT(lines[1], HasSubstr("bounds J"));
  EXPECT_THAT(text, HasSubstr(" 2070 .. 2130 "));   // of the counter, in the window `step`
  EXPECT_THAT(text, HasSubstr(" ~2985 .. 3015 "));  // in the whole run
  EXPECT_THAT(text, HasSubstr("~: estimated, correct in 95 % of cases"));
  EXPECT_THAT(text, HasSubstr("unbounded: power between two readings is unknown"));
  EXPECT_THAT(text, HasSubstr("modelled"));
}

TEST(Power, LimitsAreTheSameInEveryFormat) {
  const PowerSummary summary = Bounded(false);
  const auto json = nlohmann::json::parse(RenderPower(summary, {}, Format::kJson, {}));
  const auto& step = json["windows"][2];
  ASSERT_EQ(step["name"], "step");
  const auto& counter = step["energies"][0];
  EXPECT_EQ(counter["limits"], "bounds");
  EXPECT_EQ(counter["interval_j"], nullptr);
  EXPECT_EQ(counter["unbounded_reason"], nullptr);
  EXPECT_EQ(step["energies"][1]["kind"], "modelled");
  EXPECT_EQ(step["total"]["kind"], "measured and modelled");
  EXPECT_EQ(step["total"]["limits"], "bounds");
  EXPECT_EQ(step["total"]["bounds_j"][0], summary.windows[2].total.lo_j.value());
  const auto& whole = json["windows"][0]["energies"][0];
  EXPECT_EQ(whole["limits"], "interval");
  EXPECT_EQ(whole["bounds_j"], nullptr);
  EXPECT_EQ(whole["interval_share"], 0.95);
  const std::string text = RenderPower(summary, {}, Format::kOpenMetrics, {});
  EXPECT_THAT(text, HasSubstr("xplane_time_energy_lower_joules{window=\"step\",number=\"1\","
                              "source=\"nvml\",device=\"GPU-1\",domain=\"gpu\","
                              "estimator=\"counter\",limits=\"bounds\"} 2070\n"));
  EXPECT_THAT(text, HasSubstr("estimator=\"counter\",limits=\"interval\"} 3015\n"));
  EXPECT_THAT(text, HasSubstr("estimator=\"held\",kind=\"modelled\"} "));
  const std::vector<std::string> csv = LinesOf(RenderPower(summary, {}, Format::kCsv, {}));
  EXPECT_TRUE(
      csv[0].ends_with(",limits,unbounded_reason,interval_j_lo,interval_j_hi,interval_share"))
      << csv[0];
  EXPECT_THAT(csv[5], HasSubstr(",counter,2100,2070,2130,"));
  EXPECT_TRUE(csv[5].ends_with(",bounds,,,,")) << csv[5];
  EXPECT_TRUE(csv[1].ends_with(",interval,,2985,3015,0.95")) << csv[1];
}

TEST(Power, OpenMetricsIsWellFormed) {
  const std::string text = RenderPower(Sample(), {}, Format::kOpenMetrics, {.g_per_kwh = 9});
  const std::vector<std::string> lines = LinesOf(text);
  EXPECT_EQ(lines.back(), "# EOF");
  std::string family;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.starts_with("# TYPE ")) family = line.substr(7, line.find(" gauge") - 7);
    if (line.starts_with("# UNIT ")) {
      const std::string unit = line.substr(line.rfind(' ') + 1);
      EXPECT_TRUE(family.ends_with("_" + unit)) << line;
    }
    if (line.starts_with("#")) continue;
    EXPECT_TRUE(line.starts_with(family + "{")) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '}'), 1) << line;
  }
  EXPECT_THAT(text, HasSubstr("window=\"train <&\\\">\""));
}

TEST(Power, ThePlotLeavesGapsOpen) {
  const std::vector<std::string> lines =
      LinesOf(PowerPlot(Sample(), {.width = 80, .unicode = false}));
  ASSERT_EQ(lines.size(), 2u * 8 + 2);
  EXPECT_THAT(lines[0], HasSubstr("nvml 0 gpu, W"));
  EXPECT_THAT(lines[7], Not(HasSubstr("- -")));
  EXPECT_THAT(lines[7].substr(10), Not(HasSubstr(" ")));
  EXPECT_THAT(lines[16], HasSubstr("-   "));
  EXPECT_THAT(lines.back(), HasSubstr("20 s"));
}

TEST(Power, TheSvgIsByItselfAndEscaped) {
  const std::string svg = PowerSvg(Sample());
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("train &lt;&amp;&quot;&gt;"));
  for (const char* foreign : {"<script", "href", "url(http", "@import", "nan", "inf"}) {
    EXPECT_THAT(svg, Not(HasSubstr(foreign)));
  }
  EXPECT_THAT(PowerSvg(Empty()), HasSubstr("no data to plot"));
  if (const char* path = std::getenv("XPLANE_TIME_POWER_SVG"); path != nullptr) {
    std::ofstream(path) << svg;
  }
}

}  // namespace
}  // namespace xplane_time::output
