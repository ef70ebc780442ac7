// Analyze: the stages in order, for the selected devices.
//
// One plane's executions go through the stages, chunk by chunk, in as many passes as needed. The
// trace is decoded anew in each pass, so only the learned facts are kept between passes:
//
//   looks     learn the facts that a run splitter needs before it can split (GPU)
//   measure   chunks are split into runs and measured; repeated if a line turns out to be
//             unsorted, or if a program lacks the planned clock
#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "devices/gpu_runs/host_evidence.h"
#include "parallel.h"
#include "read/damaged_hosts.h"
#include "read_ahead.h"
#include "sort_parts.h"
#include "status.h"
#include "timing/analysis.h"
#include "timing/completeness.h"
#include "timing/execution_stream.h"
#include "timing/range_runs.h"
#include "xplane_time/normalize.h"

namespace xplane_time {
namespace {

// The requested analysis of each plane.
struct PlaneRequest {
  const Trace& trace;
  const Selection& selection;
  const ReportOptions& options;
  const Filters& filters;
  Keep keep;
  const MakeWatcher* make_watcher;  // null: no watcher
  gpu_runs::EvidenceStore* evidence;
};

// More than 1 % apart.
bool Disagree(int64_t profile_ps, int64_t device_ps) {
  const int64_t difference =
      profile_ps > device_ps ? profile_ps - device_ps : device_ps - profile_ps;
  return difference > device_ps / 100;
}

class PlaneAnalyzer {
 public:
  // `reads_ahead`: on a thread more.
  PlaneAnalyzer(const PlaneRequest& request, const DevicePlane& plane, bool reads_ahead,
                Diagnostics* diagnostics)
      : request_(request),
        plane_(plane),
        reads_ahead_(reads_ahead),
        rules_(RulesOf(plane.kind)),
        evidence_([&] { return request_.evidence->Of(plane_); }),
        diagnostics_(diagnostics),
        stream_(request.trace, plane, request.selection, request.options, request.filters, tables_),
        clocks_(request.options.clock,
                HasStat(request.trace.planes[plane.plane], rules_.device_clock_stat)),
        watch_clock_(HasStat(request.trace.planes[plane.plane], rules_.device_clock_stat)
                         ? Clock::kDevice
                         : Clock::kProfile),
        meter_settings_{&request.filters, &clocks_, request.options.tolerance_ps} {
    meter_settings_.functions_are_ranges = HasRanges();
    meter_settings_.keeps_intervals = request.keep == Keep::kIntervals;
    if (meter_settings_.keeps_intervals) meter_settings_.most_duration_bytes = kFewDurationBytes;
    const bool whole = request.keep == Keep::kExecutions || request.options.tolerance_ps > 0;
    if (whole) size_ = ChunkSize::kWhole;
  }

  absl::StatusOr<std::vector<DeviceAnalysis>> Analyze() {
    if (rules_.is_host && request_.evidence->IsAskedFor(plane_)) {
      // Else some host line is damaged, perhaps one that this plane does not need.
      if (const auto host = evidence_(); host.ok()) stream_.ReadOnly((*host)->with_host_executions);
    }
    RETURN_IF_ERROR(stream_.ReadModules());
    for (bool counts = false; !counts;) {
      ASSIGN_OR_RETURN(counts, Pass());
      counts = counts && PlanHeld();
    }
    diagnostics_->Merge(stream_.diagnostics());
    std::vector<DeviceAnalysis> analyses;
    for (auto& [ordinal, device] : devices_) {
      analyses.push_back(Finish(ordinal, &device));
      device = {};  // its runs may be many
    }
    return analyses;
  }

  // After Analyze().
  const ExecutionTables& tables() const { return *tables_; }

 private:
  // One device of the plane within a pass.
  struct Device {
    std::unique_ptr<RunSplitter> splitter;
    std::unique_ptr<DeviceMeter> meter;
    std::unique_ptr<LaunchCheck> launches;      // null: the host is not read, or has no evidence
    std::unique_ptr<RangeRuns> ranges;          // null: of a host without any
    std::unique_ptr<ExecutionWatcher> watcher;  // null: no watcher

    void Measure(std::span<const Execution> rows) {
      if (launches != nullptr) launches->Add(rows);
      if (ranges == nullptr) return meter->Add(rows);
      ranges->Add(rows);
      meter->Add(rows, ranges->in_function());
    }
  };

  std::optional<int64_t> DeviceOrdinal(int64_t of_execution) const {
    if (!rules_.is_host) return plane_.ordinal;
    return of_execution == kNoOrdinal ? std::nullopt : std::optional(of_execution);
  }

  absl::StatusOr<Device*> DeviceOf(std::optional<int64_t> ordinal) {
    Device& device = devices_[ordinal];
    if (device.splitter == nullptr) {
      device.splitter = rules_.make_splitter({.trace = &request_.trace,
                                              .plane = plane_.plane,
                                              .tables = tables_,
                                              .modules = stream_.modules(),
                                              .most_by_likelihood = MostByLikelihood(),
                                              .evidence = evidence_});
      RETURN_IF_ERROR(StartMeasuring(&device));
    }
    return &device;
  }

