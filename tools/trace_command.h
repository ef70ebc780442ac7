// Trace commands: the option groups of all commands that read traces, and the steps from a trace to
// a text. A command has the groups that its constructor adds.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "command.h"
#include "insight/timeline.h"
#include "progress.h"
#include "xplane_time/compare.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/energy.h"
#include "xplane_time/measurements.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"

namespace xplane_time::tools {

// An opened trace, and the diagnostics of opening it.
struct Opened {
  Trace trace;
  Diagnostics diagnostics;
};

// Prints a line on standard error.
void Warn(const DiagnosticRow& row);

// BASE and HEAD, or several of each by name.
class TwoSides {
 public:
  // `what` describes a side in the help.
  void AddTo(CLI::App* app, const std::string& what);
  void NameFiles(const FindOptions& find, FileRoles* files) const;
  // Errors: InvalidArgument; NotFound (a side is a folder of captures). `command` is the name in
  // the help.
  absl::Status Check(std::string_view command, const FindOptions& find) const;
  // --offset-std and --paired: how the captures of both sides are combined.
  static void AddCaptures(const Heading& decision, CompareOptions* options);

  std::vector<std::string> base() const {
    return both_.empty() ? base_ : std::vector(both_.begin(), both_.begin() + 1);
  }
  std::vector<std::string> head() const {
    return both_.empty() ? head_ : std::vector(both_.begin() + 1, both_.end());
  }

 private:
  std::vector<std::string> both_, base_, head_;
};

class TraceCommand : public Command {
 public:
  absl::Status Check() override;

 protected:
  // Option groups, in addition to those that all trace commands have.
  struct Takes {
    bool traces = true;       // TRACE
    bool executions = false;  // filters of functions and kernels, --clock, --unit
    bool categories = false;  // --collective-re, --copy-re: the command shows categories
    bool unit = false;        // only --unit of the options for executions
    bool tolerance = false;
    bool runs = false;  // --metric, --trim, ...
    std::string_view sort = {};  // --sort: its keys, for the help
    bool rows = true;  // --top, --wide
    bool columns = true;
    bool decides = false;  // more formats, no progress
    bool progress = true;
    bool streams = false;  // rows are never complete in memory: fewer formats
    bool perfetto = false;
    bool formats = true;  // false: a file of its own kind
  };
  TraceCommand(CLI::App* app, const Takes& takes);
  void AddCategories();
  void AddTraces();
  // --step-re, for commands that report steps.
  void AddStepNames();
  // The heading for options of this command alone.
  Heading Own() const { return {app_, kOwn}; }

  // Checks common to all commands that read traces or results.
  absl::Status CheckLayout();
  // The schema that --columns chooses from.
  virtual std::string columns_of() const { return app_->get_name(); }

  // Checks the filters before reading.
  absl::Status CheckFilters() const;
  // The given name filters, such as "--function, --scope"; may be empty.
  std::string GivenFilters() const;
  absl::StatusOr<Opened> Open() const;
  // Returns the result of `read(&events_done)`, and shows the progress meanwhile.
  template <typename Read>
  auto WithProgress(const Opened& opened, Read read) const {
    std::atomic<uint64_t> events_done{0};
    const ReadingProgress progress(printing_, opened.trace.event_count, &events_done);
    return read(&events_done);
  }
  bool prints_perfetto() const { return printing_.how.format == output::Format::kPerfetto; }
  // Writes a Perfetto trace to the file of -o; `energy` is null if power is not requested. Returns
  // exit code 0.
  absl::StatusOr<int> PrintPerfetto(const Opened& opened, const EnergyReport* energy) const;
  absl::StatusOr<int> PrintPerfetto(insight::Timeline timeline, const EnergyReport* energy,
                                    std::span<const InputRow> inputs) const;
  // Reports skipped hosts, for formats without diagnostics.
  void WarnOfLeftOut(const std::vector<DiagnosticRow>& rows) const;

  std::vector<std::string> traces_;
  FindOptions find_;
  ReadOptions read_;
  ReportOptions report_;

 private:
  void AddReading();
  void AddFilters();
  void AddTime(const Takes& takes);
  void AddPrinting(const Takes& takes);

  std::string columns_;
};

}  // namespace xplane_time::tools
