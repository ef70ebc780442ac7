#include "output/output.h"

#include <gtest/gtest.h>

#include "output/text.h"
#include "tests/output/rendered.h"
#include "tests/output/sample_report.h"

namespace xplane_time::output {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Every line fits, nothing is left for a terminal to act on, no trailing spaces.
void ExpectReadable(const std::string& text, int width) {
  EXPECT_EQ(ValidUtf8(text), text);
  for (const std::string& line : LinesOf(text)) {
    EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << line;
    EXPECT_EQ(Printable(line), line);
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(ReportTableTest, Golden) {
  EXPECT_EQ(*RenderReport(SmallReport(), {}),
            R"(run/node-1.xplane.pb  1.2 MB
11 planes, 40 lines, 3782 events, host node-1
captured 2025-08-21 09:53:20 UTC, for 12.500 s
no sign of loss; no launches were counted, so lost executions cannot be detected

devices over 9.456 ms
device  kind  executions  busy ms  busy %
GPU:0   gpu           54    3.475    36.8  ██████··········
without executions: GPU:1-7

functions, active time, profile clock
function                program  runs  median us  95% CI  mean us  share %  note
jit_dot                      49     3     611.00       -   611.00     77.0
jit_dot                      79     3     117.43       -   117.43     14.8  ? 1s
jit_convert…ement_type  184…615    12      15.79   ±2.0%    15.79      8.0
odd\xff"q",…1b[2J<T> µ        -     1       5.50       -     5.50      0.2
jit_nothing                   -     1          -       -        -        -  o
note: ? the split into runs is uncertain; o no ops, only spans are known; Ns: N
  suspect runs, excluded, also from shares

kernels, all devices and programs; share of self time
kernel                               count  total us  mean us  share %  function
Cijk_Ailk_Bljk_BB…D0_AF0EM1_WGM1.kd      3    1833.0   611.00     52.7  jit_dot
loop_add_fusion.kd                      12     189.4    15.79      5.5  jit_dot
odd\xff"q",|\n\x1b[2J<T> µ               1       5.5     5.50        -  -
not shown, too wide: category

suspicious in this trace
error: 3x events with a negative duration were skipped (first: /host:CPU, line
  "python")
warning: 1x runs lack kernels that the other runs have; left out of the
  statistics (/device:GPU:0, line "Stream #16", event 17)

notes on this trace
info: 7x an accelerator executed nothing (first: /device:GPU:1)
)");
}

TEST(ReportTableTest, TwoScreensWhateverTheTrace) {
  for (int devices : {1, 2, 8, 40}) {
    for (int diagnostics : {0, 3, 30}) {
      const std::string text = *RenderReport(WideReport(devices, 40, diagnostics), {});
      EXPECT_LE(LinesOf(text).size(), 46U) << text;
      ExpectReadable(text, 80);
    }
  }
}

TEST(ReportTableTest, SaysWhatIsCut) {
  const std::string text = *RenderReport(WideReport(1, 14, 12), {});
  EXPECT_NE(text.find("more functions: xplane-time functions"), std::string::npos);
  EXPECT_NE(text.find("more kernels: xplane-time kernels"), std::string::npos);
  EXPECT_NE(text.find("more findings: --format json"), std::string::npos);
  // A row that was asked for is never cut.
  const std::string top = *RenderReport(WideReport(1, 40, 12), {.top = 40});
  EXPECT_EQ(top.find("more functions"), std::string::npos);
}

TEST(ReportTableTest, SeveralDevicesShowCombinedRows) {
  const std::string text = *RenderReport(WideReport(4, 3, 0), {.width = 120});
  // Functions 1 and 2 have a combined time; of function 0 each device has its row.
  EXPECT_NE(text.find("long_name_2  all 4"), std::string::npos) << text;
  EXPECT_NE(text.find("long_name_0  GPU:3"), std::string::npos) << text;
  EXPECT_EQ(text.find("long_name_2  GPU:3"), std::string::npos) << text;
  // One kernel row stands for all devices, and the shares add up.
  EXPECT_NE(text.find("  400    12.000"), std::string::npos) << text;
  EXPECT_NE(text.find("50.0  jit_dot"), std::string::npos) << text;
}

TEST(ReportTableTest, ColumnsAreAligned) {
  for (const bool unicode : {true, false}) {
    const auto lines = LinesOf(*RenderReport(WideReport(1, 8, 0), {.unicode = unicode}));
    size_t checked = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].starts_with("function ")) continue;
      const std::string header = "share %";
      const size_t end = DisplayWidth(lines[i].substr(0, lines[i].find(header))) + header.size();
      for (size_t row = i + 1; row < i + 9; ++row, ++checked) {
        size_t column = 0, position = 0;
        for (; column < end || (lines[row][position] & 0xC0) == 0x80; ++position) {
          column += (lines[row][position] & 0xC0) == 0x80 ? 0 : 1;
        }
        EXPECT_NE(lines[row][position - 1], ' ') << lines[row];
        EXPECT_TRUE(position == lines[row].size() || lines[row][position] == ' ') << lines[row];
      }
    }
    EXPECT_EQ(checked, 8U);
  }
}

TEST(ReportTableTest, AsciiOnly) {
  Report report = WideReport(2, 12, 3);
  const std::string text = *RenderReport(report, {.unicode = false});
  for (char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << text;
  ExpectReadable(text, 80);
}

TEST(ReportTableTest, ColorOnlyWhenAskedFor) {
  EXPECT_EQ(RenderReport(SmallReport(), {})->find('\x1b'), std::string::npos);
  const std::string text = *RenderReport(SmallReport(), {.color = true});
  EXPECT_NE(text.find("\x1b[31merror: 3x"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[33mwarning: 1x"), std::string::npos);
  // The same text without the colors.
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain.push_back(text[i]);
    }
  }
  EXPECT_EQ(plain, *RenderReport(SmallReport(), {}));
}

TEST(ReportTableTest, EmptyReport) {
  EXPECT_EQ(*RenderReport(Report(), {}),
            "0 planes, 0 lines, 0 events\n"
            "no sign of loss; no launches were counted, so lost executions cannot be detected\n\n"
            "devices\nnone\n\nfunctions, active time\n"
            "none: no kernel belongs to a compiled function\n\n"
            "kernels, all devices and programs; share of self time\nnone\n");
}

TEST(ReportTableTest, InfosStandBesideWarnings) {
  const std::string text = *RenderReport(SmallReport(), {});
  EXPECT_NE(text.find("warning: 1x runs lack kernels"), std::string::npos) << text;
  EXPECT_NE(text.find("info: 7x an accelerator executed nothing"), std::string::npos) << text;
}

std::string Plotted(const Report& report, const OutputOptions& options) {
  Output output = FunctionsOutput(report, options, /*by_id=*/false, /*samples=*/false);
  AddDistributions(report, &output);
  return Render(output, options);
}

TEST(TablesTest, FitEveryWidth) {
  Report report = SmallReport();
  AddSamples(&report);
  report.variants = report.functions;
  report.variants[0].variant_id = "3";
  for (int width : {40, 60, 80, 100, 133, 250}) {
    for (const bool unicode : {true, false}) {
      const OutputOptions options = {.width = width, .unicode = unicode};
      ExpectReadable(*RenderReport(report, options), width);
      ExpectReadable(*RenderReport(WideReport(3, 12, 2), options), width);
      ExpectReadable(*RenderFunctions(report, options, false, false), width);
      ExpectReadable(*RenderFunctions(report, options, true, false), width);
      ExpectReadable(*RenderFunctions(report, options, false, true), width);
      ExpectReadable(Plotted(report, options), width);
      ExpectReadable(*RenderKernels(report, options), width);
      ExpectReadable(RenderTree(SmallTree(), options), width);
      ExpectReadable(RenderPlanes(SmallPlanes(true), options), width);
    }
  }
}

// Runs of one function, each of so many us.
Report ReportOfRuns(const std::vector<int64_t>& times_us) {
  Report report;
  report.functions = {MakeFunction("jit_f", Gpu(0), times_us.size(), 1e6)};
  for (const int64_t time_us : times_us) {
    SampleRow& run = report.samples.emplace_back();
    run.device = Gpu(0);
    run.function = "jit_f";
    run.active_ps = time_us * 1'000'000;
    run.span_ps = 2 * time_us * 1'000'000;
  }
  return report;
}

TEST(DistributionsTest, OfEachFunctionCountItsRuns) {
  Report report = ReportOfRuns({10, 10, 10, 10, 12, 13, 40});
  report.samples[5].suspect = true;
  const std::string text = Plotted(report, {});
  // In thirtieths of 10 to 40: all of the first, a fourth of them at 12, and at the end.
  EXPECT_NE(text.find("jit_f        6    10.000  |█ ▂                          ▂|"),
            std::string::npos)
      << text;
  const std::string of_span = Plotted(report, {.metric = Metric::kSpan, .unicode = false});
  EXPECT_NE(of_span.find("20.000  |# :                          :|   80.000"), std::string::npos)
      << of_span;
}

TEST(DistributionsTest, OfEqualRunsAndOfNone) {
  Report report = ReportOfRuns({7, 7});
  EXPECT_NE(Plotted(report, {}).find("|               █              |"), std::string::npos);
  report.functions.push_back(MakeFunction("jit_none", Gpu(0), 0, 1e6));
  EXPECT_NE(Plotted(report, {}).find("jit_none     0         -"), std::string::npos)
      << Plotted(report, {});
}

TEST(TablesTest, EmptyReports) {
  const std::string none = "none: no kernel belongs to a compiled function\n";
  EXPECT_EQ(*RenderFunctions(Report(), {}, false, false), "functions, active time\n" + none);
  EXPECT_EQ(*RenderFunctions(Report(), {}, true, false),
            "variants, active time\nnone: no function name matches --id-pattern\n");
  EXPECT_EQ(*RenderFunctions(Report(), {}, false, true), "samples\n" + none);
  EXPECT_EQ(*RenderKernels(Report(), {}), "kernels\nnone\n");
  EXPECT_EQ(RenderTree(TreeReport(), {}), "tree\nnone\n");
  EXPECT_EQ(RenderPlanes(PlanesReport(), {}),
            "0 planes, 0 lines, 0 events\n\nplanes and their lines\nnone\n");
}

TEST(TreeTableTest, IndentsAndCuts) {
  EXPECT_EQ(RenderTree(SmallTree(), {.top = 3}),
            R"(GPU:0
name                  count  total ms  self ms  idle ms  of root %  status
jit_dot                   3     1.833        -  0.03300      100.0
  while                   3     1.800        -        -       98.2  asynchronous
    Cijk_A…1_WGM1.kd      3     1.700    1.700        -       92.7
not shown, too wide: child ms
... 1 more row: --top 4
)");
}

TEST(FunctionTableTest, SaysWhatDoesNotFit) {
  const std::string narrow = *RenderFunctions(SmallReport(), {}, false, false);
  EXPECT_NE(narrow.find("not shown, too wide: kernels/run, max us, min us, std us, total us"),
            std::string::npos)
      << narrow;
  const std::string wide = *RenderFunctions(SmallReport(), {.width = 200}, false, false);
  EXPECT_EQ(wide.find("not shown"), std::string::npos);
  EXPECT_NE(wide.find("18446744073709551615"), std::string::npos);
}

TEST(FunctionTableTest, TheMetricThatWasAskedFor) {
  const std::string text = *RenderFunctions(SmallReport(), {.metric = Metric::kSpan}, false, false);
  EXPECT_NE(text.find("functions, span, profile clock"), std::string::npos) << text;
  EXPECT_NE(text.find("763.75"), std::string::npos) << text;
}

// A loop that holds nearly all the time of a kernel beside it, under names that begin alike.
Report NestedKernels() {
  Report report;
  report.kernels = {MakeKernel(LongKernelName() + "_outer", Gpu(0), 1, 9'000'000, 0.1),
                    MakeKernel(LongKernelName() + "_inner", Gpu(0), 4, 8'000'000, 0.9)};
  report.kernels[0].self_ps = 1'000'000;
  return report;
}

TEST(KernelTableTest, SelfTimeIsWhatOrdersTheRows) {
  const auto lines = LinesOf(*RenderKernels(NestedKernels(), {.width = 200}));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1].substr(lines[1].find("count"), 35), "count  self us  total us  mean us  ");
  EXPECT_NE(lines[2].find("_inner      4    8.000     8.000    2.000"), std::string::npos);
  EXPECT_NE(lines[3].find("_outer      1    1.000     9.000    9.000"), std::string::npos);
}

TEST(KernelTableTest, NamesBeforeWhatIsMissedLeast) {
  // 26 columns of the name are kept at 80, and self time stays whatever gives way.
  const std::string text = *RenderKernels(NestedKernels(), {});
  EXPECT_NE(text.find("\nCijk_Ailk_Blj…GM1.kd_inner "), std::string::npos) << text;
  EXPECT_NE(text.find("not shown, too wide: max us, min us, std us, median us"), std::string::npos)
      << text;
  const std::string narrow = *RenderKernels(NestedKernels(), {.width = 60});
  const std::string header = LinesOf(narrow)[1];
  EXPECT_NE(header.find("self us"), std::string::npos) << narrow;
  EXPECT_EQ(header.find("total us"), std::string::npos) << narrow;
  // What is missing is named in full, over two lines here.
  EXPECT_NE(narrow.find("median us,\n  total us, function\n"), std::string::npos) << narrow;
}

TEST(KernelTableTest, UnknownSelfTimeHasNoShare) {
  // A loop that returned before its body was done: no share, and none is made of its total.
  Report report = NestedKernels();
  report.kernels[0].self_ps.reset();
  report.kernels[0].share.reset();
  for (const std::string& text :
       {*RenderReport(report, {.width = 200}), *RenderKernels(report, {.width = 200})}) {
    const auto lines = LinesOf(text.substr(text.find("\nkernel ") + 1));
    EXPECT_NE(lines[1].find("_outer      1     9.000"), std::string::npos) << text;
    EXPECT_NE(lines[1].find("  -  jit_dot"), std::string::npos) << text;
    EXPECT_NE(lines[2].find("90.0  jit_dot"), std::string::npos) << text;
  }
}

TEST(KernelTableTest, CategoryAndFunctionOnlyWhereTheyTell) {
  Report report = NestedKernels();
  EXPECT_NE(RenderKernels(report, {.width = 200})->find("  function"), std::string::npos);
  report.kernels[0].function = report.kernels[1].function = std::nullopt;
  EXPECT_EQ(RenderKernels(report, {.width = 200})->find("  function"), std::string::npos);
  EXPECT_EQ(RenderKernels(report, {.width = 200})->find("category"), std::string::npos);
  report.kernels[1].category = Category::kCollective;
  EXPECT_NE(RenderKernels(report, {.width = 200})->find("category"), std::string::npos);
}

TEST(MarkdownTest, EscapesAndKeepsEverything) {
  const OutputOptions options = {.format = Format::kMarkdown};
  const std::string kernels = *RenderKernels(SmallReport(), options);
  EXPECT_NE(kernels.find("| `" + LongKernelName() + "` | 3 | 1833.0 |"), std::string::npos);
  EXPECT_NE(kernels.find("`odd\\xff\"q\",\\|\\n\\x1b[2J<T> µ`"), std::string::npos) << kernels;
  for (const std::string& line : LinesOf(kernels)) {
    if (!line.starts_with("|")) continue;
    size_t pipes = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      pipes += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    }
    EXPECT_EQ(pipes, 12U) << line;
  }
  EXPECT_NE(RenderReport(SmallReport(), options)->find("| `GPU:0` | gpu | 54 |"),
            std::string::npos);
  EXPECT_NE(RenderTree(SmallTree(), options).find("### GPU:0\n\n| name |"), std::string::npos);
}

}  // namespace
}  // namespace xplane_time::output
