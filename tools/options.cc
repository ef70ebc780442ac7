#include "options.h"

#include <re2/re2.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "files.h"
#include "output/text.h"
#include "power/sources.h"
#include "status.h"

namespace xplane_time::tools {
namespace {

using output::Format;

constexpr std::array<std::string_view, 3> kWhens = {"auto", "always", "never"};

// Parses "0=GPU-1234".
absl::StatusOr<std::pair<int32_t, std::string>> ParseOrdinal(const std::string& text) {
  std::pair<int32_t, std::string> ordinal;
  if (!RE2::FullMatch(text, "([0-9]+)=(.+)", &ordinal.first, &ordinal.second)) {
    return InvalidArgument("expected ORDINAL=ID, such as 0=GPU-1234, not '", text, "'");
  }
  return ordinal;
}

struct NamedFormat {
  std::string_view name, suffix;  // suffix of a file name; may be empty
  Format format;
};

constexpr NamedFormat kFormats[] = {{"table", ".txt", Format::kTable},
                                    {"json", ".json", Format::kJson},
                                    {"csv", ".csv", Format::kCsv},
                                    {"markdown", ".md", Format::kMarkdown},
                                    {"junit", ".xml", Format::kJunit},
                                    {"benchmark", "", Format::kBenchmark},
                                    {"bmf", "", Format::kBmf},
                                    {"openmetrics", ".prom", Format::kOpenMetrics},
                                    {"html", ".html", Format::kHtml},
                                    {"sqlite", ".sqlite", Format::kSqlite},
                                    {"perfetto", ".pftrace", Format::kPerfetto}};

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = Environment(name);
    if (!value.empty()) return RE2::PartialMatch(value, "UTF-8|utf8");
  }
  return false;
}

// COLUMNS if it is a plausible number, otherwise 0.
int ColumnsVariable() {
  constexpr int kMost = 10'000;
  int columns = 0;
  return absl::SimpleAtoi(Absl(Environment("COLUMNS")), &columns) ? std::clamp(columns, 0, kMost)
                                                                  : 0;
}

}  // namespace

