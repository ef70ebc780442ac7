#include "io/gzip.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/read/gzip_text.h"
#include "tests/read/says.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 30;

std::string TraceBytes() {
  TraceBuilder t;
  t.Gpu(0).Stream(1).Kernel({.name = "k", .duration_ps = 3});
  return t.Bytes();
}

TEST(Gzip, IsKnownByItsMagic) {
  EXPECT_TRUE(LooksLikeGzip("\x1f\x8b"));
  EXPECT_TRUE(LooksLikeGzip(GzipText("")));
  EXPECT_FALSE(LooksLikeGzip("\x1f"));
  EXPECT_FALSE(LooksLikeGzip(""));
  EXPECT_FALSE(LooksLikeGzip(TraceBytes()));
}

TEST(Gzip, Streams) {
  const std::string a = GzipText("a text"), empty = GzipText(""), b = GzipText("more");
  const struct {
    const char* name;
    std::string stream;
    std::string text;
  } cases[] = {
      {"one member", a, "a text"},
      {"an empty member", empty, ""},
      {"two members", a + b, "a textmore"},
      {"an empty member between", a + empty + b, "a textmore"},
      {"zeros behind it", a + std::string(512, '\0'), "a text"},
      {"garbage behind it", a + "garbage", "a text"},
      {"one byte behind it", a + "\x1f", "a text"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto text = DecompressText(c.stream, kPlenty);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, c.text);
  }
}

TEST(Gzip, LargerThanAChunk) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i);
  const auto back = DecompressText(GzipText(text), kPlenty);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, text);
}

TEST(Gzip, CutAtEveryByte) {
  const std::string whole = GzipText("a text that is not short");
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto text = DecompressText(std::string_view(whole).substr(0, length), kPlenty);
    ASSERT_TRUE(absl::IsDataLoss(text.status())) << length << ": " << text.status();
  }
}

TEST(Gzip, DamageTellsTheCompressedByte) {
  const std::string good = GzipText("a text");
  std::string bad_crc = good;
  bad_crc[bad_crc.size() - 8] = static_cast<char>(bad_crc[bad_crc.size() - 8] ^ 1);
  for (const std::string& stream : {bad_crc, good + good.substr(0, 12), good + "\x1f\x8b"}) {
    const auto text = DecompressText(stream, kPlenty);
    EXPECT_TRUE(absl::IsDataLoss(text.status())) << text.status();
    EXPECT_TRUE(Says(text.status(), "compressed byte ")) << text.status();
  }
}

TEST(Gzip, DecompressTextKeepsItsCap) {
  const std::string stream = GzipText(std::string(1000, 'a'));
  EXPECT_TRUE(DecompressText(stream, 1000).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(DecompressText(stream, 999).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecompressText("not gzip", kPlenty).status()));
}

TEST(Gzip, TheSinkMayStop) {
  const auto stop = [](std::string_view) { return absl::CancelledError("enough"); };
  EXPECT_EQ(Inflate(GzipText("a text"), kPlenty, stop), absl::CancelledError("enough"));
}

TEST(Gzip, ATraceOpensAndRemembersItsInflatedSize) {
  const std::string bytes = TraceBytes();
  const size_t half = bytes.size() / 2;
  for (const std::string& stream :
       {GzipText(bytes), GzipText(bytes.substr(0, half)) + GzipText(bytes.substr(half))}) {
    Diagnostics diagnostics;
    auto trace = OpenTraceFromMemory(stream, "trace.gz", {}, &diagnostics);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->files[0].bytes, bytes.size());
    EXPECT_EQ(trace->planes[0].name, "/device:GPU:0");
  }
}

TEST(Gzip, ACutTraceNamesItsFile) {
  const std::string stream = GzipText(TraceBytes());
  Diagnostics diagnostics;
  const auto trace = OpenTraceFromMemory(std::string_view(stream).substr(0, stream.size() - 9),
                                         "run/host.xplane.pb.gz", {}, &diagnostics);
  EXPECT_TRUE(absl::IsDataLoss(trace.status()));
  EXPECT_TRUE(Begins(trace.status(), "run/host.xplane.pb.gz: "));
}

TEST(Gzip, BombsAreRefused) {
  const std::string bomb = GzipText(std::string(size_t{80} << 20, '\0'));
  Diagnostics diagnostics;
  // 80 MiB in 350 KB: below 64 MiB every ratio is fine, above it counts.
  const struct {
    const char* name;
    ReadOptions options;
    bool refused;
  } cases[] = {
      {"the ratio", {.max_gzip_ratio = 10}, true},
      {"a ratio of 0", {.max_gzip_ratio = 0}, true},
      {"the size", {.max_spool_bytes = uint64_t{1} << 20}, true},
      {"neither", {}, false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto trace = OpenTraceFromMemory(bomb, "bomb", c.options, &diagnostics);
    EXPECT_EQ(absl::IsResourceExhausted(trace.status()), c.refused) << trace.status();
    EXPECT_FALSE(trace.ok());  // zeros are no trace
  }
}

TEST(Gzip, GzipInsideGzipIsTold) {
  Diagnostics diagnostics;
  const std::string twice = GzipText(GzipText(TraceBytes()));
  const auto trace = OpenTraceFromMemory(twice, "trace", {}, &diagnostics);
  EXPECT_TRUE(absl::IsDataLoss(trace.status()));
  EXPECT_TRUE(Says(trace.status(), "gzip inside gzip")) << trace.status();
}

}  // namespace
}  // namespace xplane_time::testing
