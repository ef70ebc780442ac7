// Compiled: what the compiler says of the programs that a device ran.
//
//   Compiled compiled(trace, plane, &diagnostics);
//   compiled.Of(info)        // null: no Hlo Proto, or one that is damaged or another program's
//
// What is wrong is told once a program, in the diagnostics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "devices/device_kind.h"
#include "hlo/program.h"

namespace xplane_time::insight {

class Compiled {
 public:
  // `plane`: the device's, into Trace::planes. The trace outlives it.
  Compiled(const Trace& trace, uint32_t plane, Diagnostics* diagnostics)
      : plane_(plane), programs_(trace, trace.planes[plane]), diagnostics_(diagnostics) {}

  const HloProgram* Of(const ProgramInfo& info);

 private:
  const HloProgram* Find(const ProgramInfo& info);
  void Tell(const ProgramInfo& info, std::string_view why);

  const uint32_t plane_;
  HloPrograms programs_;
  Diagnostics* const diagnostics_;
  std::map<std::pair<std::string, std::string>, const HloProgram*> known_;
};

}  // namespace xplane_time::insight
