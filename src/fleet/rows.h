// The rows of a fleet's summary: their keys and how they are added. A new column is added here, in
// the file (summary_file.cc) and in the output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/fleet.h"

namespace xplane_time::fleet {

// The sum of numbers that are not negative. It saturates, so the order of additions does not
// matter.
inline uint64_t Sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}
inline constexpr Int128 kMostPs = ~(Int128{1} << 127);
inline Int128 Sum(Int128 a, Int128 b) {
  Int128 sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMostPs : sum;
}
inline uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}
inline Int128 Product(Int128 a, uint64_t b) {
  Int128 product = 0;
  return __builtin_mul_overflow(a, Int128{b}, &product) ? kMostPs : product;
}
template <typename Number, typename... Members>
void AddEach(Number* to, const Number& from, Members... members) {
  ((to->*members = Sum(to->*members, from.*members)), ...);
}

// The names of a summary, in order of first use.
class NameTable {
 public:
  explicit NameTable(std::vector<std::string>* names) : names_(names) {}
  NameId IdOf(const std::string& name) {
    const auto [found, is_new] = ids_.try_emplace(name, static_cast<NameId>(names_->size()));
    if (is_new) names_->push_back(name);
    return found->second;
  }

 private:
  std::vector<std::string>* const names_;  // the first name is empty
  absl::flat_hash_map<std::string, NameId> ids_ = {{"", 0}};
};

inline auto KeyOf(const FleetDevice& row) {
  return std::tuple(row.host, row.device, row.model, static_cast<uint32_t>(row.kind));
}
inline auto KeyOf(const FleetFunction& row) {
  return std::tuple(row.host, row.device, row.model, row.function, row.is_range);
}
inline auto KeyOf(const FleetKernel& row) {
  return std::tuple(row.host, row.device, row.function, row.kernel,
                    static_cast<uint32_t>(row.category));
}
inline auto KeyOf(const FleetSteps& row) { return std::tuple(row.host, row.device, row.model); }
inline auto KeyOf(const FleetCollective& row) {
  return std::tuple(row.host, row.device, row.kernel);
}

inline auto KeyOf(const FleetMeetings& row) {
  return std::tuple(row.host, row.device, row.function, row.kernel, row.base_ns, row.content);
}

template <typename Visit>
void ForEachName(FleetDevice* row, Visit visit) {
  visit(&row->host), visit(&row->device), visit(&row->model);
}
template <typename Visit>
void ForEachName(FleetFunction* row, Visit visit) {
  visit(&row->host), visit(&row->device), visit(&row->model), visit(&row->function);
}
template <typename Visit>
void ForEachName(FleetKernel* row, Visit visit) {
  visit(&row->host), visit(&row->device), visit(&row->kernel), visit(&row->function);
}
template <typename Visit>
void ForEachName(FleetSteps* row, Visit visit) {
  visit(&row->host), visit(&row->device), visit(&row->model);
}
template <typename Visit>
void ForEachName(FleetCollective* row, Visit visit) {
  visit(&row->host), visit(&row->device), visit(&row->kernel);
}

template <typename Visit>
void ForEachName(FleetMeetings* row, Visit visit) {
  visit(&row->host), visit(&row->device), visit(&row->kernel), visit(&row->function);
}

// Centres are only sorted by the last merge.
inline void MergeCentres(CaptureCentres* to, const CaptureCentres& from) {
  to->insert(to->end(), from.begin(), from.end());
}
inline void MergeInto(OwnCentres* to, const OwnCentres& from) {
  MergeCentres(&to->own_ps, from.own_ps);
  MergeCentres(&to->busy_ps, from.busy_ps);
  AddEach(to, from, &OwnCentres::captures_with_collectives);
}
inline void MergeInto(FleetDevice* to, const FleetDevice& from) {
  using Row = FleetDevice;
  AddEach(to, from, &Row::captures, &Row::executions, &Row::busy_ps, &Row::span_ps,
          &Row::compute_ps, &Row::collective_exposed_ps, &Row::copy_exposed_ps, &Row::other_ps,
          &Row::idle_ps);
}
inline void MergeInto(FleetFunction* to, const FleetFunction& from) {
  using Row = FleetFunction;
  AddEach(to, from, &Row::runs, &Row::left_out, &Row::span_ps);
  to->active.Merge(from.active);
  MergeCentres(&to->centres_ps, from.centres_ps);
  MergeInto(&to->own, from.own);
}
inline void MergeInto(FleetKernel* to, const FleetKernel& from) {
  using Row = FleetKernel;
  AddEach(to, from, &Row::self_known, &Row::captures, &Row::self_ps);
  to->time.Merge(from.time);
}
inline void MergeInto(FleetSteps* to, const FleetSteps& from) {
  using Row = FleetSteps;
  AddEach(to, from, &Row::compute_ps, &Row::collective_exposed_ps, &Row::copy_exposed_ps,
          &Row::other_ps, &Row::idle_ps);
  to->span.Merge(from.span);
  MergeCentres(&to->centres_ps, from.centres_ps);
  MergeInto(&to->own, from.own);
}
inline void MergeInto(FleetCollective* to, const FleetCollective& from) {
  using Row = FleetCollective;
  AddEach(to, from, &Row::count, &Row::exposed_ps, &Row::hidden_ps, &Row::in_flight_ps);
}

// The same capture twice: counts it, and keeps one of the two, independent of the order.
inline void MergeInto(FleetMeetings* to, const FleetMeetings& from) {
  AddEach(to, from, &FleetMeetings::captures);
  if (std::tie(from.enters_ps, from.lengths_ps) > std::tie(to->enters_ps, to->lengths_ps)) {
    to->enters_ps = from.enters_ps;
    to->lengths_ps = from.lengths_ps;
  }
}

// The beginning of a summary file; empty if it is not a summary or not a regular file.
std::string HeadOfSummary(const std::string& path);
// Appends the checksum that ends a file.
std::string WithChecksum(std::string bytes);

// "skip_runs=2, device=gpu", or "none".
std::string OptionsText(const std::map<std::string, std::string>& options);

}  // namespace xplane_time::fleet
