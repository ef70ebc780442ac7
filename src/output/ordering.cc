#include "output/ordering.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>

namespace xplane_time::output {
namespace {

constexpr std::string_view kFunctionKeys[] = {"total",  "name", "runs", "mean",
                                              "median", "std",  "min",  "max"};
constexpr std::string_view kKernelKeys[] = {"total",  "self", "count", "mean",
                                            "median", "max",  "name",  "share"};

using Number = std::optional<double>;

bool Contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

absl::Status CheckKey(std::span<const std::string_view> keys, std::string_view key) {
  if (key.empty() || Contains(keys, key)) return absl::OkStatus();
  std::string message = "--sort: unknown key \"" + std::string(key) + "\"; valid keys: ";
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) message.append(", ");
    message.append(keys[i]);
  }
  return absl::InvalidArgumentError(message);
}

template <typename T>
std::vector<const T*> Pointers(const std::vector<T>& rows) {
  std::vector<const T*> out;
  out.reserve(rows.size());
  for (const T& row : rows) out.push_back(&row);
  return out;
}

Number FunctionNumber(const FunctionRow& row, std::string_view key, Metric metric) {
  if (key == "runs") return static_cast<double>(row.runs);
  const std::optional<Summary>& summary = row.metric(metric);
  if (!summary) return std::nullopt;
  if (key == "mean") return summary->mean;
  if (key == "median") return summary->median;
  if (key == "std") return summary->std;
  if (key == "min") return static_cast<double>(summary->min);
  if (key == "max") return static_cast<double>(summary->max);
  return TotalPs(row, metric);
}

template <typename T>
Number AsNumber(const std::optional<T>& value) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

Number KernelNumber(const KernelRow& row, std::string_view key) {
  if (key == "self") return AsNumber(row.self_ps);
  if (key == "count") return static_cast<double>(row.count);
  if (key == "mean") return row.mean_ps;
  if (key == "median") return row.median_ps;
  if (key == "max") return AsNumber(row.max_ps);
  if (key == "share") return row.share;
  if (key == "total") return static_cast<double>(row.total_ps);
  return static_cast<double>(row.self_ps.value_or(row.total_ps));
}

// Decorate and sort: each key is computed once.
template <typename T, typename Key>
void SortDescending(std::vector<const T*>* rows, Key key) {
  std::vector<std::pair<double, const T*>> keyed;
  keyed.reserve(rows->size());
  for (const T* row : *rows) {
    const Number number = key(*row);
    const bool known = number && !std::isnan(*number);
    keyed.emplace_back(known ? *number : -HUGE_VAL, row);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::transform(keyed.begin(), keyed.end(), rows->begin(), [](const auto& k) { return k.second; });
}

template <typename T>
void Cut(std::optional<size_t> top, std::vector<const T*>* rows) {
  if (top && *top < rows->size()) rows->resize(*top);
}

}  // namespace

std::optional<double> TotalPs(const FunctionRow& row, Metric metric) {
  const std::optional<Summary>& summary = row.metric(metric);
  if (!summary) return std::nullopt;
  return summary->mean * static_cast<double>(summary->n);
}

void SortFunctions(std::string_view key, Metric metric, std::vector<const FunctionRow*>* rows) {
  if (key == "name") {
    std::stable_sort(rows->begin(), rows->end(), [](const FunctionRow* a, const FunctionRow* b) {
      return a->function < b->function;
    });
    return;
  }
  SortDescending(rows, [&](const FunctionRow& row) { return FunctionNumber(row, key, metric); });
}

void SortKernels(std::string_view key, std::vector<const KernelRow*>* rows) {
  if (key == "name") {
    std::stable_sort(rows->begin(), rows->end(),
                     [](const KernelRow* a, const KernelRow* b) { return a->kernel < b->kernel; });
    return;
  }
  SortDescending(rows, [&](const KernelRow& row) { return KernelNumber(row, key); });
}

absl::StatusOr<OrderedReport> OrderReport(const Report& report, const OutputOptions& options,
                                          SortKeys keys) {
  const bool for_kernels = keys == SortKeys::kKernels;
  const absl::Status valid =
      for_kernels ? CheckKey(kKernelKeys, options.sort) : CheckKey(kFunctionKeys, options.sort);
  if (!valid.ok()) return valid;
  OrderedReport ordered = {.functions = Pointers(report.functions),
                           .combined = Pointers(report.combined),
                           .variants = Pointers(report.variants),
                           .kernels = Pointers(report.kernels)};
  const bool for_humans = options.format == Format::kTable || options.format == Format::kMarkdown;
  if (options.sort.empty() && !options.top && !for_humans) return ordered;
  for (auto* rows : {&ordered.functions, &ordered.combined, &ordered.variants}) {
    SortFunctions(for_kernels ? "" : options.sort, options.metric, rows);
    Cut(options.top, rows);
  }
  const bool follows = Contains(kKernelKeys, options.sort);
  SortKernels(follows ? std::string_view(options.sort) : "", &ordered.kernels);
  Cut(options.top, &ordered.kernels);
  return ordered;
}

}  // namespace xplane_time::output
