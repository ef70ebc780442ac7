// Finds who is waited for in collectives, and the offsets between the clocks of hosts.
//
//   host a   |-----------------|          o: offset that is added to a host's times
//   host b            |--------|          for each collective and any two hosts:
//            wait      transfer              last enter of a + o(a) <= first leave of b + o(b)
//
// These bounds on o(a) - o(b) hold however long the collective took. The shortest paths through
// them are the tightest bounds. A device waits from its own enter to the last enter. The last
// device is identified if it came later than the possible clock error, or if it stayed for less
// than half as long as each other device.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "fleet/rows.h"
#include "stats/order_statistics.h"
#include "status.h"
#include "xplane_time/normalize.h"

namespace xplane_time {
namespace {

constexpr Int128 kUnbounded = Int128{1} << 100;
constexpr size_t kMostHostsInPairs = 64;  // with more hosts, each is only compared with the first

struct Times {
  Int128 enter_ps = 0, leave_ps = 0;  // on the host's clock
};
// Collectives of one name that all devices have equally often: the times of all devices for each.
struct Matched {
  NameId kernel = 0, function = 0;
  std::vector<const FleetMeetings*> devices = {};
  uint64_t captures = 1;  // number of captures with this content on each device
  size_t count() const { return devices[0]->enters_ps.size(); }
  Times Of(size_t device, size_t at) const {
    const FleetMeetings& row = *devices[device];
    const Int128 enter_ps = Int128{row.base_ns} * 1000 + row.enters_ps[at];
    return {enter_ps, enter_ps + row.lengths_ps[at]};
  }
};

// The captures of each host in order of their start.
class CaptureOrder {
 public:
  explicit CaptureOrder(const FleetSummary& summary) : names_(summary.names) {
    for (const FleetMeetings& row : summary.meetings) {
      uint64_t& captures = hosts_[row.host][{row.base_ns, row.content}];
      captures = std::max(captures, row.captures);
      if (row.base_ns == 0 && row.content == 0) is_earlier_.insert({row.host, row.device});
    }
    for (const FleetDevice& row : summary.devices) {
      if (row.captures > 1 && is_earlier_.contains({row.host, row.device})) lossy_.insert(row.host);
    }
  }

  size_t FindOrdinal(const FleetMeetings& row) const {
    const auto& captures = hosts_.at(row.host);
    return static_cast<size_t>(
        std::distance(captures.begin(), captures.find({row.base_ns, row.content})));
  }

  // The n-th captures of all hosts belong together, if the order of the captures is known. Returns
  // why it is unknown, and a remedy; empty if it is known.
  std::string FindDoubt(const std::set<NameId>& hosts) const {
    for (const NameId host : hosts) {
      if (!lossy_.contains(host)) continue;
      return Cat("an earlier version wrote the summary of ", names_[host],
                 " and kept the times of only one of its captures; summarize the traces "
                 "again");
    }
    if (hosts.size() < 2) return "";  // the devices of a host share its captures
    const bool any_several =
        std::ranges::any_of(hosts, [&](NameId host) { return CountCaptures(hosts_.at(host)) > 1; });
    if (!any_several) return "";
    for (const NameId host : hosts) {
      int64_t last_base_ns = 0;
      for (const auto& [capture, count] : hosts_.at(host)) {
        const int64_t base_ns = capture.first;
        if (base_ns == 0) return DoubtText(host, "lacks a UNIX start time");
        if (base_ns == last_base_ns) return DoubtText(host, "has the start time of another one");
        last_base_ns = base_ns;
      }
    }
    return "";
  }

 private:
  using Captures = std::map<std::pair<int64_t, uint64_t>, uint64_t>;  // base_ns, content; count
  static uint64_t CountCaptures(const Captures& captures) {
    uint64_t sum = 0;
    for (const auto& [capture, count] : captures) sum = fleet::Sum(sum, count);
    return sum;
  }
  std::string DoubtText(NameId host, std::string_view why) const {
    return Cat(
        "a capture of ", names_[host], " ", why,
        ", so it is unknown which captures of the hosts belong together; give one capture of "
        "each host");
  }

