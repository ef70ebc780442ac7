// ejkernel/ops/execution/profiler.py, Profiler.get_events_from_plane, on raw protos.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/keyed_events.h"
#include "compat/python.h"
#include "status.h"

namespace xplane_time::compat {
namespace {

// 0 and "" read as None. A reference to nothing reads as "".
std::optional<std::string> EjkernelText(const StatValue& value, const Plane& plane) {
  const auto or_none = [](bool set, std::string text) { return set ? std::move(text) : "None"; };
  switch (value.type) {
    case StatType::kDouble: {
      const double number = std::bit_cast<double>(value.bits);
      return or_none(number != 0, PythonRepr(number));
    }
    case StatType::kUint64:
      return or_none(value.bits != 0, absl::StrCat(value.bits));
    case StatType::kInt64:
      return or_none(value.bits != 0, absl::StrCat(static_cast<int64_t>(value.bits)));
    case StatType::kString:
      return or_none(!value.text.empty(), std::string(value.text));
    case StatType::kBytes:
      return or_none(!value.text.empty(), PythonBytesRepr(value.text));
    case StatType::kRef:
      return or_none(value.bits != 0, std::string(ReferencedName(plane.stat_metadata, value.bits)));
    case StatType::kAbsent:
    case StatType::kCompressedString:  // its proto has none
      break;
  }
  return "None";
}

// int(min_duration_ns * 1000)
Picoseconds LeastPs(double min_duration_ns) {
  const double least_ps = std::trunc(min_duration_ns * 1000);
  constexpr double kLimit = 1e30;  // beyond every duration
  return Picoseconds(std::clamp(least_ps, -kLimit, kLimit));
}

class EjkernelReading : public KeyedReading {
 public:
  EjkernelReading(const Trace& trace, uint32_t plane, const EjkernelOptions& options)
      : KeyedReading(trace, plane, &EjkernelText, options.prefix, options.children),
        options_(options) {}

  absl::Status Read() {
    const uint64_t most = options_.max_events.value_or(std::numeric_limits<uint64_t>::max());
    const Picoseconds least_ps = LeastPs(options_.min_duration_ns);
    for (uint32_t i = 0; i < plane_.line_count && events_.size() < most; ++i) {
      RETURN_IF_ERROR(VisitFileEvents(trace_, plane_.first_line + i, [&](const FileEvent& event) {
        if (Picoseconds(event.duration_ps) >= least_ps) Add(event);
        return events_.size() < most;
      }));
    }
    SortByStart();
    return absl::OkStatus();
  }

  bool any_negative() const { return any_negative_; }

 private:
  void Add(const FileEvent& event) {
    const KeyStats stats = StatsOf(event);
    const auto scope = stats[kScopeRangeId].value_or("None");
    const Picoseconds start_ps = event.offset_ps;
    events_.push_back({IdOf(absl::StrCat(KeyBegin(stats, event), "-", scope, ")")), start_ps,
                       start_ps + event.duration_ps});
    any_negative_ |= event.duration_ps < 0;
  }

  Picoseconds CoveredBy(const Spans& children) const override {
    Spans sorted = children;
    std::sort(sorted.begin(), sorted.end());
    return Covered(sorted);
  }

  const EjkernelOptions& options_;
  bool any_negative_ = false;
};

}  // namespace

absl::StatusOr<std::vector<KeyTime>> EjkernelTimes(const Trace& trace, uint32_t plane,
                                                   const EjkernelOptions& options) {
  if (!std::isfinite(options.min_duration_ns)) {
    return absl::InvalidArgumentError("min_duration_ns: a finite number is needed");
  }
  EjkernelReading reading(trace, plane, options);
  RETURN_IF_ERROR(reading.Read());
  return reading.Times(/*skip_negative=*/reading.any_negative());
}

}  // namespace xplane_time::compat
