// Inputs: conversion of each kind of input to Measurements, and operations on the series of a
// capture.
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

// Checks that the content of a path (energies or times) matches the objective. Errors:
// FailedPrecondition.
absl::Status CheckObjective(const std::string& path, bool holds_energies, Objective objective);

// The producer's name of a device's model, else properties that distinguish models; empty: unknown.
std::string ModelOf(const Plane& plane);

// Whether the bytes begin a JSON object. A trace may also begin with a line feed and a brace.
bool LooksLikeJson(std::string_view content);
// Whether a regular file begins like this and is not a trace of PyTorch.
bool IsJsonOfMeasurements(const std::string& path);
// Reads JSON: of Google Benchmark, a result with samples (one set per capture in it), a result of
// energies, or a tuning session. In a tuning session, variants become functions. Ratios within
// rounds are not used there, because two sides have no common rounds.
absl::StatusOr<std::vector<Measurements>> FromJson(const std::string& path,
                                                   std::string_view content,
                                                   const MeasureOptions& options);

// Reads a fleet's summary (fleet.h): one set per host, or one per capture if there is a single
// host.
absl::StatusOr<std::vector<Measurements>> FromSummary(const std::string& path,
                                                      std::string_view bytes,
                                                      const MeasureOptions& options);

// Whether two captures are the same. With start times, or for energies, two different captures
// never agree in every sample. Without start times (Google Benchmark) only the same file counts as
// the same.
bool SameCapture(const Measurements& a, const Measurements& b);

// Converts the rows of one capture (samples, functions, kernels) to series, kernels and notes.
void AddRows(const Report& report, const Filters& filters, const MeasureOptions& options,
             Measurements* out);

// Combines the series of a function over all devices of its capture: the time of a run is the time
// of its slowest device.
//
//   GPU:0   |--run 0--|   |--run 1--|       |--run 2--|
//   GPU:1   |-run 0-|     |---run 1---|     left out       run 2 does not count
//
// The k-th runs on all devices are one run if all devices have the same number of runs and the runs
// that count overlap. A run that is left out on one device is left out on all. Otherwise the
// function has no samples and an `obstacle`. It also has an obstacle if it ran on other devices
// than most functions of the capture, because times of different sets of devices are not
// comparable. If one device executed everything, the series do not change.
std::vector<Series> SlowestDevice(std::span<const Series> series);

// Option facts: the options with which the times of a capture were made, and a check whether an
// input supports the options of this command.
//
//   a trace, --kernel tanh                       {"kernel", "tanh"}
//   report.json that was written with it         {"kernel", "tanh"}, without and with --kernel tanh
//   report.json that was written without it      InvalidArgument with --kernel tanh: runs are whole

// Options by name, as results record them: {"kernel", "tanh"}.
using OptionValues = std::map<std::string, std::string>;

OptionValues ValuesOf(const ReportOptions& options);

// For a trace, which supports all options.
std::vector<Fact> OptionFacts(const ReportOptions& options);

// For an input that supports the options in `followed` only. Errors: InvalidArgument (another
// option was given).
absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, std::string_view kind,
                                              const ReportOptions& options,
                                              std::initializer_list<std::string_view> followed);

// For one of our results, which was written with the options `recorded`. Options that still have to
// be applied to its samples remain in `options`. Errors: InvalidArgument, as above.
absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, OptionValues recorded,
                                              ReportOptions* options);

// The given filters for messages: " and passes --function, --scope"; empty: no filters.
std::string PassesFilters(const Measurements& capture);

// Mismatch: checks whether captures were measured in the same way.

// If a fact or an option has two values among the captures of both sides, that is an error (with
// `allowed`, a note). A fact that some captures lack, and a label with two values, give notes.
// Errors: FailedPrecondition.
absl::Status CheckMeasuredAlike(std::span<const Measurements> base,
                                std::span<const Measurements> head, bool allowed,
                                std::vector<std::string>* notes);

}  // namespace xplane_time::compare
