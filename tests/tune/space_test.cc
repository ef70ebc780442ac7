#include "xplane_time/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/read/says.h"
#include "tests/read/temp_dir.h"
#include "tests/support/random.h"

namespace xplane_time {
namespace {

using testing::Says;

std::string Document(const std::string& members) {
  return "{\"schema\": \"xplane-time.space.v1\"" + (members.empty() ? "" : ", " + members) + "}";
}

SearchSpace Parsed(const std::string& members) {
  auto space = ParseSpace(Document(members), "s.json");
  EXPECT_TRUE(space.ok()) << space.status();
  return space.ok() ? *std::move(space) : SearchSpace();
}

std::vector<std::string> Params(const SearchSpace& space, const Choice& choice = {}) {
  const auto chosen = ChooseConfigurations(space, choice);
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  std::vector<std::string> out;
  if (chosen.ok()) {
    for (const Configuration& c : *chosen) out.push_back(c.params_json);
  }
  return out;
}

constexpr const char* kTwo =
    R"("parameters": [{"name": "b", "type": "int", "values": [3, 1]},
                      {"name": "a", "type": "string", "values": ["x", "y"]}])";

TEST(Space, GridRunsTheLastParameterFastest) {
  EXPECT_EQ(Params(Parsed(kTwo)),
            (std::vector<std::string>{R"({"a":"x","b":3})", R"({"a":"y","b":3})",
                                      R"({"a":"x","b":1})", R"({"a":"y","b":1})"}));
}

TEST(Space, IdsDependOnParametersAlone) {
  EXPECT_EQ(VariantId(R"({"a":"x","b":3})"), "v8dca5e87d246d22d");  // never changes
  const SearchSpace grid = Parsed(kTwo);
  const SearchSpace listed = Parsed(R"("variants": [{"params": {"b": 3, "a": "x"}}])");
  EXPECT_EQ(ChooseConfigurations(grid, {})->front(), ChooseConfigurations(listed, {})->front());
  EXPECT_EQ(*CanonicalParams("{ \"z\": 1.50, \"a\": [true, null, -0.0, 1e3] }"),
            R"({"a":[true,null,0.0,1000.0],"z":1.5})");
  EXPECT_NE(VariantId(R"({"a":1})"), VariantId(R"({"a":1.0})"));
}

TEST(Space, Ranges) {
  const SearchSpace space = Parsed(R"("parameters": [
    {"name": "i", "type": "int", "range": {"min": 1, "max": 10, "step": 4}},
    {"name": "m", "type": "int", "range": {"min": 16, "max": 100, "multiply": 2}},
    {"name": "f", "type": "float", "range": {"min": 0, "max": 1, "step": 0.1}},
    {"name": "g", "type": "float", "range": {"min": 0.125, "max": 1, "multiply": 2}},
    {"name": "e", "type": "int", "range": {"min": 3, "max": 2, "step": 1}},
    {"name": "n", "type": "int", "range": {"min": -9223372036854775808,
                                           "max": 9223372036854775807,
                                           "step": 9223372036854775807}},
    {"name": "t", "type": "bool"}])");
  using V = std::vector<ParameterValue>;
  const auto i = [](int64_t x) { return ParameterValue(x); };
  EXPECT_EQ(space.parameters[0].values, (V{i(1), i(5), i(9)}));
  EXPECT_EQ(space.parameters[1].values, (V{i(16), i(32), i(64)}));
  EXPECT_EQ(space.parameters[2].values, (V{0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}));
  EXPECT_EQ(space.parameters[3].values, (V{0.125, 0.25, 0.5, 1.0}));
  EXPECT_EQ(space.parameters[4].values, V{});
  EXPECT_EQ(space.parameters[5].values.size(), 3u);
  EXPECT_EQ(space.parameters[6].values, (V{false, true}));
}

TEST(Space, EmptyOnePoint) {
  EXPECT_TRUE(Params(Parsed("")).empty());
  EXPECT_TRUE(
      Params(Parsed(R"("parameters": [], "variants": [], "constraints": ["1 == 2"])")).empty());
  EXPECT_TRUE(
      Params(Parsed(R"("parameters": [{"name": "a", "type": "int", "values": []}])")).empty());
  EXPECT_EQ(Params(Parsed(R"("parameters": [{"name": "a", "type": "int", "values": [7]}])")),
            std::vector<std::string>{R"({"a":7})"});
}

