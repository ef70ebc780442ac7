// The host's records of the GPU programs of one host: launches by correlation id, the events that
// execute a module, ranges around launches, and annotation scopes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "devices/gpu_runs/host_ranges.h"
#include "read/plane_index.h"
#include "scratch.h"
#include "xplane_time/intervals.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time::gpu_runs {

// The work of a launch on the device, if it is expected to have executions.
enum class Launched : uint8_t { kOther, kKernel, kGraph };

struct Launch {
  int64_t start_ps;
  uint32_t line;  // Line::timeline
  Launched what = Launched::kOther;
};

// One of several launches with an id.
struct RepeatedLaunch {
  Launch launch;
  size_t place;   // those of an id are in a row, by start
  bool is_first;  // of its id
};

// Launches with ids that fit an Id.
template <typename Id>
class LaunchList {
 public:
  void Add(Id id, const Launch& launch) {
    const uint32_t what = static_cast<uint32_t>(launch.what) << kWhatShift;
    entries_.push_back({launch.start_ps, id, launch.line | what});
  }
  void AddAll(const LaunchList& other) {
    for (const Entry& entry : other.entries_.values()) entries_.push_back(entry);
  }
  // After the last Add().
  void Order();
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // Calls visit(place of the first launch with the same id, launch), by id, then by start.
  template <typename Visit>
  void ForEach(Visit visit) const {
    const std::span<const Entry> entries = entries_.values();
    size_t first = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].id != entries[first].id) first = i;
      visit(first, entries[i].launch());
    }
  }
  std::optional<Launch> FindOnly(Id id, size_t* place) const;
  std::optional<Launch> FindFirst(Id id, size_t* place) const;
  std::optional<RepeatedLaunch> FindRepeated(Id id, int64_t start_ps, size_t* place) const;

 private:
  // Flags in `line`: whether several launches have the id, and the launched work.
  static constexpr uint32_t kShared = uint32_t{1} << 31;
  static constexpr int kWhatShift = 29;
  static constexpr uint32_t kLineBits = (uint32_t{1} << kWhatShift) - 1;
  struct Entry {
    int64_t start_ps;
    Id id;
    uint32_t line;

    Launch launch() const {
      return {start_ps, line & kLineBits, static_cast<Launched>((line & ~kShared) >> kWhatShift)};
    }
  };
  const Entry* At(Id id, size_t* place) const;

  ScratchVector<Entry> entries_;  // after Order(): by id, then by start
};

// Launches by correlation id. 16 bytes each (24 if ids do not fit 32 bits), in a scratch file if
// there are many.
class LaunchTable {
 public:
  void Add(uint64_t correlation_id, const Launch& launch) {
    if (correlation_id <= kMostNarrow) {
      narrow_.Add(static_cast<uint32_t>(correlation_id), launch);
    } else {
      wide_.Add(correlation_id, launch);
    }
  }
  void AddAll(const LaunchTable& other) {
    narrow_.AddAll(other.narrow_);
    wide_.AddAll(other.wide_);
  }
  // After the last Add().
  void Finish() {
    narrow_.Order();
    wide_.Order();
  }

  // The last position of a caller; each caller has its own.
  struct Place {
    size_t narrow = 0, wide = 0;
  };
  // The only launch with this id; empty if there is no launch, or several. Fast if ids are near the
  // previous ones.
  std::optional<Launch> FindOnly(uint64_t correlation_id, Place* place) const {
    return correlation_id <= kMostNarrow
               ? narrow_.FindOnly(static_cast<uint32_t>(correlation_id), &place->narrow)
               : wide_.FindOnly(correlation_id, &place->wide);
  }
  // The first to begin of those with this id.
  std::optional<Launch> FindFirst(uint64_t correlation_id, Place* place) const {
    return correlation_id <= kMostNarrow
               ? narrow_.FindFirst(static_cast<uint32_t>(correlation_id), &place->narrow)
               : wide_.FindFirst(correlation_id, &place->wide);
  }
  // If several launches have this id, the last one that began at that time or before.
  std::optional<RepeatedLaunch> FindRepeated(uint64_t correlation_id, int64_t start_ps,
                                             Place* place) const {
    return correlation_id <= kMostNarrow
               ? narrow_.FindRepeated(static_cast<uint32_t>(correlation_id), start_ps,
                                      &place->narrow)
               : wide_.FindRepeated(correlation_id, start_ps, &place->wide);
  }
  bool empty() const { return narrow_.empty() && wide_.empty(); }
  size_t size() const { return narrow_.size() + wide_.size(); }
  // Below size(): the same for all launches with an id that FindFirst() has just found.
  size_t IndexOf(uint64_t correlation_id, const Place& found) const {
    return correlation_id <= kMostNarrow ? found.narrow : narrow_.size() + found.wide;
  }
  // Calls visit(index of its id, launch) for each launch.
  template <typename Visit>
  void ForEach(Visit visit) const {
    narrow_.ForEach(visit);
    wide_.ForEach(
        [&](size_t first, const Launch& launch) { visit(narrow_.size() + first, launch); });
  }

