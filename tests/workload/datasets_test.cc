// Data sets, read: what a row is, what is refused and where, damage at every byte.
#include "workload/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/read/temp_dir.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<RunRecord>> Read(const std::string& name, const std::string& text,
                                              const DatasetOptions& options = {}) {
    return ReadPath(folder_.Write(name, text), options);
  }
  static absl::StatusOr<std::vector<RunRecord>> ReadPath(const std::string& path,
                                                         const DatasetOptions& options = {}) {
    auto source = OpenDataset(path, options);
    if (!source.ok()) return source.status();
    std::vector<RunRecord> records;
    for (;;) {
      auto record = (*source)->Next();
      if (!record.ok()) return record.status();
      if (!record->has_value()) break;
      records.push_back(**record);
    }
    EXPECT_EQ(records.size(), (*source)->size());
    return records;
  }
  std::string ErrorOf(const std::string& name, const std::string& text,
                      const DatasetOptions& options = {}) {
    const auto records = Read(name, text, options);
    return records.ok() ? "OK" : std::string(records.status().message());
  }
  static std::vector<std::string> Problems(const std::vector<RunRecord>& records) {
    std::vector<std::string> problems;
    for (const RunRecord& each : records) problems.push_back(each.problem);
    return problems;
  }

  const testing::TempDir folder_;
};

TEST_F(DatasetTest, CsvIsThatOfRfc4180) {
  const auto records = Read("a.csv",
                            "\xef\xbb\xbfproblem,answer,level\r\n"
                            "1 + 1,2,easy\r\n"
                            "\r\n"
                            "\"a, \"\"b\"\"\nand more\",\"\",\r\n"
                            "last,\"x\",\"\n\"");
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(Problems(*records), ElementsAre("1 + 1", "a, \"b\"\nand more", "last"));
  EXPECT_EQ((*records)[0].answer, "2");
  EXPECT_EQ((*records)[0].dataset_metadata_json, R"({"level":"easy"})");
  EXPECT_EQ((*records)[1].answer, "");
  EXPECT_EQ((*records)[2].dataset_metadata_json, R"({"level":"\n"})");
  EXPECT_EQ((*records)[2].index, 2u);
}

TEST_F(DatasetTest, CsvThatIsNoneIsRefusedWithItsLine) {
  const std::string header = "problem,answer\n\"two\nlines\",1\n";
  for (const auto& [rest, message] : std::vector<std::pair<std::string, const char*>>{
           {"a\n", "line 4: it has 1 cells, but the header has 2"},
           {"a,b,c\n", "line 4: it has 3 cells, but the header has 2"},
           {"\n\na,\"b\n\n", "line 6: unterminated quote"},
           {"a,b\"c\n\"\n", "line 4: a quote in a cell that does not start with one"},
           {"\"a\" ,b\n", "line 4: more of a cell after its closing quote"},
           {"\xff,b\n", "line 4: it is not UTF-8"}}) {
    EXPECT_THAT(ErrorOf("a.csv", header + rest), HasSubstr(message)) << rest;
  }
  EXPECT_THAT(ErrorOf("a.csv", "problem,problem\na,b\n"),
              HasSubstr("two columns are named \"problem\""));
  EXPECT_THAT(ErrorOf("a.csv", "problem,answer\n"), HasSubstr("no record"));
  EXPECT_THAT(ErrorOf("a.csv", "problem,dataset_metadata\na,{\n"), HasSubstr("a JSON object"));
  EXPECT_THAT(ErrorOf("a.csv", "problem,dataset_metadata\na,3\n"), HasSubstr("an object"));
}

TEST_F(DatasetTest, CsvCutAtAnyByteIsRecordsOrAnErrorWithALine) {
  const std::string text =
      "problem,answer,dataset_metadata\r\n\"a\r\n\"\"\",1,\r\nb,2,\"{\"\"k\"\": 1}\"\r\n";
  ASSERT_EQ(Read("a.csv", text)->size(), 2u);
  for (size_t size = 0; size < text.size(); ++size) {
    const auto records = Read("a.csv", text.substr(0, size));
    if (records.ok()) {
      EXPECT_LE(records->size(), 2u) << size;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(records.status())) << size << records.status();
    }
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char damage : {'\0', '"', ',', '\n', '\xff'}) {
      std::string damaged = text;
      damaged[at] = damage;
      const auto records = Read("a.csv", damaged);
      EXPECT_TRUE(records.ok() || absl::IsDataLoss(records.status())) << records.status();
    }
  }
}

