// The rows that a page has of a list that is too long for it: of 160,000 steps the longest 10,000.
// A note on the page states the missing rows; --format json has all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "output/output.h"

namespace xplane_time::output {

struct KeptRows {
  std::string table;  // of the document
  size_t all = 0;
  bool longest = false;           // else the first
  std::vector<size_t> rows = {};  // which they are, in order

  // "10,000 of 160,000 steps, the longest; all are in --format json"
  std::string Words() const;
};

// For tables with more than `most` rows. The longest rows are kept if rows have their own time; in
// a tree they are kept together with their parents.
std::vector<KeptRows> KeptRowsOf(const result::Result& result, size_t most);

// The same result with these rows.
result::Result Shortened(result::Result result, const std::vector<KeptRows>& kept);

// A section about `table` gets the same rows, or, if its rows differ, the first `most`, with a
// note. False: the section has no such note about the table.
bool Shorten(const std::vector<KeptRows>& kept, const std::string& table, size_t most,
             Section* section);

}  // namespace xplane_time::output
