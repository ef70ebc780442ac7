// OpenTrace: hosts, duplicates, files that are not traces, and the content of errors.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/read/dump_trace.h"
#include "tests/read/gzip_text.h"
#include "tests/read/raw_message.h"
#include "tests/read/says.h"
#include "tests/read/temp_dir.h"
#include "tests/support/trace_builder.h"

namespace xplane_time::testing {
namespace {

// A trace of one host with one GPU and one kernel.
std::string HostTrace(std::string_view host, int64_t gpu = 0, int64_t duration_ps = 3) {
  TraceBuilder t;
  t.Gpu(gpu).Stream(1).Kernel({.name = "k", .duration_ps = duration_ps});
  if (!host.empty()) t.Hostname(host);
  return t.Bytes();
}

class OpenTest : public ::testing::TestWithParam<Reader> {
 protected:
  absl::StatusOr<Trace> Open(std::string bytes) {
    const std::string& kept = kept_.emplace_back(std::move(bytes));
    return OpenTraceFromMemory(kept, "trace", {.reader = GetParam()}, &diagnostics_);
  }
  absl::StatusOr<Trace> OpenAll(const std::vector<Input>& inputs) {
    return OpenTrace(inputs, {.reader = GetParam()}, &diagnostics_);
  }
  absl::StatusOr<Trace> OpenSound(const std::vector<Input>& inputs) {
    return OpenTrace(inputs, {.reader = GetParam(), .leave_out_damaged_hosts = true},
                     &diagnostics_);
  }
  uint64_t Count(DiagnosticCode code) const { return diagnostics_.count(code); }

  Diagnostics diagnostics_;

