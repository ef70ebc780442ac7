// Merges summaries: adds rows with the same key. The order of merging does not change a byte of the
// result.
//
// - Sums saturate (rows.h), minima and maxima are kept, centres are lists that are sorted at the
//   end.
// - Durations are histograms whose buckets have a relative width of at most 1/64: NumberOf takes
//   the highest 7 bits of a duration, and the shift. Merging adds counts, so quantiles of the
//   merged data have the same precision.
// - Names are numbers in a table. A merge maps the numbers of each summary to its own table; at the
//   end, unused names are dropped and the rest is sorted.
//
// O(rows) for each summary; memory is that of the result.
#include <algorithm>
#include <bit>
#include <limits>
#include <ranges>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "fleet/rows.h"
#include "stats/order_statistics.h"
#include "status.h"

namespace xplane_time {

uint16_t DurationHistogram::NumberOf(int64_t duration_ps) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(duration_ps, 0));
  const int shift = std::max(static_cast<int>(std::bit_width(value)) - 7, 0);
  return static_cast<uint16_t>(64 * shift + static_cast<int>(value >> shift));
}

int64_t DurationHistogram::FirstOf(uint16_t number) {
  const int shift = std::max(number / 64 - 1, 0);
  return (int64_t{number} - 64 * shift) << shift;
}

void DurationHistogram::Add(uint16_t number, uint64_t times) {
  if (times == 0) return;
  const auto at = std::ranges::lower_bound(buckets_, number, {}, &Bucket::number);
  if (at == buckets_.end() || at->number != number) {
    buckets_.insert(at, {number, times});
  } else {
    at->count = fleet::Sum(at->count, times);
  }
}

void DurationHistogram::Merge(const DurationHistogram& other) {
  std::vector<Bucket> merged;
  merged.reserve(buckets_.size() + other.buckets_.size());
  auto mine = buckets_.begin();
  for (const Bucket& its : other.buckets_) {
    while (mine != buckets_.end() && mine->number < its.number) merged.push_back(*mine++);
    merged.push_back(its);
    if (mine == buckets_.end() || mine->number != its.number) continue;
    merged.back().count = fleet::Sum(its.count, (mine++)->count);
  }
  merged.insert(merged.end(), mine, buckets_.end());
  buckets_ = std::move(merged);
}

uint64_t DurationHistogram::count() const {
  uint64_t count = 0;
  for (const Bucket& each : buckets_) count = fleet::Sum(count, each.count);
  return count;
}

std::optional<int64_t> DurationHistogram::QuantilePs(double share) const {
  if (buckets_.empty()) return std::nullopt;
  uint64_t left = stats::NearestRank(count(), share);
  auto at = buckets_.begin();
  while (left >= at->count && at + 1 != buckets_.end()) left -= (at++)->count;
  const int64_t first = FirstOf(at->number);
  return first + (at->number < 128 ? 0 : (int64_t{1} << (at->number / 64 - 1)) / 2);
}

void TimeSum::Add(int64_t duration_ps, uint64_t times) {
  if (times == 0) return;
  count = fleet::Sum(count, times);
  total_ps = fleet::Sum(total_ps, Int128{std::max<int64_t>(duration_ps, 0)} * times);
  min_ps = std::min(min_ps.value_or(duration_ps), duration_ps);
  max_ps = std::max(max_ps.value_or(duration_ps), duration_ps);
  durations.Add(DurationHistogram::NumberOf(duration_ps), times);
}

void TimeSum::Merge(const TimeSum& other) {
  count = fleet::Sum(count, other.count);
  total_ps = fleet::Sum(total_ps, other.total_ps);
  if (other.min_ps.has_value()) min_ps = std::min(min_ps.value_or(*other.min_ps), *other.min_ps);
  if (other.max_ps.has_value()) max_ps = std::max(max_ps.value_or(*other.max_ps), *other.max_ps);
  durations.Merge(other.durations);
}

