// Collects events in batches: puts their times on the axis of the trace, and their values into
// columns.
//
// Each event of a line passes through BatchBuilder::Add():
// 1. Events with a negative duration or count are counted in the diagnostics and skipped.
// 2. start = (line timestamp - base) * 1000 + offset, in 128 bits. Events beyond the axis
//    (normalize.h) are counted and skipped. Aggregated events have no start.
// 3. The metadata id is resolved to an index. A missing id is counted, and the event is kept.
// 4. Requested stats were set before, in the columns of the current row.
//
// BatchLoop and PassLoop (internals.h) are fast paths for events with small times, which need none
// of these checks. Stats of event metadata are resolved on first use and cached per entry. Cost:
// O(1) per event and requested stat.
#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "near_names.h"
#include "read/internals.h"
#include "status.h"

namespace xplane_time {
namespace {

// The hint in an error message about the unknown stat `name`.
std::string WayOut(const std::string& name, const std::set<std::string>& known) {
  const std::vector<std::string> all(known.begin(), known.end());
  const std::vector<std::string> near = NearNames(name, all);
  if (near.empty()) return "list the stats with xplane-time planes --stats";
  return Cat("did you mean ", absl::StrJoin(near, ", "), "?");
}

__extension__ typedef __int128 Int128;  // fits every sum below

}  // namespace

int64_t ChooseBaseNs(std::span<const Line> lines) {
  int64_t base_ns = 0;
  for (const Line& line : lines) {
    // The timestamp of a line without events does not affect the axis.
    if (line.event_count == 0 || line.timestamp_ns < kEpochTimestampNs) continue;
    if (base_ns == 0 || line.timestamp_ns < base_ns) base_ns = line.timestamp_ns;
  }
  return base_ns;
}

std::optional<int64_t> ToAxisPs(int64_t timestamp_ns, int64_t base_ns, int64_t offset_ps) {
  constexpr int64_t kPsPerNs = 1000;
  const Int128 start_ps = (Int128{timestamp_ns} - base_ns) * kPsPerNs + offset_ps;
  if (start_ps < std::numeric_limits<int64_t>::min()) return std::nullopt;
  if (start_ps > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return static_cast<int64_t>(start_ps);
}

std::optional<int64_t> EndPs(int64_t start_ps, int64_t duration_ps) {
  int64_t end_ps = 0;
  if (duration_ps < 0 || __builtin_add_overflow(start_ps, duration_ps, &end_ps)) {
    return std::nullopt;
  }
  return end_ps;
}

BatchBuilder::BatchBuilder(const Trace& trace, std::span<const std::string_view> stat_names,
                           Diagnostics* diagnostics)
    : trace_(trace),
      stat_names_(stat_names),
      diagnostics_(diagnostics),
      rows_(std::make_unique_for_overwrite<Rows>()),
      cells_(stat_names.size()),
      columns_(stat_names.size()) {}

void BatchBuilder::StartLine(uint32_t line, const EventChoice& choice) {
  Clear();
  line_ = line;
  const bool chosen_anew = plane_ != &trace_.planes[trace_.lines[line].plane] ||
                           choice.metadata.data() != choice_.metadata.data();
  choice_ = choice;
  extent_ = kNoExtent;
  at_within_ = 0;
  const Line& at = trace_.lines[line];
  base_ns_ = trace_.files[trace_.planes[at.plane].file].base_ns;
  line_start_ps_ = ToAxisPs(at.timestamp_ns, base_ns_, 0);
  const bool same_plane = std::exchange(plane_, &trace_.planes[at.plane]) == plane_;
  if (chosen_anew) FindChosenIds();
  if (wants_stats() && !same_plane) FindColumns();
}

void BatchBuilder::FindChosenIds() {
  chosen_ids_.clear();
  if (choice_.metadata.empty()) return;
  for (const uint32_t entry : plane_->event_metadata.array()) {
    chosen_ids_.push_back(entry < choice_.metadata.size() ? choice_.metadata[entry] : 1);
  }
}

void BatchBuilder::FindColumns() {
  metadata_rows_.clear();
  in_metadata_.clear();
  column_of_large_id_.clear();
  absl::flat_hash_map<absl::string_view, uint32_t> column_of_name;
  for (uint32_t column = 0; column < stat_names_.size(); ++column) {
    column_of_name.try_emplace(Absl(stat_names_[column]), column);
  }
  std::vector<std::pair<int64_t, uint32_t>> column_of_id;
  for (const StatMetadata& stat : plane_->stat_metadata.entries) {
    const auto found = column_of_name.find(Absl(stat.name));
    if (found != column_of_name.end()) column_of_id.emplace_back(stat.id, found->second);
  }
  const bool all = column_of_id.size() == plane_->stat_metadata.entries.size();
  column_of_unknown_ = all ? kNameless : kNoColumn;
  column_of_small_id_.assign(kSmallIds, column_of_unknown_);
  for (const auto& [id, column] : column_of_id) {
    if (static_cast<uint64_t>(id) < kSmallIds) {
      column_of_small_id_[static_cast<size_t>(id)] = column;
    } else {
      column_of_large_id_.emplace(id, column);
    }
  }
}

uint32_t BatchBuilder::ColumnOf(int64_t stat_metadata_id) const {
  const auto at = static_cast<uint64_t>(stat_metadata_id);
  if (at < kSmallIds) return column_of_small_id_[at];
  const auto found = column_of_large_id_.find(stat_metadata_id);
  return found == column_of_large_id_.end() ? column_of_unknown_ : found->second;
}

void BatchBuilder::SetStat(uint32_t column, const StatValue& value) {
  if (column == kNameless) return;
  if (cells_[column] == nullptr) AddCells(column);
  Cells& cells = *cells_[column];
  if (cells.type[size_] != StatType::kAbsent) return;
  cells.type[size_] = value.type;
  cells.bits[size_] = value.bits;
  if (HasOwnText(value.type)) cells.text[size_] = value.text;
}

void BatchBuilder::AddCells(uint32_t column) {
  cells_[column] = std::make_unique_for_overwrite<Cells>();
  cells_[column]->type.fill(StatType::kAbsent);
}

void BatchBuilder::ClearCells(size_t begin, size_t end) {
  end = std::min(end, EventBatch::kBatchSize);
  for (const std::unique_ptr<Cells>& cells : cells_) {
    if (cells == nullptr) continue;
    std::fill(cells->type.begin() + begin, cells->type.begin() + end, StatType::kAbsent);
  }
}

void BatchBuilder::Clear() {
  ClearCells(0, size_ + 1);
  size_ = 0;
}

bool BatchBuilder::InMetadata(size_t column) const {
  if (in_metadata_.empty()) {
    in_metadata_.resize(stat_names_.size());
    for (const Stat& stat : plane_->metadata_stats) {
      const uint32_t at = ColumnOf(stat.metadata_id);
      if (at < kNameless) in_metadata_[at] = 1;
    }
  }
  return in_metadata_[column] != 0;
}

const StatValue& BatchBuilder::MetadataStat(size_t column, uint32_t metadata) const {
  static constexpr StatValue kNone;
  if (metadata == kNoMetadata || !InMetadata(column)) return kNone;
  const EventMetadata& entry = plane_->event_metadata.entries[metadata];
  if (entry.stat_count == 0) return kNone;
  auto [found, inserted] = metadata_rows_.try_emplace(metadata);
  std::vector<StatValue>& row = found->second;
  if (inserted) {
    row.resize(stat_names_.size());
    for (uint32_t i = 0; i < entry.stat_count; ++i) {
      const Stat& stat = plane_->metadata_stats[entry.first_stat + i];
      const uint32_t at = ColumnOf(stat.metadata_id);
      if (at < kNameless && row[at].type == StatType::kAbsent) row[at] = stat.value;
    }
  }
  return row[column];
}

void BatchBuilder::Add(uint64_t event, const RawEvent& raw) {
  const Location where = {
      .file = plane_->file, .plane = trace_.lines[line_].plane, .line = line_, .event = event};
  std::optional<int64_t> start_ps = kNoTimePs;
  if (raw.duration_ps < 0 || (raw.aggregated && raw.data < 0)) {
    diagnostics_->Count(DiagnosticCode::kNegativeDuration, where);
    return ClearRow();
  }
  if (raw.aggregated) {
    diagnostics_->Count(DiagnosticCode::kAggregatedEvent, where);
  } else {
    start_ps = ToAxisPs(trace_.lines[line_].timestamp_ns, base_ns_, raw.data);
    const auto end_ps = start_ps.has_value() ? EndPs(*start_ps, raw.duration_ps) : std::nullopt;
    if (!end_ps.has_value() || *start_ps < -kAxisLimitPs || *end_ps > kAxisLimitPs) {
      diagnostics_->Count(DiagnosticCode::kTimeOverflow, where);
      return ClearRow();
    }
  }
  const uint32_t metadata = plane_->event_metadata.Find(raw.metadata_id);
  if (metadata == kNoMetadata) diagnostics_->Count(DiagnosticCode::kMissingEventMetadata, where);
  rows_->event[size_] = event;
  rows_->start_ps[size_] = *start_ps;
  rows_->duration_ps[size_] = raw.duration_ps;
  rows_->occurrences[size_] = raw.aggregated ? raw.data : 1;
  rows_->metadata_id[size_] = raw.metadata_id;
  rows_->metadata[size_] = metadata;
  ++size_;
}

EventBatch BatchBuilder::Batch() {
  for (size_t row = 0; row < (choice_.metadata.empty() ? 0 : size_); ++row) {
    if (rows_->start_ps[row] == kNoTimePs) continue;
    extent_.start_ps = std::min(extent_.start_ps, rows_->start_ps[row]);
    extent_.end_ps = std::max(extent_.end_ps, rows_->start_ps[row] + rows_->duration_ps[row]);
  }
  for (size_t column = 0; column < columns_.size(); ++column) {
    if (cells_[column] == nullptr) continue;
    const Cells& cells = *cells_[column];
    columns_[column] = {std::span(cells.type).first(size_), std::span(cells.bits).first(size_),
                        std::span(cells.text).first(size_), &plane_->stat_metadata};
  }
  return {.line = line_,
          .event = std::span(rows_->event).first(size_),
          .start_ps = std::span(rows_->start_ps).first(size_),
          .duration_ps = std::span(rows_->duration_ps).first(size_),
          .occurrences = std::span(rows_->occurrences).first(size_),
          .metadata = std::span(rows_->metadata).first(size_),
          .metadata_id = std::span(rows_->metadata_id).first(size_),
          .stats = columns_,
          .builder = this};
}

const StatValue& EventBatch::MetadataStat(size_t column, uint32_t entry) const {
  return builder->MetadataStat(column, entry);
}

bool EventBatch::InMetadata(size_t column) const { return builder->InMetadata(column); }

EventReader::EventReader(const Trace& trace, std::span<const std::string_view> stat_names,
                         Diagnostics* diagnostics)
    : trace_(&trace), builder_(std::make_unique<BatchBuilder>(trace, stat_names, diagnostics)) {}

EventReader::~EventReader() = default;
EventReader::EventReader(EventReader&&) noexcept = default;

void EventReader::Start(uint32_t line, const EventChoice& choice) {
  builder_->StartLine(line, choice);
  const LinePart whole = {trace_->lines[line].bytes, 0};
  decoder_ = trace_->source->Decode(*trace_, line, choice.part == nullptr ? whole : *choice.part);
}

Interval EventReader::extent() const { return builder_->extent(); }

absl::StatusOr<EventBatch> EventReader::Next() {
  builder_->Clear();
  RETURN_IF_ERROR(decoder_->Fill(builder_.get()));
  return builder_->Batch();
}

absl::Status VisitEvents(const Trace& trace, uint32_t line,
                         std::span<const std::string_view> stat_names, Diagnostics* diagnostics,
                         BatchVisitor visitor, const EventChoice& choice) {
  EventReader events(trace, stat_names, diagnostics);
  events.Start(line, choice);
  for (;;) {
    ASSIGN_OR_RETURN(auto batch, events.Next());
    if (batch.size() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(visitor(batch));
  }
}

absl::Status CheckStatNames(const Trace& trace, std::span<const std::string> names) {
  if (names.empty()) return absl::OkStatus();
  std::set<std::string> known, asked;
  for (const Plane& plane : trace.planes) {
    for (const StatMetadata& stat : plane.stat_metadata.entries) known.emplace(stat.name);
  }
  for (const std::string& name : names) {
    if (!asked.insert(name).second) {
      return InvalidArgument("the stat ", name, " is requested twice; request it once");
    }
    if (!known.contains(name)) {
      return FailedPrecondition(trace.files[0].path, ": no event has the stat ", name, "; ",
                                WayOut(name, known));
    }
  }
  return absl::OkStatus();
}

}  // namespace xplane_time
