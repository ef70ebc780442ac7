// Inflating: damaged streams are refused, and the limit is kept. Text that zlib deflated is
// restored, alone and as one of two members. A truncated stream is refused.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/gzip.h"
#include "tests/read/gzip_text.h"
#include "xplane_time/read.h"

namespace {

constexpr uint64_t kCap = uint64_t{1} << 20;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
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
  const std::string member = xplane_time::testing::GzipText(text);
  const auto once = xplane_time::DecompressText(member, kCap);
  Require(once.ok() && *once == text, "one member comes back");
  const auto twice = xplane_time::DecompressText(member + member, 2 * kCap);
  Require(twice.ok() && *twice == std::string(text) + std::string(text), "two members come back");
  const auto cut =
      xplane_time::DecompressText(std::string_view(member).substr(0, member.size() - 1), kCap);
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
