#include "cmd_power_run.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "commands.h"
#include "earlier_tools/power_run_result_json.h"
#include "output/text.h"
#include "stop_signals.h"

namespace xplane_time::tools {
namespace {

constexpr int kExitAllFailed = 20, kExitNoCommand = 69, kExitCannotWrite = 73, kExitStopped = 75;

volatile std::sig_atomic_t stop_signal = 0;

void OnStopSignal(int signal) { stop_signal = signal; }

// "about 2 min left".
std::string LeftText(double seconds) {
  const auto [unit_s, unit] = seconds < 100       ? std::pair(1.0, "s")
                              : seconds < 6'000   ? std::pair(60.0, "min")
                              : seconds < 360'000 ? std::pair(3'600.0, "h")
                                                  : std::pair(86'400.0, "days");
  return absl::StrFormat("about %.0f %s left", std::max(1.0, seconds / unit_s), unit);
}

// A bar on a terminal, lines elsewhere; failures are lines on both.
class Progress : public PowerRunWatcher {
 public:
  explicit Progress(const PowerRunCommand& command)
      : quiet_(command.quiet || command.progress == "never"), live_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() override { Erase(); }

  void OnRecord(const RunResult& result, uint64_t done, uint64_t of) override {
    if (quiet_) return;
    if (result.answer.status != "ok") {
      Erase();
      const std::string message = output::Printable(power::BriefMessage(result.answer.message));
      std::fprintf(
          stderr, "index %llu: %s: %s\n", static_cast<unsigned long long>(result.record.index),
          result.answer.status.c_str(), output::ShortenMiddle(message, 300, "...").c_str());
    }
    ++asked_;
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::milliseconds least(live_ ? 100 : 10'000);
    if (done < of && now - last_ < least) return;
    last_ = now;
    std::string text = absl::StrCat(done, " of ", of, " queries");
    if (done < of) {  // those that were there already took no time
      const std::chrono::duration<double> each = (now - begun_) / asked_;
      absl::StrAppend(&text, ", ", LeftText(each.count() * static_cast<double>(of - done)));
    }
    if (!live_) {
      std::fprintf(stderr, "%s\n", text.c_str());
      return;
    }
    constexpr uint64_t kWidth = 30;
    const auto filled = static_cast<size_t>(done * kWidth / of);
    std::fprintf(stderr, "\r\x1b[K|%s%s| %s", std::string(filled, '#').c_str(),
                 std::string(kWidth - filled, ' ').c_str(), text.c_str());
    std::fflush(stderr);
    drawn_ = true;
  }

 private:
  void Erase() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
    drawn_ = false;
  }

