// CompiledPrograms: the Hlo Protos of the programs that one device ran.
//
//   CompiledPrograms compiled(device, &diagnostics);
//   compiled.Of(cell.program)           // null: no usable program
//   compiled.Find(op, cell.program)     // {program, instruction}; null if unknown
//
// Each problem is reported once per program. Not thread-safe. The device's analysis must outlive
// it.
#pragma once

#include <map>
#include <string_view>

#include "hlo/program.h"
#include "timing/analysis.h"

namespace xplane_time {

class CompiledPrograms {
 public:
  CompiledPrograms(const DeviceAnalysis& device, Diagnostics* diagnostics)
      : device_(device), diagnostics_(diagnostics) {}

  const HloProgram* Of(uint32_t program);

  HloPrograms::FoundOp Find(const OpInfo& op, uint32_t program);

 private:
  const HloProgram* Search(const ProgramInfo& info);
  void Tell(const ProgramInfo& info, std::string_view why);

  const DeviceAnalysis& device_;
  Diagnostics* const diagnostics_;
  std::map<uint32_t, const HloProgram*> known_;
};

}  // namespace xplane_time
