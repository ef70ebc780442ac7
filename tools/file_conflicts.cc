#include "file_conflicts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace xplane_time::tools {
namespace {

namespace fs = std::filesystem;

// A regular file, or one that will be made.
struct Identity {
  std::pair<dev_t, ino_t> inode;  // where it is there
  std::string target;             // where it is not
  friend bool operator==(const Identity&, const Identity&) = default;
};

std::optional<Identity> IdentityOf(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  return Identity{{info.st_dev, info.st_ino}, ""};
}

// Also where links lead to nothing yet.
std::optional<Identity> IdentityOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) return IdentityOf(info);
  constexpr int kMostLinks = 40;
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(at, error)); ++i) {
    at = at.parent_path() / fs::read_symlink(at, error);
  }
  const fs::path target = fs::weakly_canonical(at, error);
  return Identity{{}, error ? at.lexically_normal().string() : target.string()};
}

struct Role {
  std::string what;  // "--output"
  std::string path;
  Identity identity;
};

class Roles {
 public:
  void Reads(const std::string& what, const std::string& path) { Add(what, path, &read_); }
  void Writes(const std::string& what, const std::string& path) { Add(what, path, &written_); }
  // Where a standard stream is a file.
  void ReadsStandardInput(const std::string& what) { AddStream(what, STDIN_FILENO, &read_); }
  void WritesStandardOutput() { AddStream("standard output", STDOUT_FILENO, &written_); }

  absl::Status Check() const {
    for (size_t i = 0; i < written_.size(); ++i) {
      for (const Role& role : read_) {
        if (role.identity == written_[i].identity) return Same(written_[i], role);
      }
      for (size_t j = 0; j < i; ++j) {
        if (written_[j].identity == written_[i].identity) return Same(written_[i], written_[j]);
      }
    }
    return absl::OkStatus();
  }

 private:
  static void Add(const std::string& what, const std::string& path, std::vector<Role>* roles) {
    if (path.empty()) return;
    if (auto identity = IdentityOf(path)) roles->push_back({what, path, *std::move(identity)});
  }
  static void AddStream(const std::string& what, int fd, std::vector<Role>* roles) {
    struct stat info;
    if (fstat(fd, &info) != 0) return;
    if (auto identity = IdentityOf(info)) roles->push_back({what, what, *std::move(identity)});
  }
  static absl::Status Same(const Role& written, const Role& other) {
    return absl::InvalidArgumentError(absl::StrCat(written.what, " and ", other.what,
                                                   " are the same file, ", other.path,
                                                   ": give one another name"));
  }

  std::vector<Role> read_, written_;
};

// Each file of a trace's folder. What cannot be found is told by the command.
void AddTraces(const std::string& what, const std::vector<std::string>& paths,
               const FindOptions& find, Roles* roles) {
  for (const std::string& path : paths) {
    if (path == "-") roles->ReadsStandardInput(what);
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      if (path != "-") roles->Reads(what, path);
      continue;
    }
    const auto inputs = FindInputs(std::span(&path, 1), find);
    if (!inputs.ok()) continue;
    for (const Input& input : *inputs) roles->Reads(what, input.path);
  }
}

void AddTune(const TuneCommand& tune, Roles* roles) {
  roles->Reads(tune.action == TuneAction::kDecide ? "--space" : "SPACE", tune.space_path);
  roles->Writes("--output", tune.output_path);
  roles->Writes("--harness-log", tune.harness_log);
  if (tune.action == TuneAction::kDecide) return;
  // What SQLite keeps beside it is the store as well.
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    roles->Writes("--store", tune.store_path + suffix);
  }
}

void AddPower(const PowerCommand& power, Roles* roles) {
  constexpr std::string_view kReplay = "replay:";
  for (const std::string& source : power.record.from.sources) {
    if (source.starts_with(kReplay)) roles->Reads("--source", source.substr(kReplay.size()));
  }
  if (power.action == PowerAction::kReplay) roles->Reads("LOG", power.log_path);
  if (power.action == PowerAction::kRecord) roles->Writes("--log", power.log_path);
  roles->Reads("RECORDS", power.run.records_path);
  roles->Writes("--output", power.output_path);
  roles->Writes("--svg", power.svg_path);
}

}  // namespace

absl::Status CheckFileConflicts(const Options& options) {
  Roles roles;
  AddTraces(options.command == Command::kCompare ? "SIDE" : "TRACE", options.traces, options.find,
            &roles);
  AddTraces("--base", options.decide.base, options.find, &roles);
  AddTraces("--head", options.decide.head, options.find, &roles);
  roles.Reads("--space", options.decide.space_path);
  roles.Writes("--output", options.output_path);
  if (options.command == Command::kTune) AddTune(options.tune, &roles);
  if (options.command == Command::kPower) AddPower(options.power, &roles);
  const bool prints = options.output_path.empty() && options.tune.output_path.empty() &&
                      options.power.output_path.empty();
  if (prints) roles.WritesStandardOutput();
  return roles.Check();
}

}  // namespace xplane_time::tools
