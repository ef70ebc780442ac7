#include "timing/execution_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "hlo/program.h"
#include "hlo/tpu_metadata.h"
#include "sort_parts.h"
#include "status.h"
#include "timing/filters.h"
#include "timing/graph_ops.h"
#include "timing/launch_configs.h"
#include "timing/origins.h"

namespace xplane_time {
namespace {

constexpr size_t kRecent = 1024;
constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

uint64_t Mix(uint64_t hash, uint64_t value) { return (std::rotl(hash, 23) ^ value) * kPrime; }

uint64_t MixText(uint64_t hash, std::string_view text) {
  hash = Mix(hash, text.size());
  while (text.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data(), sizeof word);
    hash = Mix(hash, word);
    text.remove_prefix(sizeof word);
  }
  uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  return Mix(hash, rest);
}

std::optional<std::string> ProgramId(const StatValue& value) {
  switch (value.type) {
    case StatType::kInt64:
      return std::to_string(static_cast<int64_t>(value.bits));
    case StatType::kUint64:
      return std::to_string(value.bits);
    case StatType::kString:
    case StatType::kRef:
      return std::string(value.text);
    default:
      return std::nullopt;
  }
}

// More lines than these are read one after the other: each open one holds buffers.
constexpr size_t kMostOpenLines = 256;

// By start, then the longer one.
constexpr auto kBefore = [](const Execution& a, const Execution& b) {
  return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
};

std::optional<int64_t> IntegerOf(const StatValue& value) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const bool known =
      IsInteger(value.type) && (value.type == StatType::kInt64 || value.bits <= kMost);
  return known ? std::optional(static_cast<int64_t>(value.bits)) : std::nullopt;
}

// A number of executions that are some rows of the batch.
void FillNumber(const EventBatch& batch, std::span<const uint32_t> rows, size_t column,
                const KindStat& stat, Execution* execution) {
  // Copies, as far as the compiler knows, are not what is written to.
  const StatType* const types = batch.stats[column].type.data();
  const uint64_t* const own = batch.stats[column].bits.data();
  const bool in_metadata = batch.InMetadata(column);
  const size_t place = *stat.number;
  const int64_t absent = stat.absent;
  if (types == nullptr && !in_metadata && absent == 0) return;  // as it is
  if (stat.number_in != nullptr) {
    for (const uint32_t row : rows) {
      (execution++)->numbers[place] = stat.number_in(batch.Stat(column, row).text);
    }
    return;
  }
  for (const uint32_t row : rows) {
    StatType type = types == nullptr ? StatType::kAbsent : types[row];
    uint64_t bits = type == StatType::kAbsent ? 0 : own[row];
    if (type == StatType::kAbsent && in_metadata) {
      const StatValue& value = batch.MetadataStat(column, batch.metadata[row]);
      type = value.type;
      bits = value.bits;
    }
    (execution++)->numbers[place] = IsInteger(type) ? static_cast<int64_t>(bits) : absent;
  }
}

}  // namespace

// Meaning: the properties of an event without its times and its individual ids. Events repeat the
// same few meanings millions of times, so each is computed once.
//
// A meaning is found by the event's metadata and by the stats of the event that determine it
// (StatUse). Values are compared, not only their hashes.
struct Meaning {
  bool is_execution = false;
  bool is_completion = false, completes_body = false;
  uint32_t op = kNone, program = kNone;
  int64_t ordinal = kNoOrdinal;  // on the host
};

// The meanings of one plane's events. Not thread-safe.
class Meanings {
 public:
  Meanings(const Trace& trace, const DevicePlane& device, const Filters& filters, HloPrograms* hlo,
           std::shared_ptr<ExecutionTables> tables)
      : plane_(trace.planes[device.plane]),
        rules_(RulesOf(device.kind)),
        filters_(filters),
        hlo_(*hlo),
        tables_(std::move(tables)),
        recent_(kRecent),
        names_(plane_) {}

