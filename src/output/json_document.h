// JSON document: the parts that every JSON output is made of. Only for files that write
// JSON: nlohmann's header is large.
#ifndef XPLANE_TIME_SRC_OUTPUT_JSON_DOCUMENT_H_
#define XPLANE_TIME_SRC_OUTPUT_JSON_DOCUMENT_H_

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "output/json.h"
#include "output/rows.h"
#include "output/text.h"
#include "timing/given_options.h"

namespace xplane_time::output {

using Json = nlohmann::ordered_json;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(double value) const { return std::isfinite(value) ? Json(value) : Json(); }
  Json operator()(std::string_view text) const { return ValidUtf8(text); }
  template <typename T>
  Json operator()(T value) const {
    return value;
  }
};

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? ToJson()(*value) : Json();
}

inline Json TextOrNull(std::string_view text) {
  return text.empty() ? Json() : Json(ValidUtf8(text));
}

inline std::string Dump(const Json& value) {
  // kReplace: strings are valid UTF-8 already, and nothing may throw.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonRow : public FieldSink {
 public:
  void Field(std::string_view name, const FieldValue& value) override {
    current()[std::string(name)] = std::visit(ToJson(), value);
  }
  void BeginGroup(std::string_view name, bool known) override {
    group_ = name;
    group_known_ = known;
    members_ = Json::object();
  }
  void EndGroup() override {
    row_[group_] = group_known_ ? std::move(members_) : Json();
    group_.clear();
  }
  void Interval(std::string_view name, std::optional<double> lo,
                std::optional<double> hi) override {
    const bool known = lo && hi && std::isfinite(*lo) && std::isfinite(*hi);
    current()[std::string(name)] = known ? Json::array({*lo, *hi}) : Json();
  }
  Json Take() { return std::move(row_); }

 private:
  Json& current() { return group_.empty() ? row_ : members_; }

  Json row_ = Json::object(), members_;
  std::string group_;
  bool group_known_ = false;
};

// A document: members in order, the rows of a section one a line.
class Document {
 public:
  explicit Document(std::string_view schema) { text_ = "{\n  \"schema\": " + JsonString(schema); }
  void Member(std::string_view name, const Json& value) {
    Name(name);
    text_.append(Dump(value));
  }
  // `to_json(row)` gives a row's Json.
  template <typename Rows, typename ToRow>
  void Section(std::string_view name, const Rows& rows, ToRow to_json) {
    Name(name);
    text_.push_back('[');
    const char* separator = "\n    ";
    for (const auto& row : rows) {
      text_.append(separator).append(Dump(to_json(row)));
      separator = ",\n    ";
    }
    text_.append(rows.empty() ? "]" : "\n  ]");
  }
  std::string Finish() && { return std::move(text_) + "\n}\n"; }

 private:
  void Name(std::string_view name) { text_.append(",\n  ").append(JsonString(name)).append(": "); }
  std::string text_;
};

inline void AddOptions(const std::vector<GivenOption>& options, Document* document) {
  if (options.empty()) return;
  Json given = Json::object();
  for (const GivenOption& option : options) {
    const auto* text = std::get_if<std::string>(&option.value);
    given[option.name] = text != nullptr ? Json(ValidUtf8(*text)) : Json(std::get<1>(option.value));
  }
  document->Member("options", given);
}

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_JSON_DOCUMENT_H_