  // Who asks for times of kernels has no use for their medians.
  static constexpr size_t kFewDurationBytes = size_t{16} << 20;

  // Splitting takes a thousand times as long as an execution's own time needs: who asks for
  // times of kernels does not wait for it.
  uint64_t MostByLikelihood() const {
    constexpr uint64_t kMany = uint64_t{1} << 20;
    return request_.keep == Keep::kIntervals ? kMany : std::numeric_limits<uint64_t>::max();
  }

  bool HasRanges() const {
    return HasStat(request_.trace.planes[plane_.plane], rules_.in_ranges_stat);
  }

  absl::Status StartMeasuring(Device* device) {
    device->meter =
        std::make_unique<DeviceMeter>(plane_, tables_, stream_.modules(), meter_settings_);
    if (rules_.launch_id.has_value() && request_.evidence->IsAskedFor(plane_)) {
      // Who needs the evidence reports its errors.
      if (const auto evidence = evidence_(); evidence.ok() && !(*evidence)->launches.empty()) {
        device->launches = std::make_unique<LaunchCheck>(**evidence, *rules_.launch_id);
      }
    }
    if (HasRanges()) {
      ASSIGN_OR_RETURN(const gpu_runs::HostEvidence* const evidence, evidence_());
      device->ranges = std::make_unique<RangeRuns>(request_.trace, *evidence, rules_, *tables_,
                                                   request_.filters);
    }
    if (request_.make_watcher == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        device->watcher,
        (*request_.make_watcher)({.trace = request_.trace,
                                  .plane = plane_,
                                  .tables = tables_,
                                  .modules = stream_.modules(),
                                  .clock = watch_clock_,
                                  .evidence = evidence_,
                                  .evidence_is_read = request_.evidence->IsAskedFor(plane_),
                                  .steps_by_name = request_.filters.step.any()}));
    return absl::OkStatus();
  }

  // Takes executions with assigned runs.
  static absl::Status Watch(Device* device, std::span<const Execution> chunk) {
    return device->watcher == nullptr ? absl::OkStatus() : device->watcher->Add(chunk);
  }

  // Each chunk is prepared, perhaps on another thread, before it is visited. With kWhole the only
  // chunk is read once for all passes.
  using ChunkFunction = ReadAhead<ExecutionChunk>::ChunkFunction;
  absl::Status ForEachChunk(ChunkFunction prepare, ChunkFunction visit) {
    if (whole_.has_value()) {
      RETURN_IF_ERROR(prepare(&*whole_));
      return visit(&*whole_);
    }
    stream_.Start(size_);
    const auto read = [&](ExecutionChunk* chunk) { return stream_.Next(chunk); };
    ReadAhead<ExecutionChunk> chunks(read, prepare, reads_ahead_ && size_ == ChunkSize::kSmall);
    ExecutionChunk chunk;
    for (;;) {
      RETURN_IF_ERROR(chunks.Next(&chunk));
      if (chunk.rows.empty()) return absl::OkStatus();
      RETURN_IF_ERROR(visit(&chunk));
      if (size_ == ChunkSize::kWhole) whole_ = std::move(chunk);
      if (whole_.has_value()) return absl::OkStatus();
    }
  }

  // Measures each device of a host; ordinals distinguish them.
  absl::Status MeasureHost(Executions* chunk) {
    const auto ordinal_of = [](const Execution& each) {
      return each.numbers[Execution::kDeviceOrdinal];
    };
    SortParts(*chunk, [&](const Execution& a, const Execution& b) {
      return ordinal_of(a) < ordinal_of(b);
    });
    for (std::span<Execution> rest = *chunk; !rest.empty();) {
      const int64_t ordinal = ordinal_of(rest[0]);
      const auto end = std::ranges::upper_bound(rest, ordinal, {}, ordinal_of);
      const std::span<Execution> rows(rest.begin(), end);
      ASSIGN_OR_RETURN(Device* const device, DeviceOf(DeviceOrdinal(ordinal)));
      device->splitter->Assign(rows);
      device->Measure(rows);
      RETURN_IF_ERROR(Watch(device, rows));
      rest = rest.subspan(rows.size());
    }
    return absl::OkStatus();
  }

  // Measures the only device, after `split` has assigned the runs of each chunk. If the device is
  // also watched, the chunk is prepared for the watcher.
  absl::Status MeasureDevice(Device* device, ChunkFunction split) {
    const auto measure = [&](ExecutionChunk* chunk) {
      if (chunk->has_runs) device->Measure(chunk->rows);
      return absl::OkStatus();
    };
    if (device->watcher == nullptr) return ForEachChunk(split, measure);
    const auto split_and_measure = [&](ExecutionChunk* chunk) {
      RETURN_IF_ERROR(split(chunk));
      return measure(chunk);
    };
    return ForEachChunk(split_and_measure, [&](ExecutionChunk* chunk) {
      return chunk->has_runs ? Watch(device, chunk->rows) : absl::OkStatus();
    });
  }

