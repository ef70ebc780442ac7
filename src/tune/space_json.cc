#include "tune/space_json.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "status.h"

namespace xplane_time::tune {
namespace {

// -0.0 and 0.0 are equal and must have the same text.
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

// Without mixing, texts that only differ in their last characters would share most digits.
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

std::string Shown(const Json& value) { return Shortened(CanonicalJson(value)); }

void ExpectObject(const Field& field, std::initializer_list<const char*> keys) {
  field.Expect(field->is_object(), "an object");
  for (const auto& [key, unused] : field->items()) {
    if (key == "comment" || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    field.Error("unknown field \"", Shortened(key), "\"; known: ", absl::StrJoin(keys, ", "),
                ", comment");
  }
}

ParameterValue ReadValue(const Field& field, ParameterType type) {
  if (type == ParameterType::kBool && field->is_boolean()) return field->get<bool>();
  if (type == ParameterType::kString && field->is_string()) return field->get<std::string>();
  if (type == ParameterType::kInt && field->is_number_integer()) {
    int64_t whole = 0;
    field.Read(&whole);
    return whole;
  }
  if (type == ParameterType::kFloat && field->is_number()) {
    const auto real = field->get<double>();
    return real == 0 ? 0.0 : real;
  }
  BadValue(field, "is not of type ", TypeName(type));
  return {};
}

std::vector<ParameterValue> ReadValues(const Field& list, ParameterType type) {
  std::vector<ParameterValue> values;
  list.Each([&](const Field& item) { values.push_back(ReadValue(item, type)); });
  return values;
}

Json JsonOf(const ParameterValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

void CheckDistinct(const Parameter& parameter, const Field& field) {
  std::set<ParameterValue> seen;
  for (const ParameterValue& value : parameter.values) {
    if (seen.insert(value).second) continue;
    return field.Error("the value ", CanonicalJson(JsonOf(value)), " occurs twice; list it once");
  }
}

std::optional<ParameterType> TypeNamed(std::string_view name) {
  const auto* const at = std::ranges::find(kTypeNames, name);
  if (at == kTypeNames.end()) return std::nullopt;
  return static_cast<ParameterType>(at - kTypeNames.begin());
}

void ReadParameters(const Field& list, const char* name, void (*read)(const Field&, Parameter*),
                    SearchSpace* space) {
  if (list->size() > kMostParameters) {
    return list.Error("more than ", kMostParameters, " parameters");
  }
  std::set<std::string> seen;
  list.Each([&](const Field& item) {
    Parameter& parameter = space->parameters.emplace_back();
    read(item, &parameter);
    CheckDistinct(parameter, item);
    if (seen.insert(parameter.name).second) return;
    BadValue(item.At(name), "is the name of two parameters; rename one");
  });
}

std::string ReadParams(const Field& field) {
  if (!field->is_object()) BadValue(field, "is not an object of parameters");
  return CanonicalJson(field.value());
}

}  // namespace xplane_time::tune
