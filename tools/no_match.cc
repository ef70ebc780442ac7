#include "no_match.h"

#include "near_names.h"
#include "status.h"
#include "timing/scope_advice.h"

namespace xplane_time::tools {

absl::Status NothingMatches(const Trace& trace, const Diagnostics& reading,
                            const ReportOptions& options, std::string_view filters) {
  std::string near;
  if (!options.function.empty()) {
    ReportOptions unfiltered;
    unfiltered.device = options.device;
    unfiltered.threads = options.threads;
    std::vector<std::string> functions;
    if (const auto report = BuildReport(trace, unfiltered, reading); report.ok()) {
      for (const FunctionRow& row : report->functions) functions.push_back(row.function);
    }
    near = DidYouMean(options.function, functions);
  }
  if (!options.scope.empty()) {
    return FailedPrecondition(trace.files[0].path, ": no execution matches ", filters, near,
                              ScopeAdvice(trace, options, reading));
  }
  return FailedPrecondition(trace.files[0].path, ": no execution matches ", filters, near,
                            "; run without filters to see all executions");
}

}  // namespace xplane_time::tools
