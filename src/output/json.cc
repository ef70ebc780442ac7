#include "output/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "output/rows.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

using Json = nlohmann::ordered_json;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(double value) const { return std::isfinite(value) ? Json(value) : Json(); }
  Json operator()(std::string_view text) const { return ValidUtf8(text); }
  template <typename T>
  Json operator()(T value) const {
    return value;
  }
};

std::string Dump(const Json& value) {
  // kReplace: strings are valid UTF-8 already, and nothing may throw.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonRow : public FieldSink {
 public:
  void Field(std::string_view name, const FieldValue& value) override {
    current()[std::string(name)] = std::visit(ToJson(), value);
  }
  void BeginGroup(std::string_view name, bool known) override {
    group_ = name;
    group_known_ = known;
    members_ = Json::object();
  }
  void EndGroup() override {
    row_[group_] = group_known_ ? std::move(members_) : Json();
    group_.clear();
  }
  void Interval(std::string_view name, std::optional<double> lo,
                std::optional<double> hi) override {
    const bool known = lo && hi && std::isfinite(*lo) && std::isfinite(*hi);
    current()[std::string(name)] = known ? Json::array({*lo, *hi}) : Json();
  }
  Json Take() { return std::move(row_); }

 private:
  Json& current() { return group_.empty() ? row_ : members_; }

  Json row_ = Json::object(), members_;
  std::string group_;
  bool group_known_ = false;
};

template <typename Row>
Json RowJson(const Row& row) {
  JsonRow sink;
  VisitRow(row, &sink);
  return sink.Take();
}

Json RowJson(const FunctionRow& row) {
  JsonRow sink;
  VisitRow(row, /*with_device=*/row.device.has_value(), &sink);
  return sink.Take();
}

template <typename Row>
Json RowJson(const Row* row) {
  return RowJson(*row);
}

// A document: members in order, the rows of a section one a line.
class Document {
 public:
  explicit Document(std::string_view schema) { text_ = "{\n  \"schema\": " + JsonString(schema); }
  void Member(std::string_view name, const Json& value) {
    Name(name);
    text_.append(Dump(value));
  }
  template <typename Rows>
  void Section(std::string_view name, const Rows& rows) {
    Name(name);
    text_.push_back('[');
    const char* separator = "\n    ";
    for (const auto& row : rows) {
      text_.append(separator).append(Dump(RowJson(row)));
      separator = ",\n    ";
    }
    text_.append(rows.empty() ? "]" : "\n  ]");
  }
  std::string Finish() && { return std::move(text_) + "\n}\n"; }

 private:
  void Name(std::string_view name) { text_.append(",\n  ").append(JsonString(name)).append(": "); }
  std::string text_;
};

Json Strings(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(ValidUtf8(text));
  return out;
}

Json CaptureJson(const CaptureInfo& capture) {
  const auto or_null = [](const std::optional<uint64_t>& value) {
    return value ? Json(*value) : Json();
  };
  Json out = Json::object();
  out["planes"] = capture.planes;
  out["lines"] = capture.lines;
  out["events"] = capture.events;
  out["base_ns"] = capture.base_ns;
  out["start_unix_ns"] = or_null(capture.start_unix_ns);
  out["stop_unix_ns"] = or_null(capture.stop_unix_ns);
  out["hostnames"] = Strings(capture.hostnames);
  out["warnings"] = Strings(capture.warnings);
  out["errors"] = Strings(capture.errors);
  return out;
}

Document Begin(std::string_view schema, const Report& report) {
  Document document(schema);
  document.Section("inputs", report.inputs);
  document.Member("capture", CaptureJson(report.capture));
  return document;
}

// A plane with its lines and stats inside.
struct NestedPlane {
  const PlaneRow& plane;
  bool with_stats;
};

template <typename Row>
Json Rows(const std::vector<Row>& rows) {
  Json out = Json::array();
  for (const Row& row : rows) out.push_back(RowJson(row));
  return out;
}

Json RowJson(const NestedPlane& nested) {
  Json out = RowJson(nested.plane);
  out["lines"] = Rows(nested.plane.lines);
  if (nested.with_stats) out["stats"] = Rows(nested.plane.stats);
  return out;
}

}  // namespace

std::string JsonString(std::string_view text) { return Dump(Json(ValidUtf8(text))); }

std::string JsonNumber(double value) { return Dump(ToJson()(value)); }

std::string ReportJson(const Report& report, const OrderedReport& rows) {
  Document document = Begin("xplane-time.report.v1", report);
  document.Section("devices", report.devices);
  document.Section("functions", rows.functions);
  document.Section("combined", rows.combined);
  if (!rows.variants.empty()) document.Section("variants", rows.variants);
  document.Section("kernels", rows.kernels);
  if (!report.samples.empty()) document.Section("samples", report.samples);
  document.Section("diagnostics", report.diagnostics);
  return std::move(document).Finish();
}

std::string FunctionsJson(const Report& report, const OrderedReport& rows, bool by_id,
                          bool samples) {
  Document document = Begin("xplane-time.functions.v1", report);
  document.Section("functions", rows.functions);
  document.Section("combined", rows.combined);
  if (by_id) document.Section("variants", rows.variants);
  if (samples) document.Section("samples", report.samples);
  document.Section("diagnostics", report.diagnostics);
  return std::move(document).Finish();
}

std::string KernelsJson(const Report& report, const OrderedReport& rows) {
  Document document = Begin("xplane-time.kernels.v1", report);
  document.Section("kernels", rows.kernels);
  document.Section("diagnostics", report.diagnostics);
  return std::move(document).Finish();
}

std::string TreeJson(const TreeReport& report, std::optional<size_t> top) {
  Document document("xplane-time.tree.v1");
  document.Section("inputs", report.inputs);
  const size_t shown = std::min(report.rows.size(), top.value_or(report.rows.size()));
  document.Section("tree", std::span<const TreeRow>(report.rows).first(shown));
  document.Section("diagnostics", report.diagnostics);
  return std::move(document).Finish();
}

std::string PlanesJson(const PlanesReport& report) {
  Document document("xplane-time.planes.v1");
  document.Section("inputs", report.inputs);
  document.Member("capture", CaptureJson(report.capture));
  const bool with_stats = std::any_of(report.planes.begin(), report.planes.end(),
                                      [](const PlaneRow& p) { return !p.stats.empty(); });
  std::vector<NestedPlane> planes;
  planes.reserve(report.planes.size());
  for (const PlaneRow& plane : report.planes) planes.push_back({plane, with_stats});
  document.Section("planes", planes);
  document.Section("diagnostics", report.diagnostics);
  return std::move(document).Finish();
}

}  // namespace xplane_time::output
