// A result as one HTML page that opens offline and can be sent along.
//
//   xplane-time trace.xplane.pb -o report.html
//
// Input: a result and its view. Output: one file that loads nothing else. Without JavaScript it has
// the content of Markdown: doubts first, then the tables, 500 rows of each. With JavaScript, tables
// sort by unrounded values, can be searched and have every row, and charts are drawn (page.js) from
// the document of --format json and Output::drawn. The page contains all this, compressed.
//
// The Content-Security-Policy allows only the page's two scripts and its style, by their hashes.
// So the name of a kernel can only become text.
#pragma once

#include <string>

#include "output/output.h"

namespace xplane_time::output {

// Throws std::bad_alloc.
std::string PageOf(const Output& output, const OutputOptions& options);

}  // namespace xplane_time::output
