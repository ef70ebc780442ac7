#include "devices/gpu_runs/splitter.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "devices/gpu_runs/early_runs.h"
#include "devices/gpu_runs/host_evidence.h"
#include "devices/gpu_runs/likeliest_runs.h"
#include "status.h"

namespace xplane_time::gpu_runs {
namespace {

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

// Numbers the labels from 0 in order of appearance; how many there are.
int64_t Number(Segments* segments) {
  absl::flat_hash_map<int64_t, int64_t> number;
  for (Segment& segment : *segments) {
    const auto next = static_cast<int64_t>(number.size());
    segment.label = number.try_emplace(segment.label, next).first->second;
  }
  return static_cast<int64_t>(number.size());
}

// A kernel without a launch of its own between two of one run belongs to that run.
// False where one is between two runs, or at an end.
bool FillGaps(Segments* segments) {
  Segments filled;
  for (size_t i = 0; i < segments->size(); ++i) {
    Segment segment = (*segments)[i];
    if (segment.label == kNoLabel) {
      const bool inside = !filled.empty() && i + 1 < segments->size() &&
                          (*segments)[i + 1].label == filled.back().label;
      if (!inside) return false;
      segment.label = filled.back().label;
    }
    Extend(&filled, segment.label, segment.executions);
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

// The executions of a program that nothing but their sequence tells apart. They are split in
// blocks, so that memory does not grow with them.
class Sequence {
 public:
  explicit Sequence(size_t block_size) : block_size_(block_size) {}

  bool empty() const { return symbols_.empty(); }
  bool block_is_full() const { return symbols_.size() >= block_size_; }
  bool any_split() const { return runs_ > 0; }
  std::optional<size_t> rivals() const { return rivals_; }

  void Add(const DeviceExecutions& chunk, size_t row, int64_t device_idle_ps, bool after_other) {
    if (empty() && !any_split()) device_idle_ps_ = device_idle_ps;
    symbols_.push_back(chunk.op_info(row).symbol);
    idle_ps_.push_back(device_idle_ps - std::exchange(device_idle_ps_, device_idle_ps));
    after_other_.push_back(after_other ? 1 : 0);
    correlation_.push_back(chunk.correlation_id[row]);
  }

  // Splits what is there. But at the end the last run may go on and is kept for the next
  // block; a block that is one run is not enough to tell.
  void Split(bool last, std::optional<size_t> host_runs, Segments* runs) {
    const std::vector<size_t> order = LaunchOrder(correlation_);
    std::vector<uint32_t> symbols(order.size());
    for (size_t i = 0; i < order.size(); ++i) symbols[i] = symbols_[order[i]];
    const LikeliestRuns found = SplitLikeliest(
        {order.empty() ? symbols_ : symbols, idle_ps_, after_other_, std::move(host_runs)});
    std::vector<uint32_t> run = found.run;
    for (size_t i = 0; i < order.size(); ++i) run[order[i]] = found.run[i];
    const size_t end = last ? run.size() : LastBorder(run, run.size());
    if (end == 0) {
      block_size_ *= 2;
      return;
    }
    for (size_t i = 0; i < end; ++i) Extend(runs, runs_ + run[i]);
    runs_ += 1 + *std::max_element(run.begin(), run.begin() + static_cast<ptrdiff_t>(end));
    if (found.rivals.has_value()) rivals_ = found.rivals;
    const auto erase = [&](auto* column) {
      column->erase(column->begin(), column->begin() + static_cast<ptrdiff_t>(end));
    };
    erase(&symbols_);
    erase(&idle_ps_);
    erase(&after_other_);
    erase(&correlation_);
  }

 private:
  size_t block_size_;  // of the next block
  std::vector<uint32_t> symbols_;
  std::vector<int64_t> idle_ps_;       // of the device, since the execution before
  std::vector<uint8_t> after_other_;   // another program executed since
  std::vector<uint64_t> correlation_;  // 0: none
  int64_t device_idle_ps_ = 0;         // at the last execution, of all before
  int64_t runs_ = 0;                   // in the blocks before
  std::optional<size_t> rivals_;       // doubtful: it may as well be so many runs
};

// The executions of one program, as the looks see them.
struct Track {
  explicit Track(size_t likelihood_block) : sequence(likelihood_block) {}

  bool any_without_scope = false;
  Segments by_scope, by_launch;
  bool launched = false;       // by_launch holds runs
  bool by_likelihood = false;  // nothing else tells; until it is split
  Sequence sequence;

  Segments runs;  // the labels are ids of runs
  size_t at = 0;  // while assigning: the segment, and how much of it is taken
  uint64_t taken = 0;
};

// By the first way that applies.
void Decide(Track* track) {
  if (track->by_launch.empty()) return;  // a program of another pass
  track->launched = FillGaps(&track->by_launch);
  if (!track->any_without_scope) {
    track->runs = track->by_scope;
  } else if (track->launched) {
    track->runs = track->by_launch;
  } else {
    track->by_likelihood = true;
  }
}

// What is known of one function on this device; the host does not tell programs apart.
struct Tally {
  size_t runs = 0;
  std::vector<size_t> launched;  // host executions
  bool disagree = false;         // scopes and launches
};

// How often the host executed a function on this device, where that is not `runs`: its
// executions on the lines from which this device was driven, where launches tell; else all,
// shared equally by the devices.
std::optional<size_t> HostDisagrees(const Tally& tally,
                                    const std::vector<HostEvidence::Execution>& executions,
                                    size_t device_count) {
  if (tally.runs == executions.size()) return std::nullopt;
  std::vector<uint32_t> lines;
  for (const size_t i : tally.launched) lines.push_back(executions[i].line);
  std::sort(lines.begin(), lines.end());
  if (lines.empty()) {
    const bool shared =
        executions.size() % tally.runs == 0 && executions.size() / tally.runs <= device_count;
    return shared ? std::nullopt : std::optional(executions.size());
  }
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
    may_have_programs_ = HasStat(context.trace->planes[context.plane], "hlo_module");
    scopes_ = ScopeRoots(*context.trace, context.plane);
  }

  bool WantsLook() const override { return looks_ == 0 ? may_have_programs_ : likelihood_wanted_; }

  absl::Status Look(const DeviceExecutions& chunk) override {
    if (looks_ > 0) early_.GiveUp();
    if (early_.right()) early_.Start(chunk);
    for (size_t row = 0; row < chunk.size(); ++row) {
      if (device_end_ps_.has_value()) {
        device_idle_ps_ += std::max<int64_t>(0, chunk.start_ps[row] - *device_end_ps_);
      }
      device_end_ps_ = std::max(device_end_ps_.value_or(chunk.end_ps(row)), chunk.end_ps(row));
      if (chunk.program[row] == kNone) continue;
      RETURN_IF_ERROR(LookAt(chunk, row));
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
      if (!track.by_likelihood) continue;
      early_.GiveUp();
      likelihood_wanted_ |= track.sequence.empty();
      if (track.sequence.empty()) continue;
      const bool all = !track.sequence.any_split();
      track.sequence.Split(/*last=*/true, all ? HostRuns(program) : std::nullopt, &track.runs);
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
      runs_[chunk->run[row]].Cover(*chunk, row);
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

  // An execution of a program.
  absl::Status LookAt(const DeviceExecutions& chunk, size_t row) {
    const uint32_t program = chunk.program[row];
    if (program >= tracks_.size()) {
      tracks_.resize(program + 1, Track(context_.likelihood_block));
    }
    Track& track = tracks_[program];
    if (track.by_likelihood) AddToSequence(chunk, row, &track);
    if (looks_ > 0 || track.by_likelihood) return absl::OkStatus();
    const int64_t scope = scopes_.Of(chunk.scope_id[row]);
    track.any_without_scope |= scope == 0;
    if (!track.any_without_scope) Extend(&track.by_scope, scope);
    if (evidence_ == nullptr) {
      ASSIGN_OR_RETURN(evidence_, context_.evidence());
    }
    const std::optional<size_t> launched_by =
        evidence_->ExecutionOf(FunctionOf(program), chunk.correlation_id[row], &launch_place_);
    const int64_t launch = launched_by.has_value() ? static_cast<int64_t>(*launched_by) : kNoLabel;
    Extend(&track.by_launch, launch);
    // Neither way may begin like this: the sequence is gathered in the same look.
    const bool is_first = track.by_launch.size() == 1 && track.by_launch[0].executions == 1;
    if (is_first && scope == 0 && launch == kNoLabel) {
      track.by_likelihood = true;
      AddToSequence(chunk, row, &track);
    }
    const bool by_scope = !track.any_without_scope;
    std::optional<int64_t> label = by_scope ? scope : launch;
    if (!by_scope && launch == kNoLabel) label = std::nullopt;
    early_.Add(chunk, row, by_scope, label);
    return absl::OkStatus();
  }

  void AddToSequence(const DeviceExecutions& chunk, size_t row, Track* track) {
    track->sequence.Add(chunk, row, device_idle_ps_, last_program_ != chunk.program[row]);
    if (!track->sequence.block_is_full()) return;
    track->sequence.Split(/*last=*/false, /*host_runs=*/std::nullopt, &track->runs);
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

  void NumberRuns() {
    for (uint32_t program = 0; program < tracks_.size(); ++program) {
      Track& track = tracks_[program];
      if (track.runs.empty()) continue;
      const int64_t first = static_cast<int64_t>(runs_.size()), count = Number(&track.runs);
      for (Segment& segment : track.runs) segment.label += first;
      runs_.resize(static_cast<size_t>(first + count), {.program = program});
      Tally& tally = tallies_[FunctionOf(program)];
      tally.runs += static_cast<size_t>(count);
      if (track.launched) {
        for (const Segment& segment : track.by_launch) {
          tally.launched.push_back(static_cast<size_t>(segment.label));
        }
        tally.disagree |= !track.any_without_scope && !ScopesAgree(&track);
      }
      if (track.sequence.rivals().has_value()) {
        doubtful_.emplace_back(program, static_cast<size_t>(count));
      }
      track.by_scope = {};
      track.by_launch = {};
    }
  }

  static bool ScopesAgree(Track* track) {
    Number(&track->by_scope);
    Number(&track->by_launch);
    return track->by_scope == track->by_launch;
  }

  // Marks the runs of functions of which the host's record says otherwise.
  void CrossCheck(Diagnostics* diagnostics) {
    absl::flat_hash_set<std::string> uncertain;
    for (const auto& [function, tally] : tallies_) {
      const auto executions = evidence_->executions.find(function);
      if (executions == evidence_->executions.end()) continue;
      const auto on_host = HostDisagrees(tally, executions->second, evidence_->device_count);
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

  // Marks the runs that nothing but their likelihood tells apart, where another split is
  // about as likely.
  void TellDoubts(Diagnostics* diagnostics) {
    for (const auto& [program, runs] : doubtful_) {
      const auto uncertain = [program = program](const Run& run) {
        return run.program == program && run.uncertain;
      };
      if (std::any_of(runs_.begin(), runs_.end(), uncertain)) continue;  // told
      const size_t rivals = *tracks_[program].sequence.rivals();
      const std::string other =
          rivals == runs ? "as many that begin elsewhere" : std::to_string(rivals);
      diagnostics->Note(DiagnosticCode::kRunsUncertain,
                        absl::StrCat(FunctionOf(program), ": ", runs, " runs, or ", other,
                                     ": no scope or launch tells"),
                        {.plane = context_.plane});
      for (Run& run : runs_) run.uncertain |= run.program == program;
    }
  }

  SplitContext context_;
  bool may_have_programs_ = true;
  ScopeRoots scopes_;
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
  std::map<std::string, Tally> tallies_;               // by function
  std::vector<std::pair<uint32_t, size_t>> doubtful_;  // program, its runs
};

}  // namespace

std::unique_ptr<RunSplitter> MakeSplitter(const SplitContext& context) {
  return std::make_unique<GpuSplitter>(context);
}

}  // namespace xplane_time::gpu_runs
