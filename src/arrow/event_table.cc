// Collects raw events in columns, in parallel over the lines.
//
// 1. Run selects the planes and lines and reserves rows for all of their events.
// 2. Each line is read into its own range of rows. Columns do not initialize their elements
//    (UnsetVector), so that each thread touches its rows first. Names become codes, with one array
//    of codes for each plane.
// 3. CloseGaps moves the rows together if events were filtered out or skipped.
// 4. Stats become number columns if all of their values are numbers of one kind; otherwise
//    categories.
//
// O(events x columns); the rows of a line are copied at most once.
#include "arrow/event_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/events.h"
#include "parallel.h"
#include "read/damaged_hosts.h"
#include "status.h"
#include "timing/filters.h"
#include "xplane_time/read.h"

namespace xplane_time::arrow {
namespace {

bool IsKnown(const StatValue& value) { return value.type != StatType::kAbsent; }

bool Contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Assigns codes to texts; each text is stored once. Texts must outlive it.
class Categories {
 public:
  int32_t CodeOf(std::string_view text) {
    const auto next = static_cast<int32_t>(codes_.size());
    const auto [found, inserted] = codes_.try_emplace({text.data(), text.size()}, next);
    if (inserted) texts_->Add(text);
    return found->second;
  }
  std::shared_ptr<const Texts> texts() const { return texts_; }

 private:
  absl::flat_hash_map<absl::string_view, int32_t> codes_;
  std::shared_ptr<Texts> texts_ = std::make_shared<Texts>();
};

using StatRows = UnsetVector<StatValue>;  // a requested stat of each row, as in the file

constexpr int32_t kUnwanted = -1;  // a name that the filter rejects

class Collector {
 public:
  Collector(const Trace& trace, const EventTableOptions& options)
      : trace_(trace),
        options_(options),
        stat_names_(options.stats.begin(), options.stats.end()),
        stats_(options.stats.size()) {}

