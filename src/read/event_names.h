// EventNames: the shown names of the events of one plane. EventNameIds: small numbers for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/read.h"

namespace xplane_time {

// Views are valid as long as this object and the trace. Not thread-safe.
class EventNames {
 public:
  explicit EventNames(const Plane& plane) : plane_(plane) {}

  std::string_view Of(const EventBatch& batch, size_t row) {
    const uint32_t metadata = batch.metadata[row];
    if (metadata != kNoMetadata) return plane_.event_metadata.entries[metadata].shown_name();
    std::string& name = missing_[batch.metadata_id[row]];
    if (name.empty()) name = EventName(plane_, kNoMetadata, batch.metadata_id[row]);
    return name;
  }

 private:
  const Plane& plane_;
  std::map<int64_t, std::string> missing_;  // by metadata id
};

// Ids of names, from 0 in the order in which they are met. Views live as long as EventNames.
class EventNameIds {
 public:
  explicit EventNameIds(const Plane& plane) : events_(plane) {}

  uint32_t Find(const EventBatch& batch, size_t row) {
    const auto [known, is_new_entry] =
        by_metadata_.try_emplace({batch.metadata[row], batch.metadata_id[row]}, 0);
    if (!is_new_entry) return known->second;
    const std::string_view name = events_.Of(batch, row);
    const auto [id, is_new] = by_name_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return known->second = id->second;
  }
  std::string_view operator[](uint32_t id) const { return names_[id]; }
  size_t size() const { return names_.size(); }

 private:
  EventNames events_;
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, uint32_t> by_metadata_;
  absl::flat_hash_map<std::string_view, uint32_t> by_name_;
  std::vector<std::string_view> names_;
};

}  // namespace xplane_time
