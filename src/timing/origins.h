// Origins: the name scopes and source lines of the ops of one device.
//
//   CompiledPrograms compiled(device, &diagnostics);
//   Origins origins(/*with_stacks=*/true);
//   const Origin origin = origins.Of(op, compiled.Find(op, program));
//   origin.scope       // "jit(f)/layer/attention/dot_general"
//   origin.source      // "model.py:12"
//   origin.stack       // {"train.py:90 <module>", "model.py:12 attention"}
//   origin.lines       // {"model.py:12", "model.py:14"}: for a fusion, those of all fused ops
//
// The scope comes from the trace, otherwise from the op_name of the Hlo Proto. The stack comes from
// the Hlo Proto, otherwise from the trace; without a stack it is the line itself. If a fusion has
// neither, it gets the common prefix of the scopes and stacks of its instructions.
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/device_kind.h"
#include "hlo/program.h"
#include "timing/filters.h"
#include "timing/name_scopes.h"

namespace xplane_time {

// The rows of a tree for ops without a scope, without a line.
inline constexpr char kNoScope[] = "(no scope)", kNoSource[] = "(no source)";

// Different lines, in order of their appearance; the first so many.
struct SourceLines {
  static constexpr size_t kMost = 32;
  std::vector<std::string> lines = {};
  bool cut = false;  // there are more

  void Add(std::string line);
  void Add(const SourceLines& more);
};

struct Origin {
  std::string scope, source;  // empty: unknown
  // The outermost first, each call once; empty: unknown. The first is "(broken stack)" if ids of
  // frames are invalid.
  std::vector<std::string> stack = {};
  SourceLines lines = {};
};

// Whether --scope matches an op: what the trace states, or an origin with stacks.
bool MatchesScope(const NameFilter& scope, const OpInfo& op, const Origin& origin);

class Origins {
 public:
  // Without stacks `Origin::stack` is empty. `passes`: how the scopes of the instructions in a
  // fusion are compared.
  explicit Origins(bool with_stacks, Passes passes = Passes::kApart)
      : with_stacks_(with_stacks), passes_(passes) {}

  // `compiled`: the op in its Hlo Proto, which outlives this object.
  Origin Of(const OpInfo& op, const HloPrograms::FoundOp& compiled);

 private:
  // The common scope and stack of the instructions of a fused computation.
  struct Inside {
    SourceLines lines = {};
    std::optional<std::vector<HloFrame>> stack = {};          // empty: no instruction has one
    std::optional<std::vector<std::string_view>> scope = {};  // likewise

    void AddStack(const std::vector<HloFrame>& other);
    void AddScope(const std::vector<std::string_view>& other);
    void Add(const Inside& nested);
  };
  bool IsCut(const std::vector<std::string_view>& inside, std::string_view scope) const;
  void AddCompiled(const HloPrograms::FoundOp& found, Origin* origin);
  Inside InsideOf(const HloProgram& program, const HloDetails& fusion);
  void AddInstruction(const HloProgram& program, const HloInstruction& instruction, Inside* all);

  static constexpr int kMostNested = 64;
  const bool with_stacks_;
  const Passes passes_;
  int nested_ = 0;
  // By computation; empty: begun.
  std::map<std::pair<const HloProgram*, int64_t>, std::optional<Inside>> inside_;
};

}  // namespace xplane_time
