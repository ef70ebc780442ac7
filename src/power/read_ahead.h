// ReadAhead: the bytes of a slow source (a gzip file that is inflated), fetched by a thread of
// their own while what came before is read.
//
//   gzread -> [chunk][chunk][chunk] -> Fill
//
// Enters: a Fill, from now on called by that thread alone; it must not block for long (a file,
// no pipe), for the destructor waits for the call under way. Leaves: the same bytes in the same
// order, and the damage with the end. At most kChunks chunks are held. Fill: one thread.
#ifndef XPLANE_TIME_SRC_POWER_READ_AHEAD_H_
#define XPLANE_TIME_SRC_POWER_READ_AHEAD_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace xplane_time::power {

class ReadAhead {
 public:
  // Fills at most `size` bytes; 0: the end, which may be `damage`.
  using Source = std::function<size_t(char* to, size_t size, std::string* damage)>;

  explicit ReadAhead(Source source);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // As Source.
  size_t Fill(char* to, size_t size, std::string* damage);

 private:
  static constexpr uint64_t kChunks = 4;
  static constexpr size_t kChunkBytes = size_t{1} << 18;
  struct Chunk {
    std::vector<char> bytes = std::vector<char>(kChunkBytes);
    size_t size = 0;  // 0: the end
    std::string damage;
  };
  void Run();

  Source source_;
  std::array<Chunk, kChunks> chunks_;
  size_t given_ = 0;  // bytes of the chunk that Fill is at
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t filled_ = 0, emptied_ = 0;  // chunks so far
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_READ_AHEAD_H_
