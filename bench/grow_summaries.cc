// grow_summaries IN.xts FOLDER N: writes the summary as those of N hosts, one file each, to test
// merging.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "io/whole_file.h"
#include "xplane_time/fleet.h"

int main(int argc, char** argv) {
  using namespace xplane_time;
  const auto bytes = argc == 4 ? io::ReadFile(argv[1]) : std::nullopt;
  auto one = DecodeFleetSummary(bytes.value_or(""), argc == 4 ? argv[1] : "IN.xts");
  if (!one.ok()) {
    std::fprintf(stderr, "usage: grow_summaries IN.xts FOLDER N: %s\n",
                 std::string(one.status().message()).c_str());
    return 64;
  }
  std::filesystem::create_directories(argv[2]);
  const NameId host = one->devices.empty() ? 0 : one->devices[0].host;
  for (int i = 0; i < std::atoi(argv[3]); ++i) {
    if (host != 0) one->names[host] = "host" + std::to_string(i);
    for (FleetCapture& each : one->captures) each.path = one->names[host] + ".xplane.pb";
    FleetMerger merger({});  // sorts the names again
    if (!merger.Add(*one).ok()) return 70;
    const std::string path = argv[2] + ("/" + std::to_string(i) + ".xts");
    if (!io::WriteWholeFile(path, EncodeFleetSummary(merger.Take())).ok()) return 74;
  }
  return 0;
}
