// Findings, each from its own part of the partition:
//
//   compute             slow_device, slowing_down, then below_roof from what these leave
//   collective_exposed  the waits for a slow device (slow_device), then exposed_collective
//   copy_exposed        exposed_copy
//   idle_host           recompilation (the host compiled), input_bound (of steps), host_bound
//   idle_launch         launch_gap
//   idle_unknown        recompilation, input_bound (of steps without launches), idle
#include "xplane_time/brief.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "devices/device_kind.h"
#include "insight/findings.h"
#include "insight/host_compiles.h"
#include "insight/reports.h"
#include "insight/slow_runs.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"

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
        compiles_(compiles),
        where_(where),
        findings_(*findings),
        devices_(findings->devices()) {}

  // But those of roofs.
  void Add() {
    FindSlowRuns();
    AddTransfers();
    AddIdle();
    AddSuspects();
    AddManyPrograms();
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
        .function = slow.function,
        .what = Cat(DeviceName(device), " computes ", ShortName(slow.function), " ",
                    ShareText(slow.ratio - 1), " slower than its ", known ? "peers" : "only peer"),
        .command = findings_.FunctionCommand("functions", slow.function, {})};
    finding.evidence = Cat("over ", CountText(slow.runs, "run"), " on ", slow.peers + 1,
                           " devices, ", ChanceText(slow.p_value));
    if (!known) {
      Append(&finding.evidence, "; of two devices nobody can tell which one is as it should be");
      findings_.AddUnknown(std::move(finding));
      return;
    }
    const int64_t own_ps = slow.by_device[slow.device];
    const int64_t waits_ps =
        std::accumulate(slow.by_device.begin(), slow.by_device.end(), int64_t{0}) - own_ps;
    Append(&finding.evidence, "; ", TimeText(AsDouble(own_ps)), " of its own");
    if (waits_ps > 0) {
      Append(&finding.evidence, ", and ", TimeText(AsDouble(waits_ps)),
             " that others waited for it in collectives (exposed_collective is without it)");
    }
    findings_.Add(std::move(finding), slow.by_device);
  }

  void AddSlowingDown(const SlowedDown& slowed) {
    BriefFinding finding = {
        .code = "slowing_down",
        .certainty = Certainty::kUpperBound,
        .function = slowed.function,
        .what = Cat(ShortName(slowed.function), " got ", ShareText(slowed.ratio - 1), " slower",
                    slowed.is_for_good ? "" : " for stretches"),
        .command = findings_.FunctionCommand("functions", slowed.function,
                                             {"--samples", "--format", "csv"})};
    finding.evidence = Cat(slowed.slow_runs, " of ", CountText(slowed.runs, "run"),
                           slowed.is_for_good ? Cat(", from run ", slowed.first_slow, " on") : "",
                           ", ", ChanceText(slowed.p_value), AlikeText(slowed),
                           "; xplane-time power record beside the program has the clock");
    findings_.Add(std::move(finding), slowed.by_device);
  }

  // Whether a lowered clock may be it. Damage is told by others.
  std::string AlikeText(const SlowedDown& slowed) const {
    const auto compared = CompareKernels(trace_, slowed.marked, threads_);
    if (!compared.ok() || !compared->has_value()) return "";
    const KernelsAlike& alike = **compared;
    const double slower = slowed.ratio - 1;
    if (alike.least_ratio - 1 >= slower / 2 && alike.most_ratio - 1 <= slower * 2) {
      const std::string least = ShareText(alike.least_ratio - 1),
                        most = ShareText(alike.most_ratio - 1);
      return Cat("; all ", alike.kernels, " kernels alike, by ",
                 least == most ? "" : least + " to ", most, ", as where a clock is lowered");
    }
    return Cat("; mostly ", ShortName(alike.slowest), ", by ", ShareText(alike.slowest_ratio - 1),
               ", where a lowered clock would slow all kernels alike");
  }

  static std::string ChanceText(double p_value) {
    if (p_value < 1e-6) return "by chance less than once in a million";
    return Cat("by chance once in ", std::llround(1 / p_value));
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
    AddTransfer("exposed_collective", "collectives, and nothing computed meanwhile", collectives,
                Category::kCollective);
    AddTransfer("exposed_copy", "copies, and nothing else ran meanwhile", copies, Category::kCopy);
  }

  void AddTransfer(std::string_view code, const char* what, const Tally& tally, Category category) {
    if (!findings_.IsWorthAWord(tally.by_device())) return;
    const Tally::Most most = tally.most();
    BriefFinding finding = {.code = code, .what = what, .command = findings_.Command("where")};
    finding.evidence =
        Cat(tally.MostlyText(), " ", ShortName(most.name), ", ", TimeText(AsDouble(most.ps)),
            " in ", most.count, PerStepText(tally, most.count));
    const DeviceRef& device = findings_.RefOf(tally.device());
    for (const WhereTransfer& each : where_.transfers) {
      if (!SameDevice(each.device, device) || each.category != category) continue;
      if (!each.bytes.has_value() || each.count == 0) break;
      if (most.name != (each.function ? OfFunction(each.kernel, *each.function) : each.kernel)) {
        continue;
      }
      Append(&finding.evidence, ", ", BytesText(AsDouble(*each.bytes) / AsDouble(each.count)),
             " each");
      break;
    }
    Append(&finding.evidence, HiddenText(category));
    findings_.Add(std::move(finding), tally.by_device());
  }

  // ", 3 a step"; of the steps of all devices that have a part.
  std::string PerStepText(const Tally& tally, uint64_t count) const {
    uint64_t steps = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (tally.by_device()[i] > 0) steps += devices_[i].row->steps;
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
                     " of the collective time is hidden behind compute; waiting for slower peers "
                     "is inside");
  }

  // ---- idle

  void AddIdle() {
    Tally host(devices_.size()), launch(devices_.size()), unknown(devices_.size()),
        compiling(devices_.size());
    for (size_t i = 0; i < devices_.size(); ++i) {
      for (const OwnedTimes& owner : devices_[i].sweep->owners()) {
        if (owner.gaps == 0) continue;
        const std::string name = findings_.FunctionName(devices_[i], owner);
        host.Add(i, name, owner.idle_host_ps - owner.host_busy_ps, owner.gaps);
        launch.Add(i, name, owner.idle_launch_ps, owner.gaps);
        unknown.Add(i, name, owner.idle_unknown_ps - owner.unknown_busy_ps, owner.gaps);
        compiling.Add(i, name, owner.host_busy_ps + owner.unknown_busy_ps, owner.gaps);
      }
    }
    TakeInput(&host, &unknown);
    AddGaps("host_bound", "host-bound: idle, and the host had launched nothing", host,
            /*tells_host=*/true);
    AddGaps("launch_gap", "idle between launch and start", launch, /*tells_host=*/false);
    AddGaps("idle", "idle, and no launch in the trace tells why", unknown, /*tells_host=*/true);
    AddCompiling(compiling);
  }

  // What the steps wait for input is in the idle time that the host is the reason of, or, on a
  // device without launches, in that without a known reason.
  void TakeInput(Tally* host, Tally* unknown) {
    std::vector<int64_t> input_ps(devices_.size());
    int64_t most_ps = 0;
    std::string evidence;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const std::optional<StepSummary>& steps = findings_.steps(i);
      if (!steps.has_value() || steps->waits_for_input_ps.value_or(0) <= 0) continue;
      Tally* const from = devices_[i].row->time.idle_host_ps.has_value() ? host : unknown;
      input_ps[i] = std::min(*steps->waits_for_input_ps, from->by_device()[i]);
      from->Take(i, input_ps[i]);
      if (input_ps[i] <= most_ps) continue;
      most_ps = input_ps[i];
      evidence = Cat("in ", CountText(steps->steps_timed, "step"), ", ",
                     MeanText(input_ps[i], steps->steps_timed),
                     " a step: before the step's first launch, while the host dispatched nothing");
    }
    if (!findings_.IsWorthAWord(input_ps)) return;
    for (const WhereGap& gap : where_.gaps) {
      if (!gap.host_event.has_value()) continue;
      Append(&evidence, "; in the longest gap, ", TimeText(AsDouble(gap.duration_ps)),
             ", the host was in ", ShortName(*gap.host_event));
      break;
    }
    BriefFinding finding = {.code = "input_bound",
                            .certainty = Certainty::kUpperBound,
                            .what = "input-bound: idle while the host waits for the step's input",
                            .evidence = std::move(evidence),
                            .command = findings_.Command("where", {"--steps"})};
    findings_.Add(std::move(finding), input_ps);
  }

  void AddGaps(std::string_view code, const char* what, const Tally& tally, bool tells_host) {
    if (!findings_.IsWorthAWord(tally.by_device())) return;
    BriefFinding finding = {.code = code, .what = what, .command = findings_.Command("where")};
    if (code == "idle") finding.certainty = Certainty::kUpperBound;
    finding.evidence = tells_host ? GapsAndHostText(tally) : GapsText(tally, 0);
    if (RulesOf(devices_[tally.device()].row->kind).is_host) {
      Append(&finding.evidence, "; on a CPU work may go on when its thunk is over");
    }
    if (tells_host) Append(&finding.evidence, BetweenStepsText());
    findings_.Add(std::move(finding), tally.by_device());
  }

  // Where that is much: what of all idle time is between steps that something marks.
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
          SameDevice(gap.device, device) && !IsCompileName(gap.host_event.value_or(""));
      return is_its ? gap.idle_host_ps.value_or(gap.duration_ps) : 0;
    };
    const auto longest = std::ranges::max_element(where_.gaps, {}, part_ps);
    const int64_t ps = longest == where_.gaps.end() ? 0 : part_ps(*longest);
    if (ps == 0 || !longest->host_event.has_value()) return GapsText(tally, 0);
    const std::string host = ShortName(*longest->host_event);
    // A mean says nothing where one gap is most of it.
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
    std::set<std::pair<uint32_t, std::string_view>> hosts;
    for (const OfDevice& device : devices_) {
      const Plane& plane = trace_.planes[device.analysis->plane.plane];
      if (!hosts.emplace(plane.file, plane.host).second) continue;
      const HostCompiles::OfHost& of_host = compiles_.Of(plane);
      compiles += of_host.compiles;
      for (const Interval& each : of_host.intervals) {
        compiling_ps = SaturatingAdd(compiling_ps, each.end_ps - each.start_ps);
      }
    }
    BriefFinding finding = {.code = "recompilation",
                            .what = "idle while the host compiled",
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
      return Cat(ShortName(function), " is ", programs, " programs in ", CountText(runs, "run"),
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

  // Without a host in the trace: whether programs may have been compiled in it.
  void AddManyPrograms() {
    constexpr size_t kMany = 4, kFewRuns = 2;
    const bool has_host = std::ranges::any_of(trace_.lines, [&](const Line& line) {
      return line.event_count > 0 && trace_.planes[line.plane].name.starts_with("/host:");
    });
    const Family family = LargestFamily();
    if (has_host || family.programs < kMany) return;
    if (family.runs > kFewRuns * family.programs * devices_.size()) return;
    findings_.AddUnknown({.code = "recompilation",
                          .certainty = Certainty::kCannotTell,
                          .function = family.function,
                          .what = "whether programs were compiled in the capture",
                          .evidence = Cat("the trace has no host; ", family.Text()),
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
        .what = Cat(suspect == 1 ? "1 run lacks" : Cat(suspect, " runs lack"),
                    " kernels: left out of the times of functions"),
        .evidence = Cat(functions.size() > 1 ? Cat("of ", functions.size(), " functions, most: ")
                                             : std::string(),
                        worst->suspect_runs, " of ", CountText(worst->runs, "run"), " of ",
                        ShortName(worst->function),
                        "; the capture began or ended there, or events were lost")};
    finding.command = functions.size() > 1
                          ? findings_.Command("functions", {"--samples"})
                          : findings_.FunctionCommand("functions", worst->function, {"--samples"});
    if (devices_.size() == 1) finding.device = findings_.RefOf(0);
    findings_.AddUnknown(std::move(finding));
  }

  const Trace& trace_;
  const int threads_;
  const HostCompiles& compiles_;
  const WhereReport& where_;
  FindingList& findings_;
  std::vector<OfDevice>& devices_;
};

}  // namespace
}  // namespace insight

std::string_view CertaintyName(Certainty certainty) {
  return insight::kCertainties[static_cast<size_t>(certainty)];
}

absl::StatusOr<BriefReport> FindBrief(const Trace& trace, const BriefOptions& options,
                                      const Diagnostics& reading) {
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
  BriefReport report = std::move(findings).Take();
  report.inputs = where.inputs;
  report.diagnostics = headroom.diagnostics;
  return report;
}

}  // namespace xplane_time
