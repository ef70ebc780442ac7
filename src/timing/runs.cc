// AssignRuns, ChooseClocks, MeasureRuns: from executions to measured runs.
#include "xplane_time/runs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "devices/device_kind.h"
#include "timing/saturate.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

// Ids of ops by what identifies them within a program: (hlo_op, kernel).
std::vector<uint32_t> SymbolOfOp(const DeviceExecutions& device) {
  std::map<std::pair<std::string_view, std::string_view>, uint32_t> symbols;
  std::vector<uint32_t> symbol_of_op;
  for (const OpInfo& op : device.ops) {
    const auto next = static_cast<uint32_t>(symbols.size());
    symbol_of_op.push_back(symbols.try_emplace({op.hlo_op, op.kernel}, next).first->second);
  }
  return symbol_of_op;
}

// Rows of each run, in order of start.
std::vector<std::vector<uint32_t>> RowsOfRuns(const DeviceExecutions& device, size_t runs) {
  std::vector<std::vector<uint32_t>> rows(runs);
  for (uint32_t row = 0; row < device.size(); ++row) {
    if (device.run[row] != kNone) rows[device.run[row]].push_back(row);
  }
  return rows;
}

// Marks runs [first, last) of one program: `ops` holds the sorted symbols of each run.
std::vector<bool> FindSuspects(const std::vector<std::vector<uint32_t>>& ops) {
  std::vector<bool> suspect(ops.size(), false);
  if (ops.size() < 4) return suspect;
  std::map<std::vector<uint32_t>, size_t> count;
  for (const auto& run : ops) ++count[run];
  const auto mode = std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first.size()) < std::pair(b.second, b.first.size());
  });
  if (mode->second * 4 < ops.size() * 3) return suspect;
  for (size_t i = 0; i < ops.size(); ++i) {
    suspect[i] =
        ops[i].size() < mode->first.size() &&
        std::includes(mode->first.begin(), mode->first.end(), ops[i].begin(), ops[i].end());
  }
  return suspect;
}

std::vector<bool> SuspectRuns(const DeviceExecutions& device, const std::vector<Run>& runs,
                              const std::vector<std::vector<uint32_t>>& rows) {
  const std::vector<uint32_t> symbol_of_op = SymbolOfOp(device);
  std::vector<bool> suspect(runs.size(), false);
  for (size_t first = 0; first < runs.size();) {
    size_t last = first;
    std::vector<std::vector<uint32_t>> ops;
    for (; last < runs.size() && runs[last].program == runs[first].program; ++last) {
      std::vector<uint32_t>& symbols = ops.emplace_back();
      for (uint32_t row : rows[last]) symbols.push_back(symbol_of_op[device.op[row]]);
      std::sort(symbols.begin(), symbols.end());
    }
    const std::vector<bool> found = FindSuspects(ops);
    std::copy(found.begin(), found.end(), suspect.begin() + static_cast<ptrdiff_t>(first));
    first = last;
  }
  return suspect;
}

// Times of a run over the rows given, on one clock.
void MeasureRows(const DeviceExecutions& device, const std::vector<uint32_t>& rows,
                 Occurrence* occurrence) {
  std::vector<Interval> intervals;
  int64_t last_end_ps = std::numeric_limits<int64_t>::min();
  for (uint32_t row : rows) {
    intervals.push_back(ExecutionInterval(device, row, occurrence->clock));
    occurrence->sum_ps =
        SaturatingAdd(occurrence->sum_ps, intervals.back().end_ps - intervals.back().start_ps);
    last_end_ps = std::max(last_end_ps, intervals.back().end_ps);
  }
  occurrence->has_active = true;
  occurrence->kernels = rows.size();
  occurrence->start_ps =
      std::min_element(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) {
        return a.start_ps < b.start_ps;
      })->start_ps;
  occurrence->span_ps = last_end_ps - occurrence->start_ps;
  occurrence->active_ps = UnionLengthPs(std::move(intervals));
}

// More than 1 % apart.
bool Disagree(int64_t profile_ps, int64_t device_ps) {
  const int64_t difference =
      profile_ps > device_ps ? profile_ps - device_ps : device_ps - profile_ps;
  return difference > device_ps / 100;
}

}  // namespace

