// Files: whatever a command reads or writes is looked at before anything is written.
//
//   xplane-time t.xplane.pb -o link_to_t      // InvalidArgument: --output and TRACE are the same
//   xplane-time tune s.json --store s.json    // file, s.json: ...
//
// Files are the same by device and inode, through links; those that are not there yet by where
// they will be. Devices, pipes and terminals are never the same.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/descriptor.h"
#include "xplane_time/read.h"

namespace xplane_time::tools {

class FileRoles {
 public:
  // `what`: as the user calls it, "--space". An empty path is no file.
  void Reads(const std::string& what, const std::string& path);
  // Each file of a trace's folder; "-" is standard input. What cannot be found is told later.
  void ReadsTraces(const std::string& what, const std::vector<std::string>& paths,
                   const FindOptions& find);
  // The logs among sources of power: "replay:LOG".
  void ReadsReplayed(const std::vector<std::string>& sources);
  void Writes(const std::string& what, const std::string& path);
  // Any file below `folder`.
  void WritesBelow(const std::string& what, const std::string& folder);
  // A result: as Writes, and whether it can be written is looked at early.
  void Prints(const std::string& what, const std::string& path);
  // The result of the command: standard output where there is no path.
  void PrintsOutput(const std::string& path);

  // Errors: InvalidArgument.
  absl::Status CheckConflicts() const;
  // Of results, before long work. Errors: as of OutputFile::Check.
  absl::Status CheckResults() const;

 private:
  struct Role {
    std::string what, path;
    std::string at;  // the path, or that of a standard stream
  };

  // Errors: InvalidArgument, if a file that is read or written lies below a folder of folders_.
  absl::Status CheckFolders() const;

  std::vector<Role> read_, written_, folders_;
  std::vector<std::string> results_;
};

// Of a path that stands for a stream that is open already: none or "-" for standard output,
// /dev/stdout, /dev/stderr, /dev/fd/N.
std::optional<int> StreamOf(const std::string& path);

// A stream, a device or a pipe, which is written to as it is; or a file that is complete or absent:
// it is written beside its name and renamed at the end. It replaces no SQLite database but a result
// of ours (io/database_file.h). Errors have the exit code of what cannot be written.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Open(const std::string& path);
  // Whether `path` can be written, before long work: errors as of Open, and directories. A
  // device or a pipe is not opened.
  static absl::Status Check(const std::string& path);
  // Removes what was not committed.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // Errors: Aborted where a reader closed the pipe (it ends quietly); Internal: cannot write.
  absl::Status Write(std::string_view text);
  // Flushes, and renames the file into place.
  absl::Status Commit();

 private:
  OutputFile(std::FILE* file, std::string path, std::string temporary, int lock = -1)
      : file_(file), lock_(lock), path_(std::move(path)), temporary_(std::move(temporary)) {}
  absl::Status WriteError() const;

  std::FILE* file_;
  io::Descriptor lock_;  // holds the lock of temporary_ until it is renamed
  std::string path_, temporary_;
};

// All of it. A closed pipe is no error.
absl::Status WriteText(const std::string& path, std::string_view text);

// The temporary file of an output that is not committed, where there is one. One output
// at a time; safe in a signal handler.
void RemoveUnfinishedOutput();

}  // namespace xplane_time::tools
