// Option facts: what the times of a capture were made with, and whether an input can follow the
// options of this command.
//
//   a trace, --kernel tanh                       {"kernel", "tanh"}
//   report.json that was written with it         {"kernel", "tanh"}, without and with --kernel tanh
//   report.json that was written without it      InvalidArgument with --kernel tanh: runs are whole
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/measurements.h"

namespace xplane_time::compare {

// By name, as results record them: {"kernel", "tanh"}.
using OptionValues = std::map<std::string, std::string>;

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

// Mismatch: whether captures were measured in the same way.

// A fact or an option with two values among the captures of both sides is an error (a note where
// `allowed`); a fact that some captures do not tell, and a label with two values, are notes.
// Errors: FailedPrecondition.
absl::Status CheckMeasuredAlike(std::span<const Measurements> base,
                                std::span<const Measurements> head, bool allowed,
                                std::vector<std::string>* notes);

}  // namespace xplane_time::compare
