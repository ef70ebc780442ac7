// Assigns spans to tracks on which they nest.
//
// The first track gets every span that fits. Other spans go to the further track whose innermost
// open span ends next after the span's end (best fit), which leaves the other tracks open for
// longer spans. `Further` keeps the tracks sorted by the end of their innermost open span. When
// time advances, the tracks whose innermost span has ended are sorted in again. O(n log n) for n
// spans.
#include "perfetto/nesting.h"

#include <limits>
#include <set>
#include <utility>

namespace xplane_time::perfetto {
namespace {

struct SpanTrack {
  std::vector<int64_t> open;  // ends of the open spans, the innermost last
  std::vector<uint32_t> places;

  void CloseUntil(int64_t ns) {
    while (!open.empty() && open.back() <= ns) open.pop_back();
  }
  int64_t room_until_ns() const {
    return open.empty() ? std::numeric_limits<int64_t>::max() : open.back();
  }
  bool has_level() const { return open.size() < kMostLevels; }
  void Add(int64_t end_ns, uint32_t place) {
    open.push_back(end_ns);
    places.push_back(place);
  }
};

// All tracks except the first.
class Further {
 public:
  void Add(const Span& span, uint32_t place) {
    for (ByRoom* each : {&with_level_, &full_}) CloseUntil(span.start_ns, each);
    const auto fits = with_level_.lower_bound({span.end_ns, 0});
    size_t track = tracks_.size();
    if (fits == with_level_.end()) {
      tracks_.emplace_back();
    } else {
      track = fits->second;
      with_level_.erase(fits);
    }
    tracks_[track].Add(span.end_ns, place);
    Keep(track);
  }

  std::vector<SpanTrack>& tracks() { return tracks_; }

 private:
  using ByRoom = std::set<std::pair<int64_t, size_t>>;  // end of the room of a track, and the track

  void Keep(size_t track) {
    ByRoom* const to = tracks_[track].has_level() ? &with_level_ : &full_;
    to->emplace(tracks_[track].room_until_ns(), track);
  }
  void CloseUntil(int64_t ns, ByRoom* of) {
    while (!of->empty() && of->begin()->first <= ns) {
      const size_t ended = of->extract(of->begin()).value().second;
      tracks_[ended].CloseUntil(ns);
      Keep(ended);
    }
  }

  std::vector<SpanTrack> tracks_;
  ByRoom with_level_, full_;  // full tracks are kept apart, so that they are not examined
                              // repeatedly
};

}  // namespace

std::vector<std::vector<uint32_t>> TracksOf(size_t count,
                                            absl::FunctionRef<Span(uint32_t)> span_of) {
  SpanTrack first;
  Further further;
  for (uint32_t place = 0; place < count; ++place) {
    const Span span = span_of(place);
    first.CloseUntil(span.start_ns);
    if (first.has_level() && first.room_until_ns() >= span.end_ns) {
      first.Add(span.end_ns, place);
    } else {
      further.Add(span, place);
    }
  }
  std::vector<std::vector<uint32_t>> tracks;
  tracks.push_back(std::move(first.places));
  for (SpanTrack& each : further.tracks()) tracks.push_back(std::move(each.places));
  return tracks;
}

}  // namespace xplane_time::perfetto
