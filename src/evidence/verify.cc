#include "evidence/verify.h"

#include <cstdio>

#include "absl/strings/str_join.h"
#include "evidence/grid_bundle.h"
#include "evidence/witness.h"
#include "status.h"
#include "tune/space_json.h"

namespace xplane_time::evidence {
namespace {

// Parses "FILE: line 7: what" or "FILE: what".
Problem ProblemOf(const absl::Status& status) {
  std::string_view text(status.message().data(), status.message().size());
  const size_t colon = text.find(": ");
  Problem problem = {.file = std::string(text.substr(0, colon))};
  if (colon != std::string_view::npos) text.remove_prefix(colon + 2);
  problem.what = text;
  uint64_t line = 0;
  if (text.starts_with("line ") && sscanf(problem.what.c_str(), "line %lu", &line) == 1) {
    problem.line = line;
    problem.what = text.substr(text.find(": ") + 2);
  }
  return problem;
}

void CheckChains(const Bundle& bundle, Verification* found) {
  for (const ZipEntry& each : bundle.zip.entries) {
    if (!each.name.ends_with(".jsonl")) continue;
    const Witness witness = CheckWitness(each.content);
    if (witness.broken.has_value()) {
      found->problems.push_back({.file = std::string(each.name),
                                 .line = witness.broken->line,
                                 .what = witness.broken->what});
      continue;
    }
    ++found->chains;
    found->samples += witness.samples.size() - 1;
  }
  found->checked.emplace_back("witness chains");
}

void CheckSession(const Bundle& bundle, Verification* found) {
  const auto session = SessionOf(bundle);
  auto decision =
      session.ok() ? CheckDecision(*session) : absl::StatusOr<DecisionCheck>(session.status());
  if (!decision.ok()) {
    found->problems.push_back(ProblemOf(decision.status()));
    return;
  }
  if (!decision->differences.empty()) {
    found->problems.push_back({.file = "session.json",
                               .what = Cat("its verdict differs from the result of its rounds: ",
                                           absl::StrJoin(decision->differences, ", "))});
  }
  found->checked.emplace_back("decision");
  for (const std::string& name : decision->not_compared) {
    found->not_compared.push_back("verdict." + name);
  }
  found->decision = *std::move(decision);
}

void ReadManifest(const Bundle& bundle, Verification* found) {
  std::string wrong;
  const tune::Field root(bundle.manifest, &wrong);
  if (!bundle.manifest.is_object()) return;
  root.Read("kind", &found->kind);
  root.Read("created_unix_s", &found->created_unix_s);
  root.Read("fingerprint", &found->fingerprint);
  if (root.Has("source")) root.At("source").Read("revision", &found->revision);
}

}  // namespace

Verification Verify(const Bundle& bundle) {
  Verification found = {.bundle = bundle.path,
                        .sha256 = bundle.sha256,
                        .files = bundle.zip.entries.size(),
                        .bytes = bundle.bytes.size(),
                        .checked = {"hashes"},
                        .problems = CheckBundle(bundle)};
  ReadManifest(bundle, &found);
  if (!found.sound()) return found;
  CheckChains(bundle, &found);
  if (!found.sound()) return found;
  found.not_compared = {"created_unix_s", "machine", "source", "versions"};
  if (found.kind == kSessionKind) {
    CheckSession(bundle, &found);
  } else if (found.kind == kGridKind) {
    CheckGrid(bundle, &found.checked, &found.problems);
    for (const char* name :
         {"configuration.seed", "result.complete", "result.energy_kind", "result.no_energy",
          "result.settings.message", "result.settings.status"}) {
      found.not_compared.emplace_back(name);
    }
  } else {
    found.problems.push_back({.file = kManifest, .what = "its `kind` is unknown"});
  }
  return found;
}

}  // namespace xplane_time::evidence
