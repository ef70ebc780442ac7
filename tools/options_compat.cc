// --compat of report and functions.
#include <array>

#include "options_parts.h"

namespace xplane_time::tools {

void AddCompat(CLI::App* app, Texts* t) {
  app->add_option("--compat", t->compat,
                  "The numbers of an earlier tool, by its own definition: ejkernel, tune-jax or "
                  "xprof. Then --device is a word in the names of planes, --kernel says which "
                  "nested events count, --prefix, --min-duration and --max-events are as there")
      ->check(CLI::IsMember({"ejkernel", "tune-jax", "xprof"}))
      ->type_name("TOOL")
      ->group(kTime);
}

std::string ConvertCompat(const CLI::App& command, const Texts& t, Options* o) {
  if (t.compat.empty()) return "";
  constexpr std::array<const char*, 18> kMeaningless = {
      "--function", "--exclude",      "--scope",      "--id-pattern", "--metric",  "--clock",
      "--trim",     "--skip-runs",    "--tolerance",  "--sort",       "--samples", "--by-id",
      "--reader",   "--min-duration", "--max-events", "--prefix",     "--top",     "--columns"};
  for (const char* name : kMeaningless) {
    const std::string_view option = name;
    const bool of_ejkernel = option == "--min-duration" || option == "--max-events";
    if (of_ejkernel && t.compat == "ejkernel") continue;
    if (option == "--prefix" && t.compat != "xprof") continue;
    if (option == "--top" && t.compat == "xprof") continue;
    const CLI::Option* given = command.get_option_no_throw(name);
    if (given != nullptr && given->count() > 0) {
      return absl::StrCat(name, " means nothing with --compat ", t.compat);
    }
  }
  o->compat = t.compat == "ejkernel"   ? compat::Tool::kEjkernel
              : t.compat == "tune-jax" ? compat::Tool::kTuneJax
                                       : compat::Tool::kXprof;
  o->compat_device = o->report.device;
  o->read.keep_identical_planes = true;
  return "";
}

}  // namespace xplane_time::tools