  const std::vector<std::string>& names_;
  std::map<NameId, Captures> hosts_;
  // Rows without the identity of their capture; hosts that have fewer such rows than captures.
  std::set<std::pair<NameId, NameId>> is_earlier_;
  std::set<NameId> lossy_;
};

uint64_t CountAll(const FleetMeetings& row) {
  return fleet::Product(row.enters_ps.size(), row.captures);
}

// The collectives of one name, from all captures.
struct SameName {
  std::map<size_t, Matched> by_ordinal = {};  // of the capture
  std::set<NameId> hosts = {};
  std::map<std::pair<NameId, NameId>, uint64_t> counts = {};  // by host and device
};

// Finds the collectives whose times can be compared, and counts the others: in `waits`, if only the
// order of the captures is unknown, otherwise their names are added to `unmatched`.
std::vector<Matched> Match(const FleetSummary& summary, FleetWaits* found) {
  const CaptureOrder order(summary);
  std::map<std::pair<NameId, NameId>, SameName> all;  // by function and kernel
  for (const FleetMeetings& row : summary.meetings) {
    if (row.enters_ps.empty()) continue;
    SameName& same = all[{row.function, row.kernel}];
    same.hosts.insert(row.host);
    uint64_t& count = same.counts[{row.host, row.device}];
    count = fleet::Sum(count, CountAll(row));
    Matched& matched = same.by_ordinal[order.FindOrdinal(row)];
    matched.kernel = row.kernel;
    matched.function = row.function;
    matched.captures =
        matched.devices.empty() ? row.captures : std::min(matched.captures, row.captures);
    matched.devices.push_back(&row);
  }
  std::vector<Matched> equal;
  for (auto& entry : all) {
    SameName& same = entry.second;  // clang 14 cannot capture a structured binding
    const auto [function, kernel] = entry.first;
    if (std::string doubt = order.FindDoubt(same.hosts); !doubt.empty()) {
      const uint64_t count = same.counts.begin()->second;
      const auto is_equal = [&](const auto& device) { return device.second == count; };
      if (std::ranges::all_of(same.counts, is_equal)) {
        FleetWait& wait = found->waits.emplace_back();
        wait.kernel = summary.names[kernel];
        wait.function = summary.names[function];
        wait.devices = same.counts.size();
        wait.count = count;
        wait.reason = std::move(doubt);
      } else {
        found->unmatched.push_back(summary.names[kernel]);
      }
      continue;
    }
    for (auto& [ordinal, matched] : same.by_ordinal) {
      if (matched.devices.size() < 2) continue;
      const size_t count = matched.count();
      const auto is_equal = [&](const FleetMeetings* each) {
        return each->enters_ps.size() == count;
      };
      if (std::ranges::all_of(matched.devices, is_equal)) {
        equal.push_back(std::move(matched));
      } else {
        found->unmatched.push_back(summary.names[kernel]);
      }
    }
  }
  std::ranges::sort(found->unmatched);
  found->unmatched.erase(std::unique(found->unmatched.begin(), found->unmatched.end()),
                         found->unmatched.end());
  return equal;
}

class Clocks {
 public:
  Clocks(const FleetSummary& summary, const std::vector<Matched>& all) : names_(summary.names) {
    std::set<NameId> hosts;
    for (const Matched& matched : all) {
      for (const FleetMeetings* each : matched.devices) hosts.insert(each->host);
    }
    hosts_.assign(hosts.begin(), hosts.end());
    most_.assign(hosts_.size(), std::vector<Int128>(hosts_.size(), kUnbounded));
    for (size_t i = 0; i < hosts_.size(); ++i) most_[i][i] = 0;
    counts_.resize(hosts_.size());
    gaps_ps_.resize(hosts_.size());
    for (const Matched& matched : all) Bound(matched);
    Close();
    for (size_t i = 0; i < hosts_.size(); ++i) offsets_ps_.push_back(OffsetOf(i));
  }

