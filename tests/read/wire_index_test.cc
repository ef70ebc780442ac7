// Lines cut into pieces at guessed places give the same index as whole lines, for any bytes.
#include "read/internals.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/read/raw_message.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

struct Index {
  std::vector<Line> lines;
  std::vector<absl::Status> status;
};

// Indexes lines that are concatenated in one file.
Index IndexOf(const std::vector<std::string>& lines, const IndexOptions& options) {
  std::string bytes;
  Trace trace;
  trace.files.emplace_back().path = "trace";
  trace.planes.emplace_back().name = "plane";
  for (const std::string& line : lines) {
    trace.lines.emplace_back().bytes = {bytes.size(), line.size()};
    bytes += line;
  }
  const auto status =
      IndexWireLines([&](uint32_t /*plane*/) { return std::string_view(bytes); }, options, &trace);
  return {trace.lines, status};
}

constexpr size_t kOnePiece = ~size_t{0} / 4;

// The parts must be consecutive and cover the line, and each must have the events between its
// first_event and the next one.
void ExpectPartsOf(const std::string& bytes, const Line& line) {
  uint64_t offset = line.bytes.offset, events = 0;
  for (const LinePart& part : line.parts) {
    EXPECT_EQ(part.bytes.offset, offset);
    EXPECT_EQ(part.first_event, events);
    const auto of_part = bytes.substr(offset - line.bytes.offset, part.bytes.size);
    events += IndexOf({of_part}, {.piece_bytes = kOnePiece}).lines[0].event_count;
    offset += part.bytes.size;
  }
  EXPECT_EQ(offset, line.bytes.offset + line.bytes.size);
  EXPECT_EQ(events, line.event_count);
}

void ExpectSameForAnyPieces(const std::vector<std::string>& lines) {
  const Index expected = IndexOf(lines, {.piece_bytes = kOnePiece});
  for (const size_t piece_bytes : {1, 20, 100, 333, 5000}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE("pieces of " + std::to_string(piece_bytes));
      const Index index = IndexOf(lines, {.threads = threads, .piece_bytes = piece_bytes});
      for (size_t i = 0; i < lines.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(index.status[i], expected.status[i]);
        if (!expected.status[i].ok()) continue;
        EXPECT_EQ(index.lines[i].event_count, expected.lines[i].event_count);
        EXPECT_EQ(index.lines[i].id, expected.lines[i].id);
        EXPECT_EQ(index.lines[i].timestamp_ns, expected.lines[i].timestamp_ns);
        ExpectPartsOf(lines[i], index.lines[i]);
      }
    }
  }
}

RawMessage Event(std::mt19937* random) {
  RawMessage event;
  event.Varint(1, 1 + (*random)() % 300).Varint(2, (*random)()).Varint(3, (*random)() % 5000);
  return event;
}

// Bytes that look like events, so that a guess inside them is wrong.
std::string Decoys(size_t count, std::mt19937* random) {
  RawMessage decoys;
  for (size_t i = 0; i < count; ++i) decoys.Message(4, Event(random));
  return decoys.bytes();
}

RawMessage RandomLine(std::mt19937* random) {
  RawMessage line;
  if ((*random)() % 8 != 0) line.Varint(1, (*random)() % 100).Bytes(2, "line").Varint(3, 7);
  const size_t events = (*random)() % 200;
  const bool decoys = (*random)() % 2 == 0, odd_fields = (*random)() % 4 == 0;
  for (size_t i = 0; i < events; ++i) {
    RawMessage event = Event(random);
    if (decoys && (*random)() % 4 == 0) {
      event.Message(4, RawMessage().Varint(1, 3).Bytes(6, Decoys((*random)() % 40, random)));
    }
    line.Message(4, event);
    if (odd_fields && (*random)() % 10 == 0) line.Varint(15, (*random)());
    if (odd_fields && (*random)() % 30 == 0) line.Varint(3, (*random)() % 9);  // the last counts
    if (odd_fields && (*random)() % 30 == 0) line.Raw(std::string_view("\x22\x00", 2));  // empty
  }
  return line;
}

TEST(WireIndex, RandomLines) {
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    std::vector<std::string> lines;
    for (size_t i = 0; i < 1 + random() % 9; ++i) lines.push_back(RandomLine(&random).bytes());
    ExpectSameForAnyPieces(lines);
  }
}

TEST(WireIndex, DamagedLines) {
  std::mt19937 random(12);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::string line = RandomLine(&random).bytes();
    if (line.empty()) continue;
    if (random() % 2 == 0) line.resize(random() % line.size());
    for (size_t i = 0; !line.empty() && i < random() % 4; ++i) {
      line[random() % line.size()] = static_cast<char>(random());
    }
    ExpectSameForAnyPieces({line});
  }
}

// Many more bytes look like events than are events.
TEST(WireIndex, WrongGuesses) {
  std::mt19937 random(13);
  RawMessage line;
  for (int i = 0; i < 20; ++i) {
    RawMessage event = Event(&random);
    event.Message(4, RawMessage().Varint(1, 3).Bytes(6, Decoys(500, &random)));
    line.Message(4, event);
  }
  ExpectSameForAnyPieces({line.bytes()});
  EXPECT_EQ(IndexOf({line.bytes()}, {.piece_bytes = 1000}).lines[0].event_count, 20u);
}

TEST(WireIndex, NoLines) { EXPECT_TRUE(IndexOf({}, {.threads = 4}).lines.empty()); }

}  // namespace
}  // namespace xplane_time::testing
