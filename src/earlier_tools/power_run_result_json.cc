#include "earlier_tools/power_run_result_json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "power/sources.h"

namespace xplane_time::power {
namespace {

using json::NumberOf, json::OrNull, json::Parse, json::TextOrNull;

constexpr double kMebibyte = 1048576, kGibibyte = 1073741824;
// Of a model's metrics, what is counted in totals.
struct EnergyNames {
  const char *joules, *lo, *hi, *missing;
};
constexpr EnergyNames kGpu = {"per_query_joules", "lo_joules", "hi_joules", "missing"},
                      kCpu = {"cpu_per_query_joules", "cpu_lo_joules", "cpu_hi_joules",
                              "cpu_missing"},
                      kAne = {"ane_per_query_joules", "ane_lo_joules", "ane_hi_joules",
                              "ane_missing"},
                      kAll = {"energy_joules", "lo_joules", "hi_joules", "missing"};

Json NotNegative(std::optional<double> value) {
  return OrNull(value >= 0.0 ? value : std::nullopt);
}
Json ReasonJson(PowerReason reason) {
  return reason == PowerReason::kKnown ? Json(nullptr) : Json(PowerReasonName(reason));
}

// A sum is known where each of its values is; `first`: it begins.
void AddWhereKnown(bool first, std::optional<double> value, std::optional<double>* sum) {
  if (first) *sum = 0;
  *sum = value.has_value() && sum->has_value() ? std::optional(**sum + *value) : std::nullopt;
}

// The devices of one domain that count: together where all of them are known.
struct Part {
  EnergyEstimate sum;
  std::string missing = {};  // what may not be read, and is not in the sum
};

// Of a quantity without a channel.
PowerReason WhyNone(const RunTelemetry& telemetry, std::string_view domain) {
  const bool is_there =
      std::any_of(telemetry.channels.begin(), telemetry.channels.end(),
                  [&](const PowerChannel& each) { return each.domain == domain; });
  return is_there ? PowerReason::kUnsupported : PowerReason::kAbsent;
}

// One of each device: two sources of one are not two devices. The first of those that `rank`
// highest; `device_of(row)` is null where a row is not meant.
template <typename Row, typename DeviceOf, typename Rank>
std::vector<const Row*> OnePerDevice(const std::vector<Row>& rows, DeviceOf device_of, Rank rank) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows) {
    const std::string* const device = device_of(row);
    if (device == nullptr) continue;
    const auto at = std::find_if(chosen.begin(), chosen.end(),
                                 [&](const Row* other) { return *device_of(*other) == *device; });
    if (at == chosen.end()) {
      chosen.push_back(&row);
    } else if (rank(**at) < rank(row)) {
      *at = &row;
    }
  }
  return chosen;
}

Part PartOf(const RunTelemetry& telemetry, std::string_view domain) {
  const auto estimates = OnePerDevice(
      telemetry.window.energies,
      [&](const EnergyEstimate& each) {
        return each.in_total && each.domain == domain ? &each.device : nullptr;
      },
      [](const EnergyEstimate& each) { return each.energy_j.has_value(); });
  Part part;
  EnergyEstimate& sum = part.sum;
  sum.reason = WhyNone(telemetry, domain);
  bool first = true;
  for (const EnergyEstimate* each : estimates) {
    for (const auto value :
         {&EnergyEstimate::energy_j, &EnergyEstimate::lo_j, &EnergyEstimate::hi_j,
          &EnergyEstimate::mean_w, &EnergyEstimate::peak_w}) {
      AddWhereKnown(first, each->*value, &(sum.*value));
    }
    sum.coverage = first ? each->coverage : std::min(sum.coverage, each->coverage);
    if (first || each->reason != PowerReason::kKnown) sum.reason = each->reason;
    first = false;
  }
  part.missing = DeniedPart(telemetry.channels, telemetry.absences, domain);
  if (!part.missing.empty()) sum.reason = PowerReason::kPermissionDenied;
  return part;
}

// How a quantity of several devices is one.
enum class Over : uint8_t { kSum, kMean };