  bool quiet_, live_, drawn_ = false;
  int64_t asked_ = 0;  // by this run
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = {};
};

bool ConfirmOverwrite(const std::string& directory) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return false;
  std::fprintf(stderr, "%s is there already. Throw it away? [y/N] ", directory.c_str());
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

std::string ConfigJson(const PowerRunCommand& command) {
  nlohmann::ordered_json config = {
      {"records", command.records_path}, {"command", command.command},
      {"model", command.model},          {"dataset", command.dataset},
      {"timeout_s", command.timeout_s},  {"most_failures", command.most_failures},
      {"sources", command.from.sources}, {"output_dir", command.output_root}};
  config["max_queries"] = command.max_queries.has_value()
                              ? nlohmann::ordered_json(*command.max_queries)
                              : nlohmann::ordered_json();
  return config.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

PowerRunOptions OptionsOf(const PowerRunCommand& command) {
  PowerRunOptions options;
  options.model = command.model;
  options.dataset = command.dataset;
  options.output_root = command.output_root;
  options.max_queries = command.max_queries;
  options.overwrite = command.overwrite;
  options.resume = command.resume;
  options.retry_failed = command.retry_failed;
  options.confirm_overwrite = ConfirmOverwrite;
  options.stopped = [] { return stop_signal != 0; };
  options.config_json = ConfigJson(command);
  return options;
}

std::string EnergyText(const char* name, const PowerRunTotals::Energy& energy) {
  if (energy.known == 0) return absl::StrCat(name, " energy  unknown\n");
  std::string text = absl::StrFormat("%s energy  %.3f J", name, energy.joules);
  if (energy.unbounded == 0) {
    absl::StrAppendFormat(&text, " (%.3f to %.3f)", energy.lo_joules, energy.hi_joules);
  }
  if (energy.unknown > 0) absl::StrAppend(&text, ", unknown for ", energy.unknown, " queries");
  if (energy.partial > 0) {
    absl::StrAppend(&text, ", of ", energy.partial,
                    " queries without what may not be read (xplane-time power sources)");
  }
  if (energy.useless > 0) {
    absl::StrAppend(&text, ", useless for ", energy.useless,
                    " (bounds further apart than the energy)");
  }
  return text + "\n";
}

// `before`: records kept when the run began.
std::string SummaryText(const RunDirectory& directory, const PowerRunOutcome& outcome,
                        uint64_t before) {
  const PowerRunTotals& totals = directory.totals();
  std::string text = absl::StrCat(output::Printable(directory.path()), "\n", totals.records,
                                  " queries kept, ", totals.failed, " failed");
  if (before > 0) absl::StrAppend(&text, "; ", before, " were there already");
  if (!outcome.stop_reason.empty()) absl::StrAppend(&text, "; ended early");
  if (totals.failed > 0) absl::StrAppend(&text, "\n--resume --retry-failed asks the failed again");
  absl::StrAppend(&text, "\n", EnergyText("GPU", totals.gpu), EnergyText("CPU", totals.cpu));
  const bool one = totals.all.joules == totals.gpu.joules || totals.all.joules == totals.cpu.joules;
  return one ? text : text + EnergyText("all", totals.all);
}

int FailRun(const absl::Status& status) {
  const int code = Fail(status);
  if (absl::IsInternal(status)) return kExitCannotWrite;
  return absl::IsUnavailable(status) ? kExitNoCommand : code;
}

int Finish(const PowerRunCommand& command, const RunDirectory& directory,
           const PowerRunOutcome& outcome, uint64_t before) {
  int written = 0;
  if (command.format == "json") {
    written = WriteText("", directory.SummaryJson(outcome.stop_reason) + "\n");
  } else if (!command.quiet) {
    written = WriteText("", SummaryText(directory, outcome, before));
  }
  if (absl::IsCancelled(outcome.stopped_by)) {
    std::fputs("xplane-time: interrupted; --resume goes on\n", stderr);
    return kExitStopped;
  }
  if (!outcome.stopped_by.ok()) {
    Fail(outcome.stopped_by);
    return kExitNoCommand;
  }
  if (written != 0) return written;
  const PowerRunTotals& totals = directory.totals();
  return totals.records > 0 && totals.failed == totals.records ? kExitAllFailed : 0;
}

}  // namespace

int RunPowerRun(const PowerRunCommand& command, const TelemetryFactory& telemetry_of) {
  auto source = OpenJsonLinesSource(command.records_path);
  if (!source.ok()) return Fail(source.status());
  const PowerRunOptions options = OptionsOf(command);
  OnStopSignals(OnStopSignal);
  CommandClient client(
      {.command = command.command,
       .model = command.model,
       .timeout = std::chrono::milliseconds(static_cast<int64_t>(command.timeout_s * 1000)),
       .most_failures = command.most_failures,
       .stopped = options.stopped});
  if (absl::Status status = client.Start(); !status.ok()) {
    if (absl::IsCancelled(status)) return kExitStopped;
    Fail(status);
    return kExitNoCommand;
  }
  auto telemetry = telemetry_of(command, client.pid());
  if (!telemetry.ok()) {
    const int code = Fail(telemetry.status());
    return absl::IsFailedPrecondition(telemetry.status()) ? kExitNoCommand : code;
  }
  const RunHardware hardware = PrimeHardware(telemetry->get(), options.stopped);
  auto directory = RunDirectory::Open(options, (*source)->sha256(), hardware);
  if (!directory.ok()) return FailRun(directory.status());
  const uint64_t before = (*directory)->totals().records;
  absl::StatusOr<PowerRunOutcome> outcome;
  {
    Progress progress(command);
    outcome =
        RunPower(options, source->get(), &client, telemetry->get(), directory->get(), &progress);
  }
  client.Finish();
  if (!outcome.ok()) return FailRun(outcome.status());
  return Finish(command, **directory, *outcome, before);
}

}  // namespace xplane_time::tools
