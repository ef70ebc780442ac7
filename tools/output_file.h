// OutputFile: standard output, or a file that is complete or absent: it is written
// beside its name and renamed at the end. Errors have the exit code of what cannot be written.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::tools {

class OutputFile {
 public:
  // Empty path: standard output.
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
  OutputFile(std::FILE* file, std::string path, std::string temporary)
      : file_(file), path_(std::move(path)), temporary_(std::move(temporary)) {}
  absl::Status WriteError() const;

  std::FILE* file_;
  std::string path_, temporary_;
};

// All of it, to a file or (empty path) standard output. A closed pipe is no error.
absl::Status WriteText(const std::string& path, std::string_view text);

// The temporary file of an output that is not committed, where there is one. One output
// at a time; safe in a signal handler.
void RemoveUnfinishedOutput();

}  // namespace xplane_time::tools
