// The process from outside: lines in, lines out.
#include "decide/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "nlohmann/json.hpp"
#include "tests/decide/driven.h"

namespace xplane_time {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SimulatedDevice;
using ::testing::SizeIs;

constexpr const char* kOpen =
    R"({"v":1,"type":"open","session":"s","space":{"variants":[{"id":"a","params":{"x":1}},)"
    R"({"id":7,"params":{"x":2},"mem_bytes":5}]},"config":{"seed":3,"budget":{"runs":400}}})";

std::vector<std::string> Serve(const std::vector<std::string>& lines) {
  std::string input;
  for (const std::string& line : lines) input += line + "\n";
  std::istringstream in(input);
  std::ostringstream out;
  EXPECT_TRUE(decide::Serve(in, out));
  std::istringstream replies(out.str());
  std::vector<std::string> result;
  for (std::string line; std::getline(replies, line);) result.push_back(line);
  return result;
}

json Only(const std::vector<std::string>& replies) {
  EXPECT_THAT(replies, SizeIs(1));
  return replies.empty() ? json() : json::parse(replies[0]);
}

// The results of a batch line, ids "a" and 7.
std::vector<std::string> Answer(const json& batch, SimulatedDevice& device) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < batch["rounds"].size(); ++i) {
    std::vector<uint32_t> order;
    for (const json& id : batch["rounds"][i]) order.push_back(id == "a" ? 0 : 1);
    json samples = json::array();
    for (const Sample& sample : device.Run(batch["batch"], i, order).samples) {
      const json id = sample.variant == 0 ? json("a") : json(7);
      samples.push_back(
          {{"id", id}, {"slot", sample.slot}, {"status", "ok"}, {"t_ps", sample.t_ps}});
    }
    lines.push_back(json{
        {"v", 1},
        {"type", "result"},
        {"session", "s"},
        {"batch", batch["batch"]},
        {"round", i},
        {"samples",
         samples}}.dump());
  }
  return lines;
}

struct Conversation {
  std::vector<std::string> sent, received;
};

Conversation Converse(double gap) {
  Conversation talk{.sent = {kOpen}, .received = {}};
  SimulatedDevice device({.log_times = {0, gap}, .seed = 1});
  while (true) {
    // A pure function: all that was sent gives all replies again.
    talk.received = Serve(talk.sent);
    const json last = json::parse(talk.received.back());
    if (last["type"] != "batch") return talk;
    for (const std::string& line : Answer(last, device)) talk.sent.push_back(line);
  }
}

TEST(Protocol, FromOpenToVerdict) {
  const Conversation talk = Converse(0.05);
  const json first = json::parse(talk.received[0]);
  EXPECT_EQ(first["v"], 1);
  EXPECT_EQ(first["session"], "s");
  EXPECT_EQ(first["batch"], 1);
  EXPECT_EQ(first["rounds"].size(), 4u);
  const json verdict = json::parse(talk.received.back());
  EXPECT_EQ(verdict["type"], "verdict");
  EXPECT_EQ(verdict["pick"], "a");
  EXPECT_EQ(verdict["claim"], "pick");
  EXPECT_EQ(verdict["eliminated"][0]["id"], 7);
  EXPECT_EQ(verdict["eliminated"][0]["by"], "a");
  std::vector<std::string> fields;
  const auto in_order = nlohmann::ordered_json::parse(talk.received.back());
  for (const auto& item : in_order.items()) fields.push_back(item.key());
  EXPECT_THAT(fields, ElementsAre("v", "type", "session", "pick", "claim", "tied", "eliminated",
                                  "ratios", "p_best", "regret", "delta", "canary", "mde", "runs",
                                  "rounds", "stop_reason", "rule", "seed"));
}

TEST(Protocol, HistoryGivesTheSameNextLine) {
  const Conversation talk = Converse(0.01);
  size_t replies = 1;
  json results = json::array();
  json batch = json::parse(talk.received[0]);
  size_t answered = 0;
  for (size_t i = 1; i < talk.sent.size(); ++i) {
    results.insert(results.begin(), json::parse(talk.sent[i]));
    if (++answered == batch["rounds"].size()) {
      batch = json::parse(talk.received[replies++]);
      answered = 0;
    }
    json history = {{"v", 1}, {"type", "history"}, {"session", "s"}, {"results", results}};
    EXPECT_THAT(Serve({kOpen, history.dump()}), ElementsAre(talk.received[replies - 1]));
  }
  EXPECT_EQ(replies, talk.received.size());
}

