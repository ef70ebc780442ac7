#include "output/page/page.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <set>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "io/sha256.h"
#include "output/page/assets.h"
#include "output/page/kept_rows.h"
#include "output/view.h"
#include "status.h"
#include "xplane_time/version.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::TableOf;

// Rows of a table in the HTML; the page's data has the others.
constexpr size_t kMostRows = 500;
// The limit of any list; its document and table with this many rows take at most 1 MB.
constexpr size_t kMostKept = 10'000;
// Maximum characters of a cell: the document has whole names, and a name of megabytes should not be
// in the page twice.
constexpr size_t kMaxCellLetters = 500;
// Characters that are shown until a reader asks for more: of a name, and of a number or hash.
constexpr size_t kFirstLetters = 96, kFirstDigits = 9;

std::string Text(std::string_view text) { return XmlText(ValidUtf8(text)); }

// A column that is in the HTML.
struct ShownColumn {
  const Column* column;
  std::vector<std::string> cells;
};
using ShownColumns = std::vector<ShownColumn>;

std::vector<std::string> CellsWithin(size_t letters, const Column& column) {
  bool numbered = false;
  return WidestOf(column.cells) <= letters ? column.cells
                                           : FitCells(column, letters, "…", &numbered);
}

std::string ExactText(const result::FieldValue& value) {
  std::string text;
  if (const auto* const number = std::get_if<double>(&value)) AppendCsvNumber(*number, &text);
  if (const auto* const number = std::get_if<int64_t>(&value)) AppendCsvNumber(*number, &text);
  if (const auto* const number = std::get_if<uint64_t>(&value)) AppendCsvNumber(*number, &text);
  return text;
}

// The first part of longer cells; empty: the whole cell is shown.
std::vector<std::string> FirstShown(const Column& column) {
  const size_t letters = column.right ? kFirstDigits : kFirstLetters;
  const bool may_be_short = column.flex_width > 0 && !column.words;
  if (!may_be_short || WidestOf(column.cells) <= letters) return {};
  return CellsWithin(letters, column);
}

void VisitColumn(const ShownColumn& shown, FieldSink* sink) {
  const Column& column = *shown.column;
  sink->Field("unit", result::KnownText(column.exact_unit));
  std::vector<std::string> exact;
  for (const result::FieldValue& value : column.exact) exact.push_back(ExactText(value));
  sink->Texts("exact", exact);
  sink->Texts("first", FirstShown(column));
  sink->Texts("rest", std::span(shown.cells).subspan(std::min(shown.cells.size(), kMostRows)));
}

void VisitTable(const ShownColumns& columns, FieldSink* sink) {
  sink->Rows(TableOf("columns", std::span(columns), VisitColumn));
}

// The table in the document: `table` if given, otherwise the title's first word.
std::string TableOfSection(const Section& section) {
  if (!section.table.empty()) return std::string(section.table);
  return section.title.substr(0, section.title.find_first_of(" ,;:"));
}

constexpr std::string_view kTones[] = {"plain", "dim", "bold", "good", "warning", "bad"};

// The parts of a view as HTML; lines before the first section are the header's.
class HtmlBody {
 public:
  void Add(const ViewLine& line) {
    if (line.text.empty()) return EndList();
    if (line.as == ViewLine::kHeading) {
      Put("p", "verdict", line.text);
    } else if (line.as == ViewLine::kItem) {
      Item(kTones[static_cast<size_t>(line.tone)], line.text);
    } else {
      Put("p", kTones[static_cast<size_t>(line.tone)], line.text);
    }
  }

  void Add(const DiagnosticLine& line) {
    const bool is_doubt = line.severity == "warning" || line.severity == "error";
    Put("p", is_doubt ? "doubt" : "note", absl::StrCat(line.severity, ": ", line.text));
  }

  void Add(const Section& section) {
    EndList();
    absl::StrAppend(&text_, "<section data-table=\"", Text(TableOfSection(section)), "\">\n");
    if (!section.title.empty()) Put("h2", "", section.title);
    if (section.grid.rows() > 0) AddTable(section.grid);
    for (const std::string& note : section.notes) Put("p", "note", note);
    text_.append("</section>\n");
  }

  // To copy into a shell; of many files the beginning and the end.
  void AddCommand(std::string_view line) {
    constexpr size_t kMostColumns = 400;
    if (line.empty()) return;
    EndList();
    absl::StrAppend(&text_, "<p class=\"dim\">Command: <code>",
                    Text(ShortenMiddle(line, kMostColumns, " ... ")), "</code></p>\n");
  }

  // The tone, as in a terminal.
  void AddText(std::string_view text) { Put("pre", "", text); }

  // The unrounded values of the cells, and the rows that are not in the HTML, as JSON.
  std::string TablesData() const {
    return JsonValue(
        [this](FieldSink* sink) { sink->Rows(TableOf("tables", std::span(tables_), VisitTable)); });
  }

  std::string Take() && {
    EndList();
    return std::move(text_);
  }

