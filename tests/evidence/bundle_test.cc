#include "evidence/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>

#include "evidence/witness.h"
#include "io/sha256.h"

namespace xplane_time::evidence {
namespace {

using ::testing::HasSubstr;

BundleSpec Small() {
  const std::string head = WitnessLine(std::nullopt, R"({"setting":"a"})");
  return {.kind = "grid",
          .configuration = {{"seed", 7}},
          .result = {{"baseline", "a"}},
          .created_unix_s = 1'700'000'000,
          .provenance = {{"source", {{"revision", nullptr}}}},
          .files = {{"csv/results.csv", "setting,n\na,1\nb,2\n"},
                    {"witness/a.jsonl", head + "\n" + WitnessLine(head, R"({"t_ps":5})") + "\n"}}};
}

std::vector<Problem> ProblemsOf(std::string bytes) {
  return CheckBundle(*BundleOf("b.zip", std::move(bytes)));
}

// Of the i-th file.
size_t OffsetOf(const std::string& bytes, std::string_view content) { return bytes.find(content); }

TEST(Zip, NamesAreOfFilesBelow) {
  for (const char* name : {"a", "csv/results.csv", "witness/l0.3_t2.jsonl", "a=1,b@2+3-4_"}) {
    EXPECT_TRUE(IsSafeName(name)) << name;
  }
  for (const char* name : {"", "/", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".", "a/.",
                           "a\\b", "C:x", "a b", "\xc3\xa4", "a\nb"}) {
    EXPECT_FALSE(IsSafeName(name)) << name;
  }
  EXPECT_FALSE(IsSafeName(std::string(256, 'a')));
}

TEST(Zip, RefusesToWriteWhatItWouldNotRead) {
  EXPECT_TRUE(absl::IsInvalidArgument(WriteZip({{{"../x", ""}}}, "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteZip({{{"a", ""}, {"a", ""}}}, "").status()));
}

TEST(Zip, ReadsWhatItWrote) {
  const std::string bytes = *WriteZip({{{"a", "1"}, {"b/c", ""}}}, "comment");
  const ZipContents zip = ReadZip(bytes);
  EXPECT_TRUE(zip.damage.empty());
  ASSERT_EQ(zip.entries.size(), 2u);
  EXPECT_EQ(zip.entries[0].content, "1");
  EXPECT_EQ(zip.entries[1].name, "b/c");
  EXPECT_EQ(zip.comment, "comment");
  EXPECT_TRUE(ReadZip(*WriteZip({}, "")).damage.empty());
}

TEST(Zip, AChangedByteIsFoundFromTheChecksum) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t at = 0; at < text.size(); ++at) {
    for (const int change : {1, 0x20, 0x80, 0xff}) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const auto places = ChangedBytes(changed, Crc32(text), 8);
      ASSERT_THAT(places, ::testing::Contains(at));
      EXPECT_EQ(WithByteAsItWas(changed, at, Crc32(text)), text);
    }
  }
  EXPECT_TRUE(ChangedBytes(text, Crc32(text), 8).empty());
}

TEST(Bundle, IsSoundAsWritten) {
  const std::string bytes = *BundleBytes(Small());
  EXPECT_THAT(ProblemsOf(bytes), ::testing::IsEmpty());
  EXPECT_EQ(bytes, *BundleBytes(Small())) << "the same inputs give the same bytes";
}

TEST(Bundle, EveryChangeOfEveryByteIsFound) {
  const std::string bytes = *BundleBytes(Small());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {1, 0x20, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ change);
      EXPECT_FALSE(ProblemsOf(changed).empty()) << "byte " << at << " ^ " << change;
    }
  }
}

TEST(Bundle, AChangeOfAFileIsNamedWithItsLine) {
  const BundleSpec spec = Small();
  const std::string bytes = *BundleBytes(spec);
  for (const ZipFile& file : spec.files) {
    const size_t begin = OffsetOf(bytes, file.content);
    for (size_t at = 0; at < file.content.size(); ++at) {
      std::string changed = bytes;
      changed[begin + at] ^= 4;
      const auto problems = ProblemsOf(changed);
      ASSERT_EQ(problems.size(), 1u) << at;
      EXPECT_EQ(problems[0].file, file.name);
      EXPECT_EQ(problems[0].byte, at);
      const auto before = std::count(file.content.begin(), file.content.begin() + at, '\n');
      EXPECT_EQ(problems[0].line, static_cast<uint64_t>(before) + 1);
    }
  }
}

TEST(Bundle, AChangeOfTheManifestIsNamedWithItsLine) {
  const std::string bytes = *BundleBytes(Small());
  const size_t at = bytes.find("1700000000");
  std::string changed = bytes;
  changed[at] = '2';
  const auto problems = ProblemsOf(changed);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].file, "manifest.json");
  EXPECT_THAT(problems[0].what, HasSubstr("was '1' and now is '2'"));
  EXPECT_GT(problems[0].line.value_or(0), 1u);
}

TEST(Bundle, TruncatedAtEveryByteItIsFound) {
  const std::string bytes = *BundleBytes(Small());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ProblemsOf(bytes.substr(0, size)).empty()) << size;
  }
  EXPECT_FALSE(ProblemsOf(bytes + "x").empty());
  EXPECT_FALSE(ProblemsOf("x" + bytes).empty());
}

