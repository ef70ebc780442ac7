// Findings, each from its own part of the partition:
//
//   compute             slow_device, slowing_down, then padding, below_roof and largest_op from
//                       what these leave
//   collective_exposed  the waits for a slow device (slow_device), then exposed_collective
//   copy_exposed        exposed_copy
//   idle_host           the waits for a slow device, recompilation (the host compiled),
//   input_bound,
//                       tiny_kernels, host_bound
//   idle_launch         tiny_kernels, launch_gap
//   idle_unknown        the waits for a slow device, recompilation, input_bound and host_bound (of
//                       devices without launches), tiny_kernels, idle
#include "xplane_time/brief.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "devices/device_kind.h"
#include "devices/gpu_runs/host_work.h"
#include "insight/findings.h"
#include "insight/host_compiles.h"
#include "insight/reports.h"
#include "insight/slow_runs.h"
#include "insight/where_watch.h"
#include "read/plane_index.h"
#include "saturate.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace insight {
namespace {

constexpr const char* kCertainties[] = {"sure", "upper_bound", "cannot_tell"};

class Briefer {
 public:
  Briefer(const Trace& trace, const BriefOptions& options, const HostCompiles& compiles,
          const WhereReport& where, FindingList* findings)
      : trace_(trace),
        threads_(options.threads),
        step_(options.step),
        compiles_(compiles),
        where_(where),
        findings_(*findings),
        devices_(findings->devices()) {}

  // All but those that concern roofs.
  void Add() {
    FindSlowRuns();
    AddTransfers();
    AddIdle();
    AddSuspects();
  }

 private:
  // ---- slow devices, slow runs

  void FindSlowRuns() {
    std::vector<const DeviceAnalysis*> analyses;
    for (const OfDevice& device : devices_) analyses.push_back(device.analysis);
    SlowRuns slow = FindSlow(analyses);
    for (size_t i = 0; i < devices_.size(); ++i) devices_[i].claims = std::move(slow.claims[i]);
    for (const SlowDevice& each : slow.devices) AddSlowDevice(each);
    if (slow.slowed.has_value() && findings_.IsWorthAWord(slow.slowed->by_device)) {
      AddSlowingDown(*slow.slowed);
    }
  }

  void AddSlowDevice(const SlowDevice& slow) {
    const bool known = slow.peers > 1;
    if (known && !findings_.IsWorthAWord(slow.by_device)) return;
    const DeviceRef& device = findings_.RefOf(slow.device);
    BriefFinding finding = {
        .code = "slow_device",
        .certainty = known ? Certainty::kUpperBound : Certainty::kCannotTell,
        .device = device,
        .function = slow.of.function,
        .what = Cat("slow device: ", DeviceName(device), " computes ", ShortName(slow.of.name()),
                    " ", ShareText(slow.ratio - 1), " slower than its ",
                    known ? Cat(slow.peers, " peers") : "only peer"),
        .command = slow.of.function.has_value()
                       ? findings_.FunctionCommand("functions", *slow.of.function, {})
                       : findings_.Command("where", {"--steps"})};
    finding.evidence = Cat("over ", CountText(slow.runs, slow.of.unit()), " on ", slow.peers + 1,
                           " devices, ", ChanceText(slow.p_value));
    if (!known) {
      Append(&finding.evidence, "; with only two devices it is unknown which one is normal");
      findings_.AddUnknown(std::move(finding));
      return;
    }
    const int64_t own_ps = slow.by_device[slow.device];
    const int64_t waits_ps =
        std::accumulate(slow.by_device.begin(), slow.by_device.end(), int64_t{0}) - own_ps;
    Append(&finding.what, ", by ", TimeText(AsDouble(own_ps)));
    Append(&finding.evidence, "; it loses ", TimeText(AsDouble(own_ps)), " itself");
    if (waits_ps > 0) {
      Append(&finding.evidence, ", and the others wait ", TimeText(AsDouble(waits_ps)),
             " for it, in collectives or idle");
    }
    findings_.Add(std::move(finding), slow.by_device);
  }

