#include "evidence/provenance.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "io/descriptor.h"
#include "power/machine.h"
#include "status.h"
#include "xplane_time/version.h"

namespace xplane_time::evidence {
namespace {

using Json = nlohmann::json;

// Git runs programs that the configuration of a repository names: a file system monitor, hooks,
// content filters, pagers, and transports that fetch missing objects. The repository of the working
// directory may be somebody else's. So every call here switches all of these off, and the
// environment cannot point git to another repository or program.

// Variables of git that choose neither a repository nor a program.
constexpr std::string_view kKeptVariables[] = {
    "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_NOSYSTEM=", "GIT_CEILING_DIRECTORIES=",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM="};

std::vector<std::string> GitEnvironment() {
  std::vector<std::string> variables = {"GIT_ALLOW_PROTOCOL=",  // no transport at all
                                        "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
                                        "GIT_TERMINAL_PROMPT=0"};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const bool is_kept = !variable.starts_with("GIT_") ||
                         std::ranges::any_of(kKeptVariables, [&](std::string_view name) {
                           return variable.starts_with(name);
                         });
    if (is_kept) variables.emplace_back(variable);
  }
  return variables;
}

std::vector<char*> MakePointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct GitAnswer {
  int exit_code = -1;  // -1: git could not be started, or a signal ended it
  std::string text = {};
  bool is_cut = false;  // the text was longer than the limit
};

// Runs "git ARGUMENTS" in `folder`. `configured` are further "-c NAME=VALUE".
GitAnswer RunGit(const std::string& folder, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& configured = {}) {
  constexpr size_t kMaxTextBytes = size_t{1} << 16;
  std::vector<std::string> words = {
      "git", "-C", folder, "--no-pager", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"};
  words.insert(words.end(), configured.begin(), configured.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = GitEnvironment();
  const std::vector<char*> argv = MakePointers(&words), environment = MakePointers(&variables);
  GitAnswer answer;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return answer;
  const io::Descriptor from(ends[0]);
  io::Descriptor to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return answer;
  to.Close();
  std::string buffer(kMaxTextBytes, '\0');
  for (;;) {
    const ssize_t got = TEMP_FAILURE_RETRY(read(from.get(), buffer.data(), buffer.size()));
    if (got <= 0) break;
    const auto room = kMaxTextBytes - answer.text.size(), size = static_cast<size_t>(got);
    answer.text.append(buffer, 0, std::min(room, size));
    answer.is_cut |= size > room;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return answer;
  }
  if (WIFEXITED(status)) answer.exit_code = WEXITSTATUS(status);
  return answer;
}

// Splits a text whose parts each end with a NUL (-z).
std::vector<std::string> SplitAtNul(const std::string& text) {
  return absl::StrSplit(text, '\0', absl::SkipEmpty());
}

std::string WithoutLineEnd(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Options that switch off the content filters of the configuration; an empty list if it has no
// filters. Returns nullopt if they cannot be named on a command line.
std::optional<std::vector<std::string>> SwitchOffFilters(const std::string& folder) {
  constexpr int kNoMatch = 1;
  constexpr size_t kMaxFilters = 256;
  const GitAnswer answer =
      RunGit(folder, {"config", "-z", "--name-only", "--get-regexp", "^filter\\."});
  if (answer.exit_code == kNoMatch) return std::vector<std::string>();
  const std::vector<std::string> names = SplitAtNul(answer.text);
  if (answer.exit_code != 0 || answer.is_cut || names.size() > kMaxFilters) return std::nullopt;
  std::vector<std::string> options;
  for (const std::string& name : names) {
    // -c would end the name at the first "=".
    if (name.find('=') != std::string::npos) return std::nullopt;
    const std::string driver = name.substr(0, name.rfind('.'));
    for (const char* value : {".clean=", ".process=", ".required=false"}) {
      options.insert(options.end(), {"-c", driver + value});
    }
  }
  return options;
}

// Whether a content filter applies to each of the first paths of "git status --porcelain -z". The
// contents of such files cannot be compared without their filter.
bool AreAllFiltered(const std::string& root, const std::vector<std::string>& changes) {
  constexpr size_t kMaxPaths = 1000;
  constexpr size_t kStatusBytes = 3;  // "XY "
  std::vector<std::string> arguments = {"check-attr", "-z", "filter", "--"};
  for (const std::string& change : changes) {
    if (arguments.size() < kMaxPaths && change.size() > kStatusBytes) {
      arguments.push_back(change.substr(kStatusBytes));
    }
  }
  const GitAnswer answer = RunGit(root, arguments);
  const std::vector<std::string> fields = SplitAtNul(answer.text);  // path, "filter", value
  if (answer.exit_code != 0) return true;
  for (size_t i = 2; i < fields.size(); i += 3) {
    if (fields[i] == "unspecified" || fields[i] == "unset" || fields[i] == "set") return false;
  }
  return true;
}

// Whether tracked files differ from the commit; empty if that cannot be determined safely.
std::optional<bool> HasChanges(const std::string& folder) {
  const GitAnswer root = RunGit(folder, {"rev-parse", "--show-toplevel"});
  const auto no_filters = SwitchOffFilters(folder);
  if (root.exit_code != 0 || !no_filters.has_value()) return std::nullopt;
  // Looking into a submodule would use its own configuration, so only its commit is compared.
  const GitAnswer status = RunGit(folder,
                                  {"status", "--porcelain", "-z", "--untracked-files=no",
                                   "--no-renames", "--ignore-submodules=dirty"},
                                  *no_filters);
  if (status.exit_code != 0) return std::nullopt;
  const std::vector<std::string> changes = SplitAtNul(status.text);
  if (changes.empty() || no_filters->empty()) return !changes.empty();
  if (AreAllFiltered(WithoutLineEnd(root.text), changes)) return std::nullopt;
  return true;
}

Json DescribeSource(const std::string& folder) {
  const auto unknown = [](const char* reason) {
    return Json{{"revision", nullptr}, {"changed", nullptr}, {"reason", reason}};
  };
  const GitAnswer head = RunGit(folder, {"rev-parse", "--verify", "HEAD"});
  if (head.exit_code == -1) return unknown("git is not installed");
  if (head.exit_code != 0 || head.text.empty()) {
    return unknown("the working directory is not in a git repository with a commit");
  }
  Json source = {
      {"revision", WithoutLineEnd(head.text)}, {"changed", nullptr}, {"reason", nullptr}};
  if (const auto changed = HasChanges(folder); changed.has_value()) {
    source["changed"] = *changed;
  } else {
    source["reason"] =
        "whether files differ is unknown, because the content filters of the repository are not "
        "run";
  }
  return source;
}

}  // namespace

Json ProvenanceOf(const std::string& folder) {
  return {
      {"machine", Json::parse(power::MachineJson("/proc"), nullptr, /*allow_exceptions=*/false)},
      {"versions", {{"xplane_time", XPLANE_TIME_VERSION_STRING}}},
      {"source", DescribeSource(folder)}};
}

}  // namespace xplane_time::evidence
