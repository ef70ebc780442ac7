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
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "io/descriptor.h"

struct z_stream_s;

namespace xplane_time {

// What a stream may inflate to whatever its size; beyond it, so many times its size is too much.
inline constexpr uint64_t kAlwaysInflated = uint64_t{64} << 20;

bool LooksLikeGzip(std::string_view bytes);

// Inflates all members of a gzip stream chunk by chunk into `sink`. Errors: DataLoss
// with the byte offset in the compressed stream; ResourceExhausted past `max_bytes`;
// whatever the sink returns.
absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink);

// What is gzip, inflated as it is asked for. All that can be inflated before damage leaves, which
// gzread would drop. Bounded memory; throws std::bad_alloc at first. Not thread-safe.
class GzipStream {
 public:
  // All of what `file` gives, plain where it is no gzip.
  explicit GzipStream(io::Descriptor file) : GzipStream(At::kBegin, std::move(file), {}) {}
  // These bytes, which outlive it.
  explicit GzipStream(std::string_view bytes) : GzipStream(At::kMember, io::Descriptor(), bytes) {}
  ~GzipStream();

  // Waits for the first two bytes.
  bool is_gzip();
  // At most `size` bytes; fewer: the end, which is early where `damage` has a text.
  size_t Fill(char* to, size_t size, std::string* damage);
  bool is_cut() const { return is_cut_; }  // the damage: the last member has no end
  uint64_t used() const { return used_; }  // compressed bytes
  uint64_t made() const { return made_; }  // what they inflate to

 private:
  enum class At : uint8_t { kBegin, kPlain, kMember, kBetween, kEnd };
  GzipStream(At at, io::Descriptor file, std::string_view input);
  // At least `least` bytes of input, where there are as many.
  bool Has(size_t least, std::string* damage);
  void Step(std::span<char>* out, std::string* damage);

  const io::Descriptor file_;
  const std::unique_ptr<z_stream_s> inflater_;
  At at_;
  bool is_cut_ = false;
  std::vector<char> buffer_;  // of file_
  std::string_view input_;    // what is not used yet
  uint64_t used_ = 0, made_ = 0;
};

}  // namespace xplane_time
