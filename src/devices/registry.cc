// What all device kinds share: the list of them, and categories.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "devices/device_kind.h"

namespace xplane_time {
namespace {

// The first that claims a plane has it.
constexpr std::array<const KindRules*, 4> kKinds = {&kGpuRules, &kTpuRules, &kCpuRules,
                                                    &kCustomRules};

bool ContainsAny(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    };
    return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
  });
}

}  // namespace

std::span<const KindRules* const> AllKinds() { return kKinds; }

const KindRules& RulesOf(DeviceKind kind) {
  return **std::find_if(kKinds.begin(), kKinds.end(),
                        [&](const KindRules* rules) { return rules->kind == kind; });
}

std::string_view LineRoleName(LineRole role) {
  constexpr std::string_view kNames[] = {"execution", "run", "host", "derived", "async", "counter"};
  return kNames[static_cast<size_t>(role)];
}

std::optional<int64_t> OrdinalAfter(std::string_view plane_name, std::string_view prefix) {
  if (!plane_name.starts_with(prefix)) return std::nullopt;
  plane_name.remove_prefix(prefix.size());
  int64_t ordinal = 0;
  const char* end = plane_name.data() + plane_name.size();
  const auto [at, error] = std::from_chars(plane_name.data(), end, ordinal);
  if (error != std::errc() || ordinal < 0) return std::nullopt;
  const std::string_view rest(at, static_cast<size_t>(end - at));
  // A merged subprocess appends " [pid]".
  const bool whole = rest.empty() || (rest.starts_with(" [") && rest.ends_with("]"));
  return whole ? std::optional<int64_t>(ordinal) : std::nullopt;
}

Category Classify(const Draft& draft) {
  constexpr std::string_view kCollectives[] = {
      "all-reduce", "all-gather", "all-to-all",    "reduce-scatter", "allreduce",
      "allgather",  "alltoall",   "reducescatter", "nccl",           "rccl",
      "collective", "psum",       "send-done",     "recv-done",      "nvshmem"};
  constexpr std::string_view kCopies[] = {"memcpy",        "memset",     "copydevicetodevice",
                                          "copyhost",      "copybuffer", "fillbuffer",
                                          "dynamic-memcpy"};
  constexpr std::string_view kControl[] = {"infeed", "outfeed", "host send", "host recv"};
  const std::string_view name = draft.kernel;
  const std::string_view op = draft.hlo_op.empty() ? name : draft.hlo_op;
  if (ContainsAny(draft.hlo_category, kCollectives) || ContainsAny(op, kCollectives) ||
      ContainsAny(name, kCollectives)) {
    return Category::kCollective;
  }
  const bool copy_op = op == "copy" || op.starts_with("copy.") || op.starts_with("copy-start") ||
                       op.starts_with("copy-done");
  if (draft.is_copy || copy_op || draft.hlo_category.starts_with("copy") ||
      ContainsAny(name, kCopies)) {
    return Category::kCopy;
  }
  const bool control_op = op.starts_with("while") || op.starts_with("conditional") ||
                          op.starts_with("call") || op.starts_with("tuple") ||
                          op.starts_with("parameter");
  if (control_op || ContainsAny(draft.hlo_category, kControl) || ContainsAny(op, kControl)) {
    return Category::kOther;
  }
  return Category::kCompute;
}

}  // namespace xplane_time
