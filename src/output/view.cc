#include "output/view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "output/results.h"
#include "status.h"

namespace xplane_time::output {

std::string MoreNote(size_t hidden, std::string_view what, std::string_view where) {
  std::string note = "... " + std::to_string(hidden) + " more " + std::string(what);
  if (hidden == 1 && note.back() == 's') note.pop_back();
  if (!where.empty()) note.append(": ").append(where);
  return note;
}

void NoteMore(size_t all, size_t shown, std::string_view what, std::string_view where,
              std::vector<std::string>* notes) {
  if (all <= shown) return;
  const std::string by_top = std::string(kByTop) + " " + std::to_string(all);
  notes->push_back(MoreNote(all - shown, what, where == kByTop ? by_top : where));
}

std::string IntervalText(const std::optional<double>& lo, const std::optional<double>& hi) {
  return lo && hi ? absl::StrCat(ChangeText(*lo), " .. ", ChangeText(*hi)) : "-";
}

std::string Counted(uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::vector<ViewLine> FilterLines(const OutputOptions& options, bool with_devices) {
  struct Filter {
    std::string_view option, before, after;
  };
  constexpr Filter kFilters[] = {
      {"function", "only functions that match ", ""},
      {"prefix", "only functions that start with ", ""},
      {"exclude", "functions that match ", " are left out"},
      {"kernel", "only kernels that match ", " count"},
      {"exclude_kernel", "kernels that match ", " are left out"},
      {"scope", "only kernels with a scope or source line that matches ", " count"}};
  std::vector<std::string> parts;
  bool names_function = false;  // perhaps the one whose runs are the steps
  for (const Filter& filter : kFilters) {
    const auto given = std::ranges::find(options.given, filter.option, &GivenOption::name);
    if (given == options.given.end()) continue;
    const auto* const pattern = std::get_if<std::string>(&given->value);
    if (pattern == nullptr) continue;
    parts.push_back(
        absl::StrCat(std::string(filter.before), Printable(*pattern), std::string(filter.after)));
    names_function |= filter.option == "function";
  }
  if (parts.empty()) return {};
  if (with_devices) {
    parts.emplace_back(names_function ? "devices include all executions"
                                      : "devices and steps include all executions");
  }
  return {{absl::StrCat("filter: ", absl::StrJoin(parts, "; ")), Tone::kPlain, ViewLine::kItem}};
}

std::string DeviceNames::Name(const DeviceRef& device) const {
  std::string name = DeviceName(device);
  const bool several_hosts = hosts_.size() > 1;
  if (several_hosts && !device.host.empty()) name.append("@").append(device.host);
  if (inputs_.size() > 1 && !several_hosts)
    name.append(" #").append(std::to_string(device.input + 1));
  return Printable(name);
}

namespace {

constexpr size_t kFindingWidth = 300;  // of one about completeness, over its lines
constexpr size_t kPlacedWidth = 140;   // of a diagnostic with its place; about two lines

int Rank(const DiagnosticRow& row) {
  if (row.severity == "error") return 0;
  // Every command states which run of a log directory it read.
  if (row.code == DiagnosticName(DiagnosticCode::kOtherRuns)) return 2;
  if (row.severity == "info") return 3;
  // Rows that the user's options exclude are not suspicious.
  return row.code.starts_with("left_out_by_") ? 2 : 1;
}

std::string DiagnosticText(const DiagnosticRow& row, size_t placed_width = kPlacedWidth) {
  std::string text = std::to_string(row.count) + "x " + Printable(row.message);
  if (row.plane.empty() && row.line.empty()) return text;
  std::string place = row.count > 1 ? " (first: " : " (";
  place.append(Printable(row.plane));
  if (!row.line.empty()) {
    place.append(row.plane.empty() ? "line \"" : ", line \"").append(Printable(row.line));
    place.append("\"");
  }
  if (row.event) place.append(", event ").append(std::to_string(*row.event));
  place.append(")");
  // The place gives way to the message: JSON has it too.
  return DisplayWidth(text) + DisplayWidth(place) <= placed_width ? text + place : text;
}

// The headers of `view`, each once, as names.
std::vector<std::string> NamesIn(const View& view) {
  std::vector<std::string> names;
  for (const Section& section : view.sections) {
    for (const Column& column : section.grid.columns) {
      std::string name = ColumnName(column.header);
      const bool is_new = std::find(names.begin(), names.end(), name) == names.end();
      if (is_new && !name.empty()) names.push_back(std::move(name));
    }
  }
  return names;
}

// The columns of a command are those that it shows for an empty result.
std::vector<std::string> NamesOf(std::string_view command) {
  const OutputOptions options;
  const Report report;
  PlanesReport planes;
  planes.planes.emplace_back().stats.emplace_back();
  EnergyReport energies;  // a table without rows is not shown
  for (auto* rows : {&energies.kernels, &energies.functions, &energies.layers}) {
    rows->emplace_back();
  }
  energies.groups.emplace_back();
  HeadroomReport headroom;
  headroom.ops.emplace_back();
  DiffReport diff;
  diff.total.base.emplace();
  diff.total.head.emplace();
  diff.rows.push_back(diff.total);
  diff.rows[0].delta_ps = 1;
  diff.functions.resize(2);
  WhereReport where;
  where.functions.emplace_back();
  where.transfers.emplace_back();
  where.gaps.emplace_back();
  const auto names = [&](auto... outputs) {
    View all;
    const auto add = [&](const Output& output) {
      for (Section& section : output.view(options).sections) {
        all.sections.push_back(std::move(section));
      }
    };
    (add(outputs), ...);
    return NamesIn(all);
  };
  const bool samples = command == "samples";
  if (samples || command == "functions") {
    return names(FunctionsOutput(report, options, /*by_id=*/false, samples));
  }
  if (command == "report") return names(ReportOutput(report, options));
  if (command == "kernels") return names(KernelsOutput(report, options));
  if (command == "tree") {
    TreeReport by_scope;
    by_scope.by = TreeBy::kScope;
    return names(TreeOutput({}, options), TreeOutput(by_scope, options));
  }
  if (command == "where") {
    return names(WhereOutput(where, options, WhereRows::kDevices),
                 WhereOutput(where, options, WhereRows::kSteps),
                 WhereOutput(where, options, WhereRows::kGaps));
  }
  if (command == "planes") return names(PlanesOutput(planes, options));
  if (command == "headroom") return names(HeadroomOutput(headroom, options));
  if (command == "diff") return names(DiffOutput(diff, options));
  if (command == "energy") return names(EnergyOutput(energies, options));
  if (command == "compare") return names(CompareOutput({}));
  if (command == "pick") return names(PickOutput({}));
  return {};
}

}  // namespace

std::vector<DiagnosticLine> DiagnosticLines(const std::vector<DiagnosticRow>& rows,
                                            bool with_infos) {
  std::vector<DiagnosticLine> lines;
  for (const int rank : {0, 1, 2, 3}) {
    if (rank == 3 && !with_infos) break;
    for (const DiagnosticRow& row : rows) {
      if (Rank(row) != rank) continue;
      lines.push_back({rank == 2 ? "note" : row.severity, DiagnosticText(row)});
    }
  }
  return lines;
}

std::vector<DiagnosticRow> OtherDiagnostics(const std::vector<DiagnosticRow>& rows) {
  std::vector<DiagnosticRow> others;
  std::ranges::copy_if(rows, std::back_inserter(others),
                       [](const DiagnosticRow& row) { return !row.is_of_completeness; });
  return others;
}

std::vector<ViewLine> CompletenessLines(const Report& report, const OutputOptions& options) {
  constexpr size_t kMaxOfCode = 3;
  std::vector<const DiagnosticRow*> findings;
  std::map<std::string_view, size_t> of_code;
  for (const DiagnosticRow& row : report.diagnostics) {
    if (!row.is_of_completeness) continue;
    findings.push_back(&row);
    ++of_code[row.code];
  }
  std::vector<ViewLine> lines;
  const bool is_complete = std::ranges::all_of(findings, [](const DiagnosticRow* row) {
    return row->severity == "info" && row->code != "launch_at_end" && row->code != "without_launch";
  });
  if (is_complete) {
    const uint64_t launches = report.launches_compared;
    std::string text =
        launches == 0
            ? "no sign of loss; no launches were counted, so lost executions cannot be detected"
        : launches == 1
            ? "complete: 1 launch of a kernel or graph, with its execution; the profiler reported "
              "no loss"
            : absl::StrCat("complete: ", launches,
                           " launches of kernels or graphs, each with an execution; the profiler "
                           "reported no loss");
    lines.push_back({std::move(text), Tone::kDim, ViewLine::kItem});
  }
  std::ranges::stable_sort(findings, {}, [](const DiagnosticRow* row) { return Rank(*row); });
  const bool shortens = options.format == Format::kTable && !options.wide;
  std::map<std::string_view, size_t> shown;
  for (const DiagnosticRow* row : findings) {
    const size_t count = ++shown[row->code];
    if (count > kMaxOfCode) continue;
    const bool is_error = row->severity == "error";
    std::string text = DiagnosticText(*row, kFindingWidth);
    if (shortens && !is_error) {
      text = ShortenWords(text, kFindingWidth, options.unicode ? "…" : "...");
    }
    const Tone tone = is_error                     ? Tone::kBad
                      : row->severity == "warning" ? Tone::kWarning
                                                   : Tone::kPlain;
    lines.push_back({absl::StrCat(row->severity, ": ", text), tone, ViewLine::kItem});
    if (count < kMaxOfCode || of_code[row->code] == count) continue;
    lines.push_back({MoreNote(of_code[row->code] - count, "findings", "--format json"), Tone::kDim,
                     ViewLine::kItem});
  }
  return lines;
}

std::string DiagnosticsTitle(const DiagnosticLine& line) {
  const bool suspicious = line.severity == "error" || line.severity == "warning";
  return suspicious ? "suspicious in this trace" : "notes on this trace";
}

absl::StatusOr<std::vector<std::string>> ParseColumns(std::string_view command,
                                                      std::string_view text) {
  const std::vector<std::string> valid = NamesOf(command);
  std::vector<std::string> names;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    std::string name = ColumnName({part.data(), part.size()});
    if (std::find(valid.begin(), valid.end(), name) == valid.end()) {
      return InvalidArgument("--columns: unknown column \"", part,
                             "\"; valid columns: ", absl::StrJoin(valid, ", "));
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace xplane_time::output