  // For batches of execution events, or of runs.
  void StartBatch(const EventBatch& batch, LineRole role) {
    role_ = role;
    by_metadata_ = role == LineRole::kRun ? &run_by_metadata_ : &execution_by_metadata_;
    if (by_metadata_->empty()) by_metadata_->resize(plane_.event_metadata.entries.size(), nullptr);
    own_stats_.clear();
    if (role == LineRole::kRun) return;
    for (uint32_t column = 0; column < rules_.stats.size(); ++column) {
      const StatUse use = rules_.stats[column].use;
      const StatColumn& stat = batch.stats[column];
      if (use == StatUse::kNumber || stat.empty()) continue;
      own_stats_.push_back(
          {column, use == StatUse::kMeaning, stat.type.data(), stat.bits.data(), stat.text.data()});
    }
  }

  // Before batches of execution events: those of these ops are executions. Outlives this.
  void SetHostOps(const HostOps& ops) { host_ops_ = &ops; }

  // Before batches of execution events.
  absl::Status ReadGraphs(const Trace& trace, std::span<const uint32_t> lines) {
    ASSIGN_OR_RETURN(graph_ops_, GraphOps::Read(trace, plane_, lines, rules_.graph_stats, &hlo_));
    return absl::OkStatus();
  }

  const Meaning& Of(const EventBatch& batch, size_t row) {
    const uint32_t metadata = batch.metadata[row];
    if (!own_stats_.empty() || metadata == kNoMetadata) return OfUnusual(batch, row);
    const Meaning*& known = (*by_metadata_)[metadata];
    if (known == nullptr) known = &Add(batch, row);
    return *known;
  }

  // The same op with this launch configuration has a separate entry, so that cells are by
  // configuration.
  uint32_t WithLaunch(uint32_t op, uint32_t launch, const LaunchConfigs& configs) {
    if (launch == LaunchConfigs::kUnknown) return op;
    if (last_launches_.size() <= op) last_launches_.resize(op + 1, {LaunchConfigs::kUnknown, op});
    auto& [last_launch, last_op] = last_launches_[op];
    if (last_launch == launch) return last_op;
    const auto [found, is_new] = op_with_launch_.try_emplace({op, launch}, kNone);
    if (is_new) {
      OpInfo info = tables_->ops[op];
      info.launch_dropped = launch == LaunchConfigs::kOther;
      if (!info.launch_dropped) info.launch = configs.Get(launch);
      found->second = static_cast<uint32_t>(tables_->ops.size());
      tables_->ops.push_back(std::move(info));
    }
    last_launch = launch;
    return last_op = found->second;
  }

 private:
  // A column of the batch that is part of the meaning.
  struct Own {
    uint32_t column;
    bool value_counts;
    const StatType* type;
    const uint64_t* bits;
    const std::string_view* text;
  };
  struct OwnValue {
    uint32_t column;
    StatValue value;
  };
  // A meaning, and the values that identify it.
  struct Entry {
    uint64_t hash;
    LineRole role;
    uint32_t metadata;
    int64_t metadata_id;
    std::vector<OwnValue> stats;
    const Meaning* meaning;
  };

  const Meaning& OfUnusual(const EventBatch& batch, size_t row) {
    const uint64_t hash = HashOf(batch, row);
    const Entry*& recent = recent_[(hash >> 32) % kRecent];
    if (recent == nullptr || recent->hash != hash || !Matches(*recent, batch, row)) {
      recent = &Find(hash, batch, row);
    }
    return *recent->meaning;
  }

  const Entry& Find(uint64_t hash, const EventBatch& batch, size_t row) {
    std::vector<const Entry*>& alike = by_hash_[hash];
    for (const Entry* entry : alike) {
      if (Matches(*entry, batch, row)) return *entry;
    }
    Entry& added = entries_.emplace_back(
        Entry{hash, role_, batch.metadata[row], batch.metadata_id[row], {}, &Add(batch, row)});
    for (const Own& own : own_stats_) {
      if (own.type[row] == StatType::kAbsent) continue;
      added.stats.push_back({own.column, batch.stats[own.column].At(row)});
    }
    alike.push_back(&added);
    return added;
  }

