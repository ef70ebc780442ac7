// Distributes jobs to the harnesses of several devices.
//
//   Run (caller)   fills waiting_, takes ended jobs in turn, calls `done` without the lock
//   Serve (each    waits for a job that its device can take, runs it without the lock, appends the
//   device)        result to ended_
//
// One mutex guards the queues. A failed job means that its device is lost, unless the job was
// cancelled; the job returns to the front of the queue for another device. Jobs that no living
// device can take are dropped. If the last device fails, or `done` returns an error, the queue is
// emptied, and Run returns after the running jobs have ended.
#include "tune/harness_fleet.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "status.h"
#include "tune/harness_protocol.h"

namespace xplane_time {
namespace {

// The difference to the first harness, because of which their times cannot be pooled.
std::string Difference(const HarnessInfo& first, const HarnessInfo& other) {
  for (const auto& [what, part] : kTimesHoldFor) {
    if (first.*part == other.*part) continue;
    return absl::StrCat(what, " \"", other.*part, "\", but ", first.device, " has \"", first.*part,
                        "\"");
  }
  return "";
}

}  // namespace

HarnessFleet::HarnessFleet(std::vector<Member> members, Tell tell) : tell_(std::move(tell)) {
  for (Member& each : members) {
    devices_.push_back(
        {.label = each.label, .name = each.label, .harness = std::move(each.harness)});
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i].thread = std::thread([this, i] { Serve(i); });
  }
}

HarnessFleet::~HarnessFleet() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  for_devices_.notify_all();
  for (Device& each : devices_) each.thread.join();
}

void HarnessFleet::Serve(size_t device) {
  Device& own = devices_[device];
  std::unique_lock lock(mutex_);
  for (;;) {
    auto next = waiting_.end();
    for_devices_.wait(lock, [&] {
      next = std::ranges::find_if(waiting_, [&](size_t job) { return CanTake(own, job); });
      return is_over_ || next != waiting_.end();
    });
    if (is_over_) break;
    const size_t job = *next;
    waiting_.erase(next);
    ++running_;
    const Work* const work = work_;
    lock.unlock();
    absl::Status status = (*work)(job, own.name, own.harness.get());
    lock.lock();
    --running_;
    own.is_lost = !status.ok() && !absl::IsCancelled(status);
    ended_.push_back({job, device, std::move(status)});
    for_caller_.notify_one();
  }
  lock.unlock();
  own.harness.reset();  // the harness says bye
}

bool HarnessFleet::CanTake(const Device& device, size_t job) const {
  const std::string& wanted = jobs_[job].device;
  return !device.is_lost && (wanted.empty() || wanted == device.name);
}

absl::Status HarnessFleet::Run(std::span<const FleetJob> jobs, const Work& work, Done done) {
  std::unique_lock lock(mutex_);
  jobs_ = jobs;
  work_ = &work;
  for (size_t i = 0; i < jobs.size(); ++i) waiting_.push_back(i);
  absl::Status status;
  for (;;) {
    std::erase_if(waiting_, [&](size_t job) {
      return std::ranges::none_of(devices_, [&](const Device& each) { return CanTake(each, job); });
    });
    for_devices_.notify_all();
    if (waiting_.empty() && running_ == 0 && ended_.empty()) return status;
    for_caller_.wait(lock, [&] { return !ended_.empty(); });
    const Ended ended = std::move(ended_.front());
    ended_.pop_front();
    absl::Status taken = TakeEnd(ended, done, &lock);
    if (!ended.status.ok() && taken.ok() && status.ok()) waiting_.push_front(ended.job);
    if (!taken.ok()) {
      if (status.ok()) status = std::move(taken);
      waiting_.clear();
    }
  }
}

absl::Status HarnessFleet::TakeEnd(const Ended& ended, Done done,
                                   std::unique_lock<std::mutex>* lock) {
  if (ended.status.ok()) {
    lock->unlock();
    absl::Status status = done(ended.job);
    lock->lock();
    return status;
  }
  if (absl::IsCancelled(ended.status) || LivingNow() == 0) return ended.status;
  Lose(&devices_[ended.device], std::string(ended.status.message()));
  return absl::OkStatus();
}

void HarnessFleet::Lose(Device* device, const std::string& message) {
  device->is_lost = true;
  lost_.push_back({device->name, message});
  tell_(absl::StrCat("lost the device ", device->name, "; the others continue: ", message));
}

size_t HarnessFleet::LivingNow() const {
  return static_cast<size_t>(std::ranges::count(devices_, false, &Device::is_lost));
}

size_t HarnessFleet::living() const {
  const std::lock_guard lock(mutex_);
  return LivingNow();
}

absl::Status HarnessFleet::OnEach(const std::function<absl::Status(size_t device)>& work) {
  std::vector<FleetJob> jobs;
  for (const Device& each : devices_) jobs.push_back({each.name});
  return Run(
      jobs, [&](size_t job, const std::string&, Harness*) { return work(job); },
      [](size_t) { return absl::OkStatus(); });
}

