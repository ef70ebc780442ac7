// Each reader has its own thread, so a call that hangs stops no other reader. One more thread
// watches for such calls and writes the clocks once a second. All threads share the log under a
// mutex, which is not held during a reader's calls.
//
// Stop sets `stopping` and waits for the threads, but no longer than the limit for hung calls. Then
// the last line is written, and the log is closed. A thread that still hangs is detached; it shares
// ownership of the objects it uses, and if its call returns, it finds the log closed.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "power/log.h"
#include "power/sources.h"
#include "status.h"
#include "xplane_time/power.h"

namespace xplane_time::power {
namespace {

using std::chrono::nanoseconds;
using SteadyTime = std::chrono::steady_clock::time_point;  // CLOCK_MONOTONIC on Linux

constexpr int64_t kMostSlowPeriodNs = 1'000'000'000, kClockLineNs = 1'000'000'000;
constexpr int64_t kSlowShare = 50;  // slow passes take at most one part in this many of the time
constexpr int64_t kClockMovedNs = 1'000'000, kWatchNs = 100'000'000;

struct Track {
  std::shared_ptr<Reader> reader;
  size_t source = 0;  // index in the header's periods
  uint32_t first_channel = 0, channels = 0;
  bool tells_energy = false;  // or power
  int64_t period_ns = 0, slow_period_ns = 0;
  std::thread thread;
  // Guarded by Shared::mutex.
  int64_t busy_since_ns = 0;  // 0: not in a call
  bool begun = false, ended = false;
  ReaderQuality told;  // written to the log's last line
};

// The log and the state that all threads share.
struct Shared {
  explicit Shared(LogWriter writer) : log(std::move(writer)) {}

  std::mutex mutex;
  std::condition_variable changed;
  LogWriter log;          // guarded by mutex, like all members below
  bool stopping = false;  // threads shall end
  bool closed = false;    // the log has its last line
  std::set<std::string, std::less<>> open_windows;

  // Call with the mutex locked.
  void Readings(int64_t pass_ns, const Track& track, std::vector<Reading>* readings) {
    for (Reading& each : *readings) each.channel += track.first_channel;
    log.Readings(track.source, pass_ns, *readings);
  }
  void Finding(std::string_view code, std::string_view source, std::string_view message) {
    log.Finding(MonotonicNow(), code, source, message);
  }
};

// One pass; called without the mutex.
void ReadOnce(Shared* shared, Track* track, bool slow, std::vector<Reading>* readings) {
  readings->clear();
  const int64_t before_ns = MonotonicNow();
  {
    const std::lock_guard lock(shared->mutex);
    track->busy_since_ns = before_ns;
  }
  track->reader->Read(slow, readings);
  const std::lock_guard lock(shared->mutex);
  track->busy_since_ns = 0;
  track->told.own_cpu_ns = NowOf(CLOCK_THREAD_CPUTIME_ID);
  track->begun = true;
  shared->changed.notify_all();  // waiting threads continue once the mutex is free
  if (shared->closed) return;
  if (std::exchange(track->told.hung, false)) {
    shared->Finding("returned", track->told.source, "a call that hung returned");
  }
  ++track->told.reads;
  if (!readings->empty()) shared->Readings(before_ns, *track, readings);
}

// Absolute deadlines: a late pass does not delay later ones.
void ReadPeriodically(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Track>& track) {
  std::vector<Reading> readings;
  const int64_t start_ns = MonotonicNow();
  int64_t next_ns = start_ns, next_slow_ns = start_ns, slow_took_ns = 0;
  for (bool last = false; !last;) {
    const int64_t now_ns = MonotonicNow();
    const bool slow = now_ns >= next_slow_ns;
    ReadOnce(shared.get(), track.get(), slow, &readings);
    if (slow) {
      const int64_t took_ns = MonotonicNow() - now_ns;
      // A single slow pass, as on a busy machine, does not delay the next ones.
      const int64_t usual_ns = std::min(std::exchange(slow_took_ns, took_ns), took_ns);
      const int64_t every_ns =
          std::clamp(std::min(usual_ns, kMostSlowPeriodNs) * kSlowShare, track->slow_period_ns,
                     std::max(track->slow_period_ns, kMostSlowPeriodNs));
      next_slow_ns = std::max(next_slow_ns + every_ns, now_ns + every_ns / 2);
    }
    next_ns += track->period_ns;
    const int64_t late_ns = MonotonicNow() - next_ns;
    std::unique_lock lock(shared->mutex);
    if (late_ns >= 0) {
      const int64_t missed = 1 + late_ns / track->period_ns;
      track->told.missed += static_cast<uint64_t>(missed);
      next_ns += missed * track->period_ns;
    }
    last = shared->changed.wait_until(lock, SteadyTime(nanoseconds(next_ns)),
                                      [&] { return shared->stopping; });
    if (shared->closed) return;
  }
  // The last reading, so that the time between the last deadline and the end has readings on both
  // sides.
  ReadOnce(shared.get(), track.get(), false, &readings);
  const std::lock_guard lock(shared->mutex);
  track->ended = true;
  shared->changed.notify_all();
}

// Copies the priors of the calibrated channel, if the channel was calibrated.
void SetPriors(std::span<const PowerChannel> calibrated, PowerChannel* channel) {
  const auto identity = [](const PowerChannel& of) {
    return std::tie(of.source, of.device, of.domain, of.quantity, of.kind);
  };
  for (const PowerChannel& each : calibrated) {
    if (identity(each) != identity(*channel)) continue;
    if (each.prior_period_ns.has_value()) channel->prior_period_ns = each.prior_period_ns;
    if (each.prior_window_ns.has_value()) channel->prior_window_ns = each.prior_window_ns;
  }
}

class Recorder : public PowerRecorder {
 public:
  Recorder(PowerRecordOptions options, LogWriter log, FoundReaders found)
      : options_(std::move(options)), shared_(std::make_shared<Shared>(std::move(log))) {
    header_.inventory = std::move(found.all);
    for (PowerChannel& each : header_.inventory.channels) SetPriors(options_.calibrated, &each);
    uint32_t channel = 0;
    for (const FoundReader& each : found.readers) {
      if (!each.inventory.channels.empty()) AddTrack(each, channel);
      channel += static_cast<uint32_t>(each.inventory.channels.size());
    }
  }