 private:
  std::deque<std::string> kept_;  // outlives the traces
};

INSTANTIATE_TEST_SUITE_P(Readers, OpenTest, ::testing::Values(Reader::kWire, Reader::kProtobuf),
                         [](const auto& tested) {
                           return tested.param == Reader::kWire ? "Wire" : "Protobuf";
                         });

TEST_P(OpenTest, CapturesHaveAnAxisEachAndHostsOfOneShareIt) {
  constexpr int64_t kEpochNs = 1'770'000'000'000'000'000;
  const auto later = [](int64_t by_ns) {
    TraceBuilder t;
    t.Gpu(0).Stream(1).Kernel({.name = "k", .start_ps = 5, .duration_ps = 3});
    return t.ShiftTimestamps(kEpochNs + by_ns).Bytes();
  };
  const TempDir dir;
  const std::vector<Input> inputs = {{dir.Write("a.xplane.pb", HostTrace("alpha")), 0},
                                     {dir.Write("b.xplane.pb", later(7)), 1},
                                     {dir.Write("c.xplane.pb", later(0)), 1},
                                     {dir.Write("d.xplane.pb", later(-900'000'000'000'000)), 2}};
  const auto trace = OpenAll(inputs);
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::vector<int64_t> bases, starts_ps;
  for (const TraceFile& file : trace->files) bases.push_back(file.base_ns);
  EXPECT_EQ(bases, (std::vector<int64_t>{0, kEpochNs, kEpochNs, kEpochNs - 900'000'000'000'000}));
  for (uint32_t line = 0; line < trace->lines.size(); ++line) {
    const absl::Status read =
        VisitEvents(*trace, line, {}, &diagnostics_, [&](const EventBatch& batch) {
          starts_ps.insert(starts_ps.end(), batch.start_ps.begin(), batch.start_ps.end());
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
  }
  EXPECT_EQ(starts_ps, (std::vector<int64_t>{0, 7005, 5, 5}));
  EXPECT_EQ(Count(DiagnosticCode::kTimeOverflow), 0u);
}

TEST_P(OpenTest, FilesOfOneRunKeepTheirHosts) {
  const TempDir dir;
  const std::vector<Input> inputs = {{dir.Write("a.xplane.pb", HostTrace("alpha")), 0},
                                     {dir.Write("b.xplane.pb", HostTrace("beta")), 0},
                                     {dir.Write("c.xplane.pb", HostTrace("", 5)), 1}};
  auto trace = OpenAll(inputs);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->planes.size(), 3u);
  EXPECT_EQ(trace->planes[0].host, "alpha");
  EXPECT_EQ(trace->planes[1].host, "beta");
  EXPECT_EQ(trace->planes[2].host, "");
  EXPECT_EQ(trace->planes[1].file, 1u);
  EXPECT_EQ(trace->files[0].hostnames, std::vector<std::string_view>{"alpha"});
  EXPECT_EQ(trace->files[0].path, inputs[0].path);
  EXPECT_EQ(trace->files[2].capture, 1u);
  EXPECT_EQ(trace->capture_count, 2u);
  EXPECT_EQ(trace->event_count, 3u);
  EXPECT_EQ(trace->lines[2].plane, 2u);
  EXPECT_EQ(diagnostics_.List().size(), 0u);
}

TEST_P(OpenTest, AppendedFilesKeepTheirHosts) {
  auto trace = Open(HostTrace("alpha", 0, 3) + HostTrace("beta", 0, 4));
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->planes.size(), 2u);
  EXPECT_EQ(trace->planes[0].host, "alpha");
  EXPECT_EQ(trace->planes[1].host, "beta");
  EXPECT_EQ(Count(DiagnosticCode::kRepeatedPlaneName), 0u);
}

struct HostCase {
  const char* name;
  std::string bytes;
  std::vector<std::string> hosts;  // host of each plane
};

TEST_P(OpenTest, HostsOfPlanes) {
  const std::string a = HostTrace("", 0), b = HostTrace("", 1);
  const std::string alpha = RawMessage().Bytes(4, "alpha").bytes();
  const std::string beta = RawMessage().Bytes(4, "beta").bytes();
  const std::string warning = RawMessage().Bytes(3, "w").bytes();
  const HostCase cases[] = {
      {"nobody says", a + b, {"", ""}},
      {"one for all", a + b + alpha, {"alpha", "alpha"}},
      {"named before", alpha + a + b, {"alpha", "alpha"}},
      {"the same twice", a + b + alpha + alpha, {"alpha", "alpha"}},
      {"two for one file", a + b + alpha + beta, {"", ""}},
      {"each its own", a + warning + alpha + b + beta, {"alpha", "beta"}},
      {"a file without a name takes the only one", a + alpha + b, {"alpha", "alpha"}},
  };
  for (const HostCase& c : cases) {
    SCOPED_TRACE(c.name);
    auto trace = Open(c.bytes);
    ASSERT_TRUE(trace.ok());
    ASSERT_EQ(trace->planes.size(), c.hosts.size());
    for (size_t i = 0; i < c.hosts.size(); ++i) EXPECT_EQ(trace->planes[i].host, c.hosts[i]) << i;
  }
}

TEST_P(OpenTest, TheSameContentIsReadOnce) {
  const TempDir dir;
  const std::string bytes = HostTrace("alpha");
  const std::string a = dir.Write("a.xplane.pb", bytes), b = dir.Write("b.xplane.pb", bytes);
  const std::string gz = dir.Write("a.xplane.pb.gz", GzipText(bytes));
  auto trace = OpenAll({{a, 0}, {b, 0}, {gz, 1}, {a, 2}});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->planes.size(), 1u);
  EXPECT_EQ(trace->files.size(), 1u);
  EXPECT_EQ(Count(DiagnosticCode::kDuplicateInput), 3u);
  const std::string text = diagnostics_.List()[0].text;
  EXPECT_EQ(text, b + " is identical to " + a);
}

TEST_P(OpenTest, AByteIdenticalPlaneIsReadOnce) {
  const std::string bytes = HostTrace("alpha");
  auto trace = Open(bytes + bytes);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->planes.size(), 1u);
  EXPECT_EQ(trace->event_count, 1u);
  EXPECT_EQ(Count(DiagnosticCode::kDuplicatePlane), 1u);
}

// Idle devices have equal planes on every host.
TEST_P(OpenTest, TheSamePlaneOfAnotherHostIsKept) {
  auto trace = Open(HostTrace("alpha") + HostTrace("beta"));
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->planes.size(), 2u);
  EXPECT_EQ(trace->planes[1].host, "beta");
  EXPECT_EQ(Count(DiagnosticCode::kDuplicatePlane), 0u);
}

TEST_P(OpenTest, ARepeatedPlaneNameIsKeptAndTold) {
  auto trace = Open(HostTrace("", 0, 3) + HostTrace("", 0, 4));
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->planes.size(), 2u);
  EXPECT_EQ(Count(DiagnosticCode::kRepeatedPlaneName), 1u);
}

TEST_P(OpenTest, ProducerMessagesAreNoted) {
  TraceBuilder t;
  t.Gpu(0);
  t.proto().add_errors("dropped events");
  t.proto().add_warnings("slow");
  t.proto().add_warnings("slow");
  auto trace = Open(t.Bytes());
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(Count(DiagnosticCode::kProducerError), 1u);
  EXPECT_EQ(Count(DiagnosticCode::kProducerWarning), 2u);
  EXPECT_EQ(trace->files[0].warnings.size(), 2u);
}

