// Source: opens the bytes of an input. FindInputs: resolves command line arguments to files.
//
// A regular file is mapped. A pipe is copied to an unlinked temporary file; a check of its format
// while it arrives stops endless streams early (SpaceGuard, kineto::CheckHead). gzip is inflated to
// a temporary file with a limited size and ratio. JSON of Kineto is transcoded to an XSpace, so
// that later stages see one format only.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "io/descriptor.h"
#include "io/gzip.h"
#include "io/whole_file.h"
#include "kineto/transcode.h"
#include "re2/re2.h"
#include "read/internals.h"
#include "scratch.h"
#include "status.h"

namespace xplane_time {
namespace {

using io::Descriptor;

absl::Status SpoolError(const char* what) {
  return Unavailable("temporary file in ", ScratchFolder(), ": ", what, ": ", std::strerror(errno),
                     "; set TMPDIR to a directory with free space");
}

// The inflated beginning of a gzip stream.
std::string InflatedHead(std::string_view compressed) {
  // the stream is cut, so damage at its end is expected
  std::string head(size_t{1} << 18, '\0'), damage;
  head.resize(GzipStream(compressed).Fill(head.data(), head.size(), &damage));
  return head;
}

// Copies a pipe into the spool file. Data that cannot become a trace is refused while it arrives,
// because the pipe may be endless.
absl::Status SpoolPipe(int pipe, int spool, const std::string& name, uint64_t max_bytes) {
  uint64_t most_bytes = max_bytes;
  // half of the free space; others need room
  if (struct statvfs info; fstatvfs(spool, &info) == 0) {
    most_bytes = std::min<uint64_t>(most_bytes, uint64_t{info.f_bavail} * info.f_frsize / 2);
  }
  SpaceGuard guard(name, most_bytes);
  std::vector<char> buffer(size_t{1} << 18);
  bool is_gzip = false, is_json = false;
  for (uint64_t total = 0;;) {
    const ssize_t filled = io::ReadFull(pipe, buffer.data(), buffer.size());
    if (filled < 0) return io::IoError(name, "cannot read");
    const std::string_view bytes(buffer.data(), static_cast<size_t>(filled));
    const bool is_first = total == 0, is_last = bytes.size() < buffer.size();
    total += bytes.size();
    if (total > most_bytes) {
      return ResourceExhausted(name, ": more than ", most_bytes,
                               " bytes on a pipe, the maximum that may ", "be stored in ",
                               ScratchFolder(), "; give a file, or set TMPDIR");
    }
    if (is_first) is_gzip = LooksLikeGzip(bytes);
    absl::Status status;
    // A stream that ends in this block is checked later as a whole.
    if (is_first && !is_last) {
      const std::string inflated = is_gzip ? InflatedHead(bytes) : "";
      const std::string_view head = is_gzip ? inflated : bytes;
      is_json = kineto::LooksLikeJson(head);
      status = is_json ? kineto::CheckHead(head, name) : guard.Add(head);
    } else if (!is_first && !is_gzip && !is_json) {
      status = guard.Add(bytes);
    }
    if (status.ok() && !io::WriteAll(spool, bytes)) status = SpoolError("cannot write");
    if (!status.ok() || is_last) return status;
  }
}

absl::StatusOr<Source> Map(const Descriptor& file, const std::string& name) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return io::IoError(name, "cannot stat");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return Source();
  void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return io::IoError(name, "cannot map");
  return Source{std::string_view(static_cast<const char*>(at), size),
                std::shared_ptr<void>(at, [size](void* begin) { munmap(begin, size); })};
}

// The source, inflated if it is gzip.
absl::StatusOr<Source> Plain(Source source, const std::string& name, const ReadOptions& options) {
  if (!LooksLikeGzip(source.bytes)) return source;
  const uint64_t size = source.bytes.size();
  const uint64_t ratio = std::max<uint64_t>(1, options.max_gzip_ratio);
  const uint64_t by_ratio =
      size > options.max_spool_bytes / ratio ? options.max_spool_bytes : size * ratio;
  const uint64_t cap = std::min(options.max_spool_bytes, std::max(kAlwaysInflated, by_ratio));
  const Descriptor spool(OpenScratchFile());
  if (!spool.open()) return SpoolError("cannot create");
  const absl::Status status = Inflate(source.bytes, cap, [&](std::string_view chunk) {
    return io::WriteAll(spool.get(), chunk) ? absl::OkStatus() : SpoolError("cannot write");
  });
  if (!status.ok()) return absl::Status(status.code(), Cat(name, ": ", status.message()));
  return Map(spool, name);
}

// The source as an XSpace: inflated if it is gzip, and transcoded if it is JSON.
absl::StatusOr<Source> Space(Source source, const std::string& name, const ReadOptions& options) {
  ASSIGN_OR_RETURN(Source plain, Plain(std::move(source), name, options));
  if (!kineto::LooksLikeJson(plain.bytes)) return plain;
  Source written;
  ASSIGN_OR_RETURN(kineto::Space space,
                   kineto::Transcode(plain.bytes, name, options.threads, &written.diagnostics));
  written.bytes = space.bytes;
  written.mapping = std::move(space.owner);
  written.json_bytes = plain.bytes.size();
  return written;
}

}  // namespace

