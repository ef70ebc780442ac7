#include "tests/timing/stream_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <utility>

#include "tests/output/rendered.h"
#include "tests/timing/report_of.h"

namespace xplane_time::testing {
namespace {

Report ReportOfBytes(const std::string& bytes, ReportOptions options, int read_threads) {
  ReadOptions read_options;
  read_options.threads = read_threads;
  Diagnostics diagnostics;
  const auto trace = OpenTraceFromMemory(bytes, "test.xplane.pb", read_options, &diagnostics);
  options.samples = true;
  absl::StatusOr<Report> report = trace.ok() ? BuildReport(*trace, options, diagnostics)
                                             : absl::StatusOr<Report>(trace.status());
  if (report.ok()) return *std::move(report);
  ADD_FAILURE() << report.status().ToString();
  return {};
}

// The complete report as text, one row per line.
std::string TextOf(const Report& report) {
  const output::OutputOptions json = {.format = output::Format::kJson};
  return *output::RenderReport(report, json) +
         *output::RenderFunctions(report, json, /*by_id=*/false, /*samples=*/true);
}

// The numbers of programs, and so the order of samples, depend on the order in which lines are
// read.
void SortSamples(Report* report) {
  const auto key = [](const SampleRow& row) {
    return std::tie(row.device.plane, row.device.ordinal, row.function, row.program_id, row.run);
  };
  std::sort(report->samples.begin(), report->samples.end(),
            [&](const SampleRow& a, const SampleRow& b) { return key(a) < key(b); });
}

// Removes the differences of unsorted lines: the diagnostic, and the positions of events.
void ForgetPlaces(Report* report) {
  std::erase_if(report->diagnostics,
                [](const DiagnosticRow& row) { return row.code == "unsorted_line"; });
  for (DiagnosticRow& row : report->diagnostics) row.event = row.byte_offset = std::nullopt;
}

// Empty if the texts are equal; otherwise the first lines that differ. (GoogleTest computes a
// shortest edit script, which takes long.)
std::string FirstDifference(const std::string& a, const std::string& b) {
  if (a == b) return "";
  std::istringstream in_a(a), in_b(b);
  std::string line_a, line_b;
  while (line_a == line_b) {
    if (!std::getline(in_a, line_a)) line_a = "(end)";
    if (!std::getline(in_b, line_b)) line_b = "(end)";
  }
  return line_a + "\n" + line_b;
}

bool Same(const std::string& a, const std::string& b, const std::string& how) {
  const std::string difference = FirstDifference(a, b);
  if (!difference.empty()) ADD_FAILURE() << how << ":\n" << difference;
  return difference.empty();
}

std::string TextOf(const SlowReport& report) {
  std::ostringstream text;
  text << report;
  return text.str();
}

// Whether both events are executions, and the first begins before the second. On a host, most other
// events have fewer stats.
bool InOrder(const proto::XPlane& plane, const proto::XEvent& a, const proto::XEvent& b,
             int64_t min_duration_ps) {
  const auto counts = [&](const proto::XEvent& event) {
    const bool other = plane.name().starts_with("/host:") && event.stats_size() < 4;
    return !other && event.duration_ps() >= min_duration_ps;
  };
  return counts(a) && counts(b) && a.offset_ps() < b.offset_ps();
}

// Swaps two adjacent events in the middle of every line of the devices, so no line is sorted.
bool SwapEvents(int64_t min_duration_ps, proto::XSpace* space) {
  bool any = false;
  for (proto::XPlane& plane : *space->mutable_planes()) {
    if (plane.name().starts_with("/host:") && space->planes_size() > 1) continue;
    for (proto::XLine& line : *plane.mutable_lines()) {
      if (line.name() == "XLA Modules") continue;
      for (int i = line.events_size() / 2; i + 1 < line.events_size(); ++i) {
        proto::XEvent &a = *line.mutable_events(i), &b = *line.mutable_events(i + 1);
        if (!InOrder(plane, a, b, min_duration_ps)) continue;
        a.Swap(&b);
        any = true;
        break;
      }
    }
  }
  return any;
}

}  // namespace

Report StreamReport(const TraceBuilder& trace, ReportOptions options) {
  return ReportOfBytes(trace.Bytes(), std::move(options), /*read_threads=*/1);
}

bool ChunksChangeNothing(const TraceBuilder& trace, ReportOptions options) {
  const std::string bytes = trace.Bytes();
  Report chunks = ReportOfBytes(bytes, options, 1);
  CheckInvariants(chunks);
  bool ok = true;
  for (const int threads : {1, 4}) {
    for (const int read_threads : {1, 2, 3, 8}) {
      ReportOptions with_threads = options;
      with_threads.threads = threads;
      const Report same = ReportOfBytes(bytes, with_threads, read_threads);
      ok &=
          Same(TextOf(chunks), TextOf(same),
               std::to_string(threads) + " threads, " + std::to_string(read_threads) + " to read");
    }
  }
  SortSamples(&chunks);
  ReportOptions unlimited = options;
  unlimited.max_events = uint64_t{1} << 40;
  Report whole = ReportOfBytes(bytes, unlimited, 1);
  SortSamples(&whole);
  ok &= Same(TextOf(chunks), TextOf(whole), "chunks, and with --max-events");

  TraceBuilder swapped;
  swapped.proto() = trace.proto();
  if (!SwapEvents(options.min_duration_ps.value_or(0), &swapped.proto())) return ok;
  Report unsorted = StreamReport(swapped, options);
  EXPECT_GT(DiagnosticCount(unsorted, "unsorted_line"), 0u);
  SortSamples(&unsorted);
  ForgetPlaces(&unsorted);
  ForgetPlaces(&chunks);
  return ok & Same(TextOf(chunks), TextOf(unsorted), "chunks, and with a line not sorted");
}

bool StreamAgrees(const TraceBuilder& trace, Reference reference, const TraceBuilder& like) {
  const SlowReport fast = ToSlow(StreamReport(trace)), slow = reference(like.proto());
  const bool ok = Same(TextOf(fast), TextOf(slow), "the library, and the reference");
  return ChunksChangeNothing(trace) && ok;
}

bool StreamAgrees(const TraceBuilder& trace, Reference reference) {
  return StreamAgrees(trace, reference, trace);
}

}  // namespace xplane_time::testing
