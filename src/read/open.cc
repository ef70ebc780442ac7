// OpenTrace: combines all inputs in one Trace.
//
// For each file, in order:
// 1. A file with the same content as an earlier one is noted and skipped.
// 2. ScanSpace finds its planes and messages. Hosts are assigned by the order of messages.
// 3. A plane that is byte for byte equal to an earlier plane of the file and host is noted and
//    skipped. Candidates have equal sizes and ends; contents are hashed only if there are several
//    candidates.
// 4. The reader (EventSource) indexes each plane: metadata, stats and the positions of lines.
//
// After all files, the reader indexes all lines in parallel, and each capture gets its time base
// (ChooseBaseNs). If damaged hosts may be left out and opening fails, each file is opened alone,
// the damaged files of captures with a sound file are dropped, and the rest is opened again. Time:
// O(bytes), mostly for hopping over events.
#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "read/internals.h"
#include "status.h"

namespace xplane_time {
namespace {

// Resolves kRef stats of the plane and its metadata, which is possible once the plane is complete.
void ResolveReferences(Plane* plane) {
  for (std::vector<Stat>* stats : {&plane->metadata_stats, &plane->stats}) {
    for (Stat& stat : *stats) {
      if (stat.value.type != StatType::kRef) continue;
      stat.value.text = ReferencedName(plane->stat_metadata, stat.value.bits);
    }
  }
}

void ReadEnvironment(const Plane& plane, TraceFile* file) {
  if (!plane.name.starts_with("Task Environment")) return;
  const auto read = [&](std::string_view stat, std::optional<uint64_t>* unix_ns) {
    const StatValue value = plane.FindStat(stat);
    if (value.type == StatType::kUint64 || value.type == StatType::kInt64) *unix_ns = value.bits;
  };
  read("profile_start_time", &file->profile_start_unix_ns);
  read("profile_stop_time", &file->profile_stop_unix_ns);
}

// Errors: InvalidArgument (this build lacks the reader).
absl::StatusOr<std::unique_ptr<EventSource>> MakeReader(Reader reader) {
  if (reader == Reader::kWire) return MakeWireReader();
#if defined(XPLANE_TIME_REFERENCE_READER)
  return MakeReferenceReader();
#else
  return InvalidArgument(
      "this build has no protobuf reader (XPLANE_TIME_REFERENCE_READER is off); use --reader wire");
#endif
}

// Names are copied into every table that shows them. The longest names in practice are HLO texts of
// some hundred kilobytes. A malicious compressed trace can hold names of a thousand times its own
// size.
constexpr size_t kMaxNameBytes = size_t{16} << 20;

// `name_of` returns a description of the name's owner, such as "event metadata 7".
absl::Status CheckNameSize(std::string_view name, const std::string& path, auto name_of) {
  if (name.size() <= kMaxNameBytes) return absl::OkStatus();
  return ResourceExhausted(path, ": the name of ", name_of(), " has ", name.size(),
                           " bytes; the maximum is ", kMaxNameBytes,
                           " bytes; record the trace with shorter names");
}

// The planes of one file that may be equal: same size, host and ends.
class AlikePlanes {
 public:
  // Adds a plane. Returns false if an equal plane was added before. Contents are hashed only from
  // the second plane on, so the time is proportional to the size.
  bool Add(std::string_view content) {
    if (!first_.has_value()) {
      first_ = content;
      return true;
    }
    if (contents_.empty()) contents_.insert(Absl(*first_));
    return contents_.insert(Absl(content)).second;
  }

 private:
  std::optional<std::string_view> first_;
  absl::flat_hash_set<absl::string_view> contents_;
};

class Opener {
 public:
  Opener(const ReadOptions& options, std::unique_ptr<EventSource> source, Diagnostics* diagnostics)
      : options_(options), diagnostics_(diagnostics), source_(std::move(source)) {}

