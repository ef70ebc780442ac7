#include "output/output.h"

namespace xplane_time::output {

std::string Render(const Output& output, const OutputOptions& options) {
  if (const auto other = output.others.find(options.format); other != output.others.end()) {
    return other->second();
  }
  switch (options.format) {
    case Format::kJson:
      return JsonText(output.result);
    case Format::kCsv:
      return CsvText(output.result.csv);
    case Format::kMarkdown:
      return MarkdownText(output.view(options), options);
    default:
      return TableText(output.view(options), options);
  }
}

absl::StatusOr<std::string> Render(const absl::StatusOr<Output>& output,
                                   const OutputOptions& options) {
  if (!output.ok()) return output.status();
  return Render(*output, options);
}

}  // namespace xplane_time::output
