// NVIDIA GPUs through libnvidia-ml.so.1. docs/power-sensors.md has what is read and how.
#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <utility>

#include "power/nvml_api.h"
#include "power/nvml_inventory.h"
#include "power/reader.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kDefaultPeriodNs = 50'000'000;
constexpr int64_t kMinPeriodNs = 20'000'000;  // 50 Hz: values change no faster
// No device draws more than 100 kW; all ones is a driver's "not available".
constexpr int64_t kMaxPowerMw = 100'000'000;
// How old a value may be at the time of the call: more is a clock that was set meanwhile.
constexpr int64_t kOldestFieldNs = 2'000'000'000;
constexpr int64_t kOldestSampleNs = 30'000'000'000;
constexpr int64_t kClockSlackNs = 1'000'000;

int64_t NowOf(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Read between two readings of the other; again where the thread was interrupted in between.
int64_t OffsetFromMonotonic(clockid_t clock) {
  int64_t offset = 0;
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int attempt = 0; attempt < 4 && best > 10'000; ++attempt) {
    const int64_t before = MonotonicNow();
    const int64_t now = NowOf(clock);
    const int64_t took = MonotonicNow() - before;
    if (took >= best) continue;
    best = took;
    offset = now - before - took / 2;
  }
  return offset;
}

// `time_us` of `clock` on CLOCK_MONOTONIC; empty where it is not of a time shortly before
// `after_ns`, so that a clock that was set, or another clock, gives no time instead of a wrong
// one.
std::optional<int64_t> OnMonotonic(uint64_t time_us, clockid_t clock, int64_t after_ns,
                                   int64_t oldest_ns) {
  constexpr uint64_t kMaxUs = uint64_t{1} << 53;
  if (time_us == 0 || time_us > kMaxUs) return std::nullopt;
  const int64_t time_ns = static_cast<int64_t>(time_us) * 1000 - OffsetFromMonotonic(clock);
  if (time_ns > after_ns + kClockSlackNs || time_ns < after_ns - oldest_ns) return std::nullopt;
  return std::min(time_ns, after_ns);
}

