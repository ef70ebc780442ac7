#include "file_roles.h"

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "output_file.h"
#include "status.h"

namespace xplane_time::tools {
namespace {

namespace fs = std::filesystem;

// Of a regular file, or of one that will be made; also where links lead to nothing yet. Empty: a
// device, a pipe, a terminal.
std::string IdentityOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    return S_ISREG(info.st_mode) ? absl::StrCat(info.st_dev, ":", info.st_ino) : "";
  }
  constexpr int kMostLinks = 40;
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(at, error)); ++i) {
    at = at.parent_path() / fs::read_symlink(at, error);
  }
  const fs::path target = fs::weakly_canonical(at, error);
  return error ? at.lexically_normal().string() : target.string();
}

}  // namespace

void FileRoles::Reads(const std::string& what, const std::string& path) {
  if (!path.empty()) read_.push_back({what, path, path});
}

void FileRoles::ReadsTraces(const std::string& what, const std::vector<std::string>& paths,
                            const FindOptions& find) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (path == "-") {
      read_.push_back({what, what, "/dev/stdin"});
    } else if (!fs::is_directory(path, ignored)) {
      Reads(what, path);
    } else if (const auto inputs = FindInputs(std::span(&path, 1), find); inputs.ok()) {
      for (const Input& input : *inputs) Reads(what, input.path);
    }
  }
}

void FileRoles::Writes(const std::string& what, const std::string& path) {
  if (!path.empty()) written_.push_back({what, path, path});
}

void FileRoles::Prints(const std::string& what, const std::string& path) {
  Writes(what, path);
  results_.push_back(path);
}

void FileRoles::PrintsOutput(const std::string& path) {
  Prints("--output", path);
  if (path.empty()) written_.push_back({"standard output", "standard output", "/dev/stdout"});
}

absl::Status FileRoles::CheckConflicts() const {
  std::map<std::string, Role> seen;
  for (const Role& role : read_) seen.emplace(IdentityOf(role.at), role);
  seen.erase("");
  for (const Role& role : written_) {
    const std::string identity = IdentityOf(role.at);
    if (identity.empty()) continue;
    const auto [other, is_new] = seen.emplace(identity, role);
    if (is_new) continue;
    return InvalidArgument(role.what, " and ", other->second.what, " are the same file, ",
                           other->second.path, ": give one another name");
  }
  return absl::OkStatus();
}

absl::Status FileRoles::CheckResults() const {
  for (const std::string& path : results_) RETURN_IF_ERROR(OutputFile::Check(path));
  return absl::OkStatus();
}

}  // namespace xplane_time::tools
