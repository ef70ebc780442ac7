#include "output/ordering.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  const auto value = std::optional(row.*kMember);
  return value ? Number(static_cast<double>(*value)) : std::nullopt;
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
  const auto found = std::find_if(std::begin(keys), std::end(keys),
                                  [&](const SortKey<Row>& key) { return key.name == name; });
  return found == std::end(keys) ? nullptr : found;
}

template <typename Row, size_t kCount>
absl::Status CheckKey(const SortKey<Row> (&keys)[kCount], std::string_view name) {
  if (name.empty() || Find(keys, name) != nullptr) return absl::OkStatus();
  const auto append = [](std::string* out, const SortKey<Row>& key) { out->append(key.name); };
  return InvalidArgument("--sort: unknown key \"", std::string(name),
                         "\"; valid keys: ", absl::StrJoin(keys, ", ", append));
}

template <typename T>
std::vector<const T*> Pointers(const std::vector<T>& rows) {
  std::vector<const T*> out;
  out.reserve(rows.size());
  for (const T& row : rows) out.push_back(&row);
  return out;
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
void SortByName(std::string T::*name, std::vector<const T*>* rows) {
  std::stable_sort(rows->begin(), rows->end(),
                   [&](const T* a, const T* b) { return a->*name < b->*name; });
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
  const SortKey<FunctionRow>* known = Find(kFunctionKeys, key);
  const auto number = known != nullptr ? known->number : TotalPs;
  if (number == nullptr) return SortByName(&FunctionRow::function, rows);
  SortDescending(rows, [&](const FunctionRow& row) { return number(row, metric); });
}

void SortKernels(std::string_view key, std::vector<const KernelRow*>* rows) {
  const SortKey<KernelRow>* known = Find(kKernelKeys, key);
  if (known != nullptr && known->number == nullptr) return SortByName(&KernelRow::kernel, rows);
  SortDescending(rows, [&](const KernelRow& row) {
    if (known != nullptr) return known->number(row, Metric::kActive);
    return Number(static_cast<double>(row.self_ps.value_or(row.total_ps)));
  });
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
