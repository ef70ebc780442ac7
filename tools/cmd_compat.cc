// compat: the numbers of an earlier tool, by its own definition; --compat of other commands too.
#include <vector>

#include "absl/strings/str_cat.h"
#include "commands.h"
#include "output/results.h"
#include "status.h"
#include "timing/filters.h"
#include "trace_command.h"
#include "xplane_time/compat.h"

namespace xplane_time::tools {
namespace {

const std::vector<std::string> kTools = {"ejkernel", "tune-jax", "xprof"};

compat::Tool ToolOf(const std::string& name) {
  return name == "ejkernel"   ? compat::Tool::kEjkernel
         : name == "tune-jax" ? compat::Tool::kTuneJax
                              : compat::Tool::kXprof;
}

// What the tools have not, or not all of them.
absl::Status RefuseMeaningless(const CLI::App& app, const std::string& tool,
                               const std::string& why) {
  RETURN_IF_ERROR(
      Refuse(app,
             {"--function", "--exclude", "--scope", "--id-pattern", "--metric", "--clock", "--trim",
              "--skip-runs", "--tolerance", "--sort", "--samples", "--by-id", "--reader"},
             why));
  if (tool != "ejkernel") RETURN_IF_ERROR(Refuse(app, {"--min-duration", "--max-events"}, why));
  RETURN_IF_ERROR(Refuse(app, {tool == "xprof" ? "--prefix" : "--top"}, why));
  return Refuse(app, {"--columns"}, why);
}

class Compat : public CompatibleCommand {
 public:
  explicit Compat(CLI::App* app) : CompatibleCommand(app, {.traces = false, .columns = false}) {
    app->add_option("TOOL", tool_, "ejkernel, tune-jax or xprof")->check(CLI::IsMember(kTools));
    AddTraces();
    app->remove_option(app->get_option("--reader"));  // they read by their own rules
    app->get_option("--device")
        ->type_name("WORD")
        ->description("In the names of planes [gpu, tpu or cpu, the first that is there]");
    const Heading select(app, kSelect);
    select.Value("--kernel", &report_.kernel, "RE", "Which nested events count");
    select.Value("--prefix", &report_.prefix, "TEXT",
                 "Not xprof: only events whose name starts so [jit_]");
    select.Parsed("--min-duration", &report_.min_duration_ps, "NS",
                  "ejkernel: leave out shorter events [1000]", ParseNs);
    select.Count("--max-events", &report_.max_events, "ejkernel: only the first N events [10000]");
  }

  absl::Status Check() override {
    if (tool_.empty() && !printing_.json_schema) {
      return UsageError("no TOOL given; see xplane-time compat --help");
    }
    return CompatibleCommand::Check();
  }

 protected:
  absl::Status CheckOwn() const override { return absl::OkStatus(); }
  absl::StatusOr<std::string> OwnText(const Opened& /*opened*/) override {
    return absl::InternalError("compat without a tool");
  }
};

}  // namespace

void CompatibleCommand::AddCompat() {
  Heading(app_, kTime)
      .OneOf("--compat", &tool_, kTools,
             "The numbers of an earlier tool, by its own definition: ejkernel, tune-jax or xprof. "
             "Then --device is a word in the names of planes, --kernel says which nested events "
             "count, --prefix, --min-duration and --max-events are as there")
      ->type_name("TOOL");
}

absl::Status CompatibleCommand::Check() {
  RETURN_IF_ERROR(TextCommand::Check());
  if (!tool_.empty()) {
    read_.keep_identical_planes = true;
    const char* const flag = Given(*app_, "--compat") ? "--" : "";
    return RefuseMeaningless(*app_, tool_,
                             absl::StrCat("means nothing with ", flag, "compat ", tool_));
  }
  return printing_.json_schema ? absl::OkStatus() : CheckOwn();
}

absl::Status CompatibleCommand::CheckMetricOfCsv() const {
  const bool looked_at = report_.trim.policy != Trim::Policy::kKeepAll ||
                         !printing_.how.sort.empty() || printing_.how.top.has_value();
  if (printing_.how.format != output::Format::kCsv || report_.by_variant || looked_at) {
    return absl::OkStatus();
  }
  return Refuse(
      *app_, {"--metric"},
      "changes nothing in CSV, which has all three; --sort, --top and --trim would look at it");
}

absl::StatusOr<std::string> CompatibleCommand::Text(const Opened& opened) {
  if (tool_.empty()) return OwnText(opened);
  compat::AnswerOptions ask = {.tool = ToolOf(tool_), .device = report_.device};
  if (!report_.prefix.empty()) ask.ejkernel.prefix = report_.prefix;
  ask.tune_jax.prefix = report_.prefix.empty() ? "jit_" : report_.prefix;
  if (report_.min_duration_ps.has_value()) {
    ask.ejkernel.min_duration_ns = static_cast<double>(*report_.min_duration_ps) / 1000;
  }
  if (report_.max_events.has_value()) ask.ejkernel.max_events = report_.max_events;
  if (printing_.how.top.has_value()) ask.xprof.limit = *printing_.how.top;
  ASSIGN_OR_RETURN(const NameFilter kernel, NameFilter::Compile("--kernel", report_.kernel));
  if (!report_.kernel.empty()) {
    const compat::NameTest test = [&](std::string_view name) { return kernel.Matches(name); };
    ask.ejkernel.children = ask.tune_jax.children = ask.xprof.names = test;
  }
  WarnOfLeftOut(DescribeDiagnostics(opened.trace, opened.diagnostics));
  ASSIGN_OR_RETURN(const compat::Answer answer, compat::AnswerAs(opened.trace, ask));
  return output::Render(output::CompatOutput(answer, printing_.how), printing_.how);
}

void AddCompat(CommandLine* line) {
  line->Add<Compat>({.name = "compat",
                     .help = "The numbers of an earlier tool, by its own definition",
                     .examples = R"(  xplane-time compat ejkernel trace.xplane.pb
  xplane-time compat tune-jax run1.xplane.pb run2.xplane.pb
  xplane-time compat xprof trace.xplane.pb --top 5
)",
                     .group = "Earlier tools"});
}

}  // namespace xplane_time::tools
