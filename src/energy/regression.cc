// The regression of regression.h, step by step:
//
// 1. Search. For each grid of publications and each window that sensors are known for, all lags of
//    a range are tried, `period / 20` apart. A try is a least-squares fit of eight columns (the
//    seven kernels that ran longest, and the sum of the others). Busy times come from a table, so
//    a try costs O(windows x columns^2), whatever the number of executions. If many grids satisfy
//    the brackets, the first six are searched over all lags. The lag of the others is about the
//    same, so they are tried near it.
// 2. Refinement. The best candidates are refined by Gauss-Newton: the derivatives of each window's
//    energy by lag, window and period are columns of the regression beside the kernels. The step
//    moves the timing. At the end the columns stay, so that the uncertainty of the timing is in the
//    covariance of the powers. If the sensor dates its values, the period moves nothing. If a power
//    sensor without dates is polled about as often as it publishes, the refined fit predicts the
//    power, and the grids that explain the readings best are tried too (GridsOfLoad).
// 3. Noise. Weights follow the variance a + b y^2 of the expected energy y. Windows that overlap
//    share noise: their correlation is `shared` x overlap, chosen by likelihood, and the rows are
//    whitened by its banded Cholesky factor (generalized least squares).
// 4. Idle power gets cosines as long as the BIC improves.
// 5. Rivals. Other lags, windows and grids that explain the readings nearly as well are refined
//    too. The spread of their powers is added to the covariance (LikelyRivals, SpreadOf).
#include "energy/regression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include <Eigen/Cholesky>

#include "energy/polled_phase.h"
#include "parallel.h"

namespace xplane_time::energy {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr size_t kMostSearched = 1'500;  // windows that the search for lag and window uses
constexpr size_t kFewKernels = 8, kSomeKernels = 32, kManyKernels = 200;
constexpr size_t kMostIdleTerms = 9;
constexpr size_t kMinFittedWindows = 12;
constexpr size_t kMostSearchedGrids = 6;     // searched over all lags
constexpr size_t kTried = 4;                 // combinations of grid and window that are refined
constexpr double kFineS = 5e-4;              // distance of lags near those that fit
constexpr size_t kMostPoints = 64;           // of a table, for each update
constexpr size_t kMostFinePoints = 400'000;  // of the table for the search

std::span<const double> AsSpan(const VectorXd& values) {
  return {values.data(), static_cast<size_t>(values.size())};
}

Eigen::Map<const VectorXd> AsVector(const std::vector<double>& values) {
  return {values.data(), static_cast<Index>(values.size())};
}

// --- The running time of each kernel up to an instant: exact, or interpolated in a table.

// A table covers the time in which kernels ran and windows may lie, in points `step_s` apart. It
// does not depend on the stated length of the capture: a damaged trace may claim centuries.
struct TableSpan {
  double from_s = 0, step_s = 1;
  size_t steps = 0;  // 0 if no kernel ran near any window
};

class Columns {
 public:
  Columns(std::span<const BusyCurve> kernels, int threads) : threads_(threads) {
    for (const BusyCurve& kernel : kernels) exact_.push_back(&kernel);
  }
  // At most `most` columns: the kernels that ran longest, and the interpolated sum of all others.
  Columns(std::span<const BusyCurve> kernels, size_t most, const TableSpan& span)
      : Columns(kernels, 1) {
    if (exact_.size() <= most) return;
    std::ranges::stable_sort(exact_, std::greater(), &BusyCurve::total_s);
    std::vector<double> between_s(span.steps, 0.0);
    for (size_t k = most - 1; k < exact_.size(); ++k) {
      exact_[k]->AddTo(span.from_s, span.step_s, between_s);
    }
    exact_.resize(most - 1);
    SetTable(span, {std::move(between_s)});
  }

  // All columns interpolated. O(1) for each instant, whatever the number of executions.
  Columns Tabulated(const TableSpan& span) const {
    std::vector<std::vector<double>> between_s;
    for (const BusyCurve* const each : exact_) {
      each->AddTo(span.from_s, span.step_s, between_s.emplace_back(span.steps, 0.0));
    }
    Columns columns({}, 1);
    if (table_.cols() > 0) {
      VectorXd points_s(static_cast<Index>(span.steps) + 1);
      for (Index i = 0; i < points_s.size(); ++i) {
        points_s[i] = span.from_s + static_cast<double>(i) * span.step_s;
      }
      const VectorXd rest_s = InTable(points_s).col(0);
      const VectorXd more_s = rest_s.tail(rest_s.size() - 1) - rest_s.head(rest_s.size() - 1);
      between_s.emplace_back(more_s.begin(), more_s.end());
    }
    columns.SetTable(span, between_s);
    return columns;
  }

  Index count() const { return static_cast<Index>(exact_.size()) + table_.cols(); }

  // Instants must ascend.
  MatrixXd At(const VectorXd& instants_s) const {
    MatrixXd busy_s(instants_s.size(), count());
    ParallelFor(exact_.size(), threads_, [&](size_t k) {
      busy_s.col(static_cast<Index>(k)) = AsVector(exact_[k]->At(AsSpan(instants_s)));
    });
    if (table_.cols() > 0) busy_s.rightCols(table_.cols()) = InTable(instants_s);
    return busy_s;
  }

  // The power of all columns together at each instant, as the mean over `around_s` before and after
  // it. Instants must ascend.
  VectorXd PowerAt(const VectorXd& instants_s, double around_s, const VectorXd& drawn_w) const {
    const VectorXd before_s = instants_s.array() - around_s,
                   after_s = instants_s.array() + around_s;
    const size_t parts = (exact_.size() + kPart - 1) / kPart;
    std::vector<VectorXd> energy_j(parts + 1, VectorXd::Zero(instants_s.size()));
    ParallelFor(parts, threads_, [&](size_t part) {
      for (size_t k = part * kPart; k < std::min(exact_.size(), (part + 1) * kPart); ++k) {
        energy_j[part] +=
            drawn_w[static_cast<Index>(k)] *
            (AsVector(exact_[k]->At(AsSpan(after_s))) - AsVector(exact_[k]->At(AsSpan(before_s))));
      }
    });
    if (table_.cols() > 0) {
      energy_j[parts] = (InTable(after_s) - InTable(before_s)) * drawn_w.tail(table_.cols());
    }
    for (size_t part = 1; part <= parts; ++part) energy_j[0] += energy_j[part];
    return energy_j[0] / (2 * around_s);
  }

 private:
  using Table = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static constexpr size_t kPart = 64;  // columns for one task

  void SetTable(const TableSpan& span, const std::vector<std::vector<double>>& between_s) {
    from_s_ = span.from_s, step_s_ = span.step_s;
    table_ = Table::Zero(static_cast<Index>(span.steps) + 1, static_cast<Index>(between_s.size()));
    for (size_t k = 0; k < between_s.size(); ++k) {
      double sum_s = 0;
      for (size_t i = 0; i < between_s[k].size(); ++i) {
        sum_s += between_s[k][i];
        table_(static_cast<Index>(i) + 1, static_cast<Index>(k)) = sum_s;
      }
    }
  }

  Table InTable(const VectorXd& instants_s) const {
    Table busy_s(instants_s.size(), table_.cols());
    const auto last = static_cast<double>(table_.rows() - 1);
    for (Index i = 0; i < instants_s.size(); ++i) {
      const double place = std::clamp((instants_s[i] - from_s_) / step_s_, 0.0, last);
      const auto at = std::min(static_cast<Index>(place), std::max<Index>(0, table_.rows() - 2));
      const double part = place - static_cast<double>(at);
      busy_s.row(i) = table_.row(at);
      if (part > 0) busy_s.row(i) += part * (table_.row(at + 1) - table_.row(at));
    }
    return busy_s;
  }