TEST_P(OpenTest, TheEnvironmentTellsTheTime) {
  TraceBuilder t;
  t.Environment(1'770'000'000'000'000'000u, 1'770'000'000'500'000'000u);
  auto trace = Open(t.Bytes());
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->files[0].profile_start_unix_ns, 1'770'000'000'000'000'000u);
  EXPECT_EQ(trace->files[0].profile_stop_unix_ns, 1'770'000'000'500'000'000u);
  EXPECT_EQ(trace->planes[0].FindStat("profile_stop_time").type, StatType::kUint64);
  EXPECT_EQ(trace->planes[0].FindStat("other").type, StatType::kAbsent);
}

TEST_P(OpenTest, LinesKeepTheirNamesAndIds) {
  TraceBuilder t;
  auto plane = t.Gpu(0);
  plane.Line({.id = -559038737, .name = "a", .display_name = "shown", .timestamp_ns = 5});
  plane.Line({.id = 7, .name = "bad \xff"}).proto().set_display_id(9);
  auto trace = Open(t.Bytes());
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->lines.size(), 2u);
  EXPECT_EQ(trace->lines[0].id, -559038737);
  EXPECT_EQ(trace->lines[0].shown_name(), "shown");
  EXPECT_EQ(trace->lines[0].timestamp_ns, 5);
  EXPECT_EQ(trace->lines[1].shown_name(), "bad \xff");
  EXPECT_EQ(trace->lines[1].display_id, 9);
}

TEST_P(OpenTest, NothingToRead) {
  const TempDir dir;
  EXPECT_TRUE(absl::IsDataLoss(OpenAll({}).status()));
  const absl::Status empty = OpenAll({{dir.Write("e.xplane.pb", ""), 0}}).status();
  EXPECT_TRUE(absl::IsDataLoss(empty));
  EXPECT_TRUE(Says(empty, "e.xplane.pb: empty file (0 bytes)")) << empty;
  const std::string hostname = RawMessage().Bytes(4, "alpha").bytes();
  const absl::Status no_planes = Open(hostname).status();
  EXPECT_TRUE(absl::IsDataLoss(no_planes));
  EXPECT_TRUE(Says(no_planes, "trace: no planes")) << no_planes;
  EXPECT_TRUE(absl::IsDataLoss(Open(GzipText("")).status()));
}

TEST_P(OpenTest, PlacesThatCannotBeRead) {
  const TempDir dir;
  const absl::Status absent = OpenAll({{dir.Path("absent"), 0}}).status();
  EXPECT_TRUE(absl::IsNotFound(absent)) << absent;
  EXPECT_TRUE(Says(absent, dir.Path("absent"))) << absent;
  const absl::Status directory = OpenAll({{dir.path(), 0}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(directory)) << directory;
  EXPECT_TRUE(Says(directory, "is a directory")) << directory;
  const std::string file = dir.Write("a.xplane.pb", HostTrace("a"));
  EXPECT_TRUE(absl::IsNotFound(OpenAll({{file + "/below", 0}}).status()));
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(OpenAll({{file, 0}}).status()));
}

TEST_P(OpenTest, DamagedFilesOfARunAreLeftOutWhereThatIsAskedFor) {
  const TempDir dir;
  const std::string good = HostTrace("alpha"), cut = HostTrace("beta").substr(0, 20);
  const std::vector<Input> inputs = {{dir.Write("a.xplane.pb", ""), 0},
                                     {dir.Write("b.xplane.pb", good), 0},
                                     {dir.Write("c.xplane.pb", cut), 0},
                                     {dir.Write("d.xplane.pb", HostTrace("delta", 5)), 1}};
  EXPECT_TRUE(absl::IsDataLoss(OpenAll(inputs).status()));
  auto trace = OpenSound(inputs);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->files.size(), 2u);
  EXPECT_EQ(trace->files[0].path, inputs[1].path);
  EXPECT_EQ(trace->files[1].capture, 1u);
  EXPECT_EQ(trace->capture_count, 2u);
  const std::vector<Diagnostic> found = diagnostics_.List();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].text.starts_with(inputs[0].path + ": empty file")) << found[0].text;
  EXPECT_TRUE(found[1].text.starts_with(inputs[2].path + ": damaged")) << found[1].text;
}

TEST_P(OpenTest, AFileOfItsOwnIsNotLeftOutNorAreAllOfARun) {
  const TempDir dir;
  const std::string empty = dir.Write("a.xplane.pb", ""), other = dir.Write("b.xplane.pb", "\x08");
  const std::string good = dir.Write("c.xplane.pb", HostTrace("alpha"));
  for (const std::vector<Input>& inputs : std::vector<std::vector<Input>>{
           {{empty, 0}}, {{empty, 0}, {good, 1}}, {{empty, 0}, {other, 0}, {good, 1}}}) {
    const absl::Status status = OpenSound(inputs).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(Says(status, empty)) << status;
  }
  EXPECT_TRUE(absl::IsNotFound(OpenSound({{dir.Path("absent"), 0}, {good, 1}}).status()));
  EXPECT_EQ(Count(DiagnosticCode::kHostLeftOut), 0u);
  // A missing file of a run is left out like a damaged one.
  EXPECT_TRUE(OpenSound({{dir.Path("absent"), 0}, {good, 0}}).ok());
  EXPECT_EQ(Count(DiagnosticCode::kHostLeftOut), 1u);
}

