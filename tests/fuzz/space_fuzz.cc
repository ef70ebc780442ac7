// Arbitrary bytes as a search space: no crash, no endless loop, and bounded memory. A space that
// can be read can be written, read again and listed, with the same result each time.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "xplane_time/space.h"

namespace xplane_time {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

void CheckSpace(const SearchSpace& space) {
  const auto again = ParseSpace(SpaceToJson(space), "again");
  Require(again.ok(), "a written space can be read");
  Require(SpaceHash(*again) == SpaceHash(space), "reading a written space gives the same space");
  constexpr uint64_t kPoints = 20'000;
  if (GridPoints(space) <= kPoints) {
    const auto all = ChooseConfigurations(space, {.most = kPoints});
    const auto same = ChooseConfigurations(*again, {.most = kPoints});
    Require(all.ok() == same.ok(), "both can be listed");
    Require(!all.ok() || *all == *same, "both list the same");
  }
  if (space.constraints.empty()) {
    const Choice few = {.strategy = Strategy::kRandom, .count = 3, .seed = 1};
    (void)ChooseConfigurations(space, few);
  }
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto space = xplane_time::ParseSpace(text, "space");
  if (space.ok()) xplane_time::CheckSpace(*space);
  return 0;
}