  int threads_;
  std::vector<const BusyCurve*> exact_;
  double from_s_ = 0, step_s_ = 0;
  Table table_;  // point x column
};

// --- The windows, and the running times in them.

struct Timing {
  double lag_s = 0, window_s = 0, period_shift_s = 0;
};

struct Windows {
  MatrixXd busy_s;
  VectorXd from_s, to_s, energy_j;
  VectorXd from_steps, to_steps;  // movement of each end per second of change of the period

  ArrayXd length_s() const { return (to_s - from_s).array(); }
};

class Observations {
 public:
  Observations(const Sensor& sensor, const Grid& grid, double capture_s)
      : is_counter_(sensor.kind == ReadingKind::kCumulative), capture_s_(capture_s) {
    const std::vector<Update>& updates = sensor.publications.updates;
    const auto count = static_cast<Index>(updates.size());
    published_s_.resize(count);
    steps_.resize(count);
    value_.resize(count);
    for (size_t i = 0; i < updates.size(); ++i) {
      const auto at = static_cast<Index>(i);
      published_s_[at] = grid.InstantS(i);
      steps_[at] = static_cast<double>(grid.number[i]);
      const bool is_next = i > 0 && grid.number[i - 1] < grid.number[i];
      before_.push_back(is_next || i == 0 ? at - 1 : before_.back());
      part_.push_back(updates[i].part);
      // Relative to the first value: the joules of a counter that runs for years would lose digits.
      value_[at] = is_counter_ ? static_cast<double>(updates[i].value - updates[0].value) / 1e6
                               : static_cast<double>(updates[i].value) / 1e3;
    }
    steps_.array() -= steps_.mean();
    if (!grid.dated_s.empty()) steps_.setZero();  // the period moves none of them
  }

  bool is_counter() const { return is_counter_; }
  double capture_s() const { return capture_s_; }
  const VectorXd& steps() const { return steps_; }
  double most_w() const {
    if (!is_counter_) return value_.cwiseAbs().maxCoeff();
    double most_w = 0;
    for (Index i = 1; i < value_.size(); ++i) {
      if (!IsOfOnePart(i, i - 1)) continue;
      most_w = std::max(most_w, std::abs(value_[i] - value_[i - 1]) /
                                    std::max(1e-9, published_s_[i] - published_s_[i - 1]));
    }
    return most_w;
  }

  // The end of an update's window.
  double EndS(const Timing& timing, size_t update) const {
    const auto i = static_cast<Index>(update);
    return published_s_[i] + steps_[i] * timing.period_shift_s - timing.lag_s;
  }

  // The windows that lie in the capture.
  std::vector<Index> Inside(const Timing& timing) const {
    const VectorXd to_s = EndsS(timing);
    std::vector<Index> inside;
    for (Index i = 0; i < to_s.size(); ++i) {
      if (is_counter_ && (Before(i) < 0 || (i + 1 < to_s.size() && Before(i + 1) == Before(i)))) {
        continue;  // The first update has no window. If two updates count as one publication, the
                   // window of the later one contains the joules.
      }
      if (is_counter_ && !IsOfOnePart(i, Before(i))) continue;  // a reset between them
      const double from_s = is_counter_ ? to_s[Before(i)] : to_s[i] - timing.window_s;
      if (from_s >= 0 && to_s[i] <= capture_s_ && to_s[i] > from_s) inside.push_back(i);
    }
    return inside;
  }

  Windows Make(const Columns& columns, const Timing& timing, std::span<const Index> which) const {
    const VectorXd ends_s = EndsS(timing);
    const auto count = static_cast<Index>(which.size());
    const VectorXd none(count);
    Windows windows = {{}, none, none, none, none, none};
    for (Index n = 0; n < count; ++n) {
      const Index i = which[static_cast<size_t>(n)], before = is_counter_ ? Before(i) : i;
      windows.from_steps[n] = steps_[before];
      windows.to_steps[n] = steps_[i];
      windows.from_s[n] = is_counter_ ? ends_s[before] : ends_s[i] - timing.window_s;
      windows.to_s[n] = ends_s[i];
      windows.energy_j[n] = is_counter_ ? value_[i] - value_[before] : value_[i] * timing.window_s;
    }
    windows.busy_s = columns.At(windows.to_s);
    if (is_counter_) {
      SubtractBusyBefore(columns, ends_s, which, &windows.busy_s);
    } else {
      windows.busy_s -= columns.At(windows.from_s);
    }
    return windows;
  }

 private:
  // Subtracts the running time before each window. A window of a counter begins at the end of the
  // one before it, so only the first window of a series needs a look-up.
  void SubtractBusyBefore(const Columns& columns, const VectorXd& ends_s,
                          std::span<const Index> which, MatrixXd* busy_s) const {
    std::vector<Index> firsts;
    for (size_t n = 0; n < which.size(); ++n) {
      if (n == 0 || which[n - 1] != Before(which[n])) firsts.push_back(static_cast<Index>(n));
    }
    VectorXd before_s(static_cast<Index>(firsts.size()));
    for (Index i = 0; i < before_s.size(); ++i) {
      const auto first = static_cast<size_t>(firsts[static_cast<size_t>(i)]);
      before_s[i] = ends_s[Before(which[first])];
    }
    const MatrixXd before = columns.At(before_s);
    Index end = busy_s->rows();
    for (size_t i = firsts.size(); i-- > 0;) {
      const Index first = firsts[i];
      for (Index n = end - 1; n > first; --n) busy_s->row(n) -= busy_s->row(n - 1);
      busy_s->row(first) -= before.row(static_cast<Index>(i));
      end = first;
    }
  }

  // The last update with a smaller publication number, or -1. If polls jitter, two updates may seem
  // to belong to one publication.
  Index Before(Index i) const { return before_[static_cast<size_t>(i)]; }

  bool IsOfOnePart(Index a, Index b) const {
    return part_[static_cast<size_t>(a)] == part_[static_cast<size_t>(b)];
  }

  VectorXd EndsS(const Timing& timing) const {
    return published_s_.array() + steps_.array() * timing.period_shift_s - timing.lag_s;
  }

  const bool is_counter_;
  const double capture_s_;
  VectorXd published_s_, steps_, value_;
  std::vector<Index> before_;
  std::vector<uint32_t> part_;
};

MatrixXd IdleColumns(const Windows& windows, double capture_s, size_t terms) {
  const ArrayXd length_s = windows.length_s();
  const ArrayXd middle = (windows.from_s + windows.to_s).array() / (2 * capture_s);
  MatrixXd idle(length_s.size(), static_cast<Index>(terms));
  for (Index j = 0; j < idle.cols(); ++j) {
    idle.col(j) = length_s * (std::numbers::pi * static_cast<double>(j) * middle).cos();
  }
  return idle;
}

// --- Least squares with weak priors: a value that no window determines stays finite and very
// uncertain.

struct Solution {
  VectorXd values, residuals;
  MatrixXd normal = {};  // scaled on both sides; its lower triangle
  VectorXd scale = {};

  MatrixXd Inverse() const {
    const MatrixXd inverse =
        Eigen::LLT<MatrixXd>(normal).solve(MatrixXd::Identity(scale.size(), scale.size()));
    return scale.asDiagonal() * inverse * scale.asDiagonal();
  }
};

// The lower triangle of rows' x rows.
MatrixXd GramOf(const MatrixXd& rows, int threads) {
  constexpr Index kPart = 64;
  const Index count = rows.cols();
  MatrixXd gram = MatrixXd::Zero(count, count);
  if (count <= kPart) {
    gram.selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
    return gram;
  }
  ParallelFor(static_cast<size_t>((count + kPart - 1) / kPart), threads, [&](size_t part) {
    const Index first = static_cast<Index>(part) * kPart, width = std::min(kPart, count - first);
    gram.block(first, first, count - first, width).noalias() =
        rows.rightCols(count - first).transpose() * rows.middleCols(first, width);
  });
  return gram;
}

class LeastSquares {
 public:
  LeastSquares(MatrixXd rows, VectorXd observed, VectorXd prior_sd, int threads)
      : rows_(std::move(rows)),
        observed_(std::move(observed)),
        prior_sd_(std::move(prior_sd)),
        gram_(GramOf(rows_, threads)) {}