  void AddSlowingDown(const SlowedDown& slowed) {
    BriefFinding finding = {
        .code = "slowing_down",
        .certainty = Certainty::kUpperBound,
        .function = slowed.of.function,
        .command = slowed.of.function.has_value()
                       ? findings_.FunctionCommand("functions", *slowed.of.function,
                                                   {"--samples", "--format", "csv"})
                       : findings_.Command("where", {"--steps"})};
    const std::string name(ShortName(slowed.of.name()));
    const std::string slower =
        Cat(name, " got ", ShareText(slowed.ratio - 1), " slower",
            slowed.is_for_good ? Cat(" from ", slowed.of.unit(), " ", slowed.first_slow, " on")
                               : " in some periods");
    const std::optional<KernelsAlike> alike = CompareKernelsOf(slowed);
    finding.what =
        IsLikeThrottling(slowed, alike)
            ? Cat("throttling: ", slower, ", all kernels alike, as when the clock drops")
            : Cat(alike.has_value() ? "slowing down: " : "slowing down (throttling?): ", slower);
    finding.evidence =
        Cat(slowed.slow_runs, " of ", CountText(slowed.runs, slowed.of.unit()), ", ",
            ChanceText(slowed.p_value), AlikeText(slowed, alike),
            "; to record the clock, run xplane-time power record beside the program");
    findings_.Add(std::move(finding), slowed.by_device);
  }

  // Empty: unknown. Read errors are reported elsewhere.
  std::optional<KernelsAlike> CompareKernelsOf(const SlowedDown& slowed) const {
    if (slowed.alike.has_value()) return slowed.alike;
    MarkedRuns marked = slowed.marked;
    marked.step = step_;
    const auto compared = CompareKernels(trace_, marked, threads_);
    return compared.ok() ? *compared : std::nullopt;
  }

  // A lowered clock slows all kernels alike.
  static bool IsLikeThrottling(const SlowedDown& slowed, const std::optional<KernelsAlike>& alike) {
    if (!alike.has_value()) return false;
    const double slower = slowed.ratio - 1;
    return alike->least_ratio - 1 >= slower / 2 && alike->most_ratio - 1 <= slower * 2;
  }

  static std::string AlikeText(const SlowedDown& slowed, const std::optional<KernelsAlike>& alike) {
    if (!alike.has_value()) return "";
    if (IsLikeThrottling(slowed, alike)) {
      const std::string least = ShareText(alike->least_ratio - 1),
                        most = ShareText(alike->most_ratio - 1);
      return Cat("; all ", alike->kernels, " kernels got slower, by ",
                 least == most ? "" : least + " to ", most);
    }
    return Cat("; mostly ", ShortName(alike->slowest), ", by ", ShareText(alike->slowest_ratio - 1),
               "; a lower clock would slow all kernels equally");
  }

  static std::string ChanceText(double p_value) {
    if (p_value < 1e-6) return "which occurs by chance less than once in a million traces";
    return Cat("which occurs by chance once in ", std::llround(1 / p_value), " traces");
  }

  // ---- collectives and copies

  void AddTransfers() {
    Tally collectives(devices_.size()), copies(devices_.size());
    for (size_t i = 0; i < devices_.size(); ++i) {
      for (const OwnedTimes& owner : devices_[i].sweep->owners()) {
        const std::string name = findings_.OpName(devices_[i], owner);
        if (owner.rank == kCollective) collectives.Add(i, name, owner.busy_ps, owner.count);
        if (owner.rank == kCopy) copies.Add(i, name, owner.busy_ps, owner.count);
      }
      collectives.Take(i, devices_[i].claims.waits_ps);
    }
    AddTransfer("exposed_collective", "exposed collective: no kernel computes during ", collectives,
                Category::kCollective);
    AddTransfer("exposed_copy", "exposed copy: no other work runs during ", copies,
                Category::kCopy);
  }

  void AddTransfer(std::string_view code, const char* what, const Tally& tally, Category category) {
    if (!findings_.IsWorthAWord(tally.by_device())) return;
    const Tally::Most most = tally.most();
    BriefFinding finding = {.code = code, .command = findings_.Command("where")};
    finding.what = Cat(
        what, ShortName(tally.most().name),
        tally.names() == 1 ? std::string() : Cat(" and ", CountText(tally.names() - 1, "other")));
    finding.evidence =
        Cat(tally.MostlyText(), " ", ShortName(most.name), ", ", TimeText(AsDouble(most.ps)),
            " in ", most.count, PerStepText(tally, most.count));
    const DeviceRef& device = findings_.RefOf(tally.device());
    for (const WhereTransfer& each : where_.transfers) {
      if (each.device != device || each.category != category) continue;
      if (!each.bytes.has_value() || each.count == 0) break;
      if (most.name != NameOp(each.kernel, each.function)) continue;
      Append(&finding.evidence, ", ", BytesText(AsDouble(*each.bytes) / AsDouble(each.count)),
             each.count > 1 ? " each" : "");
      break;
    }
    Append(&finding.evidence, HiddenText(category));
    findings_.Add(std::move(finding), tally.by_device());
  }

