#include "timing/meaning.h"

#include <bit>
#include <cstring>
#include <optional>

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

}  // namespace

Meanings::Meanings(const Trace& trace, const DevicePlane& device)
    : plane_(trace.planes[device.plane]),
      rules_(RulesOf(device.kind)),
      opcodes_(trace, plane_),
      tables_(std::make_shared<ExecutionTables>()),
      recent_(kRecent),
      names_(plane_) {}

void Meanings::StartBatch(const EventBatch& batch, LineRole role) {
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

bool Meanings::Matches(const Key& key, const EventBatch& batch, size_t row) const {
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
    if (HasOwnText(type) ? value.text != own.text[row] : value.bits != own.bits[row]) return false;
  }
  return kept == key.stats.end();
}

uint64_t Meanings::HashOf(const EventBatch& batch, size_t row) const {
  uint64_t hash = Mix(static_cast<uint64_t>(batch.metadata_id[row]), static_cast<uint64_t>(role_));
  for (const Own& own : own_stats_) {
    const StatType type = own.type[row];
    if (type == StatType::kAbsent) continue;
    hash = std::rotl(hash, 7) ^ (own.column + 1);
    if (!own.value_counts) continue;
    hash = HasOwnText(type) ? MixText(hash, own.text[row]) : Mix(hash, own.bits[row]);
  }
  return Mix(hash, 0);
}

const Meaning& Meanings::OfUnusual(const EventBatch& batch, size_t row) {
  const uint64_t hash = HashOf(batch, row);
  Recent& recent = recent_[(hash >> 32) % kRecent];
  if (recent.entry != nullptr && recent.hash == hash && Matches(recent.entry->key, batch, row)) {
    return *recent.entry->meaning;
  }
  std::vector<const Entry*>& alike = by_hash_[hash];
  for (const Entry* entry : alike) {
    if (!Matches(entry->key, batch, row)) continue;
    recent = {hash, entry};
    return *entry->meaning;
  }
  Entry& entry = entries_.emplace_back();
  entry.key = {role_, batch.metadata[row], batch.metadata_id[row], {}};
  for (const Own& own : own_stats_) {
    if (own.type[row] == StatType::kAbsent) continue;
    entry.key.stats.push_back({own.column, batch.stats[own.column].At(row)});
  }
  entry.meaning = &Add(batch, row);
  alike.push_back(&entry);
  recent = {hash, &entry};
  return *entry.meaning;
}

const Meaning& Meanings::Add(const EventBatch& batch, size_t row) {
  Draft draft;
  Meaning& meaning = meanings_.emplace_back();
  if (role_ == LineRole::kRun) {
    rules_.interpret_run(names_.Of(batch, row), &draft);
    meaning.is_execution = true;
    meaning.program = ProgramOf(draft);
    return meaning;
  }
  rules_.interpret(batch, row, names_.Of(batch, row), &draft);
  meaning.is_execution = draft.is_execution;
  meaning.is_completion = draft.is_completion;
  meaning.completes_body = draft.completes_body;
  meaning.ordinal = draft.ordinal.value_or(kNoOrdinal);
  if (!draft.is_execution) return meaning;
  draft.opcode = opcodes_.Of(draft.program_id, draft.hlo_op);
  meaning.op = OpOf(draft);
  // Else membership is by time.
  if (!rules_.runs_are_events()) meaning.program = ProgramOf(draft);
  return meaning;
}

uint32_t Meanings::OpOf(const Draft& d) {
  const Category category = Classify(d);
  const auto key = std::make_tuple(View(d.kernel), View(d.hlo_op), View(d.tf_op), View(d.scope),
                                   View(d.source), d.flops.value_or(-1),
                                   d.bytes_accessed.value_or(-1), static_cast<int>(category));
  const auto next = static_cast<uint32_t>(tables_->ops.size());
  const auto [found, inserted] = op_index_.try_emplace(key, next);
  if (inserted) {
    OpInfo op{std::string(d.kernel),
              std::string(d.hlo_op),
              std::string(d.tf_op),
              std::string(d.scope),
              std::string(d.source),
              category,
              d.flops,
              d.bytes_accessed};
    const auto next_symbol = static_cast<uint32_t>(symbol_index_.size());
    op.symbol = symbol_index_.try_emplace({op.hlo_op, op.kernel}, next_symbol).first->second;
    tables_->ops.push_back(std::move(op));
  }
  return found->second;
}

uint32_t Meanings::ProgramOf(const Draft& d) {
  if (d.function.empty()) return kNone;
  ProgramInfo program{std::string(d.function), ProgramId(d.program_id)};
  const auto next = static_cast<uint32_t>(tables_->programs.size());
  // A line feed is no program's id.
  const auto [found, inserted] =
      program_index_.try_emplace({program.function, program.program_id.value_or("\n")}, next);
  if (inserted) tables_->programs.push_back(std::move(program));
  return found->second;
}

}  // namespace xplane_time