// NVML does not say which clock its samples carry: mostly BOOTTIME's, in some drivers the
// wall clock's. They differ by decades, and from MONOTONIC by the time spent suspended.
std::optional<int64_t> SampleOnMonotonic(uint64_t time_us, int64_t after_ns) {
  for (const clockid_t clock : {CLOCK_BOOTTIME, CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    const std::optional<int64_t> time = OnMonotonic(time_us, clock, after_ns, kOldestSampleNs);
    if (time) return time;
  }
  return std::nullopt;
}

class NvmlReader : public Reader {
 public:
  explicit NvmlReader(PowerSourceOptions options) : options_(std::move(options)) {}

  std::string_view source() const override { return "nvml"; }
  int64_t default_period_ns() const override { return kDefaultPeriodNs; }
  int64_t min_period_ns() const override { return kMinPeriodNs; }

  PowerInventory Discover() override {
    PowerAbsence absence;
    nvml_ = OpenNvml(options_.roots.nvml_library, &absence);
    if (nvml_ == nullptr) return {{}, {}, {std::move(absence)}};
    const NvmlReturn result = nvml_->init();
    if (result != kNvmlSuccess) {
      absence.reason = ReasonOf(result);
      absence.message = "nvmlInit: " + NvmlErrorText(result);
      absence.fix = FixOf(result);
      return {{}, {}, {std::move(absence)}};
    }
    nvml_->initialized = true;
    NvmlInventory taken = TakeNvmlInventory(*nvml_, options_);
    plans_ = std::move(taken.plans);
    return std::move(taken.inventory);
  }

  void Read(bool slow, std::vector<Reading>* readings) override {
    if (nvml_ == nullptr || plans_.empty()) return;
    const size_t start = readings->size();
    if (nvml_->initialized) {
      reloaded_ = false;
      for (NvmlPlan& plan : plans_) ReadDevice(plan, slow, readings);
      if (!reloaded_) return;
    } else if (!slow) {
      FailAll(slow, down_, readings);
      return;
    }
    // The driver was unloaded under us, maybe in the middle of this pass: nothing of it is
    // kept, and counters start again.
    readings->resize(start);
    down_ = Initialize();
    FailAll(slow, down_, readings);
  }

 private:
  // kReset where the driver is back, else why it is not. Asked once when it goes and once a
  // second after.
  PowerReason Initialize() {
    if (nvml_->initialized && nvml_->shutdown != nullptr) nvml_->shutdown();
    const NvmlReturn result = nvml_->init();
    nvml_->initialized = result == kNvmlSuccess;
    if (!nvml_->initialized) {
      const PowerReason reason = ReasonOf(result);
      return reason == PowerReason::kReset ? PowerReason::kAbsent : reason;
    }
    for (NvmlPlan& plan : plans_) FindAgain(plan);
    return PowerReason::kReset;
  }

  // Handles do not outlive the session, and indices may change.
  void FindAgain(NvmlPlan& plan) {
    if (nvml_->device_by_uuid(plan.uuid.c_str(), &plan.device) != kNvmlSuccess) {
      plan.device = nullptr;
    }
    plan.lost = plan.device == nullptr;
  }

  void ReadDevice(NvmlPlan& plan, bool slow, std::vector<Reading>* readings) {
    // A lost GPU's calls can take seconds: it is asked again once a second.
    if (plan.lost && slow) {
      if (plan.device == nullptr) FindAgain(plan);
      plan.lost = plan.device == nullptr;
    }
    if (plan.samples) ReadBuffer(plan, readings);
    if (!plan.fields.empty()) ReadFieldsOf(plan, readings);
    for (const NvmlPlan::Call& call : plan.calls) {
      if (call.slow && !slow) continue;
      ReadCall(plan, call, readings);
    }
  }

  // Whether the call may be made; afterwards Note() hears what it said.
  bool MayCall(const NvmlPlan& plan) const { return !plan.lost && !reloaded_; }

  void Note(NvmlPlan& plan, NvmlReturn result) {
    if (result == kNvmlGpuIsLost) plan.lost = true;
    if (result == kNvmlUninitialized || result == kNvmlDriverNotLoaded) reloaded_ = true;
  }

  static Reading Failed(uint32_t channel, int64_t before_ns, int64_t after_ns, PowerReason reason) {
    return {channel, before_ns, after_ns, std::nullopt, reason, std::nullopt};
  }

  void ReadCall(NvmlPlan& plan, const NvmlPlan::Call& planned, std::vector<Reading>* readings) {
    const NvmlCall& call = *planned.call;
    std::array<uint64_t, 2> raw = {};
    NvmlReturn result = kNvmlGpuIsLost;
    const int64_t before = MonotonicNow();
    if (MayCall(plan)) {
      result = call.read(*nvml_, plan.device, raw);
      Note(plan, result);
    }
    const int64_t after = MonotonicNow();
    for (uint32_t i = 0; i < call.n_quantities(); ++i) {
      Reading reading = Failed(planned.first_channel + i, before, after, ReasonOf(result));
      if (result == kNvmlSuccess)
        SetValue(reading, raw[i], call.quantities[i].scale, &call == &PowerUsageCall());
      readings->push_back(reading);
    }
  }

  static void SetValue(Reading& reading, std::optional<uint64_t> raw, int64_t scale, bool power) {
    if (raw) reading.value = Scaled(*raw, scale);
    if (power && reading.value && *reading.value > kMaxPowerMw) reading.value.reset();
    if (!reading.value) reading.reason = PowerReason::kImplausible;
  }

  void ReadFieldsOf(NvmlPlan& plan, std::vector<Reading>* readings) {
    NvmlReturn result = kNvmlGpuIsLost;
    values_.clear();
    const int64_t before = MonotonicNow();
    if (MayCall(plan)) {
      result = ReadFields(*nvml_, plan.device, plan.fields, &values_);
      Note(plan, result);
    }
    const int64_t after = MonotonicNow();
    for (size_t i = 0; i < plan.fields.size(); ++i) {
      Reading reading = Failed(plan.fields[i].channel, before, after, ReasonOf(result));
      if (result == kNvmlSuccess) {
        const NvmlFieldValue& value = values_[i];
        Note(plan, value.result);
        reading.reason = ReasonOf(value.result);
        if (value.result == kNvmlSuccess) {
          SetValue(reading, RawOf(value.value, value.value_type), 1, true);
          if (value.timestamp_us > 0) {
            reading.sampled_ns = OnMonotonic(static_cast<uint64_t>(value.timestamp_us),
                                             CLOCK_REALTIME, after, kOldestFieldNs);
          }
        }
      }
      readings->push_back(reading);
    }
  }

  // What the driver sampled since the last pass. No new sample is no error: the channel's own
  // poll follows.
  void ReadBuffer(NvmlPlan& plan, std::vector<Reading>* readings) {
    if (!MayCall(plan)) return;
    int type = 0;
    const int64_t before = MonotonicNow();
    Note(plan, ReadSamples(*nvml_, plan.device, plan.samples->last_seen_us, &type, &samples_));
    const int64_t after = MonotonicNow();
    for (const NvmlSample& sample : samples_) {
      if (sample.timestamp_us <= plan.samples->last_seen_us) continue;
      plan.samples->last_seen_us = sample.timestamp_us;
      const std::optional<int64_t> time = SampleOnMonotonic(sample.timestamp_us, after);
      if (!time) continue;  // a value of no known time fills no gap
      Reading reading = Failed(plan.samples->channel, before, after, PowerReason::kKnown);
      SetValue(reading, RawOf(sample.value, type), 1, true);
      reading.sampled_ns = time;
      readings->push_back(reading);
    }
  }

  void FailAll(bool slow, PowerReason reason, std::vector<Reading>* readings) const {
    const int64_t now = MonotonicNow();
    for (const NvmlPlan& plan : plans_) {
      for (const NvmlPlan::Field& field : plan.fields) {
        readings->push_back(Failed(field.channel, now, now, reason));
      }
      for (const NvmlPlan::Call& call : plan.calls) {
        if (call.slow && !slow) continue;
        for (uint32_t i = 0; i < call.call->n_quantities(); ++i) {
          readings->push_back(Failed(call.first_channel + i, now, now, reason));
        }
      }
    }
  }

  const PowerSourceOptions options_;
  std::unique_ptr<NvmlApi> nvml_;
  std::vector<NvmlPlan> plans_;
  std::vector<NvmlFieldValue> values_;  // kept for their storage
  std::vector<NvmlSample> samples_;
  bool reloaded_ = false;                    // in this pass
  PowerReason down_ = PowerReason::kAbsent;  // why NVML is not initialized
};

}  // namespace

std::unique_ptr<Reader> NewNvmlReader(const PowerSourceOptions& options) {
  return std::make_unique<NvmlReader>(options);
}

}  // namespace xplane_time::power
