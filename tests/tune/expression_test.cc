#include "tune/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>

#include "tests/read/says.h"

namespace xplane_time::tune {
namespace {

using ::xplane_time::testing::Says;

const std::string kText = "bf16";

// a = 6, b = 0, f = 2.5, s = "bf16", t = True, n = None, o: no plain value.
const std::vector<std::string> kNames = {"a", "b", "f", "s", "t", "n", "o"};
std::vector<Value> Values() {
  return {int64_t{6}, int64_t{0}, 2.5, &kText, true, Value(), NoPlainValue()};
}

// The value in Python's spelling, or "error: REASON".
std::string Computed(const std::string& text) {
  const auto parsed = Expression::Parse(text, kNames);
  if (!parsed.ok()) return "parse " + std::string(parsed.status().message());
  const std::vector<Value> values = Values();
  Evaluation run = {values};
  const auto value = parsed->Evaluate(run);
  if (!value.has_value()) return std::string("error: ") + run.reason;
  if (const auto* truth = std::get_if<bool>(&*value)) return *truth ? "True" : "False";
  if (const auto* whole = std::get_if<int64_t>(&*value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&*value)) return "float " + std::to_string(*real);
  if (const auto* of = std::get_if<const std::string*>(&*value)) return "'" + **of + "'";
  return std::holds_alternative<std::monostate>(*value) ? "None" : "other";
}

struct Case {
  std::string text, value;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.text; }

class ExpressionTable : public ::testing::TestWithParam<Case> {};

TEST_P(ExpressionTable, HasPythonsValue) { EXPECT_EQ(Computed(GetParam().text), GetParam().value); }

INSTANTIATE_TEST_SUITE_P(
    Values, ExpressionTable,
    ::testing::Values(
        Case{"1 + 2 * 3", "7"}, Case{"(1 + 2) * 3", "9"}, Case{"7 - 2 - 1", "4"},
        Case{"2 ** 3 ** 2", "512"}, Case{"-2 ** 2", "-4"}, Case{"2 ** -1", "float 0.500000"},
        Case{"7 // 2", "3"}, Case{"-7 // 2", "-4"}, Case{"7 // -2", "-4"}, Case{"-7 % 3", "2"},
        Case{"7 % -3", "-2"}, Case{"-7.5 % 2", "float 0.500000"},
        Case{"7.5 // -2", "float -4.000000"}, Case{"6 / 4", "float 1.500000"},
        Case{"6 / 3", "float 2.000000"}, Case{"1 < 2 < 3", "True"}, Case{"1 < 3 < 2", "False"},
        Case{"3 > 2 == 2", "True"}, Case{"1 == 1.0", "True"},
        Case{"9007199254740993 == 9007199254740992.0", "False"},
        Case{"9223372036854775807 < 9223372036854775808.0", "True"}, Case{"True + True", "2"},
        Case{"t + 1", "2"}, Case{"not 0", "True"}, Case{"not not 3", "True"},
        Case{"0 or 'x'", "'x'"}, Case{"a and f", "float 2.500000"}, Case{"'' and a", "''"},
        Case{"a in [1, 6]", "True"}, Case{"a not in (1, 6)", "False"}, Case{"a in []", "False"},
        Case{"a in (6,)", "True"}, Case{"s in ['f32', 1, None]", "False"},
        Case{"s == \"bf16\"", "True"}, Case{"s < 'f32'", "True"}, Case{"n == None", "True"},
        Case{"a != None", "True"}, Case{"None == None != 1", "True"},
        Case{"min(3, 1.0, 1)", "float 1.000000"}, Case{"max([a, 7])", "7"}, Case{"abs(-a)", "6"},
        Case{"+a", "6"}, Case{"-True", "-1"}, Case{"b != 0 and a % b == 0", "False"},
        Case{"b == 0 or a // b > 1", "True"},
        Case{"1_", "parse at 0: expected a value, found \"1_\""}, Case{"1e3", "float 1000.000000"},
        Case{".5", "float 0.500000"}, Case{"5.", "float 5.000000"}, Case{"'a\\'b'", "'a'b'"},
        Case{"(-9223372036854775807 - 1) // -1", "error: integer beyond 64 bits"},
        Case{"(-9223372036854775807 - 1) % -1", "0"},
        Case{"abs(-9223372036854775807 - 1)", "error: integer beyond 64 bits"}));

INSTANTIATE_TEST_SUITE_P(
    Refused, ExpressionTable,
    ::testing::Values(
        Case{"a / b", "error: division by zero"}, Case{"a // b", "error: division by zero"},
        Case{"a % 0.0", "error: division by zero"}, Case{"0 ** -1", "error: division by zero"},
        Case{"9223372036854775807 + 1", "error: integer beyond 64 bits"},
        Case{"2 ** 63", "error: integer beyond 64 bits"},
        Case{"9007199254740993 / 3",
             "error: \"/\" of integers beyond 2^53 would not be exact (\"//\" is)"},
        Case{"1e308 * 10", "error: not a finite number"},
        Case{"(-8.0) ** 0.5", "error: not a finite number"},
        Case{"s + s", "error: needs two numbers"}, Case{"-s", "error: needs a number"},
        Case{"n + 1", "error: needs two numbers"},
        Case{"o > 1", "error: compares values of different types"},
        Case{"s == 1", "error: compares values of different types"},
        Case{"n < 1", "error: compares values of different types"},
        Case{"o == None", "error: compares values of different types"},
        Case{"min(1, s)", "error: compares different types"},
        Case{"max([])", "error: minimum or maximum of an empty list"},
        Case{"", "parse at 0: expected a value, found the end"},
        Case{"a &", "parse at 2: expected an operator, found \"&\"; use \"and\", \"or\", \"not\""},
        Case{"a = 1", "parse at 2: expected an operator, found \"=\"; use \"==\""},
        Case{"a in 3", "parse at 5: expected a list such as [1, 2], found \"3\""},
        Case{"a in (3)", "parse at 5: write a list of one value as [x] or (x,)"},
        Case{"a in [1] in [2]",
             "parse at 9: no further comparison is allowed after \"in\"; use parentheses"},
        Case{"(a", "parse at 2: expected \")\", found the end"},
        Case{"007", "parse at 0: an integer must not start with 0"},
        Case{"9223372036854775808", "parse at 0: 9223372036854775808 does not fit 64 bits"},
        Case{"'open", "parse at 0: expected a value, found \"'\"; unterminated string"},
        Case{"abs(1, 2)", "parse at 0: abs requires one value"},
        Case{"min(1)", "parse at 0: min requires two or more values, or one list"},
        Case{"exec('x')", "parse at 0: \"exec\" is not a function; functions: abs, min, max"},
        Case{"q > 1", "parse at 0: \"q\" is not a parameter; parameters: a, b, f, s, t, n, o"},
        Case{"a if t else b",
             "parse at 2: expected an operator, found \"if\"; not part of this grammar"}));

TEST(Expression, NamesThatOccur) {
  const auto parsed = Expression::Parse("t and f > 1 or t", kNames);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->names_used, (std::vector<uint32_t>{2, 4}));
}

TEST(Expression, SizeAndDepthAreBounded) {
  const std::string deep = std::string(5000, '(') + "1" + std::string(4999, ')');
  EXPECT_TRUE(Says(Expression::Parse(deep, kNames).status(), "nested too deeply"));
  EXPECT_TRUE(Says(Expression::Parse(std::string(9000, '-') + "1", kNames).status(), "too deeply"));
  std::string powers = "2", sum = "1", nots;
  for (int i = 0; i < 2000; ++i) powers += "**1", sum += "+1", nots += "not ";
  EXPECT_TRUE(Says(Expression::Parse(powers, kNames).status(), "nested too deeply"));
  EXPECT_TRUE(Says(Expression::Parse(sum, kNames).status(), "more than 1000 operators"));
  EXPECT_FALSE(Expression::Parse(nots + "1", kNames).ok());
  EXPECT_TRUE(Says(Expression::Parse(std::string(20'000, ' '), kNames).status(), "10000"));
  const std::string allowed = std::string(40, '(') + "1" + std::string(40, ')');
  EXPECT_TRUE(Expression::Parse(allowed, kNames).ok());
}

TEST(Expression, CopiesAreIndependent) {
  std::vector<Expression> copies;
  {
    const auto parsed = Expression::Parse("s == 'bf16'", kNames);
    ASSERT_TRUE(parsed.ok());
    copies.assign(3, *parsed);
  }
  const std::vector<Value> values = Values();
  Evaluation run = {values};
  const auto value = copies[2].Evaluate(run);
  ASSERT_TRUE(value.has_value());
  EXPECT_TRUE(std::get<bool>(*value));
}

}  // namespace
}  // namespace xplane_time::tune