 private:
  void Put(std::string_view element, std::string_view css_class, std::string_view text) {
    EndList();
    absl::StrAppend(&text_, "<", Absl(element));
    if (!css_class.empty()) absl::StrAppend(&text_, " class=\"", Absl(css_class), "\"");
    absl::StrAppend(&text_, ">", Text(text), "</", Absl(element), ">\n");
  }

  void Item(std::string_view css_class, std::string_view text) {
    if (!in_list_) text_.append("<ul>\n");
    in_list_ = true;
    absl::StrAppend(&text_, "<li class=\"", Absl(css_class), "\">", Text(text), "</li>\n");
  }

  void EndList() {
    if (in_list_) text_.append("</ul>\n");
    in_list_ = false;
  }

  // Spaces in front, which HTML takes away, stay.
  static std::string Indented(std::string_view cell) {
    const size_t spaces = std::min(cell.find_first_not_of(' '), cell.size());
    std::string text;
    for (size_t i = 0; i < spaces; ++i) text.append("&nbsp;");
    return text.append(Text(cell.substr(spaces)));
  }

  // Bars are left to charts: their columns have no header.
  void AddTable(const Grid& grid) {
    ShownColumns& columns = tables_.emplace_back();
    for (const Column& column : grid.columns) {
      if (column.hidden || column.header.empty()) continue;
      columns.push_back({&column, CellsWithin(kMaxCellLetters, column)});
    }
    const auto class_of = [](const Column& column) { return column.right ? "number" : "text"; };
    text_.append("<table>\n<thead><tr>");
    for (const ShownColumn& shown : columns) {
      absl::StrAppend(&text_, "<th scope=\"col\" class=\"", class_of(*shown.column), "\">",
                      Text(shown.column->header), "</th>");
    }
    text_.append("</tr></thead>\n<tbody>\n");
    const size_t rows = std::min(grid.rows(), kMostRows);
    for (size_t row = 0; row < rows; ++row) {
      text_.append("<tr>");
      for (const ShownColumn& shown : columns) {
        absl::StrAppend(&text_, "<td class=\"", class_of(*shown.column), "\">",
                        Indented(shown.cells[row]), "</td>");
      }
      text_.append("</tr>\n");
    }
    text_.append("</tbody>\n</table>\n");
    if (rows < grid.rows()) {
      Put("p", "note cut", MoreNote(grid.rows() - rows, "rows", "--format json"));
    }
  }

  std::string text_;
  std::vector<ShownColumns> tables_;  // of grids that outlive this
  bool in_list_ = false;
};

