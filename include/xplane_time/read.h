// Read: bytes become a Trace, and the events of a line become columns.
//
// Input: paths, or bytes in memory. Output: a Trace (trace.h) and, for each line, EventBatches. Not
// handled here: the choice of planes (select.h) and the meaning of events (report.h).
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"run_dir"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();  // NotFound, DataLoss ("... (byte 5127)"), ...
//   uint64_t events = 0;
//   for (uint32_t line = 0; line < trace->lines.size(); ++line) {
//     const absl::Status read =
//         VisitEvents(*trace, line, /*stat_names=*/{}, &diagnostics, [&](const EventBatch& batch) {
//           events += batch.size();
//           return absl::OkStatus();
//         });
//     if (!read.ok()) return read;
//   }
//
// The content determines the format: XSpace protobuf, Kineto JSON (PyTorch), or one of these in
// gzip. Other files are refused. The error names the format that was recognized, and a remedy.
//
// A damaged file (invalid wire format, lengths past the end, more than 100 nested groups) gives a
// DataLoss status that names the file and the byte offset. A damaged event (negative duration, time
// beyond the axis) is counted in Diagnostics and skipped.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/intervals.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// One file to read. Files with equal `capture` are hosts of one run.
struct Input {
  std::string path;  // "-": standard input
  uint32_t capture = 0;
  // For the first file of the latest run of a log directory: the directories of the other runs,
  // which are not read.
  std::vector<std::string> other_runs = {};
};

struct FindOptions {
  // The run to read from a log directory. Empty: the latest run.
  std::string run;
};

// Resolves command line arguments to files. A file stands for itself. A run directory stands for
// all its hosts as one capture. A log directory stands for its latest run, and "-" for standard
// input. Each argument is a capture. Errors: NotFound (no such path, no trace in the directory, no
// such run), FailedPrecondition (.riegeli, or only pipes and devices in a run directory),
// InvalidArgument ("-" twice, or `run` without a log directory), PermissionDenied (a directory that
// cannot be listed).
absl::StatusOr<std::vector<Input>> FindInputs(std::span<const std::string> arguments,
                                              const FindOptions& options);

enum class Reader : uint8_t {
  kWire,      // decodes the wire format directly
  kProtobuf,  // the generated parser, as a cross-check
};

struct ReadOptions {
  Reader reader = Reader::kWire;
  // Limits of the inflated size of a gzip stream: this many bytes and, beyond 64 MiB,
  // `max_gzip_ratio` times the compressed size.
  uint64_t max_spool_bytes = uint64_t{64} << 30;
  uint64_t max_gzip_ratio = 250;
  int threads = 1;  // including the calling thread; lines are indexed in parallel
  // Keep planes that are byte for byte equal to another plane of the same file and host. By default
  // such planes are dropped and counted in the diagnostics.
  bool keep_identical_planes = false;
  // Skip damaged files of a run directory (equal `capture`) and count them (kHostLeftOut), both at
  // opening and at reading, if at least one file is undamaged. By default a damaged file is an
  // error.
  bool leave_out_damaged_hosts = false;
};

// Opens all inputs as one Trace: planes, metadata, lines and their event counts. Events are decoded
// later from the mapped files. If two inputs have the same content, only one is read, and
// `diagnostics` counts the other.
//
// Memory: files are mapped and may have any size (kProtobuf: up to 2 GiB each). Pipes and gzip
// streams are copied to an unlinked temporary file. Each metadata entry takes about 100 bytes. Do
// not truncate a file while a Trace reads it.
//
// Errors: NotFound, PermissionDenied, DataLoss (damaged, empty or not a trace), ResourceExhausted
// (gzip limits, names over 16 MiB), Unavailable (I/O), InvalidArgument (a directory, or a reader
// that this build lacks), FailedPrecondition (a file of a run that is not a regular file).
absl::StatusOr<Trace> OpenTrace(std::span<const Input> inputs, const ReadOptions& options,
                                Diagnostics* diagnostics);

// Opens a trace in memory. `bytes` (plain or gzip) must outlive the Trace.
absl::StatusOr<Trace> OpenTraceFromMemory(std::string_view bytes, const std::string& name,
                                          const ReadOptions& options, Diagnostics* diagnostics);
// Deleted for temporary strings, because the Trace would outlive them.
template <std::same_as<std::string> Temporary>
absl::StatusOr<Trace> OpenTraceFromMemory(Temporary&& bytes, const std::string& name,
                                          const ReadOptions& options,
                                          Diagnostics* diagnostics) = delete;

// One requested stat, as columns of equal length with one row per event. Stats of the event
// metadata are not included. All columns are empty if no event has the stat.
struct StatColumn {
  std::span<const StatType> type;                      // kAbsent if the event lacks the stat
  std::span<const uint64_t> bits;                      // valid unless the type is kAbsent
  std::span<const std::string_view> text;              // valid if HasOwnText(type)
  const MetadataTable<StatMetadata>* names = nullptr;  // names that kRef stats refer to

  bool empty() const { return type.empty(); }
  // The value in a row; its type is kAbsent if the event lacks the stat.
  StatValue At(size_t row) const {
    if (empty() || type[row] == StatType::kAbsent) return {};
    return {type[row], bits[row], TextAt(row)};
  }