  // Fills the last columns, which are zero at first, because they depend on the solution for the
  // others.
  void SetLast(const MatrixXd& columns) {
    rows_.rightCols(columns.cols()) = columns;
    gram_.bottomRows(columns.cols()).noalias() = columns.transpose() * rows_;
  }

  Solution Solve() const {
    Solution solution;
    const ArrayXd priors = prior_sd_.array().square().inverse();
    solution.scale = (gram_.diagonal().array() + priors).sqrt().inverse();
    solution.normal = gram_;
    solution.normal.diagonal().array() += priors;
    solution.normal = solution.scale.asDiagonal() * solution.normal * solution.scale.asDiagonal();
    const VectorXd projected = solution.scale.asDiagonal() * (rows_.transpose() * observed_);
    solution.values =
        solution.scale.asDiagonal() * Eigen::LLT<MatrixXd>(solution.normal).solve(projected);
    solution.residuals = observed_ - rows_ * solution.values;
    return solution;
  }

 private:
  MatrixXd rows_;
  VectorXd observed_, prior_sd_;
  MatrixXd gram_;
};

// The variance of a window is white + relative x energy^2, estimated from the residuals.
struct Noise {
  double white = 0, relative = 1;

  ArrayXd Weights(const VectorXd& energy_j) const {
    const ArrayXd variance = white + relative * energy_j.array().square();
    return variance.max(1e-12 * variance.maxCoeff() + 1e-300).inverse();
  }
};

Noise EstimateNoise(const VectorXd& energy_j, const VectorXd& residuals) {
  // Least squares of r^2 / y^2 on 1 / y^2 and 1.
  const double least = 1e-6 * energy_j.array().square().mean();
  const ArrayXd square = energy_j.array().square().max(least);
  const ArrayXd target = residuals.array().square() / square, inverse = square.inverse();
  const double n = static_cast<double>(square.size());
  const double a11 = inverse.square().sum(), a12 = inverse.sum(), b1 = (target * inverse).sum(),
               b2 = target.sum();
  const double determinant = a11 * n - a12 * a12;
  double white = determinant > 0 ? (b1 * n - b2 * a12) / determinant : 0;
  double relative = determinant > 0 ? (a11 * b2 - a12 * b1) / determinant : b2 / n;
  if (white < 0) white = 0, relative = b2 / n;
  if (relative < 0) relative = 0, white = b1 / a11;
  return {white, relative};
}

// --- Overlapping windows share noise: their correlation is `shared` x their overlap.

class Whitening {
 public:
  Whitening(const VectorXd& to_s, double window_s, double shared) {
    const Index n = to_s.size();
    Index band = 0;
    for (Index i = 0, first = 0; i < n; ++i) {
      while (to_s[i] - to_s[first] >= window_s) ++first;
      band = std::max(band, i - first);
    }
    lower_ = MatrixXd::Zero(n, band + 1);  // lower_(i, d) is element (i, i - d) of the factor
    for (Index i = 0; i < n; ++i) {
      for (Index j = std::max<Index>(0, i - band); j <= i; ++j) {
        double sum = i == j ? 1 : shared * std::max(0.0, 1 - (to_s[i] - to_s[j]) / window_s);
        for (Index k = std::max<Index>(0, i - band); k < j; ++k) {
          sum -= lower_(i, i - k) * (j - k <= band ? lower_(j, j - k) : 0);
        }
        lower_(i, i - j) = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / lower_(j, 0);
      }
    }
  }

  double LogDeterminant() const { return 2 * lower_.col(0).array().log().sum(); }

  template <typename Matrix>
  Matrix operator()(Matrix rows) const {
    for (Index i = 0; i < rows.rows(); ++i) {
      for (Index d = 1; d < lower_.cols() && d <= i; ++d) {
        rows.row(i) -= lower_(i, d) * rows.row(i - d);
      }
      rows.row(i) /= lower_(i, 0);
    }
    return rows;
  }

 private:
  MatrixXd lower_;
};

// --- The fit.

// A fit with a given number of idle terms.
struct Attempt {
  Timing timing = {};
  Noise noise = {};
  double shared = 0;  // noise that overlapping windows share
  Solution solution = {};
  Windows windows = {};
  std::vector<Index> which = {};  // by window: its update
  // Expected energy of each update's window, from the previous step; weights are based on it.
  // Weights from the readings themselves would favour readings that are low by chance. Not finite
  // if unknown.
  VectorXd expected_j = {};
  double log_likelihood = -std::numeric_limits<double>::infinity();
  double log_determinant = 0;  // of the whitening
  Index parameters = 0;
  size_t idle_terms = 1;
  // If set, the lag is held within this distance, and the noise is fixed.
  std::optional<double> held_s = {};

  // The variance of a weighted window, by residuals that may be correlated. Weights and lag are
  // estimated from the same windows. If there are few windows, their residuals are therefore
  // smaller than the errors by another factor, windows / degrees (as in HC3).
  double Variance() const {
    const VectorXd& r = solution.residuals;
    const Index n = r.size();
    const double squares = r.squaredNorm();
    const double correlated = std::max(0.0, r.head(n - 1).dot(r.tail(n - 1)) / squares);
    const double degrees = std::max(1.0, static_cast<double>(n - parameters));
    return squares / degrees * static_cast<double>(n) / degrees * (1 + correlated) /
           std::max(1e-3, 1 - correlated);
  }

  // For each window, because fewer long windows lie in the capture.
  double Likeliness() const {
    return log_likelihood / static_cast<double>(windows.energy_j.size());
  }
  double Bic() const {
    return -2 * log_likelihood +
           std::log(static_cast<double>(windows.energy_j.size())) * static_cast<double>(parameters);
  }
};

class Fitter {
 public:
  Fitter(const Sensor& sensor, const Grid& grid, double capture_s, int threads)
      : observations_(sensor, grid, capture_s),
        grid_(grid),
        most_w_(observations_.most_w()),
        threads_(threads) {}

  const Observations& observations() const { return observations_; }

  // A quick score: the powers alone, with equal weights. The mean square of the residuals over the
  // square of the mean window.
  double Roughly(const Columns& columns, const Timing& timing) const {
    std::vector<Index> inside = observations_.Inside(timing);
    if (inside.size() < kMinFittedWindows) return std::numeric_limits<double>::infinity();
    if (const size_t stride = inside.size() / kMostSearched + 1; stride > 1) {
      size_t kept = 0;
      for (size_t i = 0; i < inside.size(); i += stride) inside[kept++] = inside[i];
      inside.resize(kept);
    }
    const Windows windows = observations_.Make(columns, timing, inside);
    MatrixXd rows(windows.busy_s.rows(), windows.busy_s.cols() + 1);
    rows << windows.busy_s, IdleColumns(windows, capture_s(), 1);
    const VectorXd prior_sd = VectorXd::Constant(rows.cols(), 10 * most_w_);
    const Solution solution = LeastSquares(rows, windows.energy_j, prior_sd, 1).Solve();
    return solution.residuals.squaredNorm() / static_cast<double>(rows.rows()) /
           std::pow(windows.energy_j.mean(), 2);
  }

