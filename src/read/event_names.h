// EventNames: the shown names of the events of one plane.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

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

}  // namespace xplane_time
