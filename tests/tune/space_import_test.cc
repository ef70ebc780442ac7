// Files of other tuners, in miniature: the shapes are those of kernel_tuner 1.5.0's and
// tokamax's own files.
#include <gtest/gtest.h>

#include <string>

#include "tests/read/says.h"
#include "tune/expression.h"
#include "tune/space_json.h"
#include "xplane_time/space.h"

namespace xplane_time {
namespace {

using testing::Says;

SearchSpace ParseImported(const std::string& text) {
  auto space = ParseSpace(text, "import.json");
  EXPECT_TRUE(space.ok()) << space.status();
  return space.ok() ? *std::move(space) : SearchSpace();
}

std::string T1(const std::string& parameters, const std::string& conditions) {
  return R"({"General": {"FormatVersion": 1}, "ConfigurationSpace": {"TuningParameters": [)" +
         parameters + R"(], "Conditions": [)" + conditions +
         R"(]}, "KernelSpecification": {"KernelName": "convolution", "ProblemSize": [64, 64]}})";
}

TEST(T1, ParametersConditionsAndProblemSize) {
  const SearchSpace space =
      ParseImported(T1(R"j({"Name": "x", "Type": "int", "Values": "[1, 2, 4, 8]", "Default": 4},
            {"Name": "y", "Type": "uint", "Values": "list(range(1, 4))"},
            {"Name": "z", "Type": "int", "Values": "[128+64*i for i in range(3)]"},
            {"Name": "s", "Type": "string", "Values": "['a', \"b\"]"},
            {"Name": "f", "Type": "float", "Values": "[0.5, 1]"},
            {"Name": "p", "Type": "bool", "Values": "[0, 1]"},
            {"Name": "q", "Type": "bool", "Values": [true]})j",
                       R"j({"Expression": "(x * y) >= 8", "Parameters": ["x", "y"]},
            {"Expression": "z % 128 == 0 or p", "Parameters": ["z", "p"]})j"));
  EXPECT_EQ(space.name, "convolution");
  ASSERT_EQ(space.parameters.size(), 7u);
  EXPECT_EQ(space.parameters[2].values,
            (std::vector<ParameterValue>{int64_t{128}, int64_t{192}, int64_t{256}}));
  EXPECT_EQ(space.parameters[4].values, (std::vector<ParameterValue>{0.5, 1.0}));
  EXPECT_EQ(space.parameters[5].values, (std::vector<ParameterValue>{false, true}));
  EXPECT_EQ(space.constraints, (std::vector<std::string>{"(x * y) >= 8", "z % 128 == 0 or p"}));
  ASSERT_EQ(space.workloads.size(), 1u);
  EXPECT_EQ(space.workloads[0].params_json, R"({"problem_size":[64,64]})");
  const auto all = ChooseConfigurations(space, {});
  ASSERT_TRUE(all.ok()) << all.status();
  // (x, y) with a product of 8 or more: 4*2, 4*3, 8*1, 8*2, 8*3.
  EXPECT_EQ(all->size(), 5u * 5u * 2u * 2u);
}

TEST(T1, Errors) {
  const auto error = [](const std::string& text) { return ParseSpace(text, "t1.json").status(); };
  EXPECT_TRUE(Says(error(R"({"ConfigurationSpace": {}})"), "has no array \"TuningParameters\""));
  EXPECT_TRUE(Says(error(T1(R"j({"Name": "x", "Type": "int", "Values": "os.listdir()"})j", "")),
                   "t1.json: $.ConfigurationSpace.TuningParameters[0].Values: \"os.listdir()\""));
  EXPECT_TRUE(Says(error(T1(R"({"Name": "x", "Type": "int", "Values": "['a']"})", "")),
                   "the value \"a\" does not have the declared Type"));
  EXPECT_TRUE(
      Says(error(T1(R"({"Name": "x", "Type": "int8", "Values": "[1]"})", "")), "is not a T1 type"));
  EXPECT_TRUE(Says(error(T1(R"({"Name": "x", "Type": "int", "Values": "[1]"})",
                            R"({"Expression": "x && 1", "Parameters": ["x"]})")),
                   "use \"and\", \"or\", \"not\""));
}

struct PythonCase {
  std::string text, values;
};
class PythonValues : public ::testing::TestWithParam<PythonCase> {};

TEST_P(PythonValues, Read) {
  const auto values = tune::ParsePythonValues(GetParam().text);
  std::string found;
  if (!values.ok()) {
    found = std::string(values.status().message());
  } else {
    for (const ParameterValue& value : *values) found += tune::JsonOf(value).dump() + " ";
  }
  EXPECT_EQ(found, GetParam().values) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    T1, PythonValues,
    ::testing::Values(PythonCase{"[1, 2,]", "1 2 "}, PythonCase{"1, 2", "1 2 "},
                      PythonCase{"(1, 2)", "1 2 "}, PythonCase{"[]", ""},
                      PythonCase{"range(3)", "0 1 2 "},
                      PythonCase{"list( range(5, 1, -2) )", "5 3 "},
                      PythonCase{"[2**i for i in range(4)]", "1 2 4 8 "},
                      PythonCase{"list(i*2 for i in [1, 3])", "2 6 "},
                      PythonCase{"[x for x in range(10) if x % 3 == 0]", "0 3 6 9 "},
                      PythonCase{"['a,b', \"for\"]", "\"a,b\" \"for\" "},
                      PythonCase{"[-1.5, True]", "-1.5 true "}, PythonCase{"[(1 + 2) * 3]", "9 "},
                      PythonCase{"range(1, 2, 0)", "at 6: the step of a range is 0"},
                      PythonCase{"range('a')", "at 6: range requires integers"},
                      PythonCase{"[None]", "at 1: not a number, string or bool"},
                      PythonCase{"[1 for i of 2]", "at 9: expected \"in\", found \"of\""},
                      PythonCase{"range(9999999)", "at 6: more than 1000000 values"}));

constexpr const char* kCacheHead = R"({"schema_version": "1.1.0", "device_name": "A4000",
"kernel_name": "vector_add", "problem_size": 100, "tune_params_keys": ["x", "y"],
"tune_params": {"x": [64, 128], "y": [1, 2.5]}, "objective": "time",
"cache": {)";

TEST(KernelTunerCache, EntriesAreVariants) {
  const SearchSpace space = ParseImported(std::string(kCacheHead) + R"(
"64,1": {"x": 64, "y": 1, "time": 3.8, "times": [3.9, 3.7]},
"128,1": {"x": 128, "y": 1, "time": "InvalidConfig"},
"128,2.5": {"x": 128, "y": 2.5, "time": "CompilationFailedConfig"}}
})");
  ASSERT_EQ(space.variants.size(), 2u);
  EXPECT_EQ(space.variants[0].params_json, R"({"x":128,"y":2.5})");  // in order of the keys
  EXPECT_EQ(space.variants[1].params_json, R"({"x":64,"y":1})");
  EXPECT_EQ(space.notes,
            std::vector<std::string>{"1 configurations marked InvalidConfig excluded"});
  EXPECT_EQ(space.workloads[0].params_json, R"({"problem_size":100})");
}

