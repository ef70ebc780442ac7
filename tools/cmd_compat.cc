#include "commands.h"
#include "timing/filters.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunCompat(const Options& options, const Opened& opened) {
  const ReportOptions& given = options.report;
  compat::AnswerOptions ask = {.tool = *options.compat, .device = options.compat_device};
  if (!given.prefix.empty()) ask.ejkernel.prefix = given.prefix;
  ask.tune_jax.prefix = given.prefix.empty() ? "jit_" : given.prefix;
  if (given.min_duration_ps.has_value()) {
    ask.ejkernel.min_duration_ns = static_cast<double>(*given.min_duration_ps) / 1000;
  }
  if (given.max_events.has_value()) ask.ejkernel.max_events = given.max_events;
  if (options.output.top.has_value()) ask.xprof.limit = *options.output.top;
  const auto kernel = NameFilter::Compile("--kernel", given.kernel);
  if (!kernel.ok()) return kernel.status();
  if (!given.kernel.empty()) {
    const compat::NameTest test = [&](std::string_view name) { return kernel->Matches(name); };
    ask.ejkernel.children = ask.tune_jax.children = ask.xprof.names = test;
  }
  WarnOfLeftOut(options, DescribeDiagnostics(opened.trace, opened.diagnostics));
  auto answer = compat::AnswerAs(opened.trace, ask);
  if (!answer.ok()) return answer.status();
  return output::Render(output::CompatOutput(*answer, options.output), options.output);
}

}  // namespace xplane_time::tools
