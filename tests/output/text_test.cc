#include "output/text.h"

#include <gtest/gtest.h>

#include "absl/strings/str_format.h"

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

TEST(JsonUtf8Test, KeepsWhatJsonCanSay) {
  EXPECT_EQ(JsonUtf8("a\n\t\r\x1b\x01 µ"), "a\n\t\r\x1b\x01 µ");
  EXPECT_EQ(JsonUtf8("\xed\xa0\x80\x01\xff"), "\\xed\\xa0\\x80\x01\\xff");
  EXPECT_EQ(JsonUtf8("\x7f\u202e"), "\\x7f\\xe2\\x80\\xae");
}

TEST(PrintableTest, LeavesNoControlCharacter) {
  EXPECT_EQ(Printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(Printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(Printable("\x7f"), "\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");  // the C1 form of ESC [
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("µ\xff"), "µ\\xff");
}

TEST(ProgramsWordsTest, LinesAndTheOneThatSaysMost) {
  const std::string_view traceback =
      "Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: \x1b[2Jno tile\n";
  EXPECT_EQ(PrintableLines(traceback, 2),
            "Traceback (most recent call last):\n    File \"x.py\", line 1\n"
            "  ValueError: \\x1b[2Jno tile");
  EXPECT_EQ(BriefLine(traceback), "ValueError: \\x1b[2Jno tile");
  EXPECT_EQ(BriefLine("no memory\n12 of 16 GB"), "no memory");
  EXPECT_EQ(BriefLine("Traceback "), "Traceback ");
  EXPECT_EQ(BriefLine(""), "");
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

TEST(PrintableTest, LeavesNothingThatTurnsOrHidesText) {
  for (const std::string_view text : {"\u202e", "\u202a", "\u2066", "\u2069", "\u200e", "\u200f",
                                      "\u061c", "\u200b", "\ufeff", "\u2028", "\u2029", "\u2060"}) {
    std::string escaped;
    for (const char byte : text) {
      escaped += absl::StrFormat("\\x%02x", static_cast<uint8_t>(byte));
    }
    EXPECT_EQ(Printable(text), escaped);
    EXPECT_EQ(ValidUtf8(text), escaped);
  }
  EXPECT_EQ(Printable("\u2030\u2010\u2070"), "\u2030\u2010\u2070");  // beside them
}

TEST(PrintableTest, ShowsWhatReadersCannotSee) {
  for (const std::string_view text :
       {"\u00a0",     "\u00ad",     "\u034f",     "\u115f",    "\u1160", "\u1680", "\u17b4",
        "\u180b",     "\u180e",     "\u2000",     "\u200a",    "\u200c", "\u200d", "\u202f",
        "\u205f",     "\u2065",     "\u2800",     "\u3000",    "\u3164", "\ufe00", "\ufe0f",
        "\uffa0",     "\ufff9",     "\ufffe",     "\uffff",    "\ufdd0", "\ue000", "\U0001d173",
        "\U0001fffe", "\U000e0041", "\U000e0100", "\U0010ffff"}) {
    std::string escaped;
    for (const char byte : text) {
      escaped += absl::StrFormat("\\x%02x", static_cast<uint8_t>(byte));
    }
    EXPECT_EQ(Printable(text), escaped);
    EXPECT_EQ(XmlText(text), escaped);
    EXPECT_EQ(Printable(Printable(text)), Printable(text));
  }
  for (const std::string_view text : {" ", "\u00a1", "\u0301", "\u1161", "\u3001", "\uac00",
                                      "\ufffd", "\U0001f600", "\U0002fa1d"}) {
    EXPECT_EQ(Printable(text), text);
  }
  for (const std::string_view text :
       {"\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "\xe0\x80\xaf"}) {
    EXPECT_EQ(Printable(text).substr(0, 2), "\\x");
    EXPECT_EQ(Printable(text).size(), 4 * text.size());
  }
}

TEST(BareFunctionTest, IsTheNameAndItsTemplateArguments) {
  const std::pair<const char*, const char*> kBare[] = {
      {"void at::copy<float, 4>(float*, int)", "copy<float, 4>"},
      {"ncclKernel_SendRecv(ncclDevComm*, unsigned long)", "ncclKernel_SendRecv"},
      {"void at::native::(anonymous namespace)::cat<a::B, (C)1>(int (*)(a::B), (anonymous "
       "namespace)::D<1>)",
       "cat<a::B, (C)1>"},
      {"k<int>()", "k<int>"}};
  for (const auto& [text, bare] : kBare) EXPECT_EQ(BareFunction(text), bare);
  for (const char* other :
       {"", ")", "()", "a)b(", "Memset (Device)", "a::(b)", "f(x) const", "f<(x)", "fusion.1",
        "Memcpy HtoD (Pinned -> Device)", "operator<(int)"}) {
    EXPECT_EQ(BareFunction(other), other);
  }
}

TEST(ShortenAroundTest, KeepsThreeParts) {
  EXPECT_EQ(ShortenAround("0123456789abcdefghij", 20, "…", 9), "0123456789abcdefghij");
  EXPECT_EQ(ShortenAround("0123456789abcdefghij", 10, "…", 9), "01…789a…ij");
  EXPECT_EQ(ShortenAround("0123456789abcdefghij", 10, "…", 3), "0123456…ij");   // by the head
  EXPECT_EQ(ShortenAround("0123456789abcdefghij", 10, "…", 17), "01…defghij");  // by the tail
  EXPECT_EQ(ShortenAround("0123456789abcdefghij", 5, "…", 9), "01…ij");         // no room
  for (size_t width = 0; width <= 20; ++width) {
    for (size_t at = 0; at <= 21; ++at) {
      EXPECT_EQ(DisplayWidth(ShortenAround("0123µ56789abcd€fghij", width, "…", at)), width);
    }
  }
}

TEST(ShortenWordsTest, CutsBetweenWords) {
  EXPECT_EQ(ShortenWords("m=64 n=128 k=32", 15, "…"), "m=64 n=128 k=32");
  EXPECT_EQ(ShortenWords("m=64 n=128 k=32", 12, "…"), "m=64 … k=32");
  EXPECT_EQ(ShortenWords("m=64 n=128 k=32", 8, "…"), "m=64 …");
  EXPECT_EQ(ShortenWords("m=64_and_more n=128", 8, "…"), "m=64…128");  // not even one word fits
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

TEST(TextTest, WideCharactersHaveTwoColumns) {
  EXPECT_EQ(DisplayWidth("a行列積b"), 8);
  EXPECT_EQ(Padded("행렬", 6, /*right=*/false), "행렬  ");
  for (size_t width = 3; width < 12; ++width) {
    EXPECT_LE(DisplayWidth(ShortenMiddle("行列積_行列積", width, "…")), width) << width;
  }
}

}  // namespace
}  // namespace xplane_time::output
