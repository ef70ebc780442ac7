// The minimum cost of reading: a process that only parses a trace with the generated code
// (`parse_only TRACE`), or only reads its bytes (`parse_only --read TRACE`).
#include <fcntl.h>
#include <google/protobuf/arena.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "proto/xplane.pb.h"

namespace {

constexpr int kUsage = 64, kBadTrace = 65, kNoInput = 66;

int Fail(int code, const char* path, const char* what) {
  std::fprintf(stderr, "parse_only: %s: %s\n", path, what);
  return code;
}

int Parse(const char* path, std::string_view bytes) {
  using xplane_time::proto::XSpace;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Fail(kBadTrace, path, "longer than the 2 GiB that protobuf can parse");
  }
  google::protobuf::Arena arena;
  auto* space = google::protobuf::Arena::CreateMessage<XSpace>(&arena);
  if (!space->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Fail(kBadTrace, path, "not an XSpace");
  }
  std::printf("%d planes\n", space->planes_size());
  std::fflush(stdout);
  _exit(0);  // destruction does not belong to parsing
}

int Sum(std::string_view bytes) {
  uint64_t sum = 0, word = 0;
  for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    sum += word;
  }
  word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  sum += word;
  std::printf("sum %016" PRIx64 "\n", sum);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool read_only = argc == 3 && std::string_view(argv[1]) == "--read";
  if (argc != 2 && !read_only) {
    std::fputs("usage: parse_only [--read] TRACE\n", stderr);
    return kUsage;
  }
  const char* path = argv[argc - 1];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0) return Fail(kNoInput, path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return Fail(kNoInput, path, "not a regular file");
  if (status.st_size == 0) return Fail(kBadTrace, path, "empty");
  const auto size = static_cast<size_t>(status.st_size);
  void* at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (at == MAP_FAILED) return Fail(kNoInput, path, std::strerror(errno));
  const std::string_view bytes(static_cast<const char*>(at), size);
  return read_only ? Sum(bytes) : Parse(path, bytes);
}
