#include "tests/read/dump_trace.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "read/internals.h"

namespace xplane_time::testing {
namespace {

// The text in printable characters, so that names do not break lines.
std::string Quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      quoted += c;
    } else {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return quoted + "\"";
}

class Dumper {
 public:
  Dumper(const Trace& trace, const Diagnostics& reading, VarintWay way)
      : trace_(trace), diagnostics_(reading), way_(way) {}

  absl::StatusOr<std::string> Dump() && {
    out_ << "base_ns " << trace_.files[0].base_ns << " events " << trace_.event_count
         << " captures " << trace_.capture_count << "\n";
    for (const TraceFile& file : trace_.files) File(file);
    for (const Plane& plane : trace_.planes) {
      if (absl::Status status = WholePlane(plane); !status.ok()) return status;
    }
    for (const Diagnostic& d : diagnostics_.List()) {
      out_ << "diagnostic " << DiagnosticName(d.code) << " " << d.count << " at " << d.first.file
           << "/" << d.first.plane << "/" << d.first.line << "/" << d.first.event << "/"
           << d.first.byte_offset << " " << Quoted(d.text) << "\n";
    }
    return std::move(out_).str();
  }

 private:
  void Texts(const char* key, const std::vector<std::string_view>& texts) {
    for (const std::string_view text : texts) out_ << "  " << key << " " << Quoted(text) << "\n";
  }

  void File(const TraceFile& file) {
    out_ << "file " << Quoted(file.path) << " bytes " << file.bytes << " capture " << file.capture;
    if (file.profile_start_unix_ns) out_ << " start " << *file.profile_start_unix_ns;
    if (file.profile_stop_unix_ns) out_ << " stop " << *file.profile_stop_unix_ns;
    out_ << "\n";
    Texts("hostname", file.hostnames);
    Texts("error", file.errors);
    Texts("warning", file.warnings);
  }

