// A reader: one vendor's way to its sensors. Each has a thread of its own in the recorder, so
// that a call that hangs stops nothing else; none needs to be thread-safe.
//
// A new source is one file with a factory, declared below, and one line in the list of sources.cc,
// which says what its channels stand for. Helps and errors have its name from there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "power/machine.h"
#include "power/sysfs.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// One value of one channel. `value` is empty where `reason` says why.
struct Reading {
  uint32_t channel = 0;                 // into the reader's inventory; in a log: into the log's
  int64_t before_ns = 0, after_ns = 0;  // CLOCK_MONOTONIC around the call
  std::optional<int64_t> value = {};
  PowerReason reason = PowerReason::kKnown;
  // When the sensor itself says that it took the value, on CLOCK_MONOTONIC; of buffered
  // samples and of values with a timestamp of their own.
  std::optional<int64_t> sampled_ns = {};
};

class Reader {
 public:
  Reader(std::string_view source, int64_t default_period_ns, int64_t min_period_ns = 1'000'000)
      : source_(source), default_period_ns_(default_period_ns), min_period_ns_(min_period_ns) {}
  virtual ~Reader() = default;
  // What there is; called once, before Read. Absences are part of the answer.
  virtual PowerInventory Discover() = 0;
  // Appends a reading for each channel that is due; with `slow` the slow ones too. Every due
  // channel gets one, a failed one with its reason; buffered samples may give several.
  virtual void Read(bool slow, std::vector<Reading>* readings) = 0;

  std::string_view source() const { return source_; }
  int64_t default_period_ns() const { return default_period_ns_; }
  int64_t min_period_ns() const { return min_period_ns_; }

 protected:
  const std::string_view source_;
  int64_t default_period_ns_;
  const int64_t min_period_ns_;
};

// A sensor: a channel and the way to its value. What a reader of files is made of.
struct Sensor {
  PowerChannel channel;
  std::function<FileNumber()> read;
};

std::function<FileNumber()> ReadsFile(std::shared_ptr<HeldFile> file, Scale scale = {});

// A reader that finds `sensors_`: channel i is the i-th of them.
class SensorReader : public Reader {
 public:
  using Reader::Reader;
  PowerInventory Discover() final;
  void Read(bool slow, std::vector<Reading>* readings) override;

 protected:
  // Devices, whose channels are left out, and absences.
  virtual void Find(PowerInventory* inventory) = 0;

  std::vector<Sensor> sensors_;
};

// What cannot be read: "PATH: permission denied".
PowerAbsence AbsenceOf(std::string_view source, std::string what, std::string_view path,
                       PowerReason reason, std::string fix = "");

// The most that a device of this sustained power draws, in milliwatts: ten times as much. A
// laptop's 15 W processor takes 64 W for seconds and more for moments; a counter that starts
// again looks like kilowatts at the least.
std::optional<int64_t> PlausibleMw(const FileNumber& sustained_uw);

// The energy accumulator in amdgpu's gpu_metrics, a binary file in the PCI device's directory, in
// uJ. All bits set is how the driver says that it has none: kUnsupported.
//
// Only formats 1.4 and 1.5 (MI300): their definition states the unit, 2^-16 J. In 1.0 to 1.3
// the unit differs by chip, and 2.x and 3.x (APUs) have no accumulator.
// Definition: kgd_pp_interface.h of the kernel.
FileNumber ReadGpuMetricsEnergy(const std::string& path);

// perf_event_open(2) for all processes on one cpu: a descriptor, or -errno. Each read of it
// gives 8 bytes.
using PerfOpen = std::function<int(uint32_t type, uint64_t config, int cpu)>;

// The rooms. sources.cc has the list of them.
std::unique_ptr<Reader> NewNvmlReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options, PerfOpen open);
std::unique_ptr<Reader> NewHwmonReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewProcessReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewConstantReader(int64_t power_mw);
// What a log says, from its first reading on, as long after the start as it was then. Errors:
// as of SummarizePowerLog.
absl::StatusOr<std::unique_ptr<Reader>> NewReplayReader(const std::string& log_path);

}  // namespace xplane_time::power
