// Our own JSON: report.v1 or functions.v1 with samples.
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "compare/compare.h"
#include "compare/json_inputs.h"
#include "compare/kernel_changes.h"
#include "compare/option_facts.h"

namespace xplane_time::compare {
namespace {

absl::Status Bad(const std::string& path, size_t row, std::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": samples[", row,
                                          "]: ", absl::string_view(what.data(), what.size()),
                                          "; write the file again with --samples"));
}

std::optional<std::string> TextOf(const Json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<int64_t> WholeOf(const Json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{INT64_MAX}) {
    return std::nullopt;
  }
  return found->get<int64_t>();
}

absl::StatusOr<SampleRow> ReadSample(const std::string& path, size_t at, const Json& json) {
  if (!json.is_object()) return Bad(path, at, "is not an object");
  SampleRow row;
  const auto function = TextOf(json, "function"), plane = TextOf(json, "plane"),
             clock = TextOf(json, "clock");
  const auto span_ps = WholeOf(json, "span_ps"), start_ps = WholeOf(json, "start_ps"),
             run = WholeOf(json, "run");
  if (!function || !plane || !clock || !span_ps || !start_ps || !run || *run < 0) {
    return Bad(path, at, "lacks function, plane, clock, run, start_ps or span_ps");
  }
  row.function = *function;
  row.device.plane = *plane;
  row.device.ordinal = WholeOf(json, "ordinal");
  row.device.host = TextOf(json, "host").value_or("");
  row.device.input = static_cast<uint32_t>(WholeOf(json, "input").value_or(0));
  row.program_id = TextOf(json, "program_id");
  row.variant_id = TextOf(json, "variant_id");
  row.run = static_cast<uint64_t>(*run);
  row.start_ps = *start_ps;
  row.span_ps = *span_ps;
  row.active_ps = WholeOf(json, "active_ps");
  row.sum_ps = WholeOf(json, "sum_ps");
  row.clock = *clock == "device" ? Clock::kDevice : Clock::kProfile;
  const auto suspect = json.find("suspect");
  row.suspect = suspect != json.end() && suspect->is_boolean() && suspect->get<bool>();
  return row;
}

// The capture of each input; inputs that the document does not describe are captures of
// their own.
uint32_t CaptureOf(const Json& document, uint32_t input) {
  const auto inputs = document.find("inputs");
  if (inputs == document.end() || !inputs->is_array() || input >= inputs->size()) return input;
  const Json& row = (*inputs)[input];
  const auto capture = row.is_object() ? WholeOf(row, "capture") : std::nullopt;
  return static_cast<uint32_t>(capture.value_or(input));
}

void AddFacts(const Json& document, Measurements* out) {
  const auto devices = document.find("devices");
  if (devices == document.end() || !devices->is_array()) return;
  std::set<std::string> kinds;
  for (const Json& device : *devices) {
    if (!device.is_object() || WholeOf(device, "executions").value_or(0) == 0) continue;
    if (const auto kind = TextOf(device, "kind")) kinds.insert(*kind);
  }
  std::string all;
  for (const std::string& kind : kinds) all.append(all.empty() ? "" : " and ").append(kind);
  if (!all.empty()) out->facts.push_back({"device kind", all});
}

UncertainFunctions FindUncertain(const Json& document, const DeviceLabels& labels) {
  UncertainFunctions uncertain;
  const auto functions = document.find("functions");
  if (functions == document.end() || !functions->is_array()) return uncertain;
  for (const Json& row : *functions) {
    if (!row.is_object() || TextOf(row, "status") != "runs_uncertain") continue;
    DeviceRef device;
    device.plane = TextOf(row, "plane").value_or("");
    device.ordinal = WholeOf(row, "ordinal");
    device.host = TextOf(row, "host").value_or("");
    uncertain.insert({labels.Label(device), TextOf(row, "function").value_or("")});
  }
  return uncertain;
}

// Rows of one capture, where none were cut off.
std::vector<KernelTime> FindKernels(const Json& document, uint32_t capture,
                                    const Filters& filters) {
  KernelTimes kernels;
  const auto options = document.find("options");
  if (options != document.end() && options->contains("top")) return {};
  for (const char* section : {"functions", "kernels"}) {
    const auto rows = document.find(section);
    if (rows == document.end() || !rows->is_array()) return {};
    for (const Json& row : *rows) {
      const auto function = row.is_object() ? TextOf(row, "function") : std::nullopt;
      if (!function.has_value() || !filters.WantsFunction(*function)) continue;
      const auto input = static_cast<uint32_t>(WholeOf(row, "input").value_or(0));
      if (CaptureOf(document, input) != capture) continue;
      const auto kernel = TextOf(row, "kernel");
      const auto runs = WholeOf(row, "runs"), self_ps = WholeOf(row, "self_ps"),
                 time_ps = self_ps.has_value() ? self_ps : WholeOf(row, "total_ps");
      if (runs.value_or(0) > 0) kernels.AddRuns(*function, static_cast<uint64_t>(*runs));
      if (kernel.has_value() && time_ps.has_value()) kernels.Add(*function, *kernel, *time_ps);
    }
  }
  return kernels.Take();
}

}  // namespace

absl::StatusOr<std::vector<Measurements>> FromResult(const std::string& path, const Json& document,
                                                     const MeasureOptions& asked) {
  MeasureOptions options = asked;
  const auto facts = OptionFacts(path, document, &options.report);
  if (!facts.ok()) return facts.status();
  const auto filters = Filters::Compile(options.report);
  if (!filters.ok()) return filters.status();
  const auto samples = document.find("samples");
  if (samples == document.end() || !samples->is_array() || samples->empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": holds no samples; write it with --samples"));
  }
  std::map<uint32_t, std::vector<SampleRow>> captures;
  for (size_t i = 0; i < samples->size(); ++i) {
    auto row = ReadSample(path, i, (*samples)[i]);
    if (!row.ok()) return row.status();
    // The pattern of this command counts before that of the one that wrote the file.
    row->variant_id = filters->id.Capture(row->function);
    captures[CaptureOf(document, row->device.input)].push_back(*std::move(row));
  }
  std::vector<Measurements> out;
  for (const auto& [capture, rows] : captures) {
    Measurements& one = out.emplace_back();
    one.source = captures.size() == 1 ? path : absl::StrCat(path, " #", capture + 1);
    one.options = *facts;
    AddFacts(document, &one);
    const DeviceLabels labels(rows);
    std::vector<std::string> notes;
    one.series =
        SeriesFromSamples(rows, FindUncertain(document, labels), *filters, options, &notes);
    one.kernels = FindKernels(document, capture, *filters);
    if (options.slowest_device) one.series = SlowestDevice(one.series, &notes);
    for (std::string& note : notes) one.notes.push_back(absl::StrCat(one.source, ": ", note));
  }
  return out;
}

}  // namespace xplane_time::compare
