// Hlo Protos are read without a crash, and no name or opcode is from outside of them.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "hlo/opcodes.h"

namespace {

void RequireInside(std::string_view text, std::string_view bytes) {
  const std::less_equal<const char*> before;
  const bool inside = before(bytes.data(), text.data()) &&
                      before(text.data() + text.size(), bytes.data() + bytes.size());
  if (!text.empty() && !inside) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)xplane_time::VisitInstructions(bytes, [&](std::string_view name, std::string_view opcode) {
    RequireInside(name, bytes);
    RequireInside(opcode, bytes);
  });
  return 0;
}