  absl::Status WholePlane(const Plane& plane) {
    out_ << "plane " << plane.id << " " << Quoted(plane.name) << " file " << plane.file << " host "
         << Quoted(plane.host) << " bytes " << plane.bytes.offset << "+" << plane.bytes.size
         << "\n";
    for (const Stat& stat : plane.stats) OneStat("  ", stat);
    EventTable(plane);
    StatTable(plane);
    for (uint32_t i = 0; i < plane.line_count; ++i) {
      if (absl::Status status = WholeLine(plane, plane.first_line + i); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  void OneStat(const char* indent, const Stat& stat) {
    out_ << indent << "stat " << stat.metadata_id << " " << ShowValue(stat.value) << "\n";
  }

  // Indices of a table in the order of their ids.
  template <typename Entry>
  static std::vector<std::pair<int64_t, uint32_t>> ById(const MetadataTable<Entry>& table) {
    std::vector<std::pair<int64_t, uint32_t>> ids;
    for (uint32_t i = 0; i < table.entries.size(); ++i) {
      if (table.Find(table.entries[i].id) != i) std::abort();
      ids.emplace_back(table.entries[i].id, i);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  void EventTable(const Plane& plane) {
    out_ << "  event metadata " << plane.event_metadata.entries.size() << "\n";
    for (const auto& [id, at] : ById(plane.event_metadata)) {
      const EventMetadata& entry = plane.event_metadata.entries[at];
      out_ << "    " << id << "=" << entry.id << " " << Quoted(entry.name) << " "
           << Quoted(entry.display_name) << "\n";
      for (uint32_t i = 0; i < entry.stat_count; ++i) {
        OneStat("      ", plane.metadata_stats[entry.first_stat + i]);
      }
    }
  }

  void StatTable(const Plane& plane) {
    out_ << "  stat metadata " << plane.stat_metadata.entries.size() << "\n";
    for (const auto& [id, at] : ById(plane.stat_metadata)) {
      const StatMetadata& entry = plane.stat_metadata.entries[at];
      out_ << "    " << id << "=" << entry.id << " " << Quoted(entry.name) << "\n";
    }
  }

  absl::Status WholeLine(const Plane& plane, uint32_t index) {
    const Line& line = trace_.lines[index];
    out_ << "  line " << line.id << " " << Quoted(line.name) << " shown " << line.display_id << " "
         << Quoted(line.display_name) << " plane " << line.plane << " timestamp "
         << line.timestamp_ns << " events " << line.event_count << " bytes " << line.bytes.offset
         << "+" << line.bytes.size << "\n";
    std::vector<std::string_view> names = AllStatNames(plane);
    const auto show = [&](const EventBatch& batch) {
      Batch(plane, batch, names);
      return absl::OkStatus();
    };
    if (way_ == VarintWay::kBest) return VisitEvents(trace_, index, names, &diagnostics_, show);
    BatchBuilder builder(trace_, names, &diagnostics_);
    builder.StartLine(index);
    const auto decoder = MakeWireLineDecoder(trace_, index, {line.bytes, 0}, way_);
    for (;;) {
      builder.Clear();
      if (absl::Status status = decoder->Fill(&builder); !status.ok()) return status;
      const EventBatch batch = builder.Batch();
      if (batch.size() == 0) return absl::OkStatus();
      Batch(plane, batch, names);
    }
  }

  void Batch(const Plane& plane, const EventBatch& batch,
             const std::vector<std::string_view>& names) {
    out_ << "    batch of line " << batch.line << " with " << batch.size() << "\n";
    for (size_t row = 0; row < batch.size(); ++row) {
      out_ << "    event " << batch.event[row] << " start " << batch.start_ps[row] << " duration "
           << batch.duration_ps[row] << " occurrences " << batch.occurrences[row] << " id "
           << batch.metadata_id[row] << " "
           << Quoted(EventName(plane, batch.metadata[row], batch.metadata_id[row])) << " at "
           << EventOffset(batch.line, batch.event[row]) << "\n";
      for (size_t column = 0; column < names.size(); ++column) {
        const StatValue& value = batch.Stat(column, row);
        if (value.type == StatType::kAbsent) continue;
        out_ << "      " << Quoted(names[column]) << " " << ShowValue(value) << "\n";
      }
    }
  }

  // Quadratic in the events of a line, so only the first events are checked.
  std::string EventOffset(uint32_t line, uint64_t event) const {
    return event < 64 ? std::to_string(EventByteOffset(trace_, line, event)) : "-";
  }

  const Trace& trace_;
  Diagnostics diagnostics_;
  const VarintWay way_;
  std::ostringstream out_;
};

absl::StatusOr<std::string> DumpOpened(const absl::StatusOr<Trace>& trace,
                                       const Diagnostics& reading,
                                       VarintWay way = VarintWay::kBest) {
  if (!trace.ok()) return trace.status();
  return Dumper(*trace, reading, way).Dump();
}

}  // namespace

std::string ShowValue(const StatValue& value) {
  constexpr const char* kNames[] = {"absent", "double", "uint64", "int64",
                                    "str",    "bytes",  "ref",    "compressed_str"};
  std::string shown = kNames[static_cast<size_t>(value.type)];
  switch (value.type) {
    case StatType::kAbsent:
      return shown;
    case StatType::kDouble:
    case StatType::kUint64:
      return shown + " " + std::to_string(value.bits);
    case StatType::kInt64:
      return shown + " " + std::to_string(static_cast<int64_t>(value.bits));
    case StatType::kRef:
      return shown + " " + std::to_string(value.bits) + " " + Quoted(value.text);
    case StatType::kString:
    case StatType::kBytes:
    case StatType::kCompressedString:
      break;
  }
  return shown + " " + Quoted(value.text);
}

std::vector<std::string_view> AllStatNames(const Plane& plane) {
  std::vector<std::string_view> names = {"no plane has a stat of this name"};
  for (const StatMetadata& entry : plane.stat_metadata.entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::StatusOr<std::string> DumpBytes(std::string_view bytes, Reader reader) {
  Diagnostics diagnostics;
  return DumpOpened(OpenTraceFromMemory(bytes, "trace", {.reader = reader}, &diagnostics),
                    diagnostics);
}

absl::StatusOr<std::string> DumpInputs(std::span<const Input> inputs, Reader reader) {
  Diagnostics diagnostics;
  return DumpOpened(OpenTrace(inputs, {.reader = reader}, &diagnostics), diagnostics);
}

std::string Disagreement(const absl::StatusOr<std::string>& wire,
                         const absl::StatusOr<std::string>& protobuf) {
  if (!wire.ok() && !protobuf.ok()) return "";
  if (wire.ok() && !protobuf.ok()) return "only wire accepts: " + protobuf.status().ToString();
  if (!wire.ok()) return "only protobuf accepts: " + wire.status().ToString();
  if (*wire == *protobuf) return "";
  std::istringstream a(*wire), b(*protobuf);
  std::string line_a, line_b;
  while (std::getline(a, line_a), std::getline(b, line_b), line_a == line_b && (a || b)) {
  }
  return "wire:     " + line_a + "\nprotobuf: " + line_b;
}

std::string DisagreementOn(std::string_view bytes) {
  const absl::StatusOr<std::string> wire = DumpBytes(bytes, Reader::kWire);
  Diagnostics diagnostics;
  const absl::StatusOr<std::string> portable = DumpOpened(
      OpenTraceFromMemory(bytes, "trace", {}, &diagnostics), diagnostics, VarintWay::kPortable);
  if (wire.status() != portable.status() || (wire.ok() && *wire != *portable)) {
    return "the portable way differs: " + portable.status().ToString();
  }
  return Disagreement(wire, DumpBytes(bytes, Reader::kProtobuf));
}

}  // namespace xplane_time::testing
