// pick: the fastest variant, or that nobody can tell.
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "compare/inputs.h"
#include "json/json.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/pick.h"
#include "xplane_time/space.h"

namespace xplane_time::tools {
namespace {

// Parameters as canonical JSON, one by one.
std::vector<Fact> ParamsOf(const std::string& params_json) {
  std::vector<Fact> params;
  const json::Json object = json::Parse(params_json);
  if (!object.is_object()) return params;
  for (const auto& [name, value] : object.items()) params.push_back({name, json::Dump(value)});
  return params;
}

// A space of tune by its own rules; else the plain list, whose ids may be numbers.
absl::StatusOr<std::vector<KnownVariant>> KnownVariants(const std::string& path) {
  auto space = ReadSpace(path);
  if (!space.ok()) return compare::ReadKnownVariants(path);
  ASSIGN_OR_RETURN(const auto configurations, ChooseConfigurations(*space, {}));
  std::vector<KnownVariant> known;
  for (const Configuration& each : configurations) {
    known.push_back({each.id, ParamsOf(each.params_json)});
  }
  return known;
}

class PickCommand : public DecisionCommand {
 public:
  explicit PickCommand(CLI::App* app) : DecisionCommand(app, /*traces=*/true) {
    const Heading decision(app, kDecision);
    decision.Share("--delta", &pick_.delta, "What is within it of the best is as good [0.5%]");
    decision.Share("--alpha", &pick_.alpha, "How often the claim may be wrong [1%]");
    decision.Share("--drift-std", &pick_.drift_std,
                   "Allowance where the variants of a single capture did not run in rounds [2%]");
    decision.Count("--seed", &pick_.seed, "Of the bootstrap behind P(best)");
    decision.Value("--space", &space_path_, "FILE",
                   "JSON {\"variants\": [{\"id\", \"params\"}]}: shows the parameters of each id");
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(DecisionCommand::Check());
    return CheckTop();
  }

  void NameFiles(FileRoles* files) const override {
    files->Reads("--space", space_path_);
    DecisionCommand::NameFiles(files);
  }

  absl::StatusOr<int> Run() override {
    RETURN_IF_ERROR(CheckFilters());
    if (!space_path_.empty()) {
      ASSIGN_OR_RETURN(pick_.known, KnownVariants(space_path_));
    }
    MeasureOptions measure = Measuring();
    measure.by_variant = true;
    measure.slowest_device = true;
    ASSIGN_OR_RETURN(const MeasurementSet measured, ReadMeasurements(traces_, measure));
    ASSIGN_OR_RETURN(PickResult choice, Pick(measured.captures, pick_));
    choice.notes.insert(choice.notes.end(), measured.notes.begin(), measured.notes.end());
    RETURN_IF_ERROR(Print(output::Render(output::PickOutput(choice), printing_.how)).status());
    return ExitCode(choice.claim);
  }

 private:
  PickOptions pick_;
  std::string space_path_;
};

}  // namespace

void AddPick(CommandLine* line) {
  line->Add<PickCommand>(
      {"pick", "The fastest variant, or that nobody can tell", R"(  xplane-time pick trace.xplane.pb
  xplane-time pick run1.xplane.pb run2.xplane.pb --space space.json
)"});
}

}  // namespace xplane_time::tools
