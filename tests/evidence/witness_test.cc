#include "evidence/witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "io/sha256.h"
#include "io/whole_file.h"

namespace xplane_time::evidence {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kSamples = {R"({"schema":"s"})", R"({"t_ps":5})", R"({"t_ps":6})",
                                           R"({"t_ps":5})"};

std::string TextOf(const std::vector<std::string>& samples) {
  std::string text, before;
  for (const std::string& each : samples) {
    before =
        WitnessLine(text.empty() ? std::nullopt : std::optional<std::string_view>(before), each);
    text += before + "\n";
  }
  return text;
}

std::string Append(WitnessWriter* writer, const std::vector<std::string>& samples) {
  for (const std::string& each : samples) {
    const absl::Status status = writer->Append(each);
    if (!status.ok()) return std::string(status.message());
  }
  return "";
}

TEST(Witness, ALineHasTheHashesOfTheLineBeforeAndOfItsSample) {
  EXPECT_EQ(WitnessLine(std::nullopt, R"({"a":1})"),
            "{\"previous\":null,\"sample\":{\"a\":1},\"sha256\":\"" + io::Sha256Hex(R"({"a":1})") +
                "\"}");
  EXPECT_THAT(WitnessLine("before", "{}"),
              HasSubstr("{\"previous\":\"" + io::Sha256Hex("before") + "\","));
}

TEST(Witness, ReadsWhatWasWritten) {
  const Witness witness = CheckWitness(TextOf(kSamples));
  EXPECT_FALSE(witness.broken.has_value());
  EXPECT_EQ(witness.samples, kSamples);
  const std::string text = TextOf(kSamples);
  const size_t last = text.rfind('\n', text.size() - 2) + 1;
  EXPECT_EQ(witness.last_sha256, io::Sha256Hex(text.substr(last, text.size() - 1 - last)));
}

TEST(Witness, EveryChangedByteIsFoundInItsLineOrTheNext) {
  const std::string text = TextOf(kSamples);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    const Witness witness = CheckWitness(changed);
    ASSERT_TRUE(witness.broken.has_value()) << at;
    const auto line = static_cast<size_t>(1 + std::count(text.begin(), text.begin() + at, '\n'));
    EXPECT_EQ(witness.broken->line, line) << at;
  }
}

TEST(Witness, TruncatedAtEveryByteItIsAPrefixThatSaysWhereItEnds) {
  const std::string text = TextOf(kSamples);
  for (size_t size = 0; size < text.size(); ++size) {
    const Witness witness = CheckWitness(text.substr(0, size));
    const auto lines = static_cast<size_t>(std::count(text.begin(), text.begin() + size, '\n'));
    EXPECT_EQ(witness.samples.size(), lines);
    const bool is_whole = size > 0 && text[size - 1] == '\n';
    EXPECT_EQ(witness.broken.has_value(), !is_whole) << size;
  }
}

TEST(Witness, LinesLeftOutPutBetweenAndExchangedAreFound) {
  const std::string text = TextOf(kSamples);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  EXPECT_EQ(CheckWitness(lines[0] + lines[2] + lines[3]).broken->line, 2u);
  EXPECT_EQ(CheckWitness(lines[0] + lines[1] + lines[1] + lines[2]).broken->line, 3u);
  EXPECT_EQ(CheckWitness(lines[0] + lines[2] + lines[1]).broken->line, 2u);
  EXPECT_EQ(CheckWitness(lines[1]).broken->line, 1u);
}

TEST(Witness, ReadingNamesFileAndLine) {
  std::string text = TextOf(kSamples);
  text[text.find("t_ps") + 6] = '9';
  const auto read = ReadWitness("witness/a.jsonl", text);
  EXPECT_EQ(read.status().message(),
            "witness/a.jsonl: line 2: its sample does not match its SHA-256");
  EXPECT_TRUE(absl::IsDataLoss(read.status()));
}

TEST(WitnessWriter, GoesOnWhateverByteItWasKilledAt) {
  const std::string text = TextOf(kSamples);
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string path = ::testing::TempDir() + "killed.jsonl";
    std::ofstream(path, std::ios::binary) << text.substr(0, size);
    WitnessWriter writer(path);
    EXPECT_EQ(Append(&writer, kSamples), "") << size;
    EXPECT_TRUE(writer.Finish().ok());
    EXPECT_EQ(io::ReadFile(path), text) << size;
  }
}

TEST(WitnessWriter, RefusesAFileThatHasSomethingElse) {
  const std::string path = ::testing::TempDir() + "changed.jsonl";
  std::string text = TextOf(kSamples);
  text[text.find("t_ps") + 6] = '9';
  std::ofstream(path, std::ios::binary) << text;
  WitnessWriter writer(path);
  EXPECT_THAT(Append(&writer, kSamples),
              HasSubstr("changed.jsonl: line 2: differs from the stored sample"));
  std::ofstream(path, std::ios::binary) << TextOf(kSamples);
  WitnessWriter shorter(path);
  EXPECT_EQ(Append(&shorter, {kSamples[0], kSamples[1]}), "");
  EXPECT_THAT(shorter.Finish().message(), HasSubstr("line 3: an extra line"));
}

TEST(WitnessWriter, SaysWhereItCannotWrite) {
  WitnessWriter writer("no/such/folder.jsonl");
  EXPECT_TRUE(absl::IsNotFound(writer.Append("{}")));
}

}  // namespace
}  // namespace xplane_time::evidence
