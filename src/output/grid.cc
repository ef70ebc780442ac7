#include "output/grid.h"

#include <algorithm>

#include "output/text.h"

namespace xplane_time::output {
namespace {

constexpr size_t kGap = 2;         // spaces between columns
constexpr size_t kLeastWidth = 4;  // of the flexible column, at any price
constexpr size_t kLeastText = 12;  // of other texts

struct Sized {
  const Column* column;
  size_t width;
};

std::vector<Sized> NaturalWidths(const Grid& grid) {
  std::vector<Sized> out;
  for (const Column& column : grid.columns) {
    size_t width = DisplayWidth(column.header);
    for (const std::string& cell : column.cells) width = std::max(width, DisplayWidth(cell));
    out.push_back({&column, width});
  }
  return out;
}

size_t TotalWidth(const std::vector<Sized>& columns) {
  size_t total = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const Sized& sized : columns) total += sized.width;
  return total;
}

// Takes up to `excess` columns from the flexible columns, the last one first; none gets
// narrower than its flex_width (or kLeastWidth, where that is to be ignored).
void Shrink(size_t excess, bool ignore_flex_width, std::vector<Sized>* columns) {
  for (auto it = columns->rbegin(); it != columns->rend() && excess > 0; ++it) {
    if (it->column->flex_width == 0) continue;
    const size_t least = ignore_flex_width ? kLeastWidth : it->column->flex_width;
    const size_t taken = it->width > least ? std::min(excess, it->width - least) : 0;
    it->width -= taken;
    excess -= taken;
  }
}

size_t LeastTotal(const std::vector<Sized>& columns) {
  std::vector<Sized> least = columns;
  Shrink(TotalWidth(least), /*ignore_flex_width=*/false, &least);
  return TotalWidth(least);
}

void DropUntilFits(size_t width, std::vector<Sized>* columns, std::vector<std::string>* dropped) {
  while (LeastTotal(*columns) > width) {
    const auto victim =
        std::max_element(columns->begin(), columns->end(), [](const Sized& a, const Sized& b) {
          return a.column->drop <= b.column->drop;  // of equals the last one
        });
    if (victim == columns->end() || victim->column->drop == 0) return;
    dropped->push_back(victim->column->header);
    columns->erase(victim);
  }
}

// At any price: texts that are not flexible are cut, then numbers go, whole, the last one first.
void MakeFit(size_t width, std::vector<Sized>* columns, std::vector<std::string>* dropped) {
  for (auto it = columns->rbegin(); it != columns->rend(); ++it) {
    const size_t total = TotalWidth(*columns);
    if (total <= width) return;
    if (it->column->right || it->width <= kLeastText) continue;
    it->width -= std::min(total - width, it->width - kLeastText);
  }
  for (size_t i = columns->size(); i-- > 1 && TotalWidth(*columns) > width;) {
    if (!(*columns)[i].column->right) continue;
    dropped->emplace_back((*columns)[i].column->header);
    std::rotate(columns->begin() + static_cast<std::ptrdiff_t>(i),
                columns->begin() + static_cast<std::ptrdiff_t>(i) + 1, columns->end());
    columns->pop_back();
  }
}

void AppendCell(const std::string& cell, const Sized& sized, std::string_view ellipsis,
                std::string* line) {
  const std::string shown = ShortenMiddle(cell, sized.width, ellipsis);
  const size_t padding = sized.width - DisplayWidth(shown);
  if (sized.column->right) line->append(padding, ' ');
  line->append(shown);
  if (!sized.column->right) line->append(padding, ' ');
}

std::string TrimRight(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

GridText LayOut(const Grid& grid, size_t width, std::string_view ellipsis) {
  GridText text;
  std::vector<Sized> columns = NaturalWidths(grid);
  DropUntilFits(width, &columns, &text.dropped);
  for (const bool ignore_flex_width : {false, true}) {
    const size_t total = TotalWidth(columns);
    if (total > width) Shrink(total - width, ignore_flex_width, &columns);
  }
  MakeFit(width, &columns, &text.dropped);
  for (size_t row = 0; row <= grid.rows(); ++row) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column& column = *columns[i].column;
      if (i > 0) line.append(kGap, ' ');
      AppendCell(row == 0 ? column.header : column.cells[row - 1], columns[i], ellipsis, &line);
    }
    text.lines.push_back(TrimRight(ShortenMiddle(line, width, ellipsis)));
  }
  return text;
}

std::string MarkdownGrid(const Grid& grid) {
  if (grid.columns.empty()) return "";
  std::string out, rule;
  for (const Column& column : grid.columns) {
    out.append("| ").append(MarkdownCell(column.header)).append(" ");
    rule.append(column.right ? "| ---: " : "| --- ");
  }
  out.append("|\n").append(rule).append("|\n");
  for (size_t row = 0; row < grid.rows(); ++row) {
    for (const Column& column : grid.columns) {
      const std::string& cell = column.cells[row];
      const std::string shown =
          column.name && cell != "-" ? MarkdownCode(cell) : MarkdownCell(cell);
      out.append("| ").append(shown).append(shown.empty() ? "" : " ");
    }
    out.append("|\n");
  }
  return out;
}

}  // namespace xplane_time::output
