// Protocol: the decider as a process. One JSON object a line, "v": 1.
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
// `history {results}` after open resumes or replays: it is answered with the line that would have
// come next. Because open is answered at once, a history that follows must be announced
// ("history": true in open), or be there already, which `ServeOptions::input_waiting` tells.
// docs/deciding.md has all fields. Hostile input gives error lines: a line may have 64 MiB and 64
// levels of nesting. Types are strict (5.0 is no integer), unknown fields are ignored, absent ones
// take the documented defaults. An id is a string or an integer and is given back as it came. Not
// thread-safe.
#pragma once

#include <functional>
#include <istream>
#include <ostream>
#include <string>

#include "json/json.h"
#include "xplane_time/decide.h"

namespace xplane_time::decide {

struct ServeOptions {
  // Whether more input can be read without waiting. Default: what the stream has buffered.
  std::function<bool()> input_waiting = {};
  // JSON text of the space of every open that brings none: {"variants": [...]}.
  std::string space_json = {};
};

// Until the end of `in`. Flushes after each reply. False: `out` failed.
bool Serve(std::istream& in, std::ostream& out, const ServeOptions& options = {});

// Parts of it. The `config` of an open, without its incumbent; InvalidArgument names the field.
absl::StatusOr<DecideConfig> ParseConfig(const json::Json& config);
// Without "v", "type" and "session".
json::Json VerdictJson(const Verdict& verdict, const Space& space);

}  // namespace xplane_time::decide
