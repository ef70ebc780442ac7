#include "workload/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace xplane_time {
namespace {

using ::testing::ElementsAre;

using Events = std::vector<std::string>;  // "TYPE|DATA"

// Of a stream that comes in `pieces`.
Events EventsOf(const std::vector<std::string_view>& pieces) {
  EventStream stream(1000);
  Events events;
  for (const std::string_view piece : pieces) {
    EXPECT_TRUE(stream
                    .Push(piece,
                          [&](const ServerEvent& event) {
                            events.push_back(event.type + "|" + event.data);
                            return absl::OkStatus();
                          })
                    .ok());
  }
  return events;
}

struct Case {
  std::string stream;
  Events events;
};
const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"data: a\n\n", {"|a"}},
      {"data:a\n\ndata:  b\n\n", {"|a", "| b"}},  // one space is not of the value
      {"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", {"|a", "|b", "|c"}},
      {"data: a\ndata: b\ndata:\n\n", {"|a\nb\n"}},
      {": a comment\n\ndata: a\n: another\n\n:\n\n", {"|a"}},
      {"event: error\ndata: a\n\ndata: b\n\n", {"error|a", "|b"}},
      {"event: no data\n\ndata: b\n\n", {"|b"}},
      {"id: 7\nretry: 5\nnonsense\nmore: x\ndata: a\n\n", {"|a"}},
      {"\xef\xbb\xbf"
       "data: a\n\n\xef\xbb\xbf"
       "data: b\n\n",
       {"|a"}},  // a mark in the middle is a name
      {"data\n\n", {"|"}},
      {"data: {\"a\": \"\xc3\xa9\"}\n\n", {"|{\"a\": \"\xc3\xa9\"}"}},
      {"data: \xff\xfe\n\n", {"|\xff\xfe"}},
      {std::string("data: a\0b\n\n", 11), {std::string("|a\0b", 4)}},
      {"\n\n\r\n\r", {}},
      {"data: a\n", {}},
      {"data: a", {}},
  };
  return cases;
}

TEST(EventStream, EventsOfAWholeStream) {
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.stream);
    EXPECT_EQ(EventsOf({each.stream}), each.events);
  }
}

TEST(EventStream, CutAtEveryByte) {
  for (const Case& each : Cases()) {
    const std::string_view stream = each.stream;
    SCOPED_TRACE(each.stream);
    std::vector<std::string_view> bytes;
    for (size_t at = 0; at < stream.size(); ++at) {
      EXPECT_EQ(EventsOf({stream.substr(0, at), stream.substr(at)}), each.events) << at;
      bytes.push_back(stream.substr(at, 1));
    }
    EXPECT_EQ(EventsOf(bytes), each.events);
  }
}

// An event is there with the CR of its last line: no token waits for the next one.
TEST(EventStream, AnEventDoesNotWaitForTheByteAfterIt) {
  EXPECT_THAT(EventsOf({"data: a\r\n\r"}), ElementsAre("|a"));
  EXPECT_THAT(EventsOf({"data: a\r\n\r", "\ndata: b\r\n\r\n"}), ElementsAre("|a", "|b"));
}

TEST(EventStream, SaysThatItsLastEventIsCut) {
  const auto is_cut = [](std::string_view text) {
    EventStream stream(1000);
    EXPECT_TRUE(stream.Push(text, [](const ServerEvent&) { return absl::OkStatus(); }).ok());
    return stream.HasCutEvent();
  };
  for (const char* text : {"data: a", "data: a\n", "data: a\n\nd"})
    EXPECT_TRUE(is_cut(text)) << text;
  for (const char* text : {"", "data: a\n\n", "data: a\r\r", ": c\n"}) {
    EXPECT_FALSE(is_cut(text)) << text;
  }
}

TEST(EventStream, HoldsNoMoreThanItMay) {
  const auto pushed = [](size_t most_bytes, std::string_view text) {
    EventStream stream(most_bytes);
    absl::Status status;
    for (size_t at = 0; at < text.size() && status.ok(); ++at) {
      status = stream.Push(text.substr(at, 1), [](const ServerEvent&) { return absl::OkStatus(); });
    }
    return status;
  };
  EXPECT_TRUE(pushed(10, "data: 6789\n\n").ok());
  EXPECT_EQ(pushed(10, "data: 67890").message(), "a line longer than 10 bytes");
  EXPECT_EQ(pushed(10, ": a comment has its bounds too").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pushed(10, "data: 1234\ndata: 1234\ndata: 1234\n\n").message(),
            "an event longer than 10 bytes");
  EXPECT_TRUE(pushed(10, "data: 1234\n\ndata: 1234\n\ndata: 1234\n\n").ok());
  // Lines of data that are empty are LFs.
  EXPECT_EQ(
      pushed(10, "data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n").code(),
      absl::StatusCode::kResourceExhausted);
}

TEST(EventStream, AnErrorOfWhoTakesEventsEndsIt) {
  EventStream stream(1000);
  int taken = 0;
  const absl::Status status = stream.Push("data: a\n\ndata: b\n\n", [&](const ServerEvent&) {
    ++taken;
    return absl::InternalError("enough");
  });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(taken, 1);
}

}  // namespace
}  // namespace xplane_time
