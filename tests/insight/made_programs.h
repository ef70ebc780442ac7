// Hlo Protos made by hand, and what GPUs tell of themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/read/raw_message.h"
#include "tests/support/trace_builder.h"

namespace xplane_time::testing {

inline constexpr int kF32 = 11, kBf16 = 16;

inline std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t each : numbers) bytes += VarintBytes(static_cast<uint64_t>(each));
  return bytes;
}

inline RawMessage Array(uint64_t type, const std::vector<int64_t>& dims) {
  return RawMessage().Varint(2, type).Bytes(3, Packed(dims));
}

inline RawMessage Op(std::string_view name, std::string_view opcode, uint64_t id,
                     const RawMessage& shape, const std::vector<int64_t>& operands = {}) {
  return RawMessage().Bytes(1, name).Bytes(2, opcode).Message(3, shape).Varint(35, id).Bytes(
      36, Packed(operands));
}

inline RawMessage Computation(uint64_t id, const std::vector<RawMessage>& instructions) {
  RawMessage computation;
  for (const RawMessage& each : instructions) computation.Message(2, each);
  return computation.Varint(5, id);
}

inline std::string Program(const std::vector<RawMessage>& computations,
                           std::string_view name = "jit_f") {
  RawMessage module;
  module.Bytes(1, name);
  for (const RawMessage& each : computations) module.Message(3, each);
  return RawMessage().Message(1, module).bytes();
}

inline RawMessage Dot(uint64_t id, uint64_t type = kBf16) {  // [64, 128] x [128, 32]
  RawMessage dot = Op("dot.1", "dot", id, Array(type, {64, 32}), {1, 2});
  return dot.Message(30, RawMessage().Bytes(1, Packed({1})).Bytes(2, Packed({0})));
}
inline constexpr int64_t kDotFlops = 2 * 64 * 32 * 128;
inline constexpr int64_t kDotBytes = 2 * (64 * 128 + 128 * 32 + 64 * 32);

inline std::vector<RawMessage> Operands(uint64_t type = kBf16) {
  return {Op("a", "parameter", 1, Array(type, {64, 128})),
          Op("b", "parameter", 2, Array(type, {128, 32}))};
}

struct Peaks {
  std::string vendor = "Nvidia";
  int64_t major = 8, minor = 0;
  int64_t cores = 108, clock_khz = 1'410'000;
  int64_t bytes_per_s = 1'555'000'000'000;
};

inline void TellPeaks(const Peaks& peaks, PlaneBuilder plane) {
  if (!peaks.vendor.empty()) plane.Stat({"device_vendor", peaks.vendor});
  plane.Stat({"compute_cap_major", peaks.major}).Stat({"compute_cap_minor", peaks.minor});
  plane.Stat({"core_count", peaks.cores}).Stat({"clock_rate", peaks.clock_khz});
  plane.Stat({"memory_bandwidth", peaks.bytes_per_s});
}

inline void AddProgram(const std::string& hlo_proto, TraceBuilder* t) {
  t->Plane("/host:metadata")
      .Line({})
      .Event({.name = "jit_f", .metadata_stats = {{"Hlo Proto", RawBytes{hlo_proto}}}});
}

inline std::string DotProgram(uint64_t type = kBf16, std::string_view name = "jit_f") {
  std::vector<RawMessage> main = Operands(type);
  main.push_back(Dot(7, type));
  return Program({Computation(1, main)}, name);
}

}  // namespace xplane_time::testing
