// What is done to every column of executions alike.
#ifndef XPLANE_TIME_SRC_TIMING_EXECUTION_COLUMNS_H_
#define XPLANE_TIME_SRC_TIMING_EXECUTION_COLUMNS_H_

#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "xplane_time/runs.h"

namespace xplane_time {

// Calls change(column of `to`, column of `from`) for each pair.
template <typename Change>
void ForEachColumn(DeviceExecutions* to, DeviceExecutions* from, Change change) {
  change(&to->start_ps, &from->start_ps);
  change(&to->duration_ps, &from->duration_ps);
  change(&to->op, &from->op);
  change(&to->program, &from->program);
  change(&to->line, &from->line);
  change(&to->run, &from->run);
  change(&to->device_start_ps, &from->device_start_ps);
  change(&to->device_duration_ps, &from->device_duration_ps);
  change(&to->run_id, &from->run_id);
  change(&to->device_ordinal, &from->device_ordinal);
  change(&to->flow_id, &from->flow_id);
  change(&to->correlation_id, &from->correlation_id);
  change(&to->root_scope_id, &from->root_scope_id);
}

// Appends rows [begin, end) of `from` to `to`.
inline void AppendRows(DeviceExecutions* from, size_t begin, size_t end, DeviceExecutions* to) {
  ForEachColumn(to, from, [&](auto* into, auto* column) {
    if (column->empty()) return;
    into->insert(into->end(), column->begin() + static_cast<std::ptrdiff_t>(begin),
                 column->begin() + static_cast<std::ptrdiff_t>(end));
  });
}

inline void SwapRows(DeviceExecutions* a, DeviceExecutions* b) {
  ForEachColumn(a, b, [](auto* one, auto* other) { one->swap(*other); });
}

inline void ClearRows(DeviceExecutions* rows) {
  ForEachColumn(rows, rows, [](auto* column, auto* /*same*/) { column->clear(); });
}

inline void KeepRows(size_t count, DeviceExecutions* rows) {
  ForEachColumn(rows, rows, [&](auto* column, auto* /*same*/) {
    if (!column->empty()) column->resize(count);
  });
}

inline void DropRows(size_t count, DeviceExecutions* rows) {
  ForEachColumn(rows, rows, [&](auto* column, auto* /*same*/) {
    if (!column->empty())
      column->erase(column->begin(), column->begin() + static_cast<std::ptrdiff_t>(count));
  });
}

// The rows `order`, in that order, of `from`.
inline void GatherRows(std::span<const uint32_t> order, DeviceExecutions* from,
                       DeviceExecutions* to) {
  ForEachColumn(to, from, [&](auto* into, auto* column) {
    into->clear();
    if (column->empty()) return;
    into->reserve(order.size());
    for (const uint32_t row : order) into->push_back((*column)[row]);
  });
}

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_EXECUTION_COLUMNS_H_
