// Tests of the log reader: the content of lines, and the messages about damaged lines.
#include "power/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/power/log_text.h"
#include "tests/read/gzip_text.h"
#include "tests/read/says.h"
#include "tests/read/temp_dir.h"

namespace xplane_time::power {
namespace {

using testing::ChannelText;
using testing::LogText;
using testing::Says;

// Records every call as a line of text.
class Calls : public LogSink {
 public:
  void Header(LogHeader header) override {
    Add("header " + header.host + " " + header.command + " " +
        std::to_string(header.inventory.channels.size()));
    header_ = std::move(header);
  }
  void Channel(PowerChannel channel, PowerDevice device) override {
    Add("channel " + channel.device + " " + channel.domain + " " + channel.quantity + " " +
        std::string(ReadingKindName(channel.kind)) + " " + device.name);
  }
  void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) override {
    std::string line = "readings " + std::to_string(s) + " " + std::to_string(t_ns);
    for (const Reading& each : readings) {
      line +=
          " " + std::to_string(each.channel) + ":" + std::to_string(each.before_ns - t_ns) + ":" +
          std::to_string(each.after_ns - each.before_ns) + ":" +
          (each.value ? std::to_string(*each.value) : std::string(PowerReasonName(each.reason)));
      if (each.sampled_ns) line += "@" + std::to_string(*each.sampled_ns - t_ns);
    }
    Add(line);
  }
  void ClocksAt(int64_t, const Clocks& clocks) override {
    Add("clocks " + std::to_string(clocks.boottime_ns));
  }
  void Mark(int64_t t_ns, std::string_view window, bool end) override {
    Add((end ? "end " : "begin ") + std::string(window) + " " + std::to_string(t_ns));
  }
  void Finding(int64_t, std::string_view code, std::string_view source,
               std::string_view message) override {
    Add("finding " + std::string(code) + " " + std::string(source) + ": " + std::string(message));
  }
  void End(int64_t t_ns) override { Add("end of log " + std::to_string(t_ns)); }

  const std::string& text() const { return text_; }
  const LogHeader& header() const { return header_; }

