// A HarnessFleet combines several harnesses into one; each is a device of the same kind.
//
//   HarnessFleet fleet(std::move(harnesses), tell);
//   fleet.Hello();                       // all of them; they must be of one kind
//   fleet.Run({{}, {}, {"gpu 1"}}, work, done);   // two anywhere, one on that device
//
// Preparing and verifying run on all devices, and a variant that fails on one has failed. Rounds
// are jobs: each runs on one device, with all its variants. A device whose harness stops working is
// lost: its job moves to another device, and the fleet continues without it.
//
// Each harness is used by one thread only, which lives as long as the fleet, because the kernel
// ends a process when the thread that started it ends. All other methods are for one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xplane_time/tune.h"

namespace xplane_time {

struct FleetJob {
  std::string device = {};  // empty: any device
};

class HarnessFleet : public Harness {
 public:
  struct Member {
    std::string label;  // distinguishes its name, which is that of its device
    std::unique_ptr<Harness> harness;
  };
  using Tell = std::function<void(const std::string& line)>;

  // `tell` is called for lost devices.
  HarnessFleet(std::vector<Member> members, Tell tell);
  ~HarnessFleet() override;

  // Calls all harnesses; `device` contains all names. Errors: Unavailable (they are of different
  // kinds, or all fail).
  absl::StatusOr<HarnessInfo> Hello() override;
  // `done` is called in threads of the fleet, one call at a time. A device on which all variants
  // fail, although some work on other devices, is lost. A variant has a fingerprint if it has one
  // on each device.
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override;
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override;
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override;
  HarnessFleet* Fleet() override { return this; }

  // The devices that answered hello, in the order of the members.
  std::vector<std::string> names() const;
  std::vector<DeviceCheck::Lost> lost() const { return lost_; }
  size_t living() const;

  // Runs `work` for each job in the thread of a device's harness, and `done` in this thread after
  // each finished job. Skips jobs for a lost device. Errors: that of `done`; Cancelled from `work`;
  // the error of the last device. No job begins after an error.
  using Work = std::function<absl::Status(size_t job, const std::string& device, Harness* harness)>;
  using Done = absl::FunctionRef<absl::Status(size_t job)>;
  absl::Status Run(std::span<const FleetJob> jobs, const Work& work, Done done);

 private:
  struct Device {
    std::string label, name;
    std::unique_ptr<Harness> harness;
    bool is_lost = false, said_hello = false;
    std::thread thread = {};
  };
  struct Ended {
    size_t job, device;
    absl::Status status;
  };

  void Serve(size_t device);
  bool CanTake(const Device& device, size_t job) const;
  absl::Status TakeEnd(const Ended& ended, Done done, std::unique_lock<std::mutex>* lock);
  size_t LivingNow() const;
  absl::Status OnEach(const std::function<absl::Status(size_t device)>& work);
  void Lose(Device* device, const std::string& message);
  using States = std::vector<std::vector<std::optional<VariantState>>>;
  VariantState StateOf(const States& states, size_t variant) const;
  void LoseTheBroken(const States& states);

  const Tell tell_;
  std::vector<Device> devices_;
  std::vector<DeviceCheck::Lost> lost_;

  mutable std::mutex mutex_;  // guards all following members, and is_lost
  std::condition_variable for_devices_, for_caller_;
  std::span<const FleetJob> jobs_;
  const Work* work_ = nullptr;
  std::deque<size_t> waiting_;
  std::deque<Ended> ended_;
  size_t running_ = 0;
  bool is_over_ = false;
};

}  // namespace xplane_time
