// xplane-time: runs the command of the command line, and ends cleanly in all cases.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <thread>

#include "command.h"
#include "parallel.h"
#include "process.h"

namespace xplane_time::tools {
namespace {

int Main(int argc, char** argv) {
  CommandLine line;
  // In the order of the help.
  for (const auto add : {AddReport, AddBrief, AddWhere, AddHeadroom, AddEvents, AddEnergy,
                         AddDecisions, AddDiff, AddFleet, AddTune, AddGrid, AddVerify, AddPower}) {
    add(&line);
  }
  return line.Main(argc, argv);
}

// If a standard stream is closed, its number must not be reused for one of our files. The
// descriptors that are opened instead fail to read or write, and are closed in child processes.
void KeepStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // open returns the lowest free number, which is this one.
    open("/dev/null", (fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
  }
}

// Ends the program at any point, also in a signal handler.
[[noreturn]] void EndAtOnce(std::string_view why) {
  RemoveUnfinishedOutput();
  const ssize_t ignored = write(STDERR_FILENO, why.data(), why.size());
  static_cast<void>(ignored);
  _exit(kExitIo);
}

// A page of a mapped file could not be read.
void OnLostFile(int /*signal*/) {
  EndAtOnce("xplane-time: the trace was truncated, or became unreadable, while it was read\n");
}

constexpr char kOutOfMemory[] = "xplane-time: out of memory; --threads 1 needs the least memory\n";

// End at once: an exception may meet hash tables that cannot handle it (Abseil's, while they grow).
void OnNoMemory() { EndAtOnce(kOutOfMemory); }

// Removes incomplete output; then the signal has its default effect.
void OnStop(int signal) {
  RemoveUnfinishedOutput();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Columns of all sizes are allocated and freed. Returning their memory in between costs page
// faults, and so do small pages. So the first part of the heap uses large pages, if the system
// provides them.
void KeepMemory() {
  constexpr int kHeapBytes = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kHeapBytes / 8);
  mallopt(M_TRIM_THRESHOLD, 2 * kHeapBytes);
  for (const auto resource :
       {RLIMIT_AS, RLIMIT_DATA}) {  // if memory is limited, do not reserve any
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return;
  }
  mallopt(M_TOP_PAD, kHeapBytes);
  // Other heaps have small pages. There are few of them, as long as threads seldom wait for each
  // other.
  mallopt(M_ARENA_MAX, std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 4));
  void* volatile some = std::malloc(1 << 20);  // this allocation extends the heap
  std::free(some);
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  char* const top = static_cast<char*>(sbrk(0));
  char* const end = top - reinterpret_cast<uintptr_t>(top) % page_bytes;
  madvise(end - kHeapBytes, kHeapBytes, MADV_HUGEPAGE);
}

int GuardedMain(int argc, char** argv) {
  KeepStandardStreams();
  // A closed pipe and a file size limit are write errors.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, OnLostFile);
  OnStopSignals(OnStop);
  std::set_new_handler(OnNoMemory);
  KeepMemory();
  HelperThread::KeepThreads();
  try {
    return Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs(kOutOfMemory, stderr);  // thrown if memory cannot be mapped
    return kExitIo;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "xplane-time: internal error: %s; please report it with the trace\n",
                 error.what());
    return kExitBug;
  }
}

}  // namespace
}  // namespace xplane_time::tools

int main(int argc, char** argv) { return xplane_time::tools::GuardedMain(argc, argv); }