TEST_F(DatasetTest, JsonLinesCutAtAnyByteAreRecordsOrAnErrorWithALine) {
  const std::string text =
      "{\"problem\":\"a\\u00e9\",\"answer\":4}\n{\"problem\":\"b\",\"x\":[1]}\n";
  for (size_t size = 0; size < text.size(); ++size) {
    const auto records = Read("a.jsonl", text.substr(0, size));
    if (records.ok()) {
      EXPECT_EQ((*records)[0].answer, "4");
    } else {
      EXPECT_TRUE(absl::IsDataLoss(records.status())) << size << records.status();
    }
  }
}

TEST_F(DatasetTest, FieldsOfOtherNames) {
  const DatasetOptions options = {.problem_field = "question", .answer_field = "label"};
  const auto records =
      Read("a.jsonl", "{\"question\":\"q\",\"label\":true,\"problem\":\"other\"}\n", options);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ((*records)[0].problem, "q");
  EXPECT_EQ((*records)[0].answer, "true");
  EXPECT_EQ((*records)[0].dataset_metadata_json, R"({"problem":"other"})");
}

TEST_F(DatasetTest, AMissingFieldIsNamedWithThoseThatThereAre) {
  EXPECT_THAT(ErrorOf("a.jsonl", "{\"problem\":\"p\"}\n\n{\"question\":\"q\",\"label\":1}\n"),
              HasSubstr("line 3: problem: must be present; fields: question, label "
                        "(--problem-field NAME)"));
  EXPECT_THAT(ErrorOf("a.csv", "id,text\n1,t\n", {.problem_field = "txt"}),
              HasSubstr("line 2: txt: must be present; fields: id, text (--problem-field NAME)"));
  EXPECT_THAT(ErrorOf("a.jsonl", "{\"problem\":null}\n"),
              HasSubstr("line 1: problem: must be a string, not null"));
  EXPECT_THAT(ErrorOf("a.csv", "id,problem\n1,t\n", {.answer_field = "label"}),
              HasSubstr("label: must be present; fields: id, problem (--answer-field NAME)"));
}

TEST_F(DatasetTest, AShuffledOrderIsTheSeedsAndKeepsTheIndex) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "{\"problem\":\"" + std::to_string(i) + "\"}\n";
  const auto once = Read("a.jsonl", text, {.shuffle_seed = 7});
  const auto again = Read("b.jsonl", text, {.shuffle_seed = 7});
  const auto other = Read("a.jsonl", text, {.shuffle_seed = 8});
  ASSERT_TRUE(once.ok() && again.ok() && other.ok());
  EXPECT_EQ(Problems(*once), Problems(*again));
  EXPECT_NE(Problems(*once), Problems(*other));
  // The same on each machine.
  EXPECT_THAT(std::vector(once->begin(), once->begin() + 3),
              ElementsAre(::testing::Field(&RunRecord::index, 67u),
                          ::testing::Field(&RunRecord::index, 99u),
                          ::testing::Field(&RunRecord::index, 57u)));
  std::set<uint64_t> indices;
  for (const RunRecord& each : *once) {
    EXPECT_EQ(each.problem, std::to_string(each.index));
    indices.insert(each.index);
  }
  EXPECT_EQ(indices.size(), 100u);
}

