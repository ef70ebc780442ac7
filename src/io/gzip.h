// Gzip, by zlib: all of it with a cap, or as much as is asked for of a file descriptor.
//
// Several members are one stream; what follows the last and is none is padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "io/descriptor.h"

struct z_stream_s;

namespace xplane_time {

bool LooksLikeGzip(std::string_view bytes);

// Inflates all members of a gzip stream chunk by chunk into `sink`. Errors: DataLoss
// with the byte offset in the compressed stream; ResourceExhausted past `max_bytes`;
// whatever the sink returns.
absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink);

// One member after the other, as bytes come.
class Inflater {
 public:
  enum class State : uint8_t { kInside, kBetween, kDamaged };

  Inflater();
  ~Inflater();
  bool ok() const { return ok_; }  // else there is no memory
  // Takes from the front of `in`, and fills the front of `out`. Between members the next begins.
  State Step(std::string_view* in, std::span<char>* out);
  const char* why() const;  // of damage; may be null

 private:
  const std::unique_ptr<z_stream_s> stream_;
  const bool ok_;
  State state_ = State::kInside;
};

// The bytes of a file descriptor, inflated where they are gzip. All that can be inflated before
// damage leaves, which gzread would drop. Bounded memory. Not thread-safe.
class GzipStream {
 public:
  explicit GzipStream(int fd) : fd_(fd) {}  // which it closes

  // Waits for the first two bytes.
  bool is_gzip();
  // At most `size` bytes; 0: the end, which is early where `damage` has a text.
  size_t Fill(char* to, size_t size, std::string* damage);

 private:
  enum class At : uint8_t { kBegin, kPlain, kMember, kBetween, kEnd };
  // At least `least` bytes of input, where there are as many.
  bool Has(size_t least, std::string* damage);
  void Step(std::span<char>* out, std::string* damage);

  const io::Descriptor fd_;
  At at_ = At::kBegin;
  Inflater inflater_;
  std::vector<char> buffer_ = std::vector<char>(size_t{1} << 18);
  std::string_view input_ = std::string_view(buffer_.data(), 0);  // of it, what is not used yet
};

}  // namespace xplane_time
