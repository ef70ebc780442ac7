// Decisions for people: what was decided, why, and what would make it firmer.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "output/view.h"

namespace xplane_time::output {

struct Explanation {
  std::string verdict;               // one line
  std::vector<std::string> reasons;  // sentences
  Tone tone = Tone::kWarning;        // of the verdict
};

inline std::string ChangeOrDash(std::optional<double> ratio) {
  return ratio.has_value() ? ChangeText(*ratio) : "-";
}
inline std::string IntervalText(std::optional<double> lo, std::optional<double> hi) {
  if (!lo.has_value() || !hi.has_value()) return "-";
  return absl::StrCat(ChangeText(*lo), " .. ", ChangeText(*hi));
}

// The rows that are shown; a note says how many more there are, and where.
template <typename Row>
std::span<const Row> TopRows(const std::vector<Row>& rows, size_t most, std::string_view what,
                             std::string_view where, std::vector<std::string>* notes) {
  const size_t shown = std::min(rows.size(), most);
  if (rows.size() > shown) notes->push_back(MoreNote(rows.size() - shown, what, where));
  return std::span(rows).first(shown);
}

template <typename Row>
void NoteUncertain(std::span<const Row> rows, std::vector<std::string>* notes) {
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.uncertain; })) {
    notes->push_back("?: the split into runs is uncertain");
  }
}

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
