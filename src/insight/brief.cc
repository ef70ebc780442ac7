// Findings, each from its own part of the partition:
//
//   compute             slow_device, slowing_down, then below_roof from what these leave
//   collective_exposed  the waits for a slow device (slow_device), then exposed_collective
//   copy_exposed        exposed_copy
//   idle_host           recompilation (the host compiled), then host_bound
//   idle_launch         launch_gap
//   idle_unknown        recompilation, then idle
#include "xplane_time/brief.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "devices/device_kind.h"
#include "insight/brief_words.h"
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
// Of the time of all devices, or of one device: less is no finding.
constexpr double kLeastShare = 0.01, kLeastShareOfOne = 0.05;
// Nearer to its roof a kernel is as good as most get: the line that Nsight Compute draws.
constexpr double kNearRoof = 0.6;
// Of the time of all devices: compute without a roof that is worth a word.
constexpr double kMuchUnknown = 0.1;

double AsDouble(auto number) { return static_cast<double>(number); }

// Whose time a finding takes, and how it is spread.
class Tally {
 public:
  explicit Tally(size_t devices) : by_device_(devices) {}
  void Add(size_t device, const std::string& name, int64_t ps, uint64_t count = 0) {
    if (ps <= 0) return;
    by_device_[device] = SaturatingAdd(by_device_[device], ps);
    auto& [of_name_ps, of_name_count] = by_name_[name];
    of_name_ps = SaturatingAdd(of_name_ps, ps);
    of_name_count += count;
    count_ += count;
  }
  // Takes what others have of a device's time.
  void Take(size_t device, int64_t ps) { by_device_[device] -= std::min(ps, by_device_[device]); }

  int64_t total_ps() const {
    return std::accumulate(by_device_.begin(), by_device_.end(), int64_t{0}, SaturatingAdd);
  }
  const std::vector<int64_t>& by_device() const { return by_device_; }
  uint64_t count() const { return count_; }
  size_t names() const { return by_name_.size(); }
  struct Most {
    std::string name;
    int64_t ps = 0;
    uint64_t count = 0;
  };
  Most most() const {
    Most most;
    for (const auto& [name, of_name] : by_name_) {
      if (of_name.first > most.ps) most = {name, of_name.first, of_name.second};
    }
    return most;
  }
  // The device with the largest part.
  size_t device() const {
    return static_cast<size_t>(std::ranges::max_element(by_device_) - by_device_.begin());
  }

 private:
  std::vector<int64_t> by_device_;
  std::map<std::string, std::pair<int64_t, uint64_t>> by_name_;
  uint64_t count_ = 0;
};

struct OfDevice {
  const DeviceAnalysis* analysis;
  const PartitionSweep* sweep;
  const WhereDevice* row;
  Claims claims;
};

class Briefer {
 public:
  Briefer(const Trace& trace, const BriefOptions& options, const HostCompiles& compiles,
          const Analysis& analysis, const WhereReport& where, const HeadroomReport& headroom)
      : trace_(trace),
        threads_(options.threads),
        compiles_(compiles),
        where_(where),
        headroom_(headroom) {
    arguments_ = options.arguments;
    device_ = options.device;
    for (const TraceFile& file : trace.files) {
      if (options.arguments.empty()) arguments_.push_back(file.path);
    }
    for (const DeviceAnalysis& device : analysis.devices) {
      if (device.watcher == nullptr || device.row.executions == 0) continue;
      const PartitionSweep& sweep = static_cast<const WhereWatch&>(*device.watcher).sweep();
      const WhereDevice& row = where.devices[devices_.size()];
      devices_.push_back({&device, &sweep, &row, {}});
      report_.devices.push_back(
          {.device = row.device, .kind = row.kind, .span_ps = row.time.span_ps.value_or(0)});
      report_.span_ps = SaturatingAdd(report_.span_ps, report_.devices.back().span_ps);
    }
  }

  BriefReport Find() {
    FindSlowRuns();
    AddTransfers();
    AddIdle();
    AddRoofs();
    AddSuspects();
    std::ranges::stable_sort(report_.findings, std::greater(), [](const BriefFinding& finding) {
      return finding.recoverable_ps.value_or(-1);
    });
    return std::move(report_);
  }

