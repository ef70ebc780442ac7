// Bundles of grids: the witness that is written during the run, and the check of a bundle.
//
// GridCheck runs after the hashes and chains have been verified:
// 1. The settings of the manifest must be those that space.json gives, in the same order.
// 2. The head of each chain must name its setting and the fingerprint of the configuration, so a
//    chain of another run is not accepted.
// 3. The tables are computed again from the samples and compared with those in the bundle, line by
//    line. Numbers may differ by 1e-9, the rounding of another machine's mathematical functions.
// 4. The bundle must not contain other files.
#include "evidence/grid_bundle.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "status.h"
#include "tune/space_json.h"

namespace xplane_time::evidence {
namespace {

// Converts between ordered and sorted JSON.
nlohmann::json Sorted(const json::Json& value) {
  return nlohmann::json::parse(json::Dump(value), nullptr, /*allow_exceptions=*/false);
}
json::Json Ordered(const nlohmann::json& value) { return json::Parse(value.dump()); }

std::string Canonical(const json::Json& value) { return tune::CanonicalJson(Sorted(value)); }

std::string HeadOf(const GridSetting& setting, const std::string& fingerprint) {
  return Canonical({{"schema", "xplane-time.witness.v1"},
                    {"of", "setting"},
                    {"setting", setting.name},
                    {"id", setting.id},
                    {"params", setting.params},
                    {"fingerprint", fingerprint}});
}

std::string WitnessOf(const GridSetting& setting, const std::string& fingerprint,
                      const std::vector<GridSample>& samples) {
  std::string line = WitnessLine(std::nullopt, HeadOf(setting, fingerprint));
  std::string text = line + "\n";
  for (const GridSample& each : samples) {
    line = WitnessLine(line, Canonical(json::ToJson(each)));
    Append(&text, line, "\n");
  }
  return text;
}

bool IsNumeric(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e';
}

// The number at the beginning of the text, with its length; empty if there is none.
std::optional<std::pair<double, size_t>> NumberAt(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) return std::nullopt;
  return std::pair(value, static_cast<size_t>(read.ptr - text.data()));
}

// The first line of `a` that differs from `b`. Differences in the last digits of numbers are
// ignored.
std::optional<uint64_t> FirstOtherLine(std::string_view a, std::string_view b) {
  constexpr double kRounding = 1e-9;
  uint64_t line = 1;
  while (!a.empty() && !b.empty()) {
    const auto x = IsNumeric(a[0]) ? NumberAt(a) : std::nullopt;
    const auto y = x.has_value() ? NumberAt(b) : std::nullopt;
    if (x.has_value() && y.has_value()) {
      const double most = std::max(std::abs(x->first), std::abs(y->first));
      if (std::abs(x->first - y->first) > kRounding * most) return line;
      a.remove_prefix(x->second);
      b.remove_prefix(y->second);
      continue;
    }
    if (a[0] != b[0]) return line;
    if (a[0] == '\n') ++line;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() && b.empty() ? std::nullopt : std::optional(line);
}

class GridCheck {
 public:
  GridCheck(const Bundle& bundle, std::vector<std::string>* checked, std::vector<Problem>* problems)
      : bundle_(bundle), checked_(*checked), problems_(*problems) {}

  void Run() {
    if (!ReadRun() || !CheckConfiguration()) return;
    GridSamples samples;
    for (const GridSetting& each : run_.settings) {
      if (!ReadSamples(each, &samples.emplace_back())) return;
    }
    CheckFiles(GridFiles(MakeGridResult(run_, std::move(samples))));
  }

 private:
  bool Found(Problem problem) {
    problems_.push_back(std::move(problem));
    return false;
  }

  bool ReadRun() {
    const json::Json given = Ordered(bundle_.manifest["result"]);
    const json::Json configured = Ordered(bundle_.manifest["configuration"]);
    if (!json::FromJson(given, &run_) || !json::FromJson(configured, &configuration_)) {
      return Found(
          {.file = kManifest, .what = "its `result` or `configuration` does not belong to a grid"});
    }
    return true;
  }

  bool CheckConfiguration() {
    const bool same =
        run_.workload == configuration_.workload && run_.baseline == configuration_.baseline &&
        run_.samples == configuration_.samples && run_.calls == configuration_.calls &&
        Canonical(json::ToJson(run_.harness)) == Canonical(json::ToJson(configuration_.harness));
    if (!same) {
      return Found({.file = kManifest, .what = "its `result` does not match its `configuration`"});
    }
    const auto space = ParseSpace(bundle_.ContentOf(kSpace), kSpace);
    if (!space.ok() || SpaceHash(*space) != configuration_.space_hash) {
      return Found(
          {.file = kSpace, .what = "does not match the hash of the space in the configuration"});
    }
    const auto configurations = ChooseConfigurations(*space, {});
    const auto is_same = [](const Configuration& a, const GridSetting& b) {
      return a.id == b.id && a.params_json == Canonical(b.params);
    };
    if (!configurations.ok() || !std::ranges::equal(*configurations, run_.settings, is_same)) {
      return Found({.file = kManifest, .what = "its settings differ from those of space.json"});
    }
    checked_.emplace_back(kSpace);
    return true;
  }

  // Hashes and the chain have already been checked.
  bool ReadSamples(const GridSetting& setting, std::vector<GridSample>* samples) {
    const std::string file = WitnessFile(setting);
    const Witness witness = CheckWitness(bundle_.ContentOf(file));
    const std::string fingerprint = FingerprintOf(bundle_.manifest["configuration"]);
    if (witness.samples.empty() || witness.samples[0] != HeadOf(setting, fingerprint)) {
      return Found(
          {.file = file, .line = 1, .what = "belongs to another setting or configuration"});
    }
    for (size_t i = 1; i < witness.samples.size(); ++i) {
      GridSample& sample = samples->emplace_back();
      const bool fits = json::FromJson(json::Parse(witness.samples[i]), &sample);
      if (fits && sample.sample_id == i - 1 && sample.metrics.is_object()) continue;
      return Found({.file = file, .line = i + 1, .what = "is not a sample, or not the next one"});
    }
    return true;
  }

  void CheckFiles(const std::vector<ZipFile>& files) {
    std::vector<std::string> known = {kManifest, kSpace};
    for (const GridSetting& each : run_.settings) known.push_back(WitnessFile(each));
    for (const ZipFile& each : files) {
      const std::string_view given = bundle_.ContentOf(each.name);
      known.push_back(each.name);
      checked_.push_back(each.name);
      const auto line = FirstOtherLine(given, each.content);
      if (line.has_value()) {
        Found({.file = each.name, .line = line, .what = "differs from the result of the samples"});
      }
    }
    for (const ZipEntry& each : bundle_.zip.entries) {
      if (std::ranges::find(known, each.name) != known.end()) continue;
      Found({.file = std::string(each.name), .what = "is not a file of a grid"});
    }
  }

  const Bundle& bundle_;
  std::vector<std::string>& checked_;
  std::vector<Problem>& problems_;
  GridRun run_;
  GridConfiguration configuration_;
};

}  // namespace

absl::Status GridWitness::Open(const std::string& folder, const GridConfiguration& configuration,
                               const std::vector<GridSetting>& settings) {
  const std::string fingerprint = FingerprintOf(Sorted(json::ToJson(configuration)));
  samples_.resize(settings.size());
  for (const GridSetting& each : settings) {
    at_.emplace(each.id, writers_.size());
    writers_.emplace_back(Cat(folder, "/", WitnessFile(each)));
    RETURN_IF_ERROR(writers_.back().Append(HeadOf(each, fingerprint)));
  }
  return absl::OkStatus();
}

absl::Status GridWitness::Add(const RoundRecord& round) {
  for (auto& [id, sample] : SamplesOf(round)) {
    const auto at = at_.find(id);
    if (at == at_.end()) continue;
    std::vector<GridSample>& own = samples_[at->second];
    sample.sample_id = own.size();
    RETURN_IF_ERROR(writers_[at->second].Append(Canonical(json::ToJson(sample))));
    own.push_back(std::move(sample));
  }
  return absl::OkStatus();
}

absl::Status GridWitness::Finish() {
  for (WitnessWriter& each : writers_) RETURN_IF_ERROR(each.Finish());
  return absl::OkStatus();
}

BundleSpec GridBundle(const GridResult& result, const GridConfiguration& configuration,
                      const std::string& space_json) {
  const nlohmann::json configured = Sorted(json::ToJson(configuration));
  BundleSpec spec = {.kind = kGridKind,
                     .configuration = configured,
                     .result = Sorted(json::ToJson(result.run)),
                     .files = GridFiles(result)};
  spec.files.push_back({kSpace, space_json});
  for (size_t i = 0; i < result.run.settings.size(); ++i) {
    const GridSetting& setting = result.run.settings[i];
    spec.files.push_back(
        {WitnessFile(setting), WitnessOf(setting, FingerprintOf(configured), result.samples[i])});
  }
  return spec;
}

void CheckGrid(const Bundle& bundle, std::vector<std::string>* checked,
               std::vector<Problem>* problems) {
  GridCheck(bundle, checked, problems).Run();
}

}  // namespace xplane_time::evidence