  // Period shifts, other than 0, that the brackets allow and that move the first or last window by
  // at least `step_s`.
  std::vector<double> PeriodShiftsS(double step_s) const {
    constexpr double kMost = 8;  // to each side
    const double most_s = grid_.period_slack_s / 2;
    const double moved_s = observations_.steps().cwiseAbs().maxCoeff() * most_s;
    const auto count = static_cast<int>(std::min(kMost, std::floor(moved_s / step_s)));
    std::vector<double> shifts_s;
    for (int i = 1; i <= count; ++i) {
      shifts_s.push_back(most_s * i / count);
      shifts_s.push_back(-most_s * i / count);
    }
    return shifts_s;
  }

  // Gauss-Newton with weights on lag, window and period, starting at `attempt`'s timing and noise.
  void Refine(const Columns& columns, int rounds, Attempt* attempt) const {
    for (int round = 0; round < rounds; ++round) {
      const double moved_s = Step(columns, /*looks_for_shared=*/round % 3 == 2, attempt);
      if (round > 3 && moved_s < 1e-6) break;
    }
  }

  // One step. Returns how far the lag moved.
  double Step(const Columns& columns, bool looks_for_shared, Attempt* attempt) const {
    const std::vector<Index> inside = observations_.Inside(attempt->timing);
    attempt->windows = observations_.Make(columns, attempt->timing, inside);
    attempt->which = inside;
    const Windows& windows = attempt->windows;
    const VectorXd expected_j = Expected(*attempt, inside);
    const ArrayXd weights = attempt->noise.Weights(expected_j);
    const MatrixXd slopes = SolveFor(columns, weights.sqrt(), looks_for_shared, attempt);
    const VectorXd& values = attempt->solution.values;
    const Index kernels = windows.busy_s.cols(), powers = values.size() - slopes.cols();
    const double n = static_cast<double>(weights.size());
    attempt->parameters = values.size();
    attempt->log_likelihood = -0.5 * n * std::log(attempt->solution.residuals.squaredNorm() / n) +
                              0.5 * weights.log().sum() - 0.5 * attempt->log_determinant;
    // Likelihood of the readings; here, each is an energy for a window.
    if (!observations_.is_counter()) {
      attempt->log_likelihood += n * std::log(attempt->timing.window_s);
    }
    if (!attempt->held_s.has_value()) {
      const VectorXd drawn_j = windows.busy_s * values.head(kernels) +
                               IdleColumns(windows, capture_s(), attempt->idle_terms) *
                                   values.segment(kernels, powers - kernels);
      attempt->noise = EstimateNoise(
          expected_j, windows.energy_j - drawn_j - slopes * values.tail(slopes.cols()));
      Expect(drawn_j, inside, attempt);
    }
    return Move(values.tail(slopes.cols()), attempt);
  }

  // A fit at another lag, with the noise of `best`.
  Attempt Held(const Columns& columns, const Timing& timing, double within_s, int rounds,
               const Attempt& best) const {
    Attempt held = {.timing = timing, .shared = best.shared, .idle_terms = best.idle_terms};
    held.held_s = within_s;
    for (int round = 0; round < rounds; ++round) {
      held.noise = best.noise;
      held.expected_j = best.expected_j;
      if (!observations_.is_counter()) {
        const double longer = held.timing.window_s / best.timing.window_s;
        held.noise.white *= longer * longer;
        held.expected_j *= longer;
      }
      Step(columns, /*looks_for_shared=*/false, &held);
    }
    return held;
  }

 private:
  double capture_s() const { return observations_.capture_s(); }

  static VectorXd Expected(const Attempt& attempt, std::span<const Index> inside) {
    VectorXd expected_j = attempt.windows.energy_j;
    if (attempt.expected_j.size() == 0) return expected_j;
    for (Index n = 0; n < expected_j.size(); ++n) {
      const double known_j = attempt.expected_j[inside[static_cast<size_t>(n)]];
      if (std::isfinite(known_j)) expected_j[n] = known_j;
    }
    return expected_j;
  }

  void Expect(const VectorXd& energy_j, std::span<const Index> inside, Attempt* attempt) const {
    attempt->expected_j =
        VectorXd::Constant(observations_.steps().size(), std::numeric_limits<double>::quiet_NaN());
    for (Index n = 0; n < energy_j.size(); ++n) {
      attempt->expected_j[inside[static_cast<size_t>(n)]] = energy_j[n];
    }
  }

  // Solves for the powers and the error of the timing. `root` is the root of each window's weight.
  // Returns the slopes.
  MatrixXd SolveFor(const Columns& columns, const VectorXd& root, bool looks_for_shared,
                    Attempt* attempt) const {
    const Windows& windows = attempt->windows;
    const VectorXd prior_sd = Priors(*attempt);
    const Index kernels = windows.busy_s.cols(), timings = observations_.is_counter() ? 2 : 3;
    MatrixXd rows(windows.busy_s.rows(), prior_sd.size());
    rows << windows.busy_s, IdleColumns(windows, capture_s(), attempt->idle_terms),
        MatrixXd::Zero(rows.rows(), timings);
    rows = root.asDiagonal() * rows;
    const VectorXd observed = root.asDiagonal() * windows.energy_j;
    const auto slopes_by = [&](const VectorXd& values) {
      return Slopes(columns, attempt->timing, values.head(kernels), windows);
    };
    const bool overlaps =
        !observations_.is_counter() && attempt->timing.window_s > 1.5 * grid_.period_s;
    if (overlaps && looks_for_shared) {
      MatrixXd all = rows;
      all.rightCols(timings) = root.asDiagonal() * slopes_by(attempt->solution.values);
      FindShared(all, observed, prior_sd, attempt);
    }
    std::optional<Whitening> whitening;
    if (overlaps) whitening.emplace(windows.to_s, attempt->timing.window_s, attempt->shared);
    attempt->log_determinant = whitening ? whitening->LogDeterminant() : 0;
    const auto whiten = [&](auto of) {
      if (whitening) of = (*whitening)(std::move(of));
      return of;
    };
    LeastSquares system(whiten(std::move(rows)), whiten(observed), prior_sd, threads_);
    // Slopes from the previous solution or, in the first step, from a solution with fixed timing.
    const bool is_first = attempt->solution.values.size() < kernels;
    MatrixXd slopes = slopes_by(is_first ? system.Solve().values : attempt->solution.values);
    system.SetLast(whiten(MatrixXd(root.asDiagonal() * slopes)));
    attempt->solution = system.Solve();
    return slopes;
  }

  VectorXd Priors(const Attempt& attempt) const {
    const Index kernels = attempt.windows.busy_s.cols();
    const Index powers = kernels + static_cast<Index>(attempt.idle_terms);
    const bool has_window = !observations_.is_counter();
    VectorXd sd = VectorXd::Constant(powers + (has_window ? 3 : 2), 10 * most_w_);
    sd[powers] = attempt.held_s.value_or(0.05);
    sd[powers + 1] = std::max(1e-9, grid_.period_slack_s / 2);
    if (has_window) sd[powers + 2] = 0.05 * std::max(attempt.timing.window_s, 0.02);
    return sd;
  }

  // Moves the timing by the solution's last values. Returns how far the lag moved.
  double Move(const VectorXd& off, Attempt* attempt) const {
    Timing& timing = attempt->timing;
    if (!attempt->held_s.has_value()) timing.lag_s += std::clamp(off[0], -0.01, 0.01);
    timing.period_shift_s =
        std::clamp(timing.period_shift_s + off[1], -grid_.period_slack_s, grid_.period_slack_s);
    if (off.size() > 2) {
      const double most_s = 0.3 * timing.window_s;
      timing.window_s = std::max(1e-3, timing.window_s + std::clamp(off[2], -most_s, most_s));
    }
    return std::abs(off[0]);
  }

