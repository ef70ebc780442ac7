#include "result/fields.h"

#include <cmath>

namespace xplane_time::result {

void FlatSink::BeginGroup(std::string_view name, bool known) {
  prefix_ = std::string(name) + "_";
  known_ = known;
}

void FlatSink::EndGroup() {
  prefix_.clear();
  known_ = true;
}

void FlatSink::Interval(std::string_view name, std::optional<double> lo, std::optional<double> hi) {
  const bool known = lo && hi && std::isfinite(*lo) && std::isfinite(*hi);
  Field(std::string(name) + "_lo", known ? lo : std::nullopt);
  Field(std::string(name) + "_hi", known ? hi : std::nullopt);
}

}  // namespace xplane_time::result
