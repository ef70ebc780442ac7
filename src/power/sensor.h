// A sensor: a channel and the way to its value. What a reader of files is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "power/reader.h"
#include "power/sysfs.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

struct Sensor {
  PowerChannel channel;
  std::function<FileNumber()> read;
};

// value * multiply / divide, towards 0. Of file's units to those of a channel's quantity.
struct Scale {
  int64_t multiply = 1, divide = 1;
};
FileNumber Scaled(FileNumber number, Scale scale);
std::function<FileNumber()> ReadsFile(std::shared_ptr<HeldFile> file, Scale scale = {});

// Of what was read since `before_ns`.
Reading ReadingOf(uint32_t channel, int64_t before_ns, const FileNumber& number,
                  int64_t after_ns = MonotonicNow());

// A reader whose Discover finds `sensors_`: channel i is the i-th of them.
class SensorReader : public Reader {
 public:
  using Reader::Reader;
  void Read(bool slow, std::vector<Reading>* readings) override;

 protected:
  std::vector<PowerChannel> Channels() const;

  std::vector<Sensor> sensors_;
};

// What cannot be read of `path`.
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

}  // namespace xplane_time::power