  // Derivatives of the windows' energies by lag, period and (for power readings) window: they
  // follow from the power at the ends of the windows.
  MatrixXd Slopes(const Columns& columns, const Timing& timing, const VectorXd& drawn_w,
                  const Windows& windows) const {
    constexpr double kAroundS = 1e-4;
    const ArrayXd to_w = columns.PowerAt(windows.to_s, kAroundS, drawn_w);
    // A window of a counter begins at the end of the previous window.
    ArrayXd from_w(to_w.size());
    std::vector<Index> apart;
    for (Index n = 0; n < to_w.size(); ++n) {
      if (n > 0 && windows.from_s[n] == windows.to_s[n - 1]) {
        from_w[n] = to_w[n - 1];
      } else {
        apart.push_back(n);
      }
    }
    from_w(apart) = columns.PowerAt(windows.from_s(apart), kAroundS, drawn_w).array();
    MatrixXd slopes(to_w.size(), observations_.is_counter() ? 2 : 3);
    slopes.col(0) = from_w - to_w;
    slopes.col(1) = windows.to_steps.array() * to_w - windows.from_steps.array() * from_w;
    // A reading is a mean power. A longer window adds the power at its begin, less the mean.
    if (slopes.cols() > 2) {
      slopes.col(2) = from_w - (windows.busy_s * drawn_w).array() / timing.window_s;
    }
    return slopes;
  }

  // Estimates by likelihood how much of their noise overlapping windows share.
  void FindShared(const MatrixXd& rows, const VectorXd& observed, const VectorXd& prior_sd,
                  Attempt* attempt) const {
    double best = -std::numeric_limits<double>::infinity();
    for (const double shared : {0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999}) {
      const Whitening whiten(attempt->windows.to_s, attempt->timing.window_s, shared);
      const Solution solution =
          LeastSquares(whiten(rows), whiten(observed), prior_sd, threads_).Solve();
      const double n = static_cast<double>(rows.rows());
      const double likelihood =
          -0.5 * n * std::log(solution.residuals.squaredNorm() / n) - 0.5 * whiten.LogDeterminant();
      if (likelihood > best) best = likelihood, attempt->shared = shared;
    }
  }

  Observations observations_;
  Grid grid_;
  double most_w_;
  int threads_;
};

// --- The search.

struct Candidate {
  double score = 0;
  size_t grid = 0;
  Timing timing;
};

std::vector<double> WindowsToTry(const Sensor& sensor, double period_s) {
  constexpr double kMostPeriods = 64;  // the cost grows with the windows that overlap
  if (sensor.kind == ReadingKind::kCumulative) return {0};
  std::vector<double> windows_s = {0.025, 0.05, 0.1, 1};
  if (sensor.publications.may_be_momentary) windows_s.push_back(0.005);
  std::erase_if(windows_s, [&](double each_s) { return each_s > kMostPeriods * period_s; });
  if (sensor.prior_window_s.has_value()) windows_s.push_back(*sensor.prior_window_s);
  if (windows_s.empty()) windows_s.push_back(period_s);
  std::sort(windows_s.begin(), windows_s.end());
  windows_s.erase(std::unique(windows_s.begin(), windows_s.end()), windows_s.end());
  return windows_s;
}

// The score of residuals that are rounding errors of the readings. If several lags explain constant
// powers exactly, the one nearest to 0 is best.
constexpr double kExact = 1e-10;

void Try(const Fitter& fitter, size_t grid, const Columns& columns, Timing timing,
         const LagRange& lags, double step_s, std::vector<Candidate>* candidates) {
  const auto steps = static_cast<int>(std::floor((lags.to_s - lags.from_s) / step_s));
  for (int i = 0; i <= steps; ++i) {
    timing.lag_s = lags.from_s + i * step_s;
    const double score = fitter.Roughly(columns, timing);
    if (std::isfinite(score)) candidates->push_back({std::max(score, kExact), grid, timing});
  }
}

void BestFirst(std::vector<Candidate>* candidates) {
  std::stable_sort(candidates->begin(), candidates->end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (a.score != b.score) return a.score < b.score;
                     return std::abs(a.timing.lag_s) < std::abs(b.timing.lag_s);
                   });
}

double SearchStepS(const Grid& grid) { return std::clamp(grid.period_s / 20, 2e-4, 0.005); }

// The time of the executions that a window may contain, in at most `most` points at least `step_s`
// apart.
TableSpan SpanOfTable(const Publications& publications, std::span<const BusyCurve> kernels,
                      double capture_s, const LagRange& lags, double step_s, size_t most) {
  constexpr double kLongestWindowS = 5;
  double first_s = capture_s, last_s = 0;
  for (const BusyCurve& kernel : kernels) {
    if (kernel.intervals().empty()) continue;
    first_s = std::min(first_s, static_cast<double>(kernel.intervals().front().start_ps) / kPsPerS);
    last_s = std::max(last_s, static_cast<double>(kernel.intervals().back().end_ps) / kPsPerS);
  }
  const std::vector<Update>& updates = publications.updates;
  first_s = std::max({0.0, first_s, updates.front().low_s - lags.to_s - kLongestWindowS});
  last_s = std::min({capture_s, last_s, updates.back().high_s - lags.from_s + step_s});
  if (first_s >= last_s) return {};
  TableSpan span;
  span.from_s = std::floor(first_s / step_s) * step_s;
  const double length_s = last_s - span.from_s;
  span.step_s = std::max(step_s, length_s / static_cast<double>(most));
  span.steps = static_cast<size_t>(std::ceil(length_s / span.step_s));
  return span;
}

// The best candidate of each combination of grid and window.
std::vector<Candidate> BestOfEach(std::span<const Candidate> best_first, size_t most) {
  std::vector<Candidate> best;
  for (const Candidate& each : best_first) {
    const bool is_new = std::ranges::none_of(best, [&](const Candidate& other) {
      return other.grid == each.grid && other.timing.window_s == each.timing.window_s;
    });
    if (is_new) best.push_back(each);
    if (best.size() == most) break;
  }
  return best;
}

// Tries all lags, windows and grids; then tries periods that the brackets allow near the best
// candidates.
std::vector<Candidate> Search(const Sensor& sensor, std::span<const Grid> grids,
                              std::span<const Fitter> fitters, const Columns& columns,
                              const LagRange& lags) {
  std::vector<Candidate> candidates;
  const double step_s = SearchStepS(grids[0]), near_s = 2 * grids[0].period_s;
  for (size_t g = 0; g < std::min(fitters.size(), kMostSearchedGrids); ++g) {
    for (const double window_s : WindowsToTry(sensor, grids[0].period_s)) {
      Try(fitters[g], g, columns, {.window_s = window_s}, lags, step_s, &candidates);
    }
  }
  BestFirst(&candidates);
  // The lag of other grids is about the same.
  if (fitters.size() > kMostSearchedGrids && !candidates.empty()) {
    for (const Candidate& best : BestOfEach(candidates, 2)) {
      const LagRange near = {std::max(lags.from_s, best.timing.lag_s - near_s),
                             std::min(lags.to_s, best.timing.lag_s + near_s)};
      for (size_t g = kMostSearchedGrids; g < fitters.size(); ++g) {
        Try(fitters[g], g, columns, best.timing, near, step_s, &candidates);
      }
    }
    BestFirst(&candidates);
  }
  for (const Candidate& best : BestOfEach(candidates, kTried)) {
    const LagRange near = {std::max(lags.from_s, best.timing.lag_s - near_s),
                           std::min(lags.to_s, best.timing.lag_s + near_s)};
    for (const double shift_s : fitters[best.grid].PeriodShiftsS(step_s)) {
      Try(fitters[best.grid], best.grid, columns,
          {.window_s = best.timing.window_s, .period_shift_s = shift_s}, near, step_s, &candidates);
    }
  }
  BestFirst(&candidates);
  return candidates;
}

