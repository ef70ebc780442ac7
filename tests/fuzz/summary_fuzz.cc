// Arbitrary bytes as a fleet's summary: they are refused, or the summary can be merged with itself
// and written, and is the same when it is read again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fleet/rows.h"
#include "xplane_time/fleet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xplane_time;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  DecodeFleetSummary(bytes, "fuzz").status().IgnoreError();
  const auto read = DecodeFleetSummary(fleet::WithChecksum(bytes), "fuzz");
  if (!read.ok()) return 0;
  FleetMerger merger(read->by);
  if (!merger.Add(*read).ok() || !merger.Add(*read).ok()) std::abort();
  const std::string written = EncodeFleetSummary(merger.Take());
  const auto again = DecodeFleetSummary(written, "fuzz");
  if (!again.ok() || EncodeFleetSummary(*again) != written) std::abort();
  BuildFleetReport(*again, {});
  return 0;
}