absl::StatusOr<Source> OpenSource(const std::string& path, const ReadOptions& options) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "standard input" : path;
  Descriptor file(is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return io::IoError(name, "cannot open");
  struct stat info;
  if (fstat(file.get(), &info) != 0) return io::IoError(name, "cannot stat");
  if (S_ISDIR(info.st_mode)) return InvalidArgument(name, ": is a directory");
  if (!S_ISREG(info.st_mode)) {
    Descriptor spool(OpenScratchFile());
    if (!spool.open()) return SpoolError("cannot create");
    RETURN_IF_ERROR(SpoolPipe(file.get(), spool.get(), name, options.max_spool_bytes));
    file = std::move(spool);
  }
  ASSIGN_OR_RETURN(Source source, Map(file, name));
  return Space(std::move(source), name, options);
}

absl::StatusOr<Source> SourceInMemory(std::string_view bytes, const std::string& name,
                                      const ReadOptions& options) {
  return Space({bytes}, name, options);
}

// FindInputs: resolves command line arguments to files.
//
//   <log directory>/plugins/profile/<run>/<host>.xplane.pb
//   <directory>/<rank>.pt.trace.json

namespace {

namespace fs = std::filesystem;

absl::Status RiegeliError(const std::string& path) {
  return FailedPrecondition(
      path,
      ": .xplane.riegeli (continuous capture) is not supported, because its records use another "
      "compression; record with jax.profiler.trace, which writes .xplane.pb");
}

struct Listing {
  std::vector<std::string> traces;  // XSpace files, sorted
  std::vector<std::string> riegeli;
  std::vector<std::string> json;  // JSON files; some of them may be traces
  std::vector<fs::path> directories;
};

absl::StatusOr<Listing> List(const fs::path& directory) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      listing.directories.push_back(it->path());
    } else if (!TraceSuffix(name).empty()) {
      listing.traces.push_back(it->path().string());
    } else if (name.ends_with(".xplane.riegeli")) {
      listing.riegeli.push_back(it->path().string());
    } else if (name.ends_with(".json") || name.ends_with(".json.gz")) {
      listing.json.push_back(it->path().string());
    }
  }
  if (error) {
    return PermissionDenied(directory.string(), ": cannot list: ", error.message());
  }
  std::sort(listing.traces.begin(), listing.traces.end());
  std::sort(listing.json.begin(), listing.json.end());
  return listing;
}

// The run directories of a log directory, sorted by name, which is a date. A directory that cannot
// be listed is kept with its error, because skipping it could make an older run the latest.
absl::StatusOr<std::map<std::string, absl::StatusOr<Listing>>> Runs(const fs::path& directory) {
  std::map<std::string, absl::StatusOr<Listing>> runs;
  for (const fs::path& profile :
       {directory / "plugins" / "profile", directory / "profile", directory}) {
    std::error_code ignored;
    if (!runs.empty() || !fs::is_directory(profile, ignored)) continue;
    ASSIGN_OR_RETURN(const auto listing, List(profile));
    for (const fs::path& run : listing.directories) {
      auto inside = List(run);
      if (!inside.ok() || !inside->traces.empty() || !inside->riegeli.empty()) {
        runs.emplace(run.filename().string(), std::move(inside));
      }
    }
  }
  return runs;
}

// The PyTorch traces among JSON files; other JSON files may be in the same directory. A file with
// an unreadable beginning may be a trace: it is kept if there is a proven trace.
std::vector<std::string> KinetoFiles(std::vector<std::string> files) {
  constexpr size_t kHeadBytes = size_t{1} << 16;
  size_t traces = 0;
  std::erase_if(files, [&](const std::string& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return false;  // reading a pipe would block
    const std::optional<std::string> head = io::ReadFile(path, kHeadBytes);
    if (!head.has_value()) return false;
    const bool is_trace =
        kineto::LooksLikeTrace(LooksLikeGzip(*head) ? InflatedHead(*head) : *head);
    traces += is_trace ? 1 : 0;
    return !is_trace;
  });
  if (traces == 0) files.clear();
  return files;
}

// Checks that a run directory has at least one regular file or link to one, because opening a pipe
// would block.
absl::Status CheckAnyRegular(const std::vector<std::string>& traces) {
  std::error_code ignored;
  const bool any = std::ranges::any_of(traces, [&](const std::string& path) {
    const fs::file_status status = fs::status(path, ignored);
    return !fs::exists(status) || fs::is_regular_file(status);
  });
  if (any) return absl::OkStatus();
  return FailedPrecondition(
      traces[0], ": not a regular file in a run directory; pass it as an argument itself");
}

absl::Status NoCapture(const fs::path& directory);

