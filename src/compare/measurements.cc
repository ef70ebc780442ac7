// Reads measurements: detects the kind of each input, reads traces through BuildReport, and removes
// captures that occur twice.
#include "xplane_time/measurements.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/inputs.h"
#include "fleet/rows.h"
#include "io/whole_file.h"
#include "status.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace compare {
namespace {

// A trace: everything in the path is one capture (all hosts of a directory).

std::string NumberOf(const StatValue& value) {
  if (value.type == StatType::kUint64) return absl::StrCat(value.bits);
  if (value.type == StatType::kInt64) return absl::StrCat(static_cast<int64_t>(value.bits));
  if (value.type == StatType::kDouble) return absl::StrCat(std::bit_cast<double>(value.bits));
  return std::string(value.text);
}

void AddFacts(const Trace& trace, const Report& report, Measurements* out) {
  std::set<std::string> kinds, models, hosts;
  for (const SampleRow& sample : report.samples) {
    if (!sample.device.host.empty()) hosts.insert(sample.device.host);
  }
  std::set<std::pair<std::string_view, uint32_t>> devices;  // plane and input
  for (const DeviceRow& row : report.devices) {
    if (row.executions == 0) continue;
    kinds.insert(std::string(DeviceKindName(row.kind)));
    devices.emplace(row.device.plane, row.device.input);
  }
  for (const Plane& plane : trace.planes) {
    if (!devices.contains({plane.name, plane.file})) continue;
    if (std::string model = ModelOf(plane); !model.empty()) models.insert(std::move(model));
  }
  if (!kinds.empty()) out->facts.push_back({"device kind", absl::StrJoin(kinds, " and ")});
  if (!models.empty()) out->facts.push_back({"device model", absl::StrJoin(models, " and ")});
  if (!hosts.empty()) out->labels.push_back({"host", absl::StrJoin(hosts, ", ")});
}

absl::StatusOr<Measurements> FromTrace(const std::string& path, const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  ASSIGN_OR_RETURN(const auto inputs, FindInputs(std::span(&path, 1), options.find));
  Diagnostics diagnostics;
  ASSIGN_OR_RETURN(const Trace trace, OpenTrace(inputs, options.read, &diagnostics));
  ReportOptions wanted = options.report;
  wanted.samples = true;
  // The series apply these options, because they count the runs that they leave out.
  wanted.skip_runs = 0;
  wanted.trim = {};
  ASSIGN_OR_RETURN(const Report report, BuildReport(trace, wanted, diagnostics));
  Measurements out = {.source = path, .options = OptionFacts(options.report)};
  AddFacts(trace, report, &out);
  AddRows(report, filters, options, &out);
  for (const DiagnosticRow& row : report.diagnostics) {
    const bool is_told = row.code == DiagnosticName(DiagnosticCode::kFilesApart);  // see FolderNote
    if (row.severity == "info" || is_told) continue;
    out.notes.push_back(absl::StrCat(path, ": ", row.count, " x ", row.message));
  }
  return out;
}

// A folder holds the hosts of one run, or is a log directory. This note is for users who meant each
// file or run as a capture.
std::optional<std::string> FolderNote(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::nullopt;
  using Entries = std::filesystem::directory_iterator;
  const auto traces = std::ranges::count_if(Entries(path, error), [](const auto& each) {
    const std::string name = each.path().filename().string();
    return name.ends_with(".pb") || name.ends_with(".pb.gz");
  });
  const std::filesystem::path profiles = std::filesystem::path(path) / "plugins" / "profile";
  const auto runs = std::ranges::count_if(
      Entries(profiles, error), [&](const auto& each) { return each.is_directory(error); });
  if (traces > 1) {
    return absl::StrCat(path, ": the ", traces,
                        " traces in this folder are read as the hosts of one capture; if each is a "
                        "separate capture, write ",
                        path, path.ends_with('/') ? "*" : "/*");
  }
  if (runs < 2) return std::nullopt;
  return absl::StrCat(path, ": only the latest of the ", runs,
                      " runs in this folder is read, as one capture; to read all of them, write ",
                      profiles.string(), "/*");
}

absl::StatusOr<std::vector<Measurements>> ReadOne(const std::string& path,
                                                  const MeasureOptions& options) {
  const bool is_json = IsJsonOfMeasurements(path);
  if (is_json || !fleet::HeadOfSummary(path).empty()) {
    if (!options.find.run.empty() || options.read.reader != Reader::kWire) {
      return InvalidArgument(path, ": ", options.find.run.empty() ? "--reader" : "--run",
                             " applies only to traces, but this is ",
                             is_json ? "JSON" : "a summary", "; omit it");
    }
    constexpr size_t kMaxBytes = size_t{4} << 30;
    ASSIGN_OR_RETURN(const std::string content, io::ReadWholeFile(path, kMaxBytes));
    return is_json ? FromJson(path, content, options) : FromSummary(path, content, options);
  }
  RETURN_IF_ERROR(FindInputs(std::span(&path, 1), options.find).status());
  RETURN_IF_ERROR(CheckObjective(path, /*holds_energies=*/false, options.objective));
  ASSIGN_OR_RETURN(Measurements one, FromTrace(path, options));
  if (auto note = FolderNote(path); note.has_value()) one.notes.push_back(*std::move(note));
  return std::vector{std::move(one)};
}

bool SameSeries(const Series& a, const Series& b) {
  return a.function == b.function && a.device == b.device && a.program == b.program &&
         a.samples == b.samples;
}

}  // namespace

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

