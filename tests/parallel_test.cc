#include "parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

std::vector<size_t> UpTo(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

void Pause(std::mt19937* random) {
  std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 300));
}

class Threads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, Threads, ::testing::Values(1, 2, 3, 8));

TEST_P(Threads, DoEachTaskOnce) {
  for (const size_t count : {0, 1, 2, 3, 100}) {
    std::vector<std::atomic<int>> done(count);
    ParallelFor(count, GetParam(), [&](size_t i) { ++done[i]; });
    for (const std::atomic<int>& each : done) EXPECT_EQ(each, 1) << count;
  }
}

TEST_P(Threads, ThrowWhatATaskThrows) {
  std::atomic<int> done = 0;
  const auto run = [&] {
    ParallelFor(1000, GetParam(), [&](size_t i) {
      if (i == 3) throw std::runtime_error("the fourth");
      ++done;
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LT(done, 1000);
}

TEST_P(Threads, GoOnInOrder) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const size_t count = size_t{3} * seed;
    std::vector<std::atomic<bool>> done(count);
    std::vector<size_t> order;  // nothing else guards it
    ParallelForThenInOrder(
        count, GetParam(),
        [&](size_t i) {
          std::mt19937 random(static_cast<uint32_t>(i) + 1000 * seed);
          Pause(&random);
          done[i] = true;
        },
        [&](size_t i) {
          EXPECT_TRUE(done[i]);
          order.push_back(i);
        });
    EXPECT_THAT(order, ElementsAreArray(UpTo(count)));
  }
}

TEST_P(Threads, GoOnNoFurtherThanWhatFails) {
  std::vector<size_t> order;
  const auto run = [&](bool in_task) {
    order.clear();
    const auto fail = [](size_t i) {
      if (i == 5) throw std::runtime_error("the sixth");
    };
    ParallelForThenInOrder(
        20, GetParam(), [&](size_t i) { return in_task ? fail(i) : void(); },
        [&](size_t i) {
          fail(i);
          order.push_back(i);
        });
  };
  for (const bool in_task : {false, true}) {
    EXPECT_THROW(run(in_task), std::runtime_error);
    EXPECT_THAT(order, ElementsAreArray(UpTo(order.size())));
    EXPECT_THAT(order, SizeIs(Le(size_t{5})));
  }
}

TEST(LongestFirst, IsTheOrder) {
  std::vector<size_t> order;
  const std::vector<uint64_t> sizes = {3, 0, 9, 3, 4};
  ParallelForLongestFirst(sizes, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_THAT(order, ElementsAre(2, 4, 0, 3, 1));
  order.clear();
  ParallelForLongestFirst({}, 4, [&](size_t i) { order.push_back(i); });
  EXPECT_THAT(order, IsEmpty());
}

TEST(LongestFirst, StaysOnThisThreadForNextToNothing) {
  std::set<std::thread::id> threads;
  const std::vector<uint64_t> sizes = {1000, 1, 2};
  ParallelForLongestFirst(sizes, 2, [&](size_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
}

// One work after the other: of how many threads each was.
std::vector<size_t> ThreadsOfPhases(size_t phases) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::vector<size_t> counts;
  for (size_t i = 0; i < phases; ++i) {
    std::atomic<int> here = 0;
    RunOnThreads(2, [&] {
      ++here;
      while (here < 2) std::this_thread::yield();  // both are there at once
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    counts.push_back(seen.size());
  }
  return counts;
}

TEST(HelperThread, IsKeptForTheNextWork) {
  HelperThread::KeepThreads();
  EXPECT_THAT(ThreadsOfPhases(4), ElementsAre(2, 2, 2, 2));
  // Asleep in between.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<int> worked = 0;
  RunOnThreads(2, [&] { ++worked; });
  EXPECT_EQ(worked, 2);
}

TEST(HelperThread, WorksWhereTheOneThatHasItIsDone) {
  HelperThread::KeepThreads();
  std::atomic<bool> first_is_done = false;
  std::thread::id first, second;
  const std::function<void()> one = [&] {
    first = std::this_thread::get_id();
    first_is_done = true;
  };
  const std::function<void()> other = [&] { second = std::this_thread::get_id(); };
  const HelperThread outer(0, one);
  while (!first_is_done) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  { const HelperThread inner(0, other); }
  EXPECT_EQ(first, second);
}

TEST(HelperThread, IsAnotherWhereAllWork) {
  HelperThread::KeepThreads();
  std::atomic<int> here = 0;
  RunOnThreads(3, [&] {
    ++here;
    while (here < 3) std::this_thread::yield();
  });
  EXPECT_EQ(here, 3);
}

// Those of a thread that keeps none, as of a library's caller, whatever other threads keep.
TEST(HelperThread, EndsWithItsWork) {
  std::atomic<int> worked = 0;
  std::thread([&] {
    for (int i = 0; i < 50; ++i) RunOnThreads(3, [&] { ++worked; });
  }).join();
  EXPECT_EQ(worked, 150);
}

}  // namespace
}  // namespace xplane_time
