// Options parts: what the files of options share. CLI11 is in here: include it there only.
#ifndef XPLANE_TIME_TOOLS_OPTIONS_PARTS_H_
#define XPLANE_TIME_TOOLS_OPTIONS_PARTS_H_

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "options.h"

namespace xplane_time::tools {

// Options read as text and converted after parsing.
struct Texts {
  std::string format, unit = "auto", metric = "active", clock = "auto", trim = "none",
                      reader = "wire", color = "auto", progress = "auto", within, compat;
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

// options_trace.cc: what all commands that read traces have.
void AddTraceOptions(CLI::App* app, Options* o, Texts* t);
void AddFilters(CLI::App* app, Options* o, Texts* t);
void AddTiming(CLI::App* app, Options* o, Texts* t);

// options_shares.cc: an error message where one is no share; empty ones stay as they are.
struct NamedShare {
  const char* name;
  const std::string* text;
  double* value;
};
std::string ConvertShares(std::initializer_list<NamedShare> shares);

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
