// power datasets: what power run takes as RECORDS.
#include "command.h"
#include "output/results.h"
#include "workload/datasets.h"

namespace xplane_time::tools {
namespace {

class PowerDatasets : public Command {
 public:
  explicit PowerDatasets(CLI::App* app) : Command(app) {
    printing_.AddFormat(app, {"table", "json", "csv", "markdown"});
    printing_.AddPath(app);
    Heading(app, kOwn).Flag("--json-schema", &printing_.json_schema,
                            "Print the JSON Schema of this list");
  }

  absl::Status Check() override {
    files_.PrintsOutput(printing_.path);
    if (Given(*app_->get_parent(), "--json-schema")) printing_.json_schema = true;
    return absl::OkStatus();
  }
  std::string schema() const override { return "power-datasets"; }
  absl::StatusOr<int> Run() override {
    return Print(output::PowerDatasetsOutput(DatasetFormats()));
  }
};

}  // namespace

void AddPowerDatasets(CommandLine* line, CLI::App* parent) {
  line->Add<PowerDatasets>({.name = "datasets",
                            .help = "What power run takes as RECORDS, and how it is recognized",
                            .examples = R"(  xplane-time power datasets
  xplane-time power datasets --format json
)",
                            .parent = parent});
}

}  // namespace xplane_time::tools
