// GPU planes: "/device:GPU:7". Executions are the events of stream lines, both kernels and copies.
// All other lines except counters are derived.
//
// The split into runs. The precedence of methods is defined here only. Runs of a program come from
// the first method that applies to all of its kernels:
//   1. scopes    the root of a kernel's scope_range_id: the profiler numbers annotation
//                scopes, and the outermost one is the execution of the module
//   2. launches  correlation_id -> host launch -> the host event that executes the module
//                (gpu_runs/host_evidence.h); a kernel without a launch between two kernels of a
//                run belongs to the run; launches that share an id are used in turn
//   3. sequence  the likeliest split of the sequence of (hlo_op, kernel), in order of launch if
//                correlation ids give it, and by idle time (gpu_runs/likeliest_runs.h)
//
//   python         |-- jit_f:XLA GPU module --|   |-- jit_f:XLA GPU module --|
//   Host Threads/1    |launch 7|  |launch 8|         |launch 9| |launch 10|
//   Stream #16             |--7--| |-8-|                  |--9--| |-10-|
//
// If the host marked ranges of its time, the launches in each range also form a run
// (gpu_runs/host_ranges.h, timing/range_runs.h). Ranges nest, so an execution may be in several of
// these runs.
//
// Methods 1 and 2 need one look, and usually no further pass (EarlyRuns). Method 3 needs a second
// look if the first kernel of a program had a scope or launch. Runs are uncertain if the host
// counted a different number, if methods 1 and 2 disagree, or if another split is about as likely.
#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "devices/device_kind.h"
#include "devices/gpu_runs/host_evidence.h"
#include "devices/gpu_runs/likeliest_runs.h"
#include "devices/power_counters.h"
#include "status.h"

