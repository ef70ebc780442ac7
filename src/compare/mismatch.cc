#include "compare/mismatch.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace xplane_time::compare {
namespace {

constexpr char kUnknown[] = "(not told)";

// Values of each fact, with the first capture that has it.
using ValuesOf = std::map<std::string, std::map<std::string, std::string>>;

void Collect(std::span<const Measurements> captures, std::vector<Fact> Measurements::*facts,
             ValuesOf* values) {
  for (const Measurements& capture : captures) {
    for (const Fact& fact : capture.*facts) {
      (*values)[fact.name].try_emplace(fact.value, capture.source);
    }
  }
}

void CollectMissing(std::span<const Measurements> captures, ValuesOf* values) {
  for (const Measurements& capture : captures) {
    for (auto& [name, sources] : *values) {
      bool told = false;
      for (const Fact& fact : capture.facts) told |= fact.name == name;
      if (!told) sources.try_emplace(kUnknown, capture.source);
    }
  }
}

// An option that a capture does not have is the default.
ValuesOf CollectOptions(std::span<const Measurements> base, std::span<const Measurements> head) {
  constexpr char kDefault[] = "(default)";
  ValuesOf values;
  for (const auto side : {base, head}) Collect(side, &Measurements::options, &values);
  for (const auto side : {base, head}) {
    for (const Measurements& capture : side) {
      for (auto& [name, sources] : values) {
        const bool given = std::any_of(capture.options.begin(), capture.options.end(),
                                       [&](const Fact& option) { return option.name == name; });
        if (!given) sources.try_emplace(kDefault, capture.source);
      }
    }
  }
  return values;
}

std::string Differing(const std::string& name, const std::map<std::string, std::string>& sources) {
  std::vector<std::string> parts;
  for (const auto& [value, source] : sources) {
    parts.push_back(absl::StrCat(value, " in ", source));
    if (parts.size() == 3) break;
  }
  return absl::StrCat(name, " is ", absl::StrJoin(parts, ", "));
}

}  // namespace

absl::Status CheckMeasuredAlike(std::span<const Measurements> base,
                                std::span<const Measurements> head, bool allowed,
                                std::vector<std::string>* notes) {
  ValuesOf facts, labels;
  for (const auto side : {base, head}) {
    Collect(side, &Measurements::facts, &facts);
    Collect(side, &Measurements::labels, &labels);
  }
  for (const auto side : {base, head}) CollectMissing(side, &facts);
  std::vector<std::string> differing;
  for (const auto& [name, sources] : facts) {
    if (sources.size() < 2) continue;
    const bool only_unknown = sources.size() == 2 && sources.contains(kUnknown);
    const std::string text = Differing(name, sources);
    if (only_unknown || allowed) {
      notes->push_back(text);
    } else {
      differing.push_back(text);
    }
  }
  for (const auto& [name, sources] : CollectOptions(base, head)) {
    if (sources.size() < 2) continue;
    (allowed ? *notes : differing).push_back("the option " + Differing(name, sources));
  }
  for (const auto& [name, sources] : labels) {
    if (sources.size() > 1) notes->push_back(Differing(name, sources));
  }
  if (differing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the captures were not measured in the same way: ", absl::StrJoin(differing, "; "),
      head.empty() ? "; measure all alike" : "; measure all alike, or see --allow-mismatch"));
}

}  // namespace xplane_time::compare
