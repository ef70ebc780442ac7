// File roles: whatever a command reads or writes is looked at before anything is written.
//
//   xplane-time t.xplane.pb -o link_to_t      // InvalidArgument: --output and TRACE are the same
//   xplane-time tune s.json --store s.json    // file, s.json: ...
//
// Files are the same by device and inode, through links; those that are not there yet by where
// they will be. Devices, pipes and terminals are never the same.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "xplane_time/read.h"

namespace xplane_time::tools {

class FileRoles {
 public:
  // `what`: as the user calls it, "--space". An empty path is no file.
  void Reads(const std::string& what, const std::string& path);
  // Each file of a trace's folder; "-" is standard input. What cannot be found is told later.
  void ReadsTraces(const std::string& what, const std::vector<std::string>& paths,
                   const FindOptions& find);
  void Writes(const std::string& what, const std::string& path);
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

  std::vector<Role> read_, written_;
  std::vector<std::string> results_;
};

}  // namespace xplane_time::tools
