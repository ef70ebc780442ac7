#include "scratch_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "io/whole_file.h"
#include "scratch.h"

namespace xplane_time {
namespace {

constexpr size_t kAtOnce = size_t{1} << 20;

// Reads `size` bytes of a file from `offset` on.
bool ReadAll(int file, uint64_t offset, char* out, size_t size) {
  while (size > 0) {
    const ssize_t got = pread(file, out, size, static_cast<off_t>(offset));
    if (got <= 0) return false;
    out += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

ScratchLog::~ScratchLog() {
  if (file_ >= 0) close(file_);
}

void ScratchLog::Append(std::string_view bytes) {
  waiting_.append(bytes);
  if (file_ < 0) {
    if (waiting_.size() <= memory_bytes_) return;
    file_ = OpenScratchFile();
  } else if (waiting_.size() < kAtOnce) {
    return;
  }
  if (!Flush()) ReturnToMemory();
}

bool ScratchLog::Flush() {
  if (file_ < 0) return false;
  // A partial write is overwritten by the next one.
  if (lseek(file_, static_cast<off_t>(written_), SEEK_SET) < 0) return false;
  if (!io::WriteAll(file_, waiting_)) return false;
  written_ += waiting_.size();
  if (waiting_.capacity() > 2 * kAtOnce) waiting_.shrink_to_fit();
  waiting_.clear();
  return true;
}

// There is no file, or no space in it.
void ScratchLog::ReturnToMemory() {
  memory_bytes_ = ~size_t{0};
  if (file_ < 0) return;
  std::string all(written_, '\0');
  if (!ReadAll(file_, 0, all.data(), all.size())) throw std::bad_alloc();
  all.append(waiting_);
  waiting_ = std::move(all);
  close(std::exchange(file_, -1));
  written_ = 0;
}

bool ScratchLog::CopyTo(uint64_t offset, uint64_t size, ScratchLog* out) {
  if (file_ >= 0 && !waiting_.empty() && !Flush()) ReturnToMemory();
  if (file_ < 0) {
    out->Append(std::string_view(waiting_).substr(offset, size));
    return true;
  }
  std::string part;
  while (size > 0) {
    part.resize(std::min<uint64_t>(size, kAtOnce));
    if (!ReadAll(file_, offset, part.data(), part.size())) return false;
    out->Append(part);
    offset += part.size();
    size -= part.size();
  }
  return true;
}

ScratchLog::View ScratchLog::Take() {
  if (file_ >= 0 && !waiting_.empty() && !Flush()) ReturnToMemory();
  if (file_ < 0) {
    const auto owner = std::make_shared<std::string>(std::exchange(waiting_, {}));
    return {*owner, owner};
  }
  const size_t size = std::exchange(written_, 0);
  void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_, 0);
  close(std::exchange(file_, -1));
  if (at == MAP_FAILED) return {};
  return {{static_cast<const char*>(at), size},
          std::shared_ptr<void>(at, [size](void* begin) { munmap(begin, size); })};
}

}  // namespace xplane_time
