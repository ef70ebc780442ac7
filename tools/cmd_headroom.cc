// headroom: the time of each op that could be saved, by a roofline.
#include <atomic>
#include <utility>
#include <vector>

#include "no_match.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/headroom.h"

namespace xplane_time::tools {
namespace {

// Parses "989e12" or "989T": a number with an optional unit prefix.
absl::StatusOr<std::optional<double>> ParsePeak(const std::string& text, double most) {
  constexpr std::string_view kPrefixes = "kMGTPE";
  double factor = 1;
  std::string_view digits = text;
  if (const size_t at = text.empty() ? kPrefixes.npos : kPrefixes.find(text.back());
      at != kPrefixes.npos) {
    for (size_t i = 0; i <= at; ++i) factor *= 1000;
    digits.remove_suffix(1);
  }
  const std::optional<double> number = NumberOf(digits);
  if (!number.has_value())
    return InvalidArgument("'", text, "' is not a number such as 989e12 or 989T");
  const double peak = *number * factor;
  if (!(peak >= kLeastPeak && peak <= most)) {
    return InvalidArgument("'", text, "' is outside the range of plausible peaks per second, ",
                           kLeastPeak, " to ", most);
  }
  return std::optional(peak);
}

class Headroom : public TraceCommand {
 public:
  explicit Headroom(CLI::App* app) : TraceCommand(app, {.executions = true, .categories = true}) {
    const Heading own = Own();
    own.Parsed(
        "--peak-flops", &headroom_.peak_flops_per_s, "N",
        "Peak FLOP/s of the devices, such as 989T (default: from the trace, or a table of GPUs)",
        [](const std::string& text) { return ParsePeak(text, kMostPeakFlops); });
    own.Parsed(
        "--peak-bandwidth", &headroom_.peak_bytes_per_s, "N",
        "Peak bandwidth of the main memory in bytes/s, such as 3.35T (default: from the trace)",
        [](const std::string& text) { return ParsePeak(text, kMostPeakBytes); });
    own.Value("--work", &work_path_, "FILE",
              "JSON file with FLOPs and bytes per execution of custom kernels: {\"work\": "
              "[{\"kernel\": \"NAME\", \"flops\": 8.6e9, \"bytes\": 3.3e7}]}");
  }

  absl::Status Check() override {
    files_.Reads("--work", work_path_);
    return TraceCommand::Check();
  }

  absl::StatusOr<int> Run() override {
    if (!work_path_.empty()) {
      ASSIGN_OR_RETURN(headroom_.work, ReadWork(work_path_));
    }
    ASSIGN_OR_RETURN(const Opened opened, Open());
    RecordOptions();
    headroom_.select = report_;
    const auto report = WithProgress(opened, [&](std::atomic<uint64_t>* events_done) {
      headroom_.select.events_done = events_done;
      return BuildHeadroom(opened.trace, headroom_, opened.diagnostics);
    });
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    if (!GivenFilters().empty() && report->ops.empty()) {
      return NothingMatches(opened.trace, opened.diagnostics, report_, GivenFilters());
    }
    return Print(output::HeadroomOutput(*report, printing_.how));
  }

 private:
  void RecordOptions() {
    std::vector<GivenOption>& given = printing_.how.given;
    given = GivenOptions(report_);
    for (const auto& [option, name] :
         {std::pair("--peak-flops", "peak_flops"), std::pair("--peak-bandwidth", "peak_bandwidth"),
          std::pair("--work", "work")}) {
      if (!Given(*app_, option)) continue;
      given.push_back({name, app_->get_option(option)->results().back()});
    }
    if (printing_.how.top.has_value()) {
      given.push_back({"top", static_cast<int64_t>(*printing_.how.top)});
    }
  }

  HeadroomOptions headroom_;
  std::string work_path_;
};

}  // namespace

void AddHeadroom(CommandLine* line) {
  line->Add<Headroom>({"headroom", "Estimate the recoverable time of each op with a roofline",
                       R"(  xplane-time headroom trace.xplane.pb --top 10
  xplane-time headroom trace.xplane.pb --function jit_train --format json
  xplane-time headroom trace.xplane.pb --peak-flops 989T --peak-bandwidth 3.35T
  xplane-time headroom trace.xplane.pb --work work.json
)"});
}

}  // namespace xplane_time::tools