  size_t PlaceOf(NameId host) const {
    return static_cast<size_t>(std::ranges::lower_bound(hosts_, host) - hosts_.begin());
  }
  // Estimated for all hosts, as far as bounds exist.
  Int128 offset_ps(size_t host) const { return offsets_ps_[host]; }
  // Upper bound of o(a) - o(b).
  Int128 MostBetween(size_t a, size_t b) const { return most_[b][a]; }
  bool Steps(size_t host) const {
    return most_[0][host] + most_[host][0] < 0 || most_[host][host] < 0;
  }

  std::vector<FleetClock> Rows() const {
    std::vector<FleetClock> rows;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      FleetClock& row = rows.emplace_back();
      row.host = names_[hosts_[i]];
      row.collectives = counts_[i];
      row.steps = Steps(i);
      if (row.steps) continue;
      row.lo_ps = Known(-most_[i][0]);
      row.hi_ps = Known(most_[0][i]);
      if (row.lo_ps.has_value() && row.hi_ps.has_value()) row.offset_ps = Known(offsets_ps_[i]);
    }
    return rows;
  }

 private:
  static std::optional<int64_t> Known(Int128 ps) {
    const bool fits = ps < kAxisLimitPs && ps > -kAxisLimitPs;
    return fits ? std::optional(static_cast<int64_t>(ps)) : std::nullopt;
  }

  void Bound(const Matched& matched) {
    std::vector<size_t> places;
    for (const FleetMeetings* each : matched.devices) places.push_back(PlaceOf(each->host));
    std::map<size_t, Times> hosts;
    for (size_t at = 0; at < matched.count(); ++at) {
      hosts.clear();
      for (size_t device = 0; device < places.size(); ++device) {
        const Times times = matched.Of(device, at);
        const auto [found, is_new] = hosts.try_emplace(places[device], times);
        Times& of_host = found->second;
        of_host.enter_ps = std::max(of_host.enter_ps, times.enter_ps);
        of_host.leave_ps = std::min(of_host.leave_ps, times.leave_ps);
      }
      const auto first = hosts.begin();
      for (const auto& [a, of_a] : hosts) {
        ++counts_[a];
        gaps_ps_[a].push_back(first->second.leave_ps - of_a.leave_ps);
        for (const auto& [b, of_b] : hosts) {
          const bool wanted =
              hosts_.size() <= kMostHostsInPairs || a == first->first || b == first->first;
          if (a != b && wanted) most_[b][a] = std::min(most_[b][a], of_b.leave_ps - of_a.enter_ps);
        }
      }
    }
  }

  void Close() {
    if (hosts_.size() > kMostHostsInPairs) return;
    for (size_t via = 0; via < hosts_.size(); ++via) {
      for (size_t b = 0; b < hosts_.size(); ++b) {
        for (size_t a = 0; a < hosts_.size(); ++a) {
          if (most_[b][via] >= kUnbounded || most_[via][a] >= kUnbounded) continue;
          most_[b][a] = std::min(most_[b][a], most_[b][via] + most_[via][a]);
        }
      }
    }
  }

  // Devices leave a collective at about the same time. The offset is the median difference of
  // leaves, clamped to the bounds.
  Int128 OffsetOf(size_t host) {
    if (host == 0 || Steps(host)) return 0;
    const Int128 lo_ps = most_[host][0] >= kUnbounded ? -kUnbounded : -most_[host][0];
    const Int128 hi_ps = most_[0][host];
    std::vector<Int128>& gaps_ps = gaps_ps_[host];  // the order does not matter
    return std::clamp(gaps_ps.empty() ? Int128{0} : stats::LowerMedian(gaps_ps), lo_ps, hi_ps);
  }

