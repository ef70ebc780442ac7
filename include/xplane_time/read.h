// Read: bytes become a Trace, and a line's events become columns.
//
// Enters: paths (or bytes in memory). Leaves: a Trace (trace.h) and, line by line,
// EventBatches. Not handled here: which planes matter (select.h), what an event
// means (report.h).
//
//   const std::vector<std::string> arguments = {"run_dir"};
//   auto inputs = FindInputs(arguments, {});
//   auto trace = OpenTrace(*inputs, {}, &diagnostics);
//   if (!trace.ok()) ...   // NotFound, DataLoss ("... at byte 5127"), InvalidArgument
//
// Formats are recognized by content: XSpace protobuf, JSON of Kineto (PyTorch), and
// both in gzip. Anything else is refused with what it looks like and a way out.
//
// A damaged file (wire damage, lengths past the end, more than 100 nested groups)
// is a DataLoss status that names file and byte offset. A damaged event (negative
// duration, a time off the axis) is counted in Diagnostics and skipped.
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
};

struct FindOptions {
  // With log directories: this run instead of the latest.
  std::string run;
};

// Resolves arguments to files. A file is itself; a run directory gives all its
// hosts as one capture; a log directory its latest run; "-" standard input. Several
// arguments are repeated captures. Errors: NotFound (no such path, no trace in the
// directory, no such run), FailedPrecondition (.riegeli).
absl::StatusOr<std::vector<Input>> FindInputs(std::span<const std::string> arguments,
                                              const FindOptions& options);

enum class Reader : uint8_t {
  kWire,      // decodes the wire format itself
  kProtobuf,  // the generated parser, as a cross-check
};

struct ReadOptions {
  Reader reader = Reader::kWire;
  // A gzip stream may grow to at most this many bytes, and beyond 64 MiB to at most
  // `max_gzip_ratio` times its own size.
  uint64_t max_spool_bytes = uint64_t{64} << 30;
  uint64_t max_gzip_ratio = 250;
  int threads = 1;  // this one included; lines are counted in parallel
  // A plane that is byte for byte another one of its file and host is left out (and noted),
  // unless this is set.
  bool keep_identical_planes = false;
  // Of the files of a run directory (equal `capture`) the damaged ones are left out and noted
  // (kHostLeftOut), at opening as at reading, as long as one is sound; unset: an error.
  bool leave_out_damaged_hosts = false;
};

// Opens all inputs as one Trace: planes, metadata, lines and their numbers of events;
// events are decoded later, from the mapping. The same content twice is read once and
// noted in `diagnostics`. Memory: the files are mapped (of any size; kProtobuf: up to
// 2 GiB a file); pipes and gzip streams spool into an unlinked temporary file; some 100
// bytes a metadata entry. Files must not be cut off while a Trace reads them.
absl::StatusOr<Trace> OpenTrace(std::span<const Input> inputs, const ReadOptions& options,
                                Diagnostics* diagnostics);

// The same from memory. `bytes` (plain or gzip) must outlive the Trace.
absl::StatusOr<Trace> OpenTraceFromMemory(std::string_view bytes, const std::string& name,
                                          const ReadOptions& options, Diagnostics* diagnostics);
// A temporary string would not outlive it.
template <std::same_as<std::string> Temporary>
absl::StatusOr<Trace> OpenTraceFromMemory(Temporary&& bytes, const std::string& name,
                                          const ReadOptions& options,
                                          Diagnostics* diagnostics) = delete;

// One requested stat of a batch's events, their own: columns of equal length, all empty
// where no event has it.
struct StatColumn {
  std::span<const StatType> type;                      // kAbsent where an event has none
  std::span<const uint64_t> bits;                      // valid where the type is not kAbsent
  std::span<const std::string_view> text;              // valid where the type has text of its own
  const MetadataTable<StatMetadata>* names = nullptr;  // of references

