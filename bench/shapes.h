// Shapes: small traces with the planes, lines, stats and name lengths of recorded ones, equal on
// every machine. grow.h makes them long.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xplane_time::bench {

enum class Shape {
  kTpu,  // four TPUs with modules, nested ops and asynchronous copies; a little host activity
  kGpu,  // three GPUs with four streams each, ten stats per kernel; launches on the host
  kCpu,  // thunks of two devices on host threads; Python frames
};

std::optional<Shape> ShapeNamed(std::string_view name);  // "tpu", "gpu", "cpu"

// The bytes of an XSpace with this number of runs per device.
std::string ShapedTrace(Shape shape, int runs);

}  // namespace xplane_time::bench
