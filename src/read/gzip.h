// Gzip: inflating with a cap, by zlib.
#ifndef XPLANE_TIME_SRC_READ_GZIP_H_
#define XPLANE_TIME_SRC_READ_GZIP_H_

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace xplane_time {

bool LooksLikeGzip(std::string_view bytes);

// Inflates all members of a gzip stream chunk by chunk into `sink`. Errors: DataLoss
// with the byte offset in the compressed stream; ResourceExhausted past `max_bytes`;
// whatever the sink returns.
absl::Status Inflate(std::string_view compressed, uint64_t max_bytes,
                     absl::FunctionRef<absl::Status(std::string_view chunk)> sink);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_GZIP_H_
