// Parse JSON that anybody may have written: damage and deep nesting are refused, since
// nlohmann's writer recurses.
#ifndef XPLANE_TIME_SRC_COMPARE_PARSE_JSON_H_
#define XPLANE_TIME_SRC_COMPARE_PARSE_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "json/json.h"

namespace xplane_time::compare {

// Errors: DataLoss.
template <typename Json>
absl::StatusOr<Json> ParseJson(const std::string& path, std::string_view content) {
  constexpr size_t kDeepest = 64;
  if (json::NestsDeeper(content, kDeepest)) {
    return absl::DataLossError(
        absl::StrCat(path, ": JSON nested more than ", kDeepest, " levels deep"));
  }
  // Without a callback: with one, the parser searches an array for each of its elements.
  Json document = Json::parse(content, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return absl::DataLossError(absl::StrCat(path, ": damaged JSON, or cut short (it ends at byte ",
                                            content.size(),
                                            "); write the file again, and let its writer end"));
  }
  return document;
}

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_PARSE_JSON_H_
