// Bundle: all inputs of a result in one file, with their hashes.
//
//   WriteBundle("witness.zip", {.kind = "grid", .configuration = ..., .files = ...});
//   auto bundle = ReadBundle("witness.zip");
//   std::vector<Problem> problems = CheckBundle(*bundle);
//   // {.file = "csv/results.csv", .line = 3, .what = "its byte 120 was '1' and is '2'"}
//
// A bundle is an archive of zip.h. Its first file is manifest.json: schema xplane-time.bundle.v1,
// with the name, the size and the SHA-256 of every other file, the measured configuration
// (`configuration`), the SHA-256 of its canonical JSON (`fingerprint`), and the origin
// (provenance.h). The archive's comment has the SHA-256 of the manifest. So every byte is covered
// by a hash or has only one valid value.
//
// Not handled: the meaning of the files (verify.h), and their author: a forger can recompute all
// hashes of a changed bundle. To detect that, keep the SHA-256 of the whole file elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evidence/zip.h"

namespace xplane_time::evidence {

inline constexpr char kManifest[] = "manifest.json", kSpace[] = "space.json";
inline constexpr char kBundleSchema[] = "xplane-time.bundle.v1";

// The SHA-256 of its canonical JSON.
std::string FingerprintOf(const nlohmann::json& configuration);

struct BundleSpec {
  std::string kind;                   // "grid" or "tune"; selects the checks of verify
  nlohmann::json configuration = {};  // an object
  nlohmann::json result = {};         // an object: inputs of the results besides the files
  int64_t created_unix_s = 0;
  nlohmann::json provenance = {};  // from ProvenanceOf
  std::vector<ZipFile> files = {};
};

absl::StatusOr<std::string> BundleBytes(const BundleSpec& spec);
// Writes the complete file or none; returns its SHA-256. Errors: those of WriteZip; Internal
// (cannot write).
absl::StatusOr<std::string> WriteBundle(const std::string& path, const BundleSpec& spec);

struct Bundle {
  std::string path, bytes;
  std::string sha256;  // of all bytes
  ZipContents zip = {};
  std::vector<ZipFile> repacked = {};  // the files if another program packed the archive; otherwise
                                       // empty
  nlohmann::json manifest = {};        // null if it is not JSON

  // The content of a file; empty if the file is missing.
  std::string_view ContentOf(std::string_view name) const;
};

// Errors: NotFound, PermissionDenied, Unavailable, ResourceExhausted (over kMostZipBytes), DataLoss
// (not an archive), InvalidArgument (a folder, a pipe, a device).
absl::StatusOr<std::unique_ptr<Bundle>> ReadBundle(const std::string& path);
// The same for bytes in memory.
std::unique_ptr<Bundle> BundleOf(std::string path, std::string bytes);

// A deviation from the written bundle. `file` is a file of the bundle, or the bundle itself.
struct Problem {
  std::string file;
  std::optional<uint64_t> line = {};  // from 1
  std::optional<uint64_t> byte = {};  // of the file, from 0
  std::string what = {};
};

// Checks every byte: the archive, the manifest, and each file's hash.
std::vector<Problem> CheckBundle(const Bundle& bundle);

}  // namespace xplane_time::evidence
