#include "compat/python.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace xplane_time::compat {
namespace {

// Expected values are what Python 3.11 and numpy print.
TEST(PythonTest, ReprOfFloats) {
  const std::vector<std::pair<double, std::string>> cases = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {0.1, "0.1"},
      {5.0, "5.0"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1e22, "1e+22"},
      {1.5e300, "1.5e+300"},
      {-2.5, "-2.5"},
      {1e100, "1e+100"},
      {123456789.123, "123456789.123"},
      {5e-324, "5e-324"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::nan(""), "nan"}};
  for (const auto& [value, repr] : cases) EXPECT_EQ(PythonRepr(value), repr);
}

TEST(PythonTest, ReprOfBytes) {
  EXPECT_EQ(PythonBytesRepr("abc"), "b'abc'");
  EXPECT_EQ(PythonBytesRepr("it's"), "b\"it's\"");
  EXPECT_EQ(PythonBytesRepr("'\""), "b'\\'\"'");
  EXPECT_EQ(PythonBytesRepr("\\\t\n\r\x01\x7f\xff"), "b'\\\\\\t\\n\\r\\x01\\x7f\\xff'");
}

TEST(PythonTest, RoundsTheExactBinaryValue) {
  EXPECT_EQ(PythonRound(2.675, 2), 2.67);  // below the half it is written as
  EXPECT_EQ(PythonRound(0.125, 2), 0.12);  // a true half goes to the even digit
  EXPECT_EQ(PythonRound(0.375, 2), 0.38);
  EXPECT_EQ(PythonRound(-1.00005, 4), -1.0001);
  EXPECT_EQ(PythonRound(1e300, 4), 1e300);
}

TEST(PythonTest, MeanAndStd) {
  const MeanStd one = NumpyMeanStd(std::vector<double>{3});
  EXPECT_EQ(one.mean, 3);
  EXPECT_EQ(one.std, 0);
  // Sums of eight and more are not those of a loop.
  std::vector<double> tenths(29, 0.1);
  tenths.push_back(0.7);
  EXPECT_EQ(NumpyMeanStd(tenths).std, 0.10770329614269007);
  EXPECT_EQ(NumpyMeanStd(std::vector<double>(30, 0.1)).mean, 0.10000000000000003);
  std::vector<double> many(1000);
  std::iota(many.begin(), many.end(), 1.0);
  EXPECT_EQ(NumpyMeanStd(many).mean, 500.5);
  EXPECT_EQ(NumpyMeanStd(many).std, 288.6749902572095);
}

TEST(PythonTest, Stdev) {
  EXPECT_EQ(PythonStdev({}), 0);
  EXPECT_EQ(PythonStdev(std::vector<double>{7}), 0);
  EXPECT_EQ(PythonStdev(std::vector<double>{1, 2, 3, 4}), 1.2909944487358056);
}

TEST(PythonTest, FirstWord) {
  EXPECT_EQ(FirstWord("fusion.668: f32[8]"), "fusion.668");
  EXPECT_EQ(FirstWord("  a b: c"), "a");
  EXPECT_EQ(FirstWord("%while (x)"), "%while");
  EXPECT_EQ(FirstWord(" \t"), "");
  EXPECT_EQ(FirstWord(": x"), "");
}

}  // namespace
}  // namespace xplane_time::compat
