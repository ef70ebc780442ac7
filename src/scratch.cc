#include "scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>

namespace xplane_time {

std::string ScratchFolder() {
  const char* tmpdir = std::getenv("TMPDIR");
  return tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
}

int OpenScratchFile() {
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

ScratchBytes& ScratchBytes::operator=(ScratchBytes&& from) noexcept {
  if (this == &from) return *this;
  Release();
  memory_bytes_ = from.memory_bytes_;
  data_ = std::exchange(from.data_, nullptr);
  capacity_ = std::exchange(from.capacity_, 0);
  file_ = std::exchange(from.file_, -1);
  return *this;
}

void ScratchBytes::Release() {
  if (in_file()) {
    munmap(data_, capacity_);
    close(file_);
  } else {
    std::free(data_);
  }
}

void ScratchBytes::Grow(size_t used, size_t capacity) {
  if (capacity > memory_bytes_ && GrowFile(used, capacity)) return;
  if (!in_file()) {
    void* const grown = std::realloc(data_, capacity);
    if (grown == nullptr) throw std::bad_alloc();
    data_ = static_cast<char*>(grown);
    capacity_ = capacity;
    return;
  }
  // No more room for the file.
  char* const memory = static_cast<char*>(std::malloc(capacity));
  if (memory == nullptr) throw std::bad_alloc();
  std::memcpy(memory, data_, used);
  Release();
  file_ = -1;
  data_ = memory;
  capacity_ = capacity;
  memory_bytes_ = ~size_t{0};  // stays there
}

bool ScratchBytes::GrowFile(size_t used, size_t capacity) {
  const int file = in_file() ? file_ : OpenScratchFile();
  if (file < 0) return false;
  // Reserved, so that no page can lack room later.
  void* grown = MAP_FAILED;
  if (posix_fallocate(file, 0, static_cast<off_t>(capacity)) == 0) {
    grown = in_file() ? mremap(data_, capacity_, capacity, MREMAP_MAYMOVE)
                      : mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (grown == MAP_FAILED) {
    if (!in_file()) close(file);
    return false;
  }
  if (!in_file()) {
    if (used > 0) std::memcpy(grown, data_, used);
    std::free(data_);
  }
  data_ = static_cast<char*>(grown);
  capacity_ = capacity;
  file_ = file;
  return true;
}

}  // namespace xplane_time
