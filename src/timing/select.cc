#include "xplane_time/select.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devices/device_kind.h"
#include "timing/plane_list.h"

namespace xplane_time {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

absl::Status SelectorError(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--device ", Absl(text), ": ", Absl(why),
                   "; it is gpu, tpu, cpu, custom, all, gpu:0,2, the name of a plane or re:REGEX"));
}

absl::Status NothingMatches(const Trace& trace, std::string_view selector) {
  return absl::FailedPreconditionError(
      absl::StrCat(trace.files[0].path, ": no device matches --device ", Absl(selector),
                   "; there are: ", ListPlanes(trace), "; choose one of these, or --device all"));
}

struct Selector {
  bool all = false;
  std::optional<DeviceKind> kind;
  std::vector<int64_t> ordinals;
  std::unique_ptr<RE2> regex;
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
    RE2::Options quiet;
    quiet.set_log_errors(false);
    quiet.set_encoding(RE2::Options::EncodingLatin1);  // names may be invalid UTF-8
    const std::string_view pattern = text.substr(3);
    selector.regex = std::make_unique<RE2>(re2::StringPiece(pattern.data(), pattern.size()), quiet);
    if (!selector.regex->ok()) return SelectorError(text, selector.regex->error());
    return selector;
  }
  if (text == "all") {
    selector.all = true;
    return selector;
  }
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  for (const KindRules* rules : AllKinds()) {
    if (absl::EqualsIgnoreCase(Absl(kind), Absl(DeviceKindName(rules->kind)))) {
      selector.kind = rules->kind;
    }
  }
  if (!selector.kind.has_value()) return SelectorError(text, "unknown device");
  if (colon != std::string_view::npos) {
    auto ordinals = ParseOrdinals(text.substr(colon + 1), text);
    // As tables print a plane: "TPU:0 SparseCore 1", "CUSTOM:npu".
    if (!ordinals.ok() && kind != DeviceKindName(*selector.kind)) {
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
  if (selector.ordinals.empty() || device.kind == DeviceKind::kCpu) return true;
  return device.ordinal.has_value() &&
         std::count(selector.ordinals.begin(), selector.ordinals.end(), *device.ordinal) > 0;
}

}  // namespace

std::string_view DeviceKindName(DeviceKind kind) {
  constexpr std::string_view kNames[] = {"gpu", "tpu", "cpu", "custom"};
  return kNames[static_cast<size_t>(kind)];
}

bool Selection::WantsOrdinal(int64_t ordinal) const {
  return ordinals.empty() || std::count(ordinals.begin(), ordinals.end(), ordinal) > 0;
}

std::vector<DevicePlane> FindDevicePlanes(const Trace& trace) {
  std::vector<DevicePlane> devices;
  for (uint32_t i = 0; i < trace.planes.size(); ++i) {
    for (const KindRules* rules : AllKinds()) {
      std::optional<int64_t> ordinal;
      if (!rules->claims(trace.planes[i].name, &ordinal)) continue;
      devices.push_back({i, rules->kind, ordinal});
      break;
    }
  }
  return devices;
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
      if (device.kind != DeviceKind::kCpu) has_accelerator[capture(device)] = true;
    }
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(selection.planes),
                 [&](const DevicePlane& device) {
                   return device.kind != DeviceKind::kCpu || !has_accelerator[capture(device)];
                 });
    if (selection.planes.empty()) return NothingMatches(trace, "(default)");
    return selection;
  }
  auto selector = Parse(text);
  if (!selector.ok()) return selector.status();
  selection.ordinals = selector->ordinals;
  for (const DevicePlane& device : devices) {
    if (Matches(*selector, trace, device)) selection.planes.push_back(device);
  }
  if (selection.planes.empty()) return NothingMatches(trace, text);
  return selection;
}

absl::StatusOr<std::vector<uint32_t>> SelectPlanes(const Trace& trace, std::string_view text) {
  std::vector<uint32_t> planes;
  if (text == "all" || NamesPlanes(text)) {
    auto selector = Parse(text);
    if (!selector.ok()) return selector.status();
    for (uint32_t i = 0; i < trace.planes.size(); ++i) {
      if (selector->all || MatchesName(*selector, trace.planes[i].name)) planes.push_back(i);
    }
    if (planes.empty()) return NothingMatches(trace, text);
    return planes;
  }
  auto selection = SelectDevices(trace, text);
  if (!selection.ok()) return selection.status();
  for (const DevicePlane& device : selection->planes) planes.push_back(device.plane);
  return planes;
}

}  // namespace xplane_time
