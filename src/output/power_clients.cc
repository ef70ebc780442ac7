// The clients of power run and their parameters, as data and for people.
#include "output/results.h"
#include "output/view.h"
#include "workload/clients.h"

namespace xplane_time::output {
namespace {

using result::FieldSink;

result::Table ListParameters(const ClientKind& kind) {
  return result::TableOf("parameters", kind.parameters,
                         [](const ClientParameter& each, FieldSink* sink) {
                           sink->Field("name", each.name);
                           sink->Field("type", ClientParameterTypeName(each.type));
                           sink->Field("default", result::KnownText(each.default_text));
                           sink->Field("help", each.help);
                         });
}

// A client and one of its parameters, or no parameter.
struct ClientRow {
  const ClientKind* kind = nullptr;
  ClientParameter parameter = {};
};

std::vector<ClientRow> RowsOf(std::span<const ClientKind> clients) {
  std::vector<ClientRow> rows;
  for (const ClientKind& kind : clients) {
    if (kind.parameters.empty()) rows.push_back({&kind});
    for (const ClientParameter& each : kind.parameters) rows.push_back({&kind, each});
  }
  return rows;
}

void CsvFields(const ClientRow& row, FieldSink* sink) {
  const ClientKind kind = row.kind == nullptr ? ClientKind() : *row.kind;
  const bool known = !row.parameter.name.empty();
  sink->Field("client", kind.name);
  sink->Field("parameter", result::KnownText(row.parameter.name));
  sink->Field("type", result::KnownText(known ? ClientParameterTypeName(row.parameter.type) : ""));
  sink->Field("default", result::KnownText(row.parameter.default_text));
  sink->Field("help", known ? row.parameter.help : kind.help);
}

std::string AddressOf(const ClientKind& kind) {
  if (!kind.over_http) return "-- COMMAND";
  return kind.default_base_url.empty() ? "--base-url"
                                       : "--base-url [" + std::string(kind.default_base_url) + "]";
}

View ClientsView(std::span<const ClientKind> clients) {
  View view;
  RowGrid kinds(clients);
  kinds.Text("client", &ClientKind::name);
  kinds.Text("needs", AddressOf);
  kinds.Text("what it queries", &ClientKind::help);
  view.sections.push_back({.title = "clients", .grid = std::move(kinds).Take()});
  for (const ClientKind& kind : clients) {
    if (kind.parameters.empty()) continue;
    RowGrid grid(kind.parameters);
    grid.Text("parameter", &ClientParameter::name);
    grid.Text("type",
              [](const ClientParameter& each) { return ClientParameterTypeName(each.type); });
    grid.Text("default", [](const ClientParameter& each) {
      return each.default_text.empty() ? std::string_view("-") : each.default_text;
    });
    grid.Text("description", &ClientParameter::help);
    view.sections.push_back({.title = std::string(kind.name) + ": --client-param NAME=VALUE",
                             .grid = std::move(grid).Take()});
  }
  view.remarks.push_back({"Default -: the parameter is not sent to the server."});
  view.remarks.push_back(
      {"Other parameters are passed to the server unchanged: top_k=5, stop=[\"###\"], "
       "reasoning_effort=high, extra_body={\"min_p\":0.1}."});
  return view;
}

}  // namespace

Output PowerClientsOutput(std::span<const ClientKind> clients) {
  Output out{.result = result::Result("xplane-time.power-clients.v1")};
  out.result.Add(result::TableOf("clients", clients, [](const ClientKind& kind, FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, kind.name, kind.help, kind.over_http);
    sink->Field("default_base_url", result::KnownText(kind.default_base_url));
    sink->Rows(ListParameters(kind));
  }));
  out.result.csv = result::TableOf("parameters", RowsOf(clients), CsvFields);
  out.view = [clients](const OutputOptions&) { return ClientsView(clients); };
  return out;
}

}  // namespace xplane_time::output
