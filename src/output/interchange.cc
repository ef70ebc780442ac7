#include "output/interchange.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "output/decisions.h"
#include "output/json_document.h"

namespace xplane_time::output {
namespace {

bool SeveralDevices(const Comparison& comparison) {
  std::set<std::string> devices;
  for (const ComparedRow& row : comparison.rows) devices.insert(row.device);
  return devices.size() > 1;
}

std::string RowName(const ComparedRow& row, bool with_device) {
  std::string name = row.function;
  if (row.program > 0) absl::StrAppend(&name, "#", row.program + 1);
  if (with_device) absl::StrAppend(&name, "@", row.device);
  return name;
}

std::string Sentence(const ComparedRow& row) {
  std::string text(VerdictName(row.verdict));
  if (row.ratio.has_value()) absl::StrAppend(&text, ": ", ChangeText(*row.ratio), " %");
  if (row.lo.has_value() && row.hi.has_value()) {
    absl::StrAppend(&text, ", interval ", ChangeText(*row.lo), " % to ", ChangeText(*row.hi), " %");
  }
  if (row.mde.has_value()) absl::StrAppend(&text, "; would detect ", PercentText(*row.mde));
  if (!row.reason.empty()) absl::StrAppend(&text, ": ", row.reason);
  return text;
}

// Times become nanoseconds.
std::optional<double> Nanoseconds(const std::optional<double>& ps) {
  return ps.has_value() ? std::optional<double>(*ps / 1000) : std::nullopt;
}

}  // namespace

std::vector<InterchangeRow> InterchangeRows(const Comparison& comparison) {
  const bool with_device = SeveralDevices(comparison);
  std::vector<InterchangeRow> out;
  for (const ComparedRow& row : comparison.rows) {
    const std::string verdict(VerdictName(row.verdict));
    InterchangeRow& at = out.emplace_back();
    at.name = RowName(row, with_device);
    at.group = row.device.empty() ? "xplane-time" : row.device;
    at.time_ps = row.head.centre_ps;
    at.lo_ps = row.head.lo_ps;
    at.hi_ps = row.head.hi_ps;
    at.ratio = row.ratio;
    at.ratio_lo = row.lo;
    at.ratio_hi = row.hi;
    at.samples = row.head.samples;
    at.text = Sentence(row);
    if (row.verdict == FunctionVerdict::kSlower || row.verdict == FunctionVerdict::kFailed) {
      at.failure_type = verdict;
    } else if (row.verdict != FunctionVerdict::kSame && row.verdict != FunctionVerdict::kFaster) {
      at.skipped_type = verdict;
    }
  }
  return out;
}

std::vector<InterchangeRow> InterchangeRows(const PickResult& choice) {
  std::vector<InterchangeRow> out;
  InterchangeRow& decision = out.emplace_back();
  decision.name = "decision";
  decision.group = "pick";
  decision.text = ExplainChoice(choice).verdict;
  if (choice.claim == PickClaim::kAllFailed) decision.failure_type = "all_failed";
  if (ExitCode(choice.claim) == 11 || ExitCode(choice.claim) == 12) {
    decision.skipped_type = PickClaimName(choice.claim);
  }
  for (const VariantRow& row : choice.variants) {
    InterchangeRow& at = out.emplace_back();
    at.name = row.function.empty() ? row.id : row.function;
    at.group = "variants";
    at.time_ps = row.centre_ps;
    at.lo_ps = row.lo_ps;
    at.hi_ps = row.hi_ps;
    at.ratio = row.ratio;
    at.ratio_lo = row.lo;
    at.ratio_hi = row.hi;
    at.samples = row.samples;
    at.text = row.status;
    if (row.samples == 0) at.skipped_type = row.status;
  }
  return out;
}

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

}  // namespace xplane_time::output
