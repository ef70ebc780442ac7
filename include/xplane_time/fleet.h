// Fleet: the times of many captures, as rows of mergeable sums.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto summary = SummarizeTrace(*trace, {}, diagnostics, /*host=*/"node7");
//   if (!summary.ok()) return summary.status();
//   FleetMerger all({});  // one row per host and device
//   const absl::Status added = all.Add(*summary);
//   if (!added.ok()) return added;
//   const std::string bytes = EncodeFleetSummary(all.Take());  // the content of all.xts
//   auto decoded = DecodeFleetSummary(bytes, "all.xts");
//   if (!decoded.ok()) return decoded.status();  // DataLoss: all.xts: ... (byte 312)
//
// Counts and sums are integers, and each capture keeps its own centre. The order and the grouping
// of merges therefore do not affect the resulting bytes. Format: docs/fleet.md.
//
// Sums are picoseconds in 128 bits and saturate. Unknown values are empty or counted separately.
// Values own their data. Not thread-safe; different objects may be used by different threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// A histogram of durations by their leading 7 bits. The width of a bucket is at most 1/64 of its
// start.
class DurationHistogram {
 public:
  struct Bucket {
    uint16_t number;
    uint64_t count;
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };
  static constexpr uint16_t kBuckets = 64 * 58;
  static uint16_t NumberOf(int64_t duration_ps);  // for durations >= 0
  static int64_t FirstOf(uint16_t number);        // the smallest duration in the bucket

  void Add(uint16_t number, uint64_t times);
  void Merge(const DurationHistogram& other);
  // ascending, without empty buckets
  const std::vector<Bucket>& buckets() const { return buckets_; }
  uint64_t count() const;
  // The middle of the bucket that contains the nearest rank; the error is at most 0.8 %. Empty if
  // the histogram is empty.
  std::optional<int64_t> QuantilePs(double share) const;
  friend bool operator==(const DurationHistogram&, const DurationHistogram&) = default;

 private:
  std::vector<Bucket> buckets_;
};

// The durations of occurrences, summed.
struct TimeSum {
  uint64_t count = 0;
  Int128 total_ps = 0;
  // Minimum and maximum of the occurrences whose single durations are known, which may be fewer
  // than all.
  std::optional<int64_t> min_ps = {}, max_ps = {};
  DurationHistogram durations = {};

  void Add(int64_t duration_ps, uint64_t times = 1);
  void Merge(const TimeSum& other);
  std::optional<double> MeanPs() const;
  // The quantile of the histogram, clamped to the minimum and maximum.
  std::optional<int64_t> QuantilePs(double share) const;
  friend bool operator==(const TimeSum&, const TimeSum&) = default;
};

// Indices into FleetSummary::names. Index 0 is the empty name: unknown, or all of them.
using NameId = uint32_t;

// For each capture of a row the median of its runs, ascending.
using CaptureCentres = std::vector<int64_t>;

// Medians of each capture, like CaptureCentres. A device that waits for another one spends that
// time in a collective, so hosts are compared by the rest of their time. Empty in summaries of
// earlier versions.
struct OwnCentres {
  // The span without exposed collectives, and the idle time of the device before it.
  CaptureCentres own_ps = {};
  CaptureCentres busy_ps = {};             // the same without idle time
  uint64_t captures_with_collectives = 0;  // exposed or hidden
};

// `model`: the producer's name of the device model, else the device kind.
struct FleetDevice {
  NameId host = 0, device = 0, model = 0;
  DeviceKind kind = DeviceKind::kGpu;
  uint64_t captures = 0, executions = 0;
  Int128 busy_ps = 0;
  // From first start to last end. The span is the sum of the others (where.h).
  Int128 span_ps = 0, compute_ps = 0, collective_exposed_ps = 0, copy_exposed_ps = 0, other_ps = 0,
         idle_ps = 0;
};
struct FleetFunction {
  NameId host = 0, device = 0, model = 0, function = 0;
  bool is_range = false;            // a range of host time: its executions are also in other rows
  uint64_t runs = 0, left_out = 0;  // left out: suspect or trimmed
  TimeSum active = {};              // runs that count, except those without ops
  Int128 span_ps = 0;
  CaptureCentres centres_ps = {};
  OwnCentres own = {};
};
struct FleetKernel {
  NameId host = 0, device = 0, kernel = 0, function = 0;
  Category category = Category::kCompute;
  TimeSum time = {};
  uint64_t self_known = 0;  // captures with a known self time
  uint64_t captures = 0;
  Int128 self_ps = 0;
};
// Marked steps (where.h), with all executions of the device in each step.
struct FleetSteps {
  NameId host = 0, device = 0, model = 0;
  TimeSum span = {};
  Int128 compute_ps = 0, collective_exposed_ps = 0, copy_exposed_ps = 0, other_ps = 0, idle_ps = 0;
  CaptureCentres centres_ps = {};
  OwnCentres own = {};
};
// Collectives of one name. Waiting for a slower peer is included.
struct FleetCollective {
  NameId host = 0, device = 0, kernel = 0;
  uint64_t count = 0;
  Int128 exposed_ps = 0, hidden_ps = 0, in_flight_ps = 0;
};

