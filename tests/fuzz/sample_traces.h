// Small traces of every kind, for the corpus and for the tests of the readers.
#pragma once

#include <string>
#include <vector>

namespace xplane_time::testing {

struct NamedBytes {
  std::string name;
  std::string bytes;
};

// Valid traces: GPU, TPU, CPU, several hosts, all stat types, odd events.
std::vector<NamedBytes> BuiltTraces();

// Messages that the generated serializer never writes: fields in any order, wrong wire types,
// groups, overlong numbers, split entries. The readers must agree on each of them.
std::vector<NamedBytes> RawTraces();

}  // namespace xplane_time::testing