  // Makes the required looking passes, and also measures as long as runs are known early. Returns
  // true if no pass is left, or if a line turned out to be unsorted.
  absl::StatusOr<bool> Look(Device* device) {
    const auto look = [&](ExecutionChunk* chunk) {
      RETURN_IF_ERROR(device->splitter->Look(chunk->rows));
      chunk->has_runs = device->splitter->early_right();
      return absl::OkStatus();
    };
    while (device->splitter->WantsLook()) {
      RETURN_IF_ERROR(MeasureDevice(device, look));
      if (stream_.needs_whole()) return true;
      device->splitter->EndLook();
      if (device->splitter->early_right()) return true;
      RETURN_IF_ERROR(StartMeasuring(device));  // what was measured was too early
    }
    return false;
  }

  // Looks and measures; true if the pass is valid.
  absl::StatusOr<bool> Pass() {
    devices_.clear();
    if (rules_.is_host) {
      RETURN_IF_ERROR(
          ForEachChunk([](ExecutionChunk*) { return absl::OkStatus(); },
                       [&](ExecutionChunk* chunk) { return MeasureHost(&chunk->rows); }));
    } else {
      ASSIGN_OR_RETURN(Device* const device, DeviceOf(plane_.ordinal));
      ASSIGN_OR_RETURN(const bool measured, Look(device));
      const auto assign = [&](ExecutionChunk* chunk) {
        device->splitter->Assign(chunk->rows);
        chunk->has_runs = true;
        return absl::OkStatus();
      };
      if (!measured) {
        RETURN_IF_ERROR(MeasureDevice(device, assign));
      }
    }
    bool counts = !stream_.needs_whole();
    if (counts) {
      for (const AggregatedExecution& each : stream_.aggregated()) {
        ASSIGN_OR_RETURN(Device* const device, DeviceOf(DeviceOrdinal(each.device_ordinal)));
        device->meter->AddAggregated(each);
      }
    }
    for (const auto& [ordinal, device] : devices_) {
      counts &= !device.meter->disordered;
      counts &= device.watcher == nullptr || !device.watcher->disordered;
    }
    if (!counts) size_ = ChunkSize::kWhole;
    return counts && WatchClockHeld();
  }

  // The second clock of the plane's only device, if it has one.
  bool WatchClockHeld() {
    const bool held = std::ranges::none_of(devices_, [](const auto& each) {
      return each.second.watcher != nullptr && each.second.watcher->needs_profile_clock;
    });
    if (!held) watch_clock_ = Clock::kProfile;
    return held;
  }

  bool PlanHeld() {
    std::vector<ClockPlan::Counts> all(tables_->programs.size() + 1);
    for (const auto& [ordinal, device] : devices_) {
      const std::vector<ClockPlan::Counts>& counts = device.meter->clock_counts;
      for (size_t place = 0; place < counts.size(); ++place) {
        all[place].with += counts[place].with;
        all[place].without += counts[place].without;
      }
    }
    return clocks_.Correct(all);
  }

  DeviceAnalysis Finish(std::optional<int64_t> ordinal, Device* device) {
    DeviceMeter& meter = *device->meter;
    DeviceAnalysis analysis;
    analysis.plane = plane_;
    analysis.tables = tables_;
    analysis.hlo = stream_.hlo();
    analysis.any_module = !stream_.modules().empty();
    analysis.clocks = clocks_;
    meter.Finish(stream_.completions(), diagnostics_);
    const std::vector<Run> runs = device->splitter->Finish(diagnostics_);
    clocks_.Report(meter.clock_counts, plane_, diagnostics_);
    MakeSamples(runs, &meter, &analysis);
    if (device->ranges != nullptr) AddRanges(*device->ranges, &analysis);
    CountLostAnnotations(meter, runs);
    analysis.row = meter.totals;
    analysis.row.kind = plane_.kind;
    analysis.row.device.ordinal = ordinal;
    analysis.self_ps = meter.self_ps;
    analysis.cells = std::move(meter.cells);
    analysis.impossible = std::move(meter.impossible);
    analysis.launches = std::move(device->launches);
    analysis.ran = std::move(meter.ran);
    if (device->watcher != nullptr) device->watcher->Finish();
    analysis.watch_clock = watch_clock_;
    analysis.watcher = std::move(device->watcher);
    if (request_.keep == Keep::kExecutions) KeepRows(ordinal, &analysis);
    return analysis;
  }

