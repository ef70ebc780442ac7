#include "options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/text.h"
#include "status.h"

namespace xplane_time::tools {
namespace {

using output::Format;

const std::vector<std::pair<std::string, When>> kWhens = {
    {"auto", When::kAuto}, {"always", When::kAlways}, {"never", When::kNever}};

// All of it; nothing where it is no number.
std::optional<double> NumberOf(std::string_view text, std::chars_format format) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

// "0=GPU-1234".
absl::StatusOr<std::pair<int32_t, std::string>> ParseOrdinal(const std::string& text) {
  const size_t equals = text.find('=');
  int32_t ordinal = 0;
  if (equals == std::string::npos || equals + 1 == text.size() ||
      !absl::SimpleAtoi(text.substr(0, equals), &ordinal) || ordinal < 0) {
    return InvalidArgument("ORDINAL=ID, as 0=GPU-1234, not '", text, "'");
  }
  return std::pair(ordinal, text.substr(equals + 1));
}

// The format that a file's name asks for; empty: none.
std::string FormatOfSuffix(const std::string& path) {
  for (const auto& [suffix, format] :
       {std::pair(".json", "json"), std::pair(".csv", "csv"), std::pair(".md", "markdown"),
        std::pair(".xml", "junit"), std::pair(".prom", "openmetrics")}) {
    if (path.ends_with(suffix)) return format;
  }
  return "";
}

}  // namespace

bool IsCount(const std::string& text) {
  constexpr size_t kMostDigits = 18;
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

CLI::Validator Counts() {
  return {[](const std::string& text) {
            return IsCount(text) ? std::string() : absl::StrCat("'", text, "' is not a count");
          },
          ""};
}

CLI::Validator Between(double least, int64_t most) {
  return {[least, most](const std::string& text) {
            constexpr size_t kMostShown = 24;
            const auto value = NumberOf(text, std::chars_format::general);
            const bool fits =
                value.has_value() && *value >= least && *value <= static_cast<double>(most);
            return fits ? std::string()
                        : absl::StrCat("'", output::ShortenMiddle(text, kMostShown, "..."),
                                       "' is not a number from ", least, " to ", most);
          },
          ""};
}

absl::StatusOr<double> ParseShare(const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string_view number = std::string_view(text).substr(0, text.size() - (percent ? 1 : 0));
  auto value = NumberOf(number, std::chars_format::fixed);
  if (value.has_value() && percent) *value /= 100;
  if (!value.has_value() || !(*value >= 0) || *value > 10 || (!percent && *value >= 1)) {
    return InvalidArgument("'", text, "' is not a share; write 1% or 0.01");
  }
  return *value;
}

absl::StatusOr<int64_t> ParseNs(const std::string& text) {
  constexpr size_t kMostDigits = 15;
  constexpr double kPsPerNs = 1000;
  const size_t point = text.find('.');
  const bool decimal = text.find_first_not_of("0123456789.") == std::string::npos &&
                       point == text.rfind('.') && point != 0 && !text.empty() &&
                       std::min(point, text.size()) <= kMostDigits;
  if (!decimal) return InvalidArgument("'", text, "' is not a duration");
  return static_cast<int64_t>(std::strtod(text.c_str(), nullptr) * kPsPerNs);
}

bool Given(const CLI::App& app, const char* option) {
  const CLI::Option* const found = app.get_option_no_throw(option);
  return found != nullptr && found->count() > 0;
}

absl::Status Refuse(const CLI::App& app, std::initializer_list<const char*> options,
                    std::string_view why) {
  for (const char* option : options) {
    if (Given(app, option)) return InvalidArgument(option, " ", std::string(why));
  }
  return absl::OkStatus();
}

void Printing::AddFormat(CLI::App* app, std::vector<std::string> names, const std::string& help) {
  const std::string one_of = absl::StrCat("One of ", absl::StrJoin(names, ", "));
  Heading(app, kOut).OneOf("--format", &format, names, help.empty() ? one_of : help);
  formats = std::move(names);
}

void Printing::AddPath(CLI::App* app) {
  Heading(app, kOut).Value("-o,--output", &path, "FILE", "Write there; complete or not at all");
}

void Printing::AddColor(CLI::App* app) {
  Heading(app, kOut).OneOf("--color", &color, kWhens, "auto, always or never; NO_COLOR is honoured",
                           "WHEN");
}

void Printing::AddProgress(CLI::App* app, const std::string& help) {
  Heading(app, kOut).OneOf("--progress", &progress, kWhens, help, "WHEN");
}

void Printing::AddMessages(CLI::App* app) {
  const Heading out(app, kOut);
  out.Flag("--quiet", &quiet, "Errors only on standard error");
  out.Flag("--json-schema", &json_schema, "Print the JSON Schema of this command's output");
}

void Printing::ChooseFormat() {
  static const std::map<std::string_view, Format> kFormats = {
      {"json", Format::kJson},
      {"csv", Format::kCsv},
      {"markdown", Format::kMarkdown},
      {"junit", Format::kJunit},
      {"benchmark", Format::kBenchmark},
      {"bmf", Format::kBmf},
      {"openmetrics", Format::kOpenMetrics}};
  if (formats.empty()) return;
  if (format.empty()) {
    format = FormatOfSuffix(path);
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) {
      lacking = std::exchange(format, formats[0]);
    }
  }
  const auto known = kFormats.find(format);
  how.format = known == kFormats.end() ? Format::kTable : known->second;
}

void AddSensorPlaces(const Heading& heading, PowerSourceOptions* from) {
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
          "The device that the program sees as ORDINAL, where its order is not known")
      ->check(error)
      ->delimiter(',')
      ->allow_extra_args(false);
  heading.Value("--nvml-library", &from->roots.nvml_library, "FILE", "[libnvidia-ml.so.1]");
  heading.Value("--sysfs-root", &from->roots.sysfs, "DIR", "[/sys]");
}

PowerEnvironment EnvironmentOfDevices() {
  PowerEnvironment variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace xplane_time::tools
