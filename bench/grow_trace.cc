// grow_trace IN OUT N: writes the trace N times as long (grow.h).
#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "bench/grow.h"

namespace {

constexpr int kUsage = 64, kBadTrace = 65, kNoInput = 66, kNoOutput = 73, kIo = 74;
constexpr int kBlockBytes = 1 << 20;

int Fail(int code, const char* path, const char* what) {
  std::fprintf(stderr, "grow_trace: %s: %s\n", path, what);
  return code;
}

int Read(const char* path, xplane_time::proto::XSpace* space) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(kNoInput, path, std::strerror(errno));
  google::protobuf::io::FileInputStream in(file, kBlockBytes);
  in.SetCloseOnDelete(true);
  const bool parsed = space->ParseFromZeroCopyStream(&in);
  if (in.GetErrno() != 0) return Fail(kIo, path, std::strerror(in.GetErrno()));
  return parsed ? 0 : Fail(kBadTrace, path, "not an XSpace, or longer than 2 GiB");
}

int Write(const char* path, xplane_time::proto::XSpace* space, int64_t times) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return Fail(kNoOutput, path, std::strerror(errno));
  google::protobuf::io::FileOutputStream out(file, kBlockBytes);
  const auto grown = xplane_time::bench::WriteGrown(space, times, &out);
  const bool closed = out.Close();
  if (out.GetErrno() != 0) return Fail(kIo, path, std::strerror(out.GetErrno()));
  if (!grown.ok()) return Fail(kBadTrace, path, std::string(grown.status().message()).c_str());
  if (!closed) return Fail(kIo, path, "cannot write");
  std::printf("%s: %" PRIu64 " bytes, %" PRIu64 " events\n", path, grown->bytes, grown->events);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int64_t times = 0;
  if (argc == 4) {
    const std::string_view text = argv[3];
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, times);
    if (read.ec != std::errc() || read.ptr != end) times = 0;
  }
  if (times < 1) {
    std::fputs("usage: grow_trace IN OUT N    (N >= 1: how many times as long)\n", stderr);
    return kUsage;
  }
  xplane_time::proto::XSpace space;
  const int failed = Read(argv[1], &space);
  return failed != 0 ? failed : Write(argv[2], &space, times);
}