absl::StatusOr<HarnessInfo> HarnessFleet::Hello() {
  std::vector<HarnessInfo> said(devices_.size());
  RETURN_IF_ERROR(OnEach([&](size_t device) {
    ASSIGN_OR_RETURN(said[device], devices_[device].harness->Hello());
    return absl::OkStatus();
  }));
  const HarnessInfo* first = nullptr;
  for (size_t i = 0; i < devices_.size(); ++i) {
    Device& device = devices_[i];
    if (device.is_lost) continue;
    if (!device.said_hello && said[i].device != device.label) {
      device.name = said[i].device.empty() ? device.label
                                           : absl::StrCat(said[i].device, " (", device.label, ")");
    }
    device.said_hello = true;
    said[i].device = device.name;
    if (first == nullptr) first = &said[i];
    if (const std::string difference = Difference(*first, said[i]); !difference.empty()) {
      return Unavailable("the devices are of different kinds: ", device.name, " has ", difference,
                         "; tune each kind separately");
    }
  }
  HarnessInfo all = *first;
  all.device = absl::StrJoin(names(), ", ");
  return all;
}

std::vector<std::string> HarnessFleet::names() const {
  std::vector<std::string> names;
  for (const Device& each : devices_) {
    if (each.said_hello) names.push_back(each.name);
  }
  return names;
}

absl::Status HarnessFleet::Prepare(std::span<const Configuration> variants, PreparedCallback done) {
  // By device and variant; empty: not reported.
  States states(devices_.size(), std::vector<std::optional<VariantState>>(variants.size()));
  std::mutex mutex;  // guards states, told, and `done`
  std::vector<bool> told(variants.size(), false);
  const size_t all = living();
  const auto tell = [&](size_t variant) {
    told[variant] = true;
    done(variant, StateOf(states, variant));
  };
  RETURN_IF_ERROR(OnEach([&](size_t device) {
    return devices_[device].harness->Prepare(
        variants, [&](size_t variant, const VariantState& state) {
          const std::lock_guard lock(mutex);
          states[device][variant] = state;
          const auto is_ok = [&](const auto& each) {
            return each[variant].has_value() && each[variant]->status == "ok";
          };
          // A failure on any device is reported at the end, because the device may be the cause.
          if (static_cast<size_t>(std::ranges::count_if(states, is_ok)) == all) tell(variant);
        });
  }));
  LoseTheBroken(states);
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].is_lost) states[i].assign(variants.size(), std::nullopt);
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    if (!told[i]) tell(i);
  }
  return absl::OkStatus();
}

// Combines the states of all devices that reported: a failure on one device is a failure.
VariantState HarnessFleet::StateOf(const States& states, size_t variant) const {
  VariantState all;
  bool has_fingerprints = true;
  for (size_t i = 0; i < devices_.size(); ++i) {
    const std::optional<VariantState>& own = states[i][variant];
    if (!own.has_value()) continue;
    if (own->status != "ok") {
      VariantState failed = *own;
      failed.message = absl::StrCat(devices_[i].name, ": ", own->message);
      return failed;
    }
    has_fingerprints &= !own->fingerprint.empty();
    absl::StrAppend(&all.fingerprint, all.fingerprint.empty() ? "" : "\n", own->fingerprint);
    if (own->mem_bytes.has_value()) {
      all.mem_bytes = std::max(all.mem_bytes.value_or(0), *own->mem_bytes);
    }
    if (all.message.empty()) all.message = own->message;
  }
  if (!has_fingerprints) all.fingerprint.clear();
  return all;
}

// Loses the devices on which every variant fails, if some variant works on another device.
void HarnessFleet::LoseTheBroken(const States& states) {
  const auto works = [](const std::vector<std::optional<VariantState>>& own) {
    return std::ranges::any_of(own, [](const std::optional<VariantState>& each) {
      return each.has_value() && each->status == "ok";
    });
  };
  if (std::ranges::none_of(states, works)) return;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].is_lost || states[i].empty() || works(states[i])) continue;
    const std::optional<VariantState>& first = states[i].front();
    Lose(&devices_[i], absl::StrCat("all variants fail on it: ", first ? first->status : "infra",
                                    first ? ": " + first->message : ""));
  }
}

absl::StatusOr<VariantState> HarnessFleet::Verify(const Configuration& variant) {
  std::vector<VariantState> states(devices_.size());
  RETURN_IF_ERROR(OnEach([&](size_t device) {
    ASSIGN_OR_RETURN(states[device], devices_[device].harness->Verify(variant));
    return absl::OkStatus();
  }));
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].is_lost || states[i].status == "ok") continue;
    states[i].message = absl::StrCat(devices_[i].name, ": ", states[i].message);
    return states[i];
  }
  return VariantState{};
}

absl::StatusOr<RoundTimes> HarnessFleet::RunRound(int64_t batch, int64_t round,
                                                  std::string_view workload,
                                                  std::span<const Configuration* const> order) {
  absl::StatusOr<RoundTimes> times;
  const FleetJob any;
  RETURN_IF_ERROR(Run(
      std::span(&any, 1),
      [&](size_t, const std::string&, Harness* harness) {
        times = harness->RunRound(batch, round, workload, order);
        return times.status();
      },
      [](size_t) { return absl::OkStatus(); }));
  return times;
}

}  // namespace xplane_time
