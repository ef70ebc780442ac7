// Files: checks all files that a command reads or writes before anything is written.
//
//   xplane-time t.xplane.pb -o link_to_t      // InvalidArgument: --output and TRACE are the same
//   xplane-time tune s.json --store s.json    // file, s.json: ...
//
// Files are the same if they have the same device and inode, through links; files that do not exist
// yet are compared by their future location. Devices, pipes and terminals are never the same.
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
  // `what` is the user's name for the file, such as "--space". An empty path means no file.
  void Reads(const std::string& what, const std::string& path);
  // Adds each file of a trace's folder; "-" is standard input. Missing files are reported later.
  void ReadsTraces(const std::string& what, const std::vector<std::string>& paths,
                   const FindOptions& find);
  // Adds the logs among power sources: "replay:LOG".
  void ReadsReplayed(const std::vector<std::string>& sources);
  void Writes(const std::string& what, const std::string& path);
  // Adds all files below `folder`.
  void WritesBelow(const std::string& what, const std::string& folder);
  // Adds a result: like Writes, and CheckResults checks early whether it can be written.
  void Prints(const std::string& what, const std::string& path);
  // Adds the result of the command: standard output if the path is empty.
  void PrintsOutput(const std::string& path);

  // Errors: InvalidArgument.
  absl::Status CheckConflicts() const;
  // Checks the results before long work. Errors: as of OutputFile::Check.
  absl::Status CheckResults() const;

 private:
  struct Role {
    std::string what, path;
    std::string at;  // the path, or that of a standard stream
  };

  // Errors: InvalidArgument if a file that is read or written lies below a folder of folders_.
  absl::Status CheckFolders() const;

  std::vector<Role> read_, written_, folders_;
  std::vector<std::string> results_;
};

// The descriptor for a path that means an open stream: empty or "-" for standard output,
// /dev/stdout, /dev/stderr, /dev/fd/N.
std::optional<int> StreamOf(const std::string& path);

// An output. A stream, a device or a pipe is written directly. A file is either complete or absent:
// it is written under a temporary name and renamed at the end. It replaces an SQLite database only
// if that is one of our results (io/database_file.h). Errors have the exit code for failed writes.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Open(const std::string& path);
  // Whether `path` can be written, before long work. Errors: as of Open, and for directories. A
  // device or a pipe is not opened.
  static absl::Status Check(const std::string& path);
  // Removes the file if it was not committed.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // Errors: Aborted if a reader closed the pipe (the program ends silently); Internal if it cannot
  // write.
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

// Writes the whole text. A closed pipe is not an error.
absl::Status WriteText(const std::string& path, std::string_view text);

// Removes the temporary file of an uncommitted output, if there is one. One output at a time; safe
// in a signal handler.
void RemoveUnfinishedOutput();

}  // namespace xplane_time::tools
