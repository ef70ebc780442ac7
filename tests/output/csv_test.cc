#include "output/text.h"

#include <gtest/gtest.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/output/rendered.h"
#include "tests/output/sample_report.h"

namespace xplane_time::output {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

constexpr OutputOptions kCsv = {.format = Format::kCsv};

// A plain reader of RFC 4180.
std::vector<Row> ParseCsv(std::string_view text) {
  std::vector<Row> rows(1);
  std::string cell;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        cell.push_back(c);
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell.push_back(text[++i]);
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',' || c == '\n') {
      rows.back().push_back(std::exchange(cell, ""));
      if (c == '\n' && i + 1 < text.size()) rows.emplace_back();
    } else {
      cell.push_back(c);
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_TRUE(cell.empty());
  return rows;
}

// The columns that CSV makes of a JSON row.
void Flatten(const Json& row, const std::string& prefix, Row* names, std::vector<Json>* values) {
  static const Row kSummary = {"n",      "mean", "std", "std_sample", "min", "max",
                               "median", "mad",  "p50", "p95",        "p99"};
  for (const auto& [key, value] : row.items()) {
    const bool is_summary =
        prefix.empty() &&
        (key == "active_ps" || key == "span_ps" || key == "gap_ps" || key == "sum_ps") &&
        row.contains("kernels_per_run");
    if (value.is_object()) {
      Flatten(value, key + "_", names, values);
    } else if (is_summary) {  // null
      for (const std::string& field : kSummary) names->push_back(key + "_" + field);
      names->insert(names->end(), {key + "_median_ci95_lo", key + "_median_ci95_hi"});
      values->insert(values->end(), kSummary.size() + 2, Json());
    } else if (key == "median_ci95") {
      names->insert(names->end(), {prefix + key + "_lo", prefix + key + "_hi"});
      for (size_t i = 0; i < 2; ++i) values->push_back(value.is_null() ? Json() : value[i]);
    } else {
      names->push_back(prefix + key);
      values->push_back(value);
    }
  }
}

void ExpectCell(const std::string& cell, const Json& value) {
  if (value.is_null()) {
    EXPECT_EQ(cell, "");
  } else if (value.is_string()) {
    EXPECT_EQ(cell, ValidUtf8(value.get<std::string>()));
  } else if (value.is_array()) {
    std::string joined;
    for (const Json& each : value) joined += (joined.empty() ? "" : "; ") + each.get<std::string>();
    EXPECT_EQ(cell, joined);
  } else if (value.is_number_float()) {
    double number = 0;
    std::from_chars(cell.data(), cell.data() + cell.size(), number);
    EXPECT_EQ(number, value.get<double>()) << cell;
  } else {
    EXPECT_EQ(cell, value.dump());
  }
}

void ExpectSame(const std::string& csv, const Json& rows) {
  const std::vector<Row> parsed = ParseCsv(csv);
  ASSERT_EQ(parsed.size(), rows.size() + 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    Row names;
    std::vector<Json> values;
    Flatten(rows[i], "", &names, &values);
    EXPECT_EQ(parsed[0], names);
    ASSERT_EQ(parsed[i + 1].size(), values.size());
    for (size_t k = 0; k < values.size(); ++k) ExpectCell(parsed[i + 1][k], values[k]);
  }
}

TEST(CsvTest, EqualsJsonCellForCell) {
  Report report = SmallReport();
  AddSamples(&report);
  report.variants = {report.functions[0], report.functions[3]};
  const Json functions = Json::parse(*RenderFunctions(report, kJson, true, true));
  ExpectSame(*RenderReport(report, kCsv), functions["functions"]);
  ExpectSame(*RenderFunctions(report, kCsv, false, false), functions["functions"]);
  ExpectSame(*RenderFunctions(report, kCsv, true, false), functions["variants"]);
  ExpectSame(*RenderFunctions(report, kCsv, true, true), functions["samples"]);
  ExpectSame(*RenderKernels(report, kCsv), Json::parse(*RenderKernels(report, kJson))["kernels"]);
  ExpectSame(RenderTree(SmallTree(), kCsv), Json::parse(RenderTree(SmallTree(), kJson))["tree"]);
}

TEST(CsvTest, SortAndTopAsInJson) {
  const OutputOptions csv = {.format = Format::kCsv, .top = 2, .sort = "name"};
  const OutputOptions json = {.format = Format::kJson, .top = 2, .sort = "name"};
  ExpectSame(*RenderKernels(SmallReport(), csv),
             Json::parse(*RenderKernels(SmallReport(), json))["kernels"]);
}

TEST(CsvTest, VariantsWithoutADevice) {
  Report report = SmallReport();
  report.variants = {report.combined[0]};
  const std::string csv = *RenderFunctions(report, kCsv, true, false);
  EXPECT_EQ(csv.substr(0, csv.find(',')), "function");
  report.variants.push_back(report.functions[0]);
  const std::vector<Row> mixed = ParseCsv(*RenderFunctions(report, kCsv, true, false));
  EXPECT_EQ(mixed[0][1], "plane");
  EXPECT_EQ(mixed[1][1] + mixed[2][1], "/device:GPU:0");  // one of them has none
  EXPECT_EQ(mixed[1].size(), mixed[2].size());
}

TEST(CsvTest, EmptyReportsHaveTheirHeader) {
  const std::string csv = *RenderFunctions(Report(), kCsv, false, false);
  EXPECT_EQ(csv.substr(0, 33), "input,plane,ordinal,host,function");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1);
  const std::string planes = RenderPlanes(PlanesReport(), kCsv);
  EXPECT_EQ(planes, "input,plane,host,kind,id,line,role,events,first_ps,last_ps,sum_ps\n");
}

TEST(CsvTest, PlanesByLineOrByStat) {
  EXPECT_EQ(
      RenderPlanes(SmallPlanes(false), kCsv),
      "input,plane,host,kind,id,line,role,events,first_ps,last_ps,sum_ps\n"
      "0,/device:GPU:0,node-1,gpu,16,Stream #16(Kernel),execution,54,1220562000,10676774000,"
      "3475484000\n"
      "0,/device:GPU:0,node-1,gpu,-9223372036854775808,\"odd\\xff\"\"q\"\",|\n\\x1b[2J<T> µ\","
      "derived,0,,,0\n"
      "0,/host:metadata,,,,,,,,,\n");
  EXPECT_EQ(RenderPlanes(SmallPlanes(true), kCsv),
            "input,plane,host,kind,name,type,owner,count\n"
            "0,/device:GPU:0,node-1,gpu,correlation_id,uint64,event,54\n"
            "0,/device:GPU:0,node-1,gpu,\"a|b,c\",str,plane,1\n");
}

TEST(CsvNumberTest, ShortestThatReadsBackTheSame) {
  const auto text = [](double value) {
    std::string out;
    AppendCsvNumber(value, &out);
    return out;
  };
  EXPECT_EQ(text(0), "0");
  EXPECT_EQ(text(100000), "100000");
  EXPECT_EQ(text(15786666.666666666), "15786666.666666666");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e-300), "1e-300");
  EXPECT_EQ(text(1e300), "1e+300");
  EXPECT_EQ(text(std::numeric_limits<double>::quiet_NaN()), "");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "");
}

}  // namespace
}  // namespace xplane_time::output
