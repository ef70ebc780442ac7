#include "timing/run_contents.h"

#include <algorithm>
#include <utility>

namespace xplane_time {
namespace {

constexpr size_t kMostOpenRuns = 256;
constexpr uint64_t kMostBuffered = uint64_t{1} << 21;
constexpr size_t kMostOrders = 4096;

}  // namespace

void RunContents::SwitchTo(uint32_t run) {
  if (open_count_ >= kMostOpenRuns || buffered_ >= kMostBuffered) CloseAll();
  if (run >= open_of_run_.size()) open_of_run_.resize(run + 1, 0);
  if (open_of_run_[run] == 0) {
    if (open_count_ == open_.size()) open_.emplace_back();
    OpenRun& opened = open_[open_count_++];
    opened.run = run;
    open_of_run_[run] = static_cast<uint32_t>(open_count_);
    if (run < content_of_run_.size() && content_of_run_[run] != 0) {  // it goes on after all
      opened.symbols = *contents_[content_of_run_[run] - 1];
      buffered_ += opened.symbols.size();
    }
  }
  current_run_ = run;
  current_ = &open_[open_of_run_[run] - 1].symbols;
}

void RunContents::CloseAll() {
  for (size_t i = 0; i < open_count_; ++i) {
    OpenRun& opened = open_[i];
    if (opened.run >= content_of_run_.size()) content_of_run_.resize(opened.run + 1, 0);
    content_of_run_[opened.run] = NumberOf(opened.symbols) + 1;
    opened.symbols.clear();
    open_of_run_[opened.run] = 0;
  }
  open_count_ = 0;
  current_run_ = kNoRun;
  current_ = nullptr;
  buffered_ = 0;
}

uint32_t RunContents::NumberOf(const Symbols& in_order) {
  const auto known = number_of_order_.find(in_order);
  if (known != number_of_order_.end()) return known->second;
  Symbols sorted = in_order;
  std::sort(sorted.begin(), sorted.end());
  const auto next = static_cast<uint32_t>(contents_.size());
  const auto [found, inserted] = number_of_content_.try_emplace(std::move(sorted), next);
  if (inserted) contents_.push_back(&found->first);
  if (number_of_order_.size() >= kMostOrders) number_of_order_.clear();
  number_of_order_.emplace(in_order, found->second);
  return found->second;
}

std::vector<bool> RunContents::Suspects(std::span<const uint32_t> runs) {
  std::vector<bool> suspect(runs.size(), false);
  if (runs.size() < 4) return suspect;
  CloseAll();
  const uint32_t nothing = NumberOf({});
  const auto content = [&](uint32_t run) {
    const bool known = run < content_of_run_.size() && content_of_run_[run] != 0;
    return known ? content_of_run_[run] - 1 : nothing;
  };
  absl::flat_hash_map<uint32_t, size_t> count;
  for (const uint32_t run : runs) ++count[content(run)];
  const auto mode = std::max_element(count.begin(), count.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.second, contents_[a.first]->size()) <
           std::pair(b.second, contents_[b.first]->size());
  });
  if (mode->second * 4 < runs.size() * 3) return suspect;
  const Symbols& whole = *contents_[mode->first];
  absl::flat_hash_map<uint32_t, bool> lacks;
  for (const auto& [number, times] : count) {
    const Symbols& part = *contents_[number];
    lacks[number] = part.size() < whole.size() &&
                    std::includes(whole.begin(), whole.end(), part.begin(), part.end());
  }
  for (size_t i = 0; i < runs.size(); ++i) suspect[i] = lacks[content(runs[i])];
  return suspect;
}

}  // namespace xplane_time
