#include "compare/known_variants.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "compare/parse_json.h"

namespace xplane_time::compare {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<KnownVariant> ReadVariant(const std::string& path, size_t at, const Json& json) {
  const auto bad = [&](const char* what) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": variants[", at, "]: ", what));
  };
  if (!json.is_object()) return bad("is not an object");
  const auto id = json.find("id");
  KnownVariant out;
  if (id != json.end() && id->is_string()) {
    out.id = id->get<std::string>();
  } else if (id != json.end() && id->is_number_integer()) {
    out.id = Dump(*id);
  }
  if (out.id.empty()) return bad("lacks an id (a string or a whole number)");
  const auto params = json.find("params");
  if (params == json.end()) return out;
  if (!params->is_object()) return bad("its params are not an object");
  for (const auto& [name, value] : params->items()) out.params.push_back({name, Dump(value)});
  return out;
}

}  // namespace

absl::StatusOr<std::vector<KnownVariant>> ReadKnownVariants(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": no such file, or not readable"));
  constexpr size_t kMostBytes = size_t{64} << 20;
  std::string content, piece(size_t{1} << 16, '\0');
  while (
      content.size() <= kMostBytes &&
      (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)) {
    content.append(piece, 0, static_cast<size_t>(file.gcount()));
  }
  if (content.size() > kMostBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": larger than 64 MB, which no list of variants is"));
  }
  const auto parsed = ParseJson<Json>(path, content);
  if (!parsed.ok()) return parsed.status();
  const Json& document = *parsed;
  const auto variants = document.is_object() ? document.find("variants") : document.end();
  if (variants == document.end() || !variants->is_array()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has no list \"variants\" of {\"id\", \"params\"}"));
  }
  std::vector<KnownVariant> out;
  std::set<std::string> seen;
  for (size_t i = 0; i < variants->size(); ++i) {
    auto variant = ReadVariant(path, i, (*variants)[i]);
    if (!variant.ok()) return variant.status();
    if (!seen.insert(variant->id).second) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": variants[", i, "]: id ", variant->id, " is there twice"));
    }
    out.push_back(*std::move(variant));
  }
  return out;
}

}  // namespace xplane_time::compare
