// Compares two sides (compare.h has the model and the references).
//
// 1. CheckMeasuredAlike, CountShared, FindClockSteps over all captures.
// 2. MatchSeries: a row for each (device, function or variant, program). If each side used one
//    device, its name does not matter.
// 3. MakeRow: Huber's centre of the log times of each capture, the estimate of each side, and the
//    difference with its error (DifferenceOf). Rows with an obstacle get their verdict here.
// 4. RefuseUnequalPrograms, RefuseOtherDevices: rows that cannot be the same thing on both sides.
// 5. Judge: p-values (Holm), simultaneous intervals (Bonferroni), mde and verdict of the remaining
//    rows; Advise adds the number of captures needed.
// 6. Summarize and OutcomeOf: order of rows and the outcome of the comparison.
#include "xplane_time/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/clock_steps.h"
#include "compare/differences.h"
#include "compare/inputs.h"
#include "compare/needed_captures.h"
#include "stats/distributions.h"
#include "status.h"

namespace xplane_time {
namespace {

using compare::Centre;
using compare::Difference;
using compare::Proof;
using stats::StudentQuantile, stats::StudentTail;

constexpr uint64_t kSamplesForOffset = 4;  // below, the scatter within a capture is unknown
// Energies of few captures: processes are assumed to differ by 1 %.
constexpr double kUsualSpread = 0.01;
// Minimum standard deviation between processes of one program. If a few processes agree better,
// that is chance, or the clock is too coarse.
constexpr double kLeastSpread = 0.001;
// For energies: with fewer degrees of freedom, the variation between processes is assumed.
constexpr size_t kLeastScatterDf = 4;

// Base and head: their captures, and the series of one row by capture.
using Captures = std::array<std::span<const Measurements>, 2>;
using RowSide = std::map<size_t, const Series*>;
using Sides = std::array<RowSide, 2>;
enum Side : uint8_t { kBase, kHead };

// The differences between two sides by kernel: means over the captures that have the kernel,
// largest change first. Kernels without a change, and functions that only one side has, are
// omitted.
std::vector<KernelChange> KernelChanges(const Captures& captures) {
  using Times = std::array<std::vector<double>, 2>;               // by side: times in its captures
  std::map<std::string, std::map<std::string, Times>> functions;  // by function and kernel
  for (const Side side : {kBase, kHead}) {
    for (const Measurements& capture : captures[side]) {
      for (const KernelTime& kernel : capture.kernels) {
        functions[kernel.function][kernel.kernel][side].push_back(kernel.run_ps);
      }
    }
  }
  const auto mean = [](const std::vector<double>& times) {
    return times.empty() ? std::nullopt : std::optional(stats::Mean(times));
  };
  const auto distance = [](const KernelChange& change) {
    return std::abs(change.head_ps.value_or(0) - change.base_ps.value_or(0));
  };
  std::vector<KernelChange> changes;
  for (const auto& [function, kernels] : functions) {
    const auto has = [&of = kernels](Side side) {
      return std::ranges::any_of(of,
                                 [side](const auto& each) { return !each.second[side].empty(); });
    };
    if (!has(kBase) || !has(kHead)) continue;
    for (const auto& [kernel, sides] : kernels) {
      KernelChange change = {function, kernel, mean(sides[kBase]), mean(sides[kHead])};
      if (distance(change) > 0) changes.push_back(std::move(change));
    }
  }
  std::ranges::stable_sort(changes, std::greater(), distance);
  return changes;
}

using RowKey = std::tuple<std::string, std::string, std::string, uint32_t>;

std::set<std::string> DevicesOf(std::span<const Measurements> side) {
  std::set<std::string> devices;
  for (const Measurements& capture : side) {
    for (const Series& series : capture.series) devices.insert(series.device);
  }
  return devices;
}

// Whether each side used one device. If so, the names of equivalent devices need not match.
bool OneDeviceEach(const Captures& captures, std::vector<std::string>* notes) {
  const std::set<std::string> base = DevicesOf(captures[kBase]), head = DevicesOf(captures[kHead]);
  if (base.size() != 1 || head.size() != 1) return false;
  if (base != head) {
    notes->push_back(
        absl::StrCat("device is ", *base.begin(), " in base, ", *head.begin(), " in head"));
  }
  return true;
}

std::map<RowKey, Sides> MatchSeries(const Captures& captures, std::vector<std::string>* notes) {
  const bool any_device = OneDeviceEach(captures, notes);
  std::map<RowKey, Sides> rows;
  for (const Side side : {kBase, kHead}) {
    for (size_t i = 0; i < captures[side].size(); ++i) {
      for (const Series& series : captures[side][i].series) {
        const std::string variant = series.variant_id.value_or("");
        const RowKey key = {any_device ? "" : series.device, variant.empty() ? series.function : "",
                            variant, series.program};
        rows[key][side][i] = &series;
      }
    }
  }
  return rows;
}

Centre CentreOf(const Series& series) {
  std::vector<double> logs;
  logs.reserve(series.samples.size());
  for (const Sampled& sample : series.samples) logs.push_back(std::log(sample.value));
  return stats::HuberCentre(std::move(logs));
}

// The centres of the captures that have samples.
std::vector<Centre> CentresOf(const RowSide& side) {
  std::vector<Centre> centres;
  for (const auto& [capture, series] : side) {
    if (!series->samples.empty()) centres.push_back(CentreOf(*series));
  }
  return centres;
}

uint64_t SamplesOf(const RowSide& side) {
  uint64_t samples = 0;
  for (const auto& [capture, series] : side) samples += series->samples.size();
  return samples;
}

// The variance of the log of a side's value, if it was stated.
double StatedVariance(const RowSide& side) {
  double squares = 0, count = 0;
  for (const auto& [capture, series] : side) {
    if (!series->log_error.has_value()) continue;
    squares += *series->log_error * *series->log_error;
    count += 1;
  }
  return count > 0 ? squares / count : 0;
}

SideEstimate EstimateSide(const RowSide& captures, const std::vector<Centre>& centres,
                          double confidence) {
  SideEstimate side;
  side.captures = centres.size();
  side.samples = SamplesOf(captures);
  if (centres.empty()) return side;
  std::vector<double> values;
  for (const Centre& centre : centres) values.push_back(centre.value);
  const double mean = stats::Mean(values);
  side.centre = std::exp(mean);
  const double stated = StatedVariance(captures);
  if (values.size() < 2 && stated == 0) return side;
  const double k = static_cast<double>(values.size());
  const double df = values.size() < 2 ? compare::kStatedDf : k - 1;
  const double half =
      StudentQuantile((1 - confidence) / 2, df) * std::sqrt(stats::Variance(values) / k + stated);
  side.lo = std::exp(mean - half);
  side.hi = std::exp(mean + half);
  return side;
}

bool IsStated(const Sides& sides) {
  return std::ranges::any_of(sides[kBase],
                             [](const auto& each) { return each.second->log_error.has_value(); });
}

// The standard deviation, relative to the row's values, that more captures do not reduce.
double ResolutionOf(const Sides& sides, const compare::ClockSteps& steps,
                    const std::vector<Centre>& base, const std::vector<Centre>& head) {
  const double stated = StatedVariance(sides[kBase]) + StatedVariance(sides[kHead]);
  if (IsStated(sides)) return std::sqrt(stated);
  double step_ps = 0;
  for (const auto& side : sides) {
    for (const auto& [capture, series] : side) {
      if (!series->samples.empty())
        step_ps = std::max(step_ps, steps.at(compare::ClockOf(*series)));
    }
  }
  return compare::FindResolution(step_ps, (base.front().value + head.front().value) / 2);
}

Difference ScatterOf(std::span<const Centre> base, std::span<const Centre> head, bool paired,
                     std::optional<double> offset_std) {
  return paired ? compare::PairedDifference(base, head, offset_std)
                : compare::UnpairedDifference(base, head, offset_std);
}

// For energies: if there are too few captures to show the variation between processes, the usual
// variation is assumed. If the observed scatter is larger, it is used instead, with its few degrees
// of freedom.
Difference KnownFromFew(Difference scatter, std::span<const Centre> base,
                        std::span<const Centre> head, bool paired,
                        std::optional<double> offset_std) {
  const size_t df = paired ? base.size() - 1 : base.size() + head.size() - 2;
  if (!offset_std.has_value() && df < kLeastScatterDf) {
    const Difference usual = ScatterOf(base, head, paired, kUsualSpread);
    const bool refuted = scatter.df > 0 && scatter.standard_error >= usual.standard_error;
    if (!refuted) {
      scatter = usual;
      scatter.stated = true;
      scatter.assumed = true;
    }
  }
  scatter.df = std::min(scatter.df, compare::kStatedDf);
  return scatter;
}

// nullopt if paired captures have no pair.
std::optional<Difference> DifferenceOf(const Sides& sides, const CompareOptions& options,
                                       double resolution, std::vector<Centre> base,
                                       std::vector<Centre> head) {
  const bool stated = IsStated(sides);
  std::optional<double> offset_std = options.offset_std;
  for (const auto& side : sides) {
    if (SamplesOf(side) < kSamplesForOffset && !stated) offset_std = std::nullopt;
  }
  if (options.paired) {
    base.clear();
    head.clear();
    for (const auto& [capture, series] : sides[kBase]) {
      const auto other = sides[kHead].find(capture);
      if (other == sides[kHead].end() || series->samples.empty() ||
          other->second->samples.empty()) {
        continue;
      }
      base.push_back(CentreOf(*series));
      head.push_back(CentreOf(*other->second));
    }
    if (base.empty()) return std::nullopt;
  }
  Difference difference = ScatterOf(base, head, options.paired, offset_std);
  difference.known_offset = offset_std.has_value();
  difference.stated = stated;
  if (stated) difference = KnownFromFew(difference, base, head, options.paired, offset_std);
  // The agreement of a few captures is not precision, especially with a coarse clock.
  const double least = std::min(kLeastSpread, options.offset_std.value_or(kLeastSpread));
  const double floor = least * std::sqrt(1 / static_cast<double>(base.size()) +
                                         1 / static_cast<double>(head.size()));
  difference.spread = std::max(difference.spread, least);
  difference.resolution = resolution;
  difference.standard_error =
      std::hypot(std::max(difference.standard_error, floor), difference.resolution);
  return difference;
}

FunctionVerdict VerdictOf(const ComparedRow& row, const CompareOptions& options) {
  if (row.in_doubt || row.uncertain) return FunctionVerdict::kCannotTell;
  const double effect = 1 + options.min_effect;
  const bool changed = row.p_value.has_value() && *row.p_value <= options.alpha;
  if (changed && row.lo.has_value() && *row.lo > effect) return FunctionVerdict::kSlower;
  if (changed && !row.fails_more && row.hi.has_value() && *row.hi < 1 / effect) {
    return FunctionVerdict::kFaster;
  }
  if (!row.mde.has_value() || *row.mde > options.max_mde) return FunctionVerdict::kTooLittleData;
  if (row.fails_more) return FunctionVerdict::kCannotTell;
  if (*row.ratio > effect || *row.ratio < 1 / effect) return FunctionVerdict::kCannotTell;
  return FunctionVerdict::kSame;
}

// What would decide an open row. Captures do not decide a row in doubt.
void Advise(const Proof& proof, const Difference& difference, const CompareOptions& options,
            ComparedRow* row) {
  if (row->in_doubt || row->uncertain) return;
  const CapturesNeeded needed = compare::FindCapturesNeeded(
      proof, difference, std::min(row->base.captures, row->head.captures), options);
  // A row that fails more often in head is slower at best.
  const bool provable = needed.question == CapturesNeeded::Question::kChange && *row->ratio > 1;
  if (!row->fails_more || provable) row->needed = needed;
}

// Judges the rows whose verdict is kSame so far, by their differences.
void Judge(std::span<const Difference> differences, const CompareOptions& options,
           std::vector<ComparedRow>* rows) {
  std::vector<size_t> judged;
  std::vector<double> p_values;
  for (size_t at = 0; at < rows->size(); ++at) {
    if ((*rows)[at].verdict != FunctionVerdict::kSame) continue;
    judged.push_back(at);
    const Difference& d = differences[at];
    double p = 1;
    if (d.df > 0 && d.standard_error > 0) {
      p = 2 * StudentTail(std::abs(d.estimate) / d.standard_error, d.df);
    } else if (d.df > 0 && d.estimate != 0) {
      p = 0;  // --offset-std 0: every capture of a side agrees, and this is trusted
    }
    p_values.push_back(std::min(p, 1.0));
  }
  const std::vector<double> adjusted = stats::HolmAdjusted(p_values);
  const Proof proof(options, judged.size());
  for (size_t i = 0; i < judged.size(); ++i) {
    const Difference& d = differences[judged[i]];
    ComparedRow& row = (*rows)[judged[i]];
    row.ratio = std::exp(d.estimate);
    if (d.df > 0) {
      const double half = d.standard_error == 0 ? 0 : proof.IntervalBar(d.df) * d.standard_error;
      row.lo = std::exp(d.estimate - half);
      row.hi = std::exp(d.estimate + half);
      row.p_value = adjusted[i];
      const double mde = d.standard_error == 0
                             ? options.min_effect
                             : std::expm1(proof.DetectableLog(d.standard_error, d.df));
      if (std::isfinite(mde)) row.mde = mde;
      row.spread = d.spread;
    }
    row.verdict = VerdictOf(row, options);
    if (row.verdict == FunctionVerdict::kTooLittleData ||
        row.verdict == FunctionVerdict::kCannotTell) {
      Advise(proof, d, options, &row);
    }
  }
}

// Appends "failed in 1 of 3 captures of head: out of memory" for each side on which some capture
// has the text.
std::array<size_t, 2> CountSaying(std::string Series::*text, std::string_view what,
                                  const Sides& sides, std::string* reason) {
  std::array<size_t, 2> saying = {};  // number of captures by side
  for (const Side side : {kBase, kHead}) {
    std::string message;
    for (const auto& [capture, series] : sides[side]) {
      saying[side] += (series->*text).empty() ? 0 : 1;
      if (message.empty()) message = series->*text;
    }
    if (saying[side] == 0) continue;
    absl::StrAppend(reason, reason->empty() ? "" : "; ", Absl(what), " in ", saying[side], " of ",
                    sides[side].size(), " captures of ", side == kBase ? "base" : "head", ": ",
                    message);
  }
  return saying;
}

void DescribeFailures(const Sides& sides, ComparedRow* row) {
  const bool of_energy = row->metric == kEnergyMetric;
  const auto failed =
      CountSaying(&Series::failure, of_energy ? "unknown" : "failed", sides, &row->reason);
  row->fails_more =
      !of_energy && failed[kHead] * sides[kBase].size() > failed[kBase] * sides[kHead].size();
  const auto in_doubt = CountSaying(&Series::doubt, "in doubt", sides, &row->reason);
  row->in_doubt = in_doubt[kBase] + in_doubt[kHead] > 0;
}

// The reason why a function's series cannot be compared; empty: they can.
std::string ObstacleIn(const Sides& sides) {
  const Series* first = nullptr;
  for (const auto& side : sides) {
    for (const auto& [capture, series] : side) {
      if (series->samples.empty()) continue;
      if (first == nullptr) first = series;
      if (series->metric != first->metric) {
        return absl::StrCat("metric is ", first->metric, " in one capture, ", series->metric,
                            " in another");
      }
      if (series->clock != first->clock || series->clock == "mixed") {
        return absl::StrCat("clock is ", first->clock, " in one capture, ", series->clock,
                            " in another; choose one with --clock");
      }
    }
  }
  return "";
}

// The first obstacle of a series without samples; empty: none.
std::string FindObstacle(const Sides& sides) {
  for (const RowSide& side : sides) {
    for (const auto& [capture, series] : side) {
      if (!series->obstacle.empty()) return series->obstacle;
    }
  }
  return "";
}

void Describe(const RowSide& side, ComparedRow* row) {
  for (const auto& [capture, series] : side) {
    row->function = series->function;
    row->variant_id = series->variant_id;
    row->device = series->device;
    row->program = series->program;
    row->uncertain |= series->uncertain;
    if (row->metric.empty()) row->metric = series->metric;
    if (row->clock.empty()) row->clock = series->clock;
  }
}

// Makes a row. Rows with samples on both sides and without an obstacle get a difference, and the
// verdict kSame until they are judged.
ComparedRow MakeRow(const Sides& sides, const CompareOptions& options,
                    const compare::ClockSteps& steps, Difference* difference) {
  ComparedRow row;
  Describe(sides[kHead], &row);
  Describe(sides[kBase], &row);
  DescribeFailures(sides, &row);
  const std::vector<Centre> base = CentresOf(sides[kBase]), head = CentresOf(sides[kHead]);
  row.base = EstimateSide(sides[kBase], base, options.confidence);
  row.head = EstimateSide(sides[kHead], head, options.confidence);
  if (base.empty() || head.empty()) {
    const bool failed = std::ranges::any_of(sides, [](const RowSide& side) {
      return std::ranges::any_of(side,
                                 [](const auto& each) { return !each.second->failure.empty(); });
    });
    const bool ran = !sides[kHead].empty() && !sides[kBase].empty();
    row.verdict = failed && row.metric == kEnergyMetric ? FunctionVerdict::kUnknown
                  : failed                              ? FunctionVerdict::kFailed
                  : ran                                 ? FunctionVerdict::kNotComparable
                  : sides[kHead].empty()                ? FunctionVerdict::kOnlyBase
                                                        : FunctionVerdict::kOnlyHead;
    if (!failed && ran) {
      row.reason = absl::StrCat("it has no usable run in ", !base.empty()   ? "head"
                                                            : !head.empty() ? "base"
                                                                            : "base and head");
      const std::string obstacle = FindObstacle(sides);
      if (!obstacle.empty()) absl::StrAppend(&row.reason, ": ", obstacle);
    }
    return row;
  }
  if (std::string obstacle = ObstacleIn(sides); !obstacle.empty() && !options.allow_mismatch) {
    row.reason = std::move(obstacle);
    row.verdict = FunctionVerdict::kNotComparable;
    return row;
  }
  const auto found =
      DifferenceOf(sides, options, ResolutionOf(sides, steps, base, head), base, head);
  if (found.has_value()) {
    *difference = *found;
    row.verdict = FunctionVerdict::kSame;
  } else {
    row.reason = "no pair of captures has runs of it on both sides";
  }
  return row;
}

// Programs of one name are numbered by their first run. If the sides have different numbers of
// programs, the second program need not be the same on both.
void RefuseUnequalPrograms(std::vector<ComparedRow>* rows) {
  std::map<std::pair<std::string, std::string>, bool> unequal;
  for (const ComparedRow& row : *rows) {
    const bool one_side =
        row.verdict == FunctionVerdict::kOnlyBase || row.verdict == FunctionVerdict::kOnlyHead;
    if (row.program > 0 && one_side) unequal[{row.device, row.function}] = true;
  }
  for (ComparedRow& row : *rows) {
    if (!unequal.contains({row.device, row.function})) continue;
    if (row.verdict != FunctionVerdict::kSame) continue;
    row.verdict = FunctionVerdict::kNotComparable;
    row.reason = "base and head compiled this function into different numbers of programs";
  }
}

// If a function ran on other devices in head than in base, it has rows of one side. They are not
// comparable: nothing shows what the change is. Its rows on the common devices are still compared.
void RefuseOtherDevices(std::vector<ComparedRow>* rows) {
  using enum FunctionVerdict;
  const auto key = [](const ComparedRow& row) {
    return std::tuple(row.variant_id.has_value() ? "" : row.function, row.variant_id, row.program);
  };
  using Devices = std::array<std::set<std::string>, 2>;  // by side
  std::map<decltype(key(rows->front())), Devices> functions;
  for (const ComparedRow& row : *rows) {
    Devices& devices = functions[key(row)];
    if (row.verdict != kOnlyHead) devices[kBase].insert(row.device);
    if (row.verdict != kOnlyBase) devices[kHead].insert(row.device);
  }
  for (ComparedRow& row : *rows) {
    const Devices& sides = functions.at(key(row));
    if (row.verdict != kOnlyBase && row.verdict != kOnlyHead) continue;
    if (sides[kBase].empty() || sides[kHead].empty()) continue;
    row.verdict = kNotComparable;
    row.reason = absl::StrCat("it ran on ", absl::StrJoin(sides[kBase], ", "), " in base, on ",
                              absl::StrJoin(sides[kHead], ", "), " in head");
  }
}

// "; only in base: node3; only in head: node7". Empty: the units are the same, or captures have
// none.
std::string UnpairedText(std::span<const Measurements> base, std::span<const Measurements> head) {
  std::array<std::set<std::string>, 2> units;
  for (const Measurements& each : base) units[kBase].insert(each.unit);
  for (const Measurements& each : head) units[kHead].insert(each.unit);
  std::string text;
  for (const Side side : {kBase, kHead}) {
    std::vector<std::string> only;
    std::ranges::set_difference(units[side], units[side == kBase ? kHead : kBase],
                                std::back_inserter(only));
    std::erase(only, "");
    if (only.empty()) continue;
    absl::StrAppend(&text, "; only in ", side == kBase ? "base" : "head", ": ",
                    absl::StrJoin(only, ", "));
  }
  return text;
}

absl::Status CheckOptions(std::span<const Measurements> base, std::span<const Measurements> head,
                          const CompareOptions& options) {
  const auto share = [](double value) { return value > 0 && value < 1; };
  if (!share(options.alpha)) return InvalidArgument("alpha must lie between 0 and 1");
  if (!share(options.confidence)) {
    return InvalidArgument("confidence must lie between 0 and 1");
  }
  if (!(options.min_effect >= 0) || !(options.max_mde > 0) ||
      (options.offset_std.has_value() && !(*options.offset_std >= 0))) {
    return InvalidArgument(
        "min_effect and offset_std must not be negative, and max_mde must be above 0");
  }
  if (options.max_mde <= options.min_effect) {
    return InvalidArgument(
        "max_mde must be above min_effect: a slowdown of at most min_effect is never detected, so "
        "no function could be judged unchanged");
  }
  // Summaries sample hosts, traces sample captures; they cannot be mixed.
  const bool is_of_hosts = !base[0].unit.empty();
  for (const std::span<const Measurements> side : {base, head}) {
    for (const Measurements& each : side) {
      if (each.unit.empty() != is_of_hosts) continue;
      return FailedPrecondition(each.source, " is ", is_of_hosts ? "no" : "a", " summary, and ",
                                base[0].source, " is ", is_of_hosts ? "one" : "none",
                                ": give summaries on both sides (xplane-time summarize), or traces "
                                "on both");
    }
  }
  if (options.paired && base.size() != head.size()) {
    return InvalidArgument("paired captures must be equally many: ", base.size(), " in base, ",
                           head.size(), " in head", UnpairedText(base, head));
  }
  if (const std::string unpaired = UnpairedText(base, head); options.paired && !unpaired.empty()) {
    return FailedPrecondition("paired sides must have the same hosts", unpaired);
  }
  return absl::OkStatus();
}

Outcome OutcomeOf(const Comparison& comparison, const CompareOptions& options) {
  if (comparison.Count(FunctionVerdict::kSlower) > 0) return Outcome::kSlower;
  if (comparison.Count(FunctionVerdict::kTooLittleData) > 0) return Outcome::kTooLittleData;
  if (comparison.Count(FunctionVerdict::kFailed) > 0 ||
      comparison.Count(FunctionVerdict::kUnknown) > 0 ||
      comparison.Count(FunctionVerdict::kNotComparable) > 0) {
    return Outcome::kCannotTell;
  }
  for (const ComparedRow& row : comparison.rows) {
    const bool perhaps_slower = row.fails_more || row.in_doubt || row.uncertain ||
                                (row.ratio.has_value() && *row.ratio > 1 + options.min_effect);
    if (row.verdict == FunctionVerdict::kCannotTell && perhaps_slower) return Outcome::kCannotTell;
  }
  return comparison.shared_captures > 0 ? Outcome::kTooLittleData : Outcome::kNoRegression;
}

// The largest slowdown first; without a verdict the largest change.
double Badness(const ComparedRow& row) {
  const double ratio = row.ratio.value_or(0);
  const bool either = row.verdict == FunctionVerdict::kTooLittleData && ratio > 0;
  return either ? std::max(ratio, 1 / ratio) : ratio;
}

void Summarize(Comparison* comparison) {
  using enum FunctionVerdict;
  static constexpr FunctionVerdict kWorstFirst[] = {
      kSlower,        kFailed,   kUnknown,  kCannotTell, kTooLittleData,
      kNotComparable, kOnlyBase, kOnlyHead, kFaster,     kSame};
  bool unbounded = false;
  for (const ComparedRow& row : comparison->rows) {
    if (!row.ratio.has_value()) continue;
    ++comparison->compared;
    unbounded |= !row.mde.has_value();
    if (row.mde.has_value()) {
      comparison->largest_mde = std::max(comparison->largest_mde.value_or(0), *row.mde);
    }
  }
  if (unbounded) comparison->largest_mde = std::nullopt;
  std::ranges::stable_sort(comparison->rows, {}, [](const ComparedRow& row) {
    return std::pair(std::ranges::find(kWorstFirst, row.verdict), -Badness(row));
  });
}

// Counts the captures of base that are also in head. They cannot show a change.
uint64_t CountShared(const Captures& captures, std::vector<std::string>* notes) {
  constexpr uint64_t kMaxNotes = 3;
  std::set<std::string> noted;  // each summary once
  uint64_t shared = 0;
  for (const Measurements& one : captures[kBase]) {
    const auto other = std::ranges::find_if(
        captures[kHead], [&](const Measurements& head) { return compare::SameCapture(one, head); });
    if (other == captures[kHead].end()) continue;
    ++shared;
    if (noted.size() == kMaxNotes || !noted.insert(one.source + other->source).second) continue;
    notes->push_back(
        absl::StrCat(one.source == other->source
                         ? absl::StrCat(one.source, " is compared with itself")
                         : absl::StrCat(other->source, " is the same capture as ", one.source),
                     ", so it cannot show a change"));
  }
  return shared;
}

// A capture that is compared with itself cannot show a change, so no row may be called the same.
void RefuseShared(std::vector<ComparedRow>* rows) {
  for (ComparedRow& row : *rows) {
    if (row.verdict == FunctionVerdict::kSame) row.verdict = FunctionVerdict::kTooLittleData;
  }
}

// `filters`: the text of PassesFilters().
absl::Status NothingCompared(const Comparison& comparison, const std::string& filters) {
  if (comparison.rows.empty()) {
    return FailedPrecondition(comparison.base_sources[0], " and ", comparison.head_sources[0],
                              ": no function has runs", filters,
                              "; xplane-time functions lists the functions of each");
  }
  std::string why = "they have no function in common";
  for (const ComparedRow& row : comparison.rows) {
    if (!row.reason.empty()) {
      why = absl::StrCat(row.function, ": ", row.reason);
      break;
    }
  }
  return FailedPrecondition(
      comparison.base_sources[0], " and ", comparison.head_sources[0],
      ": nothing to compare: ", why,
      "; xplane-time functions lists the functions of each, --by-id compares by variant id");
}

}  // namespace

uint64_t Comparison::Count(FunctionVerdict verdict) const {
  return static_cast<uint64_t>(std::ranges::count(rows, verdict, &ComparedRow::verdict));
}

absl::StatusOr<Comparison> Compare(std::span<const Measurements> base,
                                   std::span<const Measurements> head,
                                   const CompareOptions& options) {
  if (base.empty() || head.empty()) {
    return InvalidArgument("give at least one capture of base and one of head");
  }
  RETURN_IF_ERROR(CheckOptions(base, head, options));
  Comparison comparison;
  comparison.options = options;
  for (const Measurements& capture : base) comparison.base_sources.push_back(capture.source);
  for (const Measurements& capture : head) comparison.head_sources.push_back(capture.source);
  RETURN_IF_ERROR(
      compare::CheckMeasuredAlike(base, head, options.allow_mismatch, &comparison.notes));
  const Captures captures = {base, head};
  comparison.shared_captures = CountShared(captures, &comparison.notes);
  const compare::ClockSteps steps = compare::FindClockSteps(base, head);
  std::vector<Difference> differences;  // by row
  for (const auto& [key, sides] : MatchSeries(captures, &comparison.notes)) {
    comparison.rows.push_back(MakeRow(sides, options, steps, &differences.emplace_back()));
  }
  RefuseUnequalPrograms(&comparison.rows);
  RefuseOtherDevices(&comparison.rows);
  Judge(differences, options, &comparison.rows);
  if (comparison.shared_captures > 0) RefuseShared(&comparison.rows);
  if (std::ranges::any_of(differences, &Difference::assumed)) {
    comparison.notes.push_back(absl::StrCat(
        "with fewer than 3 captures a side, the deviation between processes is unknown and assumed "
        "to be ",
        kUsualSpread * 100, " % (std); if you know it, give --offset-std"));
  }
  Summarize(&comparison);
  if (comparison.compared == 0 && comparison.Count(FunctionVerdict::kUnknown) == 0) {
    if (comparison.Count(FunctionVerdict::kFailed) == 0) {
      return NothingCompared(comparison, compare::PassesFilters(base[0]));
    }
    comparison.outcome = Outcome::kAllFailed;
    return comparison;
  }
  comparison.outcome = OutcomeOf(comparison, options);
  if (comparison.outcome == Outcome::kTooLittleData) {
    comparison.kernels = KernelChanges(captures);
  }
  return comparison;
}

std::string_view QuestionName(CapturesNeeded::Question question) {
  return question == CapturesNeeded::Question::kChange ? "change" : "no_change";
}

std::string_view OutcomeName(Outcome outcome, Objective objective) {
  using enum Outcome;
  if (outcome == kSlower && objective == Objective::kEnergy) return "more";
  constexpr std::pair<Outcome, std::string_view> kNames[] = {{kNoRegression, "no_regression"},
                                                             {kSlower, "slower"},
                                                             {kCannotTell, "cannot_tell"},
                                                             {kTooLittleData, "too_little_data"},
                                                             {kAllFailed, "all_failed"}};
  return std::ranges::find(kNames, outcome, &std::pair<Outcome, std::string_view>::first)->second;
}

}  // namespace xplane_time
