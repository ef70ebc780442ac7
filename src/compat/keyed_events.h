// Events of a plane as ejkernel and tune-jax see them: with a key made of stats, and times
// on their axis.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"
#include "read/file_events.h"
#include "xplane_time/compat.h"
#include "xplane_time/trace.h"

namespace xplane_time::compat {

// Epoch times in picoseconds do not fit 64 bits.
using Picoseconds = absl::int128;

using KeyId = uint32_t;

struct KeyedEvent {
  KeyId key = 0;
  Picoseconds start_ps = 0, end_ps = 0;
};

// The stats that keys are made of.
enum KeyStat : uint8_t { kHloModule, kProgramId, kRunId, kScopeRangeId, kKeyStatCount, kOther };

// How a stat's value is written, "None" included; nothing: as if the stat were not there.
using StatText = std::optional<std::string> (*)(const StatValue& value, const Plane& plane);

// By stat; nothing: the event has none. Of a stat that comes twice the last counts.
using KeyStats = std::array<std::optional<std::string>, kKeyStatCount>;

// Values by key, in the order in which the keys came.
template <typename Key, typename Value>
class InOrder {
 public:
  Value& operator[](const Key& key) {
    const auto [found, inserted] = places_.try_emplace(key, rows_.size());
    if (inserted) rows_.emplace_back(key, Value());
    return rows_[found->second].second;
  }
  const std::vector<std::pair<Key, Value>>& rows() const { return rows_; }

 private:
  std::vector<std::pair<Key, Value>> rows_;
  absl::flat_hash_map<Key, size_t> places_;
};

// [start, end] of times, in order of start.
using Spans = std::vector<std::pair<absl::int128, absl::int128>>;
// What they cover together.
absl::int128 Covered(const Spans& sorted);

// A plane as it is read: keys, and events in order of start.
class KeyedReading {
 public:
  // `trace`, `prefix` and `children` must outlive it.
  KeyedReading(const Trace& trace, uint32_t plane, StatText text, const std::string& prefix,
               const NameTest& children);
  virtual ~KeyedReading() = default;
  KeyedReading(const KeyedReading&) = delete;
  KeyedReading& operator=(const KeyedReading&) = delete;

  // Of keys with the prefix: the last event gives the time, the first one the place.
  // `skip_negative`: times below 0 are as if they were not there.
  std::vector<KeyTime> Times(bool skip_negative);

 protected:
  // What the events from `begin_ps` to `end_ps` that are children cover.
  virtual Picoseconds CoveredBy(const Spans& children) const = 0;
  // How far beyond its ends an event's children may reach.
  virtual Picoseconds TolerancePs() const { return 0; }

  KeyStats StatsOf(const FileEvent& event) const;
  // "NAME(PROGRAM"; the metadata's name where no stat has one.
  std::string KeyBegin(const KeyStats& stats, const FileEvent& event) const;
  // Keys by number, in the order in which they came.
  KeyId IdOf(std::string_view key);
  bool HasPrefix(KeyId key) const { return keys_[key].starts_with(prefix_); }
  void SortByStart();  // stable

  const Trace& trace_;
  const Plane& plane_;
  std::deque<std::string> keys_;  // which stay where they are
  std::vector<KeyedEvent> events_;

 private:
  Picoseconds TimeOf(const KeyedEvent& event);
  bool IsChild(KeyId key);  // asked once for each

  const StatText text_;
  const std::string& prefix_;
  const NameTest& children_;
  absl::flat_hash_map<int64_t, KeyStat> stat_of_id_;
  absl::flat_hash_map<absl::string_view, KeyId> ids_;
  std::vector<std::optional<bool>> is_child_;
};

// value / 1e12, as Python divides an int by a float.
inline double SecondsOf(Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e12; }

}  // namespace xplane_time::compat
