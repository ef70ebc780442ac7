// From text to nodes: a recursive descent, one function a level of the grammar.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/expression.h"

namespace xplane_time::tune {
namespace {

constexpr size_t kMostBytes = 10'000;
constexpr size_t kMostNodes = 1'000;
constexpr int kMostLevels = 100;  // two a parenthesis

enum class TokenKind : uint8_t { kEnd, kNumber, kText, kName, kSign, kBad };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // kText: with its quotes
  size_t position = 0;
};

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Length of the number at the beginning; 0: none. Python's decimal forms without "_".
size_t NumberLength(std::string_view text) {
  size_t i = 0, digits = 0;
  while (i < text.size() && IsDigit(text[i])) ++i, ++digits;
  if (i < text.size() && text[i] == '.') {
    ++i;
    while (i < text.size() && IsDigit(text[i])) ++i, ++digits;
  }
  if (digits == 0) return 0;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    size_t j = i + 1;
    if (j < text.size() && (text[j] == '+' || text[j] == '-')) ++j;
    const size_t exponent = j;
    while (j < text.size() && IsDigit(text[j])) ++j;
    if (j > exponent) i = j;
  }
  return i;
}

// Length of the quoted string at the beginning; 0: it does not end.
size_t TextLength(std::string_view text) {
  for (size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == text[0]) {
      return i + 1;
    }
  }
  return 0;
}

constexpr std::array<std::string_view, 18> kSigns = {
    "**", "//", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ","};

Token TokenAt(std::string_view text, size_t position) {
  while (position < text.size() && IsSpace(text[position])) ++position;
  const std::string_view rest = text.substr(position);
  if (rest.empty()) return {TokenKind::kEnd, rest, position};
  const auto token = [&](TokenKind kind, size_t length) {
    return Token{kind, rest.substr(0, length), position};
  };
  if (const size_t length = NumberLength(rest); length > 0) {
    const bool runs_on = length < rest.size() && IsNameStart(rest[length]);
    return token(runs_on ? TokenKind::kBad : TokenKind::kNumber, runs_on ? length + 1 : length);
  }
  if (IsNameStart(rest[0])) {
    size_t length = 1;
    while (length < rest.size() && (IsNameStart(rest[length]) || IsDigit(rest[length]))) ++length;
    return token(TokenKind::kName, length);
  }
  if (rest[0] == '"' || rest[0] == '\'') {
    const size_t length = TextLength(rest);
    return length > 0 ? token(TokenKind::kText, length) : token(TokenKind::kBad, 1);
  }
  for (std::string_view sign : kSigns) {
    if (rest.starts_with(sign)) return token(TokenKind::kSign, sign.size());
  }
  return token(TokenKind::kBad, 1);
}

