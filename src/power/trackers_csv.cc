#include "xplane_time/trackers.h"

#include <optional>
#include <string>
#include <string_view>

#include "output/csv.h"
#include "output/text.h"
#include "power/whole_file.h"

namespace xplane_time {
namespace {

// Appends cells; the first of a line has no comma before it.
class CellLine {
 public:
  explicit CellLine(std::string* out) : out_(out) {}
  ~CellLine() { *out_ += '\n'; }
  CellLine(const CellLine&) = delete;
  CellLine& operator=(const CellLine&) = delete;

  CellLine& Cell(std::string_view text) {
    Part();
    output::AppendCsvCell(output::ValidUtf8(text), out_);
    return *this;
  }
  CellLine& Cell(std::optional<int64_t> value) {
    Part();
    if (value.has_value()) output::AppendCsvInteger(*value, out_);
    return *this;
  }
  CellLine& Cell(std::optional<double> value) {
    Part();
    if (value.has_value()) output::AppendCsvNumber(*value, out_);
    return *this;
  }

 private:
  void Part() {
    if (!first_) *out_ += ',';
    first_ = false;
  }

  std::string* out_;
  bool first_ = true;
};

}  // namespace

absl::Status WriteLatencyCsv(const std::string& path, std::span<const LatencyRecord> records) {
  std::string text = "sample_id,wall_time_us,kernel_time_us,seq_len\n";
  for (const LatencyRecord& each : records) {
    CellLine(&text)
        .Cell(std::optional(each.sample_id))
        .Cell(std::optional(each.wall_time_us))
        .Cell(each.kernel_time_us)
        .Cell(each.seq_len);
  }
  return power::WriteWholeFile(path, text);
}

absl::Status WriteMemoryCsv(const std::string& path, std::span<const MemorySnapshot> snapshots) {
  std::string text =
      "timestamp_us,peak_rss_bytes,kv_cache_bytes,activation_bytes,temp_buffer_bytes\n";
  for (const MemorySnapshot& each : snapshots) {
    CellLine(&text)
        .Cell(std::optional(each.timestamp_us))
        .Cell(each.peak_rss_bytes)
        .Cell(each.parts.kv_cache_bytes)
        .Cell(each.parts.activation_bytes)
        .Cell(each.parts.temp_buffer_bytes);
  }
  return power::WriteWholeFile(path, text);
}

absl::Status WriteResultsCsv(const std::string& path, std::span<const ResultRow> rows) {
  std::string text =
      "setting,coherence_delta,kv_cache_reduction,peak_mem_reduction,energy_reduction,"
      "p95_latency_us,accuracy\n";
  for (const ResultRow& each : rows) {
    CellLine(&text)
        .Cell(std::string_view(each.setting))
        .Cell(each.coherence_delta)
        .Cell(each.kv_cache_reduction)
        .Cell(each.peak_mem_reduction)
        .Cell(each.energy_reduction)
        .Cell(each.p95_latency_us)
        .Cell(each.accuracy);
  }
  return power::WriteWholeFile(path, text);
}

}  // namespace xplane_time