 private:
  // ---- what findings share

  bool IsWorthAWord(const std::vector<int64_t>& by_device) const {
    int64_t total_ps = 0;
    bool much_of_one = false;
    for (size_t i = 0; i < by_device.size(); ++i) {
      total_ps = SaturatingAdd(total_ps, by_device[i]);
      const double least_ps = kLeastShareOfOne * AsDouble(report_.devices[i].span_ps);
      much_of_one |= by_device[i] > 0 && AsDouble(by_device[i]) >= least_ps;
    }
    if (total_ps <= 0) return false;
    return much_of_one || AsDouble(total_ps) >= kLeastShare * AsDouble(report_.span_ps);
  }

  // Fills what its time says, and adds it.
  void Add(BriefFinding finding, const std::vector<int64_t>& by_device) {
    int64_t total_ps = 0;
    for (size_t i = 0; i < by_device.size(); ++i) {
      if (by_device[i] <= 0) continue;
      finding.parts.push_back({report_.devices[i].device, by_device[i]});
      report_.devices[i].recoverable_ps += by_device[i];
      total_ps = SaturatingAdd(total_ps, by_device[i]);
    }
    finding.recoverable_ps = total_ps;
    finding.share = AsDouble(total_ps) / AsDouble(report_.span_ps);
    if (finding.parts.size() == 1) finding.device = finding.parts[0].device;
    report_.recoverable_ps = SaturatingAdd(report_.recoverable_ps, total_ps);
    report_.findings.push_back(std::move(finding));
  }

  std::string Command(const char* command, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {command};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    if (!device_.empty()) words.insert(words.end(), {"--device", device_});
    words.insert(words.end(), more.begin(), more.end());
    return CommandText(words);
  }
  std::string FunctionCommand(const char* command, const std::string& function,
                              std::vector<std::string> more) const {
    more.insert(more.begin(), {"--function", ExactName(function)});
    return Command(command, more);
  }

  const ProgramInfo* ProgramOf(const OfDevice& device, uint32_t program) const {
    return program == kNone ? nullptr : &device.analysis->tables->programs[program];
  }
  static std::string OfFunction(std::string_view op, std::string_view function) {
    return Cat(op, " of ", function);
  }
  // "dot.1 of jit_f".
  std::string OpName(const OfDevice& device, const OwnedTimes& owner) const {
    const OpInfo& op = device.analysis->tables->ops[owner.op];
    const ProgramInfo* const program = ProgramOf(device, owner.program);
    return program == nullptr ? op.kernel : OfFunction(op.kernel, program->function);
  }
  std::string FunctionName(const OfDevice& device, const OwnedTimes& owner) const {
    const ProgramInfo* const program = ProgramOf(device, owner.program);
    return program == nullptr ? device.analysis->tables->ops[owner.op].kernel : program->function;
  }

  // ---- slow devices, slow runs

  void FindSlowRuns() {
    std::vector<const DeviceAnalysis*> analyses;
    for (const OfDevice& device : devices_) analyses.push_back(device.analysis);
    SlowRuns slow = FindSlow(analyses);
    for (size_t i = 0; i < devices_.size(); ++i) devices_[i].claims = std::move(slow.claims[i]);
    for (const SlowDevice& each : slow.devices) AddSlowDevice(each);
    if (slow.slowed.has_value() && IsWorthAWord(slow.slowed->by_device)) {
      AddSlowingDown(*slow.slowed);
    }
  }

