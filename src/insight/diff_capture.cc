#include "insight/diff_capture.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "compare/inputs.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"
#include "timing/compiled_programs.h"
#include "timing/filters.h"

namespace xplane_time::insight {
namespace {

constexpr auto kStep = static_cast<size_t>(DiffPer::kStep);
constexpr auto kRun = static_cast<size_t>(DiffPer::kRun);
constexpr auto kCapture = static_cast<size_t>(DiffPer::kCapture);

// The times of one unit.
UnitTimes TimesOf(int64_t span_ps, const PartTimes& times, int64_t foreign_ps) {
  UnitTimes of = {.units = 1, .span_ps = span_ps, .foreign_ps = foreign_ps};
  of.busy_ps = std::accumulate(times.begin(), times.begin() + kRankCount, int64_t{0});
  of.idle_host_ps = times[kIdleHost];
  of.idle_launch_ps = times[kIdleLaunch];
  of.idle_unknown_ps = times[kIdleUnknown];
  const auto square = [](int64_t ps) { return static_cast<double>(ps) * static_cast<double>(ps); };
  of.squares = {.span = square(span_ps),
                .busy = square(of.busy_ps),
                .foreign = square(foreign_ps),
                .idle_host = square(of.idle_host_ps),
                .idle_launch = square(of.idle_launch_ps),
                .idle_unknown = square(of.idle_unknown_ps),
                .idle = square(of.idle_ps())};
  return of;
}

// Adds a capture's devices, one after the other.
class CaptureBuilder {
 public:
  CaptureBuilder(const Trace& trace, const Filters& filters, uint64_t skip,
                 Diagnostics* diagnostics, DiffCapture* capture)
      : trace_(trace),
        filters_(filters),
        skip_(skip),
        diagnostics_(diagnostics),
        capture_(capture) {}

  void Add(const DeviceAnalysis& device) {
    if (device.watcher == nullptr || device.row.executions == 0) return;
    const PartitionSweep& sweep = GetWatch(device).sweep();
    if (!sweep.any()) return;
    device_ = &device;
    NoteDevice();
    NumberPrograms();
    AddRuns();
    AddSteps();
    capture_->times[kCapture].Add(TimesOf(sweep.span_ps(), sweep.times(), 0));
    AddOwnTimes();
  }

  void Finish() {
    for (const DiffOp& op : capture_->ops) {
      uint64_t& signature = capture_->programs[op.program].signature;
      signature += op.traits.content != 0 ? Mixed(op.traits.content, op.traits.shapes)
                                          : HashOf(op.traits.kernel);
      capture_->ops_with_hlo += op.traits.opcode.empty() ? 0 : 1;
    }
    for (const DiffProgram& program : capture_->programs) capture_->times[kRun].Add(program.runs);
    capture_->any_run = capture_->times[kRun].units > 0;
    capture_->any_step = devices_with_steps_ > 0 && devices_with_steps_ == devices_;
    for (auto& [what, list] : told_) list->assign(what.begin(), what.end());
  }

 private:
  static constexpr uint32_t kUnwanted = kNone - 1;

  void NoteDevice() {
    const DeviceRef& ref = device_->row.device;
    const bool several_hosts = capture_->inputs.size() > 1 && !ref.host.empty();
    told_[0].first.insert((several_hosts ? ref.host + " " : "") + DeviceName(ref));
    told_[1].first.insert(std::string(DeviceKindName(device_->row.kind)));
    told_[2].first.insert(std::string(ClockName(device_->watch_clock)));
    std::string model = compare::ModelOf(trace_.planes[device_->plane.plane]);
    if (!model.empty()) told_[3].first.insert(std::move(model));
    capture_->any_launch |= GetWatch(*device_).any_launch();
    ++devices_;
  }

