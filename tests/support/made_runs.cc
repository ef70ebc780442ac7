#include "tests/support/made_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace xplane_time::gpu_runs {
namespace {

constexpr int64_t kUs = 1'000'000;

class Maker {
 public:
  Maker(const RunWorld& world, std::mt19937* random) : world_(world), random_(*random) {}

  MadeRuns Make() {
    streams_ = Between(1, world_.most_streams);
    free_ps_.assign(static_cast<size_t>(streams_), 0);
    const int runs = Between(1, 7);
    MakeContent();
    for (int run = 0; run < runs; ++run) Launch(static_cast<uint32_t>(run));
    return Observe();
  }

 private:
  struct Kernel {
    uint32_t symbol, run;
    int64_t start_ps, end_ps;
    size_t launch;
    bool lost;
  };

  int Between(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }
  // A time from a tenth to ten times the middle.
  int64_t About(double middle_ps) {
    return static_cast<int64_t>(middle_ps *
                                std::pow(10, std::uniform_real_distribution(-1.0, 1.0)(random_)));
  }

  void MakeContent() {
    const int ops = Between(1, 8);
    for (int op = 0; op < ops; ++op) {
      content_.push_back(static_cast<uint32_t>(2 * op));
      if (Chance(0.3)) content_.push_back(static_cast<uint32_t>(2 * op + 1));
    }
    loop_begin_ = static_cast<size_t>(Between(0, static_cast<int>(content_.size()) - 1));
    loop_end_ = static_cast<size_t>(
        Between(static_cast<int>(loop_begin_) + 1, static_cast<int>(content_.size())));
    if (world_.loops == Loops::kWholeBody) {
      loop_begin_ = 0;
      loop_end_ = content_.size();
    }
    rounds_ = Between(2, 4);
  }

  std::vector<uint32_t> ContentOfRun() {
    if (world_.loops == Loops::kNone) return content_;
    const auto at = [&](size_t i) { return content_.begin() + static_cast<ptrdiff_t>(i); };
    std::vector<uint32_t> kernels(content_.begin(), at(loop_begin_));
    const int rounds = world_.loops == Loops::kVarying ? Between(1, 4) : rounds_;
    for (int i = 0; i < rounds; ++i) kernels.insert(kernels.end(), at(loop_begin_), at(loop_end_));
    kernels.insert(kernels.end(), at(loop_end_), content_.end());
    return kernels;
  }

  void Launch(uint32_t run) {
    int64_t from_ps = run == 0 ? 0 : About(8 * kUs);
    if (run > 0 && world_.runs_overlap && Chance(0.5)) {
      from_ps = 0;  // directly after the previous run, on each stream
    } else {
      from_ps += *std::max_element(free_ps_.begin(), free_ps_.end());
    }
    bool first = true;
    for (uint32_t symbol : ContentOfRun()) {
      int64_t& free_ps = free_ps_[static_cast<size_t>(Between(0, streams_ - 1))];
      int64_t start_ps = std::max(free_ps, from_ps) + (Chance(0.3) ? Between(0, 1'000'000) : 0);
      // Other streams start only a little before kernels that were launched earlier.
      start_ps = std::max(start_ps, last_start_ps_ - (streams_ > 1 ? Between(0, 3) * kUs : 0));
      start_ps = std::max(start_ps, free_ps);
      const bool is_round = !first && symbol == content_[loop_begin_];
      if (world_.rounds_wait && is_round) start_ps += Between(3, 12) * kUs;
      first = false;
      const int64_t duration_ps = Chance(0.2) ? Between(0, 1) : About(2 * kUs);
      free_ps = start_ps + duration_ps;
      last_start_ps_ = start_ps;
      kernels_.push_back({symbol, run, start_ps, free_ps, kernels_.size(), Chance(world_.lost)});
    }
  }

  MadeRuns Observe() {
    std::stable_sort(kernels_.begin(), kernels_.end(), [](const Kernel& a, const Kernel& b) {
      const auto length = [](const Kernel& k) { return k.end_ps - k.start_ps; };
      return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : length(a) > length(b);
    });
    MadeRuns made;
    made.host_counts = world_.host_counts;
    std::vector<Kernel> seen;
    int64_t end_ps = 0, idle_ps = 0;  // idle time since the last recorded kernel
    for (const Kernel& kernel : kernels_) {
      idle_ps += std::max<int64_t>(0, kernel.start_ps - end_ps);
      end_ps = std::max(end_ps, kernel.end_ps);
      if (kernel.lost) continue;
      seen.push_back(kernel);
      made.idle_ps.push_back(seen.size() == 1 ? 0 : idle_ps);
      idle_ps = 0;
    }
    if (world_.launches_known) {
      std::sort(seen.begin(), seen.end(),
                [](const Kernel& a, const Kernel& b) { return a.launch < b.launch; });
    }
    std::vector<uint32_t> number(7, ~0u);
    for (const Kernel& kernel : seen) {
      if (number[kernel.run] == ~0u) number[kernel.run] = static_cast<uint32_t>(made.runs++);
      made.symbols.push_back(kernel.symbol);
      made.run.push_back(number[kernel.run]);
    }
    return made;
  }

  const RunWorld& world_;
  std::mt19937& random_;
  int streams_ = 1, rounds_ = 2;
  size_t loop_begin_ = 0, loop_end_ = 0;
  std::vector<uint32_t> content_;
  std::vector<int64_t> free_ps_;  // by stream
  int64_t last_start_ps_ = 0;
  std::vector<Kernel> kernels_;
};

}  // namespace

MadeRuns MakeRuns(const RunWorld& world, std::mt19937* random) {
  return Maker(world, random).Make();
}

}  // namespace xplane_time::gpu_runs
