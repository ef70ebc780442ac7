#include "decide/protocol.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decide/messages.h"
#include "json/json.h"

namespace xplane_time::decide {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxLine = 64 << 20;
constexpr size_t kMaxDepth = 64;

enum class Line : uint8_t { kRead, kTooLong, kEnd };

// Like getline, but never holds more than kMaxLine.
Line ReadLine(std::istream& in, std::string* line) {
  line->clear();
  std::streambuf& buffer = *in.rdbuf();
  bool too_long = false;
  for (int c = buffer.sbumpc();; c = buffer.sbumpc()) {
    if (c == std::char_traits<char>::eof()) {
      if (line->empty() && !too_long) return Line::kEnd;
      break;
    }
    if (c == '\n') break;
    if (line->size() == kMaxLine) {
      too_long = true;
    } else {
      line->push_back(static_cast<char>(c));
    }
  }
  return too_long ? Line::kTooLong : Line::kRead;
}

// How a line says what it is: {"type": "open", ...}, the same with another of these fields, or
// {"open": {...}}. Answers say it the same way.
struct Envelope {
  static constexpr std::array<const char*, 4> kFields = {"type", "op", "kind", "msg"};
  static constexpr std::array<const char*, 4> kTypes = {"open", "history", "result", "close"};

  // Empty where it says nothing. Points `body` at the fields.
  std::string Open(const json& message, const json** body) {
    *body = &message;
    for (const char* name : kFields) {
      const auto it = message.find(name);
      if (it == message.end() || !it->is_string()) continue;
      field = name;
      return *it;
    }
    for (const char* type : kTypes) {
      const auto it = message.find(type);
      if (it == message.end() || !it->is_object()) continue;
      field.clear();
      *body = &*it;
      return type;
    }
    return "";
  }

  std::string Close(const char* type, ordered_json fields) const {
    ordered_json line = {{"v", 1}};
    if (field.empty()) {
      line[type] = std::move(fields);
    } else {
      line[field] = type;
      line.update(fields);
    }
    // What is quoted from the input may be cut in the middle of a character.
    return line.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
  }

  std::string field = "type";
};

class Server {
 public:
  Server(std::istream& in, std::ostream& out, const ServeOptions& options)
      : in_(in), out_(out), input_waiting_(options.input_waiting) {
    if (!options.space_json.empty()) {
      // What is not JSON is no space: the open says so.
      space_ = json::parse(options.space_json, nullptr, /*allow_exceptions=*/false);
    }
    if (!input_waiting_) input_waiting_ = [this] { return in_.rdbuf()->in_avail() > 0; };
  }

  bool Run() {
    std::string line;
    while (out_) {
      const Line read = ReadLine(in_, &line);
      if (read == Line::kEnd) break;
      ++number_;
      if (read == Line::kTooLong) {
        Error("too_long", absl::StrCat("the line has more than ", kMaxLine, " bytes"));
      } else if (line.find_first_not_of(" \t\r") == std::string::npos) {
        AnswerOpen();
      } else {
        Handle(line);
      }
    }
    AnswerOpen();
    return static_cast<bool>(out_);
  }

 private:
  struct Session {
    json id;
    Ids ids;
    Decider decider;
    bool concluded = false;
  };

  void Handle(const std::string& line) {
    if (xplane_time::json::NestsDeeper(line, kMaxDepth)) {
      return Error("bad_json", absl::StrCat("nested deeper than ", kMaxDepth));
    }
    const json message = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (message.is_discarded()) return Error("bad_json", "the line is not JSON (UTF-8)");
    if (!message.is_object()) return Error("bad_message", "the line must be an object");
    const auto version = message.find("v");
    if (version == message.end() || *version != 1) {
      return Error("bad_version", "\"v\" must be 1: this is version 1 of the protocol");
    }
    const json* body = nullptr;
    const std::string type = envelope_.Open(message, &body);
    Dispatch(type, *body);
  }

  void Dispatch(const std::string& type, const json& message) {
    if (type == "open") return Open(message);
    if (type != "history" && type != "result" && type != "close") {
      return Error("bad_message", "\"type\" must be open, history, result or close");
    }
    if (!session_) return Error("not_open", "no session is open");
    if (const auto id = message.find("session"); id != message.end() && *id != session_->id) {
      return Error("unknown_session", absl::StrCat("session ", id->dump(), " is not open, ",
                                                   session_->id.dump(), " is"));
    }
    if (type == "history") return History(message);
    AnswerOpen();
    if (type == "result") return Result(message);
    session_.reset();
  }

  void Open(const json& message) {
    if (space_.is_null() || message.contains("space")) return OpenWithSpace(message);
    json with_space = message;
    with_space["space"] = space_;
    OpenWithSpace(with_space);
  }

  void OpenWithSpace(const json& message) {
    AnswerOpen();
    if (session_ && !session_->concluded) {
      return Error("already_open",
                   absl::StrCat("session ", session_->id.dump(), " is open: close it first"));
    }
    const auto id = message.find("session");
    if (id != message.end() && !id->is_string() && !id->is_number_integer()) {
      return Error("bad_open", "session: must be a string or an integer");
    }
    auto parsed = ParseOpen(message);
    if (!parsed.ok()) return Error("bad_open", parsed.status().message());
    auto decider = Decider::Open(std::move(parsed->space), parsed->config);
    if (!decider.ok()) return Error("bad_open", decider.status().message());
    session_.emplace(Session{.id = id == message.end() ? json() : *id,
                             .ids = std::move(parsed->ids),
                             .decider = *std::move(decider)});
    open_unanswered_ = true;
    if (!parsed->history && !input_waiting_()) AnswerOpen();
  }

  // Late enough that a history may come first.
  void AnswerOpen() {
    if (std::exchange(open_unanswered_, false)) Next();
  }

  void History(const json& message) {
    auto results = ParseHistory(message, session_->ids);
    absl::Status status = results.status();
    if (status.ok()) status = session_->decider.Resume(*results);
    if (!status.ok()) return Error("bad_history", status.message());
    open_unanswered_ = false;
    Next();
  }

  void Result(const json& message) {
    auto result = ParseResult(message, session_->ids);
    if (!result.ok()) return Error("bad_result", result.status().message());
    const auto folded = session_->decider.Fold(*result);
    if (!folded.ok()) return Error("bad_result", folded.status().message());
    if (*folded == Folded::kBatchComplete) Next();
  }

  void Next() {
    if (const Batch* batch = session_->decider.Next()) {
      return Write("batch", BatchJson(*batch, session_->ids));
    }
    session_->concluded = true;
    Write("verdict", VerdictJson(session_->decider.verdict(), session_->ids));
  }

  void Write(const char* type, const ordered_json& fields) {
    ordered_json with_session = {{"session", session_->id}};
    with_session.update(fields);
    out_ << envelope_.Close(type, std::move(with_session)) << std::flush;
  }

  // A line that is no history ends the wait for one.
  void Error(std::string_view code, absl::string_view message) {
    AnswerOpen();
    out_ << envelope_.Close(
                "error",
                {{"code", std::string(code)}, {"message", std::string(message)}, {"line", number_}})
         << std::flush;
  }

  std::istream& in_;
  std::ostream& out_;
  std::function<bool()> input_waiting_;
  json space_;
  std::optional<Session> session_;
  Envelope envelope_;
  bool open_unanswered_ = false;
  uint64_t number_ = 0;
};

}  // namespace

bool Serve(std::istream& in, std::ostream& out, const ServeOptions& options) {
  return Server(in, out, options).Run();
}

}  // namespace xplane_time::decide