std::string_view ClockName(Clock clock) { return clock == Clock::kProfile ? "profile" : "device"; }

std::string_view CategoryName(Category category) {
  constexpr std::string_view kNames[] = {"compute", "copy", "collective", "other"};
  return kNames[static_cast<size_t>(category)];
}

std::vector<Run> AssignRuns(DeviceExecutions* device, const HostEvidence& evidence,
                            Diagnostics* diagnostics) {
  return RulesOf(device->plane.kind).split(device, evidence, diagnostics);
}

Interval ExecutionInterval(const DeviceExecutions& device, size_t row, Clock clock) {
  if (clock == Clock::kDevice) {
    return {device.device_start_ps[row],
            device.device_start_ps[row] + device.device_duration_ps[row]};
  }
  return {device.start_ps[row], device.end_ps(row)};
}

std::vector<std::optional<Clock>> ChooseClocks(const DeviceExecutions& device, ClockChoice choice,
                                               Diagnostics* diagnostics) {
  std::vector<uint64_t> with(device.programs.size() + 1, 0), without(with);
  for (size_t row = 0; row < device.size(); ++row) {
    const size_t program = std::min<size_t>(device.program[row], device.programs.size());
    const bool has = !device.device_start_ps.empty() && device.device_start_ps[row] != kNoTimePs;
    ++(has ? with : without)[program];
  }
  std::vector<std::optional<Clock>> clocks;
  for (size_t program = 0; program < with.size(); ++program) {
    const bool device_clock =
        choice != ClockChoice::kProfile && with[program] > 0 && without[program] == 0;
    clocks.push_back(device_clock ? Clock::kDevice : Clock::kProfile);
    const Location where = {.plane = device.plane.plane};
    if (!device_clock && choice == ClockChoice::kDevice) {
      clocks.back() = std::nullopt;
      diagnostics->Count(DiagnosticCode::kNoDeviceClock, where);
    } else if (with[program] > 0 && without[program] > 0 && choice == ClockChoice::kAuto) {
      diagnostics->Count(DiagnosticCode::kMixedClocks, where);
    }
  }
  return clocks;
}

std::vector<Occurrence> MeasureRuns(const DeviceExecutions& device, const std::vector<Run>& runs,
                                    const std::vector<std::optional<Clock>>& clocks,
                                    const std::optional<std::vector<bool>>& op_wanted,
                                    Diagnostics* diagnostics) {
  const auto rows_of_run = RowsOfRuns(device, runs.size());
  const std::vector<bool> suspect = SuspectRuns(device, runs, rows_of_run);
  const Location where = {.plane = device.plane.plane};
  std::vector<Occurrence> occurrences;
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const std::optional<Clock> clock = clocks[runs[i].program];
    if (!clock.has_value()) continue;
    Occurrence occurrence{.run = i, .program = runs[i].program, .suspect = suspect[i]};
    if (rows_of_run[i].empty()) {
      if (op_wanted.has_value()) continue;
      diagnostics->Count(DiagnosticCode::kNoOps, where);
      occurrence.start_ps = runs[i].profile.start_ps;
      occurrence.span_ps = runs[i].profile.end_ps - runs[i].profile.start_ps;
    } else {
      std::vector<uint32_t> wanted;
      for (uint32_t row : rows_of_run[i]) {
        if (!op_wanted.has_value() || (*op_wanted)[device.op[row]]) wanted.push_back(row);
      }
      if (wanted.empty()) continue;
      occurrence.clock = *clock;
      MeasureRows(device, wanted, &occurrence);
      const bool whole = wanted.size() == rows_of_run[i].size();
      if (*clock == Clock::kDevice && whole &&
          Disagree(runs[i].profile.end_ps - runs[i].profile.start_ps, occurrence.span_ps)) {
        diagnostics->Count(DiagnosticCode::kClocksDisagree, where);
      }
    }
    diagnostics->Count(DiagnosticCode::kSuspectRun, where, suspect[i] ? 1 : 0);
    occurrences.push_back(occurrence);
  }
  return occurrences;
}

}  // namespace xplane_time
