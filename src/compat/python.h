// Numbers and texts as Python and numpy make them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace xplane_time::compat {

// repr(value): "0.1", "1e+22", "nan".
std::string PythonRepr(double value);
// repr(b"..."): "b'a\\xff'".
std::string PythonBytesRepr(std::string_view bytes);
// round(value, digits).
double PythonRound(double value, int digits);

// numpy's mean and std of float64: pairwise sums in blocks of eight.
struct MeanStd {
  double mean = 0, std = 0;
};
MeanStd NumpyMeanStd(std::span<const double> values);
// statistics.stdev, exact before it is rounded; 0 for fewer than two.
double PythonStdev(std::span<const double> values);

// str.strip() and str.split(":")[0] and str.split()[0], of ASCII space: the first word
// before a colon; empty where there is none.
std::string_view FirstWord(std::string_view text);

}  // namespace xplane_time::compat
