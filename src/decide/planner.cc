// Plans the next batch (race.h has the table of cases).
//
//   no leader, <= 20 alive     1 to 4 rounds of all, in balanced order
//   no leader, more            all once, in blocks of 20 runs with the incumbent
//   leader, <= 20 alive        rounds of all, a tenth of the common rounds so far
//   leader, more               blocks of variants with fewer than two samples, best first, with the
//                              leader and up to nine close rivals; a quarter of them per batch
//   leader, all measured       all in blocks with the leader
//
// Then AddCanaries() doubles the leader in every N-th round, and CutToBudget() drops rounds beyond
// the budget. The plan depends only on the race and the batch number.
#include <algorithm>
#include <cmath>

#include "decide/race.h"
#include "stats/random.h"

namespace xplane_time::decide {
namespace {

using stats::Random;
using Rounds = std::vector<std::vector<uint32_t>>;

constexpr uint64_t kPlanStream = 1;

// Splits variants, in order, into blocks of nearly equal size. Each block gets the common variants
// and is shuffled.
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

struct Planner {
  const Race& race;
  BalancedOrder* order;

  RacePlan Next(uint64_t batch) const {
    if (IsThrottled()) return {{}, "throttled"};
    if (NotWorthIt()) return {{}, std::string(kNotWorthIt)};
    Random random = stats::RandomFor(race.config.seed, kPlanStream, batch);
    Rounds rounds = Wanted(random);
    AddCanaries(rounds, random);
    std::string stop_reason = CutToBudget(rounds);
    return {std::move(rounds), std::move(stop_reason)};
  }

  Rounds Wanted(Random& random) const {
    constexpr size_t kKnown = 2;
    std::vector<uint32_t> alive = race.Alive();
    if (!race.leader) return FirstPass(std::move(alive), random);
    if (alive.size() <= kBlockRuns) return BalancedRounds(alive, RoundsForBatch(alive), random);
    std::vector<uint32_t> hardly_measured, others;
    for (const uint32_t v : alive) {
      if (v == *race.leader) continue;
      others.push_back(v);
      if (race.observations.cells(v).size() < kKnown) hardly_measured.push_back(v);
    }
    if (!hardly_measured.empty()) return SecondPass(std::move(hardly_measured), random);
    random.Shuffle(others);
    return Blocks(others, {*race.leader}, random);
  }

  Rounds FirstPass(std::vector<uint32_t> alive, Random& random) const {
    if (alive.size() <= kBlockRuns) {
      // Fewer rounds cannot decide anything.
      constexpr size_t kRounds[] = {0, 1, 4, 3, 2};
      const size_t count = kRounds[std::min<size_t>(alive.size(), 4)];
      return BalancedRounds(alive, alive.size() > 1 ? AtLeastAtOnce(count) : count, random);
    }
    random.Shuffle(alive);
    if (!race.config.incumbent || race.standings[*race.config.incumbent].out) {
      return Blocks(alive, {}, random);
    }
    // Until a leader is known, the incumbent takes its place.
    std::erase(alive, *race.config.incumbent);
    return Blocks(alive, {*race.config.incumbent}, random);
  }

  // The most promising variants come first. By the time the others are measured again, most of them
  // can be dropped after one look, and some without another run.
  Rounds SecondPass(std::vector<uint32_t> hardly_measured, Random& random) const {
    constexpr size_t kPartAtOnce = 4;
    const uint32_t leader = *race.leader;
    const auto rank = [this](uint32_t v) {
      const bool is_new = race.observations.cells(v).empty();
      return std::pair(is_new ? -INFINITY : race.comparer.Level(v), v);
    };
    std::ranges::sort(hardly_measured, {}, rank);
    if (race.observations.cells(leader).size() < 2) {
      hardly_measured.resize(std::min<size_t>(hardly_measured.size(), kBlockRuns - 1));
      return Blocks(hardly_measured, {leader}, random);
    }
    Rounds blocks = Blocks(hardly_measured, CloseToLeader(), random);
    blocks.resize(std::max<size_t>(1, blocks.size() / kPartAtOnce));
    return blocks;
  }