  // Programs of one name are numbered by their first run; on all devices alike.
  void NumberPrograms() {
    const auto& programs = device_->tables->programs;
    std::vector<int64_t> first_ps(programs.size(), std::numeric_limits<int64_t>::max());
    for (const RunSample& sample : device_->samples) {
      first_ps[sample.program] = std::min(first_ps[sample.program], sample.start_ps);
    }
    std::vector<uint32_t> order(programs.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](uint32_t each) { return first_ps[each]; });
    std::map<std::string, uint32_t> of_name;
    program_of_.assign(programs.size(), kUnwanted);
    for (const uint32_t each : order) {
      const ProgramInfo& info = programs[each];
      if (!filters_.WantsFunction(info.function)) continue;
      program_of_[each] = ProgramOf(info.function, of_name[info.function]++);
      DiffProgram& program = capture_->programs[program_of_[each]];
      const std::string id = info.program_id.value_or("");
      if (!id.empty() && std::ranges::find(program.program_ids, id) == program.program_ids.end()) {
        program.program_ids.push_back(id);
      }
    }
  }

  uint32_t ProgramOf(const std::string& function, uint32_t ordinal) {
    const auto next = static_cast<uint32_t>(capture_->programs.size());
    const auto [place, is_new] = programs_.try_emplace({function, ordinal}, next);
    if (is_new) capture_->programs.push_back({.function = function});
    return place->second;
  }

  void AddRuns() {
    const std::span<const RunState> runs = GetWatch(*device_).sweep().runs();
    counts_.assign(runs.size(), false);
    for (const RunSample& sample : device_->samples) {
      const uint32_t program = program_of_[sample.program];
      const bool has_ops = sample.id < runs.size() && runs[sample.id].extent.begun();
      if (program == kUnwanted || !has_ops || sample.skipped) continue;
      DiffProgram& of = capture_->programs[program];
      of.suspect_runs += sample.suspect ? 1 : 0;
      if (sample.suspect) continue;
      counts_[sample.id] = true;
      const RunState& run = runs[sample.id];
      of.runs.Add(TimesOf(run.extent.last_end_ps - run.extent.start_ps, run.times, run.foreign_ps));
    }
  }

  // The last step is excluded, because its end is not marked.
  void AddSteps() {
    const PartitionSweep& sweep = GetWatch(*device_).sweep();
    const std::vector<uint32_t>& order = sweep.step_order();
    steps_ = order.size() >= skip_ + 2 ? order.size() : 0;
    if (steps_ == 0) return;
    ++devices_with_steps_;
    for (size_t at = skip_; at + 1 < steps_; ++at) {
      const Extent &step = sweep.steps()[order[at]], &next = sweep.steps()[order[at + 1]];
      capture_->times[kStep].Add(
          TimesOf(next.start_ps - step.start_ps, next.at_start - step.at_start, 0));
    }
  }

  void AddOwnTimes() {
    op_of_.clear();
    for (const OwnTime& time : GetWatch(*device_).sweep().own_times()) {
      const int64_t whole_ps = time.of_device_ps + time.hidden_ps;
      clock_step_ps_ = std::gcd(clock_step_ps_, whole_ps);
      const uint32_t at = OpOf(time.op, time.program);
      if (at == kUnwanted) continue;
      std::array<OwnTimes, kPers>& times = capture_->ops[at].times;
      const auto add = [&](size_t per, int64_t own_ps) {
        const auto own = static_cast<double>(own_ps);
        times[per].Add({own_ps, whole_ps - own_ps, time.executions, own * own});
      };
      add(kCapture, time.of_device_ps);
      const bool in_step = time.steps_begun > skip_ && time.steps_begun < steps_;
      if (in_step) add(kStep, time.of_device_ps);
      if (time.run < counts_.size() && counts_[time.run]) add(kRun, time.of_run_ps);
    }
    capture_->clock_step_ps = clock_step_ps_;
  }

