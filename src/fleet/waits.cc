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

#include "fleet/rows.h"
#include "stats/order_statistics.h"
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
  size_t count() const { return devices[0]->enters_ps.size(); }
  Times Of(size_t device, size_t at) const {
    const FleetMeetings& row = *devices[device];
    const Int128 enter_ps = Int128{row.base_ns} * 1000 + row.enters_ps[at];
    return {enter_ps, enter_ps + row.lengths_ps[at]};
  }
};

// The n-th captures of all hosts belong together.
std::vector<Matched> Match(const FleetSummary& summary, std::vector<std::string>* unmatched) {
  std::map<NameId, std::set<int64_t>> captures;  // by host
  for (const FleetMeetings& row : summary.meetings) captures[row.host].insert(row.base_ns);
  std::map<std::tuple<NameId, NameId, size_t>, Matched> all;
  for (const FleetMeetings& row : summary.meetings) {
    const std::set<int64_t>& of_host = captures[row.host];
    const auto ordinal =
        static_cast<size_t>(std::distance(of_host.begin(), of_host.find(row.base_ns)));
    Matched& matched = all.try_emplace({row.function, row.kernel, ordinal}).first->second;
    matched.kernel = row.kernel;
    matched.function = row.function;
    if (!row.enters_ps.empty()) matched.devices.push_back(&row);
  }
  std::vector<Matched> equal;
  for (auto& entry : all) {
    Matched& matched = entry.second;  // clang 14 cannot capture a structured binding
    if (matched.devices.size() < 2) continue;
    const auto is_as_the_first = [&](const FleetMeetings* each) {
      return each->enters_ps.size() == matched.count();
    };
    if (std::ranges::all_of(matched.devices, is_as_the_first)) {
      equal.push_back(std::move(matched));
    } else {
      unmatched->push_back(summary.names[matched.kernel]);
    }
  }
  std::ranges::sort(*unmatched);
  unmatched->erase(std::unique(unmatched->begin(), unmatched->end()), unmatched->end());
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
    ++wait.count;
    wait.devices = std::max<uint64_t>(wait.devices, places.size());
    wait.waited_ps = fleet::Sum(wait.waited_ps, waited_ps);
    wait.transfer_ps =
        fleet::Sum(wait.transfer_ps, std::max<Int128>(first.leave_ps - last.enter_ps, 0));
  }
}

}  // namespace

FleetWaits FindFleetWaits(const FleetSummary& summary) {
  FleetWaits found;
  const std::vector<Matched> all = Match(summary, &found.unmatched);
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
