#include "power/read_ahead.h"

#include <algorithm>
#include <utility>

namespace xplane_time::power {

ReadAhead::ReadAhead(Source source) : source_(std::move(source)), thread_([this] { Run(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::Run() {
  for (uint64_t n = 0;; ++n) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || n < emptied_ + kChunks; });
      if (stop_) return;
    }
    Chunk& chunk = chunks_[n % kChunks];
    chunk.size = source_(chunk.bytes.data(), chunk.bytes.size(), &chunk.damage);
    {
      const std::lock_guard lock(mutex_);
      filled_ = n + 1;
    }
    changed_.notify_all();
    if (chunk.size == 0) return;
  }
}

size_t ReadAhead::Fill(char* to, size_t size, std::string* damage) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return emptied_ < filled_; });
  }
  const Chunk& chunk = chunks_[emptied_ % kChunks];
  if (!chunk.damage.empty()) *damage = chunk.damage;
  const size_t some = std::min(size, chunk.size - given_);
  std::copy_n(chunk.bytes.data() + given_, some, to);
  given_ += some;
  if (chunk.size > 0 && given_ == chunk.size) {
    given_ = 0;
    {
      const std::lock_guard lock(mutex_);
      ++emptied_;
    }
    changed_.notify_all();
  }
  return some;
}

}  // namespace xplane_time::power
