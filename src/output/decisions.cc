#include "output/decisions.h"

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "json/json.h"

namespace xplane_time::output {
namespace {

using json::Json;

// `scale`: 1000 makes picoseconds nanoseconds.
void SetKnown(const char* name, const std::optional<double>& value, double scale, Json* out) {
  if (value.has_value()) (*out)[name] = *value / scale;
}

std::string Indented(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
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
    if (!row.value.centre.has_value()) continue;
    Json& out = benchmarks.emplace_back(Json::object());
    out["name"] = ValidUtf8(row.name);
    out["run_name"] = ValidUtf8(row.name);
    out["run_type"] = "iteration";
    out["repetitions"] = 1;
    out["repetition_index"] = 0;
    out["threads"] = 1;
    out["iterations"] = row.value.samples;
    out["real_time"] = *row.value.centre / 1000;
    out["cpu_time"] = *row.value.centre / 1000;
    out["time_unit"] = "ns";
    SetKnown("ratio", row.ratio, 1, &out);
    SetKnown("ratio_lo", row.ratio_lo, 1, &out);
    SetKnown("ratio_hi", row.ratio_hi, 1, &out);
    out["label"] = ValidUtf8(row.text);
  }
  Json document = Json::object();
  document["context"] = {{"executable", "xplane-time"}};
  document["benchmarks"] = std::move(benchmarks);
  return Indented(document);
}

std::string BencherJson(Objective objective, const std::vector<InterchangeRow>& rows) {
  const bool of_energy = objective == Objective::kEnergy;
  const double scale = of_energy ? 1 : 1000;
  Json document = Json::object();
  for (const InterchangeRow& row : rows) {
    if (!row.value.centre.has_value()) continue;
    Json measure = Json::object();
    measure["value"] = *row.value.centre / scale;
    SetKnown("lower_value", row.value.lo, scale, &measure);
    SetKnown("upper_value", row.value.hi, scale, &measure);
    document[ValidUtf8(row.name)] = {{of_energy ? "energy" : "latency", std::move(measure)}};
  }
  return Indented(document);
}

}  // namespace

View DecisionView(Explanation explanation, int exit_code, std::vector<Section> sections,
                  const std::vector<std::string>& notes, const OutputOptions& options) {
  constexpr int kUndecided = 11, kTooLittleData = 12;
  const bool open = exit_code == kUndecided || exit_code == kTooLittleData;
  const Tone tone = exit_code == 0 ? Tone::kGood : open ? Tone::kWarning : Tone::kBad;
  View view;
  view.lines.push_back({std::move(explanation.verdict), tone, ViewLine::kHeading});
  for (std::string& reason : explanation.reasons) view.lines.push_back({std::move(reason)});
  view.sections = std::move(sections);
  view.sections[0].is_titled_in_markdown = false;
  const bool table = options.format == Format::kTable;
  for (const std::string& note : notes) {
    view.remarks.push_back(
        {(table ? "note: " : "") + Printable(note), Tone::kDim, ViewLine::kItem});
  }
  return view;
}

std::vector<std::string> JoinNotes(std::span<const std::string> notes,
                                   std::span<const std::string> sources) {
  struct Joined {
    std::string note;  // as the first capture has it
    std::string text = {};
    std::set<std::string> sources = {};
  };
  std::vector<Joined> joined;
  std::map<std::string, size_t> of_text;  // index in `joined`
  for (const std::string& note : notes) {
    const auto source = std::ranges::find_if(sources, [&](const std::string& each) {
      return note.size() > each.size() + 2 && note.starts_with(each) &&
             note.compare(each.size(), 2, ": ") == 0;
    });
    if (source == sources.end()) {
      joined.push_back({.note = note});
      continue;
    }
    const std::string text = note.substr(source->size() + 2);
    const auto [at, is_new] = of_text.try_emplace(text, joined.size());
    if (is_new) joined.push_back({.note = note, .text = text});
    joined[at->second].sources.insert(*source);
  }
  const size_t all = std::set<std::string>(sources.begin(), sources.end()).size();
  std::vector<std::string> out;
  for (Joined& each : joined) {
    const size_t count = each.sources.size();
    if (count < 2) {
      out.push_back(std::move(each.note));
    } else if (count == all) {
      out.push_back(absl::StrCat("in all ", all, " captures: ", each.text));
    } else {
      out.push_back(absl::StrCat("in ", count, " of ", all, " captures, first in ",
                                 *each.sources.begin(), ": ", each.text));
    }
  }
  return out;
}

void AddInterchange(std::string_view suite, Objective objective, std::vector<InterchangeRow> of,
                    Output* output) {
  const auto rows = std::make_shared<const std::vector<InterchangeRow>>(std::move(of));
  output->others = {{Format::kJunit, [suite, rows] { return JunitXml(suite, *rows); }},
                    {Format::kBmf, [objective, rows] { return BencherJson(objective, *rows); }}};
  if (objective == Objective::kEnergy) return;
  output->others[Format::kBenchmark] = [rows] { return BenchmarkJson(*rows); };
}

std::string OptionText(double share) {
  if (!(share > 0)) return "0%";
  const double percent = share * 100;
  const int decimals = std::max(0, 1 - static_cast<int>(std::floor(std::log10(percent))));
  const double scale = std::pow(10, decimals);
  return FormatFixed(std::ceil(percent * scale) / scale, decimals) + "%";
}

}  // namespace xplane_time::output