  uint32_t OpOf(uint32_t op, uint32_t program) {
    const auto [place, is_new] = op_of_.try_emplace({op, program}, kUnwanted);
    if (!is_new) return place->second;
    if (program == kNone && filters_.any_function()) return kUnwanted;
    const uint32_t of = program == kNone ? ProgramOf("", 0) : program_of_[program];
    if (of == kUnwanted) return kUnwanted;
    const OpInfo& info = device_->tables->ops[op];
    const auto next = static_cast<uint32_t>(capture_->ops.size());
    const auto [known, is_first] = ops_.try_emplace({of, info.kernel, info.hlo_op}, next);
    op_of_[{op, program}] = known->second;
    if (!is_first) return known->second;
    CompiledPrograms& compiled =
        compiled_.try_emplace(device_, *device_, diagnostics_).first->second;
    const HloProgram* const hlo = info.hlo_op.empty() ? nullptr : compiled.Of(program);
    capture_->ops.push_back({.program = of, .traits = ReaderOf(hlo)->Of(info, next)});
    return next;
  }

  TraitsReader* ReaderOf(const HloProgram* hlo) {
    return &readers_.try_emplace(hlo, hlo).first->second;
  }

  const Trace& trace_;
  const Filters& filters_;
  const uint64_t skip_;
  Diagnostics* const diagnostics_;
  DiffCapture* const capture_;
  const DeviceAnalysis* device_ = nullptr;
  size_t devices_ = 0, devices_with_steps_ = 0, steps_ = 0;
  int64_t clock_step_ps_ = 0;
  std::map<std::pair<std::string, uint32_t>, uint32_t> programs_;
  std::map<std::tuple<uint32_t, std::string, std::string>, uint32_t> ops_;
  // The measurements of one device.
  std::vector<uint32_t> program_of_;
  std::vector<bool> counts_;  // runs
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> op_of_;

  std::map<const DeviceAnalysis*, CompiledPrograms> compiled_;
  std::map<const HloProgram*, TraitsReader> readers_;
  std::array<std::pair<std::set<std::string>, std::vector<std::string>*>, 4> told_ = {
      {{{}, &capture_->devices},
       {{}, &capture_->kinds},
       {{}, &capture_->clocks},
       {{}, &capture_->models}}};
};

}  // namespace

void UnitTimes::Add(const UnitTimes& more) {
  units += more.units;
  for (int64_t UnitTimes::*part :
       {&UnitTimes::span_ps, &UnitTimes::busy_ps, &UnitTimes::foreign_ps, &UnitTimes::idle_host_ps,
        &UnitTimes::idle_launch_ps, &UnitTimes::idle_unknown_ps}) {
    this->*part = SaturatingAdd(this->*part, more.*part);
  }
  for (double Squares::*part :
       {&Squares::span, &Squares::busy, &Squares::foreign, &Squares::idle_host,
        &Squares::idle_launch, &Squares::idle_unknown, &Squares::idle}) {
    squares.*part += more.squares.*part;
  }
}

void OwnTimes::Add(const OwnTimes& more) {
  own_ps = SaturatingAdd(own_ps, more.own_ps);
  hidden_ps = SaturatingAdd(hidden_ps, more.hidden_ps);
  count += more.count;
  squares += more.squares;
}

absl::StatusOr<DiffCapture> MeasureForDiff(const Trace& trace, const DiffOptions& options,
                                           const Diagnostics& reading) {
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.select));
  ReportOptions how;
  how.device = options.select.device;
  how.categories = options.select.categories;
  how.threads = options.select.threads;
  how.skip_runs = options.select.skip_runs;
  how.events_done = options.select.events_done;
  const auto watch = [](const WatchContext& context) {
    auto made = WhereWatch::Make(context);
    if (made.ok()) static_cast<WhereWatch&>(**made).KeepOwnTimes();
    return made;
  };
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeAndWatch(trace, how, reading, watch));
  DiffCapture capture;
  capture.inputs = DescribeInputs(trace);
  CaptureBuilder builder(trace, filters, options.select.skip_runs, &analysis.diagnostics, &capture);
  for (const DeviceAnalysis& device : analysis.devices) builder.Add(device);
  builder.Finish();
  capture.diagnostics = DescribeDiagnostics(trace, analysis.diagnostics);
  return capture;
}

}  // namespace xplane_time::insight
