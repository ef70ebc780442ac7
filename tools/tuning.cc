#include "tuning.h"

#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "scratch.h"
#include "status.h"
#include "xplane_time/space.h"

namespace xplane_time::tools {

void AddHarnessLimits(const Heading& heading, ProcessHarnessOptions* harness) {
  heading.Value("--calls", &harness->calls, "N",
                "Calls per timed run; the measured time is divided by N (default 1)",
                CLI::Range(1, 1'000'000));
  heading.Seconds("--slot-timeout", &harness->slot_timeout,
                  "Time limit of a run, in seconds (default 60)");
  harness->run_limit = 10;
  heading.Value("--run-limit", &harness->run_limit, "K",
                "End a run that takes K times as long as the fastest variant's run, and more than "
                "a second; 0: never (default 10)",
                {[](const std::string& text) {
                   const double times = NumberOf(text).value_or(1);
                   return times == 0 || times >= 2
                              ? ""
                              : absl::StrCat("'", text, "' is neither 0 nor at least 2");
                 },
                 ""});
  heading.Seconds("--hello-timeout", &harness->hello_timeout,
                  "Time limit of the harness's start, until it sends hello, in seconds (default "
                  "120)");
  heading.Seconds("--prepare-timeout", &harness->prepare_timeout,
                  "Time limit of a compilation, in seconds (default 600)");
}

std::string DeviceLocks() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  // The variable may name a directory that has been removed (after a log-out) or that belongs to
  // another user (after sudo).
  struct stat info = {};
  const bool is_ours = runtime != nullptr && *runtime != '\0' && stat(runtime, &info) == 0 &&
                       info.st_uid == geteuid() && access(runtime, W_OK | X_OK) == 0;
  if (is_ours) {
    return absl::StrCat(runtime, "/xplane-time.locks");
  }
  return absl::StrCat(ScratchFolder(), "/xplane-time-", geteuid(), ".locks");
}

absl::StatusOr<std::string> IdOf(const char* option, const std::string& given) {
  if (!given.starts_with('{')) return given;
  const auto params = CanonicalParams(given);
  if (!params.ok()) return InvalidArgument(option, ": ", params.status().message());
  return VariantId(*params);
}

}  // namespace xplane_time::tools
