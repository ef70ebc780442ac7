// ExecutionStream: the executions of one plane in order of start, chunk by chunk, merged
// from its lines.
//
//   Stream #1  |--a--|      |--c--| ...       horizon: the first start that some line
//   Stream #2      |--b--|          |--d-- .. may still deliver; executions before it
//                                   ^         form a chunk
//
// Lines are read in step, so memory does not depend on their length. If that is impossible
// (a line is not sorted, many lines, --max-events), everything is one chunk.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "devices/device_kind.h"
#include "read/event_names.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/select.h"

namespace xplane_time {

struct Filters;
class HloPrograms;
class LaunchConfigs;
class Meanings;
struct Meaning;

enum class ChunkSize : uint8_t {
  kSmall,  // as many as are at hand
  kWhole,  // all at once
};

// Executions in order of start.
struct ExecutionChunk {
  Executions rows;
  bool has_runs = false;  // those of the rows are known
};

// Belongs to one thread, apart from its const members.
class ExecutionStream {
 public:
  // Adds what it learns to `tables`.
  ExecutionStream(const Trace& trace, const DevicePlane& device, const Selection& selection,
                  const ReportOptions& options, const Filters& filters,
                  std::shared_ptr<ExecutionTables> tables);
  ~ExecutionStream();

  // Before Start(), after the lines that may contain executions are known.
  void ReadOnly(const absl::flat_hash_set<uint32_t>& lines);
  // Once, before Start(): the events of run lines, and the ops of graph nodes.
  absl::Status ReadModules();
  // From the beginning.
  void Start(ChunkSize size);
  // The next executions. Empty at the end, and if a line turns out to be unsorted: then start again
  // with kWhole.
  absl::Status Next(ExecutionChunk* chunk);
  bool needs_whole() const { return needs_whole_; }

  // The programs of the plane's file and host.
  const std::shared_ptr<HloPrograms>& hlo() const { return hlo_; }
  std::span<const ModuleEvent> modules() const { return modules_; }
  // Covers everything since Start(); complete at the end.
  const std::vector<AggregatedExecution>& aggregated() const { return aggregated_; }
  const Completions& completions() const { return completions_; }
  Diagnostics diagnostics() const;

 private:
  struct OpenLine {
    uint32_t line = 0;
    std::unique_ptr<EventReader> events;  // null: closed
    Executions rows;                      // read; from `begin` on not yet handed over
    size_t begin = 0;
    int64_t last_start_ps = kNoTimePs;
    uint64_t passed = 0;  // events
    bool unsorted = false;
    Diagnostics diagnostics;
    bool empty() const { return begin == rows.size(); }
  };

  void Open(OpenLine* line);
  absl::Status Fill(OpenLine* line);  // by one batch; closes it at its end
  void Append(const EventBatch& batch, OpenLine* line);
  void SetAside(const EventBatch& batch, uint32_t row, const Meaning& meaning, OpenLine* line);
  void NoteUnsorted(uint64_t event, OpenLine* line);
  bool WantsOrdinal(int64_t ordinal) const {
    return !rules_.is_host || ordinal == kNoOrdinal || selection_.WantsOrdinal(ordinal);
  }
  absl::Status NextSmall(Executions* chunk);
  absl::Status NextWhole(Executions* chunk);

  const Trace& trace_;
  const DevicePlane device_;
  const Selection& selection_;
  const ReportOptions& options_;
  const KindRules& rules_;
  std::vector<std::string_view> stat_names_;
  std::vector<uint32_t> execution_lines_, run_lines_;
  std::vector<uint8_t> worth_reading_;  // by event metadata; empty: all
  std::optional<HostOps> host_ops_;     // instead of events with the needed stat
  const std::shared_ptr<HloPrograms> hlo_;
  const std::unique_ptr<Meanings> meanings_;
  std::unique_ptr<LaunchConfigs> launches_;  // null: not asked for

  ChunkSize size_ = ChunkSize::kSmall;
  bool whole_done_ = false, needs_whole_ = false;
  Diagnostics module_diagnostics_;
  std::deque<OpenLine> lines_;
  std::vector<ModuleEvent> modules_;
  std::vector<AggregatedExecution> aggregated_;
  Completions completions_;
};

}  // namespace xplane_time
