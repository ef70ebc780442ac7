// Reads layers that a program marked (CSV), and computes when each layer itself ran.
//
// Runs may be nested. Sorted by start, each run interrupts the one that contains it; OwnIntervals
// emits the parts during which a run is the innermost one.
//
// SecondsIn cuts the layers at the bins of the idle power and looks up, at each edge, how long
// every kernel had run (BusyCurve::At). The difference between two edges is the kernel's time in
// that piece. The idle terms of a piece are those at its middle, times the time that any kernel
// ran. O(pieces x kernels).
#include "energy/layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "io/whole_file.h"
#include "status.h"
#include "timing/device_meter.h"

namespace xplane_time {
namespace {

constexpr int64_t kIntegerNsPerS = 1'000'000'000;

// Takes the fields of one CSV line (RFC 4180) from the start of `text`. A quoted field may contain
// line ends. Returns false if a quote is not closed.
bool TakeFields(std::string_view* text, std::vector<std::string>* fields) {
  fields->assign(1, "");
  bool quoted = false;
  size_t at = 0;
  for (; at < text->size(); ++at) {
    const char c = (*text)[at];
    if (c == '"') {
      const bool is_pair = quoted && at + 1 < text->size() && (*text)[at + 1] == '"';
      if (is_pair) fields->back().push_back((*text)[++at]);
      quoted ^= !is_pair;
    } else if (!quoted && c == ',') {
      fields->emplace_back();
    } else if (!quoted && c == '\n') {
      break;
    } else if (quoted || c != '\r') {
      fields->back().push_back(c);
    }
  }
  text->remove_prefix(std::min(at + 1, text->size()));
  return !quoted;
}

// Converts "1770000000.125" to nanoseconds, exactly; further digits are cut off.
bool ParseUnixSeconds(std::string_view text, int64_t* ns) {
  const size_t point = std::min(text.find('.'), text.size());
  std::string fraction(text.substr(std::min(point + 1, text.size())));
  if (!std::ranges::all_of(fraction, absl::ascii_isdigit)) return false;
  fraction.resize(9, '0');
  int64_t seconds = 0, part_ns = 0;
  return absl::SimpleAtoi(Absl(text.substr(0, point)), &seconds) && seconds >= 0 &&
         seconds < INT64_MAX / kIntegerNsPerS && absl::SimpleAtoi(fraction, &part_ns) &&
         (*ns = seconds * kIntegerNsPerS + part_ns, true);
}

}  // namespace

absl::StatusOr<LayerRuns> ReadLayerRuns(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  const auto all = io::ReadWholeFile(path, kMaxBytes);
  if (absl::IsResourceExhausted(all.status())) {
    return ResourceExhausted(all.status().message(), "; keep only the part that the log covers");
  }
  RETURN_IF_ERROR(all.status());
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // spreadsheets write it
  std::string_view text = *all;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> fields;
  if (!TakeFields(&text, &fields)) return DataLoss(path, ":1: unterminated quote");
  size_t columns[3];
  constexpr std::string_view kNames[3] = {"layer_name", "start_time", "end_time"};
  for (size_t i = 0; i < 3; ++i) {
    columns[i] = static_cast<size_t>(std::ranges::find(fields, kNames[i]) - fields.begin());
    if (columns[i] == fields.size()) {
      return DataLoss(path, ":1: missing column ", kNames[i],
                      "; expected the first line layer_name,exec_id,start_time,end_time");
    }
  }
  LayerRuns runs;
  runs.path = path;
  const size_t width = fields.size();
  for (size_t record = 2; !text.empty(); ++record) {
    if (!TakeFields(&text, &fields)) return DataLoss(path, ":", record, ": unterminated quote");
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() != width) {
      return DataLoss(path, ":", record, ": ", fields.size(), " fields, but the first line has ",
                      width);
    }
    LayerRun& run = runs.runs.emplace_back();
    run.layer = std::move(fields[columns[0]]);
    for (const auto& [column, ns] : {std::pair(1, &run.start_ns), std::pair(2, &run.end_ns)}) {
      const std::string& value = fields[columns[column]];
      if (ParseUnixSeconds(value, ns)) continue;
      return DataLoss(path, ":", record, ": ", kNames[column], " '", value,
                      "' is not a UNIX time in seconds, such as 1770000000.125");
    }
    if (run.end_ns < run.start_ns) {
      return DataLoss(path, ":", record, ": end_time is before start_time");
    }
  }
  if (runs.runs.empty()) return DataLoss(path, ": contains no runs of layers after the first line");
  return runs;
}

