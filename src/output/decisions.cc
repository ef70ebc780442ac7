#include "output/decisions.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "output/columns.h"
#include "output/interchange.h"
#include "output/page.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

std::string PageText(const Explanation& explanation, const std::vector<Section>& sections,
                     const std::vector<std::string>& notes, const OutputOptions& options) {
  Page page(options);
  page.Wrapped(explanation.verdict, explanation.bad ? kRed : explanation.good ? kGreen : kYellow);
  for (const std::string& reason : explanation.reasons) page.Wrapped(reason);
  for (const Section& section : sections) page.Add(section);
  if (!notes.empty()) page.Line("");
  for (const std::string& note : notes) page.Wrapped("note: " + Printable(note), kDim);
  return std::move(page).Take();
}

std::string MarkdownText(const Explanation& explanation, std::vector<Section> sections,
                         const std::vector<std::string>& notes, const OutputOptions& options) {
  for (Section& section : sections) ChooseColumns(options.columns, &section.grid);
  std::string out = "### " + MarkdownCell(explanation.verdict) + "\n\n";
  for (const std::string& reason : explanation.reasons) {
    out.append(MarkdownCell(reason)).append("\n");
  }
  if (!explanation.reasons.empty()) out.push_back('\n');
  for (const Section& section : sections) {
    if (&section != &sections[0])
      out.append("\n").append(MarkdownCell(section.title)).append("\n\n");
    out.append(MarkdownGrid(section.grid));
    for (const std::string& note : section.notes)
      out.append("\n").append(MarkdownCell(note)).append("\n");
  }
  if (!notes.empty()) out.push_back('\n');
  for (const std::string& note : notes) out.append("- ").append(MarkdownCell(note)).append("\n");
  return out;
}

}  // namespace

namespace {

std::vector<Section> ComparisonSections(const Comparison& comparison,
                                        const OutputOptions& options) {
  std::vector<Section> sections = {ComparisonSection(comparison, options)};
  if (!comparison.kernels.empty()) sections.push_back(KernelChangeSection(comparison, options));
  return sections;
}

}  // namespace

std::string PercentText(double share) {
  constexpr double kAbsurd = 100;  // what so few samples say is nothing
  if (!(share < kAbsurd)) return "an unknown share";
  std::string text = FormatFixed(share * 100, std::abs(share) >= 0.0995 ? 1 : 2);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text + " %";
}

std::string ChangeText(double ratio) {
  constexpr double kMostDigits = 1e6;  // beyond it the size is all that is of use
  const double percent = (ratio - 1) * 100;
  const std::string text = std::abs(percent) >= kMostDigits
                               ? absl::StrFormat("%.1e", percent)
                               : FormatFixed(percent, std::abs(percent) >= 9.95 ? 1 : 2);
  return percent > 0 ? "+" + text : text;
}

std::string RenderComparison(const Comparison& comparison, const OutputOptions& options,
                             DecisionFormat format) {
  switch (format) {
    case DecisionFormat::kJson:
      return ComparisonJson(comparison);
    case DecisionFormat::kCsv:
      return ComparisonCsv(comparison);
    case DecisionFormat::kMarkdown:
      return MarkdownText(ExplainComparison(comparison), ComparisonSections(comparison, options),
                          comparison.notes, options);
    case DecisionFormat::kJunit:
      return JunitXml("xplane-time compare", InterchangeRows(comparison));
    case DecisionFormat::kBenchmark:
      return BenchmarkJson(InterchangeRows(comparison));
    case DecisionFormat::kBmf:
      return BencherJson(InterchangeRows(comparison));
    case DecisionFormat::kTable:
      break;
  }
  return PageText(ExplainComparison(comparison), ComparisonSections(comparison, options),
                  comparison.notes, options);
}

std::string RenderChoice(const PickResult& choice, const OutputOptions& options,
                         DecisionFormat format) {
  switch (format) {
    case DecisionFormat::kJson:
      return ChoiceJson(choice);
    case DecisionFormat::kCsv:
      return ChoiceCsv(choice);
    case DecisionFormat::kMarkdown:
      return MarkdownText(ExplainChoice(choice), {ChoiceSection(choice, options)}, choice.notes,
                          options);
    case DecisionFormat::kJunit:
      return JunitXml("xplane-time pick", InterchangeRows(choice));
    case DecisionFormat::kBenchmark:
      return BenchmarkJson(InterchangeRows(choice));
    case DecisionFormat::kBmf:
      return BencherJson(InterchangeRows(choice));
    case DecisionFormat::kTable:
      break;
  }
  return PageText(ExplainChoice(choice), {ChoiceSection(choice, options)}, choice.notes, options);
}

}  // namespace xplane_time::output
