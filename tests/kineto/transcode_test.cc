// Kineto traces through OpenTrace: planes, lines, events, times; what is damaged, cut or odd.
#include "kineto/transcode.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/read/dump_trace.h"
#include "tests/read/gzip_text.h"
#include "tests/read/says.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

std::string Event(std::string_view category, std::string_view pid, std::string_view tid,
                  std::string_view ts, std::string_view dur, std::string_view rest = "") {
  std::string text = "{\"ph\": \"X\", \"name\": \"e\", \"cat\": \"";
  text.append(category).append("\", \"pid\": ").append(pid).append(", \"tid\": ").append(tid);
  text.append(", \"ts\": ").append(ts).append(", \"dur\": ").append(dur).append(rest).append("}");
  return text;
}

std::string File(const std::vector<std::string>& events, std::string_view before = "",
                 std::string_view after = "") {
  std::string text = "{" + std::string(before) + "\"traceEvents\": [\n";
  for (size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "" : ",\n") + events[i];
  return text + "\n]" + std::string(after) + "}";
}

class KinetoTest : public ::testing::Test {
 protected:
  absl::StatusOr<Trace> Open(const std::string& json) {
    json_ = json;
    return OpenTraceFromMemory(json_, "t.json", {}, &diagnostics_);
  }

  // "plane | line | name | start | duration | stats that it has of `stats`", each event; starts
  // are absolute.
  std::vector<std::string> Events(const std::string& json,
                                  const std::vector<std::string_view>& stats = {}) {
    const auto trace = Open(json);
    EXPECT_TRUE(trace.ok()) << trace.status();
    std::vector<std::string> events;
    if (!trace.ok()) return events;
    EXPECT_EQ(DisagreementOn(json), "");
    for (uint32_t i = 0; i < trace->lines.size(); ++i) {
      const Plane& plane = trace->planes[trace->lines[i].plane];
      const auto status =
          VisitEvents(*trace, i, stats, &diagnostics_, [&](const EventBatch& batch) {
            for (size_t row = 0; row < batch.size(); ++row) {
              const absl::int128 start_ps =
                  absl::int128(trace->files[0].base_ns) * 1000 + batch.start_ps[row];
              std::ostringstream text;
              text << plane.name << " | " << trace->lines[i].name << " | "
                   << EventName(plane, batch.metadata[row], batch.metadata_id[row]) << " | "
                   << start_ps << " | " << batch.duration_ps[row];
              for (size_t column = 0; column < stats.size(); ++column) {
                const StatValue value = batch.Stat(column, row);
                if (value.type == StatType::kAbsent) continue;
                text << " | " << (value.text.empty() ? ShowValue(value) : value.text);
              }
              events.push_back(text.str());
            }
            return absl::OkStatus();
          });
      EXPECT_TRUE(status.ok()) << status;
    }
    return events;
  }

  uint64_t Count(DiagnosticCode code) const { return diagnostics_.count(code); }

  Diagnostics diagnostics_;

 private:
  std::string json_;  // outlives the trace
};

using Lines = std::vector<std::string>;