absl::StatusOr<std::vector<std::string>> DirectoryFiles(const fs::path& directory,
                                                        const std::string& wanted_run,
                                                        std::vector<std::string>* other_runs) {
  ASSIGN_OR_RETURN(auto listing, List(directory));
  if (wanted_run.empty() && !listing.traces.empty()) {
    RETURN_IF_ERROR(CheckAnyRegular(listing.traces));
    return listing.traces;
  }
  ASSIGN_OR_RETURN(auto runs, Runs(directory));
  if (runs.empty()) {
    auto ranks = KinetoFiles(listing.json);
    if (wanted_run.empty() && !ranks.empty()) return ranks;
    if (!listing.riegeli.empty()) return RiegeliError(listing.riegeli[0]);
    if (!listing.traces.empty()) {
      return NotFound(directory.string(), ": is a run directory itself, so --run ", wanted_run,
                      " has no effect; omit it");
    }
    return NoCapture(directory);
  }
  const auto run = wanted_run.empty() ? std::prev(runs.end()) : runs.find(wanted_run);
  if (run == runs.end()) {
    const auto name = [](std::string* text, const auto& each) { text->append(each.first); };
    return NotFound(directory.string(), ": no run ", wanted_run,
                    "; runs: ", absl::StrJoin(runs, ", ", name));
  }
  RETURN_IF_ERROR(run->second.status());
  const Listing& inside = *run->second;
  if (inside.traces.empty()) return RiegeliError(inside.riegeli[0]);
  RETURN_IF_ERROR(CheckAnyRegular(inside.traces));
  if (wanted_run.empty()) {
    const fs::path of_runs = fs::path(inside.traces[0]).parent_path().parent_path();
    for (auto other = runs.begin(); other != run; ++other) {
      other_runs->push_back((of_runs / other->first).string());
    }
  }
  return inside.traces;
}

// Whether the directory has traces or runs itself.
bool IsCapture(const fs::path& directory) {
  const auto listing = List(directory);
  if (!listing.ok()) return false;
  if (!listing->traces.empty()) return CheckAnyRegular(listing->traces).ok();
  const auto runs = Runs(directory);
  return runs.ok() && (!runs->empty() || !KinetoFiles(listing->json).empty());
}

// The error for a directory without traces. Its subfolders may be captures, such as base/1 to
// base/10 if the user gives base.
absl::Status NoCapture(const fs::path& directory) {
  std::error_code error;
  size_t captures = 0;
  bool only_captures = true;  // all entries that the shell's * matches
  fs::directory_iterator it(directory, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) continue;
    std::error_code ignored;
    const bool is_capture = it->is_directory(ignored) && IsCapture(it->path());
    captures += is_capture ? 1 : 0;
    only_captures &= is_capture;
  }
  std::string path = directory.string();
  if (captures == 0) {
    return NotFound(path,
                    ": contains no .xplane.pb, no PyTorch trace and no runs under plugins/profile; "
                    "give the directory that was passed to the profiler");
  }
  const char* const slash = path.ends_with('/') ? "" : "/";
  if (!only_captures) {
    return NotFound(path, ": is not a capture, but ", captures,
                    captures == 1 ? " of its subfolders is" : " of its subfolders are",
                    "; name the captures instead of ", path);
  }
  return NotFound(path, ": is not a capture, but its ",
                  captures == 1 ? "subfolder is" : Cat(captures, " subfolders are"), "; write ",
                  path, slash, "*");
}

}  // namespace

std::string TraceSuffix(const std::string& name) {
  std::string suffix;
  RE2::PartialMatch(name, R"((\.(?:xplane|xspace)\.pb(?:\.gz)?)$)", &suffix);
  return suffix;
}

absl::StatusOr<std::vector<Input>> FindInputs(std::span<const std::string> arguments,
                                              const FindOptions& options) {
  std::vector<Input> inputs;
  bool any_directory = false;
  for (uint32_t capture = 0; capture < arguments.size(); ++capture) {
    const std::string& argument = arguments[capture];
    std::error_code error;
    const fs::file_status status = fs::status(argument, error);
    if (argument == "-" && std::count(arguments.begin(), arguments.end(), "-") > 1) {
      return InvalidArgument("standard input (-) can be read only once");
    }
    if (status.type() == fs::file_type::not_found && argument != "-") {
      return NotFound(argument, ": no such file or directory");
    } else if (status.type() == fs::file_type::directory) {
      any_directory = true;
      std::vector<std::string> other_runs;
      ASSIGN_OR_RETURN(auto files, DirectoryFiles(argument, options.run, &other_runs));
      for (std::string& file : files) {
        inputs.push_back({std::move(file), capture, std::exchange(other_runs, {})});
      }
    } else if (argument.ends_with(".xplane.riegeli")) {
      return RiegeliError(argument);
    } else {
      inputs.push_back({argument, capture});
    }
  }
  if (!options.run.empty() && !any_directory) {
    return InvalidArgument("--run requires a log directory");
  }
  return inputs;
}

}  // namespace xplane_time
