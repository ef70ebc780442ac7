// The selection: planes (select.h), functions and kernels (filters.h).
#include "xplane_time/select.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "devices/device_kind.h"
#include "status.h"
#include "timing/filters.h"

namespace xplane_time {
namespace {

re2::StringPiece MakeStringPiece(std::string_view text) { return {text.data(), text.size()}; }

// With the errors in it, unlogged. Names may be invalid UTF-8.
std::shared_ptr<const re2::RE2> CompileRegex(std::string_view pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);
  return std::make_shared<const re2::RE2>(MakeStringPiece(pattern), options);
}

absl::Status SelectorError(std::string_view text, std::string_view why) {
  return InvalidArgument(
      "--device ", text, ": ", why,
      "; valid: gpu, tpu, cpu, custom, all, gpu:0,2, the name of a plane or re:REGEX");
}

// "gpu:0 = /device:GPU:0 (54 events), ...": planes with events, if any has some, else all. The
// shortest selector comes first.
std::string ListSelectors(const Trace& trace, std::span<const uint32_t> planes) {
  constexpr size_t kMaxListed = 12;
  std::map<uint32_t, std::string> selectors;  // of --device, shorter than the plane's name
  for (const DevicePlane& device : FindDevicePlanes(trace)) {
    const KindRules& rules = RulesOf(device.kind);
    const std::string by_ordinal =
        absl::StrCat(Absl(rules.name), ":", device.ordinal.value_or(kNoOrdinal));
    const std::string_view plane = trace.planes[device.plane].name;
    if (rules.is_host) {
      selectors[device.plane] = rules.name;
    } else if (absl::EqualsIgnoreCase(absl::StripPrefix(Absl(plane), "/device:"), by_ordinal)) {
      selectors[device.plane] = by_ordinal;
    }
  }
  const auto count_events = [&](const Plane& plane) {
    uint64_t events = 0;
    for (uint32_t i = 0; i < plane.line_count; ++i) {
      events += trace.lines[plane.first_line + i].event_count;
    }
    return events;
  };
  std::string list;
  size_t listed = 0, more = 0;
  for (const bool has_events : {true, false}) {
    if (!has_events && listed > 0) break;  // these contain nothing to select
    for (const uint32_t i : planes) {
      const Plane& plane = trace.planes[i];
      const uint64_t events = count_events(plane);
      if ((events > 0) != has_events) continue;
      if (listed == kMaxListed) {
        ++more;
        continue;
      }
      ++listed;
      const auto selector = selectors.find(i);
      Append(&list, list.empty() ? "" : ", ",
             selector == selectors.end() ? std::string(plane.name)
                                         : Cat(selector->second, " = ", plane.name),
             " (", events, " events)");
    }
  }
  if (more > 0) Append(&list, " and ", more, " more");
  return list;
}

absl::Status NothingMatches(const Trace& trace, std::string_view selector,
                            std::span<const DevicePlane> devices) {
  if (devices.empty()) {
    return FailedPrecondition(
        trace.files[0].path, ": the trace has no device plane; its planes are: ", ListPlanes(trace),
        "; was the device profiled?");
  }
  std::vector<uint32_t> planes;
  for (const DevicePlane& device : devices) planes.push_back(device.plane);
  return FailedPrecondition(trace.files[0].path, ": no device matches --device ", selector,
                            "; the trace has: ", ListSelectors(trace, planes),
                            "; choose one of these, or --device all");
}

// By kind and ordinals, or by name.
struct Selector {
  std::optional<DeviceKind> kind = {};
  std::vector<int64_t> ordinals = {};
  std::shared_ptr<const RE2> name = {};

