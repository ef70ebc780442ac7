// How the times of a function's runs lie, a line each: from the least to the most.
#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "output/results.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

constexpr size_t kBins = 30;

std::optional<int64_t> TimeOf(const SampleRow& run, Metric metric) {
  if (metric == Metric::kSpan) return run.span_ps;
  return metric == Metric::kActive ? run.active_ps : run.sum_ps;
}

// The runs of one row of the functions.
struct Runs {
  const FunctionRow* row;
  std::vector<int64_t> times_ps = {};

  std::optional<int64_t> least_ps() const { return Extreme(std::ranges::min_element(times_ps)); }
  std::optional<int64_t> most_ps() const { return Extreme(std::ranges::max_element(times_ps)); }

 private:
  std::optional<int64_t> Extreme(std::vector<int64_t>::const_iterator at) const {
    return at == times_ps.end() ? std::nullopt : std::optional(*at);
  }
};

// In the order of the functions.
std::vector<Runs> RunsOf(const Report& report, const OutputOptions& options) {
  using Key = std::tuple<DeviceKey, std::string, std::optional<std::string>>;
  std::map<Key, size_t> place;
  std::vector<Runs> all;
  for (const FunctionRow& row : Top(report.functions, options.top)) {
    place[{KeyOf(*row.device), row.function, row.program_id}] = all.size();
    all.push_back({&row});
  }
  for (const SampleRow& run : report.samples) {
    const std::optional<int64_t> time_ps = TimeOf(run, options.metric);
    if (run.suspect || !time_ps) continue;
    const auto row = place.find({KeyOf(run.device), run.function, run.program_id});
    if (row != place.end()) all[row->second].times_ps.push_back(*time_ps);
  }
  return all;
}

// A character for each bin, with a height by its count. Bins that are not empty are always visible.
std::string Histogram(const Runs& runs, bool unicode) {
  constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 9> kAscii = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
  if (runs.times_ps.empty()) return "";
  const int64_t least_ps = *runs.least_ps();
  const double range_ps = static_cast<double>(*runs.most_ps()) - static_cast<double>(least_ps);
  std::array<size_t, kBins> counts = {};
  for (const int64_t time_ps : runs.times_ps) {
    const double share = range_ps > 0 ? static_cast<double>(time_ps - least_ps) / range_ps : 0.5;
    ++counts[std::min(static_cast<size_t>(share * kBins), kBins - 1)];
  }
  const size_t most = *std::ranges::max_element(counts);
  std::string text = "|";
  for (const size_t count : counts) {
    const size_t eighths = (count * 8 + most - 1) / most;
    text.append(unicode ? kBlocks[eighths] : kAscii[eighths]);
  }
  return text + "|";
}

Section DistributionSection(const Report& report, const OutputOptions& options) {
  const std::vector<Runs> all = RunsOf(report, options);
  const DeviceNames names(report.functions);
  Section section{.title = "distributions"};
  RowGrid grid(all);
  grid.Name("function", 18, [](const Runs& runs) { return runs.row->function; });
  grid.Id("program", 7, [](const Runs& runs) { return runs.row->program_id; })
      .HideIf(!ProgramTellsApart(report.samples));
  grid.Name("device", 7, [&](const Runs& runs) { return names.Name(*runs.row->device); })
      .HideIf(names.count() < 2);
  grid.Number("runs", [](const Runs& runs) { return runs.times_ps.size(); });
  const Unit unit = CommonUnit(grid.Values(&Runs::least_ps, &Runs::most_ps), options.unit);
  grid.Times("least", unit, &Runs::least_ps);
  grid.Number("from least to most",
              [&](const Runs& runs) { return Histogram(runs, options.unicode); })
      .name = true;
  grid.Times("most", unit, &Runs::most_ps);
  section.grid = std::move(grid).Take();
  section.notes.emplace_back("each row has its own axis and its own height");
  return section;
}

}  // namespace

void AddDistributions(const Report& report, Output* output) {
  output->view = [&report, view = std::move(output->view)](const OutputOptions& how) {
    View all = view(how);
    if (!report.samples.empty()) all.sections.push_back(DistributionSection(report, how));
    return all;
  };
}

}  // namespace xplane_time::output
