// A Perfetto trace, packet by packet: tracks, slices and counters in, bytes out as they come.
//
//   TraceWriter trace(names, sink);
//   const uint64_t device = trace.AddTrack({.name = "GPU:0"});
//   trace.Begin(trace.AddTrack({.name = "Stream #1", .parent = device}));
//   trace.BeginSlice({.ns = 5, .name = 0});   // names[0]
//   trace.EndSlice(9);
//   RETURN_IF_ERROR(trace.Finish());
//
// So that packets are small, each track has a packet sequence of its own: its uuid is the default,
// its clock counts from one packet to the next, and a name is told where it is used first. A slice
// takes some 30 bytes, and 10 to 20 more where exact times go with it. Times of a track are in
// order, and none is below 0: the trace processor drops those. Names may be any bytes; they are
// written as ValidUtf8 has them.
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
  int32_t rank = 0;           // among those of its parent
  std::string unit = {};      // of a counter; empty: it has slices
  uint64_t drawn_as_one = 0;  // with all of its parent that have the number; 0: alone
};

struct SliceBegin {
  int64_t ns = 0;
  uint32_t name = 0;
  // Where nanoseconds do not have it exactly.
  std::optional<int64_t> start_ps = {}, duration_ps = {};
};

class TraceWriter {
 public:
  // `names`: of slices. Both outlive it.
  TraceWriter(std::span<const std::string> names, Sink sink);

  // Returns its number. Those of a parent are in order of rank.
  uint64_t AddTrack(const Track& track);

  // What follows is of this track. Once for each.
  void Begin(uint64_t track);
  void BeginSlice(const SliceBegin& slice);
  // Of the innermost that is open.
  void EndSlice(int64_t ns);
  // Of a counter, until its next.
  void AddValue(int64_t ns, double value);

  // False: the sink refused; nothing more is written.
  bool ok() const { return status_.ok(); }
  // The last bytes. Errors: those of the sink.
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
  uint64_t sequence_ = 0;          // of the track that was begun
  int64_t last_ns_ = 0;            // of it
  std::vector<uint64_t> told_in_;  // by name: the last sequence that has it
};

}  // namespace xplane_time::perfetto
