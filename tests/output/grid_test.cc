#include "output/results.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "output/text.h"

namespace xplane_time::output {
namespace {

Grid SampleGrid() {
  Grid grid;
  Column name;
  name.header = "function";
  name.name = true;
  name.flex_width = 8;
  name.cells = {"jit_a_function_with_a_long_name", "jit_µ"};
  Column runs = {.header = "runs", .right = true, .cells = {"3", "12"}};
  Column mean = {.header = "mean us", .right = true, .drop = 1, .cells = {"611.00", "15.79"}};
  Column max = {.header = "max us", .right = true, .drop = 2, .cells = {"623.22", "16.10"}};
  grid.columns = {name, runs, mean, max};
  return grid;
}

using Lines = std::vector<std::string>;

TEST(LayOutTest, AlignsAtFullLength) {
  const GridText text = LayOut(SampleGrid(), 80, "…");
  EXPECT_EQ(text.lines, (Lines{
                            "function                         runs  mean us  max us",
                            "jit_a_function_with_a_long_name     3   611.00  623.22",
                            "jit_µ                              12    15.79   16.10",
                        }));
  EXPECT_TRUE(text.dropped.empty());
}

TEST(LayOutTest, ShortensTheFlexibleColumnFirst) {
  const GridText text = LayOut(SampleGrid(), 36, "…");
  EXPECT_EQ(text.lines, (Lines{
                            "function       runs  mean us  max us",
                            "jit_a_…g_name     3   611.00  623.22",
                            "jit_µ            12    15.79   16.10",
                        }));
}

TEST(LayOutTest, ThenDropsColumns) {
  const GridText text = LayOut(SampleGrid(), 24, "…");
  EXPECT_EQ(text.lines, (Lines{
                            "function   runs  mean us",
                            "jit_…name     3   611.00",
                            "jit_µ        12    15.79",
                        }));
  EXPECT_EQ(text.dropped, Lines{"max us"});
}

TEST(LayOutTest, FitsEveryWidth) {
  for (size_t width = 1; width <= 60; ++width) {
    for (const std::string& line : LayOut(SampleGrid(), width, "...").lines) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

TEST(LayOutTest, ShortensNothingWhereThereIsRoom) {
  Grid grid = SampleGrid();
  grid.columns[1].header = "measured runs";
  grid.columns.insert(grid.columns.begin() + 1,
                      {.header = "device", .flex_width = 7, .cells = {"GPU:0 #1@node", "GPU:0"}});
  for (Column& column : grid.columns) column.drop = 0;
  for (size_t width = 12; width < 90; ++width) {
    const GridText text = LayOut(grid, width, "…");
    size_t widest = 0;
    bool shortened = false;
    for (const std::string& line : text.lines) {
      widest = std::max(widest, DisplayWidth(line));
      shortened |= line.find("…") != std::string::npos;
    }
    EXPECT_TRUE(!shortened || widest == width) << text.lines[1];
  }
}

TEST(LayOutTest, NeverCutsANumber) {
  Grid grid = SampleGrid();
  grid.columns[2].drop = grid.columns[3].drop = 0;
  for (size_t width = 1; width <= 60; ++width) {
    const GridText text = LayOut(grid, width, "...");
    for (const size_t column : {1, 2, 3}) {
      const Column& numbers = grid.columns[column];
      const bool dropped = std::count(text.dropped.begin(), text.dropped.end(), numbers.header) > 0;
      EXPECT_EQ(text.lines[0].find(numbers.header) == std::string::npos, dropped) << width;
      EXPECT_EQ(text.lines[1].find(numbers.cells[0]) == std::string::npos, dropped) << width;
    }
  }
  const Grid alone = {{{.header = "n", .right = true, .cells = {"1234567890123"}}}};
  EXPECT_EQ(LayOut(alone, 8, "...").lines[1], "1234567890123");
}

Grid MakeNamesGrid(std::vector<std::string> names) {
  return {{{.header = "kernel", .name = true, .flex_width = 8, .cells = std::move(names)}}};
}

TEST(LayOutTest, NamesThatDifferAreShownDifferently) {
  const std::string head = "void ck_tile::kentry<256, 1, ck_tile::";
  const std::string tail = "FmhaFwdKernel<ck_tile::TileArgs> >(ck_tile::Kargs) [clone .kd]";
  const Grid grid = MakeNamesGrid({head + "bf16_t, " + tail, head + "fp16_t, " + tail,
                                   head + "fp8_t, " + tail, head + "bf16_t, " + tail});
  for (const size_t width : {26, 32, 40, 60, 90}) {
    const GridText text = LayOut(grid, width, "…");
    EXPECT_EQ(std::set<std::string>(text.lines.begin() + 1, text.lines.end()).size(), 3U) << width;
    EXPECT_EQ(text.lines[1], text.lines[4]);  // one name, one text
    EXPECT_NE(text.lines[1].find("bf16"), std::string::npos) << text.lines[1];
    EXPECT_FALSE(text.numbered);
    for (const std::string& line : text.lines) EXPECT_LE(DisplayWidth(line), width);
  }
}

TEST(LayOutTest, OneShortNameBesideLongOnes) {
  const std::string many(60, 'x');
  const GridText text =
      LayOut(MakeNamesGrid({many + "1" + many, many + "2" + many, "short"}), 20, "…");
  EXPECT_EQ(text.lines, (Lines{"kernel", "xxxxx…xxxx1xxxx…xxxx", "xxxxx…xxxx2xxxx…xxxx", "short"}));
}

TEST(LayOutTest, NumbersWhatNothingElseTellsApart) {
  const std::string x(20, 'x'), y(20, 'y');
  const GridText text = LayOut(MakeNamesGrid({x + "a" + x + "c" + x, x + "a" + x + "d" + x,
                                              x + "b" + x + "c" + x, x + "b" + x + "d" + x}),
                               10, "...");
  EXPECT_TRUE(text.numbered);
  EXPECT_EQ(std::set<std::string>(text.lines.begin(), text.lines.end()).size(), 5U);
  for (const std::string& line : text.lines) EXPECT_LE(DisplayWidth(line), 10U);
}

TEST(LayOutTest, HiddenColumnsAreNotThere) {
  Grid grid = SampleGrid();
  grid.columns[2].hidden = true;
  EXPECT_EQ(LayOut(grid, 80, "…").lines[2], "jit_µ                              12   16.10");
  EXPECT_EQ(MarkdownGrid(grid).find("mean us"), std::string::npos);
}

TEST(ChooseColumnsTest, InTheOrderGivenAfterTheFirst) {
  Grid grid = SampleGrid();
  grid.columns[2].hidden = true;
  ChooseColumns({"max", "mean", "max"}, &grid);
  EXPECT_EQ(LayOut(grid, 80, "…").lines[2], "jit_µ                             16.10    15.79");
  Grid other = SampleGrid();
  ChooseColumns({"share"}, &other);
  EXPECT_EQ(other.columns.size(), 4U);  // none of it: as it is
  ChooseColumns({"function"}, &other);
  EXPECT_EQ(other.columns.size(), 1U);
}

TEST(ChooseColumnsTest, NamesWithoutUnits) {
  EXPECT_EQ(ColumnName("median us"), "median");
  EXPECT_EQ(ColumnName(" Median  US "), "median");
  EXPECT_EQ(ColumnName("95% CI"), "ci");
  EXPECT_EQ(ColumnName("ci"), "ci");
  EXPECT_EQ(ColumnName("FLOP/s"), "flop/s");
  EXPECT_EQ(ColumnName("of root %"), "of_root");
  EXPECT_EQ(ColumnName("of_root"), "of_root");
  EXPECT_EQ(ColumnName("P(best) %"), "p_best");
  EXPECT_EQ(*ParseColumns("functions", "Median, RUNS"), (Lines{"median", "runs"}));
  const absl::Status status = ParseColumns("pick", "runs,size").status();
  EXPECT_EQ(status.message(),
            "--columns: unknown column \"size\"; valid columns: variant, parameters, status, runs, "
            "typical, p95, slower, interval, p_best");
  EXPECT_FALSE(ParseColumns("pick", "").ok());
}

TEST(LayOutTest, Empty) {
  EXPECT_EQ(LayOut(Grid(), 80, "…").lines, Lines{""});
  EXPECT_EQ(MarkdownGrid(Grid()), "");
}

TEST(MarkdownGridTest, EveryColumnAtFullLength) {
  EXPECT_EQ(MarkdownGrid(SampleGrid()),
            "| function | runs | mean us | max us |\n"
            "| --- | ---: | ---: | ---: |\n"
            "| `jit_a_function_with_a_long_name` | 3 | 611.00 | 623.22 |\n"
            "| `jit_µ` | 12 | 15.79 | 16.10 |\n");
}

}  // namespace
}  // namespace xplane_time::output
