// GzipStream: the bytes of a file descriptor, inflated where they are gzip.
//
// All that can be inflated before damage leaves, which gzread would drop. Several members are one
// stream; what follows the last and is none is padding. Bounded memory. Not thread-safe.
#ifndef XPLANE_TIME_SRC_POWER_GZIP_STREAM_H_
#define XPLANE_TIME_SRC_POWER_GZIP_STREAM_H_

#include <zlib.h>

#include <cstddef>
#include <string>
#include <vector>

namespace xplane_time::power {

class GzipStream {
 public:
  explicit GzipStream(int fd);  // which it closes
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // Waits for the first two bytes.
  bool is_gzip();
  // At most `size` bytes; 0: the end, which is early where `damage` has a text.
  size_t Fill(char* to, size_t size, std::string* damage);

 private:
  enum class At { kBegin, kPlain, kMember, kBetween, kEnd };
  // At least `least` bytes of input, where there are as many.
  bool Has(size_t least, std::string* damage);
  bool LooksLikeMember() const;
  size_t Copy(char* to, size_t size, std::string* damage);
  void Step(std::string* damage);

  const int fd_;
  At at_ = At::kBegin;
  z_stream stream_ = {};
  bool ready_ = false;
  std::vector<unsigned char> input_;
};

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_GZIP_STREAM_H_
