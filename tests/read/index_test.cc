// The index of many lines is the same for any number of threads, and so are its errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/read/raw_message.h"
#include "tests/read/says.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

constexpr size_t kLines = 300;
constexpr int kThreads[] = {1, 2, 3, 8, 1000};

// From zero to many events; some counts need more than one byte.
size_t EventsOf(size_t line) {
  if (line % 97 == 5) return 3000 + line;
  if (line % 10 == 0) return 0;
  return line * line % 60;
}

RawMessage LineMessage(size_t line) {
  RawMessage message;
  message.Varint(1, line % 7).Bytes(2, "line " + std::to_string(line)).Varint(3, 10 + line);
  for (size_t i = 0; i < EventsOf(line); ++i) {
    RawMessage event = RawMessage().Varint(1, 1).Varint(2, i).Varint(3, i % 5);
    if (i % 50 == 3) event.Bytes(4, std::string(i % 4 == 3 ? 20'000 : 200, '\x08'));
    message.Message(4, event);
    if (i % 100 == 77) message.Varint(15, i);  // an unknown field between events
  }
  if (line % 3 == 0) message.Bytes(11, "shown").Varint(10, line);
  return message;
}

// With damage at the end of some lines.
std::string MakeDamagedSpace(const std::vector<size_t>& damaged) {
  RawMessage plane;
  plane.Bytes(2, "plane");
  for (size_t line = 0; line < kLines; ++line) {
    RawMessage message = LineMessage(line);
    for (const size_t each : damaged) {
      if (each == line) message.Raw("\x18\x80");  // a truncated number
    }
    plane.Message(3, message);
  }
  return RawMessage().Message(1, plane).bytes();
}

absl::StatusOr<Trace> Open(const std::string& bytes, Reader reader, int threads) {
  Diagnostics diagnostics;
  ReadOptions options;
  options.reader = reader;
  options.threads = threads;
  return OpenTraceFromMemory(bytes, "trace", options, &diagnostics);
}

class IndexTest : public ::testing::TestWithParam<Reader> {};

INSTANTIATE_TEST_SUITE_P(Readers, IndexTest, ::testing::Values(Reader::kWire, Reader::kProtobuf),
                         [](const auto& tested) {
                           return tested.param == Reader::kWire ? "Wire" : "Protobuf";
                         });

TEST_P(IndexTest, LinesOfVeryDifferentLengths) {
  const std::string bytes = MakeDamagedSpace({});
  for (const int threads : kThreads) {
    SCOPED_TRACE(threads);
    const auto trace = Open(bytes, GetParam(), threads);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ASSERT_EQ(trace->lines.size(), kLines);
    uint64_t events = 0;
    for (size_t i = 0; i < kLines; ++i) {
      const Line& line = trace->lines[i];
      ASSERT_EQ(line.event_count, EventsOf(i)) << i;
      ASSERT_EQ(line.name, "line " + std::to_string(i));
      ASSERT_EQ(line.id, static_cast<int64_t>(i % 7));
      ASSERT_EQ(line.timestamp_ns, static_cast<int64_t>(10 + i));
      ASSERT_EQ(line.display_name, i % 3 == 0 ? "shown" : "");
      ASSERT_EQ(line.display_id, static_cast<int64_t>(i % 3 == 0 ? i : 0));
      ASSERT_EQ(line.timeline, i % 7);
      events += EventsOf(i);
    }
    EXPECT_EQ(trace->event_count, events);
  }
}

// The damaged lines have very different lengths, so that with several threads a later one is met
// first.
TEST(IndexDamage, TheFirstDamagedLineIsTold) {
  const std::vector<size_t> cases[] = {{299}, {0}, {120, 196, 299}, {41, 196}, {199, 102}};
  for (const std::vector<size_t>& damaged : cases) {
    const std::string bytes = MakeDamagedSpace(damaged);
    const size_t first = *std::min_element(damaged.begin(), damaged.end());
    const absl::Status expected = Open(bytes, Reader::kWire, 1).status();
    EXPECT_TRUE(absl::IsDataLoss(expected));
    EXPECT_TRUE(Says(expected, "line line " + std::to_string(first) + ", byte ")) << expected;
    for (const int threads : kThreads) {
      EXPECT_EQ(Open(bytes, Reader::kWire, threads).status(), expected) << threads;
    }
  }
}

// Fewer lines than a thread starts with, and as many.
TEST_P(IndexTest, FewLines) {
  for (size_t lines = 0; lines <= 9; ++lines) {
    RawMessage plane;
    plane.Bytes(2, "plane");
    for (size_t line = 0; line < lines; ++line) plane.Message(3, LineMessage(line + 1));
    const std::string bytes = RawMessage().Message(1, plane).bytes();
    for (const int threads : kThreads) {
      const auto trace = Open(bytes, GetParam(), threads);
      ASSERT_TRUE(trace.ok()) << trace.status();
      ASSERT_EQ(trace->lines.size(), lines);
      for (size_t i = 0; i < lines; ++i) {
        EXPECT_EQ(trace->lines[i].event_count, EventsOf(i + 1)) << lines << " lines, line " << i;
      }
    }
  }
}

}  // namespace
}  // namespace xplane_time::testing
