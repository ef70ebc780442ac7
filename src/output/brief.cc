// Brief: findings as text of at most so many bytes. First the largest ops are left out, then whole
// findings, the last first; findings that are left out are counted. At last only the headline
// remains, which is cut only if it alone is too long.
#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "insight/brief_words.h"
#include "output/markdown.h"
#include "output/results.h"
#include "output/trace_views.h"
#include "result/rows.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using insight::CountText, insight::ShareText, insight::TimeText;
using result::FieldSink, result::TableOf;

using Findings = std::span<const BriefFinding>;

constexpr size_t kShownOps = 5;

void VisitRow(const BriefDevice& row, FieldSink* sink) {
  result::VisitDevice(&row.device, sink);
  sink->Field("kind", DeviceKindName(row.kind));
  XPLANE_TIME_FIELDS(sink, row.span_ps, row.recoverable_ps);
  result::VisitSteps(row.steps, sink);
}

void VisitPart(const BriefPart& row, FieldSink* sink) {
  result::VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.recoverable_ps);
}

void VisitRow(const BriefFinding& row, FieldSink* sink) {
  result::VisitDevice(row.device.has_value() ? &*row.device : nullptr, sink);
  XPLANE_TIME_FIELDS(sink, row.code);
  sink->Field("certainty", CertaintyName(row.certainty));
  XPLANE_TIME_FIELDS(sink, row.function, row.recoverable_ps, row.share, row.what, row.evidence,
                     row.command);
  sink->Rows(TableOf("parts", std::span(row.parts), VisitPart));
}

void VisitRow(const BriefOp& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.function, row.op, row.kernel);
  sink->Field("category", CategoryName(row.category));
  XPLANE_TIME_FIELDS(sink, row.executions, row.time_ps, row.share, row.op_name, row.source);
}

double ToDouble(int64_t ps) { return static_cast<double>(ps); }

// What the trace lacks, and what in it cannot be right. Readers must know before the findings.
std::vector<DiagnosticLine> CompletenessWarnings(const BriefReport& report) {
  constexpr size_t kMaxWarnings = 4, kWidth = 240;
  std::vector<DiagnosticRow> rows;
  std::ranges::copy_if(report.diagnostics, std::back_inserter(rows), &DiagnosticRow::is_doubt);
  std::vector<DiagnosticLine> lines = DiagnosticLines(rows, /*with_infos=*/false);
  const size_t more = lines.size() - std::min(lines.size(), kMaxWarnings);
  lines.resize(lines.size() - more);
  for (DiagnosticLine& line : lines) line.text = ShortenWords(line.text, kWidth, "...");
  if (more > 0) lines.push_back({"warning", CountText(more, "more warning") + " in `report`"});
  return lines;
}

// Errors that concern no times, and the runs of a log directory that were not read.
std::vector<DiagnosticLine> LastLines(const BriefReport& report) {
  std::vector<DiagnosticRow> rows = OtherDiagnostics(report.diagnostics);
  std::erase_if(rows, [](const DiagnosticRow& row) {
    return row.severity != "error" && row.code != DiagnosticName(DiagnosticCode::kOtherRuns);
  });
  return DiagnosticLines(rows, /*with_infos=*/false);
}

// "GPU:0", "4 devices", "4 devices in 2 captures".
std::string DevicesText(const BriefReport& report) {
  const std::vector<BriefDevice>& devices = report.devices;
  if (devices.size() == 1) return Printable(DeviceName(devices[0].device));
  std::set<uint32_t> captures;
  for (const BriefDevice& device : devices) {
    if (device.device.input < report.inputs.size()) {
      captures.insert(report.inputs[device.device.input].capture);
    }
  }
  return absl::StrCat(CountText(devices.size(), "device"),
                      captures.size() > 1
                          ? absl::StrCat(" in ", CountText(captures.size(), "capture"))
                          : std::string());
}

// The line in front of the findings.
std::string HeadText(const BriefReport& report) {
  if (report.devices.empty()) return "0 devices: there are no kernels to rank";
  const std::string all =
      absl::StrCat(report.devices.size() == 1 ? "" : "together ",
                   TimeText(ToDouble(report.span_ps)), " from first start to last end");
  const std::string who = absl::StrCat(DevicesText(report), ": ", all);
  if (report.recoverable_ps == 0) {
    return absl::StrCat(who, "; no finding could save 1 % of it");
  }
  const double share = ToDouble(report.recoverable_ps) / ToDouble(report.span_ps);
  return absl::StrCat(who, "; fixing all findings could save at most ",
                      TimeText(ToDouble(report.recoverable_ps)), " (", ShareText(share),
                      ") of it. Shares below are relative to ", TimeText(ToDouble(report.span_ps)));
}

