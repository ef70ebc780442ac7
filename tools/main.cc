// xplane-time: parse the command line, run one command, map the outcome to an exit code.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "commands.h"
#include "options.h"
#include "output/text.h"

namespace {

int Main(int argc, char** argv) {
  using namespace xplane_time::tools;
  const Parsed parsed = ParseCommandLine(argc, argv);
  if (!parsed.error.empty()) {
    std::fprintf(stderr, "xplane-time: %s\n", xplane_time::output::Printable(parsed.error).c_str());
    return parsed.exit_code;
  }
  if (!parsed.options.has_value()) {
    return WriteText("", parsed.text);
  }
  return RunCommand(*parsed.options);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, which ends quietly
  // Columns of all sizes come and go: giving them back in between costs page faults.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "xplane-time: a bug of ours: %s; please report it with the trace\n",
                 error.what());
    return 70;
  }
}
