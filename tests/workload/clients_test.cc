#include "workload/clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "workload/model_server.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(Clients, AreKnownByTheirNames) {
  std::set<std::string_view> names;
  for (const ClientKind& each : Clients()) {
    EXPECT_TRUE(names.insert(each.name).second);
    EXPECT_EQ(*FindClient(each.name), &each);
    EXPECT_FALSE(each.help.empty());
    EXPECT_TRUE(ParseParameters(each, {}).ok());  // defaults are of their types
  }
  EXPECT_THAT(names, ElementsAre("command", "ollama", "openai"));
  EXPECT_EQ(
      FindClient("opnai").status().message(),
      "--client: unknown client \"opnai\"; clients: command, openai, ollama (xplane-time power "
      "clients)");
}

TEST(Clients, ParametersAreOfTheirTypes) {
  const ClientKind& openai = **FindClient("openai");
  const auto good = ParseParameters(openai, {"temperature=0", "seed=-3", "system=a=b", "retries=0",
                                             "max_tokens=5", "max_tokens=6"});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(std::get<double>(good->at("temperature")), 0);
  EXPECT_EQ(std::get<int64_t>(good->at("seed")), -3);
  EXPECT_EQ(std::get<std::string>(good->at("system")), "a=b");
  EXPECT_EQ(std::get<int64_t>(good->at("retries")), 0);
  EXPECT_EQ(std::get<int64_t>(good->at("max_tokens")), 6);
  EXPECT_EQ(std::get<double>(good->at("backoff_s")), 0.5);
  EXPECT_FALSE(good->contains("top_p"));
  struct Case {
    const char *text, *message;
  };
  for (const Case& each : {
           Case{"=1", "must be NAME=VALUE"},
           Case{"model=x", "model: is set by --model"},
           Case{"stream=false", "stream: is always true"},
           Case{"api_key=sk-1", "use api_key_env=NAME with the name of an environment variable"},
           Case{"extra_body=7", "extra_body: must be a JSON object"},
           Case{"extra_body={\"messages\":[]}", "messages: is the question"},
           Case{"stop=\xff", "is not UTF-8"},
           Case{"temperature", "must be NAME=VALUE"},
           Case{"temperature=hot", "temperature: must be a number of at least 0, not \"hot\""},
           Case{"temperature=nan", "temperature: must be a number"},
           Case{"temperature=-1", "of at least 0"},
           Case{"seed=1.5", "seed: must be a whole number, not \"1.5\""},
           Case{"seed=99999999999999999999", "seed: must be a whole number"},
           Case{"max_tokens=0", "max_tokens: must be a whole number of at least 1"},
           Case{"connect_timeout_s=0", "of at least 0.001"},
           Case{"system=", "system: must be a string"},
       }) {
    EXPECT_THAT(std::string(ParseParameters(openai, {each.text}).status().message()),
                HasSubstr(each.message));
  }
  EXPECT_THAT(std::string(ParseParameters(**FindClient("command"), {"a=1"}).status().message()),
              HasSubstr("command has no parameter \"a\"; it has no parameters"));
}

std::unique_ptr<ChatProtocol> ProtocolOf(ChatProtocolFactory make, const char* client,
                                         const std::vector<std::string>& parameters) {
  return make({.model = "m", .parameters = *ParseParameters(**FindClient(client), parameters)});
}

TEST(OpenAi, AsksForAStreamWithUsage) {
  const auto protocol = ProtocolOf(NewOpenAiProtocol, "openai",
                                   {"temperature=0", "max_tokens=9", "system=Be brief."});
  const Json request = Json::parse(protocol->ChatRequest({.problem = "2 + 2?"}));
  EXPECT_EQ(request, Json::parse(R"({"model": "m",
      "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}],
      "stream": true, "stream_options": {"include_usage": true},
      "temperature": 0.0, "max_tokens": 9})"));
}

TEST(OpenAi, PassesOtherParametersOn) {
  const auto protocol = ProtocolOf(
      NewOpenAiProtocol, "openai",
      {"top_k=5", "stop=[\"#\"]", "reasoning_effort=high", "user=\"7\"",
       "logit_bias={\"50256\":-100}", "extra_body={\"min_p\":0.1,\"guided_choice\":[\"a\"]}",
       "empty=", "n=1e999", "stream_options=null"});
  const Json request = Json::parse(protocol->ChatRequest({.problem = "2 + 2?"}));
  EXPECT_EQ(request, Json::parse(R"({"model": "m",
      "messages": [{"role": "user", "content": "2 + 2?"}],
      "stream": true, "stream_options": null, "empty": "", "min_p": 0.1, "guided_choice": ["a"],
      "logit_bias": {"50256": -100}, "n": "1e999", "reasoning_effort": "high", "stop": ["#"],
      "top_k": 5, "user": "7"})"));
}

