// The API key of a model server, and how it stays out of records and messages.
//
//   ASSIGN_OR_RETURN(const ApiKey key, ApiKey::FromEnvironment("OPENAI_API_KEY"));
//   key.Hide("no such key: sk-0123\/456")   // "no such key: [API key]"
//
// A server may repeat the key, as it is or escaped: with backslashes, as \u0073, \x73 or \163
// (JSON, programming languages), %73 (URLs), or &#115; and &amp; (HTML). Hide replaces all of
// these. Text that will be shortened is hidden first: a part of a key is harder to find.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace xplane_time {

class ApiKey {
 public:
  ApiKey() = default;  // no key: none is sent, and nothing is hidden
  // Without a key if the variable is empty or not set. Errors: InvalidArgument, without the key.
  static absl::StatusOr<ApiKey> FromEnvironment(const std::string& variable);

  const std::string& text() const { return text_; }
  // Why no key was sent; empty if one was.
  std::string MissingReason() const;

  // `text` with "[API key]" in place of the key and of each part of it that begins as the key does
  // and has 12 characters or more. `is_cut`: the text may end in the middle of the key, so that 4
  // characters are enough at its end. Keys below 8 characters are placeholders ("none"), and stay.
  std::string Hide(std::string_view text, bool is_cut = false) const;

 private:
  ApiKey(std::string variable, std::string text)
      : variable_(std::move(variable)), text_(std::move(text)) {}

  std::string variable_, text_;
};

}  // namespace xplane_time
