// Options: how a command declares its options. CLI11 parses the command line; these are common
// kinds of options.
//
//   const Heading select(app, "Selection");
//   select.Value("--function", &function, "RE", "Only functions that match");
//   select.Share("--alpha", &alpha, "How often the claim may be wrong [1%]");   // 1% or 0.01
//   // xplane-time: --alpha: '5' is not a share; write 1% or 0.01
//
// Variables have their default values until the command line has been parsed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/status/statusor.h"
#include "output/output.h"
#include "xplane_time/power.h"

namespace xplane_time::tools {

// Parses the whole text; empty if it is not a number.
std::optional<double> NumberOf(std::string_view text);
// Accepts only digits, to reject signs and overflows.
CLI::Validator Counts();
// Accepts a number in a range; rejects nan, inf and numbers that exceed a double.
CLI::Validator Between(double least, int64_t most);
// Splits "a,b" into {"a", "b"}.
std::vector<std::string> SplitNames(const std::string& text);
// Rejects empty names in such a text.
CLI::Validator NoEmptyNames();
// Parses "1%" or "0.01". Values of 1 and more need the percent sign, because "--min-effect 5" would
// mean 500 %.
absl::StatusOr<double> ParseShare(const std::string& text);
// Converts a decimal number of nanoseconds (>= 0, at most 15 digits before the point, 11 days) to
// picoseconds.
absl::StatusOr<int64_t> ParseNs(const std::string& text);

inline constexpr char kOwn[] = "Options", kInput[] = "Input", kSelect[] = "Selection",
                      kTime[] = "Time", kOut[] = "Output", kDecision[] = "Decision",
                      kSensors[] = "Sensors";

// Options under one heading of a command's help.
class Heading {
 public:
  Heading(CLI::App* app, std::string title) : app_(app), title_(std::move(title)) {}

  CLI::Option* Flag(const char* name, bool* value, const std::string& help) const {
    return app_->add_flag(name, *value, help)->group(title_);
  }
  // `what` is the placeholder in the help.
  template <typename T>
  CLI::Option* Value(const char* name, T* value, const char* what, const std::string& help,
                     const CLI::Validator& check = CLI::Validator("")) const {
    return app_->add_option(name, *value, help)->check(check)->type_name(what)->group(title_);
  }
  template <typename T>
  CLI::Option* Count(const char* name, T* value, const std::string& help,
                     const char* what = "N") const {
    return Value(name, value, what, help, Counts());
  }
  // With a resolution of milliseconds.
  CLI::Option* Seconds(const char* name, std::chrono::milliseconds* value,
                       const std::string& help) const {
    const auto take = [value](double seconds) {
      *value = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    };
    return Taken<double>(name, take, "S", help)->check(Between(0.001, 1'000'000));
  }
  // Names separated by commas; no name may be empty. CLI11's own delimiter would drop empty names,
  // and take the next argument if no name is left.
  CLI::Option* List(const char* name, std::vector<std::string>* values, const char* what,
                    const std::string& help) const {
    const auto take = [values](const std::vector<std::string>& texts) {
      values->clear();
      for (const std::string& text : texts) {
        for (std::string& each : SplitNames(text)) values->push_back(std::move(each));
      }
    };
    return Taken<std::vector<std::string>>(name, take, what, help)
        ->check(NoEmptyNames())
        ->allow_extra_args(false);
  }
  // `take` receives a T.
  template <typename T, typename Take>
  CLI::Option* Taken(const char* name, Take take, const char* what, const std::string& help) const {
    return app_->add_option_function<T>(name, take, help)->type_name(what)->group(title_);
  }
  // `parse` converts the text to a StatusOr.
  template <typename T, typename Parse>
  CLI::Option* Parsed(const char* name, T* value, const char* what, const std::string& help,
                      Parse parse) const {
    const auto error = [parse](const std::string& text) {
      return std::string(parse(text).status().message());
    };
    const auto take = [parse, value](const std::string& text) { *value = *parse(text); };
    return Taken<std::string>(name, take, what, help)->check(error);
  }
  template <typename T>
  CLI::Option* Share(const char* name, T* value, const std::string& help) const {
    return Parsed(name, value, "SHARE", help, ParseShare);
  }
  // One of the names, which are in the order of T's values.
  template <typename T, typename Names = std::initializer_list<std::string_view>>
  CLI::Option* OneOf(const char* name, T* value, const Names& names_of_t, const std::string& help,
                     const char* what = "NAME") const {
    const std::vector<std::string> names(names_of_t.begin(), names_of_t.end());
    const auto take = [names, value](const std::string& text) {
      *value = static_cast<T>(std::ranges::find(names, text) - names.begin());
    };
    return Taken<std::string>(name, take, what, help)->check(CLI::IsMember(names));
  }

 private:
  CLI::App* app_;
  std::string title_;
};

// The names of the formats that every result supports.
inline const std::vector<std::string> kResultFormats = {"table",    "json", "csv",
                                                        "markdown", "html", "sqlite"};

// Whether the option was given.
bool Given(const CLI::App& app, const char* option);

enum class When : uint8_t { kAuto, kAlways, kNever };

// How and where results are printed. A command has those of these options that it adds.
struct Printing {
  // The names that --format accepts for the chosen command; the first is the default.
  std::vector<std::string> formats;
  std::string format;  // as given; see ChooseFormat
  std::string path;    // -o; empty or "-": standard output
  When color = When::kAuto, progress = When::kAuto;
  bool quiet = false, json_schema = false;
  output::OutputOptions how;

  void AddFormat(CLI::App* app, const std::vector<std::string>& names,
                 const std::string& help = "");
  void AddPath(CLI::App* app);
  void AddColor(CLI::App* app);
  void AddProgress(CLI::App* app, const std::string& help);
  void AddQuiet(CLI::App* app);
  void AddMessages(CLI::App* app);  // --quiet, --json-schema
  // If --format is not given, chooses the format by the suffix of -o. Errors: InvalidArgument if
  // the command does not support that format.
  absl::Status ChooseFormat();
  // Fills width, color and unicode of `how` for standard output.
  void AdaptToTerminal();

 private:
  absl::Status ChooseBySuffix();
};

// Options for the location of sensors and for ordinals. The variables that mask and order devices
// for a started program come from our environment.
void AddSensorPlaces(const Heading& heading, PowerSourceOptions* from);
// Options for the choice and location of sensors. `also` describes further kinds of sources.
void AddSensors(CLI::App* app, bool of_energy, const char* also, PowerSourceOptions* from);

}  // namespace xplane_time::tools
