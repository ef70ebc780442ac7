#include "timing/origins.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "status.h"

namespace xplane_time {
namespace {

constexpr size_t kMostFrames = HloProgram::kMostFrames;
constexpr char kBroken[] = "(broken stack)", kNoFile[] = "(unknown file)";

// "model.py:12"; empty if unknown.
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

std::vector<std::string> NamesOf(const HloStack& stack) {
  std::vector<std::string> names;
  if (stack.broken) names.emplace_back(kBroken);
  for (const HloFrame& frame : stack.frames) names.push_back(NameOf(frame));
  return names;
}

// Removes repeated calls from the stack; the first one stays. When XLA inlines a function, it puts
// the callers of the function's own trace below those of the call, which are mostly the same:
//
//   train, loss, attention, train, loss, attention   ->   train, loss, attention
//
// Loops, recursion and wrappers (a method that calls each layer's method) also repeat calls. The
// last frame is the line of the op and stays last; frames between it and an equal earlier frame are
// removed.
void RemoveRepeats(std::vector<std::string>* stack) {
  std::vector<std::string> once;
  absl::flat_hash_set<absl::string_view> seen;
  const auto last = stack->empty() ? stack->end() : std::ranges::find(*stack, stack->back());
  for (auto frame = stack->begin(); frame != stack->end(); ++frame) {
    if (seen.insert(Absl(*frame)).second) once.push_back(*frame);
    if (frame == last) break;
  }
  *stack = std::move(once);
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

// A stat `source_stack`: one frame per line. The outermost frame is first, unless the first is the
// line of the op itself.
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
  if (stack.size() > kMostFrames) stack = {kBroken, stack.back()};
  return stack;
}

bool IsSame(const HloFrame& a, const HloFrame& b) {
  return a.line == b.line && a.file == b.file && a.function == b.function;
}

// The common prefix of both.
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

bool MatchesScope(const NameFilter& scope, const OpInfo& op, const Origin& origin) {
  const auto matches = [&](std::string_view text) { return !text.empty() && scope.Matches(text); };
  return matches(op.scope) || matches(op.tf_op) || matches(op.source) || matches(origin.scope) ||
         matches(origin.source) || std::ranges::any_of(origin.stack, matches) ||
         std::ranges::any_of(origin.lines.lines, matches);
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
  // Inputs have the name of an argument, and no line of the computation.
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
  all->AddScope(ScopePath(details->op_name, passes_));
  if (instruction.opcode == "fusion") all->Add(InsideOf(program, *details));
}

// Empty if a called computation is missing, calls itself, or is nested deeper than any real
// program.
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

// Whether `scope`, of a fusion, is unknown or cut: XLA gives a fusion the common prefix of the
// names of its instructions. If these belong to both passes, folded names have a longer common
// prefix.
bool Origins::IsCut(const std::vector<std::string_view>& inside, std::string_view scope) const {
  if (scope.empty()) return true;
  if (passes_ == Passes::kApart) return false;
  const std::vector<std::string_view> own = ScopePath(scope, passes_);
  return own.size() < inside.size() && std::ranges::equal(own, std::span(inside).first(own.size()));
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
  if (inside.scope.has_value() && IsCut(*inside.scope, origin->scope)) {
    origin->scope.clear();
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
  RemoveRepeats(&origin.stack);
  return origin;
}

}  // namespace xplane_time