  // ", 3 a step"; of the steps of all devices that have a part.
  std::string PerStepText(const Tally& tally, uint64_t count) const {
    uint64_t steps = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (tally.by_device()[i] > 0) steps += findings_.CountSteps(i);
    }
    if (steps < 2 || count < steps) return "";
    return Cat(" (", (count + steps / 2) / steps, " a step)");
  }

  std::string HiddenText(Category category) const {
    int64_t all_ps = 0, hidden_ps = 0;
    for (const OfDevice& device : devices_) {
      const TimeParts& time = device.row->time;
      const bool copies = category == Category::kCopy;
      const auto& hidden = copies ? time.copy_hidden_ps : time.collective_hidden_ps;
      all_ps = SaturatingAdd(all_ps, (copies ? time.copy_ps : time.collective_ps).value_or(0));
      hidden_ps = SaturatingAdd(hidden_ps, hidden.value_or(0));
    }
    if (all_ps <= 0) return "";
    const std::string share =
        hidden_ps == 0 ? "none" : ShareText(AsDouble(hidden_ps) / AsDouble(all_ps));
    return category == Category::kCopy
               ? Cat("; ", share, " of the copy time is hidden behind other work")
               : Cat("; ", share,
                     " of the collective time is hidden behind compute; the times include "
                     "waiting for slower peers");
  }

  // ---- idle

  // Idle time by its reason, and by the function that ended it.
  struct IdleTallies {
    explicit IdleTallies(size_t devices)
        : host(devices), launch(devices), unknown(devices), compiling(devices) {}
    Tally host, launch, unknown, compiling;
  };

  void AddIdle() {
    IdleTallies idle(devices_.size());
    for (size_t i = 0; i < devices_.size(); ++i) AddIdleOf(i, &idle);
    std::vector<int64_t> waits_ps(devices_.size());
    for (size_t i = 0; i < devices_.size(); ++i) waits_ps[i] = devices_[i].claims.idle_ps;
    AddRecompiled(&idle);
    TakeInput(&waits_ps, &idle);
    for (size_t i = 0; i < devices_.size(); ++i) {
      for (Tally* const tally : {&idle.host, &idle.unknown, &idle.launch}) {
        const int64_t ps = std::min(waits_ps[i], tally->by_device()[i]);
        tally->Take(i, ps);
        waits_ps[i] -= ps;
      }
    }
    TakeTinyKernels(&idle);
    AddGaps("host_bound",
            IsOnceAStep(idle.host)
                ? "host-bound: the device is idle before each step, and its host has launched "
                  "no work (it reads input or does other work)"
                : "host-bound: the device is idle and its host has launched no work",
            idle.host, /*tells_host=*/true);
    AddGaps("launch_gap", "launch gaps: the device is idle between launch and start", idle.launch,
            /*tells_host=*/false);
    AddGaps("idle",
            "idle: the trace does not show whether the device waits for input or for its host",
            idle.unknown,
            /*tells_host=*/true);
    AddCompiling(idle.compiling);
  }

  // Whether steps are unmarked, the idle time consists of few gaps per run of the longest function,
  // and no host work was seen in most of it.
  bool IsOnceAStep(const Tally& tally) const {
    if (devices_.empty()) return false;
    const OfDevice& device = devices_[tally.device()];
    if (device.row->step_source != StepSource::kFunction) return false;
    int64_t works_ps = 0;
    uint64_t gaps = 0;
    for (const OwnedTimes& owner : device.sweep->owners()) {
      works_ps = SaturatingAdd(works_ps, owner.host_doing_ps[kHostWorks]);
      if (owner.idle_host_ps > 0) gaps += owner.gaps;
    }
    const uint64_t steps = findings_.CountSteps(tally.device());
    return gaps <= steps + steps / 2 && works_ps < tally.by_device()[tally.device()] / 5;
  }

