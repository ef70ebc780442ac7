// Reads the CSV of nvidia-smi --query-gpu=timestamp,index,uuid,power.draw,...
// --format=csv[,nounits] -lms N
//
//   timestamp, index, power.draw [W]
//   2025/08/21 10:11:12.345, 0, 71.83 W
//
// Its times are local times without a zone; they are read as UTC. A GPU is identified by its uuid,
// else by its index. Without both, all rows belong to one GPU.
#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "power/log.h"
#include "status.h"

namespace xplane_time::power {
namespace {

constexpr size_t kNone = std::string_view::npos;  // no such column

std::string_view Stripped(std::string_view text) {
  return Trimmed(text, " \t\r\xef\xbb\xbf");  // including the bytes of a UTF-8 byte order mark
}

// Splits a line into stripped cells.
void Split(std::string_view line, std::vector<std::string_view>* cells) {
  cells->clear();
  for (const absl::string_view cell : absl::StrSplit(Absl(line), ',')) {
    cells->push_back(Stripped({cell.data(), cell.size()}));
  }
}

// The row of a table with this name (the first field); null if there is none.
template <typename Row, size_t n>
const Row* RowNamed(const Row (&rows)[n], std::string_view name) {
  const auto* at = std::ranges::find(rows, name, &Row::name);
  return at == std::end(rows) ? nullptr : at;
}

struct Quantity {
  std::string_view name;  // name of the column, without its unit
  std::string_view quantity;
  ReadingKind kind;
  double scale;  // converts to the unit of `quantity`
};

constexpr double kMi = 1024.0 * 1024.0;
constexpr Quantity kQuantities[] = {
    {"power.draw", "power_mw", ReadingKind::kAverage, 1e3},
    {"power.draw.average", "power_mw", ReadingKind::kAverage, 1e3},
    {"power.draw.instant", "power_mw", ReadingKind::kInstant, 1e3},
    {"module.power.draw.average", "power_mw", ReadingKind::kAverage, 1e3},
    {"module.power.draw.instant", "power_mw", ReadingKind::kInstant, 1e3},
    {"power.limit", "power_limit_mw", ReadingKind::kGauge, 1e3},
    {"enforced.power.limit", "power_limit_mw", ReadingKind::kGauge, 1e3},
    {"temperature.gpu", "temperature_mc", ReadingKind::kGauge, 1e3},
    {"utilization.gpu", "utilization_gpu_ppm", ReadingKind::kGauge, 1e4},
    {"utilization.memory", "utilization_memory_ppm", ReadingKind::kGauge, 1e4},
    {"memory.used", "memory_used_bytes", ReadingKind::kGauge, kMi},
    {"memory.total", "memory_total_bytes", ReadingKind::kGauge, kMi},
    {"clocks.sm", "clock_sm_mhz", ReadingKind::kGauge, 1},
    {"clocks.current.sm", "clock_sm_mhz", ReadingKind::kGauge, 1},
    {"clocks.mem", "clock_memory_mhz", ReadingKind::kGauge, 1},
    {"clocks.current.memory", "clock_memory_mhz", ReadingKind::kGauge, 1},
    {"pstate", "pstate", ReadingKind::kGauge, 1},
};

const Quantity* QuantityOf(std::string_view header) {
  return RowNamed(kQuantities, Stripped(header.substr(0, header.find('['))));
}

// Converts "2025/08/21 10:11:12.345" to nanoseconds since 1970.
std::optional<int64_t> TimeOf(std::string_view cell) {
  absl::Time time;
  std::string why;
  if (!absl::ParseTime("%Y/%m/%d %H:%M:%E*S", Absl(cell), &time, &why)) return std::nullopt;
  const int64_t ns = absl::ToUnixNanos(time);
  return ns >= 0 && ns < kLatestNs ? std::optional(ns) : std::nullopt;
}

// The factor of a unit that nvidia-smi uses; empty if it is unknown.
std::optional<double> UnitOf(std::string_view unit) {
  struct Unit {
    std::string_view name;
    double scale;
  };
  constexpr Unit kUnits[] = {
      {"", 1},    {"W", 1},     {"kW", 1e3},         {"mW", 1e-3}, {"C", 1},     {"%", 1},
      {"MHz", 1}, {"GHz", 1e3}, {"KiB", 1 / 1024.0}, {"MiB", 1},   {"GiB", 1024}};
  const Unit* at = RowNamed(kUnits, unit);
  return at == nullptr ? std::nullopt : std::optional(at->scale);
}

// Returns "W" for "power.draw [W]".
std::string_view UnitIn(std::string_view header) {
  const size_t begin = header.find('['), end = header.find(']');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  return Stripped(header.substr(begin + 1, end - begin - 1));
}

PowerReason ReadReason(std::string_view cell) {
  struct Text {
    std::string_view name;
    PowerReason reason;
  };
  constexpr Text kTexts[] = {{"[GPU is lost]", PowerReason::kDeviceLost},
                             {"[GPU requires reset]", PowerReason::kResetRequired},
                             {"[Insufficient Permissions]", PowerReason::kPermissionDenied},
                             {"[Unknown Error]", PowerReason::kNoSamples}};
  const Text* at = RowNamed(kTexts, cell);
  return at == nullptr ? PowerReason::kUnsupported : at->reason;
}

// Reads "71.83 W", "71.83" in the header's unit, or "P0"; "[N/A]" and "[Not Supported]" are
// unknown.
bool ValueOf(std::string_view cell, double scale, std::string_view header_unit, Reading* reading) {
  if (cell.empty() || cell.front() == '[' || cell == "N/A") {
    reading->reason = ReadReason(cell);
    return true;
  }
  if (cell.front() == 'P') cell.remove_prefix(1);
  const std::string_view digits = cell.substr(0, cell.find(' '));
  const std::string_view unit = Stripped(cell.substr(digits.size()));
  const std::optional<double> units = UnitOf(unit.empty() ? header_unit : unit);
  double value = 0;
  if (!units.has_value() || !absl::SimpleAtod(Absl(digits), &value)) return false;
  value *= scale * *units;
  if (!(std::abs(value) < static_cast<double>(kLatestNs))) return false;
  reading->value = std::llround(value);
  return true;
}

class NvidiaSmiParser : public LogParser {
 public:
  explicit NvidiaSmiParser(LogSink* sink) : sink_(sink) {}
  absl::Status ReadHeader(const LogLine& line) override {
    Split(line.text, &cells_);
    FindIds();
    by_index_ = index_ != kNone;
    by_uuid_ = uuid_ != kNone;
    bool power = false;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (const Quantity* quantity = QuantityOf(cells_[i]); quantity != nullptr) {
        columns_.push_back({i, quantity, std::string(UnitIn(cells_[i]))});
        power = power || quantity->quantity == "power_mw";
      }
    }
    if (time_ == kNone || !power) {
      return DataLoss(PlaceOf(line), ": CSV of nvidia-smi without the column ",
                      power ? "timestamp" : "power.draw",
                      "; record with --query-gpu=timestamp,index,uuid,power.draw --format=csv");
    }
    LogHeader header;
    header.periods_ns.emplace_back("nvidia-smi", 0);
    sink_->Header(std::move(header));
    return absl::OkStatus();
  }

