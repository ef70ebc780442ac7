// One EventReader for many lines gives the same result as a new reader for each line.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/read/dump_trace.h"
#include "tests/read/raw_message.h"
#include "tests/support/trace_builder.h"

namespace xplane_time::testing {
namespace {

constexpr size_t kBatch = EventBatch::kBatchSize;
constexpr std::string_view kStatNames[] = {"a", "b", "text", "nobody"};
enum Column : size_t { kA, kB, kText, kNobody };

// An event copied from its batch.
struct Row {
  uint64_t event = 0;
  int64_t start_ps = 0, duration_ps = 0, occurrences = 0, metadata_id = 0;
  uint32_t metadata = 0;
  std::vector<std::string> own{}, stats{};
  friend bool operator==(const Row&, const Row&) = default;
};
using Batches = std::vector<std::vector<Row>>;

Row CopyRow(const EventBatch& batch, size_t at) {
  Row row{batch.event[at],       batch.start_ps[at],    batch.duration_ps[at],
          batch.occurrences[at], batch.metadata_id[at], batch.metadata[at]};
  for (size_t column = 0; column < std::size(kStatNames); ++column) {
    row.own.push_back(ShowValue(batch.stats[column].At(at)));
    row.stats.push_back(ShowValue(batch.Stat(column, at)));
  }
  return row;
}

Batches ReadLine(uint32_t line, EventReader* events, const EventChoice& choice = {}) {
  Batches batches;
  events->Start(line, choice);
  for (;;) {
    const absl::StatusOr<EventBatch> batch = events->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || batch->size() == 0) return batches;
    EXPECT_EQ(batch->line, line);
    std::vector<Row>& rows = batches.emplace_back();
    for (size_t i = 0; i < batch->size(); ++i) rows.push_back(CopyRow(*batch, i));
  }
}

class EventReaderTest : public ::testing::TestWithParam<Reader> {
 protected:
  void Open(const TraceBuilder& t) { OpenBytes(t.Bytes()); }
  void OpenBytes(std::string bytes) {
    bytes_ = std::move(bytes);
    auto trace = OpenTraceFromMemory(bytes_, "trace", {.reader = GetParam()}, &diagnostics_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    trace_ = *std::move(trace);
  }
  EventReader MakeReader() { return EventReader(trace_, kStatNames, &diagnostics_); }
  Batches ReadFresh(uint32_t line) {
    EventReader events = MakeReader();
    return ReadLine(line, &events);
  }
  // The shown values of a stat, one per event.
  std::vector<std::string> Shown(uint32_t line, Column column) {
    std::vector<std::string> shown;
    for (const std::vector<Row>& batch : ReadFresh(line)) {
      for (const Row& row : batch) shown.push_back(row.stats[column]);
    }
    return shown;
  }

  std::string bytes_;
  Diagnostics diagnostics_;
  Trace trace_;
};

INSTANTIATE_TEST_SUITE_P(Readers, EventReaderTest,
                         ::testing::Values(Reader::kWire, Reader::kProtobuf),
                         [](const auto& tested) {
                           return tested.param == Reader::kWire ? "Wire" : "Protobuf";
                         });

const std::vector<StatSpec> kOfMetadata = {{"b", Ref{"of metadata"}}, {"a", int64_t{-7}}};

// Adds events of every kind, so that a value left over from one event would show in the next.
void AddEvents(size_t count, const std::vector<StatSpec>& metadata_stats, std::mt19937* random,
               LineBuilder line) {
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<int64_t>((*random)() % 1000);
    EventSpec event{.name = "event " + std::to_string(number % 3)};
    event.start_ps = static_cast<int64_t>(10 * i);
    event.duration_ps = number % 29 == 0 ? -1 : number % 10;
    if (number % 2 == 0) event.stats.push_back({"a", number});
    if (number % 5 == 0) event.stats.push_back({"b", 0.5 * static_cast<double>(number)});
    if (number % 7 == 0) event.stats.push_back({"text", Ref{"ref " + std::to_string(number % 2)}});
    if (number % 11 == 0) event.stats.push_back({"text", "own " + std::to_string(number)});
    if (number % 13 == 0) event.stats.push_back({"unasked", number});
    if (number % 3 == 0) event.metadata_stats = metadata_stats;
    if (number % 31 == 0) event.num_occurrences = number;
    line.Event(event);
  }
}

// Names get their ids in the order of their first use, which differs between the planes.
void AddPlane(std::string_view name, const std::vector<std::string>& order,
              const std::vector<StatSpec>& metadata_stats, TraceBuilder* t) {
  PlaneBuilder plane = t->Plane(name);
  for (const std::string& stat : order) plane.Stat({stat, int64_t{1}});
  std::mt19937 random(7);  // metadata entries have the same positions in each plane
  for (const size_t events : {3ul, 0ul, kBatch + 90, 1ul, 40ul, 2 * kBatch}) {
    AddEvents(events, metadata_stats, &random, plane.Line({.id = 1, .name = "line"}));
  }
}

TEST_P(EventReaderTest, ManyLinesOfTwoPlanes) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  AddPlane("two", {"x", "text", "unasked", "y", "b", "a"}, {{"text", "other"}, {"a", 0.5}}, &t);
  Open(t);
  std::map<uint32_t, Batches> fresh;
  for (uint32_t line = 0; line < trace_.lines.size(); ++line) fresh[line] = ReadFresh(line);
  ASSERT_EQ(fresh.size(), 12u);
  EventReader events = MakeReader();
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    // First alternates between the planes, then picks any line.
    const auto line = static_cast<uint32_t>(round < 12 ? round % 2 * 6 + round / 2 : random() % 12);
    ASSERT_EQ(ReadLine(line, &events), fresh[line]) << "round " << round << ", line " << line;
  }
}