  absl::Status Add(const Source& source, const std::string& path, uint32_t capture) {
    const std::string_view bytes = source.bytes;
    if (bytes.empty()) {
      return DataLoss(path,
                      ": empty file (0 bytes); was the profiler stopped before the program ended?");
    }
    if (SeenBefore(bytes, path)) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto scan, ScanSpace(bytes, path));
    for (const auto* texts : {&scan.hostnames, &scan.errors, &scan.warnings}) {
      for (const std::string_view text : *texts) {
        RETURN_IF_ERROR(CheckNameSize(text, path, [] { return "a host or message"; }));
      }
    }
    const auto file = static_cast<uint32_t>(trace_.files.size());
    trace_.files.push_back({.path = path,
                            .bytes = source.json_bytes.value_or(bytes.size()),
                            .capture = capture,
                            .hostnames = scan.hostnames,
                            .errors = scan.errors,
                            .warnings = scan.warnings});
    RETURN_IF_ERROR(source_->AddFile(source, path));
    NoteProducerMessages(file);
    for (const Diagnostic& each : source.diagnostics.List()) {
      const Location place = {.file = file, .byte_offset = each.first.byte_offset};
      if (each.text.empty()) {
        diagnostics_->Count(each.code, place, each.count);
      } else {
        diagnostics_->Note(each.code, each.text, place, each.count);
      }
    }
    return AddPlanes(file, scan);
  }

  absl::StatusOr<Trace> Finish() && {
    if (trace_.planes.empty()) {
      return DataLoss(
          trace_.files.empty() ? "no input" : trace_.files[0].path,
          ": no planes in this trace; is it an .xplane.pb file, and was anything profiled?");
    }
    RETURN_IF_ERROR(IndexLines());
    ChooseBases();
    trace_.source = std::move(source_);
    trace_.leave_out_damaged_hosts = options_.leave_out_damaged_hosts;
    return std::move(trace_);
  }

 private:
  // If several lines are damaged, the first one is reported.
  absl::Status IndexLines() {
    for (const absl::Status& each : source_->IndexLines(options_.threads, &trace_)) {
      RETURN_IF_ERROR(each);
    }
    RETURN_IF_ERROR(CheckLineNames());
    for (const Plane& plane : trace_.planes) {
      absl::flat_hash_map<int64_t, uint32_t> timelines;  // first line by line id
      for (uint32_t i = plane.first_line; i < plane.first_line + plane.line_count; ++i) {
        Line& line = trace_.lines[i];
        line.timeline = timelines.try_emplace(line.id, i).first->second;
        trace_.event_count += line.event_count;
      }
    }
    return absl::OkStatus();
  }

  // Each capture has its own base, because captures may be years apart. Planes are in the order of
  // their captures.
  void ChooseBases() {
    const auto capture_of = [&](const Plane& plane) { return trace_.files[plane.file].capture; };
    for (size_t at = 0, end = 0; at < trace_.planes.size(); at = end) {
      const uint32_t capture = capture_of(trace_.planes[at]);
      while (end < trace_.planes.size() && capture_of(trace_.planes[end]) == capture) ++end;
      const Plane& last = trace_.planes[end - 1];
      const uint32_t first_line = trace_.planes[at].first_line;
      const int64_t base_ns =
          ChooseBaseNs(std::span(trace_.lines)
                           .subspan(first_line, last.first_line + last.line_count - first_line));
      for (TraceFile& file : trace_.files) {
        if (file.capture == capture) file.base_ns = base_ns;
      }
    }
  }

  bool SeenBefore(std::string_view bytes, const std::string& path) {
    for (uint32_t file = 0; file < trace_.files.size(); ++file) {
      if (source_->FileBytes(file) != bytes) continue;
      diagnostics_->Note(DiagnosticCode::kDuplicateInput,
                         Cat(path, " is identical to ", trace_.files[file].path), {.file = file});
      return true;
    }
    return false;
  }

  void NoteProducerMessages(uint32_t file) {
    for (const auto& [code, texts] :
         {std::pair(DiagnosticCode::kProducerError, &trace_.files[file].errors),
          std::pair(DiagnosticCode::kProducerWarning, &trace_.files[file].warnings)}) {
      for (std::string_view text : *texts) {
        diagnostics_->Note(code, std::string(text), {.file = file});
      }
    }
  }