  std::string_view Read(const LogLine& line) override {
    if (!line.whole) return "its last number may be truncated";
    if (line.too_long) return "the line is longer than 4 MiB";
    Split(line.text, &cells_);
    if (std::ranges::count(cells_, "timestamp") > 0) {  // the header of a new run
      lost_ = !Remap();
      return lost_ ? "a header that lacks columns of the first header" : "";
    }
    if (lost_) return "a line below a header that lacks columns of the first header";
    if (cells_.size() != column_count_) return "the number of columns differs from the header";
    const auto t_ns = TimeOf(cells_[time_]);
    if (!t_ns.has_value()) return "no timestamp like 2025/08/21 10:11:12.345";
    readings_.assign(columns_.size(), {});
    for (size_t i = 0; i < columns_.size(); ++i) {
      readings_[i].before_ns = readings_[i].after_ns = *t_ns;
      const Column& column = columns_[i];
      if (!ValueOf(cells_[column.at], column.quantity->scale, column.unit, &readings_[i])) {
        return "a value that is not a number with a known unit";
      }
    }
    const std::optional<size_t> first = FirstChannel();
    if (!first) return "more GPUs than supported";
    for (size_t i = 0; i < readings_.size(); ++i) {
      readings_[i].channel = static_cast<uint32_t>(*first + i);
    }
    sink_->Readings(0, *t_ns, readings_);
    return "";
  }