TEST_F(KinetoTest, DevicesAreToldByCategory) {
  const std::string json = File(
      {Event("kernel", "1", "7", "50", "10"), Event("gpu_memset", "1", "\"stream 7\"", "70", "1"),
       Event("gpu_user_annotation", "1", "7", "49", "40"), Event("cuda_sync", "1", "7", "90", "1"),
       Event("cpu_op", "1", "1", "5", "20"), Event("cuda_runtime", "1", "1", "10", "5"),
       Event("Kernel", "0", "20", "1", "1"), Event("kernel", "\"Spans\"", "7", "2", "1"),
       Event("overhead", "-1", "0", "3", "1")});
  EXPECT_EQ(Events(json, {"category"}),
            (Lines{"/device:GPU:0 | Stream #20 | e | 1000000 | 1000000 | Kernel",
                   "/device:GPU:0 [Spans] | Stream #7 | e | 2000000 | 1000000 | kernel",
                   "/device:GPU:1 | Stream #7 | e | 50000000 | 10000000 | kernel",
                   "/device:GPU:1 | Stream #7 | e | 70000000 | 1000000 | gpu_memset",
                   "/device:GPU:1 | gpu_user_annotation #7 | e | 49000000 | 40000000 | "
                   "gpu_user_annotation",
                   "/device:GPU:1 | cuda_sync #7 | e | 90000000 | 1000000 | cuda_sync",
                   "/host:CPU | pid 1 tid 1 | e | 5000000 | 20000000 | cpu_op",
                   "/host:CPU | pid 1 tid 1 | e | 10000000 | 5000000 | cuda_runtime",
                   "/host:CPU [-1] | pid -1 tid 0 | e | 3000000 | 1000000 | overhead"}));
}

TEST_F(KinetoTest, ArgsAreStats) {
  const std::string args =
      R"(, "args": {"correlation": 5, "grid": [2, 1, 1], "warps per SM": 2.5, "dtype": "BF\u0031",)"
      R"( "Comms Id": 18446744073709551615123, "big": 18446744073709551615, "on": true, "no": null})";
  const std::vector<std::string_view> stats = {"correlation_id",
                                               "correlation",
                                               "grid",
                                               "warps per SM",
                                               "dtype",
                                               "Comms Id",
                                               "big",
                                               "on",
                                               "no"};
  EXPECT_EQ(
      Events(File({Event("kernel", "0", "7", "1", "1", args),
                   Event("cuda_sync", "0", "7", "1", "1", R"(, "args": {"correlation": 5})")}),
             stats),
      (Lines{"/device:GPU:0 | Stream #7 | e | 1000000 | 1000000 | int64 5 | [2, 1, 1] "
             "| double 4612811918334230528 | BF1 | 18446744073709551615123 | uint64 "
             "18446744073709551615 | int64 1",
             "/device:GPU:0 | cuda_sync #7 | e | 1000000 | 1000000 | int64 5"}));
}

TEST_F(KinetoTest, PowerCountersOfDevicesAreOnTheirLine) {
  const auto counter = [](std::string name, std::string pid, std::string ts, std::string args) {
    return R"({"ph": "C", "name": ")" + name + R"(", "pid": ")" + pid + R"(", "ts": )" + ts +
           R"(, "args": {)" + args + "}}";
  };
  EXPECT_EQ(
      Events(File({Event("kernel", "0", "7", "1", "1"),
                   counter("power_mw", "GPU 0 Counters", "3.5", R"("unit": "mW", "": 350.5)"),
                   counter("power_mw", "GPU 0 Counters", "4", R"("power_mw": 7)"),
                   counter("chip_energy_nj", "GPU 1 Counters", "5", R"("": 2)"),
                   counter("power", "GPU 0 Counters", "5", R"("": 350)"),
                   counter("power_mw", "GPU x Counters", "6", R"("": 1)"),
                   counter("power_mw", "0", "6", R"("": 1)"),
                   counter("power_mw", "GPU 0 Counters", "null", R"("": 1)"),
                   counter("power_mw", "GPU 0 Counters", "9", "")}),
             {"power_mw", "chip_energy_nj"}),
      (Lines{"/device:GPU:0 | Stream #7 | e | 1000000 | 1000000",
             "/device:GPU:0 | _counters_ | power_mw | 3500000 | 0 | double 4644873677400178688",
             "/device:GPU:0 | _counters_ | power_mw | 4000000 | 0 | int64 7",
             "/device:GPU:1 | _counters_ | chip_energy_nj | 5000000 | 0 | int64 2"}));
  EXPECT_EQ(Count(DiagnosticCode::kIncompleteEvent), 2U);
}

