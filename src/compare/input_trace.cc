// A trace, through the report.
#include <algorithm>
#include <bit>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/inputs.h"
#include "compare/option_facts.h"
#include "status.h"
#include "xplane_time/select.h"

namespace xplane_time::compare {
namespace {

std::string NumberOf(const StatValue& value) {
  switch (value.type) {
    case StatType::kUint64:
      return absl::StrCat(value.bits);
    case StatType::kInt64:
      return absl::StrCat(static_cast<int64_t>(value.bits));
    case StatType::kDouble:
      return absl::StrCat(std::bit_cast<double>(value.bits));
    default:
      return std::string(value.text);
  }
}

// The producer's name for the model, else what tells models apart; empty: not told.
std::string ModelOf(const Plane& plane) {
  const StatValue type = plane.FindStat("device_type_string");
  if (type.type != StatType::kAbsent) return NumberOf(type);
  std::string text;
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"device_vendor", ""},     {"compute_cap_major", " capability "}, {"compute_cap_minor", "."},
      {"core_count", " cores "}, {"memory_size", " memory "},           {"clock_rate", " clock "}};
  for (const auto& [stat, label] : kParts) {
    const StatValue value = plane.FindStat(stat);
    if (value.type != StatType::kAbsent) absl::StrAppend(&text, label, NumberOf(value));
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

void AddFacts(const Trace& trace, const Report& report, Measurements* out) {
  std::set<std::string> kinds, models, hosts;
  for (const SampleRow& sample : report.samples) {
    if (!sample.device.host.empty()) hosts.insert(sample.device.host);
  }
  for (const DeviceRow& row : report.devices) {
    if (row.executions == 0) continue;
    kinds.insert(std::string(DeviceKindName(row.kind)));
    for (const Plane& plane : trace.planes) {
      if (plane.name != row.device.plane || plane.file != row.device.input) continue;
      if (std::string model = ModelOf(plane); !model.empty()) models.insert(std::move(model));
    }
  }
  if (!kinds.empty()) out->facts.push_back({"device kind", absl::StrJoin(kinds, " and ")});
  if (!models.empty()) out->facts.push_back({"device model", absl::StrJoin(models, " and ")});
  if (!hosts.empty()) out->labels.push_back({"host", absl::StrJoin(hosts, ", ")});
}

UncertainFunctions FindUncertain(const Report& report) {
  const DeviceLabels labels(report.samples);
  UncertainFunctions uncertain;
  for (const FunctionRow& row : report.functions) {
    if (row.status != RowStatus::kRunsUncertain) continue;
    uncertain.insert({labels.Label(*row.device), row.function});
  }
  return uncertain;
}

}  // namespace

absl::StatusOr<Measurements> FromTrace(const std::string& path, const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  ASSIGN_OR_RETURN(const auto inputs, FindInputs(std::span(&path, 1), options.find));
  Diagnostics diagnostics;
  ASSIGN_OR_RETURN(const Trace trace, OpenTrace(inputs, options.read, &diagnostics));
  ReportOptions wanted = options.report;
  wanted.samples = true;
  // Of series, which know how many runs they leave out.
  wanted.skip_runs = 0;
  wanted.trim = {};
  ASSIGN_OR_RETURN(const Report report, BuildReport(trace, wanted, diagnostics));
  Measurements out;
  out.source = path;
  out.options = OptionFacts(options.report);
  AddFacts(trace, report, &out);
  std::vector<std::string> notes;
  out.series = SeriesFromSamples(report.samples, FindUncertain(report), filters, options, &notes);
  KernelTimes kernels;
  for (const FunctionRow& row : report.functions) kernels.AddRuns(row.function, row.runs);
  for (const KernelRow& row : report.kernels) {
    if (row.function.has_value()) {
      kernels.Add(*row.function, row.kernel, row.self_ps.value_or(row.total_ps));
    }
  }
  out.kernels = kernels.Take();
  if (options.slowest_device) out.series = SlowestDevice(out.series, &notes);
  for (const DiagnosticRow& row : report.diagnostics) {
    if (row.severity != "info") notes.push_back(absl::StrCat(row.count, " x ", row.message));
  }
  for (std::string& note : notes) out.notes.push_back(absl::StrCat(path, ": ", note));
  return out;
}

}  // namespace xplane_time::compare
