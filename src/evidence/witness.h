// Witness: a chain of samples that is written while they are measured. A change, an omission or an
// insertion invalidates every later line.
//
// A witness is a file of JSON Lines. The sample of the first line is the head, which describes the
// chain. Each line is
//
//   {"previous":HEX,"sample":{...},"sha256":HEX}
//
// `previous` is the SHA-256 of the line before, without its end; it is null in the first line.
// `sha256` is that of the sample's canonical JSON, which is also the form of the sample in the
// line: keys sorted by byte, no spaces (docs/grid.md).
//
//   WitnessWriter writer("witness/a.jsonl", "");
//   writer.Append(R"({"schema":"xplane-time.witness.v1"})");
//   writer.Append(R"({"t_ps":5})");
//   ReadWitness("witness/a.jsonl", text)   // InvalidArgument: witness/a.jsonl: line 2: its sample
//                                          // does not have its SHA-256
//
// Not handled: the author. A person who can write a file can write a chain. But the last line's
// hash, kept elsewhere, proves the whole chain.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/descriptor.h"

namespace xplane_time::evidence {

// A line without its end, for a sample's canonical JSON. `previous` is the line before; empty for
// the head.
std::string WitnessLine(std::optional<std::string_view> previous, std::string_view sample_json);

// A broken line (from 1), and the reason.
struct BrokenLine {
  size_t line = 0;
  std::string what;
};

struct Witness {
  std::vector<std::string> samples = {};  // canonical JSON, the head first; up to the broken line
  std::string last_sha256 = {};           // of the last sound line
  std::optional<BrokenLine> broken = {};
};

// Accepts any text. A last line without an end is broken; a kill leaves such a line.
Witness CheckWitness(std::string_view text);

// Returns a sound witness with its head. Errors: DataLoss "NAME: line 7: ...".
absl::StatusOr<Witness> ReadWitness(std::string_view name, std::string_view text);

// A file that grows by one line at a time: a kill leaves whole lines and at most one incomplete
// line.
class WitnessWriter {
 public:
  // Continues an existing file: the first appended samples must be those in the file. An incomplete
  // last line is written again.
  explicit WitnessWriter(std::string path) : path_(std::move(path)) {}

  // Errors: DataLoss (the file has a different line at this place; the message names it),
  // PermissionDenied, Unavailable (cannot be read or written).
  absl::Status Append(std::string_view sample_json);

  // Call after the last sample. DataLoss if the file has further lines.
  absl::Status Finish();

 private:
  absl::Status Open();

  std::string path_;
  io::Descriptor file_;
  std::string there_;  // earlier content of the file
  size_t at_ = 0;      // position in there_ up to which it has been compared
  size_t lines_ = 0;
  std::string last_;
};

}  // namespace xplane_time::evidence