 private:
  struct Column {
    size_t at = 0;
    const Quantity* quantity = nullptr;
    std::string unit;
  };
  void FindIds() {
    column_count_ = cells_.size();
    time_ = index_ = uuid_ = name_ = kNone;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (cells_[i] == "timestamp") time_ = i;
      if (cells_[i] == "index") index_ = i;
      if (cells_[i] == "uuid" || cells_[i] == "gpu_uuid") uuid_ = i;
      if (cells_[i] == "name" || cells_[i] == "gpu_name") name_ = i;
    }
  }

  // Maps the columns to a new header in cells_; false if one is missing.
  bool Remap() {
    FindIds();
    if (by_index_ != (index_ != kNone) || by_uuid_ != (uuid_ != kNone)) return false;
    for (Column& column : columns_) {
      const auto at = std::ranges::find(cells_, column.quantity, QuantityOf);
      if (at == cells_.end()) return false;
      column.at = static_cast<size_t>(at - cells_.begin());
      column.unit = UnitIn(*at);
    }
    return true;
  }

  // The first channel of the GPU in cells_; empty if there are too many channels.
  std::optional<size_t> FirstChannel() {
    std::string id = Cell(uuid_);
    if (id.empty()) id = "gpu:" + (index_ < cells_.size() ? Cell(index_) : "0");
    const auto known = std::ranges::find(gpus_, id);
    const size_t first = static_cast<size_t>(known - gpus_.begin()) * columns_.size();
    if (known != gpus_.end()) return first;
    if (first + columns_.size() > kMostChannels) return std::nullopt;
    PowerDevice device = {.id = id, .name = Cell(name_), .source = "nvidia-smi"};
    if (int32_t value = 0; absl::SimpleAtoi(Cell(index_), &value)) device.index = value;
    bool has_power = false;  // only the first of several power columns is in the total
    for (const Column& column : columns_) {
      const Quantity& quantity = *column.quantity;
      const bool of_module = quantity.name.starts_with("module.");
      const bool in_total = quantity.quantity == "power_mw" && !of_module && !has_power;
      has_power |= in_total;
      sink_->Channel({.source = "nvidia-smi",
                      .device = id,
                      .domain = of_module ? "module" : "gpu",
                      .quantity = std::string(quantity.quantity),
                      .kind = quantity.kind,
                      .in_total = in_total},
                     device);
    }
    gpus_.push_back(std::move(id));
    return first;
  }

  std::string Cell(size_t column) const {
    return column < cells_.size() ? std::string(cells_[column]) : std::string();
  }

  LogSink* const sink_;
  std::vector<std::string_view> cells_;
  std::vector<Column> columns_;
  size_t column_count_ = 0;
  bool by_index_ = false, by_uuid_ = false;  // columns that identify GPUs in the first header
  bool lost_ = false;                        // the last header lacks columns of the first one
  size_t time_ = kNone, index_ = kNone, uuid_ = kNone, name_ = kNone;
  std::vector<std::string> gpus_;  // ids; each GPU has one channel for each column
  std::vector<Reading> readings_;
};

}  // namespace

std::unique_ptr<LogParser> NewNvidiaSmiParser(std::string_view first, LogSink* sink) {
  const auto has = [&](std::string_view text) { return first.find(text) != first.npos; };
  if (has("{") || !(has("timestamp") || has("power.draw"))) return nullptr;
  return std::make_unique<NvidiaSmiParser>(sink);
}

}  // namespace xplane_time::power