TEST(Space, VariantsComeFirstAndAreNotRepeated) {
  const SearchSpace space = Parsed(std::string(kTwo) + R"(,
    "variants": [{"id": "base", "params": {"a": "y", "b": 3}, "mem_bytes": 5}, {"id": "bare"},
                 {"id": "twin", "params": {"a": "y", "b": 3}}])");
  const auto all = ChooseConfigurations(space, {});
  ASSERT_TRUE(all.ok()) << all.status();
  std::vector<std::string> ids;
  for (const Configuration& c : *all) ids.push_back(c.id);
  EXPECT_EQ(ids.size(), 6u);
  EXPECT_EQ((std::vector<std::string>(ids.begin(), ids.begin() + 3)),
            (std::vector<std::string>{"base", "bare", "twin"}));
  EXPECT_EQ((*all)[0].mem_bytes, 5);
  EXPECT_EQ(Params(space, {.strategy = Strategy::kList}).size(), 3u);
}

TEST(Space, MemoryOfGridPoints) {
  const SearchSpace space = Parsed(std::string(kTwo) + R"(, "mem_bytes": "b * 1024")");
  EXPECT_EQ(ChooseConfigurations(space, {})->front().mem_bytes, 3072);
  const SearchSpace bad = Parsed(std::string(kTwo) + R"(, "mem_bytes": "2 - b")");
  EXPECT_TRUE(Says(ChooseConfigurations(bad, {}).status(), "$.mem_bytes: \"2 - b\""));
}

TEST(Space, Workloads) {
  const SearchSpace space = Parsed(
      R"("workloads": [{"id": "1k", "params": {"n": 1024}, "weight": 3}, {"params": {"n": 1}}])");
  ASSERT_EQ(space.workloads.size(), 2u);
  EXPECT_EQ(space.workloads[0], (Workload{"1k", R"({"n":1024})", 3}));
  EXPECT_EQ(space.workloads[1], (Workload{VariantId(R"({"n":1})"), R"({"n":1})", 1}));
}

TEST(Space, AListOfVariantsInWhateverFile) {
  const auto space = ParseSpace(R"({"schema": "xplane-time.tune-result.v1", "pick": "a", "variants":
    [{"id": "a", "params": {"n": 1}, "status": "ok"}, {"id": 7}, {"params": {}}]})",
                                "t.json");
  ASSERT_TRUE(space.ok()) << space.status();
  ASSERT_EQ(space->variants.size(), 3u);
  EXPECT_EQ(space->variants[0].params_json, R"({"n":1})");
  EXPECT_EQ(space->variants[1].id, "7");
  EXPECT_EQ(space->variants[2].id, VariantId("{}"));
}

