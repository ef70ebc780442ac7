// Witness: a chain of samples, written while they are taken, in which nothing can be changed, left
// out or put between without breaking every later line.
//
// A file of JSON Lines. The first line's sample is the head: what the chain is of. Each line is
//
//   {"previous":HEX,"sample":{...},"sha256":HEX}
//
// `previous` is the SHA-256 of the line before, without its end, and null in the first line;
// `sha256` that of the sample's canonical JSON, which is how the sample stands in the line: keys
// sorted by byte, no spaces (docs/grid.md).
//
//   WitnessWriter writer("witness/a.jsonl", "");
//   writer.Append(R"({"schema":"xplane-time.witness.v1"})");
//   writer.Append(R"({"t_ps":5})");
//   ReadWitness("witness/a.jsonl", text)   // InvalidArgument: witness/a.jsonl: line 2: its sample
//                                          // does not have its SHA-256
//
// Not handled: who wrote it. Whoever can write a file can write a chain; what holds is that the
// last line's hash, kept elsewhere, stands for all of it.
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

// A line without its end, of a sample's canonical JSON. `previous`: the line before; none: the
// head.
std::string WitnessLine(std::optional<std::string_view> previous, std::string_view sample_json);

// One that is broken, from 1, and how.
struct BrokenLine {
  size_t line = 0;
  std::string what;
};

struct Witness {
  std::vector<std::string> samples = {};  // canonical JSON, the head first; up to what is broken
  std::string last_sha256 = {};           // of the last sound line
  std::optional<BrokenLine> broken = {};
};

// Of any text. A last line without its end is broken, as a kill leaves it.
Witness CheckWitness(std::string_view text);

// What is sound, with its head. Errors: DataLoss "NAME: line 7: ...".
absl::StatusOr<Witness> ReadWitness(std::string_view name, std::string_view text);

// A file that grows by a line at a time: a kill leaves whole lines and at most a part of one.
class WitnessWriter {
 public:
  // Goes on in a file that is there: the samples that are appended first have to be those that it
  // has, and a part of a line at its end is written anew.
  explicit WitnessWriter(std::string path) : path_(std::move(path)) {}

  // Errors: DataLoss (the file has another line there: says which), PermissionDenied, Unavailable
  // (cannot be read or written).
  absl::Status Append(std::string_view sample_json);

  // After the last: DataLoss where the file has more than that.
  absl::Status Finish();

 private:
  absl::Status Open();

  std::string path_;
  io::Descriptor file_;
  std::string there_;  // what the file had
  size_t at_ = 0;      // of there_, up to where it was compared
  size_t lines_ = 0;
  std::string last_;
};

}  // namespace xplane_time::evidence