  uint64_t HashOf(const EventBatch& batch, size_t row) const {
    uint64_t hash =
        Mix(static_cast<uint64_t>(batch.metadata_id[row]), static_cast<uint64_t>(role_));
    for (const Own& own : own_stats_) {
      const StatType type = own.type[row];
      if (type == StatType::kAbsent) continue;
      hash = std::rotl(hash, 7) ^ (own.column + 1);
      if (!own.value_counts) continue;
      hash = HasOwnText(type) ? MixText(hash, own.text[row]) : Mix(hash, own.bits[row]);
    }
    return Mix(hash, 0);
  }

  bool Matches(const Entry& key, const EventBatch& batch, size_t row) const {
    if (key.role != role_ || key.metadata != batch.metadata[row] ||
        key.metadata_id != batch.metadata_id[row]) {
      return false;
    }
    auto kept = key.stats.begin();
    for (const Own& own : own_stats_) {
      const StatType type = own.type[row];
      if (type == StatType::kAbsent) continue;
      if (kept == key.stats.end() || kept->column != own.column) return false;
      const StatValue& value = (kept++)->value;
      if (!own.value_counts) continue;
      if (value.type != type) return false;
      if (HasOwnText(type) ? value.text != own.text[row] : value.bits != own.bits[row])
        return false;
    }
    return kept == key.stats.end();
  }

  const Meaning& Add(const EventBatch& batch, size_t row) {
    Draft draft;
    Meaning& meaning = meanings_.emplace_back();
    if (role_ == LineRole::kRun) {
      rules_.interpret_run(names_.Of(batch, row), &draft);
      meaning.is_execution = true;
      meaning.program = ProgramOf(draft);
      return meaning;
    }
    draft.kernel = names_.Of(batch, row);
    if (const uint32_t entry = batch.metadata[row]; entry != kNoMetadata) {
      draft.hlo_text = plane_.event_metadata.entries[entry].name;
    }
    for (size_t column = 0; column < rules_.stats.size(); ++column) {
      const KindStat& stat = rules_.stats[column];
      if (stat.text != nullptr) draft.*stat.text = batch.Stat(column, row).text;
      if (stat.integer != nullptr) draft.*stat.integer = IntegerOf(batch.Stat(column, row));
    }
    if (rules_.interpret != nullptr) rules_.interpret(batch, row, draft.kernel, &draft);
    if (host_ops_ != nullptr) {
      draft.is_completion = draft.completes_body = false;
      const uint32_t entry = batch.metadata[row];
      draft.is_execution = entry != kNoMetadata && host_ops_->entries[entry] != 0;
    }
    meaning.is_execution = draft.is_execution;
    meaning.is_completion = draft.is_completion;
    meaning.completes_body = draft.completes_body;
    meaning.ordinal = draft.ordinal.value_or(kNoOrdinal);
    if (!draft.is_execution) return meaning;
    tables_->ordinals.insert(meaning.ordinal);
    TellGraphOp(&draft);
    const HloPrograms::FoundOp compiled = hlo_.FindOp(draft.program_id, draft.hlo_op);
    if (compiled.instruction != nullptr) draft.opcode = compiled.instruction->opcode;
    meaning.op = OpOf(draft, compiled);
    // Else membership is by time.
    if (!rules_.runs_are_events()) meaning.program = ProgramOf(draft);
    return meaning;
  }

  // The trace has the op of the whole graph.
  void TellGraphOp(Draft* draft) const {
    if (!draft->graph_node.has_value()) return;
    const GraphOps::Op* const op = graph_ops_.Find(draft->program_id.bits, *draft->graph_node);
    if (op == nullptr) return;
    draft->hlo_op = op->instruction->name;
    if (draft->scope.empty()) draft->scope = op->scope;
  }

