#include "tune/expression.h"

#include <cmath>
#include <limits>

namespace xplane_time::tune {
namespace {

using Op = Expression::Op;

constexpr int64_t kExactInDouble = int64_t{1} << 53;

bool IsNumber(const Value& v) {
  return v.kind == ValueKind::kInt || v.kind == ValueKind::kBool || v.kind == ValueKind::kFloat;
}
bool IsWhole(const Value& v) { return v.kind == ValueKind::kInt || v.kind == ValueKind::kBool; }
int64_t Whole(const Value& v) {
  return v.kind == ValueKind::kBool ? static_cast<int64_t>(v.truth) : v.integer;
}
double Real(const Value& v) {
  return v.kind == ValueKind::kFloat ? v.real : static_cast<double>(Whole(v));
}

template <typename T>
int Sign(T a, T b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// Exact: a double beyond 2^53 is not what an integer rounds to. `real` is finite.
int CompareExactly(int64_t integer, double real) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (real >= kTwo63) return -1;
  if (real < -kTwo63) return 1;
  const double whole = std::trunc(real);
  const int sign = Sign(integer, static_cast<int64_t>(whole));
  return sign != 0 ? sign : Sign(whole, real);
}

// Both are numbers.
int CompareNumbers(const Value& a, const Value& b) {
  if (IsWhole(a) && IsWhole(b)) return Sign(Whole(a), Whole(b));
  if (IsWhole(a)) return CompareExactly(Whole(a), b.real);
  if (IsWhole(b)) return -CompareExactly(Whole(b), a.real);
  return Sign(a.real, b.real);
}

// Equality as "in" has it: values of different kinds differ.
bool Equal(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) return CompareNumbers(a, b) == 0;
  if (a.kind != b.kind) return false;
  return a.kind == ValueKind::kNone || (a.kind == ValueKind::kString && *a.text == *b.text);
}

// Python's float division: the remainder has the divisor's sign.
double Modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

double FloorDivide(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

// By squaring; false where a step leaves 64 bits.
bool IntegerPower(int64_t base, int64_t exponent, int64_t* result) {
  int64_t power = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) return false;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  *result = power;
  return true;
}

}  // namespace

// One evaluation. The recursion is as deep as the tree, which Parse has bounded.
class Evaluator {
 public:
  Evaluator(const Expression& expression, std::span<const Value> values, EvaluationError* error)
      : e_(expression), values_(values), error_(error) {}

  bool Node(uint32_t index, Value* out) {
    const Expression::Node& node = e_.nodes_[index];
    switch (node.op) {
      case Op::kLiteral:
        *out = node.literal.kind == ValueKind::kString ? Value::Text(&e_.texts_[node.index])
                                                       : node.literal;
        return true;
      case Op::kName:
        *out = values_[node.index];
        return true;
      case Op::kNegate:
      case Op::kPlus:
      case Op::kAbs:
        return Unary(node, out);
      case Op::kNot:
        if (!Child(node, 0, out)) return false;
        *out = Value::Bool(!IsTrue(*out));
        return true;
      case Op::kAnd:
      case Op::kOr:
        if (!Child(node, 0, out)) return false;
        return IsTrue(*out) == (node.op == Op::kOr) || Child(node, 1, out);
      case Op::kCompare:
        return Chain(node, out);
      case Op::kMin:
      case Op::kMax:
        return Extreme(node, out);
      default:
        return Binary(node, out);
    }
  }

 private:
  bool Child(const Expression::Node& node, uint32_t i, Value* out) {
    return Node(e_.children_[node.first + i], out);
  }

  bool Fail(const Expression::Node& node, const char* reason) {
    *error_ = {reason, node.position};
    return false;
  }

  bool Overflow(const Expression::Node& node) { return Fail(node, "integer beyond 64 bits"); }

  bool Unary(const Expression::Node& node, Value* out) {
    Value value;
    if (!Child(node, 0, &value)) return false;
    if (!IsNumber(value)) return Fail(node, "needs a number");
    if (value.kind == ValueKind::kFloat) {
      *out = Value::Float(node.op == Op::kNegate ? -value.real
                          : node.op == Op::kAbs  ? std::fabs(value.real)
                                                 : value.real);
      return true;
    }
    int64_t integer = Whole(value);
    const bool negative = node.op == Op::kNegate || (node.op == Op::kAbs && integer < 0);
    if (negative && __builtin_sub_overflow(int64_t{0}, integer, &integer)) return Overflow(node);
    *out = Value::Int(integer);
    return true;
  }

  bool Binary(const Expression::Node& node, Value* out) {
    Value a, b;
    if (!Child(node, 0, &a) || !Child(node, 1, &b)) return false;
    if (!IsNumber(a) || !IsNumber(b)) return Fail(node, "needs two numbers");
    const bool divides =
        node.op == Op::kDivide || node.op == Op::kFloorDivide || node.op == Op::kModulo;
    if (divides && Real(b) == 0) return Fail(node, "division by zero");
    if (!IsWhole(a) || !IsWhole(b)) return Reals(node, Real(a), Real(b), out);
    if (node.op == Op::kDivide) return Quotient(node, Whole(a), Whole(b), out);
    if (node.op == Op::kPower && Whole(b) < 0) return Reals(node, Real(a), Real(b), out);
    int64_t integer = 0;
    if (!Integers(node.op, Whole(a), Whole(b), &integer)) return Overflow(node);
    *out = Value::Int(integer);
    return true;
  }

