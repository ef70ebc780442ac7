#include "workload/api_key.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace xplane_time {
namespace {

constexpr char kVariable[] = "XPLANE_TIME_TEST_KEY";

ApiKey KeyOf(const std::string& text) {
  setenv(kVariable, text.c_str(), /*overwrite=*/1);
  return *ApiKey::FromEnvironment(kVariable);
}

std::string Format(const char* format, char each) {
  char text[16] = {};
  std::snprintf(text, sizeof text, format, static_cast<unsigned char>(each));
  return text;
}

using Escape = std::function<std::string(char)>;

std::string Escaped(const std::string& key, const Escape& escape) {
  std::string text;
  for (const char each : key) text += escape(each);
  return text;
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

const std::vector<Escape>& Escapes() {
  static const std::vector<Escape> all = {
      [](char c) { return std::string(1, c); },
      [](char c) { return (c == '/' ? "\\" : "") + std::string(1, c); },
      [](char c) { return (IsWord(c) ? "" : "\\") + std::string(1, c); },
      [](char c) { return Format("\\u%04x", c); },
      [](char c) { return Format("\\u%04X", c); },
      [](char c) { return Format("\\\\u%04x", c); },
      [](char c) { return Format("\\\\\\\\u%04x", c); },
      [](char c) { return Format("\\x%02x", c); },
      [](char c) { return Format("\\%03o", c); },
      [](char c) { return IsWord(c) ? std::string(1, c) : Format("%%%02X", c); },
      [](char c) { return Format("%%%02x", c); },
      [](char c) { return Format("%%25%02x", c); },
      [](char c) { return Format("&#%d;", c); },
      [](char c) { return Format("&#x%x;", c); },
      [](char c) { return c == '&'   ? "&amp;"
                          : c == '<' ? "&lt;"
                                     : std::string(1, c); }};
  return all;
}

const std::vector<std::string>& Keys() {
  static const std::vector<std::string> keys = {"sk-0123456789abcdef", "a+b/c==&<>'\"~^|",
                                                "12345678", "hf_/////aaaa////", "aaaaaaaaaaab"};
  return keys;
}

TEST(ApiKey, IsHiddenHoweverItIsEscaped) {
  for (const std::string& text : Keys()) {
    const ApiKey key = KeyOf(text);
    for (const Escape& escape : Escapes()) {
      const std::string escaped = Escaped(text, escape);
      EXPECT_EQ(key.Hide(escaped), "[API key]") << escaped;
      EXPECT_EQ(key.Hide("a " + escaped + ", " + escaped + "."), "a [API key], [API key].")
          << escaped;
    }
  }
}

// Each character another way.
TEST(ApiKey, IsHiddenInMixedEscapes) {
  for (const std::string& text : Keys()) {
    for (size_t seed = 0; seed < 50; ++seed) {
      size_t next = seed;
      const std::string escaped = Escaped(text, [&](char c) {
        next = next * 1103515245 + 12345;
        return Escapes()[(next >> 16) % Escapes().size()](c);
      });
      EXPECT_EQ(KeyOf(text).Hide("x" + escaped + "x"), "x[API key]x") << escaped;
    }
  }
}

// Of a text that is cut behind any byte no 4 characters of the key are left.
TEST(ApiKey, IsHiddenWhereATextIsCut) {
  const std::string text = Keys()[0];
  const ApiKey key = KeyOf(text);
  for (const Escape& escape : Escapes()) {
    const std::string whole = "bad key " + Escaped(text, escape);
    for (size_t size = 0; size <= whole.size(); ++size) {
      const std::string cut = key.Hide(whole.substr(0, size), /*is_cut=*/true);
      EXPECT_EQ(cut.find(Escaped(text.substr(0, 4), escape)), cut.npos) << cut;
    }
  }
}

TEST(ApiKey, IsHiddenFromItsTwelfthCharacterOn) {
  const ApiKey key = KeyOf("sk-0123456789abcdef");
  EXPECT_EQ(key.Hide("sk-012345678"), "[API key]");
  EXPECT_EQ(key.Hide("sk-012345678!"), "[API key]!");
  EXPECT_EQ(key.Hide("sk-01234567"), "sk-01234567");
  EXPECT_EQ(key.Hide("sk-01234567", /*is_cut=*/true), "[API key]");
}

TEST(ApiKey, OtherTextStays) {
  const ApiKey key = KeyOf("sk-0123456789abcdef");
  for (const std::string text :
       {"", "s", "sk-", "50 % of it & more; \\ud83d \\", "%", "&#", "\\u00", "https://a/%20?b&c"}) {
    EXPECT_EQ(key.Hide(text), text);
    EXPECT_EQ(key.Hide(text, /*is_cut=*/true), text);
  }
  EXPECT_EQ(KeyOf("none").Hide("none of it"), "none of it");
  EXPECT_EQ(ApiKey().Hide("any"), "any");
}

// What takes long in a matcher that counts escapes anew at each byte.
TEST(ApiKey, TakesTimeInProportionToTheText) {
  const ApiKey key = KeyOf("aaaaaaaaaaab");
  for (const std::string piece : {"\\", "%25", "a", "&", "&#x61"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += piece;
    EXPECT_FALSE(key.Hide(text).empty());
  }
}

TEST(ApiKey, WhatNoKeyHasIsRefusedWithoutShowingIt) {
  setenv(kVariable, "sk-1 2\n", 1);
  const auto key = ApiKey::FromEnvironment(kVariable);
  EXPECT_TRUE(absl::IsInvalidArgument(key.status()));
  EXPECT_EQ(key.status().message().find("sk-1"), std::string::npos);
  EXPECT_EQ(ApiKey::FromEnvironment("")->text(), "");
}

}  // namespace
}  // namespace xplane_time
