// Decimal microseconds against a slow and obvious way: the point is moved in the text.
#include "kineto/microseconds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random.h"

namespace xplane_time::kineto {
namespace {

std::optional<absl::int128> SlowPs(const std::string& text) {
  static const std::regex form(R"((-?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?)");
  std::smatch parts;
  if (!std::regex_match(text, parts, form)) return std::nullopt;
  const std::string whole = parts[2], decimals = parts[3];
  if (whole.empty() && decimals.empty()) return std::nullopt;
  const int64_t exponent = parts[4].matched ? std::stoll(parts[4]) : 0;
  std::string digits = whole + decimals;
  int64_t point = static_cast<int64_t>(whole.size()) + exponent + 6;  // picoseconds
  while (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1), --point;
  if (digits == "0" || point < 0) return 0;
  if (point > 32) return parts[1].length() > 0 ? -kFarPs : kFarPs;
  digits.append(static_cast<size_t>(std::max<int64_t>(0, point + 1) + 1), '0');
  absl::int128 ps = 0;
  for (int64_t i = 0; i < point; ++i) ps = ps * 10 + (digits[static_cast<size_t>(i)] - '0');
  if (digits[static_cast<size_t>(point)] >= '5') ps += 1;
  ps = std::min(ps, kFarPs);
  return parts[1].length() > 0 ? -ps : ps;
}

void ExpectSame(const std::string& text) {
  EXPECT_EQ(MicrosecondsToPs(text), SlowPs(text)) << '"' << text << '"';
}

TEST(Microseconds, AllShortTexts) {
  constexpr std::string_view kAlphabet = "0159.-e+";
  std::vector<std::string> texts = {""};
  for (size_t begin = 0, length = 0; length <= 5; ++length) {
    const size_t end = texts.size();
    for (; begin < end; ++begin) {
      ExpectSame(texts[begin]);
      for (const char c : kAlphabet) {
        if (length < 5) texts.push_back(texts[begin] + c);
      }
    }
  }
  EXPECT_GT(texts.size(), 30'000U);
}

TEST(Microseconds, TimesAsTheyAreWritten) {
  EXPECT_EQ(MicrosecondsToPs("1712195495519689.012"),
            absl::int128(1712195495519689) * 1'000'000 + 12'000);
  EXPECT_EQ(MicrosecondsToPs("3.743896484375"), 3'743'896);
  EXPECT_EQ(MicrosecondsToPs("1.0020e3"), 1'002'000'000);
  EXPECT_EQ(MicrosecondsToPs("0.0000005"), 1);
  EXPECT_EQ(MicrosecondsToPs("0.00000049999"), 0);
  EXPECT_EQ(MicrosecondsToPs("-0.0000005"), -1);
  EXPECT_EQ(MicrosecondsToPs("1e99999999999999999999"), kFarPs);
  EXPECT_EQ(MicrosecondsToPs("-1e400"), -kFarPs);
  EXPECT_EQ(MicrosecondsToPs("1e-99999999999999999999"), 0);
  for (const char* text : {"", "soon", "NaN", "1 ", " 1", "1e", "1e+", "--1", "0x1", "1,5", "."}) {
    EXPECT_FALSE(MicrosecondsToPs(text).has_value()) << text;
  }
}

TEST(Microseconds, RandomTexts) {
  testing::Random random(1);
  const auto digits = [&](int64_t most) {
    std::string text;
    for (int64_t i = random.Below(most + 1); i > 0; --i) {
      text.push_back(static_cast<char>('0' + random.Below(10)));
    }
    return text;
  };
  for (int i = 0; i < 200'000; ++i) {
    std::string text = random.OneIn(4) ? "-" : "";
    text += random.OneIn(8) ? digits(36) : digits(18);
    if (!random.OneIn(4)) text += "." + (random.OneIn(8) ? digits(36) : digits(9));
    if (random.OneIn(4)) text += "e" + std::to_string(random.Below(60) - 30);
    ExpectSame(text);
  }
}

}  // namespace
}  // namespace xplane_time::kineto
