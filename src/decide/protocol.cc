#include "decide/protocol.h"

#include <concepts>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "json/described.h"
#include "status.h"

namespace xplane_time {

XPLANE_TIME_JSON_FIELDS(CanaryReport, rounds, ratio, lo, hi, biased)

std::optional<SampleStatus> ParseSampleStatus(std::string_view name) {
  if (name.starts_with("crash(") && name.ends_with(")")) return SampleStatus::kCrash;
  SampleStatus status = {};
  return json::FromJson(name, &status) ? std::optional(status) : std::nullopt;
}

namespace decide {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using xplane_time::json::FromJson, xplane_time::json::kMostLevels, xplane_time::json::NestsDeeper,
    xplane_time::json::OrNull, xplane_time::json::ToJson;

absl::Status Wrong(const std::string& field, std::string_view wanted) {
  return InvalidArgument(field, ": must be ", wanted);
}

// What a value of a type has to be that is not.
template <typename T>
std::string_view Wanted(const json& value) {
  if constexpr (xplane_time::json::OptionalValue<T>) {
    return Wanted<typename T::value_type>(value);
  } else if constexpr (std::same_as<T, bool>) {
    return "true or false";
  } else if constexpr (std::same_as<T, double>) {
    return "a number";
  } else if constexpr (std::same_as<T, std::string>) {
    return "a string";
  } else {
    if (!value.is_number_integer()) return "an integer";
    return std::is_signed_v<T> ? "an integer of 64 bits" : "an integer from 0, and smaller";
  }
}

// Fields of one object. The first error stays; what is absent (or null) leaves its target as it is.
class Fields {
 public:
  Fields(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) status_ = Wrong(place_.empty() ? "the line" : place_, "an object");
  }

  const absl::Status& status() const { return status_; }
  std::string Place(std::string_view name) const {
    return absl::StrCat(place_, place_.empty() ? "" : ".", std::string(name));
  }
  bool Fail(const char* name, std::string_view wanted) {
    status_.Update(Wrong(Place(name), wanted));
    return false;
  }

  // Null where it is not there, or another field has failed.
  const json* Find(const char* name, bool required = false) {
    if (!status_.ok()) return nullptr;
    const auto it = object_.find(name);
    if (it != object_.end() && !it->is_null()) return &*it;
    if (required) Fail(name, "present");
    return nullptr;
  }

  // Whether it is there and fits.
  template <typename T>
  bool Read(const char* name, T* target, bool required = false) {
    const json* value = Find(name, required);
    if (value == nullptr) return false;
    if (value->is_primitive() && FromJson(xplane_time::json::Json(*value), target)) return true;
    return Fail(name, Wanted<T>(*value));
  }

  // Of an enumeration, by its name.
  template <typename T>
  void ReadName(const char* name, T* target, std::string_view wanted) {
    std::string text;
    if (Read(name, &text) && !FromJson(text, target)) Fail(name, wanted);
  }

  // The variant whose id it is.
  void ReadVariant(const char* name, const Positions& positions, std::optional<uint32_t>* target,
                   std::string_view wanted, bool required = false) {
    const json* id = Find(name, required);
    if (id == nullptr) return;
    const auto at = id->is_primitive() ? positions.find(id->dump()) : positions.end();
    if (at == positions.end()) {
      Fail(name, wanted);
    } else {
      *target = at->second;
    }
  }

  // A list that must be there; `parse(item, place)`.
  template <typename T>
  absl::Status ReadList(const char* name, std::vector<T>* list, auto parse) {
    const json* items = Find(name, /*required=*/true);
    if (items == nullptr) return status_;
    if (!items->is_array()) return Wrong(Place(name), "an array");
    for (const json& item : *items) {
      ASSIGN_OR_RETURN(T one, parse(item, absl::StrCat(Place(name), "[", list->size(), "]")));
      list->push_back(std::move(one));
    }
    return absl::OkStatus();
  }

