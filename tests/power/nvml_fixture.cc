#include "tests/power/nvml_fixture.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace xplane_time::power {

NvmlFixture::NvmlFixture(const Setup& setup) {
  const std::string script = directory_.Write("script.json", setup.script.dump());
  setenv("FAKE_NVML_SCRIPT", script.c_str(), 1);
  PowerSourceOptions options;
  options.roots.nvml_library = setup.library;
  options.roots.procfs = setup.procfs;
  options.environment = setup.environment;
  options.ordinals = setup.ordinals;
  options.pid = setup.pid;
  options.gpm = setup.gpm;
  reader_ = NewNvmlReader(options);
  inventory_ = reader_->Discover();
}

const std::vector<Reading>& NvmlFixture::Read(bool slow) {
  readings_.clear();
  reader_->Read(slow, &readings_);
  return readings_;
}

const PowerChannel* NvmlFixture::Channel(std::string_view domain, std::string_view quantity,
                                         ReadingKind kind, size_t device) const {
  for (const PowerChannel& channel : inventory_.channels) {
    if (channel.domain == domain && channel.quantity == quantity && channel.kind == kind &&
        channel.device == Device(device).id) {
      return &channel;
    }
  }
  return nullptr;
}

Reading NvmlFixture::Last(std::string_view domain, std::string_view quantity, ReadingKind kind,
                          size_t device) const {
  const PowerChannel* channel = Channel(domain, quantity, kind, device);
  if (channel == nullptr) {
    ADD_FAILURE() << "no channel " << domain << " " << quantity;
    return {};
  }
  const auto place = static_cast<uint32_t>(channel - inventory_.channels.data());
  std::vector<Reading> found;
  for (const Reading& reading : readings_) {
    if (reading.channel == place) found.push_back(reading);
  }
  EXPECT_EQ(found.size(), 1u) << domain << " " << quantity;
  return found.empty() ? Reading() : found.back();
}

Reading NvmlFixture::Last(std::string_view quantity, size_t device) const {
  return Last("gpu", quantity, ReadingKind::kGauge, device);
}

Reading NvmlFixture::Energy(size_t device) const {
  return Last("gpu", "energy_uj", ReadingKind::kCumulative, device);
}

Reading NvmlFixture::Power(size_t device) const {
  return Last("gpu", "power_mw", ReadingKind::kInstant, device);
}

PowerAbsence NvmlFixture::Absence(std::string_view what) const {
  std::vector<PowerAbsence> found;
  for (const PowerAbsence& absence : inventory_.absences) {
    if (absence.what == what) found.push_back(absence);
  }
  EXPECT_EQ(found.size(), 1u) << what;
  return found.empty() ? PowerAbsence() : found.back();
}

std::vector<std::string> NvmlFixture::ChannelNames(size_t device) const {
  std::vector<std::string> names;
  for (const PowerChannel& channel : inventory_.channels) {
    if (channel.device != Device(device).id) continue;
    names.push_back(channel.domain + " " + channel.quantity + " " +
                    std::string(ReadingKindName(channel.kind)));
  }
  return names;
}

}  // namespace xplane_time::power