  // Runs and their times become samples. Runs in any order; ids are positions.
  void MakeSamples(const std::vector<Run>& runs, DeviceMeter* meter, DeviceAnalysis* device) {
    meter->contents.Settle();
    std::vector<std::vector<uint32_t>> runs_of_program(device->tables->programs.size());
    device->uncertain_programs.resize(device->tables->programs.size());
    for (uint32_t i = 0; i < runs.size(); ++i) {
      runs_of_program[runs[i].program].push_back(i);
      if (runs[i].uncertain) device->uncertain_programs[runs[i].program] = true;
    }
    std::vector<SampleBatch> batches = BatchesOf(runs_of_program);
    device->samples.resize(batches.empty() ? 0 : batches.back().place + batches.back().runs);
    ParallelFor(batches.size(), reads_ahead_ ? request_.options.threads : 1, [&](size_t i) {
      for (std::vector<uint32_t>& own : batches[i].programs) {
        AddProgram(runs, &own, *meter, device->samples, &batches[i]);
      }
    });
    size_t made = 0;
    for (const SampleBatch& batch : batches) {
      diagnostics_->Merge(batch.diagnostics);
      const auto first = device->samples.begin() + static_cast<ptrdiff_t>(batch.place);
      if (made < batch.place)
        std::copy_n(first, batch.made, device->samples.begin() + static_cast<ptrdiff_t>(made));
      made += batch.made;
    }
    device->samples.resize(made);
  }

  // Programs whose samples are made by one thread: from the place on there is room for their runs.
  struct SampleBatch {
    std::span<std::vector<uint32_t>> programs;
    size_t place = 0, runs = 0, made = 0;
    Diagnostics diagnostics = {};
  };

  static std::vector<SampleBatch> BatchesOf(std::span<std::vector<uint32_t>> runs_of_program) {
    constexpr size_t kEnough = 2048;  // runs: a thread takes longer to begin than for fewer
    std::vector<SampleBatch> batches;
    size_t place = 0;
    for (size_t begin = 0, end = 0; begin < runs_of_program.size(); begin = end) {
      size_t count = 0;
      while (end < runs_of_program.size() && count < kEnough)
        count += runs_of_program[end++].size();
      batches.push_back({runs_of_program.subspan(begin, end - begin), place, count});
      place += count;
    }
    return batches;
  }

  // Adds samples behind those that the batch has made. `own`: the runs of one program.
  void AddProgram(const std::vector<Run>& runs, std::vector<uint32_t>* own,
                  const DeviceMeter& meter, std::span<RunSample> samples,
                  SampleBatch* batch) const {
    if (own->empty()) return;
    const auto start_ps = [&](uint32_t run) { return runs[run].profile.start_ps; };
    if (!std::ranges::is_sorted(*own, {}, start_ps)) std::ranges::stable_sort(*own, {}, start_ps);
    const uint32_t program = runs[own->front()].program;
    const std::optional<Clock> clock = clocks_.Of(program);
    if (!clock.has_value()) return;
    const bool wanted = request_.filters.WantsFunction(tables_->programs[program].function);
    const std::vector<bool> suspect = meter.contents.Suspects(*own);
    uint64_t ordinal = 0;
    for (size_t i = 0; i < own->size(); ++i) {
      const uint32_t id = (*own)[i];
      const RunTimes times = id < meter.runs.size() ? meter.runs[id] : RunTimes();
      if (times.kernels == 0 && (times.executions > 0 || request_.filters.any_op())) continue;
      RunSample sample = SampleOf(runs[id], times, *clock, &batch->diagnostics);
      batch->diagnostics.Count(DiagnosticCode::kSuspectRun, Here(), suspect[i] ? 1 : 0);
      if (!wanted) continue;
      sample.id = id;
      sample.suspect = suspect[i];
      sample.ordinal = ordinal++;
      sample.skipped = sample.ordinal < request_.options.skip_runs;
      samples[batch->place + batch->made++] = sample;
    }
  }

  // By function, each range that counts.
  void AddRanges(const RangeRuns& found, DeviceAnalysis* device) {
    diagnostics_->Count(DiagnosticCode::kTooDeepRange, Here(), found.ranges().too_deep());
    const std::span<const gpu_runs::HostRanges::Range> ranges = found.ranges().ranges();
    std::vector<std::vector<uint32_t>> of_name(found.ranges().names().size());
    for (uint32_t i = 0; i < ranges.size(); ++i) of_name[ranges[i].name].push_back(i);
    for (size_t name = 0; name < of_name.size(); ++name) {
      const std::string& function = found.ranges().names()[name].function;
      if (!request_.filters.WantsFunction(function)) continue;
      std::ranges::stable_sort(of_name[name], {},
                               [&](uint32_t i) { return ranges[i].interval.start_ps; });
      AddRangesOf(function, of_name[name], found, device);
    }
  }

