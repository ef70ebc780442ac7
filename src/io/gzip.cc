#include "io/gzip.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip format only

}  // namespace

bool LooksLikeGzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink) {
  GzipStream stream(compressed);
  std::vector<char> out(kChunk);
  for (bool at_end = false; !at_end;) {
    std::string damage;
    const size_t made = stream.Fill(out.data(), out.size(), &damage);
    at_end = made < out.size();
    if (stream.made() > max_bytes) {
      return ResourceExhausted("decompresses to more than ", max_bytes, " bytes, which is ",
                               max_bytes / compressed.size(),
                               " times its size; if it is a valid trace, decompress it first");
    }
    RETURN_IF_ERROR(sink({out.data(), made}));
    if (damage.empty()) continue;
    return DataLoss("damaged gzip stream at compressed byte ", stream.used(), ": ",
                    stream.is_cut() ? "it is truncated" : damage,
                    "; copy the file again, or decompress it first");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DecompressText(std::string_view compressed, uint64_t max_bytes) {
  std::string text;
  RETURN_IF_ERROR(Inflate(compressed, max_bytes, [&](std::string_view chunk) {
    text.append(chunk);
    return absl::OkStatus();
  }));
  return text;
}

GzipStream::GzipStream(At at, io::Descriptor file, std::string_view input)
    : file_(std::move(file)),
      inflater_(new z_stream_s()),
      at_(at),
      buffer_(file_.open() ? kChunk : 0),
      input_(input) {
  if (inflateInit2(inflater_.get(), kGzipWindow) != Z_OK) throw std::bad_alloc();
}

GzipStream::~GzipStream() { inflateEnd(inflater_.get()); }

bool GzipStream::Has(size_t least, std::string* damage) {
  size_t size = input_.size();
  if (size >= least || !file_.open()) return size >= least;
  if (size > 0) std::memmove(buffer_.data(), input_.data(), size);
  while (size < least) {
    const ssize_t got =
        TEMP_FAILURE_RETRY(read(file_.get(), buffer_.data() + size, buffer_.size() - size));
    if (got < 0) *damage = std::strerror(errno);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  input_ = std::string_view(buffer_.data(), size);
  return size >= least;
}

bool GzipStream::is_gzip() {
  if (at_ == At::kBegin) {
    std::string damage;  // an error shows again later
    Has(2, &damage);
    at_ = LooksLikeGzip(input_) ? At::kMember : At::kPlain;
  }
  return at_ != At::kPlain;
}

size_t GzipStream::Fill(char* to, size_t size, std::string* damage) {
  if (!is_gzip()) {
    if (!Has(1, damage)) return 0;
    const size_t some = input_.copy(to, size);
    input_.remove_prefix(some);
    return some;
  }
  std::span<char> out(to, size);
  while (!out.empty() && at_ != At::kEnd) Step(&out, damage);
  return size - out.size();
}

void GzipStream::Step(std::span<char>* out, std::string* damage) {
  if (at_ == At::kBetween) {
    Has(2, damage);
    at_ = LooksLikeGzip(input_) ? At::kMember : At::kEnd;
    if (at_ == At::kMember) inflateReset(inflater_.get());
    return;
  }
  if (!Has(1, damage)) {
    if (damage->empty()) *damage = "the gzip stream is truncated";
    is_cut_ = true;
    at_ = At::kEnd;
    return;
  }
  const size_t in_size = std::min(input_.size(), size_t{1} << 30);
  // zlib does not write to its input; its interface predates const.
  inflater_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input_.data()));  // NOLINT
  inflater_->avail_in = static_cast<uInt>(in_size);
  inflater_->next_out = reinterpret_cast<Bytef*>(out->data());
  inflater_->avail_out = static_cast<uInt>(out->size());
  const int result = inflate(inflater_.get(), Z_NO_FLUSH);
  used_ += in_size - inflater_->avail_in;
  input_.remove_prefix(in_size - inflater_->avail_in);
  made_ += out->size() - inflater_->avail_out;
  *out = out->last(inflater_->avail_out);
  if (result == Z_OK || result == Z_BUF_ERROR) return;
  at_ = result == Z_STREAM_END ? At::kBetween : At::kEnd;
  if (result == Z_STREAM_END) return;
  *damage = inflater_->msg != nullptr ? inflater_->msg : "the gzip stream is damaged";
}

}  // namespace xplane_time
