// From text to code: a recursive descent, one function a level of the grammar, and a closure an
// operator.
#include "tune/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "re2/re2.h"
#include "status.h"

namespace xplane_time::tune {
namespace {

using Code = Expression::Code;
using Computed = std::optional<Value>;

constexpr size_t kMostBytes = 10'000;
constexpr size_t kMostNodes = 1'000;
constexpr int kMostLevels = 100;  // two a parenthesis
constexpr char kOverflow[] = "integer beyond 64 bits", kByZero[] = "division by zero";

// --- Values.

std::optional<int64_t> WholeOf(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  return std::nullopt;
}

std::optional<double> RealOf(const Value& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  const auto whole = WholeOf(value);
  return whole.has_value() ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

bool IsNone(const Value& value) { return std::holds_alternative<std::monostate>(value); }

// The sign of a - b; empty: there is no order.
std::optional<int> Order(const Value& a, const Value& b) {
  const auto sign = [](auto x, auto y) { return (x > y) - (x < y); };
  const auto m = WholeOf(a), n = WholeOf(b);
  if (m.has_value() && n.has_value()) return sign(*m, *n);
  if (const auto x = RealOf(a), y = RealOf(b); x.has_value() && y.has_value()) {
    // Exact: a double beyond 2^53 is not what an integer rounds to.
    static_assert(std::numeric_limits<long double>::digits >= 63);
    const auto exact = [](std::optional<int64_t> whole, double real) {
      return whole.has_value() ? static_cast<long double>(*whole) : real;
    };
    return sign(exact(m, *x), exact(n, *y));
  }
  const auto* const* const s = std::get_if<const std::string*>(&a);
  const auto* const* const t = std::get_if<const std::string*>(&b);
  if (s == nullptr || t == nullptr) return std::nullopt;
  return sign((*s)->compare(**t), 0);
}

Computed NoValue(Evaluation& run, size_t position, const char* reason) {
  run.reason = reason;
  run.position = static_cast<uint32_t>(position);
  return std::nullopt;
}

// --- Arithmetic.

// By squaring; false where a step leaves 64 bits.
bool IntegerPower(int64_t base, int64_t exponent, int64_t* power) {
  *power = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(*power, base, power)) return false;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  return true;
}

// Python's remainder has the divisor's sign.
int64_t Modulo(int64_t a, int64_t b) {
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double Modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

bool FloorDivide(int64_t a, int64_t b, int64_t* quotient) {
  if (b == -1) return !__builtin_sub_overflow(int64_t{0}, a, quotient);
  *quotient = a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
  return true;
}

double FloorDivide(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

struct Arithmetic {
  std::string_view sign;
  double (*of_reals)(double, double);
  bool (*of_integers)(int64_t, int64_t, int64_t*);  // false: beyond 64 bits; null: is of reals
  bool divides = false, is_power = false;
};
constexpr std::array<Arithmetic, 7> kArithmetic = {{
    {"+", [](double a, double b) { return a + b; },
     [](int64_t a, int64_t b, int64_t* out) { return !__builtin_add_overflow(a, b, out); }},
    {"-", [](double a, double b) { return a - b; },
     [](int64_t a, int64_t b, int64_t* out) { return !__builtin_sub_overflow(a, b, out); }},
    {"*", [](double a, double b) { return a * b; },
     [](int64_t a, int64_t b, int64_t* out) { return !__builtin_mul_overflow(a, b, out); }},
    {"//", FloorDivide, FloorDivide, /*divides=*/true},
    {"/", [](double a, double b) { return a / b; }, nullptr, /*divides=*/true},
    {"%", Modulo, [](int64_t a, int64_t b, int64_t* out) { return *out = Modulo(a, b), true; },
     /*divides=*/true},
    {"**", [](double a, double b) { return std::pow(a, b); }, IntegerPower, /*divides=*/false,
     /*is_power=*/true},
}};
constexpr std::span kSums = std::span(kArithmetic).first(2);
constexpr std::span kProducts = std::span(kArithmetic).subspan(2, 4);

Computed Compute(const Arithmetic& op, const Value& a, const Value& b, size_t position,
                 Evaluation& run) {
  const auto m = WholeOf(a), n = WholeOf(b);
  if (m.has_value() && n.has_value() && op.of_integers != nullptr && !(op.is_power && *n < 0)) {
    if (op.divides && *n == 0) return NoValue(run, position, kByZero);
    int64_t whole = 0;
    return op.of_integers(*m, *n, &whole) ? whole : NoValue(run, position, kOverflow);
  }
  const auto x = RealOf(a), y = RealOf(b);
  if (!x.has_value() || !y.has_value()) return NoValue(run, position, "needs two numbers");
  if ((op.divides && *y == 0) || (op.is_power && *x == 0 && *y < 0)) {
    return NoValue(run, position, kByZero);
  }
  constexpr int64_t kExactInDouble = int64_t{1} << 53;
  const auto is_exact = [](int64_t whole) {
    return whole >= -kExactInDouble && whole <= kExactInDouble;
  };
  if (m.has_value() && n.has_value() && op.divides && !(is_exact(*m) && is_exact(*n))) {
    return NoValue(run, position, "\"/\" of integers beyond 2^53 would not be exact (\"//\" is)");
  }
  const double real = op.of_reals(*x, *y);
  return std::isfinite(real) ? real : NoValue(run, position, "not a finite number");
}

Code ArithmeticCode(const Arithmetic& op, size_t position, Code left, Code right) {
  return [&op, position, left = std::move(left), right = std::move(right)](Evaluation& run) {
    const Computed a = left(run);
    if (!a.has_value()) return a;
    const Computed b = right(run);
    return b.has_value() ? Compute(op, *a, *b, position, run) : b;
  };
}

// `what`: "-", "+" or "abs".
Code SignCode(std::string_view what, size_t position, Code operand) {
  return [what, position, operand = std::move(operand)](Evaluation& run) -> Computed {
    const Computed value = operand(run);
    if (!value.has_value()) return value;
    const auto real = RealOf(*value);
    if (!real.has_value()) return NoValue(run, position, "needs a number");
    const bool turns = what == "-" || (what == "abs" && std::signbit(*real));
    if (std::holds_alternative<double>(*value)) return turns ? -*real : *real;
    int64_t whole = *WholeOf(*value);
    if (turns && __builtin_sub_overflow(int64_t{0}, whole, &whole)) {
      return NoValue(run, position, kOverflow);
    }
    return whole;
  };
}

// The first of equal ones, with its own type.
Code ExtremeCode(bool is_min, size_t position, std::vector<Code> items) {
  return [is_min, position, items = std::move(items)](Evaluation& run) -> Computed {
    Computed extreme;
    for (const Code& item : items) {
      const Computed value = item(run);
      if (!value.has_value()) return value;
      const auto sign = extreme.has_value() ? Order(*value, *extreme) : is_min ? -1 : 1;
      if (!sign.has_value()) return NoValue(run, position, "compares different types");
      if (is_min ? *sign < 0 : *sign > 0) extreme = value;
    }
    return extreme.has_value() ? extreme : NoValue(run, position, "of an empty list");
  };
}

// --- Comparisons.

// For which signs of left - right one holds, a bit each: less, equal, greater. Or "in".
enum Comparison : uint8_t { kEqual = 2, kNotEqual = 5, kIn = 8, kNotIn = 16 };
constexpr std::array<std::pair<std::string_view, int>, 7> kComparisons = {
    {{"==", kEqual}, {"!=", kNotEqual}, {"<", 1}, {"<=", 3}, {">", 4}, {">=", 6}, {"in", kIn}}};

// Of a chain: whether it holds. The next one's left is this one's right.
using Link = std::function<Computed(Evaluation& run, Value* left)>;

Link OrderLink(int holds, size_t position, Code right) {
  return [holds, position, right = std::move(right)](Evaluation& run, Value* left) -> Computed {
    const Computed b = right(run);
    if (!b.has_value()) return b;
    const Value a = std::exchange(*left, *b);
    std::optional<int> sign = Order(a, *b);
    const bool none = IsNone(a) || IsNone(*b), equality = holds == kEqual || holds == kNotEqual;
    if (none && equality && !std::holds_alternative<NoPlainValue>(IsNone(a) ? *b : a)) {
      sign = a.index() != b->index();
    }
    if (sign.has_value()) return (holds >> (*sign + 1) & 1) != 0;
    return NoValue(run, position, "compares values of different types");
  };
}

// All elements are computed before one is compared, as Python does. Values of different kinds
// differ.
Link ListLink(bool is_in, size_t position, std::vector<Code> list) {
  return [is_in, position, list = std::move(list)](Evaluation& run, Value* left) -> Computed {
    if (std::holds_alternative<NoPlainValue>(*left)) {
      return NoValue(run, position, "needs a number, a string or None");
    }
    bool found = false;
    for (const Code& item : list) {
      const Computed value = item(run);
      if (!value.has_value()) return value;
      found |= Order(*left, *value) == 0 || (IsNone(*left) && IsNone(*value));
    }
    return found == is_in;
  };
}

Code ChainCode(Code first, std::vector<Link> links) {
  return [first = std::move(first), links = std::move(links)](Evaluation& run) {
    Computed left = first(run), holds = left;
    for (size_t i = 0; i < links.size() && holds.has_value() && (i == 0 || IsTrue(*holds)); ++i) {
      holds = links[i](run, &*left);
    }
    return holds;
  };
}

// --- Reading.

enum class TokenKind : uint8_t { kEnd, kNumber, kBad, kName, kText, kSign };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // kText: with its quotes
  size_t position = 0;
};

// A group a kind, but kEnd. Numbers: Python's decimal forms without "_"; one that runs on into a
// name is bad.
constexpr char kTokens[] =
    R"re(((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([A-Za-z_])?|([A-Za-z_]\w*))re"
    R"re(|("(?:[^"\\\n]|(?s:\\.))*"|'(?:[^'\\\n]|(?s:\\.))*')|(\*\*|//|[=!<>]=|[-<>+*/%()\[\],]))re";

Token TokenAt(std::string_view text, size_t position) {
  static const RE2 tokens(kTokens, RE2::Latin1);
  position = std::min(text.find_first_not_of(" \t\n\r", position), text.size());
  const std::string_view rest = text.substr(position);
  if (rest.empty()) return {TokenKind::kEnd, rest, position};
  std::array<re2::StringPiece, 6> groups;
  if (!tokens.Match(rest, 0, rest.size(), RE2::ANCHOR_START, groups.data(), groups.size())) {
    return {TokenKind::kBad, rest.substr(0, 1), position};
  }
  size_t kind = groups.size() - 1;
  while (groups[kind].data() == nullptr) --kind;
  return {static_cast<TokenKind>(kind), rest.substr(0, groups[0].size()), position};
}

// What Python (or C) has and we do not, with a way out.
std::string_view WayOut(std::string_view text) {
  if (text == "&" || text == "|" || text == "!") return "; use \"and\", \"or\", \"not\"";
  if (text == "=") return "; use \"==\"";
  if (text == "^" || text == "~" || text == "@") return "; there are no bit operations";
  if (text == "\"" || text == "'") return "; the string does not end";
  if (text == "lambda" || text == "if" || text == "for" || text == "is") {
    return "; not part of this grammar";
  }
  return "";
}

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, std::span<const std::string> names)
      : text_(text), names_(names) {}

