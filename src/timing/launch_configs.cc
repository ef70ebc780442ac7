#include "timing/launch_configs.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "status.h"

namespace xplane_time {
namespace {

enum Column : size_t {
  kKernelDetails,
  kTheoreticalPercent,
  kGrid,
  kBlock,
  kSharedBytes,
  kRegisters,
  kEstimatedPercent
};

// No GPU has more. CUDA and ROCm limit a block to 1024 threads.
constexpr int64_t kMaxRegisters = 1024, kMaxSharedBytes = int64_t{1} << 20, kMaxThreads = 1024,
                  kMaxBlocks = std::numeric_limits<uint32_t>::max();

std::optional<int64_t> ParseWhole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

std::optional<double> ParseReal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

using Dimensions = std::array<int64_t, 3>;

// "160,1,1", "[160, 1, 1]". Empty: not three numbers of at least 1 and at most `max_each`.
std::optional<Dimensions> ParseDimensions(std::string_view text, int64_t max_each) {
  const auto drop_any = [&](std::string_view characters) {
    text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
  };
  constexpr std::string_view kSpace = " \t\r\n";
  drop_any(kSpace);
  if (text.starts_with('[') && !text.ends_with(']')) return std::nullopt;
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    text.remove_suffix(1);
  }
  Dimensions dimensions;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    drop_any(kSpace);
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::optional<int64_t> value = ParseWhole(text.substr(0, end));
    if (!value.has_value() || *value < 1 || *value > max_each) return std::nullopt;
    dimensions[i] = *value;
    text.remove_prefix(end);
    drop_any(kSpace);
    const bool is_last = i + 1 == dimensions.size();
    if (is_last ? !text.empty() : !text.starts_with(',')) return std::nullopt;
    if (!is_last) text.remove_prefix(1);
  }
  return dimensions;
}

std::string DimensionText(const std::optional<Dimensions>& dimensions) {
  if (!dimensions.has_value()) return "";
  return Cat((*dimensions)[0], ",", (*dimensions)[1], ",", (*dimensions)[2]);
}

std::optional<double> Share(std::optional<double> percent, bool zero_is_unknown) {
  if (!percent.has_value() || !(*percent >= 0 && *percent <= 100)) return std::nullopt;
  if (*percent == 0 && zero_is_unknown) return std::nullopt;
  return *percent / 100;
}

bool IsIn(const std::optional<int64_t>& value, int64_t max) {
  return !value.has_value() || (*value >= 0 && *value <= max);
}

// Keeps the values that are possible. Empty: no value is left.
std::optional<LaunchConfig> Checked(LaunchConfig config, std::string_view grid,
                                    std::string_view block) {
  const auto threads = ParseDimensions(block, kMaxThreads);
  const bool is_block = threads && (*threads)[0] * (*threads)[1] * (*threads)[2] <= kMaxThreads;
  if (!block.empty() && !is_block) return std::nullopt;
  config.block = DimensionText(threads);
  config.grid = DimensionText(ParseDimensions(grid, kMaxBlocks));
  const bool are_resources_sound = IsIn(config.registers, kMaxRegisters) &&
                                   IsIn(config.static_shared_bytes, kMaxSharedBytes) &&
                                   IsIn(config.dynamic_shared_bytes, kMaxSharedBytes) &&
                                   IsIn(config.shared_bytes, kMaxSharedBytes);
  if (!are_resources_sound) {
    config.registers.reset();
    config.static_shared_bytes.reset();
    config.dynamic_shared_bytes.reset();
    config.shared_bytes.reset();
  }
  if (config.registers == 0) config.registers.reset();  // every thread has some
  if (config.static_shared_bytes.has_value() && config.dynamic_shared_bytes.has_value()) {
    config.shared_bytes = *config.static_shared_bytes + *config.dynamic_shared_bytes;
  }
  return config == LaunchConfig() ? std::nullopt : std::optional(std::move(config));
}

// -1, which no GPU has, if the text is not a number; the other resources are then also doubtful.
std::optional<int64_t> ResourceIn(std::string_view text) { return ParseWhole(text).value_or(-1); }

