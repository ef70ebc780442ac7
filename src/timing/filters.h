// Filters: the regular expressions of the options.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "xplane_time/report.h"
#include "xplane_time/select.h"

namespace re2 {
class RE2;
}

namespace xplane_time {

struct OpInfo;

// An optional RE2; without a pattern everything matches.
class NameFilter {
 public:
  static absl::StatusOr<NameFilter> Compile(std::string_view option, std::string_view pattern);
  // For Capture(); errors: also of a pattern without a group.
  static absl::StatusOr<NameFilter> CompileGroup(std::string_view option, std::string_view pattern,
                                                 std::string_view example);
  bool any() const { return regex_ != nullptr; }
  bool Matches(std::string_view name) const;
  // The first capture group of a match.
  std::optional<std::string> Capture(std::string_view name) const;

 private:
  std::shared_ptr<const re2::RE2> regex_;
};

// A wanted ordinal must be in `there`, on some device of its kind; kNoOrdinal: a host does not
// state its ordinals. Errors: FailedPrecondition (the message lists the existing ones).
absl::Status CheckOrdinals(const Trace& trace, const Selection& selection,
                           const std::set<int64_t>& there);

// Lines, in file order, whose shown names match and whose planes `device` names. Errors: as
// SelectPlanes.
absl::StatusOr<std::vector<uint32_t>> SelectLines(const Trace& trace, std::string_view device,
                                                  const NameFilter& name);

struct Filters {
  NameFilter function, exclude, kernel, exclude_kernel, scope, id, step, collective, copy;
  std::string prefix;

  // Errors: InvalidArgument; also for options that exclude everything.
  static absl::StatusOr<Filters> Compile(const ReportOptions& options);
  bool WantsFunction(std::string_view name) const;
  bool WantsOp(const OpInfo& op) const;
  bool any_op() const { return kernel.any() || exclude_kernel.any() || scope.any(); }
  // The category that the options state; empty: no option matches.
  std::optional<Category> FindCategory(std::string_view name, std::string_view hlo_op) const;
  // Whether some filter on functions is set: kernels in no function then do not count.
  bool any_function() const { return function.any() || exclude.any() || !prefix.empty(); }
};

}  // namespace xplane_time
