#include "scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace xplane_time {

std::string ScratchFolder() {
  const char* tmpdir = std::getenv("TMPDIR");
  return tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
}

int OpenScratchFile() {
  // Unnamed from the start, if the file system supports it.
  const int nameless = open(ScratchFolder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return nameless;
  std::string path = ScratchFolder() + "/xplane-time-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

void ScratchRelease::operator()(char* data) const {
  if (mapped()) {
    munmap(data, capacity);
  } else {
    std::free(data);
  }
  if (file >= 0) close(file);
}

void ScratchBytes::Grow(size_t used, size_t capacity) {
  if (capacity > memory_bytes_) {
    const int file = in_file() ? data_.get_deleter().file : OpenScratchFile();
    // Reserves the space, so that no page can fail later.
    const bool has_room = file >= 0 && posix_fallocate(file, 0, static_cast<off_t>(capacity)) == 0;
    if (has_room && Map(file, used, capacity)) return;
    if (file >= 0 && !in_file()) close(file);
  }
  if (capacity < ScratchRelease::kMapBytes && !data_.get_deleter().mapped()) {
    void* const grown = std::realloc(data_.get(), capacity);
    if (grown == nullptr) throw std::bad_alloc();
    data_.release();
    data_ = {static_cast<char*>(grown), ScratchRelease{capacity}};
    return;
  }
  // Unlike memory of malloc, a mapping goes back to the system when it is released.
  if (in_file()) memory_bytes_ = ~size_t{0};  // no more space for the file: it stays in memory
  if (!Map(-1, used, std::max(capacity, ScratchRelease::kMapBytes))) throw std::bad_alloc();
}

bool ScratchBytes::Map(int file, size_t used, size_t capacity) {
  const ScratchRelease& held = data_.get_deleter();
  const bool moves = file == held.file && held.mapped();
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const grown = moves ? mremap(data_.get(), held.capacity, capacity, MREMAP_MAYMOVE)
                            : mmap(nullptr, capacity, PROT_READ | PROT_WRITE, kind, file, 0);
  if (grown == MAP_FAILED) return false;
  if (moves) {
    data_.release();
  } else if (used > 0) {
    std::memcpy(grown, data_.get(), used);
  }
  if (file < 0) madvise(grown, capacity, MADV_HUGEPAGE);
  data_ = {static_cast<char*>(grown), ScratchRelease{capacity, file}};
  return true;
}

}  // namespace xplane_time
