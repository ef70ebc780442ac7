// Fleet: what many captures took, as rows of sums that merge.
//
//   FleetMerger all({});                           // a row a host and device
//   for (const std::string& path : {"a.xts", "b.xts"}) {
//     auto summary = DecodeFleetSummary(ReadBytes(path), path);
//     if (!summary.ok()) return summary.status();  // DataLoss: a.xts: ... (byte 312)
//     RETURN_IF_ERROR(all.Add(*summary));
//   }
//   WriteBytes("all.xts", EncodeFleetSummary(all.Take()));
//
// Counts and sums are whole numbers, and a centre of each capture stays. So the order and the
// grouping of merges make no difference: the bytes are the same. Format: docs/fleet.md.
//
// Sums are picoseconds in 128 bits, and stop at their end. Unknown is empty, or counted apart.
// Values own what they hold. Not thread-safe; different objects may be used by different threads.
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

// How often which durations occurred, by their leading 7 bits: a bucket is at most 1/64 wide.
class DurationHistogram {
 public:
  struct Bucket {
    uint16_t number;
    uint64_t count;
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };
  static constexpr uint16_t kBuckets = 64 * 58;
  static uint16_t NumberOf(int64_t duration_ps);  // at least 0
  static int64_t FirstOf(uint16_t number);        // the least duration that is in it

  void Add(uint16_t number, uint64_t times);
  void Merge(const DurationHistogram& other);
  const std::vector<Bucket>& buckets() const { return buckets_; }  // ascending, none is empty
  uint64_t count() const;
  // Of the nearest rank, the middle of its bucket: off by at most 0.8 %. Empty: there are none.
  std::optional<int64_t> QuantilePs(double share) const;
  friend bool operator==(const DurationHistogram&, const DurationHistogram&) = default;

 private:
  std::vector<Bucket> buckets_;
};

// What occurrences took, together.
struct TimeSum {
  uint64_t count = 0;
  Int128 total_ps = 0;
  // Of those whose durations are known one by one, which may be fewer.
  std::optional<int64_t> min_ps = {}, max_ps = {};
  DurationHistogram durations = {};

  void Add(int64_t duration_ps, uint64_t times = 1);
  void Merge(const TimeSum& other);
  std::optional<double> MeanPs() const;
  // As of the histogram, but never beyond the minimum and the maximum.
  std::optional<int64_t> QuantilePs(double share) const;
  friend bool operator==(const TimeSum&, const TimeSum&) = default;
};

// Places in FleetSummary::names. The first name is always the empty one: unknown, or all of them.
using NameId = uint32_t;

// The captures of a row: the median of each one's runs, ascending.
using CaptureCentres = std::vector<int64_t>;

// `model`: what the producer calls a device, else its kind.
struct FleetDevice {
  NameId host = 0, device = 0, model = 0;
  DeviceKind kind = DeviceKind::kGpu;
  uint64_t captures = 0, executions = 0;
  Int128 busy_ps = 0;
  // From first start to last end: the span is the sum of the others (where.h).
  Int128 span_ps = 0, compute_ps = 0, collective_exposed_ps = 0, copy_exposed_ps = 0, other_ps = 0,
         idle_ps = 0;
};
struct FleetFunction {
  NameId host = 0, device = 0, model = 0, function = 0;
  bool is_range = false;            // of host time: what it executed is in other rows, too
  uint64_t runs = 0, left_out = 0;  // left out: suspect, or trimmed
  TimeSum active = {};              // of the runs that count; without those that have no ops
  Int128 span_ps = 0;
  CaptureCentres centres_ps = {};
};
struct FleetKernel {
  NameId host = 0, device = 0, kernel = 0, function = 0;
  Category category = Category::kCompute;
  TimeSum time = {};
  uint64_t self_known = 0;  // captures in which it is
  uint64_t captures = 0;
  Int128 self_ps = 0;
};
// Marked steps (where.h): of each, all that the device executed within.
struct FleetSteps {
  NameId host = 0, device = 0, model = 0;
  TimeSum span = {};
  Int128 compute_ps = 0, collective_exposed_ps = 0, copy_exposed_ps = 0, other_ps = 0, idle_ps = 0;
  CaptureCentres centres_ps = {};
};
// Collectives of one name; waiting for a slower peer is inside.
struct FleetCollective {
  NameId host = 0, device = 0, kernel = 0;
  uint64_t count = 0;
  Int128 exposed_ps = 0, hidden_ps = 0, in_flight_ps = 0;
};

// When a device was in the collectives of one name, one after the other: of those in which nobody
// is done before all have come. Only where rows are kept apart by host and device.
struct FleetMeetings {
  NameId host = 0, device = 0, kernel = 0, function = 0;
  int64_t base_ns = 0;  // of the capture, on the host's clock; times count from it
  std::vector<int64_t> enters_ps = {}, lengths_ps = {};  // as many
};

struct FleetCapture {
  std::string path = {}, host = {};
  uint64_t bytes = 0, events = 0;
  std::optional<uint64_t> start_unix_ns = {};
  uint64_t content = 0;  // equal for captures that say the same, wherever their files are
  friend auto operator<=>(const FleetCapture&, const FleetCapture&) = default;
};
struct FleetFailure {
  std::string path = {}, message = {};
  friend auto operator<=>(const FleetFailure&, const FleetFailure&) = default;
};

