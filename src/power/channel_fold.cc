#include "power/channel_fold.h"

#include <algorithm>

#include "stats/order_statistics.h"

namespace xplane_time::power {
namespace {

// Periods are below (13 days), and powers below a gigawatt, so that no sum overflows.
constexpr int64_t kLongestPeriodNs = int64_t{1} << 50;
constexpr int64_t kMostMw = 1'000'000'000'000;

// Times between neighbours; `changes`: between readings that differ from the one before.
std::vector<int64_t> Spacings(const std::vector<Sample>& samples, bool changes) {
  std::vector<int64_t> spacings;
  std::optional<int64_t> last_ns;
  std::optional<int64_t> before;
  for (const Sample& sample : samples) {
    if (sample.reason != PowerReason::kKnown) continue;
    const bool counts = !changes || (before.has_value() && sample.value != *before);
    before = sample.value;
    if (!counts) continue;
    if (last_ns.has_value()) spacings.push_back(sample.t_ns - *last_ns);
    last_ns = sample.t_ns;
  }
  return spacings;
}

bool HasEnergy(const PowerChannel& channel) {
  if (channel.kind == ReadingKind::kCumulative) return channel.quantity == "energy_uj";
  return channel.quantity == "power_mw" && channel.kind != ReadingKind::kGauge;
}

}  // namespace

void ReadingFold::Readings::Merge(const Readings& later) {
  unknown += later.unknown;
  if (later.reason != PowerReason::kKnown) reason = later.reason;
  longest_gap_ns = std::max(longest_gap_ns, later.longest_gap_ns);
  twice_trapezoid += later.twice_trapezoid;
  if (later.n == 0) return;
  if (n == 0) {
    first = later.first;
    min = later.min;
    max = later.max;
  }
  n += later.n;
  sum += later.sum;
  last = later.last;
  min = std::min(min, later.min);
  max = std::max(max, later.max);
  counts.Merge(later.counts);
}

void ReadingFold::Add(const Sample& sample) {
  // A reading at the time of an edge is in the window.
  while (next_edge_ < edges_.size() &&
         (edges_[next_edge_].t_ns < sample.t_ns ||
          (edges_[next_edge_].t_ns == sample.t_ns && !edges_[next_edge_].end))) {
    Meet(edges_[next_edge_++]);
  }
  Readings& now = buckets_.Now();
  if (sample.reason != PowerReason::kKnown) {
    ++now.unknown;
    now.reason = sample.reason;
    return;
  }
  if (now.n++ == 0) {
    now.first = sample;
    now.min = now.max = sample.value;
  }
  now.last = sample;
  now.sum += sample.value;
  now.min = std::min(now.min, sample.value);
  now.max = std::max(now.max, sample.value);
  if (with_median_) now.counts.Add(sample.value);
  if (last_.has_value()) {
    Readings& both = buckets_.Since(last_->t_ns);
    const int64_t spacing_ns = sample.t_ns - last_->t_ns;
    both.longest_gap_ns = std::max(both.longest_gap_ns, spacing_ns);
    if (with_median_) {
      both.twice_trapezoid += (absl::int128(last_->value) + sample.value) * spacing_ns;
    }
  }
  last_ = sample;
}

void ReadingFold::Finish() {
  while (next_edge_ < edges_.size()) Meet(edges_[next_edge_++]);
}

void ReadingFold::Meet(const WindowEdge& edge) {
  if (edge.window >= begins_.size()) {
    begins_.resize(edge.window + 1);
    parts_.resize(edge.window + 1);
  }
  if (!edge.end) {
    begins_[edge.window] = edge.t_ns;
    return buckets_.Begin(edge.window, edge.t_ns);
  }
  const std::optional<Readings> all = buckets_.End(edge.window);
  if (!all.has_value()) return;
  ReadingPart& part = parts_[edge.window];
  part.n = all->n;
  part.unknown = all->unknown;
  part.reason = all->reason;
  part.longest_gap_ns = edge.t_ns - begins_[edge.window];
  if (all->n == 0) return;
  part.longest_gap_ns = std::max(
      {all->longest_gap_ns, all->first.t_ns - begins_[edge.window], edge.t_ns - all->last.t_ns});
  part.sum = static_cast<double>(all->sum);
  part.min = all->min;
  part.max = all->max;
  part.first_ns = all->first.t_ns;
  part.last_ns = all->last.t_ns;
  part.first = all->first.value;
  part.last = all->last.value;
  part.trapezoid = static_cast<double>(all->twice_trapezoid) / 2;
  part.median = all->counts.Median();
}

Rhythm RhythmOf(const PowerChannel& channel, const std::vector<Sample>& first,
                int64_t expected_ns) {
  Rhythm rhythm;
  std::vector<int64_t> spacings = Spacings(first, /*changes=*/false);
  if (spacings.size() >= kRhythmSpacings || (expected_ns == 0 && !spacings.empty())) {
    rhythm.period_ns = stats::LowerMedian(spacings);
  } else {
    rhythm.period_ns = expected_ns;
  }
  rhythm.period_ns = std::clamp<int64_t>(rhythm.period_ns, 1, kLongestPeriodNs);
  rhythm.update_ns = channel.prior_period_ns.value_or(rhythm.period_ns);
  if (channel.kind == ReadingKind::kCumulative) {
    std::vector<int64_t> changes = Spacings(first, /*changes=*/true);
    if (changes.size() >= kRhythmSpacings) rhythm.update_ns = stats::LowerMedian(changes);
  } else if (channel.kind == ReadingKind::kAverage) {
    rhythm.update_ns = std::max(rhythm.update_ns, channel.prior_window_ns.value_or(0));
  }
  rhythm.update_ns = std::clamp<int64_t>(rhythm.update_ns, 1, kLongestPeriodNs);
  return rhythm;
}

ChannelFold::ChannelFold(const PowerChannel& channel, int64_t expected_period_ns,
                         const WindowEdges* edges, const std::vector<Suspension>* suspensions,
                         PieceSink* pieces)
    : channel_(channel),
      expected_period_ns_(expected_period_ns),
      edges_(edges),
      suspensions_(suspensions),
      pieces_(pieces),
      has_energy_(HasEnergy(channel)),
      max_plausible_mw_(
          std::clamp<int64_t>(channel.max_plausible_mw.value_or(kMostPlausibleMw), 0, kMostMw)),
      readings_(edges, channel.kind != ReadingKind::kCumulative) {}

void ChannelFold::Add(const Sample& sample) {
  if (!has_energy_) return readings_.Add(sample);
  const bool known = sample.reason == PowerReason::kKnown;
  const bool power = channel_.kind != ReadingKind::kCumulative;
  const bool implausible = known && power && (sample.value < 0 || sample.value > max_plausible_mw_);
  readings_.Add(implausible ? Sample{sample.t_ns, 0, PowerReason::kImplausible} : sample);
  if (energy_ != nullptr) return AddEnergy(sample);
  // Of failures one after the other the first one, so that they cannot fill it.
  const auto failed_alike = [&] { return first_.back().reason == sample.reason; };
  if (!known && (first_.empty() || failed_alike())) return;
  first_.push_back(sample);
  if (first_.size() == kFirst) BeginEnergy();
}

void ChannelFold::AddEnergy(const Sample& sample) {
  if (sample.reason == PowerReason::kKnown) {
    return energy_->Add(sample.t_ns, sample.value, sample.doubt_ns);
  }
  energy_->Fail(sample.t_ns, sample.reason == PowerReason::kReset);
}

void ChannelFold::BeginEnergy() {
  rhythm_ = RhythmOf(channel_, first_, expected_period_ns_);
  EnergyRules rules;
  rules.counter = channel_.kind == ReadingKind::kCumulative;
  rules.period_ns = rhythm_.period_ns;
  rules.update_ns = rhythm_.update_ns;
  rules.wrap_range = channel_.wrap_range;
  rules.max_plausible_mw = max_plausible_mw_;
  energy_ = std::make_unique<EnergyFold>(rules, edges_, suspensions_, pieces_);
  for (const Sample& sample : first_) AddEnergy(sample);
  first_ = {};
}

void ChannelFold::Finish() {
  readings_.Finish();
  if (!has_energy_) return;
  if (energy_ == nullptr) BeginEnergy();
  energy_->Finish();
}

EnergyPart ChannelFold::EnergyOf(uint32_t window) const {
  return energy_ == nullptr ? EnergyPart() : energy_->Of(window);
}

}  // namespace xplane_time::power
