#include "tune/search_halving.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace xplane_time {

std::string HalvingSearcher::Name() const { return absl::StrCat("halving:", finalists_); }

void HalvingSearcher::Begin(std::span<const Configuration> known) {
  left_.assign(known.begin(), known.end());
}

absl::StatusOr<SearchStage> HalvingSearcher::Next() {
  if (left_.size() <= finalists_) return SearchStage{};
  return SearchStage{.configurations = left_, .rounds = rounds_};
}

// Values that are equal keep their order: that of the list.
void HalvingSearcher::Tell(std::span<const Searched> stage) {
  std::vector<const Searched*> sound;
  for (const Searched& each : stage) {
    if (each.value.has_value() && !each.is_alias) sound.push_back(&each);
  }
  std::stable_sort(sound.begin(), sound.end(),
                   [](const Searched* a, const Searched* b) { return *a->value < *b->value; });
  const size_t half = sound.size() - sound.size() / 2;
  sound.resize(std::min(sound.size(), std::max<size_t>(half, finalists_)));
  left_.clear();
  for (const Searched* each : sound) left_.push_back(*each->configuration);
  rounds_ = std::min(2 * rounds_, kMostRounds);
}

std::vector<std::string> HalvingSearcher::Finalists() const {
  std::vector<std::string> ids;
  for (const Configuration& each : left_) ids.push_back(each.id);
  return ids;
}

}  // namespace xplane_time
