// Bundle: all that a result was made from, in one file, and the hashes of it.
//
//   WriteBundle("witness.zip", {.kind = "grid", .configuration = ..., .files = ...});
//   auto bundle = ReadBundle("witness.zip");
//   std::vector<Problem> problems = CheckBundle(*bundle);
//   // {.file = "csv/results.csv", .line = 3, .what = "its byte 120 was '1' and is '2'"}
//
// An archive of zip.h. Its first file is manifest.json: schema xplane-time.bundle.v1, with the
// name, the size and the SHA-256 of every other file, what was measured and how (`configuration`),
// the SHA-256 of that in canonical JSON (`fingerprint`), and whence it is (provenance.h). The
// archive's comment has the SHA-256 of the manifest. So every byte is under a hash or has one way
// to be.
//
// Not handled: what the files mean (verify.h), and who made them: whoever changes a bundle can make
// all its hashes anew. The SHA-256 of the whole file, kept elsewhere, stands for it.
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

inline constexpr char kManifest[] = "manifest.json";
inline constexpr char kBundleSchema[] = "xplane-time.bundle.v1";

// The SHA-256 of it in canonical JSON.
std::string FingerprintOf(const nlohmann::json& configuration);

struct BundleSpec {
  std::string kind;                   // "grid", "tune": what verify does with it
  nlohmann::json configuration = {};  // an object
  nlohmann::json result = {};         // an object: what results are made from besides the files
  int64_t created_unix_s = 0;
  nlohmann::json provenance = {};  // ProvenanceOf
  std::vector<ZipFile> files = {};
};

absl::StatusOr<std::string> BundleBytes(const BundleSpec& spec);
// Complete or not at all; returns its SHA-256. Errors: of WriteZip; Internal (cannot write).
absl::StatusOr<std::string> WriteBundle(const std::string& path, const BundleSpec& spec);

struct Bundle {
  std::string path, bytes;
  std::string sha256;  // of all bytes
  ZipContents zip = {};
  std::vector<ZipFile> repacked = {};  // by another program: what `zip` then has; else empty
  nlohmann::json manifest = {};        // null where it is no JSON

  // Of a file that is there; else empty.
  std::string_view ContentOf(std::string_view name) const;
};

// Errors: NotFound, PermissionDenied, Unavailable, ResourceExhausted (over kMostZipBytes),
// DataLoss (no archive at all), InvalidArgument (a folder, a pipe, a device).
absl::StatusOr<std::unique_ptr<Bundle>> ReadBundle(const std::string& path);
// Of bytes that are there.
std::unique_ptr<Bundle> BundleOf(std::string path, std::string bytes);

// What is not as it was written. `file` is one of the bundle, or the bundle itself.
struct Problem {
  std::string file;
  std::optional<uint64_t> line = {};  // from 1
  std::optional<uint64_t> byte = {};  // of the file, from 0
  std::string what = {};
};

// Every byte: the archive, the manifest, and each file's hash.
std::vector<Problem> CheckBundle(const Bundle& bundle);

}  // namespace xplane_time::evidence