// Raw deflate (RFC 1951).
std::string Deflated(std::string_view bytes) {
  z_stream stream = {};
  // For numbers, level 6 saves 2 % more and takes twice as long.
  constexpr int kRaw = -15, kMemoryLevel = 9, kLevel = 3;
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kRaw, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string out;
  std::array<char, 1 << 16> buffer;
  int code = Z_OK;
  while (code == Z_OK) {
    if (stream.avail_in == 0) {
      const size_t size = std::min<size_t>(bytes.size(), 1 << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
      stream.avail_in = static_cast<uInt>(size);
      bytes.remove_prefix(size);
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = buffer.size();
    code = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

// As the policy names it.
std::string HashOf(std::string_view text) {
  const std::string digest = absl::HexStringToBytes(io::Sha256Hex(text));
  return absl::StrCat("'sha256-", absl::Base64Escape(digest), "'");
}

// Finds the path of a row of inputs.
class PathSink : public result::FlatSink {
 public:
  std::string path;

 protected:
  void Cell(std::string_view /*prefix*/, std::string_view name,
            const result::FieldValue& value) override {
    const auto* const text = std::get_if<std::string_view>(&value);
    if (name == "path" && text != nullptr) path = *text;
  }
};

// Finds what was compared: lists of paths called base, head or inputs, or sources in one of these.
class SidesSink : public result::FieldSink {
 public:
  std::vector<ViewLine> lines;

  void Field(std::string_view /*name*/, const result::FieldValue& /*value*/) override {}
  void BeginGroup(std::string_view name, bool /*known*/) override { group_ = name; }
  void EndGroup() override { group_.clear(); }
  void Texts(std::string_view name, std::span<const std::string> texts) override {
    const std::string side = group_.empty() ? std::string(name) : group_;
    const bool is_side = side == "base" || side == "head" || side == "inputs";
    if (!is_side || (!group_.empty() && name != "sources") || texts.empty()) return;
    lines.push_back({absl::StrCat(side, ": ", absl::StrJoin(texts, ", ")), Tone::kDim});
  }

 private:
  std::string group_;
};

std::vector<ViewLine> SidesOf(const result::Result& result) {
  SidesSink sides;
  for (const auto& part : result.parts) {
    if (const auto* members = std::get_if<result::Members>(&part)) (*members)(&sides);
  }
  return sides.lines;
}

// The form of --format json, with shortened lists.
std::string DocumentOf(const Output& output, const std::vector<KeptRows>& kept) {
  const auto own = output.others.find(Format::kJson);
  return own == output.others.end() ? JsonText(Shortened(output.result, kept)) : own->second();
}

// The data that page.js opens.
std::string DataOf(const Output& output, const std::vector<KeptRows>& kept, const HtmlBody& body) {
  const std::string drawn = JsonValue([&output](FieldSink* sink) {
    sink->BeginGroup("drawn", true);
    for (const result::Table& table : output.drawn) sink->Rows(table);
    sink->EndGroup();
  });
  const auto add_kept = [](std::string* text, const KeptRows& each) {
    absl::StrAppend(text, "\"", each.table, "\":{\"all\":", each.all, ",\"rows\":[",
                    absl::StrJoin(each.rows, ","), "]}");
  };
  return absl::StrCat("{\"documents\":[", DocumentOf(output, kept),
                      "],\"tables\":", body.TablesData(), ",\"drawn\":", drawn, ",\"kept\":{",
                      absl::StrJoin(kept, ",", add_kept), "}",
                      output.timeline.empty() ? "" : ",\"timeline\":", output.timeline, "}");
}

// "with --function step, --top 3": the options that selected the rows, if there is no command line.
std::string GivenLine(const OutputOptions& options) {
  std::vector<std::string> given;
  for (const GivenOption& each : options.given) {
    const auto text = [](const auto& value) { return absl::StrCat(value); };
    given.push_back(absl::StrCat("--", absl::StrReplaceAll(each.name, {{"_", "-"}}), " ",
                                 std::visit(text, each.value)));
  }
  return given.empty() ? "" : absl::StrCat("with ", absl::StrJoin(given, ", "));
}

// "xplane-time where: trace.xplane.pb and 2 more".
std::string TitleOf(const Output& output) {
  const std::string& schema = output.result.schema;  // xplane-time.KIND.v1, KIND may be tune-result
  const size_t dot = schema.find('.');
  std::string kind = schema.substr(dot, schema.rfind('.') - dot);
  std::ranges::replace(kind, '.', ' ');
  std::ranges::replace(kind, '-', ' ');
  kind.insert(0, schema, 0, dot);
  for (const auto& part : output.result.parts) {
    const auto* const table = std::get_if<result::Table>(&part);
    if (table == nullptr || table->name != "inputs" || table->rows == 0) continue;
    PathSink first;
    table->visit(0, &first);
    const size_t more = table->rows - 1;
    return absl::StrCat(kind, ": ", first.path,
                        more == 0 ? "" : absl::StrCat(" and ", more, " more"));
  }
  return kind;
}

}  // namespace

std::string PageOf(const Output& output, const OutputOptions& options) {
  OutputOptions of_view = options;
  of_view.format = Format::kMarkdown;
  of_view.top = options.top.value_or(std::numeric_limits<size_t>::max());
  View view = output.view ? output.view(of_view) : View();
  const std::vector<KeptRows> kept = KeptRowsOf(output.result, kMostKept);
  std::set<std::string> told;
  for (Section& section : view.sections) {
    const std::string table = TableOfSection(section);
    if (Shorten(kept, table, kMostKept, &section)) told.insert(table);
  }
  const std::string title = Text(TitleOf(output));
  HtmlBody header, main;
  for (const ViewLine& line : view.lines) header.Add(line);
  for (const ViewLine& line : SidesOf(output.result)) header.Add(line);
  if (options.command.empty()) header.Add(ViewLine{GivenLine(options), Tone::kDim});
  header.AddCommand(options.command);
  for (const DiagnosticLine& line : view.diagnostics) header.Add(line);
  for (const Section& section : view.sections) main.Add(section);
  for (const ViewLine& line : view.remarks) main.Add(line);
  for (const KeptRows& each : kept) {
    if (told.contains(each.table)) continue;
    main.Add(ViewLine{absl::StrCat("The page's data has ", each.Words(), "."), Tone::kDim});
  }
  if (const auto text = output.others.find(Format::kTable); text != output.others.end()) {
    main.AddText(text->second());
  }
  main.Add(ViewLine{"Made by xplane-time " XPLANE_TIME_VERSION_STRING
                    "; docs/definitions.md defines all times.",
                    Tone::kDim});
  const std::string data = absl::Base64Escape(Deflated(DataOf(output, kept, main)));
  const std::string_view style = kPageStyle, d3 = kD3Script, script = kPageScript;
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src ",
      HashOf(d3), " ", HashOf(script), "; style-src ", HashOf(style),
      "; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      title, "</title>\n<style>", Absl(style), "</style>\n</head>\n<body>\n<header>\n<h1>", title,
      "</h1>\n", std::move(header).Take(), "</header>\n<main>\n", std::move(main).Take(),
      "</main>\n<script type=\"application/octet-stream\" id=\"data\">", data, "</script>\n<!--\n",
      Absl(kD3Licence), "-->\n<script>", Absl(d3), "</script>\n<script>", Absl(script),
      "</script>\n</body>\n</html>\n");
}

}  // namespace xplane_time::output