namespace xplane_time {
namespace gpu_runs {
namespace {

// The 4 of "kind_src:pageable kind_dst:device size:4 dest:1 async:1"; 0 if there is no size.
int64_t CopiedBytes(std::string_view memcpy_details) {
  constexpr std::string_view kSize = "size:";
  for (size_t at = 0; at < memcpy_details.size();) {
    const std::string_view word = memcpy_details.substr(at, memcpy_details.find(' ', at) - at);
    at += word.size() + 1;
    if (!word.starts_with(kSize)) continue;
    int64_t bytes = 0;
    const char* const end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data() + kSize.size(), end, bytes);
    return error == std::errc() && rest == end && bytes > 0 ? bytes : 0;
  }
  return 0;
}

constexpr GraphStats kGraphStats = {.graph = "cuda_graph_id", .node = "cuda_graph_node_id"};

// Columns of stats that are read by index.
enum GpuColumn : size_t { kProgramId, kTfOp, kMemcpyDetails };
constexpr KindStat kGpuStats[] = {
    {"program_id", StatUse::kMeaning},
    {"tf_op", StatUse::kMeaning},
    {.name = "memcpy_details",
     .use = StatUse::kPresence,
     .number = Execution::kCopiedBytes,
     .number_in = CopiedBytes},
    {.name = "correlation_id", .use = StatUse::kNumber, .number = Execution::kCorrelationId},
    {.name = "scope_range_id", .use = StatUse::kNumber, .number = Execution::kScopeId},
    {"hlo_module", StatUse::kMeaning, &Draft::function},
    {"hlo_op", StatUse::kMeaning, &Draft::hlo_op},
    {"name", StatUse::kMeaning, &Draft::scope},
    {"source", StatUse::kMeaning, &Draft::source},
    {"source_stack", StatUse::kMeaning, &Draft::source_stack},
    {"Collective name", StatUse::kMeaning, &Draft::collective},
    {"flops", StatUse::kMeaning, nullptr, &Draft::flops},
    {"bytes_accessed", StatUse::kMeaning, nullptr, &Draft::bytes_accessed},
    {kGraphStats.node, StatUse::kMeaning, nullptr, &Draft::graph_node}};

bool ClaimsGpu(std::string_view name, std::optional<int64_t>* ordinal) {
  *ordinal = OrdinalAfter(name, "/device:GPU:");
  return ordinal->has_value();
}

LineRole ClassifyGpuLine(std::string_view line) {
  if (line.starts_with("Stream #")) return LineRole::kExecution;
  if (line == kCountersLine) return LineRole::kCounter;
  return LineRole::kDerived;
}

void InterpretGpuEvent(const EventBatch& batch, size_t row, std::string_view /*name*/,
                       Draft* draft) {
  draft->program_id = batch.Stat(kProgramId, row);
  // The annotation is "XlaModule:" for every kernel of JAX; the op is in `name`.
  const std::string_view tf_op = batch.Stat(kTfOp, row).text;
  if (!tf_op.starts_with("XlaModule:")) draft->tf_op = tf_op;
  draft->is_copy = batch.Stat(kMemcpyDetails, row).type != StatType::kAbsent;
}

bool HasPrograms(const Plane& plane) { return HasStat(plane, "hlo_module"); }

// Without programs and ranges of host time there are no runs.
bool GpuPlaneAsksHost(const Plane& plane) {
  return HasPrograms(plane) || HasStat(plane, kInRangesStat);
}

// ---- runs --------------------------------------------------------------------------------

// Consecutive executions of one program with the same label.
struct Segment {
  int64_t label = 0;
  uint64_t executions = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};
using Segments = std::vector<Segment>;

constexpr int64_t kNoLabel = -1;

void Extend(Segments* segments, int64_t label, uint64_t executions = 1) {
  if (segments->empty() || segments->back().label != label) segments->push_back({label, 0});
  segments->back().executions += executions;
}

// Renumbers the labels from 0 in order of appearance, and returns their number.
int64_t Number(Segments* segments) {
  // Usually each run is one segment, and runs are in order.
  const auto not_next = [](const Segment& a, const Segment& b) { return a.label >= b.label; };
  if (std::ranges::adjacent_find(*segments, not_next) == segments->end()) {
    int64_t next = 0;
    for (Segment& segment : *segments) segment.label = next++;
    return next;
  }
  absl::flat_hash_map<int64_t, int64_t> number;
  for (Segment& segment : *segments) {
    const auto next = static_cast<int64_t>(number.size());
    segment.label = number.try_emplace(segment.label, next).first->second;
  }
  return static_cast<int64_t>(number.size());
}

// Assigns kernels without a launch between two kernels of one run to that run. Returns false if
// such a kernel is between two runs or at an end; the segments are then unusable.
bool FillGaps(Segments* segments) {
  size_t filled = 0;
  for (size_t i = 0; i < segments->size(); ++i) {
    Segment segment = (*segments)[i];
    const int64_t before = filled == 0 ? kNoLabel : (*segments)[filled - 1].label;
    if (segment.label == kNoLabel) {
      const bool inside =
          before != kNoLabel && i + 1 < segments->size() && (*segments)[i + 1].label == before;
      if (!inside) return false;
      segment.label = before;
    }
    if (segment.label == before) {
      (*segments)[filled - 1].executions += segment.executions;
    } else {
      (*segments)[filled++] = segment;
    }
  }
  segments->resize(filled);
  return true;
}

// The order of launch, as indices, if correlation ids give it and it differs from the order of
// start; otherwise empty. Ids increase with launches. Streams and equal times swap only neighbours.
std::vector<size_t> LaunchOrder(const std::vector<uint64_t>& correlation) {
  constexpr size_t kFurthest = 64;
  if (std::is_sorted(correlation.begin(), correlation.end())) return {};
  if (std::find(correlation.begin(), correlation.end(), 0) != correlation.end()) return {};
  std::vector<size_t> order(correlation.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return correlation[a] < correlation[b]; });
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::max(i, order[i]) - std::min(i, order[i]) > kFurthest) return {};
  }
  return order;
}

