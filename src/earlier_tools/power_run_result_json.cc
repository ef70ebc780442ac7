// One record of a power run as JSON, and the totals of a run.
//
// A record has the sums over devices: energies and gauges of GPUs, of processor packages and of the
// answering process. OnePerDevice chooses one row for each device, so that two sources of the same
// device are not added. A sum is unknown if one of its values is unknown. Each value that may be
// null has a reason beside it. Totals are sums over the records that have a value, with counts of
// those that have none.
#include "earlier_tools/power_run_result_json.h"

#include <algorithm>
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
Json NotNegative(std::optional<double> value) {
  return OrNull(value >= 0.0 ? value : std::nullopt);
}
Json ReasonJson(PowerReason reason) {
  return reason == PowerReason::kKnown ? Json(nullptr) : Json(PowerReasonName(reason));
}

// A sum is known if all of its values are known. `first` starts the sum.
void AddWhereKnown(bool first, std::optional<double> value, std::optional<double>* sum) {
  if (first) *sum = 0;
  *sum = value.has_value() && sum->has_value() ? std::optional(**sum + *value) : std::nullopt;
}

// The devices of one domain that count; the sum is known if all of them are known.
struct Part {
  EnergyEstimate sum;
  std::string missing = {};  // a part that may not be read and is missing from the sum
};

