#include "output/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "output/text.h"
#include "tests/output/sample_report.h"

namespace xplane_time::output {
namespace {

StatValue Number(uint64_t bits, StatType type = StatType::kUint64) { return {type, bits, {}}; }
StatValue Double(double value) { return {StatType::kDouble, std::bit_cast<uint64_t>(value), {}}; }
StatValue Text(std::string_view text) { return {StatType::kString, 0, text}; }

// Two lines of one plane: an ordinary event, and an aggregated one with an odd name.
std::string TwoEvents(const OutputOptions& options) {
  std::string out;
  EventWriter writer(options, {"correlation_id", "note,s"}, [&](std::string_view text) {
    out.append(text);
    return true;
  });
  const StatValue first[] = {Number(7), {}};
  writer.StartLine({.host = "node-1", .plane = "/device:GPU:0", .line = "Stream #16"});
  writer.Row({.name = "kernel", .start_ps = 123'456, .duration_ps = 789, .stats = first});
  const StatValue second[] = {Number(~uint64_t{0}), Text("a\"b")};
  const std::string odd = OddName();
  writer.StartLine({.plane = "/device:GPU:0", .line = "Stream #17"});
  writer.Row({.name = odd, .duration_ps = 789'000, .occurrences = 5, .stats = second});
  writer.End();
  return out;
}

TEST(EventWriterTest, Csv) {
  EXPECT_EQ(TwoEvents({.format = Format::kCsv}),
            "input,host,plane,line,name,start_ps,duration_ps,occurrences,correlation_id,"
            "\"note,s\"\n"
            "0,node-1,/device:GPU:0,Stream #16,kernel,123456,789,1,7,\n"
            "0,,/device:GPU:0,Stream #17,\"odd\\xff\"\"q\"\",|\n\\x1b[2J<T> µ\",,789000,5,"
            "18446744073709551615,\"a\"\"b\"\n");
}

TEST(EventWriterTest, Json) {
  EXPECT_EQ(TwoEvents({.format = Format::kJson}),
            "{\"schema\":\"xplane-time.events.v1\",\"events\":[\n"
            "{\"input\":0,\"host\":\"node-1\",\"plane\":\"/device:GPU:0\",\"line\":\"Stream #16\","
            "\"name\":\"kernel\",\"start_ps\":123456,\"duration_ps\":789,\"occurrences\":1,"
            "\"stats\":{\"correlation_id\":7,\"note,s\":null}},\n"
            "{\"input\":0,\"host\":null,\"plane\":\"/device:GPU:0\",\"line\":\"Stream #17\","
            "\"name\":\"odd\\\\xff\\\"q\\\",|\\n\\u001b[2J<T> µ\",\"start_ps\":null,"
            "\"duration_ps\":789000,\"occurrences\":5,"
            "\"stats\":{\"correlation_id\":\"18446744073709551615\",\"note,s\":\"a\\\"b\"}}\n]}\n");
}

// A number that is too long takes its room from the name.
TEST(EventWriterTest, TableIsAligned) {
  EXPECT_EQ(
      TwoEvents({.format = Format::kTable, .width = 120}),
      "plane        line        name                                           start ns     "
      "duration ns  corre…n_id      note,s\n"
      "/devi…GPU:0  Stream #16  kernel                                          123.456           "
      "0.789           7           -\n"
      "/devi…GPU:0  Stream #17  odd\\xff\"q\",|\\n\\x1b[2J<T> µ x5               -         "
      "789.000  18446744073709551615         a\"b\n");
}

TEST(EventWriterTest, TableFits80Columns) {
  std::string out;
  EventWriter writer({}, {}, [&](std::string_view text) {
    out.append(text);
    return true;
  });
  const std::string name = LongKernelName();
  writer.StartLine({.plane = "/device:GPU:0", .line = "Stream #16(Compute,Memcpy)"});
  writer.Row({.name = name,
              .start_ps = 97'916'094'777'172,
              .duration_ps = 18'917'688'280'000,
              .stats = {}});
  writer.End();
  for (size_t begin = 0; begin < out.size(); begin = out.find('\n', begin) + 1) {
    EXPECT_EQ(DisplayWidth(out.substr(begin, out.find('\n', begin) - begin)), 80U) << out;
  }
}

// The header, and a row of the second place.
std::vector<std::string> InTwoFiles(int width) {
  std::string out;
  const EventPlace places[] = {{.plane = "/device:GPU:0", .line = "Stream #16(Kernel)"},
                               {.input = 1, .plane = "/device:GPU:0", .line = "Stream #1"}};
  const auto sink = [&](std::string_view text) {
    out.append(text);
    return true;
  };
  EventWriter writer({.width = width}, {}, sink, places);
  writer.StartLine(places[1]);
  writer.Row({.name = "a_kernel_with_a_name", .start_ps = 5'000, .duration_ps = 789});
  writer.End();
  return absl::StrSplit(out, '\n', absl::SkipEmpty());
}

TEST(EventWriterTest, FilesAreToldApartAtAnyWidth) {
  for (const int width : {60, 80, 100, 120, 160}) {
    const std::vector<std::string> lines = InTwoFiles(width);
    EXPECT_THAT(lines[1], ::testing::ContainsRegex("^/dev.*#2  "));
    for (const std::string& line : lines) {
      EXPECT_EQ(DisplayWidth(line), static_cast<size_t>(width)) << line;
    }
  }
}

TEST(EventWriterTest, NoPlaceIsShortenedWhereThereIsRoom) {
  EXPECT_THAT(InTwoFiles(120)[1],
              ::testing::StartsWith("/device:GPU:0 #2  Stream #1           a_k"));
  EXPECT_THAT(InTwoFiles(80)[1], ::testing::StartsWith("/devi…:0 #2  Stream #1   a_kernel"));
}

TEST(EventWriterTest, EmptyDocuments) {
  for (const Format format : {Format::kJson, Format::kCsv}) {
    std::string out;
    EventWriter writer({.format = format}, {}, [&](std::string_view text) {
      out.append(text);
      return true;
    });
    EXPECT_TRUE(writer.End());
    EXPECT_EQ(out, format == Format::kJson
                       ? "{\"schema\":\"xplane-time.events.v1\",\"events\":[]}\n"
                       : "input,host,plane,line,name,start_ps,duration_ps,occurrences\n");
  }
}

TEST(EventWriterTest, NumbersOfJson) {
  const auto json = [](const StatValue& value) {
    std::string out;
    EventWriter writer({.format = Format::kJson}, {"x"}, [&](std::string_view text) {
      out.append(text);
      return true;
    });
    writer.Row({.stats = {&value, 1}});
    writer.End();
    return nlohmann::json::parse(out)["events"][0]["stats"]["x"].dump();
  };
  const auto int64 = [](int64_t value) {
    return Number(static_cast<uint64_t>(value), StatType::kInt64);
  };
  EXPECT_EQ(json(Number(uint64_t{1} << 53)), "9007199254740992");
  EXPECT_EQ(json(Number((uint64_t{1} << 53) + 1)), "\"9007199254740993\"");
  EXPECT_EQ(json(int64(-5)), "-5");
  EXPECT_EQ(json(int64(std::numeric_limits<int64_t>::min())), "\"-9223372036854775808\"");
  EXPECT_EQ(json(Double(5)), "5.0");
  EXPECT_EQ(json(Double(0.1)), "0.1");
  EXPECT_EQ(json(Double(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(json({}), "null");
  EXPECT_EQ(json({StatType::kCompressedString, 0, "12345"}), "\"(5 compressed bytes)\"");
}

// Every byte, at every place of a word: the fast look at names misses nothing.
TEST(EventWriterTest, EveryByteInANameReadsBack) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t place = 0; place < 10; ++place) {
      std::string name = "abcdefghij";
      name[place] = static_cast<char>(byte);
      std::string out;
      EventWriter writer({.format = Format::kJson}, {}, [&](std::string_view text) {
        out.append(text);
        return true;
      });
      writer.Row({.name = name});
      writer.End();
      const auto json = nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
      ASSERT_FALSE(json.is_discarded()) << out;
      EXPECT_EQ(json["events"][0]["name"].get<std::string>(), JsonUtf8(name));
    }
  }
}

TEST(EventWriterTest, StopsWhenTheSinkRefuses) {
  size_t calls = 0;
  EventWriter writer({.format = Format::kCsv}, {}, [&](std::string_view) {
    ++calls;
    return false;
  });
  bool goes_on = true;
  for (int i = 0; i < 100'000 && goes_on; ++i) goes_on = writer.Row({.name = "kernel"});
  EXPECT_FALSE(goes_on);
  EXPECT_FALSE(writer.End());
  EXPECT_EQ(calls, 1U);
}

}  // namespace
}  // namespace xplane_time::output