TEST(Bundle, WhatTheManifestDoesNotNameIsFound) {
  BundleSpec spec = Small();
  const std::string sound = *BundleBytes(spec);
  const auto bundle = BundleOf("b.zip", sound);
  std::vector<ZipFile> files;
  for (const ZipEntry& each : bundle->zip.entries) {
    files.push_back({std::string(each.name), std::string(each.content)});
  }
  const std::string comment(bundle->zip.comment);
  std::vector<ZipFile> more = files, fewer = files;
  more.push_back({"more.txt", "x"});
  fewer.pop_back();
  const auto of_more = ProblemsOf(*WriteZip(more, comment));
  ASSERT_EQ(of_more.size(), 1u);
  EXPECT_EQ(of_more[0].file, "more.txt");
  const auto of_fewer = ProblemsOf(*WriteZip(fewer, comment));
  ASSERT_EQ(of_fewer.size(), 1u);
  EXPECT_EQ(of_fewer[0].file, "witness/a.jsonl");
  files[1].content = "setting,n\na,1\nb,3\n";
  const auto of_other = ProblemsOf(*WriteZip(files, comment));
  ASSERT_EQ(of_other.size(), 1u) << "its checksum agrees, its hash does not";
  EXPECT_EQ(of_other[0].file, "csv/results.csv");
}

TEST(Bundle, HostileArchivesAreRefusedWithoutReadingMore) {
  const std::string bytes = *BundleBytes(Small());
  std::string compressed = bytes, linked = bytes, huge = bytes, named = bytes;
  compressed[8] = 8;  // deflate
  EXPECT_THAT(ProblemsOf(compressed)[0].what, HasSubstr("the header of manifest.json"));
  for (size_t i = 18; i < 22; ++i) huge[i] = '\xff';  // 4 GiB
  EXPECT_THAT(ProblemsOf(huge)[0].what, HasSubstr("is longer than the archive"));
  named.replace(30, 3, "../");
  EXPECT_THAT(ProblemsOf(named)[0].what, HasSubstr("has an invalid name"));
  const size_t directory = bytes.find(std::string("PK\1\2", 4));
  linked[directory + 41] = '\xa1';  // a symbolic link
  EXPECT_THAT(ProblemsOf(linked)[0].what, HasSubstr("directory of the archive was changed"));
}

// As other programs pack: compressed, with an extra field, a folder, and no comment.
std::string PackedByAnother(const std::vector<ZipFile>& files) {
  std::string bytes, directory;
  const auto put = [](std::string* out, int count, uint64_t value) {
    for (int i = 0; i < count; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
  };
  for (const ZipFile& each : files) {
    std::string packed(compressBound(each.content.size()), '\0');
    uLongf size = packed.size();
    compress(reinterpret_cast<Bytef*>(packed.data()), &size,
             reinterpret_cast<const Bytef*>(each.content.data()), each.content.size());
    packed = packed.substr(2, size - 6);  // without zlib's own header and checksum
    std::string fields;
    for (const int value : {20, 0, 8, 0x6000, 0x5a21})
      put(&fields, 2, static_cast<uint64_t>(value));
    put(&fields, 4, Crc32(each.content));
    put(&fields, 4, packed.size());
    put(&fields, 4, each.content.size());
    put(&fields, 2, each.name.size());
    put(&fields, 2, 4);
    directory += std::string("PK\1\2\24\3", 6) + fields + std::string(10, '\0');
    put(&directory, 4, bytes.size());
    directory += each.name + std::string("UT\0\0", 4);
    bytes += std::string("PK\3\4", 4) + fields + each.name + std::string("UT\0\0", 4) + packed;
  }
  std::string end("PK\5\6\0\0\0\0", 8);
  for (int i = 0; i < 2; ++i) put(&end, 2, files.size());
  put(&end, 4, directory.size());
  put(&end, 4, bytes.size());
  put(&end, 2, 0);
  return bytes + directory + end;
}

std::vector<ZipFile> FilesOf(const BundleSpec& spec) {
  const std::string bytes = *BundleBytes(spec);
  std::vector<ZipFile> files = {{"csv/", ""}};
  for (const ZipEntry& each : ReadZip(bytes).entries) {
    files.push_back({std::string(each.name), std::string(each.content)});
  }
  return files;
}

TEST(Bundle, OfAnotherProgramWhatWasChangedIsNamedToo) {
  std::vector<ZipFile> files = FilesOf(Small());
  const auto same = ProblemsOf(PackedByAnother(files));
  ASSERT_EQ(same.size(), 1u);
  EXPECT_THAT(same[0].what, HasSubstr("packed again by another program"));
  files[2].content = "setting,n\na,1\nb,30\n";
  const auto changed = ProblemsOf(PackedByAnother(files));
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[1].file, "csv/results.csv");
  files.erase(files.begin() + 1);  // manifest.json
  EXPECT_THAT(ProblemsOf(PackedByAnother(files)).back().what, HasSubstr("starts with it"));
}

TEST(Bundle, ADamagedOneOfAnotherProgramIsFound) {
  const std::string bytes = PackedByAnother(FilesOf(Small()));
  ASSERT_TRUE(ReadOtherZip(bytes).has_value());
  for (size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_FALSE(ReadOtherZip(bytes.substr(0, at)).has_value()) << at;
    EXPECT_FALSE(ProblemsOf(bytes.substr(0, at)).empty()) << at;
    for (const int change : {1, 0x20, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ change);
      EXPECT_FALSE(ProblemsOf(changed).empty()) << at;
    }
  }
}

TEST(Bundle, AForgedFingerprintIsFound) {
  BundleSpec spec = Small();
  spec.provenance["fingerprint"] = FingerprintOf({{"seed", 8}});
  const auto problems = ProblemsOf(*BundleBytes(spec));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].what, HasSubstr("does not match `configuration`"));
}

}  // namespace
}  // namespace xplane_time::evidence
