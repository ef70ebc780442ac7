#include "tests/support/trace_builder.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

namespace xplane_time::testing {
namespace {

constexpr int64_t kPsPerNs = 1000;

int64_t StatMetadataId(proto::XPlane* plane, std::string_view name) {
  int64_t next = 1;
  for (const auto& [id, metadata] : plane->stat_metadata()) {
    if (metadata.name() == name) return id;
    next = std::max(next, id + 1);
  }
  proto::XStatMetadata& added = (*plane->mutable_stat_metadata())[next];
  added.set_id(next);
  added.set_name(std::string(name));
  return next;
}

struct StatWriter {
  proto::XPlane* plane;
  proto::XStat* stat;

  void operator()(int64_t value) const { stat->set_int64_value(value); }
  void operator()(uint64_t value) const { stat->set_uint64_value(value); }
  void operator()(double value) const { stat->set_double_value(value); }
  void operator()(const std::string& value) const { stat->set_str_value(value); }
  void operator()(const Ref& value) const {
    stat->set_ref_value(static_cast<uint64_t>(StatMetadataId(plane, value.text)));
  }
  void operator()(const RawBytes& value) const { stat->set_bytes_value(value.bytes); }
  void operator()(const Gzipped& value) const { stat->set_compressed_str_value(value.bytes); }
};

void WriteStat(proto::XPlane* plane, const StatSpec& spec, proto::XStat* stat) {
  stat->set_metadata_id(StatMetadataId(plane, spec.name));
  std::visit(StatWriter{plane, stat}, spec.value);
}

int64_t EventMetadataId(proto::XPlane* plane, const EventSpec& spec) {
  proto::XEventMetadata wanted;
  wanted.set_name(spec.name);
  wanted.set_display_name(spec.display_name);
  for (const StatSpec& stat : spec.metadata_stats) WriteStat(plane, stat, wanted.add_stats());
  int64_t next = 1;
  for (const auto& [id, metadata] : plane->event_metadata()) {
    wanted.set_id(id);
    if (metadata.SerializeAsString() == wanted.SerializeAsString()) return id;
    next = std::max(next, id + 1);
  }
  wanted.set_id(next);
  (*plane->mutable_event_metadata())[next] = wanted;
  return next;
}

// Adds a text that is not empty as a stat by reference, the usual form of names in real traces.
void AddText(std::string_view name, const std::string& text, std::vector<StatSpec>* stats) {
  if (!text.empty()) stats->push_back({.name = std::string(name), .value = Ref{text}});
}

void AddNumber(std::string_view name, std::optional<int64_t> value, std::vector<StatSpec>* stats) {
  if (value) stats->push_back({.name = std::string(name), .value = *value});
}

}  // namespace

LineBuilder& LineBuilder::Event(const EventSpec& spec) {
  proto::XEvent* event = line_->add_events();
  event->set_metadata_id(spec.metadata_id ? *spec.metadata_id : EventMetadataId(plane_, spec));
  if (spec.num_occurrences) {
    event->set_num_occurrences(*spec.num_occurrences);
  } else {
    event->set_offset_ps(spec.start_ps - line_->timestamp_ns() * kPsPerNs);
  }
  event->set_duration_ps(spec.duration_ps);
  for (const StatSpec& stat : spec.stats) WriteStat(plane_, stat, event->add_stats());
  return *this;
}

LineBuilder& LineBuilder::Kernel(const KernelSpec& spec) {
  std::vector<StatSpec> stats;
  if (spec.correlation_id != 0) {
    stats.push_back({.name = "correlation_id", .value = spec.correlation_id});
  }
  AddText("tf_op", spec.tf_op, &stats);
  AddText("hlo_op", spec.hlo_op, &stats);
  AddText("hlo_module", spec.hlo_module, &stats);
  AddNumber("program_id", spec.program_id, &stats);
  if (spec.scope_range_id != 0) AddNumber("scope_range_id", spec.scope_range_id, &stats);
  stats.insert(stats.end(), spec.stats.begin(), spec.stats.end());
  return Event({.name = spec.name,
                .start_ps = spec.start_ps,
                .duration_ps = spec.duration_ps,
                .stats = std::move(stats)});
}

LineBuilder& LineBuilder::Launch(const LaunchSpec& spec) {
  return Kernel({.name = spec.name,
                 .start_ps = spec.start_ps,
                 .duration_ps = spec.duration_ps,
                 .hlo_module = spec.hlo_module,
                 .program_id = spec.program_id,
                 .hlo_op = spec.hlo_op,
                 .correlation_id = spec.correlation_id});
}

LineBuilder& LineBuilder::Thunk(const ThunkSpec& spec) {
  std::vector<StatSpec> stats;
  AddText("hlo_op", spec.hlo_op, &stats);
  AddText("hlo_module", spec.hlo_module, &stats);
  AddNumber("program_id", spec.program_id, &stats);
  AddNumber("run_id", spec.run_id, &stats);
  AddNumber("device_ordinal", spec.device_ordinal, &stats);
  return Event({.name = spec.name.empty() ? spec.hlo_op : spec.name,
                .start_ps = spec.start_ps,
                .duration_ps = spec.duration_ps,
                .stats = std::move(stats)});
}

LineBuilder& LineBuilder::ModuleExecution(std::string_view module, int64_t start_ps,
                                          int64_t duration_ps) {
  return Event({.name = std::string(module) + ":XLA GPU module",
                .start_ps = start_ps,
                .duration_ps = duration_ps});
}

LineBuilder PlaneBuilder::Line(const LineSpec& spec) {
  proto::XLine* line = plane_->add_lines();
  line->set_id(spec.id);
  line->set_name(spec.name);
  line->set_display_name(spec.display_name);
  line->set_timestamp_ns(spec.timestamp_ns);
  return LineBuilder(plane_, line);
}

LineBuilder PlaneBuilder::NamedLine(const LineSpec& spec) {
  for (proto::XLine& line : *plane_->mutable_lines()) {
    if (line.name() == spec.name) return LineBuilder(plane_, &line);
  }
  return Line(spec);
}

LineBuilder PlaneBuilder::Stream(int64_t id, std::string_view kind, int64_t timestamp_ns) {
  std::string name = "Stream #" + std::to_string(id);
  if (!kind.empty()) name += "(" + std::string(kind) + ")";
  return NamedLine({.id = id, .name = name, .timestamp_ns = timestamp_ns});
}

LineBuilder PlaneBuilder::Thread(std::string_view name, int64_t timestamp_ns) {
  return NamedLine(
      {.id = 1000 + plane_->lines_size(), .name = std::string(name), .timestamp_ns = timestamp_ns});
}

PlaneBuilder& PlaneBuilder::Stat(const StatSpec& spec) {
  WriteStat(plane_, spec, plane_->add_stats());
  return *this;
}

TpuBuilder& TpuBuilder::Module(const ModuleSpec& spec) {
  NamedLine({.id = 2, .name = "XLA Modules"})
      .Event({.name = spec.name + "(" + std::to_string(spec.program_id) + ")",
              .start_ps = spec.start_ps,
              .duration_ps = spec.duration_ps,
              .stats = {{.name = "run_id", .value = spec.run_id}}});
  return *this;
}

TpuBuilder& TpuBuilder::Op(const OpSpec& spec) { return AddOp({.id = 3, .name = "XLA Ops"}, spec); }

TpuBuilder& TpuBuilder::AsyncOp(const OpSpec& spec) {
  return AddOp({.id = 4, .name = "Async XLA Ops"}, spec);
}

TpuBuilder& TpuBuilder::AddOp(const LineSpec& line, const OpSpec& spec) {
  std::vector<StatSpec> stats;
  if (spec.device_offset_ps) {
    const auto offset_ps = static_cast<uint64_t>(*spec.device_offset_ps);
    stats.push_back({.name = "device_offset_ps", .value = offset_ps});
  }
  if (spec.device_duration_ps) {
    const auto duration_ps = static_cast<uint64_t>(*spec.device_duration_ps);
    stats.push_back({.name = "device_duration_ps", .value = duration_ps});
  }
  std::vector<StatSpec> metadata_stats;
  AddText("hlo_category", spec.hlo_category, &metadata_stats);
  AddText("tf_op", spec.tf_op, &metadata_stats);
  AddNumber("flops", spec.flops, &metadata_stats);
  AddNumber("bytes_accessed", spec.bytes_accessed, &metadata_stats);
  NamedLine(line).Event({.name = "%" + spec.name + " = f32[8]{0} op()",
                         .display_name = spec.name,
                         .start_ps = spec.start_ps,
                         .duration_ps = spec.duration_ps,
                         .stats = std::move(stats),
                         .metadata_stats = std::move(metadata_stats)});
  return *this;
}

PlaneBuilder TraceBuilder::Plane(std::string_view name) {
  for (proto::XPlane& plane : *space_.mutable_planes()) {
    if (plane.name() == name) return PlaneBuilder(&plane);
  }
  proto::XPlane* plane = space_.add_planes();
  plane->set_name(std::string(name));
  plane->set_id(space_.planes_size());
  return PlaneBuilder(plane);
}

PlaneBuilder TraceBuilder::Gpu(int64_t ordinal) {
  return Plane("/device:GPU:" + std::to_string(ordinal));
}

TpuBuilder TraceBuilder::Tpu(int64_t ordinal) {
  return TpuBuilder(&Plane("/device:TPU:" + std::to_string(ordinal)).proto());
}

PlaneBuilder TraceBuilder::Host() { return Plane("/host:CPU"); }

TraceBuilder& TraceBuilder::Environment(uint64_t start_unix_ns, uint64_t stop_unix_ns) {
  Plane("Task Environment")
      .Stat({.name = "profile_start_time", .value = start_unix_ns})
      .Stat({.name = "profile_stop_time", .value = stop_unix_ns});
  return *this;
}

TraceBuilder& TraceBuilder::Hostname(std::string_view name) {
  space_.add_hostnames(std::string(name));
  return *this;
}

TraceBuilder& TraceBuilder::ScopeParent(int64_t child, int64_t parent) {
  proto::XStat* stat = Plane("/host:__ScopeRangeCallStack__").proto().add_stats();
  stat->set_metadata_id(child);
  stat->set_int64_value(parent);
  return *this;
}

TraceBuilder& TraceBuilder::ShiftTimestamps(int64_t by_ns) {
  for (proto::XPlane& plane : *space_.mutable_planes()) {
    for (proto::XLine& line : *plane.mutable_lines()) {
      line.set_timestamp_ns(line.timestamp_ns() + by_ns);
    }
  }
  return *this;
}

std::string TraceBuilder::Bytes() const {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps by key
    space_.SerializeToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace xplane_time::testing
