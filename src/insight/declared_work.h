// DeclaredWorks finds the FLOPs and bytes that the user declared for an op (DeclaredWork).
//
//   ASSIGN_OR_RETURN(const DeclaredWorks works, DeclaredWorks::Compile(options.work));
//   const DeclaredWork* const work = works.Find("custom-call.1", kernels);   // null: no match
//   RETURN_IF_ERROR(works.CheckUsed(names_in_the_trace));
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "timing/filters.h"
#include "xplane_time/headroom.h"

namespace xplane_time::insight {

class DeclaredWorks {
 public:
  // `works` must outlive it. Errors: InvalidArgument (an invalid pattern; a figure below 0).
  static absl::StatusOr<DeclaredWorks> Compile(std::span<const DeclaredWork> works);

  // The first entry that matches the op, otherwise the first that matches one of its kernels; null:
  // no match.
  const DeclaredWork* Find(std::string_view op, std::span<const std::string_view> kernels) const;

  // FailedPrecondition: an entry matches no name; the message lists similar names.
  absl::Status CheckUsed(const std::set<std::string_view>& names) const;

 private:
  bool Matches(size_t work, std::string_view name) const;

  std::span<const DeclaredWork> works_;
  std::vector<NameFilter> patterns_;  // by work; without a pattern unused
};

}  // namespace xplane_time::insight
