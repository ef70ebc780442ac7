// Small files of sysfs and procfs, as numbers: a value, or the reason why there is none.
//
//   ReadNumber("/sys/class/hwmon/hwmon2/power1_average");  // {35000000, kNone}
//   ReadNumber("/sys/class/powercap/intel-rapl:0/energy_uj");  // {nullopt, kPermissionDenied}
//   NumberIn("");  // {nullopt, kUnsupported}: an empty file is not a zero
//
// Nothing here blocks on a FIFO, and nothing reads without bound. Not thread-safe: an object
// belongs to one reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/descriptor.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

using io::Descriptor;

template <typename T>
struct FileValue {
  FileValue() = default;
  FileValue(T known) : value(std::move(known)) {}  // NOLINT: a value is one, and so is a reason
  FileValue(PowerReason why) : reason(why) {}      // NOLINT
  FileValue(std::optional<T> known, PowerReason why) : value(std::move(known)), reason(why) {}

  std::optional<T> value = {};
  PowerReason reason = PowerReason::kKnown;  // where value is empty
};
using FileNumber = FileValue<int64_t>;
using FileText = FileValue<std::string>;

// What an error of open(2) and of read(2) says. They differ: a file that was opened and then
// answers EPERM is a device that sleeps or is being reset (amdgpu), not a missing permission.
PowerReason ReasonOfOpen(int error);
PowerReason ReasonOfRead(int error);

enum class Sign : uint8_t { kNotNegative, kAny };

// A decimal number with blanks around it and nothing else; anything else, a number beyond
// int64_t and one of the wrong sign are kUnsupported.
FileNumber NumberIn(std::string_view text, Sign sign = Sign::kNotNegative);
FileNumber ReadNumber(const std::string& path, Sign sign = Sign::kNotNegative);

// value * multiply / divide, towards 0. Of file's units to those of a channel's quantity.
struct Scale {
  int64_t multiply = 1, divide = 1;
};
FileNumber Scaled(FileNumber number, Scale scale);

// The first `max_bytes` of a file; ReadText without blanks at the ends.
FileText ReadBytes(const std::string& path, size_t max_bytes);
FileText ReadText(const std::string& path, size_t max_bytes = 4096);
std::string TextIn(const std::string& path);  // empty where it cannot be read, too

// Without any of `blanks` (zeros are some) at its ends.
inline constexpr std::string_view kBlanks(" \t\r\n\0", 5);
std::string_view Trimmed(std::string_view text, std::string_view blanks = kBlanks);

// What follows the colon of the first line "KEY<blanks>: VALUE".
std::optional<std::string_view> LineOf(std::string_view text, std::string_view key);
// The number of a line "KEY: 123 kB" in bytes; without the unit as it is. No such line:
// kNoSamples.
FileNumber FieldOf(const FileText& text, std::string_view key);

// Of /proc/PID/stat. Field `number` counts as in proc(5), from 1; those from 3 on follow the last
// ')', since a program's name may contain blanks and parentheses.
std::optional<std::string_view> StatField(std::string_view stat, int number);

// Names in a directory, "x9" before "x10"; none where it cannot be read.
std::vector<std::string> NamesIn(const std::string& directory);
bool NaturalLess(const std::string& a, const std::string& b);

// A file that is read again and again through one descriptor: two system calls a reading.
// After an error the next reading opens it anew, so that a driver that comes back is found;
// a file that has been there once and is gone is kDeviceLost.
class HeldFile {
 public:
  explicit HeldFile(std::string path, Sign sign = Sign::kNotNegative)
      : path_(std::move(path)), sign_(sign) {}
  FileNumber Read();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Sign sign_;
  Descriptor file_;
  bool was_there_ = false;
};

}  // namespace xplane_time::power
