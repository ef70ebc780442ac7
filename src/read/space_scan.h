// The outermost level of a trace file: where its planes are, and what it says about
// itself. Shared by both readers.
//
// Files appended to each other are one valid XSpace. A writer puts planes before
// errors, warnings and hostnames, so a plane after one of those begins the next file;
// that tells which hostname goes with which planes.
#ifndef XPLANE_TIME_SRC_READ_SPACE_SCAN_H_
#define XPLANE_TIME_SRC_READ_SPACE_SCAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/trace.h"

namespace xplane_time {

struct SpaceScan {
  struct PlaneMessage {
    ByteRange bytes;
    uint32_t segment;
  };
  std::vector<PlaneMessage> planes;
  std::vector<std::string_view> hostnames, errors, warnings;
  // The hostname of one file of those appended, if it has one.
  struct SegmentHost {
    std::string_view name;
    size_t count = 0;
    bool several = false;  // different ones
    void Add(std::string_view hostname);
  };
  std::vector<SegmentHost> segment_hosts;
  SegmentHost whole_host;

  // The host of a plane, or "" where several are possible.
  std::string_view HostOf(const PlaneMessage& plane) const;
};

// Errors: DataLoss with the byte offset; what the content looks like, where it is no
// trace at all.
absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path);

// Byte ranges of the XLine messages of a plane, in file order.
absl::StatusOr<std::vector<ByteRange>> ScanLines(std::string_view plane_bytes, uint64_t file_offset,
                                                 const std::string& path);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_SPACE_SCAN_H_
