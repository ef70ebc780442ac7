// Decisions: what compare and pick found, as text.
//
//   RenderComparison(comparison, {.color = true}, DecisionFormat::kTable)
//   RenderChoice(choice, {}, DecisionFormat::kJunit)
//
// Beside the usual formats: JUnit XML (a test case a row, slower rows fail), Google
// Benchmark JSON and Bencher Metric Format (the times of head, or of the variants, with
// lower and upper values where an interval is known). Nothing is cut but tables by `top`.
#ifndef XPLANE_TIME_SRC_OUTPUT_DECISIONS_H_
#define XPLANE_TIME_SRC_OUTPUT_DECISIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "output/output.h"
#include "output/rows.h"
#include "output/sections.h"
#include "xplane_time/compare.h"
#include "xplane_time/pick.h"

namespace xplane_time::output {

enum class DecisionFormat : uint8_t {
  kTable,
  kJson,
  kCsv,
  kMarkdown,
  kJunit,
  kBenchmark,  // Google Benchmark JSON
  kBmf,        // Bencher Metric Format
};

std::string RenderComparison(const Comparison& comparison, const OutputOptions& options,
                             DecisionFormat format);
std::string RenderChoice(const PickResult& choice, const OutputOptions& options,
                         DecisionFormat format);

// The parts, one file each.
void VisitRow(const ComparedRow& row, FieldSink* sink);
void VisitRow(const KernelChange& row, FieldSink* sink);
void VisitRow(const VariantRow& row, FieldSink* sink);
std::string ComparisonCsv(const Comparison& comparison);
std::string ChoiceCsv(const PickResult& choice);
std::string ComparisonJson(const Comparison& comparison);
std::string ChoiceJson(const PickResult& choice);

// For people: what was decided, why, and what would make it firmer.
struct Explanation {
  std::string verdict;               // one line
  std::vector<std::string> reasons;  // sentences
  bool good = false, bad = false;    // green, red; else yellow
};
Explanation ExplainComparison(const Comparison& comparison);
Explanation ExplainChoice(const PickResult& choice);
Section ComparisonSection(const Comparison& comparison, const OutputOptions& options);
// Where there is too little data.
Section KernelChangeSection(const Comparison& comparison, const OutputOptions& options);
Section ChoiceSection(const PickResult& choice, const OutputOptions& options);

// "5.1 %", "+5.1" and "-0.3": a change of a ratio, in percent.
std::string PercentText(double share);
std::string ChangeText(double ratio);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_DECISIONS_H_
