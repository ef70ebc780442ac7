// A Harness that is a process: requests and answers of docs/harness.md, with deadlines. What
// hangs, dies or talks nonsense is killed and started anew, and blamed on the variant that
// was running.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "harness/process.h"
#include "tune/harness_protocol.h"
#include "tune/measuring.h"
#include "xplane_time/tune.h"

namespace xplane_time {

struct ProcessHarnessOptions {
  HarnessProcess::Options process;
  std::string session = {};
  std::vector<Workload> workloads = {};
  int64_t calls = 1;     // a slot
  double run_limit = 0;  // of a slot, in times of the fastest variant's; 0: none (run_limit.h)
  std::chrono::milliseconds hello_timeout{120'000}, prepare_timeout{600'000}, slot_timeout{60'000};
  int most_failures = 3;  // in a row that no variant is to blame for; then it cannot work
};

class ProcessHarness : public Harness {
 public:
  explicit ProcessHarness(ProcessHarnessOptions options)
      : options_(std::move(options)), limit_(options_.run_limit, options_.slot_timeout) {}

  absl::StatusOr<HarnessInfo> Hello() override;
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override;
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override;
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override;
  // Says bye.
  void Finish();

 private:
  using Order = std::span<const Configuration* const>;
  // How a request ended that was not answered as it should be.
  struct Failure {
    std::string status, message;      // crash(11), timeout, oom, infra, no_events, ...
    std::optional<size_t> slot = {};  // of the variant to blame
    bool over_limit = false;          // of runs; not over the timeout
  };
  using Round = std::variant<RoundTimes, Failure>;
  using Guilty = std::map<const Configuration*, Failure>;

  class Slots;

  absl::Status EnsureStarted();
  // Sends, and waits for the answer to `request`.
  absl::StatusOr<HarnessAnswer> Ask(int64_t request, std::string_view line,
                                    std::chrono::milliseconds timeout);
  absl::StatusOr<HarnessAnswer> Await(int64_t request, Deadline deadline);
  // An answer about one variant, named `what`.
  template <typename Answer>
  absl::StatusOr<VariantState> AskForState(absl::FunctionRef<std::string(int64_t request)> line,
                                           std::chrono::milliseconds timeout, const char* what);
  // By request. What is under way, and what is to be tried again.
  struct Preparing {
    std::map<int64_t, size_t> waiting = {};
    std::vector<size_t> again = {};
  };
  absl::Status TakePrepared(std::span<const Configuration> variants, Preparing* preparing,
                            PreparedCallback done);
  absl::Status PrepareAgain(std::span<const Configuration> variants, Preparing* preparing,
                            PreparedCallback done);
  absl::Status CompareHello(const HelloAnswer& now) const;
  // Once more, and a few times where nobody is to blame.
  absl::StatusOr<VariantState> Try(absl::FunctionRef<absl::StatusOr<VariantState>()> once);
  absl::StatusOr<VariantState> PrepareAlone(const Configuration& variant);
  absl::StatusOr<VariantState> PrepareOnce(const Configuration& variant);
  absl::StatusOr<VariantState> VerifyOnce(const Configuration& variant);
  // `confirms`: a slot that was over the limit, alone.
  absl::StatusOr<Round> RunOnce(RoundRequest request, Order order, bool confirms = false);
  absl::StatusOr<Round> AwaitResult(const RoundRequest& request, Order order, Deadline sent,
                                    bool confirms);
  absl::StatusOr<Guilty> ConfirmOverLimit(const RoundRequest& request, Order order,
                                          const Failure& failure);
  absl::StatusOr<Guilty> FindTheGuilty(const RoundRequest& request, Order order,
                                       const Failure& failure);
  // Of a harness that did not answer as it should; it is gone then. Errors: Cancelled.
  absl::StatusOr<Failure> FailureOf(const absl::Status& status);
  // The same of a request that is about one variant. Errors: CountFailure's too.
  absl::StatusOr<VariantState> StateOf(const absl::Status& status);
  absl::Status CountFailure(const Failure& failure);

  ProcessHarnessOptions options_;
  std::unique_ptr<HarnessProcess> process_;
  std::optional<HelloAnswer> hello_;
  std::set<std::string> prepared_;  // by this process
  int64_t next_request_ = 1;
  int failures_in_a_row_ = 0;
  RunLimit limit_;
};

}  // namespace xplane_time
