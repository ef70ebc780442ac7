#include <utility>

#include "commands.h"
#include "compare/known_variants.h"
#include "output/decisions.h"

namespace xplane_time::tools {

int RunPick(const Options& options) {
  PickOptions pick = options.decide.pick;
  if (!options.decide.space_path.empty()) {
    auto known = compare::ReadKnownVariants(options.decide.space_path);
    if (!known.ok()) return Fail(known.status());
    pick.known = *std::move(known);
  }
  MeasureOptions measure;
  measure.report = options.report;
  measure.find = options.find;
  measure.read = options.read;
  measure.by_variant = true;
  measure.slowest_device = true;
  auto measured = ReadMeasurements(options.traces, measure);
  if (!measured.ok()) return Fail(measured.status());
  auto choice = Pick(measured->captures, pick);
  if (!choice.ok()) return Fail(choice.status());
  choice->notes.insert(choice->notes.end(), measured->notes.begin(), measured->notes.end());
  const int written = WriteText(
      options.output_path, output::RenderChoice(*choice, options.output, options.decide.format));
  return written != 0 ? written : ExitCode(choice->claim);
}

}  // namespace xplane_time::tools
