// Grid: cells become aligned columns that fit a width.
//
// Input: cells as printable UTF-8 and a description of the columns. Output: lines.
// If the lines would be too wide, these steps are taken in order until they fit:
//
//   1. The flexible columns are shortened in the middle, down to their least width.
//   2. Columns are dropped, the highest `drop` first.
//   3. The flexible columns are shortened below their least width, then other texts.
//   4. The last columns are dropped, numbers first.
//
// A number is never cut, and the first column stays at any width. Different cells are shown
// differently: if their ends are equal, the part in which they differ stays, and if that is not
// enough, they are numbered.
//
//   function    runs  median us       <- right-aligned numbers
//   jit_dot        3     611.00
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "result/result.h"

namespace xplane_time::output {

// In columns of the screen.
size_t WidestOf(const std::vector<std::string>& cells);

struct Column {
  std::string header;
  bool right = false;     // right-aligned
  bool name = false;      // the producer's text: a code span in Markdown
  size_t flex_width = 0;  // not 0: may be shortened in the middle, down to this width
  bool words = false;     // flexible: is shortened between its words
  int drop = 0;           // 0: stays
  bool hidden = false;    // adds no information: shown only on request
  std::vector<std::string> cells = {};
  // The unrounded values of the cells, of every row and in the unit `exact_unit`; empty: the cells
  // are exact.
  std::vector<result::FieldValue> exact = {};
  std::string_view exact_unit = {};

  Column& Drop(int order) {
    drop = order;
    return *this;
  }
  Column& HideIf(bool says_nothing) {
    hidden = says_nothing;
    return *this;
  }
  Column& HideIfUnknown() {
    return HideIf(std::ranges::all_of(cells, [](const auto& cell) { return cell == "-"; }));
  }
  // `unless_known`: but for a text that is in all of them.
  Column& HideIfSame(bool unless_known = false) {
    const bool known = unless_known && !cells.empty() && !cells[0].empty();
    return HideIf(!known && std::ranges::adjacent_find(cells, std::not_equal_to()) == cells.end());
  }
};

// Columns of equal length.
struct Grid {
  std::vector<Column> columns;
  size_t rows() const { return columns.empty() ? 0 : columns[0].cells.size(); }
};

// The cells of a column, shortened to a width. In flexible columns, different cells stay different.
// `numbered` becomes true if this required numbers.
std::vector<std::string> FitCells(const Column& column, size_t width, std::string_view ellipsis,
                                  bool* numbered);

struct GridText {
  std::vector<std::string> lines;    // the header first; no trailing spaces
  std::vector<std::string> dropped;  // headers of the columns that did not fit
  bool numbered = false;  // some cells end in #1, #2, because they would be equal otherwise
};

GridText LayOut(const Grid& grid, size_t width, std::string_view ellipsis);

// A GitHub table, every column at full length; empty without columns.
std::string MarkdownGrid(const Grid& grid);

// The name of a column: its header in lower case without its unit, and with "_" for spaces, so that
// a shell needs no quotes: "median us" is median, "P(best)" is p_best, "95% CI" is ci. So a choice
// holds whatever the numbers are.
std::string ColumnName(std::string_view header);

// Shows the columns of these names, in this order, after the first column, which stays. Hidden
// columns can be chosen. A grid without any of these columns does not change.
void ChooseColumns(const std::vector<std::string>& names, Grid* grid);

}  // namespace xplane_time::output
