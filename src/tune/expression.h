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
// ("in" may also be "not in".) The semantics are Python's whenever there is a value. Chained
// comparisons, "and" and "or" stop early and yield an operand; a bool counts as 0 or 1; ints and
// floats compare exactly. The grammar is stricter than Python. The following are errors and never
// silent values: integers beyond 64 bits, "/" of integers beyond 2^53, floats that are not finite,
// arithmetic with strings or None, == between a string and a number. None only equals None.
//
//   auto fits = Expression::Parse("a * b <= 1024 and a % 32 == 0", names);
//   Expression::Parse("a & b", names).status()   // InvalidArgument: at 3: "&" ...
//   Expression::Parse("a / b", ...) with b == 0  // Evaluate: nullopt, "division by zero"
//
// Limits: 10,000 bytes, 1,000 nodes, 50 nested parentheses. Not supported: calls, attributes,
// subscripts, comprehensions, bit operations. Const objects may be shared between threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/space.h"

namespace xplane_time::tune {

// An array, an object, or a name without a value; no operator accepts it.
struct NoPlainValue {};
// None, a number, or a text that must outlive the value.
using Value = std::variant<std::monostate, bool, int64_t, double, const std::string*, NoPlainValue>;

// The value of a parameter; a text points into the parameter.
Value ValueOf(const ParameterValue& value);

// Whether a value is true: not None, not 0, not "". NoPlainValue is true.
bool IsTrue(const Value& value);

inline constexpr char kByZero[] = "division by zero";

// State of one evaluation. Cheap to create, because many configurations may fail to evaluate.
struct Evaluation {
  std::span<const Value> values = {};  // one for each name passed to Parse
  const char* reason = "";             // why there is no value
  uint32_t position = 0;               // byte of the expression that the reason refers to
};

struct Expression {
  // Errors: InvalidArgument with position, token and the accepted alternatives.
  static absl::StatusOr<Expression> Parse(std::string_view text,
                                          std::span<const std::string> names);

  std::string text = {};
  std::vector<uint32_t> names_used = {};  // indices, ascending
  // Computes the value; a text in it lives as long as this object. If it returns no value, the
  // evaluation has the reason.
  using Code = std::function<std::optional<Value>(Evaluation&)>;
  Code Evaluate = {};
};

// Parses parameter values that T1 files write in Python and kernel_tuner evaluates: a list, a
// tuple, range(...), list(...), or one comprehension in these. Errors: InvalidArgument without a
// position in a file.
inline constexpr size_t kMostValues = 1'000'000;  // for one parameter
absl::StatusOr<std::vector<ParameterValue>> ParsePythonValues(std::string_view text);

}  // namespace xplane_time::tune
