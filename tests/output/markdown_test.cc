#include "output/markdown.h"

#include <gmock/gmock.h>

#include <random>
#include <string>

namespace xplane_time::output {
namespace {

using ::testing::HasSubstr, ::testing::Not;

TEST(MarkdownCodeTest, IsACodeSpanWhateverTheNameHolds) {
  EXPECT_EQ(MarkdownCode("a|b <T> *c*"), "`a|b <T> *c*`");
  EXPECT_EQ(MarkdownCode("a`b"), "`` a`b ``");
  EXPECT_EQ(MarkdownCode("``"), "``` `` ```");
  EXPECT_EQ(MarkdownCode(" a "), "`  a  `");
  EXPECT_EQ(MarkdownCode("a\nb"), "`a\\nb`");
  EXPECT_EQ(MarkdownCode(""), "");
}

TEST(MarkdownCellTest, OnlyThePipesOfTheTableSplitIt) {
  EXPECT_EQ(MarkdownCell(MarkdownCode("a|b")), "`a\\|b`");
  EXPECT_EQ(MarkdownCell(MarkdownCode("a\\|b")), "`a\\x5c\\|b`");
  EXPECT_EQ(MarkdownCell(MarkdownText("1.5 of a|b")), "1.5 of `a\\|b`");
}

TEST(MarkdownTextTest, WordsThatMayBeMarkupAreCode) {
  const struct {
    const char *text, *markdown;
  } cases[] = {
      {"3 of 8 kernels (12.5 %), +3.2 %", "3 of 8 kernels (12.5 %), +3.2 %"},
      {"jit_f: ![i](http://x) is 3 % slower", "`jit_f`: `![i](http://x)` is 3 % slower"},
      {"see [click here](http://x) now", "see `[click here](http://x)` now"},
      {"an error (fusion_1), \"a_b\".", "an error (`fusion_1`), \"`a_b`\"."},
      {"f(x_1) and (anonymous_ns)::g", "`f(x_1)` and `(anonymous_ns)::g`"},
      {"p < 0.05 & q >= 2", "p &lt; 0.05 &amp; q &gt;= 2"},
      {"<img src=x>", "`<img src=x>`"},
      {"@all #12 $x$ :tada: www.x.y a@b.c", "`@all #12 $x$ :tada`: `www.x.y a@b.c`"},
      {"`x ![i](u)", "`` `x ![i](u) ``"},
      {"GPU:0: 10:11:12 UTC", "GPU:0: 10:11:12 UTC"},
      {"- item", "`-` item"},
      {"1. item", "`1.` item"},
      {"===", "`===`"},
      {"-", "-"},
      {"    code", "code"},
      {"a\n# b", "`a\\n#` b"},
      {"", ""},
  };
  for (const auto& each : cases) EXPECT_EQ(MarkdownText(each.text), each.markdown) << each.text;
}

// Takes code spans away, as CommonMark 6.1 has them: a run of backticks up to the next run that is
// as long.
std::string WithoutCode(const std::string& text) {
  std::string rest;
  for (size_t at = 0; at < text.size();) {
    size_t run = at;
    while (run < text.size() && text[run] == '`') ++run;
    if (run == at) {
      rest.push_back(text[at++]);
      continue;
    }
    const size_t length = run - at;
    size_t close = run, end = run;
    while (close < text.size()) {
      close = text.find('`', end);
      if (close == std::string::npos) break;
      end = close;
      while (end < text.size() && text[end] == '`') ++end;
      if (end - close == length) break;
    }
    if (close == std::string::npos || close >= text.size()) {
      rest.append(length, '`');
      at = run;
    } else {
      at = end;
    }
  }
  return rest;
}

TEST(MarkdownTextTest, NoRandomTextLeavesMarkup) {
  std::mt19937 random(7);
  constexpr std::string_view kParts[] = {
      "`",    "``", "[",  "](", ")",  "!",  "*", "_",  "|", "\\", "<", ">", "&",  " ", " ",
      "http", ":",  "//", "a",  "B1", "\n", "#", "@x", "~", "$",  "-", "(", "\"", "'", "www."};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text.append(kParts[random() % std::size(kParts)]);
    const std::string rest = WithoutCode(MarkdownText(text));
    for (const char* markup :
         {"`", "[", "*", "_", "|", "\\", "<", ">", "#", "@", "~", "$", "://", "www.", "\n"}) {
      const bool is_entity = rest.find('&') != std::string::npos;
      if (is_entity && std::string_view(markup) == "#") continue;
      ASSERT_THAT(rest, Not(HasSubstr(markup))) << text;
    }
  }
}

}  // namespace
}  // namespace xplane_time::output
