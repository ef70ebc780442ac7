#include "output/text.h"

#include <gtest/gtest.h>

namespace xplane_time::output {
namespace {

TEST(ValidUtf8Test, EscapesWhatIsNotUtf8) {
  const struct {
    std::string_view bytes, shown;
  } kCases[] = {
      {"", ""},
      {"plain", "plain"},
      {"µ … 𝄞", "µ … 𝄞"},
      {"a\xff", "a\\xff"},
      {"\x80", "\\x80"},
      {"\xc2", "\\xc2"},                             // cut short
      {"\xe2\x80", "\\xe2\\x80"},                    // cut short
      {"\xf0\x9d\x84", "\\xf0\\x9d\\x84"},           // cut short
      {"\xc0\xaf", "\\xc0\\xaf"},                    // overlong
      {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},           // overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // past U+10FFFF
      {"\xc3(", "\\xc3("},
      {"a\n\t\r", "a\n\\t\\r"},                        // line feeds stay
      {"a\x1b\x7f\xc2\x9b", "a\\x1b\\x7f\\xc2\\x9b"},  // a terminal may act on these
  };
  for (const auto& c : kCases) EXPECT_EQ(ValidUtf8(c.bytes), c.shown);
}

TEST(PrintableTest, LeavesNoControlCharacter) {
  EXPECT_EQ(Printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(Printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(Printable("\x7f"), "\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");  // the C1 form of ESC [
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("µ\xff"), "µ\\xff");
}

TEST(ShortenMiddleTest, KeepsBothEndsAndTheWidth) {
  EXPECT_EQ(ShortenMiddle("abcdefgh", 8, "..."), "abcdefgh");
  EXPECT_EQ(ShortenMiddle("abcdefgh", 7, "..."), "ab...gh");
  EXPECT_EQ(ShortenMiddle("abcdefgh", 6, "..."), "ab...h");
  EXPECT_EQ(ShortenMiddle("abcdefgh", 5, "…"), "ab…gh");
  EXPECT_EQ(ShortenMiddle("abcdefgh", 4, "..."), "abcd");  // no room for both ends
  EXPECT_EQ(ShortenMiddle("abcdefgh", 0, "…"), "");
}

TEST(ShortenMiddleTest, NeverCutsACharacter) {
  const std::string_view text = "µa€b𝄞cµd€e𝄞";
  for (size_t width = 0; width <= 12; ++width) {
    for (const std::string_view ellipsis : {"…", "..."}) {
      const std::string shown = ShortenMiddle(text, width, ellipsis);
      EXPECT_EQ(ValidUtf8(shown), shown);
      EXPECT_EQ(DisplayWidth(shown), std::min(width, DisplayWidth(text)));
    }
  }
}

TEST(WrapTest, BreaksAtSpaces) {
  EXPECT_EQ(Wrap("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(Wrap("one", 8, 2), "one");
  EXPECT_EQ(Wrap("", 8, 2), "");
  EXPECT_EQ(Wrap("a averyveryverylongword b", 8, 2), "a av...d\n  b");
}

TEST(CsvCellTest, QuotesOnlyWhatNeedsIt) {
  const auto cell = [](std::string_view text) {
    std::string out;
    AppendCsvCell(text, &out);
    return out;
  };
  EXPECT_EQ(cell("plain name"), "plain name");
  EXPECT_EQ(cell("a,b"), "\"a,b\"");
  EXPECT_EQ(cell("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(cell("a\nb"), "\"a\nb\"");
  EXPECT_EQ(cell("=SUM(A1)"), "=SUM(A1)");  // a name stays as it is
  EXPECT_EQ(cell("-x"), "-x");
}

TEST(MarkdownTest, NothingInANameIsMarkup) {
  EXPECT_EQ(MarkdownCell("a|b <T> *c*"), "a\\|b &lt;T&gt; \\*c\\*");
  EXPECT_EQ(MarkdownCode("a|b <T> *c*"), "`a\\|b <T> *c*`");
  EXPECT_EQ(MarkdownCode("a`b"), "`` a`b ``");
  EXPECT_EQ(MarkdownCode(""), "");
}

}  // namespace
}  // namespace xplane_time::output