  ~Recorder() override { static_cast<void>(Recorder::Stop()); }

  // After an error, the destructor stops the recorder.
  absl::Status Run() {
    WriteHeader();
    if (!shared_->log.status().ok()) {
      shared_->closed = true;
      return shared_->log.status();
    }
    for (const auto& track : tracks_) {
      ASSIGN_OR_RETURN(track->thread,
                       StartThread([shared = shared_, track] { ReadPeriodically(shared, track); }));
    }
    ASSIGN_OR_RETURN(watcher_, StartThread([this] { Watch(); }));
    // Wait until all readers have read once, so that a window that begins now has a reading before
    // it.
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, nanoseconds(options_.hung_after_ns), [&] {
      return std::ranges::all_of(tracks_, [](const auto& each) { return each->begun; });
    });
    return absl::OkStatus();
  }

  const PowerInventory& inventory() const override { return header_.inventory; }
  const std::map<std::string, std::string>& raised_periods() const override {
    return raised_periods_;
  }
  std::string log_path() const override { return shared_->log.path(); }

  absl::Status Begin(std::string_view name) override {
    if (name.empty()) return absl::InvalidArgumentError("the name of a window must not be empty");
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->open_windows.emplace(name).second) {
      return InvalidArgument("the window \"", name,
                             "\" is already open; overlapping windows need different names");
    }
    if (!shared_->closed) shared_->log.Mark(MonotonicNow(), name, /*end=*/false);
    return shared_->log.status();
  }

  absl::Status End(std::string_view name) override {
    const int64_t now_ns = MonotonicNow();
    const std::lock_guard lock(shared_->mutex);
    const auto at = shared_->open_windows.find(name);
    if (at == shared_->open_windows.end()) {
      return InvalidArgument("the window \"", name, "\" ends but was not started");
    }
    shared_->open_windows.erase(at);
    if (!shared_->closed) shared_->log.Mark(now_ns, name, /*end=*/true);
    return shared_->log.status();
  }

