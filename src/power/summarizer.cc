#include "power/summarizer.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "timing/saturate.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000, kMillisecondNs = 1'000'000;
constexpr size_t kMostWaiting = size_t{1} << 16;
// Windows times channels: what is kept of each pair is some 300 to 900 bytes.
constexpr size_t kMostPairs = size_t{1} << 20;
constexpr size_t kMostFindings = 1000;
constexpr size_t kMostColumns = size_t{1} << 18, kLeastColumns = 16;  // of all series; of one

}  // namespace

void Summarizer::Header(LogHeader header) {
  summary_.machine_json = std::move(header.machine_json);
  summary_.command = std::move(header.command);
  summary_.host = std::move(header.host);
  summary_.inventory = std::move(header.inventory);
  periods_ns_ = std::move(header.periods_ns);
  passes_.resize(periods_ns_.size() + 1);  // the last one is the caller's
  if (header.clocks.has_value()) ClocksAt(0, *header.clocks);
  for (const PowerChannel& channel : summary_.inventory.channels) AddChannel(channel);
  if (header.t_ns.has_value()) Begin(*header.t_ns);
}

void Summarizer::Channel(PowerChannel channel, PowerDevice device) {
  auto& devices = summary_.inventory.devices;
  if (!device.id.empty() && std::find(devices.begin(), devices.end(), device) == devices.end()) {
    devices.push_back(std::move(device));
  }
  summary_.inventory.channels.push_back(channel);
  AddChannel(channel);
}

void Summarizer::AddChannel(const PowerChannel& channel) {
  constexpr int64_t kSlowNs = kSecondNs;
  int64_t expected_ns = 0;
  for (const auto& [source, period_ns] : periods_ns_) {
    if (source == channel.source) expected_ns = period_ns;
  }
  if (channel.slow) expected_ns = std::max(expected_ns, kSlowNs);
  ChannelState state;
  state.is_energy = IsPowerOrEnergy(channel);
  const size_t share = kMostColumns / std::max<size_t>(1, summary_.inventory.channels.size());
  const size_t columns = std::max(kLeastColumns, std::min(options_.max_columns, share));
  if (options_.max_columns > 0) state.series = std::make_unique<Series>(kMillisecondNs, columns);
  state.in_windows = summary_.windows.size() * (channels_.size() + 1) <= kMostPairs;
  if (!state.in_windows) ++dropped_channels_;
  state.fold =
      std::make_unique<ChannelFold>(channel, expected_ns, state.in_windows ? &edges_ : &no_edges_,
                                    &suspensions_, state.series.get());
  channels_.push_back(std::move(state));
}

void Summarizer::Begin(int64_t t_ns) {
  begun_ = true;
  newest_ns_ = t_ns;
  if (options_.whole) Open(t_ns, "");
  for (const PowerWindow& each : options_.windows) {
    Close(Open(each.begin_ns, each.name), each.end_ns, /*cut=*/false);
  }
}

void Summarizer::Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) {
  if (!begun_) Begin(t_ns);
  Passes& passes = passes_[s];
  const int64_t period_ns = s < periods_ns_.size() ? periods_ns_[s].second : 0;
  if (passes.reads++ == 0) {
    passes.first_ns = passes.last_ns = t_ns;
  } else {
    const int64_t gap_ns = t_ns - passes.last_ns;
    passes.longest_gap_ns = std::max(passes.longest_gap_ns, gap_ns);
    if (period_ns > 0 && gap_ns > period_ns + period_ns / 2) {
      passes.missed += static_cast<uint64_t>((gap_ns + period_ns / 2) / period_ns - 1);
    }
    passes.last_ns = std::max(passes.last_ns, t_ns);
  }
  for (const Reading& reading : readings) {
    ChannelState& channel = channels_[reading.channel];
    passes.latencies.Add(reading.after_ns - reading.before_ns);
    if (IsOfNoTime(reading, period_ns, &channel)) continue;
    const int64_t call_ns = reading.after_ns - reading.before_ns;
    const int64_t at_ns = reading.sampled_ns.value_or(reading.before_ns + call_ns / 2);
    const int64_t doubt_ns = reading.sampled_ns.has_value() ? 0 : call_ns - call_ns / 2;
    if (at_ns <= channel.last_ns) {
      ++backwards_;
      continue;
    }
    channel.last_ns = at_ns;
    channel.waiting.push_back({at_ns, reading.value.value_or(0), reading.reason, doubt_ns});
    if (channel.waiting.size() > kMostWaiting) Fold(channel.waiting[kMostWaiting / 2].t_ns);
    newest_ns_ = std::max(newest_ns_, at_ns);
  }
  Advance(t_ns);
}

