// Which kind of input a path is, and captures that are there twice.
#include "xplane_time/measurements.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compare/inputs.h"
#include "compare/option_facts.h"
#include "status.h"

namespace xplane_time {
namespace compare {
namespace {

// The beginning of a regular file; empty for anything else.
std::string Beginning(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::ifstream file(path, std::ios::binary);
  std::string head(64, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return head;
}

absl::StatusOr<std::string> WholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return Unavailable(path, ": cannot read");
  return content;
}

// A folder is the hosts of one run, or a log directory. Its captures may have been meant.
std::optional<std::string> FolderNote(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::nullopt;
  size_t traces = 0, runs = 0;
  for (const auto& each : std::filesystem::directory_iterator(path, error)) {
    const std::string name = each.path().filename().string();
    traces += name.ends_with(".pb") || name.ends_with(".pb.gz") ? 1 : 0;
  }
  const std::filesystem::path profiles = std::filesystem::path(path) / "plugins" / "profile";
  for (const auto& each : std::filesystem::directory_iterator(profiles, error)) {
    runs += each.is_directory(error) ? 1 : 0;
  }
  if (traces > 1) {
    return absl::StrCat(path, ": a folder is one capture, and this one has ", traces,
                        " traces, taken for the hosts of one run; where each is a capture, write ",
                        path, path.ends_with('/') ? "*" : "/*");
  }
  if (runs < 2) return std::nullopt;
  return absl::StrCat(path, ": a folder is one capture, the latest of its ", runs,
                      " runs; for all of them write ", profiles.string(), "/*");
}

absl::StatusOr<std::vector<Measurements>> ReadOne(const std::string& path,
                                                  const MeasureOptions& options) {
  if (LooksLikeJson(Beginning(path))) {
    if (!options.find.run.empty() || options.read.reader != Reader::kWire) {
      return InvalidArgument(path, ": ", options.find.run.empty() ? "--reader" : "--run",
                             " is for traces, and this is JSON; leave it out");
    }
    ASSIGN_OR_RETURN(const std::string content, WholeFile(path));
    return FromJson(path, content, options);
  }
  ASSIGN_OR_RETURN(Measurements one, FromTrace(path, options));
  if (auto note = FolderNote(path); note.has_value()) one.notes.push_back(*std::move(note));
  std::vector<Measurements> out;
  out.push_back(std::move(one));
  return out;
}

bool SameSeries(const Series& a, const Series& b) {
  const auto same = [](const Sampled& x, const Sampled& y) {
    return x.time_ps == y.time_ps && x.start_ps == y.start_ps;
  };
  return a.function == b.function && a.device == b.device && a.program == b.program &&
         std::equal(a.samples.begin(), a.samples.end(), b.samples.begin(), b.samples.end(), same);
}

}  // namespace

bool SameCapture(const Measurements& a, const Measurements& b) {
  if (a.source == b.source) return !a.source.empty();
  const bool timed = std::any_of(a.series.begin(), a.series.end(), [](const Series& series) {
    return !series.samples.empty() && series.samples.back().start_ps != 0;
  });
  return timed &&
         std::equal(a.series.begin(), a.series.end(), b.series.begin(), b.series.end(), SameSeries);
}

}  // namespace compare

absl::StatusOr<MeasurementSet> ReadMeasurements(std::span<const std::string> paths,
                                                const MeasureOptions& options) {
  MeasurementSet set;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::vector<Measurements> captures, compare::ReadOne(path, options));
    for (Measurements& capture : captures) {
      const auto twin = std::find_if(
          set.captures.begin(), set.captures.end(),
          [&](const Measurements& earlier) { return compare::SameCapture(earlier, capture); });
      if (twin != set.captures.end()) {
        if (twin->options != capture.options) {
          const Measurements both[] = {*twin, capture};
          return compare::CheckMeasuredAlike(both, {}, /*allowed=*/false, &set.notes);
        }
        const std::string what = capture.source == twin->source
                                     ? absl::StrCat(capture.source, " is given twice")
                                     : absl::StrCat(capture.source, " repeats ", twin->source);
        set.notes.push_back(absl::StrCat(what, " and counts once: it is no second process"));
        continue;
      }
      set.notes.insert(set.notes.end(), capture.notes.begin(), capture.notes.end());
      set.captures.push_back(std::move(capture));
    }
  }
  return set;
}

}  // namespace xplane_time
