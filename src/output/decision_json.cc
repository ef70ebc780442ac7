#include "output/decisions.h"
#include "output/json_document.h"

namespace xplane_time::output {
namespace {

Json Texts(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(ValidUtf8(text));
  return out;
}

Json CompareOptionsJson(const CompareOptions& options) {
  Json out = Json::object();
  out["min_effect"] = options.min_effect;
  out["max_mde"] = options.max_mde;
  out["alpha"] = options.alpha;
  out["confidence"] = options.confidence;
  out["offset_std"] = OrNull(options.offset_std);
  out["paired"] = options.paired;
  out["allow_mismatch"] = options.allow_mismatch;
  return out;
}

Json CountsJson(const Comparison& comparison) {
  Json out = Json::object();
  for (const FunctionVerdict verdict :
       {FunctionVerdict::kSame, FunctionVerdict::kFaster, FunctionVerdict::kSlower,
        FunctionVerdict::kCannotTell, FunctionVerdict::kTooLittleData, FunctionVerdict::kOnlyBase,
        FunctionVerdict::kOnlyHead, FunctionVerdict::kNotComparable, FunctionVerdict::kFailed}) {
    out[std::string(VerdictName(verdict))] = comparison.Count(verdict);
  }
  return out;
}

Json PickOptionsJson(const PickOptions& options) {
  Json out = Json::object();
  out["delta"] = options.delta;
  out["alpha"] = options.alpha;
  out["drift_std"] = options.drift_std;
  out["seed"] = options.seed;
  return out;
}

Json VariantJson(const VariantRow& row) {
  JsonRow sink;
  VisitRow(row, &sink);
  Json out = sink.Take();
  Json params = Json::object();
  for (const Fact& param : row.params) {
    const Json value = Json::parse(param.value, nullptr, /*allow_exceptions=*/false);
    params[ValidUtf8(param.name)] = value.is_discarded() ? Json(ValidUtf8(param.value)) : value;
  }
  out["params"] = row.params.empty() ? Json() : std::move(params);
  return out;
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison) {
  const Explanation explanation = ExplainComparison(comparison);
  Document document("xplane-time.compare.v1");
  document.Member("outcome", OutcomeName(comparison.outcome));
  document.Member("exit_code", static_cast<int>(comparison.outcome));
  document.Member("explanation", explanation.verdict);
  document.Member("base", Texts(comparison.base_sources));
  document.Member("head", Texts(comparison.head_sources));
  document.Member("options", CompareOptionsJson(comparison.options));
  document.Member("compared", comparison.compared);
  document.Member("largest_mde", OrNull(comparison.largest_mde));
  document.Member("counts", CountsJson(comparison));
  document.Section("rows", comparison.rows, [](const ComparedRow& row) {
    JsonRow sink;
    VisitRow(row, &sink);
    return sink.Take();
  });
  if (!comparison.kernels.empty()) {
    document.Section("kernels", comparison.kernels, [](const KernelChange& row) {
      JsonRow sink;
      VisitRow(row, &sink);
      return sink.Take();
    });
  }
  document.Member("notes", Texts(comparison.notes));
  return std::move(document).Finish();
}

std::string ChoiceJson(const PickResult& choice) {
  Document document("xplane-time.pick.v1");
  document.Member("claim", PickClaimName(choice.claim));
  document.Member("exit_code", ExitCode(choice.claim));
  document.Member("explanation", ExplainChoice(choice).verdict);
  document.Member("pick", TextOrNull(choice.pick));
  document.Member("tied", Texts(choice.tied));
  document.Member("inputs", Texts(choice.sources));
  document.Member("options", PickOptionsJson(choice.options));
  document.Member("metric", TextOrNull(choice.metric));
  document.Member("clock", TextOrNull(choice.clock));
  document.Member("captures", choice.captures);
  document.Member("in_rounds", choice.in_rounds);
  document.Member("regret", OrNull(choice.regret));
  document.Member("mde", OrNull(choice.mde));
  document.Member("needed_units", OrNull(choice.needed));
  document.Section("variants", choice.variants, VariantJson);
  document.Member("notes", Texts(choice.notes));
  return std::move(document).Finish();
}

}  // namespace xplane_time::output
