#include "energy/publications.h"

#include <cmath>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stats/random.h"

namespace xplane_time::energy {
namespace {

using ::testing::IsEmpty;

TEST(FindPublications, AreBetweenPollsWhoseValuesDiffer) {
  const std::vector<Poll> polls = {{0, 0.1, 7}, {1, 1.1, 7}, {2, 2.1, 8}, {3, 3.1, 9}};
  const Publications found = FindPublications(polls, ReadingKind::kCumulative);
  ASSERT_EQ(found.updates.size(), 2U);
  EXPECT_EQ(found.updates[0].low_s, 1);
  EXPECT_EQ(found.updates[0].high_s, 2.1);
  EXPECT_EQ(found.updates[0].value, 8);
  ASSERT_EQ(found.quiet.size(), 1U);
  EXPECT_EQ(found.quiet[0].from_s, 0.1);
  EXPECT_EQ(found.quiet[0].to_s, 1);
}

// Polls every `poll_s` of a sensor with a period of 20 ms. Values never repeat. `date_s` returns
// the date of a publication.
template <typename Date>
std::vector<Poll> DatedPolls(double poll_s, uint64_t seed, const Date& date_s) {
  constexpr double kPeriodS = 0.0199;
  stats::Random random = stats::RandomFor(seed, 5, 0);
  std::vector<Poll> polls;
  for (double at_s = 1; at_s < 13; at_s += poll_s) {
    const double before_s = at_s + 4e-4 * random.Uniform(), after_s = before_s + 5e-4;
    const auto number = static_cast<int64_t>(std::floor((before_s + 2e-4) / kPeriodS));
    polls.push_back({before_s, after_s, number * 7919,
                     date_s(kPeriodS * static_cast<double>(number), before_s)});
  }
  return polls;
}

TEST(FindPublications, TheSensorsOwnDatesAreTheInstants) {
  for (const double poll_s : {0.005, 0.01, 0.017, 0.02, 0.023, 0.04}) {
    const Publications found = FindPublications(
        DatedPolls(poll_s, 1, [](double published_s, double) { return published_s; }),
        ReadingKind::kInstant);
    ASSERT_TRUE(found.dated) << poll_s;
    const std::vector<Grid> grids = FindGrids(found);
    ASSERT_EQ(grids.size(), 1U) << poll_s;
    EXPECT_EQ(grids[0].misfits, 0U);
    EXPECT_NEAR(grids[0].period_s, 0.0199, 1e-7) << poll_s;
    for (size_t i = 0; i < found.updates.size(); ++i) {
      EXPECT_EQ(found.updates[i].low_s, found.updates[i].high_s);
      EXPECT_EQ(grids[0].InstantS(i), found.updates[i].high_s);
      EXPECT_NEAR(found.updates[i].high_s,
                  0.0199 * static_cast<double>(found.updates[i].value / 7919), 1e-12);
    }
  }
}

// The date is that of the sample, which is published 9 ms later.
TEST(FindPublications, DatesBeforeTheBracketsAreMovedIntoThem) {
  const Publications found = FindPublications(
      DatedPolls(0.005, 1, [](double published_s, double) { return published_s - 0.009; }),
      ReadingKind::kInstant);
  ASSERT_TRUE(found.dated);
  for (const Update& update : found.updates) {
    EXPECT_NEAR(update.high_s, 0.0199 * static_cast<double>(update.value / 7919), 4e-4);
  }
}

TEST(FindPublications, DatesThatAreNotOfPublicationsAreIgnored) {
  stats::Random random = stats::RandomFor(1, 6, 0);
  const auto finds_dated = [&](const auto& date_s) {
    return FindPublications(DatedPolls(0.02, 1, date_s), ReadingKind::kInstant).dated;
  };
  using Date = std::optional<double>;
  EXPECT_TRUE(finds_dated([](double published_s, double) { return published_s; }));
  EXPECT_FALSE(finds_dated([](double, double) { return Date(); }));
  EXPECT_FALSE(finds_dated([](double, double poll_s) { return poll_s + 1e-4; })) << "of the poll";
  EXPECT_FALSE(finds_dated([](double, double poll_s) { return poll_s - 0.012; })) << "a delay";
  EXPECT_FALSE(finds_dated([](double published_s, double) { return 1.01 * published_s; }))
      << "a clock that runs faster";
  EXPECT_FALSE(finds_dated([](double published_s, double) { return std::floor(published_s); }))
      << "whole seconds";
  EXPECT_FALSE(finds_dated([&](double published_s, double) {
    return published_s - 0.05 * random.Uniform();
  })) << "at random";
}

TEST(FindPublications, AFinePowerIsNotPublishedTwice) {
  std::vector<Poll> polls;
  for (int i = 0; i < 100; ++i) {
    const double at_s = 0.01 * i;
    polls.push_back({at_s, at_s + 1e-4, 7919 * (i / 3)});
  }
  EXPECT_EQ(FindPublications(polls, ReadingKind::kInstant).quiet.size(), 66U);
  for (Poll& poll : polls) poll.value %= 2;  // like a coarse sensor: 0, 1, 0, 1
  EXPECT_THAT(FindPublications(polls, ReadingKind::kInstant).quiet, IsEmpty());
}

TEST(FindPublications, APowerMayBePublishedAgain) {
  const std::vector<Poll> polls = {{0, 0.1, 7}, {1, 1.1, 7}};
  EXPECT_THAT(FindPublications(polls, ReadingKind::kAverage).quiet, IsEmpty());
}

// Polls every 20 ms with these power values.
std::vector<Poll> PollsOf(const std::vector<int64_t>& values) {
  std::vector<Poll> polls;
  for (size_t i = 0; i < values.size(); ++i) {
    const double at_s = 0.02 * static_cast<double>(i);
    polls.push_back({at_s, at_s + 1e-4, values[i]});
  }
  return polls;
}

// The blocks have random lengths, so no grid explains the changes.
TEST(FindPublications, EachPollOfAConstantPowerIsAnUpdate) {
  stats::Random random = stats::RandomFor(3, 7, 0);
  std::vector<int64_t> values;
  for (int block = 0; block < 40; ++block) {
    const int polls = 5 + static_cast<int>(30 * random.Uniform());
    values.insert(values.end(), static_cast<size_t>(polls), 100'000 + 50'000 * (block % 3));
  }
  const std::vector<Poll> polls = PollsOf(values);
  for (const PollSource source : {PollSource::kRecorder, PollSource::kTrack}) {
    const Publications found = FindPublications(polls, ReadingKind::kInstant, source);
    EXPECT_EQ(found.updates.size(), polls.size());
    EXPECT_THAT(found.quiet, IsEmpty());
    EXPECT_EQ(found.dated, source == PollSource::kTrack);
    for (size_t i = 0; i < found.updates.size(); ++i) {
      EXPECT_EQ(found.updates[i].value, values[i]);
      EXPECT_LE(found.updates[i].high_s, polls[i].after_s);
    }
  }
  // If a counter is unchanged, it was not published.
  EXPECT_EQ(FindPublications(polls, ReadingKind::kCumulative).updates.size(), 39U);
}

// The sensor publishes at every fifth poll and repeats values: the same value is published again.
TEST(FindPublications, ACoarsePowerIsPublishedOncePerPeriod) {
  stats::Random random = stats::RandomFor(4, 7, 0);
  constexpr int kPublications = 200;
  std::vector<int64_t> values;
  for (int i = 0; i < kPublications; ++i) {
    values.insert(values.end(), 5, 100'000 + 1000 * static_cast<int64_t>(3 * random.Uniform()));
  }
  const Publications found = FindPublications(PollsOf(values), ReadingKind::kInstant);
  EXPECT_FALSE(found.dated);
  EXPECT_NEAR(static_cast<double>(found.updates.size()), kPublications, 2);
  for (const Update& update : found.updates) {
    const auto poll = static_cast<size_t>(std::lround(update.polled_s / 0.02));
    EXPECT_EQ(values[poll], update.value);
    EXPECT_LT(update.high_s - update.low_s, 0.021);
  }
  const std::vector<Grid> grids = FindGrids(found);
  ASSERT_FALSE(grids.empty());
  EXPECT_NEAR(grids[0].period_s, 0.1, 1e-4);
  EXPECT_EQ(grids[0].misfits, 0U);
}

// The values are fine, but the power is limited. The limit may be published repeatedly, other
// values only once.
TEST(FindPublications, AFinePowerStaysAtItsLimit) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 60; ++i) {
    for (int64_t j = 0; j < 20; ++j) values.push_back(100'000 + 7919 * (i * 20 + j) % 50'000);
    values.insert(values.end(), 20, 300'000);
    values.insert(values.end(), 2, 200'000 + 7 * i);  // one publication, polled twice
  }
  const Publications found = FindPublications(PollsOf(values), ReadingKind::kInstant);
  size_t at_limit = 0, twice = 0;
  for (const Update& update : found.updates) {
    at_limit += update.value == 300'000;
    twice += update.value >= 200'000 && update.value < 300'000;
  }
  EXPECT_EQ(at_limit, 60U * 20);
  EXPECT_EQ(twice, 60U);
  EXPECT_EQ(found.quiet.size(), 60U);
}

TEST(FindPublications, AGapInPollsHasNoPublications) {
  std::vector<Poll> polls = PollsOf(std::vector<int64_t>(400, 100'000));
  for (size_t i = 0; i < polls.size(); ++i) polls[i].value += static_cast<int64_t>(i / 50 % 2) * 9;
  std::erase_if(polls, [](const Poll& poll) { return poll.before_s > 2.3 && poll.before_s < 2.7; });
  for (const Update& update : FindPublications(polls, ReadingKind::kInstant).updates) {
    EXPECT_FALSE(update.polled_s > 2.31 && update.polled_s < 2.69);
  }
}

TEST(FindGrids, NeedUpdates) {
  EXPECT_THAT(FindGrids({}), IsEmpty());
  Publications few;
  for (int i = 0; i < 7; ++i) few.updates.push_back({i - 0.1, i + 0.1, i});
  EXPECT_THAT(FindGrids(few), IsEmpty());
}

// The period differs by 0.3 % from twice the polling period. A grid with a longer period would also
// fit all brackets, if two updates could share one of its instants.
TEST(FindGrids, TwoUpdatesAreNotOne) {
  constexpr double kPeriodS = 0.09968, kPollS = 0.05;
  std::vector<Poll> polls;
  for (int i = 0; i < 550; ++i) {
    const double at_s = i * kPollS;
    polls.push_back({at_s, at_s + 1e-4, static_cast<int64_t>((at_s + 0.02) / kPeriodS)});
  }
  const std::vector<Grid> grids = FindGrids(FindPublications(polls, ReadingKind::kCumulative));
  ASSERT_FALSE(grids.empty());
  for (const Grid& grid : grids) {
    for (size_t i = 1; i < grid.number.size(); ++i) {
      ASSERT_GT(grid.number[i], grid.number[i - 1]) << grid.period_s;
    }
  }
}

// Polled at least twice per period. One of the grids is that of the sensor.
TEST(FindGrids, FindThePeriodAndThePhase) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    stats::Random random = stats::RandomFor(seed, 3, 0);
    const double period_s = 0.1 * (0.995 + 0.01 * random.Uniform());
    const double phase_s = random.Uniform();
    const double poll_s = 0.01 + 0.04 * random.Uniform();
    std::vector<Poll> polls;
    for (double at_s = 2; at_s < 62; at_s += poll_s) {
      const double middle_s = at_s + 5e-4 * random.Uniform();
      polls.push_back({middle_s - 3e-4, middle_s + 3e-4,
                       static_cast<int64_t>(std::floor((middle_s - phase_s) / period_s))});
    }
    const std::vector<Grid> grids = FindGrids(FindPublications(polls, ReadingKind::kCumulative));
    ASSERT_FALSE(grids.empty());
    double nearest_s = 1;
    for (const Grid& grid : grids) {
      // The maximum error of the instants.
      double off_s = 0;
      for (size_t i = 0; i < grid.number.size(); ++i) {
        const double steps = (grid.InstantS(i) - phase_s) / period_s;
        off_s = std::max(off_s, std::abs(steps - std::round(steps)) * period_s);
      }
      nearest_s = std::min(nearest_s, off_s);
    }
    EXPECT_LT(nearest_s, 0.3 * poll_s) << "seed " << seed << ", poll " << poll_s;
    EXPECT_EQ(grids[0].misfits, 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace xplane_time::energy
