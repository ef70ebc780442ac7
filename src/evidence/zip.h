// Zip: files in one archive that any tool opens, and that has one way to be written.
//
//   std::string bytes = *WriteZip({{"csv/results.csv", "setting,...\n"}}, "a comment");
//   ZipContents zip = ReadZip(bytes);
//   zip.damage             // empty: every byte is one that WriteZip writes of these files
//   zip.damage[0].what     // "the header of csv/results.csv is not as it was written"
//
// Files are stored, not compressed, with no times and no rights: the same files give the same bytes
// with every version of every library, a change in a file is a change in one place, and an archive
// holds no more than its own size. Reading takes nothing else: the headers, the directory and the
// end must be, byte for byte, what WriteZip makes of the names and contents. So there is no
// compressed bomb, no link, no file that two tools see differently.
//
// Archives of other programs are read to say what is in them (ReadOtherZip), never taken for ours.
// Not handled: encryption, 4 GiB and more (zip64).
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

// Of an archive that is written or read, and of its files together.
inline constexpr uint64_t kMostZipBytes = uint64_t{1} << 30;

// Letters, digits and ._+=,@- in parts joined by slashes; no part is empty, "." or "..".
bool IsSafeName(std::string_view name);

// Errors: InvalidArgument (a name that is not safe, or twice), ResourceExhausted (over
// kMostZipBytes, or 65535 files or more).
absl::StatusOr<std::string> WriteZip(std::span<const ZipFile> files, std::string_view comment);

struct ZipEntry {
  std::string_view name, content;  // of the bytes that were read
  uint32_t crc32 = 0;              // as its header has it
  bool is_sound = false;           // its content has that checksum
};

struct ZipDamage {
  uint64_t byte = 0;  // of the archive
  std::string what;
};

struct ZipContents {
  std::vector<ZipEntry> entries = {};  // up to what cannot be read
  std::string_view comment = {};
  // Of the archive, not of contents.
  std::vector<ZipDamage> damage = {};
};

// Of bytes that outlive it. O(bytes).
ZipContents ReadZip(std::string_view bytes);

// The files of an archive that another program packed, inflated, by its directory; folders are left
// out. None: it is damaged, or over kMostZipBytes; has a name that is not safe, or twice; is
// compressed by something else than deflate.
std::optional<std::vector<ZipFile>> ReadOtherZip(std::string_view bytes);

uint32_t Crc32(std::string_view bytes);

// Where one byte of `content` was changed since it had this checksum: the places that explain it,
// of which the right one is one, the last first; at most `most`. O(bytes).
std::vector<size_t> ChangedBytes(std::string_view content, uint32_t crc32, size_t most);
// The same, with the byte as it was.
std::string WithByteAsItWas(std::string_view content, size_t at, uint32_t crc32);

}  // namespace xplane_time::evidence
