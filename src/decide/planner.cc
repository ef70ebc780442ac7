#include "decide/planner.h"

#include <algorithm>
#include <cmath>

#include "decide/judge.h"

namespace xplane_time::decide {
namespace {

using Rounds = std::vector<std::vector<uint32_t>>;

constexpr uint64_t kPlanStream = 1;

// Chunks of nearly the same size, in the order given, each with the common ones; shuffled.
Rounds Blocks(const std::vector<uint32_t>& variants, const std::vector<uint32_t>& common,
              Random& random) {
  const size_t room = kBlockRuns - common.size();
  const size_t count = (variants.size() + room - 1) / room;
  Rounds blocks(count, common);
  for (size_t i = 0; i < variants.size(); ++i) {
    blocks[i * count / variants.size()].push_back(variants[i]);
  }
  for (auto& block : blocks) random.Shuffle(block);
  return blocks;
}

}  // namespace

std::vector<uint32_t> WilliamsRow(uint32_t k, uint64_t row) {
  const uint64_t rows = k % 2 == 0 ? k : 2 * uint64_t{k};
  const uint32_t shift = static_cast<uint32_t>(row % rows) % k;
  std::vector<uint32_t> order(k);
  for (uint32_t position = 0; position < k; ++position) {
    const uint32_t zigzag = position % 2 == 1 ? (position + 1) / 2 : (k - position / 2) % k;
    order[position] = (zigzag + shift) % k;
  }
  if (row % rows >= k) std::reverse(order.begin(), order.end());
  return order;
}

Planner::Plan Planner::Next(uint64_t batch) {
  Plan plan;
  if (IsThrottled()) {
    plan.stop_reason = "throttled";
    return plan;
  }
  if (NotWorthIt()) {
    plan.stop_reason = kNotWorthIt;
    return plan;
  }
  Random random = stats::RandomFor(config_.seed, kPlanStream, batch);
  plan.rounds = Wanted(random);
  AddCanaries(plan.rounds, random);
  plan.stop_reason = CutToBudget(plan.rounds);
  return plan;
}

Rounds Planner::Wanted(Random& random) {
  constexpr size_t kKnown = 2;
  std::vector<uint32_t> alive = race_.alive();
  if (!race_.leader()) return FirstPass(std::move(alive), random);
  if (alive.size() <= kBlockRuns) return BalancedRounds(alive, RoundsForBatch(alive), random);
  std::vector<uint32_t> hardly_measured, others;
  for (const uint32_t v : alive) {
    if (v == *race_.leader()) continue;
    others.push_back(v);
    if (observations_.cells(v).size() < kKnown) hardly_measured.push_back(v);
  }
  if (!hardly_measured.empty()) return SecondPass(std::move(hardly_measured), random);
  random.Shuffle(others);
  return Blocks(others, {*race_.leader()}, random);
}

Rounds Planner::FirstPass(std::vector<uint32_t> alive, Random& random) {
  if (alive.size() <= kBlockRuns) {
    // Nothing can be decided with fewer.
    const size_t rounds = alive.size() == 1 ? 1 : alive.size() == 2 ? 4 : alive.size() == 3 ? 3 : 2;
    return BalancedRounds(alive, rounds, random);
  }
  random.Shuffle(alive);
  if (!config_.incumbent || race_.standing(*config_.incumbent).out) {
    return Blocks(alive, {}, random);
  }
  // The incumbent is the leader until one is known.
  std::erase(alive, *config_.incumbent);
  return Blocks(alive, {*config_.incumbent}, random);
}

// Who looks best comes first: by the time the others are measured again, most of them can go
// with one look, some without another run.
Rounds Planner::SecondPass(std::vector<uint32_t> hardly_measured, Random& random) const {
  constexpr size_t kPartAtOnce = 4;
  const uint32_t leader = *race_.leader();
  std::vector<std::pair<double, uint32_t>> ranked;
  for (const uint32_t v : hardly_measured) {
    const bool is_new = observations_.cells(v).empty();
    ranked.emplace_back(is_new ? -INFINITY : race_.comparer().Level(v), v);
  }
  std::sort(ranked.begin(), ranked.end());
  for (size_t i = 0; i < ranked.size(); ++i) hardly_measured[i] = ranked[i].second;

  if (observations_.cells(leader).size() < 2) {
    hardly_measured.resize(std::min<size_t>(hardly_measured.size(), kBlockRuns - 1));
    return Blocks(hardly_measured, {leader}, random);
  }
  Rounds blocks = Blocks(hardly_measured, CloseToLeader(), random);
  blocks.resize(std::max<size_t>(1, blocks.size() / kPartAtOnce));
  return blocks;
}

std::vector<uint32_t> Planner::CloseToLeader() const {
  constexpr double kClose = 2.5;  // standard errors
  constexpr size_t kMost = 10;
  const uint32_t leader = *race_.leader();
  std::vector<std::pair<double, uint32_t>> close;
  for (const uint32_t v : race_.alive()) {
    if (v == leader || observations_.cells(v).size() < 2) continue;
    const Comparison comparison = race_.comparer().Compare(v, leader);
    if (comparison.usable && comparison.centre > kClose * comparison.se) continue;
    close.emplace_back(comparison.centre, v);
  }
  std::sort(close.begin(), close.end());
  std::vector<uint32_t> result = {leader};
  for (size_t i = 0; i < close.size() && result.size() < kMost; ++i) {
    result.push_back(close[i].second);
  }
  return result;
}

size_t Planner::RoundsForBatch(const std::vector<uint32_t>& alive) const {
  constexpr size_t kGrowth = 10;
  size_t rounds = SIZE_MAX;
  for (const uint32_t v : alive) {
    if (v == *race_.leader()) continue;
    rounds = std::min(rounds, race_.comparer().Ratios(v, *race_.leader()).size());
  }
  if (rounds == SIZE_MAX) rounds = 0;
  const size_t wanted = std::max<size_t>(1, rounds / kGrowth);
  // Both orders of a pair.
  return alive.size() == 2 ? std::max<size_t>(2, wanted / 2 * 2) : wanted;
}

Rounds Planner::BalancedRounds(const std::vector<uint32_t>& alive, size_t count, Random& random) {
  if (alive != ordered_) {
    ordered_ = permuted_ = alive;
    random.Shuffle(permuted_);
    row_ = 0;
  }
  Rounds rounds(count);
  for (auto& round : rounds) {
    for (const uint32_t position : WilliamsRow(static_cast<uint32_t>(alive.size()), row_)) {
      round.push_back(permuted_[position]);
    }
    ++row_;
  }
  return rounds;
}

void Planner::AddCanaries(Rounds& rounds, Random& random) const {
  if (config_.canary == 0 || !race_.leader()) return;
  const size_t folded = observations_.rounds().size();
  for (size_t i = 0; i < rounds.size(); ++i) {
    auto& round = rounds[i];
    if ((folded + i + 1) % config_.canary != 0 || round.size() < 2) continue;
    if (std::find(round.begin(), round.end(), *race_.leader()) == round.end()) continue;
    const uint64_t at = random.Below(round.size() + 1);
    round.insert(round.begin() + static_cast<std::ptrdiff_t>(at), *race_.leader());
  }
}

int64_t Planner::RunsLeft() const {
  return std::min(config_.budget_runs.value_or(kMaxRuns), kMaxRuns) - observations_.runs();
}

double Planner::ExpectedPs(const std::vector<uint32_t>& round) const {
  double sum_ps = 0;
  for (const uint32_t v : round) {
    const VariantRecord& record = observations_.record(v);
    if (record.cells.empty()) continue;
    sum_ps += std::exp(record.log_time_sum / static_cast<double>(record.cells.size()));
  }
  return sum_ps;
}

// Leaves what fits; says why where nothing does.
std::string Planner::CutToBudget(Rounds& rounds) const {
  int64_t runs_left = RunsLeft();
  double ps_left = INFINITY;
  if (config_.budget_time_ps) {
    ps_left = static_cast<double>(*config_.budget_time_ps) - observations_.time_ps();
  }
  size_t fit = 0;
  for (; fit < rounds.size(); ++fit) {
    const int64_t runs = static_cast<int64_t>(rounds[fit].size());
    const double expected_ps = ExpectedPs(rounds[fit]);
    if (ps_left <= 0 || expected_ps > ps_left) {
      rounds.resize(fit);
      return fit > 0 ? "" : "budget_time";
    }
    if (runs > runs_left) break;
    runs_left -= runs;
    ps_left -= expected_ps;
  }
  if (fit == rounds.size()) return "";
  const std::vector<uint32_t> cut = CutRound(rounds[fit], runs_left);
  rounds.resize(fit);
  if (!cut.empty()) rounds.push_back(cut);
  return rounds.empty() ? "budget_runs" : "";
}

// Before there is a leader any part of a round is of use, later only the leader with others.
std::vector<uint32_t> Planner::CutRound(const std::vector<uint32_t>& round, int64_t runs) const {
  const auto leader = race_.leader();
  if (runs < (leader ? 2 : 1)) return {};
  std::vector<std::pair<double, uint32_t>> ranked;
  for (const uint32_t v : round) {
    if (leader == v) continue;
    const bool is_known = leader && !observations_.cells(v).empty();
    ranked.emplace_back(is_known ? race_.comparer().Level(v) : 0, v);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(runs - (leader ? 1 : 0))));
  std::vector<uint32_t> cut;
  for (const uint32_t v : round) {
    const bool stays =
        (leader == v && std::find(cut.begin(), cut.end(), v) == cut.end()) ||
        std::any_of(ranked.begin(), ranked.end(), [v](const auto& r) { return r.second == v; });
    if (stays) cut.push_back(v);
  }
  return leader && cut.size() < 2 ? std::vector<uint32_t>() : cut;
}