// What rows are kept apart by. Without: one row for all.
struct FleetBy {
  bool host = true, device = true;
  friend bool operator==(const FleetBy&, const FleetBy&) = default;
};
// "host,device", "host", "device", "none". Errors: InvalidArgument.
absl::StatusOr<FleetBy> ParseFleetBy(std::string_view text);
std::string FleetByName(const FleetBy& by);

struct FleetSummary {
  FleetBy by = {};
  // How it was measured (GivenOptions); the same in all that merge.
  std::map<std::string, std::string> options = {};
  std::vector<FleetCapture> captures = {};
  std::vector<FleetFailure> failures = {};  // files that could not be read
  // Code and severity of what was wrong or left out, and how often.
  std::map<std::pair<std::string, std::string>, uint64_t> diagnostics = {};

  // Sorted, and so are rows, by what tells them apart.
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

  // Errors: FailedPrecondition: it was measured otherwise than those before, or it lacks what rows
  // are kept apart by.
  absl::Status Add(const FleetSummary& summary);
  void AddFailure(FleetFailure failure);
  // Of all; then this is empty.
  FleetSummary Take();

 private:
  class Rows;
  std::unique_ptr<Rows> rows_;
};

// `host`: what the host is called; empty: as the trace or its file says. Options as of BuildReport,
// whose errors it has; samples, parts and by_variant make no difference.
absl::StatusOr<FleetSummary> SummarizeTrace(const Trace& trace, const ReportOptions& options,
                                            const Diagnostics& reading, const std::string& host);

std::string EncodeFleetSummary(const FleetSummary& summary);
// `name`: of the file, for errors. DataLoss: damaged, cut, or of a later version; with the byte.
absl::StatusOr<FleetSummary> DecodeFleetSummary(std::string_view bytes, const std::string& name);
// Whether it begins as one. Of such a beginning: what its rows are kept apart by.
bool IsFleetSummary(std::string_view head);
FleetBy FleetByOf(std::string_view head);

// ---- who is slower than the others -----------------------------------------------------------

struct FleetOutlierOptions {
  double alpha = 0.01;        // of any claim in the whole fleet, where all are alike
  double min_effect = 0.005;  // what is less does not matter
};

inline constexpr double kMostFleetMde = 0.1;

enum class FleetVerdict : uint8_t {
  kSlow,        // proved to be, and by more than min_effect as far as is known
  kFast,        // the same
  kTypical,     // nothing proved, and a slowness of mde would have been
  kCannotTell,  // too few others, or so unlike that mde is above kMostFleetMde
};
std::string_view FleetVerdictName(FleetVerdict verdict);

// A host among those of its model, or a device among those of its host, in one function or in
// steps.
struct FleetOutlier {
  std::string host, device, model;
  // `device` empty: of the host, the mean of its devices. `function` empty: steps.
  std::string function;
  uint64_t captures = 0, others = 0;
  std::optional<double> ratio = {};        // to the centre of the others
  std::optional<double> lo = {}, hi = {};  // simultaneous
  std::optional<double> p_value = {};      // after Holm
  std::optional<double> mde = {};          // 0.03: a slowness of 3 % would be seen 4 times in 5
  FleetVerdict verdict = FleetVerdict::kCannotTell;
};

// All of them, what is proved first, then by ratio. Definition: docs/fleet.md.
std::vector<FleetOutlier> FindFleetOutliers(const FleetSummary& summary,
                                            const FleetOutlierOptions& options);

// ---- who is waited for -----------------------------------------------------------------------

// Clocks of hosts. Nobody leaves a collective before the last has come: each one bounds how far two
// clocks are apart, whatever it took.
struct FleetClock {
  std::string host;
  uint64_t collectives = 0;
  // What is added to its times for those of the first host. Empty: nothing bounds it on a side.
  std::optional<int64_t> offset_ps = {}, lo_ps = {}, hi_ps = {};
  bool steps = false;  // no offset fits: a clock stepped, or what was matched is not the same
};

// A collective of one name, over all devices that have it equally often.
struct FleetWait {
  std::string kernel, function;
  std::string host, device;  // who came last; both empty: cannot tell, for it came less late than
                             // clocks are known, or as late as another
  uint64_t devices = 0, count = 0;
  Int128 waited_ps = 0;    // by all others, together
  Int128 transfer_ps = 0;  // from when the last came to when the first left
};

struct FleetWaits {
  std::vector<FleetClock> clocks = {};  // by host; empty: nothing was matched
  std::vector<FleetWait> waits = {};    // who was waited for longest first
  // Names of collectives that devices do not have equally often.
  std::vector<std::string> unmatched = {};
};
// Definition: docs/fleet.md.
FleetWaits FindFleetWaits(const FleetSummary& summary);

struct FleetReport {
  FleetOutlierOptions options;
  FleetSummary summary;
  FleetSummary all;  // of the same, a row for all hosts and devices of a model
  std::vector<FleetOutlier> outliers;
  FleetWaits waits;
};
FleetReport BuildFleetReport(FleetSummary summary, const FleetOutlierOptions& options);

}  // namespace xplane_time
