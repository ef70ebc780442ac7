#include "near_names.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace xplane_time {
namespace {

constexpr size_t kLongestName = 256;  // longer ones are nobody's typing

bool SameLetter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Letters changed, added, dropped or swapped with their neighbour.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = SameLetter(a[i - 1], b[j - 1]) ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      if (i > 1 && j > 1 && SameLetter(a[i - 1], b[j - 2]) && SameLetter(a[i - 2], b[j - 1])) {
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
  std::vector<std::pair<size_t, std::string>> near;
  if (name.size() > kLongestName) return {};
  for (const std::string& other : known) {
    const size_t furthest = std::max<size_t>(1, std::max(name.size(), other.size()) / 3);
    if (other.size() > name.size() + furthest || name.size() > other.size() + furthest) continue;
    const size_t distance = Distance(name, other);
    if (distance <= furthest) near.emplace_back(distance, other);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  near.resize(std::min(near.size(), most));
  std::vector<std::string> names;
  for (auto& [distance, other] : near) names.push_back(std::move(other));
  return names;
}

}  // namespace xplane_time
