#include "output/markdown.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "output/text.h"
#include "re2/re2.h"
#include "status.h"

namespace xplane_time::output {
namespace {

// A word of a sentence for Markdown: `core` is a code span if it may be markup; the punctuation
// around it belongs to the sentence.
struct MarkdownWord {
  std::string_view before, core, after;
  bool may_be_markup = false;
};

// Whether a parser may take a word within a line for markup: for an emphasis, a link, an image, an
// address that GitHub links, a mention, an issue, a formula, an emoji, or for HTML.
bool MayBeInlineMarkup(std::string_view word) {
  static const RE2 markup(
      R"([`*_\[\]\\|~#@$<>&]|://|(?i:www\.)|:[a-z0-9_+-]*[a-z+-][a-z0-9_+-]*:)");
  return RE2::PartialMatch(word, markup);
}

// Whether the first word of a line would begin a list or underline a heading.
bool MayBeginBlock(std::string_view word, bool is_alone) {
  static const RE2 item(R"([-+]|[0-9]+[.)])"), line("=+|--+");
  return RE2::FullMatch(word, line) || (!is_alone && RE2::FullMatch(word, item));
}

MarkdownWord SplitWord(std::string_view word) {
  const auto count = [&](char c) { return std::ranges::count(word, c); };
  MarkdownWord out;
  const auto take_front = [&] {
    out.before = {out.before.empty() ? word.data() : out.before.data(), out.before.size() + 1};
    word.remove_prefix(1);
  };
  const auto take_back = [&] {
    word.remove_suffix(1);
    out.after = {word.data() + word.size(), out.after.size() + 1};
  };
  const std::string_view all = word;
  constexpr std::string_view kAfter = "\"',.;:!?", kBefore = "\"'";
  bool go_on = true;
  while (go_on && word.size() > 1) {
    if (kAfter.find(word.back()) != kAfter.npos) {
      take_back();
    } else if (kBefore.find(word.front()) != kBefore.npos) {
      take_front();
    } else if (word.back() == ')' && count(')') > count('(')) {
      take_back();
    } else if (word.front() == '(' && count('(') > count(')')) {
      take_front();
    } else if (word.front() == '(' && word.back() == ')' && count('(') == 1) {
      take_front();
      take_back();
    } else {
      go_on = false;
    }
  }
  out.core = word;
  // The characters around the core can be a part of the markup, such as the colons of an emoji.
  out.may_be_markup = MayBeInlineMarkup(word) || MayBeInlineMarkup(all);
  return out;
}

// "<", ">=", "&": signs of a sentence of ours, safe as entities.
bool IsComparison(std::string_view word) {
  return !word.empty() && word.find_first_not_of("<>=&") == word.npos;
}

}  // namespace

std::string MarkdownCode(std::string_view text) {
  if (text.empty()) return "";
  const std::string body = Printable(text);
  std::string fence = "`";
  while (absl::StrContains(body, fence)) fence.push_back('`');
  // Without a gap, a backtick at an end would belong to the fence. If both ends have a space, a
  // parser removes one from each.
  const bool has_gap = fence.size() > 1 || (body.starts_with(' ') && body.ends_with(' '));
  const char* const gap = has_gap ? " " : "";
  return absl::StrCat(fence, gap, body, gap, fence);
}

std::string MarkdownCell(std::string_view markdown) {
  // A backslash of a name before its pipe is shown as \x5c: parsers disagree about two of them.
  return absl::StrReplaceAll(Absl(markdown), {{"\\|", "\\x5c\\|"}, {"|", "\\|"}});
}

std::string MarkdownText(std::string_view text) {
  std::string shown = Printable(text);
  shown.erase(0, shown.find_first_not_of(' '));  // indented lines would be code
  std::string out, code;
  std::string_view after_code;
  const auto end_code = [&] {
    out.append(MarkdownCode(code)).append(after_code);
    code.clear();
    after_code = {};
  };
  const std::vector<absl::string_view> words = absl::StrSplit(shown, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word(words[i].data(), words[i].size());
    MarkdownWord parts = SplitWord(word);
    const bool begins_block = i == 0 && MayBeginBlock(word, words.size() == 1);
    if (begins_block) {
      parts = {.core = word, .may_be_markup = true};
    }
    const bool is_comparison = !begins_block && IsComparison(word);
    const bool is_code = parts.may_be_markup && !is_comparison;
    if (is_code && !code.empty() && after_code.empty() && parts.before.empty()) {
      code.append(" ").append(parts.core);  // of one name, mostly
      after_code = parts.after;
      continue;
    }
    end_code();
    if (i > 0) out.push_back(' ');
    if (is_comparison) {
      out.append(absl::StrReplaceAll(words[i], {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}));
    } else if (is_code) {
      out.append(parts.before);
      code = parts.core;
      after_code = parts.after;
    } else {
      out.append(word);
    }
  }
  end_code();
  return out;
}

}  // namespace xplane_time::output