// Of an energy by a call that took much longer than others: nobody knows when in it. Where the
// first call was the slow one, the second tells.
bool Summarizer::IsOfNoTime(const Reading& reading, int64_t period_ns, ChannelState* channel) {
  if (!channel->is_energy || reading.sampled_ns.has_value()) return false;
  const int64_t call_ns = reading.after_ns - reading.before_ns;
  channel->quickest_call_ns = std::min(channel->quickest_call_ns, call_ns);
  const int64_t usual_ns = std::max(period_ns, channel->quickest_call_ns);
  const int64_t most_ns = kGapPeriods * std::min(usual_ns, kLatestNs / kGapPeriods);
  if (channel->last_ns < 0) {
    channel->first_call_ns = call_ns;
  } else if (channel->first_call_ns > most_ns && channel->waiting.size() == 1) {
    channel->waiting.clear();
    ++slow_calls_;
  }
  if (channel->last_ns >= 0) channel->first_call_ns = 0;
  if (call_ns <= most_ns) return false;
  ++slow_calls_;
  return true;
}

void Summarizer::Advance(int64_t t_ns) {
  newest_ns_ = std::max(newest_ns_, t_ns);
  if (newest_ns_ - folded_ns_ > kLagNs + kLagNs / 2) Fold(newest_ns_ - kLagNs);
}