TEST(Protocol, AnAnnouncedHistoryIsWaitedForEvenWhenItIsNotThereYet) {
  json open = json::parse(kOpen);
  const std::string history = R"({"v":1,"type":"history","session":"s","results":[]})";
  const auto serve = [&](const std::string& input) {
    std::istringstream in(input);
    std::ostringstream out;
    EXPECT_TRUE(decide::Serve(in, out, {.input_waiting = [] { return false; }}));
    const std::string text = out.str();
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(serve(open.dump() + "\n" + history + "\n"), 2);
  open["history"] = true;
  EXPECT_EQ(serve(open.dump() + "\n" + history + "\n"), 1);
  EXPECT_EQ(serve(open.dump() + "\n"), 1);
}

TEST(Protocol, RepeatsGetNoReply) {
  const Conversation talk = Converse(0.05);
  std::vector<std::string> sent = talk.sent;
  sent.insert(sent.begin() + 2, sent[1]);
  sent.push_back(sent[1]);
  EXPECT_EQ(Serve(sent), talk.received);
}

TEST(Protocol, SessionsOneAfterAnother) {
  const Conversation talk = Converse(0.05);
  std::vector<std::string> sent = talk.sent;
  sent.push_back(R"({"v":1,"type":"close","session":"s"})");
  sent.insert(sent.end(), talk.sent.begin(), talk.sent.end());
  sent.insert(sent.end(), talk.sent.begin(), talk.sent.end());  // a verdict closes, too
  std::vector<std::string> expected = talk.received;
  for (int again = 0; again < 2; ++again) {
    expected.insert(expected.end(), talk.received.begin(), talk.received.end());
  }
  EXPECT_EQ(Serve(sent), expected);
}

TEST(Protocol, OtherWordsForTypeAreAnsweredAlike) {
  json open = json::parse(kOpen);
  open.erase("type");
  open["op"] = "open";
  EXPECT_EQ(Only(Serve({open.dump()}))["op"], "batch");
  open.erase("op");
  open.erase("v");
  EXPECT_EQ(Only(Serve({json{{"v", 1}, {"open", open}}.dump()}))["batch"]["batch"], 1);
}

TEST(Protocol, ASpaceForOpensThatBringNone) {
  const auto serve = [](const std::string& space_json) {
    std::istringstream in(R"({"v":1,"type":"open","session":"s"})");
    std::ostringstream out;
    EXPECT_TRUE(decide::Serve(in, out, {.space_json = space_json}));
    return json::parse(out.str());
  };
  EXPECT_EQ(serve(R"({"variants":[{"id":"x"}]})")["rounds"], json({{"x"}}));
  EXPECT_EQ(serve("{")["code"], "bad_open");
  EXPECT_EQ(serve("")["code"], "bad_open");
}

struct BadLine {
  std::string name, line, code, says;
};

std::ostream& operator<<(std::ostream& out, const BadLine& bad) { return out << bad.name; }

class Hostile : public ::testing::TestWithParam<BadLine> {};

// After an open, and with the whole conversation going on as if nothing had been.
TEST_P(Hostile, IsAnErrorAndNothingElse) {
  const Conversation talk = Converse(0.05);
  std::vector<std::string> sent = talk.sent;
  sent.insert(sent.begin() + 2, GetParam().line);
  std::vector<std::string> received = Serve(sent);
  ASSERT_EQ(received.size(), talk.received.size() + 1);
  const json error = json::parse(received[1]);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["code"], GetParam().code);
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(GetParam().says));
  EXPECT_EQ(error["line"], 3);
  received.erase(received.begin() + 1);
  EXPECT_EQ(received, talk.received);
}

std::string Result(const std::string& sample) {
  return R"({"v":1,"type":"result","session":"s","batch":1,"round":3,"samples":[)" + sample + "]}";
}