// The times at which a device was in the collectives of one name, in order. Only collectives in
// which no device finishes before all have entered are recorded. Filled only if rows are separate
// by host and device.
struct FleetMeetings {
  NameId host = 0, device = 0, kernel = 0, function = 0;
  // Origin of the times: UNIX time of the capture's start on the host's clock. 0: unknown.
  int64_t base_ns = 0;
  uint64_t content = 0;   // FleetCapture::content; separates captures with the same base_ns
  uint64_t captures = 1;  // number of captures with this content that were merged
  std::vector<int64_t> enters_ps = {}, lengths_ps = {};  // of equal length
};

struct FleetCapture {
  std::string path = {}, host = {};
  uint64_t bytes = 0, events = 0;
  std::optional<uint64_t> start_unix_ns = {};
  uint64_t content = 0;  // equal for captures with the same content, wherever their files are
  friend auto operator<=>(const FleetCapture&, const FleetCapture&) = default;
};
struct FleetFailure {
  std::string path = {}, message = {};
  friend auto operator<=>(const FleetFailure&, const FleetFailure&) = default;
};

// Whether there are separate rows for hosts and for devices. If both are false, all have one row.
struct FleetBy {
  bool host = true, device = true;
  friend bool operator==(const FleetBy&, const FleetBy&) = default;
};
// Parses "host,device", "host", "device" or "none". Errors: InvalidArgument.
absl::StatusOr<FleetBy> ParseFleetBy(std::string_view text);
std::string FleetByName(const FleetBy& by);

struct FleetSummary {
  FleetBy by = {};
  // Options of the measurement (GivenOptions). Merged summaries must agree on them.
  std::map<std::string, std::string> options = {};
  std::vector<FleetCapture> captures = {};
  std::vector<FleetFailure> failures = {};  // files that could not be read
  // Counts of diagnostics by code and severity.
  std::map<std::pair<std::string, std::string>, uint64_t> diagnostics = {};

  // Names are sorted. Rows are sorted by their key fields.
  std::vector<std::string> names = {""};
  std::vector<FleetDevice> devices = {};
  std::vector<FleetFunction> functions = {};
  std::vector<FleetKernel> kernels = {};
  std::vector<FleetSteps> steps = {};
  std::vector<FleetCollective> collectives = {};
  std::vector<FleetMeetings> meetings = {};
};

class FleetMerger {
 public:
  explicit FleetMerger(const FleetBy& by);
  ~FleetMerger();
  FleetMerger(FleetMerger&&) noexcept;
  FleetMerger& operator=(FleetMerger&&) noexcept;

  // Adds a summary. Errors: FailedPrecondition (it was measured with other options than the earlier
  // ones, or it lacks the host or device that rows are separated by).
  absl::Status Add(const FleetSummary& summary);
  void AddFailure(FleetFailure failure);
  // Returns the merged summary and leaves the merger empty.
  FleetSummary Take();

 private:
  class Rows;
  std::unique_ptr<Rows> rows_;
};

// Summarizes a trace. `host`: name of the host; empty: the name from the trace or its file. Options
// and errors: as BuildReport; samples, parts and by_variant have no effect.
absl::StatusOr<FleetSummary> SummarizeTrace(const Trace& trace, const ReportOptions& options,
                                            const Diagnostics& reading, const std::string& host);

std::string EncodeFleetSummary(const FleetSummary& summary);
// `name`: name of the file, for errors. Errors: DataLoss (damaged, truncated or of a later
// version), with the byte offset.
absl::StatusOr<FleetSummary> DecodeFleetSummary(std::string_view bytes, const std::string& name);
// Whether the bytes begin like a summary, and the FleetBy of this summary.
bool IsFleetSummary(std::string_view head);
FleetBy FleetByOf(std::string_view head);

