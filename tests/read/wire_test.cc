#include "read/wire.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "read/wide_varint.h"
#include "tests/read/raw_message.h"

namespace xplane_time {
namespace {

using testing::NestedGroups;
using testing::RawMessage;
using testing::VarintBytes;

constexpr uint64_t kAt = 1000;  // offset of the bytes in the file

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

// Reads fields until the end or until damage.
bool SkipAll(WireCursor* cursor) {
  while (!cursor->done()) {
    WireField field;
    if (!cursor->ReadField(&field)) return false;
  }
  return true;
}

TEST(WireVarint, ValuesOfEveryLength) {
  for (size_t length = 1; length <= 10; ++length) {
    const uint64_t largest = length == 10 ? ~uint64_t{0} : (uint64_t{1} << (7 * length)) - 1;
    const std::string bytes = VarintBytes(largest);
    ASSERT_EQ(bytes.size(), length);
    WireCursor cursor(bytes, kAt);
    uint64_t value = 0;
    ASSERT_TRUE(cursor.ReadVarint(&value)) << length;
    EXPECT_EQ(value, largest);
    EXPECT_TRUE(cursor.done());
  }
}

TEST(WireVarint, PaddedIsTheSameValue) {
  for (size_t length = 1; length <= 10; ++length) {
    const std::string bytes = VarintBytes(5, length);
    WireCursor cursor(bytes, kAt);
    uint64_t value = 0;
    ASSERT_TRUE(cursor.ReadVarint(&value)) << length;
    EXPECT_EQ(value, 5u);
    EXPECT_EQ(cursor.offset(), kAt + length);
  }
}

// Compares the wide readers with the cursor, with random bytes after the number.
template <typename How>
void ExpectWideReadsAgree() {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    const size_t length = 1 + random() % 11;
    for (size_t i = 0; i < length; ++i) {
      const auto low = static_cast<int>(random() & 0x7f);
      bytes += static_cast<char>(i + 1 < length ? 0x80 | low : low);
    }
    for (int i = 0; i < 16; ++i) bytes += static_cast<char>(random());
    WireCursor cursor(bytes, 0);
    uint64_t expected = 0, value = 0;
    const bool ok = cursor.ReadVarint(&expected);
    const char* at = bytes.data();
    ASSERT_EQ(ReadWideVarint<How>(&at, &value), ok) << length;
    if (!ok) continue;
    ASSERT_EQ(value, expected) << length;
    ASSERT_EQ(at - bytes.data(), static_cast<ptrdiff_t>(length));
  }
}

TEST(WideVarint, ByShifts) { ExpectWideReadsAgree<GatherByShifts>(); }

TEST(WideVarint, ByPext) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("bmi2")) GTEST_SKIP() << "no BMI2 here";
  ExpectWideReadsAgree<GatherByPext>();
#else
  GTEST_SKIP() << "no BMI2 here";
#endif
}

TEST(WireVarint, ElevenBytesAreRefused) {
  const std::string bytes = VarintBytes(5, 11);
  WireCursor cursor(bytes, kAt);
  uint64_t value = 0;
  EXPECT_FALSE(cursor.ReadVarint(&value));
  EXPECT_STREQ(cursor.error(), "a number of more than 10 bytes");
  EXPECT_EQ(cursor.offset(), kAt);
}

TEST(WireVarint, TheTenthByteHasRoomForOneBit) {
  const std::string bytes = std::string(9, '\x80') + '\x7f';
  WireCursor cursor(bytes, kAt);
  uint64_t value = 0;
  ASSERT_TRUE(cursor.ReadVarint(&value));
  EXPECT_EQ(value, uint64_t{1} << 63);
}

TEST(WireVarint, CutShortAtEveryByte) {
  const std::string whole = VarintBytes(~uint64_t{0});
  for (size_t length = 0; length < whole.size(); ++length) {
    WireCursor cursor(std::string_view(whole).substr(0, length), kAt);
    uint64_t value = 0;
    EXPECT_FALSE(cursor.ReadVarint(&value)) << length;
    EXPECT_STREQ(cursor.error(), "a truncated number");
    EXPECT_EQ(cursor.offset(), kAt);
  }
}

TEST(WireVarint, SignedIsTwosComplement) {
  const std::string bytes = VarintBytes(static_cast<uint64_t>(int64_t{-3}));
  EXPECT_EQ(bytes.size(), 10u);
  WireCursor cursor(bytes, kAt);
  WireField field = {.number = 1, .type = WireType::kVarint};
  ASSERT_TRUE(cursor.ReadValue(&field));
  EXPECT_EQ(field.whole(), -3);
}

struct TagCase {
  const char* name;
  std::string bytes;
  bool accepted;
  uint32_t field;  // if accepted
};

TEST(WireTag, Cases) {
  const TagCase cases[] = {
      {"field 1", Bytes({0x08}), true, 1},
      {"two bytes", Bytes({0x80, 0x01}), true, 16},
      {"the largest field", VarintBytes((uint64_t{1} << 32) - 8), true, (1u << 29) - 1},
      {"five bytes, padded", VarintBytes(8, 5), true, 1},
      {"bits past 32 are dropped", Bytes({0x88, 0x80, 0x80, 0x80, 0x10}), true, 1},
      {"six bytes", VarintBytes(8, 6), false, 0},
      {"tag 0", Bytes({0x00}), false, 0},
      {"field 0 of another type", Bytes({0x02}), false, 0},
      {"field 0 once the bits past 32 are dropped", Bytes({0x80, 0x80, 0x80, 0x80, 0x10}), false,
       0},
      {"wire type 6", Bytes({0x0e}), false, 0},
      {"wire type 7", Bytes({0x0f}), false, 0},
      {"nothing", "", false, 0},
      {"cut short", Bytes({0x80}), false, 0},
  };
  for (const TagCase& c : cases) {
    SCOPED_TRACE(c.name);
    WireCursor cursor(c.bytes, kAt);
    uint32_t field = 0;
    WireType type;
    EXPECT_EQ(cursor.ReadTag(&field, &type), c.accepted);
    if (c.accepted) {
      EXPECT_EQ(field, c.field);
    } else {
      EXPECT_NE(cursor.error(), nullptr);
      EXPECT_EQ(cursor.offset(), kAt);
    }
  }
}

