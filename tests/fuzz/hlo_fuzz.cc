// Arbitrary bytes as an Hlo Proto: no crash, all texts point into the bytes, and the computation of
// costs terminates for any call graph.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "hlo/program.h"
#include "insight/op_costs.h"

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
  const auto program = xplane_time::HloProgram::Read(bytes);
  if (!program.ok()) return 0;
  size_t scheduled = 0;
  for (const auto& schedule : program->Schedules()) scheduled += schedule.size();
  if (scheduled > program->instructions().size()) std::abort();
  xplane_time::insight::OpCosts costs(*program);
  for (const xplane_time::HloInstruction& each : program->instructions()) {
    const xplane_time::insight::OpCost cost = costs.Of(each);
    if (cost.flops.value_or(0) < 0 || cost.bytes.value_or(0) < 0) std::abort();
    for (const std::string_view text : {each.name, each.opcode, each.message}) {
      RequireInside(text, bytes);
    }
    if (program->Find(each.name) == nullptr || program->FindId(each.id) == nullptr) std::abort();
    const auto details = xplane_time::ReadDetails(each);
    if (!details.has_value()) continue;
    for (const std::string_view text : {details->custom_call_target, details->backend_config,
                                        details->op_name, details->source_file}) {
      RequireInside(text, bytes);
    }
    (void)details->shape.Bytes();
    const auto stack = program->StackOf(details->stack_frame);
    if (stack.frames.size() > xplane_time::HloProgram::kMostFrames) std::abort();
    const auto require_frame = [&](const xplane_time::HloFrame& frame) {
      RequireInside(frame.file, bytes);
      RequireInside(frame.function, bytes);
    };
    for (const auto& frame : stack.frames) require_frame(frame);
    require_frame(program->SourceOf(*details));
  }
  return 0;
}
