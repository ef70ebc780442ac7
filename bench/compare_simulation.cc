// Simulates compare and pick: their rates of false alarms and of detection.
//
//   compare_simulation [REPETITIONS [alarms|power|pick]]     1000 by default; Markdown
//
// The noise of samples is 1 % (log-normal), and 2 % of the samples are spikes of up to 20 %.
// Processes differ by 1 %, with the same offset for all functions ("shared") or an offset for each
// ("own"), or not at all ("none"). Seeded, so the tables are equal on every machine.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stats/distributions.h"
#include "xplane_time/compare.h"
#include "xplane_time/pick.h"

namespace {

using namespace xplane_time;  // NOLINT: a program of one file

class Noise {
 public:
  explicit Noise(uint64_t seed) : engine_(seed) {}
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  double Uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

enum class Offset { kNone, kShared, kOwn };
const char* Name(Offset offset) {
  return offset == Offset::kNone ? "none" : offset == Offset::kShared ? "shared" : "own";
}

struct Setting {
  int functions = 50, samples = 20;
  int base = 10, head = 10;  // captures
  Offset offset = Offset::kOwn;
  double noise = 0.01, offset_std = 0.01;
  double slowdown = 0;     // of the first function in head
  double base_spread = 1;  // factor of the offsets in base
};

constexpr double kSpikeShare = 0.02, kSpike = 0.2;

Measurements Capture(const Setting& setting, bool is_head, Noise* noise) {
  Measurements out;
  out.source = is_head ? "head" : "base";
  const double factor = is_head ? 1 : setting.base_spread;
  const double shared = setting.offset_std * factor * noise->Normal();
  for (int f = 0; f < setting.functions; ++f) {
    Series& series = out.series.emplace_back();
    series.function = absl::StrCat("f", f);
    series.metric = "active";
    double log_time = std::log(1e7 * (f + 1));
    if (setting.offset == Offset::kShared) log_time += shared;
    if (setting.offset == Offset::kOwn) log_time += setting.offset_std * factor * noise->Normal();
    if (is_head && f == 0) log_time += std::log1p(setting.slowdown);
    for (int s = 0; s < setting.samples; ++s) {
      double at = log_time + setting.noise * noise->Normal();
      if (noise->Uniform() < kSpikeShare) at += kSpike * noise->Uniform();
      series.samples.push_back({std::exp(at), s + 1});
    }
  }
  return out;
}

struct Rates {
  int slower = 0, too_little = 0, cannot_tell = 0, none = 0, found = 0, failed = 0;
  double mde = 0;
};

Rates Simulate(const Setting& setting, const CompareOptions& options, int repetitions) {
  Rates rates;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    Noise noise(1000003u * static_cast<uint64_t>(repetition) + 17);
    std::vector<Measurements> base, head;
    for (int i = 0; i < setting.base; ++i) base.push_back(Capture(setting, false, &noise));
    for (int i = 0; i < setting.head; ++i) head.push_back(Capture(setting, true, &noise));
    const auto comparison = Compare(base, head, options);
    if (!comparison.ok()) {
      ++rates.failed;
      continue;
    }
    rates.slower += comparison->outcome == Outcome::kSlower;
    rates.too_little += comparison->outcome == Outcome::kTooLittleData;
    rates.cannot_tell += comparison->outcome == Outcome::kCannotTell;
    rates.none += comparison->outcome == Outcome::kNoRegression;
    for (const ComparedRow& row : comparison->rows) {
      if (row.function != "f0") continue;
      rates.found += row.verdict == FunctionVerdict::kSlower;
      rates.mde += row.mde.value_or(0) / repetitions;
    }
  }
  return rates;
}

// Upper 95 % limit (one-sided) by Clopper and Pearson.
double UpperLimit(int hits, int n) {
  double lo = static_cast<double>(hits) / n, hi = 1;
  for (int i = 0; i < 60; ++i) {
    const double p = (lo + hi) / 2;
    (1 - stats::IncompleteBeta(hits + 1, n - hits, p) > 0.05 ? lo : hi) = p;
  }
  return hi;
}

void FalseAlarms(int repetitions) {
  std::printf("## 50 identical functions\n\n");
  std::printf("| captures | offset | exit 10 | upper 95 %% limit | 12 | 11 | 0 |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  struct Case {
    int base, head;
    double base_spread;
  };
  constexpr Case kCases[] = {{1, 1, 1},   {2, 2, 1},  {3, 3, 1},  {5, 5, 1},  {10, 10, 1},
                             {20, 20, 1}, {10, 2, 1}, {10, 1, 1}, {10, 3, 3}, {3, 10, 3}};
  for (const Case& at : kCases) {
    for (const Offset offset : {Offset::kNone, Offset::kShared, Offset::kOwn}) {
      if (at.base_spread != 1 && offset == Offset::kNone) continue;
      Setting setting;
      setting.base = at.base;
      setting.head = at.head;
      setting.offset = offset;
      setting.base_spread = at.base_spread;
      const Rates rates = Simulate(setting, {}, repetitions);
      std::printf("| %d + %d%s | %s | %d of %d | %.4f | %d | %d | %d |\n", at.base, at.head,
                  at.base_spread == 1 ? "" : ", base varies 3 times as much", Name(offset),
                  rates.slower, repetitions, UpperLimit(rates.slower, repetitions),
                  rates.too_little, rates.cannot_tell, rates.none);
      std::fflush(stdout);
    }
  }
}

void Power(int repetitions) {
  std::printf("\n## One of 50 functions slower: how often it is found (%%)\n\n");
  std::printf("| captures a side | offset |");
  constexpr std::array<double, 7> kEffects = {0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1};
  for (const double effect : kEffects) std::printf(" %.1f %% |", effect * 100);
  std::printf(" mde %% |\n|---|---|");
  for (size_t i = 0; i <= kEffects.size(); ++i) std::printf("---|");
  std::printf("\n");
  for (const int captures : {3, 5, 10, 20}) {
    for (const Offset offset : {Offset::kNone, Offset::kOwn}) {
      std::printf("| %d | %s |", captures, Name(offset));
      double mde = 0;
      for (const double effect : kEffects) {
        Setting setting;
        setting.base = setting.head = captures;
        setting.offset = offset;
        setting.slowdown = effect;
        const Rates rates = Simulate(setting, {}, repetitions);
        mde = rates.mde;
        std::printf(" %.1f |", 100.0 * rates.found / repetitions);
      }
      std::printf(" %.2f |\n", mde * 100);
      std::fflush(stdout);
    }
  }
}

Measurements Rounds(int variants, int rounds, double gap, double noise_std, bool interleaved,
                    Noise* noise) {
  Measurements out;
  out.source = "trace";
  for (int v = 0; v < variants; ++v) {
    Series& series = out.series.emplace_back();
    series.function = absl::StrCat("jit_autotune_fn_", v);
    series.variant_id = absl::StrCat(v);
    series.metric = "active";
  }
  for (int r = 0; r < rounds; ++r) {
    const double drift = 0.02 * noise->Normal();
    for (int v = 0; v < variants; ++v) {
      // If variants run one after another, the drift of a round becomes a drift of a variant.
      const double own = interleaved ? drift : 0.02 * std::sin(0.3 * v);
      double at = std::log(1e7) + std::log1p(gap * v) + own + noise_std * noise->Normal();
      if (noise->Uniform() < kSpikeShare) at += kSpike * noise->Uniform();
      const int64_t start = interleaved ? r * variants + v : v * rounds + r;
      out.series[static_cast<size_t>(v)].samples.push_back({std::exp(at), start + 1});
    }
  }
  return out;
}

void Picks(int repetitions) {
  std::printf("\n## pick: rounds drift by 2 %%, delta 0.5 %%\n\n");
  std::printf("| variants | gap | rounds | noise | wrong claim | winner | pick | tie | open |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|\n");
  for (const int variants : {2, 8, 64}) {
    for (const double gap : {0.0, 0.006, 0.01, 0.05}) {
      for (const int rounds : {5, 20, 100}) {
        for (const double noise_std : {0.01, 0.03}) {
          int wrong = 0, winner = 0, pick = 0, tie = 0, open = 0;
          for (int repetition = 0; repetition < repetitions; ++repetition) {
            Noise noise(777u * static_cast<uint64_t>(repetition) + 5);
            const std::vector<Measurements> captures = {
                Rounds(variants, rounds, gap, noise_std, true, &noise)};
            const auto choice = Pick(captures, {.replicates = 1});
            if (!choice.ok()) std::abort();
            const bool decided = ExitCode(choice->claim) == 0;
            const double regret = gap * std::atoi(choice->pick.c_str());
            // A winner among equal variants costs nothing, but the claim is wrong.
            const bool equals = gap == 0 && choice->claim == Claim::kWinner;
            wrong += decided && (regret > 0.005 || equals);
            winner += choice->claim == Claim::kWinner;
            pick += choice->claim == Claim::kPick;
            tie += choice->claim == Claim::kTie;
            open += !decided;
          }
          std::printf("| %d | %.1f %% | %d | %.0f %% | %d of %d | %d | %d | %d | %d |\n", variants,
                      gap * 100, rounds, noise_std * 100, wrong, repetitions, winner, pick, tie,
                      open);
          std::fflush(stdout);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1000;
  const std::string part = argc > 2 ? argv[2] : "";
  if (part.empty() || part == "alarms") FalseAlarms(repetitions);
  if (part.empty() || part == "power") Power(std::max(1, repetitions / 5));
  if (part.empty() || part == "pick") Picks(std::max(1, repetitions / 2));
  return 0;
}