  // A device without launches waits for its host while the host dispatches. A CPU executes then.
  void AddIdleOf(size_t i, IdleTallies* idle) const {
    const bool is_host = RulesOf(devices_[i].row->kind).is_host;
    for (const OwnedTimes& owner : devices_[i].sweep->owners()) {
      if (owner.gaps == 0) continue;
      const std::string name = findings_.FunctionName(devices_[i], owner);
      const int64_t dispatching_ps = is_host ? 0 : owner.unknown_doing_ps[kHostWorks];
      const int64_t host_compiles_ps = owner.host_doing_ps[kHostCompiles],
                    unknown_compiles_ps = owner.unknown_doing_ps[kHostCompiles];
      idle->host.Add(i, name, owner.idle_host_ps - host_compiles_ps + dispatching_ps, owner.gaps);
      idle->launch.Add(i, name, owner.idle_launch_ps, owner.gaps);
      idle->unknown.Add(i, name, owner.idle_unknown_ps - unknown_compiles_ps - dispatching_ps,
                        owner.gaps);
      idle->compiling.Add(i, name, host_compiles_ps + unknown_compiles_ps, owner.gaps);
    }
  }

  // The waits for input are in the idle time that the host is the reason of; on a device without
  // launches, in that without a known reason. `waits_ps`: what slow devices have of it, by device.
  void TakeInput(std::vector<int64_t>* waits_ps, IdleTallies* idle) {
    std::vector<int64_t> input_ps(devices_.size());
    int64_t most_ps = 0;
    size_t most = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      Tally* const from =
          devices_[i].row->time.idle_host_ps.has_value() ? &idle->host : &idle->unknown;
      const int64_t all_ps =
          std::min(devices_[i].row->waits_for_input_ps.value_or(0), from->by_device()[i]);
      const int64_t for_slow_ps = std::min((*waits_ps)[i], all_ps);
      input_ps[i] = all_ps - for_slow_ps;
      (*waits_ps)[i] -= for_slow_ps;
      from->Take(i, all_ps);
      if (input_ps[i] <= most_ps) continue;
      most_ps = input_ps[i];
      most = i;
    }
    if (!findings_.IsWorthAWord(input_ps)) return;
    BriefFinding finding = {
        .code = "input_bound",
        .certainty = Certainty::kUpperBound,
        .what = "input-bound: the device is idle while its host waits for input",
        .evidence = InputText(most, most_ps),
        .command = findings_.Command("where")};
    findings_.Add(std::move(finding), input_ps);
  }

  std::string InputText(size_t device, int64_t ps) const {
    const WhereDevice& row = *devices_[device].row;
    const bool is_marked = row.step_source.has_value() && *row.step_source != StepSource::kFunction;
    std::string text;
    if (const uint64_t steps = findings_.CountSteps(device); steps > 0) {
      text = Cat(MeanText(ps, steps), " a step on average over ", CountText(steps, "step"), "; ");
    }
    Append(&text,
           is_marked ? "before the first launch of a step, while the host neither "
                       "dispatches, compiles nor waits for results; "
                     : "",
           "`input %` of `where`");
    for (const WhereGap& gap : where_.gaps) {
      if (gap.device != row.device || !gap.host_event.has_value()) continue;
      if (gpu_runs::ClassifyHostWork(*gap.host_event) != gpu_runs::HostWork::kWaitsForInput) {
        continue;
      }
      Append(&text, "; in the longest of these gaps, ", TimeText(AsDouble(gap.duration_ps)),
             ", the host was in ", ShortName(*gap.host_event));
      break;
    }
    return text;
  }

  // Kernels that take less than their launches: most gaps are before short kernels, and no longer
  // than a launch takes.
  void TakeTinyKernels(IdleTallies* idle) {
    constexpr double kTinyPs = 10e6, kLongGapPs = 20e6, kMost = 0.8;
    constexpr uint64_t kMany = 100;
    Tally tiny(devices_.size());
    uint64_t count = 0;
    double busy_ps = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (RulesOf(devices_[i].row->kind).is_host) continue;
      uint64_t executions = 0, gaps = 0, all = 0;
      double short_ps = 0;
      for (const OwnedTimes& owner : devices_[i].sweep->owners()) {
        all += owner.count;
        if (AsDouble(owner.busy_ps) > kTinyPs * AsDouble(owner.count)) continue;
        executions += owner.count;
        gaps += owner.gaps;
        short_ps += AsDouble(owner.busy_ps);
      }
      const int64_t idle_ps =
          idle->host.by_device()[i] + idle->launch.by_device()[i] + idle->unknown.by_device()[i];
      if (gaps < kMany || AsDouble(executions) < kMost * AsDouble(all) ||
          AsDouble(idle_ps) > kLongGapPs * AsDouble(gaps)) {
        continue;
      }
      count += executions;
      busy_ps += short_ps;
      tiny.Add(i, "", idle_ps, gaps);
      for (Tally* const tally : {&idle->host, &idle->launch, &idle->unknown}) {
        tally->Take(i, tally->by_device()[i]);
      }
    }
    if (!findings_.IsWorthAWord(tiny.by_device())) return;
    BriefFinding finding = {
        .code = "tiny_kernels",
        .certainty = Certainty::kUpperBound,
        .what = Cat("tiny kernels: ", count, " kernels of ", TimeText(busy_ps / AsDouble(count)),
                    " on average, and the device is idle between them"),
        .command = findings_.Command("where")};
    finding.evidence =
        Cat(CountText(tiny.count(), "gap"), ", ", MeanText(tiny.total_ps(), tiny.count()),
            " on average, about as long as a launch; fuse kernels, or launch them as "
            "a graph (jit, CUDA graphs, torch.compile)");
    findings_.Add(std::move(finding), tiny.by_device());
  }

  void AddGaps(std::string_view code, const char* what, const Tally& tally, bool tells_host) {
    if (!findings_.IsWorthAWord(tally.by_device())) return;
    BriefFinding finding = {.code = code, .what = what, .command = findings_.Command("where")};
    if (code == "idle") finding.certainty = Certainty::kUpperBound;
    finding.evidence = tells_host ? GapsAndHostText(tally) : GapsText(tally, 0);
    if (RulesOf(devices_[tally.device()].row->kind).is_host) {
      Append(&finding.evidence, "; on a CPU, work may continue after its thunk ends");
    }
    if (tells_host) Append(&finding.evidence, BetweenStepsText());
    findings_.Add(std::move(finding), tally.by_device());
  }

  // The part of the idle time that is between marked steps; empty if it is small.
  std::string BetweenStepsText() const {
    int64_t between_ps = 0, idle_ps = 0;
    for (const WhereDevice& row : where_.devices) {
      idle_ps = SaturatingAdd(idle_ps, row.time.idle_ps.value_or(0));
      if (row.step_source == StepSource::kFunction) continue;
      between_ps = SaturatingAdd(between_ps, row.idle_between_steps_ps.value_or(0));
    }
    if (between_ps < idle_ps / 4 || between_ps == 0) return "";
    return Cat("; ", TimeText(AsDouble(between_ps)),
               " of all idle time is before, between or after the marked steps");
  }

  static std::string MeanText(int64_t ps, uint64_t count) {
    return TimeText(AsDouble(ps) / AsDouble(std::max(count, uint64_t{1})));
  }

  // "98 gaps, 278 us on average, mostly before jit_f (22.7 ms in 23)"; but for the longest, which
  // has `longest_ps`.
  static std::string GapsText(const Tally& tally, int64_t longest_ps) {
    const uint64_t count = tally.count() - (longest_ps > 0 ? 1 : 0);
    const Tally::Most most = tally.most();
    std::string text =
        Cat(CountText(count, "gap"), ", ", MeanText(tally.total_ps() - longest_ps, count),
            count > 1 ? " on average" : "");
    if (tally.names() == 1) return Cat(text, ", before ", ShortName(most.name));
    Append(&text, ", ", tally.MostlyText(), " before ", ShortName(most.name));
    if (longest_ps > 0) return text;
    return Cat(text, " (", TimeText(AsDouble(most.ps)), " in ", most.count, ")");
  }

  std::string GapsAndHostText(const Tally& tally) const {
    const DeviceRef& device = findings_.RefOf(tally.device());
    // A long gap may be one between launch and start.
    const auto part_ps = [&](const WhereGap& gap) {
      const bool is_its =
          gap.device == device && !gpu_runs::IsCompileName(gap.host_event.value_or(""));
      return is_its ? gap.idle_host_ps.value_or(gap.duration_ps) : 0;
    };
    const auto longest = std::ranges::max_element(where_.gaps, {}, part_ps);
    const int64_t ps = longest == where_.gaps.end() ? 0 : part_ps(*longest);
    if (ps == 0 || !longest->host_event.has_value()) return GapsText(tally, 0);
    const std::string host = ShortName(*longest->host_event);
    // A mean is misleading if one gap is most of the idle time.
    if (tally.count() > 1 && ps >= tally.total_ps() / 2 && ps < tally.total_ps()) {
      return Cat("one gap of ", TimeText(AsDouble(ps)), ", in which the host was in ", host,
                 ", and ", GapsText(tally, ps));
    }
    return Cat(GapsText(tally, 0), "; in the longest, ", TimeText(AsDouble(ps)),
               ", the host was in ", host);
  }

  void AddCompiling(const Tally& tally) {
    if (!findings_.IsWorthAWord(tally.by_device())) return;
    uint64_t compiles = 0;
    int64_t compiling_ps = 0;
    std::set<HostKey> hosts;
    for (const OfDevice& device : devices_) {
      const Plane& plane = trace_.planes[device.analysis->plane.plane];
      if (!hosts.insert(MakeHostKey(plane)).second) continue;
      const HostCompiles::OfHost& of_host = compiles_.Of(plane);
      compiles += of_host.compiles;
      for (const Interval& each : of_host.intervals) {
        compiling_ps = SaturatingAdd(compiling_ps, each.end_ps - each.start_ps);
      }
    }
    BriefFinding finding = {.code = "recompilation",
                            .what = "recompilation: the device is idle while its host compiles",
                            .command = CompilesCommand()};
    if (compiles > 0) {
      finding.evidence = Cat(CountText(compiles, "program"), " compiled in the capture, in ");
    } else {
      finding.evidence = "compiling in the capture took ";
    }
    Append(&finding.evidence, TimeText(AsDouble(compiling_ps)));
    if (const Family family = LargestFamily(); family.programs > 1) {
      Append(&finding.evidence, "; ", family.Text());
    } else {
      Append(&finding.evidence, "; ", tally.MostlyText(), " before ", ShortName(tally.most().name));
    }
    findings_.Add(std::move(finding), tally.by_device());
  }

  std::string CompilesCommand() const {
    std::vector<std::string> words = {"events"};
    const std::vector<std::string>& traces = findings_.arguments();
    words.insert(words.end(), traces.begin(), traces.end());
    words.insert(words.end(),
                 {"--device", "all", "--name", "backend_compile|XlaCompile|::Compile"});
    return CommandText(words);
  }

  // The function that has most programs.
  struct Family {
    std::string function;
    size_t programs = 1;
    uint64_t runs = 0;

    std::string Text() const {
      return Cat(ShortName(function), " has ", programs, " programs in ", CountText(runs, "run"),
                 ": do its shapes or static arguments change?");
    }
  };
  Family LargestFamily() const {
    std::map<std::string, std::pair<std::set<std::string>, uint64_t>> families;  // programs, runs
    for (const WhereFunction& row : where_.functions) {
      auto& [programs, runs] = families[row.function];
      programs.insert(row.program_id.value_or(""));
      runs += row.runs;
    }
    Family largest;
    for (const auto& [function, family] : families) {
      if (family.first.size() <= largest.programs) continue;
      largest = {function, family.first.size(), family.second};
    }
    return largest;
  }

  // Whether the runs of a function are mostly first runs of programs.
  bool IsCompiledAgain(const Family& family) const {
    constexpr size_t kMany = 4, kFewRuns = 2;
    return family.programs >= kMany && family.runs <= kFewRuns * family.programs * devices_.size();
  }

  // Without host events that compile: a function that is a new program nearly each time that it
  // runs, and a device that is idle before.
  void AddRecompiled(IdleTallies* idle) {
    const Family family = LargestFamily();
    if (idle->compiling.total_ps() > 0 || !IsCompiledAgain(family)) return;
    // Small programs of the same name, such as those that set up a loop, are not a recompilation.
    std::vector<int64_t> by_device(devices_.size());
    int64_t own_ps = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      by_device[i] = idle->host.of(i, family.function) + idle->unknown.of(i, family.function);
      own_ps = SaturatingAdd(own_ps, by_device[i]);
    }
    if (!findings_.IsWorthAWord(by_device) ||
        own_ps < (idle->host.total_ps() + idle->unknown.total_ps()) / 2) {
      AddManyPrograms(family);
      return;
    }
    for (size_t i = 0; i < devices_.size(); ++i) {
      for (Tally* const tally : {&idle->host, &idle->unknown}) {
        tally->Take(i, tally->of(i, family.function));
      }
    }
    findings_.Add({.code = "recompilation",
                   .certainty = Certainty::kUpperBound,
                   .function = family.function,
                   .what = Cat("recompilation: the device is idle before new programs of ",
                               ShortName(family.function)),
                   .evidence = Cat("no host event in the trace shows a compiler; ", family.Text()),
                   .command = findings_.FunctionCommand("functions", family.function, {})},
                  by_device);
  }

  // Without a host in the trace: whether programs may have been compiled in it.
  void AddManyPrograms(const Family& family) {
    const bool has_host = std::ranges::any_of(trace_.lines, [&](const Line& line) {
      return line.event_count > 0 && trace_.planes[line.plane].name.starts_with("/host:");
    });
    if (has_host) return;
    findings_.AddUnknown({.code = "recompilation",
                          .certainty = Certainty::kCannotTell,
                          .function = family.function,
                          .what = "programs may have been compiled in the capture",
                          .evidence = Cat("the trace has no host plane; ", family.Text()),
                          .command = findings_.FunctionCommand("functions", family.function, {})});
  }

  // ---- what was left out

  void AddSuspects() {
    uint64_t suspect = 0, most = 0;
    const WhereFunction* worst = nullptr;
    std::set<std::string_view> functions;
    for (const WhereFunction& row : where_.functions) {
      suspect += row.suspect_runs;
      if (row.suspect_runs > 0) functions.insert(row.function);
      if (row.suspect_runs > most) most = row.suspect_runs, worst = &row;
    }
    if (worst == nullptr) return;
    BriefFinding finding = {
        .code = "suspect_runs",
        .certainty = Certainty::kCannotTell,
        .function = worst->function,
        .what = Cat(suspect == 1 ? "1 run lacks" : Cat(suspect, " runs lack"), " kernels and ",
                    suspect == 1 ? "is" : "are", " excluded from the times of functions"),
        .evidence = Cat(functions.size() > 1 ? Cat("of ", functions.size(), " functions, most: ")
                                             : std::string(),
                        worst->suspect_runs, " of ", CountText(worst->runs, "run"), " of ",
                        ShortName(worst->function),
                        "; the capture began or ended during a run, or events were lost")};
    finding.command = functions.size() > 1
                          ? findings_.Command("functions", {"--samples"})
                          : findings_.FunctionCommand("functions", worst->function, {"--samples"});
    if (devices_.size() == 1) finding.device = findings_.RefOf(0);
    findings_.AddUnknown(std::move(finding));
  }

  const Trace& trace_;
  const int threads_;
  const std::string step_;
  const HostCompiles& compiles_;
  const WhereReport& where_;
  FindingList& findings_;
  std::vector<OfDevice>& devices_;
};

