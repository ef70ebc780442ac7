// tree: what is nested in what.
#include "commands.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"

namespace xplane_time::tools {
namespace {

class Tree : public TextCommand {
 public:
  explicit Tree(CLI::App* app)
      : TextCommand(app, {.executions = true, .tolerance = true, .sort = true}) {
    const Heading own = Own();
    own.Value("--line", &line_, "RE", "Nest the lines that match instead of functions");
    own.Value("--name", &name_, "RE", "Only events that match");
    own.Value("--depth", &depth_, "N", "Levels to show [all]", CLI::Range(1, 1000000));
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(TextCommand::Check());
    if (line_.empty() || printing_.json_schema) return absl::OkStatus();
    return Refuse(
        *app_,
        {"--function", "--exclude", "--prefix", "--kernel", "--scope", "--min-duration",
         "--max-events", "--clock"},
        "means nothing with --line, which shows the events of lines as they are; --name chooses");
  }

 protected:
  std::vector<GivenOption> OwnGiven() const override {
    std::vector<GivenOption> given;
    if (!line_.empty()) given.push_back({"line", line_});
    if (!name_.empty()) given.push_back({"name", name_});
    if (depth_ != 0) given.push_back({"depth", int64_t{depth_}});
    return given;
  }

  absl::StatusOr<std::string> Text(const Opened& opened) override {
    const std::string& sort = printing_.how.sort;
    if (!sort.empty() && sort != "total") {
      return UsageError("--sort " + sort + ": a tree is ordered by total only");
    }
    TreeOptions tree;
    tree.select = report_;
    tree.line = line_;
    tree.name = name_;
    tree.max_depth = depth_;
    ASSIGN_OR_RETURN(const TreeReport report, BuildTree(opened.trace, tree, opened.diagnostics));
    WarnOfLeftOut(report.diagnostics);
    return output::Render(output::TreeOutput(report, printing_.how), printing_.how);
  }

 private:
  std::string line_, name_;
  uint32_t depth_ = 0;
};

}  // namespace

void AddTree(CommandLine* line) {
  line->Add<Tree>({"tree", "Nesting of functions or lines: total, self, child time",
                   R"(  xplane-time tree trace.xplane.pb --function jit_train --depth 2
  xplane-time tree trace.xplane.pb --device cpu --line python --name Execute
)"});
}

}  // namespace xplane_time::tools
