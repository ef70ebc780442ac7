// AttributeEnergy and AttributeLayers: from a trace (or marked layers) and a power log to the rows
// of an energy report.
//
// For each device of the trace with executions (class DeviceEnergy):
// 1. SpanOf places the capture on the calendar's clock; TakeBusy collects when each kernel ran.
// 2. The device's power comes from the log (ChooseSensor), from counters in the trace (CounterOf),
//    or from a stated value.
// 3. Attribute or Model (attribution.h) computes the energy of each kernel and groups of kernels
//    for which only the sum is known.
// 4. Kernels are summed to functions, source lines and name scopes, with the covariance of their
//    energies. A sum may be known although its members are not. A kernel that ran in several scopes
//    or for several source lines is split among them by busy time (KernelPart, Member).
// 5. Layers with marks of a program (layers.h) get the kernels' seconds between their marks, times
//    the fitted powers.
// 6. Findings describe limits of the result, such as a device that is never idle.
//
// AttributeLayers needs no trace: each layer counts as one kernel.
#include "xplane_time/energy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_join.h"
#include "energy/attribution.h"
#include "energy/layers.h"
#include "energy/sensors.h"
#include "energy/trace_counters.h"
#include "power/energy.h"
#include "power/sources.h"
#include "re2/re2.h"
#include "saturate.h"
#include "stats/order_statistics.h"
#include "status.h"
#include "timing/analysis.h"
#include "timing/compiled_programs.h"
#include "timing/name_scopes.h"
#include "timing/origins.h"

namespace xplane_time {
namespace {

using energy::Attribution;
using energy::BusyCurve;
using energy::kPsPerS;

// A capture is covered as a whole from this share on.
constexpr double kWhole = 0.9;

// Begin and end of a device's axis, and the UNIX time of its origin.
struct CaptureSpan {
  int64_t from_ps = 0, to_ps = 0;
  std::optional<int64_t> unix_ns;  // of from_ps
};

CaptureSpan SpanOf(const Trace& trace, const DeviceAnalysis& device) {
  const TraceFile& file = trace.files[device.row.device.input];
  CaptureSpan span = {device.row.first_ps.value_or(0), device.row.last_ps.value_or(0), {}};
  // Times of a saved capture count from its start; others count from base_ns (UNIX time).
  std::optional<int64_t> origin_ns;
  if (file.base_ns != 0) {
    origin_ns = file.base_ns;
  } else if (file.profile_start_unix_ns.has_value()) {
    origin_ns = static_cast<int64_t>(*file.profile_start_unix_ns);
  }
  if (!origin_ns.has_value()) return span;
  // Extend the span to the known start and stop of the capture.
  const auto at_ps = [&](uint64_t unix_ns) {
    // Ignore a time that is far from the origin.
    const int64_t ns = SaturatingSub(static_cast<int64_t>(unix_ns), *origin_ns);
    return std::abs(ns) < kAxisLimitPs / 1000 ? ns * 1000 : 0;
  };
  if (file.profile_start_unix_ns.has_value()) {
    span.from_ps = std::min(span.from_ps, at_ps(*file.profile_start_unix_ns));
  }
  if (file.profile_stop_unix_ns.has_value()) {
    span.to_ps = std::max(span.to_ps, at_ps(*file.profile_stop_unix_ns));
  }
  span.unix_ns = SaturatingAdd(*origin_ns, span.from_ps / 1000);
  return span;
}

// The executions of a kernel that have one origin.
struct KernelPart {
  Origin origin = {};
  bool in_scope = true;  // --scope matches them, or is not given
  uint64_t count = 0;
  BusyCurve busy = BusyCurve({});  // empty if the kernel has a single part
};

// A kernel of a device: its row, its op and its executions by origin. Or a marked layer.
struct Kernel {
  KernelRow row = {};
  const OpInfo* op = nullptr;
  std::vector<KernelPart> parts = {};

  bool in_scope() const {
    return parts.empty() || std::ranges::any_of(parts, &KernelPart::in_scope);
  }
};

BusyCurve BusyIn(const CaptureSpan& span, std::vector<Interval> ran) {
  for (Interval& each : ran) {
    each.start_ps -= span.from_ps;
    each.end_ps -= span.from_ps;
  }
  return BusyCurve(std::move(ran));
}

// When each row's executions ran, relative to the start of the span. Moves them out of the device.
std::vector<BusyCurve> TakeBusy(const CaptureSpan& span, std::span<const KernelOfCells> rows,
                                DeviceAnalysis* device) {
  std::vector<BusyCurve> busy;
  busy.reserve(rows.size());
  for (const KernelOfCells& row : rows) {
    std::vector<Interval> ran = std::move(device->ran[row.cells[0]]);
    for (const size_t cell : std::span(row.cells).subspan(1)) {
      const std::vector<Interval> more = std::move(device->ran[cell]);
      ran.insert(ran.end(), more.begin(), more.end());
    }
    busy.push_back(BusyIn(span, std::move(ran)));
  }
  return busy;
}

class DeviceEnergy {
 public:
  struct Given {
    const EnergyOptions& options;
    const Filters& shown;
    const NameFilter& layer;
    const energy::SensorLog* log;      // null if the trace contains the power
    const energy::LayerTimes& marked;  // empty if layers are name scopes
    bool has_twin = false;             // another plane of the file has the name of this device's
  };
  DeviceEnergy(const Given& given, EnergyReport* report) : given_(given), report_(report) {}

