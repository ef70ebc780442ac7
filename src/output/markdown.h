// Markdown, as GitHub reads it: text of a producer is never interpreted as markup.
//
// Input: any text. Output: printable Markdown of one line.
//
//   MarkdownCode("a`b")                                   "`` a`b ``"
//   MarkdownText("jit_f: ![i](http://x) is 3 % slower")   "`jit_f`: `![i](http://x)` is 3 % slower"
#pragma once

#include <string>
#include <string_view>

namespace xplane_time::output {

// A name as a code span.
std::string MarkdownCode(std::string_view text);

// A sentence. Every word that a parser may take for markup becomes a code span, so that a name
// within a sentence never becomes a link, an image, a mention or HTML.
std::string MarkdownText(std::string_view text);

// Either of these as the cell of a table, which a pipe would end even in a code span.
std::string MarkdownCell(std::string_view markdown);

}  // namespace xplane_time::output
