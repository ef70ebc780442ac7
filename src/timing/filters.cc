#include "timing/filters.h"

#include <re2/re2.h>

#include "absl/strings/str_cat.h"
#include "devices/executions.h"
#include "status.h"

namespace xplane_time {
namespace {

re2::StringPiece Piece(std::string_view text) { return {text.data(), text.size()}; }
absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::shared_ptr<const re2::RE2> CompileRegex(std::string_view pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);
  return std::make_shared<const re2::RE2>(Piece(pattern), options);
}

absl::StatusOr<NameFilter> NameFilter::Compile(std::string_view option, std::string_view pattern) {
  NameFilter filter;
  if (pattern.empty()) return filter;
  filter.regex_ = CompileRegex(pattern);
  if (!filter.regex_->ok()) {
    return InvalidArgument(Absl(option), " ", Absl(pattern), ": ", filter.regex_->error(),
                           "; it is an RE2 regular expression, searched anywhere in the name");
  }
  return filter;
}

bool NameFilter::Matches(std::string_view name) const {
  return regex_ == nullptr || re2::RE2::PartialMatch(Piece(name), *regex_);
}

std::optional<std::string> NameFilter::Capture(std::string_view name) const {
  std::string group;
  if (regex_ == nullptr || !re2::RE2::PartialMatch(Piece(name), *regex_, &group)) {
    return std::nullopt;
  }
  return group;
}

absl::StatusOr<Filters> Filters::Compile(const ReportOptions& options) {
  if (options.max_events == 0) {
    return absl::InvalidArgumentError(
        "--max-events 0: of nothing there is no time; give 1 or more");
  }
  Filters filters;
  filters.prefix = options.prefix;
  const struct {
    const char* name;
    const std::string& pattern;
    NameFilter* filter;
  } all[] = {{"--function", options.function, &filters.function},
             {"--exclude", options.exclude, &filters.exclude},
             {"--kernel", options.kernel, &filters.kernel},
             {"--scope", options.scope, &filters.scope},
             {"--id-pattern", options.id_pattern, &filters.id}};
  for (const auto& one : all) {
    ASSIGN_OR_RETURN(*one.filter, NameFilter::Compile(one.name, one.pattern));
  }
  if (re2::RE2 id(options.id_pattern, re2::RE2::Quiet); id.NumberOfCapturingGroups() < 1) {
    return InvalidArgument("--id-pattern ", options.id_pattern, ": needs a group, like ",
                           kDefaultIdPattern);
  }
  return filters;
}

bool Filters::WantsFunction(std::string_view name) const {
  if (exclude.any() && exclude.Matches(name)) return false;
  return name.starts_with(prefix) && function.Matches(name);
}

bool Filters::WantsOp(const OpInfo& op) const {
  if (!kernel.Matches(op.kernel)) return false;
  return !scope.any() || scope.Matches(op.scope) || scope.Matches(op.tf_op) ||
         scope.Matches(op.source);
}

}  // namespace xplane_time
