// Inflating: damaged streams are refused within the cap; what zlib deflated comes back,
// alone and as one of two members; a stream that lost its end is refused.
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "read/gzip.h"
#include "xplane_time/read.h"

namespace {

constexpr uint64_t kCap = uint64_t{1} << 20;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

std::string Deflate(std::string_view text) {
  z_stream stream = {};
  Require(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "init");
  std::string out(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void CheckDamaged(std::string_view bytes) {
  const auto text = xplane_time::DecompressText(bytes, kCap);
  if (text.ok()) {
    Require(text->size() <= kCap, "the cap");
    Require(xplane_time::LooksLikeGzip(bytes), "gzip is known by its magic");
    return;
  }
  Require(absl::IsDataLoss(text.status()) || absl::IsResourceExhausted(text.status()),
          "DataLoss or ResourceExhausted");
}

void CheckRoundTrip(std::string_view text) {
  const std::string member = Deflate(text);
  const auto once = xplane_time::DecompressText(member, kCap);
  Require(once.ok() && *once == text, "one member comes back");
  const auto twice = xplane_time::DecompressText(member + member, 2 * kCap);
  Require(twice.ok() && *twice == std::string(text) + std::string(text), "two members come back");
  const auto cut = xplane_time::DecompressText(
      std::string_view(member).substr(0, member.size() - 1), kCap);
  Require(absl::IsDataLoss(cut.status()), "a cut stream is refused");
  if (text.empty()) return;
  const auto capped = xplane_time::DecompressText(member, text.size() - 1);
  Require(absl::IsResourceExhausted(capped.status()), "the cap is kept");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckDamaged(bytes);
  if (size <= kCap) CheckRoundTrip(bytes);
  return 0;
}
