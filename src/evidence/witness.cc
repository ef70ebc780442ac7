// Chains of samples: each line contains the hash of the previous line.
//
// CheckWitness recomputes the chain from the first line and stops at the first broken one. A line
// must also have exactly the canonical form, so there is only one valid text for a list of samples.
// WitnessWriter resumes a file: while the appended samples equal the existing lines, it only
// advances; an incomplete last line is cut off; any other difference is an error. Linear in the
// bytes.
#include "evidence/witness.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "evidence/zip.h"
#include "io/sha256.h"
#include "io/whole_file.h"
#include "status.h"
#include "tune/space_json.h"

namespace xplane_time::evidence {
namespace {

using io::Sha256Hex, tune::Json;

// The sample of a line in canonical form, or the reason why the line is invalid.
absl::StatusOr<std::string> SampleOf(std::string_view line,
                                     std::optional<std::string_view> before) {
  const auto parsed = tune::ParseJson(line, "the line");
  if (!parsed.ok() || !parsed->is_object() || parsed->size() != 3 || !parsed->contains("sample")) {
    return absl::DataLossError(
        "is not a line of a witness; expected an object with \"previous\", \"sample\" and "
        "\"sha256\"");
  }
  std::string sample = tune::CanonicalJson((*parsed)["sample"]);
  const Json previous = before.has_value() ? Json(Sha256Hex(*before)) : Json();
  if (parsed->value("previous", Json(0)) != previous) {
    return absl::DataLossError(before.has_value()
                                   ? "its `previous` is not the SHA-256 of the previous line"
                                   : "it is the first line, but its `previous` is not null");
  }
  if (parsed->value("sha256", Json()) != Sha256Hex(sample)) {
    return absl::DataLossError("its sample does not match its SHA-256");
  }
  if (line != WitnessLine(before, sample)) {
    return absl::DataLossError("is not in the canonical form of a witness");
  }
  return sample;
}

}  // namespace

std::string WitnessLine(std::optional<std::string_view> previous, std::string_view sample_json) {
  const std::string hash = previous.has_value() ? Cat("\"", Sha256Hex(*previous), "\"") : "null";
  return Cat("{\"previous\":", hash, ",\"sample\":", sample_json, ",\"sha256\":\"",
             Sha256Hex(sample_json), "\"}");
}

Witness CheckWitness(std::string_view text) {
  Witness witness;
  std::optional<std::string_view> before;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t number = witness.samples.size() + 1;
    if (end == std::string_view::npos) {
      witness.broken = {number, "has no line end: it was truncated"};
      return witness;
    }
    const std::string_view line = text.substr(0, end);
    auto sample = SampleOf(line, before);
    if (!sample.ok()) {
      witness.broken = {number, std::string(sample.status().message())};
      return witness;
    }
    witness.samples.push_back(*std::move(sample));
    witness.last_sha256 = Sha256Hex(line);
    before = line;
    text.remove_prefix(end + 1);
  }
  if (witness.samples.empty()) witness.broken = {1, "is missing: a witness starts with its head"};
  return witness;
}

absl::StatusOr<Witness> ReadWitness(std::string_view name, std::string_view text) {
  Witness witness = CheckWitness(text);
  if (!witness.broken.has_value()) return witness;
  return DataLoss(name, ": line ", witness.broken->line, ": ", witness.broken->what);
}

absl::Status WitnessWriter::Open() {
  if (file_.open()) return absl::OkStatus();
  file_ = io::Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.open()) return io::IoError(path_, "cannot be opened");
  auto there = io::ReadFile(path_, kMostZipBytes);
  if (!there.has_value()) return io::IoError(path_, "cannot be read");
  there_ = *std::move(there);
  return absl::OkStatus();
}

absl::Status WitnessWriter::Append(std::string_view sample_json) {
  RETURN_IF_ERROR(Open());
  std::string line =
      WitnessLine(lines_ == 0 ? std::nullopt : std::optional<std::string_view>(last_), sample_json);
  const std::string whole = line + "\n";
  const std::string_view rest = std::string_view(there_).substr(at_);
  ++lines_;
  last_ = std::move(line);
  if (rest.starts_with(whole)) {
    at_ += whole.size();
    return absl::OkStatus();
  }
  if (rest.find('\n') != std::string_view::npos) {
    return DataLoss(path_, ": line ", lines_,
                    ": differs from the stored sample: it was changed after it was written; move "
                    "the file away, and --resume writes it again");
  }
  if (!rest.empty()) {  // an incomplete line
    if (ftruncate(file_.get(), static_cast<off_t>(at_)) != 0) {
      return io::IoError(path_, "cannot be written");
    }
    there_.resize(at_);
  }
  if (!io::WriteAll(file_.get(), whole)) return io::IoError(path_, "cannot be written");
  return absl::OkStatus();
}

absl::Status WitnessWriter::Finish() {
  RETURN_IF_ERROR(Open());
  if (at_ == there_.size()) return absl::OkStatus();
  return DataLoss(
      path_, ": line ", lines_ + 1,
      ": an extra line that was not stored; move the file away, and --resume writes it again");
}

}  // namespace xplane_time::evidence