  bool empty() const { return type.empty(); }
  // kAbsent: none.
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

// Up to kBatchSize consecutive events of one line, in file order, as columns.
// Spans live until the reader's next Next() or Start(), texts as long as the Trace.
struct EventBatch {
  static constexpr size_t kBatchSize = 1024;
  uint32_t line = 0;                     // into Trace::lines
  std::span<const uint64_t> event;       // index within the line (skipped events leave gaps)
  std::span<const int64_t> start_ps;     // since base_ns; kNoTimePs for aggregated events
  std::span<const int64_t> duration_ps;  // >= 0; for aggregated events the total
  std::span<const int64_t> occurrences;  // 1, or num_occurrences of an aggregated event
  std::span<const uint32_t> metadata;    // into event_metadata.entries, or kNoMetadata
  std::span<const int64_t> metadata_id;  // as in the file
  std::span<const StatColumn> stats;     // in the order of the request
  const BatchBuilder* builder = nullptr;

  size_t size() const { return start_ps.size(); }
  // A stat of an event: its own before that of its metadata; kAbsent: neither.
  StatValue Stat(size_t column, size_t row) const {
    const StatColumn& own = stats[column];
    if (!own.empty() && own.type[row] != StatType::kAbsent) return own.At(row);
    return MetadataStat(column, metadata[row]);
  }
  // A stat of an event metadata entry (kNoMetadata: none).
  const StatValue& MetadataStat(size_t column, uint32_t entry) const;
  // Whether any event metadata entry of the plane has it.
  bool InMetadata(size_t column) const;
};

// The events of a line that somebody looks at; the default: all. Others may be left out of batches,
// so far as nothing about them is unusual.
struct EventChoice {
  std::span<const uint8_t> metadata = {};  // not 0: of this entry of event_metadata
  size_t stats = 0;                        // or: with one of its own of the first so many asked for
  // Instead, not empty: overlaps one of these, which are in order and do not overlap; of others
  // only the times are looked at.
  std::span<const Interval> within = {};
  const LinePart* part = nullptr;  // null: the whole line
};

class LineDecoder;

// Decodes the events of lines, batch by batch. Only stats named in `stat_names` are
// decoded, all others are skipped by length. Of a stat that an event has twice, the
// first counts. One object reads many lines, one after the other; different objects may
// be used concurrently.
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

  // What `choice` refers to must outlive the reading of the line.
  void Start(uint32_t line, const EventChoice& choice = {});
  // Empty at the line's end. Errors: DataLoss with file, plane, line, event and byte offset.
  absl::StatusOr<EventBatch> Next();
  // With a choice by metadata, once the line is read: from the first start to the last end of all
  // its events, chosen or not. Without any that has times it ends before it starts.
  Interval extent() const;

 private:
  const Trace* trace_;
  std::unique_ptr<BatchBuilder> builder_;
  std::unique_ptr<LineDecoder> decoder_;
};

// Before events are read. Errors: InvalidArgument (a name twice), FailedPrecondition (no plane of
// the trace has such a stat), with the names that are near.
absl::Status CheckStatNames(const Trace& trace, std::span<const std::string> names);

using BatchVisitor = absl::FunctionRef<absl::Status(const EventBatch&)>;

// All batches of one line. Errors: of EventReader; whatever the visitor returns.
absl::Status VisitEvents(const Trace& trace, uint32_t line,
                         std::span<const std::string_view> stat_names, Diagnostics* diagnostics,
                         BatchVisitor visitor, const EventChoice& choice = {});

// "(event metadata 42)" where the metadata is missing; else the display name if set,
// else the name.
std::string EventName(const Plane& plane, uint32_t metadata, int64_t metadata_id);

// Byte offset of the event-th XEvent message of a line, or Location::kNowhere.
uint64_t EventByteOffset(const Trace& trace, uint32_t line, uint64_t event);

// Inflates a kCompressedString; at most `max_bytes`.
absl::StatusOr<std::string> DecompressText(std::string_view compressed, uint64_t max_bytes);

}  // namespace xplane_time