struct Stats {
  std::optional<double> avg = {}, max = {}, median = {}, min = {};
  PowerReason reason = PowerReason::kUnsupported;
};

// The gauges of one quantity, one of each device. A device may tell its power as it is and as
// an average: the first is of this window alone.
std::vector<const GaugeSummary*> GaugesOf(const RunTelemetry& telemetry, std::string_view domain,
                                          std::string_view quantity) {
  const auto channel_of = [&](const GaugeSummary& gauge) -> const PowerChannel& {
    return telemetry.channels.at(gauge.channel);
  };
  return OnePerDevice(
      telemetry.window.gauges,
      [&](const GaugeSummary& each) {
        const PowerChannel& channel = channel_of(each);
        return channel.domain == domain && channel.quantity == quantity ? &channel.device : nullptr;
      },
      [&](const GaugeSummary& each) {
        return std::pair(each.n > 0, channel_of(each).kind != ReadingKind::kAverage);
      });
}

// Extremes and medians of a sum are not sums of theirs: with several devices they are unknown.
// One device without a reading leaves all of it unknown.
Stats StatsOf(const std::vector<const GaugeSummary*>& gauges, double unit, Over over) {
  Stats stats;
  if (gauges.empty()) return stats;
  for (const GaugeSummary* each : gauges) {
    if (each->n > 0 && each->avg.has_value()) continue;
    stats.reason = each->reason == PowerReason::kKnown ? PowerReason::kNoSamples : each->reason;
    return stats;
  }
  stats.reason = PowerReason::kKnown;
  double sum = 0;
  for (const GaugeSummary* each : gauges) sum += *each->avg;
  const double count = static_cast<double>(gauges.size());
  stats.avg = (over == Over::kSum ? sum : sum / count) / unit;
  const auto scaled = [&](std::optional<double> value) {
    return value.has_value() ? std::optional(*value / unit) : std::nullopt;
  };
  if (gauges.size() == 1) {
    stats.max = scaled(gauges[0]->max);
    stats.median = scaled(gauges[0]->median);
    stats.min = scaled(gauges[0]->min);
  } else if (over == Over::kMean) {
    const auto less = [](const GaugeSummary* a, const GaugeSummary* b) { return a->max < b->max; };
    const auto lower = [](const GaugeSummary* a, const GaugeSummary* b) { return a->min < b->min; };
    stats.max = scaled((*std::max_element(gauges.begin(), gauges.end(), less))->max);
    stats.min = scaled((*std::min_element(gauges.begin(), gauges.end(), lower))->min);
  }
  return stats;
}

Json StatsJson(const Stats& stats) {
  return {{"avg", OrNull(stats.avg)},
          {"max", OrNull(stats.max)},
          {"median", OrNull(stats.median)},
          {"min", OrNull(stats.min)},
          {"reason", ReasonJson(stats.reason)}};
}

// Of the readings of power where there are some, else of the energy.
Json PowerJson(const RunTelemetry& telemetry, std::string_view domain) {
  constexpr double kMilliwatt = 1000;
  Stats stats = StatsOf(GaugesOf(telemetry, domain, "power_mw"), kMilliwatt, Over::kSum);
  if (const auto sum = PartOf(telemetry, domain).sum; !stats.avg && sum.mean_w.has_value()) {
    stats = {.avg = sum.mean_w, .max = sum.peak_w, .reason = PowerReason::kKnown};
  } else if (!stats.avg && stats.reason == PowerReason::kUnsupported) {
    stats.reason = sum.reason;
  }
  return {{"per_query_watts", StatsJson(stats)}, {"total_watts", StatsJson(stats)}};
}