 private:
  std::string_view TextAt(size_t row) const {
    if (HasOwnText(type[row])) return text[row];
    return type[row] == StatType::kRef ? ReferencedName(*names, bits[row]) : std::string_view();
  }
};

inline constexpr int64_t kNoTimePs = std::numeric_limits<int64_t>::min();

class BatchBuilder;

// Up to kBatchSize consecutive events of one line, in file order, as columns. Spans are valid until
// the reader's next Next() or Start(). Texts are valid as long as the Trace.
struct EventBatch {
  static constexpr size_t kBatchSize = 1024;
  uint32_t line = 0;                     // into Trace::lines
  std::span<const uint64_t> event;       // index within the line; skipped events leave gaps
  std::span<const int64_t> start_ps;     // since base_ns; kNoTimePs for aggregated events
  std::span<const int64_t> duration_ps;  // >= 0; the total for aggregated events
  std::span<const int64_t> occurrences;  // 1, or num_occurrences of an aggregated event
  std::span<const uint32_t> metadata;    // into event_metadata.entries, or kNoMetadata
  std::span<const int64_t> metadata_id;  // as in the file
  std::span<const StatColumn> stats;     // in the order of the request
  const BatchBuilder* builder = nullptr;

  size_t size() const { return start_ps.size(); }
  // A stat of an event or, if the event lacks it, of its metadata. kAbsent if both lack it.
  StatValue Stat(size_t column, size_t row) const {
    const StatColumn& own = stats[column];
    if (!own.empty() && own.type[row] != StatType::kAbsent) return own.At(row);
    return MetadataStat(column, metadata[row]);
  }
  // A stat of an event metadata entry. kAbsent for kNoMetadata.
  const StatValue& MetadataStat(size_t column, uint32_t entry) const;
  // Whether any event metadata entry of the plane has the stat.
  bool InMetadata(size_t column) const;
};

// The events of a line that the caller needs; by default all. The reader may skip the other events,
// unless they are unusual (for example damaged).
struct EventChoice {
  std::span<const uint8_t> metadata = {};  // nonzero: events of this event_metadata entry
  // also events that have one of the first `stats` requested stats themselves
  size_t stats = 0;
  // If not empty, this replaces the choice above: events that overlap one of these intervals, which
  // must be sorted and disjoint. Of the other events only the times are checked.
  std::span<const Interval> within = {};
  const LinePart* part = nullptr;  // null: the whole line
};

class LineDecoder;

// Decodes the events of lines, batch by batch. It decodes the stats named in `stat_names` and skips
// all others by length. If an event has a stat twice, the first one counts. One reader can read
// many lines in sequence. Different readers may run concurrently.
//
//   constexpr std::string_view kStats[] = {"flops"};
//   EventReader events(trace, kStats, &diagnostics);
//   events.Start(line);
//   for (;;) {
//     absl::StatusOr<EventBatch> batch = events.Next();
//     if (!batch.ok()) return batch.status();
//     if (batch->size() == 0) break;
//     for (size_t row = 0; row < batch->size(); ++row) {
//       const StatValue flops = batch->Stat(0, row);
//       ... batch->start_ps[row], batch->duration_ps[row], flops.type, flops.bits
//     }
//   }
class EventReader {
 public:
  // `trace`, `stat_names` and `diagnostics` must outlive the reader.
  EventReader(const Trace& trace, std::span<const std::string_view> stat_names,
              Diagnostics* diagnostics);
  ~EventReader();
  EventReader(EventReader&&) noexcept;

  // The data that `choice` refers to must outlive the reading of the line.
  void Start(uint32_t line, const EventChoice& choice = {});
  // The next batch; empty at the end of the line. Errors: DataLoss with file, plane, line, event
  // and byte offset.
  absl::StatusOr<EventBatch> Next();
  // With a choice by metadata, after the line was read: from the first start to the last end of all
  // its events, chosen or not. If no event has a time, the end is before the start.
  Interval extent() const;

 private:
  const Trace* trace_;
  std::unique_ptr<BatchBuilder> builder_;
  std::unique_ptr<LineDecoder> decoder_;
};

// Checks the names of stats before events are read. Errors: InvalidArgument (a name twice),
// FailedPrecondition (no plane of the trace has such a stat; the message suggests similar names).
absl::Status CheckStatNames(const Trace& trace, std::span<const std::string> names);

using BatchVisitor = absl::FunctionRef<absl::Status(const EventBatch&)>;

// Visits all batches of one line. Errors: those of EventReader and of the visitor.
absl::Status VisitEvents(const Trace& trace, uint32_t line,
                         std::span<const std::string_view> stat_names, Diagnostics* diagnostics,
                         BatchVisitor visitor, const EventChoice& choice = {});

// The display name of an event or, if it has none, its name. "(event metadata 42)" if its metadata
// is missing.
std::string EventName(const Plane& plane, uint32_t metadata, int64_t metadata_id);

// Byte offset of the XEvent message with this index in a line, or Location::kNowhere.
uint64_t EventByteOffset(const Trace& trace, uint32_t line, uint64_t event);

// Inflates the text of a kCompressedString stat to at most `max_bytes`.
absl::StatusOr<std::string> DecompressText(std::string_view compressed, uint64_t max_bytes);

}  // namespace xplane_time
