#include "timing/execution_stream.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "devices/device_kind.h"
#include "status.h"

namespace xplane_time {
namespace {

// More lines than these are read one after the other: each open one holds buffers.
constexpr size_t kMostOpenLines = 256;

bool InOrder(const DeviceExecutions& rows, size_t a, size_t b) {
  return std::pair(rows.start_ps[a], rows.duration_ps[b]) <=
         std::pair(rows.start_ps[b], rows.duration_ps[a]);
}

// Orders rows by (start, duration descending, as they are). Rows that are in order already
// are parts; parts are merged pairwise.
void SortRows(DeviceExecutions* rows) {
  const std::vector<int64_t>& start_ps = rows->start_ps;
  const auto not_rising =
      std::adjacent_find(start_ps.begin(), start_ps.end(), std::greater_equal<>());
  if (not_rising == start_ps.end()) return;
  std::vector<size_t> bounds = {0};
  for (size_t row = 1; row < rows->size(); ++row) {
    if (!InOrder(*rows, row - 1, row)) bounds.push_back(row);
  }
  bounds.push_back(rows->size());
  if (bounds.size() <= 2) return;
  std::vector<uint32_t> order(rows->size()), merged(rows->size());
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) { return !InOrder(*rows, b, a); };
  const auto at = [](std::vector<uint32_t>& list, size_t i) {
    return list.begin() + static_cast<ptrdiff_t>(i);
  };
  while (bounds.size() > 2) {
    std::vector<size_t> next = {0};
    for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
      const size_t middle = bounds[i + 1], end = i + 2 < bounds.size() ? bounds[i + 2] : middle;
      std::merge(at(order, bounds[i]), at(order, middle), at(order, middle), at(order, end),
                 at(merged, bounds[i]), before);
      next.push_back(end);
    }
    order.swap(merged);
    bounds = std::move(next);
  }
  DeviceExecutions unordered;
  unordered.SwapRows(rows);
  rows->GatherRows(order, &unordered);
}

}  // namespace

ExecutionStream::ExecutionStream(const Trace& trace, const DevicePlane& device,
                                 const Selection& selection, const ReportOptions& options)
    : trace_(trace),
      device_(device),
      selection_(selection),
      options_(options),
      rules_(RulesOf(device.kind)),
      meanings_(trace, device) {
  for (const KindStat& stat : rules_.stats) stat_names_.push_back(stat.name);
  const Plane& plane = trace.planes[device.plane];
  if (!rules_.needed_stat.empty() && !HasStat(plane, rules_.needed_stat)) return;
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    if (trace.lines[line].event_count == 0) continue;
    const LineRole role = rules_.role(trace.lines[line].name);
    if (role == LineRole::kExecution) execution_lines_.push_back(line);
    if (role == LineRole::kRun) run_lines_.push_back(line);
  }
}

absl::Status ExecutionStream::Start(ChunkSize size) {
  const bool step_by_step =
      execution_lines_.size() <= kMostOpenLines && !options_.max_events.has_value();
  size_ = step_by_step ? size : ChunkSize::kWhole;
  whole_done_ = needs_whole_ = false;
  lines_.clear();
  aggregated_.clear();
  completions_.clear();
  for (uint32_t line : execution_lines_) {
    OpenLine& open = lines_.emplace_back();
    open.line = line;
    if (size_ == ChunkSize::kWhole) continue;
    open.events = std::make_unique<EventReader>(trace_, stat_names_, &open.diagnostics);
    open.events->Start(line);
  }
  return ReadModules();
}

Diagnostics ExecutionStream::diagnostics() const {
  Diagnostics all = module_diagnostics_;
  for (const OpenLine& line : lines_) all.Merge(line.diagnostics);
  return all;
}