// The first event of a host on the profile clock. Lines are in order of start, so the first batch
// of each is enough; of one that is damaged, what comes first counts.
int64_t FindFirstHostEvent(const Trace& trace, const Plane& of) {
  int64_t first_ps = std::numeric_limits<int64_t>::max();
  const auto index = IndexPlanes(trace);
  for (const uint32_t of_host : index->HostPlanes(of)) {
    const Plane& plane = trace.planes[of_host];
    for (uint32_t i = 0; i < plane.line_count; ++i) {
      Diagnostics ignored;
      const auto take = [&](const EventBatch& batch) {
        for (size_t row = 0; row < batch.size(); ++row) {
          if (batch.start_ps[row] == kNoTimePs) continue;
          first_ps = std::min(first_ps, batch.start_ps[row]);
        }
        return absl::CancelledError();
      };
      VisitEvents(trace, plane.first_line + i, {}, &ignored, take).IgnoreError();
    }
  }
  return first_ps;
}

// Time before the first execution of a host's devices, which no finding contains; empty: it is no
// large part of the time up to the last execution.
std::vector<std::string> DescribeLateStarts(const Trace& trace, const Analysis& analysis,
                                            const HostCompiles& compiles) {
  constexpr double kLargePart = 0.2;
  struct Work {
    const Plane* plane = nullptr;
    int64_t first_ps = 0, last_ps = 0;
  };
  std::map<HostKey, Work> hosts;
  for (const DeviceAnalysis& device : analysis.devices) {
    const DeviceRow& row = device.row;
    if (row.executions == 0 || !row.first_ps.has_value() || !row.last_ps.has_value()) continue;
    const Plane& plane = trace.planes[device.plane.plane];
    Work& work = hosts[MakeHostKey(plane)];
    work = {&plane, work.plane == nullptr ? *row.first_ps : std::min(work.first_ps, *row.first_ps),
            work.plane == nullptr ? *row.last_ps : std::max(work.last_ps, *row.last_ps)};
  }
  std::vector<std::string> texts;
  for (const auto& [host, work] : hosts) {
    const int64_t begin_ps = FindFirstHostEvent(trace, *work.plane);
    if (begin_ps >= work.first_ps) continue;
    const double idle_ps = AsDouble(work.first_ps) - AsDouble(begin_ps),
                 share = idle_ps / (AsDouble(work.last_ps) - AsDouble(begin_ps));
    if (share < kLargePart) continue;
    int64_t compiling_ps = 0;
    for (const Interval& each : compiles.Of(*work.plane).intervals) {
      const int64_t end_ps = std::min(each.end_ps, work.first_ps);
      if (end_ps > each.start_ps) compiling_ps += end_ps - each.start_ps;
    }
    texts.push_back(Cat("the first execution starts ", TimeText(idle_ps),
                        " after the first host event, ", ShareText(share),
                        " of the time up to the last execution",
                        compiling_ps > 0 ? Cat("; the host traces or compiles programs for ",
                                               TimeText(AsDouble(compiling_ps)), " of it")
                                         : std::string(),
                        "; the findings leave this time out"));
  }
  return texts;
}

}  // namespace
}  // namespace insight