TEST(Ollama, PassesOtherParametersOn) {
  const auto protocol =
      ProtocolOf(NewOllamaProtocol, "ollama",
                 {"num_ctx=4096", "stop=#", "think=false", "keep_alive=5m", "temperature=0",
                  "options={\"top_k\":3}", "extra_body={\"format\":\"json\"}"});
  const Json request = Json::parse(protocol->ChatRequest({.problem = "2 + 2?"}));
  EXPECT_EQ(request, Json::parse(R"({"model": "m",
      "messages": [{"role": "user", "content": "2 + 2?"}], "stream": true,
      "options": {"temperature": 0.0, "num_ctx": 4096, "top_k": 3, "stop": "#"},
      "format": "json", "keep_alive": "5m", "think": false})"));
}

TEST(Ollama, HasWordsOfItsOwnForParameters) {
  const auto protocol = ProtocolOf(NewOllamaProtocol, "ollama", {"seed=1", "max_tokens=9"});
  const Json request = Json::parse(protocol->ChatRequest({.problem = "2 + 2?"}));
  EXPECT_EQ(request["options"], Json::parse(R"({"seed": 1, "num_predict": 9})"));
  EXPECT_THAT(*protocol->Models(R"({"models": [{"name": "a:latest"}, {"name": "b:7b"}]})"),
              ElementsAre("a:latest", "b:7b", "a"));
  EXPECT_FALSE(protocol->Models("{}").has_value());
}

// What each stream says, pushed as a whole at 1 s and then nothing.
struct Said {
  absl::Status status;
  StreamedAnswer answer;
};
Said Push(ChatProtocolFactory make, const std::vector<std::string>& pieces) {
  const auto stream = make({})->NewStream(ApiKey());
  Said said;
  int64_t now_ns = 0;
  for (const std::string& piece : pieces) {
    now_ns += 1'000'000;
    if (said.status.ok()) said.status = stream->Push(piece, now_ns);
  }
  said.answer = std::move(stream->answer);
  return said;
}

TEST(OpenAi, ReasoningIsToldApartAndTimesAreOfContent) {
  const auto [status, answer] =
      Push(NewOpenAiProtocol,
           {"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\",\"content\":null}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"4\"}}]}\n\n", ": still here\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\".\"},\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another\"}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
            "data: [DONE]\n\n"});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(answer.text, "4.");
  EXPECT_EQ(answer.first_reasoning_ns, 2'000'000);
  EXPECT_EQ(answer.first_ns, 4'000'000);
  EXPECT_EQ(answer.gaps_ns.count(), 1u);
  EXPECT_EQ(answer.gaps_ns.Median(), 2e6);
  EXPECT_EQ(answer.finish_reason, "stop");
  EXPECT_EQ(answer.input_tokens, 3);
  EXPECT_EQ(answer.output_tokens, 2);
  EXPECT_TRUE(answer.is_whole);
}

TEST(OpenAi, UsageThatIsNoneIsUnknownAndSaidToBe) {
  struct Case {
    const char *usage, *message;
    std::optional<int64_t> input, output;
  };
  for (const Case& each :
       {Case{"null", "", {}, {}}, Case{"{}", "", {}, {}},
        Case{R"({"prompt_tokens":3,"completion_tokens":-1})",
             "completion_tokens -1 is ignored: it is not a count of tokens",
             3,
             {}},
        Case{
            R"({"prompt_tokens":1.5,"completion_tokens":"2"})",
            "prompt_tokens 1.5 is ignored: it is not a count of tokens; completion_tokens \"2\" is "
            "ignored: it is not a count of tokens",
            {},
            {}},
        Case{R"({"prompt_tokens":3,"completion_tokens":1e999})",
             "completion_tokens 1e999 is ignored: it is not a count of tokens",
             3,
             {}}}) {
    SCOPED_TRACE(each.usage);
    const auto [status, answer] =
        Push(NewOpenAiProtocol, {"data: {\"usage\":", each.usage, "}\n\ndata: [DONE]\n\n"});
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(answer.input_tokens, each.input);
    EXPECT_EQ(answer.output_tokens, each.output);
    EXPECT_EQ(answer.message, each.message);
  }
}

TEST(OpenAi, WhatIsNoSuchStreamIsRefused) {
  struct Case {
    const char* data;
    absl::StatusCode code;
    const char* message;
  };
  for (const Case& each :
       {Case{"no", absl::StatusCode::kInvalidArgument, "it is not JSON (byte 1)"},
        Case{"[1]", absl::StatusCode::kInvalidArgument, "it is not a JSON object"},
        Case{"{\"a\":[1,}", absl::StatusCode::kInvalidArgument, "it is not JSON (byte 8)"},
        Case{"{\"choices\":7}", absl::StatusCode::kInvalidArgument, "choices: must be a list"},
        Case{"{\"choices\":[7]}", absl::StatusCode::kInvalidArgument, "an object"},
        Case{"{\"choices\":[{\"delta\":{\"content\":7}}]}", absl::StatusCode::kInvalidArgument,
             "choices[0].delta.content: must be a string"},
        Case{"{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
             absl::StatusCode::kInvalidArgument, "it is not UTF-8 (byte 33)"},
        Case{"{\"error\":{\"message\":\"CUDA out of memory\"}}", absl::StatusCode::kInternal,
             "the server failed: CUDA out of memory"}}) {
    SCOPED_TRACE(each.data);
    const absl::Status status = Push(NewOpenAiProtocol, {"data: ", each.data, "\n\n"}).status;
    EXPECT_EQ(status.code(), each.code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(each.message));
  }
}