  absl::Status AddKernels(const Trace& trace, DeviceAnalysis* analysis) {
    device_.device = analysis->row.device;
    span_ = SpanOf(trace, *analysis);
    Source source;
    if (given_.log != nullptr) {
      source = SourceInLog(analysis->row.kind);
    } else {
      ASSIGN_OR_RETURN(auto counter, energy::CounterOf(trace, analysis->plane, span_.from_ps,
                                                       given_.options.map));
      source = SourceInTrace(std::move(counter));
    }
    std::vector<KernelOfCells> rows = KernelsOf(*analysis);
    Diagnostics ignored;  // without Hlo Protos, the origin is the one in the trace
    CompiledPrograms compiled(*analysis, &ignored);
    const NameFilter& scope = given_.shown.scope;
    Origins origins(/*with_stacks=*/scope.any(), passes());
    const auto find_origin = [&](const KernelCell& cell) {
      const OpInfo& op = analysis->tables->ops[cell.op];
      return origins.Of(op, compiled.Find(op, cell.program));
    };
    for (KernelOfCells& each : rows) {
      Kernel& kernel = kernels_.emplace_back();
      kernel.row = std::move(each.row);
      kernel.op = &analysis->tables->ops[analysis->cells[each.cells[0]].op];
      std::map<std::tuple<std::string, std::string, bool>, size_t> numbers;
      std::vector<size_t> part_of_cell;
      for (const size_t at : each.cells) {
        const KernelCell& cell = analysis->cells[at];
        Origin origin = find_origin(cell);
        // The analysis has no filters: all that ran draws power.
        const bool in_scope =
            !scope.any() || MatchesScope(scope, analysis->tables->ops[cell.op], origin);
        const auto [number, is_new] =
            numbers.try_emplace({origin.scope, origin.source, in_scope}, kernel.parts.size());
        if (is_new) kernel.parts.push_back({.origin = std::move(origin), .in_scope = in_scope});
        kernel.parts[number->second].count += cell.count;
        part_of_cell.push_back(number->second);
      }
      if (kernel.parts.size() == 1) continue;
      std::vector<std::vector<Interval>> ran(kernel.parts.size());
      for (size_t i = 0; i < each.cells.size(); ++i) {
        const std::vector<Interval>& of_cell = analysis->ran[each.cells[i]];
        ran[part_of_cell[i]].insert(ran[part_of_cell[i]].end(), of_cell.begin(), of_cell.end());
      }
      for (size_t i = 0; i < ran.size(); ++i) {
        kernel.parts[i].busy = BusyIn(span_, std::move(ran[i]));
      }
    }
    busy_ = TakeBusy(span_, rows, analysis);
    Find(std::move(source));
    AddKernelRows();
    AddFunctionRows(*analysis);
    AddLayerRows();
    AddFindings();
    AddTimeline();
    report_->devices.push_back(std::move(device_));
    return absl::OkStatus();
  }

  // Treats the marked layers as kernels.
  void AddMarked(DeviceKind kind, DeviceRef device) {
    device_.device = std::move(device);
    const energy::LayerTimes& marked = given_.marked;
    span_.to_ps = (marked.to_ns - marked.from_ns) * 1000;
    if (given_.options.layers.clock == LayerClock::kUnix) span_.unix_ns = marked.from_ns;
    for (const energy::MarkedLayer& layer : marked.layers) {
      if (layer.own.empty()) continue;
      busy_.emplace_back(layer.own);
      KernelRow row;
      row.kernel = layer.name;
      row.count = layer.count;
      kernels_.push_back({.row = std::move(row)});
    }
    Find(SourceInLog(kind));
    for (size_t k = 0; k < kernels_.size(); ++k) {
      Fill({WholeKernel(k)}, AddRow(kernels_[k].row.kernel, &report_->layers));
    }
    for (const energy::MarkedLayer& layer : marked.layers) {
      if (!layer.own.empty()) continue;
      EnergyRow* const row = AddRow(layer.name, &report_->layers);
      row->count = layer.count;
      row->reason = "no_times";
    }
    Sort(0, &report_->layers);
    AddFindings();
    AddTimeline();
    report_->devices.push_back(std::move(device_));
  }

  // Whether all marked layers lie before or after the capture; empty if unknown.
  std::optional<bool> have_marks_elsewhere() const { return have_marks_elsewhere_; }

 private:
  // A kernel, or the part of it that has one origin.
  struct Member {
    size_t kernel = 0;  // index into kernels_
    uint64_t count = 0;
    const BusyCurve* busy = nullptr;
    double share = 1;        // of the kernel's running time that energies cover
    double whole_share = 1;  // of all its running time
  };
  using Members = std::vector<Member>;

  Member WholeKernel(size_t k) const { return {k, kernels_[k].row.count, &busy_[k]}; }

  // The shares are those of the parts' running times: a kernel has one mean power.
  Member PartOf(size_t k, const KernelPart& part) const {
    const std::vector<KernelPart>& parts = kernels_[k].parts;
    if (parts.size() == 1) return WholeKernel(k);
    Member member = {k, part.count, &part.busy};
    const std::array edges_s = {found_.known_from_s, found_.known_to_s};
    const auto covered_s = [&](const KernelPart& of) {
      const std::vector<double> before_s = of.busy.At(edges_s);
      return before_s[1] - before_s[0];
    };
    double all_covered_s = 0, all_s = 0;
    for (const KernelPart& each : parts) {
      all_covered_s += covered_s(each);
      all_s += each.busy.total_s();
    }
    member.share = all_covered_s > 0 ? covered_s(part) / all_covered_s : 0;
    member.whole_share = all_s > 0 ? part.busy.total_s() / all_s : 0;
    return member;
  }

  // The source of the device's power.
  struct Source {
    PowerChannel channel = {};
    std::vector<energy::Poll> polls = {};
    std::optional<double> limit_w = {};
    std::string_view reason = {};  // why there is no source
    std::string message = {};
  };

  void Find(Source source) {
    resets_s_ = ResetsS(source.polls);
    found_ = Attributed(std::move(source));
    if (given_.log == nullptr) found_.clock = EnergyClock::kTrace;
    if (found_.reason.empty()) {
      Describe();
      AddGroups();
    }
    device_.reason = found_.reason;
    device_.message = found_.message;
  }

  Source SourceInLog(DeviceKind kind) {
    if (given_.has_twin) {
      return {.reason = "no_map",
              .message =
                  "several planes of the file have this name, so it is unknown which of them "
                  "the sensor measures; record the device in a file of its own"};
    }
    const energy::SensorChoice choice =
        energy::ChooseSensor(*given_.log, {kind, device_.device.ordinal}, given_.options.map);
    device_.shared = choice.shared;
    Source source = {.reason = choice.reason, .message = choice.message};
    if (choice.sensors.empty()) return source;
    source.channel = choice.sensors[0]->channel;
    source.channel.device = choice.device;
    source.polls = Polls(choice.sensors);
    source.limit_w = limit_w_ = given_.log->LimitOf(choice.sensors[0]->channel);
    size_t readings = 0;
    for (const energy::SensorReadings* const sensor : choice.sensors) {
      readings += sensor->readings.size();
      if (negative_.count == 0) negative_ = sensor->negative, negative_.count = 0;
      negative_.count += sensor->negative.count;
    }
    RefuseIfNegative(readings, &source);
    return source;
  }

