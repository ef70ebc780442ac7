// Zip: files in one archive that any tool opens, and that has exactly one valid form.
//
//   std::string bytes = *WriteZip({{"csv/results.csv", "setting,...\n"}}, "a comment");
//   ZipContents zip = ReadZip(bytes);
//   zip.damage             // empty: the archive is exactly what WriteZip writes for these files
//   zip.damage[0].what     // "the header of csv/results.csv is not as it was written"
//
// Files are stored without compression, times and permissions. So the same files give the same
// bytes with every version of every library, a change in a file changes one place, and an archive
// is as large as its content. Reading accepts no other form: the headers, the directory and the end
// must be identical, byte by byte, to those that WriteZip makes from the names and contents. This
// excludes decompression bombs, links, and files that two tools see differently.
//
// Archives of other programs are only read to describe their content (ReadOtherZip). Not handled:
// encryption, archives of 4 GiB and more (zip64).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace xplane_time::evidence {

struct ZipFile {
  std::string name, content;
};

// Limit of an archive, and of its files together.
inline constexpr uint64_t kMostZipBytes = uint64_t{1} << 30;

// Letters, digits and ._+=,@- in parts separated by slashes; no part is empty, "." or "..".
bool IsSafeName(std::string_view name);

// Errors: InvalidArgument (an unsafe or repeated name), ResourceExhausted (over kMostZipBytes, or
// 65535 files or more).
absl::StatusOr<std::string> WriteZip(std::span<const ZipFile> files, std::string_view comment);

struct ZipEntry {
  std::string_view name, content;  // point into the bytes that were read
  uint32_t crc32 = 0;              // from its header
  bool is_sound = false;           // the content has that checksum
};

struct ZipDamage {
  uint64_t byte = 0;  // offset in the archive
  std::string what;
};

struct ZipContents {
  std::vector<ZipEntry> entries = {};  // up to the first unreadable one
  std::string_view comment = {};
  // Damage of the archive, not of the contents.
  std::vector<ZipDamage> damage = {};
};

// `bytes` must outlive the result. O(bytes).
ZipContents ReadZip(std::string_view bytes);

// Reads the files of an archive that another program packed, by its directory, and inflates them.
// Skips folders. Empty if the archive is damaged or over kMostZipBytes, has an unsafe or repeated
// name, or uses another compression than deflate.
std::optional<std::vector<ZipFile>> ReadOtherZip(std::string_view bytes);

uint32_t Crc32(std::string_view bytes);

// Positions of a single changed byte that explain why `content` no longer has this checksum; the
// actual position is one of them. The last position comes first; at most `most`. O(bytes).
std::vector<size_t> ChangedBytes(std::string_view content, uint32_t crc32, size_t most);
// The content with the original byte at this position.
std::string WithByteAsItWas(std::string_view content, size_t at, uint32_t crc32);

}  // namespace xplane_time::evidence
