// A recorded log as a source: what was read then comes again, as long after the start as then.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "power/log_reader.h"
#include "power/reader.h"
#include "status.h"

namespace xplane_time::power {
namespace {

constexpr size_t kMostReadings = 20'000'000;
constexpr int64_t kUsualPeriodNs = 50'000'000;

// All of a log, in memory.
struct Recorded : LogSink {
  PowerInventory inventory;
  std::vector<Reading> readings;
  int64_t period_ns = 0;
  bool too_many = false;

  void Header(LogHeader header) override {
    inventory = std::move(header.inventory);
    for (const auto& [source, source_period_ns] : header.periods_ns) {
      period_ns = period_ns == 0 ? source_period_ns : std::min(period_ns, source_period_ns);
    }
  }
  void Channel(PowerChannel channel, PowerDevice device) override {
    inventory.channels.push_back(std::move(channel));
    if (!device.id.empty()) inventory.devices.push_back(std::move(device));
  }
  void Readings(size_t, int64_t, std::span<const Reading> pass) override {
    too_many = too_many || readings.size() + pass.size() > kMostReadings;
    if (!too_many) readings.insert(readings.end(), pass.begin(), pass.end());
  }
  bool Full() const override { return too_many; }
};

class ReplayReader : public Reader {
 public:
  explicit ReplayReader(Recorded log)
      : Reader("replay", log.period_ns > 0 ? log.period_ns : kUsualPeriodNs), log_(std::move(log)) {
    std::stable_sort(log_.readings.begin(), log_.readings.end(),
                     [](const Reading& a, const Reading& b) { return a.before_ns < b.before_ns; });
  }

  PowerInventory Discover() override { return log_.inventory; }

  void Read(bool, std::vector<Reading>* readings) override {
    if (log_.readings.empty()) return;
    const int64_t now_ns = MonotonicNow();
    if (!shift_ns_.has_value()) shift_ns_ = now_ns - log_.readings.front().after_ns;
    for (; next_ < log_.readings.size(); ++next_) {
      Reading reading = log_.readings[next_];
      reading.before_ns += *shift_ns_;
      reading.after_ns += *shift_ns_;
      if (reading.sampled_ns.has_value()) *reading.sampled_ns += *shift_ns_;
      if (reading.after_ns > now_ns) return;
      readings->push_back(reading);
    }
  }

 private:
  Recorded log_;
  std::optional<int64_t> shift_ns_;  // from then to now
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reader>> NewReplayReader(const std::string& log_path) {
  // All of it is read before anything is recorded: a pipe may never end.
  struct stat info = {};
  const bool there =
      (log_path == "-" ? fstat(STDIN_FILENO, &info) : stat(log_path.c_str(), &info)) == 0;
  if (there && !S_ISREG(info.st_mode)) {
    return InvalidArgument("replay:", log_path,
                           ": is no regular file; a log of a pipe is written to a file first");
  }
  Recorded log;
  RETURN_IF_ERROR(ReadPowerLog(log_path, &log).status());
  if (log.too_many) {
    return ResourceExhausted(log_path, ": over ", kMostReadings,
                             " readings; replay a shorter log as a source");
  }
  return std::make_unique<ReplayReader>(std::move(log));
}

}  // namespace xplane_time::power
