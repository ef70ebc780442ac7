#include "output/grid.h"

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