namespace energy {

absl::StatusOr<LayerTimes> TimesOf(const LayerRuns& runs) {
  constexpr size_t kMostLayers = 4096;
  constexpr int64_t kLongestNs = int64_t{100} * 86'400 * kIntegerNsPerS;
  const std::string of = runs.path.empty() ? "" : runs.path + ": ";
  if (runs.runs.empty()) return InvalidArgument(of, "contains no runs of layers");
  struct Event {
    int64_t start_ns, end_ns;
    uint32_t layer;
  };
  std::vector<Event> events;
  LayerTimes times = {.from_ns = INT64_MAX, .to_ns = INT64_MIN};
  std::map<std::string_view, uint32_t> numbers;
  for (const LayerRun& run : runs.runs) {
    if (run.end_ns < run.start_ns) {
      return InvalidArgument(of, "run ", events.size(), " of layer '", run.layer,
                             "' ends before it starts");
    }
    const auto [at, is_new] =
        numbers.try_emplace(run.layer, static_cast<uint32_t>(times.layers.size()));
    if (is_new) times.layers.push_back({.name = run.layer});
    if (times.layers.size() > kMostLayers) {
      return ResourceExhausted(of, "more than ", kMostLayers,
                               " layers; use one name for layers of the same kind");
    }
    MarkedLayer& layer = times.layers[at->second];
    ++layer.count;
    events.push_back({run.start_ns, run.end_ns, at->second});
    times.from_ns = std::min(times.from_ns, run.start_ns);
    times.to_ns = std::max(times.to_ns, run.end_ns);
    if (static_cast<uint64_t>(times.to_ns) - static_cast<uint64_t>(times.from_ns) > kLongestNs) {
      return InvalidArgument(of, "its runs span over 100 days");
    }
    layer.lengths_ns.push_back(run.end_ns - run.start_ns);
  }
  std::ranges::sort(events, {},
                    [](const Event& each) { return std::pair(each.start_ns, -each.end_ns); });
  OwnIntervals own;
  const auto emit = [&](uint32_t layer, const Interval& part) {
    times.layers[layer].own.push_back(part);
  };
  for (const Event& each : events) {
    own.Add({(each.start_ns - times.from_ns) * 1000, (each.end_ns - times.from_ns) * 1000},
            each.layer, emit);
  }
  own.Finish(emit);
  return times;
}

Eigen::MatrixXd SecondsIn(const LayerTimes& times, double begin_s, double from_s, double to_s,
                          std::span<const BusyCurve> kernels, const Fit& fit, double capture_s) {
  constexpr double kBins = 1024;  // bins of the idle power, which changes slowly
  const double bin_s = capture_s / kBins;
  struct Piece {
    double from_s, to_s;
    Eigen::Index layer;
  };
  std::vector<Piece> pieces;  // disjoint
  for (size_t l = 0; l < times.layers.size(); ++l) {
    for (const Interval& each : times.layers[l].own) {
      double at_s = std::max(from_s, begin_s + static_cast<double>(each.start_ps) / 1e12);
      const double end_s = std::min(to_s, begin_s + static_cast<double>(each.end_ps) / 1e12);
      while (at_s < end_s) {
        const double next_s = std::min(end_s, bin_s * (std::floor(at_s / bin_s + 1e-9) + 1));
        pieces.push_back({at_s, next_s, static_cast<Eigen::Index>(l)});
        at_s = next_s;
      }
    }
  }
  std::ranges::sort(pieces, {}, &Piece::from_s);
  std::vector<double> edges_s;
  for (const Piece& piece : pieces) edges_s.insert(edges_s.end(), {piece.from_s, piece.to_s});
  const auto count = static_cast<Eigen::Index>(kernels.size());
  Eigen::MatrixXd seconds =
      Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(times.layers.size()), fit.power_w.size());
  const auto add = [&](const BusyCurve& curve, const auto& to) {
    const std::vector<double> before_s = curve.At(edges_s);
    for (size_t i = 0; i < pieces.size(); ++i) to(pieces[i], before_s[2 * i + 1] - before_s[2 * i]);
  };
  for (Eigen::Index k = 0; k < count; ++k) {
    add(kernels[static_cast<size_t>(k)],
        [&](const Piece& piece, double ran_s) { seconds(piece.layer, k) += ran_s; });
  }
  add(UnionOf(kernels), [&](const Piece& piece, double ran_s) {
    seconds.row(piece.layer) +=
        ran_s * fit.IdleTerms((piece.from_s + piece.to_s) / 2, capture_s).transpose();
  });
  return seconds;
}

}  // namespace energy
}  // namespace xplane_time
