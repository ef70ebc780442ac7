#include "timing/origins.h"

#include <algorithm>
#include <charconv>

#include "status.h"

namespace xplane_time {
namespace {

constexpr size_t kMostParts = HloProgram::kMostFrames;
constexpr char kBroken[] = "(broken stack)", kNoFile[] = "(unknown file)";

// "model.py:12"; empty where nothing is told.
std::string LineOf(const HloFrame& frame) {
  if (frame.file.empty()) return "";
  return frame.line > 0 ? Cat(frame.file, ":", frame.line) : std::string(frame.file);
}

std::string NameOf(const HloFrame& frame) {
  std::string name = LineOf(frame);
  if (name.empty()) name = kNoFile;
  if (!frame.function.empty()) Append(&name, " ", frame.function);
  return name;
}

// A call right below its like, of another column, is one: the compiler adds those of loops.
std::vector<std::string> NamesOf(const HloStack& stack) {
  std::vector<std::string> names;
  if (stack.broken) names.emplace_back(kBroken);
  for (const HloFrame& frame : stack.frames) {
    std::string name = NameOf(frame);
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return names;
}

// "model.py:12:4:30", with the columns that newer traces have: "model.py:12".
std::string_view WithoutColumns(std::string_view frame) {
  std::string_view line;  // the longest that ends in a number
  for (int i = 0; i < 3; ++i) {
    const size_t colon = frame.rfind(':');
    if (colon == std::string_view::npos || colon == 0) break;
    const char* const end = frame.data() + frame.size();
    int64_t number = 0;
    const auto [at, error] = std::from_chars(frame.data() + colon + 1, end, number);
    if (error != std::errc() || at != end) break;
    line = frame;
    frame.remove_suffix(frame.size() - colon);
  }
  return line.empty() ? frame : line;
}

// A stat `source_stack`: a frame a line. The outermost is first, but where the first is the line of
// the op itself.
std::vector<std::string> StackInStat(std::string_view text, std::string_view source) {
  std::vector<std::string> stack;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) stack.emplace_back(WithoutColumns(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!stack.empty() && stack.front() == source && stack.back() != source) {
    std::ranges::reverse(stack);
  }
  if (stack.size() > kMostParts) stack = {kBroken, stack.back()};
  return stack;
}

bool IsSame(const HloFrame& a, const HloFrame& b) {
  return a.line == b.line && a.file == b.file && a.function == b.function;
}

// What both begin with.
template <typename Part, typename Same>
void Shorten(const std::vector<Part>& other, Same same, std::optional<std::vector<Part>>* shared) {
  if (!shared->has_value()) {
    *shared = other;
    return;
  }
  const auto [end, ignored] = std::ranges::mismatch(**shared, other, same);
  (*shared)->erase(end, (*shared)->end());
}

// With a type behind a colon, which is mostly empty: "jit(f)/add:".
std::string_view ScopeInTrace(const OpInfo& op) {
  std::string_view scope = op.scope.empty() ? op.tf_op : op.scope;
  if (scope.ends_with(":")) scope.remove_suffix(1);
  return scope;
}

}  // namespace

void SourceLines::Add(std::string line) {
  if (line.empty() || std::ranges::find(lines, line) != lines.end()) return;
  cut |= lines.size() == kMost;
  if (lines.size() < kMost) lines.push_back(std::move(line));
}

void SourceLines::Add(const SourceLines& more) {
  for (const std::string& line : more.lines) Add(line);
  cut |= more.cut;
}

std::vector<std::string_view> ScopePath(std::string_view scope) {
  const auto split = [scope](bool minds_brackets, int* depth) {
    std::vector<std::string_view> parts;
    size_t begin = 0;
    const auto add = [&](size_t end) {
      if (end > begin) parts.push_back(scope.substr(begin, end - begin));
      begin = end + 1;
    };
    for (size_t at = 0; at < scope.size() && parts.size() + 1 < kMostParts; ++at) {
      const char c = scope[at];
      if (minds_brackets && (c == '(' || c == '[' || c == '{')) ++*depth;
      if (*depth > 0 && (c == ')' || c == ']' || c == '}')) --*depth;
      if (c == '/' && *depth == 0) add(at);
    }
    add(scope.size());
    return parts;
  };
  int depth = 0;
  std::vector<std::string_view> parts = split(/*minds_brackets=*/true, &depth);
  return depth == 0 ? parts : split(/*minds_brackets=*/false, &(depth = 0));
}

void Origins::Inside::AddStack(const std::vector<HloFrame>& other) {
  if (!other.empty()) Shorten(other, IsSame, &stack);
}

void Origins::Inside::AddScope(const std::vector<std::string_view>& other) {
  if (!other.empty()) Shorten(other, std::equal_to<>(), &scope);
}

void Origins::Inside::Add(const Inside& nested) {
  lines.Add(nested.lines);
  if (nested.stack.has_value()) Shorten(*nested.stack, IsSame, &stack);
  if (nested.scope.has_value()) Shorten(*nested.scope, std::equal_to<>(), &scope);
}

void Origins::AddInstruction(const HloProgram& program, const HloInstruction& instruction,
                             Inside* all) {
  // What goes in has the name of an argument, and no line of what is computed.
  if (instruction.opcode == "parameter" || instruction.opcode == "constant") return;
  const std::optional<HloDetails> details = ReadDetails(instruction);
  if (!details.has_value()) return;
  all->lines.Add(LineOf(program.SourceOf(*details)));
  HloStack stack;
  if (with_stacks_) stack = program.StackOf(details->stack_frame);
  if (stack.frames.empty() && !details->source_file.empty()) {
    stack.frames.push_back(program.SourceOf(*details));
  }
  if (!stack.broken) all->AddStack(stack.frames);
  all->AddScope(ScopePath(details->op_name));
  if (instruction.opcode == "fusion") all->Add(InsideOf(program, *details));
}

// Nothing where one that is called is missing, calls itself, or nests deeper than any program's.
Origins::Inside Origins::InsideOf(const HloProgram& program, const HloDetails& fusion) {
  Inside all;
  for (const int64_t id : fusion.called) {
    const std::pair key(&program, id);
    const auto [place, is_new] = inside_.try_emplace(key);
    const HloComputation* const computation = is_new ? program.FindComputation(id) : nullptr;
    if (computation != nullptr && nested_ < kMostNested) {
      Inside own;
      ++nested_;
      for (uint32_t i = 0; i < computation->count; ++i) {
        AddInstruction(program, program.instructions()[computation->first + i], &own);
      }
      --nested_;
      inside_[key] = std::move(own);
    }
    if (const std::optional<Inside>& own = inside_[key]; own.has_value()) all.Add(*own);
  }
  return all;
}

void Origins::AddCompiled(const HloPrograms::FoundOp& found, Origin* origin) {
  const std::optional<HloDetails> details = ReadDetails(*found.instruction);
  if (!details.has_value()) return;
  if (origin->scope.empty()) origin->scope = details->op_name;
  if (origin->source.empty()) origin->source = LineOf(found.program->SourceOf(*details));
  if (with_stacks_) origin->stack = NamesOf(found.program->StackOf(details->stack_frame));
  origin->lines.Add(origin->source);
  if (found.instruction->opcode != "fusion") return;
  const Inside inside = InsideOf(*found.program, *details);
  origin->lines.Add(inside.lines);
  if (origin->scope.empty() && inside.scope.has_value()) {
    for (const std::string_view part : *inside.scope) {
      Append(&origin->scope, origin->scope.empty() ? "" : "/", part);
    }
  }
  if (!origin->stack.empty() || !origin->source.empty()) return;
  if (inside.stack.has_value()) origin->stack = NamesOf({.frames = *inside.stack});
  if (inside.lines.lines.size() == 1) origin->source = inside.lines.lines[0];
}

Origin Origins::Of(const OpInfo& op, const HloPrograms::FoundOp& compiled) {
  Origin origin = {.scope = std::string(ScopeInTrace(op)), .source = op.source};
  origin.lines.Add(origin.source);
  if (compiled.instruction != nullptr) AddCompiled(compiled, &origin);
  if (!with_stacks_) {
    origin.stack.clear();
    return origin;
  }
  if (origin.stack.empty()) origin.stack = StackInStat(op.source_stack, op.source);
  if (origin.stack.empty() && !origin.source.empty()) origin.stack = {origin.source};
  return origin;
}

}  // namespace xplane_time
