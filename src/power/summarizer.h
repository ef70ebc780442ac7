// Summarizer: a log's lines in, a PowerSummary out. docs/power.md has the definitions.
//
// Lines of several sources are not in the order of time, and a mark may be written after
// readings that are later than it. So readings wait for kLag before they are folded; a mark
// that is later still counts from there on, and is named.
//
//   lines -> queue of each channel -> (older than kLag) -> ChannelFold -> estimates
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "power/channel_fold.h"
#include "power/energy.h"
#include "power/log_reader.h"
#include "power/windows.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// Series: power over the time of a run, in a bounded number of columns. When time runs past
// the last column, neighbours are joined and columns become twice as wide.

class Series : public PieceSink {
 public:
  // At most `columns` (2 or more) columns from the first piece on, at first of `column_ns` each.
  Series(int64_t column_ns, size_t columns) : column_ns_(column_ns), most_(columns) {}

  void Piece(const EnergyPiece& piece) override;
  // `counter`: without extremes. The channel's names are left to the caller.
  PowerSeries Take(bool counter) const;

 private:
  struct Column {
    double energy_pj = 0, min_mw = 0, max_mw = 0;
    int64_t covered_ns = 0;
    void Merge(const Column& other);
  };
  void Widen();

  int64_t begin_ns_ = 0, column_ns_;
  size_t most_;
  std::vector<Column> columns_;
};

inline constexpr int64_t kLagNs = 2'000'000'000;
inline constexpr size_t kMostOpenWindows = 1024;

class Summarizer : public LogSink {
 public:
  explicit Summarizer(const PowerSummaryOptions& options) : options_(options) {}

  void Header(LogHeader header) override;
  void Channel(PowerChannel channel, PowerDevice device) override;
  void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) override;
  void ClocksAt(int64_t t_ns, const Clocks& clocks) override;
  void Mark(int64_t t_ns, std::string_view window, bool end) override;
  void Finding(int64_t t_ns, PowerFinding finding) override;
  void End(int64_t t_ns) override { end_ns_ = t_ns; }

  // After the last line.
  PowerSummary Finish(const LogEnd& end);

 private:
  struct ChannelState {
    std::unique_ptr<Series> series;  // of power and energy
    std::unique_ptr<ChannelFold> fold;
    std::vector<Sample> waiting;
    int64_t last_ns = -1;
    bool is_energy = false;  // or power
    int64_t quickest_call_ns = kLatestNs;
    int64_t first_call_ns = 0;  // while that reading alone waits
    bool in_windows = true;     // else there are too many windows for one more
  };
  // One source's passes.
  struct Passes {
    uint64_t reads = 0, missed = 0;
    int64_t first_ns = 0, last_ns = 0, longest_gap_ns = 0;
    stats::QuantileSketch latencies;
  };
  // The channels of one domain that say something of its energy.
  struct Domain {
    EnergyEstimate blank;  // its names, and what holds in every window
    const ChannelState* counter = nullptr;
    const ChannelState* power = nullptr;
  };

  void AddChannel(const PowerChannel& channel);
  void Begin(int64_t t_ns);  // with the first time
  void Advance(int64_t t_ns);
  void Fold(int64_t before_ns);
  bool IsFull() const;  // for one more window
  uint32_t Open(int64_t t_ns, std::string_view name);
  void Close(uint32_t window, int64_t t_ns, bool cut);
  void Note(std::string_view code, std::string_view message, uint64_t count = 1);

  // What the folds hold, as estimates.
  void Build(const LogEnd& end);
  std::vector<Domain> Domains() const;
  EnergyEstimate Estimate(const Domain& domain, uint32_t window) const;
  void EstimateByCounter(const Domain& domain, uint32_t window, EnergyEstimate* out) const;
  void EstimateByPower(const Domain& domain, uint32_t window, EnergyEstimate* out) const;
  bool PrefersPower(const Domain& domain, uint32_t window, const EnergyEstimate& counter) const;
  void TakeLimitsOfCounter(const Domain& domain, uint32_t window, EnergyEstimate* out) const;
  void CrossCheck(const Domain& domain, uint32_t window, EnergyEstimate* out) const;
  GaugeSummary Gauge(size_t channel, uint32_t window) const;
  void AddIdle();
  void BuildReaders(const LogEnd& end);
  void NoteReaders();
  void BuildFindings(const LogEnd& end);
  void NoteOpenWindows(const LogEnd& end);
  bool IsOfNoTime(const Reading& reading, int64_t period_ns, ChannelState* channel);
  int64_t SleptIn(const WindowSummary& window) const;

  const PowerSummaryOptions options_;
  PowerSummary summary_;
  std::vector<std::pair<std::string, int64_t>> periods_ns_;
  std::vector<ChannelState> channels_;
  std::vector<Passes> passes_;

  WindowEdges edges_, no_edges_;
  std::vector<Suspension> suspensions_;

  bool begun_ = false;
  int64_t newest_ns_ = 0, folded_ns_ = 0;  // readings before are folded
  std::optional<int64_t> end_ns_;
  std::optional<Clocks> clocks_;
  std::map<std::string, uint32_t, std::less<>> open_;
  std::map<std::string, uint64_t, std::less<>> numbers_;
  uint64_t backwards_ = 0, slow_calls_ = 0, late_marks_ = 0, dropped_windows_ = 0,
           dropped_channels_ = 0;
};

// Repeats: windows of one name, as `power record -r 5` makes them, as one row.
//
//   run 10 J, run #2 12 J, run #3 unknown   ->   run: 3 windows, 2 known, mean 11 J, std 1.41 J

// A row for each name of two windows and more and each sensor, then the total where several
// sensors are in it. All windows have the same sensors in the same order. O(energies).
std::vector<RepeatedEnergy> RepeatsOf(const std::vector<WindowSummary>& windows);

}  // namespace xplane_time::power