  absl::Status Gauge(std::string_view quantity, std::optional<int64_t> value) override {
    constexpr int64_t kMost = int64_t{1} << 53;
    const int64_t known = value.value_or(0);
    if (quantity.empty() || known < -kMost || known > kMost) {
      return InvalidArgument("gauge \"", quantity,
                             "\": requires a name and a value from -2^53 to 2^53, not ", known);
    }
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->closed) shared_->log.Gauge(MonotonicNow(), quantity, value);
    return shared_->log.status();
  }

  absl::Status Note(std::string_view code, std::string_view message) override {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->closed) shared_->Finding(code, "caller", message);
    return shared_->log.status();
  }

  void AwaitReadings(nanoseconds at_most) override {
    std::unique_lock lock(shared_->mutex);
    std::map<const Track*, uint64_t> before;
    for (const auto& track : tracks_) {
      if (track->tells_energy) before[track.get()] = track->told.reads;
    }
    shared_->changed.wait_for(lock, at_most, [&] {
      return std::ranges::all_of(
          before, [](const auto& each) { return each.first->told.reads > each.second; });
    });
  }

  absl::Status log_status() const override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->log.status();
  }

  absl::Status Stop() override {
    {
      std::unique_lock lock(shared_->mutex);
      if (shared_->closed) return shared_->log.status();
      shared_->stopping = true;
      shared_->changed.notify_all();
      shared_->changed.wait_for(lock, nanoseconds(options_.hung_after_ns), [&] {
        return std::ranges::all_of(tracks_, [](const auto& each) {
          return each->ended || each->told.hung || !each->thread.joinable();
        });
      });
      WriteEnd();
    }
    for (const auto& track : tracks_) {
      if (!track->thread.joinable()) continue;
      std::unique_lock lock(shared_->mutex);
      const bool ended = track->ended;
      lock.unlock();
      ended ? track->thread.join() : track->thread.detach();
    }
    if (watcher_.joinable()) watcher_.join();
    return shared_->log.status();
  }

 private:
  void AddTrack(const FoundReader& found, uint32_t first_channel) {
    auto track = std::make_shared<Track>();
    track->reader = found.reader;
    track->told = {.source = std::string(found.reader->source()), .own_cpu_ns = 0};
    track->source = tracks_.size();
    track->channels = static_cast<uint32_t>(found.inventory.channels.size());
    track->first_channel = first_channel;
    track->tells_energy = std::ranges::any_of(found.inventory.channels, IsPowerOrEnergy);
    const int64_t wanted =
        options_.period_ns > 0 ? options_.period_ns : track->reader->default_period_ns();
    track->period_ns = std::max(wanted, track->reader->min_period_ns());
    track->slow_period_ns =
        std::max(std::min(options_.slow_period_ns, kMostSlowPeriodNs), track->period_ns);
    const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
    if (options_.period_ns > 0 && track->period_ns > wanted) {
      raised_periods_[track->told.source] =
          absl::StrCat("polled every ", ms(track->period_ns), " ms, not ", ms(wanted),
                       "; its sensors do not change faster");
    }
    header_.periods_ns.emplace_back(track->told.source, track->period_ns);
    tracks_.push_back(std::move(track));
  }

  void WriteHeader() {
    header_.clocks = ClocksNow();
    header_.t_ns = header_.clocks->monotonic_ns;
    header_.machine_json = MachineJson(options_.from.roots.procfs);
    header_.command = options_.command;
    shared_->log.Header(header_);
    for (const auto& [source, message] : raised_periods_) {
      shared_->Finding("period_raised", source, message);
    }
  }

  // Call with the mutex locked.
  void WriteEnd() {
    std::vector<ReaderQuality> ends;
    for (const auto& track : tracks_) {
      ends.push_back(track->told);
      ends.back().hung |= !track->ended;
    }
    shared_->log.Finish(MonotonicNow(), ends);
    shared_->closed = true;
    shared_->changed.notify_all();
  }

  void Watch() {
    Clocks written = ClocksNow();
    std::unique_lock lock(shared_->mutex);
    while (!shared_->closed) {
      shared_->changed.wait_for(lock, nanoseconds(kWatchNs), [&] { return shared_->closed; });
      if (shared_->closed) return;
      const Clocks now = ClocksNow();
      if (now.monotonic_ns - written.monotonic_ns >= kClockLineNs || Moved(written, now)) {
        shared_->log.ClocksAt(now.monotonic_ns, now);
        written = now;
      }
      for (const auto& track : tracks_) MarkIfHung(track.get(), now.monotonic_ns);
    }
  }

  static bool Moved(const Clocks& before, const Clocks& now) {
    const int64_t elapsed = now.monotonic_ns - before.monotonic_ns;
    return std::abs(now.realtime_ns - before.realtime_ns - elapsed) > kClockMovedNs ||
           std::abs(now.boottime_ns - before.boottime_ns - elapsed) > kClockMovedNs;
  }

  // Marks a reader that hangs, and its channels as unknown from now on.
  void MarkIfHung(Track* track, int64_t now_ns) {
    if (track->told.hung || track->busy_since_ns == 0 ||
        now_ns - track->busy_since_ns < options_.hung_after_ns) {
      return;
    }
    track->told.hung = true;
    std::vector<Reading> unknown;
    for (uint32_t channel = 0; channel < track->channels; ++channel) {
      unknown.push_back({.channel = channel,
                         .before_ns = now_ns,
                         .after_ns = now_ns,
                         .reason = PowerReason::kHung});
    }
    shared_->Readings(now_ns, *track, &unknown);
    shared_->Finding(
        "hung", track->told.source,
        absl::StrCat("a call has not returned for ", (now_ns - track->busy_since_ns) / 1'000'000,
                     " ms; the other sources continue"));
    shared_->changed.notify_all();
  }

  const PowerRecordOptions options_;
  LogHeader header_;
  std::map<std::string, std::string> raised_periods_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Track>> tracks_;
  std::thread watcher_;
};

