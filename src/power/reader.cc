#include "power/reader.h"

#include <utility>

#include "absl/strings/str_replace.h"
#include "status.h"

namespace xplane_time::power {

std::function<FileNumber()> ReadsFile(std::shared_ptr<HeldFile> file, Scale scale) {
  return [file = std::move(file), scale] { return Scaled(file->Read(), scale); };
}

void SensorReader::Read(bool slow, std::vector<Reading>* readings) {
  for (uint32_t channel = 0; channel < sensors_.size(); ++channel) {
    if (sensors_[channel].channel.slow && !slow) continue;
    const int64_t before_ns = MonotonicNow();
    const FileNumber number = sensors_[channel].read();
    readings->push_back({channel, before_ns, MonotonicNow(), number.value, number.reason});
  }
}

PowerInventory SensorReader::Discover() {
  PowerInventory inventory;
  Find(&inventory);
  for (const Sensor& sensor : sensors_) inventory.channels.push_back(sensor.channel);
  return inventory;
}

PowerAbsence AbsenceOf(std::string_view source, std::string what, std::string_view path,
                       PowerReason reason, std::string fix) {
  const std::string why = absl::StrReplaceAll(Absl(PowerReasonName(reason)), {{"_", " "}});
  return {std::string(source), std::move(what), reason, Cat(path, ": ", why), std::move(fix)};
}

std::optional<int64_t> PlausibleMw(const FileNumber& sustained_uw) {
  const int64_t mw = Scaled(sustained_uw, {10, 1000}).value.value_or(0);
  return mw > 0 ? std::optional(mw) : std::nullopt;
}

namespace {

// A constant power that the user states, for tests and for demonstrations without a sensor.
class ConstantReader : public SensorReader {
 public:
  explicit ConstantReader(int64_t power_mw)
      : SensorReader("constant", /*default_period_ns=*/10'000'000), power_mw_(power_mw) {}

  void Find(PowerInventory* inventory) override {
    sensors_ = {{{.source = "constant",
                  .device = "constant",
                  .domain = "constant",
                  .quantity = "power_mw",
                  .kind = ReadingKind::kInstant,
                  .in_total = true,
                  .note = "stated, not measured"},
                 [this] { return FileNumber{power_mw_}; }}};
    inventory->devices = {{"constant", "constant", "constant"}};
  }

 private:
  const int64_t power_mw_;
};

}  // namespace

std::unique_ptr<Reader> NewConstantReader(int64_t power_mw) {
  return std::make_unique<ConstantReader>(power_mw);
}

}  // namespace xplane_time::power
