#include "output/grid.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "output/markdown.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

constexpr size_t kGridGap = 2;       // spaces between columns
constexpr size_t kMinFlexWidth = 8;  // of the flexible column, at any price
constexpr size_t kLeastText = 12;    // of other texts
constexpr size_t kLeastName = 4;     // before the number of one that is shown like another

struct Sized {
  const Column* column;
  size_t width;
};

std::vector<Sized> NaturalWidths(const Grid& grid) {
  std::vector<Sized> out;
  for (const Column& column : grid.columns) {
    if (column.hidden) continue;
    out.push_back({&column, std::max(DisplayWidth(column.header), WidestOf(column.cells))});
  }
  return out;
}

// The narrowest that a column gets before others are dropped for it.
size_t LeastWidth(const Sized& sized, bool at_any_price) {
  const Column& column = *sized.column;
  size_t least = sized.width;
  if (column.flex_width != 0) {
    least = at_any_price ? std::min(column.flex_width, kMinFlexWidth) : column.flex_width;
  } else if (at_any_price && !column.right) {
    least = kLeastText;
  }
  return std::min(least, sized.width);
}

// The width of all columns with gaps, each as wide as `width_of` returns.
size_t Total(const std::vector<Sized>& columns, auto width_of) {
  size_t total = columns.empty() ? 0 : kGridGap * (columns.size() - 1);
  for (const Sized& sized : columns) total += width_of(sized);
  return total;
}

size_t LeastTotal(const std::vector<Sized>& columns, bool at_any_price) {
  return Total(columns, [&](const Sized& sized) { return LeastWidth(sized, at_any_price); });
}

// Of the droppable columns, the one with the highest `drop`, the last one if equal. At any price:
// the last number, else the last column, but never the first. Empty: no column can be dropped.
std::optional<size_t> NextToDrop(const std::vector<Sized>& columns, bool at_any_price) {
  std::optional<size_t> next;
  for (size_t i = at_any_price ? 1 : 0; i < columns.size(); ++i) {
    const Column &column = *columns[i].column, &before = *columns[next.value_or(i)].column;
    const bool goes_first = at_any_price ? column.right || !before.right
                                         : column.drop > 0 && column.drop >= before.drop;
    if (goes_first) next = i;
  }
  return next;
}

// Drops columns until the others fit.
void DropColumns(size_t width, bool at_any_price, std::vector<Sized>* columns,
                 std::vector<std::string>* dropped) {
  while (LeastTotal(*columns, at_any_price) > width) {
    const std::optional<size_t> next = NextToDrop(*columns, at_any_price);
    if (!next.has_value()) return;
    dropped->push_back((*columns)[*next].column->header);
    // Not erase(): for a single element, g++ 12 warns about the move.
    const auto at = columns->begin() + static_cast<std::ptrdiff_t>(*next);
    std::rotate(at, at + 1, columns->end());
    columns->pop_back();
  }
}

// Takes what is too much from the columns that may give it, the last one first.
void Shrink(size_t width, bool at_any_price, std::vector<Sized>* columns) {
  size_t total = Total(*columns, [](const Sized& sized) { return sized.width; });
  for (auto it = columns->rbegin(); it != columns->rend() && total > width; ++it) {
    const size_t taken = std::min(total - width, it->width - LeastWidth(*it, at_any_price));
    it->width -= taken;
    total -= taken;
  }
  const bool alone = columns->size() == 1 && !columns->front().column->right;
  if (at_any_price && alone) columns->front().width = std::min(columns->front().width, width);
}

// Texts that differ and are shown alike; each with the rows that have it.
using Alike = std::map<std::string_view, std::vector<size_t>>;

std::vector<Alike> ShownAlike(const std::vector<std::string>& cells,
                              const std::vector<std::string>& shown) {
  std::map<std::string_view, Alike> by_text;
  for (size_t i = 0; i < cells.size(); ++i) by_text[shown[i]][cells[i]].push_back(i);
  std::vector<Alike> groups;
  for (auto& [text, alike] : by_text) {
    if (alike.size() > 1) groups.push_back(std::move(alike));
  }
  return groups;
}

// How many columns the texts of a group have in common at their beginning, or at their end.
size_t CommonColumns(const Alike& alike, bool at_end) {
  const std::string_view first = alike.begin()->first;
  size_t common = first.size();
  for (const auto& [text, rows] : alike) {
    size_t same = 0;
    const size_t most = std::min(common, text.size());
    while (same < most && (at_end ? text[text.size() - 1 - same] == first[first.size() - 1 - same]
                                  : text[same] == first[same])) {
      ++same;
    }
    common = same;
  }
  return DisplayWidth(at_end ? first.substr(first.size() - common) : first.substr(0, common));
}

// Shortens C++ functions that are too wide to their most informative part. Names that would become
// equal stay complete.
std::vector<std::string> BareWhereTooWide(const std::vector<std::string>& cells, size_t width) {
  std::vector<std::string> bare;
  for (const std::string& cell : cells) {
    bare.emplace_back(DisplayWidth(cell) > width ? BareFunction(cell) : cell);
  }
  for (const Alike& alike : ShownAlike(cells, bare)) {
    for (const auto& [text, rows] : alike) {
      for (size_t row : rows) bare[row] = text;
    }
  }
  return bare;
}

}  // namespace

