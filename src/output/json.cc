#include "output/json.h"

#include <algorithm>
#include <vector>

#include "output/json_document.h"

namespace xplane_time::output {
namespace {

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

struct ToRowJson {
  template <typename Row>
  Json operator()(const Row& row) const;
};
constexpr ToRowJson kRowJson;

Document Begin(std::string_view schema, const Report& report, const Options& options) {
  Document document(schema);
  document.Section("inputs", report.inputs, kRowJson);
  document.Member("capture", CaptureJson(report.capture));
  AddOptions(options, &document);
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

template <typename Row>
Json ToRowJson::operator()(const Row& row) const {
  return RowJson(row);
}

}  // namespace

std::string JsonString(std::string_view text) { return Dump(Json(ValidUtf8(text))); }

std::string JsonNumber(double value) { return Dump(ToJson()(value)); }

std::string ReportJson(const Report& report, const OrderedReport& rows, const Options& options) {
  Document document = Begin("xplane-time.report.v1", report, options);
  document.Section("devices", report.devices, kRowJson);
  document.Section("functions", rows.functions, kRowJson);
  document.Section("combined", rows.combined, kRowJson);
  if (!rows.variants.empty()) document.Section("variants", rows.variants, kRowJson);
  document.Section("kernels", rows.kernels, kRowJson);
  if (!report.samples.empty()) document.Section("samples", report.samples, kRowJson);
  document.Section("diagnostics", report.diagnostics, kRowJson);
  return std::move(document).Finish();
}

std::string FunctionsJson(const Report& report, const OrderedReport& rows, bool by_id, bool samples,
                          const Options& options) {
  Document document = Begin("xplane-time.functions.v1", report, options);
  document.Section("functions", rows.functions, kRowJson);
  document.Section("combined", rows.combined, kRowJson);
  if (by_id) document.Section("variants", rows.variants, kRowJson);
  if (samples) document.Section("samples", report.samples, kRowJson);
  document.Section("diagnostics", report.diagnostics, kRowJson);
  return std::move(document).Finish();
}

std::string KernelsJson(const Report& report, const OrderedReport& rows, const Options& options) {
  Document document = Begin("xplane-time.kernels.v1", report, options);
  document.Section("kernels", rows.kernels, kRowJson);
  document.Section("diagnostics", report.diagnostics, kRowJson);
  return std::move(document).Finish();
}

std::string TreeJson(const TreeReport& report, std::optional<size_t> top, const Options& options) {
  Document document("xplane-time.tree.v1");
  document.Section("inputs", report.inputs, kRowJson);
  AddOptions(options, &document);
  const size_t shown = std::min(report.rows.size(), top.value_or(report.rows.size()));
  document.Section("tree", std::span<const TreeRow>(report.rows).first(shown), kRowJson);
  document.Section("diagnostics", report.diagnostics, kRowJson);
  return std::move(document).Finish();
}

std::string PlanesJson(const PlanesReport& report, const Options& options) {
  Document document("xplane-time.planes.v1");
  document.Section("inputs", report.inputs, kRowJson);
  document.Member("capture", CaptureJson(report.capture));
  AddOptions(options, &document);
  const bool with_stats = std::any_of(report.planes.begin(), report.planes.end(),
                                      [](const PlaneRow& p) { return !p.stats.empty(); });
  std::vector<NestedPlane> planes;
  planes.reserve(report.planes.size());
  for (const PlaneRow& plane : report.planes) planes.push_back({plane, with_stats});
  document.Section("planes", planes, kRowJson);
  document.Section("diagnostics", report.diagnostics, kRowJson);
  return std::move(document).Finish();
}

}  // namespace xplane_time::output
