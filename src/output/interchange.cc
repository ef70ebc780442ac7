#include "output/interchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "json/json.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

using json::Dump, json::Json;

// Times become nanoseconds.
std::optional<double> Nanoseconds(const std::optional<double>& ps) {
  return ps.has_value() ? std::optional<double>(*ps / 1000) : std::nullopt;
}

}  // namespace

std::string JunitXml(std::string_view suite, const std::vector<InterchangeRow>& rows) {
  const auto count = [&](std::string InterchangeRow::*type) {
    return std::count_if(rows.begin(), rows.end(),
                         [type](const InterchangeRow& row) { return !(row.*type).empty(); });
  };
  const std::string counts =
      absl::StrCat("tests=\"", rows.size(), "\" failures=\"", count(&InterchangeRow::failure_type),
                   "\" errors=\"0\" skipped=\"", count(&InterchangeRow::skipped_type), "\"");
  const std::string name = XmlText(suite);
  std::string out = absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ", counts,
                                 ">\n  <testsuite name=\"", name, "\" ", counts, ">\n");
  for (const InterchangeRow& row : rows) {
    absl::StrAppend(&out, "    <testcase classname=\"", XmlText(row.group), "\" name=\"",
                    XmlText(row.name), "\">\n");
    if (!row.failure_type.empty()) {
      absl::StrAppend(&out, "      <failure type=\"", row.failure_type, "\" message=\"",
                      XmlText(row.text), "\"/>\n");
    } else if (!row.skipped_type.empty()) {
      absl::StrAppend(&out, "      <skipped message=\"", XmlText(row.text), "\"/>\n");
    }
    absl::StrAppend(&out, "      <system-out>", XmlText(row.text),
                    "</system-out>\n    </testcase>\n");
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

std::string BenchmarkJson(const std::vector<InterchangeRow>& rows) {
  std::vector<Json> benchmarks;
  for (const InterchangeRow& row : rows) {
    if (!row.time_ps.has_value()) continue;
    Json& out = benchmarks.emplace_back(Json::object());
    out["name"] = ValidUtf8(row.name);
    out["run_name"] = ValidUtf8(row.name);
    out["run_type"] = "iteration";
    out["repetitions"] = 1;
    out["repetition_index"] = 0;
    out["threads"] = 1;
    out["iterations"] = row.samples;
    out["real_time"] = *row.time_ps / 1000;
    out["cpu_time"] = *row.time_ps / 1000;
    out["time_unit"] = "ns";
    if (row.ratio.has_value()) out["ratio"] = *row.ratio;
    if (row.ratio_lo.has_value()) out["ratio_lo"] = *row.ratio_lo;
    if (row.ratio_hi.has_value()) out["ratio_hi"] = *row.ratio_hi;
    out["label"] = ValidUtf8(row.text);
  }
  Json document = Json::object();
  document["context"] = {{"executable", "xplane-time"}};
  document["benchmarks"] = std::move(benchmarks);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string BencherJson(const std::vector<InterchangeRow>& rows) {
  Json document = Json::object();
  for (const InterchangeRow& row : rows) {
    if (!row.time_ps.has_value()) continue;
    Json latency = Json::object();
    latency["value"] = *row.time_ps / 1000;
    if (const auto lo = Nanoseconds(row.lo_ps)) latency["lower_value"] = *lo;
    if (const auto hi = Nanoseconds(row.hi_ps)) latency["upper_value"] = *hi;
    document[ValidUtf8(row.name)] = {{"latency", std::move(latency)}};
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void AddInterchange(std::string_view suite, std::function<std::vector<InterchangeRow>()> rows,
                    Output* output) {
  output->others[Format::kJunit] = [suite, rows] { return JunitXml(suite, rows()); };
  output->others[Format::kBenchmark] = [rows] { return BenchmarkJson(rows()); };
  output->others[Format::kBmf] = [rows] { return BencherJson(rows()); };
}

}  // namespace xplane_time::output
