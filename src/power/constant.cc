// A power that somebody states, for tests and for demonstrations without a sensor.
#include "power/reader.h"

namespace xplane_time::power {
namespace {

class ConstantReader : public Reader {
 public:
  explicit ConstantReader(int64_t power_mw) : power_mw_(power_mw) {}

  std::string_view source() const override { return "constant"; }

  PowerInventory Discover() override {
    PowerInventory inventory;
    inventory.devices.push_back({.id = "constant", .name = "constant", .source = "constant"});
    inventory.channels.push_back({.source = "constant",
                                  .device = "constant",
                                  .domain = "constant",
                                  .quantity = "power_mw",
                                  .kind = ReadingKind::kInstant,
                                  .in_total = true,
                                  .note = "stated, not measured"});
    return inventory;
  }

  void Read(bool /*slow*/, std::vector<Reading>* readings) override {
    const int64_t now_ns = MonotonicNow();
    readings->push_back(
        {.channel = 0, .before_ns = now_ns, .after_ns = now_ns, .value = power_mw_});
  }

  int64_t default_period_ns() const override { return 10'000'000; }

 private:
  const int64_t power_mw_;
};

}  // namespace

std::unique_ptr<Reader> NewConstantReader(int64_t power_mw) {
  return std::make_unique<ConstantReader>(power_mw);
}

}  // namespace xplane_time::power