TEST_F(KinetoTest, TimesAreExactWhereverTheBaseIs) {
  const std::string event = Event("kernel", "0", "7", "4458676522690.655", "10.001");
  const Lines want = {"/device:GPU:0 | Stream #7 | e | 1716423322522690655000 | 10001000"};
  const std::string base = "\"baseTimeNanoseconds\": 1711964646000000000";
  EXPECT_EQ(Events(File({event}, "", ", " + base)), want);
  EXPECT_EQ(Events(File({event}, base + ", ")), want);
  EXPECT_EQ(Events(File({Event("kernel", "0", "7", "1712195495519689.012", "\"1e-6\""),
                         Event("kernel", "0", "7", "1712195490000000", "0.0000005")})),
            (Lines{"/device:GPU:0 | Stream #7 | e | 1712195495519689012000 | 1",
                   "/device:GPU:0 | Stream #7 | e | 1712195490000000000000 | 1"}));
}

TEST_F(KinetoTest, EventsThatAreNoneAreCounted) {
  const std::string json =
      File({Event("kernel", "0", "7", "1", "1"), Event("kernel", "0", "7", "1", "-1"),
            Event("kernel", "0", "7", "1", "null"), Event("kernel", "0", "7", "\"soon\"", "1"),
            Event("kernel", "0", "7", "NaN", "1"), Event("kernel", "0", "7", "1e18", "1"),
            R"({"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 5, "dur": 1})", "null", "17",
            "[]", "{}", R"({"ph": "i", "name": "e", "pid": "", "tid": "", "ts": 0})"});
  EXPECT_EQ(Events(json).size(), 1U);
  EXPECT_EQ(Count(DiagnosticCode::kNegativeDuration), 1U);
  EXPECT_EQ(Count(DiagnosticCode::kIncompleteEvent), 4U);
  EXPECT_EQ(Count(DiagnosticCode::kTimeOverflow), 1U);
  EXPECT_EQ(Count(DiagnosticCode::kIrregularJson), 1U);
  for (const Diagnostic& each : diagnostics_.List()) {
    if (each.code == DiagnosticCode::kNegativeDuration) {
      EXPECT_EQ(each.first.byte_offset, json.find(Event("kernel", "0", "7", "1", "-1")));
    }
  }
}

TEST_F(KinetoTest, WhatIsNoJsonIsReadWhereItIsClear) {
  const std::string quoted =
      R"({"ph": "X", "name": "say "hi" twice", "pid": 0, "tid": 7, "cat": "kernel", "ts": 1, "dur": 1})";
  const std::string bytes =
      "{\"ph\": \"X\", \"name\": \"k\xff\", \"cat\": \"kernel\", \"pid\": 0, \"tid\": 7, \"ts\": "
      "2, "
      "\"dur\": 1}";
  EXPECT_EQ(Events(File({quoted, bytes}, R"("info": "a "b" c", )")),
            (Lines{"/device:GPU:0 | Stream #7 | say \"hi\" twice | 1000000 | 1000000",
                   "/device:GPU:0 | Stream #7 | k\uFFFD | 2000000 | 1000000"}));
  EXPECT_EQ(Count(DiagnosticCode::kIrregularJson), 3U);
}

TEST_F(KinetoTest, ANameEndsBeforeThePid) {
  const std::string tail = R"(, "pid": 0, "tid": 7, "cat": "kernel", "ts": 1, "dur": 1})";
  for (const std::string name :
       {R"(a "b", c(1): f)", R"({"k": "v", "ts": "w"})", R"(")", R"("")", R"(a\"b"c)"}) {
    EXPECT_EQ(Events(File({R"({"ph": "X", "name": ")" + name + "\"" + tail})).size(), 1U) << name;
    EXPECT_EQ(Events(File({Event("kernel", "0", "7", "1", "1"),
                           R"({"ph": "s", "name": ")" + name + R"(", "pid": 0, "id": 1})",
                           Event("kernel", "0", "7", "2", "1")}))
                  .size(),
              2U)
        << name;
  }
  EXPECT_EQ(Count(DiagnosticCode::kIrregularJson), 10U);
}