std::vector<Row> Joined(const Batches& batches) {
  std::vector<Row> rows;
  for (const std::vector<Row>& batch : batches) rows.insert(rows.end(), batch.begin(), batch.end());
  return rows;
}

// `some` must contain all chosen events of `all`, and no event that is not in `all`.
void ExpectChosen(const std::vector<Row>& all, const std::vector<Row>& some, auto chosen) {
  size_t at = 0;
  for (const Row& row : all) {
    if (at < some.size() && some[at].event == row.event) {
      EXPECT_EQ(some[at++], row);
    } else {
      EXPECT_FALSE(chosen(row)) << "event " << row.event;
    }
  }
  EXPECT_EQ(at, some.size());
}

// From the first start to the last end of all events that have times.
Interval ExtentOf(const std::vector<Row>& rows) {
  Interval extent = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (const Row& row : rows) {
    if (row.start_ps == kNoTimePs) continue;
    extent.start_ps = std::min(extent.start_ps, row.start_ps);
    extent.end_ps = std::max(extent.end_ps, row.start_ps + row.duration_ps);
  }
  return extent;
}

TEST_P(EventReaderTest, OnlyThoseThatAreChosen) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  AddPlane("two", {"x", "text", "unasked", "y", "b", "a"}, {{"text", "other"}, {"a", 0.5}}, &t);
  Open(t);
  std::mt19937 random(5);
  size_t passed_over = 0;
  for (uint32_t line = 0; line < trace_.lines.size(); ++line) {
    diagnostics_ = {};
    const std::vector<Row> all = Joined(ReadFresh(line));
    const auto of_all = diagnostics_.List();
    const Plane& plane = trace_.planes[trace_.lines[line].plane];
    for (size_t stats = 0; stats <= std::size(kStatNames); ++stats) {
      std::vector<uint8_t> marked;
      for (size_t i = 0; i < plane.event_metadata.entries.size(); ++i)
        marked.push_back(random() % 2);
      diagnostics_ = {};
      EventReader events = MakeReader();
      const auto some = Joined(ReadLine(line, &events, {.metadata = marked, .stats = stats}));
      ExpectChosen(all, some, [&](const Row& row) {
        const auto own = std::span(row.own).first(stats);
        return row.metadata == kNoMetadata || marked[row.metadata] != 0 ||
               std::ranges::any_of(own, [](const std::string& text) { return text != "absent"; });
      });
      EXPECT_EQ(events.extent(), ExtentOf(all));
      passed_over += all.size() - some.size();
      ASSERT_EQ(diagnostics_.List().size(), of_all.size());
      for (size_t i = 0; i < of_all.size(); ++i) {
        EXPECT_EQ(diagnostics_.List()[i].count, of_all[i].count);
      }
    }
  }
  EXPECT_EQ(passed_over > 0, GetParam() == Reader::kWire);
}

TEST_P(EventReaderTest, OnlyThoseThatOverlap) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  Open(t);
  const std::vector<Interval> within = {{95, 130}, {131, 132}, {5000, 9000}, {12345, 12346}};
  for (uint32_t line = 0; line < trace_.lines.size(); ++line) {
    EventReader events = MakeReader();
    const auto some = Joined(ReadLine(line, &events, {.within = within}));
    ExpectChosen(Joined(ReadFresh(line)), some, [&](const Row& row) {
      return std::ranges::any_of(within, [&](const Interval& each) {
        return row.start_ps < each.end_ps && row.start_ps + row.duration_ps > each.start_ps;
      });
    });
  }
}