// Refines the best candidate of each combination of grid and window, and returns the best result.
std::pair<Attempt, size_t> BestAttempt(std::span<const Candidate> candidates,
                                       std::span<const Fitter> fitters, const Columns& columns) {
  std::pair<Attempt, size_t> best;
  for (const Candidate& candidate : BestOfEach(candidates, kTried)) {
    Attempt attempt = {.timing = candidate.timing};
    fitters[candidate.grid].Refine(columns, 9, &attempt);
    if (!(best.first.Likeliness() >= attempt.Likeliness())) best = {attempt, candidate.grid};
  }
  return best;
}

// The energy of all columns and of a constant idle power before each instant.
VectorXd EnergyBeforeJ(const Columns& columns, const VectorXd& power_w, double idle_w,
                       const VectorXd& instants_s) {
  return columns.At(instants_s) * power_w + idle_w * instants_s;
}

// The energy that an attempt without cosines expects, over the time of the updates.
ExpectedEnergy Expect(const Attempt& attempt, const Columns& columns,
                      std::span<const Update> updates, double step_s, double around_s) {
  constexpr double kMostPointsOfExpected = 400'000;
  constexpr Index kPointsAtOnce = 16'384;  // bounds the memory
  ExpectedEnergy expected = {.from_s = updates.front().polled_s - around_s};
  const double length_s = updates.back().polled_s + around_s - expected.from_s;
  expected.step_s = std::max(step_s, length_s / kMostPointsOfExpected);
  const Index kernels = columns.count(),
              points = static_cast<Index>(length_s / expected.step_s) + 2;
  for (Index first = 0; first < points; first += kPointsAtOnce) {
    VectorXd instants_s(std::min(kPointsAtOnce, points - first));
    for (Index i = 0; i < instants_s.size(); ++i) {
      instants_s[i] = expected.from_s + static_cast<double>(first + i) * expected.step_s;
    }
    const VectorXd energy_j = EnergyBeforeJ(columns, attempt.solution.values.head(kernels),
                                            attempt.solution.values[kernels], instants_s);
    expected.energy_j.insert(expected.energy_j.end(), energy_j.begin(), energy_j.end());
  }
  return expected;
}

// Adds the grids that the load suggests (polled_phase.h), with candidates for them. `first` is a
// fit with grid `g`, which roughly has the right times and powers.
class GridsOfLoad {
 public:
  GridsOfLoad(const Sensor& sensor, double capture_s, int threads, std::vector<Grid>* grids,
              std::vector<Fitter>* fitters, std::vector<Candidate>* candidates)
      : sensor_(sensor),
        capture_s_(capture_s),
        threads_(threads),
        periods_(sensor.kind == ReadingKind::kCumulative
                     ? std::vector<PeriodRange>()
                     : FindPeriodsOfRarePolls(sensor.publications)),
        grids_(*grids),
        fitters_(*fitters),
        candidates_(*candidates) {}

  // Replaces the fit by one that is clearly better, if there is one. The best of so many grids
  // explains noise by chance.
  void Improve(const Columns& few, const Columns& some, Attempt* best, size_t* g) {
    constexpr int kMostRounds = 3;
    // Of the log likelihood for each window, in the first round: the noise falls by a quarter.
    constexpr double kLeastGain = 0.3;
    for (int round = 0; round < kMostRounds && !periods_.empty(); ++round) {
      const size_t before = grids_.size();
      Add(few, some, *best, *g);
      auto [attempt, of] = BestAttempt(candidates_, fitters_, some);
      const double gain = attempt.Likeliness() - best->Likeliness();
      if (of < before || !(gain > (round == 0 ? kLeastGain : 0))) {
        Remove(before);
        break;
      }
      *best = std::move(attempt);
      *g = of;
      // The period is known well enough now to look near it only.
      constexpr double kNear = 0.002;
      const double period_s = grids_[of].period_s;
      periods_ = {{(1 - kNear) * period_s, (1 + kNear) * period_s}};
    }
  }

 private:
  void Add(const Columns& few, const Columns& some, const Attempt& first, size_t g) {
    constexpr size_t kMostAdded = 12;
    constexpr double kAroundS = 0.003, kStepsOfPeriod = 40;
    const std::vector<Update>& updates = sensor_.publications.updates;
    std::vector<Update> inside;
    double age_s = 0;  // mean time from the end of a window to the poll of its reading
    for (size_t i = 0; i < updates.size(); ++i) {
      const double polled_s = updates[i].polled_s;
      if (polled_s < 0 || polled_s > capture_s_) continue;
      inside.push_back(updates[i]);
      age_s += polled_s - fitters_[g].observations().EndS(first.timing, i);
    }
    if (inside.size() < kLeastUpdates) return;
    age_s /= static_cast<double>(inside.size());
    const double period_s = periods_[0].longest_s;
    const ExpectedEnergy expected = Expect(first, some, inside, period_s / kStepsOfPeriod,
                                           2 * period_s + std::abs(age_s) + first.timing.window_s);
    std::vector<PolledPhase> phases;
    for (const PeriodRange& periods : periods_) {
      const PhaseRange range = {periods, age_s - 1.25 * periods.longest_s,
                                age_s + 0.25 * periods.longest_s};
      const std::vector<PolledPhase> found =
          FindPolledPhases(inside, expected, first.timing.window_s, range, kMostAdded, threads_);
      phases.insert(phases.end(), found.begin(), found.end());
    }
    for (const PolledPhase& each : phases) {
      const size_t number = grids_.size();
      grids_.push_back(NumberUpdates(updates, each.phase_s, each.period_s));
      fitters_.emplace_back(sensor_, grids_.back(), capture_s_, threads_);
      // The grid moved within the brackets; the lag moves with it.
      const double lag_s =
          each.lag_s + std::remainder(grids_.back().InstantS(updates.size() / 2) - each.phase_s,
                                      grids_.back().period_s);
      Try(fitters_.back(), number, few, {.window_s = first.timing.window_s},
          {lag_s - kAroundS, lag_s + kAroundS}, kFineS, &candidates_);
    }
    BestFirst(&candidates_);
  }

  // Removes the grids from number `first` on.
  void Remove(size_t first) {
    grids_.resize(first);
    while (fitters_.size() > first) fitters_.pop_back();
    std::erase_if(candidates_, [&](const Candidate& each) { return each.grid >= first; });
  }

  const Sensor& sensor_;
  double capture_s_;
  int threads_;
  std::vector<PeriodRange> periods_;
  std::vector<Grid>& grids_;
  std::vector<Fitter>& fitters_;
  std::vector<Candidate>& candidates_;
};

Attempt WithIdleTerms(const Fitter& fitter, const Columns& columns, Attempt best) {
  int worse = 0;
  Attempt next = best;
  for (size_t terms = 2; terms <= kMostIdleTerms && worse < 3; ++terms) {
    next.idle_terms = terms;
    fitter.Refine(columns, 3, &next);
    if (next.Bic() < best.Bic() - 2) {
      best = next;
      worse = 0;
    } else {
      ++worse;
    }
  }
  fitter.Refine(columns, 4, &best);
  return best;
}

// --- Rivals: other lags, windows and grids that explain the readings nearly as well. A repeated
// loop looks the same one iteration later, and Gauss-Newton finds only one optimum.

struct Rival {
  Candidate at;
  double width_s = 0;  // range of lags that it stands for
  Timing held = {};    // its lag, with the period and the window that fit it
  VectorXd power_w = {};
  double log_ratio = 0;  // log of its likelihood over that of the best fit
};

// Compares the windows that both fits contain.
double LogRatio(const Attempt& best, const Attempt& other, double variance) {
  double squares = 0;
  for (size_t i = 0, j = 0; i < best.which.size() && j < other.which.size();) {
    if (best.which[i] < other.which[j]) {
      ++i;
    } else if (best.which[i] > other.which[j]) {
      ++j;
    } else {
      squares += std::pow(other.solution.residuals[static_cast<Index>(j++)], 2) -
                 std::pow(best.solution.residuals[static_cast<Index>(i++)], 2);
    }
  }
  return -squares / (2 * variance) - (other.log_determinant - best.log_determinant) / 2;
}