 private:
  const json& object_;
  std::string place_;
  absl::Status status_;
};

absl::StatusOr<Variant> ParseVariant(const json& item, const std::string& place,
                                     Positions* positions) {
  Fields fields(item, place);
  Variant variant;
  fields.Read("mem_bytes", &variant.mem_bytes);
  if (const json* params = fields.Find("params")) variant.params_json = params->dump();
  const json* id = fields.Find("id", /*required=*/true);
  if (id == nullptr) return fields.status();
  if (!id->is_string() && !id->is_number_integer()) {
    return Wrong(fields.Place("id"), "a string or an integer");
  }
  variant.id = id->dump();
  if (!positions->emplace(variant.id, static_cast<uint32_t>(positions->size())).second) {
    return InvalidArgument(fields.Place("id"), ": ", variant.id, " is there twice");
  }
  return variant;
}

absl::Status ParseSpace(const json& space, OpenMessage* open) {
  Fields fields(space, "space");
  const json* variants = fields.Find("variants");
  if (variants != nullptr && variants->is_array() && variants->size() > kMaxVariants) {
    return Wrong("space.variants", absl::StrCat("of at most ", kMaxVariants,
                                                " variants: draw a sample of the space first"));
  }
  return fields.ReadList("variants", &open->space.variants,
                         [open](const json& item, const std::string& place) {
                           return ParseVariant(item, place, &open->positions);
                         });
}

absl::Status ParseConfig(const json& object, const Positions& positions, DecideConfig* config) {
  Fields fields(object, "config");
  fields.Read("alpha", &config->alpha);
  fields.Read("tie_alpha", &config->tie_alpha);
  fields.Read("delta", &config->delta);
  fields.Read("seed", &config->seed);
  const json* canary = fields.Find("canary");
  if (canary == nullptr || !canary->is_boolean()) {
    fields.Read("canary", &config->canary);
  } else if (!canary->get<bool>()) {
    config->canary = 0;
  }
  fields.ReadName("stop", &config->stop, "pick or claim");
  fields.ReadName("objective", &config->objective, "time, energy, edp, ed2p or pareto");
  fields.ReadVariant("incumbent", positions, &config->incumbent, "the id of a variant, or null");
  const json* budget = fields.Find("budget");
  if (budget == nullptr) return fields.status();
  Fields budget_fields(*budget, "config.budget");
  budget_fields.Read("runs", &config->budget_runs);
  budget_fields.Read("time_ps", &config->budget_time_ps);
  return budget_fields.status();
}

absl::StatusOr<Sample> ParseSample(const json& item, const std::string& place,
                                   const Positions& positions) {
  Fields fields(item, place);
  Sample sample;
  std::optional<uint32_t> variant;
  fields.ReadVariant("id", positions, &variant, "the id of a variant of the space",
                     /*required=*/true);
  sample.variant = variant.value_or(0);
  fields.Read("slot", &sample.slot, /*required=*/true);
  if (std::string name; fields.Read("status", &name, /*required=*/true)) {
    const auto status = ParseSampleStatus(name);
    sample.status = status.value_or(SampleStatus::kOk);
    if (!status) {
      fields.Fail("status",
                  "ok, compile_error, runtime_error, crash, timeout, oom, wrong_result, "
                  "no_events, throttled or infra");
    }
  }
  fields.Read("t_ps", &sample.t_ps, /*required=*/sample.status == SampleStatus::kOk);
  fields.Read("energy_uj", &sample.energy_uj);
  if (!fields.status().ok()) return fields.status();
  return sample;
}

absl::StatusOr<RoundResult> ParseResult(const json& message, const std::string& place,
                                        const Positions& positions) {
  Fields fields(message, place);
  RoundResult result;
  fields.Read("batch", &result.batch, /*required=*/true);
  fields.Read("round", &result.round, /*required=*/true);
  fields.Read("discarded", &result.discarded);
  RETURN_IF_ERROR(fields.ReadList(
      "samples", &result.samples,
      [&](const json& item, const std::string& at) { return ParseSample(item, at, positions); }));
  return result;
}

ordered_json IdOf(const Space& space, std::optional<uint32_t> variant) {
  return variant ? ordered_json::parse(space.variants[*variant].id) : ordered_json();
}

ordered_json IdsOf(const Space& space, const std::vector<uint32_t>& variants) {
  ordered_json ids = ordered_json::array();
  for (const uint32_t variant : variants) ids.push_back(IdOf(space, variant));
  return ids;
}

}  // namespace

absl::StatusOr<OpenMessage> ParseOpen(const json& message) {
  OpenMessage open;
  Fields fields(message, "");
  const json* space = fields.Find("space", /*required=*/true);
  if (space == nullptr) return fields.status();
  RETURN_IF_ERROR(ParseSpace(*space, &open));
  if (const json* config = fields.Find("config")) {
    RETURN_IF_ERROR(ParseConfig(*config, open.positions, &open.config));
  }
  fields.Read("history", &open.history);
  if (!fields.status().ok()) return fields.status();
  return open;
}

