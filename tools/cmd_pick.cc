#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "compare/inputs.h"
#include "output/results.h"
#include "xplane_time/space.h"

namespace xplane_time::tools {

namespace {

// Parameters as canonical JSON, one by one.
std::vector<Fact> ParamsOf(const std::string& params_json) {
  std::vector<Fact> params;
  const nlohmann::json object = nlohmann::json::parse(params_json, nullptr, false);
  if (!object.is_object()) return params;
  for (const auto& [name, value] : object.items()) {
    params.push_back({name, value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
  }
  return params;
}

// A space of tune by its own rules; else the plain list, whose ids may be numbers.
absl::StatusOr<std::vector<KnownVariant>> KnownVariants(const std::string& path) {
  auto space = ReadSpace(path);
  if (!space.ok()) return compare::ReadKnownVariants(path);
  auto configurations = ChooseConfigurations(*space, {});
  if (!configurations.ok()) return configurations.status();
  std::vector<KnownVariant> known;
  for (const Configuration& each : *configurations) {
    known.push_back({each.id, ParamsOf(each.params_json)});
  }
  return known;
}

}  // namespace

int RunPick(const Options& options) {
  PickOptions pick = options.decide.pick;
  if (!options.decide.space_path.empty()) {
    auto known = KnownVariants(options.decide.space_path);
    if (!known.ok()) return Fail(known.status());
    pick.known = *std::move(known);
  }
  MeasureOptions measure;
  measure.report = options.report;
  measure.find = options.find;
  measure.read = options.read;
  measure.by_variant = true;
  measure.slowest_device = true;
  auto measured = ReadMeasurements(options.traces, measure);
  if (!measured.ok()) return Fail(measured.status());
  auto choice = Pick(measured->captures, pick);
  if (!choice.ok()) return Fail(choice.status());
  choice->notes.insert(choice->notes.end(), measured->notes.begin(), measured->notes.end());
  output::OutputOptions how = options.output;
  how.format = options.decide.format;
  const int written =
      WriteText(options.output_path, output::Render(output::PickOutput(*choice), how));
  return written != 0 ? written : ExitCode(choice->claim);
}

}  // namespace xplane_time::tools
