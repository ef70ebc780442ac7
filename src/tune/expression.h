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
//   Expression::Parse("a / b", ...) with b == 0  // Evaluate: nullopt, "division by zero"
//
// Bounded: 10,000 bytes, 1,000 nodes, 50 parentheses deep. Not handled: calls, attributes,
// subscripts, comprehensions, bit operations. Const objects are safe to share.
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

// An array, an object, a name without a value: fits no operator.
struct NoPlainValue {};
// None, a number, or a text that outlives it.
using Value = std::variant<std::monostate, bool, int64_t, double, const std::string*, NoPlainValue>;

// Of a parameter; a text is the parameter's.
Value ValueOf(const ParameterValue& value);

// Whether a value counts as true: not None, not 0, not "". NoPlainValue does.
bool IsTrue(const Value& value);

inline constexpr char kByZero[] = "division by zero";

// One computation. Cheap to make: configurations that cannot be computed may be many.
struct Evaluation {
  std::span<const Value> values = {};  // one for each name given to Parse
  const char* reason = "";             // why there is no value
  uint32_t position = 0;               // of that: byte of the expression
};

struct Expression {
  // Errors: InvalidArgument with position, token and what would do.
  static absl::StatusOr<Expression> Parse(std::string_view text,
                                          std::span<const std::string> names);

  std::string text = {};
  std::vector<uint32_t> names_used = {};  // indices, ascending
  // What comes out; its text lives as long as this. None: the evaluation says why.
  using Code = std::function<std::optional<Value>(Evaluation&)>;
  Code Evaluate = {};
};

// Parameter values as T1 writes them in Python, where kernel_tuner evaluates them: a list, a tuple,
// range(...), list(...), or one comprehension in these. Errors: InvalidArgument without a place in
// a file.
inline constexpr size_t kMostValues = 1'000'000;  // of one parameter
absl::StatusOr<std::vector<ParameterValue>> ParsePythonValues(std::string_view text);

}  // namespace xplane_time::tune
