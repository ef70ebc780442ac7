#include "timing/given_options.h"

#include <utility>

namespace xplane_time {
namespace {

constexpr const char* kMetrics[] = {"active", "span", "sum"};
constexpr const char* kClocks[] = {"auto", "device", "profile"};

}  // namespace

std::vector<GivenOption> GivenOptions(const ReportOptions& options) {
  const ReportOptions usual;
  std::vector<GivenOption> given;
  const auto text = [&](const char* name, const std::string& value, const std::string& by_default) {
    if (value != by_default) given.push_back({name, value});
  };
  const auto number = [&](const char* name, int64_t value, int64_t by_default) {
    if (value != by_default) given.push_back({name, value});
  };
  text("device", options.device, "");
  text("function", options.function, "");
  text("exclude", options.exclude, "");
  text("prefix", options.prefix, "");
  text("kernel", options.kernel, "");
  text("scope", options.scope, "");
  number("min_duration_ps", options.min_duration_ps.value_or(0), 0);
  if (options.max_events.has_value()) {
    given.push_back({"max_events", static_cast<int64_t>(*options.max_events)});
  }
  text("id_pattern", options.id_pattern, usual.id_pattern);
  text("metric", kMetrics[static_cast<size_t>(options.metric)], kMetrics[0]);
  text("clock", kClocks[static_cast<size_t>(options.clock)], kClocks[0]);
  text("trim", TrimName(options.trim), TrimName(usual.trim));
  number("skip_runs", static_cast<int64_t>(options.skip_runs), 0);
  number("tolerance_ps", options.tolerance_ps, usual.tolerance_ps);
  number("seed", static_cast<int64_t>(options.seed), static_cast<int64_t>(usual.seed));
  return given;
}

}  // namespace xplane_time