// What Python (or C) has and we do not, with a way out.
std::string WayOut(const Token& token) {
  const std::string_view text = token.text;
  if (text == "&" || text == "|" || text == "!") return "; use \"and\", \"or\", \"not\"";
  if (text == "=") return "; use \"==\"";
  if (text == "^" || text == "~" || text == "@") return "; there are no bit operations";
  if (text == "\"" || text == "'") return "; the string does not end";
  if (text == "lambda" || text == "if" || text == "for" || text == "is") {
    return "; not part of this grammar";
  }
  return "";
}

}  // namespace

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, std::span<const std::string> names)
      : text_(text), names_(names) {}

  absl::StatusOr<Expression> Parse() {
    if (text_.size() > kMostBytes) {
      return InvalidArgument("the expression has ", text_.size(), " bytes; at most ", kMostBytes,
                             " are taken");
    }
    out_.text_ = std::string(text_);
    Advance(0);
    out_.root_ = Or();
    if (error_.empty() && token_.kind != TokenKind::kEnd) Unexpected("an operator");
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    std::sort(out_.names_used_.begin(), out_.names_used_.end());
    const auto last = std::unique(out_.names_used_.begin(), out_.names_used_.end());
    out_.names_used_.erase(last, out_.names_used_.end());
    return std::move(out_);
  }

 private:
  using Op = Expression::Op;

  // Each level returns the index of its node; after an error any index, which is not used.
  uint32_t Or() { return Logical(Op::kOr, "or", &ExpressionParser::And); }
  uint32_t And() { return Logical(Op::kAnd, "and", &ExpressionParser::Not); }

  uint32_t Logical(Op op, std::string_view word, uint32_t (ExpressionParser::*operand)()) {
    return Deeper([&] {
      uint32_t left = (this->*operand)();
      while (error_.empty() && IsWord(word)) {
        const size_t position = Advance();
        left = Add(op, position, {left, (this->*operand)()});
      }
      return left;
    });
  }

  template <typename Parse>
  uint32_t Deeper(Parse parse) {
    if (++level_ > kMostLevels) Fail(token_.position, "nested too deeply");
    const uint32_t node = error_.empty() ? parse() : 0;
    --level_;
    return node;
  }

  uint32_t Not() {
    size_t count = 0, position = token_.position;
    while (IsWord("not") && count < kMostNodes) Advance(), ++count;
    uint32_t node = Compare();
    for (; count > 0 && error_.empty(); --count) node = Add(Op::kNot, position, {node});
    return node;
  }

  uint32_t Compare() {
    std::vector<uint32_t> chain = {Sum()};
    bool after_list = false;
    while (error_.empty()) {
      const size_t position = token_.position;
      const std::optional<Op> op = ComparisonOp();
      if (!op.has_value()) break;
      if (after_list) Fail(position, "nothing is compared after \"in\"; use parentheses");
      after_list = *op == Op::kIn || *op == Op::kNotIn;
      chain.push_back(Add(*op, position, {after_list ? List() : Sum()}));
    }
    return chain.size() == 1 ? chain[0] : Add(Op::kCompare, Position(chain[1]), chain);
  }

  // Takes the comparison operator that comes next, if one does.
  std::optional<Op> ComparisonOp() {
    constexpr std::array<std::pair<std::string_view, Op>, 6> kOps = {{{"==", Op::kEqual},
                                                                      {"!=", Op::kNotEqual},
                                                                      {"<", Op::kLess},
                                                                      {"<=", Op::kLessEqual},
                                                                      {">", Op::kGreater},
                                                                      {">=", Op::kGreaterEqual}}};
    for (const auto& [sign, op] : kOps) {
      if (IsSign(sign)) return Advance(), op;
    }
    if (IsWord("in")) return Advance(), Op::kIn;
    if (!IsWord("not")) return std::nullopt;
    Advance();
    if (!IsWord("in")) Unexpected("\"in\" after \"not\"");
    return Advance(), Op::kNotIn;
  }

  uint32_t Sum() {
    return Binary({{"+", Op::kAdd}, {"-", Op::kSubtract}}, &ExpressionParser::Term);
  }
  uint32_t Term() {
    return Binary(
        {{"*", Op::kMultiply}, {"//", Op::kFloorDivide}, {"/", Op::kDivide}, {"%", Op::kModulo}},
        &ExpressionParser::Unary);
  }

  uint32_t Binary(std::initializer_list<std::pair<std::string_view, Op>> ops,
                  uint32_t (ExpressionParser::*operand)()) {
    uint32_t left = (this->*operand)();
    while (error_.empty()) {
      const auto* op =
          std::find_if(ops.begin(), ops.end(), [this](const auto& o) { return IsSign(o.first); });
      if (op == ops.end()) break;
      const size_t position = Advance();
      left = Add(op->second, position, {left, (this->*operand)()});
    }
    return left;
  }

  uint32_t Unary() {
    const bool negate = IsSign("-");
    if (!negate && !IsSign("+")) return Power();
    return Deeper([&] {
      const size_t position = Advance();
      return Add(negate ? Op::kNegate : Op::kPlus, position, {Unary()});
    });
  }

  // Binds tighter than a sign on its left, looser than one on its right: -2 ** -1.
  uint32_t Power() {
    const uint32_t base = Atom();
    if (!error_.empty() || !IsSign("**")) return base;
    return Deeper([&] {
      const size_t position = Advance();
      return Add(Op::kPower, position, {base, Unary()});
    });
  }

  uint32_t Atom() {
    if (!error_.empty()) return 0;
    switch (token_.kind) {
      case TokenKind::kNumber:
        return Number();
      case TokenKind::kText:
        return Text();
      case TokenKind::kName:
        return Name();
      default:
        break;
    }
    if (!IsSign("(")) return Unexpected("a value");
    Advance();
    const uint32_t inside = Or();
    if (error_.empty() && !IsSign(")")) return Unexpected("\")\"");
    Advance();
    return inside;
  }

  uint32_t Number() {
    const std::string_view text = token_.text;
    const size_t position = token_.position;
    const auto read = [&](auto number) {
      const char* const end = text.data() + text.size();
      return std::from_chars(text.data(), end, number).ec == std::errc() ? std::optional(number)
                                                                         : std::nullopt;
    };
    Advance();
    if (text.find_first_of(".eE") == std::string_view::npos) {
      if (text.size() > 1 && text[0] == '0') {
        return Fail(position, "an integer does not begin with 0");
      }
      const auto integer = read(int64_t{0});
      if (integer.has_value()) return Literal(position, Value::Int(*integer));
      return Fail(position, absl::StrCat(Absl(text), " does not fit 64 bits"));
    }
    // Out of range is infinity in Python; here it is refused (too small is 0 in both).
    const auto real = read(0.0);
    if (real.has_value()) return Literal(position, Value::Float(*real));
    return Fail(position, absl::StrCat(Absl(text), " does not fit a double"));
  }

  uint32_t Text() {
    const size_t position = token_.position;
    const std::string_view quoted = token_.text.substr(1, token_.text.size() - 2);
    std::string text;
    for (size_t i = 0; i < quoted.size(); ++i) {
      if (quoted[i] != '\\') {
        text.push_back(quoted[i]);
        continue;
      }
      const char escaped = quoted[++i];
      if (escaped != '\\' && escaped != '\'' && escaped != '"') {
        return Fail(position + i, "a backslash stands only before \\, ' and \"");
      }
      text.push_back(escaped);
    }
    Advance();
    const uint32_t node = Literal(position, Value::Text(nullptr));
    out_.nodes_[node].index = static_cast<uint32_t>(out_.texts_.size());
    out_.texts_.push_back(std::move(text));
    return node;
  }

  uint32_t Name() {
    const std::string name(token_.text);
    const size_t position = Advance();
    if (name == "True" || name == "False") return Literal(position, Value::Bool(name == "True"));
    if (name == "None") return Literal(position, Value::None());
    if (IsSign("(")) return Call(name, position);
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) return UnknownName(name, position);
    const uint32_t node = Add(Op::kName, position, {});
    out_.nodes_[node].index = static_cast<uint32_t>(found - names_.begin());
    out_.names_used_.push_back(out_.nodes_[node].index);
    return node;
  }

  uint32_t UnknownName(const std::string& name, size_t position) {
    const Token token = {TokenKind::kName, name, position};
    std::string known;
    for (size_t i = 0; i < names_.size() && i < 20; ++i) {
      absl::StrAppend(&known, i == 0 ? "" : ", ", names_[i]);
    }
    return Fail(position, absl::StrCat("\"", name, "\" is no parameter", WayOut(token),
                                       "; there are: ", known.empty() ? "none" : known));
  }

  uint32_t Call(const std::string& name, size_t position) {
    if (name != "abs" && name != "min" && name != "max") {
      return Fail(position, absl::StrCat("\"", name, "\" is no function; there are abs, min, max"));
    }
    const Op op = name == "abs" ? Op::kAbs : name == "min" ? Op::kMin : Op::kMax;
    Advance();
    std::vector<uint32_t> arguments;
    if (op != Op::kAbs && IsSign("[")) {
      arguments = {List()};
      if (IsSign(",")) return Unexpected("\")\" after the list");
    } else {
      arguments = Items(")");
    }
    if (error_.empty() && !IsSign(")")) return Unexpected("\")\"");
    Advance();
    if (op == Op::kAbs && arguments.size() != 1) return Fail(position, "abs takes one value");
    const bool a_list =
        arguments.size() == 1 && error_.empty() && out_.nodes_[arguments[0]].op == Op::kList;
    if (op != Op::kAbs && arguments.size() < 2 && !a_list) {
      return Fail(position, absl::StrCat(name, " takes two values or more, or one list"));
    }
    return Add(op, position, arguments);
  }

  uint32_t List() {
    if (!error_.empty()) return 0;
    const bool bracket = IsSign("[");
    if (!bracket && !IsSign("(")) return Unexpected("a list such as [1, 2]");
    const size_t position = Advance();
    const std::string_view close = bracket ? "]" : ")";
    bool comma = false;
    const std::vector<uint32_t> items = Items(close, &comma);
    if (!error_.empty()) return 0;
    // (1) is a number in Python, (1,) a list.
    if (!bracket && items.size() == 1 && !comma) {
      return Fail(position, "a list of one is written [x] or (x,)");
    }
    if (!IsSign(close)) return Unexpected(bracket ? "\"]\"" : "\")\"");
    Advance();
    return Add(Op::kList, position, items);
  }

  std::vector<uint32_t> Items(std::string_view close, bool* comma = nullptr) {
    std::vector<uint32_t> items;
    while (error_.empty() && !IsSign(close)) {
      items.push_back(Or());
      if (!IsSign(",")) break;
      if (comma != nullptr) *comma = true;
      Advance();
    }
    return items;
  }

  uint32_t Literal(size_t position, const Value& value) {
    const uint32_t node = Add(Op::kLiteral, position, {});
    out_.nodes_[node].literal = value;
    return node;
  }

  uint32_t Add(Op op, size_t position, const std::vector<uint32_t>& children) {
    if (out_.nodes_.size() >= kMostNodes) {
      Fail(position, absl::StrCat("more than ", kMostNodes, " operators and values"));
      return 0;
    }
    Expression::Node node;
    node.op = op;
    node.position = static_cast<uint32_t>(position);
    node.first = static_cast<uint32_t>(out_.children_.size());
    node.count = static_cast<uint32_t>(children.size());
    out_.children_.insert(out_.children_.end(), children.begin(), children.end());
    out_.nodes_.push_back(node);
    return static_cast<uint32_t>(out_.nodes_.size() - 1);
  }

  uint32_t Unexpected(std::string_view wanted) {
    const std::string found = token_.kind == TokenKind::kEnd
                                  ? std::string("the end")
                                  : absl::StrCat("\"", Absl(token_.text), "\"");
    return Fail(token_.position,
                absl::StrCat("expected ", Absl(wanted), ", found ", found, WayOut(token_)));
  }

  // The first error stays.
  uint32_t Fail(size_t position, std::string_view what) {
    if (error_.empty()) error_ = absl::StrCat("at ", position, ": ", Absl(what));
    return 0;
  }

  // Goes on to the next token; where the token before it began.
  size_t Advance() {
    const size_t position = token_.position;
    Advance(token_.position + token_.text.size());
    return position;
  }
  void Advance(size_t from) { token_ = TokenAt(text_, from); }

  bool IsSign(std::string_view sign) const {
    return token_.kind == TokenKind::kSign && token_.text == sign;
  }
  bool IsWord(std::string_view word) const {
    return token_.kind == TokenKind::kName && token_.text == word;
  }
  size_t Position(uint32_t node) const {
    return node < out_.nodes_.size() ? out_.nodes_[node].position : 0;
  }
  static absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

  std::string_view text_;
  std::span<const std::string> names_;
  Token token_;
  int level_ = 0;
  std::string error_;
  Expression out_;
};

absl::StatusOr<Expression> Expression::Parse(std::string_view text,
                                             std::span<const std::string> names) {
  return ExpressionParser(text, names).Parse();
}

}  // namespace xplane_time::tune
