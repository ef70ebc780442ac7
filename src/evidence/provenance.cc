#include "evidence/provenance.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <optional>

#include "absl/strings/ascii.h"
#include "power/machine.h"
#include "status.h"
#include "xplane_time/version.h"

namespace xplane_time::evidence {
namespace {

using Json = nlohmann::json;

struct Said {
  int exit_code = -1;  // -1: it could not be run
  std::string text = {};
};

// For a shell, which has quoted `folder` already.
Said AskGit(const std::string& folder, const char* what) {
  constexpr size_t kMostBytes = 4096;
  constexpr int kNotFound = 127;
  Said said;
  FILE* const pipe = popen(Cat("git -C ", folder, " ", what, " 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return said;
  std::array<char, kMostBytes> buffer = {};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    if (said.text.size() < kMostBytes) said.text.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) != kNotFound) {
    said.exit_code = WEXITSTATUS(status);
  }
  said.text = std::string(absl::StripAsciiWhitespace(said.text));
  return said;
}

std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Json SourceOf(const std::string& folder) {
  const auto unknown = [](const char* reason) {
    return Json{{"revision", nullptr}, {"changed", nullptr}, {"reason", reason}};
  };
  const std::string quoted = ShellQuoted(folder);
  const Said head = AskGit(quoted, "rev-parse --verify HEAD");
  if (head.exit_code == -1) return unknown("there is no git here to say it");
  if (head.exit_code != 0 || head.text.empty()) {
    return unknown("the working directory is in no git repository with a commit");
  }
  const Said changes = AskGit(quoted, "status --porcelain --untracked-files=no");
  Json source = {{"revision", head.text}, {"changed", nullptr}, {"reason", nullptr}};
  if (changes.exit_code == 0) source["changed"] = !changes.text.empty();
  return source;
}

}  // namespace

Json ProvenanceOf(const std::string& folder) {
  return {
      {"machine", Json::parse(power::MachineJson("/proc"), nullptr, /*allow_exceptions=*/false)},
      {"versions", {{"xplane_time", XPLANE_TIME_VERSION_STRING}}},
      {"source", SourceOf(folder)}};
}

}  // namespace xplane_time::evidence
