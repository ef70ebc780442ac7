#include "io/gzip.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip wrapping only

absl::Status Damaged(uint64_t offset, const char* why) {
  return DataLoss("damaged gzip stream at compressed byte ", offset, why == nullptr ? "" : ": ",
                  why == nullptr ? "" : why, "; copy the file again, or give the inflated one");
}

}  // namespace

bool LooksLikeGzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

Inflater::Inflater()
    : stream_(new z_stream_s()), ok_(inflateInit2(stream_.get(), kGzipWindow) == Z_OK) {}

Inflater::~Inflater() {
  if (ok_) inflateEnd(stream_.get());
}

Inflater::State Inflater::Step(std::string_view* in, std::span<char>* out) {
  if (state_ == State::kBetween && inflateReset(stream_.get()) != Z_OK) return State::kDamaged;
  const size_t in_size = std::min(in->size(), size_t{1} << 30);
  // zlib does not write to its input; its interface predates const.
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in->data()));  // NOLINT
  stream_->avail_in = static_cast<uInt>(in_size);
  stream_->next_out = reinterpret_cast<Bytef*>(out->data());
  stream_->avail_out = static_cast<uInt>(out->size());
  const int result = inflate(stream_.get(), Z_NO_FLUSH);
  in->remove_prefix(in_size - stream_->avail_in);
  *out = out->last(stream_->avail_out);
  state_ = result == Z_STREAM_END                    ? State::kBetween
           : result == Z_OK || result == Z_BUF_ERROR ? State::kInside
                                                     : State::kDamaged;
  return state_;
}

const char* Inflater::why() const { return stream_->msg; }

absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink) {
  Inflater inflater;
  if (!inflater.ok()) return ResourceExhausted("no memory for inflating gzip");
  std::vector<char> out(kChunk);
  std::string_view in = compressed;
  uint64_t out_bytes = 0;
  for (Inflater::State state = {}; state != Inflater::State::kBetween || LooksLikeGzip(in);) {
    const bool at_end = in.empty();
    std::span<char> room(out);
    state = inflater.Step(&in, &room);
    const std::string_view made(out.data(), out.size() - room.size());
    const bool cut = state == Inflater::State::kInside && at_end && made.empty();
    if (cut || state == Inflater::State::kDamaged) {
      return Damaged(compressed.size() - in.size(), cut ? "it ends in the middle" : inflater.why());
    }
    out_bytes += made.size();
    if (out_bytes > max_bytes) {
      return ResourceExhausted(
          "inflates to more than ", max_bytes, " bytes, which is ", max_bytes / compressed.size(),
          " times its size; if it is a real trace, inflate it yourself and give the plain file");
    }
    RETURN_IF_ERROR(sink(made));
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

bool GzipStream::Has(size_t least, std::string* damage) {
  size_t size = input_.size();
  std::memmove(buffer_.data(), input_.data(), size);
  while (size < least) {
    const ssize_t got =
        TEMP_FAILURE_RETRY(read(fd_.get(), buffer_.data() + size, buffer_.size() - size));
    if (got < 0) *damage = std::strerror(errno);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  input_ = std::string_view(buffer_.data(), size);
  return size >= least;
}

bool GzipStream::is_gzip() {
  if (at_ == At::kBegin) {
    std::string damage;  // it shows again
    Has(2, &damage);
    at_ = LooksLikeGzip(input_) ? At::kMember : At::kPlain;
  }
  return at_ != At::kPlain;
}

size_t GzipStream::Fill(char* to, size_t size, std::string* damage) {
  if (!is_gzip()) {
    if (input_.empty() && !Has(1, damage)) return 0;
    const size_t some = input_.copy(to, size);
    input_.remove_prefix(some);
    return some;
  }
  if (!inflater_.ok()) {
    *damage = "no memory for inflating it";
    return 0;
  }
  std::span<char> out(to, size);
  while (!out.empty() && at_ != At::kEnd) Step(&out, damage);
  return size - out.size();
}

void GzipStream::Step(std::span<char>* out, std::string* damage) {
  if (at_ == At::kBetween) {
    if (input_.size() < 2) Has(2, damage);
    at_ = LooksLikeGzip(input_) ? At::kMember : At::kEnd;
    return;
  }
  if (input_.empty() && !Has(1, damage)) {
    if (damage->empty()) *damage = "the gzip stream ends early";
    at_ = At::kEnd;
    return;
  }
  const Inflater::State state = inflater_.Step(&input_, out);
  if (state == Inflater::State::kInside) return;
  at_ = state == Inflater::State::kBetween ? At::kBetween : At::kEnd;
  if (state == Inflater::State::kBetween) return;
  *damage = inflater_.why() != nullptr ? inflater_.why() : "the gzip stream is damaged";
}

}  // namespace xplane_time