// The executions of a program that only their sequence can split. They are split in blocks, so that
// memory does not grow with their number.
struct Sequence {
  size_t block_size;  // size of the next block
  std::vector<uint32_t> symbols = {};
  std::vector<int64_t> idle_ps = {};       // idle time of the device since the previous execution
  std::vector<Between> after_other = {};   // which other programs executed since then
  std::vector<uint64_t> correlation = {};  // 0: unknown
  int64_t device_idle_ps = 0;              // idle time of the device before the last execution
  int64_t runs = 0;                        // number of runs in earlier blocks
  // set if the split is doubtful: the number of runs of another likely split
  std::optional<size_t> rivals = {};

  void Add(uint32_t symbol, uint64_t correlation_id, int64_t idle_before_ps, Between between) {
    if (symbols.empty() && runs == 0) device_idle_ps = idle_before_ps;
    symbols.push_back(symbol);
    idle_ps.push_back(idle_before_ps - std::exchange(device_idle_ps, idle_before_ps));
    after_other.push_back(between);
    correlation.push_back(correlation_id);
  }

  // Splits the current block. Unless it is the last one, its last run may continue and stays for
  // the next block. If a block looks like one run, the block size is doubled.
  void Split(bool last, std::optional<size_t> host_runs, Segments* segments) {
    const std::vector<size_t> order = LaunchOrder(correlation);
    std::vector<uint32_t> launched(order.size());
    for (size_t i = 0; i < order.size(); ++i) launched[i] = symbols[order[i]];
    const LikeliestRuns found =
        SplitLikeliest({order.empty() ? symbols : launched, idle_ps, after_other, host_runs});
    std::vector<uint32_t> run = found.run;
    for (size_t i = 0; i < order.size(); ++i) run[order[i]] = found.run[i];
    const size_t end = last ? run.size() : LastBorder(run, run.size());
    if (end == 0) {
      block_size *= 2;
      return;
    }
    for (size_t i = 0; i < end; ++i) Extend(segments, runs + run[i]);
    runs += 1 + *std::max_element(run.begin(), run.begin() + static_cast<ptrdiff_t>(end));
    if (found.rivals.has_value()) rivals = found.rivals;
    const auto erase = [&](auto* column) {
      column->erase(column->begin(), column->begin() + static_cast<ptrdiff_t>(end));
    };
    erase(&symbols);
    erase(&idle_ps);
    erase(&after_other);
    erase(&correlation);
  }
};

// EarlyRuns: the runs of a GPU's programs from the executions so far, so that one pass is enough if
// scopes or launches split a program.
//
// The label of an execution is that of its run, by scope or by launch. The guess is wrong if a
// program changes from one method to the other, or if an execution without a label turns out not to
// be inside a run.
struct EarlyRuns {
  bool right = true;
  std::vector<Run> runs;
  struct Program {
    bool by_scope = false;
    absl::flat_hash_map<int64_t, uint32_t> run_of_scope;
    std::vector<uint32_t> run_of_launch;  // labels are positions in a list; kNone: no run yet
    int64_t label = 0;                    // last label
    uint32_t run = kNone;                 // run of the last label
    bool gap = false;                     // executions without a label came after it

    uint32_t& RunOf(int64_t its_label) {
      if (by_scope) return run_of_scope.try_emplace(its_label, kNone).first->second;
      const auto place = static_cast<size_t>(its_label);
      if (place >= run_of_launch.size()) run_of_launch.resize(place + 1, kNone);
      return run_of_launch[place];
    }
  };
  std::vector<Program> programs;

  // Adds an execution of a program. Without a label it belongs to the previous run, if there is
  // one.
  void Add(bool by_scope, bool labelled, int64_t label, Execution* execution) {
    if (!right) return;
    const uint32_t index = execution->program;
    if (index >= programs.size()) programs.resize(index + 1);
    Program& program = programs[index];
    const bool first = program.run == kNone;
    const bool changed = !first && program.by_scope != by_scope;
    const bool between = labelled && program.gap && label != program.label;
    right = !changed && !between && (!first || labelled);
    if (!right) return;
    program.by_scope = by_scope;
    program.gap = !labelled;
    if (labelled && (first || label != program.label)) {
      program.label = label;
      uint32_t& run = program.RunOf(label);
      if (run == kNone) {
        run = static_cast<uint32_t>(runs.size());
        runs.push_back({.program = index});
      }
      program.run = run;
    }
    execution->run = program.run;
    runs[program.run].Cover(*execution);
  }
};

