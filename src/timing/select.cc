#include "xplane_time/select.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "devices/device_kind.h"
#include "status.h"
#include "timing/filters.h"

namespace xplane_time {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

absl::Status SelectorError(std::string_view text, std::string_view why) {
  return InvalidArgument(
      "--device ", Absl(text), ": ", Absl(why),
      "; it is gpu, tpu, cpu, custom, all, gpu:0,2, the name of a plane or re:REGEX");
}

absl::Status NothingMatches(const Trace& trace, std::string_view selector) {
  return FailedPrecondition(trace.files[0].path, ": no device matches --device ", Absl(selector),
                            "; there are: ", ListPlanes(trace),
                            "; choose one of these, or --device all");
}

struct Selector {
  bool all = false;
  std::optional<DeviceKind> kind;
  std::vector<int64_t> ordinals;
  std::shared_ptr<const RE2> regex;
  std::string name;  // of a plane, whole
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

absl::StatusOr<Selector> Parse(std::string_view text) {
  Selector selector;
  if (text.starts_with('/')) {
    selector.name = text;
    return selector;
  }
  if (text.starts_with("re:")) {
    selector.regex = CompileRegex(text.substr(3));
    if (!selector.regex->ok()) return SelectorError(text, selector.regex->error());
    return selector;
  }
  if (text == "all") {
    selector.all = true;
    return selector;
  }
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const KindRules* const rules = FindKind(kind);
  if (rules == nullptr) return SelectorError(text, "unknown device");
  selector.kind = rules->kind;
  if (colon != std::string_view::npos) {
    auto ordinals = ParseOrdinals(text.substr(colon + 1), text);
    // As tables print a plane: "TPU:0 SparseCore 1", "CUSTOM:npu".
    if (!ordinals.ok() && kind != rules->name) {
      selector.name = absl::StrCat("/device:", Absl(text));
      return selector;
    }
    if (!ordinals.ok()) return ordinals.status();
    selector.ordinals = *std::move(ordinals);
  }
  return selector;
}

bool MatchesName(const Selector& selector, std::string_view name) {
  if (!selector.name.empty()) return name == selector.name;
  return RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *selector.regex);
}

bool Matches(const Selector& selector, const Trace& trace, const DevicePlane& device) {
  if (selector.all) return true;
  if (selector.regex != nullptr || !selector.name.empty())
    return MatchesName(selector, trace.planes[device.plane].name);
  if (device.kind != *selector.kind) return false;
  if (selector.ordinals.empty() || RulesOf(device.kind).is_host) return true;
  return device.ordinal.has_value() &&
         std::count(selector.ordinals.begin(), selector.ordinals.end(), *device.ordinal) > 0;
}

}  // namespace

std::string ListPlanes(const Trace& trace) {
  std::string list;
  for (const Plane& plane : trace.planes) {
    uint64_t events = 0;
    for (uint32_t i = 0; i < plane.line_count; ++i) {
      events += trace.lines[plane.first_line + i].event_count;
    }
    list.append(list.empty() ? "" : ", ").append(plane.name);
    list.append(" (").append(std::to_string(events)).append(" events)");
  }
  return list;
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
    if (selection.planes.empty()) return NothingMatches(trace, "(default)");
    return selection;
  }
  ASSIGN_OR_RETURN(const Selector selector, Parse(text));
  selection.ordinals = selector.ordinals;
  for (const DevicePlane& device : devices) {
    if (Matches(selector, trace, device)) selection.planes.push_back(device);
  }
  if (selection.planes.empty()) return NothingMatches(trace, text);
  return selection;
}

absl::StatusOr<std::vector<uint32_t>> SelectPlanes(const Trace& trace, std::string_view text) {
  std::vector<uint32_t> planes;
  if (text == "all" || NamesPlanes(text)) {
    ASSIGN_OR_RETURN(const Selector selector, Parse(text));
    for (uint32_t i = 0; i < trace.planes.size(); ++i) {
      if (selector.all || MatchesName(selector, trace.planes[i].name)) planes.push_back(i);
    }
    if (planes.empty()) return NothingMatches(trace, text);
    return planes;
  }
  ASSIGN_OR_RETURN(const Selection selection, SelectDevices(trace, text));
  for (const DevicePlane& device : selection.planes) planes.push_back(device.plane);
  return planes;
}

}  // namespace xplane_time