void Summarizer::Fold(int64_t before_ns) {
  folded_ns_ = std::max(folded_ns_, before_ns);
  for (ChannelState& channel : channels_) {
    size_t done = 0;
    while (done < channel.waiting.size() && channel.waiting[done].t_ns < folded_ns_) {
      channel.fold->Add(channel.waiting[done++]);
    }
    channel.waiting.erase(channel.waiting.begin(),
                          channel.waiting.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

void Summarizer::ClocksAt(int64_t, const Clocks& clocks) {
  const auto offset = [](int64_t a, int64_t b) { return a - b; };
  if (!clocks_.has_value()) {
    summary_.start_unix_ns = clocks.realtime_ns;
  } else if (clocks.monotonic_ns <= clocks_->monotonic_ns) {
    ++backwards_;
    return;
  } else {
    const int64_t slept_ns = offset(clocks.boottime_ns, clocks.monotonic_ns) -
                             offset(clocks_->boottime_ns, clocks_->monotonic_ns);
    if (slept_ns > kMillisecondNs) {
      suspensions_.push_back({clocks_->monotonic_ns, clocks.monotonic_ns, slept_ns});
      Note("suspended", absl::StrCat("the machine slept ", slept_ns / kMillisecondNs, " ms"));
    }
    const int64_t stepped_ns = offset(clocks.realtime_ns, clocks.boottime_ns) -
                               offset(clocks_->realtime_ns, clocks_->boottime_ns);
    if (stepped_ns > kMillisecondNs || stepped_ns < -kMillisecondNs) {
      Note("clock_step", absl::StrCat("the wall clock stepped by ", stepped_ns / kMillisecondNs,
                                      " ms; energies and durations do not use it"));
    }
  }
  clocks_ = clocks;
}

void Summarizer::Mark(int64_t t_ns, std::string_view window, bool end) {
  if (!begun_) Begin(t_ns);
  const auto open = open_.find(window);
  if (t_ns < folded_ns_) {
    t_ns = folded_ns_;
    ++late_marks_;
  }
  if (end) {
    if (open != open_.end() && !window.empty()) {
      Close(open->second, t_ns, /*cut=*/false);
    } else if (dropped_windows_ == 0) {
      Note("end_without_begin", absl::StrCat("window \"", std::string(window), "\""));
    }
  } else if (open != open_.end() || window.empty()) {
    Note("begin_of_open", absl::StrCat("window \"", std::string(window), "\" was open"));
  } else if (IsFull()) {
    ++dropped_windows_;
  } else {
    Open(t_ns, window);
  }
  Advance(t_ns);
}

bool Summarizer::IsFull() const {
  return summary_.windows.size() >= options_.max_windows || open_.size() >= kMostOpenWindows ||
         (summary_.windows.size() + 1) * channels_.size() > kMostPairs;
}

uint32_t Summarizer::Open(int64_t t_ns, std::string_view name) {
  const auto window = static_cast<uint32_t>(summary_.windows.size());
  WindowSummary& summary = summary_.windows.emplace_back();
  summary.name = name;
  if (!name.empty()) summary.number = ++numbers_[summary.name];
  summary.begin_ns = t_ns;
  if (clocks_.has_value()) {
    summary.begin_unix_ns = SaturatingAdd(clocks_->realtime_ns - clocks_->monotonic_ns, t_ns);
  }
  edges_.Insert({t_ns, window, /*end=*/false});
  open_.emplace(summary.name, window);
  return window;
}

void Summarizer::Close(uint32_t window, int64_t t_ns, bool cut) {
  WindowSummary& summary = summary_.windows[window];
  summary.end_ns = std::max(t_ns, summary.begin_ns);
  summary.cut = cut;
  edges_.Insert({summary.end_ns, window, /*end=*/true});
  open_.erase(summary.name);
}

void Summarizer::Finding(int64_t, PowerFinding finding) {
  Note(finding.code, finding.message, finding.count);
}

// Of one kind the first message and how many there were.
void Summarizer::Note(std::string_view code, std::string_view message, uint64_t count) {
  for (PowerFinding& finding : summary_.findings) {
    if (finding.code != code) continue;
    finding.count += count;
    return;
  }
  if (summary_.findings.size() >= kMostFindings) return;
  PowerFinding& finding = summary_.findings.emplace_back();
  finding.code = code;
  finding.count = count;
  finding.message = message;
}

PowerSummary Summarizer::Finish(const LogEnd& end) {
  const int64_t end_ns = end_ns_.value_or(newest_ns_);
  const auto still_open = open_;
  for (const auto& [name, window] : still_open) {
    Close(window, std::max(end_ns, folded_ns_), /*cut=*/!name.empty() || !end.complete);
  }
  Fold(std::numeric_limits<int64_t>::max());
  for (ChannelState& channel : channels_) channel.fold->Finish();
  Build(end);
  return std::move(summary_);
}

}  // namespace xplane_time::power

namespace xplane_time {

absl::StatusOr<PowerSummary> SummarizePowerLog(const std::string& path,
                                               const PowerSummaryOptions& options) {
  power::Summarizer summarizer(options);
  const auto end = power::ReadPowerLog(path, &summarizer);
  if (!end.ok()) return end.status();
  return summarizer.Finish(*end);
}

absl::StatusOr<PowerSummary> SummarizePowerLogText(std::string_view text, const std::string& name,
                                                   const PowerSummaryOptions& options) {
  power::Summarizer summarizer(options);
  const auto end = power::ReadPowerLogText(text, name, &summarizer);
  if (!end.ok()) return end.status();
  return summarizer.Finish(*end);
}

}  // namespace xplane_time
