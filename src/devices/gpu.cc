// GPU planes: "/device:GPU:7". Executions are the events of stream lines, kernels and
// copies alike; every other line is derived.
//
// Runs of a program, by the first way that applies:
//   1. root scope_range_id of its kernels (the profiler numbers annotation scopes; the
//      outermost one of a kernel is the module's execution)
//   2. correlation_id -> host launch -> the host event that executes the module
//   3. the likeliest split of the sequence of (hlo_op, kernel): in order of launch where
//      correlation ids tell it, and by idle time
//
//   python         |-- jit_f:XLA GPU module --|   |-- jit_f:XLA GPU module --|
//   Host Threads/1    |launch 7|  |launch 8|         |launch 9| |launch 10|
//   Stream #16             |--7--| |-8-|                  |--9--| |-10-|
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "devices/device_kind.h"
#include "devices/early_runs.h"
#include "devices/likeliest_runs.h"

namespace xplane_time {
namespace {

enum GpuColumn : size_t {
  kHloModule,
  kProgramId,
  kHloOp,
  kCorrelationId,
  kScopeRangeId,
  kTfOp,
  kName,
  kSource,
  kMemcpyDetails,
  kFlops,
  kBytesAccessed,
};
constexpr KindStat kStats[] = {{"hlo_module", StatUse::kMeaning},
                               {"program_id", StatUse::kMeaning},
                               {"hlo_op", StatUse::kMeaning},
                               {"correlation_id", StatUse::kNumber},
                               {"scope_range_id", StatUse::kNumber},
                               {"tf_op", StatUse::kMeaning},
                               {"name", StatUse::kMeaning},
                               {"source", StatUse::kMeaning},
                               {"memcpy_details", StatUse::kPresence},
                               {"flops", StatUse::kMeaning},
                               {"bytes_accessed", StatUse::kMeaning}};

bool Claims(std::string_view name, std::optional<int64_t>* ordinal) {
  *ordinal = OrdinalAfter(name, "/device:GPU:");
  return ordinal->has_value();
}

LineRole Role(std::string_view line) {
  if (line.starts_with("Stream #")) return LineRole::kExecution;
  if (line == "_counters_") return LineRole::kCounter;
  return LineRole::kDerived;
}

void Interpret(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
  const auto stat = [&](size_t column) { return batch.Stat(column, row); };
  draft->kernel = name;
  draft->function = stat(kHloModule).text;
  draft->program_id = stat(kProgramId);
  draft->hlo_op = stat(kHloOp).text;
  // The annotation is "XlaModule:" for every kernel of JAX; the op is in `name`.
  const std::string_view tf_op = stat(kTfOp).text;
  draft->tf_op = tf_op.starts_with("XlaModule:") ? std::string_view() : tf_op;
  draft->scope = stat(kName).text;
  draft->source = stat(kSource).text;
  draft->is_copy = stat(kMemcpyDetails).type != StatType::kAbsent;
  draft->flops = IntegerOf(stat(kFlops));
  draft->bytes_accessed = IntegerOf(stat(kBytesAccessed));
}

// `root_scope_id` gets the kernel's own scope here; the root is found later.
void Numbers(const EventBatch& batch, std::span<const uint32_t> rows, DeviceExecutions* to) {
  AppendNumbers(
      batch, kCorrelationId, rows, [](StatType, uint64_t bits) { return bits; },
      &to->correlation_id);
  AppendNumbers(
      batch, kScopeRangeId, rows,
      [](StatType, uint64_t bits) { return static_cast<int64_t>(bits); }, &to->root_scope_id);
}

// Consecutive executions of one program with the same label.
struct Segment {
  int64_t label = 0;
  uint64_t executions = 0;
};
using Segments = std::vector<Segment>;

constexpr int64_t kNoLabel = -1;

void Extend(Segments* segments, int64_t label) {
  if (segments->empty() || segments->back().label != label) segments->push_back({label, 0});
  ++segments->back().executions;
}

// Numbers the labels from 0 in order of appearance.
void Number(Segments* segments) {
  absl::flat_hash_map<int64_t, int64_t> number;
  for (Segment& segment : *segments) {
    const auto next = static_cast<int64_t>(number.size());
    segment.label = number.try_emplace(segment.label, next).first->second;
  }
}

// The module execution around a launch: on the launch's line the last to begin, else
// the only one on any line.
const HostEvidence::Execution* ExecutionOf(const Launch& launch,
                                           const std::vector<HostEvidence::Execution>& executions) {
  const int64_t time_ps = launch.start_ps;
  auto at = std::upper_bound(executions.begin(), executions.end(), time_ps,
                             [](int64_t time, const HostEvidence::Execution& execution) {
                               return time < execution.interval.start_ps;
                             });
  // Past so many that are over before the launch, nothing is known: an execution that is
  // open for very long says little about what it contains.
  constexpr size_t kMostSteps = 1024;
  const HostEvidence::Execution* found = nullptr;
  size_t count = 0;
  for (size_t steps = 0; at != executions.begin(); ++steps) {
    if (steps == kMostSteps) return nullptr;
    --at;
    if (at->furthest_end_ps <= time_ps) break;
    if (at->interval.end_ps <= time_ps) continue;
    if (at->line == launch.line) return &*at;
    found = &*at;
    ++count;
  }
  return count == 1 ? found : nullptr;
}

// A kernel without a launch of its own between two of one run belongs to that run.
// False where one is between two runs, or at an end.
bool FillGaps(Segments* segments) {
  Segments filled;
  for (size_t i = 0; i < segments->size(); ++i) {
    const Segment& segment = (*segments)[i];
    if (segment.label != kNoLabel) {
      if (!filled.empty() && filled.back().label == segment.label) {
        filled.back().executions += segment.executions;
      } else {
        filled.push_back(segment);
      }
      continue;
    }
    const bool inside = !filled.empty() && i + 1 < segments->size() &&
                        (*segments)[i + 1].label == filled.back().label;
    if (!inside) return false;
    filled.back().executions += segment.executions;
  }
  *segments = std::move(filled);
  return true;
}

// The order of launch, as indices, where correlation ids tell it and it differs from the
// order of start; empty else. Ids count up with launches; streams and equal times swap
// only neighbours.
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

// The last place where all before are of earlier runs than all after; 0: none.
size_t LastBorder(const std::vector<uint32_t>& run) {
  std::vector<uint32_t> most(run);
  for (size_t i = 1; i < run.size(); ++i) most[i] = std::max(most[i], most[i - 1]);
  uint32_t least = kNone;
  for (size_t i = run.size() - 1; i > 0; --i) {
    least = std::min(least, run[i]);
    if (most[i - 1] < least) return i;
  }
  return 0;
}

// How often the host executed a function on this device, where that is not `runs`: its
// executions on the lines from which this device was driven, where correlation tells;
// else all, shared equally by the devices.
std::optional<size_t> HostDisagrees(size_t runs, const std::vector<uint32_t>& matched_executions,
                                    const std::vector<HostEvidence::Execution>& executions,
                                    size_t device_count) {
  if (runs == executions.size()) return std::nullopt;
  std::vector<uint32_t> lines;
  for (uint32_t i : matched_executions) lines.push_back(executions[i].line);
  std::sort(lines.begin(), lines.end());
  if (lines.empty()) {
    const bool shared = executions.size() % runs == 0 && executions.size() / runs <= device_count;
    return shared ? std::nullopt : std::optional(executions.size());
  }
  const auto on_lines = std::count_if(executions.begin(), executions.end(), [&](const auto& e) {
    return std::binary_search(lines.begin(), lines.end(), e.line);
  });
  const auto count = static_cast<size_t>(on_lines);
  return runs == count ? std::nullopt : std::optional(count);
}

// What is known of one function on this device; the host does not tell programs apart.
struct Tally {
  size_t runs = 0;
  std::vector<uint32_t> matched;  // host executions
  bool disagree = false;          // scopes and correlation
};
using Tallies = std::map<std::string, Tally>;  // by function

// The executions of one program, as the looks see them.
struct Track {
  bool any_without_scope = false;
  Segments by_scope, by_correlation;
  bool correlated = false;     // by_correlation holds runs
  bool by_likelihood = false;  // nothing else tells; until it is split
  std::map<std::pair<std::string, std::string>, uint32_t> symbol_of;  // hlo_op, kernel
  std::vector<uint32_t> symbol_of_op;
  std::vector<uint32_t> symbols;
  std::vector<int64_t> idle_ps;       // of the device, since the track's execution before
  std::vector<uint8_t> after_other;   // another program executed since
  std::vector<uint64_t> correlation;  // 0: none
  int64_t device_idle_ps = 0;         // at the last execution, of all before
  size_t block_size = 0;              // of the next block; 0: not known yet
  int64_t block_runs = 0;             // in the blocks before
  std::optional<size_t> rivals;       // doubtful: it may as well be so many runs

