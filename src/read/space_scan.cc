#include "read/space_scan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "read/event_source.h"
#include "read/wire.h"

namespace xplane_time {
namespace {

// What a file that is no trace looks like, with the way out; empty: no idea.
std::string_view LooksLike(std::string_view bytes) {
  constexpr std::string_view kRiegeli("\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", 8);
  if (bytes.starts_with(kRiegeli)) {
    return "it is a Riegeli file (continuous capture); record with jax.profiler.trace, "
           "which writes .xplane.pb";
  }
  if (bytes.starts_with("{") || bytes.starts_with("[")) {
    return "it looks like JSON (trace.json?); give the .xplane.pb beside it";
  }
  if (bytes.starts_with("\x7f"
                        "ELF")) {
    return "it is a program";
  }
  if (bytes.starts_with("PK\x03\x04")) return "it is a zip archive; unpack it";
  if (bytes.starts_with("SQLite format 3")) {
    return "it is an SQLite database (an Nsight export?); only XPlane traces are read";
  }
  if (bytes.starts_with("\x1f\x8b")) return "it is gzip inside gzip; inflate it once";
  const std::string_view head = bytes.substr(0, 512);
  const bool text = std::all_of(head.begin(), head.end(), [](char c) {
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
  return text ? "it looks like text" : "";
}

absl::Status NotATrace(const WireCursor& at, std::string_view bytes, const std::string& path,
                       bool any_plane) {
  const std::string_view guess = any_plane ? "" : LooksLike(bytes);
  if (!guess.empty()) {
    return absl::DataLossError(
        absl::StrCat(path, ": not an XPlane trace: ", absl::string_view(guess.data(), guess.size()),
                     " (byte ", at.offset(), ")"));
  }
  return DamageError(at.error(), {.file = path, .byte_offset = at.offset()});
}

}  // namespace

std::string_view SpaceScan::HostOf(const PlaneMessage& plane) const {
  const SegmentHost& host = segment_hosts[plane.segment];
  if (host.count > 0) return host.several ? std::string_view() : host.name;
  return whole_host.several ? std::string_view() : whole_host.name;
}

void SpaceScan::SegmentHost::Add(std::string_view hostname) {
  several |= count > 0 && hostname != name;
  name = hostname;
  ++count;
}

absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path) {
  SpaceScan scan;
  scan.segment_hosts.emplace_back();
  WireCursor cursor(bytes, 0, 0);
  bool tail_seen = false;
  while (!cursor.done()) {
    uint32_t field;
    WireType type;
    std::string_view value;
    uint64_t at = 0;
    bool ok = cursor.ReadTag(&field, &type);
    if (ok && (type != WireType::kLength || field > 4)) {
      ok = cursor.Skip(field, type);
    } else if (ok && (ok = cursor.ReadBytes(&value, &at))) {
      if (field == 1) {
        if (tail_seen) scan.segment_hosts.emplace_back();
        tail_seen = false;
        const auto segment = static_cast<uint32_t>(scan.segment_hosts.size() - 1);
        scan.planes.push_back({{at, value.size()}, segment});
      } else {
        tail_seen = true;
        if (field == 4) {
          scan.segment_hosts.back().Add(value);
          scan.whole_host.Add(value);
        }
        (field == 2 ? scan.errors : field == 3 ? scan.warnings : scan.hostnames).push_back(value);
      }
    }
    if (!ok) return NotATrace(cursor, bytes, path, !scan.planes.empty());
  }
  return scan;
}

absl::StatusOr<std::vector<ByteRange>> ScanLines(std::string_view plane_bytes, uint64_t file_offset,
                                                 const std::string& path) {
  std::vector<ByteRange> lines;
  WireCursor cursor(plane_bytes, file_offset, 1);
  while (!cursor.done()) {
    uint32_t field;
    WireType type;
    std::string_view value;
    uint64_t at = 0;
    bool ok = cursor.ReadTag(&field, &type);
    if (ok && field == 3 && type == WireType::kLength) {
      ok = cursor.ReadBytes(&value, &at);
      lines.push_back({at, value.size()});
    } else if (ok) {
      ok = cursor.Skip(field, type);
    }
    if (!ok) return DamageError(cursor.error(), {.file = path, .byte_offset = cursor.offset()});
  }
  return lines;
}

}  // namespace xplane_time
