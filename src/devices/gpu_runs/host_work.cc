#include "devices/gpu_runs/host_work.h"

#include <algorithm>
#include <string>

namespace xplane_time::gpu_runs {
namespace {

std::string Lowered(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// "compile", "Compile", "compilation" and "recompile", but neither "compiled" nor "compiler": what
// is compiled runs. `compile_wrapper` of PyTorch is around the whole call.
bool NamesCompiling(std::string_view name) {
  const std::string lower = Lowered(name);
  if (lower.find("compile_wrapper") != std::string::npos) return false;
  constexpr std::string_view kStem = "compil";
  for (size_t at = lower.find(kStem); at != std::string::npos; at = lower.find(kStem, at + 1)) {
    const std::string_view rest = std::string_view(lower).substr(at + kStem.size());
    const bool is_verb =
        rest.starts_with("e") && (rest.size() == 1 || (rest[1] != 'd' && rest[1] != 'r'));
    if (is_verb || rest.starts_with("ation") || rest.starts_with("ing")) return true;
  }
  return false;
}

bool WaitsForInput(std::string_view name) {
  const std::string lower = Lowered(name);
  const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  if (has("dataloader") || has("data_loader")) return has("next") || has("fetch");
  constexpr std::string_view kParts[] = {
      "getnext",   "get_next",  "next_batch",  "next batch",    "nextbatch",     "load_batch",
      "loadbatch", "get_batch", "fetch_batch", "read_batch",    "data_loading",  "data loading",
      "load_data", "infeed",    "data_wait",   "wait_for_data", "wait_for_input"};
  if (std::ranges::any_of(kParts, has)) return true;
  constexpr std::string_view kWhole[] = {"__next__", "dataload", "data_load", "data", "input"};
  const std::string_view what = WithoutPlace(lower);
  return std::ranges::find(kWhole, what) != std::end(kWhole);
}

bool WaitsForResults(std::string_view name) {
  constexpr std::string_view kParts[] = {
      "block_until_ready", "BlockUntilReady", "BlockHostUntilReady", "asarray",
      "__array__",         "device_get",      "ToLiteral",           "CopyToHost",
      "copy_to_host",      "Synchronize",     "aten::item",          "_local_scalar_dense"};
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// A call of a compiled function until its programs are enqueued, or an operator of PyTorch.
bool Dispatches(std::string_view name) {
  return !FindCalledFunction(name).empty() || name.starts_with("aten::") ||
         name.find("LoadedExecutable::Execute") != std::string_view::npos ||
         name.ends_with(kModuleSuffix);
}

}  // namespace

std::string_view WithoutPlace(std::string_view name) {
  if (name.starts_with('$')) {
    const size_t space = name.find(' ');
    return space == name.npos ? name : name.substr(space + 1);
  }
  const size_t place = name.find("): ");
  return place != name.npos && name.substr(0, place).find(".py(") != name.npos
             ? name.substr(place + 3)
             : name;
}

bool IsCompileName(std::string_view name) {
  constexpr std::string_view kBegins[] = {"lower_sharding_computation", "lower_jaxpr_to",
                                          "lower_xla_callable", "trace_to_jaxpr"};
  const std::string_view what = WithoutPlace(name);
  if (std::ranges::any_of(kBegins, [&](std::string_view begin) { return what.starts_with(begin); }))
    return true;
  // Most names have neither.
  if (what.find("ompil") == what.npos) return false;
  return NamesCompiling(what);
}

std::string_view FindCalledFunction(std::string_view name) {
  constexpr std::string_view kCall = "PjitFunction(";
  if (!name.starts_with(kCall) || !name.ends_with(')')) return {};
  return name.substr(kCall.size(), name.size() - kCall.size() - 1);
}

HostWork ClassifyHostWork(std::string_view name) {
  if (IsCompileName(name)) return HostWork::kCompiles;
  if (WaitsForInput(name)) return HostWork::kWaitsForInput;
  if (WaitsForResults(name)) return HostWork::kWaitsForResults;
  return Dispatches(name) ? HostWork::kDispatches : HostWork::kUnknown;
}

}  // namespace xplane_time::gpu_runs
