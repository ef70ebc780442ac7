// The data sets of power run, as data and for people.
#include "output/results.h"
#include "output/view.h"
#include "status.h"
#include "workload/datasets.h"

namespace xplane_time::output {
namespace {

using result::FieldSink;

View DatasetsView(std::span<const DatasetFormat> formats) {
  RowGrid grid(formats);
  grid.Text("name", &DatasetFormat::name);
  grid.Text("format", &DatasetFormat::help);
  grid.Text("recognized by", &DatasetFormat::recognized_by);
  View view;
  view.sections.push_back(
      {.title = "formats of data sets: recognized, or set with --dataset-format NAME",
       .grid = std::move(grid).Take()});
  for (const DatasetFormat& each : formats) {
    if (each.needs.empty()) continue;
    view.remarks.push_back(
        {Cat(each.name, " requires Python: ", each.needs), Tone::kDim, ViewLine::kItem});
  }
  return view;
}

}  // namespace

Output PowerDatasetsOutput(std::span<const DatasetFormat> formats) {
  const auto table =
      result::TableOf("datasets", formats, [](const DatasetFormat& each, FieldSink* sink) {
        XPLANE_TIME_FIELDS(sink, each.name, each.help, each.recognized_by,
                           result::KnownText(each.needs));
      });
  Output out{.result = result::Result("xplane-time.power-datasets.v1")};
  out.result.Add(table);
  out.result.csv = table;
  out.view = [formats](const OutputOptions&) { return DatasetsView(formats); };
  return out;
}

}  // namespace xplane_time::output
