// Writes the corpus from which the replay tests and the fuzzers start.
//
//   make_corpus testdata tests/fuzz/corpus
//
// It has built and raw traces (sample_traces.h), recorded traces reduced to a few events per line,
// damaged copies of both (with a fixed seed), and gzip streams. Files named regression_* are
// findings of the fuzzers; this program neither writes nor removes them.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "proto/xplane.pb.h"
#include "tests/fuzz/sample_traces.h"
#include "tests/read/gzip_text.h"

namespace xplane_time::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kEventsALine = 4;
constexpr int kLinesAPlane = 5;

void Write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// The trace reduced to its first lines and events and the metadata that they use.
std::string Thin(const std::string& bytes) {
  proto::XSpace space;
  if (!space.ParseFromString(bytes)) return "";
  for (proto::XPlane& plane : *space.mutable_planes()) {
    proto::XPlane thin;
    thin.set_name(plane.name());
    *thin.mutable_stat_metadata() = plane.stat_metadata();
    for (int i = 0; i < std::min(plane.lines_size(), kLinesAPlane); ++i) {
      proto::XLine& line = *thin.add_lines();
      line = plane.lines(i);
      if (line.events_size() > kEventsALine) {
        line.mutable_events()->DeleteSubrange(kEventsALine, line.events_size() - kEventsALine);
      }
      for (const proto::XEvent& event : line.events()) {
        const auto metadata = plane.event_metadata().find(event.metadata_id());
        if (metadata == plane.event_metadata().end()) continue;
        (*thin.mutable_event_metadata())[metadata->first] = metadata->second;
      }
    }
    plane = thin;
  }
  std::string thin_bytes;
  {
    google::protobuf::io::StringOutputStream stream(&thin_bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    space.SerializeToCodedStream(&coded);
  }
  return thin_bytes;
}

// The bytes truncated at some place, or with some bits flipped.
std::string Damage(std::string bytes, std::mt19937_64& random) {
  if (random() % 4 == 0) return bytes.substr(0, random() % bytes.size());
  for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
    char& byte = bytes[random() % bytes.size()];
    byte = static_cast<char>(static_cast<uint8_t>(byte) ^ (1u << (random() % 8)));
  }
  return bytes;
}

void WriteTraces(const fs::path& testdata, const fs::path& corpus) {
  std::mt19937_64 random(20240229);
  for (const NamedBytes& trace : BuiltTraces()) {
    Write(corpus / ("built_" + trace.name), trace.bytes);
    Write(corpus / ("damaged_" + trace.name), Damage(trace.bytes, random));
  }
  for (const NamedBytes& trace : RawTraces()) {
    // The long series would fill the corpus; readers_agree_test covers them.
    const bool of_series = trace.name.find("_bytes_") != std::string::npos;
    if (!of_series) Write(corpus / ("raw_" + trace.name), trace.bytes);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(testdata)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".xplane.pb")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string thin = Thin({std::istreambuf_iterator<char>(file), {}});
    Write(corpus / ("recorded_" + name.substr(0, name.find('.'))), thin);
  }
}

void WriteGzip(const fs::path& corpus) {
  const std::string member = GzipText("a trace"), empty = GzipText("");
  Write(corpus / "one_member", member);
  Write(corpus / "two_members", member + empty + member);
  Write(corpus / "padded", member + std::string(16, '\0'));
  Write(corpus / "trailing_garbage", member + "garbage");
  Write(corpus / "second_member_cut", member + member.substr(0, 12));
  Write(corpus / "cut", member.substr(0, member.size() - 5));
  Write(corpus / "magic_alone", member.substr(0, 2));
  Write(corpus / "zeros", GzipText(std::string(size_t{3} << 20, '\0')));
  std::string bad_crc = member;
  bad_crc[bad_crc.size() - 6] = static_cast<char>(bad_crc[bad_crc.size() - 6] ^ 1);
  Write(corpus / "bad_crc", bad_crc);
}

// Writes the Hlo Protos of recorded traces, whole and truncated.
void WriteHlo(const fs::path& testdata, const fs::path& corpus) {
  for (const fs::directory_entry& entry : fs::directory_iterator(testdata)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".xplane.pb")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    proto::XSpace space;
    if (!space.ParseFromIstream(&file)) continue;
    for (const proto::XPlane& plane : space.planes()) {
      if (plane.name() != "/host:metadata") continue;
      for (const auto& [id, metadata] : plane.event_metadata()) {
        if (metadata.stats_size() == 0 || metadata.stats(0).bytes_value().empty()) continue;
        const std::string& bytes = metadata.stats(0).bytes_value();
        const std::string at = name.substr(0, name.find('.')) + "_" + std::to_string(id);
        if (bytes.size() > 3000) continue;
        Write(corpus / at, bytes);
        Write(corpus / (at + "_cut"), bytes.substr(0, bytes.size() / 2));
      }
    }
  }
}

}  // namespace
}  // namespace xplane_time::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make_corpus TESTDATA CORPUS\n");
    return 2;
  }
  xplane_time::testing::WriteTraces(argv[1], std::filesystem::path(argv[2]) / "trace");
  xplane_time::testing::WriteHlo(argv[1], std::filesystem::path(argv[2]) / "hlo");
  xplane_time::testing::WriteGzip(std::filesystem::path(argv[2]) / "gzip");
  return 0;
}