 private:
  static constexpr uint64_t kMostNarrow = std::numeric_limits<uint32_t>::max();

  LaunchList<uint32_t> narrow_;
  LaunchList<uint64_t> wide_;
};

// When the events of parts of host lines were (EventReader::extent).
using PartExtents = absl::flat_hash_map<const LinePart*, Interval>;

struct HostEvidence {
  struct Execution {
    uint32_t line;
    Interval interval;
    int64_t furthest_end_ps = 0;  // of this one and all before it
  };
  using Executions = absl::flat_hash_map<std::string, std::vector<Execution>>;

  // A host event that marks an iteration of the user's loop: with a step_num, as jax and TensorFlow
  // write it, or with a name that the user chose.
  struct Step {
    Interval interval;
    std::string name;
  };

  // While a stream is captured, what its process launches becomes part of a graph.
  struct Capture {
    uint32_t plane;
    Interval interval;
  };

  LaunchTable launches;
  bool records_captures = false;  // whether captures are known
  std::vector<Capture> captures;  // by plane, then by time; those of a plane do not overlap
  int64_t last_synchronization_ps = kNoTimePs;  // the latest start of one with the whole device
  int64_t last_end_ps = kNoTimePs;              // of the host events that were looked at
  Executions executions;                        // by module, by start
  // Calls of compiled functions (PjitFunction), by the name of the function's module.
  absl::flat_hash_map<std::string, size_t> calls;
  std::vector<Step> marked_steps;  // by line
  // The times in which a thread waited for input; and the times in which a thread compiled,
  // dispatched or waited for results while no thread waited for input (host_work.h). Both merged.
  std::vector<Interval> input_waits, other_work;
  HostRanges ranges;  // of threads by ThreadOf(line)
  absl::flat_hash_map<uint32_t, uint32_t> threads;
  size_t device_count = 0;  // GPUs of that host that have events
  // Errors of the lines themselves, so that they are not read again in vain.
  PartExtents extents;
  absl::flat_hash_set<uint32_t> with_host_executions;  // lines that may hold those of the host

  // Lines with one display_id are one thread; this is the first of them. For hosts with ranges.
  uint32_t ThreadOf(uint32_t line) const {
    const auto found = threads.find(line);
    return found == threads.end() ? line : found->second;
  }
  // The number of times that the host executed a module: the recorded executions, otherwise the
  // calls of its function.
  std::optional<size_t> CountExecutions(const std::string& module) const;
  // The executions of a module; null: the module has no executions.
  const std::vector<Execution>* ExecutionsOf(const std::string& module) const;
  // The module execution that contains this launch: of the executions around it, the last one that
  // began on its line, otherwise the only one on any line. Fast if it is near the previous one.
  static std::optional<size_t> ExecutionAround(const Launch& launch,
                                               std::span<const Execution> of_module, size_t* place);
};

// The parts of some intervals that do not overlap the others. Both inputs are merged.
std::vector<Interval> Without(const std::vector<Interval>& all, const std::vector<Interval>& taken);

// Assigns the executions of a device to their launches, in order of start.
//
// If several launches have one id, each of them has equally many executions:
//
//   launches    7        7              7
//   executions     7 7      7    7         7 7
//
// An execution comes after its launch. So the executions before the second launch belong to the
// first one, which gives the number of executions per launch; and so on. If a launch has more or
// fewer executions than those before it, or an execution comes before all launches, the launch is
// unknown: it may be an earlier or a later one. It is also unknown if several devices have
// executions.
class LaunchesInOrder {
 public:
  // `evidence` must outlive it.
  explicit LaunchesInOrder(const HostEvidence& evidence)
      : launches_(evidence.launches), device_count_(evidence.device_count) {}

