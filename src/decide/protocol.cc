// The decider as a process (protocol.h has the protocol). Server reads lines and dispatches them by
// type; Envelope recognizes the forms of a message and answers in the same form. The reply to open
// is delayed until it is certain that no history follows (open_unanswered_). At most one session is
// open.
#include "decide/protocol.h"

#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "json/field.h"
#include "status.h"

namespace xplane_time {

XPLANE_TIME_JSON_FIELDS(CanaryReport, rounds, ratio, lo, hi, biased)
// Fields other than ids.
XPLANE_TIME_JSON_FIELDS(Elimination, round, reason, ratio, lo)
XPLANE_TIME_JSON_FIELDS(Ratio, est, lo, hi)
XPLANE_TIME_JSON_FIELDS(Verdict, delta, canary, mde, runs, rounds, stop_reason, rule, seed)

std::optional<SampleStatus> ParseSampleStatus(std::string_view name) {
  if (name.starts_with("crash(") && name.ends_with(")")) return SampleStatus::kCrash;
  SampleStatus status = {};
  return json::FromJson(json::Json(name), &status) ? std::optional(status) : std::nullopt;
}

namespace decide {
namespace {

using json::Field, json::Json, json::kNeeded, json::OrNull, json::ToJson;

// Positions in the space by id. The key is the JSON text of the id, which distinguishes 1 from "1".
using Positions = std::unordered_map<std::string, uint32_t>;

struct OpenMessage {
  Space space;
  DecideConfig config = {};
  Positions positions = {};
  bool history = false;  // a history follows before any reply
};

void ReadPosition(const Field& id, const Positions& positions, auto* position) {
  const auto at = id->is_primitive() ? positions.find(id->dump()) : positions.end();
  if (at == positions.end()) return id.Fail("the id of a variant of the space");
  *position = at->second;
}

void ReadVariant(const Field& item, OpenMessage* open) {
  Variant& variant = open->space.variants.emplace_back();
  item.Read("mem_bytes", &variant.mem_bytes);
  if (const Json* params = item.Find("params")) {
    variant.params_json = nlohmann::json(*params).dump();  // members in alphabetical order
  }
  const Field id = item.At("id");
  id.Expect(id->is_string() || id->is_number_integer(), "a string or an integer");
  if (!id.ok()) return;
  variant.id = id->dump();
  const bool is_new = open->positions.emplace(variant.id, open->positions.size()).second;
  if (!is_new) id.Error(variant.id, " occurs twice");
}

void ReadSpace(const Field& space, OpenMessage* open) {
  const Field variants = space.At("variants");
  if (variants->is_array() && variants->size() > kMaxVariants) {
    variants.Fail(Cat("a list of at most ", kMaxVariants, " variants; use a random sample"));
  }
  variants.Each([open](const Field& item) { ReadVariant(item, open); });
}

void ReadConfig(const Field& fields, const Positions& positions, DecideConfig* config) {
  fields.Read("alpha", &config->alpha);
  fields.Read("tie_alpha", &config->tie_alpha);
  fields.Read("delta", &config->delta);
  fields.Read("seed", &config->seed);
  const Field canary = fields.At("canary");
  if (!canary->is_boolean()) fields.Read("canary", &config->canary);
  if (canary.value() == false) config->canary = 0;
  fields.Read("rounds_at_once", &config->rounds_at_once);
  fields.Read("stop", &config->stop);
  fields.Read("objective", &config->objective);
  if (fields.Has("incumbent")) {
    ReadPosition(fields.At("incumbent"), positions, &config->incumbent);
  }
  const Field budget = fields.At("budget");
  budget.Read("runs", &config->budget_runs);
  budget.Read("time_ps", &config->budget_time_ps);
}

void ReadSample(const Field& item, const Positions& positions, Sample* sample) {
  ReadPosition(item.At("id"), positions, &sample->variant);
  item.Read("slot", &sample->slot, kNeeded);
  std::string name;
  item.Read("status", &name, kNeeded);
  const auto status = ParseSampleStatus(name);
  if (!status.has_value()) item.At("status").Fail(json::Wanted<SampleStatus>());
  sample->status = status.value_or(SampleStatus::kOk);
  item.Read("t_ps", &sample->t_ps, json::Need(sample->status == SampleStatus::kOk));
  item.Read("energy_uj", &sample->energy_uj);
}

void ReadRound(const Field& message, const Positions& positions, RoundResult* result) {
  message.Read("batch", &result->batch, kNeeded);
  message.Read("round", &result->round, kNeeded);
  message.Read("discarded", &result->discarded);
  message.At("samples").Each(
      [&](const Field& item) { ReadSample(item, positions, &result->samples.emplace_back()); });
}

absl::StatusOr<OpenMessage> ParseOpen(const Json& message) {
  OpenMessage open;
  std::string wrong;
  const Field fields(message, &wrong);
  if (!fields.Has("space")) fields.At("space").Fail("present");
  ReadSpace(fields.At("space"), &open);
  ReadConfig(fields.At("config"), open.positions, &open.config);
  fields.Read("history", &open.history);
  if (!wrong.empty()) return InvalidArgument(wrong);
  return open;
}

Json IdOf(const Space& space, std::optional<uint32_t> variant) {
  return variant ? Json::parse(space.variants[*variant].id) : Json();
}

Json IdsOf(const Space& space, const std::vector<uint32_t>& variants) {
  Json ids = Json::array();
  for (const uint32_t variant : variants) ids.push_back(IdOf(space, variant));
  return ids;
}

}  // namespace

absl::StatusOr<DecideConfig> ParseConfig(const Json& config) {
  DecideConfig parsed;
  std::string wrong;
  ReadConfig(Field(config, &wrong, "config"), /*positions=*/{}, &parsed);
  if (!wrong.empty()) return InvalidArgument(wrong);
  return parsed;
}

Json VerdictJson(const Verdict& verdict, const Space& space) {
  Json eliminated = Json::array(), ratios = Json::array();
  for (const Elimination& out : verdict.eliminated) {
    eliminated.push_back({{"id", IdOf(space, out.variant)}, {"by", IdOf(space, out.by)}});
    eliminated.back().update(ToJson(out));
  }
  for (const Ratio& ratio : verdict.ratios) {
    ratios.push_back({{"id", IdOf(space, ratio.variant)}});
    ratios.back().update(ToJson(ratio));
  }
  Json json = {
      {"pick", IdOf(space, verdict.pick)},
      {"claim", ToJson(verdict.claim)},
      {"tied", IdsOf(space, verdict.tied)},
      {"eliminated", std::move(eliminated)},
      {"ratios", std::move(ratios)},
      {"p_best", OrNull(verdict.p_best)},
      {"regret", {{"est", OrNull(verdict.regret_est)}, {"hi", OrNull(verdict.regret_hi)}}}};
  json.update(ToJson(verdict));
  return json;
}

namespace {

constexpr size_t kMaxLine = 64 << 20;

// Like getline, but it keeps at most kMaxLine + 1 bytes of a line.
bool ReadLine(std::istream& in, std::string* line) {
  constexpr int kEnd = std::char_traits<char>::eof();
  line->clear();
  std::streambuf& buffer = *in.rdbuf();
  int c = buffer.sbumpc();
  if (c == kEnd) return false;
  for (; c != '\n' && c != kEnd; c = buffer.sbumpc()) {
    if (line->size() <= kMaxLine) line->push_back(static_cast<char>(c));
  }
  return true;
}

// The form in which a line states its type: {"type": "open", ...}, the same with another of these
// fields, or {"open": {...}}. Replies have the same form.
struct Envelope {
  static constexpr std::array<const char*, 4> kFields = {"type", "op", "kind", "msg"};
  static constexpr std::array<const char*, 4> kTypes = {"open", "history", "result", "close"};