std::optional<int64_t> WholeStat(const StatValue& value) {
  if (value.type == StatType::kAbsent) return std::nullopt;
  if (value.type == StatType::kInt64) return static_cast<int64_t>(value.bits);
  if (value.type == StatType::kUint64 && value.bits <= INT64_MAX) {
    return static_cast<int64_t>(value.bits);
  }
  if (value.type == StatType::kDouble) {
    const auto number = std::bit_cast<double>(value.bits);
    const bool is_whole = number == std::floor(number) && std::abs(number) < 9e15;
    if (is_whole) return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

std::optional<double> RealStat(const StatValue& value) {
  if (value.type == StatType::kDouble) return std::bit_cast<double>(value.bits);
  const std::optional<int64_t> whole = WholeStat(value);
  return whole.has_value() ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

}  // namespace

std::optional<LaunchConfig> ParseKernelDetails(std::string_view kernel_details,
                                               std::optional<double> occupancy_percent) {
  LaunchConfig config;
  std::string_view grid, block;
  for (size_t at = 0; at < kernel_details.size();) {
    const std::string_view word =
        kernel_details.substr(at, kernel_details.find_first_of(" \n", at) - at);
    at += word.size() + 1;
    const size_t colon = word.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, colon), value = word.substr(colon + 1);
    if (name == "regs") config.registers = ResourceIn(value);
    if (name == "static_shared") config.static_shared_bytes = ResourceIn(value);
    if (name == "dynamic_shared") config.dynamic_shared_bytes = ResourceIn(value);
    if (name == "shm" || name == "group_mem") config.shared_bytes = ResourceIn(value);
    if (name == "occ_pct" && !occupancy_percent.has_value()) occupancy_percent = ParseReal(value);
    if (name == "grid") grid = value;
    if (name == "block") block = value;
  }
  config.theoretical_occupancy = Share(occupancy_percent, /*zero_is_unknown=*/true);
  return Checked(std::move(config), grid, block);
}

std::optional<LaunchConfig> LaunchConfigs::Parse(const EventBatch& batch, size_t row) const {
  const auto stat = [&](Column column) { return batch.Stat(first_column_ + column, row); };
  if (const StatValue details = stat(kKernelDetails); details.type != StatType::kAbsent) {
    return ParseKernelDetails(details.text, RealStat(stat(kTheoreticalPercent)));
  }
  LaunchConfig config;
  config.registers = WholeStat(stat(kRegisters));
  config.shared_bytes = WholeStat(stat(kSharedBytes));
  config.theoretical_occupancy = Share(RealStat(stat(kTheoreticalPercent)),
                                       /*zero_is_unknown=*/true);
  config.estimated_occupancy = Share(RealStat(stat(kEstimatedPercent)),
                                     /*zero_is_unknown=*/false);
  return Checked(std::move(config), stat(kGrid).text, stat(kBlock).text);
}

uint32_t LaunchConfigs::Number(const std::optional<LaunchConfig>& config) {
  if (!config.has_value()) return kUnknown;
  const auto found = number_of_.find(*config);
  if (found != number_of_.end()) return found->second;
  if (configs_.size() == kMaxConfigs) return kOther;
  const auto number = static_cast<uint32_t>(configs_.size());
  configs_.push_back(&number_of_.emplace(*config, number).first->first);
  return number;
}

void LaunchConfigs::StartBatch(const EventBatch& batch) {
  present_.clear();
  for (size_t column = 0; column < kStats.size(); ++column) {
    const size_t at = first_column_ + column;
    if (!batch.stats[at].empty() || batch.InMetadata(at)) present_.push_back(column);
  }
}

// Events repeat the same few values, so each combination is parsed once. A reference stands for its
// text.
uint32_t LaunchConfigs::Find(const EventBatch& batch, size_t row) {
  key_.clear();
  for (const size_t column : present_) {
    const StatValue value = batch.Stat(first_column_ + column, row);
    if (value.type == StatType::kAbsent) continue;
    key_.push_back(static_cast<char>(column));
    key_.push_back(static_cast<char>(value.type));
    const bool has_text = HasOwnText(value.type);
    const uint64_t bits = has_text ? value.text.size() : value.bits;
    key_.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    if (has_text) key_.append(value.text);
  }
  if (key_.empty()) return kUnknown;
  if (key_ == last_key_) return last_;
  const auto found = number_of_key_.find(key_);
  const bool is_known = found != number_of_key_.end();
  last_ = is_known ? found->second : Number(Parse(batch, row));
  const bool fits = number_of_key_.size() < kMaxTexts && key_.size() <= kMaxTextBytes;
  if (!is_known && fits) number_of_key_.emplace(key_, last_);
  last_key_ = key_;
  return last_;
}

}  // namespace xplane_time