// "3.2 ms of 15.8 ms (20 %), GPU:0".
std::string AmountText(const BriefReport& report, const BriefFinding& finding) {
  if (!finding.recoverable_ps.has_value()) return "unknown amount";
  std::string text = absl::StrCat(TimeText(ToDouble(*finding.recoverable_ps)), " of ",
                                  TimeText(ToDouble(report.span_ps)), " (",
                                  ShareText(finding.share.value_or(0)), ")");
  if (report.devices.size() < 2) return text;
  if (finding.parts.size() != 1) {
    return absl::StrCat(text, " on ", CountText(finding.parts.size(), "device"));
  }
  return absl::StrCat(text, " on ", DeviceNames(report.devices).Name(finding.parts[0].device));
}

// Lines after the first behind `indent` spaces; one line in Markdown.
std::string Paragraph(std::string_view text, size_t indent, const OutputOptions& options) {
  if (options.format == Format::kMarkdown) return MarkdownText(text) + "\n";
  const size_t width = static_cast<size_t>(std::max(options.width, 40)) - indent;
  std::string lines = Wrap(Printable(text), width, 0);
  while (lines.ends_with('\n')) lines.pop_back();
  const std::string line_end = "\n" + std::string(indent, ' ');
  for (size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 1)) {
    lines.replace(at, 1, line_end);
  }
  return lines + "\n";
}

std::string FindingText(const BriefReport& report, const BriefFinding& finding, size_t number,
                        const OutputOptions& options) {
  const std::string mark = absl::StrCat(number, ". ");
  const std::string what = absl::StrCat(AmountText(report, finding), ": ", finding.what);
  const std::string &evidence = finding.evidence, command = Printable(finding.command);
  if (options.format == Format::kMarkdown) {
    return absl::StrCat(mark, MarkdownText(what), "  \n   ", MarkdownText(evidence), "  \n   ",
                        MarkdownCode(command), "\n");
  }
  const std::string indent(mark.size(), ' ');
  const char *const bold = options.color ? "\x1b[1m" : "", *const plain =
                                                               options.color ? "\x1b[0m" : "";
  return absl::StrCat(bold, mark, Paragraph(what, mark.size(), options), plain, indent,
                      Paragraph(evidence, mark.size(), options), indent, "see: ", command, "\n");
}

// "77 %  9.53 ms  sort.3 of jit_step (model.py:12)"
std::string OpsText(const BriefReport& report, size_t shown, const OutputOptions& options) {
  if (shown == 0) return "";
  const bool is_markdown = options.format == Format::kMarkdown;
  std::string text = is_markdown ? "\nLargest ops:\n\n" : "\nlargest ops\n";
  for (size_t i = 0; i < shown; ++i) {
    const BriefOp& op = report.ops[i];
    std::string name(insight::ShortName(op.op));
    if (op.function.has_value()) absl::StrAppend(&name, " of ", insight::ShortName(*op.function));
    if (op.source.has_value()) absl::StrAppend(&name, " (", *op.source, ")");
    const std::string share = ShareText(op.share), time = TimeText(ToDouble(op.time_ps));
    if (is_markdown) {
      absl::StrAppend(&text, "- ", share, ", ", time, ": ", MarkdownText(name), "\n");
      continue;
    }
    const std::string head =
        absl::StrCat(std::string(6 - std::min<size_t>(share.size(), 6), ' '), share, "  ",
                     std::string(9 - std::min<size_t>(time.size(), 9), ' '), time, "  ");
    absl::StrAppend(&text, head, Paragraph(name, head.size(), options));
  }
  return text;
}

// One line, however long, so that the first line has all of it.
std::string HeadlineLine(std::string_view headline, const OutputOptions& options) {
  if (options.format == Format::kMarkdown) return absl::StrCat(MarkdownText(headline), "\n\n");
  return absl::StrCat(options.color ? "\x1b[1m" : "", Printable(headline),
                      options.color ? "\x1b[0m" : "", "\n");
}

// The headline, and the number of findings if it fits. A headline that is too long is cut.
std::string HeadlineText(const BriefReport& report, size_t bytes, const OutputOptions& options) {
  const std::string headline = HeadlineLine(report.headline, options);
  const std::string count =
      absl::StrCat("... ", CountText(report.findings.size(), "finding"), ": more --bytes\n");
  if (headline.size() + count.size() <= bytes) return headline + count;
  if (headline.size() <= bytes) return headline;
  OutputOptions plain = options;
  plain.color = false;
  for (size_t width = std::min(DisplayWidth(report.headline), bytes); width > 0; --width) {
    std::string cut = HeadlineLine(ShortenWords(report.headline, width, "..."), plain);
    if (cut.size() <= bytes) return cut;
  }
  return "";
}