  Source SourceInTrace(energy::TraceCounter counter) {
    Source source = {.channel = std::move(counter.channel),
                     .polls = std::move(counter.polls),
                     .reason = counter.reason,
                     .message = std::move(counter.message)};
    negative_ = std::move(counter.negative);
    RefuseIfNegative(source.polls.size(), &source);
    return source;
  }

  // When a counter was reset in the capture, or anywhere if the clock is unknown.
  std::vector<double> ResetsS(std::span<const energy::Poll> polls) const {
    std::vector<double> resets_s;
    for (size_t i = 1; i < polls.size(); ++i) {
      if (polls[i].part == polls[i - 1].part) continue;
      const bool is_inside = polls[i].after_s >= 0 && polls[i - 1].before_s <= CaptureS();
      if (is_inside || !ClockIsKnown()) resets_s.push_back(polls[i].before_s);
    }
    return resets_s;
  }

  // The first ones, if the clock is known.
  std::string TimesOfResets() const {
    constexpr size_t kMost = 5;
    if (!ClockIsKnown()) return "";
    const std::span<const double> first =
        std::span(resets_s_).first(std::min(kMost, resets_s_.size()));
    return Cat(" (before ", absl::StrJoin(first, ", "), resets_s_.size() > kMost ? ", ..." : "",
               " s of the capture)");
  }

  // The others are not trusted if at least as many are negative.
  void RefuseIfNegative(size_t others, Source* source) const {
    if (negative_.count == 0 || negative_.count < others) return;
    source->reason = "negative_readings";
    source->message = NegativeMessage() + "; check the sensor and record again";
  }

  std::string NegativeMessage() const {
    return Cat(negative_.count, negative_.count == 1 ? " reading is" : " readings are",
               " negative, which is damage; the first is ", negative_.first_value, " (",
               negative_.first_place, ")");
  }

  Attribution Attributed(Source source) {
    Attribution none;
    none.reason = source.reason;
    none.message = std::move(source.message);
    if (!none.reason.empty()) return none;
    const PowerChannel& channel = source.channel;
    device_.sensor =
        Cat(channel.source, " ", channel.device, " ", channel.domain, " ", channel.quantity);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!busy_[k].intervals().empty()) continue;
      none.reason = "no_times";
      none.message = Cat(kernels_[k].row.kernel,
                         ": the trace contains only sums of its executions, not their times");
      return none;
    }
    if (busy_.empty()) {
      none.reason = "nothing_ran";
      none.message = given_.marked.layers.empty() ? "no kernel ran on it"
                                                  : "the runs of its layers have zero duration";
      return none;
    }
    is_stated_ = power::FactsOf(channel.source).modelled;
    if (is_stated_) {
      return energy::Model(static_cast<double>(source.polls[0].value) / 1e3, busy_, CaptureS());
    }
    return energy::Attribute(channel, std::move(source.polls), busy_, CaptureS(),
                             {.clock_known = ClockIsKnown(),
                              .limit_w = source.limit_w,
                              .threads = given_.options.trace.threads});
  }

  bool IsMonotonic() const {
    return !given_.marked.layers.empty() && given_.options.layers.clock == LayerClock::kMonotonic;
  }
  bool ClockIsKnown() const {
    return given_.log == nullptr || IsMonotonic() ||
           (span_.unix_ns.has_value() && !given_.log->clocks.empty());
  }
  std::vector<energy::Poll> Polls(const energy::Sensors& sensors) const {
    if (IsMonotonic()) return energy::PollsSince(given_.marked.from_ns, sensors);
    return energy::PollsOn(*given_.log, sensors, span_.unix_ns.value_or(0));
  }
  double CaptureS() const { return static_cast<double>(span_.to_ps - span_.from_ps) / kPsPerS; }

  void Describe() {
    EnergyDevice* const device = &device_;
    const auto ns = [](double s) { return std::llround(s * 1e9); };
    device->poor_fit = !found_.poor_fit.empty();
    device->clock = found_.clock;
    device->coverage = std::min(1.0, found_.covered_s / CaptureS());
    device->windows = static_cast<uint64_t>(found_.fit.energy_j.size());
    device->measured_j = found_.measured_j;
    device->active_j = Known(found_.active_j, found_.active_half_width_j, kAnyJ);
    device->idle_j = Known(found_.idle_j, found_.idle_half_width_j, kAnyJ);
    device->residual_j = found_.residual_j;
    device->unseen_j = found_.unseen_j;
    device->residual_share = found_.residual_share;
    if (is_stated_) {
      device->active_j = device->idle_j = std::nullopt;
      device->clock = std::nullopt;
      return;
    }
    device->lag_ns = ns(found_.fit.lag_s);
    if (found_.fit.window_s > 0) device->window_ns = ns(found_.fit.window_s);
    device->period_ns = ns(found_.fit.grid.period_s);
  }

  static double Sum(const Eigen::VectorXd& values, const Members& members) {
    double sum = 0;
    for (const Member& each : members) {
      sum += each.share * values[static_cast<Eigen::Index>(each.kernel)];
    }
    return sum;
  }

  // Empty if the interval is too wide compared to `scale_j`.
  static constexpr double kAnyJ = std::numeric_limits<double>::infinity();
  std::optional<Joules> Known(double value_j, double half_j, double scale_j) const {
    if (!(half_j <= energy::kKnownShare * scale_j)) return std::nullopt;
    if (is_stated_) return Joules{value_j};
    return Joules{value_j, std::array{value_j - half_j, value_j + half_j}};
  }

  double HalfWidthJ(const Eigen::MatrixXd& covariance, const Members& members) const {
    double variance = 0;
    for (const Member& a : members) {
      for (const Member& b : members) {
        variance += a.share * b.share *
                    covariance(static_cast<Eigen::Index>(std::max(a.kernel, b.kernel)),
                               static_cast<Eigen::Index>(std::min(a.kernel, b.kernel)));
      }
    }
    return found_.energies.quantile * std::sqrt(std::max(0.0, variance));
  }

