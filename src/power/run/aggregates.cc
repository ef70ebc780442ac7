#include "power/run/aggregates.h"

#include <cmath>
#include <string>

namespace xplane_time::power {
namespace {

// A number of a record: its place among the metrics, of which the last part may be a statistic of
// the record that needs no name here; and how fine it is told.
struct Number {
  const char* at;
  const char* of_record;  // below it
  double per_unit;
};
constexpr double kNano = 1e9, kMicro = 1e6;
constexpr Number kAll[] = {
    {"/latency_metrics/total_query_seconds", "", kNano},
    {"/latency_metrics/time_to_first_token_seconds", "", kNano},
    {"/latency_metrics/per_token_ms", "", kMicro},
    {"/latency_metrics/throughput_tokens_per_sec", "", kMicro},
    {"/token_metrics/input", "", 1},
    {"/token_metrics/output", "", 1},
    {"/token_metrics/total", "", 1},
    {"/power_metrics/gpu/per_query_watts", "/avg", kMicro},
    {"/power_metrics/cpu/per_query_watts", "/avg", kMicro},
};

}  // namespace

void RunAggregates::Add(const Json& record) {
  static_assert(std::size(kAll) == kNumbers);
  if (record["status"] != "ok") return;
  const Json& metrics = record["model_metrics"].begin().value();
  for (size_t i = 0; i < kNumbers; ++i) {
    const Json::json_pointer at(std::string(kAll[i].at) + kAll[i].of_record);
    const Json value = metrics.contains(at) ? metrics.at(at) : Json();
    const double scaled = value.is_number() ? value.get<double>() * kAll[i].per_unit : NAN;
    if (!(std::abs(scaled) < 0x1p62)) {
      ++values_[i].unknown;
      continue;
    }
    values_[i].scaled.Add(std::llround(scaled));
    values_[i].sum += value.get<double>();
  }
}

Json RunAggregates::ToJson() const {
  Json all;
  for (size_t i = 0; i < kNumbers; ++i) {
    const Values& values = values_[i];
    const uint64_t known = values.scaled.count();
    const auto told = [&](std::optional<double> scaled) {
      return scaled.has_value() ? Json(*scaled / kAll[i].per_unit) : Json();
    };
    all[Json::json_pointer(kAll[i].at)] = {
        {"known", known},
        {"unknown", values.unknown},
        {"mean", known > 0 ? Json(values.sum / static_cast<double>(known)) : Json()},
        {"median", told(values.scaled.Median())},
        {"p95", told(values.scaled.Quantile(0.95))}};
  }
  return all;
}

}  // namespace xplane_time::power