TEST(Space, WritesWhatItReads) {
  const SearchSpace space = Parsed(std::string(kTwo) + R"(, "name": "k", "constraints": ["b > 0"],
    "mem_bytes": "b", "variants": [{"id": "v", "params": {"b": 1, "a": "x"}, "mem_bytes": 2}],
    "workloads": [{"id": "w", "params": {"n": 1}, "weight": 0.5}])");
  const auto again = ParseSpace(SpaceToJson(space), "t.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(SpaceToJson(*again), SpaceToJson(space));
  EXPECT_EQ(SpaceHash(*again), SpaceHash(space));
  EXPECT_EQ(again->workloads, space.workloads);
  SearchSpace other = space;
  other.constraints[0] = "b > 1";
  EXPECT_NE(SpaceHash(other), SpaceHash(space));
}

struct BadCase {
  std::string name, document, message;
};
std::ostream& operator<<(std::ostream& out, const BadCase& c) { return out << c.name; }
class BadSpace : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadSpace, SaysWhereAndWhat) {
  const absl::Status status = ParseSpace(GetParam().document, "s.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(status, GetParam().message)) << status;
  EXPECT_TRUE(testing::Begins(status, "s.json: ")) << status;
}

std::string WithParameter(const std::string& parameter) {
  return Document("\"parameters\": [" + parameter + "]");
}

INSTANTIATE_TEST_SUITE_P(
    Space, BadSpace,
    ::testing::Values(
        BadCase{"Empty", "", "not JSON (byte 1)"}, BadCase{"Cut", "{\"schema\": ", "not JSON"},
        BadCase{"HugeNumber", "{\"schema\": 1e999}", "not JSON"},
        BadCase{"ListAndMore", R"({"variants": [{"id": "a"}], "constraints": ["a"]})",
                "$: not a search space; expected \"schema\""},
        BadCase{"NotAnObject", "[1]", "$: not a search space; expected \"schema\""},
        BadCase{"Deep", std::string(100'000, '['), "nested more than 64 levels"},
        BadCase{"NewerSchema", R"({"schema": "xplane-time.space.v2"})",
                "$.schema: \"xplane-time.space.v2\" is not supported by this version"},
        BadCase{"UnknownField", Document("\"constraint\": []"),
                "$: unknown field \"constraint\"; known: schema, name"},
        BadCase{"NoType", WithParameter(R"({"name": "a", "values": [1]})"),
                "$.parameters[0]: has no \"type\""},
        BadCase{"BadType", WithParameter(R"({"name": "a", "type": "double"})"),
                "$.parameters[0].type: \"double\" is not a type"},
        BadCase{"WrongValue", WithParameter(R"({"name": "a", "type": "int", "values": [1, 2.5]})"),
                "$.parameters[0].values[1]: 2.5 is not of type int"},
        BadCase{"TooLarge",
                WithParameter(R"({"name": "a", "type": "int", "values": [18446744073709551615]})"),
                "$.parameters[0].values[0]: must be a whole number from -9223372036854775808 to"},
        BadCase{"Twice", WithParameter(R"({"name": "a", "type": "int", "values": [1, 1]})"),
                "$.parameters[0]: the value 1 occurs twice"},
        BadCase{"NameTwice",
                WithParameter(R"({"name": "a", "type": "bool"}, {"name": "a", "type": "bool"})"),
                "$.parameters[1].name: \"a\" is the name of two parameters"},
        BadCase{"NoValues", WithParameter(R"({"name": "a", "type": "int"})"),
                "neither \"values\" nor \"range\""},
        BadCase{"StepZero",
                WithParameter(
                    R"({"name": "a", "type": "int", "range": {"min": 1, "max": 2, "step": 0}})"),
                "$.parameters[0].range.step: 0 is not above 0"},
        BadCase{
            "MultiplyOne",
            WithParameter(
                R"({"name": "a", "type": "int", "range": {"min": 1, "max": 2, "multiply": 1}})"),
            "range.multiply: 1 is not above 1"},
        BadCase{
            "MultiplyFromZero",
            WithParameter(
                R"({"name": "a", "type": "float", "range": {"min": 0, "max": 2, "multiply": 2}})"),
            "range.min: 0 is not above 0"},
        BadCase{
            "TooMany",
            WithParameter(
                R"({"name": "a", "type": "int", "range": {"min": 1, "max": 20000000, "step": 1}})"),
            "more than 1000000 values"},
        BadCase{
            "TooManyFloats",
            WithParameter(
                R"({"name": "a", "type": "float", "range": {"min": -1e308, "max": 1e308, "step": 1e-9}})"),
            "more than 1000000 values"},
        BadCase{"RangeOfText",
                WithParameter(
                    R"({"name": "a", "type": "string", "range": {"min": 1, "max": 2, "step": 1}})"),
                "only int and float have ranges"},
        BadCase{"BadConstraint",
                Document(std::string(kTwo) + R"(, "constraints": ["b > 0", "b > c"])"),
                "$.constraints[1]: \"b > c\": at 4: \"c\" is not a parameter; parameters: b, a"},
        BadCase{"ConstraintNoText", Document(R"("constraints": [1])"),
                "$.constraints[0]: must be a string"},
        BadCase{"BadMemory", Document(std::string(kTwo) + R"(, "mem_bytes": "q")"),
                "$.mem_bytes: \"q\": at 0"},
        BadCase{"IdTwice", Document(R"("variants": [{"id": "a"}, {"id": "a"}])"),
                "$.variants[1]: the id \"a\" occurs twice"},
        BadCase{"ParamsTwice",
                Document(R"("variants": [{"params": {"b": 1}}, {"params": {"b": 1}}])"),
                "occurs twice; give one of them another \"id\""},
        BadCase{"NoIdNoParams", Document(R"("variants": [{}])"),
                "$.variants[0]: requires an id or params"},
        BadCase{"NegativeMemory", Document(R"("variants": [{"id": "a", "mem_bytes": -1}])"),
                "$.variants[0].mem_bytes: must be a whole number of at least 0"},
        BadCase{"WeightZero", Document(R"("workloads": [{"id": "a", "weight": 0}])"),
                "$.workloads[0].weight: 0 is not above 0"},
        BadCase{"BadUtf8", Document("\"name\": \"\xff\""), "not JSON"}),
    [](const auto& test) { return test.param.name; });

TEST(Space, FileErrors) {
  const testing::TempDir dir;
  EXPECT_EQ(ReadSpace(dir.Path("none.json")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Says(ReadSpace(dir.path()).status(), "is a directory"));
  EXPECT_TRUE(ReadSpace(dir.Write("s.json", Document(kTwo))).ok());
}

// --- Constraints.

TEST(Constraints, ContradictionNamesTheFirstThatKillsEverything) {
  const absl::Status status =
      ChooseConfigurations(Parsed(std::string(kTwo) +
                                  R"(, "constraints": ["b < 3", "a == 'x'", "b > 2", "b != b"])"),
                           {})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(status,
                   "contradictory constraints: $.constraints[2] \"b > 2\" together with the "
                   "earlier ones leaves none of the 4 grid points"))
      << status;
  const SearchSpace alone = Parsed(std::string(kTwo) + R"(, "constraints": ["b > 9", "b > 0"])");
  EXPECT_TRUE(Says(ChooseConfigurations(alone, {}).status(), "$.constraints[0] \"b > 9\" leaves"));
  EXPECT_TRUE(Says(VisitConfigurations(alone, [](const Configuration&) { return true; }),
                   "contradictory constraints: $.constraints[0]"));
  const Choice sample = {.strategy = Strategy::kRandom, .count = 2};
  EXPECT_TRUE(Says(ChooseConfigurations(alone, sample).status(), "contradictory constraints"));
  const SearchSpace listed =
      Parsed(R"("constraints": ["n > 1"], "variants": [{"params": {"n": 1}}])");
  EXPECT_TRUE(
      Says(ChooseConfigurations(listed, {}).status(), "leaves none of the 1 listed variants"));
}

TEST(Constraints, WhatCannotBeComputedNamesConstraintAndConfiguration) {
  const std::string parameters = R"("parameters": [
    {"name": "a", "type": "int", "values": [4]}, {"name": "b", "type": "int", "values": [2, 0]}])";
  const absl::Status status =
      ChooseConfigurations(Parsed(parameters + R"(, "constraints": ["b < 9", "a % b == 0"])"), {})
          .status();
  EXPECT_TRUE(Says(status,
                   "s.json: $.constraints[1]: \"a % b == 0\" cannot be computed for "
                   "{\"a\":4,\"b\":0}: at 2: division by zero; guard it"))
      << status;
  const absl::Status mixed =
      ChooseConfigurations(Parsed(parameters + R"(, "constraints": ["a > 'x'"])"), {}).status();
  EXPECT_TRUE(Says(mixed, "compares values of different types; correct it or exclude")) << mixed;
  // Excluded by another constraint, whatever their order.
  EXPECT_EQ(Params(Parsed(parameters + R"(, "constraints": ["a % b == 0", "b != 0"])")).size(), 1u);
  const SearchSpace missing = Parsed(
      R"("constraints": ["n > 1"], "variants": [{"params": {"n": 2}}, {"id": "x", "params": {"n": [1]}}])");
  EXPECT_TRUE(Says(ChooseConfigurations(missing, {}).status(), "has no plain value of \"n\""));
}

// All points by nested counting, every constraint on each: what the walk must give.
std::vector<std::string> SlowGrid(const SearchSpace& space) {
  std::vector<std::string> out;
  std::vector<size_t> digits(space.parameters.size(), 0);
  for (uint64_t i = 0; i < GridPoints(space); ++i) {
    uint64_t rest = i;
    for (size_t p = digits.size(); p-- > 0; rest /= space.parameters[p].values.size()) {
      digits[p] = rest % space.parameters[p].values.size();
    }
    SearchSpace one = space;
    for (size_t p = 0; p < digits.size(); ++p) {
      one.parameters[p].values = {space.parameters[p].values[digits[p]]};
    }
    const auto chosen = ChooseConfigurations(one, {});
    if (chosen.ok()) out.push_back(chosen->front().params_json);
  }
  return out;
}

TEST(Constraints, WalkAgreesWithCounting) {
  testing::Random random(5);
  const std::vector<std::string> pool = {"a + b <= 4",
                                         "a * c != 6",
                                         "b in [1, 3] or c == 2",
                                         "not (a == b == c)",
                                         "a % 2 == 0",
                                         "(a + 2 * b) // (c + 1) < 3",
                                         "True",
                                         "max(a, b, c) - min(a, b, c) <= 2",
                                         "c > 0 and a // c <= 1"};
  int left = 0;
  for (int round = 0; round < 60; ++round) {
    SearchSpace space;
    space.source = "r";
    for (const char* name : {"a", "b", "c"}) {
      Parameter parameter = {name, ParameterType::kInt, {}};
      for (int64_t v = 0; v <= random.Below(5); ++v) parameter.values.emplace_back(v);
      space.parameters.push_back(std::move(parameter));
    }
    for (int64_t i = random.Below(4); i > 0; --i) {
      space.constraints.push_back(pool[static_cast<size_t>(random.Below(std::ssize(pool)))]);
    }
    const std::vector<std::string> expected = SlowGrid(space);
    const auto chosen = ChooseConfigurations(space, {});
    if (expected.empty()) {
      EXPECT_TRUE(Says(chosen.status(), "contradictory")) << SpaceToJson(space);
      continue;
    }
    ++left;
    EXPECT_EQ(Params(space), expected) << SpaceToJson(space);
    // A sample is a part of it, in the same order, and all of it where enough is asked.
    const auto some = Params(space, {.strategy = Strategy::kRandom, .count = 3, .seed = 9});
    EXPECT_EQ(some.size(), std::min<size_t>(3, expected.size()));
    auto place = expected.begin();
    for (const std::string& params : some) {
      place = std::find(place, expected.end(), params);
      EXPECT_NE(place, expected.end()) << params;
    }
    EXPECT_EQ(Params(space, {.strategy = Strategy::kRandom, .count = 1000}), expected);
  }
  EXPECT_GT(left, 30);
}

// --- Sampling.

std::string Huge(int parameters, int64_t values) {
  std::string out;
  for (int i = 0; i < parameters; ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ",", R"({"name": "p)", i,
                    R"(", "type": "int", "range": {"step": 1, "min": 1, "max": )", values, "}}");
  }
  return "\"parameters\": [" + out + "]";
}

