// ExecutionStream: the executions of one plane in order of start, chunk by chunk, merged
// from its lines.
//
//   Stream #1  |--a--|      |--c--| ...       horizon: the first start that some line
//   Stream #2      |--b--|          |--d-- .. may still deliver; what starts before it
//                                   ^         is a chunk
//
// Lines are read in step, so memory does not depend on their length. Where that cannot
// be (a line is not sorted, many lines, --max-events), everything is one chunk.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "devices/executions.h"
#include "timing/meaning.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/select.h"

namespace xplane_time {

enum class ChunkSize : uint8_t {
  kSmall,  // as many as are at hand
  kWhole,  // all at once
};

class ExecutionStream {
 public:
  ExecutionStream(const Trace& trace, const DevicePlane& device, const Selection& selection,
                  const ReportOptions& options);

  // From the beginning. Reads the module events.
  absl::Status Start(ChunkSize size);
  // The next executions; empty at the end, and where a line turns out not to be sorted:
  // then start again with kWhole.
  absl::Status Next(DeviceExecutions* chunk);
  bool needs_whole() const { return needs_whole_; }

  const std::shared_ptr<ExecutionTables>& tables() const { return meanings_.tables(); }
  std::span<const ModuleEvent> modules() const { return modules_; }
  // Of everything since Start(); complete at the end.
  const std::vector<AggregatedExecution>& aggregated() const { return aggregated_; }
  const Completions& completions() const { return completions_; }
  Diagnostics diagnostics() const;

 private:
  struct OpenLine {
    uint32_t line = 0;
    std::unique_ptr<EventReader> events;  // null: at its end
    DeviceExecutions rows;                // read; from `begin` on not yet handed over
    size_t begin = 0;
    int64_t last_start_ps = kNoTimePs;
    bool unsorted = false;
    Diagnostics diagnostics;
    bool empty() const { return begin == rows.size(); }
  };

  absl::Status ReadModules();
  // One batch; false at the line's end.
  absl::StatusOr<bool> Fill(EventReader* events, OpenLine* line);
  // Until there are rows, or the line ends.
  absl::Status FillWhereEmpty(OpenLine* line);
  void Sift(const EventBatch& batch, OpenLine* line);
  void Append(const EventBatch& batch, OpenLine* line);
  void SetAside(const EventBatch& batch, uint32_t row, const Meaning& meaning, OpenLine* line);
  void NoteUnsorted(uint64_t event, OpenLine* line);
  bool WantsOrdinal(int64_t ordinal) const {
    return !rules_.is_host || ordinal == kNoOrdinal || selection_.WantsOrdinal(ordinal);
  }
  absl::Status NextSmall(DeviceExecutions* chunk);
  void TakeRows(size_t end, OpenLine* line, DeviceExecutions* chunk);
  absl::Status NextWhole(DeviceExecutions* chunk);
  void LimitEvents(size_t rows_before, OpenLine* line);

  const Trace& trace_;
  const DevicePlane device_;
  const Selection& selection_;
  const ReportOptions& options_;
  const KindRules& rules_;
  std::vector<std::string_view> stat_names_;
  std::vector<uint32_t> execution_lines_, run_lines_;
  Meanings meanings_;

  // Of the batch: the rows that become executions, and what they are.
  struct Sifted {
    template <typename T>
    using Column = std::array<T, EventBatch::kBatchSize>;
    size_t count = 0;
    Column<uint32_t> row, op, program;
    Column<int64_t> ordinal;  // on the host
  };
  Sifted sifted_;

  ChunkSize size_ = ChunkSize::kSmall;
  bool whole_done_ = false, needs_whole_ = false;
  Diagnostics module_diagnostics_;
  std::deque<OpenLine> lines_;
  std::vector<ModuleEvent> modules_;
  std::vector<AggregatedExecution> aggregated_;
  Completions completions_;
};

}  // namespace xplane_time
