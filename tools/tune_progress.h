// What tune says on standard error while it runs: live on a terminal, a log elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "options.h"
#include "xplane_time/tune.h"

namespace xplane_time::tools {

// Of a table as wide as printing.how says.
std::unique_ptr<TuneWatcher> NewTuneProgress(const Printing& printing,
                                             std::optional<int64_t> budget_runs);

}  // namespace xplane_time::tools
