#include "kineto/process_id.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "kineto/microseconds.h"
#include "status.h"

namespace xplane_time::kineto {
namespace {

using json::JsonType, json::JsonValue;

std::optional<int64_t> PlainWhole(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> Ordinal(std::string_view text) {
  const std::optional<int64_t> number = PlainWhole(text);
  return number.value_or(-1) >= 0 ? number : std::nullopt;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// Generic words for devices and processes, which are not names of ranks.
bool IsGeneric(std::string_view label) {
  constexpr std::string_view kGeneric[] = {"gpu", "cuda", "hip", "xpu",    "npu",
                                           "cpu", "pid",  "",    "device", "process"};
  return std::ranges::any_of(kGeneric, [&](std::string_view word) {
    return absl::EqualsIgnoreCase(Absl(label), Absl(word));
  });
}

std::string_view WithoutBrackets(std::string_view label) {
  const bool in_brackets = (label.starts_with('[') && label.ends_with(']')) ||
                           (label.starts_with('(') && label.ends_with(')'));
  return in_brackets ? label.substr(1, label.size() - 2) : label;
}

// Splits a label and a number in either order, separated by a space or a bracket.
void SplitLabel(std::string_view text, ProcessId* id) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : text.npos;
  const size_t last_space = text.rfind(' '), first_space = text.find(' ');
  std::string_view label, rest;
  if (bracket != text.npos) {
    label = text.substr(0, bracket + 1);
    rest = Trimmed(text.substr(bracket + 1));
    id->number = Ordinal(rest);
  } else if (last_space != text.npos && Ordinal(text.substr(last_space + 1)).has_value()) {
    label = Trimmed(text.substr(0, last_space));
    id->number = Ordinal(text.substr(last_space + 1));
  } else if (first_space != text.npos && Ordinal(text.substr(0, first_space)).has_value()) {
    label = Trimmed(text.substr(first_space));
    id->number = Ordinal(text.substr(0, first_space));
  }
  const auto begins = [](std::string_view of, std::string_view with) {
    return absl::StartsWithIgnoreCase(Absl(of), Absl(with));
  };
  if (absl::EqualsIgnoreCase(Absl(label), "stream")) {
    id->stream = std::exchange(id->number, std::nullopt);
  } else if (absl::EqualsIgnoreCase(Absl(label), "rank") ||
             (label.empty() && begins(text, "rank"))) {
    id->number.reset();
    id->rank = text;
  } else if (!IsGeneric(label)) {
    id->rank = WithoutBrackets(label);
  }
}

}  // namespace

std::optional<int64_t> WholeOf(const JsonValue& value) {
  if (value.type != JsonType::kNumber && value.type != JsonType::kText) return std::nullopt;
  if (const auto plain = PlainWhole(value.raw); plain.has_value()) return plain;
  // picoseconds per microsecond; MicrosecondsToPs also parses decimals
  constexpr int64_t kParts = 1'000'000;
  const absl::int128 parts = MicrosecondsToPs(value.raw).value_or(1);
  const bool is_whole = parts % kParts == 0 && parts < kFarPs && parts > -kFarPs;
  return is_whole ? std::optional(static_cast<int64_t>(parts / kParts)) : std::nullopt;
}

ProcessId ParseProcessId(const JsonValue& pid) {
  const bool is_text = pid.type == JsonType::kText;
  ProcessId id{.text = is_text ? json::Unescaped(pid.raw) : std::string(pid.raw)};
  if (const std::optional<int64_t> whole = WholeOf(pid); whole.has_value()) {
    id.text = Cat(*whole);
    if (*whole >= 0) id.number = whole;
  } else if (is_text) {
    SplitLabel(Trimmed(id.text), &id);
  }
  return id;
}

}  // namespace xplane_time::kineto