  std::optional<Joules> EnergyOf(const Members& members) const {
    const double energy_j = Sum(found_.energies.energy_j, members);
    return Known(energy_j, HalfWidthJ(found_.energies.energy_covariance, members), energy_j);
  }
  std::optional<Joules> ActiveOf(const Members& members) const {
    if (is_stated_) return std::nullopt;
    return Known(Sum(found_.energies.active_j, members),
                 HalfWidthJ(found_.energies.active_covariance, members),
                 Sum(found_.energies.energy_j, members));
  }

  void AddGroups() {
    first_group_ = static_cast<uint32_t>(report_->groups.size());
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!found_.known[k].group.has_value()) continue;
      const size_t group = *found_.known[k].group;
      if (group >= members_of_group_.size()) members_of_group_.resize(group + 1);
      members_of_group_[group].push_back(WholeKernel(k));
    }
    for (const Members& members : members_of_group_) {
      EnergyGroup& group = report_->groups.emplace_back();
      group.device = device_.device;
      group.group = static_cast<uint32_t>(report_->groups.size()) - 1;
      for (const Member& each : members) group.kernels.push_back(kernels_[each.kernel].row.kernel);
      group.energy_j = EnergyOf(members);
    }
  }

  EnergyRow* AddRow(std::string name, std::vector<EnergyRow>* rows) const {
    EnergyRow& row = rows->emplace_back();
    row.device = device_.device;
    row.name = std::move(name);
    row.reason = found_.reason;
    return &row;
  }

  // Fills the row with the sum over `members`, as far as it is known.
  void Fill(const Members& members, EnergyRow* row) const {
    for (const Member& each : members) {
      row->count += each.count;
      row->busy_ps += std::llround(each.busy->total_s() * kPsPerS);
    }
    if (!found_.reason.empty()) return;
    const auto is_measured = [&](const Member& each) { return found_.measured[each.kernel]; };
    const Standing standing = StandingOf(members);
    for (const Member& each : members) {
      row->windows = std::max(row->windows, found_.windows[each.kernel]);
    }
    row->group = standing.group;
    row->reason = standing.reason;
    if (!standing.reason.empty()) return;
    row->energy_j = EnergyOf(members);
    row->active_j = ActiveOf(members);
    row->kind = std::ranges::all_of(members, is_measured) ? EnergyKind::kMeasured : Kind();
    FillShares(Sum(found_.busy_s, members), *WholeOf(members), row);
  }

  EnergyKind Kind() const { return is_stated_ ? EnergyKind::kModelled : EnergyKind::kAttributed; }

  // Fills derived values, from the energy of `busy_s` seconds and the energy of all executions
  // (`whole`).
  void FillShares(double busy_s, const Joules& whole, EnergyRow* row) const {
    row->mean_w = row->energy_j->value / busy_s;
    row->share = row->energy_j->value / found_.energies.energy_j.sum();
    const auto count = static_cast<double>(row->count);
    row->per_execution_j = whole.value / count;
    row->edp_js = *row->per_execution_j * static_cast<double>(row->busy_ps) / kPsPerS / count;
    if (row->runs) row->per_run_j = Scaled(whole, 1 / static_cast<double>(*row->runs));
    row->busy_ps = std::llround(busy_s * kPsPerS);
  }

  static Joules Scaled(Joules joules, double by) {
    joules.value *= by;
    if (joules.ci95) {
      for (double& limit : *joules.ci95) limit *= by;
    }
    return joules;
  }

  bool IsCovered(const Member& of) const {
    return found_.windows[of.kernel] > 0 && of.share > 0 &&
           found_.busy_s[static_cast<Eigen::Index>(of.kernel)] > 0;
  }

  // The energy of all executions if energies only cover a part of them: each kernel's energy in
  // that part, scaled by its total running time. Empty if one of the kernels did not run in that
  // part.
  std::optional<Joules> WholeOf(const Members& members) const {
    const auto at = [](const Member& of) { return static_cast<Eigen::Index>(of.kernel); };
    std::vector<double> times;
    for (const Member& each : members) {
      if (!(each.share * found_.busy_s[at(each)] > 0)) return std::nullopt;
      times.push_back(each.whole_share * busy_[each.kernel].total_s() / found_.busy_s[at(each)]);
    }
    const energy::Energies& energies = found_.energies;
    double value_j = 0, variance = 0;
    for (size_t a = 0; a < members.size(); ++a) {
      value_j += times[a] * energies.energy_j[at(members[a])];
      for (size_t b = 0; b < members.size(); ++b) {
        variance +=
            times[a] * times[b] * energies.energy_covariance(at(members[b]), at(members[a]));
      }
    }
    return Known(value_j, energies.quantile * std::sqrt(std::max(0.0, variance)), value_j);
  }

  struct Standing {
    std::optional<uint32_t> group;
    std::string_view reason;
  };
  Standing StandingOf(const Members& members) const {
    const auto is_covered = [&](const Member& each) { return IsCovered(each); };
    if (std::ranges::none_of(members, is_covered)) return {{}, "not_covered"};
    const bool is_known =
        members.size() == 1 ? found_.known[members[0].kernel].alone : EnergyOf(members).has_value();
    if (is_known) return {{}, WholeOf(members).has_value() ? "" : "not_covered"};
    const std::optional<size_t> group = found_.known[members[0].kernel].group;
    const bool is_of_one_group = std::ranges::all_of(
        members, [&](const Member& each) { return found_.known[each.kernel].group == group; });
    if (!group.has_value() || !is_of_one_group) return {{}, "too_uncertain"};
    return {first_group_ + static_cast<uint32_t>(*group), "not_separable"};
  }

  bool IsShown(const Kernel& kernel) const {
    const Filters& shown = given_.shown;
    const std::optional<std::string>& function = kernel.row.function;
    return (!shown.any_op() || (kernel.in_scope() && shown.WantsOp(*kernel.op))) &&
           (function.has_value() ? shown.WantsFunction(*function) : !shown.any_function());
  }

  // Groups the shown kernels by a key. Skips kernels without a key.
  template <typename KeyOf>
  auto MembersBy(const KeyOf& key_of) const {
    std::map<typename std::invoke_result_t<KeyOf, const Kernel&>::value_type, Members> members;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!IsShown(kernels_[k])) continue;
      if (const auto key = key_of(kernels_[k]); key.has_value())
        members[*key].push_back(WholeKernel(k));
    }
    return members;
  }

  // Groups the parts of the shown kernels by a name of their origin. Skips parts without a name.
  template <typename NameOf>
  std::map<std::string, Members> PartsBy(const NameOf& name_of) const {
    std::map<std::string, Members> members;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!IsShown(kernels_[k])) continue;
      for (const KernelPart& part : kernels_[k].parts) {
        if (!part.in_scope) continue;
        const std::optional<std::string> name = name_of(part.origin);
        if (name.has_value()) members[*name].push_back(PartOf(k, part));
      }
    }
    return members;
  }

  static void Sort(size_t first, std::vector<EnergyRow>* rows) {
    std::stable_sort(rows->begin() + static_cast<ptrdiff_t>(first), rows->end(),
                     [](const EnergyRow& a, const EnergyRow& b) {
                       const auto of = [](const EnergyRow& row) {
                         return row.energy_j ? row.energy_j->value : -1;
                       };
                       return std::pair(of(a), a.busy_ps) > std::pair(of(b), b.busy_ps);
                     });
  }

  // The number of the function's runs; empty if it is uncertain.
  static std::optional<uint64_t> RunsOf(const DeviceAnalysis& analysis, const EnergyRow& row) {
    const auto& programs = analysis.tables->programs;
    uint32_t program = 0;
    while (program < programs.size() && (programs[program].function != row.name ||
                                         programs[program].program_id != row.program_id)) {
      ++program;
    }
    const std::span<const RunSample> runs(
        std::ranges::lower_bound(analysis.samples, program, {}, &RunSample::program),
        std::ranges::upper_bound(analysis.samples, program, {}, &RunSample::program));
    const bool is_certain = !runs.empty() && std::ranges::none_of(runs, &RunSample::uncertain);
    return is_certain ? std::optional(static_cast<uint64_t>(runs.size())) : std::nullopt;
  }

  void FillFunction(const KernelRow& kernel, EnergyRow* row) const {
    row->program_id = kernel.program_id;
    if (kernel.function) row->variant_id = given_.shown.id.Capture(*kernel.function);
  }

  void AddKernelRows() {
    const size_t first = report_->kernels.size();
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!IsShown(kernels_[k])) continue;
      EnergyRow* const row = AddRow(kernels_[k].row.kernel, &report_->kernels);
      row->function = kernels_[k].row.function;
      FillFunction(kernels_[k].row, row);
      Fill({WholeKernel(k)}, row);
    }
    Sort(first, &report_->kernels);
  }

  void AddFunctionRows(const DeviceAnalysis& analysis) {
    const size_t first = report_->functions.size();
    using Key = std::pair<std::string, std::string>;
    const auto key_of = [](const Kernel& kernel) {
      const KernelRow& row = kernel.row;
      return row.function ? std::optional(Key(*row.function, row.program_id.value_or("")))
                          : std::nullopt;
    };
    for (const auto& [key, members] : MembersBy(key_of)) {
      EnergyRow* const row = AddRow(key.first, &report_->functions);
      FillFunction(kernels_[members[0].kernel].row, row);
      row->runs = RunsOf(analysis, *row);
      Fill(members, row);
    }
    Sort(first, &report_->functions);
  }

  template <typename NameOf>
  void AddNamedRows(const NameOf& name_of, std::vector<EnergyRow>* rows) const {
    const size_t first = rows->size();
    for (const auto& [name, members] : PartsBy(name_of)) Fill(members, AddRow(name, rows));
    Sort(first, rows);
  }

  void AddLayerRows() {
    AddNamedRows(
        [](const Origin& origin) {
          const std::string& source = origin.source;
          return source.empty() ? std::nullopt : std::optional(source);
        },
        &report_->sources);
    if (!given_.marked.layers.empty()) return AddMarkedRows();
    AddNamedRows([&](const Origin& origin) { return LayerOf(origin); }, &report_->layers);
  }

  Passes passes() const { return given_.options.fold ? Passes::kFolded : Passes::kApart; }

  // The layer according to the name scope.
  std::optional<std::string> LayerOf(const Origin& origin) const {
    const std::string scope = ScopeText(origin.scope, passes());
    std::optional<std::string> layer =
        given_.layer.any() ? given_.layer.Capture(scope) : std::optional(scope);
    return layer.has_value() && layer->empty() ? std::nullopt : layer;
  }

  // Adds rows for the marked layers, in addition to the kernels of the trace.
  void AddMarkedRows() {
    const energy::LayerTimes& marked = given_.marked;
    const size_t first = report_->layers.size();
    const bool is_placed = found_.reason.empty() && span_.unix_ns.has_value();
    Eigen::MatrixXd seconds, all_s;  // in the time that energies cover; in all
    if (is_placed) {
      const int64_t capture_ns = (span_.to_ps - span_.from_ps) / 1000;
      have_marks_elsewhere_ = marked.to_ns < *span_.unix_ns ||
                              marked.from_ns > SaturatingAdd(*span_.unix_ns, capture_ns);
      const double begin_s =
          static_cast<double>(SaturatingSub(marked.from_ns, *span_.unix_ns)) / 1e9;
      const auto seconds_in = [&](double from_s, double to_s) {
        return energy::SecondsIn(marked, begin_s, from_s, to_s, busy_, found_.fit, CaptureS());
      };
      seconds = seconds_in(found_.known_from_s, found_.known_to_s);
      all_s = seconds_in(0, CaptureS());
    }
    for (size_t l = 0; l < marked.layers.size(); ++l) {
      EnergyRow* const row = AddRow(marked.layers[l].name, &report_->layers);
      row->count = marked.layers[l].count;
      if (is_placed) {
        const auto at = static_cast<Eigen::Index>(l);
        FillPart(seconds.row(at), all_s.row(at), row);
      } else if (row->reason.empty()) {
        row->reason = "clock_unknown";
      }
    }
    Sort(first, &report_->layers);
  }

  // The energy is the seconds of each kernel times its fitted power.
  void FillPart(const Eigen::RowVectorXd& seconds, const Eigen::RowVectorXd& all_s,
                EnergyRow* row) const {
    const auto kernels = static_cast<Eigen::Index>(kernels_.size());
    const double busy_s = seconds.head(kernels).sum(), all_busy_s = all_s.head(kernels).sum();
    row->busy_ps = std::llround(all_busy_s * kPsPerS);
    for (Eigen::Index k = 0; k < kernels; ++k) {
      if (seconds[k] > 0)
        row->windows = std::max(row->windows, found_.windows[static_cast<size_t>(k)]);
    }
    if (row->windows == 0) {
      row->reason = all_busy_s > 0 ? "not_covered" : "nothing_ran";
      return;
    }
    const auto known = [&](const Eigen::RowVectorXd& of, double scale_j) {
      const double value_j = of.dot(found_.fit.power_w);
      const double variance = of.dot(found_.fit.covariance * of.transpose());
      const double half_j = found_.energies.quantile * std::sqrt(std::max(0.0, variance));
      return Known(value_j, half_j, scale_j < 0 ? value_j : scale_j);
    };
    row->energy_j = known(seconds, -1);
    // All executions: idle power is extrapolated in proportion to the running time.
    Eigen::RowVectorXd whole = all_s;
    whole.tail(all_s.size() - kernels) =
        seconds.tail(all_s.size() - kernels) * (all_busy_s / busy_s);
    const std::optional<Joules> whole_j = known(whole, -1);
    if (!row->energy_j.has_value() || !whole_j.has_value()) {
      row->reason = row->energy_j.has_value() ? "not_covered" : "too_uncertain";
      row->energy_j = std::nullopt;
      return;
    }
    Eigen::RowVectorXd active = seconds;
    active.tail(seconds.size() - kernels).setZero();
    if (!is_stated_) row->active_j = known(active, row->energy_j->value);
    row->kind = Kind();
    FillShares(busy_s, *whole_j, row);
  }

  // True if an energy is known but its active part is not, for the device or for a kernel.
  bool IsNeverIdle() const {
    if (!device_.active_j) return false;
    if (found_.active_half_width_j > energy::kKnownShare * found_.active_j) return true;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (StandingOf({WholeKernel(k)}).reason.empty() && !ActiveOf({WholeKernel(k)})) return true;
    }
    return false;
  }

  void AddFindings() const {
    const auto add = [&](std::string_view code, std::string_view severity, std::string message) {
      report_->findings.push_back({code, severity, device_.device, std::move(message)});
    };
    if (!device_.reason.empty()) add(device_.reason, "warning", device_.message);
    if (device_.poor_fit) add("poor_fit", "warning", std::string(found_.poor_fit));
    if (found_.windows_at_limit > 0) {
      add("power_limit", "info",
          Cat("at the power limit of ", *limit_w_, " W in ", found_.windows_at_limit, " of ",
              found_.fit.energy_j.size(),
              " windows; the device lowers its clocks there. The energies are those at the lower "
              "clocks, and power drawn by other work cannot be detected in these windows"));
    }
    if (device_.shared) {
      add("shared_device", "warning", "other processes use the device; its power includes theirs");
    }
    if (device_.coverage && *device_.coverage < kWhole) {
      add("coverage", "warning",
          Cat("the log covers ", std::llround(*device_.coverage * 100),
              " % of the capture; energies cover only that part"));
    }
    if (negative_.count > 0 && device_.reason.empty()) {
      add("negative_readings", "warning", NegativeMessage() + "; they were skipped");
    }
    if (!resets_s_.empty()) {
      add("counter_reset", "warning",
          Cat("the energy counter was reset or jumped ", resets_s_.size(),
              resets_s_.size() == 1 ? " time" : " times", TimesOfResets(),
              "; the energy between the two readings around each of them is unknown and is left "
              "out"));
    }
    if (IsNeverIdle()) {
      add("never_idle", "warning",
          "the split into active and idle energy is unknown, because too little of the capture is "
          "without load; record some seconds before and after it");
    }
    if (is_stated_) {
      add("modelled", "warning",
          "the power was stated, not measured; each energy is that power times the time");
    }
    if (device_.clock == EnergyClock::kEstimated) {
      add("clock_estimated", "info",
          "the offset between the clocks of log and trace was estimated from the power");
    }
    if (const std::string shorter = ShortRuns(); !shorter.empty())
      add("short_layers", "info", shorter);
  }

  void AddTimeline() {
    if (!given_.options.timelines || !found_.reason.empty() || is_stated_) return;
    EnergyTimeline& timeline = report_->timelines.emplace_back();
    timeline.device = device_.device;
    timeline.start_ps = span_.from_ps;
    timeline.capture_s = CaptureS();
    const energy::Fit& fit = found_.fit;
    std::vector<double> lengths_s;
    for (Eigen::Index n = 0; n < fit.energy_j.size(); ++n) {
      lengths_s.push_back(fit.to_s[n] - fit.from_s[n]);
    }
    const double most_s = lengths_s.empty() ? 0 : power::kGapPeriods * stats::Median(lengths_s);
    for (Eigen::Index n = 0; n < fit.energy_j.size(); ++n) {
      const double length_s = fit.to_s[n] - fit.from_s[n];
      if (length_s > most_s) continue;  // too long to show when the energy was used
      timeline.windows.push_back({fit.from_s[n], fit.to_s[n], fit.energy_j[n] / length_s,
                                  (fit.energy_j[n] - fit.residual_j[n]) / length_s});
    }
    AddLanes(&timeline);
  }

  // The kernel's name; with its function and program if other kernels have the same name.
  std::string LaneName(const KernelRow& row) const {
    const auto alike = [&](auto part) {
      return std::ranges::count_if(kernels_, [&](const Kernel& other) {
        return other.row.kernel == row.kernel && (part == nullptr || other.row.*part == row.*part);
      });
    };
    using Text = std::optional<std::string> KernelRow::*;
    std::string name = row.kernel;
    if (alike(Text()) < 2) return name;
    if (row.function) name += " of " + *row.function;
    if (row.program_id && alike(&KernelRow::function) > 1) name += ", program " + *row.program_id;
    return name;
  }

  void AddLanes(EnergyTimeline* timeline) const {
    constexpr size_t kMostLanes = 12;
    std::vector<std::pair<std::string, BusyCurve>> lanes;
    if (!given_.marked.layers.empty()) {
      const int64_t begin_ps = span_.unix_ns.has_value() && !IsMonotonic()
                                   ? (given_.marked.from_ns - *span_.unix_ns) * 1000
                                   : 0;
      for (const energy::MarkedLayer& layer : given_.marked.layers) {
        std::vector<Interval> own = layer.own;
        for (Interval& each : own) each.start_ps += begin_ps, each.end_ps += begin_ps;
        lanes.emplace_back(layer.name, BusyCurve(std::move(own)));
      }
    } else {
      const auto by_layer = PartsBy([&](const Origin& origin) { return LayerOf(origin); });
      for (const auto& [name, members] : by_layer) {
        std::vector<BusyCurve> curves;
        for (const Member& each : members) curves.push_back(*each.busy);
        lanes.emplace_back(name, energy::UnionOf(curves));
      }
      for (size_t k = 0; by_layer.empty() && k < kernels_.size(); ++k) {
        if (IsShown(kernels_[k])) lanes.emplace_back(LaneName(kernels_[k].row), busy_[k]);
      }
    }
    std::ranges::stable_sort(lanes, std::greater(),
                             [](const auto& lane) { return lane.second.total_s(); });
    if (lanes.size() > kMostLanes) lanes.erase(lanes.begin() + kMostLanes, lanes.end());
    const double column_s = timeline->capture_s / EnergyTimeline::kColumns;
    std::vector<double> edges_s;
    for (size_t i = 0; i <= EnergyTimeline::kColumns; ++i) {
      edges_s.push_back(static_cast<double>(i) * column_s);
    }
    for (const auto& [name, curve] : lanes) {
      EnergyTimeline::Lane& lane = timeline->lanes.emplace_back();
      lane.name = name;
      const std::vector<double> before_s = curve.At(edges_s);
      for (size_t i = 0; i < EnergyTimeline::kColumns; ++i) {
        lane.busy.push_back((before_s[i + 1] - before_s[i]) / column_s);
      }
    }
  }

  // Counts runs of layers that are shorter than the averaging time of one reading.
  std::string ShortRuns() const {
    if (!device_.period_ns.has_value() || given_.marked.layers.empty()) return "";
    const int64_t mean_ns = device_.window_ns.value_or(*device_.period_ns);
    uint64_t all = 0, shorter = 0;
    for (const energy::MarkedLayer& layer : given_.marked.layers) {
      all += layer.count;
      shorter += static_cast<uint64_t>(std::ranges::count_if(
          layer.lengths_ns, [&](int64_t length_ns) { return length_ns < mean_ns; }));
    }
    if (shorter == 0) return "";
    return Cat(shorter, " of ", all, " runs of layers are shorter than the ", mean_ns / 1'000'000,
               " ms that a reading averages; to measure a layer whose energy is unknown, use more "
               "runs, random pauses, or 1 s of that layer alone");
  }

  const Given given_;
  EnergyReport* const report_;
  EnergyDevice device_;
  CaptureSpan span_;
  std::vector<Kernel> kernels_;
  std::vector<BusyCurve> busy_;  // by kernel
  std::optional<bool> have_marks_elsewhere_;
  bool is_stated_ = false;                  // the power was stated, not measured
  std::vector<double> resets_s_;            // when the counter was reset
  energy::NegativeReadings negative_ = {};  // of the source
  Attribution found_;
  std::optional<double> limit_w_;  // power limit of the device
  std::vector<Members> members_of_group_;
  uint32_t first_group_ = 0;
};

