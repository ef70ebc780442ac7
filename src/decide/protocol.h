// Protocol: the decider as a process that exchanges JSON lines, "v": 1.
//
//   in   {"v":1,"type":"open","session":"s","space":{"variants":[{"id":"a","params":{}}, ...]},
//         "config":{"seed":7}}
//   out  {"v":1,"type":"batch","session":"s","batch":1,"rounds":[["a","b"],["b","a"], ...]}
//   in   {"v":1,"type":"result","session":"s","batch":1,"round":0,
//         "samples":[{"id":"a","slot":0,"status":"ok","t_ps":5000}, ...]}
//   out  {"v":1,"type":"verdict","session":"s","pick":"a","claim":"winner", ...}
//   in   {"v":1,"type":"close","session":"s"}
//   in   {"v":1,"type":"result","session":"s","batch":9,"round":0,"samples":[]}
//   out  {"v":1,"type":"error","code":"not_open","message":"...","line":5}   // state as before
//
// `history {results}` after open resumes or replays a session. Its reply is the line that would
// have come next. open is normally answered at once, so a history must be announced ("history":
// true in open), or be available already, which `ServeOptions::input_waiting` reports.
// docs/deciding.md lists all fields. Invalid input gives error lines; a line may have 64 MiB and 64
// levels of nesting. Types are strict (5.0 is not an integer), unknown fields are ignored, and
// absent fields have the documented defaults. An id is a string or an integer and is returned
// unchanged. Not thread-safe.
#pragma once

#include <functional>
#include <istream>
#include <ostream>
#include <string>

#include "json/json.h"
#include "xplane_time/decide.h"

namespace xplane_time::decide {

struct ServeOptions {
  // Whether more input can be read without waiting. Default: whether the stream has buffered input.
  std::function<bool()> input_waiting = {};
  // JSON text of the space of every open without a space: {"variants": [...]}.
  std::string space_json = {};
};

// Serves until the end of `in`. Flushes after each reply. False: writing to `out` failed.
bool Serve(std::istream& in, std::ostream& out, const ServeOptions& options = {});

// Parses the `config` of an open, without its incumbent. Errors: InvalidArgument names the field.
absl::StatusOr<DecideConfig> ParseConfig(const json::Json& config);
// The fields of a verdict line without "v", "type" and "session".
json::Json VerdictJson(const Verdict& verdict, const Space& space);

}  // namespace xplane_time::decide