  void AddRangesOf(const std::string& function, std::span<const uint32_t> ranges,
                   const RangeRuns& found, DeviceAnalysis* device) {
    const auto times = [&](uint32_t range) -> const RunTimes& { return found.runs()[range].times; };
    if (std::ranges::none_of(ranges, [&](uint32_t i) { return times(i).kernels > 0; })) return;
    const auto program = static_cast<uint32_t>(tables_->programs.size());
    tables_->programs.push_back({.function = function, .program_id = std::nullopt});
    uint64_t ordinal = 0;
    for (const uint32_t range : ranges) {
      const bool has_active = times(range).kernels > 0;
      if (!has_active && (times(range).executions > 0 || request_.filters.any_op())) continue;
      Run run = {.program = program, .profile = found.runs()[range].profile};
      if (!has_active) run.profile = found.ranges().ranges()[range].interval;
      RunSample sample = {run};
      sample.id = range;
      if (has_active) Fill(times(range), Clock::kProfile, &sample);
      sample.ordinal = ordinal++;
      sample.skipped = sample.ordinal < request_.options.skip_runs;
      device->ranges.push_back(sample);
    }
  }

  static void Fill(const RunTimes& times, Clock clock, RunSample* sample) {
    sample->clock = clock;
    sample->has_active = true;
    sample->kernels = times.kernels;
    sample->start_ps = times.start_ps;
    sample->span_ps = times.end_ps - times.start_ps;
    sample->active_ps = times.active_ps;
    sample->sum_ps = times.sum_ps;
  }

  RunSample SampleOf(const Run& run, const RunTimes& times, Clock clock,
                     Diagnostics* diagnostics) const {
    RunSample sample = {run};
    if (times.kernels == 0) {
      diagnostics->Count(DiagnosticCode::kNoOps, Here());
      sample.start_ps = run.profile.start_ps;
      sample.span_ps = run.profile.end_ps - run.profile.start_ps;
      return sample;
    }
    Fill(times, clock, &sample);
    if (clock == Clock::kDevice && times.kernels == times.executions &&
        Disagree(run.profile.end_ps - run.profile.start_ps, sample.span_ps)) {
      diagnostics->Count(DiagnosticCode::kClocksDisagree, Here());
    }
    return sample;
  }

  Location Here() const { return {.plane = plane_.plane}; }

  // Kernels of a GPU that name no function although they lie inside some run's span.
  void CountLostAnnotations(const DeviceMeter& meter, const std::vector<Run>& runs) const {
    if (meter.lost.empty()) return;
    std::vector<Interval> spans;
    for (const Run& run : runs) spans.push_back(run.profile);
    spans = MergeIntervals(std::move(spans));
    for (const DeviceMeter::Lost& lost : meter.lost.values()) {
      const auto after =
          std::upper_bound(spans.begin(), spans.end(), lost.start_ps,
                           [](int64_t time, const Interval& span) { return time < span.start_ps; });
      if (after != spans.begin() && lost.start_ps < std::prev(after)->end_ps) {
        diagnostics_->Count(DiagnosticCode::kKernelWithoutFunction,
                            {.plane = plane_.plane, .line = lost.line});
      }
    }
  }

  // The results of one device.
  void KeepRows(std::optional<int64_t> ordinal, DeviceAnalysis* analysis) {
    analysis->completions = stream_.completions();
    if (!whole_.has_value()) return;
    std::copy_if(whole_->rows.begin(), whole_->rows.end(), std::back_inserter(analysis->executions),
                 [&](const Execution& each) {
                   return !rules_.is_host ||
                          DeviceOrdinal(each.numbers[Execution::kDeviceOrdinal]) == ordinal;
                 });
  }

