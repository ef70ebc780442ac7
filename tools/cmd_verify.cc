// verify: checks that a bundle of evidence is unchanged and that its results follow from it.
#include "command.h"
#include "evidence/verify.h"
#include "output/evidence.h"
#include "process.h"

namespace xplane_time::tools {
namespace {

class VerifyCommand : public Command {
 public:
  explicit VerifyCommand(CLI::App* app) : Command(app) {
    app->add_option("BUNDLE", path_,
                    "Bundle written by grid or tune export --bundle (docs/grid.md)");
    printing_.AddFormat(app, kResultFormats);
    printing_.AddPath(app);
    printing_.AddColor(app);
    printing_.AddMessages(app);
  }

  absl::Status Check() override {
    files_.Reads("BUNDLE", path_);
    files_.PrintsOutput(printing_.path);
    if (path_.empty() && !printing_.json_schema) {
      return UsageError("no BUNDLE given; see xplane-time verify --help");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const auto bundle, evidence::ReadBundle(path_));
    const evidence::Verification found = evidence::Verify(*bundle);
    RETURN_IF_ERROR(Print(output::VerificationOutput(found)).status());
    return found.sound() ? 0 : kExitBadTrace;
  }

 private:
  std::string path_;
};

}  // namespace

void AddVerify(CommandLine* line) {
  line->Add<VerifyCommand>({"verify", "Verify a bundle of grid or tune: all hashes and all results",
                            R"(  xplane-time verify witness.zip
  xplane-time verify certificate.zip --format json
)"});
}

}  // namespace xplane_time::tools
