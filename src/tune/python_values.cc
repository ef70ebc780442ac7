// Lists of values as kernel_tuner's T1 files write them, in Python. kernel_tuner evaluates
// them; here they are read: lists, tuples, range(), list(), and one comprehension.
#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/space_internal.h"

namespace xplane_time::tune {
namespace {

using Values = absl::StatusOr<std::vector<ParameterValue>>;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Byte offsets outside of brackets and strings where `matches` holds.
template <typename Matches>
std::vector<size_t> TopLevel(std::string_view text, Matches matches) {
  std::vector<size_t> found;
  size_t level = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
      continue;
    }
    if (level == 0 && matches(i)) found.push_back(i);
    if (c == '"' || c == '\'') quote = c;
    if (c == '(' || c == '[') ++level;
    if ((c == ')' || c == ']') && level > 0) --level;
  }
  return found;
}

// Where a word stands alone; npos: nowhere.
size_t FindWord(std::string_view text, std::string_view word) {
  const auto is_of_name = [&](size_t i) {
    return i < text.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  const auto at = TopLevel(text, [&](size_t i) {
    return text.substr(i).starts_with(word) && (i == 0 || !is_of_name(i - 1)) &&
           !is_of_name(i + word.size());
  });
  return at.empty() ? std::string_view::npos : at.front();
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t comma : TopLevel(text, [&](size_t i) { return text[i] == ','; })) {
    parts.push_back(Trimmed(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  const std::string_view last = Trimmed(text.substr(begin));
  if (!last.empty()) parts.push_back(last);  // a comma may trail
  return parts;
}

// "NAME(inside)" with nothing after it.
std::optional<std::string_view> InsideCall(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return std::nullopt;
  const std::string_view rest = Trimmed(text.substr(name.size()));
  if (rest.size() < 2 || rest.front() != '(' || rest.back() != ')') return std::nullopt;
  return rest.substr(1, rest.size() - 2);
}

absl::Status Bad(std::string_view what, std::string_view text) {
  return InvalidArgument(Absl(what), ": \"", Absl(text.substr(0, 80)), "\"");
}

absl::StatusOr<ParameterValue> Owned(const Value& value, std::string_view text) {
  switch (value.kind) {
    case ValueKind::kBool:
      return value.truth;
    case ValueKind::kInt:
      return value.integer;
    case ValueKind::kFloat:
      return value.real;
    case ValueKind::kString:
      return *value.text;
    default:
      return Bad("no number, string or bool", text);
  }
}

absl::StatusOr<ParameterValue> ValueOfText(std::string_view text) {
  ASSIGN_OR_RETURN(const auto parsed, Expression::Parse(text, {}));
  Value value;
  EvaluationError error;
  if (!parsed.Evaluate({}, &value, &error)) return Bad(error.reason, text);
  return Owned(value, text);
}

Values Range(std::string_view arguments) {
  std::vector<int64_t> numbers;
  for (std::string_view part : SplitAtCommas(arguments)) {
    ASSIGN_OR_RETURN(const auto value, ValueOfText(part));
    if (!std::holds_alternative<int64_t>(value)) return Bad("range takes integers", part);
    numbers.push_back(std::get<int64_t>(value));
  }
  if (numbers.empty() || numbers.size() > 3) return Bad("range takes 1 to 3 numbers", arguments);
  const int64_t start = numbers.size() == 1 ? 0 : numbers[0];
  const int64_t stop = numbers.size() == 1 ? numbers[0] : numbers[1];
  const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
  if (step == 0) return Bad("the step of a range is 0", arguments);
  std::vector<ParameterValue> values;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (values.size() == kMostValues) return Bad("more than 1,000,000 values", arguments);
    values.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return values;
}

Values Items(std::string_view text) {
  std::vector<ParameterValue> values;
  for (std::string_view part : SplitAtCommas(text)) {
    ASSIGN_OR_RETURN(values.emplace_back(), ValueOfText(part));
  }
  return values;
}

Values Iterable(std::string_view text, int level);

// EXPRESSION for NAME in ITERABLE [if CONDITION]
Values Comprehension(std::string_view text, size_t for_at, int level) {
  std::string_view rest = text.substr(for_at + 3);
  const size_t in_at = FindWord(rest, "in");
  if (in_at == std::string_view::npos) return Bad("a comprehension without \"in\"", text);
  const std::vector<std::string> names = {std::string(Trimmed(rest.substr(0, in_at)))};
  rest = rest.substr(in_at + 2);
  const size_t if_at = FindWord(rest, "if");
  ASSIGN_OR_RETURN(const auto values, Iterable(rest.substr(0, if_at), level));
  const bool filtered = if_at != std::string_view::npos;
  ASSIGN_OR_RETURN(const auto element, Expression::Parse(Trimmed(text.substr(0, for_at)), names));
  ASSIGN_OR_RETURN(const auto keep,
                   Expression::Parse(filtered ? Trimmed(rest.substr(if_at + 2)) : "True", names));
  std::vector<ParameterValue> out;
  for (const ParameterValue& value : values) {
    const Value argument = ValueOf(value);
    Value kept, computed;
    EvaluationError error;
    if (!keep.Evaluate({&argument, 1}, &kept, &error)) return Bad(error.reason, text);
    if (!IsTrue(kept)) continue;
    if (!element.Evaluate({&argument, 1}, &computed, &error)) return Bad(error.reason, text);
    ASSIGN_OR_RETURN(out.emplace_back(), Owned(computed, text));
  }
  return out;
}

Values Inside(std::string_view text, int level) {
  const size_t for_at = FindWord(text, "for");
  return for_at == std::string_view::npos ? Items(text) : Comprehension(text, for_at, level);
}

Values Iterable(std::string_view text, int level) {
  text = Trimmed(text);
  if (level > 8) return Bad("nested too deeply", text);
  if (const auto inside = InsideCall(text, "list")) {
    const bool generator = FindWord(*inside, "for") != std::string_view::npos;
    return generator ? Inside(*inside, level + 1) : Iterable(*inside, level + 1);
  }
  if (const auto inside = InsideCall(text, "range")) return Range(*inside);
  if (text.size() < 2) return Bad("no list of values", text);
  const bool bracket = text.front() == '[' && text.back() == ']';
  const bool tuple = text.front() == '(' && text.back() == ')';
  if (!bracket && !tuple) return Bad("no list, range or comprehension", text);
  return Inside(text.substr(1, text.size() - 2), level + 1);
}

}  // namespace

absl::StatusOr<std::vector<ParameterValue>> ParsePythonValues(std::string_view text) {
  text = Trimmed(text);
  constexpr size_t kMostBytes = size_t{64} << 20;
  if (text.size() > kMostBytes) return Bad("over 64 MiB", text);
  // "1, 2, 3" is a tuple in Python.
  const bool bare = !text.empty() && text.front() != '[' && text.front() != '(' &&
                    !InsideCall(text, "list") && !InsideCall(text, "range");
  return bare ? Items(text) : Iterable(text, 0);
}

}  // namespace xplane_time::tune
