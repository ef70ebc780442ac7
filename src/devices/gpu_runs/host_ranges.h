// Ranges of host time. Each range is a run of a function, and executions that are launched while it
// is open belong to it. Ranges nest, so a launch may be in several ranges, or in none.
//
//   thread 1   |------------- forward -------------|
//                 |- nn.Module: Linear_0 -|
//                       ^ launch: in both
//
// Stats of a host event's metadata make it such a range:
//
//   thread_range   the function; for launches from the event's own line
//   process_range  the function; for launches from all lines of its plane, which is a process
//   module         with thread_range: the part of the path of an nn.Module
//
// A GPU plane whose executions are launched in ranges has the stat `in_ranges`.
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
    std::string module = {};  // empty: not an nn.Module
  };
  // The launches that a range may contain: those of one line, or of all lines of one plane.
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
    Interval interval;  // half-open: it does not contain a launch at its end
  };

  uint32_t NameId(const Name& name);
  void Add(const Range& range) { ranges_.push_back(range); }
  // Sorts and links the ranges; call it after the last Add().
  void Order();

  // By owner and start; of equal starts the longer one first, then in order of Add().
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::vector<Name>& names() const { return names_; }
  // Number of ranges that are nested too deeply and therefore have no executions.
  uint64_t too_deep() const { return too_deep_; }

  // Calls visit(index of the range) for each range that is open at the time. The last one to begin
  // comes first.
  template <typename Visit>
  void ForEachAround(const Owner& owner, int64_t time_ps, Visit visit) const {
    const uint32_t last = LastBegun(owner, time_ps);
    for (uint32_t at = last == kNone ? kNone : link_of_[last]; at != kNone; at = links_[at].next) {
      if (ranges_[links_[at].range].interval.end_ps > time_ps) visit(links_[at].range);
    }
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // Limits of open ranges and of links, which bound the cost of a launch.
  static constexpr uint32_t kMostOpen = 512, kMostLinks = 2 * kMostOpen;

  // An element of a chain. All ranges that are open at a time are in the chain of the last range
  // that began by then, possibly together with some that have ended.
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
  std::vector<Link> links_;        // filled by Order()
  std::vector<uint32_t> link_of_;  // by range: the first link of its chain
  std::vector<Name> names_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> ids_;
  absl::flat_hash_map<Owner, Own> own_;
  uint64_t too_deep_ = 0;
};

}  // namespace xplane_time::gpu_runs
