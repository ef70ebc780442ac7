#include "power/gzip_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xplane_time::power {
namespace {

constexpr size_t kInput = size_t{1} << 18;
constexpr int kGzipOnly = 15 + 16;  // zlib: the largest window, gzip's header

}  // namespace

GzipStream::GzipStream(int fd) : fd_(fd), input_(kInput) {
  ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  stream_.next_in = input_.data();
}

GzipStream::~GzipStream() {
  if (ready_) inflateEnd(&stream_);
  close(fd_);
}

bool GzipStream::Has(size_t least, std::string* damage) {
  std::memmove(input_.data(), stream_.next_in, stream_.avail_in);
  stream_.next_in = input_.data();
  while (stream_.avail_in < least) {
    const ssize_t got =
        read(fd_, input_.data() + stream_.avail_in, input_.size() - stream_.avail_in);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) *damage = std::strerror(errno);
    if (got <= 0) return false;
    stream_.avail_in += static_cast<uInt>(got);
  }
  return true;
}

bool GzipStream::LooksLikeMember() const {
  return stream_.avail_in >= 2 && stream_.next_in[0] == 0x1f && stream_.next_in[1] == 0x8b;
}

bool GzipStream::is_gzip() {
  if (at_ == At::kBegin) {
    std::string damage;  // it shows again
    Has(2, &damage);
    at_ = LooksLikeMember() ? At::kMember : At::kPlain;
  }
  return at_ != At::kPlain;
}

size_t GzipStream::Fill(char* to, size_t size, std::string* damage) {
  if (!is_gzip()) return Copy(to, size, damage);
  if (!ready_) {
    *damage = "no memory for inflating it";
    return 0;
  }
  stream_.next_out = reinterpret_cast<Bytef*>(to);
  stream_.avail_out = static_cast<uInt>(size);
  while (stream_.avail_out > 0 && at_ != At::kEnd) Step(damage);
  return size - stream_.avail_out;
}

size_t GzipStream::Copy(char* to, size_t size, std::string* damage) {
  if (stream_.avail_in == 0 && !Has(1, damage)) return 0;
  const size_t some = std::min<size_t>(size, stream_.avail_in);
  std::memcpy(to, stream_.next_in, some);
  stream_.next_in += some;
  stream_.avail_in -= static_cast<uInt>(some);
  return some;
}

void GzipStream::Step(std::string* damage) {
  if (at_ == At::kBetween) {
    if (stream_.avail_in < 2) Has(2, damage);
    at_ = LooksLikeMember() && inflateReset(&stream_) == Z_OK ? At::kMember : At::kEnd;
    return;
  }
  if (stream_.avail_in == 0 && !Has(1, damage)) {
    if (damage->empty()) *damage = "the gzip stream ends early";
    at_ = At::kEnd;
    return;
  }
  const int code = inflate(&stream_, Z_NO_FLUSH);
  if (code == Z_STREAM_END) {
    at_ = At::kBetween;
  } else if (code != Z_OK && code != Z_BUF_ERROR) {
    *damage = stream_.msg != nullptr ? stream_.msg : "the gzip stream is damaged";
    at_ = At::kEnd;
  }
}

}  // namespace xplane_time::power
