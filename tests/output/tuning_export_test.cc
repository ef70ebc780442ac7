#include "output/tuning.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/read/says.h"
#include "tests/read/temp_dir.h"

namespace xplane_time::output {
namespace {

using Json = nlohmann::json;
using ::xplane_time::testing::Says;
using ::xplane_time::testing::TempDir;

class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = TuneStore::Open(dir_.Path("t.db"), {});
    ASSERT_TRUE(store.ok()) << store.status();
    store_.emplace(*std::move(store));
    auto session = store_->Begin({.key = {.workload = "w,\"1\"", .device_class = "H100"},
                                  .space_hash = "s",
                                  .config_json = R"({"alpha":0.01})",
                                  .seed = 7,
                                  .now_unix_s = 1'700'000'000});
    ASSERT_TRUE(session.ok()) << session.status();
    const std::vector<Configuration> variants = {{"fast", R"({"n":1,"s":"a,b"})", 64},
                                                 {"slow", R"({"n":2.5,"l":[1,2]})", {}},
                                                 {"late", R"({"n":3})", {}},
                                                 {"wrong", "{}", {}},
                                                 {"never", "{}", {}}};
    ASSERT_TRUE(store_->RegisterVariants(*session, variants).ok());
    Append(*session, {.batch = 0,
                      .round = 0,
                      .samples = {{"fast", 0, "ok", 1'000'000'000, 5},
                                  {"slow", 1, "ok", 2'000'000'000, {}},
                                  {"late", 2, "timeout", {}, {}}}});
    Append(*session, {.batch = 0,
                      .round = 1,
                      .discarded = true,
                      .notes_json = R"({"throttled":true})",
                      .samples = {{"fast", 0, "ok", 9'000'000'000, 50}}});
    Append(*session, {.batch = 1,
                      .round = 2,
                      .samples = {{"fast", 0, "ok", 2'000'000'000, 6},
                                  {"slow", 1, "crash(11)", {}, {}},
                                  {"wrong", 2, "wrong_result", {}, {}}}});
    ASSERT_TRUE(store_->RecordVerdict(*session, R"({"pick":"fast","claim":"winner"})", 9).ok());
  }

  void Append(const TuneSession& session, const RoundRecord& round) {
    ASSERT_TRUE(store_->Append(session, round).ok());
  }

  std::string Text(std::string_view format, int64_t session = 1) {
    const auto text = output::Export(*store_, session, format);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  TempDir dir_;
  std::optional<TuneStore> store_;
};

TEST_F(Export, Csv) {
  EXPECT_EQ(Text("csv"),
            "session,batch,round,discarded,slot,variant,status,t_ps,energy_uj,param_l,param_n,"
            "param_s\n"
            "1,0,0,false,0,fast,ok,1000000000,5,,1,\"a,b\"\n"
            "1,0,0,false,1,slow,ok,2000000000,,\"[1,2]\",2.5,\n"
            "1,0,0,false,2,late,timeout,,,,3,\n"
            "1,0,1,true,0,fast,ok,9000000000,50,,1,\"a,b\"\n"
            "1,1,2,false,0,fast,ok,2000000000,6,,1,\"a,b\"\n"
            "1,1,2,false,1,slow,crash(11),,,\"[1,2]\",2.5,\n"
            "1,1,2,false,2,wrong,wrong_result,,,,,\n");
}

TEST_F(Export, JsonHasEverything) {
  const Json document = Json::parse(Text("json"));
  EXPECT_EQ(document["schema"], "xplane-time.tune.v1");
  EXPECT_EQ(document["session"]["workload"], "w,\"1\"");
  EXPECT_EQ(document["session"]["config"]["alpha"], 0.01);
  EXPECT_EQ(document["session"]["id"], "1");
  ASSERT_EQ(document["variants"].size(), 5u);
  EXPECT_EQ(document["variants"][0]["mem_bytes"], 64);
  ASSERT_EQ(document["rounds"].size(), 3u);
  EXPECT_EQ(document["rounds"][1]["notes"]["throttled"], true);
  EXPECT_EQ(
      document["rounds"][0]["samples"][2],
      Json::parse(R"({"id":"late","slot":2,"status":"timeout","t_ps":null,"energy_uj":null})"));
  EXPECT_EQ(document["verdict"]["pick"], "fast");
}

TEST_F(Export, T4) {
  const Json document = Json::parse(Text("t4"));
  EXPECT_EQ(document["schema_version"], "1.0.0");
  const Json& results = document["results"];
  ASSERT_EQ(results.size(), 4u);  // "never" was not measured
  EXPECT_EQ(results[0]["configuration"], Json::parse(R"({"n":1,"s":"a,b"})"));
  EXPECT_EQ(results[0]["times"]["runtimes"], Json::parse("[1.0, 2.0]"));  // no discarded round
  EXPECT_EQ(results[0]["invalidity"], "correct");
  EXPECT_EQ(results[0]["correctness"], 1);
  EXPECT_EQ(results[0]["measurements"], Json::parse(R"([{"name":"time","value":1.5,"unit":"ms"},
                            {"name":"energy","value":5.5,"unit":"uJ"}])"));
  EXPECT_EQ(results[1]["invalidity"], "correct");  // one crash, one time
  EXPECT_EQ(results[2]["invalidity"], "timeout");
  EXPECT_EQ(results[2]["correctness"], 0);
  EXPECT_EQ(results[3]["invalidity"], "correctness");
}

// Out before they were run: only what preparing found knows them.
TEST_F(Export, VariantsThatFailedBeforeTheyRan) {
  auto session = store_->Begin({.key = {.workload = "w"}, .resume = Resume::kNever});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<Configuration> variants = {
      {"a", R"({"n":1})", {}}, {"b", R"({"n":2})", {}}, {"c", R"({"n":3})", {}}};
  ASSERT_TRUE(store_->RegisterVariants(*session, variants).ok());
  Append(*session, {.notes_json = R"({"variants":{"a":{"status":"ok"},
      "b":{"status":"wrong_result","message":"off by 3"},"c":{"status":"compile_error"}}})"});
  SampleRecord sample = {"a", 0, "ok", 700, {}};
  sample.workloads = {{"small", "ok", 100, {}}, {"big", "ok", 200, 3}};
  Append(*session, {.batch = 1, .samples = {sample}});
  EXPECT_EQ(Text("csv", session->id),
            "session,batch,round,discarded,slot,variant,status,t_ps,energy_uj,"
            "status_small,t_ps_small,energy_uj_small,status_big,t_ps_big,energy_uj_big,param_n\n"
            "2,0,0,false,,b,wrong_result,,,,,,,,,2\n"
            "2,0,0,false,,c,compile_error,,,,,,,,,3\n"
            "2,1,0,false,0,a,ok,700,,ok,100,,ok,200,3,1\n");
  const Json results = Json::parse(Text("t4", session->id))["results"];
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1]["invalidity"], "correctness");
  EXPECT_EQ(results[1]["correctness"], 0);
  EXPECT_EQ(results[2]["invalidity"], "compile");
  const Json document = Json::parse(Text("json", session->id));
  EXPECT_EQ(document["rounds"][1]["samples"][0]["workloads"][1],
            Json::parse(R"({"id":"big","status":"ok","t_ps":200,"energy_uj":3})"));
}

TEST_F(Export, ErrorsOfTheStore) {
  for (const char* format : {"csv", "json", "t4"}) {
    EXPECT_TRUE(Says(output::Export(*store_, 2, format).status(), "no session 2"));
  }
}

}  // namespace
}  // namespace xplane_time::output