std::string_view CertaintyName(Certainty certainty) {
  return insight::kCertainties[static_cast<size_t>(certainty)];
}

absl::StatusOr<BriefReport> FindBrief(const Trace& trace, const BriefOptions& options,
                                      const Diagnostics& reading) {
  constexpr size_t kMaxDoubts = 4;  // of many devices
  ReportOptions how;
  how.device = options.device;
  how.categories = options.categories;
  how.step = options.step;
  how.threads = options.threads;
  how.events_done = options.events_done;
  const HeadroomOptions of_headroom = {.select = how,
                                       .peak_flops_per_s = options.peak_flops_per_s,
                                       .peak_bytes_per_s = options.peak_bytes_per_s};
  RETURN_IF_ERROR(insight::CheckPeaks(of_headroom));
  const auto compiles = insight::HostCompiles::Read(trace, options.threads);
  const auto make = [&](const WatchContext& context) {
    const Plane& plane = context.trace.planes[context.plane.plane];
    return insight::WhereWatch::MakeTellingOwners(context, compiles.Of(plane).intervals);
  };
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeAndWatch(trace, how, reading, make));
  ASSIGN_OR_RETURN(
      const WhereReport where,
      insight::WhereOf(trace, &analysis, {.device = options.device, .threads = options.threads},
                       /*keeps_devices=*/true));
  ASSIGN_OR_RETURN(const HeadroomReport headroom,
                   insight::HeadroomOf(trace, &analysis, of_headroom));
  insight::FindingList findings(trace, options, analysis, where);
  insight::Briefer(trace, options, compiles, where, &findings).Add();
  insight::AddRoofs(headroom, &findings);
  std::vector<BriefOp> ops = insight::FindLargestOps(headroom, findings);
  BriefReport report = std::move(findings).Take();
  report.inputs = where.inputs;
  report.ops = std::move(ops);
  report.diagnostics = headroom.diagnostics;
  if (insight::IsDoubtful(report)) {
    // What is missing or wrong may be in any time.
    for (BriefFinding& finding : report.findings) {
      if (finding.certainty == Certainty::kSure) finding.certainty = Certainty::kUpperBound;
    }
  }
  for (const WhereDevice& device : where.devices) {
    for (std::string& doubt : insight::DescribeStepDoubts(device)) {
      const bool is_new = std::ranges::find(report.doubts, doubt) == report.doubts.end();
      if (is_new && report.doubts.size() < kMaxDoubts) report.doubts.push_back(std::move(doubt));
    }
  }
  for (std::string& text : insight::DescribeLateStarts(trace, analysis, compiles)) {
    if (report.doubts.size() < kMaxDoubts) report.doubts.push_back(std::move(text));
  }
  report.headline = insight::DescribeMainCause(report, where);
  return report;
}

}  // namespace xplane_time
