// Result: what a command found, as data. Every format is made from it.
//
//   Result result("xplane-time.kernels.v1");
//   result.Say([&](FieldSink* sink) { sink->Field("complete", true); });
//   result.Add(TableOf("kernels", rows));
//
// The parts are in the order of the JSON. Rows are not copied: they outlive the result, or a table
// that was given them owns them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "result/fields.h"

namespace xplane_time::result {

using Members = std::function<void(FieldSink*)>;  // of the document itself

struct Result {
  std::string schema;
  std::vector<std::variant<Members, Table>> parts = {};
  Table csv = {};

  explicit Result(std::string of_schema) : schema(std::move(of_schema)) {}
  void Say(Members members) { parts.emplace_back(std::move(members)); }
  void Add(Table table) { parts.emplace_back(std::move(table)); }
};

}  // namespace xplane_time::result
