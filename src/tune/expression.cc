// Compiles expressions to closures, one for each operator.
//
// 1. TokenAt splits the text with one regular expression. A bad token ends parsing with a hint
//    (WayOut).
// 2. Operation parses by precedence climbing: it reads an operand and continues while the next
//    operator binds at least as tightly as `least`. Comparisons form chains (Chain), as in Python.
// 3. Each parse function returns a closure that evaluates its part. A closure returns no value
//    after an error and stores the reason and its position in the Evaluation.
// 4. Lists of values of T1 files are Python text as well (ParseValues). They are evaluated while
//    they are read, so a comprehension evaluates its element once for each item.
//
// Nodes, nesting and values are limited, so that a file from elsewhere cannot exhaust stack or
// memory. Parsing and evaluation are linear in the nodes.
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
using Values = std::vector<ParameterValue>;

constexpr size_t kMostBytes = 10'000;
constexpr size_t kMostNodes = 1'000;
constexpr int kMostLevels = 100;                            // of all kinds together
constexpr int kABracket = 2, kASign = 1, kAnIterable = 10;  // levels that one bracket, sign or
                                                            // iterable counts for
constexpr char kOverflow[] = "integer beyond 64 bits";

// --- Values.

std::optional<int64_t> WholeOf(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  return std::nullopt;
}

// Exact: a double beyond 2^53 does not equal an integer that rounds to it.
std::optional<long double> NumberOf(const Value& value) {
  static_assert(std::numeric_limits<long double>::digits >= 63);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return WholeOf(value);
}

bool IsNone(const Value& value) { return std::holds_alternative<std::monostate>(value); }

// The sign of a - b; empty if they cannot be ordered.
std::optional<int> Order(const Value& a, const Value& b) {
  const auto sign = [](auto x, auto y) { return (x > y) - (x < y); };
  const auto x = NumberOf(a), y = NumberOf(b);
  if (x.has_value() && y.has_value()) return sign(*x, *y);
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

// By squaring; false if a step exceeds 64 bits.
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

// How tightly operators bind.
enum Binds : uint8_t { kOr, kAnd, kNot, kCompared, kSum, kProduct, kSign, kPower };

struct Arithmetic {
  std::string_view sign;
  Binds binds;
  double (*of_reals)(double, double);
  bool (*of_integers)(int64_t, int64_t, int64_t*);  // false: beyond 64 bits; null: only for reals
  bool divides = false;
};
constexpr std::array<Arithmetic, 7> kArithmetic = {{
    {"+", kSum, [](double a, double b) { return a + b; },
     [](int64_t a, int64_t b, int64_t* out) { return !__builtin_add_overflow(a, b, out); }},
    {"-", kSum, [](double a, double b) { return a - b; },
     [](int64_t a, int64_t b, int64_t* out) { return !__builtin_sub_overflow(a, b, out); }},
    {"*", kProduct, [](double a, double b) { return a * b; },
     [](int64_t a, int64_t b, int64_t* out) { return !__builtin_mul_overflow(a, b, out); }},
    {"//", kProduct, FloorDivide, FloorDivide, /*divides=*/true},
    {"/", kProduct, [](double a, double b) { return a / b; }, nullptr, /*divides=*/true},
    {"%", kProduct, Modulo,
     [](int64_t a, int64_t b, int64_t* out) { return *out = Modulo(a, b), true; },
     /*divides=*/true},
    {"**", kPower, [](double a, double b) { return std::pow(a, b); }, IntegerPower},
}};

Computed Compute(const Arithmetic& op, const Value& a, const Value& b, size_t position,
                 Evaluation& run) {
  const auto m = WholeOf(a), n = WholeOf(b);
  if (m.has_value() && n.has_value() && op.of_integers != nullptr &&
      !(op.binds == kPower && *n < 0)) {
    if (op.divides && *n == 0) return NoValue(run, position, kByZero);
    int64_t whole = 0;
    return op.of_integers(*m, *n, &whole) ? whole : NoValue(run, position, kOverflow);
  }
  const auto x = NumberOf(a), y = NumberOf(b);
  if (!x.has_value() || !y.has_value()) return NoValue(run, position, "needs two numbers");
  if ((op.divides && *y == 0) || (op.binds == kPower && *x == 0 && *y < 0)) {
    return NoValue(run, position, kByZero);
  }
  constexpr int64_t kExactInDouble = int64_t{1} << 53;
  const auto is_exact = [](int64_t whole) {
    return whole >= -kExactInDouble && whole <= kExactInDouble;
  };
  if (m.has_value() && n.has_value() && op.divides && !(is_exact(*m) && is_exact(*n))) {
    return NoValue(run, position, "\"/\" of integers beyond 2^53 would not be exact (\"//\" is)");
  }
  const double real = op.of_reals(static_cast<double>(*x), static_cast<double>(*y));
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
    const auto number = NumberOf(*value);
    if (!number.has_value()) return NoValue(run, position, "needs a number");
    const bool turns = what == "-" || (what == "abs" && std::signbit(*number));
    if (const auto* real = std::get_if<double>(&*value)) return turns ? -*real : *real;
    int64_t whole = *WholeOf(*value);
    if (turns && __builtin_sub_overflow(int64_t{0}, whole, &whole)) {
      return NoValue(run, position, kOverflow);
    }
    return whole;
  };
}