  absl::Status AddPlanes(uint32_t file, const SpaceScan& scan) {
    const std::string_view bytes = source_->FileBytes(file);
    // Candidates by host, both ends and size. Equal planes of different hosts are different planes.
    using Likeness = std::tuple<absl::string_view, absl::string_view, absl::string_view, size_t>;
    absl::flat_hash_map<Likeness, AlikePlanes> seen;
    absl::flat_hash_map<std::string, uint32_t> plane_of_name;
    for (size_t message = 0; message < scan.planes.size(); ++message) {
      const SpaceScan::PlaneMessage& at = scan.planes[message];
      const std::string_view content = bytes.substr(at.bytes.offset, at.bytes.size);
      const size_t end_size = std::min<size_t>(content.size(), 256);
      AlikePlanes& alike = seen[{Absl(at.host), Absl(content.substr(0, end_size)),
                                 Absl(content.substr(content.size() - end_size)), content.size()}];
      if (!options_.keep_identical_planes && !alike.Add(content)) {
        diagnostics_->Count(DiagnosticCode::kDuplicatePlane,
                            {.file = file, .byte_offset = at.bytes.offset});
        continue;
      }
      RETURN_IF_ERROR(AddPlane(file, message, at));
      const Plane& plane = trace_.planes.back();
      const std::string key = Cat(plane.host, "\n", plane.name);
      const auto index = static_cast<uint32_t>(trace_.planes.size() - 1);
      if (!plane_of_name.emplace(key, index).second && plane.line_count > 0) {
        diagnostics_->Count(DiagnosticCode::kRepeatedPlaneName, {.file = file, .plane = index});
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddPlane(uint32_t file, size_t message, const SpaceScan::PlaneMessage& at) {
    Plane plane;
    plane.file = file;
    plane.host = at.host;
    plane.bytes = at.bytes;
    plane.first_line = static_cast<uint32_t>(trace_.lines.size());
    RETURN_IF_ERROR(source_->IndexPlane(file, message, &plane, &trace_));
    plane.line_count = static_cast<uint32_t>(trace_.lines.size()) - plane.first_line;
    for (uint32_t i = plane.first_line; i < trace_.lines.size(); ++i) {
      trace_.lines[i].plane = static_cast<uint32_t>(trace_.planes.size());
    }
    RETURN_IF_ERROR(CheckNames(plane));
    ResolveReferences(&plane);
    ReadEnvironment(plane, &trace_.files[file]);
    trace_.planes.push_back(std::move(plane));
    return absl::OkStatus();
  }

  absl::Status CheckNames(const Plane& plane) const {
    const std::string& path = trace_.files[plane.file].path;
    const std::string plane_text = Cat("plane ", trace_.planes.size());
    RETURN_IF_ERROR(CheckNameSize(plane.name, path, [&] { return plane_text; }));
    for (const EventMetadata& each : plane.event_metadata.entries) {
      const auto name_of = [&] { return Cat("event metadata ", each.id, " of ", plane_text); };
      RETURN_IF_ERROR(CheckNameSize(each.name, path, name_of));
      RETURN_IF_ERROR(CheckNameSize(each.display_name, path, name_of));
    }
    for (const StatMetadata& each : plane.stat_metadata.entries) {
      RETURN_IF_ERROR(CheckNameSize(
          each.name, path, [&] { return Cat("stat metadata ", each.id, " of ", plane_text); }));
    }
    for (const std::vector<Stat>* stats : {&plane.stats, &plane.metadata_stats}) {
      for (const Stat& stat : *stats) {
        // byte stats hold Hlo Protos, which may be longer
        if (stat.value.type != StatType::kString) continue;
        RETURN_IF_ERROR(
            CheckNameSize(stat.value.text, path, [&] { return Cat("a stat of ", plane_text); }));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckLineNames() const {
    for (const Line& line : trace_.lines) {
      for (const std::string_view name : {line.name, line.display_name}) {
        RETURN_IF_ERROR(CheckNameSize(name, trace_.files[trace_.planes[line.plane].file].path, [&] {
          return Cat("line ", line.id, " of plane ", line.plane);
        }));
      }
    }
    return absl::OkStatus();
  }

  const ReadOptions& options_;
  Diagnostics* diagnostics_;
  std::unique_ptr<EventSource> source_;
  Trace trace_;
};

// An input with its bytes, or the reason why they could not be read.
struct OpenInput {
  std::string path;  // the name to show
  uint32_t capture;
  absl::StatusOr<Source> source;
  absl::Status damage = {};  // the damage for which it may be left out
};

absl::StatusOr<Trace> TraceOf(std::span<const OpenInput> inputs, const ReadOptions& options,
                              Diagnostics* diagnostics) {
  ASSIGN_OR_RETURN(auto reader, MakeReader(options.reader));
  Opener opener(options, std::move(reader), diagnostics);
  for (const OpenInput& input : inputs) {
    if (!input.source.ok()) return input.source.status();
    RETURN_IF_ERROR(opener.Add(*input.source, input.path, input.capture));
  }
  return std::move(opener).Finish();
}

// Opens one of the files of a run directory. The user did not name this file explicitly, so opening
// must not block: pipes, sockets and devices are refused.
absl::StatusOr<Source> OpenFileOfRun(const std::string& path, const ReadOptions& options) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::status_known(status)) {  // cyclic links, a directory without permission
    return FailedPrecondition(path, ": cannot be read: ", error.message());
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return FailedPrecondition(
        path, ": not a regular file in a run directory; pass it as an argument itself");
  }
  return OpenSource(path, options);
}

// Removes and notes the damaged or unreadable files (no permission, dangling links, not regular
// files) of each capture that has a sound file. Returns false if there are none.
bool LeaveOutDamaged(const ReadOptions& options, std::vector<OpenInput>* inputs,
                     Diagnostics* diagnostics) {
  absl::flat_hash_map<uint32_t, size_t> sound;  // number of sound files by capture
  for (OpenInput& input : *inputs) {
    Diagnostics untold;
    const absl::Status status = TraceOf(std::span(&input, 1), options, &untold).status();
    // Errors that would affect other files as well (no space for temporary files) do not count as
    // damage.
    const bool damaged = absl::IsDataLoss(status) || absl::IsResourceExhausted(status) ||
                         absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
                         absl::IsFailedPrecondition(status);
    if (damaged) input.damage = status;
    sound[input.capture] += damaged ? 0 : 1;
  }
  const size_t left_out = std::erase_if(*inputs, [&](const OpenInput& input) {
    if (input.damage.ok() || sound[input.capture] == 0) return false;
    diagnostics->Note(DiagnosticCode::kHostLeftOut, std::string(input.damage.message()));
    return true;
  });
  return left_out > 0;
}

// The hosts of a run record at the same time, apart from the error of their clocks. If a file
// begins more than a second after all earlier ones ended, it probably belongs to another run.
void NoteFilesApart(const Trace& trace, Diagnostics* diagnostics) {
  constexpr uint64_t kLeastApartNs = 1'000'000'000;
  std::map<uint32_t, std::map<uint64_t, uint32_t>> files_by_start;  // by capture, then by start
  for (uint32_t i = 0; i < trace.files.size(); ++i) {
    const TraceFile& file = trace.files[i];
    if (!file.profile_start_unix_ns || !file.profile_stop_unix_ns) continue;
    files_by_start[file.capture].emplace(*file.profile_start_unix_ns, i);
  }
  for (const auto& [capture, files] : files_by_start) {
    uint64_t ended_ns = files.begin()->first;
    for (const auto& [start_ns, i] : files) {
      if (start_ns > ended_ns && start_ns - ended_ns > kLeastApartNs) {
        diagnostics->Count(DiagnosticCode::kFilesApart, {.file = i});
      }
      ended_ns = std::max(ended_ns, *trace.files[i].profile_stop_unix_ns);
    }
  }
}

// Notes the runs of a log directory that are not read, with the arguments that read them.
void NoteOtherRuns(const Input& input, Diagnostics* diagnostics) {
  const std::vector<std::string>& others = input.other_runs;
  if (others.empty()) return;
  constexpr size_t kMaxShown = 5;
  const size_t hidden = others.size() - std::min(others.size(), kMaxShown);
  const auto directory_size = others[0].find_last_of('/');
  std::vector<std::string> names;  // of the latest
  for (size_t i = hidden; i < others.size(); ++i) {
    names.push_back(others[i].substr(directory_size + 1));
  }
  const std::string directory = others[0].substr(0, directory_size);
  const std::string read = std::filesystem::path(input.path).parent_path().filename().string();
  diagnostics->Note(
      DiagnosticCode::kOtherRuns,
      Cat(absl::StrJoin(names, ", "), hidden > 0 ? Cat(" and ", hidden, " earlier ones") : "",
          "; only ", read, ", the latest, was read; for all runs give ", directory,
          "/*, for another one --run NAME"),
      {}, others.size());
}

}  // namespace

StatValue Plane::FindStat(std::string_view stat_name) const {
  for (const Stat& stat : stats) {
    const auto name_id = static_cast<uint64_t>(stat.metadata_id);
    if (ReferencedName(stat_metadata, name_id) == stat_name) return stat.value;
  }
  return {};
}

absl::Status DamageError(std::string_view what, const ErrorPlace& place) {
  std::vector<std::string> where;
  if (!place.plane.empty()) where.push_back(Cat("plane ", place.plane));
  if (!place.line.empty()) where.push_back(Cat("line ", place.line));
  if (place.event != Location::kNowhere) where.push_back(Cat("event ", place.event));
  if (place.byte_offset != Location::kNowhere) where.push_back(Cat("byte ", place.byte_offset));
  return DataLoss(place.file, ": damaged trace: ", what,
                  where.empty() ? "" : Cat(" (", absl::StrJoin(where, ", "), ")"),
                  "; record it again, or copy it again without conversion");
}

absl::Status LineDamage(const Trace& trace, const Line& line, const Damage& damage,
                        uint64_t event) {
  const Plane& plane = trace.planes[line.plane];
  return DamageError(damage.why, {.file = trace.files[plane.file].path,
                                  .plane = plane.name,
                                  .line = line.name,
                                  .event = event,
                                  .byte_offset = damage.byte_offset});
}

absl::StatusOr<Trace> OpenTrace(std::span<const Input> inputs, const ReadOptions& options,
                                Diagnostics* diagnostics) {
  std::vector<OpenInput> opened;
  uint32_t captures = 0;
  absl::flat_hash_map<uint32_t, size_t> files_of_capture;
  for (const Input& input : inputs) ++files_of_capture[input.capture];
  for (const Input& input : inputs) {
    const bool is_of_run = files_of_capture[input.capture] > 1;
    auto source = is_of_run ? OpenFileOfRun(input.path, options) : OpenSource(input.path, options);
    if (!source.ok() && !options.leave_out_damaged_hosts) return source.status();
    opened.push_back(
        {input.path == "-" ? "standard input" : input.path, input.capture, std::move(source)});
    captures = std::max(captures, input.capture + 1);
  }
  Diagnostics reading;
  absl::StatusOr<Trace> trace = TraceOf(opened, options, &reading);
  if (!trace.ok() && options.leave_out_damaged_hosts) {
    Diagnostics left_out;
    if (LeaveOutDamaged(options, &opened, &left_out)) {
      reading = std::move(left_out);
      trace = TraceOf(opened, options, &reading);
    }
  }
  if (!trace.ok()) return trace;
  diagnostics->Merge(reading);
  trace->capture_count = captures;
  NoteFilesApart(*trace, diagnostics);
  for (const Input& input : inputs) NoteOtherRuns(input, diagnostics);
  return trace;
}

absl::StatusOr<Trace> OpenTraceFromMemory(std::string_view bytes, const std::string& name,
                                          const ReadOptions& options, Diagnostics* diagnostics) {
  const OpenInput input = {name, 0, SourceInMemory(bytes, name, options)};
  ASSIGN_OR_RETURN(Trace trace, TraceOf(std::span(&input, 1), options, diagnostics));
  trace.capture_count = 1;
  return trace;
}

std::string EventName(const Plane& plane, uint32_t metadata, int64_t metadata_id) {
  if (metadata == kNoMetadata) return Cat("(event metadata ", metadata_id, ")");
  return std::string(plane.event_metadata.entries[metadata].shown_name());
}

uint64_t EventByteOffset(const Trace& trace, uint32_t line_index, uint64_t event) {
  const Line& line = trace.lines[line_index];
  const std::string_view file = trace.source->FileOf(trace, line);
  uint64_t offset = Location::kNowhere;
  Damage ignored;
  ReadMessage(file.substr(line.bytes.offset, line.bytes.size), line.bytes.offset, 2, &ignored,
              [&](const WireField& field) {
                if (field.key() != Length(kEventsField) || event-- > 0) return true;
                offset = field.offset;
                return false;
              });
  return offset;
}

}  // namespace xplane_time
