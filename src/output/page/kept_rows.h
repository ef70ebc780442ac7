// Which rows a page has of a list that is too long for it: of 160,000 steps the longest 10,000. A
// page says in words what it lacks; --format json has all.
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

// Of the tables that have more than `most` rows. The longest, where rows have a time of their own:
// of a tree these have their parents with them.
std::vector<KeptRows> KeptRowsOf(const result::Result& result, size_t most);

// The same result with these rows.
result::Result Shortened(result::Result result, const std::vector<KeptRows>& kept);

// A section about `table` has the same rows, or where its rows are others, the first `most`; a note
// says so. False: it does not say it of the table.
bool Shorten(const std::vector<KeptRows>& kept, const std::string& table, size_t most,
             Section* section);

}  // namespace xplane_time::output
