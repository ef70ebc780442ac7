#include "tune/space_json.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "json/json.h"

namespace xplane_time::tune {
namespace {

// -0.0 and 0.0 are equal and must have one text.
void DropNegativeZeros(Json& value) {
  if (value.is_number_float() && value.get<double>() == 0) value = 0.0;
  if (value.is_structured()) {
    for (Json& child : value) DropNegativeZeros(child);
  }
}

std::string Shortened(std::string text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// Without it, texts that differ in their last characters only share most digits.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view source) {
  if (json::NestsDeeper(text)) {
    return InvalidArgument(source, ": nested more than ", json::kMostLevels,
                           " levels deep; flatten the parameters");
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    return InvalidArgument(source, ": not JSON (byte ", error.byte, ")");
  } catch (const Json::exception& error) {  // a number out of range
    return InvalidArgument(source, ": not JSON: ", error.what());
  }
}

Json Stored(std::string_view text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json() : value;
}

std::string CanonicalJson(const Json& value) {
  Json copy = value;
  DropNegativeZeros(copy);
  return copy.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string StableHash(std::string_view text) {
  __extension__ typedef unsigned __int128 Uint128;
  constexpr Uint128 kPrime = (Uint128{1} << 88) + 0x13b;
  Uint128 hash = (Uint128{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= kPrime;
  }
  auto high = static_cast<uint64_t>(hash >> 64), low = static_cast<uint64_t>(hash);
  high = Mix(high + low);
  low = Mix(low + high);
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

Field Field::At(const char* key) const {
  return {value_->at(key), source_, absl::StrCat(path_, ".", key)};
}

Field Field::Item(size_t i) const {
  return {(*value_)[i], source_, absl::StrCat(path_, "[", i, "]")};
}

std::string Field::Shown() const { return Shortened(CanonicalJson(*value_)); }

absl::Status Field::Read(std::string* into) const {
  if (!value_->is_string()) return BadValue("is not a string");
  *into = value_->get<std::string>();
  return absl::OkStatus();
}

absl::Status Field::Read(int64_t* into) const {
  if (!value_->is_number_integer()) return BadValue("is not an integer");
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t{INT64_MAX}) {
    return BadValue("does not fit 64 bits");
  }
  *into = value_->get<int64_t>();
  return absl::OkStatus();
}

absl::Status Field::Read(double* into) const {
  if (!value_->is_number()) return BadValue("is not a number");
  const auto real = value_->get<double>();
  if (!std::isfinite(real)) return BadValue("is not a finite number");
  *into = real;
  return absl::OkStatus();
}

absl::Status Field::ExpectArray() const {
  return value_->is_array() ? absl::OkStatus() : BadValue("is not an array");
}

absl::Status Field::Each(absl::FunctionRef<absl::Status(const Field&)> visit) const {
  RETURN_IF_ERROR(ExpectArray());
  for (size_t i = 0; i < value_->size(); ++i) RETURN_IF_ERROR(visit(Item(i)));
  return absl::OkStatus();
}

absl::Status Field::ExpectObject(std::initializer_list<const char*> keys) const {
  if (!value_->is_object()) return BadValue("is not an object");
  for (const auto& [key, unused] : value_->items()) {
    if (key == "comment" || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    return Error("unknown field \"", Shortened(key), "\"; known: ", absl::StrJoin(keys, ", "),
                 ", comment");
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterValue> ReadValue(const Field& field, ParameterType type) {
  const Json& value = field.value();
  if (type == ParameterType::kBool && value.is_boolean()) return value.get<bool>();
  if (type == ParameterType::kString && value.is_string()) return value.get<std::string>();
  if (type == ParameterType::kInt && value.is_number_integer()) {
    int64_t whole = 0;
    RETURN_IF_ERROR(field.Read(&whole));
    return whole;
  }
  if (type == ParameterType::kFloat && value.is_number()) {
    double real = 0;
    RETURN_IF_ERROR(field.Read(&real));
    return real == 0 ? 0.0 : real;
  }
  return field.BadValue("is not of type ", TypeName(type));
}

absl::StatusOr<std::vector<ParameterValue>> ReadValues(const Field& list, ParameterType type) {
  std::vector<ParameterValue> values;
  RETURN_IF_ERROR(list.Each([&](const Field& item) -> absl::Status {
    ASSIGN_OR_RETURN(values.emplace_back(), ReadValue(item, type));
    return absl::OkStatus();
  }));
  return values;
}

Json JsonOf(const ParameterValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

absl::Status CheckDistinct(const Parameter& parameter, const Field& field) {
  std::set<ParameterValue> seen;
  for (const ParameterValue& value : parameter.values) {
    if (seen.insert(value).second) continue;
    return field.Error("the value ", CanonicalJson(JsonOf(value)), " occurs twice; list it once");
  }
  return absl::OkStatus();
}

std::optional<ParameterType> TypeNamed(std::string_view name) {
  const auto* const at = std::ranges::find(kTypeNames, name);
  if (at == kTypeNames.end()) return std::nullopt;
  return static_cast<ParameterType>(at - kTypeNames.begin());
}

absl::Status ReadParameters(const Field& list, const char* name,
                            absl::FunctionRef<absl::Status(const Field&, Parameter*)> read,
                            SearchSpace* space) {
  if (list.value().size() > kMostParameters) {
    return list.Error("more than ", kMostParameters, " parameters");
  }
  std::set<std::string> seen;
  return list.Each([&](const Field& item) -> absl::Status {
    Parameter& parameter = space->parameters.emplace_back();
    RETURN_IF_ERROR(read(item, &parameter));
    RETURN_IF_ERROR(CheckDistinct(parameter, item));
    if (seen.insert(parameter.name).second) return absl::OkStatus();
    return item.At(name).BadValue("is the name of two parameters; rename one");
  });
}

absl::StatusOr<std::string> ReadParams(const Field& field) {
  if (!field.value().is_object()) return field.BadValue("is not an object of parameters");
  return CanonicalJson(field.value());
}

}  // namespace xplane_time::tune