std::optional<double> TimeSum::MeanPs() const {
  if (count == 0) return std::nullopt;
  return static_cast<double>(total_ps) / static_cast<double>(count);
}

std::optional<int64_t> TimeSum::QuantilePs(double share) const {
  const std::optional<int64_t> middle_ps = durations.QuantilePs(share);
  if (!middle_ps.has_value() || !min_ps.has_value() || !max_ps.has_value()) return middle_ps;
  return std::clamp(*middle_ps, *min_ps, *max_ps);
}

constexpr std::string_view kByNothing = "none";
constexpr std::string_view kByValues = "host, device, host,device or none";

absl::StatusOr<FleetBy> ParseFleetBy(std::string_view text) {
  FleetBy by = {.host = false, .device = false};
  if (text == kByNothing) return by;
  if (text.empty()) return InvalidArgument("expected ", kByValues);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    bool* const part = word == "host" ? &by.host : word == "device" ? &by.device : nullptr;
    if (part == nullptr) {
      return InvalidArgument("'", word, "' is unknown; expected ", kByValues);
    }
    *part = true;
  }
  return by;
}

std::string FleetByName(const FleetBy& by) {
  if (!by.host && !by.device) return std::string(kByNothing);
  return std::string(by.host ? "host" : "") + (by.host && by.device ? "," : "") +
         (by.device ? "device" : "");
}

std::string fleet::OptionsText(const std::map<std::string, std::string>& options) {
  if (options.empty()) return "none";
  return absl::StrJoin(options, ", ", absl::PairFormatter("="));
}

namespace fleet {

// Rows of one kind by key; their names have the ids of the merger.
template <typename Row>
class RowSet {
 public:
  void Add(Row row) {
    const auto [found, is_new] = places_.try_emplace(fleet::KeyOf(row), rows_.size());
    if (is_new) {
      rows_.push_back(std::move(row));
    } else {
      fleet::MergeInto(&rows_[found->second], row);
    }
  }
  // Converts the names to other ids and sorts the rows.
  std::vector<Row> Take(const std::vector<NameId>& ids) {
    for (Row& row : rows_) {
      fleet::ForEachName(&row, [&](NameId* id) { *id = ids[*id]; });
      if constexpr (requires { row.centres_ps; }) {
        for (CaptureCentres* centres : {&row.centres_ps, &row.own.own_ps, &row.own.busy_ps}) {
          std::ranges::sort(*centres);
        }
      }
    }
    std::ranges::sort(rows_, {}, [](const Row& row) { return fleet::KeyOf(row); });
    return std::move(rows_);
  }
  std::vector<Row>& rows() { return rows_; }

 private:
  using Key = decltype(fleet::KeyOf(std::declval<const Row&>()));
  absl::flat_hash_map<Key, size_t> places_;
  std::vector<Row> rows_;
};

}  // namespace fleet

class FleetMerger::Rows {
 public:
  explicit Rows(const FleetBy& by) { sums.by = by; }

  // Adds rows of another summary. `ids_here` maps the ids of its names to ids of this one.
  template <typename Row>
  void AddAll(const std::vector<Row>& from, const std::vector<NameId>& ids_here,
              fleet::RowSet<Row>* to) const {
    for (Row row : from) {
      fleet::ForEachName(&row, [&](NameId* id) { *id = ids_here[*id]; });
      if (!sums.by.host) row.host = 0;
      if (!sums.by.device) row.device = 0;
      to->Add(std::move(row));
    }
  }

  FleetSummary sums;  // everything except the rows
  bool any = false;
  std::string first;  // path of the first capture
  fleet::NameTable names{&sums.names};
  fleet::RowSet<FleetDevice> devices;
  fleet::RowSet<FleetFunction> functions;
  fleet::RowSet<FleetKernel> kernels;
  fleet::RowSet<FleetSteps> steps;
  fleet::RowSet<FleetCollective> collectives;
  fleet::RowSet<FleetMeetings> meetings;
};