  void AddSlowDevice(const SlowDevice& slow) {
    const bool known = slow.peers > 1;
    if (known && !IsWorthAWord(slow.by_device)) return;
    const DeviceRef& device = report_.devices[slow.device].device;
    BriefFinding finding = {
        .code = "slow_device",
        .certainty = known ? Certainty::kUpperBound : Certainty::kCannotTell,
        .device = device,
        .function = slow.function,
        .what = Cat(DeviceName(device), " computes ", ShortName(slow.function), " ",
                    ShareText(slow.ratio - 1), " slower than its ", known ? "peers" : "only peer"),
        .command = FunctionCommand("functions", slow.function, {})};
    finding.evidence = Cat("over ", CountText(slow.runs, "run"), " on ", slow.peers + 1,
                           " devices, ", ChanceText(slow.p_value));
    if (!known) {
      Append(&finding.evidence, "; of two devices nobody can tell which one is as it should be");
      report_.findings.push_back(std::move(finding));
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
    Add(std::move(finding), slow.by_device);
    report_.findings.back().device = device;
  }

  void AddSlowingDown(const SlowedDown& slowed) {
    BriefFinding finding = {
        .code = "slowing_down",
        .certainty = Certainty::kUpperBound,
        .function = slowed.function,
        .what = Cat(ShortName(slowed.function), " got ", ShareText(slowed.ratio - 1), " slower",
                    slowed.is_for_good ? "" : " for stretches"),
        .command = FunctionCommand("functions", slowed.function, {"--samples", "--format", "csv"})};
    finding.evidence = Cat(slowed.slow_runs, " of ", CountText(slowed.runs, "run"),
                           slowed.is_for_good ? Cat(", from run ", slowed.first_slow, " on") : "",
                           ", ", ChanceText(slowed.p_value), AlikeText(slowed),
                           "; xplane-time power record beside the program has the clock");
    Add(std::move(finding), slowed.by_device);
  }

  // Whether a lowered clock may be it. Damage is told by others.
  std::string AlikeText(const SlowedDown& slowed) const {
    const auto compared = CompareKernels(trace_, slowed.marked, threads_);
    if (!compared.ok() || !compared->has_value()) return "";
    const KernelsAlike& alike = **compared;
    const double slower = slowed.ratio - 1;
    if (alike.least_ratio - 1 >= slower / 2 && alike.most_ratio - 1 <= slower * 2) {
      return Cat("; all ", alike.kernels, " kernels alike, by ", ShareText(alike.least_ratio - 1),
                 " to ", ShareText(alike.most_ratio - 1), ", as where a clock is lowered");
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
        const std::string name = OpName(devices_[i], owner);
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
    if (!IsWorthAWord(tally.by_device())) return;
    const Tally::Most most = tally.most();
    BriefFinding finding = {.code = code, .what = what, .command = Command("where")};
    finding.evidence = Cat("mostly ", ShortName(most.name), ", ", TimeText(AsDouble(most.ps)),
                           " in ", most.count, PerStepText(tally, most.count));
    const BriefDevice& device = report_.devices[tally.device()];
    for (const WhereTransfer& each : where_.transfers) {
      if (!SameDevice(each.device, device.device) || each.category != category) continue;
      if (!each.bytes.has_value() || each.count == 0) break;
      if (most.name != (each.function ? OfFunction(each.kernel, *each.function) : each.kernel)) {
        continue;
      }
      Append(&finding.evidence, ", ", BytesText(AsDouble(*each.bytes) / AsDouble(each.count)),
             " each");
      break;
    }
    Append(&finding.evidence, HiddenText(category));
    Add(std::move(finding), tally.by_device());
  }

  static bool SameDevice(const DeviceRef& a, const DeviceRef& b) {
    return a.input == b.input && a.plane == b.plane && a.ordinal == b.ordinal && a.host == b.host;
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
        const std::string name = FunctionName(devices_[i], owner);
        host.Add(i, name, owner.idle_host_ps - owner.host_busy_ps, owner.gaps);
        launch.Add(i, name, owner.idle_launch_ps, owner.gaps);
        unknown.Add(i, name, owner.idle_unknown_ps - owner.unknown_busy_ps, owner.gaps);
        compiling.Add(i, name, owner.host_busy_ps + owner.unknown_busy_ps, owner.gaps);
      }
    }
    AddGaps("host_bound", "idle, and the host had launched nothing", host, /*tells_host=*/true);
    AddGaps("launch_gap", "idle between launch and start", launch, /*tells_host=*/false);
    AddGaps("idle", "idle, and no launch in the trace tells why", unknown, /*tells_host=*/true);
    AddCompiling(compiling);
  }