  Segments runs;  // the labels are ids of runs
  size_t at = 0;  // while assigning: the segment, and how much of it is taken
  uint64_t taken = 0;
};

class GpuSplitter : public RunSplitter {
 public:
  explicit GpuSplitter(const SplitContext& context) : context_(context) {}

  bool WantsLook() const override {
    return looks_ == 0 ? context_.may_have_programs : likelihood_wanted_;
  }

  absl::Status Look(const DeviceExecutions& chunk) override {
    if (looks_ > 0) early_.GiveUp();
    if (early_.right()) early_.Start(chunk);
    for (size_t row = 0; row < chunk.size(); ++row) {
      if (device_end_ps_.has_value()) {
        device_idle_ps_ += std::max<int64_t>(0, chunk.start_ps[row] - *device_end_ps_);
      }
      device_end_ps_ = std::max(device_end_ps_.value_or(kUnset), chunk.end_ps(row));
      if (chunk.program[row] == kNone) continue;
      if (absl::Status status = LookAt(chunk, row); !status.ok()) return status;
      last_program_ = chunk.program[row];
    }
    return absl::OkStatus();
  }

  bool AssignEarly(DeviceExecutions* chunk) override {
    if (early_.right()) chunk->run.swap(early_.run_of_row());
    return early_.right();
  }
  bool early_was_right() const override { return early_.right(); }

