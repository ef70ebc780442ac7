#include "near_names.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "status.h"

namespace xplane_time {
namespace {

constexpr size_t kLongestName = 256;  // longer names are not typing errors

// Edit distance (Damerau): letters changed, added, dropped or swapped with their neighbour.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string> NearNames(std::string_view name, std::span<const std::string> known,
                                   size_t most) {
  std::set<std::pair<size_t, std::string>> near;
  if (name.size() > kLongestName) return {};
  const std::string lower = absl::AsciiStrToLower(Absl(name));
  for (const std::string& other : known) {
    const size_t furthest = std::max<size_t>(1, std::max(name.size(), other.size()) / 3);
    if (other.size() > name.size() + furthest || name.size() > other.size() + furthest) continue;
    // If the name itself is known, it is not misspelt.
    if (other == name) return {};
    const size_t distance = Distance(lower, absl::AsciiStrToLower(other));
    if (distance <= furthest) near.emplace(distance, other);
  }
  std::vector<std::string> names;
  for (const auto& [distance, other] : near) {
    if (names.size() < most) names.push_back(other);
  }
  return names;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> known,
                       std::string_view before) {
  std::vector<std::string> near = NearNames(name, known, 2);
  for (std::string& each : near) each.insert(0, before);
  return near.empty() ? "" : "; did you mean " + absl::StrJoin(near, " or ") + "?";
}

}  // namespace xplane_time
