// The cursor accepts what simdjson accepts, and of what JSON forbids no more than it says.
#include "json/json_cursor.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>
#include <vector>

#include "tests/support/random.h"

namespace xplane_time::json {
namespace {

struct Outcome {
  bool ok = false, irregular = false, ran_out = false;
  uint64_t offset = 0;
};

Outcome Read(std::string_view json, bool careful = false) {
  JsonCursor cursor(json);
  cursor.set_careful(careful);
  JsonValue value;
  Outcome outcome;
  outcome.ok = cursor.ReadValue(&value) && cursor.ReadEnd();
  outcome.irregular = cursor.irregular() || (cursor.any_not_ascii() && !IsUtf8(json));
  outcome.ran_out = cursor.ran_out();
  outcome.offset = cursor.offset();
  return outcome;
}

std::string FirstText(std::string_view json, bool careful = false) {
  JsonCursor cursor(json);
  cursor.set_careful(careful);
  JsonValue value;
  EXPECT_TRUE(cursor.ReadValue(&value)) << json;
  EXPECT_EQ(value.type, JsonType::kText);
  return Unescaped(value.raw);
}

TEST(JsonCursor, AcceptsWhatSimdjsonAccepts) {
  testing::Random random(2);
  simdjson::dom::parser parser;
  int accepted = 0;
  constexpr std::string_view kPieces[] = {
      "{",           "}",      "[",     "]",
      ",",           ":",      "\"a\"", "\"\\u00e9\\n\"",
      "\"\\\\\"",    "-1.5e3", "0",     " ",
      "\n",          "true",   "null",  "\"long text of more than sixteen bytes\"",
      "\"\xc3\xa9\""};
  for (int i = 0; i < 300'000; ++i) {
    std::string json = random.OneIn(2) ? "[" : "{\"k\":";
    for (int64_t pieces = random.Below(8); pieces > 0; --pieces) {
      json += kPieces[static_cast<size_t>(random.Below(std::size(kPieces)))];
    }
    json += json[0] == '[' ? "]" : "}";
    simdjson::dom::element ignored;
    if (parser.parse(json).get(ignored) != simdjson::SUCCESS) continue;
    ++accepted;
    const Outcome outcome = Read(json);
    EXPECT_TRUE(outcome.ok && !outcome.irregular) << json;
    EXPECT_TRUE(Read(json, /*careful=*/true).ok) << json;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(JsonCursor, ReadsWhatJsonForbidsAndSaysSo) {
  for (const std::string_view json :
       {"[NaN]", "[-Infinity, Infinity]", "[\"tab\t\"]",
        "[\"a long text with a line feed\n in it\"]", "[\"\xff\"]", "[\"\xed\xa0\x80\"]"}) {
    const Outcome outcome = Read(json);
    EXPECT_TRUE(outcome.ok && outcome.irregular) << json;
  }
}

TEST(JsonCursor, RefusesWithThePlace) {
  const std::pair<std::string_view, uint64_t> kDamaged[] = {
      {"[1 2]", 3}, {"{\"a\" 1}", 5}, {"{a: 1}", 1},      {"[1,]", 3},  {"[nan]", 1},
      {"[1]]", 3},  {"[tru]", 1},     {"{\"a\": 1,}", 8}, {"[\x01]", 1}};
  for (const auto& [json, offset] : kDamaged) {
    const Outcome outcome = Read(json);
    EXPECT_FALSE(outcome.ok) << json;
    EXPECT_FALSE(outcome.ran_out) << json;
    EXPECT_EQ(outcome.offset, offset) << json;
  }
  EXPECT_FALSE(Read(std::string(2000, '[') + std::string(2000, ']')).ok);
  EXPECT_TRUE(Read(std::string(1000, '[') + std::string(1000, ']')).ok);
}

TEST(JsonCursor, IsCutOffAtEveryByte) {
  const std::string json =
      R"({"a": [1, -2.5e3, "text \" of more than sixteen bytes", null], "b": {"c": {}, "d": []}})";
  ASSERT_TRUE(Read(json).ok);
  for (size_t size = 0; size < json.size(); ++size) {
    const Outcome outcome = Read(json.substr(0, size));
    EXPECT_FALSE(outcome.ok) << size;
  }
}

TEST(JsonCursor, Texts) {
  EXPECT_EQ(FirstText(R"("\u00e9 \ud83d\ude00 \"quoted\" \\ \/ \b\f\n\r\t")"),
            "é 😀 \"quoted\" \\ / \b\f\n\r\t");
  EXPECT_EQ(FirstText(R"("\ud83d \udE00 \u12")"), "\uFFFD \uFFFD \\u12");
  EXPECT_EQ(FirstText(R"("C:\Users\q")"), "C:\\Users\\q");
  EXPECT_EQ(FirstText("\"k\xff\xfe\""), "k\uFFFD\uFFFD");
  EXPECT_EQ(FirstText("\"\xe2\x82\""), "\uFFFD\uFFFD");
}

TEST(JsonCursor, AQuoteThatNobodyEscaped) {
  EXPECT_FALSE(Read(R"({"name": "a "b" c", "x": 1})").ok);
  const Outcome outcome = Read(R"({"name": "a "b" c", "x": 1})", /*careful=*/true);
  EXPECT_TRUE(outcome.ok && outcome.irregular);
  EXPECT_EQ(FirstText(R"("a "b" c")", /*careful=*/true), "a \"b\" c");
  for (const std::string_view json :
       {R"({"a": "x "y", z", "b": 1})", R"({"a": ["x "y", z", "b"]})", R"({"a "b" c": 1})",
        R"({"a": {"b": "x "y": z"}, "c": "d"})", R"(["a "b": c"])"}) {
    const Outcome quoted = Read(json, /*careful=*/true);
    EXPECT_TRUE(quoted.ok && quoted.irregular) << json;
  }
}

TEST(JsonCursor, ATextOfAGivenSize) {
  const std::string_view json = R"(["a"b\"c", 1])";
  JsonCursor cursor(json);
  std::string_view text;
  ASSERT_TRUE(cursor.Enter('['));
  EXPECT_EQ(cursor.Peek(), '"');
  cursor.ReadSizedText(6, &text);
  EXPECT_EQ(text, R"(a"b\"c)");
  EXPECT_TRUE(cursor.irregular());
  EXPECT_TRUE(cursor.Pass(','));
  EXPECT_FALSE(cursor.Pass(','));
}

}  // namespace
}  // namespace xplane_time::json
