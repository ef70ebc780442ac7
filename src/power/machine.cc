#include "power/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace xplane_time::power {
namespace {

using Json = nlohmann::ordered_json;

// What follows the colon of the first line that begins with `name`.
Json FieldOf(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return nullptr;
}

Json FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? Json(line) : Json();
}

}  // namespace

std::string MachineJson(const std::string& procfs) {
  utsname name = {};
  const bool named = uname(&name) == 0;
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  const Json json = {
      {"host", named ? Json(name.nodename) : Json()},
      {"kernel", named ? Json(absl::StrCat(name.sysname, " ", name.release)) : Json()},
      {"cpu", FieldOf(absl::StrCat(procfs, "/cpuinfo"), "model name")},
      {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
      {"memory_bytes", pages > 0 && page_bytes > 0 ? Json(pages * page_bytes) : Json()},
      {"boot_id", FirstLine(absl::StrCat(procfs, "/sys/kernel/random/boot_id"))}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

int64_t Read(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Clocks ClocksNow() { return {Read(CLOCK_MONOTONIC), Read(CLOCK_REALTIME), Read(CLOCK_BOOTTIME)}; }

int64_t MonotonicNow() { return Read(CLOCK_MONOTONIC); }

int64_t ThreadCpuNow() { return Read(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace xplane_time::power