  const PlaneRequest& request_;
  const DevicePlane plane_;
  const bool reads_ahead_;
  const KindRules& rules_;
  const EvidenceSource evidence_;
  Diagnostics* const diagnostics_;
  const std::shared_ptr<ExecutionTables> tables_ = std::make_shared<ExecutionTables>();
  ExecutionStream stream_;
  ClockPlan clocks_;
  Clock watch_clock_;
  MeterSettings meter_settings_;
  ChunkSize size_ = ChunkSize::kSmall;
  std::optional<ExecutionChunk> whole_;
  std::map<std::optional<int64_t>, Device> devices_;  // by ordinal
};

bool Empty(const DeviceAnalysis& device) {
  return device.row.executions == 0 && !device.any_module;
}

absl::Status NothingExecuted(const Trace& trace, const Selection& selection,
                             const ReportOptions& options, const Diagnostics& diagnostics) {
  if (const uint64_t shorter = diagnostics.count(DiagnosticCode::kLeftOutByMinDuration);
      shorter > 0) {
    return FailedPrecondition(trace.files[0].path, ": all ", shorter,
                              " executions are shorter than --min-duration; give a smaller one");
  }
  const std::string asked =
      selection.text.empty() ? "the accelerators (the default)" : "--device " + selection.text;
  std::string skipped;
  for (const DiagnosticRow& row : DescribeDiagnostics(trace, diagnostics)) {
    if (row.severity == "error") Append(&skipped, "; ", row.count, " x ", row.message);
  }
  const std::string lost = DescribeLostLaunches(trace, options.threads);
  const auto refuse = [&](const auto&... advice) {
    return FailedPrecondition(trace.files[0].path, ": no executions on ", asked,
                              "; the trace has: ", ListPlanes(trace), skipped,
                              lost.empty() ? "" : "; ", lost, advice...);
  };
  // Other devices that may have executed something.
  std::string others;
  for (const DevicePlane& device : FindDevicePlanes(trace)) {
    const Plane& plane = trace.planes[device.plane];
    const std::string_view needed = RulesOf(device.kind).needed_stat;
    if (!HasEvents(trace, plane) || !(needed.empty() || HasStat(plane, needed))) continue;
    const bool selected =
        std::ranges::count(selection.planes, device.plane, &DevicePlane::plane) > 0;
    if (!selected) Append(&others, others.empty() ? "" : ", ", plane.name);
  }
  if (!others.empty()) {
    return refuse("; choose with --device one of ", others, ", or --device all");
  }
  if (!lost.empty()) {
    return refuse("; record it again; xplane-time events lists the launches with --device cpu");
  }
  // TensorFlow's executor runs ops on these threads.
  constexpr std::string_view kTensorFlowThreads = "tf_Compute";
  const bool any_tensorflow = std::ranges::any_of(trace.lines, [&](const Line& line) {
    return line.event_count > 0 && line.shown_name().starts_with(kTensorFlowThreads);
  });
  if (trace.event_count == 0) return refuse("; was anything profiled?");
  return refuse("; was the device profiled? xplane-time tree TRACE --device all --line ",
                any_tensorflow ? kTensorFlowThreads : ".", " shows the threads of the host");
}

// Times of saved captures count from the start of their host. Returns the shift that puts the hosts
// of a capture on one axis; 0 if the starts are unknown or the times are already absolute.
int64_t HostShiftPs(const Trace& trace, uint32_t file) {
  if (trace.files[file].base_ns != 0) return 0;
  uint64_t first_ns = std::numeric_limits<uint64_t>::max();
  for (const TraceFile& other : trace.files) {
    if (other.capture != trace.files[file].capture) continue;
    if (!other.profile_start_unix_ns.has_value()) return 0;
    first_ns = std::min(first_ns, *other.profile_start_unix_ns);
  }
  const uint64_t later_ns = *trace.files[file].profile_start_unix_ns - first_ns;
  return later_ns < kAxisLimitPs / 1000 ? static_cast<int64_t>(later_ns) * 1000 : 0;
}

// For the balance of threads: of each plane, without what was read of hosts.
std::vector<uint64_t> BytesToRead(const Trace& trace, const std::vector<DevicePlane>& planes,
                                  const gpu_runs::EvidenceStore& evidence) {
  std::vector<uint64_t> bytes;
  for (const DevicePlane& plane : planes) {
    const bool is_read = RulesOf(plane.kind).is_host && evidence.IsAskedFor(plane);
    bytes.push_back(is_read ? 0 : trace.planes[plane.plane].bytes.size);
  }
  return bytes;
}

// DeviceRef::twin, by plane.
std::vector<uint32_t> CountEarlierTwins(const Trace& trace) {
  std::map<std::tuple<uint32_t, std::string_view, std::string_view>, uint32_t> counts;
  std::vector<uint32_t> twins;
  for (const Plane& plane : trace.planes) {
    twins.push_back(counts[{plane.file, plane.host, plane.name}]++);
  }
  return twins;
}

// The plane of the device, and its runs on the capture's axis.
void Place(const Trace& trace, std::span<const uint32_t> twins, DeviceAnalysis* device) {
  const Plane& plane = trace.planes[device->plane.plane];
  device->row.device = {std::string(plane.name), device->row.device.ordinal,
                        std::string(plane.host), plane.file, twins[device->plane.plane]};
  device->capture = trace.files[plane.file].capture;
  const int64_t shift_ps = HostShiftPs(trace, plane.file);
  if (shift_ps == 0) return;
  for (RunSample& sample : device->samples) {
    sample.profile.start_ps += shift_ps;
    sample.profile.end_ps += shift_ps;
  }
}

// Adds functions that the host executed, or ranges of host time, without an execution on any
// device. Only for hosts of which all devices were analyzed:
//
//   ranges      no execution is in them
//   functions   launches of them lost their executions (Analysis::lost_functions); or they are
//               variants that the host executed before the devices' last execution
class WithoutExecutions {
 public:
  WithoutExecutions(const Trace& trace, gpu_runs::EvidenceStore* evidence)
      : trace_(trace), evidence_(*evidence) {}