Json EnergyJson(const RunTelemetry& telemetry) {
  const Part gpu = PartOf(telemetry, "gpu"), cpu = PartOf(telemetry, "package");
  return {{kGpu.joules, NotNegative(gpu.sum.energy_j)},
          {"total_joules", NotNegative(gpu.sum.energy_j)},
          {kGpu.lo, OrNull(gpu.sum.lo_j)},
          {kGpu.hi, OrNull(gpu.sum.hi_j)},
          {kCpu.joules, NotNegative(cpu.sum.energy_j)},
          {"cpu_total_joules", NotNegative(cpu.sum.energy_j)},
          {kCpu.lo, OrNull(cpu.sum.lo_j)},
          {kCpu.hi, OrNull(cpu.sum.hi_j)},
          {kAne.joules, nullptr},
          {"ane_total_joules", nullptr},
          {"coverage", gpu.sum.coverage},
          {"reason", ReasonJson(gpu.sum.reason)},
          {"cpu_coverage", cpu.sum.coverage},
          {"cpu_reason", ReasonJson(cpu.sum.reason)},
          {kGpu.missing, TextOrNull(gpu.missing)},
          {kCpu.missing, TextOrNull(cpu.missing)},
          {"ane_reason", PowerReasonName(PowerReason::kUnsupported)}};
}

Json LatencyJson(const RunResult& result) {
  const double seconds = static_cast<double>(result.end_ns - result.begin_ns) * 1e-9;
  const auto first_ms = result.answer.time_to_first_token_ms;
  const double tokens = static_cast<double>(result.answer.output_tokens.value_or(0));
  const bool rate = tokens > 0 && seconds > 0;
  const auto known = [](bool is, double value) { return is ? Json(value) : Json(nullptr); };
  return {{"per_token_ms", known(rate, seconds * 1000 / tokens)},
          {"throughput_tokens_per_sec", known(rate, tokens / seconds)},
          {"time_to_first_token_seconds", known(first_ms.has_value(), first_ms.value_or(0) / 1000)},
          {"total_query_seconds", seconds}};
}

Json TokensJson(const RunAnswer& answer) {
  const auto in = answer.input_tokens, out = answer.output_tokens;
  int64_t total = 0;
  const bool known =
      in.has_value() && out.has_value() && !__builtin_add_overflow(*in, *out, &total);
  return {{"input", OrNull(in)},
          {"output", OrNull(out)},
          {"total", known ? Json(total) : Json(nullptr)}};
}

Json UtilizationJson(const RunTelemetry& telemetry) {
  constexpr double kPercent = 10'000;  // of ppm
  const Stats busy =
      StatsOf(GaugesOf(telemetry, "gpu", "utilization_gpu_ppm"), kPercent, Over::kMean);
  const auto gigabytes = [&](std::string_view quantity) {
    const auto gauges = GaugesOf(telemetry, "gpu", quantity);
    Stats most = StatsOf(gauges, kGibibyte, Over::kMean);  // of the fullest
    return std::pair(OrNull(most.max), ReasonJson(most.reason));
  };
  const auto [used, used_reason] = gigabytes("memory_used_bytes");
  const auto [total, total_reason] = gigabytes("memory_total_bytes");
  return {{"gpu",
           {{"compute_utilization_pct", nullptr},  // NVML's is the share of time with a kernel
            {"memory_bandwidth_utilization_pct", nullptr},
            {"tensor_core_utilization_pct", nullptr},
            {"utilization_reason", PowerReasonName(PowerReason::kUnsupported)},
            {"busy_pct", OrNull(busy.avg)},
            {"busy_reason", ReasonJson(busy.reason)},
            {"memory_used_gb", used},
            {"memory_used_reason", used_reason},
            {"memory_total_gb", total},
            {"memory_total_reason", total_reason}}},
          {"derived", Json::object()}};
}

Json MetricsJson(const RunResult& result, const RunTelemetry& telemetry) {
  const auto stats = [&](std::string_view domain, std::string_view quantity, double unit,
                         Over over) {
    return StatsJson(StatsOf(GaugesOf(telemetry, domain, quantity), unit, over));
  };
  return {{"compute_metrics", Json::object()},
          {"energy_metrics", EnergyJson(telemetry)},
          {"latency_metrics", LatencyJson(result)},
          {"memory_metrics",
           {{"cpu_mb", stats("process", "rss_bytes", kMebibyte, Over::kSum)},
            {"gpu_mb", stats("gpu", "memory_used_bytes", kMebibyte, Over::kSum)}}},
          {"power_metrics",
           {{"gpu", PowerJson(telemetry, "gpu")}, {"cpu", PowerJson(telemetry, "package")}}},
          {"temperature_metrics", stats("gpu", "temperature_mc", 1000, Over::kMean)},
          {"token_metrics", TokensJson(result.answer)},
          {"hardware_utilization", UtilizationJson(telemetry)},
          {"gpu_info", Parse(result.gpu_info_json)},
          {"system_info", Parse(result.system_info_json)},
          {"lm_response", result.answer.status == "ok" ? Json(result.answer.answer) : Json()}};
}

