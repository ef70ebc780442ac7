// ScratchLog: a log of bytes that are appended first and read at the end. Beyond a limit they go to
// a temporary file (scratch.h) by write(), not by mapping, so that they use no memory of the
// program. If the file has no space, they stay in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace xplane_time {

class ScratchLog {
 public:
  explicit ScratchLog(size_t memory_bytes) : memory_bytes_(memory_bytes) {}
  ~ScratchLog();
  ScratchLog(const ScratchLog&) = delete;
  ScratchLog& operator=(const ScratchLog&) = delete;

  // Throws std::bad_alloc if there is neither file space nor memory.
  void Append(std::string_view bytes);
  uint64_t size() const { return written_ + waiting_.size(); }
  bool in_file() const { return file_ >= 0; }

  // Appends a part of this log to another one. False: the part cannot be read.
  bool CopyTo(uint64_t offset, uint64_t size, ScratchLog* out);

  // Takes all bytes out of the log, which is then empty. They are valid as long as the owner. No
  // owner: they cannot be read.
  struct View {
    std::string_view bytes;
    std::shared_ptr<void> owner;
  };
  View Take();

 private:
  bool Flush();
  void ReturnToMemory();

  size_t memory_bytes_;
  int file_ = -1;
  uint64_t written_ = 0;  // bytes in the file
  std::string waiting_;   // the bytes after those; without a file, all bytes
};

}  // namespace xplane_time