  uint32_t OpOf(Draft d, const HloPrograms::FoundOp& compiled) {
    if (HasBody(d)) {
      // These amounts would count twice: the ops of the body have their own.
      d.flops = d.bytes_accessed = std::nullopt;
      d.memory_access = {};
    }
    const Category category = filters_.FindCategory(d.kernel, d.hlo_op).value_or(Classify(d));
    const bool in_scope = IsInScope(d, compiled);
    const HloText hlo = ParseHloText(d.hlo_text);
    const bool is_done = hlo.opcode.ends_with("-done");
    const std::string_view start_op = is_done ? hlo.first_operand : std::string_view();
    const auto key = std::make_tuple(
        View(d.kernel), View(d.hlo_op), View(d.tf_op), View(d.scope), View(d.source),
        View(d.source_stack), View(start_op), View(d.memory_access), d.flops.value_or(-1),
        d.bytes_accessed.value_or(-1), 2 * static_cast<int>(category) + (in_scope ? 1 : 0));
    const auto next = static_cast<uint32_t>(tables_->ops.size());
    const auto [found, inserted] = op_index_.try_emplace(key, next);
    if (inserted) {
      OpInfo op{std::string(d.kernel),
                std::string(d.hlo_op),
                std::string(d.tf_op),
                std::string(d.scope),
                std::string(d.source),
                std::string(d.source_stack),
                category,
                in_scope,
                d.flops,
                d.bytes_accessed,
                hlo.opcode.ends_with("-start"),
                std::string(start_op)};
      if (!d.memory_access.empty()) op.hbm_bytes = HbmBytes(d.memory_access);
      const auto next_symbol = static_cast<uint32_t>(symbol_index_.size());
      op.symbol = symbol_index_.try_emplace({op.hlo_op, op.kernel}, next_symbol).first->second;
      tables_->ops.push_back(std::move(op));
    }
    return found->second;
  }

  // Whether --scope matches the op's name scope or one of its source lines, those of its Hlo Proto
  // included.
  bool IsInScope(const Draft& d, const HloPrograms::FoundOp& compiled) {
    if (!filters_.scope.any()) return true;
    const auto matches = [&](std::string_view text) {
      return !text.empty() && filters_.scope.Matches(text);
    };
    if (matches(d.scope) || matches(d.tf_op) || matches(d.source)) return true;
    OpInfo op;
    op.kernel = d.kernel;
    op.hlo_op = d.hlo_op;
    op.tf_op = d.tf_op;
    op.scope = d.scope;
    op.source = d.source;
    op.source_stack = d.source_stack;
    return MatchesScope(filters_.scope, op, origins_.Of(op, compiled));
  }

  uint32_t ProgramOf(const Draft& d) {
    if (d.function.empty()) return kNone;
    ProgramInfo program{std::string(d.function), ProgramId(d.program_id)};
    const auto next = static_cast<uint32_t>(program_index_.size());
    const auto [found, inserted] =
        program_index_.try_emplace({program.function, program.program_id}, next);
    if (inserted) tables_->programs.push_back(std::move(program));
    return found->second;
  }

  const Plane& plane_;
  const HostOps* host_ops_ = nullptr;  // null: what the rules say
  const KindRules& rules_;
  const Filters& filters_;
  HloPrograms& hlo_;
  const std::shared_ptr<ExecutionTables> tables_;
  Origins origins_{/*with_stacks=*/true};
  GraphOps graph_ops_;
  LineRole role_ = LineRole::kExecution;
  std::vector<Own> own_stats_;  // of the batch
  std::deque<Meaning> meanings_;
  std::vector<const Meaning*> execution_by_metadata_, run_by_metadata_;
  std::vector<const Meaning*>* by_metadata_ = nullptr;
  std::deque<Entry> entries_;
  absl::flat_hash_map<uint64_t, std::vector<const Entry*>> by_hash_;
  std::vector<const Entry*> recent_;  // by some bits of the hash
  EventNames names_;
  absl::flat_hash_map<std::tuple<absl::string_view, absl::string_view, absl::string_view,
                                 absl::string_view, absl::string_view, absl::string_view,
                                 absl::string_view, absl::string_view, int64_t, int64_t, int>,
                      uint32_t>
      op_index_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> op_with_launch_;  // op, launch
  std::vector<std::pair<uint32_t, uint32_t>> last_launches_;  // by op: launch, op with it
  absl::flat_hash_map<std::pair<std::string, std::optional<std::string>>, uint32_t> program_index_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> symbol_index_;
};

