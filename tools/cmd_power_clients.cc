// power clients: who can answer in power run, and what can be set of each.
#include "command.h"
#include "output/results.h"
#include "workload/clients.h"

namespace xplane_time::tools {
namespace {

class PowerClients : public Command {
 public:
  explicit PowerClients(CLI::App* app) : Command(app) {
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
  std::string schema() const override { return "power-clients"; }
  absl::StatusOr<int> Run() override { return Print(output::PowerClientsOutput(Clients())); }
};

}  // namespace

void AddPowerClients(CommandLine* line, CLI::App* parent) {
  line->Add<PowerClients>({.name = "clients",
                           .help = "The clients of power run, and what can be set of each",
                           .examples = R"(  xplane-time power clients
  xplane-time power clients --format json
)",
                           .parent = parent});
}

}  // namespace xplane_time::tools
