#include "power/visible_devices.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_split.h"
#include "re2/re2.h"

namespace xplane_time::power {
namespace {

// The device that an entry names, and whether it names an instance of it.
struct Choice {
  size_t place = 0;
  bool instance = false;
};

struct Chosen {
  std::vector<size_t> places;
  bool by_index = false;  // at least one entry is an index
};

// Like strtoul: leading white space, a sign, digits; the rest is ignored.
std::optional<size_t> IndexOf(std::string_view entry) {
  static const RE2 shape(R"([ \t]*\+?(\d+))");
  uint32_t index = 0;
  re2::StringPiece rest(entry.data(), entry.size());
  return RE2::Consume(&rest, shape, &index) ? std::optional<size_t>(index) : std::nullopt;
}

bool NamesDevice(std::string_view entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

// The parent in MIG-GPU-<uuid>/<gpu instance>/<compute instance>, the format of drivers before 470.
std::string_view ParentInOldMigName(std::string_view entry) {
  if (!entry.starts_with("MIG-GPU-")) return {};
  return entry.substr(4, entry.find('/') - 4);
}

// The only device whose id, or the id of one of its instances, begins with `entry`.
std::optional<Choice> DeviceNamed(std::string_view entry, const std::vector<GpuIdentity>& devices) {
  const std::string_view old_parent = ParentInOldMigName(entry);
  std::optional<Choice> found;
  for (size_t place = 0; place < devices.size(); ++place) {
    const GpuIdentity& device = devices[place];
    const bool whole = device.id.starts_with(entry);
    const auto instances =
        std::ranges::count_if(device.mig_instances,
                              [&](const auto& each) { return each.starts_with(entry); }) +
        (old_parent == device.id ? 1 : 0);
    if (!whole && instances == 0) continue;
    if (found || (whole ? 1 : 0) + instances > 1) return std::nullopt;  // ambiguous
    found = Choice{place, instances == 1 || device.mig};
  }
  return found;
}

Chosen Choose(const std::string& list, const std::vector<GpuIdentity>& devices) {
  Chosen chosen;
  const std::vector<std::string> entries = absl::StrSplit(list, ',');
  const bool by_name = NamesDevice(entries.front());
  for (const std::string& entry : entries) {
    std::optional<Choice> choice;
    if (by_name) {
      if (NamesDevice(entry)) choice = DeviceNamed(entry, devices);
    } else if (const std::optional<size_t> index = IndexOf(entry);
               index && *index < devices.size()) {
      choice = Choice{*index, devices[*index].mig};
      chosen.by_index = true;
    }
    if (!choice) break;
    const bool again = std::ranges::count(chosen.places, choice->place) > 0;
    if (again) return Chosen{{}, chosen.by_index};
    chosen.places.push_back(choice->place);
    if (choice->instance) break;
  }
  return chosen;
}

const std::string* Find(const PowerEnvironment& environment, const std::string& name) {
  const auto at = environment.find(name);
  return at == environment.end() ? nullptr : &at->second;
}

// Why the order of indices is unknown; empty if it is PCI order.
std::string WhyOrderUnknown(const std::vector<GpuIdentity>& devices,
                            const PowerEnvironment& environment) {
  const std::string* order = Find(environment, "CUDA_DEVICE_ORDER");
  if (order != nullptr && *order == "PCI_BUS_ID") return {};
  const bool one_model = std::ranges::all_of(
      devices, [&](const GpuIdentity& each) { return each.model == devices.front().model; });
  if (one_model) return {};
  return "CUDA orders devices by speed, and these are different models; set "
         "CUDA_DEVICE_ORDER=PCI_BUS_ID for the measured program, or give --map";
}

}  // namespace

bool Visibility::MaySee(size_t place) const {
  const auto is_it = [&](const auto& each) { return each.second == place; };
  return !unknown.empty() || std::ranges::any_of(device_of, is_it);
}

Visibility VisibleDevices(const std::vector<GpuIdentity>& devices,
                          const PowerEnvironment& environment,
                          const std::map<int32_t, std::string>& map) {
  Visibility visible;
  for (const auto& [ordinal, id] : map) {  // ids of devices or instances, or unique prefixes
    const std::optional<Choice> choice = id.empty() ? std::nullopt : DeviceNamed(id, devices);
    if (choice) {
      visible.device_of[ordinal] = choice->place;
    } else {
      visible.not_found.push_back(id);
    }
  }
  if (!visible.device_of.empty()) return visible;
  visible.unknown = WhyOrderUnknown(devices, environment);
  std::vector<size_t> places(devices.size());
  std::iota(places.begin(), places.end(), size_t{0});
  if (const std::string* mask = Find(environment, "CUDA_VISIBLE_DEVICES"); mask != nullptr) {
    Chosen chosen = Choose(*mask, devices);
    places = std::move(chosen.places);
    if (!chosen.by_index) visible.unknown.clear();
  } else if (devices.size() > 1 && std::ranges::any_of(devices, &GpuIdentity::mig)) {
    visible.unknown =
        "some of these devices are split (MIG), and a program uses only one instance; name it in "
        "CUDA_VISIBLE_DEVICES of the measured program, or give --map";
  }
  if (!visible.unknown.empty()) return visible;
  for (const size_t place : places) {
    visible.device_of.emplace(static_cast<int32_t>(visible.device_of.size()), place);
  }
  return visible;
}

}  // namespace xplane_time::power