// What its lo_joules and hi_joules are, or why it has none.
Json LimitsJson(const EnergyEstimate& each) {
  if (!each.energy_j.has_value()) return nullptr;
  if (IsUnbounded(each.limits)) return UnboundedReasonName(each.limits);
  return each.limits == EnergyLimits::kBounds ? "bounds" : "interval";
}

Json EstimatesJson(const RunTelemetry& telemetry) {
  Json all = Json::array();
  for (const EnergyEstimate& each : telemetry.window.energies) {
    all.push_back({{"source", each.source},
                   {"device", each.device},
                   {"domain", each.domain},
                   {"in_total", each.in_total},
                   {"energy_joules", NotNegative(each.energy_j)},
                   {"lo_joules", OrNull(each.lo_j)},
                   {"hi_joules", OrNull(each.hi_j)},
                   {"kind", each.modelled ? "modelled" : "measured"},
                   {"limits", LimitsJson(each)},
                   {"estimator", EnergyEstimatorName(each.estimator)},
                   {"coverage", each.coverage},
                   {"reason", ReasonJson(each.reason)},
                   {"shared_device", each.shared},
                   {"inconsistent", each.inconsistent}});
  }
  return all;
}

// The sum of a record's energies that count; known where each of them is.
Json AllEnergies(const Json& record) {
  const auto estimates = record.find("energies");
  std::optional<double> joules, lo, hi;
  bool first = true;
  for (const Json& each : estimates == record.end() ? Json::array() : *estimates) {
    if (!each.is_object() || each.value("in_total", Json()) != Json(true)) continue;
    AddWhereKnown(first, NumberOf(each, "energy_joules"), &joules);
    AddWhereKnown(first, NumberOf(each, "lo_joules"), &lo);
    AddWhereKnown(first, NumberOf(each, "hi_joules"), &hi);
    first = false;
  }
  return {{kAll.joules, OrNull(joules)},
          {kAll.lo, OrNull(lo)},
          {kAll.hi, OrNull(hi)},
          {kAll.missing, record.value(kAll.missing, Json())}};
}

void AddEnergy(const Json& energies, const EnergyNames& names, PowerRunTotals::Energy* energy) {
  const auto joules = NumberOf(energies, names.joules), lo = NumberOf(energies, names.lo),
             hi = NumberOf(energies, names.hi);
  (joules.has_value() ? energy->known : energy->unknown) += 1;
  if (!joules.has_value()) return;
  energy->joules += *joules;
  energy->partial += json::TextOf(energies, names.missing).has_value() ? 1 : 0;
  if (!lo.has_value() || !hi.has_value()) {
    ++energy->unbounded;
    return;
  }
  energy->lo_joules += *lo;
  energy->hi_joules += *hi;
  energy->useless += *hi - *lo > *joules ? 1 : 0;
}

}  // namespace

Json ResultJson(const RunResult& result) {
  const RunTelemetry telemetry = result.telemetry.value_or(RunTelemetry{});
  const bool answered = result.answer.status == "ok";
  Json record = {{"index", result.record.index},
                 {"problem", result.record.problem},
                 {"answer", result.record.answer},
                 {"subject", result.record.subject},
                 {"dataset_metadata", Parse(result.record.dataset_metadata_json)}};
  record["status"] = result.answer.status;
  record["message"] = result.answer.message;
  record["model_answers"][result.model] = answered ? Json(result.answer.answer) : Json();
  record["model_metrics"][result.model] = MetricsJson(result, telemetry);
  record["interval"] = {{"begin_unix_ns", result.begin_unix_ns},
                        {"begin_ns", result.begin_ns},
                        {"end_ns", result.end_ns},
                        {"suspended_ns", telemetry.window.suspended_ns}};
  record["energies"] = EstimatesJson(telemetry);
  record[kAll.missing] = TextOrNull(DeniedPart(telemetry.channels, telemetry.absences, ""));
  record["telemetry_error"] = TextOrNull(result.telemetry_error);
  return record;
}

