// Which kind of input a path is, and captures that are there twice.
#include "xplane_time/measurements.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compare/inputs.h"
#include "compare/json_inputs.h"
#include "compare/option_facts.h"
#include "compare/parse_json.h"

namespace xplane_time {
namespace compare {

namespace {

// What Google Benchmark writes for a counter that has no value.
constexpr std::string_view kNotFinite[] = {"NaN", "-NaN", "Infinity", "-Infinity"};

std::string UnknownAsNull(std::string_view content) {
  if (content.find("NaN") == content.npos && content.find("Infinity") == content.npos) {
    return std::string(content);
  }
  std::string out;
  out.reserve(content.size());
  bool in_text = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const char c = content[i];
    if (in_text && c == '\\' && i + 1 < content.size()) {
      out.append(content, i++, 2);
      continue;
    }
    if (c == '"') in_text = !in_text;
    const std::string_view rest = content.substr(i);
    const auto word =
        std::find_if(std::begin(kNotFinite), std::end(kNotFinite),
                     [rest](std::string_view each) { return rest.starts_with(each); });
    if (in_text || word == std::end(kNotFinite)) {
      out.push_back(c);
      continue;
    }
    out.append("null");
    i += word->size() - 1;
  }
  return out;
}

}  // namespace

bool LooksLikeJson(std::string_view content) {
  constexpr std::string_view kSpace = " \t\r\n", kMark = "\xef\xbb\xbf";
  if (content.starts_with(kMark)) content.remove_prefix(kMark.size());
  const size_t first = content.find_first_not_of(kSpace);
  if (first == std::string_view::npos || content[first] != '{') return false;
  // A trace may begin with the bytes "\n{": the tag and the length of its first plane.
  const size_t next = content.find_first_not_of(kSpace, first + 1);
  return next != std::string_view::npos && (content[next] == '"' || content[next] == '}');
}

absl::StatusOr<std::vector<Measurements>> FromJson(const std::string& path,
                                                   std::string_view content,
                                                   const MeasureOptions& options) {
  const auto parsed = ParseJson<Json>(path, UnknownAsNull(content));
  if (!parsed.ok()) return parsed.status();
  const Json& document = *parsed;
  const auto benchmarks = document.find("benchmarks");
  if (benchmarks != document.end() && benchmarks->is_array()) {
    auto one = FromBenchmark(path, document, options);
    if (!one.ok()) return one.status();
    std::vector<Measurements> out;
    out.push_back(*std::move(one));
    return out;
  }
  const auto schema = document.find("schema");
  const std::string name =
      schema != document.end() && schema->is_string() ? schema->get<std::string>() : "";
  if (name == "xplane-time.tune.v1") {
    auto one = FromTuning(path, document, options);
    if (!one.ok()) return one.status();
    std::vector<Measurements> out;
    out.push_back(*std::move(one));
    return out;
  }
  if (name.starts_with("xplane-time.tune")) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": what a tuning decided, without its samples; give tune export --format json"));
  }
  if (name.starts_with("xplane-time.")) return FromResult(path, document, options);
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   ": JSON, but neither of Google Benchmark (no \"benchmarks\") nor of ours "
                   "(no \"schema\"); give traces, --benchmark_out, or our JSON with --samples"));
}

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
  if (file.bad()) return absl::UnavailableError(absl::StrCat(path, ": cannot read"));
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
  if (compare::LooksLikeJson(Beginning(path))) {
    if (!options.find.run.empty() || options.read.reader != Reader::kWire) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", options.find.run.empty() ? "--reader" : "--run",
                       " is for traces, and this is JSON; leave it out"));
    }
    const auto content = WholeFile(path);
    if (!content.ok()) return content.status();
    return compare::FromJson(path, *content, options);
  }
  auto one = compare::FromTrace(path, options);
  if (!one.ok()) return one.status();
  if (auto note = FolderNote(path); note.has_value()) one->notes.push_back(*std::move(note));
  std::vector<Measurements> out;
  out.push_back(*std::move(one));
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
    auto captures = compare::ReadOne(path, options);
    if (!captures.ok()) return captures.status();
    for (Measurements& capture : *captures) {
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
