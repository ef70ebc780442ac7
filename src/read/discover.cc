// FindInputs: what the arguments of the command line stand for.
//
//   <log directory>/plugins/profile/<run>/<host>.xplane.pb
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

namespace fs = std::filesystem;

bool IsTraceName(const std::string& name) {
  for (const char* suffix : {".xplane.pb", ".xspace.pb", ".xplane.pb.gz", ".xspace.pb.gz"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

absl::Status RiegeliError(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      ": .xplane.riegeli (continuous capture) is not read yet: its records are compressed in "
      "a container of their own; record with jax.profiler.trace, which writes .xplane.pb"));
}

struct Listing {
  std::vector<std::string> traces;  // sorted
  std::vector<std::string> riegeli;
  std::vector<std::string> directories;
};

absl::StatusOr<Listing> List(const fs::path& directory) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      listing.directories.push_back(it->path().string());
    } else if (IsTraceName(name)) {
      if (it->exists(ignored) && !it->is_regular_file(ignored)) {
        return absl::FailedPreconditionError(absl::StrCat(
            it->path().string(), ": no regular file, in a run directory; name a pipe by itself"));
      }
      listing.traces.push_back(it->path().string());
    } else if (name.ends_with(".xplane.riegeli")) {
      listing.riegeli.push_back(it->path().string());
    }
  }
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat(directory.string(), ": cannot list: ", error.message()));
  }
  std::sort(listing.traces.begin(), listing.traces.end());
  std::sort(listing.directories.begin(), listing.directories.end());
  return listing;
}

// The traces of a run directory.
absl::StatusOr<std::vector<std::string>> RunFiles(const fs::path& run) {
  auto listing = List(run);
  if (!listing.ok()) return listing.status();
  if (!listing->traces.empty()) return listing->traces;
  if (!listing->riegeli.empty()) return RiegeliError(listing->riegeli[0]);
  return absl::NotFoundError(absl::StrCat(run.string(), ": no .xplane.pb in this directory"));
}

// The run directories of a log directory, oldest first: their names are dates.
absl::StatusOr<std::vector<std::string>> Runs(const fs::path& directory) {
  for (const fs::path& profile :
       {directory / "plugins" / "profile", directory / "profile", directory}) {
    std::error_code ignored;
    if (!fs::is_directory(profile, ignored)) continue;
    auto listing = List(profile);
    if (!listing.ok()) return listing.status();
    std::vector<std::string> runs;
    for (const std::string& run : listing->directories) {
      auto inside = List(run);
      if (inside.ok() && (!inside->traces.empty() || !inside->riegeli.empty())) {
        runs.push_back(run);
      }
    }
    if (!runs.empty()) return runs;
  }
  return std::vector<std::string>();
}

absl::StatusOr<std::vector<std::string>> DirectoryFiles(const fs::path& directory,
                                                        const std::string& wanted_run) {
  auto listing = List(directory);
  if (!listing.ok()) return listing.status();
  if (wanted_run.empty() && !listing->traces.empty()) return listing->traces;
  auto runs = Runs(directory);
  if (!runs.ok()) return runs.status();
  if (runs->empty()) {
    if (!listing->riegeli.empty()) return RiegeliError(listing->riegeli[0]);
    if (!listing->traces.empty()) {
      return absl::NotFoundError(absl::StrCat(directory.string(),
                                              ": is a run itself, so that --run ", wanted_run,
                                              " means nothing; leave it out"));
    }
    return absl::NotFoundError(
        absl::StrCat(directory.string(),
                     ": no .xplane.pb here and no runs under plugins/profile; give the "
                     "directory that was passed to the profiler"));
  }
  if (wanted_run.empty()) return RunFiles(runs->back());
  std::vector<std::string> names;
  for (const std::string& run : *runs) {
    names.push_back(fs::path(run).filename().string());
    if (names.back() == wanted_run) return RunFiles(run);
  }
  return absl::NotFoundError(absl::StrCat(directory.string(), ": no run ", wanted_run,
                                          "; there are: ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<std::vector<Input>> FindInputs(std::span<const std::string> arguments,
                                              const FindOptions& options) {
  std::vector<Input> inputs;
  bool any_directory = false;
  for (uint32_t capture = 0; capture < arguments.size(); ++capture) {
    const std::string& argument = arguments[capture];
    std::error_code error;
    const fs::file_status status = fs::status(argument, error);
    if (argument == "-" && std::count(arguments.begin(), arguments.end(), "-") > 1) {
      return absl::InvalidArgumentError("standard input (-) can be read only once");
    }
    if (status.type() == fs::file_type::not_found && argument != "-") {
      return absl::NotFoundError(absl::StrCat(argument, ": no such file or directory"));
    } else if (status.type() == fs::file_type::directory) {
      any_directory = true;
      auto files = DirectoryFiles(argument, options.run);
      if (!files.ok()) return files.status();
      for (std::string& file : *files) inputs.push_back({std::move(file), capture});
    } else if (argument.ends_with(".xplane.riegeli")) {
      return RiegeliError(argument);
    } else {
      inputs.push_back({argument, capture});
    }
  }
  if (!options.run.empty() && !any_directory) {
    return absl::InvalidArgumentError("--run goes with a log directory, and none is given");
  }
  return inputs;
}

}  // namespace xplane_time
