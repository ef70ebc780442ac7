#include "output/compat.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "output/csv_lines.h"
#include "output/json_document.h"
#include "output/page.h"
#include "output/sections.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

using compat::Answer;
using compat::Tool;

constexpr double kPsPerSecond = 1e12, kPsPerUs = 1e6, kPsPerNs = 1e3;

std::string_view ToolName(Tool tool) {
  switch (tool) {
    case Tool::kEjkernel:
      return "ejkernel";
    case Tool::kTuneJax:
      return "tune-jax";
    case Tool::kXprof:
      break;
  }
  return "xprof";
}

void VisitKey(const Answer::KeyRow& row, FieldSink* sink) {
  sink->Field("input", static_cast<uint64_t>(row.input));
  sink->Field("plane", std::string_view(row.plane));
  sink->Field("key", std::string_view(row.time.key));
  sink->Field("time_s", row.time.time_s);
}

void VisitVariant(const compat::VariantTime& row, FieldSink* sink) {
  sink->Field("variant_id", std::string_view(row.id));
  sink->Field("n", row.n);
  sink->Field("mean_s", row.mean_s);
  sink->Field("std_s", row.std_s);
}

void VisitKernel(const compat::XprofKernel& row, FieldSink* sink) {
  sink->Field("kernel_name", std::string_view(row.name));
  sink->Field("total_duration_us", row.total_us);
  sink->Field("execution_count", row.count);
  sink->Field("avg_duration_us", row.mean_us);
  sink->Field("is_intra_kernel_region", row.intra_kernel_region);
}

template <typename Row>
Json RowJson(const Row& row, void (*visit)(const Row&, FieldSink*)) {
  JsonRow json;
  visit(row, &json);
  return json.Take();
}

void AddXprof(const compat::XprofTimes& times, Document* document) {
  document->Member("total_device_duration_ns", times.total_device_ns);
  Json lines = Json::object();
  for (const auto& line : times.lines) lines[ValidUtf8(line.line)] = line.covered_ns;
  document->Member("by_line_duration_ns", lines);
  document->Member("custom_call_duration_us", times.custom_call_us);
  document->Member("custom_call_share_pct", times.custom_call_percent);
  document->Section("kernel_records", times.kernels,
                    [](const auto& row) { return RowJson(row, &VisitKernel); });
  document->Member("step_durations_us", times.steps_us);
  document->Member("stats", {{"mean_us", times.mean_us}, {"std_us", times.std_us}});
  document->Member("total_records", times.kernel_count);
  document->Member("total_duration_us_all_records", times.outermost_us);
  document->Member("excluded_intra_kernel_region_lines", times.excluded_lines);
}

std::string CompatJson(const Answer& answer, const std::vector<GivenOption>& options) {
  Document document("xplane-time.compat.v1");
  document.Member("compat", std::string(ToolName(answer.tool)));
  AddOptions(options, &document);
  if (answer.xprof.has_value()) {
    AddXprof(*answer.xprof, &document);
  } else {
    document.Member("device", ValidUtf8(answer.device));
    document.Section("keys", answer.keys, [](const auto& row) { return RowJson(row, &VisitKey); });
    document.Section("variants", answer.variants,
                     [](const auto& row) { return RowJson(row, &VisitVariant); });
  }
  return std::move(document).Finish();
}

std::string CompatCsv(const Answer& answer) {
  if (answer.xprof.has_value())
    return CsvLines<compat::XprofKernel>(answer.xprof->kernels, &VisitKernel);
  return CsvLines<Answer::KeyRow>(answer.keys, &VisitKey);
}

// `get(row)` gives a cell.
template <typename Rows, typename Get>
auto Cells(const Rows& rows, Get get) {
  std::vector<decltype(get(*rows.begin()))> cells;
  for (const auto& row : rows) cells.push_back(get(row));
  return cells;
}

using Time = std::optional<double>;
constexpr size_t kNameWidth = 26;

Section KeySection(const Answer& answer, Unit unit) {
  const auto& rows = answer.keys;
  Section section;
  section.title = absl::StrCat("planes with \"", Printable(answer.device), "\"");
  section.grid.columns = {
      NameColumn("key", Cells(rows, [](const auto& row) { return Printable(row.time.key); }),
                 kNameWidth),
      TextColumn("plane", Cells(rows, [](const auto& row) { return Printable(row.plane); })),
      TimesColumn("time",
                  Cells(rows, [](const auto& row) { return Time(row.time.time_s * kPsPerSecond); }),
                  unit)};
  if (rows.empty()) section.notes.push_back("no key");
  return section;
}

