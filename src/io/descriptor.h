// Owns a file descriptor and closes it at the end. The standard descriptors stay open.
#pragma once

#include <unistd.h>

#include <utility>

namespace xplane_time::io {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ > STDERR_FILENO) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

}  // namespace xplane_time::io
