// UnsetAllocator: an allocator for vectors that several threads fill. resize() leaves new elements
// uninitialized, so that each thread is the first to touch the memory of its own part. The first
// touch is work for the system (page faults); otherwise one thread would do it for all.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace xplane_time {

template <typename T>
struct UnsetAllocator : std::allocator<T> {
  static_assert(std::is_trivially_copyable_v<T>);
  template <typename U>
  struct rebind {
    using other = UnsetAllocator<U>;
  };

  void construct(T*) noexcept {}
  template <typename... From>
  requires(sizeof...(From) > 0) void construct(T* place, From&&... from) {
    std::construct_at(place, std::forward<From>(from)...);
  }
};

}  // namespace xplane_time
