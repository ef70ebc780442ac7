// What a host does during an event, as far as the event's name shows it:
//
//   backend_compile, XlaCompile:..., compile_inner (dynamo_timed)        compiles a program
//   DataLoader.__next__, IteratorGetNext, next_batch                     waits for input
//   PjitFunction(f), ...LoadedExecutable::Execute, aten::linear          dispatches
//   block_until_ready, TransferToLiteral, aten::item                     waits for results
#pragma once

#include <cstdint>
#include <string_view>

namespace xplane_time::gpu_runs {

// XLA's host events that execute a module end so.
inline constexpr std::string_view kModuleSuffix = ":XLA GPU module";

enum class HostWork : uint8_t {
  kUnknown,
  kCompiles,
  kWaitsForInput,
  kDispatches,
  kWaitsForResults
};

// "f" of "PjitFunction(f)", the event of a call of a compiled function; empty: another event.
std::string_view FindCalledFunction(std::string_view name);

HostWork ClassifyHostWork(std::string_view name);

// Whether a compiler traces, lowers or compiles during an event of this name.
bool IsCompileName(std::string_view name);

// "backend_compile" of "$compiler.py:326 backend_compile", and "compile_fx" of
// "torch/_inductor/compile_fx.py(93): compile_fx": tracers of Python name the file first.
std::string_view WithoutPlace(std::string_view name);

}  // namespace xplane_time::gpu_runs
