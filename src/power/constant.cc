// A power that somebody states, for tests and for demonstrations without a sensor.
#include "power/sensor.h"

namespace xplane_time::power {
namespace {

class ConstantReader : public SensorReader {
 public:
  explicit ConstantReader(int64_t power_mw)
      : SensorReader("constant", /*default_period_ns=*/10'000'000), power_mw_(power_mw) {}

  PowerInventory Discover() override {
    sensors_ = {{{.source = "constant",
                  .device = "constant",
                  .domain = "constant",
                  .quantity = "power_mw",
                  .kind = ReadingKind::kInstant,
                  .in_total = true,
                  .note = "stated, not measured"},
                 [this] { return FileNumber{power_mw_}; }}};
    return {{{"constant", "constant", "constant"}}, Channels(), {}};
  }

 private:
  const int64_t power_mw_;
};

}  // namespace

std::unique_ptr<Reader> NewConstantReader(int64_t power_mw) {
  return std::make_unique<ConstantReader>(power_mw);
}

}  // namespace xplane_time::power
