// JSON inputs, once parsed.
#ifndef XPLANE_TIME_SRC_COMPARE_JSON_INPUTS_H_
#define XPLANE_TIME_SRC_COMPARE_JSON_INPUTS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/inputs.h"

namespace xplane_time::compare {

using Json = nlohmann::json;

// `document` is an object.
absl::StatusOr<std::vector<Measurements>> FromResult(const std::string& path, const Json& document,
                                                     const MeasureOptions& options);
// Its ratios within rounds are not used: the two sides have no rounds in common.
absl::StatusOr<Measurements> FromTuning(const std::string& path, const Json& document,
                                        const MeasureOptions& options);
absl::StatusOr<Measurements> FromBenchmark(const std::string& path, const Json& document,
                                           const MeasureOptions& options);

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_JSON_INPUTS_H_
