// The commands, one file each: cmd_NAME.cc.
#pragma once

#include "command.h"

namespace xplane_time::tools {

void AddReport(CommandLine* line);
void AddPlanes(CommandLine* line);
void AddFunctions(CommandLine* line);
void AddKernels(CommandLine* line);
void AddTree(CommandLine* line);
void AddEvents(CommandLine* line);
void AddCompare(CommandLine* line);
void AddPick(CommandLine* line);
void AddTune(CommandLine* line);
void AddPower(CommandLine* line);
void AddCompat(CommandLine* line);

// All of them, in the order of the help.
inline void AddCommands(CommandLine* line) {
  for (const auto add : {AddReport, AddPlanes, AddFunctions, AddKernels, AddTree, AddEvents,
                         AddCompare, AddPick, AddTune, AddPower, AddCompat}) {
    add(line);
  }
}

}  // namespace xplane_time::tools