absl::Status CheckObjective(const std::string& path, bool holds_energies, Objective objective) {
  if (holds_energies == (objective == Objective::kEnergy)) return absl::OkStatus();
  return holds_energies
             ? FailedPrecondition(path,
                                  ": contains energies, but times are compared; give --objective ",
                                  "energy, or the trace")
             : FailedPrecondition(
                   path, ": contains no energies; give the output of xplane-time energy TRACE ",
                   "--power LOG --format json");
}

bool SameCapture(const Measurements& a, const Measurements& b) {
  if (a.unit != b.unit) return false;
  if (a.source == b.source) return !a.source.empty();
  const bool tells = std::ranges::any_of(a.series, [](const Series& series) {
    return !series.samples.empty() &&
           (series.samples.back().start_ps != 0 || series.log_error.has_value());
  });
  return tells && std::ranges::equal(a.series, b.series, SameSeries);
}

}  // namespace compare

absl::StatusOr<MeasurementSet> ReadMeasurements(std::span<const std::string> paths,
                                                const MeasureOptions& options) {
  MeasurementSet set;
  for (const std::string& path : paths) {
    if (options.stopped && options.stopped())
      return absl::CancelledError("reading was interrupted");
    ASSIGN_OR_RETURN(std::vector<Measurements> captures, compare::ReadOne(path, options));
    for (Measurements& capture : captures) {
      const auto twin = std::ranges::find_if(set.captures, [&](const Measurements& earlier) {
        return compare::SameCapture(earlier, capture);
      });
      if (twin != set.captures.end()) {
        if (twin->options != capture.options) {
          const Measurements both[] = {*twin, capture};
          return compare::CheckMeasuredAlike(both, {}, /*allowed=*/false, &set.notes);
        }
        const std::string what = capture.source == twin->source
                                     ? absl::StrCat(capture.source, " is given twice")
                                     : absl::StrCat(capture.source, " repeats ", twin->source);
        set.notes.push_back(absl::StrCat(what, " and counts once: it is not a second process"));
        continue;
      }
      set.notes.insert(set.notes.end(), capture.notes.begin(), capture.notes.end());
      set.captures.push_back(std::move(capture));
    }
  }
  return set;
}

}  // namespace xplane_time