  void Add(const DeviceAnalysis& device) {
    const Plane& plane = trace_.planes[device.plane.plane];
    const KindRules& rules = RulesOf(device.plane.kind);
    const bool has_ranges = HasStat(plane, rules.in_ranges_stat);
    const bool is_read = rules.launch_id.has_value() && evidence_.IsAskedFor(device.plane);
    if (!(has_ranges || is_read) || device.row.executions == 0) return;
    const auto evidence = evidence_.Of(device.plane);
    if (!evidence.ok()) return;
    Host& host = hosts_[MakeHostKey(plane)];
    host.evidence = *evidence;
    host.has_ranges |= has_ranges;
    host.last_ps = std::max(host.last_ps, device.row.last_ps.value_or(kNoTimePs));
    ++host.devices;
    for (size_t i = 0; i < device.tables->programs.size(); ++i) {
      host.executed.insert(device.tables->programs[i].function);
    }
    for (const RunSample& sample : device.ranges) {
      host.told.insert(device.tables->programs[sample.program].function);
    }
  }

  std::vector<FunctionRow> Rows(const Analysis& analysis) const {
    const Filters& filters = analysis.filters;
    std::vector<FunctionRow> rows;
    for (const auto& [key, host] : hosts_) {
      if (host.devices < host.evidence->device_count) continue;
      AddFunctions(key, host, analysis, &rows);
      if (!host.has_ranges || filters.any_op()) continue;
      std::map<std::string_view, uint64_t> runs;
      for (const auto& range : host.evidence->ranges.ranges()) {
        const std::string& function = host.evidence->ranges.names()[range.name].function;
        if (!host.told.contains(function) && filters.WantsFunction(function)) ++runs[function];
      }
      for (const auto& [function, count] : runs) {
        rows.push_back(RowOf(std::string(function), count, filters));
        rows.back().is_range = true;
      }
    }
    return rows;
  }

 private:
  struct Host {
    const gpu_runs::HostEvidence* evidence = nullptr;
    size_t devices = 0;
    bool has_ranges = false;
    int64_t last_ps = kNoTimePs;     // end of the last execution on any device
    std::set<std::string> executed;  // functions of all devices
    std::set<std::string> told;
  };

  static FunctionRow RowOf(std::string function, uint64_t runs, const Filters& filters) {
    FunctionRow row;
    row.variant_id = filters.id.Capture(function);
    row.function = std::move(function);
    row.runs = row.dropped_samples = row.empty_runs = runs;
    row.status = RowStatus::kNoOps;
    return row;
  }

  static void AddFunctions(const HostKey& key, const Host& host, const Analysis& analysis,
                           std::vector<FunctionRow>* rows) {
    const Filters& filters = analysis.filters;
    std::map<std::string, std::pair<uint64_t, RowStatus>> runs;
    for (const auto& [module, executions] : host.evidence->executions) {
      if (host.executed.contains(module) || !filters.id.Capture(module).has_value()) continue;
      const auto count = static_cast<uint64_t>(std::ranges::count_if(
          executions, [&](const auto& each) { return each.interval.end_ps <= host.last_ps; }));
      if (count > 0) runs[module] = {count, RowStatus::kNoOps};
    }
    const auto lost = analysis.lost_functions.find(key);
    if (lost != analysis.lost_functions.end()) {
      for (const auto& [module, count] : lost->second) {
        runs[module] = {count, RowStatus::kLostExecutions};
      }
    }
    for (const auto& [function, found] : runs) {
      if (!filters.WantsFunction(function)) continue;
      rows->push_back(RowOf(function, found.first, filters));
      rows->back().status = found.second;
    }
  }

