#include "insight/transfer_pairs.h"

#include <algorithm>

namespace xplane_time::insight {

uint32_t TransferPairs::NameOf(const std::string& op) {
  const auto next = static_cast<uint32_t>(names_.size());
  return names_.try_emplace(op, next).first->second;
}

void TransferPairs::LearnOps() {
  for (size_t i = start_of_.size(); i < tables_->ops.size(); ++i) {
    const OpInfo& op = tables_->ops[i];
    const bool transfers = op.category == Category::kCollective || op.category == Category::kCopy;
    start_of_.push_back(transfers && op.is_start ? NameOf(op.hlo_op) : kNone);
    done_of_.push_back(transfers && !op.start_op.empty() ? NameOf(op.start_op) : kNone);
  }
}

void TransferPairs::Add(std::span<const Piece> pieces, std::vector<Piece>* ready) {
  LearnOps();
  for (const Piece& piece : pieces) {
    if (!open_runs_.empty()) CloseRuns(piece.profile_start_ps);
    waiting_.push_back({piece, false});
    Look(&waiting_.back().piece);
    while (!waiting_.empty() && !waiting_.front().is_open) {
      ready->push_back(waiting_.front().piece);
      waiting_.pop_front();
      ++first_;
    }
  }
}

void TransferPairs::Finish(std::vector<Piece>* ready) {
  for (const Waiting& each : waiting_) ready->push_back(each.piece);
  first_ += waiting_.size();
  waiting_.clear();
  open_runs_.clear();
}

TransferPairs::OpenRun* TransferPairs::RunOf(uint32_t run) {
  const auto found = std::ranges::find(open_runs_, run, &OpenRun::run);
  return found == open_runs_.end() ? nullptr : &*found;
}

// At the last that waits.
void TransferPairs::Look(Piece* piece) {
  if (piece->run == kNone) return;
  if (const uint32_t name = start_of_[piece->op]; name != kNone) {
    OpenRun* run = RunOf(piece->run);
    if (run == nullptr) run = &open_runs_.emplace_back(OpenRun{piece->run, {}});
    run->starts[name].push_back(first_ + waiting_.size() - 1);
    waiting_.back().is_open = true;
  }
  const uint32_t name = done_of_[piece->op];
  if (name == kNone) return;
  OpenRun* const run = RunOf(piece->run);
  const auto starts = run == nullptr ? nullptr : &run->starts[name];
  if (starts == nullptr || starts->empty()) {
    ++lone_dones_;
    return;
  }
  Waiting* const start = Numbered(starts->back());
  starts->pop_back();
  start->piece.done_op = piece->op;
  start->is_open = false;
  piece->start_op = start->piece.op;
}

// Removes transfers that have ended by then.
void TransferPairs::CloseRuns(int64_t profile_ps) {
  std::erase_if(open_runs_, [&](const OpenRun& open) {
    if (modules_[open.run].interval.end_ps > profile_ps) return false;
    for (const auto& [name, starts] : open.starts) {
      for (const uint64_t number : starts) Numbered(number)->is_open = false;
    }
    return true;
  });
}

}  // namespace xplane_time::insight
