// Reads small files of sysfs and procfs as numbers: a value, or the reason why there is none.
//
//   ReadNumber("/sys/class/hwmon/hwmon2/power1_average");  // {35000000, kKnown}
//   ReadNumber("/sys/class/powercap/intel-rapl:0/energy_uj");  // {nullopt, kPermissionDenied}
//   NumberIn("");  // {nullopt, kUnsupported}: an empty file is not a zero
//
// These functions never block on a FIFO and never read without a limit. Not thread-safe: an object
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
  PowerReason reason = PowerReason::kKnown;  // valid if value is empty
};
using FileNumber = FileValue<int64_t>;
using FileText = FileValue<std::string>;

// The meaning of an error of open(2) and of read(2). They differ: if an opened file answers EPERM,
// the device sleeps or is being reset (amdgpu); permission is not missing.
PowerReason ReasonOfOpen(int error);
PowerReason ReasonOfRead(int error);

enum class Sign : uint8_t { kNotNegative, kAny };

// A decimal number, possibly with blanks around it. Other text, a number beyond int64_t, and a
// number with the wrong sign are kUnsupported.
FileNumber NumberIn(std::string_view text, Sign sign = Sign::kNotNegative);
FileNumber ReadNumber(const std::string& path, Sign sign = Sign::kNotNegative);

// value * multiply / divide, towards 0: converts a file's unit to that of a channel's quantity.
struct Scale {
  int64_t multiply = 1, divide = 1;
};
FileNumber Scaled(FileNumber number, Scale scale);

// ReadBytes returns the first `max_bytes` of a file. ReadText also removes blanks at both ends.
FileText ReadBytes(const std::string& path, size_t max_bytes);
FileText ReadText(const std::string& path, size_t max_bytes = 4096);
std::string TextIn(const std::string& path);  // also empty if it cannot be read

// Removes `blanks` (zero bytes by default, too) at both ends.
inline constexpr std::string_view kBlanks(" \t\r\n\0", 5);
std::string_view Trimmed(std::string_view text, std::string_view blanks = kBlanks);

// The text after the colon of the first line "KEY<blanks>: VALUE".
std::optional<std::string_view> LineOf(std::string_view text, std::string_view key);
// The number of a line "KEY: 123 kB" in bytes; without a unit, the number itself. kNoSamples if
// there is no such line.
FileNumber FieldOf(const FileText& text, std::string_view key);

// A field of /proc/PID/stat. `number` counts from 1, as in proc(5). Fields from 3 on are counted
// after the last ')', because a program's name may contain blanks and parentheses.
std::optional<std::string_view> StatField(std::string_view stat, int number);

// The names in a directory, "x9" before "x10"; empty if it cannot be read.
std::vector<std::string> NamesIn(const std::string& directory);
bool NaturalLess(const std::string& a, const std::string& b);

// A file that is read repeatedly through one descriptor: two system calls for a reading. After an
// error, the next reading opens the file again, so that a returning driver is found. A file that
// existed and is gone is kDeviceLost.
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