// The executions of one program during the looks.
struct Track {
  Sequence sequence;
  uint64_t executions = 0;
  uint64_t last_place = 0;  // number of executions of all programs up to its last one
  bool any_without_scope = false;
  Segments by_scope = {}, by_launch = {};
  bool launched = false;       // by_launch holds runs
  bool by_likelihood = false;  // only the sequence can split it, and it is not split yet
  // Executions of its function on the host (null: unknown), and the position of the last launch in
  // them.
  const std::vector<HostEvidence::Execution>* host_executions = nullptr;
  size_t host_place = 0;

  Segments runs = {};  // runs for Assign(): the labels are ids of runs
  // position of Assign(): the segment, and the number of executions taken from it
  size_t at = 0;
  uint64_t taken = 0;

  bool scoped() const { return !any_without_scope; }
};

// Chooses the first method that applies.
void Decide(bool launches_tell, Track* track) {
  track->launched = launches_tell && FillGaps(&track->by_launch);
  track->by_likelihood = !track->scoped() && !track->launched;
}

// Counts of one function on this device. The host does not distinguish programs.
struct Tally {
  size_t runs = 0;
  // lines of the host executions that launched them; may have duplicates
  std::vector<uint32_t> lines;
  bool disagree = false;       // scopes and launches disagree
  bool by_likelihood = false;  // some runs follow from the sequence only
};

// The number of executions of a function on the host for this device, if it differs from `runs`. If
// launches are known, this counts the host executions on the lines that launched to this device.
// Otherwise it counts all, which the devices may share equally.
std::optional<size_t> HostDisagrees(const Tally& tally, size_t count, size_t device_count) {
  const bool shared = count % tally.runs == 0 && count / tally.runs <= device_count;
  return tally.runs == count || shared ? std::nullopt : std::optional(count);
}
std::optional<size_t> HostDisagrees(const Tally& tally,
                                    const std::vector<HostEvidence::Execution>& executions,
                                    size_t device_count) {
  if (tally.runs == executions.size()) return std::nullopt;
  std::vector<uint32_t> lines = tally.lines;
  std::sort(lines.begin(), lines.end());
  if (lines.empty()) return HostDisagrees(tally, executions.size(), device_count);
  const auto on_lines = std::count_if(executions.begin(), executions.end(), [&](const auto& e) {
    return std::binary_search(lines.begin(), lines.end(), e.line);
  });
  const auto count = static_cast<size_t>(on_lines);
  return tally.runs == count ? std::nullopt : std::optional(count);
}

class GpuSplitter : public RunSplitter {
 public:
  explicit GpuSplitter(const SplitContext& context) : context_(context) {
    if (context.trace == nullptr) return;
    may_have_programs_ = HasPrograms(context.trace->planes[context.plane]);
    scopes_ = ScopeRoots(*context.trace, context.plane);
  }

  bool WantsLook() const override { return looks_ == 0 ? may_have_programs_ : likelihood_wanted_; }

  absl::Status Look(std::span<Execution> chunk) override {
    early_.right &= looks_ == 0;
    for (Execution& execution : chunk) {
      if (device_end_ps_.has_value()) {
        device_idle_ps_ += std::max<int64_t>(0, execution.start_ps - *device_end_ps_);
      }
      device_end_ps_ = std::max(device_end_ps_.value_or(execution.end_ps()), execution.end_ps());
      if (execution.program == kNone) continue;
      RETURN_IF_ERROR(LookAt(&execution));
      tracks_[execution.program].last_place = ++place_;
      last_of_stream_[execution.line] = place_;
    }
    return absl::OkStatus();
  }