  absl::StatusOr<Expression> Parse() {
    if (text_.size() > kMostBytes) {
      return InvalidArgument("the expression has ", text_.size(), " bytes; at most ", kMostBytes,
                             " are taken");
    }
    Advance(0);
    Code code = Or();
    if (error_.ok() && token_.kind != TokenKind::kEnd) Unexpected("an operator");
    if (!error_.ok()) return error_;
    return Expression{
        std::string(text_), {names_used_.begin(), names_used_.end()}, std::move(code)};
  }

 private:
  using Level = Code (ExpressionParser::*)();

  // Each level returns its code; after an error anything, which is not used.
  Code Or() { return Logical("or", &ExpressionParser::And); }
  Code And() { return Logical("and", &ExpressionParser::Not); }

  Code Logical(std::string_view word, Level operand) {
    return Deeper([&] {
      Code left = (this->*operand)();
      while (error_.ok() && Is(word)) {
        const size_t position = Advance();
        left = Add(position, [stops_at = word == "or", first = std::move(left),
                              second = (this->*operand)()](Evaluation& run) {
          Computed value = first(run);
          return !value.has_value() || IsTrue(*value) == stops_at ? value : second(run);
        });
      }
      return left;
    });
  }

  template <typename Parse>
  Code Deeper(Parse parse) {
    if (++level_ > kMostLevels) Fail(token_.position, "nested too deeply");
    Code code;
    if (error_.ok()) code = parse();
    --level_;
    return code;
  }

