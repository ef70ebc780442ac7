// LaunchTable: launches by correlation id. 16 bytes each (24 where ids do not fit 32
// bits), in a scratch file where they are many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "scratch.h"

namespace xplane_time::gpu_runs {

struct Launch {
  int64_t start_ps;
  uint32_t line;  // Line::timeline
};

// Those whose ids fit an Id.
template <typename Id>
class LaunchList {
 public:
  void Add(Id id, const Launch& launch) { Append({launch.start_ps, id, launch.line}); }
  void AddAll(const LaunchList& other);
  // Sorts what was added; after the last Add().
  void Order();
  std::optional<Launch> Find(Id id, size_t* place) const;

 private:
  struct Entry {
    int64_t start_ps;
    Id id;
    uint32_t line;  // or kAmbiguous
  };
  static constexpr uint32_t kAmbiguous = ~uint32_t{0};  // several launches share the id
  static bool Before(const Entry& a, const Entry& b) { return a.id < b.id; }

  void Append(const Entry& entry) {
    entries_.push_back(entry);
    if (entries_.size() >= next_order_) Order();
  }

  ScratchVector<Entry> entries_;  // the first ordered_ in order, each id once
  size_t ordered_ = 0;
  size_t next_order_ = size_t{1} << 18;
};

class LaunchTable {
 public:
  void Add(uint64_t correlation_id, const Launch& launch) {
    if (correlation_id <= kMostNarrow) {
      narrow_.Add(static_cast<uint32_t>(correlation_id), launch);
    } else {
      wide_.Add(correlation_id, launch);
    }
  }
  void AddAll(const LaunchTable& other) {
    narrow_.AddAll(other.narrow_);
    wide_.AddAll(other.wide_);
  }
  // After the last Add().
  void Finish() {
    narrow_.Order();
    wide_.Order();
  }

  // Where a caller was last; its own.
  struct Place {
    size_t narrow = 0, wide = 0;
  };
  // The only launch with this id; nothing where there is none, or several. Fast where ids
  // are near those asked for before.
  std::optional<Launch> Find(uint64_t correlation_id, Place* place) const {
    return correlation_id <= kMostNarrow
               ? narrow_.Find(static_cast<uint32_t>(correlation_id), &place->narrow)
               : wide_.Find(correlation_id, &place->wide);
  }

 private:
  static constexpr uint64_t kMostNarrow = std::numeric_limits<uint32_t>::max();

  LaunchList<uint32_t> narrow_;
  LaunchList<uint64_t> wide_;
};

}  // namespace xplane_time::gpu_runs
