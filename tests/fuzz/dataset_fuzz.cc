// Arbitrary bytes as a data set: no crash. An accepted data set can be read to its end twice with
// the same result, and each record is a record of the file. The first byte selects the format.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "workload/text_records.h"

namespace xplane_time {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

io::Descriptor FileOf(std::string_view bytes) {
  io::Descriptor file(memfd_create("fuzz", 0));
  Require(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

// The whole content as text; "" if it is refused, with a message that names the file.
std::string Read(std::string_view bytes, const TextFormat& format, bool shuffled) {
  DatasetOptions options;
  if (shuffled) options.shuffle_seed = 7;
  auto source = OpenTextRecords("the file", FileOf(bytes), format, options);
  if (!source.ok()) {
    Require(source.status().message().find("the file") != absl::string_view::npos);
    return "";
  }
  std::string said = (*source)->sha256();
  uint64_t count = 0, indices = 0;
  for (;; ++count) {
    const auto record = (*source)->Next();
    Require(record.ok());  // it was checked at opening
    if (!record->has_value()) break;
    Require(shuffled || (*record)->index == count);
    indices += (*record)->index;
    said += (*record)->problem + "\x01" + (*record)->answer + "\x01" + (*record)->subject + "\x01" +
            (*record)->dataset_metadata_json + "\x02";
  }
  Require(count == (*source)->size());
  Require(count == 0 || indices == count * (count - 1) / 2);
  return said;
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xplane_time;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const TextFormat& format = data[0] % 2 == 0 ? kCsv : kJsonLines;
  const std::string said = Read(bytes, format, /*shuffled=*/false);
  if (Read(bytes, format, /*shuffled=*/false) != said) std::abort();
  if (Read(bytes, format, /*shuffled=*/true).size() != said.size()) std::abort();
  return 0;
}