TEST_F(DatasetTest, AFormatIsToldByItsBytesThenItsSuffix) {
  EXPECT_TRUE(Read("no_suffix", "\n {\"problem\":\"p\"}\n").ok());
  EXPECT_TRUE(Read("a.csv", "problem\n{}\n").ok());
  EXPECT_TRUE(Read("csv_of_another_name", "problem\np\n", {.format = "csv"}).ok());
  EXPECT_THAT(ErrorOf("a.jsonl", "\x1f\x8b\x08"),
              HasSubstr("is compressed with gzip; decompress it with gunzip first"));
  EXPECT_THAT(ErrorOf("a.csv", std::string("\xff\xfep\0", 4)), HasSubstr("is UTF-16"));
  EXPECT_THAT(ErrorOf("a.json", "[{\"problem\":\"p\"}]"), HasSubstr("jq -c"));
  EXPECT_THAT(ErrorOf("a.txt", "problem\np\n"), HasSubstr("formats: jsonl, csv, parquet, hf"));
  EXPECT_THAT(ErrorOf("empty", ""), HasSubstr("has an unknown format"));
  EXPECT_TRUE(absl::IsInvalidArgument(Read("a.csv", "p", {.format = "xml"}).status()));
  EXPECT_TRUE(absl::IsDataLoss(ReadPath(folder_.Path("")).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadPath(folder_.Path("nothing")).status()));
}

TEST_F(DatasetTest, WhatMayNeverEndIsNoDataset) {
  ASSERT_EQ(mkfifo(folder_.Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), folder_.Path("pipe")}) {
    EXPECT_TRUE(absl::IsUnavailable(ReadPath(path).status()));
  }
}

TEST_F(DatasetTest, ALineOfThirtyMebibytesIsRefusedAsItIsRead) {
  const std::string spaces(size_t{30} << 20, ' ');
  EXPECT_THAT(ErrorOf("a.jsonl", "\n" + spaces + "{}\n"), HasSubstr("line 2: the line is longer"));
  EXPECT_THAT(ErrorOf("a.csv", "a\n\"" + std::string(size_t{17} << 20, '\n')),
              HasSubstr("line 2: the line is longer"));
}

TEST_F(DatasetTest, RowsAreReadAcrossChunksByTheirPlaces) {
  std::string text = "problem\n";
  const auto problem = [](size_t i) {
    return std::string(100'000, static_cast<char>('a' + i % 26)) + "\n";
  };
  for (size_t i = 0; i < 40; ++i) text += "\"" + problem(i) + "\"\n";
  const auto records = Read("a.csv", text);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ((*records)[i].problem, problem(i));
}

TEST_F(DatasetTest, AFileThatIsWrittenToMeanwhileIsNoticed) {
  const std::string path = folder_.Write("a.jsonl", "{\"problem\":\"a\"}\n{\"problem\":\"b\"}\n");
  auto source = OpenDataset(path, {});
  ASSERT_TRUE(source.ok());
  ASSERT_TRUE((*source)->Next().ok());
  std::ofstream(path, std::ios::app) << "{\"problem\":\"c\"}\n";
  EXPECT_THAT((*source)->Next().status().message(), HasSubstr("the file changed"));
}

// A program in Python's place.
class ByPythonTest : public DatasetTest {
 protected:
  absl::StatusOr<std::vector<RunRecord>> ReadBy(const std::string& script) {
    const std::string program = folder_.Write("python", "#!/bin/sh\n" + script);
    chmod(program.c_str(), 0700);
    return Read("a.parquet", "PAR1", {.python = program});
  }
};

TEST_F(ByPythonTest, ItsLinesAreTheRecords) {
  const auto records = ReadBy("echo '{\"problem\":\"'$4'\"}'");
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ((*records)[0].problem, folder_.Path("a.parquet"));
}

TEST_F(ByPythonTest, WhatEndsItIsTold) {
  EXPECT_THAT(
      ReadBy("echo first >&2; echo no pyarrow >&2; exit 69").status().message(),
      HasSubstr("a.parquet: no pyarrow; Parquet and Hugging Face folders require Python 3.11 or newer with xplane-time and pyarrow"));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadBy("exit 1").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadBy("kill -9 $$").status()));
  EXPECT_TRUE(absl::IsDataLoss(ReadBy("echo damaged >&2; exit 65").status()));
  EXPECT_TRUE(absl::IsDataLoss(ReadBy("echo no JSON").status()));
  const auto absent = Read("a.parquet", "PAR1", {.python = folder_.Path("no_python")});
  EXPECT_TRUE(absl::IsFailedPrecondition(absent.status()));
  EXPECT_THAT(absent.status().message(), HasSubstr("XPLANE_TIME_PYTHON"));
}

}  // namespace
}  // namespace xplane_time
