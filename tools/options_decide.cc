// The options of compare and pick.
#include "options_parts.h"

namespace xplane_time::tools {
namespace {

constexpr char kDecide[] = "Decision";

void AddShare(CLI::App* app, const char* name, std::string* text, const char* help) {
  app->add_option(name, *text, help)->type_name("SHARE")->group(kDecide);
}

std::string ConvertCompare(const Texts& t, Options* o) {
  CompareOptions& compare = o->decide.compare;
  double offset_std = 0;
  const std::string error = ConvertShares({{"--min-effect", &t.min_effect, &compare.min_effect},
                                           {"--max-mde", &t.max_mde, &compare.max_mde},
                                           {"--alpha", &t.alpha, &compare.alpha},
                                           {"--offset-std", &t.offset_std, &offset_std}});
  if (!error.empty()) return error;
  if (!t.offset_std.empty()) compare.offset_std = offset_std;
  if (o->json_schema) return "";
  DecideOptions& decide = o->decide;
  const bool by_name = !decide.base.empty() || !decide.head.empty();
  if (by_name && !o->traces.empty()) return "BASE HEAD, or --base and --head: not both";
  if (!by_name && o->traces.size() == 2) {
    decide.base = {o->traces[0]};
    decide.head = {o->traces[1]};
  }
  if (decide.base.empty() || decide.head.empty()) {
    return absl::StrCat("compare takes BASE and HEAD",
                        o->traces.size() > 2 ? "; several a side: --base P... --head P..." : "",
                        "; see xplane-time compare --help");
  }
  return "";
}

}  // namespace

void AddCompareInputs(CLI::App* app, Options* o) {
  app->add_option("SIDE", o->traces,
                  "BASE and HEAD: each a trace (file, run or log directory), Google Benchmark "
                  "JSON, or JSON of ours that was written with --samples");
  app->add_option("--base", o->decide.base,
                  "Captures of the old program, each from a process of its own")
      ->type_name("PATH...");
  app->add_option("--head", o->decide.head, "Captures of the new one")->type_name("PATH...");
}

void AddCompareOptions(CLI::App* app, Options* o, Texts* t) {
  CompareOptions& compare = o->decide.compare;
  AddShare(app, "--min-effect", &t->min_effect, "Slowdowns up to this do not count [1%]");
  AddShare(app, "--max-mde", &t->max_mde,
           "Too little data (12) where a larger slowdown could pass unseen [5%]");
  AddShare(app, "--alpha", &t->alpha,
           "How often, over all functions together, a program that did not change may be called "
           "faster or slower [0.1%]");
  AddShare(app, "--offset-std", &t->offset_std,
           "How much processes differ (standard deviation), where it is known: then one capture "
           "a side can decide");
  app->add_flag("--paired", compare.paired,
                "The i-th captures of both sides were taken side by side")
      ->group(kDecide);
  app->add_flag("--allow-mismatch", compare.allow_mismatch,
                "Compare what was measured on other devices or in another way, with a note")
      ->group(kDecide);
  app->add_flag("--by-id", o->by_id, "One row a variant id")->group(kDecide);
  app->add_option("--benchmark-time", t->benchmark_time, "Of Google Benchmark: real or cpu")
      ->check(CLI::IsMember({"real", "cpu"}))
      ->type_name("NAME")
      ->group(kDecide);
}

void AddPickOptions(CLI::App* app, Options* o, Texts* t) {
  AddShare(app, "--delta", &t->delta, "What is within it of the best is as good [0.5%]");
  AddShare(app, "--alpha", &t->alpha, "How often the claim may be wrong [1%]");
  AddShare(app, "--drift-std", &t->drift_std,
           "Allowance where the variants of a single capture did not run in rounds [2%]");
  app->add_option("--seed", o->decide.pick.seed, "Of the bootstrap behind P(best)")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kDecide);
  app->add_option("--space", o->decide.space_path,
                  "JSON {\"variants\": [{\"id\", \"params\"}]}: shows the parameters of each id")
      ->type_name("FILE")
      ->group(kDecide);
}

std::string ConvertDecide(const Texts& t, Options* o) {
  o->decide.benchmark_time = t.benchmark_time == "cpu" ? BenchmarkTime::kCpu : BenchmarkTime::kReal;
  if (o->command == Command::kCompare) return ConvertCompare(t, o);
  PickOptions& pick = o->decide.pick;
  return ConvertShares({{"--delta", &t.delta, &pick.delta},
                        {"--alpha", &t.alpha, &pick.alpha},
                        {"--drift-std", &t.drift_std, &pick.drift_std}});
}

}  // namespace xplane_time::tools