std::optional<double> NumberOf(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

CLI::Validator Counts() {
  return {[](const std::string& text) {
            return RE2::FullMatch(text, "[0-9]{1,18}")
                       ? std::string()
                       : absl::StrCat("'", text, "' is not a count");
          },
          ""};
}

CLI::Validator Between(double least, int64_t most) {
  return {[least, most](const std::string& text) {
            constexpr size_t kMostShown = 24;
            const auto value = NumberOf(text);
            const bool fits =
                value.has_value() && *value >= least && *value <= static_cast<double>(most);
            return fits ? std::string()
                        : absl::StrCat("'", output::ShortenMiddle(text, kMostShown, "..."),
                                       "' is not a number from ", least, " to ", most);
          },
          ""};
}

std::vector<std::string> SplitNames(const std::string& text) { return absl::StrSplit(text, ','); }

CLI::Validator NoEmptyNames() {
  return {[](const std::string& text) {
            // An empty text is rejected for all options in the same way (CheckOptions).
            return text.empty() || std::ranges::count(SplitNames(text), "") == 0
                       ? std::string()
                       : absl::StrCat("'", text, "' contains an empty name");
          },
          ""};
}

absl::StatusOr<double> ParseShare(const std::string& text) {
  double value = 0;
  std::string percent;
  const bool is_number =
      RE2::FullMatch(text, R"(([0-9]+\.?[0-9]*|\.[0-9]+)(%?))", &value, &percent);
  if (!percent.empty()) value /= 100;
  if (!is_number || value > 10 || (percent.empty() && value >= 1)) {
    return InvalidArgument("'", text, "' is not a share; write 1% or 0.01");
  }
  return value;
}

absl::StatusOr<int64_t> ParseNs(const std::string& text) {
  constexpr double kPsPerNs = 1000;
  double ns = 0;
  if (!RE2::FullMatch(text, R"(([0-9]{1,15}(?:\.[0-9]*)?))", &ns)) {
    return InvalidArgument("'", text, "' is not a duration in nanoseconds");
  }
  return static_cast<int64_t>(ns * kPsPerNs);
}

bool Given(const CLI::App& app, const char* option) {
  const CLI::Option* const found = app.get_option_no_throw(option);
  return found != nullptr && found->count() > 0;
}

void Printing::AddFormat(CLI::App* app, const std::vector<std::string>& names,
                         const std::string& help) {
  const std::string one_of = absl::StrCat("Output format: ", absl::StrJoin(names, ", "));
  Heading(app, kOut).Value("--format", &format, "NAME", help.empty() ? one_of : help,
                           CLI::IsMember(names));
  // Several commands may have these options. Use the formats of the chosen one: it is being parsed
  // now, or will be.
  if (app->parsed()) {
    formats = names;
  } else {
    app->preparse_callback([this, names](size_t) { formats = names; });
  }
}

void Printing::AddPath(CLI::App* app) {
  Heading(app, kOut).Value("-o,--output", &path, "FILE",
                           "Output file, written completely or not at all; - is standard output");
}

void Printing::AddColor(CLI::App* app) {
  Heading(app, kOut).OneOf("--color", &color, kWhens,
                           "Color: auto, always or never; auto respects NO_COLOR (default auto)",
                           "WHEN");
}

void Printing::AddProgress(CLI::App* app, const std::string& help) {
  Heading(app, kOut).OneOf("--progress", &progress, kWhens, help, "WHEN");
}

void Printing::AddQuiet(CLI::App* app) {
  Heading(app, kOut).Flag("--quiet", &quiet, "Print only errors on standard error");
}

void Printing::AddMessages(CLI::App* app) {
  AddQuiet(app);
  Heading(app, kOut).Flag("--json-schema", &json_schema,
                          "Print the JSON Schema of the output and exit");
}

absl::Status Printing::ChooseFormat() {
  absl::Status chosen;
  if (format.empty() && !formats.empty()) chosen = ChooseBySuffix();
  const auto known = std::ranges::find(kFormats, format, &NamedFormat::name);
  how.format = known == std::end(kFormats) ? Format::kTable : known->format;
  if (how.is_file() && StreamOf(path) == STDOUT_FILENO && isatty(STDOUT_FILENO) == 1) {
    return InvalidArgument("--format ", format, " cannot be written to a terminal; give -o FILE",
                           known->suffix);
  }
  return chosen;
}

absl::Status Printing::ChooseBySuffix() {
  format = formats[0];
  const std::filesystem::path file = std::filesystem::path(path).filename();
  const std::string suffix = absl::AsciiStrToLower(file.extension().string());
  const bool is_of_mktemp = RE2::FullMatch(file.string(), "tmp\\.[A-Za-z0-9]{6,}");
  if (suffix.empty() || is_of_mktemp) return absl::OkStatus();
  std::vector<std::string> known;
  for (const NamedFormat& each : kFormats) {
    if (each.suffix.empty() || std::ranges::count(formats, each.name) == 0) continue;
    if (each.suffix == suffix) {
      format = each.name;
      return absl::OkStatus();
    }
    known.push_back(Cat(each.suffix, " (", each.name, ")"));
  }
  return InvalidArgument("-o ", path, ": unknown suffix ", suffix,
                         "; the suffix selects the format: ", absl::StrJoin(known, ", "),
                         "; --format allows any suffix (", absl::StrJoin(formats, ", "), ")");
}

void Printing::AdaptToTerminal() {
  constexpr int kUsual = 80;
  const bool prints = StreamOf(path) == STDOUT_FILENO,
             terminal = prints && isatty(STDOUT_FILENO) == 1;
  winsize size = {};
  int columns = 0;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (!terminal && prints) columns = ColumnsVariable();
  how.width = columns > 0 ? columns : kUsual;
  const bool plain = !Environment("NO_COLOR").empty() || Environment("TERM") == "dumb";
  how.color = color == When::kAlways || (color == When::kAuto && terminal && !plain);
  how.unicode = LocaleIsUtf8();
}

void AddSensorPlaces(const Heading& heading, PowerSourceOptions* from) {
  for (char** each = environ; *each != nullptr; ++each) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(*each, absl::MaxSplits('=', 1));
    from->environment.insert(variable);
  }
  const auto error = [](const std::string& text) {
    return std::string(ParseOrdinal(text).status().message());
  };
  const auto take = [from](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto [ordinal, device] = *ParseOrdinal(text);
      from->ordinals[ordinal] = device;
    }
  };
  heading
      .Taken<std::vector<std::string>>(
          "--map", take, "ORDINAL=ID",
          "Map device ORDINAL of the program to the sensor ID; required "
          "if the order of the devices is unknown")
      ->check(error)
      ->delimiter(',')
      ->allow_extra_args(false);
  heading.Value("--nvml-library", &from->roots.nvml_library, "FILE",
                "NVML library (default libnvidia-ml.so.1)");
  heading.Value("--sysfs-root", &from->roots.sysfs, "DIR", "Root of sysfs (default /sys)");
}

void AddSensors(CLI::App* app, bool of_energy, const char* also, PowerSourceOptions* from) {
  const Heading sensors(app, kSensors);
  sensors.List("--source", &from->sources, "NAME",
               power::SourcesHelp(of_energy, Cat(" or replay:LOG; separated by commas", also)));
  AddSensorPlaces(sensors, from);
  sensors.Value("--procfs-root", &from->roots.procfs, "DIR", "Root of procfs (default /proc)");
}

}  // namespace xplane_time::tools