  // b != 0 where the operator divides, b >= 0 where it is a power.
  static bool Integers(Op op, int64_t a, int64_t b, int64_t* out) {
    switch (op) {
      case Op::kAdd:
        return !__builtin_add_overflow(a, b, out);
      case Op::kSubtract:
        return !__builtin_sub_overflow(a, b, out);
      case Op::kMultiply:
        return !__builtin_mul_overflow(a, b, out);
      case Op::kFloorDivide:
        if (b == -1) return !__builtin_sub_overflow(int64_t{0}, a, out);
        *out = a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
        return true;
      case Op::kModulo:
        if (b == -1) return *out = 0, true;
        *out = a % b;
        if (*out != 0 && (*out < 0) != (b < 0)) *out += b;
        return true;
      default:
        return IntegerPower(a, b, out);
    }
  }

  bool Quotient(const Expression::Node& node, int64_t a, int64_t b, Value* out) {
    const auto exact = [](int64_t x) { return x >= -kExactInDouble && x <= kExactInDouble; };
    if (!exact(a) || !exact(b)) {
      return Fail(node, "\"/\" of integers beyond 2^53 would not be exact (\"//\" is)");
    }
    *out = Value::Float(static_cast<double>(a) / static_cast<double>(b));
    return true;
  }

  static double Reals(Op op, double a, double b) {
    switch (op) {
      case Op::kAdd:
        return a + b;
      case Op::kSubtract:
        return a - b;
      case Op::kMultiply:
        return a * b;
      case Op::kDivide:
        return a / b;
      case Op::kFloorDivide:
        return FloorDivide(a, b);
      case Op::kModulo:
        return Modulo(a, b);
      default:
        return std::pow(a, b);
    }
  }

  bool Reals(const Expression::Node& node, double a, double b, Value* out) {
    if (node.op == Op::kPower && a == 0 && b < 0) return Fail(node, "division by zero");
    const double real = Reals(node.op, a, b);
    if (!std::isfinite(real)) return Fail(node, "not a finite number");
    *out = Value::Float(real);
    return true;
  }

  bool Chain(const Expression::Node& node, Value* out) {
    Value left;
    if (!Child(node, 0, &left)) return false;
    for (uint32_t i = 1; i < node.count; ++i) {
      const Expression::Node& link = e_.nodes_[e_.children_[node.first + i]];
      bool holds = false;
      if (link.op == Op::kIn || link.op == Op::kNotIn) {
        if (!Contains(link, left, &holds)) return false;
        holds = holds == (link.op == Op::kIn);
      } else {
        Value right;
        if (!Child(link, 0, &right) || !Compare(link, left, right, &holds)) return false;
        left = right;
      }
      *out = Value::Bool(holds);
      if (!holds) return true;
    }
    return true;
  }

  // All elements are computed before one is compared, as Python does.
  bool Contains(const Expression::Node& link, const Value& value, bool* found) {
    if (value.kind == ValueKind::kOther) return Fail(link, "needs a number, a string or None");
    const Expression::Node& list = e_.nodes_[e_.children_[link.first]];
    for (uint32_t i = 0; i < list.count; ++i) {
      Value element;
      if (!Child(list, i, &element)) return false;
      *found = *found || Equal(value, element);
    }
    return true;
  }

  bool Compare(const Expression::Node& link, const Value& a, const Value& b, bool* holds) {
    const bool equality = link.op == Op::kEqual || link.op == Op::kNotEqual;
    const bool none = a.kind == ValueKind::kNone || b.kind == ValueKind::kNone;
    const bool other = a.kind == ValueKind::kOther || b.kind == ValueKind::kOther;
    if (equality && none && !other) {
      *holds = (a.kind == b.kind) == (link.op == Op::kEqual);
      return true;
    }
    int sign = 0;
    if (!Order(a, b, &sign)) return Fail(link, "compares values of different types");
    *holds = Holds(link.op, sign);
    return true;
  }

  // Of the sign of left - right.
  static bool Holds(Op op, int sign) {
    switch (op) {
      case Op::kEqual:
        return sign == 0;
      case Op::kNotEqual:
        return sign != 0;
      case Op::kLess:
        return sign < 0;
      case Op::kLessEqual:
        return sign <= 0;
      case Op::kGreater:
        return sign > 0;
      default:
        return sign >= 0;
    }
  }

  // False: there is no order.
  static bool Order(const Value& a, const Value& b, int* sign) {
    if (IsNumber(a) && IsNumber(b)) return *sign = CompareNumbers(a, b), true;
    if (a.kind != ValueKind::kString || b.kind != ValueKind::kString) return false;
    *sign = a.text->compare(*b.text);
    return true;
  }

  // The first of equal ones, with its own type.
  bool Extreme(const Expression::Node& node, Value* out) {
    const Expression::Node& first = e_.nodes_[e_.children_[node.first]];
    const Expression::Node& items = first.op == Op::kList ? first : node;
    if (items.count == 0) return Fail(node, "of an empty list");
    for (uint32_t i = 0; i < items.count; ++i) {
      Value value;
      if (!Child(items, i, &value)) return false;
      int sign = 0;
      if (i > 0 && !Order(value, *out, &sign)) return Fail(node, "compares different types");
      if (i == 0 || (node.op == Op::kMin ? sign < 0 : sign > 0)) *out = value;
    }
    return true;
  }

  const Expression& e_;
  std::span<const Value> values_;
  EvaluationError* error_;
};

bool Expression::Evaluate(std::span<const Value> values, Value* result,
                          EvaluationError* error) const {
  return Evaluator(*this, values, error).Node(root_, result);
}

bool IsTrue(const Value& value) {
  switch (value.kind) {
    case ValueKind::kNone:
      return false;
    case ValueKind::kString:
      return !value.text->empty();
    case ValueKind::kOther:
      return true;
    default:
      return Real(value) != 0;
  }
}

}  // namespace xplane_time::tune
