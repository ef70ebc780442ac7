// ScratchVector: a growing array of plain values. A large array moves to a temporary file, so that
// the system can write it to disk if memory is short.
//
// The file is in TMPDIR and unlinked from the start, so it disappears however the program ends. Its
// space is reserved before use. If there is not enough space, the array stays in memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace xplane_time {

// TMPDIR, or /tmp if it is not set.
std::string ScratchFolder();

// An unlinked temporary file in TMPDIR, or -1 with errno set.
int OpenScratchFile();

// Releases the bytes in the way in which they were allocated.
struct ScratchRelease {
  // Smaller arrays come from malloc, because a mapping for each of them would be too many.
  static constexpr size_t kMapBytes = size_t{1} << 20;
  size_t capacity = 0;
  int file = -1;  // file that is mapped; -1: none
  bool mapped() const { return file >= 0 || capacity >= kMapBytes; }
  void operator()(char* data) const;
};

class ScratchBytes {
 public:
  // Bytes stay in memory up to `memory_bytes`.
  explicit ScratchBytes(size_t memory_bytes) : memory_bytes_(memory_bytes) {}

  char* data() { return data_.get(); }
  const char* data() const { return data_.get(); }
  size_t capacity() const { return data_.get_deleter().capacity; }
  bool in_file() const { return data_.get_deleter().file >= 0; }
  // Grows to `capacity` and keeps the first `used` bytes. Throws std::bad_alloc.
  void Grow(size_t used, size_t capacity);

 private:
  // Moves to a mapping of `file`, or of anonymous memory if it is -1. False: there is no space.
  bool Map(int file, size_t used, size_t capacity);

  size_t memory_bytes_;
  std::unique_ptr<char, ScratchRelease> data_;
};

template <typename T>
class ScratchVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr size_t kMemoryBytes = size_t{64} << 20;
  explicit ScratchVector(size_t memory_bytes = kMemoryBytes) : bytes_(memory_bytes) {}

  void push_back(const T& value) {
    if ((size_ + 1) * sizeof(T) > bytes_.capacity()) {
      bytes_.Grow(size_ * sizeof(T), 2 * (size_ + 1) * sizeof(T));
    }
    std::memcpy(bytes_.data() + size_++ * sizeof(T), &value, sizeof(T));
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool in_file() const { return bytes_.in_file(); }
  std::span<T> values() { return {reinterpret_cast<T*>(bytes_.data()), size_}; }
  std::span<const T> values() const { return {reinterpret_cast<const T*>(bytes_.data()), size_}; }

 private:
  ScratchBytes bytes_;
  size_t size_ = 0;
};

}  // namespace xplane_time
