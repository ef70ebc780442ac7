// Trace commands: the option groups of all that read traces, and the way from a trace to a text. A
// command takes the groups that its constructor adds; nothing else says so.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "command.h"
#include "xplane_time/diagnostics.h"
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

class TraceCommand : public Command {
 public:
  absl::Status Check() override;
  void NameFiles(FileRoles* files) const override;

 protected:
  // Option groups, beside those that all have.
  struct Takes {
    bool traces = true;       // TRACE
    bool executions = false;  // filters of functions and kernels, --clock, --unit
    bool tolerance = false;
    bool runs = false;  // --metric, --trim, ...
    bool sort = false;
    bool columns = true;
    bool decides = false;  // more formats, no progress
  };
  TraceCommand(CLI::App* app, const Takes& takes);
  void AddTraces();
  // Of this command alone.
  Heading Own() const { return {app_, kOwn}; }

  // What all commands check that read traces or results.
  absl::Status CheckLayout();
  // What the options are that change a number, or which rows there are, beside the trace itself.
  virtual std::vector<GivenOption> OwnGiven() const { return {}; }
  // Whose columns --columns chooses from.
  virtual std::string columns_of() const { return app_->get_name(); }

  // Bad filters need no reading.
  absl::Status CheckFilters() const;
  absl::StatusOr<Opened> Open() const;
  // Tells what formats without diagnostics do not: hosts that were left out.
  void WarnOfLeftOut(const std::vector<DiagnosticRow>& rows) const;
  // BuildReport; filters that leave nothing are an error here.
  absl::StatusOr<Report> MakeReport(const Opened& opened) const;

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

// Reads a trace, and prints one text.
class TextCommand : public TraceCommand {
 public:
  absl::StatusOr<int> Run() override;

 protected:
  using TraceCommand::TraceCommand;
  virtual absl::StatusOr<std::string> Text(const Opened& opened) = 0;
};

// By the definition of an earlier tool where `compat`, or --compat, names one; cmd_compat.cc.
class CompatibleCommand : public TextCommand {
 public:
  absl::Status Check() override;
  std::string schema() const override { return tool_.empty() ? app_->get_name() : "compat"; }

 protected:
  using TextCommand::TextCommand;
  void AddCompat();  // --compat
  absl::StatusOr<std::string> Text(const Opened& opened) final;

  // Without a tool: which options would be ignored beside others, and the text.
  virtual absl::Status CheckOwn() const = 0;
  virtual absl::StatusOr<std::string> OwnText(const Opened& opened) = 0;
  // --metric, where nothing looks at it.
  absl::Status CheckMetricOfCsv() const;

  std::string tool_;  // empty: none
};

// Compare and pick: what they decide on are traces and results of several kinds.
class DecisionCommand : public TraceCommand {
 protected:
  explicit DecisionCommand(CLI::App* app, bool traces)
      : TraceCommand(app, {.traces = traces, .executions = true, .runs = true, .decides = true}) {}
  absl::Status CheckTop() const;
  MeasureOptions Measuring() const;
};

}  // namespace xplane_time::tools
