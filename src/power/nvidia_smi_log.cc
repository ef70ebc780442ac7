// nvidia-smi --query-gpu=timestamp,index,uuid,power.draw,... --format=csv[,nounits] -lms N
//
//   timestamp, index, power.draw [W]
//   2025/08/21 10:11:12.345, 0, 71.83 W
//
// Its times are the wall clock's, taken as if of UTC. A GPU is told by uuid, then by index;
// without both all rows are of one.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "power/log_reader.h"

namespace xplane_time::power {
namespace {

constexpr size_t kMostColumns = 256;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\xef\xbb\xbf";  // with the parts of a UTF-8 mark
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Trimmed cells.
void Split(std::string_view line, std::vector<std::string_view>* cells) {
  cells->clear();
  while (cells->size() < kMostColumns) {
    const size_t comma = line.find(',');
    cells->push_back(Trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

struct Quantity {
  std::string_view column;  // without its unit
  std::string_view quantity;
  ReadingKind kind;
  double scale;  // to the unit of `quantity`
};

constexpr double kMi = 1024.0 * 1024.0;
constexpr std::array<Quantity, 17> kQuantities = {{
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
}};

const Quantity* QuantityOf(std::string_view header) {
  const std::string_view column = Trimmed(header.substr(0, header.find('[')));
  const auto* at = std::find_if(kQuantities.begin(), kQuantities.end(),
                                [&](const Quantity& each) { return each.column == column; });
  return at == kQuantities.end() ? nullptr : at;
}

// "2025/08/21 10:11:12.345" as nanoseconds since 1970.
std::optional<int64_t> TimeOf(std::string_view cell) {
  // Of a known shape, so that every field is a few digits.
  constexpr std::string_view kShape = "0000/00/00 00:00:00";
  if (cell.size() < kShape.size()) return std::nullopt;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = cell[i] >= '0' && cell[i] <= '9';
    if (kShape[i] == '0' ? !digit : cell[i] != kShape[i]) return std::nullopt;
  }
  const auto number = [&](size_t at, size_t digits) {
    int value = 0;
    for (size_t i = at; i < at + digits; ++i) value = 10 * value + (cell[i] - '0');
    return value;
  };
  const absl::CivilSecond second(number(0, 4), number(5, 2), number(8, 2), number(11, 2),
                                 number(14, 2), number(17, 2));
  constexpr int64_t kSecondNs = 1'000'000'000;
  const int64_t since_1970 = second - absl::CivilSecond(1970, 1, 1);
  if (since_1970 < 0 || since_1970 >= kLatestNs / kSecondNs) return std::nullopt;
  int64_t ns = since_1970 * kSecondNs;
  if (cell.size() == kShape.size()) return ns;
  if (cell[kShape.size()] != '.') return std::nullopt;
  int64_t unit_ns = 100'000'000;
  for (const char digit : cell.substr(kShape.size() + 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    ns += (digit - '0') * unit_ns;
    unit_ns /= 10;
  }
  return ns;
}

// "71.83 W", "71.83", "P0"; "[N/A]" and "[Not Supported]" are unknown.
bool ValueOf(std::string_view cell, double scale, Reading* reading) {
  if (cell.empty() || cell.front() == '[' || cell == "N/A") {
    reading->reason =
        cell == "[GPU is lost]" ? PowerReason::kDeviceLost : PowerReason::kUnsupported;
    return true;
  }
  if (cell.front() == 'P') cell.remove_prefix(1);
  const std::string_view digits = cell.substr(0, cell.find(' '));
  double value = 0;
  if (!absl::SimpleAtod(absl::string_view(digits.data(), digits.size()), &value)) return false;
  value *= scale;
  if (!(std::abs(value) < static_cast<double>(kLatestNs))) return false;
  reading->value = std::llround(value);
  return true;
}

class NvidiaSmiLog {
 public:
  explicit NvidiaSmiLog(LogSink* sink) : sink_(sink) {}
  absl::Status ReadHeader(const LogLine& line);
  // What is wrong with the line; empty: nothing.
  std::string_view Read(const LogLine& line);

 private:
  struct Gpu {
    std::string id;
    uint32_t channel = 0;  // its first
  };
  const Gpu* GpuOf();  // of the cells; null: too many
  std::string Cell(size_t column) const {
    return column < cells_.size() ? std::string(cells_[column]) : std::string();
  }

  LogSink* const sink_;
  std::vector<std::string_view> cells_;
  std::vector<std::pair<size_t, const Quantity*>> columns_;
  size_t column_count_ = 0;
  size_t time_ = kMostColumns, index_ = kMostColumns, uuid_ = kMostColumns, name_ = kMostColumns;
  std::vector<Gpu> gpus_;
  uint32_t channels_ = 0;
  std::vector<Reading> readings_;
};

absl::Status NvidiaSmiLog::ReadHeader(const LogLine& line) {
  Split(line.text, &cells_);
  column_count_ = cells_.size();
  bool power = false;
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i] == "timestamp") time_ = i;
    if (cells_[i] == "index") index_ = i;
    if (cells_[i] == "uuid" || cells_[i] == "gpu_uuid") uuid_ = i;
    if (cells_[i] == "name" || cells_[i] == "gpu_name") name_ = i;
    if (const Quantity* quantity = QuantityOf(cells_[i]); quantity != nullptr) {
      columns_.emplace_back(i, quantity);
      power = power || quantity->quantity == "power_mw";
    }
  }
  if (time_ == kMostColumns || !power) {
    return absl::DataLossError(absl::StrCat(
        PlaceOf(line), ": CSV of nvidia-smi without ", power ? "timestamp" : "power.draw",
        "; ask for it: --query-gpu=timestamp,index,uuid,power.draw --format=csv"));
  }
  LogHeader header;
  header.periods_ns.emplace_back("nvidia-smi", 0);
  sink_->Header(std::move(header));
  return absl::OkStatus();
}

const NvidiaSmiLog::Gpu* NvidiaSmiLog::GpuOf() {
  std::string id = Cell(uuid_);
  if (id.empty()) id = "gpu:" + (index_ < cells_.size() ? Cell(index_) : "0");
  for (const Gpu& gpu : gpus_) {
    if (gpu.id == id) return &gpu;
  }
  if (channels_ + columns_.size() > kMostChannels) return nullptr;
  PowerDevice device;
  device.id = id;
  device.name = Cell(name_);
  device.source = "nvidia-smi";
  if (const std::string index = Cell(index_); !index.empty()) {
    int32_t value = 0;
    if (absl::SimpleAtoi(index, &value)) device.index = value;
  }
  // Of several columns of power the first one is in the total.
  bool first_power = true;
  const uint32_t first = channels_;
  for (const auto& [column, quantity] : columns_) {
    PowerChannel channel;
    channel.source = "nvidia-smi";
    channel.device = id;
    channel.domain = quantity->column.starts_with("module.") ? "module" : "gpu";
    channel.quantity = quantity->quantity;
    channel.kind = quantity->kind;
    const bool power = quantity->quantity == "power_mw" && channel.domain == "gpu";
    channel.in_total = power && first_power;
    if (power) first_power = false;
    sink_->Channel(std::move(channel), device);
    ++channels_;
  }
  gpus_.push_back({std::move(id), first});
  return &gpus_.back();
}

std::string_view NvidiaSmiLog::Read(const LogLine& line) {
  if (line.too_long) return "longer than 4 MiB";
  Split(line.text, &cells_);
  if (cells_.size() == column_count_ && cells_[time_] == "timestamp") return "";  // a new run
  if (cells_.size() != column_count_) return "another number of columns than the header";
  const auto t_ns = TimeOf(cells_[time_]);
  if (!t_ns.has_value()) return "no timestamp as 2025/08/21 10:11:12.345";
  readings_.assign(columns_.size(), {});
  for (size_t i = 0; i < columns_.size(); ++i) {
    readings_[i].before_ns = readings_[i].after_ns = *t_ns;
    if (!ValueOf(cells_[columns_[i].first], columns_[i].second->scale, &readings_[i])) {
      return "a value that is no number";
    }
  }
  const Gpu* gpu = GpuOf();
  if (gpu == nullptr) return "more GPUs than are kept";
  for (size_t i = 0; i < readings_.size(); ++i) {
    readings_[i].channel = gpu->channel + static_cast<uint32_t>(i);
  }
  sink_->Readings(0, *t_ns, readings_);
  return "";
}

}  // namespace

bool LooksLikeNvidiaSmi(std::string_view first) {
  return first.find('{') == std::string_view::npos &&
         (first.find("timestamp") != std::string_view::npos ||
          first.find("power.draw") != std::string_view::npos);
}

absl::StatusOr<LogEnd> ReadNvidiaSmi(const LogLine& first, LogLines* lines, LogSink* sink) {
  NvidiaSmiLog log(sink);
  if (absl::Status status = log.ReadHeader(first); !status.ok()) return status;
  LogEnd end;
  LogLine line = first;
  end.lines = 1;
  while (lines->Next(&line)) {
    ++end.lines;
    if (Trimmed(line.text).empty() && !line.too_long) continue;
    if (!line.whole) {  // its last number may lack digits
      end.cut = absl::StrCat("the last line is cut (", PlaceOf(line), ")");
      break;
    }
    if (const std::string_view wrong = log.Read(line); !wrong.empty()) AddDamage(line, wrong, &end);
  }
  end.complete = end.cut.empty();  // its CSV has no line that says so
  return end;
}

}  // namespace xplane_time::power
