// Writes bundles, and finds every deviation of a bundle from its written form.
//
//   archive's comment --SHA-256--> manifest.json --SHA-256--> every other file
//
// CheckBundle follows this chain: the form of the archive (zip.h), the manifest against the
// comment, the files against the manifest. If a file's hash is wrong, ChangeOf uses the file's
// CRC-32 to list the positions at which a single changed byte would explain it, restores the byte
// at each and compares the SHA-256. So a single changed byte is reported with its old value. An
// archive that another program packed is read as well, because its content may still be intact;
// this is one problem. O(bytes), plus one SHA-256 for each of at most 64 positions.
#include "evidence/bundle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "evidence/witness.h"
#include "io/descriptor.h"
#include "io/sha256.h"
#include "io/whole_file.h"
#include "status.h"
#include "tune/space_json.h"

namespace xplane_time::evidence {
namespace {

using io::Sha256Hex;
using tune::Json;

constexpr std::string_view kComment = "xplane-time bundle; SHA-256 of manifest.json: ";

std::string CommentOf(std::string_view manifest) { return Cat(kComment, Sha256Hex(manifest)); }

std::string ManifestOf(const BundleSpec& spec) {
  Json files = Json::array();
  for (const ZipFile& each : spec.files) {
    files.push_back(
        {{"name", each.name}, {"bytes", each.content.size()}, {"sha256", Sha256Hex(each.content)}});
  }
  Json manifest = {{"schema", kBundleSchema},
                   {"kind", spec.kind},
                   {"created_unix_s", spec.created_unix_s},
                   {"configuration", spec.configuration},
                   {"fingerprint", FingerprintOf(spec.configuration)},
                   {"result", spec.result},
                   {"files", files}};
  manifest.update(spec.provenance);
  return manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

uint64_t LineOf(std::string_view text, size_t byte) {
  return 1 + static_cast<uint64_t>(std::ranges::count(text.substr(0, byte), '\n'));
}

std::string Quoted(char c) { return Cat("'", absl::CHexEscape(std::string(1, c)), "'"); }

// Locates a change in a file whose hash is wrong: the changed byte, if it is a single one;
// otherwise the line of a chain. If neither can be found, only the file is reported.
Problem ChangeOf(const ZipEntry& entry, std::string_view sha256) {
  constexpr size_t kMostPlaces = 64;
  Problem problem = {.file = std::string(entry.name), .what = "was changed after it was written"};
  for (const size_t at : ChangedBytes(entry.content, entry.crc32, kMostPlaces)) {
    const std::string was = WithByteAsItWas(entry.content, at, entry.crc32);
    if (Sha256Hex(was) != sha256) continue;
    problem.line = LineOf(entry.content, at);
    problem.byte = at;
    problem.what =
        Cat("its byte ", at, " was ", Quoted(was[at]), " and now is ", Quoted(entry.content[at]));
    return problem;
  }
  if (entry.name.ends_with(".jsonl")) {
    if (const auto broken = CheckWitness(entry.content).broken; broken.has_value()) {
      problem.line = broken->line;
      problem.what = broken->what;
    }
  }
  return problem;
}

struct Listed {
  uint64_t bytes = 0;
  std::string sha256;
};

// Reads the files listed in the manifest. Returns a problem if the manifest is invalid.
std::optional<Problem> ReadManifest(const Json& manifest, std::map<std::string, Listed>* listed) {
  std::string wrong, schema;
  const tune::Field root(manifest, &wrong);
  root.Read("schema", &schema, json::kNeeded);
  root.At("schema").Expect(schema == kBundleSchema, kBundleSchema);
  root.At("configuration").Expect(root.At("configuration")->is_object(), "an object");
  root.At("files").Each([&](const tune::Field& each) {
    std::string name;
    Listed of;
    each.Read("name", &name, json::kNeeded);
    each.Read("bytes", &of.bytes, json::kNeeded);
    each.Read("sha256", &of.sha256, json::kNeeded);
    if (each.ok() && !listed->emplace(name, of).second) each.Error("occurs twice");
  });
  std::string fingerprint;
  root.Read("fingerprint", &fingerprint, json::kNeeded);
  if (root.ok() && fingerprint != FingerprintOf(manifest["configuration"])) {
    root.At("fingerprint").Error("does not match `configuration`");
  }
  if (wrong.empty()) return std::nullopt;
  return Problem{.file = kManifest, .what = wrong};
}

// Checks the manifest's bytes against the archive's comment.
std::optional<Problem> CheckManifest(const Bundle& bundle) {
  const auto& entries = bundle.zip.entries;
  if (!bundle.repacked.empty() && !bundle.ContentOf(kManifest).empty()) return std::nullopt;
  if (entries.empty() || entries[0].name != kManifest) {
    return Problem{.file = kManifest, .what = "is missing; a bundle starts with it"};
  }
  const std::string_view comment = bundle.zip.comment;
  if (comment == CommentOf(entries[0].content)) return std::nullopt;
  // One of the two was changed; the checksum decides which.
  if (entries[0].is_sound) {
    return Problem{
        .file = bundle.path,
        .byte = bundle.bytes.size() - comment.size(),
        .what = "the comment of the archive does not contain the SHA-256 of manifest.json"};
  }
  constexpr size_t kHexDigits = 64;
  const size_t at = comment.size() - std::min(comment.size(), kHexDigits);
  return ChangeOf(entries[0], comment.substr(at));
}

void CheckFiles(const Bundle& bundle, const std::map<std::string, Listed>& listed,
                std::vector<Problem>* problems) {
  std::map<std::string, Listed> missing = listed;
  for (const ZipEntry& each : bundle.zip.entries) {
    if (each.name == kManifest) continue;
    const auto found = missing.find(std::string(each.name));
    if (found == missing.end()) {
      problems->push_back({.file = std::string(each.name), .what = "is not in the manifest"});
      continue;
    }
    const Listed of = found->second;
    missing.erase(found);
    if (Sha256Hex(each.content) != of.sha256 || each.content.size() != of.bytes) {
      problems->push_back(ChangeOf(each, of.sha256));
    } else if (!each.is_sound) {
      problems->push_back({.file = bundle.path,
                           .what = Cat("the checksum of ", each.name, " differs from its header")});
    }
  }
  for (const auto& [name, unused] : missing) {
    problems->push_back({.file = name, .what = "is in the manifest but not in the archive"});
  }
}

}  // namespace

std::string FingerprintOf(const Json& configuration) {
  return Sha256Hex(tune::CanonicalJson(configuration));
}

absl::StatusOr<std::string> BundleBytes(const BundleSpec& spec) {
  std::vector<ZipFile> files = {{kManifest, ManifestOf(spec)}};
  files.insert(files.end(), spec.files.begin(), spec.files.end());
  return WriteZip(files, CommentOf(files[0].content));
}

absl::StatusOr<std::string> WriteBundle(const std::string& path, const BundleSpec& spec) {
  ASSIGN_OR_RETURN(const std::string bytes, BundleBytes(spec));
  RETURN_IF_ERROR(io::WriteWholeFile(path, bytes));
  return Sha256Hex(bytes);
}

std::string_view Bundle::ContentOf(std::string_view name) const {
  const auto found = std::ranges::find(zip.entries, name, &ZipEntry::name);
  return found == zip.entries.end() ? std::string_view() : found->content;
}

namespace {

absl::Status TooLarge(const std::string& path) {
  return ResourceExhausted(path, ": larger than ", kMostZipBytes,
                           " bytes, the maximum size of a bundle");
}

// Checks both ends of the file, because any byte of a bundle may be damaged. A bundle must be a
// regular file, so that its size is known before it is read.
absl::Status CheckLooksLikeBundle(const std::string& path) {
  constexpr off_t kEndBytes = 4096;
  const io::Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info = {};
  if (!file.open() || fstat(file.get(), &info) != 0) return io::IoError(path, "cannot be read");
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument(path, ": not a regular file; save the bundle to a file first");
  }
  if (std::cmp_greater(info.st_size, kMostZipBytes)) return TooLarge(path);
  std::string begin(2, '\0'), end(static_cast<size_t>(std::min(info.st_size, kEndBytes)), '\0');
  if (pread(file.get(), begin.data(), begin.size(), 0) < 0 ||
      pread(file.get(), end.data(), end.size(), info.st_size - static_cast<off_t>(end.size())) <
          0) {
    return io::IoError(path, "cannot be read");
  }
  if (begin == "PK" || end.find(kComment) != std::string::npos) return absl::OkStatus();
  return DataLoss(path,
                  ": not a bundle; give the witness.zip of a grid, or a file written by tune "
                  "export --bundle (loose files are not checked)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bundle>> ReadBundle(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return InvalidArgument(path, ": is a folder, but loose files are not checked; give its ",
                           (std::filesystem::path(path) / "witness.zip").string());
  }
  RETURN_IF_ERROR(CheckLooksLikeBundle(path));
  auto bytes = io::ReadFile(path, kMostZipBytes + 1);
  if (!bytes.has_value()) return io::IoError(path, "cannot be read");
  if (bytes->size() > kMostZipBytes) return TooLarge(path);
  return BundleOf(path, *std::move(bytes));
}

namespace {

// The files if another program packed the archive: our archive of the same files would have another
// size. (A changed byte in our archive does not change the size.)
std::vector<ZipFile> Repacked(const Bundle& bundle) {
  if (bundle.zip.damage.empty()) return {};
  auto files = ReadOtherZip(bundle.bytes);
  if (!files.has_value()) return {};
  const auto ours = WriteZip(*files, CommentOf(""));
  if (!ours.ok() || ours->size() == bundle.bytes.size()) return {};
  return *std::move(files);
}

}  // namespace

std::unique_ptr<Bundle> BundleOf(std::string path, std::string bytes) {
  auto bundle = std::make_unique<Bundle>();
  bundle->path = std::move(path);
  bundle->bytes = std::move(bytes);
  bundle->sha256 = Sha256Hex(bundle->bytes);
  bundle->zip = ReadZip(bundle->bytes);
  bundle->repacked = Repacked(*bundle);
  if (!bundle->repacked.empty()) bundle->zip = {};
  for (const ZipFile& each : bundle->repacked) {
    bundle->zip.entries.push_back({each.name, each.content, Crc32(each.content), true});
  }
  auto manifest = tune::ParseJson(bundle->ContentOf(kManifest), kManifest);
  if (manifest.ok()) bundle->manifest = *std::move(manifest);
  return bundle;
}

std::vector<Problem> CheckBundle(const Bundle& bundle) {
  std::vector<Problem> problems;
  if (!bundle.repacked.empty()) {
    problems.push_back({.file = bundle.path, .what = "was packed again by another program"});
  }
  for (const ZipDamage& each : bundle.zip.damage) {
    problems.push_back({.file = bundle.path, .byte = each.byte, .what = each.what});
  }
  if (auto problem = CheckManifest(bundle); problem.has_value()) {
    problems.push_back(*std::move(problem));
    return problems;
  }
  std::map<std::string, Listed> listed;
  if (auto problem = ReadManifest(bundle.manifest, &listed); problem.has_value()) {
    problems.push_back(*std::move(problem));
    return problems;
  }
  CheckFiles(bundle, listed, &problems);
  return problems;
}

}  // namespace xplane_time::evidence