TEST(Ollama, LinesOfJson) {
  const auto [status, answer] =
      Push(NewOllamaProtocol,
           {"{\"message\":{\"thinking\":\"hm\"}}\n", "{\"message\":{\"content\":\"4", "\"}}\n",
            "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\","
            "\"prompt_eval_count\":3,\"eval_count\":-2}\n"});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(answer.text, "4");
  EXPECT_EQ(answer.first_reasoning_ns, 1'000'000);
  EXPECT_EQ(answer.first_ns, 3'000'000);
  EXPECT_EQ(answer.input_tokens, 3);
  EXPECT_EQ(answer.output_tokens, std::nullopt);
  EXPECT_THAT(answer.message, HasSubstr("eval_count -2 is ignored"));
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(Push(NewOllamaProtocol, {"{\"error\":\"no such model\"}\n"}).status.message(),
            "the server failed: no such model");
}

std::string Content(const std::string& text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
}

// U+1F600 is \ud83d\ude00. Each text that is cut anywhere is the same.
TEST(OpenAi, APieceMayEndBetweenTwoSurrogates) {
  struct Case {
    std::vector<std::string> pieces;
    std::string text;
  };
  const std::string smile = "\xf0\x9f\x98\x80", unknown = "\xef\xbf\xbd";
  for (const Case& each :
       {Case{{R"(\ud83d\ude00)"}, smile}, Case{{R"(\ud83d)", R"(\ude00)"}, smile},
        Case{{R"(a\uD83D)", R"(\uDE00b)"}, "a" + smile + "b"},
        Case{{R"(\ud83d)", "", R"(\ude00)"}, smile}, Case{{R"(\ud83d)"}, unknown},
        Case{{R"(\ude00)"}, unknown}, Case{{R"(\ud83d)", "x"}, unknown + "x"},
        Case{{R"(\ud83d)", R"(\ud83d)", R"(\ude00)"}, unknown + smile},
        Case{{R"(\ude00\ud83d)", R"(\ude00)"}, unknown + smile},
        Case{{R"(\\ud83d)", R"(\\ude00)"}, R"(\ud83d\ude00)"},
        Case{{R"(\"\ud83d)", R"(\ude00\")"}, "\"" + smile + "\""},
        Case{{R"(\ufdd0 and)"}, "\xef\xb7\x90 and"}}) {
    const auto stream = NewOpenAiProtocol({})->NewStream(ApiKey());
    for (const std::string& piece : each.pieces) {
      const absl::Status status = stream->Push(Content(piece), 1);
      EXPECT_TRUE(status.ok()) << status;
    }
    stream->answer.End();
    EXPECT_EQ(stream->answer.text, each.text) << each.pieces[0];
  }
}

TEST(Streams, NothingAfterTheEndCounts) {
  const auto openai =
      Push(NewOpenAiProtocol, {"data: [DONE]\n\n" + Content("x"), "data: what\n\n"});
  EXPECT_TRUE(openai.status.ok()) << openai.status;
  EXPECT_EQ(openai.answer.text, "");
  const auto ollama =
      Push(NewOllamaProtocol, {"{\"done\":true}\n", "{\"message\":{\"content\":\"x\"}}\nwhat\n"});
  EXPECT_TRUE(ollama.status.ok()) << ollama.status;
  EXPECT_EQ(ollama.answer.text, "");
}

// 100 MB of it, of which no more than the bound is held.
TEST(OpenAi, AnAnswerHasABound) {
  const auto stream = NewOpenAiProtocol({})->NewStream(ApiKey());
  const std::string event =
      "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(1 << 20, 'a') + "\"}}]}\n\n";
  absl::Status status;
  int pushed = 0;
  for (; status.ok() && pushed < 100; ++pushed) status = stream->Push(event, pushed);
  EXPECT_EQ(status.message(), "an answer longer than 16777216 bytes");
  EXPECT_EQ(pushed, 17);
}

TEST(ErrorMessages, AreFoundInTheBody) {
  EXPECT_EQ(ErrorMessageIn(R"({"error":{"message":"no","type":"x"}})", ApiKey()), "no");
  EXPECT_EQ(ErrorMessageIn(R"({"error":"no"})", ApiKey()), "no");
  EXPECT_EQ(ErrorMessageIn(R"({"object":"error","message":"no"})", ApiKey()), "no");
  EXPECT_EQ(ErrorMessageIn(R"({"detail":"no"})", ApiKey()), "no");
  EXPECT_EQ(ErrorMessageIn(R"({"detail":[7]})", ApiKey()), R"({"detail":[7]})");
  EXPECT_EQ(ErrorMessageIn("<html>", ApiKey()), "<html>");
  EXPECT_EQ(ErrorMessageIn(std::string(1000, 'a'), ApiKey()), std::string(300, 'a'));
  EXPECT_EQ(ErrorMessageIn("", ApiKey()), "");
}

}  // namespace
}  // namespace xplane_time