  Code Not() {
    size_t count = 0;
    const size_t position = token_.position;
    while (Is("not") && count < kMostNodes) Advance(), ++count;
    Code code = Compare();
    for (; count > 0 && error_.ok(); --count) {
      code = Add(position, [code = std::move(code)](Evaluation& run) {
        const Computed value = code(run);
        return value.has_value() ? Computed(!IsTrue(*value)) : value;
      });
    }
    return code;
  }

  Code Compare() {
    Code first = Sum();
    std::vector<Link> links;
    size_t first_at = 0;
    bool after_list = false;
    while (error_.ok()) {
      const size_t position = token_.position;
      const std::optional<int> comparison = TakeComparison();
      if (!comparison.has_value()) break;
      if (after_list) Fail(position, "nothing is compared after \"in\"; use parentheses");
      if (links.empty()) first_at = position;
      after_list = *comparison == kIn || *comparison == kNotIn;
      links.push_back(after_list ? ListLink(*comparison == kIn, position, List())
                                 : OrderLink(*comparison, position, Sum()));
      Count(position);
    }
    if (links.empty()) return first;
    return Add(first_at, ChainCode(std::move(first), std::move(links)));
  }

  // The comparison that comes next, if one does.
  std::optional<int> TakeComparison() {
    const bool negated = Is("not");
    if (negated) Advance();
    if (negated && !Is("in")) Unexpected("\"in\" after \"not\"");
    for (const auto& [sign, comparison] : kComparisons) {
      if (Is(sign)) return Advance(), negated ? kNotIn : comparison;
    }
    return std::nullopt;
  }