FleetMerger::FleetMerger(const FleetBy& by) : rows_(std::make_unique<Rows>(by)) {}
FleetMerger::~FleetMerger() = default;
FleetMerger::FleetMerger(FleetMerger&&) noexcept = default;
FleetMerger& FleetMerger::operator=(FleetMerger&&) noexcept = default;

absl::Status FleetMerger::Add(const FleetSummary& summary) {
  FleetSummary& sums = rows_->sums;
  if ((sums.by.host && !summary.by.host) || (sums.by.device && !summary.by.device)) {
    return FailedPrecondition("its rows are separated only by '", FleetByName(summary.by),
                              "', not by '", FleetByName(sums.by),
                              "'; merge with --by, or summarize the traces again");
  }
  // A summary that only has unreadable files contains no measurements.
  if (!summary.captures.empty()) {
    if (rows_->any && summary.options != sums.options) {
      return FailedPrecondition("was summarized with other options than ", rows_->first, ": ",
                                fleet::OptionsText(summary.options), " instead of ",
                                fleet::OptionsText(sums.options), "; summarize one of them again");
    }
    if (!std::exchange(rows_->any, true)) {
      sums.options = summary.options;
      rows_->first = summary.captures[0].path;
    }
  }
  for (const FleetCapture& each : summary.captures) sums.captures.push_back(each);
  for (const FleetFailure& each : summary.failures) sums.failures.push_back(each);
  for (const auto& [code, count] : summary.diagnostics) {
    uint64_t& sum = sums.diagnostics[code];
    sum = fleet::Sum(sum, count);
  }
  std::vector<NameId> ids;
  ids.reserve(summary.names.size());
  for (const std::string& name : summary.names) ids.push_back(rows_->names.IdOf(name));
  rows_->AddAll(summary.devices, ids, &rows_->devices);
  rows_->AddAll(summary.functions, ids, &rows_->functions);
  rows_->AddAll(summary.kernels, ids, &rows_->kernels);
  rows_->AddAll(summary.steps, ids, &rows_->steps);
  rows_->AddAll(summary.collectives, ids, &rows_->collectives);
  if (sums.by.host && sums.by.device) rows_->AddAll(summary.meetings, ids, &rows_->meetings);
  return absl::OkStatus();
}

void FleetMerger::AddFailure(FleetFailure failure) {
  rows_->sums.failures.push_back(std::move(failure));
}

FleetSummary FleetMerger::Take() {
  Rows& rows = *rows_;
  FleetSummary sums = std::move(rows.sums);
  std::ranges::sort(sums.captures);
  std::ranges::sort(sums.failures);
  // Drop names that no row uses any more.
  std::vector<bool> is_used(sums.names.size());
  std::vector<NameId> order, ids(sums.names.size());
  const auto use = [&](auto* set) {
    for (auto& row : set->rows()) {
      fleet::ForEachName(&row, [&](const NameId* id) { is_used[*id] = true; });
    }
  };
  is_used[0] = true;
  use(&rows.devices), use(&rows.functions), use(&rows.kernels), use(&rows.steps);
  use(&rows.collectives), use(&rows.meetings);
  for (NameId id = 0; id < sums.names.size(); ++id) {
    if (is_used[id]) order.push_back(id);
  }
  std::ranges::sort(order, {}, [&](NameId id) -> const std::string& { return sums.names[id]; });
  std::vector<std::string> names;
  for (const NameId id : order) {
    ids[id] = static_cast<NameId>(names.size());
    names.push_back(std::move(sums.names[id]));
  }
  sums.names = std::move(names);
  sums.devices = rows.devices.Take(ids);
  sums.functions = rows.functions.Take(ids);
  sums.kernels = rows.kernels.Take(ids);
  sums.steps = rows.steps.Take(ids);
  sums.collectives = rows.collectives.Take(ids);
  sums.meetings = rows.meetings.Take(ids);
  *this = FleetMerger(sums.by);
  return sums;
}

}  // namespace xplane_time
