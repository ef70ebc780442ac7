// Expression: the closed grammar of constraints, a subset of Python's expressions.
//
// clang-format off
//   or:      and ("or" and)*                     unary: ("-" | "+") unary | power
//   and:     not ("and" not)*                    power: atom ["**" unary]
//   not:     "not" not | compare                 atom:  int | float | string | True | False | None
//   compare: sum (OP sum)* ["in" list]                  | NAME | "(" or ")" | abs(or)
//   sum:     term (("+" | "-") term)*                   | min(or, or...) | max(or, or...)
//   term:    unary (("*" | "/" | "//" | "%") unary)*    | min(list) | max(list)
//   OP:      == != < <= > >=                     list:  "[" or, ... "]" | "(" or, ... ")"
// clang-format on
//
// ("in" may also be "not in".) Meaning: Python's, wherever a value comes out. Chained
// comparisons, "and" and "or" stop early and yield an operand; a bool counts as 0 or 1;
// ints and floats compare exactly. Stricter than Python, each an error and never a silent
// value: integers beyond 64 bits, "/" of integers beyond 2^53, floats that are not finite,
// arithmetic with strings or None, == between a string and a number. None equals only None.
//
//   auto fits = Expression::Parse("a * b <= 1024 and a % 32 == 0", names);
//   Expression::Parse("a & b", names).status()   // InvalidArgument: at 3: "&" ...
//   Expression::Parse("a / b", ...) with b == 0  // Evaluate: false, "division by zero"
//
// Bounded: 10,000 bytes, 1,000 nodes, 50 parentheses deep. Not handled: calls, attributes,
// subscripts, comprehensions, bit operations. Const objects are safe to share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace xplane_time::tune {

enum class ValueKind : uint8_t { kNone, kBool, kInt, kFloat, kString, kOther };

// A number or a reference to text that outlives it. kOther (an array, an object, a name
// without a value) fits no operator.
struct Value {
  ValueKind kind = ValueKind::kNone;
  union {
    bool truth;
    int64_t integer;
    double real;
    const std::string* text;
  };

  Value() : integer(0) {}
  static Value None() { return {}; }
  static Value Bool(bool value) { return Value(value); }
  static Value Int(int64_t value) { return Value(value); }
  static Value Float(double value) { return Value(value); }
  static Value Text(const std::string* value) { return Value(value); }
  static Value Other() { return Value(ValueKind::kOther); }

 private:
  explicit Value(ValueKind of) : kind(of), integer(0) {}
  explicit Value(bool value) : kind(ValueKind::kBool), truth(value) {}
  explicit Value(int64_t value) : kind(ValueKind::kInt), integer(value) {}
  explicit Value(double value) : kind(ValueKind::kFloat), real(value) {}
  explicit Value(const std::string* value) : kind(ValueKind::kString), text(value) {}
};

// Why there is no value. Cheap to make: configurations that cannot be computed may be many.
struct EvaluationError {
  const char* reason = "";
  uint32_t position = 0;  // byte of the expression
};

class Expression {
 public:
  // Errors: InvalidArgument with position, token and what would do.
  static absl::StatusOr<Expression> Parse(std::string_view text,
                                          std::span<const std::string> names);

  // `values`: one for each name given to Parse. False: there is no value.
  bool Evaluate(std::span<const Value> values, Value* result, EvaluationError* error) const;

  const std::string& text() const { return text_; }
  // Indices of the names that occur, ascending.
  const std::vector<uint32_t>& names_used() const { return names_used_; }

  enum class Op : uint8_t {
    kLiteral,
    kName,
    kList,
    kNegate,
    kPlus,
    kNot,
    kAnd,
    kOr,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kFloorDivide,
    kModulo,
    kPower,
    kCompare,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIn,
    kNotIn,
    kAbs,
    kMin,
    kMax,
  };
  // Children are children_[first, first + count). Those of kCompare: an operand, then one
  // node a link of the chain, whose only child is the operand on its right.
  struct Node {
    Op op = Op::kLiteral;
    uint32_t position = 0;
    uint32_t first = 0, count = 0;
    uint32_t index = 0;  // kName: of the value; a text literal: into texts_
    Value literal;
  };

 private:
  friend class ExpressionParser;
  friend class Evaluator;

  std::string text_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> children_;
  std::vector<std::string> texts_;
  std::vector<uint32_t> names_used_;
  uint32_t root_ = 0;
};

// Whether a value counts as true: not None, not 0, not "". kOther does.
bool IsTrue(const Value& value);

}  // namespace xplane_time::tune
