#include "timing/plane_analyzer.h"

#include <algorithm>
#include <utility>

#include "timing/execution_columns.h"

namespace xplane_time {
namespace {

bool HasStat(const Plane& plane, std::string_view name) {
  const auto& entries = plane.stat_metadata.entries;
  return std::any_of(entries.begin(), entries.end(),
                     [&](const StatMetadata& stat) { return stat.name == name; });
}

}  // namespace

PlaneAnalyzer::PlaneAnalyzer(const Trace& trace, const DevicePlane& plane,
                             const Selection& selection, const CollectOptions& collect,
                             EvidenceSource evidence)
    : trace_(trace),
      plane_(plane),
      rules_(RulesOf(plane.kind)),
      evidence_(std::move(evidence)),
      stream_(trace, plane, selection, collect) {}

std::unique_ptr<RunSplitter> PlaneAnalyzer::MakeSplitter() const {
  SplitContext context;
  context.plane = plane_.plane;
  context.tables = stream_.tables();
  context.modules = stream_.modules();
  context.may_have_programs = HasStat(trace_.planes[plane_.plane], "hlo_module");
  context.evidence = evidence_;
  return rules_.make_splitter(context);
}

PlaneAnalyzer::Device& PlaneAnalyzer::DeviceOf(std::optional<int64_t> ordinal,
                                               const MeterSettings* settings, Devices* devices) {
  Device& device = (*devices)[ordinal];
  if (device.splitter == nullptr) device.splitter = MakeSplitter();
  if (device.meter == nullptr && settings != nullptr) {
    device.meter =
        std::make_unique<DeviceMeter>(plane_, stream_.tables(), stream_.modules(), *settings);
  }
  return device;
}

absl::Status PlaneAnalyzer::ForEachChunk(ChunkVisitor visitor) {
  if (whole_.has_value()) return visitor(&*whole_);
  if (absl::Status status = stream_.Start(size_); !status.ok()) return status;
  DeviceExecutions chunk;
  for (;;) {
    if (absl::Status status = stream_.Next(&chunk); !status.ok()) return status;
    if (chunk.size() == 0) return absl::OkStatus();
    if (absl::Status status = visitor(&chunk); !status.ok()) return status;
    if (size_ == ChunkSize::kWhole) whole_ = std::move(chunk);
    if (whole_.has_value()) return absl::OkStatus();
  }
}

// A CPU plane holds the thunks of several devices.
absl::Status PlaneAnalyzer::ForEachDevice(DeviceExecutions* chunk, Devices* devices,
                                          const MeterSettings* settings) {
  const auto take = [&](std::optional<int64_t> ordinal, DeviceExecutions* rows) {
    Device& device = DeviceOf(ordinal, settings, devices);
    device.splitter->Assign(rows);
    if (device.meter != nullptr) device.meter->Add(*rows);
  };
  const std::vector<int64_t>& ordinals = chunk->device_ordinal;
  const auto known = [](int64_t ordinal) {
    return ordinal == kNoOrdinal ? std::nullopt : std::optional(ordinal);
  };
  if (plane_.kind != DeviceKind::kCpu) {
    take(plane_.ordinal, chunk);
    return absl::OkStatus();
  }
  if (std::all_of(ordinals.begin(), ordinals.end(),
                  [&](int64_t ordinal) { return ordinal == ordinals[0]; })) {
    take(known(ordinals[0]), chunk);
    return absl::OkStatus();
  }
  std::map<int64_t, std::vector<uint32_t>> rows_of;
  for (uint32_t row = 0; row < chunk->size(); ++row) rows_of[ordinals[row]].push_back(row);
  chunk->run.resize(chunk->size());
  for (const auto& [ordinal, rows] : rows_of) {
    DeviceExecutions part;
    part.plane = chunk->plane;
    part.tables = chunk->tables;
    GatherRows(rows, chunk, &part);
    take(known(ordinal), &part);
    for (size_t i = 0; i < rows.size(); ++i) chunk->run[rows[i]] = part.run[i];
  }
  return absl::OkStatus();
}

// Measures as well, as long as runs are known early.
absl::Status PlaneAnalyzer::LookOnce(const MeterSettings* settings, Devices* devices) {
  Device& device = DeviceOf(plane_.ordinal, settings, devices);
  return ForEachChunk([&](DeviceExecutions* chunk) {
    if (absl::Status status = device.splitter->Look(*chunk); !status.ok()) return status;
    const bool assigned = device.splitter->AssignEarly(chunk);
    if (assigned && device.meter != nullptr) device.meter->Add(*chunk);
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> PlaneAnalyzer::Pass(const MeterSettings* settings, Keep keep,
                                         Devices* devices) {
  devices->clear();
  const bool one_device = plane_.kind != DeviceKind::kCpu;
  if (keep == Keep::kExecutions) size_ = ChunkSize::kWhole;
  const auto needs_whole = [&] {
    if (!stream_.needs_whole()) return false;
    size_ = ChunkSize::kWhole;
    return true;
  };
  // Modules are known once the stream was started.
  if (!whole_.has_value()) {
    if (absl::Status status = stream_.Start(size_); !status.ok()) return status;
  }
  if (one_device) DeviceOf(plane_.ordinal, settings, devices);
  bool assigned = false;
  while (one_device && devices->begin()->second.splitter->WantsLook()) {
    const absl::Status status = LookOnce(settings, devices);
    if (!status.ok()) return status;
    if (needs_whole()) return false;
    RunSplitter& splitter = *devices->begin()->second.splitter;
    splitter.EndLook();
    assigned = splitter.early_was_right();
    if (assigned) break;
    devices->begin()->second.meter = nullptr;  // what it measured was too early
    DeviceOf(plane_.ordinal, settings, devices);
  }
  if (!assigned) {
    const absl::Status status = ForEachChunk(
        [&](DeviceExecutions* chunk) { return ForEachDevice(chunk, devices, settings); });
    if (!status.ok()) return status;
    if (needs_whole()) return false;
  }
  for (const ExecutionStream::Aggregated& each : stream_.aggregated()) {
    const auto ordinal = one_device                   ? plane_.ordinal
                         : each.ordinal == kNoOrdinal ? std::nullopt
                                                      : std::optional(each.ordinal);
    Device& device = DeviceOf(ordinal, settings, devices);
    if (device.meter != nullptr) device.meter->AddAggregated(each.execution);
    if (keep == Keep::kExecutions) device.kept.aggregated.push_back(each.execution);
  }
  for (const auto& [ordinal, device] : *devices) {
    if (device.meter == nullptr || !device.meter->disordered()) continue;
    size_ = ChunkSize::kWhole;
    return false;
  }
  return true;
}

DeviceExecutions PlaneAnalyzer::TakeKept(std::optional<int64_t> ordinal, Device* device) const {
  DeviceExecutions kept = std::move(device->kept);
  if (whole_.has_value()) {
    DeviceExecutions all = *whole_;
    std::vector<uint32_t> rows;
    for (uint32_t row = 0; row < all.size(); ++row) {
      const bool own = plane_.kind != DeviceKind::kCpu ||
                       all.device_ordinal[row] == ordinal.value_or(kNoOrdinal);
      if (own) rows.push_back(row);
    }
    GatherRows(rows, &all, &kept);
  }
  kept.plane = plane_;
  kept.ordinal = ordinal;
  kept.tables = stream_.tables();
  kept.modules.assign(stream_.modules().begin(), stream_.modules().end());
  kept.completion_ps = stream_.completion_ps();
  return kept;
}

bool PlaneAnalyzer::PlanHeld(ClockPlan* clocks, const Devices& devices) const {
  std::vector<ClockPlan::Counts> all(stream_.tables()->programs.size() + 1);
  for (const auto& [ordinal, device] : devices) {
    const auto& counts = device.meter->clock_counts();
    for (size_t i = 0; i < counts.size(); ++i) {
      const size_t at = i + 1 == counts.size() ? all.size() - 1 : i;
      all[at].with += counts[i].with;
      all[at].without += counts[i].without;
    }
  }
  return clocks->Correct(all);
}

namespace {

// More than 1 % apart.
bool Disagree(int64_t profile_ps, int64_t device_ps) {
  const int64_t difference =
      profile_ps > device_ps ? profile_ps - device_ps : device_ps - profile_ps;
  return difference > device_ps / 100;
}

// Runs and their times become samples.
class SampleMaker {
 public:
  SampleMaker(const PlaneAnalyzer::Settings& settings, const ClockPlan& clocks,
              DeviceAnalysis* device, Diagnostics* diagnostics)
      : settings_(settings), clocks_(clocks), device_(device), diagnostics_(diagnostics) {}

  // Runs in any order; ids are positions.
  void Make(const std::vector<Run>& runs, DeviceMeter* meter) {
    std::vector<std::vector<uint32_t>> runs_of_program(device_->tables->programs.size());
    device_->samples.reserve(runs.size());
    for (uint32_t i = 0; i < runs.size(); ++i) runs_of_program[runs[i].program].push_back(i);
    const auto earlier = [&](uint32_t a, uint32_t b) {
      return runs[a].profile.start_ps < runs[b].profile.start_ps;
    };
    for (std::vector<uint32_t>& own : runs_of_program) {
      if (own.empty()) continue;
      if (!std::is_sorted(own.begin(), own.end(), earlier)) {
        std::stable_sort(own.begin(), own.end(), earlier);
      }
      AddProgram(runs, own, meter);
    }
  }

 private:
  void AddProgram(const std::vector<Run>& runs, std::span<const uint32_t> own, DeviceMeter* meter) {
    const uint32_t program = runs[own[0]].program;
    const std::optional<Clock> clock = clocks_.Of(program);
    if (!clock.has_value()) return;
    const std::string& function = device_->tables->programs[program].function;
    const bool wanted = settings_.filters->WantsFunction(function);
    const std::vector<bool> suspect = meter->contents().Suspects(own);
    uint64_t ordinal = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      const Run& run = runs[own[i]];
      const RunTimes times = own[i] < meter->runs().size() ? meter->runs()[own[i]] : RunTimes();
      if (times.kernels == 0 && (times.executions > 0 || settings_.filters->any_op())) continue;
      RunSample sample = Measure(run, times, *clock);
      diagnostics_->Count(DiagnosticCode::kSuspectRun, Where(), suspect[i] ? 1 : 0);
      if (!wanted) continue;
      sample.run = own[i];
      sample.suspect = suspect[i];
      sample.ordinal = ordinal++;
      sample.skipped = sample.ordinal < settings_.options->skip_runs;
      device_->samples.push_back(sample);
    }
  }

  RunSample Measure(const Run& run, const RunTimes& times, Clock clock) {
    RunSample sample;
    sample.program = run.program;
    sample.profile = run.profile;
    sample.uncertain = run.uncertain;
    sample.has_key = run.key.has_value();
    sample.key = run.key.value_or(0);
    if (times.kernels == 0) {
      diagnostics_->Count(DiagnosticCode::kNoOps, Where());
      sample.start_ps = run.profile.start_ps;
      sample.span_ps = run.profile.end_ps - run.profile.start_ps;
      return sample;
    }
    sample.clock = clock;
    sample.has_active = true;
    sample.kernels = times.kernels;
    sample.start_ps = times.start_ps;
    sample.span_ps = times.end_ps - times.start_ps;
    sample.active_ps = times.active_ps;
    sample.sum_ps = times.sum_ps;
    if (clock == Clock::kDevice && times.kernels == times.executions &&
        Disagree(run.profile.end_ps - run.profile.start_ps, sample.span_ps)) {
      diagnostics_->Count(DiagnosticCode::kClocksDisagree, Where());
    }
    return sample;
  }

  Location Where() const { return {.plane = device_->plane.plane}; }

  const PlaneAnalyzer::Settings& settings_;
  const ClockPlan& clocks_;
  DeviceAnalysis* device_;
  Diagnostics* diagnostics_;
};

// Kernels of a GPU that name no function although they lie inside some run's span.
void CountLostAnnotations(const DeviceMeter& meter, const std::vector<Run>& runs, uint32_t plane,
                          Diagnostics* diagnostics) {
  if (meter.lost().empty()) return;
  std::vector<Interval> spans;
  for (const Run& run : runs) spans.push_back(run.profile);
  spans = MergeIntervals(std::move(spans));
  for (const DeviceMeter::Lost& lost : meter.lost()) {
    const auto after =
        std::upper_bound(spans.begin(), spans.end(), lost.start_ps,
                         [](int64_t time, const Interval& span) { return time < span.start_ps; });
    if (after != spans.begin() && lost.start_ps < std::prev(after)->end_ps) {
      diagnostics->Count(DiagnosticCode::kKernelWithoutFunction,
                         {.plane = plane, .line = lost.line});
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<DeviceAnalysis>> PlaneAnalyzer::Analyze(const Settings& settings,
                                                                   Diagnostics* diagnostics) {
  const ReportOptions& options = *settings.options;
  ClockPlan clocks(plane_.kind, options.clock,
                   HasStat(trace_.planes[plane_.plane], "device_offset_ps"));
  const MeterSettings meter_settings = {settings.filters, &clocks, options.tolerance_ps};
  if (options.tolerance_ps > 0) size_ = ChunkSize::kWhole;
  Devices devices;
  for (;;) {
    const absl::StatusOr<bool> counts = Pass(&meter_settings, settings.keep, &devices);
    if (!counts.ok()) return counts.status();
    if (*counts && PlanHeld(&clocks, devices)) break;
  }
  diagnostics->Merge(stream_.diagnostics());
  std::vector<DeviceAnalysis> analyses;
  for (auto& [ordinal, device] : devices) {
    DeviceMeter& meter = *device.meter;
    DeviceAnalysis& analysis = analyses.emplace_back();
    analysis.plane = plane_;
    analysis.ref.ordinal = ordinal;
    analysis.tables = stream_.tables();
    analysis.any_module = !stream_.modules().empty();
    analysis.clocks = clocks;
    meter.Finish(stream_.completion_ps(), diagnostics);
    const std::vector<Run> runs = device.splitter->Finish(diagnostics);
    clocks.Report(meter.clock_counts(), plane_.plane, diagnostics);
    SampleMaker(settings, clocks, &analysis, diagnostics).Make(runs, &meter);
    CountLostAnnotations(meter, runs, plane_.plane, diagnostics);
    analysis.totals = meter.totals();
    analysis.self_ps = meter.self_ps();
    analysis.cells = meter.TakeCells();
    if (settings.keep == Keep::kExecutions) analysis.executions = TakeKept(ordinal, &device);
    device = {};  // its runs may be many
  }
  return analyses;
}

absl::StatusOr<std::vector<DeviceRuns>> PlaneAnalyzer::Collect(Diagnostics* diagnostics) {
  Devices devices;
  for (;;) {
    const absl::StatusOr<bool> counts = Pass(nullptr, Keep::kExecutions, &devices);
    if (!counts.ok()) return counts.status();
    if (*counts) break;
  }
  diagnostics->Merge(stream_.diagnostics());
  std::vector<DeviceRuns> all;
  for (auto& [ordinal, device] : devices) {
    DeviceRuns& runs = all.emplace_back();
    runs.executions = TakeKept(ordinal, &device);
    runs.runs = device.splitter->Finish(diagnostics);
  }
  return all;
}

}  // namespace xplane_time
