// A Perfetto trace as its trace processor sees it: read by the generated parser, its events sorted
// by time as they come, its slices nested on a stack. Slow and obvious.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time::testing {

struct DecodedSlice {
  int64_t start_ns = 0, end_ns = -1;      // -1: it never ended
  int64_t start_ps = 0, duration_ps = 0;  // from the nanoseconds where it does not say
  bool says_start = false, says_duration = false;
  std::string name;
};

struct DecodedValue {
  int64_t ns = 0;
  double value = 0;
};

struct DecodedTrack {
  std::string name, description, unit;
  uint64_t parent = 0, drawn_as_one = 0;
  int32_t rank = 0;
  std::vector<DecodedSlice> slices;  // in order of start
  std::vector<DecodedValue> values;
};

// By uuid. Fails the test where a packet or a time is not as the format has it, or a slice is too
// deep for the trace processor.
std::map<uint64_t, DecodedTrack> DecodeTrace(std::string_view bytes);

// "file/GPU:0/runs".
std::string PathOf(const std::map<uint64_t, DecodedTrack>& tracks, uint64_t uuid);

}  // namespace xplane_time::testing
