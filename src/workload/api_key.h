// The API key of a model server, and how it is kept out of records and messages.
//
//   ASSIGN_OR_RETURN(const ApiKey key, ApiKey::FromEnvironment("OPENAI_API_KEY"));
//   key.Hide("no such key: sk-0123\/456")   // "no such key: [API key]"
//
// A server may repeat the key, unchanged or escaped: with backslashes, as \u0073, \x73 or \163
// (JSON, programming languages), %73 (URLs), or &#115; and &amp; (HTML). Hide replaces all of
// these. Call it before shortening a text, because a part of a key is harder to find.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace xplane_time {

class ApiKey {
 public:
  ApiKey() = default;  // no key: none is sent, and no text is hidden
  // Without a key if the variable is empty or not set. Errors: InvalidArgument, without the key.
  static absl::StatusOr<ApiKey> FromEnvironment(const std::string& variable);

  const std::string& text() const { return text_; }
  // Why no key was sent; empty if one was.
  std::string MissingReason() const;

  // Returns `text` with "[API key]" in place of the key, and of each prefix of the key with 12
  // characters or more. If `is_cut`, the text may end in the middle of the key, so at its end 4
  // characters are enough. Keys below 8 characters are placeholders ("none") and are not hidden.
  std::string Hide(std::string_view text, bool is_cut = false) const;

 private:
  ApiKey(std::string variable, std::string text)
      : variable_(std::move(variable)), text_(std::move(text)) {}

  std::string variable_, text_;
};

}  // namespace xplane_time