  // The launch of an execution of this program; empty: it has no launch (also with id 0), or the
  // launch is ambiguous.
  std::optional<Launch> Of(uint64_t correlation_id, int64_t start_ps, uint32_t program);
  // Whether an earlier answer for the program turned out to be wrong.
  bool WasWrong(uint32_t program) const { return wrong_.contains(program); }
  bool was_wrong() const { return !wrong_.empty(); }

 private:
  // The state of one id.
  struct Repeated {
    size_t place = 0;         // of its launch that had the last execution
    uint64_t executions = 0;  // that this one has had
    uint64_t of_each = 0;     // number for each previous launch; 0: unknown
    bool tells = true;
    std::vector<uint32_t> programs = {};
  };
  bool Continues(const RepeatedLaunch& next, Repeated* so_far) const;

  const LaunchTable& launches_;
  const size_t device_count_;
  LaunchTable::Place place_;
  absl::flat_hash_map<uint64_t, Repeated> repeated_;
  absl::flat_hash_set<uint32_t> wrong_;
};

// Ranges of the launches of a host, asked for one after the other. `trace` and `evidence` must
// outlive it.
class LaunchRanges {
 public:
  LaunchRanges(const Trace& trace, const HostEvidence& evidence)
      : trace_(trace), evidence_(evidence) {}

  // The executions that contain the first launch with this id: on its thread, the last one to begin
  // comes first, then those of its process. Null: no such launch, also for 0. Valid until the next
  // call.
  const std::vector<uint32_t>* Of(int64_t correlation_id) {
    // For graphs, many executions have one launch.
    if (correlation_id != last_id_) Find(correlation_id);
    return found_ ? &ranges_ : nullptr;
  }

 private:
  void Find(int64_t correlation_id);

  const Trace& trace_;
  const HostEvidence& evidence_;
  int64_t last_id_ = 0;
  bool found_ = false;
  std::vector<uint32_t> ranges_;
  LaunchTable::Place place_;
};

// The launches in a host's planes, in a capture of which no device executed anything. Reads the
// events of planes that may have some.
absl::StatusOr<HostEvidence> ReadHost(const Trace& trace, uint32_t plane, int threads);
// Whether the names on a host's plane may be those of launches.
bool MayLaunch(const Plane& plane);

// The evidence of each host of some devices, read when it is first asked for. Thread-safe.
class EvidenceStore {
 public:
  // Whether a host event with this name marks a step.
  using IsStep = std::function<bool(std::string_view)>;
  // `trace` must outlive the store. Without `is_step` events with a step_num mark steps.
  EvidenceStore(const Trace& trace, const std::vector<DevicePlane>& devices, int threads,
                IsStep is_step = {});

  // The evidence for the host of one of the devices. Reads the host planes of that capture and
  // host, lines in parallel. Damaged host events are not reported here.
  absl::StatusOr<const HostEvidence*> Of(const DevicePlane& device);
  // Whether some device of the same host asks for it in any case.
  bool IsAskedFor(const DevicePlane& device) const { return hosts_.at(HostOf(device)).asked; }
  // Totals of the read evidence. Call after the last Of().
  PartExtents TakeExtents();

 private:
  struct Host {
    bool asked = false;
    std::mutex mutex;
    std::optional<absl::StatusOr<HostEvidence>> evidence;
  };
  HostKey HostOf(const DevicePlane& device) const {
    return MakeHostKey(trace_.planes[device.plane]);
  }

  const Trace& trace_;
  const int threads_;
  const IsStep is_step_;
  std::map<HostKey, Host> hosts_;
};

// The outermost annotation scope around each scope of a capture. The profiler numbers scopes; a
// separate plane has a stat for each, with the scope as key and the enclosing scope as value (0: no
// scope).
class ScopeRoots {
 public:
  // The scopes of the capture that contains a plane.
  ScopeRoots(const Trace& trace, uint32_t plane);
  // Without scopes: every scope is a root.
  ScopeRoots() = default;

  // 0 for 0. A damaged tree may have a cycle: its root is the least scope in it.
  int64_t Of(int64_t scope) {
    if (scope == 0 || parent_.empty()) return scope;
    const auto known = root_.find(scope);
    return known != root_.end() ? known->second : Find(scope);
  }

 private:
  int64_t Find(int64_t scope);

  absl::flat_hash_map<int64_t, int64_t> parent_;
  absl::flat_hash_map<int64_t, int64_t> root_;  // as far as asked for
};

}  // namespace xplane_time::gpu_runs
