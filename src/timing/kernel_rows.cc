// One row a kernel, function, program and device.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "timing/analysis.h"
#include "timing/saturate.h"

namespace xplane_time {
namespace {

// What is known about one row: its ops' cells together.
struct Accumulator {
  std::vector<const KernelCell*> cells;
  uint64_t count = 0, aggregated = 0;
  int64_t total_ps = 0, min_ps = 0, max_ps = 0;
  bool rounded = false;  // the durations are
  std::optional<int64_t> self_ps = 0;
  std::optional<int64_t> flops = 0, bytes_accessed = 0;

  void Add(const KernelCell& cell, const OpInfo& op) {
    min_ps = cells.empty() ? cell.min_ps : std::min(min_ps, cell.min_ps);
    max_ps = cells.empty() ? cell.max_ps : std::max(max_ps, cell.max_ps);
    rounded |= cell.durations.rounded();
    cells.push_back(&cell);
    count += cell.count;
    aggregated += cell.aggregated;
    total_ps = SaturatingAdd(total_ps, cell.total_ps);
    self_ps = self_ps.has_value() && cell.self_ps.has_value()
                  ? std::optional(SaturatingAdd(*self_ps, *cell.self_ps))
                  : std::nullopt;
    AddKnown(&flops, op.flops, cell.count);
    AddKnown(&bytes_accessed, op.bytes_accessed, cell.count);
  }

  // A total is unknown as soon as a part is.
  static void AddKnown(std::optional<int64_t>* total, std::optional<int64_t> each, uint64_t count) {
    int64_t product;
    if (!total->has_value() || !each.has_value() ||
        __builtin_mul_overflow(*each, count, &product)) {
      *total = std::nullopt;
    } else {
      *total = SaturatingAdd(**total, product);
    }
  }
};

// The scope that all ops share.
std::optional<std::string> ScopeOf(const ExecutionTables& tables,
                                   const std::vector<const KernelCell*>& cells) {
  const auto shown = [&](const KernelCell* cell) -> const std::string& {
    const OpInfo& info = tables.ops[cell->op];
    if (!info.scope.empty()) return info.scope;
    return info.tf_op.empty() ? info.source : info.tf_op;
  };
  for (const KernelCell* cell : cells) {
    if (shown(cell) != shown(cells[0])) return std::nullopt;
  }
  return shown(cells[0]).empty() ? std::nullopt : std::optional<std::string>(shown(cells[0]));
}

std::vector<DurationCount> Durations(const std::vector<const KernelCell*>& cells) {
  if (cells.size() == 1) return cells[0]->durations.Sorted();
  DurationCounts together;
  for (const KernelCell* cell : cells) {
    for (const DurationCount& each : cell->durations.Sorted()) {
      together.Add(each.duration_ps, each.count);
    }
  }
  return together.Sorted();
}

void FillStatistics(const Accumulator& from, KernelRow* row) {
  row->count = from.count;
  row->total_ps = from.total_ps;
  row->mean_ps = static_cast<double>(from.total_ps) / static_cast<double>(row->count);
  if (from.aggregated > 0) return;  // not all durations are known
  const std::vector<DurationCount> sorted = Durations(from.cells);
  Moments moments;
  for (const DurationCount& each : sorted) moments.Add(each.duration_ps, each.count);
  if (!from.rounded) row->mean_ps = moments.mean();
  row->std_ps = moments.std();
  row->median_ps = CountedMedian(sorted, row->count);
  row->min_ps = from.min_ps;
  row->max_ps = from.max_ps;
}

using RowKey = std::tuple<std::string_view, std::string_view, std::string_view, uint32_t>;

KernelRow MakeRow(const DeviceAnalysis& device, const RowKey& key, const Accumulator& from) {
  const auto& [kernel, function, program_id, program] = key;
  KernelRow row;
  row.device = device.ref;
  row.kernel = kernel;
  if (program != kNone) {
    row.function = device.tables->programs[program].function;
    row.program_id = device.tables->programs[program].program_id;
  }
  row.category = device.tables->ops[from.cells[0]->op].category;
  row.scope = ScopeOf(*device.tables, from.cells);
  row.clock = device.clocks.Of(program).value_or(Clock::kProfile);
  row.self_ps = from.self_ps;
  row.flops = from.flops;
  row.bytes_accessed = from.bytes_accessed;
  FillStatistics(from, &row);
  if (row.self_ps.has_value() && device.self_ps > 0) {
    row.share = static_cast<double>(*row.self_ps) / static_cast<double>(device.self_ps);
  }
  return row;
}

void AddDeviceRows(const DeviceAnalysis& device, std::vector<KernelRow>* out) {
  std::map<RowKey, Accumulator> accumulators;
  for (const KernelCell& cell : device.cells) {
    if (cell.count == 0) continue;
    RowKey key{device.tables->ops[cell.op].kernel, {}, {}, cell.program};
    if (cell.program != kNone) {
      const ProgramInfo& program = device.tables->programs[cell.program];
      std::get<1>(key) = program.function;
      if (program.program_id.has_value()) std::get<2>(key) = *program.program_id;
    }
    accumulators[key].Add(cell, device.tables->ops[cell.op]);
  }
  const size_t first_row = out->size();
  for (const auto& [key, from] : accumulators) out->push_back(MakeRow(device, key, from));
  std::stable_sort(out->begin() + static_cast<ptrdiff_t>(first_row), out->end(),
                   [](const KernelRow& a, const KernelRow& b) { return a.total_ps > b.total_ps; });
}

}  // namespace

std::vector<KernelRow> KernelRows(const Analysis& analysis) {
  std::vector<KernelRow> rows;
  for (const DeviceAnalysis& device : analysis.devices) AddDeviceRows(device, &rows);
  return rows;
}

}  // namespace xplane_time