bool IsNear(const Timing& a, const Timing& b, double lag_s) {
  return std::abs(a.lag_s - b.lag_s) < lag_s &&
         std::abs(a.window_s - b.window_s) <= 0.1 * std::max(a.window_s, b.window_s);
}

// The local optima of the search.
std::vector<Candidate> Optima(std::span<const Candidate> best_first, double step_s) {
  constexpr double kMostRatio = 3;
  constexpr size_t kMost = 16;
  std::vector<Candidate> optima;
  for (const Candidate& each : best_first) {
    if (each.score > kMostRatio * best_first[0].score || optima.size() == kMost) break;
    const bool is_new = std::ranges::none_of(optima, [&](const Candidate& other) {
      return other.grid == each.grid && IsNear(other.timing, each.timing, 1.5 * step_s) &&
             other.timing.period_shift_s == each.timing.period_shift_s;
    });
    if (is_new) optima.push_back(each);
  }
  return optima;
}

// Rough candidates whose score is close to the best: those of the search, finer ones around the
// best fit and around the local optima, and the optima themselves, refined.
std::vector<Rival> LikelyRivals(std::span<const Candidate> candidates,
                                std::span<const Fitter> fitters, const Columns& few,
                                const Columns& some, const Attempt& best, size_t g,
                                double coarse_s) {
  constexpr double kAroundS = 0.02, kLogRatio = 12;
  constexpr size_t kMost = 64;
  std::vector<Candidate> places(candidates.begin(), candidates.end());
  std::vector<Candidate> fine;
  const auto look_around = [&](const Candidate& at, double around_s) {
    std::vector<Candidate> found;
    Try(fitters[at.grid], at.grid, few, at.timing,
        {at.timing.lag_s - around_s, at.timing.lag_s + around_s}, kFineS, &found);
    fine.insert(fine.end(), found.begin(), found.end());
    const auto least = std::ranges::min_element(found, {}, &Candidate::score);
    return least == found.end() ? at : *least;
  };
  look_around({0, g, best.timing}, kAroundS);
  std::vector<Candidate> optima = Optima(candidates, coarse_s);
  for (Candidate& optimum : optima) optimum = look_around(optimum, coarse_s);
  double least = candidates[0].score;
  for (const Candidate& each : fine) least = std::min(least, each.score);
  const double windows =
      std::min(static_cast<double>(best.which.size()), static_cast<double>(kMostSearched));
  std::vector<Rival> rivals;
  const auto add = [&](std::vector<Candidate>& from, double width_s) {
    BestFirst(&from);
    for (size_t i = 0; i < from.size() && i < kMost; ++i) {
      if (windows / 2 * std::log(from[i].score / least) > kLogRatio) break;
      rivals.push_back({from[i], width_s});
    }
  };
  std::erase_if(places, [&](const Candidate& each) {
    return each.grid == g && IsNear(each.timing, best.timing, kAroundS);
  });
  add(places, coarse_s);
  add(fine, kFineS);
  for (const Candidate& optimum : optima) {
    Attempt attempt = {.timing = optimum.timing, .noise = best.noise, .shared = best.shared};
    attempt.idle_terms = best.idle_terms;
    fitters[optimum.grid].Refine(some, 6, &attempt);
    if (optimum.grid == g && IsNear(attempt.timing, best.timing, kFineS)) continue;
    rivals.push_back({{optimum.score, optimum.grid, attempt.timing}, coarse_s});
  }
  return rivals;
}

// Fits at each rival and sets its likelihood ratio and powers.
void JudgeRivals(std::span<const Fitter> fitters, const Columns& columns, const Attempt& best,
                 std::vector<Rival>* rivals) {
  const double variance = best.Variance();
  for (Rival& rival : *rivals) {
    const Attempt held =
        fitters[rival.at.grid].Held(columns, rival.at.timing, rival.width_s / 2, 2, best);
    rival.log_ratio = LogRatio(best, held, variance);
    rival.held = held.timing;
    rival.power_w = held.solution.values;
  }
}

// A rival that explains the readings better than the best fit; null if there is none.
const Rival* Better(std::span<const Rival> rivals) {
  const auto found = std::ranges::max_element(rivals, {}, &Rival::log_ratio);
  return found != rivals.end() && found->log_ratio > 0.5 ? &*found : nullptr;
}

// The covariance of the rivals' deviations from the fitted powers. Weights are fourth roots of the
// likelihoods, because a rival that is ten times less likely still belongs in a 95 % interval.
// `lag_sd_s` is the uncertainty that the Gauss-Newton covariance already contains; it is
// subtracted.
MatrixXd SpreadOf(std::span<const Rival> rivals, const VectorXd& power_w, const Timing& best,
                  size_t g, double lag_sd_s) {
  constexpr double kTempered = 4, kLeastLogRatio = -6, kMostSdS = 0.005;
  const double sd_s = std::min(lag_sd_s, kMostSdS);
  MatrixXd spread = MatrixXd::Zero(power_w.size(), power_w.size());
  double all = 1e-300;
  for (const Rival& rival : rivals) {
    if (rival.log_ratio < kLeastLogRatio) continue;
    const double weight = rival.width_s * std::exp(rival.log_ratio / kTempered);
    all += weight;
    double known = 0;
    if (rival.at.grid == g) {
      known = rival.width_s *
              std::exp(-std::pow((rival.at.timing.lag_s - best.lag_s) / sd_s, 2) / 2 / kTempered);
    }
    if (weight <= known) continue;
    const VectorXd off_w = rival.power_w - power_w;
    spread += (weight - known) * off_w * off_w.transpose();
  }
  return spread / all;
}

// `variance` is that of a weighted window.
void SetCovariance(const Attempt& attempt, double variance, Fit* fit) {
  const MatrixXd covariance = attempt.solution.Inverse() * variance;
  const Index powers = fit->power_w.size();
  fit->covariance = covariance.topLeftCorner(powers, powers);
  fit->lag_sd_s = std::sqrt(covariance(powers, powers));
  if (covariance.rows() > powers + 2) {
    fit->window_sd_s = std::sqrt(covariance(powers + 2, powers + 2));
  }
}

// Moves the windows out of `from`.
Fit FitOf(const Grid& grid, Attempt* from) {
  const Attempt& attempt = *from;
  Fit fit;
  fit.grid = grid;
  fit.grid.period_s += attempt.timing.period_shift_s;
  fit.lag_s = attempt.timing.lag_s;
  fit.window_s = attempt.timing.window_s;
  fit.idle_terms = attempt.idle_terms;
  fit.from_s = attempt.windows.from_s;
  fit.to_s = attempt.windows.to_s;
  fit.energy_j = attempt.windows.energy_j;
  fit.busy_s = std::move(from->windows.busy_s);
  const Index powers = fit.busy_s.cols() + static_cast<Index>(fit.idle_terms);
  fit.power_w = attempt.solution.values.head(powers);
  fit.whitened = attempt.solution.residuals;
  fit.degrees = std::max(
      1.0, static_cast<double>(fit.whitened.size()) - static_cast<double>(attempt.parameters));
  SetCovariance(attempt, attempt.Variance(), &fit);
  return fit;
}

