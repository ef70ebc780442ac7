// Markdown: the columns of the tables as GitHub tables, every column, never shortened.
//
// Names are code spans, so that nothing in them is taken for markup.
#ifndef XPLANE_TIME_SRC_OUTPUT_MARKDOWN_H_
#define XPLANE_TIME_SRC_OUTPUT_MARKDOWN_H_

#include <string>

#include "output/ordering.h"
#include "output/output.h"

namespace xplane_time::output {

std::string ReportMarkdown(const Report& report, const OrderedReport& rows,
                           const OutputOptions& options);
std::string FunctionsMarkdown(const Report& report, const OrderedReport& rows,
                              const OutputOptions& options, bool by_id, bool samples);
std::string KernelsMarkdown(const Report& report, const OrderedReport& rows,
                            const OutputOptions& options);
std::string TreeMarkdown(const TreeReport& report, const OutputOptions& options);
std::string PlanesMarkdown(const PlanesReport& report, const OutputOptions& options);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_MARKDOWN_H_
