#include "power/sysfs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_split.h"
#include "io/whole_file.h"
#include "status.h"

namespace xplane_time::power {
namespace {

// O_NONBLOCK: a FIFO in place of a file must not hang.
Descriptor OpenFile(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  return Descriptor(static_cast<int>(TEMP_FAILURE_RETRY(open(path.c_str(), kFlags))));
}

}  // namespace

std::string_view Trimmed(std::string_view text, std::string_view blanks) {
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

PowerReason ReasonOfOpen(int error) {
  if (error == EACCES || error == EPERM) return PowerReason::kPermissionDenied;
  const bool is_absent = error == ENOENT || error == ENOTDIR || error == ELOOP;
  return is_absent ? PowerReason::kAbsent : ReasonOfRead(error);
}

PowerReason ReasonOfRead(int error) {
  using enum PowerReason;
  using Row = std::pair<int, PowerReason>;
  constexpr Row kReasons[] = {
      {EACCES, kPermissionDenied}, {EPERM, kNoSamples},   {EAGAIN, kNoSamples}, {EBUSY, kNoSamples},
      {ENODATA, kNoSamples},       {ENODEV, kDeviceLost}, {ENXIO, kDeviceLost}, {EIO, kDeviceLost},
      {ESRCH, kDeviceLost},  // in procfs
      {ENOENT, kDeviceLost},       {ESTALE, kDeviceLost}, {ETIMEDOUT, kHung},   {ETIME, kHung}};
  const auto* at = std::ranges::find(kReasons, error, &Row::first);
  return at == std::end(kReasons) ? kUnsupported : at->second;
}

FileNumber Scaled(FileNumber number, Scale scale) {
  if (!number.value) return number;
  int64_t product = 0;
  if (__builtin_mul_overflow(*number.value, scale.multiply, &product)) {
    return PowerReason::kUnsupported;
  }
  return product / scale.divide;
}

FileNumber NumberIn(std::string_view text, Sign sign) {
  const std::string_view digits = Trimmed(text);
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || error != std::errc() || stop != end ||
      (value < 0 && sign == Sign::kNotNegative)) {
    return PowerReason::kUnsupported;
  }
  return value;
}

FileNumber ReadNumber(const std::string& path, Sign sign) { return HeldFile(path, sign).Read(); }

FileText ReadBytes(const std::string& path, size_t max_bytes) {
  const Descriptor file = OpenFile(path);
  if (!file.open()) return ReasonOfOpen(errno);
  std::string text(max_bytes, '\0');
  const ssize_t size = io::ReadFull(file.get(), text.data(), max_bytes);
  if (size < 0) return ReasonOfRead(errno);
  text.resize(static_cast<size_t>(size));
  return text;
}

FileText ReadText(const std::string& path, size_t max_bytes) {
  FileText text = ReadBytes(path, max_bytes);
  if (text.value) text.value = std::string(Trimmed(*text.value));
  return text;
}

std::string TextIn(const std::string& path) { return ReadText(path).value.value_or(""); }

std::optional<std::string_view> LineOf(std::string_view text, std::string_view key) {
  for (const absl::string_view each : absl::StrSplit(Absl(text), '\n')) {
    const std::string_view line(each.data(), each.size());
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !line.starts_with(key)) continue;
    if (Trimmed(line.substr(0, colon)) == key) return line.substr(colon + 1);
  }
  return std::nullopt;
}

FileNumber FieldOf(const FileText& text, std::string_view key) {
  if (!text.value) return text.reason;
  const std::optional<std::string_view> line = LineOf(*text.value, key);
  if (!line) return PowerReason::kNoSamples;
  std::string_view value = Trimmed(*line);
  const bool in_kib = value.ends_with(" kB");
  if (in_kib) value.remove_suffix(3);
  return Scaled(NumberIn(value), {in_kib ? 1024 : 1});
}

std::optional<std::string_view> StatField(std::string_view stat, int number) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(Absl(stat.substr(name_end + 1)), ' ', absl::SkipEmpty());
  const auto at = static_cast<size_t>(number - 3);
  if (at >= fields.size()) return std::nullopt;
  return std::string_view(fields[at].data(), fields[at].size());
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end(), NaturalLess);
  return names;
}

bool NaturalLess(const std::string& a, const std::string& b) {
  return strverscmp(a.c_str(), b.c_str()) < 0;
}

FileNumber HeldFile::Read() {
  // The file was replaced. sysfs itself fails to read a removed file.
  struct stat status;
  if (file_.open() && fstat(file_.get(), &status) == 0 && status.st_nlink == 0) file_.Close();
  if (!file_.open()) {
    file_ = OpenFile(path_);
    if (!file_.open()) {
      const PowerReason reason = ReasonOfOpen(errno);
      const bool lost = was_there_ && reason == PowerReason::kAbsent;
      return lost ? PowerReason::kDeviceLost : reason;
    }
    was_there_ = true;
  }
  std::array<char, 64> text;
  const ssize_t n = TEMP_FAILURE_RETRY(pread(file_.get(), text.data(), text.size(), 0));
  if (n < 0) {
    const PowerReason reason = ReasonOfRead(errno);
    file_.Close();
    return reason;
  }
  // A file that fills the buffer does not contain a number.
  const auto size = static_cast<size_t>(n);
  if (size == text.size()) return PowerReason::kUnsupported;
  return NumberIn(std::string_view(text.data(), size), sign_);
}

}  // namespace xplane_time::power
