// Inputs: each kind of input to Measurements, and what is done with the series of a capture.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "timing/filters.h"
#include "xplane_time/measurements.h"
#include "xplane_time/pick.h"
#include "xplane_time/report.h"

namespace xplane_time::compare {

// Whether what a path holds, energies or times, is what is asked for. Errors: FailedPrecondition.
absl::Status CheckObjective(const std::string& path, bool holds_energies, Objective objective);

// The producer's name for a device's model, else what tells models apart; empty: not told.
std::string ModelOf(const Plane& plane);

// Whether the bytes begin a JSON object. A trace may begin with a line feed and a brace.
bool LooksLikeJson(std::string_view content);
// Whether a regular file begins so, and is no trace of PyTorch.
bool IsJsonOfMeasurements(const std::string& path);
// Google Benchmark's, or our own: a result with samples (of several captures it gives as many), a
// result of energies, or a tuning session, whose variants are functions and whose ratios within
// rounds are not used: two sides have no rounds in common.
absl::StatusOr<std::vector<Measurements>> FromJson(const std::string& path,
                                                   std::string_view content,
                                                   const MeasureOptions& options);

// A fleet's summary (fleet.h): a set a host; of one host alone, one a capture.
absl::StatusOr<std::vector<Measurements>> FromSummary(const std::string& path,
                                                      std::string_view bytes,
                                                      const MeasureOptions& options);

// With start times, or of energies, no two captures agree in every sample; without them (Google
// Benchmark) only the same file does so by more than chance.
bool SameCapture(const Measurements& a, const Measurements& b);

// The rows of one capture (samples, functions, kernels) become series, kernels and notes.
void AddRows(const Report& report, const Filters& filters, const MeasureOptions& options,
             Measurements* out);

// A function over all devices of its capture: the time of a run is that of its slowest device.
//
//   GPU:0   |--run 0--|   |--run 1--|       |--run 2--|
//   GPU:1   |-run 0-|     |---run 1---|     left out       run 2 does not count
//
// The k-th run on each device is one run if all devices have equally many runs and those that count
// overlap. A run that is left out on one device is left out. Otherwise the function has no samples
// and an `obstacle`. So has a function that ran on other devices than most functions of the
// capture: times of other sets of devices are not comparable. If one device ran everything, series
// stay as they are.
std::vector<Series> SlowestDevice(std::span<const Series> series);

// Option facts: what the times of a capture were made with, and whether an input can follow the
// options of this command.
//
//   a trace, --kernel tanh                       {"kernel", "tanh"}
//   report.json that was written with it         {"kernel", "tanh"}, without and with --kernel tanh
//   report.json that was written without it      InvalidArgument with --kernel tanh: runs are whole

// By name, as results record them: {"kernel", "tanh"}.
using OptionValues = std::map<std::string, std::string>;

OptionValues ValuesOf(const ReportOptions& options);

// Of a trace, which follows all options.
std::vector<Fact> OptionFacts(const ReportOptions& options);

// Of an input that follows only those in `followed`. Errors: InvalidArgument: another is given.
absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, std::string_view kind,
                                              const ReportOptions& options,
                                              std::initializer_list<std::string_view> followed);

// Of one of our results: `recorded` are the options that it was written with. What is left to be
// done for its samples stays in `options`. Errors: InvalidArgument: as above.
absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, OptionValues recorded,
                                              ReportOptions* options);

// The filters that were given, for messages: " and passes --function, --scope"; empty: none.
std::string PassesFilters(const Measurements& capture);

// Mismatch: whether captures were measured in the same way.

// A fact or an option with two values among the captures of both sides is an error (a note where
// `allowed`); a fact that some captures do not tell, and a label with two values, are notes.
// Errors: FailedPrecondition.
absl::Status CheckMeasuredAlike(std::span<const Measurements> base,
                                std::span<const Measurements> head, bool allowed,
                                std::vector<std::string>* notes);

}  // namespace xplane_time::compare
