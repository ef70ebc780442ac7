#include "scratch_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>

namespace xplane_time {
namespace {

// Below and far above what is written at once.
constexpr size_t kMemory = 1000;
constexpr size_t kSizes[] = {0, 1, 999, 1000, 1001, 5000, size_t{3} << 20};

std::string RandomBytes(size_t size, std::mt19937_64* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

// Appends the bytes in pieces, and compares parts and all of what is there.
void CheckReadsBack(const std::string& bytes, std::mt19937_64* random) {
  ScratchLog log(kMemory);
  for (size_t at = 0; at < bytes.size();) {
    const size_t size =
        std::min<size_t>(bytes.size() - at, 1 + (*random)() % (1 + bytes.size() / 3));
    log.Append(std::string_view(bytes).substr(at, size));
    at += size;
  }
  ASSERT_EQ(log.size(), bytes.size());
  ScratchLog parts(kMemory);
  std::string expected;
  for (int part = 0; part < 5; ++part) {
    const size_t from = (*random)() % (bytes.size() + 1),
                 size = (*random)() % (bytes.size() - from + 1);
    ASSERT_TRUE(log.CopyTo(from, size, &parts));
    expected += bytes.substr(from, size);
  }
  const ScratchLog::View of_parts = parts.Take(), all = log.Take();
  ASSERT_NE(of_parts.owner, nullptr);
  ASSERT_NE(all.owner, nullptr);
  EXPECT_TRUE(of_parts.bytes == expected);
  EXPECT_TRUE(all.bytes == bytes);
  EXPECT_EQ(log.size(), 0u);
}

TEST(ScratchLogTest, ReadsBackWhatWasAppended) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 5; ++trial) {
    for (const size_t size : kSizes) CheckReadsBack(RandomBytes(size, &random), &random);
  }
}

TEST(ScratchLogTest, IsInAFileBeyondItsMemory) {
  ScratchLog log(kMemory);
  log.Append(std::string(kMemory, 'a'));
  EXPECT_FALSE(log.in_file());
  log.Append("b");
  EXPECT_TRUE(log.in_file());
}

TEST(ScratchLogTest, StaysInMemoryWithoutAFolder) {
  const char* const before = std::getenv("TMPDIR");
  const std::string tmpdir = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nowhere", 1);
  std::mt19937_64 random(5);
  for (const size_t size : kSizes) CheckReadsBack(RandomBytes(size, &random), &random);
  ScratchLog log(kMemory);
  log.Append(std::string(5 * kMemory, 'a'));
  EXPECT_FALSE(log.in_file());
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", tmpdir.c_str(), 1);
  }
}

// As on a full disk: the file takes a part, and no more.
TEST(ScratchLogTest, ReturnsToMemoryWhereTheFileHasNoMoreRoom) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit little = before;
  little.rlim_cur = 2'000'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 5; ++trial) {
    CheckReadsBack(RandomBytes(size_t{5} << 20, &random), &random);
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace xplane_time
