#include "workload/event_stream.h"

#include <utility>

#include "status.h"

namespace xplane_time {

absl::Status LineSplitter::Push(std::string_view bytes,
                                absl::FunctionRef<absl::Status(std::string_view)> on_line) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > most_bytes_) {
      return ResourceExhausted("a line longer than ", most_bytes_, " bytes");
    }
    line_.append(piece);
    if (end == bytes.npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    RETURN_IF_ERROR(on_line(line_));
    line_.clear();
  }
  return absl::OkStatus();
}

absl::Status EventStream::Push(std::string_view bytes,
                               absl::FunctionRef<absl::Status(const ServerEvent&)> on_event) {
  return lines_.Push(bytes, [&](std::string_view line) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (std::exchange(is_first_line_, false) && line.starts_with(kByteOrderMark)) {
      line.remove_prefix(kByteOrderMark.size());
    }
    if (!line.empty()) return TakeField(line);
    const ServerEvent event = std::exchange(event_, {});
    return std::exchange(has_data_, false) ? on_event(event) : absl::OkStatus();
  });
}

absl::Status EventStream::TakeField(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);  // empty: a comment
  std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") event_.type = value;
  if (name != "data") return absl::OkStatus();
  if (event_.data.size() + value.size() >= most_bytes_) {
    return ResourceExhausted("an event longer than ", most_bytes_, " bytes");
  }
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data += value;
  return absl::OkStatus();
}

}  // namespace xplane_time