bool IsRunRecord(const Json& record) {
  const Json* models = json::Find(record, "model_metrics");
  if (models == nullptr || !models->is_object() || models->size() != 1) return false;
  const Json& metrics = models->begin().value();
  return json::TextOf(record, "status").has_value() && metrics.is_object() &&
         metrics.contains("energy_metrics");
}

void AddToTotals(const Json& record, PowerRunTotals* totals) {
  const Json& energies = record["model_metrics"].begin().value()["energy_metrics"];
  AddEnergy(energies, kGpu, &totals->gpu);
  AddEnergy(energies, kCpu, &totals->cpu);
  AddEnergy(energies, kAne, &totals->ane);
  AddEnergy(AllEnergies(record), kAll, &totals->all);
  ++totals->records;
  totals->failed += record["status"] == "ok" ? 0 : 1;
}

}  // namespace xplane_time::power

namespace xplane_time {

std::string RunResultJson(const RunResult& result) { return json::Dump(power::ResultJson(result)); }

}  // namespace xplane_time

namespace xplane_time::power {
namespace {

// A number of a record: its place among the metrics, of which the last part may be a statistic of
// the record that needs no name here; and how fine it is told.
struct Aggregated {
  const char* at;
  const char* of_record;  // below it
  double per_unit;
};
constexpr double kNano = 1e9, kMicro = 1e6;
constexpr Aggregated kAggregated[] = {
    {"/latency_metrics/total_query_seconds", "", kNano},
    {"/latency_metrics/time_to_first_token_seconds", "", kNano},
    {"/latency_metrics/per_token_ms", "", kMicro},
    {"/latency_metrics/throughput_tokens_per_sec", "", kMicro},
    {"/token_metrics/input", "", 1},
    {"/token_metrics/output", "", 1},
    {"/token_metrics/total", "", 1},
    {"/power_metrics/gpu/per_query_watts", "/avg", kMicro},
    {"/power_metrics/cpu/per_query_watts", "/avg", kMicro},
};

}  // namespace

void RunAggregates::Add(const Json& record) {
  static_assert(std::size(kAggregated) == kNumbers);
  if (record["status"] != "ok") return;
  const Json& metrics = record["model_metrics"].begin().value();
  for (size_t i = 0; i < kNumbers; ++i) {
    const Json::json_pointer at(std::string(kAggregated[i].at) + kAggregated[i].of_record);
    const Json value = metrics.contains(at) ? metrics.at(at) : Json();
    const double scaled = value.is_number() ? value.get<double>() * kAggregated[i].per_unit : NAN;
    if (!(std::abs(scaled) < 0x1p62)) {
      ++values_[i].unknown;
      continue;
    }
    values_[i].scaled.Add(std::llround(scaled));
    values_[i].sum += value.get<double>();
  }
}

Json RunAggregates::ToJson() const {
  Json all;
  for (size_t i = 0; i < kNumbers; ++i) {
    const Values& values = values_[i];
    const uint64_t known = values.scaled.count();
    const auto told = [&](std::optional<double> scaled) {
      return scaled.has_value() ? Json(*scaled / kAggregated[i].per_unit) : Json();
    };
    all[Json::json_pointer(kAggregated[i].at)] = {
        {"known", known},
        {"unknown", values.unknown},
        {"mean", known > 0 ? Json(values.sum / static_cast<double>(known)) : Json()},
        {"median", told(values.scaled.Median())},
        {"p95", told(values.scaled.Quantile(0.95))}};
  }
  return all;
}

}  // namespace xplane_time::power