  bool Matches(std::string_view plane_name) const {
    return RE2::PartialMatch(MakeStringPiece(plane_name), *name);
  }
};

absl::StatusOr<std::vector<int64_t>> ParseOrdinals(std::string_view list, std::string_view text) {
  std::vector<int64_t> ordinals;
  while (true) {
    int64_t ordinal = 0;
    const char* end = list.data() + list.size();
    const auto [at, error] = std::from_chars(list.data(), end, ordinal);
    if (error != std::errc() || ordinal < 0 || (at != end && *at != ',')) {
      return SelectorError(text, "not a list of ordinals");
    }
    ordinals.push_back(ordinal);
    if (at == end) return ordinals;
    list = std::string_view(at + 1, static_cast<size_t>(end - at - 1));
  }
}

bool NamesPlanes(std::string_view text) { return text.starts_with("re:") || text.starts_with('/'); }

Selector ByWholeName(std::string_view name) {
  return {.name = CompileRegex("^" + RE2::QuoteMeta(MakeStringPiece(name)) + "\\z")};
}

absl::StatusOr<Selector> Parse(std::string_view text) {
  if (text == "all") return Selector{.name = CompileRegex("")};
  if (text.starts_with('/')) return ByWholeName(text);
  if (text.starts_with("re:")) {
    const Selector selector{.name = CompileRegex(text.substr(3))};
    if (!selector.name->ok()) return SelectorError(text, selector.name->error());
    return selector;
  }
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const KindRules* const rules = FindKind(kind);
  // As tables print the planes of other accelerators: "XPU:0", or all of a name: "XPU".
  if (rules == nullptr && !text.empty() &&
      absl::ascii_isupper(static_cast<unsigned char>(text[0]))) {
    const std::string name = "/device:" + std::string(text);
    if (colon != std::string_view::npos) return ByWholeName(name);
    return Selector{.name = CompileRegex("^" + RE2::QuoteMeta(MakeStringPiece(name)) + ":")};
  }
  if (rules == nullptr) return SelectorError(text, "unknown device");
  if (colon == std::string_view::npos) return Selector{.kind = rules->kind};
  auto ordinals = ParseOrdinals(text.substr(colon + 1), text);
  if (ordinals.ok()) return Selector{.kind = rules->kind, .ordinals = *std::move(ordinals)};
  // As tables print a plane: "TPU:0 SparseCore 1", "CUSTOM:npu".
  if (kind != rules->name) return ByWholeName("/device:" + std::string(text));
  return ordinals.status();
}

bool Matches(const Selector& selector, const Trace& trace, const DevicePlane& device) {
  if (selector.name != nullptr) return selector.Matches(trace.planes[device.plane].name);
  if (device.kind != *selector.kind) return false;
  if (selector.ordinals.empty() || RulesOf(device.kind).is_host) return true;
  return device.ordinal.has_value() &&
         std::count(selector.ordinals.begin(), selector.ordinals.end(), *device.ordinal) > 0;
}

}  // namespace

std::string ListPlanes(const Trace& trace) {
  std::vector<uint32_t> all(trace.planes.size());
  std::iota(all.begin(), all.end(), 0);
  return ListSelectors(trace, all);
}

bool Selection::WantsOrdinal(int64_t ordinal) const {
  return ordinals.empty() || std::count(ordinals.begin(), ordinals.end(), ordinal) > 0;
}

absl::StatusOr<Selection> SelectDevices(const Trace& trace, std::string_view text) {
  const std::vector<DevicePlane> devices = FindDevicePlanes(trace);
  Selection selection;
  selection.text = text;
  if (text.empty()) {
    std::vector<bool> has_accelerator(trace.capture_count, false);  // each capture for itself
    const auto capture = [&](const DevicePlane& device) {
      return trace.files[trace.planes[device.plane].file].capture;
    };
    for (const DevicePlane& device : devices) {
      if (!RulesOf(device.kind).is_host) has_accelerator[capture(device)] = true;
    }
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(selection.planes),
                 [&](const DevicePlane& device) {
                   return !RulesOf(device.kind).is_host || !has_accelerator[capture(device)];
                 });
    if (selection.planes.empty()) return NothingMatches(trace, "(default)", devices);
    return selection;
  }
  ASSIGN_OR_RETURN(const Selector selector, Parse(text));
  selection.ordinals = selector.ordinals;
  for (const DevicePlane& device : devices) {
    if (Matches(selector, trace, device)) selection.planes.push_back(device);
  }
  if (selection.planes.empty()) return NothingMatches(trace, text, devices);
  // Only its thunks state which devices a host has.
  if (!selector.kind.has_value() || RulesOf(*selector.kind).is_host) return selection;
  std::set<int64_t> there;
  for (const DevicePlane& device : devices) {
    if (device.kind == *selector.kind && device.ordinal) there.insert(*device.ordinal);
  }
  RETURN_IF_ERROR(CheckOrdinals(trace, selection, there));
  return selection;
}