// ---- hosts and devices that are slower than the others --------------------------------------

struct FleetOutlierOptions {
  double alpha = 0.01;        // probability of any claim in the whole fleet if all are alike
  double min_effect = 0.005;  // smaller differences do not matter
};

inline constexpr double kMostFleetMde = 0.1;

enum class FleetVerdict : uint8_t {
  kSlow,  // proved slower than the others, by more than min_effect according to the estimate
  // Proved faster, likewise. Less idle time or less waiting in collectives alone does not count,
  // because the slowest host waits least.
  kFast,
  kTypical,     // no difference was proved; a slowdown of mde would have been proved
  kCannotTell,  // too few others, or so much variation that mde is above kMostFleetMde
};
std::string_view FleetVerdictName(FleetVerdict verdict);

// The time by which hosts are compared.
enum class FleetMeasure : uint8_t {
  kActive,              // of functions without collectives
  kSpan,                // of steps without collectives
  kWithoutCollectives,  // OwnCentres
  // Collectives, but the summaries lack OwnCentres: an earlier version wrote them.
  kUnknown,
};
std::string_view FleetMeasureName(FleetMeasure measure);

// Why a row has the verdict kCannotTell.
enum class FleetDoubt : uint8_t {
  kFewOthers,       // fewer than three others
  kFewTypical,      // three others or more, but fewer than three of them are typical
  kLargeVariation,  // the mde is above kMostFleetMde
  kEarlierSummary,  // FleetMeasure::kUnknown
};

// A host compared with the others of its model, or a device compared with the others of its host,
// in one function or in steps.
struct FleetOutlier {
  std::string host, device, model;
  // `device` empty: the host, as the mean of its devices. `function` empty: steps.
  std::string function;
  FleetMeasure measure = FleetMeasure::kActive;
  uint64_t captures = 0, others = 0;
  std::optional<double> ratio = {};        // to the centre of the others
  std::optional<double> lo = {}, hi = {};  // simultaneous interval
  std::optional<double> p_value = {};      // after Holm
  // 0.03: a slowdown of 3 % would be detected in 4 of 5 cases
  std::optional<double> mde = {};
  FleetVerdict verdict = FleetVerdict::kCannotTell;
  std::optional<FleetDoubt> doubt = {};  // present if the verdict is kCannotTell
};

// All hosts and devices: proved differences first, then by ratio. Definition: docs/fleet.md.
std::vector<FleetOutlier> FindFleetOutliers(const FleetSummary& summary,
                                            const FleetOutlierOptions& options);

// ---- waiting in collectives ------------------------------------------------------------------

// The clock of a host. No device leaves a collective before the last one has entered, so each
// collective bounds the offset of two clocks, however long it took.
struct FleetClock {
  std::string host;
  uint64_t collectives = 0;
  // The offset that converts its times to those of the first host. Empty: it is not bounded on both
  // sides.
  std::optional<int64_t> offset_ps = {}, lo_ps = {}, hi_ps = {};
  bool steps = false;  // no offset fits: a clock was stepped, or different collectives were matched
};

// A collective of one name, summed over all devices that have it equally often.
struct FleetWait {
  std::string kernel, function;
  // the last to enter; both empty: unknown, because its delay is within the clock error or another
  // device was as late
  std::string host, device;
  uint64_t devices = 0, count = 0;
  std::optional<Int128> waited_ps = {};    // waiting time of all other devices together
  std::optional<Int128> transfer_ps = {};  // from the last enter to the first leave
  // Why the last device and the times are unknown, although all devices have the collective equally
  // often; empty if the times are known.
  std::string reason = {};
};

struct FleetWaits {
  std::vector<FleetClock> clocks = {};  // by host; empty: no collectives were matched
  std::vector<FleetWait> waits = {};    // longest waiting time first
  // Names of collectives with different counts on different devices.
  std::vector<std::string> unmatched = {};
};
// Finds the devices that others wait for. Definition: docs/fleet.md.
FleetWaits FindFleetWaits(const FleetSummary& summary);

struct FleetReport {
  FleetOutlierOptions options;
  FleetSummary summary;
  FleetSummary all;  // the same captures with one row for all hosts and devices of a model
  std::vector<FleetOutlier> outliers;
  FleetWaits waits;
};
FleetReport BuildFleetReport(FleetSummary summary, const FleetOutlierOptions& options);

}  // namespace xplane_time
