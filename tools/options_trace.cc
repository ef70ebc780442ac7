// The options of all commands that read traces.
#include "options_parts.h"

namespace xplane_time::tools {

void AddTraceOptions(CLI::App* app, Options* o, Texts* t) {
  app->add_option("--run", o->find.run, "With a log directory: this run instead of the latest")
      ->type_name("NAME")
      ->group(kInput);
  app->add_option("--reader", t->reader, "How to decode: wire (fast) or protobuf (cross-check)")
      ->check(CLI::IsMember({"wire", "protobuf"}))
      ->type_name("NAME")
      ->group(kInput);
  app->add_option("--threads", o->report.threads, "Threads for reading [number of processors]")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group(kInput);
  app->add_option("--device", o->report.device,
                  "gpu, tpu, cpu, custom, all, gpu:0,2, a plane's name or re:REGEX on names [the "
                  "accelerators; "
                  "the CPU only where there is no accelerator plane]")
      ->type_name("SEL")
      ->group(kSelect);
}

void AddFilters(CLI::App* app, Options* o, Texts* t) {
  ReportOptions& r = o->report;
  app->add_option("--function", r.function, "Only functions that match (RE2, search)")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--exclude", r.exclude, "Not functions that match")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--kernel", r.kernel, "Only matching kernels count as a function's time")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--scope", r.scope, "The same by name scope, tf_op or source")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--prefix", r.prefix, "Only functions whose name starts so")
      ->type_name("TEXT")
      ->group(kSelect);
  app->add_option("--min-duration", t->min_duration_ns, "Leave out shorter executions (counted)")
      ->check(DecimalValidator())
      ->type_name("NS")
      ->group(kSelect);
  app->add_option("--max-events", r.max_events,
                  "Only a device's first N executions (counted); the last run may be cut short")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kSelect);
  app->add_option(
         "--id-pattern", r.id_pattern,
         "A function that matches is a variant, its id the first group [jit_autotune_fn_N and "
         "jit_tune_jax_fn_N]")
      ->type_name("RE")
      ->group(kSelect);
}

void AddTiming(CLI::App* app, Options* o, Texts* t) {
  app->add_option("--metric", t->metric,
                  "A run's time: active (union of its kernels), span (first start to last end) or "
                  "sum (of durations)")
      ->check(CLI::IsMember({"active", "span", "sum"}))
      ->type_name("NAME")
      ->group(kTime);
  app->add_option("--clock", t->clock, "auto (the device's where it exists), device or profile")
      ->check(CLI::IsMember({"auto", "device", "profile"}))
      ->type_name("NAME")
      ->group(kTime);
  app->add_option("--trim", t->trim, "none, drop-extremes, iqr, mad or percent:P")
      ->type_name("POLICY")
      ->group(kTime);
  app->add_option("--skip-runs", o->report.skip_runs,
                  "Leave out the first N runs of each function and device (warm-up)")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kTime);
  app->add_option("--tolerance", o->report.tolerance_ps,
                  "How far a nested event may stick out of its parent")
      ->check(CountValidator())
      ->type_name("PS")
      ->group(kTime);
}

}  // namespace xplane_time::tools
