// Shares as options: 1% or 0.01.
#include <charconv>

#include "options_parts.h"

namespace xplane_time::tools {
namespace {

// "1%" or "0.01". Nothing from 1 on without the sign: "--min-effect 5" would be 500 %.
std::optional<double> ParseShare(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (percent) value /= 100;
  if (!(value >= 0) || value > 10 || (!percent && value >= 1)) return std::nullopt;
  return value;
}

}  // namespace

std::string ConvertShares(std::initializer_list<NamedShare> shares) {
  for (const NamedShare& share : shares) {
    if (share.text->empty()) continue;
    const std::optional<double> value = ParseShare(*share.text);
    if (!value.has_value()) {
      return absl::StrCat(share.name, ": '", *share.text, "' is not a share; write 1% or 0.01");
    }
    *share.value = *value;
  }
  return "";
}

}  // namespace xplane_time::tools