  Code Sum() { return Binary(kSums, &ExpressionParser::Product); }
  Code Product() { return Binary(kProducts, &ExpressionParser::Signed); }

  Code Binary(std::span<const Arithmetic> operators, Level operand) {
    Code left = (this->*operand)();
    while (error_.ok()) {
      const auto op = std::find_if(operators.begin(), operators.end(),
                                   [this](const Arithmetic& each) { return Is(each.sign); });
      if (op == operators.end()) break;
      const size_t position = Advance();
      left = Add(position, ArithmeticCode(*op, position, std::move(left), (this->*operand)()));
    }
    return left;
  }

  Code Signed() {
    const std::string_view sign = Is("-") ? "-" : "+";
    if (!Is(sign)) return Power();
    return Deeper([&] {
      const size_t position = Advance();
      return Add(position, SignCode(sign, position, Signed()));
    });
  }

  // Binds tighter than a sign on its left, looser than one on its right: -2 ** -1.
  Code Power() {
    Code base = Atom();
    if (!error_.ok() || !Is("**")) return base;
    return Deeper([&] {
      const size_t position = Advance();
      return Add(position, ArithmeticCode(kArithmetic.back(), position, std::move(base), Signed()));
    });
  }

  Code Atom() {
    if (!error_.ok()) return {};
    if (token_.kind == TokenKind::kNumber) return Number();
    if (token_.kind == TokenKind::kText) return Text();
    if (token_.kind == TokenKind::kName) return Name();
    if (!Is("(")) return Unexpected("a value");
    Advance();
    Code inside = Or();
    if (error_.ok() && !Is(")")) return Unexpected("\")\"");
    Advance();
    return inside;
  }

  Code Number() {
    const std::string_view text = token_.text;
    const size_t position = Advance();
    const auto literal = [&](auto number, const char* wanted) {
      const char* const end = text.data() + text.size();
      if (std::from_chars(text.data(), end, number).ec == std::errc()) {
        return Literal(position, number);
      }
      return Fail(position, text, " does not fit ", wanted);
    };
    // Out of range is infinity in Python; here it is refused (too small is 0 in both).
    if (text.find_first_of(".eE") != std::string_view::npos) return literal(0.0, "a double");
    if (text.size() > 1 && text[0] == '0') {
      return Fail(position, "an integer does not begin with 0");
    }
    return literal(int64_t{0}, "64 bits");
  }

  Code Text() {
    const size_t position = token_.position;
    const std::string_view quoted = token_.text.substr(1, token_.text.size() - 2);
    std::string text;
    for (size_t i = 0; i < quoted.size(); ++i) {
      const bool escaped = quoted[i] == '\\';
      i += escaped ? 1 : 0;
      if (escaped && quoted[i] != '\\' && quoted[i] != '\'' && quoted[i] != '"') {
        return Fail(position + i, "a backslash stands only before \\, ' and \"");
      }
      text.push_back(quoted[i]);
    }
    Advance();
    return Add(position, [text = std::move(text)](Evaluation& /*run*/) { return Computed(&text); });
  }

