#include "scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace xplane_time {

std::string ScratchFolder() {
  const char* tmpdir = std::getenv("TMPDIR");
  return tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
}

int OpenScratchFile() {
  // Without a name from the start, where the file system can.
  const int nameless = open(ScratchFolder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return nameless;
  std::string path = ScratchFolder() + "/xplane-time-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

ScratchBytes::~ScratchBytes() { Release(); }

ScratchBytes::ScratchBytes(ScratchBytes&& from) noexcept
    : memory_bytes_(from.memory_bytes_),
      data_(std::exchange(from.data_, nullptr)),
      capacity_(std::exchange(from.capacity_, 0)),
      file_(std::exchange(from.file_, -1)) {}

ScratchBytes& ScratchBytes::operator=(ScratchBytes from) noexcept {
  std::swap(memory_bytes_, from.memory_bytes_);
  std::swap(data_, from.data_);
  std::swap(capacity_, from.capacity_);
  std::swap(file_, from.file_);
  return *this;
}

void ScratchBytes::Release() {
  if (mapped()) {
    munmap(data_, capacity_);
  } else {
    std::free(data_);
  }
  if (in_file()) close(file_);
}

void ScratchBytes::Grow(size_t used, size_t capacity) {
  if (capacity > memory_bytes_) {
    const int file = in_file() ? file_ : OpenScratchFile();
    // Reserved, so that no page can lack room later.
    const bool has_room = file >= 0 && posix_fallocate(file, 0, static_cast<off_t>(capacity)) == 0;
    if (has_room && Map(file, used, capacity)) return;
    if (file >= 0 && !in_file()) close(file);
  }
  if (capacity < kMapBytes && !mapped()) {
    void* const grown = std::realloc(data_, capacity);
    if (grown == nullptr) throw std::bad_alloc();
    data_ = static_cast<char*>(grown);
    capacity_ = capacity;
    return;
  }
  // A mapping is given back to the system once it is released.
  if (in_file()) memory_bytes_ = ~size_t{0};  // no more room for the file: it stays in memory
  if (!Map(-1, used, std::max(capacity, kMapBytes))) throw std::bad_alloc();
}

bool ScratchBytes::Map(int file, size_t used, size_t capacity) {
  const bool moves = file == file_ && mapped();
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const grown = moves ? mremap(data_, capacity_, capacity, MREMAP_MAYMOVE)
                            : mmap(nullptr, capacity, PROT_READ | PROT_WRITE, kind, file, 0);
  if (grown == MAP_FAILED) return false;
  if (!moves) {
    if (used > 0) std::memcpy(grown, data_, used);
    Release();
  }
  data_ = static_cast<char*>(grown);
  capacity_ = capacity;
  file_ = file;
  return true;
}

}  // namespace xplane_time