  void EndLook() override {
    ++looks_;
    likelihood_wanted_ = false;
    device_end_ps_.reset();
    last_program_ = kNone;
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (looks_ == 1 && !track.by_likelihood) Decide(&track);
      if (track.by_likelihood) early_.GiveUp();
      if (!track.by_likelihood) continue;
      likelihood_wanted_ |= track.symbols.empty();
      if (track.symbols.empty()) continue;
      SplitBlock(program, /*last=*/true);
      track.by_likelihood = false;
    }
    if (likelihood_wanted_) return;
    NumberRuns();
    if (early_.right()) runs_ = early_.TakeRuns();
  }

  void Assign(DeviceExecutions* chunk) override {
    chunk->run.assign(chunk->size(), kNone);
    for (size_t row = 0; row < chunk->size(); ++row) {
      if (chunk->program[row] == kNone) continue;
      Track& track = tracks_[chunk->program[row]];
      if (track.taken == track.runs[track.at].executions) {
        ++track.at;
        track.taken = 0;
      }
      ++track.taken;
      chunk->run[row] = static_cast<uint32_t>(track.runs[track.at].label);
      Cover(*chunk, row, &runs_[chunk->run[row]]);
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

  Track& TrackOf(uint32_t program) {
    if (program >= tracks_.size()) tracks_.resize(program + 1);
    return tracks_[program];
  }

  // An execution of a program.
  absl::Status LookAt(const DeviceExecutions& chunk, size_t row) {
    Track& track = TrackOf(chunk.program[row]);
    if (track.by_likelihood) AddClues(chunk, row, &track);
    if (looks_ > 0 || track.by_likelihood) return absl::OkStatus();
    const int64_t scope = chunk.root_scope_id[row];
    track.any_without_scope |= scope == 0;
    if (!track.any_without_scope) Extend(&track.by_scope, scope);
    if (evidence_ == nullptr) {
      auto found = context_.evidence();
      if (!found.ok()) return found.status();
      evidence_ = *found;
    }
    Extend(&track.by_correlation, HostExecution(chunk, row));
    // Neither way may begin like this: clues are gathered in the same look.
    const Segment& first = track.by_correlation.front();
    const bool is_first = track.by_correlation.size() == 1 && first.executions == 1;
    if (is_first && scope == 0 && first.label == kNoLabel) {
      track.by_likelihood = true;
      AddClues(chunk, row, &track);
    }
    std::optional<int64_t> label = scope;
    if (track.any_without_scope) {
      label = track.by_correlation.back().label;
      if (label == kNoLabel) label = std::nullopt;
    }
    early_.Add(chunk, row, /*by_scope=*/!track.any_without_scope, label);
    return absl::OkStatus();
  }

  // The host execution that launched a kernel, or kNoLabel.
  int64_t HostExecution(const DeviceExecutions& chunk, size_t row) {
    const auto executions = evidence_->executions.find(FunctionOf(chunk.program[row]));
    if (executions == evidence_->executions.end() || chunk.correlation_id[row] == 0) {
      return kNoLabel;
    }
    const std::optional<Launch> launch =
        evidence_->launches.Find(chunk.correlation_id[row], &launch_place_);
    if (!launch.has_value()) return kNoLabel;
    const HostEvidence::Execution* execution = ExecutionOf(*launch, executions->second);
    return execution == nullptr ? kNoLabel : execution - executions->second.data();
  }

  void AddClues(const DeviceExecutions& chunk, size_t row, Track* track) {
    const uint32_t op = chunk.op[row];
    if (op >= track->symbol_of_op.size()) track->symbol_of_op.resize(op + 1, kNone);
    uint32_t& symbol = track->symbol_of_op[op];
    if (symbol == kNone) {
      const OpInfo& info = chunk.op_info(row);
      const auto next = static_cast<uint32_t>(track->symbol_of.size());
      symbol = track->symbol_of.try_emplace({info.hlo_op, info.kernel}, next).first->second;
    }
    if (track->symbols.empty() && track->block_runs == 0) track->device_idle_ps = device_idle_ps_;
    track->symbols.push_back(symbol);
    track->idle_ps.push_back(device_idle_ps_ - track->device_idle_ps);
    track->device_idle_ps = device_idle_ps_;
    track->after_other.push_back(last_program_ != chunk.program[row] ? 1 : 0);
    track->correlation.push_back(chunk.correlation_id[row]);
    if (track->block_size == 0) track->block_size = context_.likelihood_block;
    if (track->symbols.size() >= track->block_size) SplitBlock(chunk.program[row], /*last=*/false);
  }

  // Splits what is there: a program of more executions in blocks, so that memory does not
  // grow with them. The last run may go on and is kept for the next block; a block that is
  // one run is not enough to tell.
  void SplitBlock(uint32_t program, bool last) {
    Track* const track = &tracks_[program];
    const std::vector<size_t> order = LaunchOrder(track->correlation);
    std::vector<uint32_t> symbols(order.size());
    for (size_t i = 0; i < order.size(); ++i) symbols[i] = track->symbols[order[i]];
    RunClues clues{
        order.empty() ? track->symbols : symbols, track->idle_ps, track->after_other, {}};
    if (last && track->block_runs == 0) clues.host_runs = HostRuns(program);
    const LikeliestRuns found = SplitLikeliest(clues);
    std::vector<uint32_t> run = found.run;
    for (size_t i = 0; i < order.size(); ++i) run[order[i]] = found.run[i];
    const size_t end = last ? run.size() : LastBorder(run);
    if (end == 0) {
      track->block_size *= 2;
      return;
    }
    uint32_t most = 0;
    for (size_t i = 0; i < end; ++i) {
      Extend(&track->runs, track->block_runs + run[i]);
      most = std::max(most, run[i]);
    }
    track->block_runs += most + 1;
    if (found.rivals.has_value()) track->rivals = found.rivals;
    const auto erase = [&](auto* column) {
      column->erase(column->begin(), column->begin() + static_cast<ptrdiff_t>(end));
    };
    erase(&track->symbols);
    erase(&track->idle_ps);
    erase(&track->after_other);
    erase(&track->correlation);
  }

  // How often the host executed the program's function, where that is its runs.
  std::optional<size_t> HostRuns(uint32_t program) const {
    const std::vector<ProgramInfo>& programs = context_.tables->programs;
    const std::string& function = FunctionOf(program);
    const auto same = std::count_if(programs.begin(), programs.end(),
                                    [&](const ProgramInfo& p) { return p.function == function; });
    if (evidence_ == nullptr || evidence_->device_count != 1 || same != 1) return std::nullopt;
    const auto executions = evidence_->executions.find(function);
    if (executions == evidence_->executions.end()) return std::nullopt;
    return executions->second.size();
  }

  // By the first way that applies.
  void Decide(Track* track) {
    if (track->by_correlation.empty()) return;  // a program of another pass
    track->correlated = FillGaps(&track->by_correlation);
    if (!track->any_without_scope) {
      track->runs = track->by_scope;
    } else if (track->correlated) {
      track->runs = track->by_correlation;
    } else {
      track->by_likelihood = true;
    }
  }

  void NumberRuns() {
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (track.runs.empty()) continue;
      Number(&track.runs);
      const auto first = static_cast<int64_t>(runs_.size());
      int64_t count = 0;
      for (Segment& segment : track.runs) {
        count = std::max(count, segment.label + 1);
        segment.label += first;
      }
      runs_.resize(runs_.size() + static_cast<size_t>(count),
                   {.program = program, .profile = {0, kUnset}});
      Tally& tally = tallies_[FunctionOf(program)];
      tally.runs += static_cast<size_t>(count);
      if (track.correlated) {
        for (const Segment& segment : track.by_correlation) {
          tally.matched.push_back(static_cast<uint32_t>(segment.label));
        }
        tally.disagree |= !track.any_without_scope && !SameRuns(&track);
      }
      if (track.rivals.has_value()) doubtful_.emplace_back(program, static_cast<size_t>(count));
      track.by_scope = {};
      track.by_correlation = {};
    }
  }

  static bool SameRuns(Track* track) {
    Number(&track->by_scope);
    Number(&track->by_correlation);
    return std::equal(track->by_scope.begin(), track->by_scope.end(), track->by_correlation.begin(),
                      track->by_correlation.end(), [](const Segment& a, const Segment& b) {
                        return a.label == b.label && a.executions == b.executions;
                      });
  }

  // Marks the runs of functions of which the host's record says otherwise.
  void CrossCheck(Diagnostics* diagnostics) {
    absl::flat_hash_set<std::string> uncertain;
    for (const auto& [function, tally] : tallies_) {
      const auto executions = evidence_->executions.find(function);
      if (executions == evidence_->executions.end()) continue;
      const auto on_host =
          HostDisagrees(tally.runs, tally.matched, executions->second, evidence_->device_count);
      if (!tally.disagree && !on_host.has_value()) continue;
      diagnostics->Note(DiagnosticCode::kRunsUncertain,
                        function + ": " + std::to_string(tally.runs) + " runs on the device, " +
                            std::to_string(on_host.value_or(tally.runs)) +
                            " executions on the host",
                        {.plane = context_.plane});
      uncertain.insert(function);
    }
    if (uncertain.empty()) return;
    for (Run& run : runs_) run.uncertain |= uncertain.contains(FunctionOf(run.program));
  }

  // Marks the runs that nothing but their likelihood tells apart, where another split is
  // about as likely.
  void TellDoubts(Diagnostics* diagnostics) {
    for (const auto& [program, runs] : doubtful_) {
      const auto uncertain = [program = program](const Run& run) {
        return run.program == program && run.uncertain;
      };
      if (std::any_of(runs_.begin(), runs_.end(), uncertain)) continue;  // told
      const size_t rivals = *tracks_[program].rivals;
      const std::string other =
          rivals == runs ? "as many that begin elsewhere" : std::to_string(rivals);
      diagnostics->Note(DiagnosticCode::kRunsUncertain,
                        FunctionOf(program) + ": " + std::to_string(runs) + " runs, or " + other +
                            ": no scope or launch tells",
                        {.plane = context_.plane});
      for (Run& run : runs_) run.uncertain |= run.program == program;
    }
  }

  SplitContext context_;
  const HostEvidence* evidence_ = nullptr;
  LaunchTable::Place launch_place_;  // in the evidence
  std::vector<Track> tracks_;        // by program
  size_t looks_ = 0;
  std::optional<int64_t> device_end_ps_;  // of all executions of the look so far
  int64_t device_idle_ps_ = 0;            // between them
  uint32_t last_program_ = kNone;         // executed last
  EarlyRuns early_;
  bool likelihood_wanted_ = false;
  std::vector<Run> runs_;
  Tallies tallies_;
  std::vector<std::pair<uint32_t, size_t>> doubtful_;  // program, its runs
};

std::unique_ptr<RunSplitter> MakeSplitter(const SplitContext& context) {
  return std::make_unique<GpuSplitter>(context);
}

}  // namespace

const KindRules kGpuRules = {DeviceKind::kGpu, Claims,  Role,    kStats,      {},
                             Interpret,        nullptr, Numbers, MakeSplitter};

}  // namespace xplane_time