TEST(Sampling, HugeSpaceWithoutListingIt) {
  const SearchSpace space = Parsed(Huge(4, 1000));
  EXPECT_EQ(GridPoints(space), 1'000'000'000'000u);
  const Choice choice = {.strategy = Strategy::kRandom, .count = 500, .seed = 3};
  const std::vector<std::string> once = Params(space, choice);
  EXPECT_EQ(once.size(), 500u);
  EXPECT_EQ(std::set<std::string>(once.begin(), once.end()).size(), 500u);
  EXPECT_EQ(Params(space, choice), once);
  EXPECT_NE(Params(space, {.strategy = Strategy::kRandom, .count = 500, .seed = 4}), once);
  const SearchSpace constrained =
      Parsed(Huge(4, 1000) + R"(, "constraints": ["p0 * p1 * p2 * p3 % 5 == 0"])");
  EXPECT_EQ(Params(constrained, choice).size(), 500u);
  EXPECT_EQ(ChooseConfigurations(space, {}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Sampling, LargerThan64Bits) {
  const SearchSpace space = Parsed(Huge(8, 1000));
  EXPECT_EQ(GridPoints(space), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Params(space, {.strategy = Strategy::kRandom, .count = 10}).size(), 10u);
}

TEST(Sampling, RarePointsAreFoundWherePruningCan) {
  const SearchSpace space =
      Parsed(Huge(4, 1000) +
             R"(, "constraints": ["p0 == 7", "p1 == p0 * 2", "p2 == p1 + 1", "p3 in [1, 5, 9]"])");
  EXPECT_EQ(Params(space, {.strategy = Strategy::kRandom, .count = 10}).size(), 3u);
  EXPECT_EQ(Params(space).size(), 3u);
  const SearchSpace none =
      Parsed(Huge(4, 1000) + R"(, "constraints": ["p0 == 7", "p0 != 7", "p1 > 0"])");
  EXPECT_TRUE(
      Says(ChooseConfigurations(none, {.strategy = Strategy::kRandom, .count = 10}).status(),
           "$.constraints[1] \"p0 != 7\" together with the earlier ones leaves none"));
}

TEST(Sampling, EveryPointIsAsLikely) {
  const SearchSpace space = Parsed(Huge(1, 10) + R"(, "constraints": ["p0 % 2 == 0"])");
  std::map<std::string, int> drawn;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    for (const auto& p : Params(space, {.strategy = Strategy::kRandom, .count = 2, .seed = seed})) {
      ++drawn[p];
    }
  }
  ASSERT_EQ(drawn.size(), 5u);
  for (const auto& [params, count] : drawn) {
    EXPECT_NEAR(count, 400, 80) << params;  // five standard deviations
  }
}

TEST(Sampling, AMillionPoints) {
  const SearchSpace space = Parsed(Huge(2, 1000) + R"(, "constraints": ["(p0 + p1) % 2 == 0"])");
  const auto all = ChooseConfigurations(space, {});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->size(), 500'000u);
  uint64_t visited = 0;
  const absl::Status status = VisitConfigurations(
      space, [&](const Configuration& c) { return c == (*all)[visited] && ++visited < 1000; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(visited, 1000u);
  EXPECT_TRUE(Says(ChooseConfigurations(space, {.most = 100}).status(), "more than 100"));
}

}  // namespace
}  // namespace xplane_time