ExecutionStream::ExecutionStream(const Trace& trace, const DevicePlane& device,
                                 const Selection& selection, const ReportOptions& options,
                                 const Filters& filters, std::shared_ptr<ExecutionTables> tables)
    : trace_(trace),
      device_(device),
      selection_(selection),
      options_(options),
      rules_(RulesOf(device.kind)),
      hlo_(std::make_shared<HloPrograms>(trace, trace.planes[device.plane])),
      meanings_(std::make_unique<Meanings>(trace, device, filters, hlo_.get(), std::move(tables))) {
  for (const KindStat& stat : rules_.stats) stat_names_.push_back(stat.name);
  if (options.launches && rules_.has_launches) {
    launches_ = std::make_unique<LaunchConfigs>(stat_names_.size());
    stat_names_.insert(stat_names_.end(), LaunchConfigs::kStats.begin(),
                       LaunchConfigs::kStats.end());
  }
  const Plane& plane = trace.planes[device.plane];
  if (!rules_.needed_stat.empty()) {
    if (HasStat(plane, rules_.needed_stat)) {
      worth_reading_ = EntriesWorthReading(plane, rules_);
    } else {
      if (rules_.find_host_ops != nullptr) host_ops_ = rules_.find_host_ops(trace, plane);
      if (!host_ops_.has_value()) return;
      meanings_->SetHostOps(*host_ops_);
      worth_reading_ = host_ops_->entries;
    }
  }
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    if (trace.lines[line].event_count == 0) continue;
    if (host_ops_.has_value() && !trace.lines[line].name.starts_with(host_ops_->line_prefix)) {
      continue;
    }
    const LineRole role = rules_.role(trace.lines[line].name);
    if (role == LineRole::kExecution) execution_lines_.push_back(line);
    if (role == LineRole::kRun) run_lines_.push_back(line);
  }
}

ExecutionStream::~ExecutionStream() = default;

void ExecutionStream::Start(ChunkSize size) {
  const bool step_by_step =
      execution_lines_.size() <= kMostOpenLines && !options_.max_events.has_value();
  size_ = step_by_step ? size : ChunkSize::kWhole;
  whole_done_ = needs_whole_ = false;
  lines_.clear();
  aggregated_.clear();
  completions_.clear();
  for (uint32_t line : execution_lines_) {
    OpenLine& open = lines_.emplace_back();
    open.line = line;
    if (size_ == ChunkSize::kSmall) Open(&open);
  }
}

Diagnostics ExecutionStream::diagnostics() const {
  Diagnostics all = module_diagnostics_;
  for (const OpenLine& line : lines_) all.Merge(line.diagnostics);
  return all;
}

void ExecutionStream::ReadOnly(const absl::flat_hash_set<uint32_t>& lines) {
  std::erase_if(execution_lines_, [&](uint32_t line) {
    if (lines.contains(line)) return false;
    if (options_.events_done != nullptr) *options_.events_done += trace_.lines[line].event_count;
    return true;
  });
}