struct BytesCase {
  const char* name;
  std::string bytes;
  const char* error;  // nullptr: accepted
};

TEST(WireBytes, Cases) {
  const BytesCase cases[] = {
      {"empty", Bytes({0}), nullptr},
      {"to the very end", Bytes({2, 'a', 'b'}), nullptr},
      {"five bytes of length", VarintBytes(1, 5) + "a", nullptr},
      {"six bytes of length", VarintBytes(1, 6) + "a", "a length of more than 5 bytes"},
      {"one past the end", Bytes({3, 'a', 'b'}), "a length that reaches past the end"},
      {"2^31", VarintBytes(uint64_t{1} << 31) + "a", "a length that reaches past the end"},
      {"2^63", VarintBytes(uint64_t{1} << 63) + "a", "a length of more than 5 bytes"},
      {"all bits", VarintBytes(~uint64_t{0}) + "a", "a length of more than 5 bytes"},
      {"a length cut short", Bytes({0x80}), "a truncated number"},
  };
  for (const BytesCase& c : cases) {
    SCOPED_TRACE(c.name);
    WireCursor cursor(c.bytes, kAt);
    std::string_view value;
    EXPECT_EQ(cursor.ReadBytes(&value), c.error == nullptr);
    EXPECT_STREQ(cursor.error(), c.error);
    if (c.error != nullptr) {
      EXPECT_EQ(cursor.offset(), kAt);
    }
  }
}

TEST(WireBytes, TellsWhereTheValueBegins) {
  const std::string bytes = VarintBytes(2, 3) + "ab";
  WireCursor cursor(bytes, kAt);
  std::string_view value;
  uint64_t at = 0;
  ASSERT_TRUE(cursor.ReadBytes(&value, &at));
  EXPECT_EQ(value, "ab");
  EXPECT_EQ(at, kAt + 3);
  EXPECT_TRUE(cursor.done());
}

TEST(WireFixed, CutShortAtEveryByte) {
  const std::string wide = RawMessage().Fixed64(1, 42).bytes();
  const std::string narrow = RawMessage().Fixed32(1, 42).bytes();
  for (const std::string& whole : {wide, narrow}) {
    for (size_t length = 1; length <= whole.size(); ++length) {
      WireCursor cursor(std::string_view(whole).substr(0, length), kAt);
      EXPECT_EQ(SkipAll(&cursor), length == whole.size()) << length;
      if (length == whole.size()) continue;
      EXPECT_STREQ(cursor.error(), "a truncated value");
      EXPECT_EQ(cursor.offset(), kAt + 1);
    }
  }
}

TEST(WireGroup, OneHundredNestedAndNoMore) {
  const std::string most = NestedGroups(100).bytes(), more = NestedGroups(101).bytes();
  WireCursor fits(most, kAt);
  EXPECT_TRUE(SkipAll(&fits));
  WireCursor too_deep(more, kAt);
  EXPECT_FALSE(SkipAll(&too_deep));
  EXPECT_STREQ(too_deep.error(), "more than 100 nested groups");
}

TEST(WireGroup, MessagesAroundCount) {
  for (size_t depth = 0; depth <= 4; ++depth) {
    const std::string most = NestedGroups(100 - static_cast<int>(depth)).bytes();
    const std::string more = NestedGroups(101 - static_cast<int>(depth)).bytes();
    WireCursor fits(most, kAt, depth), too_deep(more, kAt, depth);
    EXPECT_TRUE(SkipAll(&fits)) << depth;
    EXPECT_FALSE(SkipAll(&too_deep)) << depth;
  }
}

TEST(WireGroup, Cases) {
  const auto group = [] { return RawMessage().StartGroup(7); };
  const BytesCase cases[] = {
      {"empty", group().EndGroup(7).bytes(), nullptr},
      {"with every type",
       group()
           .Varint(1, 300)
           .Fixed64(2, 1)
           .Fixed32(3, 1)
           .Bytes(4, "x")
           .StartGroup(5)
           .EndGroup(5)
           .EndGroup(7)
           .bytes(),
       nullptr},
      {"two in a row", group().EndGroup(7).StartGroup(8).EndGroup(8).bytes(), nullptr},
      {"mismatched end", group().EndGroup(8).bytes(), "a group end with another number"},
      {"crossed ends", group().StartGroup(8).EndGroup(7).EndGroup(8).bytes(),
       "a group end with another number"},
      {"an end alone", RawMessage().EndGroup(7).bytes(), "a group end without its start"},
      {"never ends", group().Varint(1, 1).bytes(), "a truncated number"},
      {"tag 0 inside", group().Raw(Bytes({0})).EndGroup(7).bytes(), "a field number of 0"},
      {"a length past the end inside", group().Raw(Bytes({0x0a, 9})).EndGroup(7).bytes(),
       "a length that reaches past the end"},
  };
  for (const BytesCase& c : cases) {
    SCOPED_TRACE(c.name);
    WireCursor cursor(c.bytes, kAt);
    EXPECT_EQ(SkipAll(&cursor), c.error == nullptr);
    EXPECT_STREQ(cursor.error(), c.error);
  }
}

}  // namespace
}  // namespace xplane_time
