// Ranges of host time, each of them a run of a function: what is launched while it is open is
// executed in it. They nest, so a launch is in several, or in none.
//
//   thread 1   |------------- forward -------------|
//                 |- nn.Module: Linear_0 -|
//                       ^ launch: in both
//
// A host event is such a range by stats of its name:
//
//   thread_range   the function; of launches from the event's own line
//   process_range  the function; of launches from all lines of its plane, one of which a process is
//   module         with the first: what the range adds to the path of an nn.Module
//
// A plane of a GPU that is launched so has the stat `in_ranges`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/intervals.h"

namespace xplane_time::gpu_runs {

inline constexpr std::string_view kThreadRangeStat = "thread_range";
inline constexpr std::string_view kProcessRangeStat = "process_range";
inline constexpr std::string_view kModuleStat = "module";
inline constexpr std::string_view kInRangesStat = "in_ranges";

class HostRanges {
 public:
  struct Name {
    std::string function;
    std::string module = {};  // empty: of none
  };
  // Of one line, or of all lines of one plane.
  struct Owner {
    bool is_process;
    uint32_t index;
    friend auto operator<=>(const Owner&, const Owner&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Owner& owner) {
      return H::combine(std::move(hash), owner.is_process, owner.index);
    }
  };
  struct Range {
    Owner owner;
    uint32_t name;
    Interval interval;  // half-open: a launch at its end is not in it
  };

  uint32_t NameId(const Name& name);
  void Add(const Range& range) { ranges_.push_back(range); }
  // After the last Add().
  void Order();

  // By owner, start, the longer one first, then as added.
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::vector<Name>& names() const { return names_; }
  // Those inside of so many that they are in no run.
  uint64_t too_deep() const { return too_deep_; }

  // Calls visit(index of the range) for each range that is open at the time, the last to begin
  // first.
  template <typename Visit>
  void ForEachAround(const Owner& owner, int64_t time_ps, Visit visit) const {
    const uint32_t last = LastBegun(owner, time_ps);
    for (uint32_t at = last == kNone ? kNone : link_of_[last]; at != kNone; at = links_[at].next) {
      if (ranges_[links_[at].range].interval.end_ps > time_ps) visit(links_[at].range);
    }
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // So that what a launch costs is bounded: of ranges that are open, and of links.
  static constexpr uint32_t kMostOpen = 512, kMostLinks = 2 * kMostOpen;

  // Of a chain: all that are open at a time are in the chain of the last that began by then, and
  // some that are over.
  struct Link {
    uint32_t range, next, length;
  };
  struct Open {
    uint32_t range, link;
  };
  uint32_t LastBegun(const Owner& owner, int64_t time_ps) const;
  uint32_t AddLink(uint32_t range, uint32_t next);
  void LinkAnew(std::vector<Open>* open);

  struct Own {
    uint32_t begin, end;
  };
  std::vector<Range> ranges_;
  std::vector<Link> links_;        // after Order()
  std::vector<uint32_t> link_of_;  // by range: where its chain begins
  std::vector<Name> names_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> ids_;
  absl::flat_hash_map<Owner, Own> own_;
  uint64_t too_deep_ = 0;
};

}  // namespace xplane_time::gpu_runs