absl::Status ExecutionStream::ReadModules() {
  RETURN_IF_ERROR(meanings_->ReadGraphs(trace_, execution_lines_));
  for (uint32_t line : run_lines_) {
    RETURN_IF_ERROR(
        VisitEvents(trace_, line, {}, &module_diagnostics_, [&](const EventBatch& batch) {
          meanings_->StartBatch(batch, LineRole::kRun);
          for (size_t row = 0; row < batch.size(); ++row) {
            if (batch.start_ps[row] == kNoTimePs) continue;
            const int64_t start_ps = batch.start_ps[row];
            modules_.push_back(
                {{start_ps, start_ps + batch.duration_ps[row]}, meanings_->Of(batch, row).program});
          }
          return absl::OkStatus();
        }));
  }
  const auto earlier = [](const ModuleEvent& a, const ModuleEvent& b) {
    return a.interval.start_ps < b.interval.start_ps;
  };
  if (!std::is_sorted(modules_.begin(), modules_.end(), earlier)) {
    std::stable_sort(modules_.begin(), modules_.end(), earlier);
  }
  return absl::OkStatus();
}

void ExecutionStream::Open(OpenLine* line) {
  line->events = std::make_unique<EventReader>(trace_, stat_names_, &line->diagnostics);
  line->events->Start(line->line, {worth_reading_, /*stats=*/1});
}

absl::Status ExecutionStream::Fill(OpenLine* line) {
  ASSIGN_OR_RETURN(const EventBatch batch, line->events->Next());
  if (batch.size() == 0) {
    line->events.reset();
    return absl::OkStatus();
  }
  meanings_->StartBatch(batch, LineRole::kExecution);
  Append(batch, line);
  if (options_.events_done != nullptr) {
    const uint64_t passed = batch.event.back() + 1;
    *options_.events_done += passed - std::exchange(line->passed, passed);
  }
  return absl::OkStatus();
}

// The rows of the batch that become executions; the others are dealt with.
void ExecutionStream::Append(const EventBatch& batch, OpenLine* line) {
  const int64_t min_duration_ps = options_.min_duration_ps.value_or(0);
  const uint32_t timeline = trace_.lines[line->line].timeline;
  const size_t rows_before = line->rows.size();
  line->rows.resize(rows_before + batch.size());
  Execution* const added = line->rows.data() + rows_before;
  Meanings& meanings = *meanings_;
  const bool is_host = rules_.is_host;
  int64_t last_start_ps = line->last_start_ps;
  std::array<uint32_t, EventBatch::kBatchSize> taken;
  size_t count = 0;
  if (launches_ != nullptr) launches_->StartBatch(batch);
  for (uint32_t row = 0; row < batch.size(); ++row) {
    const Meaning& meaning = meanings.Of(batch, row);
    const int64_t start_ps = batch.start_ps[row], duration_ps = batch.duration_ps[row];
    if (!meaning.is_execution || start_ps == kNoTimePs || duration_ps < min_duration_ps ||
        !WantsOrdinal(meaning.ordinal)) {
      SetAside(batch, row, meaning, line);
      continue;
    }
    if (start_ps < last_start_ps) NoteUnsorted(batch.event[row], line);
    last_start_ps = start_ps;
    Execution& execution = added[count];
    execution = {start_ps, duration_ps, meaning.op, meaning.program, timeline};
    if (launches_ != nullptr) {
      execution.op = meanings.WithLaunch(meaning.op, launches_->Find(batch, row), *launches_);
    }
    if (is_host) execution.numbers[Execution::kDeviceOrdinal] = meaning.ordinal;
    taken[count++] = row;
  }
  line->last_start_ps = last_start_ps;
  line->rows.resize(rows_before + count);
  for (size_t column = 0; column < rules_.stats.size(); ++column) {
    const KindStat& stat = rules_.stats[column];
    if (!stat.number.has_value()) continue;
    FillNumber(batch, std::span(taken).first(count), column, stat, added);
  }
}

