#include "power/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace xplane_time::power {
namespace {

constexpr std::string_view kBlanks(" \t\r\n\0", 5);

// O_NONBLOCK: a FIFO in place of a file must not hang.
int OpenFile(const std::string& path) {
  int fd;
  do {
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

ssize_t ReadAt(int fd, char* to, size_t size, size_t offset) {
  ssize_t n;
  do {
    n = pread(fd, to, size, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  return n;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view DigitsAt(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && IsDigit(text[end])) ++end;
  std::string_view digits = text.substr(begin, end - begin);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

void Descriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int Descriptor::Release() { return std::exchange(fd_, -1); }

PowerReason ReasonOfOpen(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return PowerReason::kPermissionDenied;
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
      return PowerReason::kAbsent;
    default:
      return ReasonOfRead(error);
  }
}

PowerReason ReasonOfRead(int error) {
  switch (error) {
    case EACCES:
      return PowerReason::kPermissionDenied;
    case EPERM:
    case EAGAIN:
    case EBUSY:
    case ENODATA:
      return PowerReason::kNoSamples;
    case ENODEV:
    case ENXIO:
    case EIO:
    case ESRCH:  // of procfs: the process is gone
    case ENOENT:
    case ESTALE:
      return PowerReason::kDeviceLost;
    case ETIMEDOUT:
    case ETIME:
      return PowerReason::kHung;
    default:
      return PowerReason::kUnsupported;
  }
}

FileNumber NumberIn(std::string_view text, Sign sign) {
  const std::string_view digits = Trimmed(text);
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || error != std::errc() || stop != end ||
      (value < 0 && sign == Sign::kNotNegative)) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  return {value, PowerReason::kKnown};
}

FileNumber ReadNumber(const std::string& path, Sign sign) { return HeldFile(path, sign).Read(); }

FileText ReadBytes(const std::string& path, size_t max_bytes) {
  const Descriptor file(OpenFile(path));
  if (!file.open()) return Unknown<std::string>(ReasonOfOpen(errno));
  std::string text(max_bytes, '\0');
  size_t size = 0;
  while (size < max_bytes) {
    const ssize_t n = ReadAt(file.get(), text.data() + size, max_bytes - size, size);
    if (n < 0) return Unknown<std::string>(ReasonOfRead(errno));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return {std::move(text), PowerReason::kKnown};
}

FileText ReadText(const std::string& path, size_t max_bytes) {
  FileText text = ReadBytes(path, max_bytes);
  if (text.value) text.value = std::string(Trimmed(*text.value));
  return text;
}

std::optional<std::string_view> LineOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !line.starts_with(key)) continue;
    if (Trimmed(line.substr(0, colon)) == key) return line.substr(colon + 1);
  }
  return std::nullopt;
}

FileNumber FieldOf(std::string_view text, std::string_view key) {
  const std::optional<std::string_view> line = LineOf(text, key);
  if (!line) return Unknown<int64_t>(PowerReason::kNoSamples);
  constexpr int64_t kKibibyte = 1024;
  std::string_view value = Trimmed(*line);
  const bool in_kib = value.ends_with(" kB");
  if (in_kib) value.remove_suffix(3);
  FileNumber number = NumberIn(value);
  if (!number.value || !in_kib) return number;
  if (*number.value > std::numeric_limits<int64_t>::max() / kKibibyte) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  *number.value *= kKibibyte;
  return number;
}

std::optional<std::string_view> StatField(std::string_view stat, int number) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  size_t at = name_end + 1;
  for (int field = 3;; ++field) {
    at = stat.find_first_not_of(' ', at);
    if (at == std::string_view::npos) return std::nullopt;
    const size_t end = std::min(stat.find(' ', at), stat.size());
    if (field == number) return stat.substr(at, end - at);
    at = end;
  }
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(directory.c_str()), closedir);
  if (opened == nullptr) return names;
  while (const dirent* entry = readdir(opened.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end(), NaturalLess);
  return names;
}

bool NaturalLess(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const std::string_view x = DigitsAt(a, i), y = DigitsAt(b, j);
      if (x != y) return x.size() != y.size() ? x.size() < y.size() : x < y;
      while (i < a.size() && IsDigit(a[i])) ++i;
      while (j < b.size() && IsDigit(b[j])) ++j;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i, ++j;
    }
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // "01" and "1": any order, but one
}

std::string FailureText(std::string_view path, PowerReason reason) {
  std::string text(PowerReasonName(reason));
  std::replace(text.begin(), text.end(), '_', ' ');
  return std::string(path) + ": " + text;
}

FileNumber HeldFile::Read() {
  // A file that was replaced. sysfs itself fails to read one that is gone.
  struct stat status;
  if (file_.open() && fstat(file_.get(), &status) == 0 && status.st_nlink == 0) file_.Close();
  if (!file_.open()) {
    file_ = Descriptor(OpenFile(path_));
    if (!file_.open()) {
      const PowerReason reason = ReasonOfOpen(errno);
      const bool lost = was_there_ && reason == PowerReason::kAbsent;
      return Unknown<int64_t>(lost ? PowerReason::kDeviceLost : reason);
    }
    was_there_ = true;
  }
  std::array<char, 64> text;
  const ssize_t n = ReadAt(file_.get(), text.data(), text.size(), 0);
  if (n < 0) {
    const PowerReason reason = ReasonOfRead(errno);
    file_.Close();
    return Unknown<int64_t>(reason);
  }
  // A file that fills the buffer is no number.
  const auto size = static_cast<size_t>(n);
  if (size == text.size()) return Unknown<int64_t>(PowerReason::kUnsupported);
  return NumberIn(std::string_view(text.data(), size), sign_);
}

}  // namespace xplane_time::power