  const std::vector<std::string>& names_;
  std::vector<NameId> hosts_;
  std::vector<std::vector<Int128>> most_;  // [b][a]: upper bound of o(a) - o(b)
  std::vector<uint64_t> counts_;
  std::vector<std::vector<Int128>> gaps_ps_;  // leaves of the first host minus the host's own
                                              // leaves
  std::vector<Int128> offsets_ps_;
};

using WaitKey = std::tuple<NameId, NameId, NameId, NameId>;  // function, kernel, host, device

struct Place {
  size_t device, host;
  Int128 enter_ps, leave_ps;  // on the first host's clock, as far as the offset is known
  Int128 length_ps() const { return leave_ps - enter_ps; }
};

// Later than the possible clock error; or it stayed for less than half as long. The latter does not
// depend on clocks, because all devices leave within one transfer.
bool CameLater(const Place& last, const Place& other, const Clocks& clocks) {
  if (last.host == other.host) return last.enter_ps > other.enter_ps;
  const Int128 by_clocks_ps =
      last.enter_ps - clocks.offset_ps(last.host) - (other.enter_ps - clocks.offset_ps(other.host));
  return by_clocks_ps > clocks.MostBetween(other.host, last.host) ||
         other.length_ps() > 2 * last.length_ps();
}

void AddWaits(const Matched& matched, const Clocks& clocks, std::map<WaitKey, FleetWait>* waits) {
  std::vector<Place> places;
  for (size_t device = 0; device < matched.devices.size(); ++device) {
    places.push_back({device, clocks.PlaceOf(matched.devices[device]->host), 0, 0});
  }
  for (size_t at = 0; at < matched.count(); ++at) {
    for (Place& place : places) {
      const Times times = matched.Of(place.device, at);
      place.enter_ps = times.enter_ps + clocks.offset_ps(place.host);
      place.leave_ps = times.leave_ps + clocks.offset_ps(place.host);
    }
    const Place last = *std::ranges::max_element(places, {}, &Place::enter_ps);
    const Place first = *std::ranges::min_element(places, {}, &Place::leave_ps);
    bool is_told = true;
    Int128 waited_ps = 0;
    for (const Place& place : places) {
      waited_ps += last.enter_ps - place.enter_ps;
      if (place.device == last.device) continue;
      is_told &= CameLater(last, place, clocks);
    }
    const FleetMeetings& late = *matched.devices[last.device];
    const WaitKey key(matched.function, matched.kernel, is_told ? late.host : 0,
                      is_told ? late.device : 0);
    FleetWait& wait = (*waits)[key];
    wait.count = fleet::Sum(wait.count, matched.captures);
    wait.devices = std::max<uint64_t>(wait.devices, places.size());
    const auto add = [&](std::optional<Int128>* sum, Int128 ps) {
      *sum = fleet::Sum(sum->value_or(0), fleet::Product(ps, matched.captures));
    };
    add(&wait.waited_ps, waited_ps);
    add(&wait.transfer_ps, std::max<Int128>(first.leave_ps - last.enter_ps, 0));
  }
}

}  // namespace

FleetWaits FindFleetWaits(const FleetSummary& summary) {
  FleetWaits found;
  const std::vector<Matched> all = Match(summary, &found);
  if (all.empty()) return found;
  const Clocks clocks(summary, all);
  found.clocks = clocks.Rows();
  const bool any_steps = std::ranges::any_of(found.clocks, &FleetClock::steps);
  std::map<WaitKey, FleetWait> waits;
  for (const Matched& matched : all) {
    if (!any_steps) AddWaits(matched, clocks, &waits);
  }
  for (auto& [key, wait] : waits) {
    const auto& [function, kernel, host, device] = key;
    wait.function = summary.names[function];
    wait.kernel = summary.names[kernel];
    wait.host = summary.names[host];
    wait.device = summary.names[device];
    found.waits.push_back(std::move(wait));
  }
  std::ranges::stable_sort(found.waits, std::greater(), &FleetWait::waited_ps);
  return found;
}

}  // namespace xplane_time
