#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "power/sha256.h"
#include "xplane_time/trackers.h"

namespace xplane_time {
namespace {

// As ECMAScript writes a number, which is RFC 8785's rule: the shortest digits that read back,
// plain from 1e-6 up to below 1e21, else with an exponent.
std::string NumberText(double value) {
  const auto zeros = [](int count) { return std::string(static_cast<size_t>(count), '0'); };
  if (value == 0) return "0";  // no -0
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.begin(), buffer.end(), std::abs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  int exponent = 0;                           // from_chars knows no plus
  const size_t from = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + from, text.data() + text.size(), exponent);
  const int count = static_cast<int>(digits.size()), before_point = exponent + 1;
  const std::string sign = value < 0 ? "-" : "";
  if (exponent < -6 || exponent >= 21) {
    if (count > 1) digits.insert(1, ".");
    return absl::StrCat(sign, digits, "e", exponent < 0 ? "" : "+", exponent);
  }
  if (before_point <= 0) return absl::StrCat(sign, "0.", zeros(-before_point), digits);
  if (count <= before_point) return absl::StrCat(sign, digits, zeros(before_point - count));
  digits.insert(static_cast<size_t>(before_point), ".");
  return sign + digits;
}

absl::Status CheckNumber(const char* name, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("BenchConfig: ", name, " is ", value, "; a fingerprint needs a finite number"));
}

// JSON's, or InvalidArgument.
absl::StatusOr<std::string> QuotedText(const char* name, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("BenchConfig: ", name, " is not UTF-8: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<std::string> CanonicalConfigJson(const BenchConfig& config) {
  constexpr int64_t kMostExact = int64_t{1} << 53;
  for (const auto& [name, value] : {std::pair{"lambda", config.lambda}, {"eps", config.eps}}) {
    if (absl::Status status = CheckNumber(name, value); !status.ok()) return status;
  }
  if (config.tau > kMostExact || config.tau < -kMostExact) {
    return absl::InvalidArgumentError(
        absl::StrCat("BenchConfig: tau is ", config.tau, "; beyond 2^53 readers of JSON round it"));
  }
  const auto flags = QuotedText("compiler_flags", config.compiler_flags);
  if (!flags.ok()) return flags.status();
  const auto commit = QuotedText("model_commit", config.model_commit);
  if (!commit.ok()) return commit.status();
  const auto weights = QuotedText("weights_hash", config.weights_hash);
  if (!weights.ok()) return weights.status();
  return absl::StrCat("{\"compiler_flags\":", *flags, ",\"eps\":", NumberText(config.eps),
                      ",\"lambda\":", NumberText(config.lambda), ",\"model_commit\":", *commit,
                      ",\"tau\":", config.tau, ",\"weights_hash\":", *weights, "}");
}

absl::StatusOr<std::string> ConfigHash(const BenchConfig& config) {
  const auto text = CanonicalConfigJson(config);
  if (!text.ok()) return text.status();
  power::Sha256 hash;
  hash.Update(*text);
  return hash.Hex();
}

}  // namespace xplane_time