// The device on which layers without a trace ran.
struct MarkedDevice {
  DeviceKind kind = DeviceKind::kGpu;
  DeviceRef ref;
};

absl::StatusOr<MarkedDevice> DeviceOfLayers(const std::string& device,
                                            const energy::SensorLog& log) {
  MarkedDevice of;
  static const RE2 pattern("(gpu|cpu)(?::(\\d{1,4}))?");
  std::string kind, ordinal = "0";
  if (!device.empty() && !RE2::FullMatch(device, pattern, &kind, &ordinal)) {
    return InvalidArgument("unknown device '", device, "'; use gpu, gpu:1 or cpu");
  }
  const auto is_gpu = [](const energy::SensorReadings& each) {
    return power::FactsOf(each.channel.source).measures != power::Measures::kProcessors;
  };
  const bool has_gpu = std::ranges::any_of(log.sensors, is_gpu);
  of.kind = kind == "cpu" || (kind.empty() && !has_gpu) ? DeviceKind::kCpu : DeviceKind::kGpu;
  of.ref.ordinal = ordinal.empty() ? 0 : std::stoi(ordinal);
  of.ref.plane = Cat(of.kind == DeviceKind::kCpu ? "CPU" : "GPU", ":", *of.ref.ordinal);
  return of;
}

