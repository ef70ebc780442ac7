// Parse JSON that anybody may have written: damage and deep nesting are refused, since
// nlohmann's writer recurses.
#ifndef XPLANE_TIME_SRC_COMPARE_PARSE_JSON_H_
#define XPLANE_TIME_SRC_COMPARE_PARSE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace xplane_time::compare {

// Errors: DataLoss.
template <typename Json>
absl::StatusOr<Json> ParseJson(const std::string& path, std::string_view content) {
  constexpr int kDeepest = 64;
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, typename Json::parse_event_t /*event*/,
                                Json& /*parsed*/) {
    too_deep |= depth > kDeepest;
    return depth <= kDeepest;
  };
  Json document = Json::parse(content, keep, /*allow_exceptions=*/false);
  if (document.is_discarded() && !too_deep) {
    return absl::DataLossError(absl::StrCat(path, ": damaged JSON, or cut short (it ends at byte ",
                                            content.size(),
                                            "); write the file again, and let its writer end"));
  }
  if (too_deep) {
    return absl::DataLossError(
        absl::StrCat(path, ": JSON nested more than ", kDeepest, " levels deep"));
  }
  return document;
}

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_PARSE_JSON_H_