  // Returns the type, or an empty text. Sets `body` to the object with the fields.
  std::string Open(const Json** body) {
    const Json& message = **body;
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

  std::string Close(const char* type, Json fields) const {
    Json line = {{"v", 1}};
    if (field.empty()) {
      line[type] = std::move(fields);
    } else {
      line[field] = type;
      line.update(fields);
    }
    return json::Dump(line) + '\n';
  }

  std::string field = "type";
};

class Server {
 public:
  Server(std::istream& in, std::ostream& out, const ServeOptions& options)
      : in_(in), out_(out), input_waiting_(options.input_waiting) {
    if (!options.space_json.empty()) {
      // Invalid JSON is not a space; the reply to open reports it.
      space_ = json::Parse(options.space_json);
    }
    if (!input_waiting_) input_waiting_ = [this] { return in_.rdbuf()->in_avail() > 0; };
  }

  bool Run() {
    std::string line;
    while (out_ && ReadLine(in_, &line)) {
      ++number_;
      if (line.size() > kMaxLine) {
        Error("too_long", absl::StrCat("the line has more than ", kMaxLine, " bytes"));
      } else if (line.find_first_not_of(" \t\r") == std::string::npos) {
        AnswerOpen();
      } else {
        Handle(line);
      }
    }
    AnswerOpen();
    return !out_.fail();
  }