  void AddGaps(std::string_view code, const char* what, const Tally& tally, bool tells_host) {
    if (!IsWorthAWord(tally.by_device())) return;
    BriefFinding finding = {.code = code, .what = what, .command = Command("where")};
    if (code == "idle") finding.certainty = Certainty::kUpperBound;
    const Tally::Most most = tally.most();
    finding.evidence = CountText(tally.count(), "gap");
    if (tally.names() > 1) {
      Append(&finding.evidence, ", ", MeanText(tally.total_ps(), tally.count()),
             " each, mostly before ", ShortName(most.name), " (", TimeText(AsDouble(most.ps)),
             " in ", most.count, ")");
    } else {
      Append(&finding.evidence, " before ", ShortName(most.name), ", ",
             MeanText(most.ps, most.count), " each");
    }
    if (tells_host) Append(&finding.evidence, LongestGapText(tally.device()));
    if (RulesOf(devices_[tally.device()].row->kind).is_host) {
      Append(&finding.evidence, "; on a CPU work may go on when its thunk is over");
    }
    Add(std::move(finding), tally.by_device());
  }

  static std::string MeanText(int64_t ps, uint64_t count) {
    return TimeText(AsDouble(ps) / AsDouble(std::max(count, uint64_t{1})));
  }

  std::string LongestGapText(size_t device) const {
    for (const WhereGap& gap : where_.gaps) {
      if (!SameDevice(gap.device, report_.devices[device].device)) continue;
      if (!gap.host_event.has_value()) return "";
      return Cat("; in the longest, ", TimeText(AsDouble(gap.duration_ps)), ", the host was in ",
                 ShortName(*gap.host_event));
    }
    return "";
  }

  void AddCompiling(const Tally& tally) {
    if (!IsWorthAWord(tally.by_device())) return;
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
    if (const std::string family = LargestFamily(); !family.empty()) {
      Append(&finding.evidence, "; ", family);
    } else {
      Append(&finding.evidence, "; mostly before ", ShortName(tally.most().name));
    }
    Add(std::move(finding), tally.by_device());
  }

  std::string CompilesCommand() const {
    std::vector<std::string> words = {"events"};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    words.insert(words.end(),
                 {"--device", "all", "--name", "backend_compile|XlaCompile|::Compile"});
    return CommandText(words);
  }

  // The function that has most programs, where it has several.
  std::string LargestFamily() const {
    std::map<std::string, std::pair<std::set<std::string>, uint64_t>> families;  // programs, runs
    for (const WhereFunction& row : where_.functions) {
      auto& [programs, runs] = families[row.function];
      programs.insert(row.program_id.value_or(""));
      runs += row.runs;
    }
    std::string largest;
    size_t most = 1;
    for (const auto& [function, family] : families) {
      if (family.first.size() <= most) continue;
      most = family.first.size();
      largest = Cat(ShortName(function), " is ", most, " programs in ",
                    CountText(family.second, "run"), ": do its shapes or static arguments change?");
    }
    return largest;
  }

  // ---- roofs

  struct OfOp {
    std::vector<int64_t> by_device;
    const HeadroomRow* row = nullptr;  // the longest
    int64_t total_ps = 0;
    double roof_ps = 0;
  };
  using OpKey = std::tuple<std::string, std::string, std::string>;  // function, program, op

