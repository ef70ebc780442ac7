#include "read/internals.h"

#include <algorithm>
#include <set>

#include "status.h"

namespace xplane_time {
namespace {

// Whether the bytes are UTF-8 text without control characters, possibly cut. Every trace message
// has control characters.
bool IsText(std::string_view bytes) {
  int more = 0;  // remaining bytes of a character
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

// A summary file begins with a field that would pass for a plane.
bool IsSummary(std::string_view bytes) {
  constexpr std::string_view kBeginning = "xplane-time.summary.";  // after a tag and a length
  return bytes.substr(std::min<size_t>(bytes.size(), 2)).starts_with(kBeginning);
}

// Formats that users often confuse with traces. They begin differently from an XSpace.
std::string_view FindOtherFormat(std::string_view bytes) {
  using namespace std::string_view_literals;
  static constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
      {"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f"sv,
       "it is a Riegeli file (continuous capture); record with jax.profiler.trace, "
       "which writes .xplane.pb"sv},
      {"\x7f"
       "ELF"sv,
       "it is a program"sv},
      {"PK\x03\x04"sv, "it is a zip archive; unpack it (unzip) and give the trace in it"sv},
      {"SQLite format 3"sv,
       "it is an SQLite database, such as an export of Nsight Systems, which is not supported; record with jax.profiler, which writes .xplane.pb, or with torch.profiler, which writes JSON"sv},
      {"\xfd"
       "7zXZ\x00"sv,
       "it is compressed with xz; decompress it (xz -d)"sv},
      {"\x28\xb5\x2f\xfd"sv, "it is compressed with Zstandard; decompress it (zstd -d)"sv},
      {"\x04\x22\x4d\x18"sv, "it is compressed with LZ4; decompress it (lz4 -d)"sv},
      {"BZh"sv, "it is compressed with bzip2; decompress it (bzip2 -d)"sv},
      {"7z\xbc\xaf\x27\x1c"sv, "it is a 7z archive; unpack it and give the trace in it"sv},
      {"\x1f\x8b"sv, "it is gzip inside gzip; decompress it once"sv}};
  for (const auto& [beginning, meaning] : kBeginnings) {
    if (bytes.starts_with(beginning)) return meaning;
  }
  constexpr size_t kTarMagic = 257;
  if (bytes.size() > kTarMagic && bytes.substr(kTarMagic).starts_with("ustar")) {
    return "it is a tar archive; unpack it (tar -xf) and give the trace or the directory in it";
  }
  constexpr std::string_view kUtf16[] = {"\xff\xfe"sv, "\xfe\xff"sv, "{\0"sv,
                                         "[\0"sv,      "\0{"sv,      "\0["sv};
  for (const std::string_view beginning : kUtf16) {
    if (bytes.starts_with(beginning)) {
      return "it is text in UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)";
    }
  }
  return {};
}

// A Perfetto trace (.pftrace) also consists of nested messages, but these are packets instead of
// planes.
bool IsPerfetto(std::string_view bytes) {
  constexpr size_t kMaxMessages = 16, kMaxFields = 64;
  constexpr uint32_t kOnlyInPackets[] = {8, 10, 58, 60, 79};  // timestamp, ids, clock, track
  size_t messages = 0, packets = 0;
  WireCursor cursor(bytes, 0, 0);
  WireField message;
  for (; messages < kMaxMessages && !cursor.done(); ++messages) {
    if (!cursor.ReadField(&message) || message.key() != Length(1)) break;
    WireCursor inside(message.bytes, message.offset, 1);
    WireField field;
    bool is_packet = false;
    for (size_t i = 0; i < kMaxFields && !inside.done() && inside.ReadField(&field); ++i) {
      is_packet |= std::ranges::count(kOnlyInPackets, field.number) > 0;
    }
    packets += is_packet ? 1 : 0;
  }
  return packets > 0 && 2 * packets >= messages;
}

// Description of a file that is not a trace, with a remedy. Empty: it may be a trace.
std::string_view FindOtherKind(std::string_view bytes) {
  if (IsSummary(bytes)) {
    return "it is a summary of traces; use xplane-time fleet, merge or compare";
  }
  if (const std::string_view format = FindOtherFormat(bytes); !format.empty()) return format;
  return IsPerfetto(bytes) ? "it is a Perfetto trace (.pftrace), which is not supported; give the "
                             "original .xplane.pb or JSON of torch.profiler"
                           : "";
}

// The same for a file that could not be parsed. It also recognizes text.
std::string_view LooksLike(std::string_view bytes) {
  const std::string_view other = FindOtherKind(bytes);
  if (!other.empty()) return other;
  return IsText(bytes.substr(0, 512)) ? "it looks like text" : "";
}

// The error for a file that cannot be parsed: the recognized format, or the damage. Text is checked
// here, because a line feed before text passes for a plane.
absl::Status NotATrace(const WireCursor& at, std::string_view bytes, const std::string& path) {
  if (const std::string_view guess = LooksLike(bytes); !guess.empty()) {
    return DataLoss(path, ": not an XPlane trace: ", guess, " (byte ", at.offset(), ")");
  }
  return DamageError(at.error(), {.file = path, .byte_offset = at.offset()});
}

// Maximum size of the beginning of a field: its tag and length.
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
                    guess.empty() ? "it does not start like one" : std::string(guess), " (byte 0)");
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
    return DamageError("fields that no trace contains", {.file = name_, .byte_offset = next_});
  }
  next_ = cursor.offset() + length;
  return absl::OkStatus();
}

absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path) {
  SpaceScan scan;
  std::vector<size_t> file_of_plane;                 // index of the concatenated file
  std::vector<std::set<std::string_view>> hosts(1);  // by concatenated file
  WireCursor cursor(bytes, 0, 0);
  if (!FindOtherKind(bytes).empty()) return NotATrace(cursor, bytes, path);
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