void AddLogFinding(const energy::SensorLog& log, EnergyReport* report) {
  if (log.complete) return;
  EnergyFinding& finding = report->findings.emplace_back();
  finding.code = "log_without_end";
  finding.severity = "info";
  finding.message =
      Cat(log.path, ": the log has no last line; its recorder was killed or still runs");
}

// Returns an error if no device has numbers.
absl::StatusOr<EnergyReport> Checked(const std::string& source, EnergyReport report) {
  const auto has_numbers = [](const EnergyDevice& device) { return device.reason.empty(); };
  if (std::ranges::any_of(report.devices, has_numbers)) return report;
  return FailedPrecondition(source,
                            ": no energy can be computed: ", DeviceName(report.devices[0].device),
                            ": ", report.devices[0].message);
}

// Returns an error if the map names a device that the trace does not have, because such an entry
// would be ignored silently.
absl::Status CheckMap(const std::map<int32_t, std::string>& map, const Analysis& analysis) {
  std::string there;
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.row.device.ordinal.has_value()) {
      absl::StrAppend(&there, there.empty() ? "" : ", ", *device.row.device.ordinal);
    }
  }
  for (const auto& [ordinal, id] : map) {
    const auto is_it = [wanted = ordinal](const DeviceAnalysis& each) {
      return each.row.device.ordinal == wanted;
    };
    if (std::ranges::any_of(analysis.devices, is_it)) continue;
    return InvalidArgument(
        "--map: the trace has no device ", ordinal, " (", id, "); ",
        there.empty() ? "the devices of the trace have no numbers" : "devices in the trace: ",
        there);
  }
  return absl::OkStatus();
}