  void AddRoofs() {
    const OwnedByOp owned = OwnedOfOps();
    std::map<OpKey, OfOp> ops;
    Tally unknown(devices_.size());
    std::map<NoRoof, int64_t> reasons;
    for (const HeadroomRow& row : headroom_.ops) {
      const std::optional<size_t> device = IndexOf(row.device);
      if (!device.has_value() || row.category != Category::kCompute) continue;
      const auto found = owned.find({*device, KeyOf(row)});
      const double left_ps = found == owned.end() ? 0 : found->second;
      if (!row.roof_ps.has_value() || !row.recoverable_ps.has_value()) {
        if (row.reason == NoRoof::kHost) continue;
        unknown.Add(*device, NameOf(row), std::llround(left_ps), row.kernels);
        reasons[row.reason.value_or(NoRoof::kNoModel)] += std::llround(left_ps);
        continue;
      }
      OfOp& op = ops[KeyOf(row)];
      op.by_device.resize(devices_.size());
      const double back_ps = std::min(*row.recoverable_ps, left_ps - *row.roof_ps);
      op.by_device[*device] += static_cast<int64_t>(std::max(back_ps, 0.0));
      op.total_ps = SaturatingAdd(op.total_ps, row.total_ps);
      op.roof_ps += *row.roof_ps;
      if (op.row == nullptr || row.total_ps > op.row->total_ps) op.row = &row;
    }
    OfOp others = {.by_device = std::vector<int64_t>(devices_.size())};
    size_t count = 0;
    for (const auto& [key, op] : ops) {
      if (op.roof_ps >= kNearRoof * AsDouble(op.total_ps)) continue;
      if (IsWorthAWord(op.by_device)) {
        AddRoof(op);
        continue;
      }
      ++count;
      for (size_t i = 0; i < devices_.size(); ++i) others.by_device[i] += op.by_device[i];
      others.total_ps = SaturatingAdd(others.total_ps, op.total_ps);
      others.roof_ps += op.roof_ps;
      if (others.row == nullptr || op.row->recoverable_ps > others.row->recoverable_ps) {
        others.row = op.row;
      }
    }
    AddOtherRoofs(others, count);
    AddRoofUnknown(unknown, reasons);
  }

