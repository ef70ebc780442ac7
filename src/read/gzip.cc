#include "read/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip wrapping only

absl::Status Damaged(uint64_t offset, const char* why) {
  return absl::DataLossError(absl::StrCat("damaged gzip stream at compressed byte ", offset,
                                          why == nullptr ? "" : ": ", why == nullptr ? "" : why,
                                          "; copy the file again, or give the inflated one"));
}

// One z_stream, ended on every path.
class InflateState {
 public:
  InflateState() { ok_ = inflateInit2(&stream, kGzipWindow) == Z_OK; }
  ~InflateState() {
    if (ok_) inflateEnd(&stream);
  }
  InflateState(const InflateState&) = delete;
  InflateState& operator=(const InflateState&) = delete;
  bool ok() const { return ok_; }
  z_stream stream = {};

 private:
  bool ok_;
};

}  // namespace

bool LooksLikeGzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink) {
  InflateState state;
  if (!state.ok()) return absl::ResourceExhaustedError("no memory for inflating gzip");
  z_stream& stream = state.stream;
  std::vector<char> out(kChunk);
  uint64_t in_at = 0, out_bytes = 0;
  bool member_done = false;
  while (!member_done || in_at < compressed.size()) {
    if (member_done) {
      if (!LooksLikeGzip(compressed.substr(in_at))) break;  // padding after the last member
      if (inflateReset(&stream) != Z_OK) return Damaged(in_at, stream.msg);
    }
    const size_t in_size = std::min<size_t>(compressed.size() - in_at, size_t{1} << 30);
    // zlib does not write to its input; its interface predates const.
    stream.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data() + in_at));  // NOLINT
    stream.avail_in = static_cast<uInt>(in_size);
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    in_at += in_size - stream.avail_in;
    const size_t produced = out.size() - stream.avail_out;
    if (result != Z_OK && result != Z_STREAM_END) {
      return Damaged(in_at, result == Z_BUF_ERROR ? "it ends in the middle" : stream.msg);
    }
    member_done = result == Z_STREAM_END;
    out_bytes += produced;
    if (out_bytes > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "inflates to more than ", max_bytes, " bytes, which is ", max_bytes / compressed.size(),
          " times its size; if it is a real trace, inflate it yourself and give the plain file"));
    }
    if (absl::Status status = sink(std::string_view(out.data(), produced)); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DecompressText(std::string_view compressed, uint64_t max_bytes) {
  std::string text;
  absl::Status status = Inflate(compressed, max_bytes, [&](std::string_view chunk) {
    text.append(chunk);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return text;
}

}  // namespace xplane_time