// `by_bytes`: no more of them fit.
std::string PeopleText(const BriefReport& report, size_t shown, size_t ops, bool by_bytes,
                       const OutputOptions& options) {
  const bool is_markdown = options.format == Format::kMarkdown;
  std::string text = HeadlineLine(report.headline, options);
  for (const DiagnosticLine& line : CompletenessWarnings(report)) {
    absl::StrAppend(
        &text, Paragraph(absl::StrCat(std::string(line.severity), ": ", line.text), 0, options),
        is_markdown ? "\n" : "");
  }
  const bool has_cause = !report.findings.empty() && report.findings[0].recoverable_ps.has_value();
  for (const std::string& line : StepLines(report)) {
    if (has_cause && line.starts_with("unclear: ")) continue;  // the headline has it, or knows more
    absl::StrAppend(&text, Paragraph(line, 0, options),
                    options.format == Format::kMarkdown ? "\n" : "");
  }
  for (const std::string& doubt : report.doubts) {
    absl::StrAppend(&text, Paragraph(absl::StrCat("note: ", doubt), 0, options),
                    is_markdown ? "\n" : "");
  }
  absl::StrAppend(&text, Paragraph(HeadText(report), 0, options));
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, "\n", FindingText(report, report.findings[i], i + 1, options));
  }
  if (const size_t more = report.findings.size() - shown; more > 0) {
    absl::StrAppend(&text, "\n... ", CountText(more, shown == 0 ? "finding" : "more finding"), ": ",
                    by_bytes ? "more --bytes" : absl::StrCat("--limit ", report.findings.size()),
                    "\n");
  }
  if (report.recoverable_ps > 0 && report.near_roof_ps > 0) {
    absl::StrAppend(
        &text, "\n",
        Paragraph(absl::StrCat("Not included: at most ", TimeText(ToDouble(report.near_roof_ps)),
                               " in ops above 60 % of their roofs (xplane-time "
                               "headroom)"),
                  0, options));
  }
  absl::StrAppend(&text, OpsText(report, ops, options));
  for (const DiagnosticLine& line : LastLines(report)) {
    absl::StrAppend(
        &text, "\n",
        Paragraph(absl::StrCat(std::string(line.severity), ": ", line.text), 0, options));
  }
  return text;
}

}  // namespace

Output BriefOutput(const BriefReport& report, size_t most_findings, const OutputOptions& options,
                   bool by_bytes, bool with_ops) {
  const size_t shown = std::min(report.findings.size(), most_findings);
  const size_t ops = with_ops ? std::min(report.ops.size(), kShownOps) : 0;
  const Findings findings = std::span(report.findings).first(shown);
  const auto visit = [](const BriefFinding& row, FieldSink* sink) { VisitRow(row, sink); };
  Output out{.result = result::Result("xplane-time.brief.v1")};
  AddHead(report.inputs, nullptr, options.given, &out.result);
  out.result.Say([&report, shown](FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, report.headline, report.span_ps, report.recoverable_ps,
                       report.near_roof_ps);
    sink->Field("left_out", report.findings.size() - shown);
    std::vector<std::string> warnings;
    for (DiagnosticLine& line : CompletenessWarnings(report)) {
      warnings.push_back(std::move(line.text));
    }
    sink->Texts("warnings", warnings);
    sink->Texts("doubts", report.doubts);
  });
  out.result.Add(TableOf("findings", findings, visit));
  out.result.Add(TableOf("ops", std::span(report.ops).first(ops),
                         [](const BriefOp& row, FieldSink* sink) { VisitRow(row, sink); }));
  out.result.Add(TableOf("devices", std::span(report.devices),
                         [](const BriefDevice& row, FieldSink* sink) { VisitRow(row, sink); }));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = TableOf("", findings, visit);
  for (const Format format : {Format::kTable, Format::kMarkdown}) {
    out.others[format] = [&report, shown, ops, by_bytes, options] {
      return PeopleText(report, shown, ops, by_bytes, options);
    };
  }
  return out;
}

absl::StatusOr<std::string> BriefText(const BriefReport& report, const BriefSize& size,
                                      const OutputOptions& options, const RenderOutput& render) {
  const size_t most = std::min(report.findings.size(), size.findings);
  bool with_ops = true;
  const auto text_of = [&](size_t findings) -> absl::StatusOr<std::string> {
    const Output output =
        BriefOutput(report, findings, options, /*by_bytes=*/findings < most, with_ops);
    return render ? render(output) : Render(output, options);
  };
  size_t shown = most;
  ASSIGN_OR_RETURN(std::string text, text_of(shown));
  if (text.size() > size.bytes) {
    with_ops = false;
    ASSIGN_OR_RETURN(text, text_of(shown));
  }
  while (text.size() > size.bytes && shown > 0) {
    ASSIGN_OR_RETURN(text, text_of(--shown));
  }
  if (text.size() <= size.bytes) return text;
  if (!options.for_people()) {
    return InvalidArgument("--bytes ", size.bytes, ": the output without findings has ",
                           text.size(), " bytes; use a larger number");
  }
  return HeadlineText(report, size.bytes, options);
}

}  // namespace xplane_time::output