  // What is left of the device's compute time for each op, when slow devices and runs have theirs.
  using OwnedByOp = std::map<std::pair<size_t, OpKey>, double>;
  OwnedByOp OwnedOfOps() const {
    OwnedByOp owned;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const ExecutionTables& tables = *devices_[i].analysis->tables;
      std::map<uint32_t, int64_t> compute_ps;
      for (const OwnedTimes& each : devices_[i].sweep->owners()) {
        if (each.rank == kCompute) compute_ps[each.program] += each.busy_ps;
      }
      for (const OwnedTimes& each : devices_[i].sweep->owners()) {
        if (each.rank != kCompute || each.busy_ps <= 0) continue;
        const OpInfo& op = tables.ops[each.op];
        OpKey key = {"", "", op.hlo_op.empty() ? op.kernel : op.hlo_op};
        if (const ProgramInfo* const program = ProgramOf(devices_[i], each.program)) {
          std::get<0>(key) = program->function;
          std::get<1>(key) = program->program_id.value_or("");
        }
        const auto claimed = devices_[i].claims.compute_ps.find(each.program);
        const double taken =
            claimed == devices_[i].claims.compute_ps.end()
                ? 0
                : std::min(1.0, AsDouble(claimed->second) / AsDouble(compute_ps[each.program]));
        owned[{i, std::move(key)}] += (1 - taken) * AsDouble(each.busy_ps);
      }
    }
    return owned;
  }

  static OpKey KeyOf(const HeadroomRow& row) {
    return {row.function.value_or(""), row.program_id.value_or(""), row.op};
  }
  static std::string NameOf(const HeadroomRow& row) {
    return row.function.has_value() ? OfFunction(row.op, *row.function) : row.op;
  }
  std::optional<size_t> IndexOf(const DeviceRef& device) const {
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (SameDevice(report_.devices[i].device, device)) return i;
    }
    return std::nullopt;
  }

  void AddRoof(const OfOp& op) {
    const HeadroomRow& row = *op.row;
    BriefFinding finding = {
        .code = "below_roof",
        .certainty = Certainty::kUpperBound,
        .function = row.function,
        .what = Cat(ShortName(NameOf(row)), " at ", ShareText(op.roof_ps / AsDouble(op.total_ps)),
                    " of its roof")};
    finding.evidence =
        Cat(TimeText(AsDouble(op.total_ps)), ", of which the peak needs ", TimeText(op.roof_ps));
    if (row.flops_share) Append(&finding.evidence, "; ", ShareText(*row.flops_share), " of FLOP/s");
    if (row.bytes_share) {
      Append(&finding.evidence, row.flops_share ? ", " : "; ", ShareText(*row.bytes_share),
             " of bandwidth");
    }
    if (row.program_id) Append(&finding.evidence, "; program ", *row.program_id);
    if (row.source) Append(&finding.evidence, "; ", *row.source);
    finding.command = row.function ? FunctionCommand("headroom", *row.function, {"--top", "10"})
                                   : Command("headroom", {"--top", "10"});
    Add(std::move(finding), op.by_device);
  }

  // Those of which none gives much by itself.
  void AddOtherRoofs(const OfOp& ops, size_t count) {
    if (!IsWorthAWord(ops.by_device)) return;
    BriefFinding finding = {
        .code = "below_roof",
        .certainty = Certainty::kUpperBound,
        .what = Cat(count, " ops, none of which gives much, at ",
                    ShareText(ops.roof_ps / AsDouble(ops.total_ps)), " of their roofs"),
        .command = Command("headroom", {"--top", "20"})};
    finding.evidence =
        Cat(TimeText(AsDouble(ops.total_ps)), ", of which the peaks need ", TimeText(ops.roof_ps),
            "; most gives ", ShortName(NameOf(*ops.row)), ", ", TimeText(*ops.row->recoverable_ps));
    Add(std::move(finding), ops.by_device);
  }

  void AddRoofUnknown(const Tally& tally, const std::map<NoRoof, int64_t>& reasons) {
    const double share = AsDouble(tally.total_ps()) / AsDouble(report_.span_ps);
    if (!(share >= kMuchUnknown)) return;
    const auto most =
        std::ranges::max_element(reasons, {}, [](const auto& each) { return each.second; });
    report_.findings.push_back(
        {.code = "roof_unknown",
         .certainty = Certainty::kCannotTell,
         .what = Cat("how far ", ShareText(share), " of the time, that of ",
                     CountText(tally.names(), "op"), ", is from its roof"),
         .evidence = Cat(WhyText(most->first), "; mostly ", ShortName(tally.most().name), ", ",
                         TimeText(AsDouble(tally.most().ps))),
         .command = Command("headroom", {"--top", "10"})});
  }

  static const char* WhyText(NoRoof reason) {
    switch (reason) {
      case NoRoof::kNoProgram:
      case NoRoof::kNotInProgram:
        return "the trace has no Hlo Proto of them";
      case NoRoof::kNoPeak:
        return "nothing says what the device is capable of (--peak-flops, --peak-bandwidth)";
      case NoRoof::kAbovePeak:
        return "they were faster than their roof: the peak or the model is wrong";
      case NoRoof::kExecutions:
        return "their kernels do not tell how often they ran";
      default:
        return "nothing says what they compute or move";
    }
  }

  // ---- what was left out

  void AddSuspects() {
    uint64_t suspect = 0, most = 0;
    const WhereFunction* worst = nullptr;
    for (const WhereFunction& row : where_.functions) {
      suspect += row.suspect_runs;
      if (row.suspect_runs > most) most = row.suspect_runs, worst = &row;
    }
    if (worst == nullptr) return;
    BriefFinding finding = {
        .code = "suspect_runs",
        .certainty = Certainty::kCannotTell,
        .function = worst->function,
        .what = Cat(suspect == 1 ? "1 run lacks" : Cat(suspect, " runs lack"),
                    " kernels: left out of the times of functions"),
        .evidence = Cat(worst->suspect_runs, " of ", CountText(worst->runs, "run"), " of ",
                        ShortName(worst->function),
                        "; the capture began or ended there, or events were lost"),
        .command = FunctionCommand("functions", worst->function, {"--samples"})};
    if (devices_.size() == 1) finding.device = report_.devices[0].device;
    report_.findings.push_back(std::move(finding));
  }

  const Trace& trace_;
  const int threads_;
  const HostCompiles& compiles_;
  const WhereReport& where_;
  const HeadroomReport& headroom_;
  std::vector<std::string> arguments_;
  std::string device_;  // --device
  std::vector<OfDevice> devices_;
  BriefReport report_;
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
      insight::WhereOf(trace, analysis, {.device = options.device, .threads = options.threads}));
  const HeadroomReport headroom = insight::HeadroomOf(trace, &analysis, of_headroom);
  BriefReport report = insight::Briefer(trace, options, compiles, analysis, where, headroom).Find();
  report.inputs = where.inputs;
  report.diagnostics = headroom.diagnostics;
  return report;
}

}  // namespace xplane_time