  bool early_right() const override { return early_.right; }

  void EndLook() override {
    ++looks_;
    likelihood_wanted_ = false;
    device_end_ps_.reset();
    place_ = 0;
    last_of_stream_.clear();
    for (Track& track : tracks_) track.last_place = 0;
    uint64_t by_likelihood = 0;
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (track.executions == 0) continue;  // a program of another pass
      if (looks_ == 1 && !track.by_likelihood) {
        Decide(!launches_.has_value() || !launches_->WasWrong(program), &track);
      }
      if (track.by_likelihood) by_likelihood += track.executions;
    }
    const ProgramCounts programs = by_likelihood > 0 ? CountPrograms() : ProgramCounts();
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (!track.by_likelihood) continue;
      early_.right = false;
      if (by_likelihood > context_.most_by_likelihood) {
        GiveUp(&track);
        continue;
      }
      likelihood_wanted_ |= track.sequence.symbols.empty();
      if (track.sequence.symbols.empty()) continue;
      const bool all = track.sequence.runs == 0;
      track.sequence.Split(/*last=*/true, all ? HostRuns(program, programs) : std::nullopt,
                           &track.runs);
      track.by_likelihood = false;
    }
    if (likelihood_wanted_) return;
    if (early_.right) {
      runs_ = std::exchange(early_, {}).runs;
    } else {
      NumberRuns();
    }
    TallyRuns();
  }

  void Assign(std::span<Execution> chunk) override {
    for (Execution& execution : chunk) {
      if (execution.program == kNone) continue;
      Track& track = tracks_[execution.program];
      if (track.taken == track.runs[track.at].executions) {
        ++track.at;
        track.taken = 0;
      }
      ++track.taken;
      execution.run = static_cast<uint32_t>(track.runs[track.at].label);
      runs_[execution.run].Cover(execution);
    }
  }

  std::vector<Run> Finish(Diagnostics* diagnostics) override {
    const bool left_out = diagnostics->count(DiagnosticCode::kLeftOutByMinDuration) > 0 ||
                          diagnostics->count(DiagnosticCode::kLeftOutByMaxEvents) > 0;
    if (evidence_ != nullptr && !left_out) CrossCheck(diagnostics);
    TellDoubts(diagnostics);
    return std::move(runs_);
  }

 private:
  const std::string& FunctionOf(uint32_t program) const {
    return context_.tables->programs[program].function;
  }

  // Number of programs by function.
  using ProgramCounts = absl::flat_hash_map<std::string_view, size_t>;
  ProgramCounts CountPrograms() const {
    ProgramCounts counts;
    for (uint32_t program = 0; program < context_.tables->programs.size(); ++program) {
      ++counts[FunctionOf(program)];
    }
    return counts;
  }

  static uint64_t CorrelationOf(const Execution& execution) {
    return static_cast<uint64_t>(execution.numbers[Execution::kCorrelationId]);
  }

  // Examines an execution of a program.
  absl::Status LookAt(Execution* execution) {
    const uint32_t program = execution->program;
    if (program >= tracks_.size()) {
      tracks_.resize(program + 1, {.sequence = {context_.likelihood_block}});
    }
    Track& track = tracks_[program];
    if (looks_ == 0) ++track.executions;
    if (track.by_likelihood) AddToSequence(*execution, &track);
    if (looks_ > 0 || track.by_likelihood) return absl::OkStatus();
    const int64_t scope = scopes_.Of(execution->numbers[Execution::kScopeId]);
    track.any_without_scope |= scope == 0;
    if (track.scoped()) Extend(&track.by_scope, scope);
    if (evidence_ == nullptr) {
      ASSIGN_OR_RETURN(evidence_, context_.evidence());
      launches_.emplace(*evidence_);
    }
    if (track.executions == 1) track.host_executions = evidence_->ExecutionsOf(FunctionOf(program));
    std::optional<size_t> launched_by;
    if (track.host_executions != nullptr) {
      const auto launch = launches_->Of(CorrelationOf(*execution), execution->start_ps, program);
      if (launch.has_value()) {
        launched_by =
            HostEvidence::ExecutionAround(*launch, *track.host_executions, &track.host_place);
      }
      early_.right &= !launches_->was_wrong();
    }
    const int64_t launch = launched_by.has_value() ? static_cast<int64_t>(*launched_by) : kNoLabel;
    Extend(&track.by_launch, launch);
    // Neither method can begin like this, so the sequence is collected in the same look.
    const bool is_first = track.by_launch.size() == 1 && track.by_launch[0].executions == 1;
    if (is_first && scope == 0 && launch == kNoLabel) {
      track.by_likelihood = true;
      AddToSequence(*execution, &track);
    }
    const bool by_scope = track.scoped();
    early_.Add(by_scope, by_scope || launch != kNoLabel, by_scope ? scope : launch, execution);
    return absl::OkStatus();
  }

  // Which other programs executed since the last execution of the track's program.
  Between BetweenBefore(const Execution& execution, const Track& track) const {
    if (track.last_place == place_) return Between::kNone;
    const auto last = last_of_stream_.find(execution.line);
    const bool on_stream = last != last_of_stream_.end() && last->second > track.last_place;
    return on_stream ? Between::kOtherOnStream : Between::kOther;
  }

  void AddToSequence(const Execution& execution, Track* track) {
    if (++in_sequences_ > context_.most_by_likelihood) return;
    track->sequence.Add(context_.tables->ops[execution.op].symbol, CorrelationOf(execution),
                        device_idle_ps_, BetweenBefore(execution, *track));
    if (track->sequence.symbols.size() < track->sequence.block_size) return;
    track->sequence.Split(/*last=*/false, /*host_runs=*/std::nullopt, &track->runs);
  }

  // Gives up: one uncertain run.
  static void GiveUp(Track* track) {
    track->sequence = {.block_size = 0, .rivals = track->executions};
    track->runs = {{.label = 0, .executions = track->executions}};
    track->by_likelihood = false;
  }

  // The number of host executions of the program's function, if it must be the number of runs.
  std::optional<size_t> HostRuns(uint32_t program, const ProgramCounts& programs) const {
    if (evidence_ == nullptr || evidence_->device_count != 1) return std::nullopt;
    const std::string& function = FunctionOf(program);
    if (programs.at(function) > 1) return std::nullopt;
    return evidence_->CountExecutions(function);
  }

  void NumberRuns() {
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (track.executions == 0) continue;
      if (track.runs.empty()) track.runs = track.scoped() ? track.by_scope : track.by_launch;
      const int64_t first = static_cast<int64_t>(runs_.size()), count = Number(&track.runs);
      for (Segment& segment : track.runs) segment.label += first;
      runs_.resize(static_cast<size_t>(first + count), {.program = program});
    }
  }

  void TallyRuns() {
    std::vector<size_t> count(tracks_.size());
    for (const Run& run : runs_) ++count[run.program];
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (track.executions == 0) continue;
      Tally& tally = tallies_[FunctionOf(program)];
      tally.runs += count[program];
      tally.by_likelihood |= track.sequence.runs > 0;
      if (track.launched) {
        for (const Segment& segment : track.by_launch) {
          const uint32_t line = (*track.host_executions)[static_cast<size_t>(segment.label)].line;
          if (tally.lines.empty() || tally.lines.back() != line) tally.lines.push_back(line);
        }
      }
      if (track.launched && track.scoped()) {
        Number(&track.by_scope);
        Number(&track.by_launch);
        tally.disagree |= track.by_scope != track.by_launch;
      }
      if (track.sequence.rivals.has_value()) doubtful_.emplace_back(program, count[program]);
      track.by_scope = Segments();  // {} would keep their memory
      track.by_launch = Segments();
    }
  }

  // Marks the runs of functions as uncertain if the host's record disagrees.
  void CrossCheck(Diagnostics* diagnostics) {
    absl::flat_hash_set<std::string> uncertain;
    for (const auto& [function, tally] : tallies_) {
      const std::vector<HostEvidence::Execution>* executions = evidence_->ExecutionsOf(function);
      // Calls prove little: some only trace or compile the function. They count only against runs
      // that nothing else tells.
      const auto calls = executions == nullptr && tally.by_likelihood
                             ? evidence_->CountExecutions(function)
                             : std::nullopt;
      if (executions == nullptr && !calls.has_value()) continue;
      const auto on_host = executions != nullptr
                               ? HostDisagrees(tally, *executions, evidence_->device_count)
                               : HostDisagrees(tally, *calls, evidence_->device_count);
      if (!tally.disagree && !on_host.has_value()) continue;
      diagnostics->Note(DiagnosticCode::kRunsUncertain,
                        absl::StrCat(function, ": ", tally.runs, " runs on the device, ",
                                     on_host.value_or(tally.runs), " executions on the host"),
                        {.plane = context_.plane});
      uncertain.insert(function);
    }
    if (uncertain.empty()) return;
    for (Run& run : runs_) run.uncertain |= uncertain.contains(FunctionOf(run.program));
  }

  // Marks runs that only their sequence separates as uncertain if another split is about as likely.
  void TellDoubts(Diagnostics* diagnostics) {
    for (const auto& [program, runs] : doubtful_) {
      const auto uncertain = [program = program](const Run& run) {
        return run.program == program && run.uncertain;
      };
      if (std::any_of(runs_.begin(), runs_.end(), uncertain)) continue;  // already reported
      const size_t rivals = *tracks_[program].sequence.rivals;
      const std::string other =
          rivals == runs ? "as many with other starts" : std::to_string(rivals);
      diagnostics->Note(DiagnosticCode::kRunsUncertain,
                        absl::StrCat(FunctionOf(program), ": ", runs, " runs or ", other,
                                     "; no scope or launch in the trace decides between them"),
                        {.plane = context_.plane});
      for (Run& run : runs_) run.uncertain |= run.program == program;
    }
  }

  SplitContext context_;
  bool may_have_programs_ = true;
  ScopeRoots scopes_;
  const HostEvidence* evidence_ = nullptr;
  std::optional<LaunchesInOrder> launches_;  // launches of the evidence
  std::vector<Track> tracks_;                // by program
  size_t looks_ = 0;
  std::optional<int64_t> device_end_ps_;  // latest end of the executions of this look so far
  int64_t device_idle_ps_ = 0;            // idle time between them
  uint64_t place_ = 0;                    // number of executions of programs so far
  absl::flat_hash_map<uint32_t, uint64_t> last_of_stream_;  // `place_` of the last one, by line
  EarlyRuns early_;
  bool likelihood_wanted_ = false;
  uint64_t in_sequences_ = 0;  // number of executions in sequences, over all looks
  std::vector<Run> runs_;
  std::map<std::string, Tally> tallies_;               // by function
  std::vector<std::pair<uint32_t, size_t>> doubtful_;  // program, number of its runs
};

}  // namespace
}  // namespace gpu_runs

const KindRules kGpuRules = {.kind = DeviceKind::kGpu,
                             .name = "gpu",
                             .claims = gpu_runs::ClaimsGpu,
                             .role = gpu_runs::ClassifyGpuLine,
                             .line_order = LineOrder::kQueued,
                             .stats = gpu_runs::kGpuStats,
                             .launch_id = Execution::kCorrelationId,
                             .copied_bytes = Execution::kCopiedBytes,
                             .has_launches = true,
                             .asks_host = gpu_runs::GpuPlaneAsksHost,
                             .in_ranges_stat = gpu_runs::kInRangesStat,
                             .graph_stats = gpu_runs::kGraphStats,
                             .interpret = gpu_runs::InterpretGpuEvent,
                             .make_splitter = MakeSplitter<gpu_runs::GpuSplitter>};

}  // namespace xplane_time