TEST_F(KinetoTest, DamageInAnEventThatIsSkippedIsNoticed) {
  const std::string kernel = Event("kernel", "0", "7", "1", "1");
  for (const std::string skipped : {R"({"ph": "s", "id": })", R"({"ph": "s" "id": 1})",
                                    R"({"ph": "s", "id": 1, "x": [1 2]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(Open(File({kernel, skipped, kernel})).status())) << skipped;
  }
}

TEST_F(KinetoTest, ThreadsDevicesAndTheRunAreDescribed) {
  const auto trace = Open(
      File({Event("kernel", "0", "7", "1", "1"), Event("cpu_op", "5", "6", "1", "1"),
            R"({"ph": "M", "name": "thread_name", "pid": 5, "tid": 6, "args": {"name": "main"}})"},
           R"("deviceProperties": [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}],)"
           R"("distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},)",
           R"(, "host_name": "vm")"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  const Plane &gpu = trace->planes[0], &host = trace->planes[1];
  EXPECT_EQ(gpu.host, "vm");
  EXPECT_EQ(gpu.FindStat("device_type_string").text, "NVIDIA A100");
  EXPECT_EQ(gpu.FindStat("device_vendor").text, "Nvidia");
  EXPECT_EQ(gpu.FindStat("compute_cap_major").bits, 8U);
  EXPECT_EQ(gpu.FindStat("rank").bits, 3U);
  EXPECT_EQ(host.FindStat("backend").text, "nccl");
  EXPECT_EQ(trace->lines[host.first_line].name, "main");
  EXPECT_EQ(trace->lines[host.first_line].display_id, 6);
}

TEST_F(KinetoTest, EachDeviceHasItsOwnProperties) {
  const auto trace = Open(File(
      {Event("kernel", "0", "7", "1", "1"), Event("kernel", "1", "7", "1", "1")},
      R"("deviceProperties": [{"id": 0, "name": "A", "warpSize": 32}, {"id": 1, "name": "B"}],)"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->planes[0].FindStat("device_type_string").text, "A");
  EXPECT_EQ(trace->planes[1].FindStat("device_type_string").text, "B");
  EXPECT_EQ(trace->planes[1].FindStat("warpSize").type, StatType::kAbsent);
}

TEST_F(KinetoTest, AnyWayOfGivingIt) {
  const std::string event = Event("kernel", "0", "7", "1", "1");
  const Lines want = {"/device:GPU:0 | Stream #7 | e | 1000000 | 1000000"};
  EXPECT_EQ(Events("[" + event + "]"), want);
  EXPECT_EQ(Events(" \n\t[\n" + event + " ] \n"), want);
  EXPECT_EQ(Events("\xef\xbb\xbf[" + event + "]"), want);
  EXPECT_EQ(Events(GzipText(File({event}))), want);
}

TEST_F(KinetoTest, IsRefusedWithThePlace) {
  const std::string event = Event("cpu_op", "0", "7", "1", "1");
  const std::string whole = File({event}, "\"a\": {\"b\": [1]}, ", ", \"c\": \"d\"");
  ASSERT_TRUE(Open(whole).ok());
  for (size_t size = 1; size < whole.size(); ++size) {
    const absl::Status status = Open(whole.substr(0, size)).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
    EXPECT_TRUE(Says(status, "it is truncated (byte " + std::to_string(size))) << status;
  }
  const std::pair<std::string, std::string> kRefused[] = {
      {whole + whole, "more than one document (byte " + std::to_string(whole.size())},
      {"{\"traceEvents\": {}}", "expected an array (byte 16)"},
      {"{\"schemaVersion\": 1}", "without \"traceEvents\""},
      {"{\"traceEvents\": []}", "was anything profiled?"},
      {"[1, 2]", "was anything profiled?"},
      {File({"{\"ph\" \"X\"}"}), "expected a colon"},
      {File({event + event}), "expected a comma or ]"}};
  for (const auto& [json, why] : kRefused) {
    const absl::Status status = Open(json).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(Begins(status, "t.json: ") && Says(status, why)) << status;
  }
}

TEST_F(KinetoTest, ManyEventsGoThroughTheScratchFile) {
  std::vector<std::string> events;
  constexpr size_t kEvents = 60'000;
  for (size_t i = 0; i < kEvents; ++i) {
    events.push_back(Event("kernel", "0", std::to_string(i % 3), std::to_string(2 * i), "1",
                           R"(, "args": {"text": ")" + std::string(400, 'x') + "\"}"));
  }
  const Lines found = Events(File(events));
  ASSERT_EQ(found.size(), kEvents);
  EXPECT_EQ(found.front(), "/device:GPU:0 | Stream #0 | e | 0 | 1000000");
  EXPECT_EQ(found.back(), "/device:GPU:0 | Stream #2 | e | 119998000000 | 1000000");
}

// The first byte of an XSpace is a line feed, the second the length of its first plane.
TEST(KinetoHead, APlaneOfTheLengthOfABracketIsNoJson) {
  for (const char length : {'{', '['}) {
    std::string plane = "\x12";
    plane += static_cast<char>(length - 2);
    plane += "/device:GPU:0" + std::string(static_cast<size_t>(length) - 15, ' ');
    const std::string space = "\n" + std::string(1, length) + plane;
    Diagnostics diagnostics;
    EXPECT_FALSE(kineto::LooksLikeJson(space));
    EXPECT_TRUE(OpenTraceFromMemory(space, "t", {}, &diagnostics).ok());
  }
}

TEST(KinetoHead, TellsWhatCannotBecomeATrace) {
  const std::string whole = File({Event("kernel", "0", "7", "1", "1")});
  for (size_t size = 0; size <= whole.size(); ++size) {
    EXPECT_TRUE(kineto::CheckHead(whole.substr(0, size), "pipe").ok()) << size;
  }
  EXPECT_FALSE(kineto::CheckHead(whole + "x", "pipe").ok());
  EXPECT_FALSE(kineto::CheckHead(std::string(2000, '['), "pipe").ok());
}

// More than a few chunks of them; what is damaged is so in the last.
TEST(TranscodeTest, ThreadsMakeNoDifference) {
  std::vector<std::string> events;
  for (int i = 0; i < 9000; ++i) {
    const std::string number = std::to_string(i);
    const bool is_kernel = i % 3 == 0;
    events.push_back(Event(is_kernel ? "kernel" : "cuda_runtime", is_kernel ? "0" : "42", "7",
                           number, i % 500 == 0 ? "-1" : "2",
                           R"(, "args": {"correlation": )" + number + R"(, "grid": [1, 2]})"));
  }
  const std::string json = File(events, R"("baseTimeNanoseconds": 12, )");
  for (const size_t size : {json.size(), json.size() - 1, json.size() - 200}) {
    const std::string_view part = std::string_view(json).substr(0, size);
    Diagnostics of_one, of_two;
    const auto one = kineto::Transcode(part, "t", /*threads=*/1, &of_one);
    const auto two = kineto::Transcode(part, "t", /*threads=*/2, &of_two);
    ASSERT_EQ(one.status(), two.status());
    ASSERT_EQ(one.ok(), size == json.size());
    if (!one.ok()) continue;
    EXPECT_TRUE(one->bytes == two->bytes);
    EXPECT_EQ(of_one.count(DiagnosticCode::kNegativeDuration), 18u);
    EXPECT_EQ(of_two.count(DiagnosticCode::kNegativeDuration), 18u);
  }
}

}  // namespace
}  // namespace xplane_time::testing
