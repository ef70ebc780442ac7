#include "energy/goal.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "json/json.h"
#include "status.h"

namespace xplane_time::energy {
namespace {

// Half of the interval, as a share of the energy.
std::optional<double> HalfWidth(const EnergyRow& row) {
  if (!row.energy_j.has_value() || !row.energy_j->ci95.has_value()) return std::nullopt;
  const auto [lo_j, hi_j] = *row.energy_j->ci95;
  return (hi_j - lo_j) / 2 / row.energy_j->value;
}

std::string Percent(double share) { return absl::StrFormat("+-%.2g %%", share * 100); }

}  // namespace

absl::StatusOr<Goal> ReadGoal(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  ASSIGN_OR_RETURN(const std::string text, io::ReadWholeFile(path, kMaxBytes));
  const json::Json document = json::Parse(text);
  if (!document.is_object() || json::TextOf(document, "schema") != "xplane-time.power-plan.v1") {
    return DataLoss(path,
                    ": contains no plan; create one with xplane-time power plan -o FILE.json");
  }
  std::string wrong;
  const json::Field plan(document, &wrong);
  Goal goal;
  plan.Read("precision", &goal.precision, json::kNeeded, /*least=*/0);
  plan.At("kernels").Each([&](const json::Field& kernel) {
    kernel.Read("kernel", &goal.kernels.emplace_back(), json::kNeeded);
  });
  if (!wrong.empty()) return DataLoss(path, ": ", wrong);
  if (goal.kernels.empty()) return DataLoss(path, ": the plan contains no kernels");
  return goal;
}

Verdict Judge(const Goal& goal, const EnergyReport& report) {
  const std::vector<EnergyRow>& rows = report.capture.has_value() ? report.kernels : report.layers;
  std::vector<std::string> missed;
  double widest = 0;
  for (const std::string& kernel : goal.kernels) {
    bool ran = false;
    for (const EnergyRow& row : rows) {
      if (row.name != kernel) continue;
      ran = true;
      const std::optional<double> half_width = HalfWidth(row);
      if (!half_width.has_value()) {
        missed.push_back(Cat(kernel, " has no number"));
      } else if (*half_width > goal.precision) {
        missed.push_back(Cat(kernel, " ", Percent(*half_width)));
      }
      widest = std::max(widest, half_width.value_or(0));
    }
    if (!ran) missed.push_back(Cat(kernel, " did not run"));
  }
  const std::string planned = Percent(goal.precision);
  if (missed.empty()) {
    return {true, Cat("all ", goal.kernels.size(), " kernels of the plan reach a precision of ",
                      planned, "; the least precise has ", Percent(widest))};
  }
  constexpr size_t kShown = 5;
  const size_t count = missed.size();
  if (count > kShown) missed.resize(kShown);
  return {false, Cat("the planned precision of ", planned, " is not reached for ", count, " of ",
                     goal.kernels.size(), " kernels: ", absl::StrJoin(missed, ", "),
                     count > kShown ? ", ..." : "",
                     "; repeat it longer: four times the duration halves an interval")};
}

}  // namespace xplane_time::energy
