// make_completions bash|zsh|fish: writes a completion script for xplane-time, from the
// command line's own parser.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.h"

namespace {

struct OptionWords {
  std::vector<std::string> names;  // "--format", "-o"
  std::string help;
  bool takes_value;
};

struct CommandWords {
  std::string name, help;
  std::vector<OptionWords> options = {};
};

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string Quoted(std::string text) {  // for single quotes of a shell
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) {
    text.replace(at, 1, "'\\''");
  }
  return "'" + text + "'";
}

std::vector<CommandWords> Collect(const CLI::App& app) {
  std::vector<CommandWords> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back({sub->get_name(), FirstLine(sub->get_description())});
    for (const CLI::Option* option : sub->get_options()) {
      if (option->get_positional()) continue;
      commands.back().options.push_back({CLI::detail::split(option->get_name(false, true), ','),
                                         FirstLine(option->get_description()),
                                         option->get_items_expected_max() > 0});
    }
  }
  commands.push_back({"help", "Help of a command"});
  return commands;
}

void Bash(const std::vector<CommandWords>& commands) {
  std::printf(
      "# bash completion for xplane-time\n"
      "_xplane_time() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} command=report words\n"
      "  case ${COMP_WORDS[1]} in\n");
  std::string names;
  for (const CommandWords& command : commands) names += command.name + " ";
  for (const CommandWords& command : commands) {
    std::printf("    %s) command=%s ;;\n", command.name.c_str(), command.name.c_str());
  }
  std::printf("  esac\n  case $command in\n");
  for (const CommandWords& command : commands) {
    std::printf("    %s) words=\"", command.name.c_str());
    for (const OptionWords& option : command.options) {
      for (const std::string& name : option.names) std::printf("%s ", name.c_str());
    }
    std::printf("\" ;;\n");
  }
  std::printf(
      "  esac\n"
      "  if [[ $cur == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  elif [[ $COMP_CWORD == 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"%s\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _xplane_time xplane-time\n",
      names.c_str());
}

void Zsh(const std::vector<CommandWords>& commands) {
  std::printf(
      "#compdef xplane-time\n"
      "local -a commands\ncommands=(\n");
  for (const CommandWords& command : commands) {
    std::printf("  %s\n", Quoted(command.name + ":" + command.help).c_str());
  }
  std::printf(
      ")\n"
      "if (( CURRENT == 2 )); then\n"
      "  _describe command commands\n  _files\n  return\nfi\n"
      "case $words[2] in\n");
  for (const CommandWords& command : commands) {
    std::printf("  %s) _arguments", command.name == "report" ? "*" : command.name.c_str());
    for (const OptionWords& option : command.options) {
      for (const std::string& name : option.names) {
        std::string help = option.help;
        for (char& c : help) {
          if (c == '[' || c == ']' || c == ':') c = ' ';
        }
        std::printf(
            " %s",
            Quoted(name + "[" + help + "]" + (option.takes_value ? ":value:_files" : "")).c_str());
      }
    }
    std::printf(" '*:trace:_files' ;;\n");
  }
  std::printf("esac\n");
}

void Fish(const std::vector<CommandWords>& commands) {
  std::printf("# fish completion for xplane-time\n");
  for (const CommandWords& command : commands) {
    std::printf("complete -c xplane-time -n __fish_use_subcommand -a %s -d %s\n",
                command.name.c_str(), Quoted(command.help).c_str());
    for (const OptionWords& option : command.options) {
      std::printf("complete -c xplane-time -n '__fish_seen_subcommand_from %s'",
                  command.name.c_str());
      for (const std::string& name : option.names) {
        std::printf(name.starts_with("--") ? " -l %s" : " -s %s",
                    name.substr(name.starts_with("--") ? 2 : 1).c_str());
      }
      std::printf("%s -d %s\n", option.takes_value ? " -r" : "", Quoted(option.help).c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string shell = argc == 2 ? argv[1] : "";
  xplane_time::tools::CommandLine line;
  xplane_time::tools::AddCommands(&line);
  std::vector<CommandWords> commands = Collect(*line.app());
  if (shell == "bash") {
    Bash(commands);
  } else if (shell == "fish") {
    Fish(commands);
  } else if (shell == "zsh") {  // the pattern of the default command comes last
    std::stable_partition(commands.begin(), commands.end(),
                          [](const CommandWords& command) { return command.name != "report"; });
    Zsh(commands);
  } else {
    std::fputs("usage: make_completions bash|zsh|fish\n", stderr);
    return 64;
  }
  return 0;
}