ordered_json VerdictJson(const Verdict& verdict, const Space& space) {
  ordered_json eliminated = ordered_json::array(), ratios = ordered_json::array();
  for (const Elimination& out : verdict.eliminated) {
    eliminated.push_back({{"id", IdOf(space, out.variant)},
                          {"by", IdOf(space, out.by)},
                          {"round", out.round},
                          {"reason", out.reason},
                          {"ratio", OrNull(out.ratio)},
                          {"lo", OrNull(out.lo)}});
  }
  for (const Ratio& ratio : verdict.ratios) {
    ratios.push_back({{"id", IdOf(space, ratio.variant)},
                      {"est", ratio.est},
                      {"lo", OrNull(ratio.lo)},
                      {"hi", OrNull(ratio.hi)}});
  }
  return {{"pick", IdOf(space, verdict.pick)},
          {"claim", ToJson(verdict.claim)},
          {"tied", IdsOf(space, verdict.tied)},
          {"eliminated", std::move(eliminated)},
          {"ratios", std::move(ratios)},
          {"p_best", OrNull(verdict.p_best)},
          {"regret", {{"est", OrNull(verdict.regret_est)}, {"hi", OrNull(verdict.regret_hi)}}},
          {"delta", verdict.delta},
          {"canary", ToJson(verdict.canary)},
          {"mde", OrNull(verdict.mde)},
          {"runs", verdict.runs},
          {"rounds", verdict.rounds},
          {"stop_reason", verdict.stop_reason},
          {"rule", verdict.rule},
          {"seed", verdict.seed}};
}

namespace {

constexpr size_t kMaxLine = 64 << 20;

enum class Line : uint8_t { kRead, kTooLong, kEnd };

// Like getline, but never holds more than kMaxLine.
Line ReadLine(std::istream& in, std::string* line) {
  line->clear();
  std::streambuf& buffer = *in.rdbuf();
  bool too_long = false;
  for (int c = buffer.sbumpc(); c != '\n'; c = buffer.sbumpc()) {
    if (c == std::char_traits<char>::eof()) {
      if (line->empty()) return Line::kEnd;
      break;
    }
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

  // Empty where it says nothing. Points `body`, the message, at the fields.
  std::string Open(const json** body) {
    const json& message = **body;
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
    return !out_.fail();
  }

 private:
  struct Session {
    json id;
    Positions positions;
    Decider decider;
    bool concluded = false;
  };

  void Handle(const std::string& line) {
    if (NestsDeeper(line)) {
      return Error("bad_json", absl::StrCat("nested deeper than ", kMostLevels));
    }
    const json message = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (message.is_discarded()) return Error("bad_json", "the line is not JSON (UTF-8)");
    if (!message.is_object()) return Error("bad_message", "the line must be an object");
    const auto version = message.find("v");
    if (version == message.end() || *version != 1) {
      return Error("bad_version", "\"v\" must be 1: this is version 1 of the protocol");
    }
    const json* body = &message;
    const std::string type = envelope_.Open(&body);
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

  void Open(json message) {
    if (!space_.is_null() && !message.contains("space")) message["space"] = space_;
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
                             .positions = std::move(parsed->positions),
                             .decider = *std::move(decider)});
    open_unanswered_ = true;
    if (!parsed->history && !input_waiting_()) AnswerOpen();
  }

  // Late enough that a history may come first.
  void AnswerOpen() {
    if (std::exchange(open_unanswered_, false)) Next();
  }

  void History(const json& message) {
    std::vector<RoundResult> results;
    absl::Status status =
        Fields(message, "")
            .ReadList("results", &results, [this](const json& item, const std::string& place) {
              return ParseResult(item, place, session_->positions);
            });
    if (status.ok()) status = session_->decider.Resume(results);
    if (!status.ok()) return Error("bad_history", status.message());
    open_unanswered_ = false;
    Next();
  }

  void Result(const json& message) {
    auto result = ParseResult(message, "", session_->positions);
    if (!result.ok()) return Error("bad_result", result.status().message());
    const auto folded = session_->decider.Fold(*result);
    if (!folded.ok()) return Error("bad_result", folded.status().message());
    if (*folded == Folded::kBatchComplete) Next();
  }

  void Next() {
    const Space& space = session_->decider.space();
    if (const Batch* batch = session_->decider.Next()) {
      ordered_json rounds = ordered_json::array();
      for (const auto& round : batch->rounds) rounds.push_back(IdsOf(space, round));
      return Write("batch", {{"batch", batch->batch}, {"rounds", std::move(rounds)}});
    }
    session_->concluded = true;
    Write("verdict", VerdictJson(session_->decider.verdict(), space));
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

}  // namespace decide
}  // namespace xplane_time