Section VariantSection(const Answer& answer, Unit unit) {
  const auto& rows = answer.variants;
  Section section;
  section.title = "variants";
  section.grid.columns = {
      NameColumn("variant", Cells(rows, [](const auto& row) { return row.id; }), kNameWidth),
      NumberColumn("n", Cells(rows, [](const auto& row) { return absl::StrCat(row.n); })),
      TimesColumn("mean",
                  Cells(rows, [](const auto& row) { return Time(row.mean_s * kPsPerSecond); }),
                  unit),
      TimesColumn("std",
                  Cells(rows, [](const auto& row) { return Time(row.std_s * kPsPerSecond); }),
                  unit)};
  return section;
}

Section XprofKernelSection(const compat::XprofTimes& times, Unit unit) {
  const auto& rows = times.kernels;
  Section section;
  section.title = absl::StrCat(
      "kernels of all devices together: ",
      FormatTime(static_cast<double>(times.total_device_ns) * kPsPerNs, unit), " covered");
  section.grid.columns = {
      NameColumn("kernel", Cells(rows, [](const auto& row) { return Printable(row.name); }),
                 kNameWidth),
      NumberColumn("count", Cells(rows, [](const auto& row) { return absl::StrCat(row.count); })),
      TimesColumn("total",
                  Cells(rows, [](const auto& row) { return Time(row.total_us * kPsPerUs); }), unit),
      TimesColumn("mean", Cells(rows, [](const auto& row) { return Time(row.mean_us * kPsPerUs); }),
                  unit)};
  if (times.kernel_count > rows.size()) {
    section.notes.push_back(absl::StrCat(times.kernel_count - rows.size(), " more: --top N"));
  }
  return section;
}

Section XprofLineSection(const compat::XprofTimes& times, Unit unit) {
  const auto& rows = times.lines;
  Section section;
  section.title = "lines";
  section.grid.columns = {
      NameColumn("line", Cells(rows, [](const auto& row) { return Printable(row.line); }),
                 kNameWidth),
      TimesColumn("covered",
                  Cells(rows,
                        [](const auto& row) {
                          return Time(static_cast<double>(row.covered_ns) * kPsPerNs);
                        }),
                  unit)};
  return section;
}

std::vector<Section> Sections(const Answer& answer, Unit unit) {
  if (answer.xprof.has_value()) {
    return {XprofKernelSection(*answer.xprof, unit), XprofLineSection(*answer.xprof, unit)};
  }
  std::vector<Section> sections = {KeySection(answer, unit)};
  if (!answer.variants.empty()) sections.push_back(VariantSection(answer, unit));
  return sections;
}

std::string Preface(Tool tool) {
  return absl::StrCat("by the definition of ", std::string(ToolName(tool)),
                      ", not ours: docs/migrating.md says how they differ");
}

std::string CompatMarkdown(const Answer& answer, const OutputOptions& options) {
  std::string out = absl::StrCat(Preface(answer.tool), "\n");
  for (const Section& section : Sections(answer, options.unit)) {
    absl::StrAppend(&out, "\n### ", MarkdownCell(section.title), "\n\n",
                    MarkdownGrid(section.grid));
    for (const std::string& note : section.notes) absl::StrAppend(&out, "\n", note, "\n");
  }
  return out;
}

std::string CompatTable(const Answer& answer, const OutputOptions& options) {
  Page page(options);
  page.Wrapped(Preface(answer.tool), kDim);
  for (const Section& section : Sections(answer, options.unit)) {
    page.Add(section);
  }
  return std::move(page).Take();
}

}  // namespace

std::string RenderCompat(const Answer& answer, const OutputOptions& options) {
  switch (options.format) {
    case Format::kJson:
      return CompatJson(answer, options.given);
    case Format::kCsv:
      return CompatCsv(answer);
    case Format::kMarkdown:
      return CompatMarkdown(answer, options);
    case Format::kTable:
      break;
  }
  return CompatTable(answer, options);
}

}  // namespace xplane_time::output
