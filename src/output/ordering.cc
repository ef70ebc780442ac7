// Ordering: which rows are shown, and in which order.
#include <cmath>
#include <iterator>

#include "absl/strings/str_join.h"
#include "output/trace_views.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using Number = std::optional<double>;

// What `sort` may name, and the number of a row that it sorts by; null: by name.
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

template <typename Row, size_t kCount>
absl::Status CheckKey(const SortKey<Row> (&keys)[kCount], std::string_view name) {
  if (name.empty() || Find(keys, name) != nullptr) return absl::OkStatus();
  const auto append = [](std::string* out, const SortKey<Row>& key) { out->append(key.name); };
  return InvalidArgument("--sort: unknown key \"", name,
                         "\"; valid keys: ", absl::StrJoin(keys, ", ", append));
}

// By `key`, or by `other` where there is no such key.
template <typename Row, size_t kCount, typename NumberOf>
void Sort(const SortKey<Row> (&keys)[kCount], std::string_view key, NumberOf other,
          std::string Row::*name, Metric metric, std::vector<const Row*>* rows) {
  const SortKey<Row>* known = Find(keys, key);
  const NumberOf number = known != nullptr ? known->number : other;
  if (number == nullptr) {
    std::ranges::stable_sort(*rows, {}, name);
    return;
  }
  std::ranges::stable_sort(*rows, std::greater<>(), [&](const Row* row) {
    const Number value = number(*row, metric);
    return value && !std::isnan(*value) ? *value : -HUGE_VAL;
  });
}

void Cut(std::optional<size_t> top, auto* rows) {
  if (top && *top < rows->size()) rows->resize(*top);
}

}  // namespace

std::optional<double> TotalPs(const FunctionRow& row, Metric metric) {
  const std::optional<Summary>& summary = row.metric(metric);
  if (!summary) return std::nullopt;
  return summary->mean * static_cast<double>(summary->n);
}

void SortFunctions(std::string_view key, Metric metric, std::vector<const FunctionRow*>* rows) {
  Sort(kFunctionKeys, key, &TotalPs, &FunctionRow::function, metric, rows);
}

void SortKernels(std::string_view key, std::vector<const KernelRow*>* rows) {
  Sort(kKernelKeys, key, &OwnTime, &KernelRow::kernel, Metric::kActive, rows);
}

absl::StatusOr<OrderedReport> OrderReport(const Report& report, const OutputOptions& options,
                                          SortKeys keys) {
  const bool for_kernels = keys == SortKeys::kKernels;
  RETURN_IF_ERROR(for_kernels ? CheckKey(kKernelKeys, options.sort)
                              : CheckKey(kFunctionKeys, options.sort));
  OrderedReport ordered = {.functions = Pointers(report.functions),
                           .combined = Pointers(report.combined),
                           .variants = Pointers(report.variants),
                           .kernels = Pointers(report.kernels)};
  if (options.sort.empty() && !options.top && !options.for_people()) return ordered;
  for (auto* rows : {&ordered.functions, &ordered.combined, &ordered.variants}) {
    SortFunctions(for_kernels ? "" : options.sort, options.metric, rows);
    Cut(options.top, rows);
  }
  SortKernels(options.sort, &ordered.kernels);
  Cut(options.top, &ordered.kernels);
  return ordered;
}

}  // namespace xplane_time::output