INSTANTIATE_TEST_SUITE_P(
    Protocol, Hostile,
    ::testing::Values(
        BadLine{"NotJson", "{", "bad_json", "not JSON"},
        BadLine{"Nan", R"({"v":1,"type":"close","x":NaN})", "bad_json", ""},
        BadLine{"HugeNumber", Result(R"({"id":"a","slot":0,"status":"ok","t_ps":1e999})"),
                "bad_json", ""},
        BadLine{"Utf8", "{\"v\":1,\"type\":\"close\",\"x\":\"\xff\"}", "bad_json", "UTF-8"},
        BadLine{"Deep", std::string(100'000, '['), "bad_json", "nested"},
        BadLine{"Array", "[]", "bad_message", "object"},
        BadLine{"Version", R"({"v":2,"type":"close"})", "bad_version", "1"},
        BadLine{"NoVersion", R"({"type":"close"})", "bad_version", "1"},
        BadLine{"NoType", R"({"v":1})", "bad_message", "type"},
        BadLine{"UnknownType", R"({"v":1,"type":"ope\u0000n"})", "bad_message", "type"},
        BadLine{"TypeIsNumber", R"({"v":1,"type":3})", "bad_message", "type"},
        BadLine{"OpenTwice", kOpen, "already_open", "close"},
        BadLine{"OtherSession", R"({"v":1,"type":"close","session":"t"})", "unknown_session", "t"},
        BadLine{"HistoryTooLate", R"({"v":1,"type":"history","results":[]})", "bad_history",
                "before"},
        BadLine{"HistoryOfNumbers", R"({"v":1,"type":"history","results":[3]})", "bad_history",
                "results[0]: must be an object"},
        BadLine{"UnknownId", Result(R"({"id":"b","slot":0,"status":"ok","t_ps":5})"), "bad_result",
                "samples[0].id"},
        BadLine{"IdOfOtherType", Result(R"({"id":"7","slot":0,"status":"ok","t_ps":5})"),
                "bad_result", "samples[0].id"},
        BadLine{"NoSlot", Result(R"({"id":"a","status":"ok","t_ps":5})"), "bad_result", "slot"},
        BadLine{"SlotBelow0", Result(R"({"id":"a","slot":-1,"status":"ok","t_ps":5})"),
                "bad_result", "slot"},
        BadLine{"NoStatus", Result(R"({"id":"a","slot":0,"t_ps":5})"), "bad_result", "status"},
        BadLine{"UnknownStatus", Result(R"({"id":"a","slot":0,"status":"fine","t_ps":5})"),
                "bad_result", "status"},
        BadLine{"NoTime", Result(R"({"id":"a","slot":0,"status":"ok"})"), "bad_result", "t_ps"},
        BadLine{"TimeIsReal", Result(R"({"id":"a","slot":0,"status":"ok","t_ps":5.5})"),
                "bad_result", "t_ps"},
        BadLine{"TimeBelow0", Result(R"({"id":"a","slot":0,"status":"ok","t_ps":-5})"),
                "bad_result", "positive"},
        BadLine{"TimeTooLarge",
                Result(R"({"id":"a","slot":0,"status":"ok","t_ps":18446744073709551615})"),
                "bad_result", "t_ps"},
        BadLine{"EnergyIsText",
                Result(R"({"id":"a","slot":0,"status":"ok","t_ps":5,"energy_uj":"1"})"),
                "bad_result", "energy_uj"},
        BadLine{"SampleIsNull", Result("null"), "bad_result", "samples[0]"},
        BadLine{"SamplesIsObject", R"({"v":1,"type":"result","batch":1,"round":3,"samples":{}})",
                "bad_result", "samples"},
        BadLine{"UnknownBatch", R"({"v":1,"type":"result","batch":9,"round":0,"samples":[]})",
                "bad_result", "not requested"},
        BadLine{"BatchBelow0", R"({"v":1,"type":"result","batch":-1,"round":0,"samples":[]})",
                "bad_result", "batch"}),
    [](const auto& test) { return test.param.name; });

struct BadOpen {
  std::string name, patch, says;
};

std::ostream& operator<<(std::ostream& out, const BadOpen& bad) { return out << bad.name; }

class HostileOpen : public ::testing::TestWithParam<BadOpen> {};

TEST_P(HostileOpen, OpensNothing) {
  json open = json::parse(kOpen);
  open.merge_patch(json::parse(GetParam().patch));
  const json error = Only(Serve({open.dump()}));
  EXPECT_EQ(error["code"], "bad_open") << error;
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(GetParam().says));
  EXPECT_EQ(error["line"], 1);
}

INSTANTIATE_TEST_SUITE_P(
    Protocol, HostileOpen,
    ::testing::Values(
        BadOpen{"NoSpace", R"({"space":null})", "space"},
        BadOpen{"NoVariants", R"({"space":{"variants":[]}})", "no variants"},
        BadOpen{"VariantsIsText", R"({"space":{"variants":"a"}})", "space.variants"},
        BadOpen{"VariantIsText", R"({"space":{"variants":["a"]}})", "space.variants[0]"},
        BadOpen{"NoId", R"({"space":{"variants":[{}]}})", "space.variants[0].id"},
        BadOpen{"IdIsReal", R"({"space":{"variants":[{"id":1.5}]}})", "id"},
        BadOpen{"SameIdTwice", R"({"space":{"variants":[{"id":"a"},{"id":"a"}]}})", "twice"},
        BadOpen{"MemIsReal", R"({"space":{"variants":[{"id":"a","mem_bytes":1.5}]}})", "mem_bytes"},
        BadOpen{"AlphaIsText", R"({"config":{"alpha":"x"}})", "config.alpha"},
        BadOpen{"AlphaTooLarge", R"({"config":{"alpha":2}})", "alpha"},
        BadOpen{"Stop", R"({"config":{"stop":"soon"}})", "config.stop"},
        BadOpen{"Objective", R"({"config":{"objective":"speed"}})", "config.objective"},
        BadOpen{"Incumbent", R"({"config":{"incumbent":"z"}})", "config.incumbent"},
        BadOpen{"Budget", R"({"config":{"budget":{"runs":0}}})", "budget"},
        BadOpen{"BudgetIsNumber", R"({"config":{"budget":5}})", "config.budget"},
        BadOpen{"SeedBelow0", R"({"config":{"seed":-1}})", "config.seed"},
        BadOpen{"Canary", R"({"config":{"canary":1}})", "canary"},
        BadOpen{"ConfigIsText", R"({"config":"x"})", "config"},
        BadOpen{"Session", R"({"session":{}})", "session"}),
    [](const auto& test) { return test.param.name; });

TEST(Protocol, WithoutASessionEverythingIsAnError) {
  for (const char* type : {"history", "result", "close"}) {
    const json error = Only(Serve({json{{"v", 1}, {"type", type}}.dump()}));
    EXPECT_EQ(error["code"], "not_open");
  }
  EXPECT_THAT(Serve({"", "  ", "\r"}), IsEmpty());
}

TEST(Protocol, ALineWithoutEndIsRefusedInBoundedMemory) {
  std::string huge = R"({"v":1,"type":"open","x":")" + std::string(65 << 20, 'x') + "\"}";
  const std::vector<std::string> replies = Serve({huge, kOpen});
  ASSERT_THAT(replies, SizeIs(2));
  EXPECT_EQ(json::parse(replies[0])["code"], "too_long");
  EXPECT_EQ(json::parse(replies[1])["type"], "batch");
}

TEST(Protocol, FailedRunsNeedNoTime) {
  const std::vector<std::string> replies =
      Serve({kOpen, R"({"v":1,"type":"result","batch":1,"round":0,"samples":[)"
                    R"-({"id":"a","slot":0,"status":"crash(11)"},)-"
                    R"({"id":7,"slot":1,"status":"timeout","t_ps":null,"extra":[1]}]})"});
  EXPECT_THAT(replies, SizeIs(1));
}

// Any bytes at all, made from a good conversation.
TEST(Protocol, BytesOutOfPlaceNeverCrash) {
  const Conversation talk = Converse(0.05);
  std::string text;
  for (const std::string& line : talk.sent) text += line + "\n";
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::string damaged = text;
    for (uint64_t i = 0; i < 1 + random() % 8; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    std::istringstream in(damaged.substr(0, random() % damaged.size()));
    std::ostringstream out;
    ASSERT_TRUE(decide::Serve(in, out));
  }
}

}  // namespace
}  // namespace xplane_time
