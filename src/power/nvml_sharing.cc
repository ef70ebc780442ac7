#include "power/nvml_sharing.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

namespace xplane_time::power {
namespace {

// Of the namespace that every other is in (PROC_PID_INIT_INO of the kernel).
constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";
constexpr int kMaxDepth = 10'000;
constexpr unsigned kMaxProcesses = 1 << 16;

// The field after the name in parentheses, which may itself hold any character, and the state.
std::optional<int64_t> ParentOf(int64_t pid, const std::string& procfs) {
  std::ifstream file(procfs + "/" + std::to_string(pid) + "/stat", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || text.size() < name_end + 5) return std::nullopt;
  const char* begin = text.data() + name_end + 4;
  int64_t parent = 0;
  const auto parsed = std::from_chars(begin, text.data() + text.size(), parent);
  if (parsed.ec != std::errc()) return std::nullopt;
  return parent;
}

enum class Kin : uint8_t { kOwn, kOther, kUnknown };

Kin KinOf(int64_t pid, int64_t own_pid, const std::string& procfs) {
  for (int depth = 0; depth < kMaxDepth && pid > 0; ++depth) {
    if (pid == own_pid) return Kin::kOwn;
    const std::optional<int64_t> parent = ParentOf(pid, procfs);
    if (!parent) return depth == 0 ? Kin::kUnknown : Kin::kOther;
    pid = *parent;
  }
  return Kin::kOther;
}

bool InOwnNamespace(const std::string& procfs) {
  char target[64] = {};
  const ssize_t size = readlink((procfs + "/self/ns/pid").c_str(), target, sizeof target - 1);
  return size > 0 && std::string_view(target, static_cast<size_t>(size)) != kFirstPidNamespace;
}

}  // namespace

Sharing OtherProcesses(const std::vector<int64_t>& pids, int64_t own_pid,
                       const std::string& procfs) {
  Sharing sharing;
  const bool own_namespace = InOwnNamespace(procfs);
  for (const int64_t pid : pids) {
    const Kin kin = KinOf(pid, own_pid, procfs);
    if (kin == Kin::kOwn) continue;
    if (kin == Kin::kOther && !own_namespace) {
      sharing.others.push_back(pid);
    } else {
      sharing.note = "whether other processes use it is not known: process " + std::to_string(pid) +
                     " on it may be of another pid namespace";
    }
  }
  if (!sharing.others.empty()) sharing.note.clear();
  return sharing;
}

Sharing SharingOf(const NvmlApi& nvml, NvmlDevice device, int64_t own_pid,
                  const std::string& procfs) {
  NvmlReturn result = kNvmlFunctionNotFound;
  std::vector<NvmlProcess> processes(64);
  // More may start between two calls.
  for (int attempt = 0; attempt < 4 && nvml.compute_processes != nullptr; ++attempt) {
    auto count = static_cast<unsigned>(processes.size());
    result = nvml.compute_processes(device, &count, processes.data());
    if (result == kNvmlSuccess) {
      if (count < processes.size()) processes.resize(count);
      break;
    }
    if (result != kNvmlInsufficientSize || count > kMaxProcesses) break;
    processes.resize(size_t{count} + 64);
  }
  if (result != kNvmlSuccess) {
    return {{},
            "whether other processes use it is not known: "
            "nvmlDeviceGetComputeRunningProcesses: " +
                NvmlErrorText(result)};
  }
  std::vector<int64_t> pids;
  for (const NvmlProcess& process : processes) pids.push_back(process.pid);
  return OtherProcesses(pids, own_pid == 0 ? getpid() : own_pid, procfs);
}

}  // namespace xplane_time::power