 private:
  struct Session {
    Json id;
    Positions positions;
    Decider decider;
    bool concluded = false;
  };

  void Handle(const std::string& line) {
    if (json::NestsDeeper(line)) {
      return Error("bad_json", absl::StrCat("nested deeper than ", json::kMostLevels));
    }
    const Json message = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (message.is_discarded()) return Error("bad_json", "the line is not JSON (UTF-8)");
    if (!message.is_object()) return Error("bad_message", "the line must be an object");
    const auto version = message.find("v");
    if (version == message.end() || *version != 1) {
      return Error("bad_version", "\"v\" must be 1, the version of the protocol");
    }
    const Json* body = &message;
    const std::string type = envelope_.Open(&body);
    Dispatch(type, *body);
  }

  void Dispatch(const std::string& type, const Json& message) {
    if (type == "open") return Open(message);
    if (type != "history" && type != "result" && type != "close") {
      return Error("bad_message", "\"type\" must be open, history, result or close");
    }
    if (!session_) return Error("not_open", "no session is open");
    if (const auto id = message.find("session"); id != message.end() && *id != session_->id) {
      return Error("unknown_session", absl::StrCat("session ", id->dump(), " is not open, but ",
                                                   session_->id.dump(), " is"));
    }
    if (type == "history") return History(message);
    AnswerOpen();
    if (type == "result") return Result(message);
    session_.reset();
  }

  void Open(Json message) {
    if (!space_.is_null() && !message.contains("space")) message["space"] = space_;
    AnswerOpen();
    if (session_ && !session_->concluded) {
      return Error("already_open",
                   absl::StrCat("session ", session_->id.dump(), " is open; close it first"));
    }
    const auto id = message.find("session");
    if (id != message.end() && !id->is_string() && !id->is_number_integer()) {
      return Error("bad_open", "session: must be a string or an integer");
    }
    auto parsed = ParseOpen(message);
    if (!parsed.ok()) return Error("bad_open", parsed.status().message());
    auto decider = Decider::Open(std::move(parsed->space), parsed->config);
    if (!decider.ok()) return Error("bad_open", decider.status().message());
    session_.emplace(Session{.id = id == message.end() ? Json() : *id,
                             .positions = std::move(parsed->positions),
                             .decider = *std::move(decider)});
    open_unanswered_ = true;
    if (!parsed->history && !input_waiting_()) AnswerOpen();
  }

  // Called late enough that a history may come first.
  void AnswerOpen() {
    if (std::exchange(open_unanswered_, false)) Next();
  }

  void History(const Json& message) {
    std::vector<RoundResult> results;
    std::string wrong;
    Field(message, &wrong).At("results").Each([&](const Field& item) {
      ReadRound(item, session_->positions, &results.emplace_back());
    });
    if (!wrong.empty()) return Error("bad_history", wrong);
    const absl::Status status = session_->decider.Resume(results);
    if (!status.ok()) return Error("bad_history", status.message());
    open_unanswered_ = false;
    Next();
  }

  void Result(const Json& message) {
    RoundResult result;
    std::string wrong;
    ReadRound(Field(message, &wrong), session_->positions, &result);
    if (!wrong.empty()) return Error("bad_result", wrong);
    const auto folded = session_->decider.Fold(result);
    if (!folded.ok()) return Error("bad_result", folded.status().message());
    if (*folded == Folded::kBatchComplete) Next();
  }

  void Next() {
    const Space& space = session_->decider.space();
    if (const Batch* batch = session_->decider.Next()) {
      Json rounds = Json::array();
      for (const auto& round : batch->rounds) rounds.push_back(IdsOf(space, round));
      return Write("batch", {{"batch", batch->batch}, {"rounds", std::move(rounds)}});
    }
    session_->concluded = true;
    Write("verdict", VerdictJson(session_->decider.verdict(), space));
  }

  void Write(const char* type, const Json& fields) {
    Json with_session = {{"session", session_->id}};
    with_session.update(fields);
    out_ << envelope_.Close(type, std::move(with_session)) << std::flush;
  }

  // A line that is not a history ends the wait for one.
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
  Json space_;
  std::optional<Session> session_;
  Envelope envelope_;
  bool open_unanswered_ = false;
  uint64_t number_ = 0;
};

}  // namespace

bool Serve(std::istream& in, std::ostream& out, const ServeOptions& options) {
  return Server(in, out, options).Run();
}

}  // namespace decide
}  // namespace xplane_time