// The publications during the capture, and within its length and 10 s before and after. Otherwise
// the grid of a day's log would be fitted to hours without any kernel, and the fit would be slow.
Publications Near(const Publications& publications, double capture_s) {
  constexpr double kAroundS = 10;
  const double from_s = -capture_s - kAroundS, to_s = 2 * capture_s + kAroundS;
  Publications near;
  near.dated = publications.dated;
  near.may_be_instants_of_polls = publications.may_be_instants_of_polls;
  near.may_be_momentary = publications.may_be_momentary;
  for (const Update& update : publications.updates) {
    if (update.low_s >= from_s && update.high_s <= to_s) near.updates.push_back(update);
  }
  for (const Publications::Quiet& quiet : publications.quiet) {
    if (quiet.from_s >= from_s && quiet.to_s <= to_s) near.quiet.push_back(quiet);
  }
  return near;
}

// A noise-free log of the expected readings.
Sensor MakeExpectedSensor(const Expectation& expected, const Columns& columns, double capture_s,
                          Grid* grid) {
  std::vector<double> instants_s;
  for (double at_s = expected.phase_s; at_s - expected.lag_s <= capture_s;
       at_s += expected.period_s) {
    grid->number.push_back(static_cast<int64_t>(instants_s.size()));
    instants_s.push_back(at_s - expected.lag_s);
  }
  const VectorXd to_s =
      Eigen::Map<const VectorXd>(instants_s.data(), static_cast<Index>(instants_s.size()));
  const auto energy_j = [&](const VectorXd& at_s) -> VectorXd {
    return EnergyBeforeJ(columns, expected.power_w, expected.idle_w, at_s);
  };
  VectorXd value = energy_j(to_s) * 1e6;
  if (expected.kind != ReadingKind::kCumulative) {
    const VectorXd from_s = to_s.array() - expected.window_s;
    value = (energy_j(to_s) - energy_j(from_s)) / expected.window_s * 1e3;
  }
  Sensor sensor = {.kind = expected.kind};
  for (const double each : value) sensor.publications.updates.push_back({0, 0, std::llround(each)});
  return sensor;
}

}  // namespace

VectorXd Fit::IdleTerms(double at_s, double capture_s) const {
  VectorXd terms = VectorXd::Zero(power_w.size());
  for (size_t j = 0; j < idle_terms; ++j) {
    terms[power_w.size() - static_cast<Index>(idle_terms - j)] =
        std::cos(std::numbers::pi * static_cast<double>(j) * at_s / capture_s);
  }
  return terms;
}

std::optional<Fit> FitPowers(Sensor sensor, std::span<const BusyCurve> kernels, double capture_s,
                             const LagRange& lags, int threads) {
  sensor.publications = Near(sensor.publications, capture_s);
  std::vector<Grid> grids = FindGrids(sensor.publications, threads);
  if (grids.empty()) return std::nullopt;
  const size_t most_misfits =
      grids[0].misfits + std::max<size_t>(2, sensor.publications.updates.size() / 50);
  std::erase_if(grids, [&](const Grid& grid) { return grid.misfits > most_misfits; });
  std::vector<Fitter> fitters;
  for (const Grid& grid : grids) fitters.emplace_back(sensor, grid, capture_s, threads);
  const double step_s = SearchStepS(grids[0]);
  const auto span_of_table = [&](double points_s, size_t most) {
    return SpanOfTable(sensor.publications, kernels, capture_s, lags, points_s, most);
  };
  const size_t updates = sensor.publications.updates.size();
  const TableSpan span = span_of_table(step_s, kMostPoints * updates);
  Columns few(kernels, kFewKernels, span);
  const double fine_s = std::min(step_s, kFineS) / 2;
  const TableSpan fine_span = span_of_table(fine_s, kMostFinePoints);
  if (fine_span.step_s < 1.01 * fine_s) few = few.Tabulated(fine_span);
  std::vector<Candidate> candidates = Search(sensor, grids, fitters, few, lags);
  if (candidates.empty()) return std::nullopt;
  const Columns some(kernels, kSomeKernels, span);
  auto [attempt, g] = BestAttempt(candidates, fitters, some);
  if (attempt.windows.energy_j.size() == 0) return std::nullopt;
  GridsOfLoad(sensor, capture_s, threads, &grids, &fitters, &candidates)
      .Improve(few, some, &attempt, &g);
  attempt = WithIdleTerms(fitters[g], some, std::move(attempt));
  std::vector<Rival> rivals = LikelyRivals(candidates, fitters, few, some, attempt, g, step_s);
  JudgeRivals(fitters, some, attempt, &rivals);
  if (const Rival* better = Better(rivals)) {
    g = better->at.grid;
    attempt.timing = better->at.timing;
    attempt.solution = {};
    fitters[g].Refine(some, 6, &attempt);
    JudgeRivals(fitters, some, attempt, &rivals);
  }
  attempt.solution = {};
  const Columns all(kernels, threads);
  fitters[g].Step(all, /*looks_for_shared=*/false, &attempt);
  Fit fit = FitOf(grids[g], &attempt);
  const Index powers = fit.power_w.size();
  if (kernels.size() > kSomeKernels) {
    std::erase_if(rivals, [](const Rival& rival) { return rival.log_ratio < -6; });
    std::ranges::stable_sort(rivals, std::greater(), &Rival::log_ratio);
    const size_t most = kernels.size() > kManyKernels ? 1 : 6;  // each is a fit of all kernels
    if (rivals.size() > most) rivals.resize(most);
    for (Rival& rival : rivals) {
      rival.power_w = fitters[rival.at.grid]
                          .Held(all, rival.held, rival.width_s / 2, 1, attempt)
                          .solution.values.head(powers);
    }
  }
  for (Rival& rival : rivals) rival.power_w.conservativeResize(powers);
  fit.covariance += SpreadOf(rivals, fit.power_w, attempt.timing, g, fit.lag_sd_s);
  const MatrixXd idle = IdleColumns(attempt.windows, capture_s, fit.idle_terms);
  const Index k = fit.busy_s.cols();
  fit.residual_j = fit.energy_j - fit.busy_s * fit.power_w.head(k) -
                   idle * fit.power_w.tail(fit.power_w.size() - k);
  fit.relative_noise =
      std::sqrt(fit.residual_j.squaredNorm() / static_cast<double>(fit.residual_j.size())) /
      fit.energy_j.mean();
  for (const Candidate& candidate : candidates) {
    if (std::abs(candidate.timing.lag_s - candidates[0].timing.lag_s) < 2 * grids[g].period_s) {
      continue;
    }
    fit.rival = candidate.score / candidates[0].score;
    fit.rival_lag_s = candidate.timing.lag_s;
    break;
  }
  return fit;
}

std::optional<Fit> ExpectFit(const Expectation& expected, std::span<const BusyCurve> kernels,
                             double capture_s) {
  const Columns columns(kernels, 1);
  Grid grid = {.phase_s = expected.phase_s, .period_s = expected.period_s};
  const Sensor sensor = MakeExpectedSensor(expected, columns, capture_s, &grid);
  if (sensor.publications.updates.size() < kLeastUpdates) return std::nullopt;
  // The precision of polls at half the sensor's period.
  grid.period_slack_s = expected.period_s / 2 / static_cast<double>(grid.number.size());
  const Fitter fitter(sensor, grid, capture_s, 1);
  Attempt attempt = {.timing = {.lag_s = expected.lag_s, .window_s = expected.window_s},
                     .noise = {.white = 0, .relative = expected.noise * expected.noise},
                     .shared = expected.shared};
  attempt.idle_terms = expected.idle_terms;
  if (fitter.observations().Inside(attempt.timing).size() < kMinFittedWindows) return std::nullopt;
  fitter.Step(columns, /*looks_for_shared=*/false, &attempt);
  Fit fit;
  fit.idle_terms = attempt.idle_terms;
  fit.power_w = attempt.solution.values.head(attempt.windows.busy_s.cols() +
                                             static_cast<Index>(fit.idle_terms));
  fit.degrees = static_cast<double>(attempt.windows.energy_j.size() - attempt.parameters);
  SetCovariance(attempt, 1, &fit);
  return fit;
}

}  // namespace xplane_time::energy