// The pick is certified, and what is left of the budget would prove neither a winner nor a tie.
bool Planner::NotWorthIt() const {
  constexpr double kTie = 2.9, kWinner = 3.5;  // standard errors that a proof takes, roughly
  if (!config_.budget_runs || !race_.leader() || config_.stop == Stop::kPick) return false;
  if (config_.objective == Objective::kPareto) return false;
  std::vector<uint32_t> rivals = race_.alive();
  const double rounds_left = static_cast<double>(RunsLeft()) / static_cast<double>(rivals.size());
  std::erase(rivals, *race_.leader());
  const double needed = static_cast<double>(rivals.size()) / config_.alpha;
  bool is_hopeless = false;
  for (const uint32_t v : rivals) {
    const Comparison rival = race_.comparer().Compare(v, *race_.leader());
    if (rival.screening) return false;
    if (Evidence(rival, {-race_.delta(), 2 * race_.delta()}) < needed) return false;
    const double se = rival.sd / std::sqrt(rival.kept + rounds_left);
    is_hopeless |= kTie * se > race_.delta() && rival.centre + rival.se < kWinner * se;
  }
  return is_hopeless;
}

bool Planner::IsThrottled() const {
  constexpr uint64_t kTolerated = 10;
  return observations_.discarded() > kTolerated &&
         2 * observations_.discarded() > observations_.rounds().size();
}

}  // namespace xplane_time::decide
