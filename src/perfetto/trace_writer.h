// Writes a Perfetto trace packet by packet: from tracks, slices and counters to a stream of bytes.
//
//   TraceWriter trace(names, sink);
//   const uint64_t device = trace.AddTrack({.name = "GPU:0"});
//   trace.Begin(trace.AddTrack({.name = "Stream #1", .parent = device}));
//   trace.BeginSlice({.ns = 5, .name = 0});   // names[0]
//   trace.EndSlice(9);
//   RETURN_IF_ERROR(trace.Finish());
//
// To keep packets small, each track has its own packet sequence: the track's uuid is the default,
// its clock counts from one packet to the next, and a name is defined at its first use. A slice
// takes about 30 bytes, and 10 to 20 more with exact times. Times of a track must be in order and
// not negative: the trace processor drops negative times. Names may be any bytes; they are written
// by ValidUtf8.
//
// Schema: protos/perfetto/trace/trace_packet.proto of Perfetto.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "read/wire_writer.h"

namespace xplane_time::perfetto {

// Takes the next bytes of the file.
using Sink = absl::FunctionRef<absl::Status(std::string_view)>;

struct Track {
  std::string name = {}, description = {};
  uint64_t parent = 0;        // 0: none
  int32_t rank = 0;           // among the tracks of its parent
  std::string unit = {};      // of a counter; empty: the track has slices
  uint64_t drawn_as_one = 0;  // tracks of a parent with the same number are drawn as one; 0: alone
};

struct SliceBegin {
  int64_t ns = 0;
  uint32_t name = 0;
  // Set if whole nanoseconds are not exact.
  std::optional<int64_t> start_ps = {}, duration_ps = {};
};

class TraceWriter {
 public:
  // `names` are those of slices. Both arguments must outlive it.
  TraceWriter(std::span<const std::string> names, Sink sink);

  // Returns the track's number. Tracks of a parent are shown in order of rank.
  uint64_t AddTrack(const Track& track);

  // Starts the content of this track. Call it once for each track.
  void Begin(uint64_t track);
  void BeginSlice(const SliceBegin& slice);
  // Ends the innermost open slice.
  void EndSlice(int64_t ns);
  // Value of a counter, valid until the next one.
  void AddValue(int64_t ns, double value);

  // False after an error of the sink; nothing more is written then.
  bool ok() const { return status_.ok(); }
  // Writes the last bytes. Errors: those of the sink.
  absl::Status Finish();

 private:
  template <typename Fill>
  void AddPacket(Fill fill);
  template <typename Fill>
  void AddEvent(int64_t ns, uint64_t type, Fill fill);
  void AddExact(uint64_t name, std::optional<int64_t> ps);
  void TellName(uint32_t name);
  void Flush();

  const std::span<const std::string> names_;
  const Sink sink_;
  WireWriter out_;
  absl::Status status_;
  uint64_t tracks_ = 0;
  uint64_t sequence_ = 0;          // of the current track
  int64_t last_ns_ = 0;            // in the current sequence
  std::vector<uint64_t> told_in_;  // by name: the last sequence that defines it
};

}  // namespace xplane_time::perfetto