// Fields in any order, some twice. Whatever path skips an event, its last times must count.
TEST_P(EventReaderTest, ChosenWhateverTheOrderOfFields) {
  std::mt19937 random(11);
  RawMessage line;
  for (int i = 0; i < 4000; ++i) {
    std::vector<RawMessage> fields;
    const auto times = [&](int most) {
      return std::max(0, static_cast<int>(random() % 12) - 12 + most);
    };
    for (int n = 1 + times(2); n > 0; --n)
      fields.push_back(RawMessage().Varint(1, 1 + random() % 2));
    for (int n = 1 + times(2); n > 0; --n) fields.push_back(RawMessage().Varint(2, random() % 500));
    for (int n = times(10); n > 0; --n) fields.push_back(RawMessage().Varint(3, random() % 50));
    for (int n = times(4); n > 0; --n) {
      fields.push_back(
          RawMessage().Message(4, RawMessage().Varint(1, 1 + random() % 2).Varint(4, 7)));
    }
    if (random() % 3 == 0) std::ranges::shuffle(fields, random);
    RawMessage event;
    for (const RawMessage& field : fields) event.Raw(field.bytes());
    line.Message(4, event);
  }
  const auto entry = [](uint64_t id, const char* name) {
    return RawMessage().Varint(1, id).Message(2, RawMessage().Varint(1, id).Bytes(2, name));
  };
  RawMessage plane;
  plane.Bytes(2, "one").Message(3, line);
  plane.Message(4, entry(1, "event 1")).Message(4, entry(2, "event 2"));
  plane.Message(5, entry(1, "a")).Message(5, entry(2, "unasked"));
  OpenBytes(RawMessage().Message(1, plane).bytes());
  const std::vector<Row> all = Joined(ReadFresh(0));
  ASSERT_EQ(all.size(), 4000u);
  const std::vector<Interval> within = {{90, 91}, {400, 420}};
  EventReader events = MakeReader();
  ExpectChosen(all, Joined(ReadLine(0, &events, {.within = within})), [&](const Row& row) {
    return std::ranges::any_of(within, [&](const Interval& each) {
      return row.start_ps < each.end_ps && row.start_ps + row.duration_ps > each.start_ps;
    });
  });
  const std::vector<uint8_t> second = {0, 1};
  ExpectChosen(all, Joined(ReadLine(0, &events, {.metadata = second, .stats = 1})),
               [&](const Row& row) { return row.metadata == 1 || row.own[kA] != "absent"; });
  EXPECT_EQ(events.extent(), ExtentOf(all));
}

TEST_P(EventReaderTest, PartByPart) {
  TraceBuilder t;
  std::mt19937 random(9);
  LineBuilder line = t.Plane("one").Line({.id = 1, .name = "long"});
  AddEvents(120 * kBatch, {}, &random, line);
  Open(t);
  EventReader events = MakeReader();
  std::vector<Row> parts;
  for (const LinePart& part : trace_.lines[0].parts) {
    const auto rows = Joined(ReadLine(0, &events, {.part = &part}));
    parts.insert(parts.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(parts, Joined(ReadFresh(0)));
  EXPECT_EQ(trace_.lines[0].parts.size() > 1, GetParam() == Reader::kWire);
}

TEST_P(EventReaderTest, ALineTwice) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  Open(t);
  EventReader events = MakeReader();
  const Batches first = ReadLine(2, &events);
  EXPECT_EQ(first.size(), 2u);
  EXPECT_EQ(ReadLine(2, &events), first);
}

// The reader still holds rows and stats of a line that was not read to its end.
TEST_P(EventReaderTest, ALineThatWasLeftInTheMiddle) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  Open(t);
  EventReader events = MakeReader();
  events.Start(5);
  ASSERT_EQ(events.Next()->size(), kBatch);
  EXPECT_EQ(ReadLine(4, &events), ReadFresh(4));
}

TEST_P(EventReaderTest, OwnStatsComeBeforeThoseOfTheMetadata) {
  TraceBuilder t;
  auto line = t.Gpu(0).Line({.id = 1});
  const std::vector<StatSpec> fallback = {{"a", int64_t{5}}, {"text", Ref{"of metadata"}}};
  line.Event({.name = "k", .stats = {{"a", int64_t{0}}}, .metadata_stats = fallback});
  line.Event({.name = "k", .stats = {{"text", Ref{"own"}}}, .metadata_stats = fallback});
  line.Event({.name = "k", .stats = {{"text", ""}}, .metadata_stats = fallback});
  line.Event({.name = "other"});
  Open(t);
  EXPECT_EQ(Shown(0, kA),
            (std::vector<std::string>{"int64 0", "int64 5", "int64 5", ShowValue({})}));
  const std::vector<std::string> text = Shown(0, kText);
  ASSERT_EQ(text.size(), 4u);
  EXPECT_TRUE(text[0].ends_with("\"of metadata\"")) << text[0];
  EXPECT_TRUE(text[1].ends_with("\"own\"")) << text[1];
  EXPECT_TRUE(text[2].ends_with("\"\"")) << text[2];
  EXPECT_EQ(text[3], ShowValue({}));
}

