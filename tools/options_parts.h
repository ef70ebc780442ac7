// Options parts: what the files of options share. CLI11 is in here: include it there only.
#ifndef XPLANE_TIME_TOOLS_OPTIONS_PARTS_H_
#define XPLANE_TIME_TOOLS_OPTIONS_PARTS_H_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "options.h"
#include "output/text.h"

namespace xplane_time::tools {

// Options read as text and converted after parsing.
struct Texts {
  std::string format, unit = "auto", metric = "active", clock = "auto", trim = "none",
                      reader = "wire", color = "auto", progress = "auto", within, compat, columns;
  std::optional<double> min_duration_ns;
  // compare, pick
  std::string min_effect = "1%", max_mde = "5%", alpha, offset_std, drift_std = "2%",
              delta = "0.5%", benchmark_time = "real";
  TuneTexts tune;
  PowerTexts power;
};

// A count: digits only, so that neither a sign nor an overflow slips through.
class CountValidator : public CLI::Validator {
 public:
  CountValidator() : CLI::Validator("") {
    func_ = [](std::string& text) {
      constexpr size_t kMostDigits = 18;
      const bool digits = !text.empty() && text.size() <= kMostDigits &&
                          text.find_first_not_of("0123456789") == std::string::npos;
      return digits ? std::string() : absl::StrCat("'", text, "' is not a count");
    };
  }
};

// A decimal number >= 0 of at most 15 digits before the point (11 days in ns).
class DecimalValidator : public CLI::Validator {
 public:
  DecimalValidator() : CLI::Validator("") {
    func_ = [](std::string& text) {
      constexpr size_t kMostDigits = 15;
      const size_t point = text.find('.');
      const bool decimal = text.find_first_not_of("0123456789.") == std::string::npos &&
                           point == text.rfind('.') && point != 0 && !text.empty() &&
                           std::min(point, text.size()) <= kMostDigits;
      return decimal ? std::string() : absl::StrCat("'", text, "' is not a duration");
    };
  }
};

// A number of a range; neither nan nor inf nor what no double holds is in one.
class NumberValidator : public CLI::Validator {
 public:
  NumberValidator(double least, int64_t most) : CLI::Validator("") {
    func_ = [least, most](std::string& text) {
      constexpr size_t kMostShown = 24;
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      const bool is_number = error == std::errc() && end == text.data() + text.size();
      if (is_number && value >= least && value <= static_cast<double>(most)) return std::string();
      return absl::StrCat("'", output::ShortenMiddle(text, kMostShown, "..."),
                          "' is not a number from ", least, " to ", most);
    };
  }
};

inline constexpr char kSelect[] = "Selection", kTime[] = "Time", kOut[] = "Output",
                      kInput[] = "Input";

// The format that a file's name asks for, where --format does not; empty: none.
inline std::string FormatOfSuffix(const std::string& path) {
  for (const auto& [suffix, format] : {std::pair(".json", "json"), std::pair(".csv", "csv"),
                                       std::pair(".md", "markdown"), std::pair(".xml", "junit")}) {
    if (path.ends_with(suffix)) return format;
  }
  return "";
}

// A subcommand with its examples, a line each; `chosen` is called where it was given.
inline CLI::App* AddAction(CLI::App* parent, const char* name, const char* help,
                           const char* examples, std::function<void()> chosen) {
  CLI::App* app = parent->add_subcommand(name, help);
  app->footer(absl::StrCat("Examples:\n", examples));
  app->callback(std::move(chosen));
  return app;
}

inline void AddOutputFile(CLI::App* app, std::string* path) {
  app->add_option("-o,--output", *path, "Write there; complete or not at all")
      ->type_name("FILE")
      ->group(kOut);
}

inline void AddFormatAndOutput(CLI::App* app, const std::vector<std::string>& formats,
                               std::string* format, std::string* path) {
  app->add_option("--format", *format, absl::StrCat("One of ", CLI::detail::join(formats, ", ")))
      ->check(CLI::IsMember(formats))
      ->type_name("NAME")
      ->group(kOut);
  AddOutputFile(app, path);
}

// options_trace.cc: what all commands that read traces have.
void AddTraceOptions(CLI::App* app, Options* o, Texts* t);
void AddFilters(Command command, CLI::App* app, Options* o, Texts* t);
void AddTiming(Command command, CLI::App* app, Options* o, Texts* t);
// Compare and pick.
bool Decides(Command command);
// options_unknown.cc: "; did you mean --trim?", or nothing; `before`: "--". After a line with
// unknown arguments: of the first of which something is known.
std::string DidYouMean(std::string_view given, std::span<const std::string> known,
                       std::string_view before = "");
std::string AboutUnknown(const CLI::App& app);
// An error message where an option was given that would be ignored beside the others.
std::string IgnoredOption(const CLI::App& command, const Options& o);

// options_shares.cc: an error message where one is no share; empty ones stay as they are.
struct NamedShare {
  const char* name;
  const std::string* text;
  double* value;
};
std::string ConvertShares(std::initializer_list<NamedShare> shares);

// options_power.cc: where sensors are, and which device an ordinal is; an error message where a
// map does not fit.
void AddSensorPlaces(CLI::App* app, const char* group, PowerSourceOptions* from,
                     std::vector<std::string>* ordinals);
std::string ConvertOrdinals(const std::vector<std::string>& ordinals, PowerSourceOptions* from);

// options_compat.cc: --compat of report and functions. Then some options mean nothing, which
// is an error.
void AddCompat(CLI::App* app, Texts* t);
std::string ConvertCompat(const CLI::App& command, const Texts& t, Options* o);

// options_decide.cc: compare and pick.
void AddCompareInputs(CLI::App* app, Options* o);
void AddCompareOptions(CLI::App* app, Options* o, Texts* t);
void AddPickOptions(CLI::App* app, Options* o, Texts* t);
// An error message where texts do not fit.
std::string ConvertDecide(const Texts& t, Options* o);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_OPTIONS_PARTS_H_
