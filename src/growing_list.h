// GrowingList: one thread adds to it, while others read what is there already. What is in it stays
// where it is.
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
  // On one thread at a time.
  T& push_back(T value) {
    const size_t size = size_.load(std::memory_order_relaxed);
    std::vector<T>& block = blocks_[BlockOf(size)];
    if (block.empty()) block.reserve(kFirst << BlockOf(size));
    T& added = block.emplace_back(std::move(value));
    size_.store(size + 1, std::memory_order_release);
    return added;
  }

  // On any thread: how many are there, and each of them.
  size_t size() const { return size_.load(std::memory_order_acquire); }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const {
    const size_t block = BlockOf(i);
    return blocks_[block][i + kFirst - (kFirst << block)];
  }

 private:
  static constexpr size_t kFirst = 16;  // in the first block; each holds twice as many
  static size_t BlockOf(size_t i) {
    return static_cast<size_t>(std::bit_width(i + kFirst) - std::bit_width(kFirst));
  }

  std::array<std::vector<T>, 40> blocks_;
  std::atomic<size_t> size_{0};
};

}  // namespace xplane_time
