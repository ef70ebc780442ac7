#include "json/json.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "json/field.h"

namespace xplane_time::json {
namespace {

// By the square of its members this would take minutes.
TEST(Parse, ManyMembersTakeTheTimeOfTheirText) {
  constexpr int kMembers = 300'000;
  std::string text = "{";
  for (int i = 0; i < kMembers; ++i) absl::StrAppend(&text, "\"", i, "\":", i, ",");
  text += "\"7\":\"last\"}";
  Json object = Parse(text);
  ASSERT_EQ(object.size(), size_t{kMembers});
  EXPECT_EQ(object["7"], "last");
  EXPECT_EQ(object["299999"], 299'999);
  EXPECT_FALSE(object.contains("300000"));
  object["new"] = 1;
  Json updated = Json::object();
  updated.update(object);
  EXPECT_EQ(updated, object);
  EXPECT_EQ(object.items().begin().key(), "0");
}

// On both sides of the number from which on there is an index.
TEST(Json, MembersAreFoundAfterOthersWereErasedAndAdded) {
  for (const int count : {3, 31, 32, 33, 100}) {
    Json object = Json::object();
    for (int i = 0; i < count; ++i) object[absl::StrCat(i)] = i;
    object.erase("1");
    EXPECT_FALSE(object.contains("1"));
    EXPECT_EQ(object["2"], 2);
    object["1"] = "again";
    EXPECT_EQ(object.size(), static_cast<size_t>(count));
    EXPECT_EQ(object.back(), "again");
    object.erase(object.begin());
    EXPECT_EQ(object[absl::StrCat(count - 1)], count - 1);
    Json copy = object;
    copy.clear();
    for (int i = 0; i < count; ++i) copy[absl::StrCat(-i)] = i;
    EXPECT_EQ(copy[absl::StrCat(1 - count)], count - 1);
    EXPECT_FALSE(copy.contains(absl::StrCat(count - 1)));
  }
}

TEST(Field, SaysWhatIsWrongFirstAndWhere) {
  const Json line =
      Parse(R"({"runs":-1,"big":5000000000,"list":[{"id":"a"},{"id":7}],"null":null})");
  const auto wrong = [&line](auto read) {
    std::string what;
    read(Field(line, &what, "config"));
    return what;
  };
  int64_t runs = 0;
  uint32_t small = 3;
  std::string id;
  std::optional<double> none;
  EXPECT_EQ(wrong([&](const Field& field) {
              field.Read("runs", &runs, kNeeded);
              field.Read("null", &small);
              field.Read("absent", &none);
              field.Object("null");
            }),
            "");
  EXPECT_EQ(runs, -1);
  EXPECT_EQ(small, 3u);
  EXPECT_EQ(wrong([&](const Field& field) {
              field.Read("runs", &runs, kOptional, 0);
              field.Read("big", &id);
            }),
            "config.runs: must be a whole number of at least 0");
  EXPECT_EQ(wrong([&](const Field& field) { field.Read("big", &small); }),
            "config.big: must be a whole number from 0 to 4294967295");
  EXPECT_EQ(wrong([&](const Field& field) { field.Read("null", &none, kNeeded); }),
            "config.null: must be present");
  EXPECT_EQ(wrong([&](const Field& field) {
              field.At("list").Each([&](const Field& each) { each.Read("id", &id); });
            }),
            "config.list[1].id: must be a string");
  EXPECT_EQ(wrong([&](const Field& field) { field.At("runs").Has("id"); }),
            "config.runs: must be an object");
  EXPECT_EQ(wrong([&](const Field& field) { field.At("absent").Each([](const Field&) {}); }),
            "config.absent: must be a list");
}

}  // namespace
}  // namespace xplane_time::json
