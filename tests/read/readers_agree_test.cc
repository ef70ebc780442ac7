// The wire reader compared with the reference reader: the same index, batches, diagnostics and
// refusals.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/sample_traces.h"
#include "tests/read/dump_trace.h"
#include "tests/read/raw_message.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<NamedBytes> AllSamples() {
  std::vector<NamedBytes> samples = BuiltTraces();
  for (NamedBytes& raw : RawTraces()) samples.push_back(std::move(raw));
  return samples;
}

TEST(ReadersAgree, OnBuiltTraces) {
  for (const NamedBytes& trace : BuiltTraces()) {
    SCOPED_TRACE(trace.name);
    EXPECT_TRUE(DumpBytes(trace.bytes, Reader::kWire).ok());
    EXPECT_EQ(DisagreementOn(trace.bytes), "");
  }
}

TEST(ReadersAgree, OnRawTraces) {
  for (const NamedBytes& trace : RawTraces()) {
    SCOPED_TRACE(trace.name);
    EXPECT_EQ(DisagreementOn(trace.bytes), "");
  }
}

TEST(ReadersAgree, OnRecordedTraces) {
  size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(XPLANE_TIME_TESTDATA)) {
    if (!entry.path().string().ends_with(".xplane.pb")) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const std::vector<Input> inputs = {{.path = entry.path().string()}};
    const auto wire = DumpInputs(inputs, Reader::kWire);
    EXPECT_TRUE(wire.ok()) << wire.status();
    EXPECT_EQ(Disagreement(wire, DumpInputs(inputs, Reader::kProtobuf)), "");
    ++seen;
  }
  EXPECT_GE(seen, 4u);
}

// The rows of `planes --stats`. Map entries that were overwritten are not counted.
std::string DescribedStats(const std::string& bytes, Reader reader) {
  Diagnostics diagnostics;
  auto trace = OpenTraceFromMemory(bytes, "trace", {.reader = reader}, &diagnostics);
  if (!trace.ok()) return "";
  PlanesOptions options;
  options.with_stats = true;
  auto report = DescribePlanes(*trace, options, diagnostics);
  if (!report.ok()) return "";
  std::string rows;
  for (const PlaneRow& plane : report->planes) {
    for (const StatRow& stat : plane.stats) {
      rows += plane.name + ": " + stat.owner + " " + stat.name + " " + stat.type + " " +
              std::to_string(stat.count) + "\n";
    }
  }
  return rows;
}

TEST(ReadersAgree, OnDescribedStats) {
  for (const NamedBytes& trace : AllSamples()) {
    SCOPED_TRACE(trace.name);
    EXPECT_EQ(DescribedStats(trace.bytes, Reader::kWire),
              DescribedStats(trace.bytes, Reader::kProtobuf));
  }
}

// Concatenated files are a valid file.
TEST(ReadersAgree, OnSamplesAppendedToEachOther) {
  const std::vector<NamedBytes> built = BuiltTraces();
  for (const NamedBytes& first : built) {
    for (const NamedBytes& second : built) {
      SCOPED_TRACE(first.name + " + " + second.name);
      EXPECT_EQ(DisagreementOn(first.bytes + second.bytes), "");
    }
  }
}

TEST(ReadersAgree, OnGroupsInEveryMessage) {
  constexpr uint32_t kPath[] = {1, 3, 4, 4};  // plane, line, event, stat
  for (size_t level = 0; level <= 4; ++level) {
    for (int depth = 94; depth <= 101; ++depth) {
      std::string bytes = NestedGroups(depth).bytes();
      for (size_t i = level; i-- > 0;) bytes = RawMessage().Bytes(kPath[i], bytes).bytes();
      bytes += RawMessage().Message(1, RawMessage().Bytes(2, "p")).bytes();
      SCOPED_TRACE(std::to_string(depth) + " groups at level " + std::to_string(level));
      EXPECT_EQ(DisagreementOn(bytes), "");
      EXPECT_EQ(DumpBytes(bytes, Reader::kWire).ok(), depth + static_cast<int>(level) <= 100);
    }
  }
}