// Whether two planes of a file have the same name, as in files that were appended to each other.
bool IsTwin(const DeviceRef& a, const DeviceRef& b) {
  return a.twin != b.twin && a.input == b.input && a.host == b.host && a.plane == b.plane;
}

// Drops diagnostics of runs: the energy of all executions depends neither on the split into runs
// nor on their medians.
Diagnostics WithoutRuns(const Diagnostics& all) {
  constexpr DiagnosticCode kOfRuns[] = {DiagnosticCode::kKernelWithoutFunction,
                                        DiagnosticCode::kExecutionOutsideModule,
                                        DiagnosticCode::kSuspectRun,
                                        DiagnosticCode::kRunsUncertain,
                                        DiagnosticCode::kNoOps,
                                        DiagnosticCode::kClocksDisagree,
                                        DiagnosticCode::kMixedClocks,
                                        DiagnosticCode::kDevicesUnmatched,
                                        DiagnosticCode::kAsynchronousBody,
                                        DiagnosticCode::kRoundedDurations};
  Diagnostics kept;
  for (const Diagnostic& each : all.List()) {
    if (std::ranges::find(kOfRuns, each.code) != std::end(kOfRuns)) continue;
    if (each.text.empty()) {
      kept.Count(each.code, each.first, each.count);
    } else {
      kept.Note(each.code, each.text, each.first, each.count);
    }
  }
  return kept;
}

