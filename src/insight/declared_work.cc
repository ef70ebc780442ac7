#include "insight/declared_work.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "absl/strings/str_join.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "near_names.h"
#include "status.h"

namespace xplane_time {
namespace {

constexpr size_t kMaxWorkBytes = size_t{64} << 20;

// For messages: the name, or the pattern.
std::string NameIn(const DeclaredWork& work) {
  return work.pattern.empty() ? Cat("kernel '", work.name, "'")
                              : Cat("pattern '", work.pattern, "'");
}

void ReadFigure(const json::Field& entry, const char* name, std::optional<double>* figure) {
  entry.Read(name, figure, json::kOptional, /*least=*/0);
}

void CheckMembers(const json::Field& object, const std::initializer_list<std::string>& known) {
  for (const auto& [key, ignored] : object->items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    object.Error("unknown member \"", key.substr(0, 60),
                 "\"; valid members: ", absl::StrJoin(known, ", "));
  }
}

void ReadEntry(const json::Field& entry, DeclaredWork* work) {
  entry.Read("kernel", &work->name);
  entry.Read("pattern", &work->pattern);
  ReadFigure(entry, "flops", &work->flops);
  ReadFigure(entry, "bytes", &work->bytes);
  if (!entry.ok()) return;
  CheckMembers(entry, {"kernel", "pattern", "flops", "bytes"});
  if (work->name.empty() == work->pattern.empty()) {
    entry.Error("needs either kernel (an exact name) or pattern (a regular expression)");
  }
  if (!work->flops.has_value() && !work->bytes.has_value()) {
    entry.Error("needs flops, bytes or both, per execution");
  }
}

}  // namespace

absl::StatusOr<std::vector<DeclaredWork>> ReadWork(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadWholeFile(path, kMaxWorkBytes));
  return ParseWork(text, path);
}

absl::StatusOr<std::vector<DeclaredWork>> ParseWork(std::string_view text,
                                                    const std::string& path) {
  const json::Json parsed = json::Parse(text);
  constexpr std::string_view kForm =
      R"(; the form is {"work": [{"kernel": "NAME", "flops": 8.6e9, "bytes": 3.3e7}]})";
  if (!parsed.is_object()) return InvalidArgument(path, ": not a JSON object", kForm);
  if (const auto repeated = json::FindRepeatedMember(text)) {
    return InvalidArgument(path, ": member \"", repeated->substr(0, 60),
                           "\" occurs twice in one object; remove one");
  }
  std::string wrong;
  const json::Field file(parsed, &wrong);
  CheckMembers(json::Field(parsed, &wrong, "top level"), {"work"});
  std::vector<DeclaredWork> works;
  if (wrong.empty() && !file.Has("work")) return InvalidArgument(path, ": no list \"work\"", kForm);
  if (file.At("work")->empty()) file.At("work").Error("declares nothing");
  file.At("work").Each([&](const json::Field& entry) {
    entry.Expect(entry->is_object(), "an object");
    if (entry.ok()) ReadEntry(entry, &works.emplace_back());
  });
  if (!wrong.empty()) return InvalidArgument(path, ": ", wrong, kForm);
  return works;
}

namespace insight {

absl::StatusOr<DeclaredWorks> DeclaredWorks::Compile(std::span<const DeclaredWork> works) {
  DeclaredWorks compiled;
  compiled.works_ = works;
  for (const DeclaredWork& work : works) {
    for (const std::optional<double>& figure : {work.flops, work.bytes}) {
      if (!figure.has_value() || (std::isfinite(*figure) && *figure >= 0)) continue;
      return InvalidArgument("declared work of ", NameIn(work), ": ", *figure,
                             " is not a finite number of at least 0");
    }
    ASSIGN_OR_RETURN(compiled.patterns_.emplace_back(),
                     NameFilter::Compile("pattern of declared work", work.pattern));
  }
  return compiled;
}

bool DeclaredWorks::Matches(size_t work, std::string_view name) const {
  return works_[work].pattern.empty() ? works_[work].name == name : patterns_[work].Matches(name);
}

const DeclaredWork* DeclaredWorks::Find(std::string_view op,
                                        std::span<const std::string_view> kernels) const {
  for (size_t i = 0; i < works_.size(); ++i) {
    if (Matches(i, op)) return &works_[i];
  }
  for (size_t i = 0; i < works_.size(); ++i) {
    const auto matches = [&](std::string_view kernel) { return Matches(i, kernel); };
    if (std::ranges::any_of(kernels, matches)) return &works_[i];
  }
  return nullptr;
}

absl::Status DeclaredWorks::CheckUsed(const std::set<std::string_view>& names) const {
  for (size_t i = 0; i < works_.size(); ++i) {
    const auto matches = [&](std::string_view name) { return Matches(i, name); };
    if (std::ranges::any_of(names, matches)) continue;
    const std::vector<std::string> known(names.begin(), names.end());
    const std::string& given = works_[i].pattern.empty() ? works_[i].name : works_[i].pattern;
    return FailedPrecondition("declared work: no op or kernel matches ", NameIn(works_[i]),
                              DidYouMean(given, known), "; xplane-time kernels lists the names");
  }
  return absl::OkStatus();
}

}  // namespace insight
}  // namespace xplane_time