  Code Name() {
    const std::string_view name = token_.text;
    const size_t position = Advance();
    if (name == "True" || name == "False") return Literal(position, name == "True");
    if (name == "None") return Literal(position, Value());
    if (Is("(")) return Call(name, position);
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) {
      const auto index = static_cast<uint32_t>(found - names_.begin());
      names_used_.insert(index);
      return Add(position, [index](Evaluation& run) { return Computed(run.values[index]); });
    }
    const std::string known =
        absl::StrJoin(names_.first(std::min<size_t>(names_.size(), 20)), ", ");
    return Fail(position, "\"", name, "\" is no parameter", WayOut(name),
                "; there are: ", known.empty() ? "none" : known);
  }

  Code Call(std::string_view name, size_t position) {
    const bool is_abs = name == "abs";
    if (!is_abs && name != "min" && name != "max") {
      return Fail(position, "\"", name, "\" is no function; there are abs, min, max");
    }
    Advance();
    const bool is_list = !is_abs && Is("[");
    std::vector<Code> arguments = is_list ? List() : Items(")");
    if (is_list && Is(",")) return Unexpected("\")\" after the list");
    if (error_.ok() && !Is(")")) return Unexpected("\")\"");
    Advance();
    if (is_abs && arguments.size() != 1) return Fail(position, "abs takes one value");
    if (!is_abs && !is_list && arguments.size() < 2) {
      return Fail(position, name, " takes two values or more, or one list");
    }
    return Add(position, is_abs ? SignCode("abs", position, std::move(arguments[0]))
                                : ExtremeCode(name == "min", position, std::move(arguments)));
  }

  std::vector<Code> List() {
    const bool bracket = Is("[");
    if (error_.ok() && !bracket && !Is("(")) Unexpected("a list such as [1, 2]");
    if (!error_.ok()) return {};
    const size_t position = Advance();
    const std::string_view close = bracket ? "]" : ")";
    bool comma = false;
    std::vector<Code> items = Items(close, &comma);
    // (1) is a number in Python, (1,) a list.
    if (!bracket && items.size() == 1 && !comma) {
      Fail(position, "a list of one is written [x] or (x,)");
    }
    if (error_.ok() && !Is(close)) Unexpected(bracket ? "\"]\"" : "\")\"");
    Advance();
    Count(position);
    return items;
  }

  std::vector<Code> Items(std::string_view close, bool* comma = nullptr) {
    std::vector<Code> items;
    while (error_.ok() && !Is(close)) {
      items.push_back(Or());
      if (!Is(",")) break;
      if (comma != nullptr) *comma = true;
      Advance();
    }
    return items;
  }

  Code Literal(size_t position, const Value& value) {
    return Add(position, [value](Evaluation& /*run*/) { return Computed(value); });
  }

  Code Add(size_t position, Code code) {
    Count(position);
    return code;
  }
  void Count(size_t position) {
    if (nodes_++ == kMostNodes) Fail(position, "more than ", kMostNodes, " operators and values");
  }

  Code Unexpected(std::string_view wanted) {
    const std::string found = token_.kind == TokenKind::kEnd
                                  ? std::string("the end")
                                  : "\"" + std::string(token_.text) + "\"";
    return Fail(token_.position, "expected ", wanted, ", found ", found, WayOut(token_.text));
  }

  // The first error stays.
  template <typename... Parts>
  Code Fail(size_t position, const Parts&... parts) {
    if (error_.ok()) error_ = InvalidArgument("at ", position, ": ", parts...);
    return {};
  }

  // Goes on to the next token; where the token before it began.
  size_t Advance() {
    const size_t position = token_.position;
    Advance(token_.position + token_.text.size());
    return position;
  }
  void Advance(size_t from) { token_ = TokenAt(text_, from); }

  bool Is(std::string_view sign_or_word) const { return token_.text == sign_or_word; }

  std::string_view text_;
  std::span<const std::string> names_;
  std::set<uint32_t> names_used_;
  Token token_;
  int level_ = 0;
  size_t nodes_ = 0;
  absl::Status error_;
};

}  // namespace

absl::StatusOr<Expression> Expression::Parse(std::string_view text,
                                             std::span<const std::string> names) {
  return ExpressionParser(text, names).Parse();
}

Value ValueOf(const ParameterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  const auto* truth = std::get_if<bool>(&value);
  return truth != nullptr ? Value(*truth) : Value(std::get<int64_t>(value));
}

bool IsTrue(const Value& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto real = RealOf(value)) return *real != 0;
  if (const auto* text = std::get_if<const std::string*>(&value)) return !(*text)->empty();
  return !IsNone(value);
}

}  // namespace xplane_time::tune
