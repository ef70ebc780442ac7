// A result as one HTML page that opens offline and can be sent along.
//
//   xplane-time trace.xplane.pb -o report.html
//
// Enters: a result and its view. Leaves: one file, which asks nobody for anything. Without
// JavaScript it has what Markdown has: what is in doubt first, then the tables, 500 rows of each.
// With it, tables sort by what their cells round, are searched and have every row, and charts are
// drawn (page.js) from the document of --format json and Output::drawn. The page carries all this,
// compressed.
//
// The Content-Security-Policy allows the page's own two scripts and its style by their hashes, and
// nothing else: no name of a kernel can become more than text.
#pragma once

#include <string>

#include "output/output.h"

namespace xplane_time::output {

// Throws std::bad_alloc.
std::string PageOf(const Output& output, const OutputOptions& options);

}  // namespace xplane_time::output
