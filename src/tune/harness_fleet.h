// A HarnessFleet: several harnesses as one, each a device of the same kind.
//
//   HarnessFleet fleet(std::move(harnesses), tell);
//   fleet.Hello();                       // all of them; they must be of one kind
//   fleet.Run({{}, {}, {"gpu 1"}}, work, done);   // two anywhere, one on that device
//
// Preparing and verifying is done on all, and a variant that fails on one has failed. Rounds are
// jobs: each runs on one device, with all its variants. A device whose harness cannot work any more
// is lost: its job goes to another, and the rest goes on without it.
//
// Each harness is used in one thread only, which lives as long as the fleet: the kernel ends a
// process with the thread that started it. Everything else is for one thread.
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
  std::string device = {};  // empty: any
};

class HarnessFleet : public Harness {
 public:
  struct Member {
    std::string label;  // of its name, which is that of its device, and this
    std::unique_ptr<Harness> harness;
  };
  using Tell = std::function<void(const std::string& line)>;

  // `tell`: of devices that are lost.
  HarnessFleet(std::vector<Member> members, Tell tell);
  ~HarnessFleet() override;

  // Of all: `device` has all names. Errors: Unavailable (they are of different kinds, or none
  // works).
  absl::StatusOr<HarnessInfo> Hello() override;
  // `done` is called in threads of the fleet, once at a time. A device on which all fails, and not
  // on others, is lost. Variants have one fingerprint where they have on each device.
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override;
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override;
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override;
  HarnessFleet* Fleet() override { return this; }

  // Those that said hello, in the order of the members.
  std::vector<std::string> names() const;
  std::vector<DeviceCheck::Lost> lost() const { return lost_; }
  size_t living() const;

  // `work` in a thread of the device's harness, `done` in this one, for each job that was done. A
  // job of a device that is lost is left out. Errors: of `done`; Cancelled of `work`; of the last
  // device. No other job begins after one.
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

  mutable std::mutex mutex_;  // of all that follows, and of is_lost
  std::condition_variable for_devices_, for_caller_;
  std::span<const FleetJob> jobs_;
  const Work* work_ = nullptr;
  std::deque<size_t> waiting_;
  std::deque<Ended> ended_;
  size_t running_ = 0;
  bool is_over_ = false;
};

}  // namespace xplane_time
