// GzipText: makes one gzip member with zlib.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

namespace xplane_time::testing {

// Empty if zlib fails.
inline std::string GzipText(std::string_view text) {
  constexpr int kGzipWindow = 15 + 16;
  z_stream stream = {};
  if (deflateInit2(&stream, 1, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string member(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(member.data());
  stream.avail_out = static_cast<uInt>(member.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  member.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return member;
}

}  // namespace xplane_time::testing
