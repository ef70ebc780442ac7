#include "timing/scope_advice.h"

#include <algorithm>
#include <set>
#include <vector>

#include "devices/device_kind.h"
#include "devices/gpu_runs/host_evidence.h"
#include "near_names.h"
#include "status.h"
#include "timing/origins.h"

namespace xplane_time {
namespace {

// The names of a tree of all ops, without filters.
std::set<std::string> FindNames(const Trace& trace, const ReportOptions& options, TreeBy by,
                                const Diagnostics& reading) {
  TreeOptions all;
  all.select.device = options.device;
  all.select.threads = options.threads;
  all.by = by;
  std::set<std::string> names;
  const auto tree = BuildTree(trace, all, reading);
  if (!tree.ok()) return names;
  for (const TreeRow& row : tree->rows) names.insert(row.name);
  for (const char* none : {kNoScope, kNoSource}) names.erase(none);
  return names;
}

std::string ExplainRecording(bool is_pytorch) {
  if (is_pytorch) {
    return "PyTorch does not record them; --function selects kernels by the record_function range "
           "that"
           " launched them, and tree --by module groups them by nn.Module (with_modules=True)";
  }
  return "JAX records them in the Hlo Protos of a trace (jax.profiler.ProfileOptions:"
         " enable_hlo_proto, on by default), and jax.named_scope names parts of a program";
}

}  // namespace

std::string ScopeAdvice(const Trace& trace, const ReportOptions& options,
                        const Diagnostics& reading) {
  if (options.scope.empty()) return "";
  const std::set<std::string> scopes = FindNames(trace, options, TreeBy::kScope, reading);
  const std::set<std::string> lines = FindNames(trace, options, TreeBy::kSource, reading);
  if (scopes.empty() && lines.empty()) {
    const bool is_pytorch = std::ranges::any_of(
        trace.planes, [](const Plane& plane) { return HasStat(plane, gpu_runs::kInRangesStat); });
    return Cat("; no op of this trace has a name scope or a source line. ",
               ExplainRecording(is_pytorch));
  }
  std::vector<std::string> known(scopes.begin(), scopes.end());
  known.insert(known.end(), lines.begin(), lines.end());
  return Cat(DidYouMean(options.scope, known), "; xplane-time tree --by ",
             scopes.empty() ? "source" : "scope", " lists the names");
}

}  // namespace xplane_time
