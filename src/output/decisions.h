// Decisions for people (the decision, its reasons, and how to make it firmer), and in the formats
// of CI systems:
//
//   JUnit XML                 one test case per row; `failure` fails it, `skipped` skips it
//   Google Benchmark JSON     one benchmark per row with a time; its ratio is a counter
//   Bencher Metric Format     {"NAME": {"latency": {"value", "lower_value", "upper_value"}}}
//                             in nanoseconds; bounds only if the interval is known
//
// Energies have JUnit, and Bencher's format with "energy" in joules. They have no Google Benchmark
// JSON, because an energy is not a time.
#pragma once

#include <string>

#include "output/view.h"
#include "xplane_time/compare.h"

namespace xplane_time::output {

struct Explanation {
  std::string verdict;                    // one line
  std::vector<std::string> reasons = {};  // sentences
};
// `exit_code`: of the decision; it determines the tone of the verdict. Markdown omits the title of
// the first section, because the verdict contains it.
View DecisionView(Explanation explanation, int exit_code, std::vector<Section> sections,
                  const std::vector<std::string>& notes, const OutputOptions& options);

template <typename Row>
void NoteUncertain(std::span<const Row> rows, std::vector<std::string>* notes) {
  if (std::ranges::any_of(rows, &Row::uncertain)) {
    notes->push_back("?: the split into runs is uncertain, so the row cannot be judged");
  }
}

struct InterchangeRow {
  std::string name = {};   // function, with device, variant and program if rows need them to differ
  std::string group = {};  // JUnit's classname
  SideEstimate value = {};
  std::optional<double> ratio = {}, ratio_lo = {}, ratio_hi = {};
  std::string text = {};                             // the verdict in a sentence
  std::string failure_type = {}, skipped_type = {};  // empty: it passed
};

// All that the objective has. `suite` outlives the Output.
void AddInterchange(std::string_view suite, Objective objective, std::vector<InterchangeRow> of,
                    Output* output);

// A share as options take it, rounded up to two digits: "0.28%".
std::string OptionText(double share);

}  // namespace xplane_time::output