// A device that the map names must exist.
absl::Status CheckMap(const std::map<int32_t, std::string>& ordinals,
                      const std::vector<PowerDevice>& devices) {
  for (const auto& [ordinal, id] : ordinals) {
    const auto matches = [&id = id](const PowerDevice& each) { return each.id.starts_with(id); };
    if (std::ranges::any_of(devices, matches)) continue;
    std::string known;
    for (const PowerDevice& each : devices) absl::StrAppend(&known, " ", each.id);
    return InvalidArgument("--map ", ordinal, "=", id, ": unknown device; devices:", known);
  }
  return absl::OkStatus();
}

std::string WhyNothing(const PowerInventory& inventory) {
  std::vector<std::string> why;
  for (const PowerDevice& each : inventory.devices) {
    if (!each.note.empty()) why.push_back(absl::StrCat(" ", each.id, ": ", each.note));
  }
  for (const PowerAbsence& each : inventory.absences) {
    const std::string fix = each.fix.empty() ? "" : absl::StrCat(" (", each.fix, ")");
    why.push_back(absl::StrCat(" ", each.source, ": ", each.message, fix));
  }
  return absl::StrJoin(why, ";");
}

// A source that was requested by name but has no channels is an error.
absl::Status CheckFound(const PowerSourceOptions& from, const FoundReaders& found) {
  const bool by_name = !from.sources.empty();
  for (const FoundReader& each : found.readers) {
    if (by_name && each.inventory.channels.empty()) {
      return FailedPrecondition("the power source ", each.reader->source(),
                                " has no readable sensor:", WhyNothing(each.inventory));
    }
  }
  RETURN_IF_ERROR(CheckMap(from.ordinals, found.all.devices));
  for (const PowerAbsence& each : found.all.absences) {
    if (by_name && each.reason == PowerReason::kHung) {
      return FailedPrecondition("the power source ", each.source, " hangs: ", each.message);
    }
  }
  if (!found.all.channels.empty()) return absl::OkStatus();
  return FailedPrecondition("no power source has a readable sensor:", WhyNothing(found.all));
}

}  // namespace
}  // namespace xplane_time::power

namespace xplane_time {

absl::StatusOr<std::unique_ptr<PowerRecorder>> PowerRecorder::Start(
    const PowerRecordOptions& options) {
  if (options.period_ns < 0 || options.hung_after_ns <= 0) {
    return absl::InvalidArgumentError("the periods of a power recorder must be above 0");
  }
  ASSIGN_OR_RETURN(power::FoundReaders found,
                   power::FindReaders(options.from, options.hung_after_ns));
  RETURN_IF_ERROR(power::CheckFound(options.from, found));
  ASSIGN_OR_RETURN(power::LogWriter log, power::LogWriter::Create(options.log_path));
  auto recorder = std::make_unique<power::Recorder>(options, std::move(log), std::move(found));
  RETURN_IF_ERROR(recorder->Run());
  return recorder;
}

}  // namespace xplane_time
