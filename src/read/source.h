// Source: the bytes of one input, mapped. Regular files are mapped as they are; pipes
// and gzip streams go through an unlinked temporary file, size-capped, because names
// follow the events that use them and one forward pass cannot resolve them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "xplane_time/read.h"

namespace xplane_time {

class Source {
 public:
  // Opens a file, or standard input for "-", and inflates gzip. Errors: NotFound,
  // PermissionDenied, DataLoss (bad gzip), ResourceExhausted (a gzip bomb, no space for
  // the spool), Unavailable (I/O).
  static absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& path,
                                                      const ReadOptions& options);
  // `bytes` (plain or gzip) must outlive the Source.
  static absl::StatusOr<std::unique_ptr<Source>> FromMemory(std::string_view bytes,
                                                            const std::string& name,
                                                            const ReadOptions& options);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  Source(std::string_view bytes, bool mapped) : bytes_(bytes), mapped_(mapped) {}
  static absl::StatusOr<std::unique_ptr<Source>> Map(int fd, const std::string& name);
  static absl::StatusOr<std::unique_ptr<Source>> Inflated(std::unique_ptr<Source> compressed,
                                                          const std::string& name,
                                                          const ReadOptions& options);

  std::string_view bytes_;
  bool mapped_;
};

// Maps pages of a source that are about to be read all at once: cheaper than a fault for
// every few. Of long ranges only the beginning; without effect where the system cannot.
void MapPagesOf(std::string_view bytes);

}  // namespace xplane_time
