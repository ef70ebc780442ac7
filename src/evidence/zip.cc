// Writes ZIP archives in one fixed form, reads only that form, and locates changed bytes.
//
// ReadZip parses the files, then writes the directory that belongs to them and compares it with the
// rest of the archive byte by byte. ReadOtherZip reads archives of other programs by their
// directory.
//
// ChangedBytes uses the linearity of CRC-32: if one byte differs, the checksums differ by a value
// that only depends on the change and on the number of bytes after it. Going backwards from the
// end, each step undoes the effect of one byte; the difference must then be that of a single byte.
// O(bytes).
#include "evidence/zip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <set>

#include "status.h"

namespace xplane_time::evidence {
namespace {

// PKWARE's APPNOTE 6.3: local headers with contents, the directory, its end.
constexpr std::string_view kLocal("PK\3\4", 4), kCentral("PK\1\2", 4), kEnd("PK\5\6", 4);
constexpr uint32_t kVersion = 20, kUnix = 3 << 8, kFirstDay = (1 << 5) | 1;  // 1980-01-01
constexpr uint32_t kPlainFile = 0100644U << 16;  // Unix permissions, in the upper half
constexpr size_t kLocalBytes = 30, kNameAt = 26, kSizeAt = 18, kCrcAt = 14;
constexpr size_t kMostFiles = 65'534, kMostName = 255;

void Put(std::string* out, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

uint64_t Get(std::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Fields that a local header and a directory entry have in common.
void PutFields(std::string* out, const ZipEntry& entry) {
  Put(out, 2, kVersion);
  Put(out, 2, 0);  // flags
  Put(out, 2, 0);  // method: stored
  Put(out, 2, 0);  // midnight
  Put(out, 2, kFirstDay);
  Put(out, 4, entry.crc32);
  Put(out, 4, entry.content.size());
  Put(out, 4, entry.content.size());
  Put(out, 2, entry.name.size());
  Put(out, 2, 0);  // no extra field
}

std::string LocalHeader(const ZipEntry& entry) {
  std::string header(kLocal);
  PutFields(&header, entry);
  header += entry.name;
  return header;
}

// The directory and its end, which follow all contents.
std::string Directory(std::span<const ZipEntry> entries, std::string_view comment) {
  std::string out;
  uint64_t at = 0;
  for (const ZipEntry& each : entries) {
    out += kCentral;
    Put(&out, 2, kUnix | kVersion);
    PutFields(&out, each);
    Put(&out, 2, 0);  // no comment
    Put(&out, 2, 0);  // one disk
    Put(&out, 2, 0);
    Put(&out, 4, kPlainFile);
    Put(&out, 4, at);
    out += each.name;
    at += kLocalBytes + each.name.size() + each.content.size();
  }
  const uint64_t bytes = out.size();
  out += kEnd;
  Put(&out, 4, 0);  // one disk
  Put(&out, 2, entries.size());
  Put(&out, 2, entries.size());
  Put(&out, 4, bytes);
  Put(&out, 4, at);
  Put(&out, 2, comment.size());
  out += comment;
  return out;
}

// Inflates `packed` to exactly `size` bytes.
std::optional<std::string> Inflated(std::string_view packed, uint64_t size) {
  constexpr uint64_t kMostRatio = 1032;  // maximum of deflate
  if (size > (packed.size() + 1) * kMostRatio) return std::nullopt;
  std::string content(size, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(size);
  const bool is_whole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return is_whole ? std::optional(std::move(content)) : std::nullopt;
}

// The content of an entry in another program's directory.
std::optional<std::string> OtherContent(std::string_view bytes, std::string_view central) {
  const uint64_t method = Get(central, 10, 2), packed = Get(central, 20, 4),
                 size = Get(central, 24, 4), local = Get(central, 42, 4);
  if (local > bytes.size() || bytes.size() - local < kLocalBytes) return std::nullopt;
  const uint64_t begin =
      local + kLocalBytes + Get(bytes, local + 26, 2) + Get(bytes, local + 28, 2);
  if (begin > bytes.size() || packed > bytes.size() - begin) return std::nullopt;
  const std::string_view content = bytes.substr(begin, packed);
  if (method == 0 && packed == size) return std::string(content);
  return method == Z_DEFLATED ? Inflated(content, size) : std::nullopt;
}

size_t FirstDifference(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The next file of `bytes` from `*at` on; empty if it is damaged, or if the directory begins.
std::optional<ZipEntry> ReadEntry(std::string_view bytes, size_t* at, ZipContents* contents) {
  const std::string_view rest = bytes.substr(*at);
  const auto damaged = [&](uint64_t byte, std::string what) {
    contents->damage.push_back({byte, std::move(what)});
    return std::nullopt;
  };
  const std::string after = contents->entries.empty()
                                ? "the first file"
                                : Cat("the file after ", contents->entries.back().name);
  if (rest.size() < kLocalBytes || !rest.starts_with(kLocal)) {
    return damaged(*at, Cat(after, " has no header; the archive was truncated or changed"));
  }
  const uint64_t name_bytes = Get(rest, kNameAt, 2), bytes_of = Get(rest, kSizeAt, 4);
  if (name_bytes + bytes_of > rest.size() - kLocalBytes) {
    return damaged(*at + kSizeAt, Cat(after, " is longer than the archive"));
  }
  const ZipEntry entry = {.name = rest.substr(kLocalBytes, name_bytes),
                          .content = rest.substr(kLocalBytes + name_bytes, bytes_of),
                          .crc32 = static_cast<uint32_t>(Get(rest, kCrcAt, 4))};
  if (!IsSafeName(entry.name)) {
    return damaged(*at + kLocalBytes, Cat(after, " has an invalid name"));
  }
  const std::string header = LocalHeader(entry);
  if (!rest.starts_with(header)) {
    contents->damage.push_back(
        {*at + FirstDifference(rest, header),
         Cat("the header of ", entry.name, " was changed after it was written")});
  }
  *at += header.size() + entry.content.size();
  return entry;
}

constexpr uint32_t kPolynomial = 0xEDB88320;

// The step of the checksum for each byte, and the byte for the highest eight bits of a step.
struct CrcTable {
  std::array<uint32_t, 256> step = {};
  std::array<uint8_t, 256> of_high = {};

  constexpr CrcTable() {
    for (uint32_t i = 0; i < step.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0);
      step[i] = value;
      of_high[value >> 24] = static_cast<uint8_t>(i);
    }
  }
};
constexpr CrcTable kCrc;

}  // namespace

uint32_t Crc32(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

bool IsSafeName(std::string_view name) {
  constexpr std::string_view kOthers = "._+=,@-/";
  if (name.size() > kMostName) return false;
  for (const char c : name) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_plain && kOthers.find(c) == std::string_view::npos) return false;
  }
  for (;;) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

absl::StatusOr<std::string> WriteZip(std::span<const ZipFile> files, std::string_view comment) {
  std::vector<ZipEntry> entries;
  std::set<std::string_view> names;
  uint64_t bytes = 0;
  for (const ZipFile& each : files) {
    if (!IsSafeName(each.name) || !names.insert(each.name).second) {
      return InvalidArgument("\"", each.name,
                             "\" is not a valid file name in a bundle, or occurs twice");
    }
    entries.push_back({each.name, each.content, Crc32(each.content)});
    bytes += each.content.size();
  }
  if (bytes > kMostZipBytes || files.size() > kMostFiles) {
    return ResourceExhausted("a bundle of ", files.size(), " files and ", bytes,
                             " bytes; the maximum is ", kMostFiles, " and ", kMostZipBytes);
  }
  std::string out;
  for (const ZipEntry& each : entries) Append(&out, LocalHeader(each), each.content);
  return out + Directory(entries, comment);
}

ZipContents ReadZip(std::string_view bytes) {
  ZipContents contents;
  std::set<std::string_view> names;
  size_t at = 0;
  while (!bytes.substr(at).starts_with(kCentral) && !bytes.substr(at).starts_with(kEnd)) {
    const auto entry = ReadEntry(bytes, &at, &contents);
    if (!entry.has_value()) return contents;
    if (!names.insert(entry->name).second) {
      contents.damage.push_back({at, Cat(entry->name, " occurs twice")});
      return contents;
    }
    contents.entries.push_back(*entry);
    contents.entries.back().is_sound = Crc32(entry->content) == entry->crc32;
  }
  const std::string_view rest = bytes.substr(at);
  const std::string without_comment = Directory(contents.entries, "");
  // The length of the comment is in the two bytes before it.
  if (rest.size() >= without_comment.size()) contents.comment = rest.substr(without_comment.size());
  const std::string directory = Directory(contents.entries, contents.comment.substr(0, 0xffff));
  if (rest != directory) {
    contents.damage.push_back({at + FirstDifference(rest, directory),
                               "the directory of the archive was changed after it was written"});
  }
  return contents;
}

std::optional<std::vector<ZipFile>> ReadOtherZip(std::string_view bytes) {
  constexpr size_t kCentralBytes = 46, kEndBytes = 22;
  const size_t end = bytes.rfind(kEnd);
  if (end == std::string_view::npos || bytes.size() - end < kEndBytes) return std::nullopt;
  std::vector<ZipFile> files;
  std::set<std::string_view> names;
  uint64_t total = 0, at = Get(bytes, end + 16, 4);
  for (uint64_t left = Get(bytes, end + 10, 2); left > 0; --left) {
    const std::string_view rest = bytes.substr(std::min<uint64_t>(at, bytes.size()));
    if (rest.size() < kCentralBytes || !rest.starts_with(kCentral)) return std::nullopt;
    const uint64_t name_bytes = Get(rest, 28, 2);
    at += kCentralBytes + name_bytes + Get(rest, 30, 2) + Get(rest, 32, 2);
    total += Get(rest, 24, 4);
    const std::string_view name = rest.substr(kCentralBytes, name_bytes);
    if (at > bytes.size() || total > kMostZipBytes) return std::nullopt;
    if (name.ends_with('/')) continue;
    auto content = OtherContent(bytes, rest);
    const bool is_sound = content.has_value() && Crc32(*content) == Get(rest, 16, 4);
    if (!is_sound || !IsSafeName(name) || !names.insert(name).second) return std::nullopt;
    files.push_back({std::string(name), *std::move(content)});
  }
  return files;
}

// The checksum is linear: the effect of a changed byte depends only on the change and on the number
// of following bytes. From the end, each step undoes the effect of one byte.
std::vector<size_t> ChangedBytes(std::string_view content, uint32_t crc32, size_t most) {
  std::vector<size_t> places;
  uint32_t added = Crc32(content) ^ crc32;
  for (size_t at = content.size(); at-- > 0 && added != 0 && places.size() < most;) {
    const uint8_t byte = kCrc.of_high[added >> 24];
    if (kCrc.step[byte] == added) places.push_back(at);
    added = (added ^ kCrc.step[byte]) << 8 | byte;
  }
  return places;
}

std::string WithByteAsItWas(std::string_view content, size_t at, uint32_t crc32) {
  uint32_t added = Crc32(content) ^ crc32;
  for (size_t i = content.size(); i-- > at + 1;) {
    const uint8_t byte = kCrc.of_high[added >> 24];
    added = (added ^ kCrc.step[byte]) << 8 | byte;
  }
  std::string changed(content);
  changed[at] = static_cast<char>(changed[at] ^ kCrc.of_high[added >> 24]);
  return changed;
}

}  // namespace xplane_time::evidence
