#include "read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "timing/execution_stream.h"

namespace xplane_time {
namespace {

enum class Fault : uint8_t { kNone, kError, kThrows };

// So many chunks; what goes wrong in the reading and the preparing of one; where the caller stops.
struct Plan {
  int64_t chunks = 0;
  int64_t read_fault_at = -1, prepare_fault_at = -1;
  Fault read_fault = Fault::kNone, prepare_fault = Fault::kNone;
  int64_t stops_at = -1;
  int slow_read = 1, slow_prepare = 1, slow_caller = 1;  // microseconds, at most
};

absl::Status Go(Fault fault, const std::string& what) {
  if (fault == Fault::kThrows) throw std::runtime_error(what);
  return fault == Fault::kError ? absl::InternalError(what) : absl::OkStatus();
}

// The chunks that come out, and how it ends.
struct ReadOutcome {
  std::vector<int64_t> seen;
  std::string end;
  friend bool operator==(const ReadOutcome&, const ReadOutcome&) = default;
};

void Pass(std::mt19937* random, int most_us) {
  const auto us = static_cast<int>((*random)() % static_cast<unsigned>(most_us));
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

ReadOutcome RunPlan(const Plan& plan, bool ahead) {
  std::mt19937 of_read(1), of_prepare(2), of_caller(3);
  int64_t read = 0, prepared = 0;
  std::atomic<bool> preparing = false;
  const auto read_one = [&](ExecutionChunk* chunk) {
    Pass(&of_read, plan.slow_read);
    const int64_t index = read++;
    chunk->rows.clear();
    chunk->has_runs = false;
    if (index < plan.chunks) chunk->rows.push_back({.start_ps = index});
    return Go(index == plan.read_fault_at ? plan.read_fault : Fault::kNone, "read");
  };
  const auto prepare = [&](ExecutionChunk* chunk) {
    EXPECT_FALSE(preparing.exchange(true));
    Pass(&of_prepare, plan.slow_prepare);
    const int64_t index = prepared++;
    if (!chunk->rows.empty()) {
      EXPECT_EQ(chunk->rows[0].start_ps, index);
    }
    chunk->has_runs = true;
    preparing = false;
    return Go(index == plan.prepare_fault_at ? plan.prepare_fault : Fault::kNone, "prepare");
  };
  ReadOutcome outcome;
  try {
    ReadAhead<ExecutionChunk> chunks(read_one, prepare, ahead);
    ExecutionChunk chunk;
    for (;;) {
      const absl::Status status = chunks.Next(&chunk);
      outcome.end = std::string(status.message());
      if (!status.ok() || chunk.rows.empty()) return outcome;
      EXPECT_TRUE(chunk.has_runs);
      outcome.seen.push_back(chunk.rows[0].start_ps);
      Pass(&of_caller, plan.slow_caller);
      if (static_cast<int64_t>(outcome.seen.size()) == plan.stops_at) return outcome;
    }
  } catch (const std::runtime_error& error) {
    outcome.end = std::string("thrown: ") + error.what();
    return outcome;
  }
}

TEST(ReadAheadTest, ChunksAndEndsAreThoseOfOneThread) {
  std::mt19937 random(5);
  const auto any = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  const auto fault = [&] { return random() % 2 == 0 ? Fault::kError : Fault::kThrows; };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    Plan plan;
    plan.chunks = any(12);
    if (random() % 4 == 0) plan.read_fault_at = any(12), plan.read_fault = fault();
    if (random() % 4 == 0) plan.prepare_fault_at = any(12), plan.prepare_fault = fault();
    if (random() % 4 == 0) plan.stops_at = 1 + any(12);
    for (int* const slow : {&plan.slow_read, &plan.slow_prepare, &plan.slow_caller}) {
      *slow = random() % 3 == 0 ? 100 : 1;
    }
    const ReadOutcome expected = RunPlan(plan, /*ahead=*/false),
                      found = RunPlan(plan, /*ahead=*/true);
    ASSERT_EQ(found.end, expected.end);
    ASSERT_EQ(found.seen, expected.seen);
  }
}

}  // namespace
}  // namespace xplane_time
