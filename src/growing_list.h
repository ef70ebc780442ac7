// GrowingList: a list to which one thread adds while other threads read. Elements never move.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace xplane_time {

template <typename T>
class GrowingList {
 public:
  // Call it from one thread at a time.
  T& push_back(T value) {
    const size_t size = size_.load(std::memory_order_relaxed);
    std::vector<T>& block = blocks_[BlockOf(size)];
    if (block.empty()) block.reserve(kFirst << BlockOf(size));
    T& added = block.emplace_back(std::move(value));
    size_.store(size + 1, std::memory_order_release);
    return added;
  }

  // Any thread may call these.
  size_t size() const { return size_.load(std::memory_order_acquire); }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const {
    const size_t block = BlockOf(i);
    return blocks_[block][i + kFirst - (kFirst << block)];
  }

 private:
  // size of the first block; each block is twice as large as the previous one
  static constexpr size_t kFirst = 16;
  static size_t BlockOf(size_t i) {
    return static_cast<size_t>(std::bit_width(i + kFirst) - std::bit_width(kFirst));
  }

  std::array<std::vector<T>, 40> blocks_;
  std::atomic<size_t> size_{0};
};

}  // namespace xplane_time
