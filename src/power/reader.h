// A reader accesses the sensors of one vendor or interface. The recorder runs each reader in its
// own thread, so a call that hangs stops no other reader. Readers need not be thread-safe.
//
// A new source needs one file with a factory, declared below, and one row in the list of sources.cc
// with the meaning of its channels. Help texts and errors take its name from there.
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

// One value of one channel. If `value` is empty, `reason` explains why.
struct Reading {
  uint32_t channel = 0;  // index in the reader's inventory; in a log, index in the log's
  int64_t before_ns = 0, after_ns = 0;  // CLOCK_MONOTONIC around the call
  std::optional<int64_t> value = {};
  PowerReason reason = PowerReason::kKnown;
  // The time of the value according to the sensor, on CLOCK_MONOTONIC; for buffered samples and
  // values with a timestamp.
  std::optional<int64_t> sampled_ns = {};
};

class Reader {
 public:
  Reader(std::string_view source, int64_t default_period_ns, int64_t min_period_ns = 1'000'000)
      : source_(source), default_period_ns_(default_period_ns), min_period_ns_(min_period_ns) {}
  virtual ~Reader() = default;
  // Lists devices, channels and absences. Called once, before Read.
  virtual PowerInventory Discover() = 0;
  // Appends a reading for each channel that is due; with `slow`, also for the slow channels. A
  // failed channel gets a reading with its reason; buffered samples may add several.
  virtual void Read(bool slow, std::vector<Reading>* readings) = 0;

  std::string_view source() const { return source_; }
  int64_t default_period_ns() const { return default_period_ns_; }
  int64_t min_period_ns() const { return min_period_ns_; }

 protected:
  const std::string_view source_;
  int64_t default_period_ns_;
  const int64_t min_period_ns_;
};

// A sensor: a channel and a function that reads its value. Readers of files consist of these.
struct Sensor {
  PowerChannel channel;
  std::function<FileNumber()> read;
};

std::function<FileNumber()> ReadsFile(std::shared_ptr<HeldFile> file, Scale scale = {});

// A reader that finds `sensors_`: channel i belongs to the i-th sensor.
class SensorReader : public Reader {
 public:
  using Reader::Reader;
  PowerInventory Discover() final;
  void Read(bool slow, std::vector<Reading>* readings) override;

 protected:
  // Adds the devices, without their channels, and the absences.
  virtual void Find(PowerInventory* inventory) = 0;

  std::vector<Sensor> sensors_;
};

// The absence for a file that cannot be read: "PATH: permission denied".
PowerAbsence AbsenceOf(std::string_view source, std::string what, std::string_view path,
                       PowerReason reason, std::string fix = "");

// The maximum power, in milliwatts, of a device with this sustained power: ten times as much. A 15
// W laptop processor draws 64 W for seconds and more for moments; a counter that restarts looks
// like kilowatts at least.
std::optional<int64_t> PlausibleMw(const FileNumber& sustained_uw);

// Reads the energy accumulator, in uJ, from amdgpu's gpu_metrics, a binary file in the directory of
// the PCI device. All bits set means that the driver has no accumulator: kUnsupported.
//
// Only formats 1.4 and 1.5 (MI300): their definition states the unit, 2^-16 J. In 1.0 to 1.3 the
// unit depends on the chip, and 2.x and 3.x (APUs) have no accumulator. Definition:
// kgd_pp_interface.h of the kernel.
FileNumber ReadGpuMetricsEnergy(const std::string& path);

// perf_event_open(2) for all processes on one cpu: returns a descriptor or -errno. Each read of it
// returns 8 bytes.
using PerfOpen = std::function<int(uint32_t type, uint64_t config, int cpu)>;

// The factories. sources.cc lists them.
std::unique_ptr<Reader> NewNvmlReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options, PerfOpen open);
std::unique_ptr<Reader> NewHwmonReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewProcessReader(const PowerSourceOptions& options);
std::unique_ptr<Reader> NewConstantReader(int64_t power_mw);
// Replays a log from its first reading on, with the original distances in time. Errors: as of
// SummarizePowerLog.
absl::StatusOr<std::unique_ptr<Reader>> NewReplayReader(const std::string& log_path);

}  // namespace xplane_time::power
