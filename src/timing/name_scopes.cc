#include "timing/name_scopes.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "hlo/program.h"
#include "status.h"

namespace xplane_time {
namespace {

constexpr size_t kMaxParts = HloProgram::kMostFrames;
constexpr int kMaxFolds = 64;  // wrappers around wrappers; deeper ones stay

// Written around the name of a scope: "transpose(jvp(layer))".
constexpr std::array<std::string_view, 6> kWrappers = {
    "jvp", "transpose", "vmap", "checkpoint", "remat", "rematted_computation"};
// These are separate scopes around the transformed scopes.
constexpr std::array<std::string_view, 8> kMarkers = {
    "checkpoint",      "remat",           "remat2",      "rematted_computation",
    "custom_jvp_call", "custom_vjp_call", "closed_call", "core_call"};

// Calls add(part) for each part between separators outside of brackets; add returns false to take
// the rest as one part. False: the brackets do not close.
template <typename Add>
bool Split(std::string_view text, char separator, bool minds_brackets, Add add) {
  int depth = 0;
  size_t begin = 0;
  bool ends = false;
  for (size_t at = 0; at < text.size() && !ends; ++at) {
    const char c = text[at];
    if (minds_brackets && (c == '(' || c == '[' || c == '{')) ++depth;
    if (depth > 0 && (c == ')' || c == ']' || c == '}')) --depth;
    if (c != separator || depth != 0) continue;
    if (at > begin) ends = !add(text.substr(begin, at - begin));
    begin = at + 1;
  }
  if (begin < text.size()) add(text.substr(begin));
  return depth == 0;
}

using Parts = std::vector<std::string_view>;

// Empty parts are left out.
Parts SplitOutsideBrackets(std::string_view text, char separator) {
  Parts parts;
  const auto add = [&](std::string_view part) {
    parts.push_back(part);
    return parts.size() + 1 < kMaxParts;
  };
  if (Split(text, separator, /*minds_brackets=*/true, add)) return parts;
  parts.clear();
  Split(text, separator, /*minds_brackets=*/false, add);
  return parts;
}

// "jvp(layer)": "layer". False: the part is not such a call, or text follows its bracket.
bool Unwrap(std::string_view* part) {
  const size_t open = part->find('(');
  if (open == std::string_view::npos || !part->ends_with(')')) return false;
  if (std::ranges::find(kWrappers, part->substr(0, open)) == kWrappers.end()) return false;
  int depth = 0;
  for (size_t at = open; at + 1 < part->size(); ++at) {
    if ((*part)[at] == '(') ++depth;
    if ((*part)[at] == ')' && --depth == 0) return false;
  }
  *part = part->substr(open + 1, part->size() - open - 2);
  return true;
}

// "checkpoint", and "checkpoint[policy=None]": older versions of JAX write parameters.
bool IsMarker(std::string_view part) {
  if (part.ends_with(']')) part = part.substr(0, part.find('['));
  return std::ranges::find(kMarkers, part) != kMarkers.end();
}

// Adds the parts without their wrappers: "jvp(a/b)" is two.
void AddUnwrapped(const Parts& parts, int folds, Parts* unwrapped) {
  for (std::string_view part : parts) {
    int depth = folds;
    while (depth < kMaxFolds && Unwrap(&part)) ++depth;
    if (depth > folds) {
      AddUnwrapped(SplitOutsideBrackets(part, '/'), depth, unwrapped);
    } else if (unwrapped->size() < kMaxParts) {
      unwrapped->push_back(part);
    }
  }
}

Parts Fold(const Parts& parts) {
  Parts unwrapped, folded;
  AddUnwrapped(parts, /*folds=*/0, &unwrapped);
  for (size_t i = 0; i < unwrapped.size(); ++i) {
    const std::string_view part = unwrapped[i];
    const bool is_op = i + 1 == unwrapped.size();  // whatever its name
    const bool is_pass = i == 0 && (part == "gradient_tape" || part == "gradients");
    if (is_op || !(is_pass || IsMarker(part))) folded.push_back(part);
  }
  return folded;
}

Parts PathOfOne(std::string_view name, Passes passes) {
  Parts parts = SplitOutsideBrackets(name, '/');
  return passes == Passes::kFolded ? Fold(parts) : parts;
}

}  // namespace

std::vector<std::string_view> ScopePath(std::string_view scope, Passes passes) {
  if (scope.find(';') == std::string_view::npos) return PathOfOne(scope, passes);
  Parts common;
  bool is_first = true;
  for (const std::string_view name : SplitOutsideBrackets(scope, ';')) {
    const Parts path = PathOfOne(name, passes);
    if (is_first) {
      common = path;
    } else {
      const auto end = std::ranges::mismatch(common, path).in1;
      if (end == common.begin()) continue;  // no common prefix with the first
      common.erase(end, common.end());
    }
    is_first = false;
  }
  return common;
}

std::string ScopeText(std::string_view scope, Passes passes) {
  const bool is_joined = scope.find(';') != std::string_view::npos;
  if (passes == Passes::kApart && !is_joined) return std::string(scope);
  std::string text;
  for (const std::string_view part : ScopePath(scope, passes)) {
    Append(&text, text.empty() ? "" : "/", part);
  }
  return text;
}

}  // namespace xplane_time
