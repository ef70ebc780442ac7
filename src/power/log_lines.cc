#include "power/log_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "power/gzip_stream.h"
#include "power/read_ahead.h"

namespace xplane_time::power {
namespace {

constexpr size_t kChunk = size_t{1} << 18;

absl::Status OpenError(const std::string& path) {
  const std::string message = absl::StrCat(path, ": cannot open: ", std::strerror(errno));
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

LogLines::LogLines(Fill fill) : fill_(std::move(fill)), buffer_(2 * kChunk + kPadding) {}

absl::StatusOr<std::unique_ptr<LogLines>> LogLines::Open(const std::string& path) {
  const int fd = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return OpenError(path);
  struct stat info = {};
  const bool known = fstat(fd, &info) == 0;
  const bool device = S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(fd) == 0);
  if (known && (S_ISDIR(info.st_mode) || device)) {  // some devices have no end
    close(fd);
    return absl::InvalidArgumentError(
        absl::StrCat(path, device ? ": is a device" : ": is a directory", "; give a log"));
  }
  auto stream = std::make_shared<GzipStream>(fd);
  Fill fill = [stream](char* to, size_t size, std::string* damage) {
    return stream->Fill(to, size, damage);
  };
  // Inflating takes as long as all the rest. A pipe is not read ahead: waiting for it has no end.
  if (S_ISREG(info.st_mode) && stream->is_gzip()) {
    try {
      fill = [ahead = std::make_shared<ReadAhead>(fill)](char* to, size_t size,
                                                         std::string* damage) {
        return ahead->Fill(to, size, damage);
      };
    } catch (const std::system_error&) {  // no more threads
    }
  }
  return std::unique_ptr<LogLines>(new LogLines(std::move(fill)));
}

std::unique_ptr<LogLines> LogLines::FromMemory(std::string_view bytes) {
  return std::unique_ptr<LogLines>(
      new LogLines([bytes](char* to, size_t size, std::string*) mutable {
        const size_t some = std::min(size, bytes.size());
        std::copy_n(bytes.data(), some, to);
        bytes.remove_prefix(some);
        return some;
      }));
}

// Appends to the buffer; what was given out is forgotten.
bool LogLines::More() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kChunk + kPadding) buffer_.resize(2 * buffer_.size());
  const size_t got = fill_(buffer_.data() + end_, kChunk, &damage_);
  end_ += got;
  at_end_ = got == 0;
  return got > 0;
}

bool LogLines::Next(LogLine* line) {
  size_t searched = 0;
  uint64_t skipped = 0;  // of a line that is too long
  for (;;) {
    const void* feed =
        std::memchr(buffer_.data() + begin_ + searched, '\n', end_ - begin_ - searched);
    if (feed == nullptr) {
      searched = end_ - begin_;
      if (searched > kLongest) {
        skipped += searched;
        begin_ = end_ = searched = 0;
        if (skipped > kMostSkipped) {
          at_end_ = true;
          damage_ = "a line has over 64 MiB: it and what follows are not read";
        }
      }
      if (More()) continue;
      if (searched == 0 && skipped == 0) return false;
    }
    const char* const from = buffer_.data() + begin_;
    const size_t length =
        feed == nullptr ? searched : static_cast<size_t>(static_cast<const char*>(feed) - from);
    *line = {.text = skipped > 0 ? std::string_view() : std::string_view(from, length),
             .number = ++number_,
             .byte = byte_,
             .whole = feed != nullptr,
             .too_long = skipped > 0};
    const size_t used = length + (feed != nullptr ? 1 : 0);
    begin_ += used;
    byte_ += skipped + used;
    return true;
  }
}

}  // namespace xplane_time::power
