// TraceBuilder: makes small traces from named arguments.
//
// Input: the events of a test. Output: the bytes of an XSpace, and the message itself for anything
// that the helpers cannot express. Times are picoseconds on the capture's axis. The timestamp_ns of
// a line changes the written offsets, but not the times.
//
//   TraceBuilder t;
//   auto stream = t.Gpu(0).Stream(16);
//   stream.Kernel({.name = "k", .start_ps = 0, .duration_ps = 5, .hlo_module = "jit_f",
//                  .program_id = 3, .hlo_op = "dot.1", .correlation_id = 7});
//   auto host = t.Host().Thread("python");
//   host.ModuleExecution("jit_f", /*start_ps=*/0, /*duration_ps=*/9);
//   host.Launch({.start_ps = 1, .duration_ps = 1, .correlation_id = 7});
//   std::string bytes = t.Bytes();
//
// Builders of planes and lines are handles into their TraceBuilder, which must outlive them. A
// second request for a plane or a stream returns the same one; Line() always adds a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/xplane.pb.h"

namespace xplane_time::testing {

// A string by reference: the stat has the id of a stat metadata entry with this name.
struct Ref {
  std::string text;
};
struct RawBytes {
  std::string bytes;
};
struct Gzipped {
  std::string bytes;
};
using StatContent = std::variant<int64_t, uint64_t, double, std::string, Ref, RawBytes, Gzipped>;

struct StatSpec {
  std::string name{};
  StatContent value{};
};

// Any event. Events with equal names and metadata stats share an event metadata entry.
struct EventSpec {
  std::string name{};
  std::string display_name{};
  int64_t start_ps = 0;
  int64_t duration_ps = 0;                   // may be negative
  std::optional<int64_t> num_occurrences{};  // instead of a start, for an aggregated event
  std::optional<int64_t> metadata_id{};      // written unchanged, without a metadata entry
  std::vector<StatSpec> stats{};
  std::vector<StatSpec> metadata_stats{};
};

struct LineSpec {
  int64_t id = 0;
  std::string name{};
  std::string display_name{};
  int64_t timestamp_ns = 0;
};

// A kernel or a copy on a GPU stream. Stats with zero or empty values are not written.
struct KernelSpec {
  std::string name{};
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  std::string hlo_module{};
  std::optional<int64_t> program_id{};
  std::string hlo_op{};
  uint64_t correlation_id = 0;
  int64_t scope_range_id = 0;
  std::string tf_op{};
  std::vector<StatSpec> stats{};
};

// An execution of a compiled function on a TPU, named `name(program_id)`.
struct ModuleSpec {
  std::string name{};
  uint64_t program_id = 0;
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  int64_t run_id = 0;
};

struct OpSpec {
  std::string name{};
  int64_t start_ps = 0;  // profile clock
  int64_t duration_ps = 0;
  std::optional<int64_t> device_offset_ps{};
  std::optional<int64_t> device_duration_ps{};
  std::string hlo_category{};  // this and the following are stats of the event metadata
  std::string tf_op{};
  std::optional<int64_t> flops{};
  std::optional<int64_t> bytes_accessed{};
};

// A kernel launch on a host thread.
struct LaunchSpec {
  std::string name = "hipModuleLaunchKernel";
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  uint64_t correlation_id = 0;
  std::string hlo_module{};
  std::optional<int64_t> program_id{};
  std::string hlo_op{};
};

// An execution on a CPU thread.
struct ThunkSpec {
  std::string name{};  // empty: hlo_op
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  std::string hlo_op{};
  std::string hlo_module{};
  std::optional<int64_t> program_id{};
  int64_t run_id = 0;
  int64_t device_ordinal = 0;
};

class LineBuilder {
 public:
  LineBuilder(proto::XPlane* plane, proto::XLine* line) : plane_(plane), line_(line) {}

  LineBuilder& Event(const EventSpec& spec);
  LineBuilder& Kernel(const KernelSpec& spec);
  LineBuilder& Launch(const LaunchSpec& spec);
  LineBuilder& Thunk(const ThunkSpec& spec);
  // The host event `<module>:XLA GPU module`.
  LineBuilder& ModuleExecution(std::string_view module, int64_t start_ps, int64_t duration_ps);

  proto::XLine& proto() { return *line_; }

 private:
  proto::XPlane* plane_;
  proto::XLine* line_;
};

class PlaneBuilder {
 public:
  explicit PlaneBuilder(proto::XPlane* plane) : plane_(plane) {}

  LineBuilder Line(const LineSpec& spec);
  // "Stream #ID(KIND)"; with an empty kind "Stream #ID".
  LineBuilder Stream(int64_t id, std::string_view kind = "Kernel", int64_t timestamp_ns = 0);
  // A host thread.
  LineBuilder Thread(std::string_view name, int64_t timestamp_ns = 0);
  PlaneBuilder& Stat(const StatSpec& spec);

  proto::XPlane& proto() { return *plane_; }

 protected:
  // The first line with this name, or a new one.
  LineBuilder NamedLine(const LineSpec& spec);

  proto::XPlane* plane_;
};

class TpuBuilder : public PlaneBuilder {
 public:
  using PlaneBuilder::PlaneBuilder;

  TpuBuilder& Module(const ModuleSpec& spec);
  TpuBuilder& Op(const OpSpec& spec);
  // On `Async XLA Ops`.
  TpuBuilder& AsyncOp(const OpSpec& spec);

 private:
  TpuBuilder& AddOp(const LineSpec& line, const OpSpec& spec);
};

class TraceBuilder {
 public:
  TraceBuilder() = default;
  TraceBuilder(const TraceBuilder&) = delete;
  TraceBuilder& operator=(const TraceBuilder&) = delete;

  PlaneBuilder Plane(std::string_view name);  // the first plane with this name, or a new one
  PlaneBuilder Gpu(int64_t ordinal);
  TpuBuilder Tpu(int64_t ordinal);
  PlaneBuilder Host();  // "/host:CPU"

  // The plane `Task Environment`.
  TraceBuilder& Environment(uint64_t start_unix_ns, uint64_t stop_unix_ns);
  TraceBuilder& Hostname(std::string_view name);
  // Adds the parent of a scope range to the plane with scope ranges.
  TraceBuilder& ScopeParent(int64_t child, int64_t parent);
  // Adds `by_ns` to the timestamp of every line that exists so far.
  TraceBuilder& ShiftTimestamps(int64_t by_ns);

  proto::XSpace& proto() { return space_; }
  const proto::XSpace& proto() const { return space_; }
  std::string Bytes() const;  // deterministic

 private:
  proto::XSpace space_;
};

}  // namespace xplane_time::testing