TEST(KernelTunerCache, WithoutEntriesTheGrid) {
  const SearchSpace space = ParseImported(std::string(kCacheHead) + "}}");
  EXPECT_EQ(GridPoints(space), 4u);
  EXPECT_EQ(space.parameters[1].type, ParameterType::kFloat);
}

TEST(KernelTunerCache, CutAnywhereInItsEntries) {
  const std::string head = kCacheHead;
  const std::string first = "\n\"64,1\": {\"x\": 64, \"y\": 1, \"time\": 3.8},";
  const std::string second = "\n\"64,2\": {\"x\": 64, \"y\": 2, \"note\": \"a}b\\\"\"},";
  const std::string whole = head + first + second;
  for (size_t end = head.size(); end <= whole.size(); ++end) {
    const auto space = ParseSpace(whole.substr(0, end), "open.json");
    ASSERT_TRUE(space.ok()) << end << ": " << space.status();
    EXPECT_EQ(space->notes.size(), 1u);
    const size_t entries = end + 1 >= whole.size()                 ? 2
                           : end + 1 >= head.size() + first.size() ? 1
                                                                   : 0;
    EXPECT_EQ(space->variants.size(), entries) << end;
  }
}

TEST(KernelTunerCache, Errors) {
  EXPECT_TRUE(Says(ParseSpace(std::string(kCacheHead) + R"("1": {"x": 1}}})", "c.json").status(),
                   "c.json: $.cache[\"1\"]: has no \"y\" of tune_params_keys"));
  EXPECT_TRUE(Says(ParseSpace(R"({"device_name": "d", "kernel_name": "k", "problem_size": 1,
                                 "tune_params_keys": ["x", "x"], "tune_params": {"x": [4, 2]},
                                 "cache": {}})",
                              "c.json")
                       .status(),
                   "the parameter \"x\" occurs twice; list it once"));
}

constexpr const char* kTokamaxFile = R"({
  "{\"x\":\"bf16[384,64]\",\"axis\":-1}": {
    "{\"block_m\":32,\"block_n\":null}": {"evaluation_times_ms": [0.1], "peak_memory_mb": 37.749248},
    "{\"block_m\":64,\"block_n\":null}": {"evaluation_times_ms": [0.2]}
  },
  "{\"x\":\"bf16[768,64]\",\"axis\":-1}": {
    "{\"block_n\":null,\"block_m\":32}": {"evaluation_times_ms": [0.3], "peak_memory_mb": 75.5}
  }
})";

TEST(Tokamax, ShippedFile) {
  const SearchSpace space = ParseImported(kTokamaxFile);
  ASSERT_EQ(space.variants.size(), 2u);
  EXPECT_EQ(space.variants[0].params_json, R"({"block_m":32,"block_n":null})");
  EXPECT_EQ(space.variants[0].mem_bytes, 75'500'000);
  EXPECT_EQ(space.variants[1].mem_bytes, std::nullopt);
  ASSERT_EQ(space.workloads.size(), 2u);
  EXPECT_EQ(space.workloads[0].params_json, R"({"axis":-1,"x":"bf16[384,64]"})");
  SearchSpace constrained = space;
  constrained.constraints = {"block_n == None and block_m < 64"};
  EXPECT_EQ(ChooseConfigurations(constrained, {})->size(), 1u);
}

TEST(Tokamax, AutotuningResult) {
  const SearchSpace space = ParseImported(R"({"device_kind": "NVIDIA H100", "data": [
    [{"op": {"name": "glu"}, "x": [8]}, {"{\"n\":1}": {"peak_memory_mb": 1}}],
    [{"op": {"name": "glu"}, "x": [8]}, {"{\"n\":2}": {}}]]})");
  EXPECT_EQ(space.variants.size(), 2u);
  EXPECT_EQ(space.workloads.size(), 1u);
  EXPECT_TRUE(Says(ParseSpace(R"({"device_kind": "d", "data": [[1]]})", "t").status(),
                   "t: $.data[0]: [1] is not a pair"));
}

}  // namespace
}  // namespace xplane_time