// The first batch has the stat on no event, the second on all events, the third on one event.
TEST_P(EventReaderTest, AStatThatComesLate) {
  TraceBuilder t;
  auto line = t.Gpu(0).Line({.id = 1});
  std::vector<std::string> expected;
  for (size_t i = 0; i < 3 * kBatch; ++i) {
    const bool has = i / kBatch == 1 || i == 2 * kBatch + 9;
    EventSpec event{.name = "k", .start_ps = static_cast<int64_t>(i)};
    if (has) event.stats = {{"b", static_cast<int64_t>(i)}};
    line.Event(event);
    expected.push_back(has ? "int64 " + std::to_string(i) : ShowValue({}));
  }
  Open(t);
  EXPECT_EQ(Shown(0, kB), expected);
}

TEST_P(EventReaderTest, AStatThatNobodyHas) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  Open(t);
  EventReader events = MakeReader();
  events.Start(0);
  const absl::StatusOr<EventBatch> batch = events.Next();
  ASSERT_TRUE(batch.ok());
  EXPECT_FALSE(batch->InMetadata(kNobody));
  EXPECT_TRUE(batch->InMetadata(kB));
  EXPECT_EQ(batch->MetadataStat(kNobody, batch->metadata[0]).type, StatType::kAbsent);
  for (const std::string& shown : Shown(2, kNobody)) EXPECT_EQ(shown, ShowValue({}));
}

TEST_P(EventReaderTest, BatchesAreFullBeforeTheNext) {
  const size_t sizes[] = {kBatch - 1, kBatch, kBatch + 1, 2 * kBatch, 2 * kBatch + 1};
  TraceBuilder t;
  for (const size_t size : sizes) {
    auto line = t.Gpu(0).Line({.id = 1});
    for (size_t i = 0; i < size; ++i) {
      line.Event({.name = "k", .start_ps = static_cast<int64_t>(i)});
    }
  }
  Open(t);
  EventReader events = MakeReader();
  for (uint32_t line = 0; line < std::size(sizes); ++line) {
    SCOPED_TRACE(sizes[line]);
    const Batches batches = ReadLine(line, &events);
    ASSERT_EQ(batches.size(), (sizes[line] + kBatch - 1) / kBatch);
    size_t count = 0;
    for (const std::vector<Row>& rows : batches) {
      EXPECT_TRUE(rows.size() == kBatch || &rows == &batches.back());
      for (const Row& row : rows) EXPECT_EQ(row.start_ps, static_cast<int64_t>(count++));
    }
    EXPECT_EQ(count, sizes[line]);
    // At the end of a line, Next() keeps returning the end.
    EXPECT_EQ(events.Next()->size(), 0u);
  }
}

// A choice of events by their metadata, by a reader that wants no stat.
TEST_P(EventReaderTest, ChoiceWithoutStats) {
  TraceBuilder t;
  AddPlane("one", {"a", "b", "text"}, kOfMetadata, &t);
  Open(t);
  for (const uint8_t chosen : {uint8_t{0}, uint8_t{1}}) {
    const std::vector<uint8_t> metadata(trace_.planes[0].event_metadata.entries.size(), chosen);
    EventReader events(trace_, {}, &diagnostics_);
    for (uint32_t line = 0; line < trace_.lines.size(); ++line) {
      uint64_t count = 0;
      for (const std::vector<Row>& rows : ReadFresh(line)) {
        for (const Row& row : rows) count += chosen != 0 || row.start_ps == kNoTimePs ? 1 : 0;
      }
      uint64_t read = 0;
      events.Start(line, {.metadata = metadata});
      for (;;) {
        const absl::StatusOr<EventBatch> batch = events.Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        if (batch->size() == 0) break;
        read += batch->size();
      }
      // The generated reader does not choose.
      EXPECT_GE(read, count) << "line " << line << ", chosen " << int{chosen};
      if (GetParam() == Reader::kWire) {
        EXPECT_EQ(read, count) << "line " << line << ", chosen " << int{chosen};
      }
    }
  }
}

}  // namespace
}  // namespace xplane_time::testing
