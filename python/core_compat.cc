#include "core_compat.h"

#include <string_view>

#include "core_status.h"
#include "xplane_time/compat.h"

namespace nb = nanobind;

namespace xplane_time::python {
namespace {

nb::str ToPython(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

// Is asked without the GIL.
compat::NameTest TestOf(const Test& test) {
  if (!test.has_value()) return {};
  return [&test](std::string_view name) {
    const nb::gil_scoped_acquire acquire;
    return nb::cast<bool>((*test)(ToPython(name)));
  };
}

KeyTimes ToPython(const std::vector<compat::KeyTime>& times) {
  KeyTimes rows;
  for (const compat::KeyTime& time : times) {
    rows.emplace_back(nb::cast<std::string>(ToPython(time.key)), time.time_s);
  }
  return rows;
}

std::vector<compat::KeyTime> FromPython(const KeyTimes& rows) {
  std::vector<compat::KeyTime> times;
  for (const auto& [key, time_s] : rows) times.push_back({key, time_s});
  return times;
}

VariantTimes ToPython(const std::vector<compat::VariantTime>& times) {
  VariantTimes rows;
  for (const compat::VariantTime& time : times) {
    rows.emplace_back(time.id, time.mean_s, time.std_s);
  }
  return rows;
}

uint32_t PlaneOf(const Trace& trace, size_t plane) {
  if (plane < trace.planes.size()) return static_cast<uint32_t>(plane);
  throw nb::index_error("list index out of range");
}

nb::dict RecordOf(const compat::XprofKernel& kernel) {
  nb::dict record;
  record["kernel_name"] = ToPython(kernel.name);
  for (const char* field : {"canonical_name", "short_name", "hlo_op_name"}) {
    record[field] = ToPython(kernel.canonical_name);
  }
  record["raw_name"] = ToPython(kernel.name);
  record["total_duration_us"] = kernel.total_us;
  record["execution_count"] = kernel.count;
  record["avg_duration_us"] = kernel.mean_us;
  record["is_intra_kernel_region"] = kernel.intra_kernel_region;
  return record;
}

constexpr char kNote[] =
    "Events on intra-kernel region lines were excluded because they overlap the kernel that "
    "contains them and would otherwise be ranked as top-level kernels. Pass "
    "include_intra_kernel_regions=True to include them, tagged with is_intra_kernel_region.";

}  // namespace

std::vector<std::string> PlaneNames(const Trace& trace) {
  std::vector<std::string> names;
  for (const Plane& plane : trace.planes) {
    names.push_back(nb::cast<std::string>(ToPython(plane.name)));
  }
  return names;
}

KeyTimes EjkernelTimes(const Trace& trace, size_t plane, const std::string& prefix,
                       double min_duration_ns, std::optional<uint64_t> max_events,
                       const Test& children) {
  const uint32_t at = PlaneOf(trace, plane);
  const compat::EjkernelOptions options = {.prefix = prefix,
                                           .min_duration_ns = min_duration_ns,
                                           .max_events = max_events,
                                           .children = TestOf(children)};
  return ToPython(WithoutGil([&] { return compat::EjkernelTimes(trace, at, options); }));
}

KeyTimes TuneJaxTimes(const Trace& trace, size_t plane, const std::string& prefix, bool raw_protos,
                      const Test& children) {
  const uint32_t at = PlaneOf(trace, plane);
  const compat::TuneJaxOptions options = {
      .prefix = prefix, .raw_protos = raw_protos, .children = TestOf(children)};
  return ToPython(WithoutGil([&] { return compat::TuneJaxTimes(trace, at, options); }));
}

VariantTimes EjkernelVariants(const std::vector<KeyTimes>& captures) {
  std::vector<std::vector<compat::KeyTime>> times;
  for (const KeyTimes& capture : captures) times.push_back(FromPython(capture));
  return ToPython(compat::EjkernelVariants(times));
}

VariantTimes TuneJaxVariants(const std::vector<PlaneKeyTimes>& captures) {
  std::vector<std::vector<compat::PlaneTimes>> times;
  for (const PlaneKeyTimes& capture : captures) {
    std::vector<compat::PlaneTimes>& planes = times.emplace_back();
    for (const auto& [plane, rows] : capture) planes.push_back({plane, FromPython(rows)});
  }
  return ToPython(ValueOf(compat::TuneJaxVariants(times)));
}

nb::typed<nb::dict, nb::str, nb::object> XprofDeviceTimes(
    const Trace& trace, uint64_t limit, bool intra_kernel_regions,
    const std::optional<std::string>& kernel_name, const Test& names) {
  const compat::XprofOptions options = {.limit = limit,
                                        .intra_kernel_regions = intra_kernel_regions,
                                        .kernel_name = kernel_name,
                                        .names = TestOf(names)};
  const compat::XprofTimes times =
      WithoutGil([&] { return compat::XprofDeviceTimes(trace, options); });
  nb::typed<nb::dict, nb::str, nb::object> summary;
  summary["total_device_duration_ns"] = times.total_device_ns;
  summary["total_device_duration_us"] = static_cast<double>(times.total_device_ns) / 1e3;
  summary["total_device_duration_ms"] = static_cast<double>(times.total_device_ns) / 1e6;
  nb::dict lines;
  for (const auto& line : times.lines) lines[ToPython(line.line)] = line.covered_ns;
  summary["by_line_duration_ns"] = lines;
  summary["custom_call_duration_us"] = times.custom_call_us;
  summary["custom_call_share_pct"] = times.custom_call_percent;
  nb::list records;
  for (const compat::XprofKernel& kernel : times.kernels) records.append(RecordOf(kernel));
  summary["kernel_records"] = records;
  summary["step_durations_us"] = nb::cast(times.steps_us);
  nb::dict stats;
  stats["mean_us"] = times.mean_us;
  stats["std_us"] = times.std_us;
  summary["stats"] = stats;
  summary["truncated"] = times.kernels.size() < times.kernel_count;
  summary["total_records"] = times.kernel_count;
  summary["returned_records"] = times.kernels.size();
  summary["top_level_records"] = times.top_level_kernel_count;
  summary["total_duration_us_all_records"] = times.outermost_us;
  if (!times.excluded_lines.empty()) {
    nb::list excluded;
    for (const std::string& line : times.excluded_lines) excluded.append(ToPython(line));
    summary["excluded_intra_kernel_region_lines"] = excluded;
    summary["note"] = kNote;
  }
  return summary;
}

}  // namespace xplane_time::python
