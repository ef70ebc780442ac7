// A reader on the scripted NVML (fake_nvml.cc), with access to its channels and readings.
//
//   NvmlFixture nvml({.script = {{"devices", {Json::object()}}}});
//   nvml.Read(/*slow=*/true);
//   nvml.Last("gpu", "power_mw", ReadingKind::kInstant).value;   // 300000
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "power/nvml_api.h"
#include "power/reader.h"
#include "tests/read/temp_dir.h"

namespace xplane_time::power {

using Json = nlohmann::json;

inline constexpr int64_t kMs = 1'000'000;  // in ns

inline Json OneDevice(const Json& device) { return {{"devices", Json::array({device})}}; }
inline Json Error(NvmlReturn result) { return {{"error", result}}; }

class NvmlFixture {
 public:
  struct Setup {
    Json script = {{"devices", {Json::object()}}};
    std::string library = FAKE_NVML_LIBRARY;
    PowerEnvironment environment = {};
    std::map<int32_t, std::string> ordinals = {};
    int64_t pid = 0;
    std::string procfs = "/proc";
    bool gpm = false;
  };
  explicit NvmlFixture(const Setup& setup);

  Reader& reader() { return *reader_; }
  const PowerInventory& inventory() const { return inventory_; }
  const PowerDevice& Device(size_t i) const { return inventory_.devices.at(i); }

  // Reads one pass, and discards earlier readings.
  const std::vector<Reading>& Read(bool slow);
  // The reading of the last pass. Fails the test if the channel is missing or has several readings.
  Reading Last(std::string_view domain, std::string_view quantity, ReadingKind kind,
               size_t device = 0) const;
  Reading Last(std::string_view quantity, size_t device = 0) const;  // a gauge of the GPU
  Reading Energy(size_t device = 0) const;
  Reading Power(size_t device = 0) const;  // the instantaneous power
  // Null if there is no such channel.
  const PowerChannel* Channel(std::string_view domain, std::string_view quantity, ReadingKind kind,
                              size_t device = 0) const;
  // The absence of `what`. Fails the test unless there is exactly one.
  PowerAbsence Absence(std::string_view what) const;
  // The channels of a device in order, such as "gpu power_mw instant".
  std::vector<std::string> ChannelNames(size_t device = 0) const;

 private:
  const testing::TempDir directory_;
  std::unique_ptr<Reader> reader_;
  PowerInventory inventory_;
  std::vector<Reading> readings_;
};

}  // namespace xplane_time::power