TEST_P(OpenTest, APipeIsSpooled) {
  const TempDir dir;
  const std::string fifo = dir.Path("fifo"), bytes = HostTrace("alpha");
  ASSERT_EQ(mkfifo(fifo.c_str(), S_IRWXU), 0);
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    dir.Write("fifo", bytes);
    _exit(0);
  }
  auto trace = OpenAll({{fifo, 0}});
  EXPECT_EQ(waitpid(writer, nullptr, 0), writer);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->files[0].bytes, bytes.size());
}

TEST_P(OpenTest, WhatIsNoTraceIsTold) {
  const struct {
    std::string bytes;
    const char* hint;
  } cases[] = {
      {"<!DOCTYPE html>\n<html></html>\n", "looks like text"},
      {"hello\n", "looks like text"},
      {"# caf\xc3\xa9 \xe2\x96\x88 \xf0\x9f\x98\x80\n\nand more", "looks like text"},
      {"\n                                 Apache License\n", "looks like text"},
      {std::string("\x7f") + "ELF\x02\x01", "it is a program"},
      {"PK\x03\x04...", "zip archive"},
      {"SQLite format 3", "SQLite"},
      {"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f....", "Riegeli"},
      {std::string("\xfd") + "7zXZ" + std::string(1, '\0') + "..", "xz -d"},
      {"\x28\xb5\x2f\xfd....", "zstd -d"},
      {"\xff\xfe{", "UTF-16"},
      {std::string("{\0\"\0", 4), "UTF-16"},
      {std::string(257, 'a') + "ustar", "tar archive"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.hint);
    const absl::Status status = Open(c.bytes).status();
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_TRUE(Begins(status, "trace: not an XPlane trace")) << status;
    EXPECT_TRUE(Says(status, c.hint)) << status;
  }
}

// The wire reader only: the generated parser gives no place.
struct DamageCase {
  const char* name;
  RawMessage plane;
  std::vector<std::string> parts;  // expected parts of the message
};

TEST(DamagedFile, TheMessageTellsThePlace) {
  const RawMessage cut = RawMessage().Raw("\x18\x80");  // duration_ps, truncated
  const RawMessage good = RawMessage().Varint(3, 5);
  const RawMessage bad_event = Named("Stream #1").Message(4, good).Message(4, cut);
  const RawMessage bad_stat = RawMessage().Message(4, RawMessage().Raw("\x20\x80"));
  const DamageCase cases[] = {
      {"an event",
       Named("/device:GPU:0").Message(3, bad_event),
       {"trace: damaged trace: a truncated number", "plane /device:GPU:0", "line Stream #1",
        "event 1", "byte 37)"}},
      {"a stat of an event",
       Named("p").Message(3, Named("l").Message(4, bad_stat)),
       {"a truncated number", "plane p", "line l", "event 0", "byte 15)"}},
      {"a stat of the plane",
       Named("p").Message(6, RawMessage().Raw("\x20\x80")),
       {"a truncated number", "plane p", "byte 8)"}},
      {"a line",
       Named("p").Message(3, RawMessage().Raw("\x18")),
       {"a truncated number", "plane p", "byte 8)"}},
      {"a metadata entry",
       Named("p").Message(4, RawMessage().Raw("\x12\x05")),
       {"a length that reaches past the end", "plane p", "byte 8)"}},
      {"a name",
       Named("p").Raw("\x12\x7f"),
       {"a length that reaches past the end", "plane p", "byte 6)"}},
  };
  for (const DamageCase& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string bytes = RawMessage().Message(1, c.plane).bytes();
    const absl::Status status = DumpBytes(bytes, Reader::kWire).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    for (const std::string& part : c.parts) {
      EXPECT_TRUE(Says(status, part)) << part << " in " << status;
    }
    EXPECT_TRUE(absl::IsDataLoss(DumpBytes(bytes, Reader::kProtobuf).status()));
  }
}

TEST(DamagedFile, OutsideOfPlanesTheByteIsTold) {
  const std::string bytes = HostTrace("alpha");
  const absl::Status status = DumpBytes(bytes + "\x0a\x7f", Reader::kWire).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  const std::string place = "(byte " + std::to_string(bytes.size() + 1) + ")";
  EXPECT_TRUE(Says(status, "reaches past the end " + place)) << status;
}

}  // namespace
}  // namespace xplane_time::testing