// Filters select rows; they must not change the attribution.
ReportOptions WithoutFilters(const ReportOptions& options) {
  ReportOptions all;
  all.device = options.device;
  all.id_pattern = options.id_pattern;
  all.threads = options.threads;
  all.events_done = options.events_done;
  return all;
}

}  // namespace

std::string_view EnergyKindName(EnergyKind kind) {
  constexpr std::string_view kNames[] = {"measured", "attributed", "modelled"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view EnergyClockName(EnergyClock clock) {
  constexpr std::string_view kNames[] = {"capture_start", "estimated", "ambiguous", "trace"};
  return kNames[static_cast<size_t>(clock)];
}

absl::StatusOr<EnergyReport> AttributeEnergy(const Trace& trace, const EnergyOptions& options,
                                             const Diagnostics& reading) {
  ASSIGN_OR_RETURN(const Filters shown, Filters::Compile(options.trace));
  NameFilter layer;
  if (!options.layer_pattern.empty()) {
    ASSIGN_OR_RETURN(
        layer, NameFilter::CompileGroup("--layer-re", options.layer_pattern, "(layer_[0-9]+)"));
  }
  energy::LayerTimes marked;
  if (!options.layers.runs.empty()) {
    if (options.layers.clock != LayerClock::kUnix) {
      return InvalidArgument("layers that accompany a trace require UNIX times");
    }
    ASSIGN_OR_RETURN(marked, energy::TimesOf(options.layers));
  }
  energy::SensorLog log;
  const bool has_log = !options.power_log.empty();
  if (has_log) {
    ASSIGN_OR_RETURN(log, energy::ReadSensorLog(options.power_log));
  }
  ASSIGN_OR_RETURN(Analysis analysis,
                   Analyze(trace, WithoutFilters(options.trace), reading, Keep::kIntervals));
  if (options.trace.device.empty()) RETURN_IF_ERROR(CheckMap(options.map, analysis));
  EnergyReport report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  if (has_log) AddLogFinding(log, &report);
  std::vector<bool> elsewhere;  // one element for each device that the layers were placed on
  for (DeviceAnalysis& device : analysis.devices) {
    if (device.row.executions == 0) continue;
    const bool has_twin = std::ranges::any_of(analysis.devices, [&](const DeviceAnalysis& other) {
      return other.row.executions > 0 && IsTwin(other.row.device, device.row.device);
    });
    DeviceEnergy of({options, shown, layer, has_log ? &log : nullptr, marked, has_twin}, &report);
    RETURN_IF_ERROR(of.AddKernels(trace, &device));
    if (of.have_marks_elsewhere().has_value()) elsewhere.push_back(*of.have_marks_elsewhere());
  }
  if (!elsewhere.empty() && std::ranges::find(elsewhere, false) == elsewhere.end()) {
    return FailedPrecondition(options.layers.path.empty() ? "" : options.layers.path + ": ",
                              "the layers and the trace do not overlap in time: no layer ran in "
                              "the capture; the layers span ",
                              marked.from_ns / 1'000'000'000, " s to ",
                              marked.to_ns / 1'000'000'000,
                              " s (UNIX time); give the layers of this capture");
  }
  report.diagnostics = DescribeDiagnostics(trace, WithoutRuns(analysis.diagnostics));
  if (layer.any() && options.layers.runs.empty() && report.layers.empty()) {
    EnergyFinding& finding = report.findings.emplace_back();
    finding.code = "no_layer";
    finding.severity = "warning";
    finding.message = Cat("no name scope matches --layer-re ", options.layer_pattern,
                          "; without --layer-re, each name scope of the trace is a layer");
  }
  const std::string source = has_log ? options.power_log : report.inputs[0].path;
  return Checked(source, std::move(report));
}

absl::StatusOr<EnergyReport> AttributeLayers(const EnergyOptions& options) {
  ASSIGN_OR_RETURN(const energy::LayerTimes marked, energy::TimesOf(options.layers));
  ASSIGN_OR_RETURN(const energy::SensorLog log, energy::ReadSensorLog(options.power_log));
  ASSIGN_OR_RETURN(MarkedDevice device, DeviceOfLayers(options.trace.device, log));
  EnergyReport report;
  if (const std::string& path = options.layers.path; !path.empty()) {
    std::error_code unknown;
    report.inputs.push_back({.path = path, .bytes = std::filesystem::file_size(path, unknown)});
  }
  AddLogFinding(log, &report);
  const Filters shown;
  const NameFilter layer;
  DeviceEnergy({options, shown, layer, &log, marked}, &report)
      .AddMarked(device.kind, std::move(device.ref));
  return Checked(options.power_log, std::move(report));
}

}  // namespace xplane_time
