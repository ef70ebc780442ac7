// Decoding of single messages. Each case runs with both readers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/read/dump_trace.h"
#include "tests/read/raw_message.h"
#include "tests/support/extremes.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/normalize.h"

namespace xplane_time::testing {
namespace {

// The events of one line with one requested stat, copied from their batches.
struct Decoded {
  std::vector<uint64_t> event;
  std::vector<int64_t> start_ps, duration_ps, occurrences, metadata_id;
  std::vector<std::string> name, stat;
  std::vector<size_t> batch_sizes;
  int64_t base_ns = 0;
  Diagnostics diagnostics;
};

class DecodeTest : public ::testing::TestWithParam<Reader> {
 protected:
  // Decodes the first line of the first plane.
  Decoded Decode(const std::string& bytes, std::string_view stat = "s") {
    Decoded decoded;
    auto trace = OpenTraceFromMemory(bytes, "trace", {.reader = GetParam()}, &decoded.diagnostics);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (!trace.ok()) return decoded;
    decoded.base_ns = trace->files[0].base_ns;
    const std::vector<std::string_view> names = {stat};
    const auto copy = [&](const EventBatch& batch) {
      CopyBatch(trace->planes[0], batch, &decoded);
      return absl::OkStatus();
    };
    const absl::Status status = VisitEvents(*trace, 0, names, &decoded.diagnostics, copy);
    EXPECT_TRUE(status.ok()) << status;
    return decoded;
  }