// A row that becomes no execution.
void ExecutionStream::SetAside(const EventBatch& batch, uint32_t row, const Meaning& meaning,
                               OpenLine* line) {
  const int64_t start_ps = batch.start_ps[row], duration_ps = batch.duration_ps[row];
  if (!meaning.is_execution) {
    if (!meaning.is_completion || start_ps == kNoTimePs) return;
    int64_t flow = rules_.completed_flow(batch, row);
    if (flow == kNoFlow) return;
    // For other ops this only shows that the trace has markers.
    if (!meaning.completes_body) flow = kNoFlow;
    // Of several markers the latest one counts, independent of the order in which lines are read.
    int64_t& completion_ps = completions_.try_emplace(flow, start_ps).first->second;
    completion_ps = std::max(completion_ps, start_ps);
    return;
  }
  if (!WantsOrdinal(meaning.ordinal)) return;
  if (duration_ps < options_.min_duration_ps.value_or(0)) {
    line->diagnostics.Count(
        DiagnosticCode::kLeftOutByMinDuration,
        {.plane = device_.plane, .line = line->line, .event = batch.event[row]});
    return;
  }
  aggregated_.push_back(
      {meaning.op, meaning.program, batch.occurrences[row], duration_ps, meaning.ordinal});
}

void ExecutionStream::NoteUnsorted(uint64_t event, OpenLine* line) {
  if (line->unsorted) return;
  line->unsorted = true;
  line->diagnostics.Count(DiagnosticCode::kUnsortedLine,
                          {.plane = device_.plane, .line = line->line, .event = event});
}

absl::Status ExecutionStream::Next(ExecutionChunk* chunk) {
  chunk->rows.clear();
  RETURN_IF_ERROR(size_ == ChunkSize::kWhole ? NextWhole(&chunk->rows) : NextSmall(&chunk->rows));
  SortParts(chunk->rows, kBefore);
  return absl::OkStatus();
}

absl::Status ExecutionStream::NextSmall(Executions* chunk) {
  for (;;) {
    int64_t horizon_ps = std::numeric_limits<int64_t>::max();
    OpenLine* behind = nullptr;  // the line that holds the others up
    for (OpenLine& line : lines_) {
      while (line.events != nullptr && line.empty()) {
        RETURN_IF_ERROR(Fill(&line));
      }
      needs_whole_ |= line.unsorted;
      if (line.events == nullptr || line.last_start_ps >= horizon_ps) continue;
      horizon_ps = line.last_start_ps;
      behind = &line;
    }
    if (needs_whole_) return absl::OkStatus();
    for (OpenLine& line : lines_) {
      Executions& rows = line.rows;
      const auto begin = rows.begin() + static_cast<ptrdiff_t>(line.begin);
      const auto end = std::partition_point(begin, rows.end(), [&](const Execution& execution) {
        return behind == nullptr || execution.start_ps < horizon_ps;
      });
      if (chunk->empty() && line.begin == 0) {  // the usual case, with less to copy
        chunk->swap(rows);
        rows.assign(end, chunk->end());
        chunk->erase(end, chunk->end());
        continue;
      }
      chunk->insert(chunk->end(), begin, end);
      line.begin = static_cast<size_t>(end - rows.begin());
      if (line.begin < rows.size() / 2) continue;  // so that no row is moved often
      rows.erase(rows.begin(), end);
      line.begin = 0;
    }
    if (!chunk->empty() || behind == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(Fill(behind));
  }
}

absl::Status ExecutionStream::NextWhole(Executions* chunk) {
  if (std::exchange(whole_done_, true)) return absl::OkStatus();
  for (OpenLine& line : lines_) {
    chunk->swap(line.rows);  // appended in place
    const size_t rows_before = line.rows.size();
    Open(&line);
    while (line.events != nullptr) {
      RETURN_IF_ERROR(Fill(&line));
    }
    const size_t size = line.rows.size();
    const size_t keep = std::max<size_t>(rows_before, options_.max_events.value_or(size));
    if (size > keep) {
      line.diagnostics.Count(DiagnosticCode::kLeftOutByMaxEvents, {.plane = device_.plane},
                             size - keep);
      line.rows.resize(keep);
    }
    chunk->swap(line.rows);
  }
  return absl::OkStatus();
}

}  // namespace xplane_time