absl::Status ExecutionStream::ReadModules() {
  modules_.clear();
  module_diagnostics_ = Diagnostics();
  for (uint32_t line : run_lines_) {
    RETURN_IF_ERROR(
        VisitEvents(trace_, line, {}, &module_diagnostics_, [&](const EventBatch& batch) {
          meanings_.StartBatch(batch, LineRole::kRun);
          for (size_t row = 0; row < batch.size(); ++row) {
            if (batch.start_ps[row] == kNoTimePs) continue;
            const int64_t start_ps = batch.start_ps[row];
            modules_.push_back(
                {{start_ps, start_ps + batch.duration_ps[row]}, meanings_.Of(batch, row).program});
          }
          return absl::OkStatus();
        }));
  }
  const auto earlier = [](const ModuleEvent& a, const ModuleEvent& b) {
    return a.interval.start_ps < b.interval.start_ps;
  };
  if (!std::is_sorted(modules_.begin(), modules_.end(), earlier)) {
    std::stable_sort(modules_.begin(), modules_.end(), earlier);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ExecutionStream::Fill(EventReader* events, OpenLine* line) {
  ASSIGN_OR_RETURN(const EventBatch batch, events->Next());
  if (batch.size() == 0) return false;
  meanings_.StartBatch(batch, LineRole::kExecution);
  Append(batch, line);
  if (options_.events_done != nullptr) *options_.events_done += batch.size();
  return true;
}

absl::Status ExecutionStream::FillWhereEmpty(OpenLine* line) {
  while (line->events != nullptr && line->empty()) {
    ASSIGN_OR_RETURN(const bool more, Fill(line->events.get(), line));
    if (!more) line->events.reset();
  }
  return absl::OkStatus();
}

// Rows of the batch that become executions; the others are dealt with.
void ExecutionStream::Sift(const EventBatch& batch, OpenLine* line) {
  const int64_t min_duration_ps = options_.min_duration_ps.value_or(0);
  const bool is_host = rules_.is_host;
  int64_t last_start_ps = line->last_start_ps;
  size_t count = 0;
  for (uint32_t row = 0; row < batch.size(); ++row) {
    const Meaning& meaning = meanings_.Of(batch, row);
    const int64_t start_ps = batch.start_ps[row];
    if (!meaning.is_execution || start_ps == kNoTimePs ||
        batch.duration_ps[row] < min_duration_ps || !WantsOrdinal(meaning.ordinal)) {
      SetAside(batch, row, meaning, line);
      continue;
    }
    if (start_ps < last_start_ps) NoteUnsorted(batch.event[row], line);
    last_start_ps = start_ps;
    sifted_.row[count] = row;
    sifted_.op[count] = meaning.op;
    sifted_.program[count] = meaning.program;
    if (is_host) sifted_.ordinal[count] = meaning.ordinal;
    ++count;
  }
  line->last_start_ps = last_start_ps;
  sifted_.count = count;
}

// A row that becomes no execution.
void ExecutionStream::SetAside(const EventBatch& batch, uint32_t row, const Meaning& meaning,
                               OpenLine* line) {
  const int64_t start_ps = batch.start_ps[row], duration_ps = batch.duration_ps[row];
  if (!meaning.is_execution) {
    if (!meaning.is_completion || start_ps == kNoTimePs) return;
    uint64_t flow = rules_.completed_flow(batch, row);
    if (flow == kNoFlow) return;
    // Of other ops it tells that the trace has markers at all.
    if (!meaning.completes_body) flow = kNoFlow;
    // Of several markers the latest, in whatever order lines are read.
    int64_t& completion_ps = completions_.try_emplace(flow, start_ps).first->second;
    completion_ps = std::max(completion_ps, start_ps);
    return;
  }
  if (!WantsOrdinal(meaning.ordinal)) return;
  if (duration_ps < options_.min_duration_ps.value_or(0)) {
    line->diagnostics.Count(
        DiagnosticCode::kLeftOutByMinDuration,
        {.plane = device_.plane, .line = line->line, .event = batch.event[row]});
    return;
  }
  aggregated_.push_back(
      {meaning.op, meaning.program, batch.occurrences[row], duration_ps, meaning.ordinal});
}

void ExecutionStream::NoteUnsorted(uint64_t event, OpenLine* line) {
  if (line->unsorted) return;
  line->unsorted = true;
  line->diagnostics.Count(DiagnosticCode::kUnsortedLine,
                          {.plane = device_.plane, .line = line->line, .event = event});
}

void ExecutionStream::Append(const EventBatch& batch, OpenLine* line) {
  Sift(batch, line);
  DeviceExecutions& rows = line->rows;
  const size_t count = sifted_.count;
  const auto append = [&](const auto& column, auto* to) {
    to->insert(to->end(), column.data(), column.data() + count);
  };
  const auto sifted = std::span(sifted_.row).first(count);
  const auto gather = [&](std::span<const int64_t> column, std::vector<int64_t>* to) {
    if (count == batch.size()) {
      to->insert(to->end(), column.begin(), column.end());
    } else {
      for (const uint32_t row : sifted) to->push_back(column[row]);
    }
  };
  gather(batch.start_ps, &rows.start_ps);
  gather(batch.duration_ps, &rows.duration_ps);
  append(sifted_.op, &rows.op);
  append(sifted_.program, &rows.program);
  rows.line.resize(rows.size(), trace_.lines[line->line].timeline);
  if (rules_.is_host) append(sifted_.ordinal, &rows.device_ordinal);
  if (rules_.numbers != nullptr) rules_.numbers(batch, sifted, &rows);
}

absl::Status ExecutionStream::Next(DeviceExecutions* chunk) {
  chunk->KeepRows(0, 0);
  chunk->tables = meanings_.tables();
  RETURN_IF_ERROR(size_ == ChunkSize::kWhole ? NextWhole(chunk) : NextSmall(chunk));
  SortRows(chunk);
  return absl::OkStatus();
}

absl::Status ExecutionStream::NextSmall(DeviceExecutions* chunk) {
  for (;;) {
    int64_t horizon_ps = std::numeric_limits<int64_t>::max();
    OpenLine* behind = nullptr;  // the line that holds the others up
    for (OpenLine& line : lines_) {
      RETURN_IF_ERROR(FillWhereEmpty(&line));
      needs_whole_ |= line.unsorted;
      if (line.events == nullptr || line.last_start_ps >= horizon_ps) continue;
      horizon_ps = line.last_start_ps;
      behind = &line;
    }
    if (needs_whole_) return absl::OkStatus();
    for (OpenLine& line : lines_) {
      const std::vector<int64_t>& start = line.rows.start_ps;
      const auto begin = start.begin() + static_cast<ptrdiff_t>(line.begin);
      const auto end =
          behind == nullptr ? start.end() : std::lower_bound(begin, start.end(), horizon_ps);
      TakeRows(static_cast<size_t>(end - start.begin()), &line, chunk);
    }
    if (chunk->size() > 0 || behind == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool more, Fill(behind->events.get(), behind));
    if (!more) behind->events.reset();
  }
}

void ExecutionStream::TakeRows(size_t end, OpenLine* line, DeviceExecutions* chunk) {
  if (end == line->begin) return;
  const size_t size = line->rows.size();
  if (chunk->size() == 0 && line->begin == 0) {
    chunk->SwapRows(&line->rows);
    line->rows.AppendRows(chunk, end, size);
    chunk->KeepRows(0, end);
    return;
  }
  chunk->AppendRows(&line->rows, line->begin, end);
  line->begin = end;
  if (line->begin < size / 2) return;  // so that no row is moved often
  line->rows.KeepRows(line->begin, size);
  line->begin = 0;
}

absl::Status ExecutionStream::NextWhole(DeviceExecutions* chunk) {
  if (std::exchange(whole_done_, true)) return absl::OkStatus();
  for (OpenLine& line : lines_) {
    EventReader events(trace_, stat_names_, &line.diagnostics);
    events.Start(line.line);
    chunk->SwapRows(&line.rows);  // appended in place
    const size_t rows_before = line.rows.size();
    for (bool more = true; more;) {
      ASSIGN_OR_RETURN(more, Fill(&events, &line));
    }
    LimitEvents(rows_before, &line);
    chunk->SwapRows(&line.rows);
  }
  return absl::OkStatus();
}

void ExecutionStream::LimitEvents(size_t rows_before, OpenLine* line) {
  if (!options_.max_events.has_value() || line->rows.size() <= *options_.max_events) return;
  const size_t keep = std::max<size_t>(rows_before, *options_.max_events);
  line->diagnostics.Count(DiagnosticCode::kLeftOutByMaxEvents, {.plane = device_.plane},
                          line->rows.size() - keep);
  line->rows.KeepRows(0, keep);
}

}  // namespace xplane_time
