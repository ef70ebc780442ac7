// Ordering: which rows are shown, and in which order.
#include <cmath>
#include <iterator>

#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/trace_views.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using Number = std::optional<double>;

// A valid value of `sort`, and the number of a row that it sorts by; null: by name.
template <typename Row>
struct SortKey {
  std::string_view name;
  Number (*number)(const Row& row, Metric metric);
};

template <auto kMember>
Number OfSummary(const FunctionRow& row, Metric metric) {
  const std::optional<Summary>& summary = row.metric(metric);
  return summary ? Number(static_cast<double>((*summary).*kMember)) : std::nullopt;
}
template <auto kMember>
Number OfRow(const auto& row, Metric /*metric*/) {
  return AsDouble(std::optional(row.*kMember));
}
Number OwnTime(const KernelRow& row, Metric /*metric*/) {
  return static_cast<double>(row.self_ps.value_or(row.total_ps));
}

constexpr SortKey<FunctionRow> kFunctionKeys[] = {{"total", TotalPs},
                                                  {"name", nullptr},
                                                  {"runs", OfRow<&FunctionRow::runs>},
                                                  {"mean", OfSummary<&Summary::mean>},
                                                  {"median", OfSummary<&Summary::median>},
                                                  {"std", OfSummary<&Summary::std>},
                                                  {"min", OfSummary<&Summary::min>},
                                                  {"max", OfSummary<&Summary::max>}};
constexpr SortKey<KernelRow> kKernelKeys[] = {{"total", OfRow<&KernelRow::total_ps>},
                                              {"self", OfRow<&KernelRow::self_ps>},
                                              {"count", OfRow<&KernelRow::count>},
                                              {"mean", OfRow<&KernelRow::mean_ps>},
                                              {"median", OfRow<&KernelRow::median_ps>},
                                              {"max", OfRow<&KernelRow::max_ps>},
                                              {"name", nullptr},
                                              {"share", OfRow<&KernelRow::share>}};

template <typename Row, size_t kCount>
const SortKey<Row>* Find(const SortKey<Row> (&keys)[kCount], std::string_view name) {
  const auto found = std::ranges::find(keys, name, &SortKey<Row>::name);
  return found == std::end(keys) ? nullptr : found;
}

// A report has functions and kernels, and each key of either sorts those rows that have it.
absl::Status CheckKey(SortKeys keys, std::string_view name) {
  std::vector<std::string> known;
  const auto add = [&known](const auto& all) {
    for (const auto& key : all) {
      if (std::ranges::find(known, key.name) == known.end()) known.emplace_back(key.name);
    }
  };
  if (keys != SortKeys::kKernels) add(kFunctionKeys);
  if (keys != SortKeys::kFunctions) add(kKernelKeys);
  if (name.empty() || std::ranges::find(known, name) != known.end()) return absl::OkStatus();
  return InvalidArgument("--sort: unknown key \"", name,
                         "\"; valid keys: ", absl::StrJoin(known, ", "));
}

// By `key`, or by `other` if the key is unknown.
template <typename Row, size_t kCount, typename NumberOf>
void Sort(const SortKey<Row> (&keys)[kCount], std::string_view key, NumberOf other,
          std::string Row::*name, Metric metric, std::vector<Row>* rows) {
  const SortKey<Row>* known = Find(keys, key);
  const NumberOf number = known != nullptr ? known->number : other;
  if (number == nullptr) {
    std::ranges::stable_sort(*rows, {}, name);
    return;
  }
  std::ranges::stable_sort(*rows, std::greater<>(), [&](const Row& row) {
    const Number value = number(row, metric);
    return value && !std::isnan(*value) ? *value : -HUGE_VAL;
  });
}

}  // namespace

std::optional<double> TotalPs(const FunctionRow& row, Metric metric) {
  const std::optional<Summary>& summary = row.metric(metric);
  if (!summary) return std::nullopt;
  return summary->mean * static_cast<double>(summary->n);
}

void SortFunctions(std::string_view key, Metric metric, std::vector<FunctionRow>* rows) {
  Sort(kFunctionKeys, key, &TotalPs, &FunctionRow::function, metric, rows);
}

void SortKernels(std::string_view key, std::vector<KernelRow>* rows) {
  Sort(kKernelKeys, key, &OwnTime, &KernelRow::kernel, Metric::kActive, rows);
}

absl::Status OrderReport(const OutputOptions& options, SortKeys keys, Report* report) {
  const bool for_kernels = keys == SortKeys::kKernels;
  RETURN_IF_ERROR(CheckKey(keys, options.sort));
  if (options.sort.empty() && !options.top && !options.for_people()) return absl::OkStatus();
  for (auto* rows : {&report->functions, &report->combined, &report->variants}) {
    SortFunctions(for_kernels ? "" : options.sort, options.metric, rows);
  }
  // The report for people first merges the kernels and then sorts them itself.
  if (keys == SortKeys::kReport && options.for_people()) return absl::OkStatus();
  SortKernels(options.sort, &report->kernels);
  return absl::OkStatus();
}

}  // namespace xplane_time::output
