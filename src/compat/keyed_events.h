// Events of a plane as ejkernel and tune-jax see them: with a key made of stats, and times
// on their axis.
#ifndef XPLANE_TIME_SRC_COMPAT_KEYED_EVENTS_H_
#define XPLANE_TIME_SRC_COMPAT_KEYED_EVENTS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
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

// Texts by number, in the order in which they came.
class Keys {
 public:
  KeyId IdOf(std::string_view text);
  const std::string& Text(KeyId id) const { return texts_[id]; }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // which stay where they are
  absl::flat_hash_map<absl::string_view, KeyId> ids_;
};

// A test of names, asked once for each key.
class KeyTest {
 public:
  KeyTest(const Keys& keys, NameTest test) : keys_(keys), test_(std::move(test)) {}
  bool Passes(KeyId key);

 private:
  const Keys& keys_;
  NameTest test_;
  std::vector<std::optional<bool>> known_;
};

// The stats that keys are made of.
enum KeyStat : uint8_t { kHloModule, kProgramId, kRunId, kScopeRangeId, kKeyStatCount, kOther };

// How a stat's value is written, "None" included; nothing: as if the stat were not there.
using StatText = std::optional<std::string> (*)(const StatValue& value, const Plane& plane);

// By stat; nothing: the event has none. Of a stat that comes twice the last counts.
using KeyStats = std::array<std::optional<std::string>, kKeyStatCount>;

class KeyStatReader {
 public:
  KeyStatReader(const Plane& plane, StatText text);
  KeyStats Read(const FileEvent& event) const;

 private:
  const Plane& plane_;
  StatText text_;
  absl::flat_hash_map<int64_t, KeyStat> stat_of_id_;
};

// The metadata's name; empty where there is none.
std::string_view RawName(const Plane& plane, int64_t metadata_id);

// Stable, by start.
void SortByStart(std::vector<KeyedEvent>* events);

// Of events in order of start, those that start from `begin_ps` to `end_ps`, both included.
std::span<const KeyedEvent> StartingIn(std::span<const KeyedEvent> events, Picoseconds begin_ps,
                                       Picoseconds end_ps);

// value / 1e12, as Python divides an int by a float.
inline double SecondsOf(Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e12; }

}  // namespace xplane_time::compat

#endif  // XPLANE_TIME_SRC_COMPAT_KEYED_EVENTS_H_
