// What a misspelt option or command may have meant.
#include <span>

#include "absl/strings/str_join.h"
#include "near_names.h"
#include "options_parts.h"

namespace xplane_time::tools {
namespace {

constexpr std::string_view kDashes = "--";

bool Any(const CLI::App* /*app*/) { return true; }

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands(Any)) names.push_back(each->get_name());
  return names;
}

std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

// Commands that have the option.
std::vector<std::string> TakersOf(const CLI::App& app, const std::string& option) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands(Any)) {
    if (each->get_option_no_throw(option) != nullptr) names.push_back(each->get_name());
  }
  return names;
}

std::string AboutOption(const CLI::App& app, const CLI::App& chosen, const std::string& option) {
  if (const auto takers = TakersOf(app, option); !takers.empty()) {
    return absl::StrCat("; ", chosen.get_name(), " has no such option, ",
                        absl::StrJoin(takers, ", "), takers.size() == 1 ? " has" : " have");
  }
  return DidYouMean(option.substr(kDashes.size()), OptionsOf(chosen), kDashes);
}

}  // namespace

std::string DidYouMean(std::string_view given, std::span<const std::string> known,
                       std::string_view before) {
  std::vector<std::string> near = NearNames(given, known, 2);
  for (std::string& name : near) name.insert(0, before);
  return near.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(near, " or "), "?");
}

std::string AboutUnknown(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands()[0];
  for (const std::string& unknown : app.remaining(/*recurse=*/true)) {
    const std::string name = unknown.substr(0, unknown.find('='));
    std::string text = name.starts_with(kDashes) ? AboutOption(app, *chosen, name)
                                                 : DidYouMean(name, CommandsOf(*chosen));
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace xplane_time::tools
