// Planes: what is in a trace, before anything is timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/report.h"

namespace xplane_time {

struct LineRow {
  int64_t id = 0;
  std::string name;  // the display name if set
  std::string role;  // "execution", "run", "derived", "async", "counter",
                     // "host"; what the device kind takes the line for
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps;  // since base_ns; empty without intervals
  int64_t sum_ps = 0;                        // plain sum of durations
};

struct StatRow {
  std::string name;
  std::string type;   // "double", "uint64", "int64", "str", "bytes", "ref", "compressed_str"
  std::string owner;  // "event" (own, or else from its metadata), "event_metadata", "plane"
  uint64_t count = 0;
};

struct PlaneRow {
  uint32_t input = 0;
  std::string name, host;
  std::optional<DeviceKind> kind;  // empty: not a device
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps;
  std::vector<LineRow> lines;
  std::vector<StatRow> stats;  // with_stats only; ordered by owner, name, type
};

struct PlanesReport {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<PlaneRow> planes;
  std::vector<DiagnosticRow> diagnostics;
};

struct PlanesOptions {
  std::string device = "all";  // select.h
  bool with_stats = false;
};

// Errors: as SelectPlanes and VisitEvents.
absl::StatusOr<PlanesReport> DescribePlanes(const Trace& trace, const PlanesOptions& options,
                                            const Diagnostics& reading);

}  // namespace xplane_time
