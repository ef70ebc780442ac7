// Decisions for people: what was decided, why, and what would make it firmer.
#ifndef XPLANE_TIME_SRC_OUTPUT_DECISION_VIEWS_H_
#define XPLANE_TIME_SRC_OUTPUT_DECISION_VIEWS_H_

#include <string>
#include <utility>
#include <vector>

#include "output/view.h"

namespace xplane_time::output {

struct Explanation {
  std::string verdict;               // one line
  std::vector<std::string> reasons;  // sentences
  Tone tone = Tone::kWarning;        // of the verdict
};

// The title of the first section says less than the verdict: Markdown goes without it.
inline View DecisionView(Explanation explanation, std::vector<Section> sections,
                         const std::vector<std::string>& notes, const OutputOptions& options) {
  View view;
  view.lines.push_back({std::move(explanation.verdict), explanation.tone, ViewLine::kHeading});
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

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_DECISION_VIEWS_H_