  std::vector<uint32_t> CloseToLeader() const {
    constexpr double kClose = 2.5;  // in standard errors
    constexpr size_t kMost = 10;
    const uint32_t leader = *race.leader;
    std::vector<std::pair<double, uint32_t>> close;
    for (const uint32_t v : race.Alive()) {
      if (v == leader || race.observations.cells(v).size() < 2) continue;
      const Comparison comparison = race.comparer.Compare(v, leader);
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

  size_t RoundsForBatch(const std::vector<uint32_t>& alive) const {
    constexpr size_t kGrowth = 10;
    size_t rounds = SIZE_MAX;
    for (const uint32_t v : alive) {
      if (v == *race.leader) continue;
      rounds = std::min(rounds, race.comparer.Ratios(v, *race.leader).size());
    }
    if (rounds == SIZE_MAX) rounds = 0;
    const size_t wanted = AtLeastAtOnce(std::max<size_t>(1, rounds / kGrowth));
    // A pair needs both orders.
    return alive.size() == 2 ? std::max<size_t>(2, (wanted + (at_once() > 1)) / 2 * 2) : wanted;
  }

  size_t at_once() const { return race.config.rounds_at_once; }
  size_t AtLeastAtOnce(size_t rounds) const { return std::max(rounds, at_once()); }

  Rounds BalancedRounds(const std::vector<uint32_t>& alive, size_t count, Random& random) const {
    if (alive != order->variants) {
      *order = {alive, alive};
      random.Shuffle(order->permuted);
    }
    Rounds rounds(count);
    for (auto& round : rounds) {
      for (const uint32_t at : WilliamsRow(static_cast<uint32_t>(alive.size()), order->row++)) {
        round.push_back(order->permuted[at]);
      }
    }
    return rounds;
  }

  void AddCanaries(Rounds& rounds, Random& random) const {
    if (race.config.canary == 0 || !race.leader) return;
    const size_t folded = race.observations.rounds.size();
    for (size_t i = 0; i < rounds.size(); ++i) {
      auto& round = rounds[i];
      if ((folded + i + 1) % race.config.canary != 0 || round.size() < 2) continue;
      if (!Contains(round, *race.leader)) continue;
      const uint64_t at = random.Below(round.size() + 1);
      round.insert(round.begin() + static_cast<std::ptrdiff_t>(at), *race.leader);
    }
  }

  int64_t RunsLeft() const {
    return std::min(race.config.budget_runs.value_or(kMaxRuns), kMaxRuns) - race.observations.runs;
  }

  double ExpectedPs(const std::vector<uint32_t>& round) const {
    double sum_ps = 0;
    for (const uint32_t v : round) {
      const VariantRecord& record = race.observations.records[v];
      if (record.cells.empty()) continue;
      sum_ps += std::exp(record.log_time_sum / static_cast<double>(record.cells.size()));
    }
    return sum_ps;
  }

  // Keeps the rounds that fit the budget. Returns the stop reason if none fits.
  std::string CutToBudget(Rounds& rounds) const {
    int64_t runs_left = RunsLeft();
    double ps_left = INFINITY;
    if (race.config.budget_time_ps) {
      ps_left = static_cast<double>(*race.config.budget_time_ps) - race.observations.time_ps;
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

  // Before there is a leader, any part of a round is useful. Later, a part needs the leader and
  // others.
  std::vector<uint32_t> CutRound(const std::vector<uint32_t>& round, int64_t runs) const {
    const auto leader = race.leader;
    if (runs < (leader ? 2 : 1)) return {};
    std::vector<uint32_t> rivals = round;
    std::erase_if(rivals, [&](uint32_t v) { return leader == v; });
    std::ranges::stable_sort(rivals, {}, [&](uint32_t v) {
      return leader && !race.observations.cells(v).empty() ? race.comparer.Level(v) : 0;
    });
    rivals.resize(std::min(rivals.size(), static_cast<size_t>(runs - (leader ? 1 : 0))));
    std::vector<uint32_t> cut;
    for (const uint32_t v : round) {
      const bool stays = leader == v ? !Contains(cut, v) : Contains(rivals, v);
      if (stays) cut.push_back(v);
    }
    return leader && cut.size() < 2 ? std::vector<uint32_t>() : cut;
  }

  // Whether the pick is certified, but the remaining budget would prove neither a winner nor a tie.
  bool NotWorthIt() const {
    // approximate number of standard errors that a proof needs
    constexpr double kTie = 2.9, kWinner = 3.5;
    if (!race.config.budget_runs || !race.leader || race.config.stop == Stop::kPick) return false;
    if (race.config.objective == Objective::kPareto) return false;
    std::vector<uint32_t> rivals = race.Alive();
    const double rounds_left = static_cast<double>(RunsLeft()) / static_cast<double>(rivals.size());
    std::erase(rivals, *race.leader);
    const double needed = static_cast<double>(rivals.size()) / race.config.alpha;
    bool is_hopeless = false;
    for (const uint32_t v : rivals) {
      const Comparison rival = race.comparer.Compare(v, *race.leader);
      if (rival.screening) return false;
      if (Evidence(rival, {-race.delta, 2 * race.delta}) < needed) return false;
      const double se = rival.sd / std::sqrt(rival.kept + rounds_left);
      is_hopeless |= kTie * se > race.delta && rival.centre + rival.se < kWinner * se;
    }
    return is_hopeless;
  }

  bool IsThrottled() const {
    constexpr uint64_t kTolerated = 10;
    return race.observations.discarded > kTolerated &&
           2 * race.observations.discarded > race.observations.rounds.size();
  }
};

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

RacePlan PlanBatch(const Race& race, uint64_t batch, BalancedOrder* order) {
  return Planner{race, order}.Next(batch);
}

}  // namespace xplane_time::decide
