// Gzip by zlib: inflates a whole stream up to a limit, or a file descriptor on demand.
//
// Several members form one stream. Data after the last member that is not a member is padding.
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

// Every stream may inflate to this size. Beyond it, a maximum ratio to the compressed size applies.
inline constexpr uint64_t kAlwaysInflated = uint64_t{64} << 20;

bool LooksLikeGzip(std::string_view bytes);

// Inflates all members of a gzip stream into `sink`, chunk by chunk. Errors: DataLoss with the byte
// offset in the compressed stream; ResourceExhausted beyond `max_bytes`; errors of the sink.
absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink);

// Inflates a gzip stream on demand. It returns all data before the damage, which gzread would
// discard. Bounded memory. The constructor throws std::bad_alloc. Not thread-safe.
class GzipStream {
 public:
  // Reads all data from `file`, unchanged if it is not gzip.
  explicit GzipStream(io::Descriptor file) : GzipStream(At::kBegin, std::move(file), {}) {}
  // Reads these bytes, which must outlive it.
  explicit GzipStream(std::string_view bytes) : GzipStream(At::kMember, io::Descriptor(), bytes) {}
  ~GzipStream();

  // Waits for the first two bytes.
  bool is_gzip();
  // Writes at most `size` bytes. Fewer: the end, which is premature if `damage` is set.
  size_t Fill(char* to, size_t size, std::string* damage);
  bool is_cut() const { return is_cut_; }  // the damage is that the last member is cut
  uint64_t used() const { return used_; }  // compressed bytes that were read
  uint64_t made() const { return made_; }  // bytes that they inflated to

 private:
  enum class At : uint8_t { kBegin, kPlain, kMember, kBetween, kEnd };
  GzipStream(At at, io::Descriptor file, std::string_view input);
  // Tries to buffer at least `least` bytes of input.
  bool Has(size_t least, std::string* damage);
  void Step(std::span<char>* out, std::string* damage);

  const io::Descriptor file_;
  const std::unique_ptr<z_stream_s> inflater_;
  At at_;
  bool is_cut_ = false;
  std::vector<char> buffer_;  // input from file_
  std::string_view input_;    // unused input
  uint64_t used_ = 0, made_ = 0;
};

}  // namespace xplane_time
