#include "power/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <optional>

#include "absl/strings/str_cat.h"
#include "json/json.h"
#include "power/sysfs.h"

namespace xplane_time::power {
namespace {

using json::Json;

// A value of cpuinfo's first processor.
Json CpuField(const std::string& procfs, std::string_view key) {
  constexpr size_t kMostBytes = 1 << 16;
  const FileText text = ReadBytes(procfs + "/cpuinfo", kMostBytes);
  const auto value = LineOf(text.value.value_or(""), key);
  return value ? Json(Trimmed(*value)) : Json();
}

Json FirstLine(const std::string& path) {
  const FileText text = ReadBytes(path, 4096);
  return text.value ? Json(text.value->substr(0, text.value->find('\n'))) : Json();
}

}  // namespace

std::string MachineJson(const std::string& procfs) {
  utsname name = {};
  const bool named = uname(&name) == 0;
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return json::Dump(
      {{"host", named ? Json(name.nodename) : Json()},
       {"kernel", named ? Json(absl::StrCat(name.sysname, " ", name.release)) : Json()},
       {"cpu", CpuField(procfs, "model name")},
       {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
       {"memory_bytes", pages > 0 && page_bytes > 0 ? Json(pages * page_bytes) : Json()},
       {"boot_id", FirstLine(absl::StrCat(procfs, "/sys/kernel/random/boot_id"))}});
}

int64_t NowOf(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Clocks ClocksNow() {
  return {NowOf(CLOCK_MONOTONIC), NowOf(CLOCK_REALTIME), NowOf(CLOCK_BOOTTIME)};
}
int64_t MonotonicNow() { return NowOf(CLOCK_MONOTONIC); }
int64_t ThreadCpuNow() { return NowOf(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace xplane_time::power