// Chooses one row for each device, because two sources of a device are not two devices: the first
// one with the highest `rank`. `device_of(row)` is null if the row does not take part.
template <typename Row, typename DeviceOf, typename Rank>
std::vector<const Row*> OnePerDevice(const std::vector<Row>& rows, DeviceOf device_of, Rank rank) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows) {
    const std::string* const device = device_of(row);
    if (device == nullptr) continue;
    const auto at = std::ranges::find_if(
        chosen, [&](const Row* other) { return *device_of(*other) == *device; });
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
  sum.reason = telemetry.reason;
  if (sum.reason != PowerReason::kKnown) return part;
  const bool is_there = std::ranges::find(telemetry.channels, domain, &PowerChannel::domain) !=
                        telemetry.channels.end();
  sum.reason = is_there ? PowerReason::kUnsupported : PowerReason::kAbsent;
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

// How the values of several devices are combined.
enum class Over : uint8_t { kSum, kMean };

// Combines the gauges of one quantity, one for each device, in the given unit. A device may report
// its power as an instantaneous value and as an average; the first belongs to this window alone.
// Extremes and medians of a sum are the sums of theirs if at most one device changed within the
// window; otherwise they are unknown. If one device has no reading, everything is unknown.
GaugeSummary GaugeOf(const RunTelemetry& telemetry, std::string_view domain,
                     std::string_view quantity, double unit, Over over) {
  if (telemetry.reason != PowerReason::kKnown) return {.reason = telemetry.reason};
  const auto channel_of = [&](const GaugeSummary& gauge) -> const PowerChannel& {
    return telemetry.channels.at(gauge.channel);
  };
  const auto gauges = OnePerDevice(
      telemetry.window.gauges,
      [&](const GaugeSummary& each) {
        const PowerChannel& channel = channel_of(each);
        return channel.domain == domain && channel.quantity == quantity ? &channel.device : nullptr;
      },
      [&](const GaugeSummary& each) {
        return std::pair(each.avg.has_value(), channel_of(each).kind != ReadingKind::kAverage);
      });
  if (gauges.empty()) return {.reason = PowerReason::kUnsupported};
  double sum = 0;
  int changing = 0;
  const bool adds = over == Over::kSum;
  GaugeSummary all = *gauges[0];
  all.max = all.median = all.min = std::nullopt;
  for (const GaugeSummary* each : gauges) {
    if (!each->avg.has_value()) {
      const bool known = each->reason == PowerReason::kKnown;
      return {.reason = known ? PowerReason::kNoSamples : each->reason};
    }
    const bool first = each == gauges[0];
    sum += *each->avg;
    changing += each->min == each->max ? 0 : 1;
    AddWhereKnown(first, each->median, &all.median);
    if (adds) AddWhereKnown(first, each->max, &all.max);
    if (adds) AddWhereKnown(first, each->min, &all.min);
    if (!adds) all.max = first ? each->max : std::max(all.max, each->max);
    if (!adds) all.min = first ? each->min : std::min(all.min, each->min);
    const auto further = [](int64_t a, int64_t b) { return std::abs(a) < std::abs(b); };
    if (each->nearest_age_ns.has_value()) {
      all.nearest_age_ns = std::max(all.nearest_age_ns.value_or(0), *each->nearest_age_ns, further);
    }
  }
  all.reason = PowerReason::kKnown;
  const bool one = gauges.size() == 1;
  all.avg = adds ? sum : sum / static_cast<double>(gauges.size());
  if (!one && (changing > 1 || !adds)) all.median.reset();
  if (!one && changing > 1 && adds) all.max = all.min = std::nullopt;
  for (auto* each : {&all.avg, &all.max, &all.median, &all.min}) {
    if (each->has_value()) **each /= unit;
  }
  return all;
}

// Null if the window itself has a reading.
Json NearestJson(const GaugeSummary& gauge) {
  if (!gauge.nearest_age_ns.has_value()) return nullptr;
  return static_cast<double>(*gauge.nearest_age_ns) * 1e-6;
}

// The reason of a sum that has a mean but no extremes: its parts do not determine them.
constexpr char kSeveralDevices[] = "several_devices";

// The reason why a statistic is unknown; it is `known_mean` if the mean is known.
Json SpreadReasonJson(const GaugeSummary& gauge, bool is_known, std::string_view known_mean) {
  if (is_known) return nullptr;
  return gauge.avg.has_value() ? Json(known_mean) : ReasonJson(gauge.reason);
}

Json GaugeJson(const GaugeSummary& gauge, std::string_view known_mean = kSeveralDevices) {
  const bool has_spread =
      gauge.max.has_value() && gauge.median.has_value() && gauge.min.has_value();
  return {{"avg", OrNull(gauge.avg)},
          {"max", OrNull(gauge.max)},
          {"median", OrNull(gauge.median)},
          {"min", OrNull(gauge.min)},
          {"reason", ReasonJson(gauge.reason)},
          {"spread_reason", SpreadReasonJson(gauge, has_spread, known_mean)},
          {"nearest_age_ms", NearestJson(gauge)}};
}

// From the power readings, if there are any; otherwise from the energy.
Json PowerJson(const RunTelemetry& telemetry, std::string_view domain) {
  constexpr double kMilliwatt = 1000;
  GaugeSummary power = GaugeOf(telemetry, domain, "power_mw", kMilliwatt, Over::kSum);
  std::string_view known_mean = kSeveralDevices;
  if (const auto sum = PartOf(telemetry, domain).sum; !power.avg && sum.mean_w.has_value()) {
    power = {.avg = sum.mean_w, .max = sum.peak_w};
    known_mean =
        PowerReasonName(PowerReason::kNoSamples);  // there are energies, but no readings of power
  } else if (!power.avg && power.reason == PowerReason::kUnsupported) {
    power.reason = sum.reason;
  }
  const Json watts = GaugeJson(power, known_mean);
  return {{"per_query_watts", watts}, {"total_watts", watts}};
}

Json EnergyJson(const RunTelemetry& telemetry) {
  const Part gpu = PartOf(telemetry, "gpu"), cpu = PartOf(telemetry, "package");
  return {{"per_query_joules", NotNegative(gpu.sum.energy_j)},
          {"total_joules", NotNegative(gpu.sum.energy_j)},
          {"lo_joules", OrNull(gpu.sum.lo_j)},
          {"hi_joules", OrNull(gpu.sum.hi_j)},
          {"cpu_per_query_joules", NotNegative(cpu.sum.energy_j)},
          {"cpu_total_joules", NotNegative(cpu.sum.energy_j)},
          {"cpu_lo_joules", OrNull(cpu.sum.lo_j)},
          {"cpu_hi_joules", OrNull(cpu.sum.hi_j)},
          {"ane_per_query_joules", nullptr},
          {"ane_total_joules", nullptr},
          {"coverage", gpu.sum.coverage},
          {"reason", ReasonJson(gpu.sum.reason)},
          {"cpu_coverage", cpu.sum.coverage},
          {"cpu_reason", ReasonJson(cpu.sum.reason)},
          {"missing", TextOrNull(gpu.missing)},
          {"cpu_missing", TextOrNull(cpu.missing)},
          {"ane_reason", PowerReasonName(PowerReason::kUnsupported)}};
}

Json LatencyJson(const RunResult& result) {
  const double seconds = static_cast<double>(result.end_ns - result.begin_ns) * 1e-9;
  const RunAnswer& answer = result.answer;
  const auto first_ms = answer.time_to_first_token_ms,
             reasoning_ms = answer.time_to_first_reasoning_token_ms;
  const double tokens = static_cast<double>(answer.output_tokens.value_or(0));
  const bool rate = tokens > 0 && seconds > 0;
  const auto known = [](bool is, double value) { return is ? Json(value) : Json(nullptr); };
  return {{"per_token_ms", known(rate, seconds * 1000 / tokens)},
          {"throughput_tokens_per_sec", known(rate, tokens / seconds)},
          {"time_to_first_token_seconds", known(first_ms.has_value(), first_ms.value_or(0) / 1000)},
          {"time_to_first_reasoning_token_seconds",
           known(reasoning_ms.has_value(), reasoning_ms.value_or(0) / 1000)},
          {"inter_token_ms",
           {{"p50", OrNull(answer.inter_token_ms.p50)},
            {"p95", OrNull(answer.inter_token_ms.p95)},
            {"p99", OrNull(answer.inter_token_ms.p99)}}},
          {"total_query_seconds", seconds},
          {"all_attempts_seconds", static_cast<double>(result.end_ns - result.asked_ns) * 1e-9}};
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

// The mean over all GPUs, or the reason why it is unknown: a GPU has no value, or it was not
// requested.
GaugeSummary GpmOf(const RunTelemetry& telemetry, std::string_view quantity, double unit) {
  for (const PowerAbsence& each : telemetry.absences) {
    if (each.source == "nvml" && each.what.ends_with(kGpmAbsence)) return {.reason = each.reason};
  }
  GaugeSummary mean = GaugeOf(telemetry, "gpu", quantity, unit, Over::kMean);
  const bool is_nvml = std::ranges::any_of(
      telemetry.channels, [](const PowerChannel& each) { return each.source == "nvml"; });
  const bool is_read = std::ranges::find(telemetry.channels, quantity, &PowerChannel::quantity) !=
                       telemetry.channels.end();
  if (is_nvml && !is_read) mean.reason = PowerReason::kNotAsked;
  return mean;
}

Json UtilizationJson(const RunTelemetry& telemetry) {
  constexpr double kPercent = 10'000;  // of ppm
  const auto of_gpu = [&](std::string_view quantity, double unit) {
    return GaugeOf(telemetry, "gpu", quantity, unit, Over::kMean);
  };
  Json gpu;
  const auto set = [&](const std::string& name, const char* unit, auto value,
                       const GaugeSummary& gauge) {
    const std::optional<double> number = gauge.*value;
    gpu[name + unit] = OrNull(number);
    gpu[name + "_reason"] = SpreadReasonJson(gauge, number.has_value(), kSeveralDevices);
    gpu[name + "_nearest_age_ms"] = NearestJson(gauge);
  };
  for (const auto& [name, quantity] :
       {std::pair{"compute_utilization", "gpm_sm_util_ppm"},
        std::pair{"memory_bandwidth_utilization", "gpm_dram_bw_util_ppm"},
        std::pair{"tensor_core_utilization", "gpm_tensor_util_ppm"}}) {
    set(name, "_pct", &GaugeSummary::avg, GpmOf(telemetry, quantity, kPercent));
  }
  set("busy", "_pct", &GaugeSummary::avg, of_gpu("utilization_gpu_ppm", kPercent));
  // The memory of all GPUs together, like gpu_mb.
  for (const auto& [name, quantity] : {std::pair{"memory_used", "memory_used_bytes"},
                                       std::pair{"memory_total", "memory_total_bytes"}}) {
    set(name, "_gb", &GaugeSummary::max,
        GaugeOf(telemetry, "gpu", quantity, kGibibyte, Over::kSum));
  }
  return {{"gpu", gpu}, {"derived", Json::object()}};
}

// The memory of the process that answers, or of the machine if no sensor reads the process.
Json MemoryJson(const RunTelemetry& telemetry) {
  struct Memory {
    const char *name, *quantity;
  };
  constexpr Memory kMemories[] = {{"process", "rss_bytes"}, {"machine", "memory_used_bytes"}};
  const auto is_read = [&](const Memory& each) {
    return std::ranges::any_of(telemetry.channels, [&](const PowerChannel& channel) {
      return channel.domain == each.name && channel.quantity == each.quantity;
    });
  };
  const Memory* const found = std::ranges::find_if(kMemories, is_read);
  const Memory& read = found == std::end(kMemories) ? kMemories[0] : *found;
  return {
      {"cpu_mb", GaugeJson(GaugeOf(telemetry, read.name, read.quantity, kMebibyte, Over::kSum))},
      {"cpu_mb_of", found == std::end(kMemories) ? Json() : Json(read.name)},
      {"gpu_mb", GaugeJson(GaugeOf(telemetry, "gpu", "memory_used_bytes", kMebibyte, Over::kSum))}};
}

Json MetricsJson(const RunResult& result, const RunTelemetry& telemetry) {
  return {{"compute_metrics", Json::object()},
          {"energy_metrics", EnergyJson(telemetry)},
          {"latency_metrics", LatencyJson(result)},
          {"memory_metrics", MemoryJson(telemetry)},
          {"power_metrics",
           {{"gpu", PowerJson(telemetry, "gpu")}, {"cpu", PowerJson(telemetry, "package")}}},
          {"temperature_metrics",
           GaugeJson(GaugeOf(telemetry, "gpu", "temperature_mc", 1000, Over::kMean))},
          {"token_metrics", TokensJson(result.answer)},
          {"hardware_utilization", UtilizationJson(telemetry)},
          {"gpu_info", Parse(result.hardware.gpu_info_json)},
          {"system_info", Parse(result.hardware.system_info_json)},
          {"lm_response", result.answer.status == "ok" ? Json(result.answer.answer) : Json()}};
}

// The meaning of lo_joules and hi_joules, or why they are unknown.
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

// Adds the energy whose members begin with `prefix`, from a model's energy_metrics or from
// AllEnergies.
void AddEnergy(const Json& energies, const std::string& prefix, PowerRunTotals::Energy* energy) {
  const auto number = [&](const char* name) { return NumberOf(energies, (prefix + name).c_str()); };
  const auto joules = number("per_query_joules"), lo = number("lo_joules"),
             hi = number("hi_joules");
  (joules.has_value() ? energy->known : energy->unknown) += 1;
  if (!joules.has_value()) return;
  energy->joules += *joules;
  energy->incomplete += WholeEnergy(energies, prefix).has_value() ? 0 : 1;
  energy->partial += json::TextOf(energies, (prefix + "missing").c_str()).has_value() ? 1 : 0;
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
  record["attempts"] = result.answer.attempts;
  record["finish_reason"] = TextOrNull(result.answer.finish_reason);
  record["model_answers"][result.model] = answered ? Json(result.answer.answer) : Json();
  record["model_metrics"][result.model] = MetricsJson(result, telemetry);
  record["interval"] = {{"begin_unix_ns", result.begin_unix_ns},
                        {"begin_ns", result.begin_ns},
                        {"end_ns", result.end_ns},
                        {"suspended_ns", telemetry.window.suspended_ns}};
  record["energies"] = EstimatesJson(telemetry);
  record["missing"] = TextOrNull(DeniedPart(telemetry.channels, telemetry.absences, ""));
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

std::optional<double> WholeEnergy(const Json& energies, const std::string& prefix) {
  constexpr double kAllButRounding = 1 - 1e-9;
  const auto coverage = NumberOf(energies, (prefix + "coverage").c_str());
  if (coverage.has_value() && *coverage < kAllButRounding) return std::nullopt;
  return NumberOf(energies, (prefix + "per_query_joules").c_str());
}

Json AllEnergies(const Json& record) {
  const auto estimates = record.find("energies");
  std::optional<double> joules, lo, hi;
  double coverage = 1;
  bool first = true;
  for (const Json& each : estimates == record.end() ? Json::array() : *estimates) {
    if (!each.is_object() || each.value("in_total", Json()) != Json(true)) continue;
    AddWhereKnown(first, NumberOf(each, "energy_joules"), &joules);
    AddWhereKnown(first, NumberOf(each, "lo_joules"), &lo);
    AddWhereKnown(first, NumberOf(each, "hi_joules"), &hi);
    coverage = std::min(coverage, NumberOf(each, "coverage").value_or(1));
    first = false;
  }
  return {{"per_query_joules", OrNull(joules)},
          {"lo_joules", OrNull(lo)},
          {"hi_joules", OrNull(hi)},
          {"coverage", coverage},
          {"missing", record.value("missing", Json())}};
}

void AddToTotals(const Json& record, PowerRunTotals* totals) {
  const Json& energies = record["model_metrics"].begin().value()["energy_metrics"];
  AddEnergy(energies, "", &totals->gpu);
  AddEnergy(energies, "cpu_", &totals->cpu);
  AddEnergy(energies, "ane_", &totals->ane);
  AddEnergy(AllEnergies(record), "", &totals->all);
  ++totals->records;
  totals->failed += record["status"] == "ok" ? 0 : 1;
}

void AddToTotals(const RunSpan& span, SharedWindowTotals* totals) {
  const RunTelemetry telemetry = span.telemetry.ok() ? *span.telemetry : RunTelemetry{};
  const Json energies = EnergyJson(telemetry);
  AddEnergy(energies, "", &totals->gpu);
  AddEnergy(energies, "cpu_", &totals->cpu);
  const Json all = {
      {"energies", EstimatesJson(telemetry)},
      {"missing", TextOrNull(DeniedPart(telemetry.channels, telemetry.absences, ""))}};
  AddEnergy(AllEnergies(all), "", &totals->all);
  totals->seconds += static_cast<double>(span.end_ns - span.begin_ns) * 1e-9;
  ++totals->spans;
}

std::string BriefMessage(std::string_view message) {
  const size_t words_at = message.find(kLastWords);
  const std::string_view said = message.substr(0, words_at);
  std::string brief(said.substr(0, said.find('\n')));
  if (words_at == message.npos) return brief;
  std::string_view words = message.substr(words_at + sizeof kLastWords - 1);
  while (words.ends_with('\n') || words.ends_with('\r')) words.remove_suffix(1);
  const size_t line_at = words.rfind('\n');
  return brief.append(kLastWords).append(line_at == words.npos ? words : words.substr(line_at + 1));
}

}  // namespace xplane_time::power

std::string xplane_time::RunResultJson(const RunResult& result) {
  return json::Dump(power::ResultJson(result));
}