 private:
  void Add(const std::string& line) { text_ += line + "\n"; }
  std::string text_;
  LogHeader header_;
};

const std::string kTwoChannels =
    ChannelText("GPU-1", "power_mw", "instant", R"(,"prior_period_ns":100)") + "," +
    ChannelText("GPU-1", "energy_uj", "cumulative", R"(,"wrap_range":99,"slow":true)");

TEST(LogReader, EveryKindOfLine) {
  LogText log(kTwoChannels);
  log.Line(R"({"t":50,"s":0,"r":[[0,1,2,312450],[1,3,4,null,"permission_denied"]]})")
      .Line(R"({"t":60,"s":0,"r":[[0,1,2,9,null,-5]]})")
      .Line(R"({"t":70,"clocks":{"monotonic_ns":1,"realtime_ns":2,"boottime_ns":3}})")
      .Line(R"({"t":80,"begin":"step"})")
      .Line(R"({"t":90,"gauge":"kv_cache_bytes","value":1048576})")
      .Line(R"({"t":95,"gauge":"kv_cache_bytes","value":-1})")
      .Line(R"({"t":96,"finding":"hung","source":"nvml","message":"2 s"})")
      .Line(R"({"t":97,"of the future":[1,{"a":null}]})")
      .Line(R"({"t":99,"end":"step"})")
      .Line(R"({"t":100,"end":{"readers":[{"source":"nvml","reads":3,"missed":1,"hung":true}]}})");
  Calls calls;
  const auto end = ReadPowerLogText(log.text(), "p.jsonl", &calls);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(calls.text(),
            "header node1 train 2\n"
            "readings 0 50 0:1:2:312450 1:3:4:permission_denied\n"
            "readings 0 60 0:1:2:9@-5\n"
            "clocks 3\n"
            "begin step 80\n"
            "channel   kv_cache_bytes gauge \n"
            "readings 1 90 2:0:0:1048576\n"
            "readings 1 95 2:0:0:-1\n"
            "finding hung nvml: 2 s\n"
            "end step 99\n"
            "end of log 100\n");
  EXPECT_TRUE(end->complete);
  EXPECT_EQ(end->damaged_lines, 0u);
  EXPECT_EQ(end->lines, 11u);
  ASSERT_EQ(end->readers.size(), 1u);
  EXPECT_EQ(end->readers[0].missed, 1u);
  EXPECT_TRUE(end->readers[0].hung);
  const PowerInventory& inventory = calls.header().inventory;
  EXPECT_EQ(inventory.channels[0].prior_period_ns, 100);
  EXPECT_EQ(inventory.channels[1].wrap_range, 99);
  EXPECT_TRUE(inventory.channels[1].slow);
  EXPECT_EQ(inventory.absences.at(0).reason, PowerReason::kPermissionDenied);
  EXPECT_TRUE(inventory.devices.at(0).shared);
}

TEST(LogReader, DamagedLinesAreLeftOutWholeAndTheFirstOneIsLocated) {
  const char* const kDamaged[] = {
      "",
      "garbage",
      "{",
      "[]",
      "17",
      "\xff\xfe",
      R"({"s":0,"r":[[0,1,2,3]]})",
      R"({"t":"50","s":0,"r":[[0,1,2,3]]})",
      R"({"t":-1,"begin":"a"})",
      R"({"t":1e3,"begin":"a"})",
      R"({"t":99999999999999999999,"begin":"a"})",
      R"({"t":9223372036854775807,"begin":"a"})",
      R"({"t":50,"s":1,"r":[[0,1,2,3]]})",
      R"({"t":50,"s":-1,"r":[[0,1,2,3]]})",
      R"({"t":50,"r":[[0,1,2,3]]})",
      R"({"t":50,"s":0,"r":7})",
      R"({"t":50,"s":0,"r":[7]})",
      R"({"t":50,"s":0,"r":[[0,1,2]]})",
      R"({"t":50,"s":0,"r":[[0,1,2,3],[2,1,2,3]]})",
      R"({"t":50,"s":0,"r":[[-1,1,2,3]]})",
      R"({"t":50,"s":0,"r":[[0,1,-2,3]]})",
      R"({"t":50,"s":0,"r":[[0,-51,2,3]]})",
      R"({"t":50,"s":0,"r":[[0,1,2,"3"]]})",
      R"({"t":50,"s":0,"r":[[0,1,2,3.5]]})",
      R"({"t":50,"s":0,"r":[[0,1,2,18446744073709551615]]})",
      R"({"t":50,"s":0,"r":[[0,9223372036854775807,9223372036854775807,3]]})",
      R"({"t":50,"s":0,"r":[[0,1,2,3,4]]})",
      R"({"t":50,"begin":5})",
      R"({"t":50,"end":5})",
      R"({"t":50,"gauge":"a"})",
      R"({"t":50,"gauge":"a","value":0.5})",
      R"({"t":50,"clocks":{"monotonic_ns":1}})",
      R"({"t":50,"begin":"a"} {"t":51,"end":"a"})",
      R"({"schema":"xplane-time.power-log.v1","t":1})",
  };
  for (const char* damaged : kDamaged) {
    SCOPED_TRACE(damaged);
    LogText log(kTwoChannels);
    const size_t place = log.text().size();
    log.Line(damaged).Line(R"({"t":60,"begin":"b"})").Line("nothing");
    Calls calls;
    const auto end = ReadPowerLogText(log.text(), "p.jsonl", &calls);
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(calls.text(), "header node1 train 2\nbegin b 60\n");
    EXPECT_EQ(end->damaged_lines, 2u);
    EXPECT_EQ(end->first_damage.find("line 2, byte " + std::to_string(place) + ": "), 0u)
        << end->first_damage;
  }
}

TEST(LogReader, WithoutAHeaderOfThisVersionItSaysSo) {
  struct Case {
    const char* text;
    const char* says;
  };
  const Case kCases[] = {
      {"", "p.jsonl: line 1, byte 0: no header; the log is empty"},
      {"garbage\n", "line 1, byte 0: not the header of a power log: not a JSON object"},
      {"{}\n",
       "schema \"\" is not xplane-time.power-log.v1; expected a log of `xplane-time power record`"},
      {R"({"schema":7})", "schema \"\""},
      {R"({"schema":"xplane-time.power-log.v2"})", "read it with the version"},
      {R"({"schema":"xplane-time.power-log.v1","devices":[7]})", "wrong type"},
      {R"({"schema":"xplane-time.power-log.v1","channels":[{"source":7}]})", "wrong type"},
      {R"({"schema":"xplane-time.power-log.v1","t":"now"})", "wrong type"},
      {"timestamp, index\n", "CSV of nvidia-smi without the column power.draw"},
      {"power.draw [W]\n", "CSV of nvidia-smi without the column timestamp"},
  };
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.text);
    Calls calls;
    const auto end = ReadPowerLogText(each.text, "p.jsonl", &calls);
    EXPECT_TRUE(absl::IsDataLoss(end.status())) << end.status();
    EXPECT_TRUE(Says(end.status(), each.says)) << end.status();
    EXPECT_EQ(calls.text(), "");
  }
}

