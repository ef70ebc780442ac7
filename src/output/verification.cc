// verify: whether a bundle is sound, and which byte, line or result is not.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/evidence.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

using evidence::Problem, evidence::Verification;
using result::FieldSink, result::KnownText;

std::string WhatHolds(const Verification& found) {
  std::string text = absl::StrCat(
      "Hashes of ", Counted(found.files, "file"), ", ", Counted(found.bytes, "byte"), "; ",
      Counted(found.chains, "chain"), " of ", Counted(found.samples, "line"), ".");
  return text;
}

std::string CheckedText(std::vector<std::string> checked) {
  constexpr size_t kShown = 6;
  const size_t all = checked.size();
  checked.resize(std::min(all, kShown));
  const std::string more = all > kShown ? absl::StrCat(" and ", all - kShown, " more") : "";
  return absl::StrCat("Checked: ", absl::StrJoin(checked, ", "), more, ".");
}

std::string DecisionText(const evidence::DecisionCheck& decision) {
  if (!decision.reason.empty()) {
    return absl::StrCat("Its verdict is ", decision.claim,
                        "; the decision was not repeated: ", decision.reason, ".");
  }
  return absl::StrCat(
      "A repeated decision on its rounds gives ", decision.replayed_claim,
      decision.replayed_pick.empty() ? "" : " ", Printable(decision.replayed_pick),
      decision.differences.empty() ? ", like the stored verdict." : ", unlike the stored verdict.");
}

View VerificationView(const Verification& found) {
  const bool sound = found.sound();
  View view;
  view.lines.push_back({sound ? absl::StrCat("sound: ", Printable(found.bundle))
                              : absl::StrCat("not sound: ", Printable(found.bundle), ", ",
                                             Counted(found.problems.size(), "problem")),
                        sound ? Tone::kGood : Tone::kBad});
  if (sound) view.lines.push_back({WhatHolds(found)});
  if (sound) {
    view.lines.push_back({CheckedText(found.checked)});
    view.lines.push_back(
        {absl::StrCat("Not verified: ", absl::StrJoin(found.not_compared, ", "), ".")});
  }
  if (found.decision.has_value()) view.lines.push_back({DecisionText(*found.decision)});
  if (found.revision.has_value()) {
    view.lines.push_back({absl::StrCat("Source revision ", Printable(*found.revision), ".")});
  }
  view.lines.push_back({absl::StrCat("SHA-256 ", found.sha256)});
  if (sound) return view;
  RowGrid grid(found.problems);
  grid.Name("file", 16, &Problem::file);
  grid.Number("line", &Problem::line);
  grid.Number("byte", &Problem::byte).Drop(1);
  grid.Text("problem", [](const Problem& each) { return Printable(each.what); });
  view.sections.push_back({.grid = std::move(grid).Take()});
  view.sections.back().grid.columns[3].words = true;
  view.sections.back().grid.columns[3].flex_width = 24;
  return view;
}

void DecisionFields(const Verification& found, FieldSink* sink) {
  const bool known = found.decision.has_value();
  const evidence::DecisionCheck decision = found.decision.value_or(evidence::DecisionCheck());
  sink->BeginGroup("decision", known);
  sink->Field("claim", decision.claim);
  sink->Field("pick", KnownText(decision.pick));
  sink->Field("replayed_claim", KnownText(decision.replayed_claim));
  sink->Field("replayed_pick", KnownText(decision.replayed_pick));
  sink->Field("reason", KnownText(decision.reason));
  if (known) sink->Texts("differences", decision.differences);
  sink->EndGroup();
}

}  // namespace

Output VerificationOutput(const Verification& found) {
  Output out{.result = result::Result("xplane-time.verify.v1")};
  out.result.Say([&found](FieldSink* sink) {
    sink->Field("sound", found.sound());
    XPLANE_TIME_FIELDS(sink, found.bundle, found.sha256, KnownText(found.kind),
                       found.created_unix_s, KnownText(found.fingerprint), found.revision,
                       found.files, found.bytes, found.chains, found.samples);
    sink->Texts("checked", found.checked);
    sink->Texts("not_compared", found.not_compared);
    DecisionFields(found, sink);
  });
  out.result.Add(result::TableOf(
      "problems", std::span(found.problems), [](const Problem& each, FieldSink* sink) {
        XPLANE_TIME_FIELDS(sink, each.file, each.line, each.byte, each.what);
      }));
  out.result.csv = std::get<result::Table>(out.result.parts.back());
  out.view = [&found](const OutputOptions&) { return VerificationView(found); };
  return out;
}

}  // namespace xplane_time::output
