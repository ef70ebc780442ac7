#include "earlier_tools/power_run_rates.h"

#include <optional>

#include "earlier_tools/power_run_result_json.h"

namespace xplane_time::power {
namespace {

using json::Json, json::NumberOf;

constexpr const char* kParts[] = {"gpu", "cpu", "all"};
constexpr const char* kRates[] = {"joules_per_input_token", "joules_per_output_token",
                                  "joules_per_total_token", "joules_per_second"};

}  // namespace

void EnergyRates::Add(const Json& record) {
  if (record["status"] != "ok") return;
  const Json& metrics = record["model_metrics"].begin().value();
  const Json &energies = metrics["energy_metrics"], tokens = metrics.value("token_metrics", Json()),
             latency = metrics.value("latency_metrics", Json());
  const std::optional<double> joules[] = {WholeEnergy(energies, ""), WholeEnergy(energies, "cpu_"),
                                          WholeEnergy(AllEnergies(record), "")};
  const std::optional<double> of[] = {NumberOf(tokens, "input"), NumberOf(tokens, "output"),
                                      NumberOf(tokens, "total"),
                                      NumberOf(latency, "total_query_seconds")};
  for (size_t part = 0; part < rates_.size(); ++part) {
    for (size_t i = 0; i < rates_[part].size(); ++i) {
      Rate& rate = rates_[part][i];
      if (!joules[part].has_value() || !of[i].has_value()) {
        ++rate.unknown;
        continue;
      }
      ++rate.known;
      rate.joules += *joules[part];
      rate.of += *of[i];
    }
  }
}

Json EnergyRates::ToJson() const {
  Json all;
  for (size_t part = 0; part < rates_.size(); ++part) {
    for (size_t i = 0; i < rates_[part].size(); ++i) {
      const Rate& rate = rates_[part][i];
      all[kParts[part]][kRates[i]] = {{"value", rate.of > 0 ? Json(rate.joules / rate.of) : Json()},
                                      {"known", rate.known},
                                      {"unknown", rate.unknown}};
    }
  }
  return all;
}

}  // namespace xplane_time::power