// The first of several equal values, with its type.
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
    return extreme.has_value() ? extreme
                               : NoValue(run, position, "minimum or maximum of an empty list");
  };
}

// --- Comparisons.

// The signs of left - right for which a comparison holds, as bits: less, equal, greater. Or "in".
enum Comparison : uint8_t { kEqual = 2, kNotEqual = 5, kIn = 8, kNotIn = 16 };
constexpr std::array<std::pair<std::string_view, int>, 7> kComparisons = {
    {{"==", kEqual}, {"!=", kNotEqual}, {"<", 1}, {"<=", 3}, {">", 4}, {">=", 6}, {"in", kIn}}};

// One comparison of a chain: whether it holds. The right operand becomes the left one of the next
// link.
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

// All elements are evaluated before one is compared, as in Python. Values of different kinds
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
  std::string_view text;  // kText: including its quotes
  size_t position = 0;
};

// One group for each kind, except kEnd. Numbers are Python's decimal forms without "_"; a number
// followed by a letter is bad.
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

// A hint for syntax of Python or C that this grammar lacks.
std::string_view WayOut(std::string_view text) {
  if (text == "&" || text == "|" || text == "!") return "; use \"and\", \"or\", \"not\"";
  if (text == "=") return "; use \"==\"";
  if (text == "^" || text == "~" || text == "@") return "; bit operations are not supported";
  if (text == "\"" || text == "'") return "; unterminated string";
  if (text == "lambda" || text == "if" || text == "for" || text == "is") {
    return "; not part of this grammar";
  }
  return "";
}

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, std::span<const std::string> names)
      : text_(text), names_(names), token_(TokenAt(text, 0)) {}

  absl::StatusOr<Expression> Parse() {
    if (text_.size() > kMostBytes) {
      return InvalidArgument("the expression has ", text_.size(), " bytes; the maximum is ",
                             kMostBytes);
    }
    Code code = Whole();
    if (error_.ok() && token_.kind != TokenKind::kEnd) Unexpected("an operator");
    if (!error_.ok()) return error_;
    return Expression{
        std::string(text_), {names_used_.begin(), names_used_.end()}, std::move(code)};
  }

  absl::StatusOr<Values> ParseValues() {
    // "1, 2, 3" is a tuple in Python.
    const bool is_bare = !Is("[") && !Is("(") && !Is("list") && !Is("range");
    Values values = is_bare ? Elements("") : Iterable();
    if (error_.ok() && token_.kind != TokenKind::kEnd) Unexpected("the end");
    if (!error_.ok()) return error_;
    return values;
  }

 private:
  // After an error, the return values of these functions are arbitrary and unused.
  Code Whole() { return Deeper(kABracket, token_.position, kOr); }

  Code Deeper(int levels, size_t position, int least) {
    level_ += levels;
    if (level_ > kMostLevels) Fail(position, "nested too deeply");
    Code code = Operation(least);
    level_ -= levels;
    return code;
  }

  // An operand, and the operators after it that bind at least as tightly as `least`.
  Code Operation(int least) {
    Code left = Operand(least);
    while (error_.ok()) {
      const size_t position = token_.position;
      if (const Arithmetic* op = ArithmeticHere(); op != nullptr && op->binds >= least) {
        Advance();
        // Binds tighter than a sign on its left, looser than a sign on its right: -2 ** -1.
        Code right =
            op->binds == kPower ? Deeper(kASign, position, kSign) : Operation(op->binds + 1);
        left = Add(position, ArithmeticCode(*op, position, std::move(left), std::move(right)));
      } else if (Is("or") ? least <= kOr : Is("and") && least <= kAnd) {
        const bool stops_at = Is("or");
        Advance();
        left = Add(position, [stops_at, first = std::move(left),
                              second = Operation(stops_at ? kAnd : kNot)](Evaluation& run) {
          Computed value = first(run);
          return !value.has_value() || IsTrue(*value) == stops_at ? value : second(run);
        });
      } else if (const auto comparison = least <= kCompared ? TakeComparison() : std::nullopt) {
        left = Chain(position, *comparison, std::move(left));
      } else {
        break;
      }
    }
    return left;
  }

  const Arithmetic* ArithmeticHere() const {
    const auto* const op = std::ranges::find(kArithmetic, token_.text, &Arithmetic::sign);
    return op == kArithmetic.end() ? nullptr : op;
  }

  Code Operand(int least) {
    if (!error_.ok()) return {};
    const size_t position = token_.position;
    if (Is("not") && least <= kNot) {
      Advance();
      Count(position);
      return [code = Operation(kNot)](Evaluation& run) {
        const Computed value = code(run);
        return value.has_value() ? Computed(!IsTrue(*value)) : value;
      };
    }
    const std::string_view sign = Is("-") ? "-" : "+";
    if (!Is(sign)) return Atom();
    Advance();
    return Add(position, SignCode(sign, position, Deeper(kASign, position, kSign)));
  }

  // A chain of comparisons; the first operator has been read.
  Code Chain(size_t first_at, int comparison, Code first) {
    std::vector<Link> links;
    size_t position = first_at;
    for (std::optional<int> next = comparison; next.has_value();) {
      const bool is_list = *next == kIn || *next == kNotIn;
      links.push_back(is_list ? ListLink(*next == kIn, position, List())
                              : OrderLink(*next, position, Operation(kSum)));
      Count(position);
      position = token_.position;
      next = error_.ok() ? TakeComparison() : std::nullopt;
      if (!is_list) continue;
      if (next.has_value())
        Fail(position, "no further comparison is allowed after \"in\"; use parentheses");
      if (ArithmeticHere() != nullptr) Unexpected("an operator");
    }
    return Add(first_at, ChainCode(std::move(first), std::move(links)));
  }

  // Reads the next comparison operator, if there is one.
  std::optional<int> TakeComparison() {
    const bool negated = Is("not");
    if (negated) Advance();
    if (negated && !Is("in")) Unexpected("\"in\" after \"not\"");
    for (const auto& [sign, comparison] : kComparisons) {
      if (Is(sign)) return Advance(), negated ? kNotIn : comparison;
    }
    return std::nullopt;
  }

  Code Atom() {
    if (token_.kind == TokenKind::kNumber) return Number();
    if (token_.kind == TokenKind::kText) return Text();
    if (token_.kind == TokenKind::kName) return Name();
    if (!Is("(")) return Unexpected("a value");
    Advance();
    Code inside = Whole();
    Expect(")");
    return inside;
  }

  Code Number() {
    const std::string_view text = token_.text;
    const size_t position = Advance();
    const auto literal = [&](auto number, const char* wanted) -> Code {
      const char* const end = text.data() + text.size();
      if (std::from_chars(text.data(), end, number).ec == std::errc()) {
        return Literal(position, number);
      }
      return Fail(position, text, " does not fit ", wanted);
    };
    // Out of range is infinity in Python; here it is an error (too small is 0 in both).
    if (text.find_first_of(".eE") != std::string_view::npos) return literal(0.0, "a double");
    if (text.size() > 1 && text[0] == '0') {
      return Fail(position, "an integer must not start with 0");
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
        return Fail(position + i, "a backslash is allowed only before \\, ' and \"");
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
    return Fail(position, "\"", name, "\" is not a parameter", WayOut(name),
                "; parameters: ", known.empty() ? "none" : known);
  }

  Code Call(std::string_view name, size_t position) {
    const bool is_abs = name == "abs";
    if (!is_abs && name != "min" && name != "max") {
      return Fail(position, "\"", name, "\" is not a function; functions: abs, min, max");
    }
    Advance();
    const bool is_list = !is_abs && Is("[");
    std::vector<Code> arguments = is_list ? List() : Items(")");
    if (is_list && Is(",")) return Unexpected("\")\" after the list");
    Expect(")");
    if (is_abs && arguments.size() != 1) return Fail(position, "abs requires one value");
    if (!is_abs && !is_list && arguments.size() < 2) {
      return Fail(position, name, " requires two or more values, or one list");
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
      Fail(position, "write a list of one value as [x] or (x,)");
    }
    Expect(close);
    Count(position);
    return items;
  }

  std::vector<Code> Items(std::string_view close, bool* comma = nullptr) {
    std::vector<Code> items;
    while (error_.ok() && !Is(close)) {
      items.push_back(Whole());
      if (!Is(",")) break;
      if (comma != nullptr) *comma = true;
      Advance();
    }
    return items;
  }

  // --- Lists of values.

  // A list, a tuple, range(...) or list(...); brackets may contain a comprehension.
  Values Iterable() {
    level_ += kAnIterable;
    if (level_ > kMostLevels) Fail(token_.position, "nested too deeply");
    const bool is_list = Is("list"), is_range = Is("range");
    if (is_list || is_range) Advance();
    const bool is_bracket = Is("[") && !is_list && !is_range;
    if (!is_bracket && !Is("(")) Unexpected("a list, range or comprehension");
    if (!error_.ok()) return {};
    Advance();
    const std::string_view close = is_bracket ? "]" : ")";
    const std::string name = NameOfFor();
    Values values = is_range        ? Range()
                    : !name.empty() ? Comprehension(name)
                    : is_list       ? Iterable()
                                    : Elements(close);
    Expect(close);
    level_ -= kAnIterable;
    return values;
  }

  // The variable of a comprehension in these brackets; empty if there is none.
  std::string NameOfFor() const {
    int level = 0;
    for (Token at = token_; at.kind != TokenKind::kEnd && level >= 0; at = After(at)) {
      if (level == 0 && at.text == "for") return std::string(After(at).text);
      level += at.text == "(" || at.text == "[" ? 1 : 0;
      level -= at.text == ")" || at.text == "]" ? 1 : 0;
    }
    return "";
  }

  // The elements up to `close`; a trailing comma is allowed.
  Values Elements(std::string_view close) {
    Values values;
    while (error_.ok() && !Is(close)) {
      const size_t position = token_.position;
      nodes_ = 0;
      const Code element = Whole();
      Take(Now(element, {}), position, &values);
      if (!Is(",")) break;
      Advance();
    }
    return values;
  }

  // ELEMENT for NAME in ITERABLE [if CONDITION]
  Values Comprehension(const std::string& name) {
    const size_t position = token_.position;
    names_ = {&name, 1};
    const Code element = Whole();
    Expect("for");
    Advance();
    Expect("in");
    const Values all = Iterable();
    names_ = {&name, 1};
    Code condition = [](Evaluation&) { return true; };
    if (Is("if")) {
      Advance();
      condition = Whole();
    }
    names_ = {};
    Values values;
    for (const ParameterValue& each : all) {
      const Computed kept = Now(condition, ValueOf(each));
      if (kept.has_value() && IsTrue(*kept)) Take(Now(element, ValueOf(each)), position, &values);
    }
    return values;
  }

  Values Range() {
    const size_t position = token_.position;
    std::vector<int64_t> numbers;
    for (const ParameterValue& each : Elements(")")) {
      const auto* const whole = std::get_if<int64_t>(&each);
      if (whole == nullptr) return Fail(position, "range requires integers");
      numbers.push_back(*whole);
    }
    const size_t count = numbers.size();
    if (count == 0 || count > 3) return Fail(position, "range requires 1 to 3 numbers");
    const int64_t step = count == 3 ? numbers[2] : 1;
    if (step == 0) return Fail(position, "the step of a range is 0");
    if (count == 1) numbers.insert(numbers.begin(), 0);
    Values values;
    for (int64_t i = numbers[0]; step > 0 ? i < numbers[1] : i > numbers[1];) {
      if (values.size() == kMostValues) return Fail(position, "more than ", kMostValues, " values");
      values.emplace_back(i);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return values;
  }

  Computed Now(const Code& code, const Value& bound) {
    if (!error_.ok()) return std::nullopt;
    Evaluation run = {{&bound, 1}};
    const Computed value = code(run);
    if (!value.has_value()) Fail(run.position, run.reason);
    return value;
  }

  void Take(const Computed& value, size_t position, Values* values) {
    if (!value.has_value()) return;
    const auto take = [&](const auto& plain) {
      using Plain = std::decay_t<decltype(plain)>;
      if constexpr (std::is_arithmetic_v<Plain>) {
        values->emplace_back(plain);
      } else if constexpr (std::is_pointer_v<Plain>) {
        values->emplace_back(*plain);
      } else {
        Fail(position, "not a number, string or bool");
      }
    };
    std::visit(take, *value);
  }

  // --- Shared by expressions and lists.

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

  // The unused return value after an error.
  struct Nothing {
    template <typename T>
    operator T() const {
      return {};
    }
  };

  Nothing Unexpected(std::string_view wanted) {
    const std::string found = token_.kind == TokenKind::kEnd
                                  ? std::string("the end")
                                  : "\"" + std::string(token_.text) + "\"";
    return Fail(token_.position, "expected ", wanted, ", found ", found, WayOut(token_.text));
  }

  // Keeps the first error.
  template <typename... Parts>
  Nothing Fail(size_t position, const Parts&... parts) {
    if (error_.ok()) error_ = InvalidArgument("at ", position, ": ", parts...);
    return {};
  }

  void Expect(std::string_view sign_or_word) {
    if (error_.ok() && !Is(sign_or_word)) Unexpected(Cat("\"", sign_or_word, "\""));
    Advance();
  }

  // Moves to the next token and returns the position of the current one.
  size_t Advance() { return std::exchange(token_, After(token_)).position; }
  Token After(const Token& token) const {
    return TokenAt(text_, token.position + token.text.size());
  }

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

absl::StatusOr<Values> ParsePythonValues(std::string_view text) {
  constexpr size_t kMost = size_t{64} << 20;
  if (text.size() > kMost) return absl::InvalidArgumentError("over 64 MiB");
  return ExpressionParser(text, {}).ParseValues();
}

Value ValueOf(const ParameterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  const auto* truth = std::get_if<bool>(&value);
  return truth != nullptr ? Value(*truth) : Value(std::get<int64_t>(value));
}

bool IsTrue(const Value& value) {
  if (const auto number = NumberOf(value)) return *number != 0;
  if (const auto* text = std::get_if<const std::string*>(&value)) return !(*text)->empty();
  return !IsNone(value);
}

}  // namespace xplane_time::tune