  const Trace& trace_;
  gpu_runs::EvidenceStore& evidence_;
  std::map<HostKey, Host> hosts_;
};

// Whether a kernel or op of some device matches.
bool MatchesSomeOp(const NameFilter& filter, const std::vector<DeviceAnalysis>& devices) {
  for (const DeviceAnalysis& device : devices) {
    for (size_t i = 0; i < device.tables->ops.size(); ++i) {
      const OpInfo& op = device.tables->ops[i];
      if (filter.Matches(op.kernel) || filter.Matches(op.hlo_op)) return true;
    }
  }
  return false;
}

bool MatchesSomeFunction(const NameFilter& filter, const std::vector<DeviceAnalysis>& devices) {
  for (const DeviceAnalysis& device : devices) {
    for (size_t i = 0; i < device.tables->programs.size(); ++i) {
      if (filter.Matches(device.tables->programs[i].function)) return true;
    }
  }
  return false;
}

// With a misspelt pattern, these options would have no visible effect. With any other filter the
// result would be empty, which is an error.
void NoteUnmatchedPatterns(const ReportOptions& options, Analysis* analysis) {
  const auto note = [&](std::string_view option, const std::string& pattern) {
    analysis->diagnostics.Note(DiagnosticCode::kPatternWithoutMatch,
                               absl::StrCat(Absl(option), " ", pattern));
  };
  const Filters& filters = analysis->filters;
  if (filters.exclude.any() && !MatchesSomeFunction(filters.exclude, analysis->devices)) {
    note("--exclude", options.exclude);
  }
  const struct {
    std::string_view option;
    const NameFilter& filter;
    const std::string& pattern;
  } on_ops[] = {{"--exclude-kernel", filters.exclude_kernel, options.exclude_kernel},
                {"--collective-re", filters.collective, options.categories.collective},
                {"--copy-re", filters.copy, options.categories.copy}};
  for (const auto& each : on_ops) {
    if (each.filter.any() && !MatchesSomeOp(each.filter, analysis->devices)) {
      note(each.option, each.pattern);
    }
  }
}

absl::StatusOr<Analysis> AnalyzeWith(const Trace& trace, const ReportOptions& options,
                                     const Diagnostics& reading, Keep keep,
                                     const MakeWatcher* make_watcher) {
  Analysis analysis;
  analysis.diagnostics = reading;
  ASSIGN_OR_RETURN(analysis.filters, Filters::Compile(options));
  ASSIGN_OR_RETURN(const Selection selection, SelectDevices(trace, options.device));
  struct Result {
    absl::StatusOr<std::vector<DeviceAnalysis>> devices;
    std::set<int64_t> ordinals;
    Diagnostics diagnostics;
  };
  std::vector<Result> results(selection.planes.size());
  gpu_runs::EvidenceStore::IsStep is_step;
  std::atomic<bool> any_step_name = false;
  if (analysis.filters.step.any()) {
    is_step = [&](std::string_view name) {
      const bool matches = analysis.filters.step.Matches(name);
      if (matches) any_step_name = true;
      return matches;
    };
  }
  gpu_runs::EvidenceStore evidence(trace, selection.planes, options.threads, is_step);
  const PlaneRequest request = {trace, selection,    options,  analysis.filters,
                                keep,  make_watcher, &evidence};
  // Read at once if needed anyway: otherwise threads would begin while others wait for them.
  for (const DevicePlane& plane : selection.planes) {
    if (evidence.IsAskedFor(plane)) evidence.Of(plane).IgnoreError();
  }
  const std::vector<uint64_t> bytes = BytesToRead(trace, selection.planes, evidence);
  const uint64_t all_bytes = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  ParallelForLongestFirst(bytes, options.threads, [&](size_t i) {
    // More than a thread's share: while one reads, another measures.
    const bool reads_ahead = options.threads > 1 &&
                             2 * bytes[i] * static_cast<uint64_t>(options.threads) > 3 * all_bytes;
    PlaneAnalyzer analyzer(request, selection.planes[i], reads_ahead, &results[i].diagnostics);
    results[i].devices = analyzer.Analyze();
    results[i].ordinals = analyzer.tables().ordinals;
  });
  if (is_step && make_watcher != nullptr && !any_step_name) {
    const std::string& path = trace.files[0].path;
    return FailedPrecondition(
        path, ": no host event (for PyTorch: no annotation) matches --step-re ", options.step,
        "; xplane-time events ", path, " --device all --format csv lists the names");
  }
  analysis.host_extents = evidence.TakeExtents();
  const auto file_of = [&](size_t i) { return trace.planes[selection.planes[i].plane].file; };
  DamagedHosts damaged(trace);
  for (size_t i = 0; i < results.size(); ++i) {
    RETURN_IF_ERROR(damaged.LeaveOut(file_of(i), results[i].devices.status()));
  }
  damaged.Note(&analysis.diagnostics);
  std::set<int64_t> ordinals;
  const std::vector<uint32_t> twins = CountEarlierTwins(trace);
  for (size_t i = 0; i < results.size(); ++i) {
    if (damaged.Has(file_of(i))) continue;
    Result& result = results[i];
    ordinals.merge(result.ordinals);
    analysis.diagnostics.Merge(result.diagnostics);
    for (DeviceAnalysis& device : *result.devices) {
      Place(trace, twins, &device);
      analysis.devices.push_back(std::move(device));
    }
  }
  if (damaged.First().ok()) RETURN_IF_ERROR(CheckOrdinals(trace, selection, ordinals));
  if (std::all_of(analysis.devices.begin(), analysis.devices.end(), Empty)) {
    RETURN_IF_ERROR(damaged.First());
    return NothingExecuted(trace, selection, options, analysis.diagnostics);
  }
  WithoutExecutions without(trace, &evidence);
  for (const DeviceAnalysis& device : analysis.devices) {
    without.Add(device);
    if (!Empty(device)) continue;
    analysis.diagnostics.Count(DiagnosticCode::kIdleAccelerator, {.plane = device.plane.plane});
  }
  AddCompleteness(trace, selection, options, &analysis);
  NoteUnmatchedPatterns(options, &analysis);
  analysis.without_executions = without.Rows(analysis);
  return analysis;
}

}  // namespace

absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading, Keep keep) {
  return AnalyzeWith(trace, options, reading, keep, /*make_watcher=*/nullptr);
}

absl::StatusOr<Analysis> AnalyzeAndWatch(const Trace& trace, const ReportOptions& options,
                                         const Diagnostics& reading, MakeWatcher make_watcher) {
  return AnalyzeWith(trace, options, reading, Keep::kSummaries, &make_watcher);
}

}  // namespace xplane_time
