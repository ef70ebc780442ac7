// The outermost level of a trace file: where its planes are, and what it says about
// itself. Shared by both readers.
//
// Files appended to each other are one valid XSpace. A writer puts planes before
// errors, warnings and hostnames, so a plane after one of those begins the next file;
// that tells which hostname goes with which planes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

// Looks at a trace as it comes, for whoever must not wait for its end: an endless stream that
// is no trace shows at once. A field's header may be cut between two pieces.
class SpaceGuard {
 public:
  // No field is longer than `most_bytes`.
  SpaceGuard(std::string name, uint64_t most_bytes)
      : name_(std::move(name)), most_bytes_(most_bytes) {}
  // The next bytes. Errors: as ScanSpace.
  absl::Status Add(std::string_view bytes);

 private:
  static constexpr size_t kHeadBytes = size_t{1} << 16;
  static constexpr uint64_t kMostUnknownBytes = uint64_t{1} << 20;
  absl::Status PassField(std::string_view bytes);

  const std::string name_;
  const uint64_t most_bytes_;
  std::string head_;            // for telling what it is instead
  std::string cut_;             // a header's first bytes
  uint64_t seen_ = 0;           // bytes
  uint64_t next_ = 0;           // where the next field begins
  uint64_t unknown_bytes_ = 0;  // of fields that later writers may have added
};

// Errors: DataLoss with the byte offset; what the content looks like, where it is no
// trace at all.
absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path);

// Byte ranges of the XLine messages of a plane, in file order.
absl::StatusOr<std::vector<ByteRange>> ScanLines(std::string_view plane_bytes, uint64_t file_offset,
                                                 const std::string& path);

}  // namespace xplane_time