  absl::Status Run(Diagnostics* diagnostics) {
    RETURN_IF_ERROR(FindLines());
    Reserve();
    std::vector<absl::Status> status(lines_.size());
    std::vector<Diagnostics> found(lines_.size());
    ParallelFor(lines_.size(), options_.threads,
                [&](size_t i) { status[i] = ReadLine(&lines_[i], &found[i]); });
    DamagedHosts damaged(trace_);
    for (size_t i = 0; i < lines_.size(); ++i) {
      RETURN_IF_ERROR(damaged.LeaveOut(FileOf(lines_[i]), status[i]));
    }
    damaged.Note(diagnostics);
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (damaged.Has(FileOf(lines_[i]))) {
        lines_[i].rows = 0;
      } else {
        diagnostics->Merge(found[i]);
      }
    }
    CloseGaps();
    for (size_t i = 0; i < stats_.size() && rows_ > 0; ++i) {
      const bool seen = std::ranges::any_of(stats_[i], IsKnown);
      if (!seen) diagnostics->Note(DiagnosticCode::kStatWithoutValue, options_.stats[i]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Table> Take() {
    Table table;
    for (const std::string_view name : output::kEventColumns) {
      if (Wants(name)) table.columns.push_back(ColumnOf(name));
    }
    for (size_t i = 0; i < stats_.size(); ++i) {
      table.columns.push_back(StatColumnOf(options_.stats[i], stats_[i]));
    }
    return table;
  }

 private:
  // A selected line and its rows: [first_row, first_row + rows).
  struct WantedLine {
    uint32_t line;
    size_t first_row, rows = 0;
  };

  uint32_t FileOf(const WantedLine& line) const {
    return trace_.planes[trace_.lines[line.line].plane].file;
  }

  bool Wants(std::string_view column) const {
    return options_.columns.empty() || Contains(options_.columns, column);
  }

  absl::Status FindLines() {
    for (const std::string& column : options_.columns) {
      if (Contains(output::kEventColumns, column)) continue;
      const auto append = [](std::string* out, std::string_view name) { out->append(name); };
      return InvalidArgument("no column \"", column,
                             "\"; columns: ", absl::StrJoin(output::kEventColumns, ", ", append),
                             "; request stats with the option stats");
    }
    ASSIGN_OR_RETURN(const NameFilter line, NameFilter::Compile("line", options_.line));
    ASSIGN_OR_RETURN(name_filter_, NameFilter::Compile("name", options_.name));
    ASSIGN_OR_RETURN(const auto lines, SelectLines(trace_, options_.device, line));
    for (const std::string& stat : options_.stats) {
      if (!Contains(output::kEventColumns, stat) || !Wants(stat)) continue;
      return InvalidArgument("the stat \"", stat,
                             "\" has the name of a column; request columns without it");
    }
    RETURN_IF_ERROR(CheckStatNames(trace_, options_.stats));
    for (const uint32_t i : lines) {
      if (trace_.lines[i].event_count == 0) continue;
      lines_.push_back({i, rows_});
      rows_ += trace_.lines[i].event_count;
      NamesOf(trace_.lines[i].plane);
    }
    return absl::OkStatus();
  }

  void NamesOf(uint32_t plane) {
    const auto [found, inserted] = names_.try_emplace(plane);
    if (!inserted) return;
    std::vector<int32_t>& codes = found->second;
    for (const EventMetadata& entry : trace_.planes[plane].event_metadata.entries) {
      codes.push_back(CodeOf(entry.shown_name()));
    }
  }
  int32_t CodeOf(std::string_view name) {
    return name_filter_.Matches(name) ? name_categories_.CodeOf(name) : kUnwanted;
  }

  void Reserve() {
    if (Wants("start_ps")) start_ps_.resize(rows_);
    if (Wants("duration_ps")) duration_ps_.resize(rows_);
    if (Wants("occurrences")) occurrences_.resize(rows_);
    if (Wants("name")) name_.resize(rows_);
    for (StatRows& stat : stats_) stat.resize(rows_);
  }

  absl::Status ReadLine(WantedLine* line, Diagnostics* diagnostics) {
    const uint32_t plane = trace_.lines[line->line].plane;
    const std::vector<int32_t>& codes = names_.find(plane)->second;
    return VisitEvents(trace_, line->line, stat_names_, diagnostics, [&](const EventBatch& batch) {
      for (size_t i = 0; i < batch.size(); ++i) {
        if (batch.duration_ps[i] < options_.min_duration_ps) continue;
        const uint32_t metadata = batch.metadata[i];
        const int32_t code = metadata != kNoMetadata
                                 ? codes[metadata]
                                 : MissingName(trace_.planes[plane], batch.metadata_id[i]);
        if (code != kUnwanted) SetRow(batch, i, code, line->first_row + line->rows++);
      }
      return absl::OkStatus();
    });
  }

  int32_t MissingName(const Plane& plane, int64_t metadata_id) {
    const std::lock_guard<std::mutex> lock(missing_mutex_);
    const auto [found, inserted] = missing_.try_emplace(metadata_id);
    auto& [name, code] = found->second;
    if (inserted) {
      name = EventName(plane, kNoMetadata, metadata_id);
      code = CodeOf(name);
    }
    return code;
  }

  void SetRow(const EventBatch& batch, size_t i, int32_t code, size_t row) {
    if (!start_ps_.empty()) start_ps_[row] = std::bit_cast<uint64_t>(batch.start_ps[i]);
    if (!duration_ps_.empty()) duration_ps_[row] = std::bit_cast<uint64_t>(batch.duration_ps[i]);
    if (!occurrences_.empty()) occurrences_[row] = std::bit_cast<uint64_t>(batch.occurrences[i]);
    if (!name_.empty()) name_[row] = code;
    for (size_t stat = 0; stat < stats_.size(); ++stat) stats_[stat][row] = batch.Stat(stat, i);
  }

  // Lines with rejected or skipped events leave unused rows behind them.
  void CloseGaps() {
    size_t row = 0;
    for (WantedLine& line : lines_) {
      if (row != line.first_row) {
        ForEachColumn([&](auto* column) {
          const auto from = column->begin() + static_cast<std::ptrdiff_t>(line.first_row);
          std::move(from, from + static_cast<std::ptrdiff_t>(line.rows),
                    column->begin() + static_cast<std::ptrdiff_t>(row));
        });
        line.first_row = row;
      }
      row += line.rows;
    }
    ForEachColumn([&](auto* column) { column->resize(row); });
    rows_ = row;
  }

  template <typename Change>
  void ForEachColumn(Change change) {
    const auto changed = [&](auto* column) {
      if (!column->empty()) change(column);
    };
    changed(&start_ps_);
    changed(&duration_ps_);
    changed(&occurrences_);
    changed(&name_);
    for (StatRows& stat : stats_) changed(&stat);
  }

  Column ColumnOf(std::string_view name) {
    const std::string column(name);
    if (name == "start_ps") {
      constexpr auto kUnknown = std::bit_cast<uint64_t>(kNoTimePs);
      Bits known = KnownWhere([&](size_t row) { return start_ps_[row] != kUnknown; });
      return {column, ColumnType::kInt64, std::move(start_ps_), std::move(known)};
    }
    if (name == "duration_ps") return {column, ColumnType::kInt64, std::move(duration_ps_)};
    if (name == "occurrences") return {column, ColumnType::kInt64, std::move(occurrences_)};
    if (name == "name") {
      return {column, ColumnType::kCategory, std::move(name_), {}, name_categories_.texts()};
    }
    if (name == "input") {
      const auto input = [](const Plane& plane, const Line&) { return plane.file; };
      return {column, ColumnType::kInt64, PerLine<uint64_t>(input)};
    }
    Categories categories;
    UnsetVector<int32_t> codes = PerLine<int32_t>([&](const Plane& plane, const Line& line) {
      return categories.CodeOf(name == "host"    ? plane.host
                               : name == "plane" ? plane.name
                                                 : line.shown_name());
    });
    const std::shared_ptr<const Texts> texts = categories.texts();
    Bits known;
    if (name == "host") {
      known = KnownWhere(
          [&](size_t row) { return !(*texts)[static_cast<size_t>(codes[row])].empty(); });
    }
    return {column, ColumnType::kCategory, std::move(codes), std::move(known), texts};
  }

  // A column whose value is the same for all rows of a line.
  template <typename T, typename ValueOf>
  UnsetVector<T> PerLine(ValueOf value_of) const {
    UnsetVector<T> values(rows_);
    for (const WantedLine& wanted : lines_) {
      const Line& line = trace_.lines[wanted.line];
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(wanted.first_row), wanted.rows,
                  value_of(trace_.planes[line.plane], line));
    }
    return values;
  }

  Bits KnownWhere(auto known) const {
    Bits bits;
    for (size_t row = 0; row < rows_; ++row) bits.Add(known(row));
    return bits;
  }

  Column StatColumnOf(const std::string& name, const StatRows& stat) {
    std::array<size_t, 8> count = {};
    bool beyond_int64 = false, below_zero = false;
    UnsetVector<uint64_t> bits;
    bits.reserve(rows_);
    for (const StatValue& value : stat) {
      ++count[static_cast<size_t>(value.type)];
      const bool high = value.bits > std::numeric_limits<int64_t>::max();
      beyond_int64 |= high && value.type == StatType::kUint64;
      below_zero |= high && value.type == StatType::kInt64;
      // The value of an unknown cell is exported too, so it must be defined.
      bits.push_back(IsKnown(value) ? value.bits : 0);
    }
    const auto of = [&](StatType type) { return count[static_cast<size_t>(type)]; };
    const size_t known = rows_ - of(StatType::kAbsent);
    const size_t integers = of(StatType::kInt64) + of(StatType::kUint64);
    Bits is_known = KnownWhere([&](size_t row) { return IsKnown(stat[row]); });
    if (known > 0 && of(StatType::kDouble) == known) {
      return {name, ColumnType::kDouble, std::move(bits), std::move(is_known)};
    }
    if (known > 0 && integers == known && !(beyond_int64 && below_zero)) {
      return {name, beyond_int64 ? ColumnType::kUint64 : ColumnType::kInt64, std::move(bits),
              std::move(is_known)};
    }
    return TextColumn(name, stat, std::move(is_known));
  }

  // Texts; numbers are written in decimal.
  Column TextColumn(const std::string& name, const StatRows& stat, Bits known) {
    Categories categories;
    UnsetVector<int32_t> codes(rows_);
    const char* last = nullptr;  // the texts of references are each stored in one place
    size_t last_size = 0;
    int32_t last_code = categories.CodeOf("");
    for (size_t row = 0; row < rows_; ++row) {
      const std::string_view text = TextOf(stat[row]);
      if (text.data() != last || text.size() != last_size) {
        last = text.data();
        last_size = text.size();
        last_code = categories.CodeOf(text);
      }
      codes[row] = last_code;
    }
    return {name, ColumnType::kCategory, std::move(codes), std::move(known), categories.texts()};
  }

  std::string_view TextOf(const StatValue& stat) {
    switch (stat.type) {
      case StatType::kAbsent:
        return "";
      case StatType::kInt64:
        return Keep(absl::StrCat(std::bit_cast<int64_t>(stat.bits)));
      case StatType::kUint64:
        return Keep(absl::StrCat(stat.bits));
      case StatType::kDouble: {  // with all digits, as `events` prints it
        const auto value = std::bit_cast<double>(stat.bits);
        std::string text = std::isfinite(value) ? "" : absl::StrCat(value);
        output::AppendCsvNumber(value, &text);
        return Keep(std::move(text));
      }
      case StatType::kCompressedString:
        return Keep(output::TextOfCompressed(stat.text));
      default:
        return stat.text;
    }
  }

  // Stores each text once.
  std::string_view Keep(std::string text) { return *kept_.insert(std::move(text)).first; }

  const Trace& trace_;
  const EventTableOptions& options_;
  const std::vector<std::string_view> stat_names_;
  NameFilter name_filter_;
  std::vector<WantedLine> lines_;
  size_t rows_ = 0;

  absl::flat_hash_map<uint32_t, std::vector<int32_t>> names_;  // codes by plane and entry
  Categories name_categories_;
  std::mutex missing_mutex_;
  std::map<int64_t, std::pair<std::string, int32_t>> missing_;  // names without a metadata entry

  UnsetVector<uint64_t> start_ps_, duration_ps_, occurrences_;
  UnsetVector<int32_t> name_;
  std::vector<StatRows> stats_;
  std::set<std::string> kept_;
};

}  // namespace

absl::StatusOr<Table> EventsTable(const Trace& trace, const EventTableOptions& options,
                                  Diagnostics* diagnostics) {
  Collector collector(trace, options);
  RETURN_IF_ERROR(collector.Run(diagnostics));
  return collector.Take();
}

}  // namespace xplane_time::arrow
