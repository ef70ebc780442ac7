#include "perfetto/nesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/support/random.h"

namespace xplane_time::perfetto {
namespace {

using ::testing::ElementsAre, ::testing::SizeIs;
using testing::Random;

std::vector<std::vector<uint32_t>> FindTracks(const std::vector<Span>& spans) {
  return TracksOf(spans.size(), [&](uint32_t i) { return spans[i]; });
}

bool OverlapInPart(const Span& a, const Span& b) {  // a is not after b
  return b.start_ns < a.end_ns && a.end_ns < b.end_ns;
}

size_t LevelsAt(const std::vector<Span>& spans, const std::vector<uint32_t>& track, size_t last) {
  size_t levels = 1;
  for (size_t i = 0; i < last; ++i) {
    if (spans[track[i]].end_ns > spans[track[last]].start_ns) ++levels;
  }
  return levels;
}

TEST(Nesting, TakesOneTrackWhereNothingOverlapsInPart) {
  EXPECT_THAT(FindTracks({{0, 10}, {0, 10}, {0, 4}, {4, 10}, {5, 5}, {10, 12}, {10, 10}, {10, 11}}),
              ElementsAre(SizeIs(8)));
  EXPECT_THAT(FindTracks({}), ElementsAre(SizeIs(0)));
}

TEST(Nesting, PutsWhatOverlapsOnFurtherTracksThatFitClosest) {
  EXPECT_THAT(FindTracks({{0, 10}, {5, 30}, {6, 40}, {12, 50}, {13, 29}, {50, 51}}),
              ElementsAre(ElementsAre(0, 3, 4, 5), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(FindTracks({{0, 10}, {5, 30}, {6, 40}, {7, 29}, {8, 39}}),
              ElementsAre(ElementsAre(0), ElementsAre(1, 3), ElementsAre(2, 4)));
}

TEST(Nesting, PutsWhatIsTooDeepOnAFurtherTrack) {
  const std::vector<Span> alike(2 * kMostLevels + 1, Span{0, 10});
  EXPECT_THAT(FindTracks(alike), ElementsAre(SizeIs(kMostLevels), SizeIs(kMostLevels), SizeIs(1)));
}

TEST(Nesting, OfRandomSpansHasEachOnceAndNoneThatOverlapsInPart) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t axis = 5 + random.Below(200);
    std::vector<Span> spans;
    for (int64_t i = 0; i < random.Below(80); ++i) {
      const int64_t start = random.Below(axis);
      spans.push_back({start, start + random.Below(1 + random.Below(axis))});
    }
    std::ranges::stable_sort(spans, {},
                             [](const Span& s) { return std::pair(s.start_ns, -s.end_ns); });
    const auto tracks = FindTracks(spans);
    std::vector<uint32_t> all;
    for (const auto& track : tracks) {
      EXPECT_TRUE(std::ranges::is_sorted(track));
      for (size_t i = 0; i < track.size(); ++i) {
        for (size_t j = i + 1; j < track.size(); ++j) {
          EXPECT_FALSE(OverlapInPart(spans[track[i]], spans[track[j]])) << i << " " << j;
        }
        EXPECT_LE(LevelsAt(spans, track, i), kMostLevels);
      }
      all.insert(all.end(), track.begin(), track.end());
    }
    std::ranges::sort(all);
    EXPECT_EQ(all.size(), spans.size());
    EXPECT_TRUE(std::ranges::adjacent_find(all) == all.end());
    bool any_overlap = false;
    for (size_t i = 0; i < spans.size(); ++i) {
      for (size_t j = i + 1; j < spans.size(); ++j)
        any_overlap |= OverlapInPart(spans[i], spans[j]);
    }
    EXPECT_EQ(tracks.size() > 1, any_overlap);
  }
}

// Where full tracks are looked at again and again, this takes minutes.
TEST(Nesting, OfManyLevelsIsFast) {
  constexpr size_t kSpans = 3'000'000;
  const auto tracks = TracksOf(kSpans, [](uint32_t) { return Span{0, 10}; });
  EXPECT_THAT(tracks, SizeIs(kSpans / kMostLevels + 1));
  EXPECT_THAT(tracks.back(), SizeIs(kSpans % kMostLevels));
}

// A staircase: each overlaps all that are open. Without an order by room this takes minutes.
TEST(Nesting, OfAStaircaseIsFast) {
  constexpr int64_t kSpans = 300'000, kLength = 100'000;
  EXPECT_THAT(TracksOf(kSpans, [](uint32_t i) { return Span{i, i + kLength}; }), SizeIs(kLength));
}

}  // namespace
}  // namespace xplane_time::perfetto