TEST(LogReader, ALongLineIsSkipped) {
  LogText log(kTwoChannels);
  log.Line(std::string(LogLines::kLongest + 100'000, ' ') + R"({"t":1,"begin":"a"})");
  const size_t after = log.text().size();
  log.Line(R"({"t":2,"begin":"b"})").Line("x");
  Calls calls;
  const auto end = ReadPowerLogText(log.text(), "p.jsonl", &calls);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(calls.text(), "header node1 train 2\nbegin b 2\n");
  EXPECT_EQ(end->damaged_lines, 2u);
  EXPECT_TRUE(end->first_damage.starts_with("line 2, byte ")) << end->first_damage;
  EXPECT_GT(after, LogLines::kLongest);
}

TEST(LogReader, PlainGzipAndCutGzipFiles) {
  const testing::TempDir dir;
  LogText log(kTwoChannels);
  for (int i = 0; i < 1000; ++i) log.Read(i, 0, std::to_string(i * 7919 % 1000));
  Calls memory, plain, gzip, cut;
  ASSERT_TRUE(ReadPowerLogText(log.text(), "p", &memory).ok());
  ASSERT_TRUE(ReadPowerLog(dir.Write("p.jsonl", log.text()), &plain).ok());
  EXPECT_EQ(plain.text(), memory.text());
  const std::string member = testing::GzipText(log.text());
  const auto whole = ReadPowerLog(dir.Write("p.jsonl.gz", member), &gzip);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(gzip.text(), memory.text());
  EXPECT_EQ(whole->cut, "");
  const auto part = ReadPowerLog(dir.Write("cut.gz", member.substr(0, member.size() / 2)), &cut);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->cut, "the gzip stream is truncated");
  EXPECT_TRUE(memory.text().starts_with(cut.text()));
}

// The decompressed part is used, as in a truncated log.
TEST(LogReader, DamagedGzipFiles) {
  const testing::TempDir dir;
  LogText log(kTwoChannels);
  for (int i = 0; i < 3000; ++i) log.Read(i, 0, std::to_string(i * 7919 % 1000));
  Calls memory;
  ASSERT_TRUE(ReadPowerLogText(log.text(), "p", &memory).ok());
  const std::string member = testing::GzipText(log.text());
  for (size_t at = member.size() / 2; at < member.size(); at += 97) {
    std::string damaged = member;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    Calls calls;
    const auto end = ReadPowerLog(dir.Write("p.gz", damaged), &calls);
    ASSERT_TRUE(end.ok()) << at << ": " << end.status();
    EXPECT_NE(end->cut, "") << at;
    EXPECT_GT(calls.text().size(), memory.text().size() / 4) << at;
  }
  std::string damaged = member;
  damaged[member.size() - 6] ^= 1;  // a byte of the checksum
  Calls all;
  const auto end = ReadPowerLog(dir.Write("p.gz", damaged), &all);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->cut, "incorrect data check");
  EXPECT_EQ(all.text(), memory.text());
  // Several members form one stream. Data after the last member is ignored as padding.
  const size_t half = log.text().size() / 2;
  Calls two;
  const auto members = ReadPowerLog(
      dir.Write("p.gz", testing::GzipText(log.text().substr(0, half)) +
                            testing::GzipText(log.text().substr(half)) + std::string(512, '\0')),
      &two);
  ASSERT_TRUE(members.ok());
  EXPECT_EQ(members->cut, "");
  EXPECT_EQ(two.text(), memory.text());
}

