// ScratchLog: bytes that are appended, and read once all are there. Beyond some they are in a
// temporary file (scratch.h), written and not mapped, so that they take none of the program's
// memory; where the file has no room, in memory.
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

  // Throws std::bad_alloc where there is neither file nor memory.
  void Append(std::string_view bytes);
  uint64_t size() const { return written_ + waiting_.size(); }
  bool in_file() const { return file_ >= 0; }

  // Appends a part of this one to another. False: it cannot be read.
  bool CopyTo(uint64_t offset, uint64_t size, ScratchLog* out);

  // All of it, which lives as long as its owner; the log is empty then. No owner: it cannot be
  // read.
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
  uint64_t written_ = 0;  // to the file
  std::string waiting_;   // what follows; without a file all of it
};

}  // namespace xplane_time
