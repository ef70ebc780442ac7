// power clients, power datasets: the available clients and data set formats of power run.
#include "command.h"
#include "output/results.h"
#include "workload/clients.h"
#include "workload/datasets.h"

namespace xplane_time::tools {
namespace {

// A list that does not depend on the machine.
class PowerList : public Command {
 public:
  PowerList(CLI::App* app, output::Output (*list)()) : Command(app), list_(list) {
    printing_.AddFormat(app, kResultFormats);
    printing_.AddPath(app);
    Heading(app, kOwn).Flag("--json-schema", &printing_.json_schema,
                            "Print the JSON Schema of this list");
  }

  absl::Status Check() override {
    files_.PrintsOutput(printing_.path);
    if (Given(*app_->get_parent(), "--json-schema")) printing_.json_schema = true;
    return absl::OkStatus();
  }
  std::string schema() const override { return Cat("power-", app_->get_name()); }
  absl::StatusOr<int> Run() override { return Print(list_()); }

 private:
  output::Output (*const list_)();
};

}  // namespace

void AddPowerClients(CommandLine* line, CLI::App* parent) {
  line->Add<PowerList>(
      {.name = "clients",
       .help = "List the clients of power run and their parameters",
       .examples = R"(  xplane-time power clients
  xplane-time power clients --format json
)",
       .parent = parent},
      +[] { return output::PowerClientsOutput(Clients()); });
}

void AddPowerDatasets(CommandLine* line, CLI::App* parent) {
  line->Add<PowerList>(
      {.name = "datasets",
       .help = "List the formats of RECORDS, and how they are recognized",
       .examples = R"(  xplane-time power datasets
  xplane-time power datasets --format json
)",
       .parent = parent},
      +[] { return output::PowerDatasetsOutput(DatasetFormats()); });
}

}  // namespace xplane_time::tools