// The log is longer than the read-ahead. A reader may also stop after the first line.
TEST(LogReader, LongGzipFiles) {
  const testing::TempDir dir;
  LogText log(kTwoChannels);
  for (int i = 0; i < 60'000; ++i) log.Read(i, 0, std::to_string(i * 7919 % 1000));
  ASSERT_GT(log.text().size(), size_t{2'000'000});
  Calls memory, gzip;
  ASSERT_TRUE(ReadPowerLogText(log.text(), "p", &memory).ok());
  const std::string path = dir.Write("p.jsonl.gz", testing::GzipText(log.text()));
  ASSERT_TRUE(ReadPowerLog(path, &gzip).ok());
  EXPECT_TRUE(gzip.text() == memory.text());
  auto lines = LogLines::Open(path);
  ASSERT_TRUE(lines.ok());
  LogLine first;
  ASSERT_TRUE((*lines)->Next(&first));  // then it is destroyed, although the rest was not read
  EXPECT_EQ(first.text, log.text().substr(0, log.text().find('\n')));
}

TEST(LogReader, FilesThatAreNone) {
  const testing::TempDir dir;
  Calls calls;
  EXPECT_TRUE(absl::IsNotFound(ReadPowerLog(dir.Path("none"), &calls).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadPowerLog(dir.path(), &calls).status()));
  const auto endless = ReadPowerLog("/dev/zero", &calls);
  EXPECT_TRUE(absl::IsInvalidArgument(endless.status()));
  EXPECT_TRUE(Says(endless.status(), "/dev/zero: this is a device")) << endless.status();
}

TEST(LogReader, ALineWithoutEndIsTheEnd) {
  LogText log(kTwoChannels);
  log.Line(R"({"t":1,"begin":"a"})");
  log.Line(std::string(LogLines::kMostSkipped + 2 * LogLines::kLongest, 'x'));
  log.Line(R"({"t":2,"begin":"b"})");
  Calls calls;
  const auto end = ReadPowerLogText(log.text(), "p.jsonl", &calls);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(calls.text(), "header node1 train 2\nbegin a 1\n");
  EXPECT_TRUE(end->cut.find("longer than 64 MiB") != std::string::npos) << end->cut;
}

TEST(LogReader, NothingThatCanBeReadIsAnError) {
  Calls calls;
  LogText log(kTwoChannels);
  const std::string place = "line 2, byte " + std::to_string(log.text().size());
  log.Line("x").Line("y");
  const auto end = ReadPowerLogText(log.text(), "p.jsonl", &calls);
  EXPECT_TRUE(absl::IsDataLoss(end.status()));
  EXPECT_TRUE(Says(end.status(), "p.jsonl: " + place + ": not a JSON object; none of the 3 lines"))
      << end.status();
}

TEST(LogReader, AnEndThatCouldNotBeWrittenIsNone) {
  LogText log(kTwoChannels);
  log.Line(R"({"t":1,"end":{"reason":"cannot_write","message":"No space","dropped":7}})");
  Calls calls;
  const auto end = ReadPowerLogText(log.text(), "p.jsonl", &calls);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_FALSE(end->complete);
  EXPECT_EQ(end->write_error, "No space");
  EXPECT_EQ(end->dropped, 7u);
}

TEST(NvidiaSmi, RowsOfSeveralGpus) {
  const std::string text =
      "timestamp, index, name, power.draw [W], temperature.gpu, memory.used [MiB], pstate\r\n"
      "2025/08/21 10:11:12.345, 0, NVIDIA A100, 71.83 W, 40, 2 MiB, P0\r\n"
      "2025/08/21 10:11:12.346, 1, NVIDIA A100, [N/A], [Not Supported], 3 MiB, P8\r\n"
      "2025/08/21 10:11:13.345, 0, NVIDIA A100, 72, 41, 2, P0\r\n"
      "2025/08/21 10:11:13.345, 0, NVIDIA A100, watts, 41, 2, P0\r\n"
      "2025/08/21 10:11:13.345, 0\r\n"
      "yesterday, 0, NVIDIA A100, 72, 41, 2, P0\r\n"
      "2025/08/21 10:11:14.345, 0, NVIDIA A100, 7";
  Calls calls;
  const auto end = ReadPowerLogText(text, "smi.csv", &calls);
  ASSERT_TRUE(end.ok()) << end.status();
  const std::string t0 = std::to_string(1'755'771'072'345'000'000);
  const std::string t1 = std::to_string(1'755'771'072'346'000'000);
  const std::string t2 = std::to_string(1'755'771'073'345'000'000);
  std::string channels[2];
  for (const int i : {0, 1}) {
    const std::string gpu = "channel gpu:" + std::to_string(i) + " gpu ";
    channels[i] = gpu + "power_mw average NVIDIA A100\n" + gpu +
                  "temperature_mc gauge NVIDIA A100\n" + gpu +
                  "memory_used_bytes gauge NVIDIA A100\n" + gpu + "pstate gauge NVIDIA A100\n";
  }
  EXPECT_EQ(calls.text(),
            "header   0\n" + channels[0] + "readings 0 " + t0 +
                " 0:0:0:71830 1:0:0:40000 2:0:0:2097152 3:0:0:0\n" + channels[1] + "readings 0 " +
                t1 + " 4:0:0:unsupported 5:0:0:unsupported 6:0:0:3145728 7:0:0:8\n" +
                "readings 0 " + t2 + " 0:0:0:72000 1:0:0:41000 2:0:0:2097152 3:0:0:0\n");
  EXPECT_EQ(end->damaged_lines, 3u);
  EXPECT_EQ(end->first_damage.substr(0, 7), "line 5,");
  EXPECT_NE(end->cut, "");
  EXPECT_FALSE(end->complete);
}

// Texts of nvidia-smi for missing values, other units, and invalid dates.
TEST(NvidiaSmi, CellsAndTimes) {
  struct Case {
    const char* time;
    const char* cell;
    const char* reading;  // empty if the line is damaged
  };
  const std::string kTime = "2025/08/21 10:11:12";
  const Case kCases[] = {
      {"", "0.1 kW", "100000"},
      {"", "100 mW", "100"},
      {"", "71.83 W", "71830"},
      {"", "250", "250"},  // the header states milliwatts
      {"", "5 horses", ""},
      {"", "[N/A]", "unsupported"},
      {"", "[GPU requires reset]", "reset_required"},
      {"", "[Insufficient Permissions]", "permission_denied"},
      {"", "[GPU is lost]", "device_lost"},
      {"", "[Unknown Error]", "no_samples"},
      {"2025/13/21 10:11:12", "1 W", ""},
      {"2025/02/29 10:11:12", "1 W", ""},
      {"2025/08/21 24:11:12", "1 W", ""},
      {"2025/08/21 10:60:12", "1 W", ""},
      {"2025/08/21 10:11:61", "1 W", ""},
  };
  for (const Case& each : kCases) {
    SCOPED_TRACE(::testing::Message() << each.time << " " << each.cell);
    const std::string time = *each.time == 0 ? kTime : each.time;
    Calls calls;
    const auto end = ReadPowerLogText(
        "timestamp, power.draw [mW]\n" + time + ", " + each.cell + "\n", "smi.csv", &calls);
    const bool damaged = *each.reading == 0;
    EXPECT_EQ(absl::IsDataLoss(end.status()), damaged) << end.status();
    const std::string reading = std::string(" 0:0:0:") + each.reading + "\n";
    EXPECT_EQ(calls.text().ends_with(reading), !damaged) << calls.text();
  }
}

TEST(NvidiaSmi, AnotherHeader) {
  const std::string first =
      "timestamp, index, power.draw [W], temperature.gpu\n"
      "2025/08/21 10:11:12, 0, 70 W, 40\n";
  const std::string tail = " 0:0:0:80000 1:0:0:41000\n";
  Calls moved;
  auto end = ReadPowerLogText(first +
                                  "temperature.gpu, index, power.draw [kW], name, timestamp\n"
                                  "41, 0, 0.08, A card, 2025/08/21 10:11:13\n",
                              "smi.csv", &moved);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->damaged_lines, 0u) << end->first_damage;
  EXPECT_TRUE(moved.text().ends_with(tail)) << moved.text();
  for (const char* other : {"timestamp, index, power.draw [W]\n2025/08/21 10:11:13, 0, 80 W\n",
                            "timestamp, power.draw [W], temperature.gpu\n"
                            "2025/08/21 10:11:13, 80 W, 41\n"}) {
    Calls calls;
    end = ReadPowerLogText(first + other, "smi.csv", &calls);
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->damaged_lines, 2u);
    EXPECT_TRUE(end->first_damage.starts_with("line 3, ")) << end->first_damage;
    EXPECT_TRUE(calls.text().ends_with(" 0:0:0:70000 1:0:0:40000\n")) << calls.text();
    Calls again;
    end = ReadPowerLogText(first + other + first, "smi.csv", &again);
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->damaged_lines, 2u);
  }
}

TEST(NvidiaSmi, UuidsTellGpus) {
  Calls calls;
  const auto end = ReadPowerLogText(
      "uuid, timestamp, power.draw.instant [W]\nGPU-a, 2025/08/21 10:11:12.5, 70.5\n", "smi.csv",
      &calls);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(calls.text(),
            "header   0\nchannel GPU-a gpu power_mw instant \n"
            "readings 0 1755771072500000000 0:0:0:70500\n");
  EXPECT_TRUE(end->complete);
}

}  // namespace
}  // namespace xplane_time::power
