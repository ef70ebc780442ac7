#include "read/internals.h"

#include <algorithm>
#include <set>

#include "status.h"

namespace xplane_time {
namespace {

// UTF-8, perhaps cut short, without control characters: each message in a trace has some.
bool IsText(std::string_view bytes) {
  int more = 0;  // bytes of a character
  return std::all_of(bytes.begin(), bytes.end(), [&more](char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (more > 0) {
      --more;
      return byte >> 6 == 2;
    }
    more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc2 ? 1 : 0;
    if (more > 0) return byte < 0xf5;
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
}

// Its first field passes for a plane.
bool IsSummary(std::string_view bytes) {
  constexpr std::string_view kBeginning = "xplane-time.summary.";  // behind a tag and a length
  return bytes.substr(std::min<size_t>(bytes.size(), 2)).starts_with(kBeginning);
}

// What a file that is no trace looks like, with the way out; empty: no idea.
std::string_view LooksLike(std::string_view bytes) {
  static constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
      {"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f",
       "it is a Riegeli file (continuous capture); record with jax.profiler.trace, "
       "which writes .xplane.pb"},
      {"\x7f"
       "ELF",
       "it is a program"},
      {"PK\x03\x04", "it is a zip archive; unpack it"},
      {"SQLite format 3",
       "it is an SQLite database (an Nsight export?); only XPlane traces are read"},
      {"\x1f\x8b", "it is gzip inside gzip; inflate it once"}};
  if (IsSummary(bytes)) {
    return "it is a summary of traces; xplane-time fleet, merge and compare take it";
  }
  for (const auto& [beginning, meaning] : kBeginnings) {
    if (bytes.starts_with(beginning)) return meaning;
  }
  return IsText(bytes.substr(0, 512)) ? "it looks like text" : "";
}

// A line feed before text passes for a plane.
absl::Status NotATrace(const WireCursor& at, std::string_view bytes, const std::string& path) {
  if (const std::string_view guess = LooksLike(bytes); !guess.empty()) {
    return DataLoss(path, ": not an XPlane trace: ", guess, " (byte ", at.offset(), ")");
  }
  return DamageError(at.error(), {.file = path, .byte_offset = at.offset()});
}

// The beginning of a field: its tag, and the length where it has one.
constexpr size_t kMostHeaderBytes = 20;

}  // namespace

absl::Status SpaceGuard::Add(std::string_view bytes) {
  if (head_.empty()) head_ = bytes.substr(0, kHeadBytes);
  rest_.append(bytes);
  while (next_ + kMostHeaderBytes <= begin_ + rest_.size()) {
    RETURN_IF_ERROR(PassField(std::string_view(rest_).substr(next_ - begin_)));
  }
  const size_t passed = std::min<uint64_t>(next_ - begin_, rest_.size());
  rest_.erase(0, passed);
  begin_ += passed;
  return absl::OkStatus();
}

absl::Status SpaceGuard::PassField(std::string_view bytes) {
  WireCursor cursor(bytes, next_);
  WireField field;
  if (!cursor.ReadTag(&field.number, &field.type)) {
    return NotATrace(cursor, head_, name_);
  }
  const bool is_known = field.type == WireType::kLength && field.number <= 4;
  if (next_ == 0 && !is_known) {
    const std::string_view guess = LooksLike(head_);
    return DataLoss(name_, ": not an XPlane trace: ",
                    guess.empty() ? "it does not begin like one" : std::string(guess), " (byte 0)");
  }
  uint64_t length = 0;
  bool ok = true;
  if (field.type == WireType::kLength) {
    ok = cursor.ReadVarint(&length);
    if (ok && length > most_bytes_) {
      return DataLoss(name_, ": not an XPlane trace: a length of ", length, " (byte ", next_, ")");
    }
  } else {
    ok = cursor.ReadValue(&field);
  }
  if (!ok) return NotATrace(cursor, head_, name_);
  if (!is_known) unknown_bytes_ += cursor.offset() + length - next_;
  if (unknown_bytes_ > kMostUnknownBytes) {
    return DamageError("fields that no trace has", {.file = name_, .byte_offset = next_});
  }
  next_ = cursor.offset() + length;
  return absl::OkStatus();
}

absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path) {
  SpaceScan scan;
  std::vector<size_t> file_of_plane;                 // of the files appended to each other
  std::vector<std::set<std::string_view>> hosts(1);  // of each of them
  WireCursor cursor(bytes, 0, 0);
  if (IsSummary(bytes)) return NotATrace(cursor, bytes, path);
  bool tail_seen = false;
  while (!cursor.done()) {
    WireField field;
    if (!cursor.ReadField(&field)) return NotATrace(cursor, bytes, path);
    if (field.type != WireType::kLength || field.number > 4) continue;
    if (field.number == 1) {
      if (tail_seen) hosts.emplace_back();
      file_of_plane.push_back(hosts.size() - 1);
      scan.planes.push_back({{field.offset, field.bytes.size()}});
    } else {
      auto& texts = field.number == 2   ? scan.errors
                    : field.number == 3 ? scan.warnings
                                        : scan.hostnames;
      texts.push_back(field.bytes);
      if (field.number == 4) hosts.back().insert(field.bytes);
    }
    tail_seen = field.number != 1;
  }
  const std::set<std::string_view> all(scan.hostnames.begin(), scan.hostnames.end());
  for (size_t i = 0; i < scan.planes.size(); ++i) {
    const auto& own = hosts[file_of_plane[i]];
    const auto& possible = own.empty() ? all : own;
    if (possible.size() == 1) scan.planes[i].host = *possible.begin();
  }
  return scan;
}

}  // namespace xplane_time