absl::Status CheckOrdinals(const Trace& trace, const Selection& selection,
                           const std::set<int64_t>& there) {
  if (there.empty() || there.contains(kNoOrdinal)) return absl::OkStatus();
  const std::string_view kind = DeviceKindName(selection.planes[0].kind);
  for (const int64_t ordinal : selection.ordinals) {
    if (there.contains(ordinal)) continue;
    return FailedPrecondition(trace.files[0].path, ": --device ", selection.text,
                              ": the trace has no ", kind, ":", ordinal, "; it has ", kind, ":",
                              absl::StrJoin(there, ","), "; choose one of these");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> SelectPlanes(const Trace& trace, std::string_view text) {
  std::vector<uint32_t> planes;
  if (text == "all" || NamesPlanes(text)) {
    ASSIGN_OR_RETURN(const Selector selector, Parse(text));
    for (uint32_t i = 0; i < trace.planes.size(); ++i) {
      if (selector.Matches(trace.planes[i].name)) planes.push_back(i);
    }
    if (planes.empty()) {
      return FailedPrecondition(trace.files[0].path, ": no plane matches --device ", text,
                                "; the trace has: ", ListPlanes(trace),
                                "; choose one of these, or --device all");
    }
    return planes;
  }
  ASSIGN_OR_RETURN(const Selection selection, SelectDevices(trace, text));
  for (const DevicePlane& device : selection.planes) {
    if (!selection.ordinals.empty() && RulesOf(device.kind).is_host) {
      return InvalidArgument("--device ", text, ": the plane ", trace.planes[device.plane].name,
                             " holds all devices of its host and cannot be split; give ",
                             DeviceKindName(device.kind));
    }
    planes.push_back(device.plane);
  }
  return planes;
}

absl::StatusOr<NameFilter> NameFilter::Compile(std::string_view option, std::string_view pattern) {
  NameFilter filter;
  if (pattern.empty()) return filter;
  filter.regex_ = CompileRegex(pattern);
  if (!filter.regex_->ok()) {
    return InvalidArgument(option, " ", pattern, ": ", filter.regex_->error(),
                           "; it is an RE2 regular expression, searched anywhere in the name");
  }
  return filter;
}

absl::StatusOr<NameFilter> NameFilter::CompileGroup(std::string_view option,
                                                    std::string_view pattern,
                                                    std::string_view example) {
  ASSIGN_OR_RETURN(NameFilter filter, Compile(option, pattern));
  if (filter.any() && filter.regex_->NumberOfCapturingGroups() > 0) return filter;
  return InvalidArgument(option, " ", pattern, ": needs a group, like ", example);
}

bool NameFilter::Matches(std::string_view name) const {
  return regex_ == nullptr || re2::RE2::PartialMatch(MakeStringPiece(name), *regex_);
}

std::optional<std::string> NameFilter::Capture(std::string_view name) const {
  std::string group;
  if (regex_ == nullptr || !re2::RE2::PartialMatch(MakeStringPiece(name), *regex_, &group)) {
    return std::nullopt;
  }
  return group;
}

absl::StatusOr<std::vector<uint32_t>> SelectLines(const Trace& trace, std::string_view device,
                                                  const NameFilter& name) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> planes, SelectPlanes(trace, device));
  std::vector<uint32_t> lines;
  for (const uint32_t plane : planes) {
    const auto [first, count] =
        std::pair(trace.planes[plane].first_line, trace.planes[plane].line_count);
    for (uint32_t line = first; line < first + count; ++line) {
      if (name.Matches(trace.lines[line].shown_name())) lines.push_back(line);
    }
  }
  return lines;
}

absl::StatusOr<Filters> Filters::Compile(const ReportOptions& options) {
  if (options.max_events == 0) {
    return absl::InvalidArgumentError("--max-events 0: must be at least 1");
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
             {"--exclude-kernel", options.exclude_kernel, &filters.exclude_kernel},
             {"--scope", options.scope, &filters.scope},
             {"--collective-re", options.categories.collective, &filters.collective},
             {"--copy-re", options.categories.copy, &filters.copy},
             {"--step-re", options.step, &filters.step}};
  for (const auto& one : all) {
    ASSIGN_OR_RETURN(*one.filter, NameFilter::Compile(one.name, one.pattern));
  }
  ASSIGN_OR_RETURN(filters.id,
                   NameFilter::CompileGroup("--id-pattern", options.id_pattern, kDefaultIdPattern));
  return filters;
}

bool Filters::WantsFunction(std::string_view name) const {
  if (exclude.any() && exclude.Matches(name)) return false;
  return name.starts_with(prefix) && function.Matches(name);
}

bool Filters::WantsOp(const OpInfo& op) const {
  if (!kernel.Matches(op.kernel)) return false;
  return op.in_scope && !(exclude_kernel.any() && exclude_kernel.Matches(op.kernel));
}

std::optional<Category> Filters::FindCategory(std::string_view name,
                                              std::string_view hlo_op) const {
  const auto matches = [&](const NameFilter& filter) {
    return filter.any() && (filter.Matches(name) || (!hlo_op.empty() && filter.Matches(hlo_op)));
  };
  if (matches(collective)) return Category::kCollective;
  return matches(copy) ? std::optional(Category::kCopy) : std::nullopt;
}

}  // namespace xplane_time
