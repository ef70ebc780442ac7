#include "timing/run_contents.h"

#include <algorithm>
#include <utility>

namespace xplane_time {
namespace {

constexpr size_t kMostOpenRuns = 256;
constexpr size_t kMostOrders = 4096, kLongestOrder = 4096;

using Counts = std::vector<std::pair<uint32_t, uint64_t>>;

uint64_t Total(const Counts& counts) {
  uint64_t total = 0;
  for (const auto& [symbol, count] : counts) total += count;
  return total;
}

bool Includes(const Counts& whole, const Counts& part) {
  auto at = whole.begin();
  return std::all_of(part.begin(), part.end(), [&](const auto& wanted) {
    while (at != whole.end() && at->first < wanted.first) ++at;
    return at != whole.end() && at->first == wanted.first && at->second >= wanted.second;
  });
}

Counts CountsOf(std::vector<uint32_t> symbols) {
  std::sort(symbols.begin(), symbols.end());
  Counts counts;
  for (const uint32_t symbol : symbols) {
    if (counts.empty() || counts.back().first != symbol) counts.push_back({symbol, 0});
    ++counts.back().second;
  }
  return counts;
}

}  // namespace

void RunContents::SwitchTo(uint32_t run) {
  if (open_count_ >= kMostOpenRuns || buffered_ >= kMostBuffered) CloseAll();
  if (run >= open_of_run_.size()) open_of_run_.resize(run + 1, 0);
  if (open_of_run_[run] == 0) {
    if (open_count_ == open_.size()) open_.emplace_back();
    open_[open_count_++].run = run;
    open_of_run_[run] = static_cast<uint32_t>(open_count_);
  }
  current_run_ = run;
  current_ = &open_[open_of_run_[run] - 1].symbols;
}

void RunContents::CloseAll() {
  for (size_t i = 0; i < open_count_; ++i) {
    OpenRun& opened = open_[i];
    if (opened.run >= content_of_run_.size()) content_of_run_.resize(opened.run + 1, 0);
    uint32_t& content = content_of_run_[opened.run];
    if (content == 0) {
      content = NumberOf(opened.symbols) + 1;
    } else {
      GoOn(opened.run, opened.symbols);
    }
    opened.symbols.clear();
    open_of_run_[opened.run] = 0;
  }
  open_count_ = 0;
  current_run_ = kNoRun;
  current_ = nullptr;
  buffered_ = 0;
}

// A run that was closed before goes on. What is in it so far is counted apart, and not
// looked at again until the end.
void RunContents::GoOn(uint32_t run, const Symbols& more) {
  const auto [found, inserted] = growing_.try_emplace(run);
  if (inserted) {
    for (const auto& [symbol, count] : *contents_[content_of_run_[run] - 1]) {
      found->second[symbol] = count;
    }
  }
  for (const uint32_t symbol : more) ++found->second[symbol];
}

uint32_t RunContents::NumberOf(const Symbols& in_order) {
  if (in_order.size() > kLongestOrder) return NumberOf(CountsOf(in_order));
  const auto known = number_of_order_.find(in_order);
  if (known != number_of_order_.end()) return known->second;
  const uint32_t number = NumberOf(CountsOf(in_order));
  if (number_of_order_.size() >= kMostOrders) number_of_order_.clear();
  number_of_order_.emplace(in_order, number);
  return number;
}

uint32_t RunContents::NumberOf(Counts counts) {
  const auto next = static_cast<uint32_t>(contents_.size());
  const auto [found, inserted] = number_of_content_.try_emplace(std::move(counts), next);
  if (inserted) contents_.push_back(&found->first);
  return found->second;
}

std::vector<bool> RunContents::Suspects(std::span<const uint32_t> runs) {
  std::vector<bool> suspect(runs.size(), false);
  if (runs.size() < 4) return suspect;
  CloseAll();
  for (const auto& [run, counts] : growing_) {
    Counts sorted(counts.begin(), counts.end());
    std::sort(sorted.begin(), sorted.end());
    content_of_run_[run] = NumberOf(std::move(sorted)) + 1;
  }
  growing_.clear();
  const uint32_t nothing = NumberOf(Counts());
  const auto content = [&](uint32_t run) {
    const bool known = run < content_of_run_.size() && content_of_run_[run] != 0;
    return known ? content_of_run_[run] - 1 : nothing;
  };
  absl::flat_hash_map<uint32_t, size_t> count;
  for (const uint32_t run : runs) ++count[content(run)];
  const auto mode = std::max_element(count.begin(), count.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.second, Total(*contents_[a.first])) <
           std::pair(b.second, Total(*contents_[b.first]));
  });
  if (mode->second * 4 < runs.size() * 3) return suspect;
  const Counts& whole = *contents_[mode->first];
  absl::flat_hash_map<uint32_t, bool> lacks;
  for (const auto& [number, times] : count) {
    lacks[number] = number != mode->first && Includes(whole, *contents_[number]);
  }
  for (size_t i = 0; i < runs.size(); ++i) suspect[i] = lacks[content(runs[i])];
  return suspect;
}

}  // namespace xplane_time
