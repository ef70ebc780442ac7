// Trace commands: the option groups of all that read traces, and the way from a trace to a text. A
// command takes the groups that its constructor adds; nothing else says so.
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

// An opened trace, and what was counted while opening it.
struct Opened {
  Trace trace;
  Diagnostics diagnostics;
};

// A line on standard error.
void Warn(const DiagnosticRow& row);

// BASE and HEAD, or several of each by name.
class TwoSides {
 public:
  // `what`: what each is.
  void AddTo(CLI::App* app, const std::string& what);
  void NameFiles(const FindOptions& find, FileRoles* files) const;
  // Errors: InvalidArgument. `command`: that of the help.
  absl::Status Check(std::string_view command) const;
  // --offset-std and --paired: how the captures of both sides belong together.
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
  // Option groups, beside those that all have.
  struct Takes {
    bool traces = true;       // TRACE
    bool executions = false;  // filters of functions and kernels, --clock, --unit
    bool categories = false;  // --collective-re, --copy-re: the command shows categories
    bool unit = false;        // of executions' options, --unit alone
    bool tolerance = false;
    bool runs = false;  // --metric, --trim, ...
    std::string_view sort = {};  // --sort: its keys, for the help
    bool rows = true;  // --top, --wide
    bool columns = true;
    bool decides = false;  // more formats, no progress
    bool progress = true;
    bool streams = false;  // rows that are nowhere all at once: fewer formats
    bool perfetto = false;
    bool formats = true;  // else a file of its own kind
  };
  TraceCommand(CLI::App* app, const Takes& takes);
  void AddCategories();
  void AddTraces();
  // --step-re, of commands that report steps.
  void AddStepNames();
  // Of this command alone.
  Heading Own() const { return {app_, kOwn}; }

  // What all commands check that read traces or results.
  absl::Status CheckLayout();
  // Whose columns --columns chooses from.
  virtual std::string columns_of() const { return app_->get_name(); }

  // Bad filters need no reading.
  absl::Status CheckFilters() const;
  // Those of names, as they are on the line: "--function, --scope"; empty: none.
  std::string GivenFilters() const;
  absl::StatusOr<Opened> Open() const;
  // What `read(&events_done)` finds; meanwhile it is shown how far that is.
  template <typename Read>
  auto WithProgress(const Opened& opened, Read read) const {
    std::atomic<uint64_t> events_done{0};
    const ReadingProgress progress(printing_, opened.trace.event_count, &events_done);
    return read(&events_done);
  }
  bool prints_perfetto() const { return printing_.how.format == output::Format::kPerfetto; }
  // As a Perfetto trace, to where -o says; `energy`: none where power is no subject. Returns exit
  // code 0.
  absl::StatusOr<int> PrintPerfetto(const Opened& opened, const EnergyReport* energy) const;
  absl::StatusOr<int> PrintPerfetto(insight::Timeline timeline, const EnergyReport* energy,
                                    std::span<const InputRow> inputs) const;
  // Tells what formats without diagnostics do not: hosts that were left out.
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