std::vector<std::string> FitCells(const Column& column, size_t width, std::string_view ellipsis,
                                  bool* numbered) {
  std::vector<std::string> shown;
  const bool are_names = column.flex_width != 0 && !column.words;
  const std::vector<std::string> cells =
      are_names ? BareWhereTooWide(column.cells, width) : column.cells;
  for (const std::string& cell : cells) {
    shown.push_back(column.words ? ShortenWords(cell, width, ellipsis)
                                 : ShortenMiddle(cell, width, ellipsis));
  }
  if (!are_names) return shown;
  for (const bool at_end : {false, true}) {
    for (const Alike& alike : ShownAlike(cells, shown)) {
      const size_t common = CommonColumns(alike, at_end);
      for (const auto& [text, rows] : alike) {
        const size_t at = at_end ? DisplayWidth(text) - common : common;
        for (size_t row : rows) shown[row] = ShortenAround(text, width, ellipsis, at);
      }
    }
  }
  size_t number = 0;  // of all groups: shorter, they may be alike
  for (const Alike& alike : ShownAlike(cells, shown)) {
    for (const auto& [text, rows] : alike) {
      const std::string suffix = "#" + std::to_string(++number);
      if (suffix.size() + kLeastName > width) break;
      *numbered = true;
      for (size_t row : rows) {
        shown[row] = ShortenMiddle(text, width - suffix.size(), ellipsis) + suffix;
      }
    }
  }
  return shown;
}

size_t WidestOf(const std::vector<std::string>& cells) {
  size_t widest = 0;
  for (const std::string& cell : cells) widest = std::max(widest, DisplayWidth(cell));
  return widest;
}

GridText LayOut(const Grid& grid, size_t width, std::string_view ellipsis) {
  GridText text;
  std::vector<Sized> columns = NaturalWidths(grid);
  for (const bool at_any_price : {false, true}) {
    DropColumns(width, at_any_price, &columns, &text.dropped);
  }
  for (const bool at_any_price : {false, true}) Shrink(width, at_any_price, &columns);
  std::vector<std::string>& lines = text.lines;
  lines.resize(grid.rows() + 1);
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = *columns[i].column;
    const auto cells = FitCells(column, columns[i].width, ellipsis, &text.numbered);
    for (size_t row = 0; row < lines.size(); ++row) {
      if (i > 0) lines[row].append(kGridGap, ' ');
      lines[row].append(Padded(
          row == 0 ? ShortenMiddle(column.header, columns[i].width, ellipsis) : cells[row - 1],
          columns[i].width, column.right));
    }
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return text;
}

std::string MarkdownGrid(const Grid& grid) {
  if (grid.columns.empty()) return "";
  std::string out, rule;
  for (const Column& column : grid.columns) {
    if (column.hidden) continue;
    out.append("| ").append(MarkdownCell(MarkdownText(column.header))).append(" ");
    rule.append(column.right ? "| ---: " : "| --- ");
  }
  out.append("|\n").append(rule).append("|\n");
  for (size_t row = 0; row < grid.rows(); ++row) {
    for (const Column& column : grid.columns) {
      if (column.hidden) continue;
      const std::string& cell = column.cells[row];
      const std::string shown =
          MarkdownCell(column.name && cell != "-" ? MarkdownCode(cell) : MarkdownText(cell));
      out.append("| ").append(shown).append(shown.empty() ? "" : " ");
    }
    out.append("|\n");
  }
  return out;
}

std::string ColumnName(std::string_view header) {
  std::string name = absl::AsciiStrToLower(absl::string_view(header.data(), header.size()));
  absl::RemoveExtraAsciiWhitespace(&name);
  if (absl::EndsWith(name, "j/exec")) return "j/exec";  // also mJ
  for (const absl::string_view unit : {" ns", " us", " ms", " s", " %", " uj", " mj", " j"}) {
    const absl::string_view without = absl::StripSuffix(name, unit);
    if (without.size() == name.size()) continue;
    name = std::string(without);
    break;
  }
  if (name == "95% ci") return "ci";
  std::ranges::replace_if(
      name, [](char c) { return c == ' ' || c == '('; }, '_');
  std::erase(name, ')');
  return name;
}

void ChooseColumns(const std::vector<std::string>& names, Grid* grid) {
  if (names.empty() || grid->columns.empty()) return;
  std::vector<Column> chosen;
  bool any = false;
  for (const std::string& name : names) {
    any |= name == ColumnName(grid->columns[0].header);
    for (size_t i = 1; i < grid->columns.size(); ++i) {
      Column& column = grid->columns[i];
      if (ColumnName(column.header) != name || column.cells.size() != grid->rows()) continue;
      chosen.push_back(std::move(column));
      column = Column();  // a name that is given twice is shown once
      chosen.back().hidden = false;
      chosen.back().drop = 0;
    }
  }
  if (!any && chosen.empty()) return;
  grid->columns.resize(1);
  std::move(chosen.begin(), chosen.end(), std::back_inserter(grid->columns));
}

}  // namespace xplane_time::output