 private:
  static void CopyBatch(const Plane& plane, const EventBatch& batch, Decoded* decoded) {
    decoded->batch_sizes.push_back(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      decoded->event.push_back(batch.event[i]);
      decoded->start_ps.push_back(batch.start_ps[i]);
      decoded->duration_ps.push_back(batch.duration_ps[i]);
      decoded->occurrences.push_back(batch.occurrences[i]);
      decoded->metadata_id.push_back(batch.metadata_id[i]);
      decoded->name.push_back(EventName(plane, batch.metadata[i], batch.metadata_id[i]));
      decoded->stat.push_back(ShowValue(batch.Stat(0, i)));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Readers, DecodeTest, ::testing::Values(Reader::kWire, Reader::kProtobuf),
                         [](const auto& tested) {
                           return tested.param == Reader::kWire ? "Wire" : "Protobuf";
                         });

// A plane in which stats 1 and 2 are named "s" and "t", with one event that has these fields.
std::string SpaceOfEvent(const RawMessage& event) {
  return Space(Named("p")
                   .Message(5, Entry(1, Named("s")))
                   .Message(5, Entry(2, Named("t")))
                   .Message(3, RawMessage().Message(4, event)));
}

struct StatCase {
  const char* name;
  RawMessage event;
  std::string shown;
};

RawMessage WithStat(const RawMessage& stat) { return RawMessage().Message(4, stat); }
RawMessage OfS() { return RawMessage().Varint(1, 1); }

TEST_P(DecodeTest, StatValues) {
  const StatCase cases[] = {
      {"absent", RawMessage(), "absent"},
      {"without a value", WithStat(OfS()), "absent"},
      {"another stat", WithStat(RawMessage().Varint(1, 2).Varint(4, 5)), "absent"},
      {"a stat without a name", WithStat(RawMessage().Varint(1, 9).Varint(4, 5)), "absent"},
      {"int64", WithStat(OfS().Int(4, -5)), "int64 -5"},
      {"int64 0", WithStat(OfS().Varint(4, 0)), "int64 0"},
      {"uint64", WithStat(OfS().Varint(3, ~uint64_t{0})), "uint64 18446744073709551615"},
      {"uint64 0", WithStat(OfS().Varint(3, 0)), "uint64 0"},
      {"double 0", WithStat(OfS().Double(2, 0)), "double 0"},
      {"double 1", WithStat(OfS().Double(2, 1)), "double 4607182418800017408"},
      {"str", WithStat(OfS().Bytes(5, "text")), "str \"text\""},
      {"empty str", WithStat(OfS().Bytes(5, "")), "str \"\""},
      {"invalid UTF-8", WithStat(OfS().Bytes(5, "\xff")), "str \"\\xff\""},
      {"bytes", WithStat(OfS().Bytes(6, "b")), "bytes \"b\""},
      {"ref", WithStat(OfS().Varint(7, 2)), "ref 2 \"t\""},
      {"ref to nothing", WithStat(OfS().Varint(7, 77)), "ref 77 \"\""},
      {"compressed", WithStat(OfS().Bytes(8, "z")), "compressed_str \"z\""},
      {"value before id", WithStat(RawMessage().Varint(4, 6).Varint(1, 1)), "int64 6"},
      {"oneof: the last wins", WithStat(OfS().Varint(4, 6).Bytes(5, "x").Varint(3, 7)), "uint64 7"},
      {"id twice: the last wins", WithStat(RawMessage().Varint(1, 2).Varint(4, 6).Varint(1, 1)),
       "int64 6"},
      {"same stat twice: the first counts",
       WithStat(OfS().Varint(4, 6)).Message(4, OfS().Varint(4, 7)), "int64 6"},
      {"the first has no value", WithStat(OfS()).Message(4, OfS().Varint(4, 7)), "int64 7"},
      {"wrong wire type", WithStat(OfS().Bytes(4, "x")), "absent"},
      {"unknown fields", WithStat(OfS().Varint(50, 1).Varint(4, 6).Fixed32(51, 2)), "int64 6"},
  };
  for (const StatCase& c : cases) {
    SCOPED_TRACE(c.name);
    const Decoded decoded = Decode(SpaceOfEvent(c.event));
    ASSERT_EQ(decoded.stat.size(), 1u);
    EXPECT_EQ(decoded.stat[0], c.shown);
  }
}

struct TimeCase {
  const char* name;
  RawMessage event;
  int64_t start_ps, duration_ps, occurrences;
};

TEST_P(DecodeTest, EventFields) {
  const TimeCase cases[] = {
      {"empty", RawMessage(), 0, 0, 1},
      {"explicit zeros", RawMessage().Varint(2, 0).Varint(3, 0), 0, 0, 1},
      {"all", RawMessage().Varint(2, 7).Varint(3, 5), 7, 5, 1},
      {"negative offset", RawMessage().Int(2, -7).Varint(3, 5), -7, 5, 1},
      {"aggregated", RawMessage().Varint(5, 4).Varint(3, 9), kNoTimePs, 9, 4},
      {"aggregated, no occurrences", RawMessage().Varint(5, 0), kNoTimePs, 0, 0},
      {"oneof: the offset is last", RawMessage().Varint(5, 4).Varint(2, 8), 8, 0, 1},
      {"oneof: the occurrences are last", RawMessage().Varint(2, 8).Varint(5, 4), kNoTimePs, 0, 4},
      {"offset twice", RawMessage().Varint(2, 8).Varint(2, 9), 9, 0, 1},
      {"wrong types are unknown", RawMessage().Bytes(2, "x").Fixed64(3, 1).Fixed32(5, 1), 0, 0, 1},
      {"groups are unknown", RawMessage().StartGroup(2).EndGroup(2).Varint(3, 1), 0, 1, 1},
  };
  for (const TimeCase& c : cases) {
    SCOPED_TRACE(c.name);
    const Decoded decoded = Decode(SpaceOfEvent(c.event));
    ASSERT_EQ(decoded.start_ps.size(), 1u);
    EXPECT_EQ(decoded.start_ps[0], c.start_ps);
    EXPECT_EQ(decoded.duration_ps[0], c.duration_ps);
    EXPECT_EQ(decoded.occurrences[0], c.occurrences);
  }
}

TEST_P(DecodeTest, DamagedEventsAreCountedAndSkipped) {
  const struct {
    const char* name;
    RawMessage event;
    DiagnosticCode code;
  } cases[] = {
      {"negative duration", RawMessage().Int(3, -1), DiagnosticCode::kNegativeDuration},
      {"the most negative", RawMessage().Int(3, kMin), DiagnosticCode::kNegativeDuration},
      {"negative count", RawMessage().Int(5, -1), DiagnosticCode::kNegativeDuration},
      {"start too late", RawMessage().Int(2, kMax), DiagnosticCode::kTimeOverflow},
      {"start too early", RawMessage().Int(2, kMin), DiagnosticCode::kTimeOverflow},
      {"end past int64", RawMessage().Int(2, 2).Int(3, kMax), DiagnosticCode::kTimeOverflow},
      {"end past the axis", RawMessage().Int(2, kAxisLimitPs).Int(3, 1),
       DiagnosticCode::kTimeOverflow},
      {"before the axis", RawMessage().Int(2, -kAxisLimitPs - 1), DiagnosticCode::kTimeOverflow},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const RawMessage line =
        RawMessage().Message(4, c.event).Message(4, RawMessage().Varint(2, 3)).Message(4, c.event);
    const Decoded decoded = Decode(Space(Named("p").Message(3, line)));
    EXPECT_EQ(decoded.event, std::vector<uint64_t>{1});
    EXPECT_EQ(decoded.diagnostics.count(c.code), 2u);
    EXPECT_EQ(decoded.diagnostics.List()[0].first.event, 0u);
  }
}

TEST_P(DecodeTest, TheAxisReachesItsLimits) {
  const std::string bytes = Space(
      Named("p").Message(3, RawMessage()
                                .Message(4, RawMessage().Int(2, -kAxisLimitPs).Int(3, kAxisLimitPs))
                                .Message(4, RawMessage().Int(2, kAxisLimitPs - 1).Int(3, 1))));
  EXPECT_EQ(Decode(bytes).start_ps, (std::vector<int64_t>{-kAxisLimitPs, kAxisLimitPs - 1}));
}

// The stats of a skipped event must not appear on the next event.
TEST_P(DecodeTest, ASkippedEventLeavesNoStats) {
  const RawMessage bad = RawMessage().Int(3, -1).Message(4, OfS().Varint(4, 6));
  const std::string bytes =
      Space(Named("p")
                .Message(5, Entry(1, Named("s")))
                .Message(3, RawMessage().Message(4, bad).Message(4, RawMessage().Varint(3, 1))));
  EXPECT_EQ(Decode(bytes).stat, std::vector<std::string>{"absent"});
}

TEST_P(DecodeTest, TimestampMayFollowTheEvents) {
  const RawMessage line = RawMessage().Message(4, RawMessage().Varint(2, 3)).Varint(3, 40);
  EXPECT_EQ(Decode(Space(Named("p").Message(3, line))).start_ps, std::vector<int64_t>{40'003});
}

TEST_P(DecodeTest, EpochTimestampsGiveABase) {
  constexpr int64_t kEpoch = 1'770'000'000'000'000'123;
  TraceBuilder t;
  auto line = t.Gpu(0).Line({.id = 1, .name = "Stream #1"});
  line.Event({.name = "a", .start_ps = 1, .duration_ps = 1});
  line.Event({.name = "b", .start_ps = 1'000'000'000'007, .duration_ps = 1});
  t.ShiftTimestamps(kEpoch);
  const Decoded decoded = Decode(t.Bytes());
  EXPECT_EQ(decoded.base_ns, kEpoch);
  EXPECT_EQ(decoded.start_ps, (std::vector<int64_t>{1, 1'000'000'000'007}));
}

TEST_P(DecodeTest, TheEarliestLineWithEventsIsTheBase) {
  TraceBuilder t;
  const int64_t epoch = kEpochTimestampNs + 500;
  auto plane = t.Gpu(0);
  plane.Line({.id = 1, .timestamp_ns = epoch + 7}).Event({.name = "a", .start_ps = epoch * 1000});
  plane.Line({.id = 2, .timestamp_ns = epoch}).Event({.name = "b", .start_ps = epoch * 1000});
  plane.Line({.id = 3, .timestamp_ns = epoch - 1});  // no events
  const Decoded decoded = Decode(t.Bytes());
  EXPECT_EQ(decoded.base_ns, epoch);
  EXPECT_EQ(decoded.start_ps, std::vector<int64_t>{0});
}

TEST_P(DecodeTest, UnsortedEventsKeepTheirOrder) {
  TraceBuilder t;
  auto line = t.Gpu(0).Line({.id = 1});
  for (const int64_t start_ps : {5, 1, 9, 1}) line.Event({.name = "e", .start_ps = start_ps});
  EXPECT_EQ(Decode(t.Bytes()).start_ps, (std::vector<int64_t>{5, 1, 9, 1}));
}

TEST_P(DecodeTest, MetadataEntries) {
  const RawMessage in_pieces = Entry(2, Named("one")).Message(2, RawMessage().Bytes(4, "shown"));
  const struct {
    const char* name;
    RawMessage entries;  // of event_metadata
    int64_t id;
    std::string shown;
  } cases[] = {
      {"present", RawMessage().Message(4, Entry(2, Named("one"))), 2, "one"},
      {"missing", RawMessage().Message(4, Entry(2, Named("one"))), 3, "(event metadata 3)"},
      {"negative", RawMessage().Message(4, Entry(-2, Named("one"))), -2, "one"},
      {"negative and missing", RawMessage(), -2, "(event metadata -2)"},
      {"no key is key 0", RawMessage().Message(4, RawMessage().Message(2, Named("k"))), 0, "k"},
      {"no value", RawMessage().Message(4, RawMessage().Int(1, 2)), 2, ""},
      {"key after value", RawMessage().Message(4, RawMessage().Message(2, Named("k")).Int(1, 2)), 2,
       "k"},
      {"key twice",
       RawMessage().Message(4, RawMessage().Int(1, 1).Int(1, 2).Message(2, Named("k"))), 2, "k"},
      {"the map key counts, not the id inside",
       RawMessage().Message(4, Entry(2, Named("k").Varint(1, 3))), 3, "(event metadata 3)"},
      {"duplicate key: the last wins",
       RawMessage().Message(4, Entry(2, Named("one"))).Message(4, Entry(2, Named("two"))), 2,
       "two"},
      {"a duplicate replaces, nothing merges",
       RawMessage()
           .Message(4, Entry(2, RawMessage().Bytes(4, "shown")))
           .Message(4, Entry(2, Named("two"))),
       2, "two"},
      {"a value in two pieces merges", RawMessage().Message(4, in_pieces), 2, "shown"},
      {"display name before name", RawMessage().Message(4, Entry(2, Named("n").Bytes(4, "d"))), 2,
       "d"},
      {"wrong types are unknown", RawMessage().Message(4, Entry(2, Named("n").Varint(4, 1))), 2,
       "n"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const RawMessage line = RawMessage().Message(4, RawMessage().Int(1, c.id));
    const std::string lines = RawMessage().Message(3, line).bytes();
    // Maps after the lines, and before them.
    for (const std::string& fields : {lines + c.entries.bytes(), c.entries.bytes() + lines}) {
      const Decoded decoded = Decode(Space(Named("p").Raw(fields)));
      ASSERT_EQ(decoded.name.size(), 1u);
      EXPECT_EQ(decoded.name[0], c.shown);
      EXPECT_EQ(decoded.metadata_id[0], c.id);
      const uint64_t missing = decoded.diagnostics.count(DiagnosticCode::kMissingEventMetadata);
      EXPECT_EQ(missing, c.shown.starts_with("(") ? 1u : 0u);
    }
  }
}

TEST_P(DecodeTest, StatsOfTheMetadataAreTheFallback) {
  TraceBuilder t;
  auto line = t.Gpu(0).Line({.id = 1});
  const std::vector<StatSpec> fallback = {{"s", Ref{"of metadata"}}, {"s", int64_t{2}}};
  line.Event({.name = "own", .stats = {{"s", int64_t{0}}}, .metadata_stats = fallback});
  line.Event({.name = "none", .metadata_stats = fallback});
  line.Event({.name = "other", .stats = {{"t", int64_t{1}}}, .metadata_stats = fallback});
  const Decoded decoded = Decode(t.Bytes());
  ASSERT_EQ(decoded.stat.size(), 3u);
  EXPECT_EQ(decoded.stat[0], "int64 0");
  EXPECT_TRUE(decoded.stat[1].ends_with("\"of metadata\"")) << decoded.stat[1];
  EXPECT_EQ(decoded.stat[2], decoded.stat[1]);
}

TEST_P(DecodeTest, AStatNameMayHaveSeveralIds) {
  const RawMessage first = RawMessage().Int(1, 70'000).Varint(4, 1);  // larger than the small ids
  const RawMessage second = RawMessage().Int(1, -5).Varint(4, 2);
  const std::string bytes =
      Space(Named("p")
                .Message(5, Entry(70'000, Named("s")))
                .Message(5, Entry(-5, Named("s")))
                .Message(3, RawMessage()
                                .Message(4, RawMessage().Message(4, first))
                                .Message(4, RawMessage().Message(4, second))));
  EXPECT_EQ(Decode(bytes).stat, (std::vector<std::string>{"int64 1", "int64 2"}));
}

TEST_P(DecodeTest, LongLinesComeInBatches) {
  constexpr size_t kEvents = 2 * EventBatch::kBatchSize + 3;
  RawMessage line;
  for (size_t i = 0; i < kEvents; ++i) line.Message(4, RawMessage().Varint(2, i));
  const Decoded decoded = Decode(Space(Named("p").Message(3, line)));
  EXPECT_EQ(decoded.batch_sizes,
            (std::vector<size_t>{EventBatch::kBatchSize, EventBatch::kBatchSize, 3}));
  for (size_t i = 0; i < kEvents; ++i) {
    ASSERT_EQ(decoded.event[i], i);
    ASSERT_EQ(decoded.start_ps[i], static_cast<int64_t>(i));
  }
}

TEST_P(DecodeTest, TheVisitorMayStop) {
  Diagnostics diagnostics;
  const std::string bytes = SpaceOfEvent(RawMessage());
  auto trace = OpenTraceFromMemory(bytes, "trace", {.reader = GetParam()}, &diagnostics);
  ASSERT_TRUE(trace.ok());
  const auto stop = [](const EventBatch&) { return absl::CancelledError("enough"); };
  EXPECT_EQ(VisitEvents(*trace, 0, {}, &diagnostics, stop), absl::CancelledError("enough"));
}

TEST_P(DecodeTest, EventByteOffsetPointsAtTheEvent) {
  const std::string a = RawMessage().Varint(2, 300).bytes(), b = RawMessage().Varint(3, 7).bytes();
  const RawMessage line =
      RawMessage().Bytes(4, a).Bytes(2, "name").StartGroup(50).EndGroup(50).Bytes(4, b);
  const std::string bytes = Space(Named("p").Message(3, line));
  Diagnostics diagnostics;
  auto trace = OpenTraceFromMemory(bytes, "trace", {.reader = GetParam()}, &diagnostics);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(bytes.substr(EventByteOffset(*trace, 0, 0), a.size()), a);
  EXPECT_EQ(bytes.substr(EventByteOffset(*trace, 0, 1), b.size()), b);
  EXPECT_EQ(EventByteOffset(*trace, 0, 2), Location::kNowhere);
}

}  // namespace
}  // namespace xplane_time::testing