// Truncation never causes a crash, and both readers accept or both refuse the result.
TEST(ReadersAgree, TruncatedAtEveryByte) {
  for (const NamedBytes& trace : AllSamples()) {
    for (size_t length = 0; length < trace.bytes.size(); ++length) {
      const std::string disagreement =
          DisagreementOn(std::string_view(trace.bytes).substr(0, length));
      ASSERT_EQ(disagreement, "") << trace.name << " cut to " << length;
    }
  }
}

// A trace that is truncated inside its only plane is always refused.
TEST(ReadersAgree, ACutPlaneIsRefused) {
  TraceBuilder t;
  t.Gpu(0).Stream(1).Kernel({.name = "k", .duration_ps = 3, .hlo_module = "jit_f"});
  const std::string whole = t.Bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto dump = DumpBytes(std::string_view(whole).substr(0, length), Reader::kWire);
    ASSERT_TRUE(absl::IsDataLoss(dump.status())) << length << ": " << dump.status();
  }
}

TEST(ReadersAgree, EverySingleBitFlippedInASmallTrace) {
  const std::string any_order = RawTraces()[0].bytes;
  for (size_t bit = 0; bit < any_order.size() * 8; ++bit) {
    std::string bytes = any_order;
    bytes[bit / 8] = static_cast<char>(static_cast<uint8_t>(bytes[bit / 8]) ^ (1u << (bit % 8)));
    ASSERT_EQ(DisagreementOn(bytes), "") << "bit " << bit;
  }
}

TEST(ReadersAgree, SomeBitsFlipped) {
  std::mt19937_64 random(7);
  for (const NamedBytes& trace : AllSamples()) {
    for (int round = 0; round < 200; ++round) {
      std::string bytes = trace.bytes;
      const size_t bit = random() % (bytes.size() * 8);
      bytes[bit / 8] = static_cast<char>(static_cast<uint8_t>(bytes[bit / 8]) ^ (1u << (bit % 8)));
      ASSERT_EQ(DisagreementOn(bytes), "") << trace.name << ", bit " << bit;
    }
  }
}

TEST(ReadersAgree, RecordedTracesCutAndFlipped) {
  std::mt19937_64 random(11);
  const std::string whole =
      ReadFile(std::filesystem::path(XPLANE_TIME_TESTDATA) / "jax_cpu_async_body.xplane.pb");
  ASSERT_FALSE(whole.empty());
  for (int round = 0; round < 40; ++round) {
    std::string bytes = whole;
    const size_t bit = random() % (bytes.size() * 8);
    bytes[bit / 8] = static_cast<char>(static_cast<uint8_t>(bytes[bit / 8]) ^ (1u << (bit % 8)));
    ASSERT_EQ(DisagreementOn(bytes), "") << "bit " << bit;
    const size_t length = random() % whole.size();
    ASSERT_EQ(DisagreementOn(std::string_view(whole).substr(0, length)), "") << "cut " << length;
  }
}

// If no stat is requested, stats are skipped by length, and damage inside a stat is not detected.
TEST(ReadersAgree, OnlyAskedForStatsAreDecoded) {
  const RawMessage bad_stat = RawMessage().Raw("\x08\x80");
  const RawMessage event = RawMessage().Varint(3, 5).Message(4, bad_stat);
  const std::string bytes =
      RawMessage()
          .Message(1, RawMessage().Bytes(2, "p").Message(3, RawMessage().Message(4, event)))
          .bytes();
  Diagnostics diagnostics;
  auto trace = OpenTraceFromMemory(bytes, "trace", {}, &diagnostics);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const auto nothing = [](const EventBatch&) { return absl::OkStatus(); };
  EXPECT_TRUE(VisitEvents(*trace, 0, {}, &diagnostics, nothing).ok());
  const std::vector<std::string_view> names = {"any"};
  EXPECT_TRUE(absl::IsDataLoss(VisitEvents(*trace, 0, names, &diagnostics, nothing)));
  EXPECT_FALSE(
      OpenTraceFromMemory(bytes, "trace", {.reader = Reader::kProtobuf}, &diagnostics).ok());
}

}  // namespace
}  // namespace xplane_time::testing
