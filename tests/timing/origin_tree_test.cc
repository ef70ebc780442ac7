// Tests of trees by name scope and by source: comparisons with sums over executions, and names for
// invalid Hlo Protos.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/read/raw_message.h"
#include "tests/support/random.h"
#include "tests/support/slow_nest.h"
#include "tests/support/trace_builder.h"
#include "timing/origins.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Names = std::vector<std::string>;

std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t each : numbers) bytes += VarintBytes(static_cast<uint64_t>(each));
  return bytes;
}

// An instruction with its metadata.
struct MadeOp {
  std::string name, opcode = "add", op_name = {};
  int64_t frame = 0;
  std::string file = {};
  int64_t line = 0;
  std::vector<int64_t> called = {};
};

RawMessage Message(const MadeOp& op) {
  RawMessage metadata;
  if (!op.op_name.empty()) metadata.Bytes(2, op.op_name);
  if (!op.file.empty()) metadata.Bytes(3, op.file).Int(4, op.line);
  if (op.frame != 0) metadata.Int(15, op.frame);
  RawMessage made;
  made.Bytes(1, op.name).Bytes(2, op.opcode).Message(7, metadata);
  if (!op.called.empty()) made.Bytes(38, Packed(op.called));
  return made;
}

// Frame n (from 1) is line 10 n of "f.py" in function "g<n>". Its parent is `parents[n - 1]`.
RawMessage Frames(const std::vector<int64_t>& parents) {
  RawMessage index;
  index.Bytes(1, "f.py");
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto id = static_cast<int64_t>(i) + 1;
    index.Bytes(2, "g" + std::to_string(id));
    index.Message(3, RawMessage().Int(1, 1).Int(2, id).Int(3, 10 * id));
    index.Message(4, RawMessage().Int(1, id).Int(2, parents[i]));
  }
  return index;
}
std::string FrameName(int64_t id) {
  return "f.py:" + std::to_string(10 * id) + " g" + std::to_string(id);
}

// A program. Computation 1 is `main`; the computations from 2 are `others`.
struct Made {
  std::string function = "jit_f";
  std::vector<MadeOp> main = {};
  std::vector<std::vector<MadeOp>> others = {};
  RawMessage frames = {};

  std::string Proto() const {
    RawMessage module;
    module.Bytes(1, function);
    int64_t id = 1;
    const auto add = [&](const std::vector<MadeOp>& ops) {
      RawMessage computation;
      for (const MadeOp& op : ops) computation.Message(2, Message(op));
      module.Message(3, computation.Int(5, id++));
    };
    add(main);
    for (const auto& ops : others) add(ops);
    module.Message(17, frames);
    return RawMessage().Message(1, module).bytes();
  }
};

void AddProgram(const Made& made, int64_t program_id, TraceBuilder* t) {
  t->Plane("/host:metadata")
      .Line({})
      .Event(
          {.name = made.function,
           .metadata_stats = {{"program_id", program_id}, {"Hlo Proto", RawBytes{made.Proto()}}}});
}

// Runs each op of `main` once. Op i takes 10 + i ps.
TraceBuilder& RunAll(const Made& made, TraceBuilder* t) {
  AddProgram(made, 1, t);
  int64_t at_ps = 1000;
  for (size_t i = 0; i < made.main.size(); ++i) {
    const auto length_ps = static_cast<int64_t>(10 + i);
    t->Host().Thread("w").Thunk({.start_ps = at_ps,
                                 .duration_ps = length_ps,
                                 .hlo_op = made.main[i].name,
                                 .hlo_module = made.function,
                                 .program_id = 1});
    at_ps += length_ps;
  }
  return *t;
}

absl::StatusOr<TreeReport> TryTree(const TraceBuilder& t, const TreeOptions& options) {
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return BuildTree(*trace, options, reading);
}

// The rows by path. " > " separates the parts of a path.
std::map<std::string, TreeRow> TreeOf(const TraceBuilder& t, const TreeOptions& options) {
  const auto report = TryTree(t, options);
  EXPECT_TRUE(report.ok()) << report.status();
  std::map<std::string, TreeRow> rows;
  Names paths;
  for (const TreeRow& row : report->rows) {
    paths.push_back((row.parent ? paths[*row.parent] + " > " : "") + row.name);
    EXPECT_TRUE(rows.emplace(paths.back(), row).second) << paths.back();
  }
  return rows;
}

TreeOptions By(TreeBy by) {
  TreeOptions options;
  options.by = by;
  return options;
}

TEST(ScopePath, IsPartedAtSlashesThatAreInNoBrackets) {
  EXPECT_THAT(ScopePath("jit(f)/layer/dot"), ElementsAre("jit(f)", "layer", "dot"));
  EXPECT_THAT(ScopePath("jit(f)/transpose(jvp(a/b))/mul"),
              ElementsAre("jit(f)", "transpose(jvp(a/b))", "mul"));
  EXPECT_THAT(ScopePath("while[body={a/b}]/c)/d"), ElementsAre("while[body={a/b}]", "c)", "d"));
  EXPECT_THAT(ScopePath("f(/g/h"), ElementsAre("f(", "g", "h"));  // an unclosed bracket
  EXPECT_THAT(ScopePath("//a//b/"), ElementsAre("a", "b"));
  EXPECT_THAT(ScopePath(""), IsEmpty());
  EXPECT_THAT(ScopePath("/"), IsEmpty());
  const std::string deep(100'000, '/');
  EXPECT_THAT(ScopePath(deep), IsEmpty());
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "a/";
  EXPECT_THAT(ScopePath(many), SizeIs(256));
}

TEST(ScopePath, OfJoinedNamesIsWhatTheyBeginWithInCommon) {
  EXPECT_THAT(ScopePath("jit(f)/a/mul;jit(f)/a/add"), ElementsAre("jit(f)", "a"));
  EXPECT_THAT(ScopePath("jit(f)/a/mul;jit(f)/a/mul"), ElementsAre("jit(f)", "a", "mul"));
  EXPECT_THAT(ScopePath("jit(f)/a;jit(f)/b;jit(g)"), ElementsAre("jit(f)"));
  EXPECT_THAT(ScopePath("a/mul;b/add"),
              ElementsAre("a", "mul"));  // without a common beginning, the first name
  EXPECT_THAT(ScopePath("jit(f)/vmap(a;b)/mul"), ElementsAre("jit(f)", "vmap(a;b)", "mul"));
  EXPECT_THAT(ScopePath(";a/b;"), ElementsAre("a", "b"));
  EXPECT_THAT(ScopePath(";"), IsEmpty());
}

TEST(ScopePath, FoldedIsWithoutWhatTransformationsWrite) {
  const auto folded = [](std::string_view scope) { return ScopePath(scope, Passes::kFolded); };
  EXPECT_THAT(folded("jit(f)/transpose(jvp(a/b))/mul"), ElementsAre("jit(f)", "a", "b", "mul"));
  EXPECT_THAT(folded("jit(f)/jvp()/mul"), ElementsAre("jit(f)", "mul"));
  EXPECT_THAT(folded("jit(f)/checkpoint/rematted_computation/a/tanh"),
              ElementsAre("jit(f)", "a", "tanh"));
  EXPECT_THAT(folded("jit(f)/a/transpose"), ElementsAre("jit(f)", "a", "transpose"));
  EXPECT_THAT(folded("jit(f)/a/checkpoint"), ElementsAre("jit(f)", "a", "checkpoint"));
  EXPECT_THAT(folded("jit(f)/jvp(a)/mul;jit(f)/transpose(jvp(a))/mul"),
              ElementsAre("jit(f)", "a", "mul"));
  EXPECT_THAT(folded("jit(f)/jvp(a/mul"), ElementsAre("jit(f)", "jvp(a", "mul"));
  EXPECT_THAT(folded("jvp(a)(b)"), ElementsAre("jvp(a)(b)"));
  EXPECT_EQ(ScopeText("jit(f)/transpose(jvp(a))/mul", Passes::kFolded), "jit(f)/a/mul");
  EXPECT_EQ(ScopeText("//a//b/", Passes::kApart), "//a//b/");
  EXPECT_EQ(ScopeText("a/b;a/c", Passes::kApart), "a");
}

// A scope of JAX with nested wrappers.
std::string MakeScope(int depth, Random* random) {
  std::string scope;
  for (int64_t n = random->Below(4) + 1; n > 0; --n) {
    const Names names = {"a", "b", "checkpoint", "rematted_computation", "jit(f)", "closed_call"};
    const Names wrappers = {"jvp(", "transpose(", "vmap("};
    if (!scope.empty()) scope += '/';
    if (depth > 0 && random->OneIn(2)) {
      scope += wrappers[static_cast<size_t>(random->Below(3))] + MakeScope(depth - 1, random) + ")";
    } else {
      scope += names[static_cast<size_t>(random->Below(6))];
    }
  }
  return scope;
}

// Folded paths have no wrappers and markers. Folding them again does not change them, because the
// path of a fusion may be folded twice.
TEST(ScopePath, FoldingTwiceIsFoldingOnce) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const std::string scope = MakeScope(3, &random) + "/op";
    const std::string once = ScopeText(scope, Passes::kFolded);
    EXPECT_EQ(ScopeText(once, Passes::kFolded), once) << scope;
    for (const char* gone : {"jvp", "transpose", "vmap", "checkpoint", "rematted", "closed"}) {
      EXPECT_EQ(once.find(gone), std::string::npos) << scope;
    }
    // The order of the remaining parts does not change.
    std::string plain = scope, kept = once;
    for (const char* gone : {"jvp(", "transpose(", "vmap(", "checkpoint", "rematted_computation",
                             "closed_call", "(", ")", "/"}) {
      for (std::string* text : {&plain, &kept}) {
        for (size_t at; (at = text->find(gone)) != std::string::npos;) {
          text->erase(at, std::string_view(gone).size());
        }
      }
    }
    EXPECT_EQ(kept, plain) << scope;
  }
}

TEST(TreeByScope, RowsAreTheScopesOfOpNames) {
  TraceBuilder t;
  const auto rows = TreeOf(RunAll({.main = {{.name = "a", .op_name = "jit(f)/layer/dot"},
                                            {.name = "b", .op_name = "jit(f)/layer"},
                                            {.name = "c", .op_name = "jit(f)/add"},
                                            {.name = "d"}}},
                                  &t),
                           By(TreeBy::kScope));
  ASSERT_THAT(rows, SizeIs(5));
  EXPECT_EQ(rows.at("jit(f)").total_ps, 10 + 11 + 12);
  EXPECT_EQ(rows.at("jit(f)").self_ps, 0);
  EXPECT_EQ(rows.at("jit(f)").count, 3u);
  EXPECT_EQ(rows.at("jit(f) > layer").total_ps, 10 + 11);
  EXPECT_EQ(rows.at("jit(f) > layer").self_ps, 11);
  EXPECT_EQ(rows.at("jit(f) > layer").child_ps, 10);
  EXPECT_EQ(rows.at("jit(f) > layer > dot").total_ps, 10);
  EXPECT_EQ(rows.at("(no scope)").total_ps, 13);
}

// XLA names a fusion of both passes after the common beginning of their names.
TEST(TreeByScope, AFoldedFusionIsInTheLayerOfItsInstructions) {
  const Made made = {
      .main = {{.name = "both", .opcode = "fusion", .op_name = "jit(f)", .called = {2}},
               {.name = "two_layers", .opcode = "fusion", .op_name = "jit(f)", .called = {3}},
               {.name = "own", .opcode = "fusion", .op_name = "jit(f)/c/mul", .called = {2}}},
      .others = {{{.name = "x", .op_name = "jit(f)/jvp(a)/mul"},
                  {.name = "y", .op_name = "jit(f)/transpose(jvp(a))/add"}},
                 {{.name = "z", .op_name = "jit(f)/jvp(a)/mul"},
                  {.name = "w", .op_name = "jit(f)/jvp(b)/mul"}}}};
  TreeOptions options = By(TreeBy::kScope);
  {
    TraceBuilder t;
    const auto rows = TreeOf(RunAll(made, &t), options);
    EXPECT_EQ(rows.at("jit(f)").self_ps, 10 + 11);
    EXPECT_EQ(rows.count("jit(f) > a"), 0u);
  }
  options.fold = true;
  TraceBuilder t;
  const auto rows = TreeOf(RunAll(made, &t), options);
  EXPECT_EQ(rows.at("jit(f)").self_ps, 11);
  EXPECT_EQ(rows.at("jit(f) > a").self_ps, 10);
  EXPECT_EQ(rows.at("jit(f) > c > mul").self_ps, 12);
}

TEST(TreeBySource, RowsAreTheStacksOfFramesTheOutermostFirst) {
  TraceBuilder t;
  const auto rows = TreeOf(RunAll({.main = {{.name = "a", .frame = 2},
                                            {.name = "b", .frame = 1},
                                            {.name = "c", .file = "old.py", .line = 7},
                                            {.name = "d"}},
                                   .frames = Frames({0, 1})},
                                  &t),
                           By(TreeBy::kSource));
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows.at(FrameName(1)).total_ps, 10 + 11);
  EXPECT_EQ(rows.at(FrameName(1)).self_ps, 11);
  EXPECT_EQ(rows.at(FrameName(1) + " > " + FrameName(2)).total_ps, 10);
  EXPECT_EQ(rows.at("old.py:7").total_ps, 12);
  EXPECT_EQ(rows.at("(no source)").total_ps, 13);
  EXPECT_THAT(rows.at("old.py:7").lines, ElementsAre("old.py:7"));
  EXPECT_THAT(rows.at("(no source)").lines, IsEmpty());
}

TEST(TreeBySource, AFusionIsCountedOnceWithTheLinesOfAllThatIsInIt) {
  TraceBuilder t;
  const Made made = {.main = {{.name = "f", .opcode = "fusion", .frame = 3, .called = {2}}},
                     .others = {{{.name = "p", .opcode = "parameter", .file = "p.py", .line = 1},
                                 {.name = "x", .frame = 2},
                                 {.name = "y", .frame = 3},
                                 {.name = "n", .opcode = "fusion", .called = {3}}},
                                {{.name = "z", .file = "in.py", .line = 5}}},
                     .frames = Frames({0, 1, 1})};
  const auto rows = TreeOf(RunAll(made, &t), By(TreeBy::kSource));
  ASSERT_THAT(rows, SizeIs(2));
  const TreeRow& row = rows.at(FrameName(1) + " > " + FrameName(3));
  EXPECT_EQ(row.total_ps, 10);
  EXPECT_THAT(row.lines, ElementsAre("f.py:30", "f.py:20", "in.py:5"));
  EXPECT_FALSE(row.lines_cut);
}

TEST(TreeBySource, AFusionThatSaysNothingIsWhereAllOfItIs) {
  TraceBuilder t;
  const Made made = {.main = {{.name = "f", .opcode = "fusion", .called = {2}}},
                     .others = {{{.name = "p", .opcode = "parameter", .op_name = "args[0]"},
                                 {.name = "x", .op_name = "jit(f)/layer/exp", .frame = 2},
                                 {.name = "y", .op_name = "jit(f)/layer/mul", .frame = 3},
                                 {.name = "z"}}},
                     .frames = Frames({0, 1, 1})};
  RunAll(made, &t);
  EXPECT_EQ(TreeOf(t, By(TreeBy::kSource)).at(FrameName(1)).self_ps, 10);
  EXPECT_EQ(TreeOf(t, By(TreeBy::kScope)).at("jit(f) > layer").self_ps, 10);
}

TEST(TreeBySource, ManyLinesAreCutAndThatIsSaid) {
  Made made = {.main = {{.name = "f", .opcode = "fusion", .called = {2}}}, .others = {{}}};
  for (int64_t i = 1; i <= 40; ++i) {
    made.others[0].push_back({.name = "x" + std::to_string(i), .file = "m.py", .line = i});
  }
  TraceBuilder t;
  const auto rows = TreeOf(RunAll(made, &t), By(TreeBy::kSource));
  EXPECT_THAT(rows.at("(no source)").lines, SizeIs(SourceLines::kMost));
  EXPECT_TRUE(rows.at("(no source)").lines_cut);
}

TEST(TreeBySource, FramesInACircleOrFromNowhereAreNamedAndEnd) {
  TraceBuilder t;
  const auto rows =
      TreeOf(RunAll({.main = {{.name = "a", .frame = 1},   // 1 -> 2 -> 1
                              {.name = "b", .frame = 3},   // it is its parent
                              {.name = "c", .frame = 99},  // there is no such frame
                              {.name = "d", .frame = -5},
                              {.name = "e", .frame = 4}},  // its parent does not exist
                     .frames = Frames({2, 1, 3, 77})},
                    &t),
             By(TreeBy::kSource));
  EXPECT_EQ(rows.at("(broken stack)").total_ps, 10 + 11 + 12 + 13 + 14);
  EXPECT_EQ(rows.at("(broken stack)").self_ps, 12 + 13);
  for (const int64_t id : {1, 3, 4}) {
    EXPECT_EQ(rows.count("(broken stack) > " + FrameName(id)), 1u) << id;
  }
  EXPECT_THAT(rows, SizeIs(4));
}

TEST(TreeBySource, ACallRightBelowItsLikeIsOne) {
  Made made = {.main = {{.name = "a", .frame = 3}}, .frames = Frames({0, 1})};
  made.frames.Message(4, RawMessage().Int(1, 2).Int(2, 2));  // frame 3 has the location of frame 2
  TraceBuilder t;
  const auto rows = TreeOf(RunAll(made, &t), By(TreeBy::kSource));
  EXPECT_EQ(rows.at(FrameName(1) + " > " + FrameName(2)).self_ps, 10);
  EXPECT_THAT(rows, SizeIs(2));
}

TEST(TreeBySource, FusionsThatCallEachOtherOrNestTooDeepEnd) {
  Made made = {.main = {{.name = "f", .opcode = "fusion", .called = {2, 77}}}};
  for (int64_t i = 0; i < 10'000; ++i) {
    made.others.push_back({{.name = "x", .opcode = "fusion", .called = {i + 3, 2}}});
  }
  TraceBuilder t;
  EXPECT_EQ(TreeOf(RunAll(made, &t), By(TreeBy::kSource)).at("(no source)").total_ps, 10);
}

TEST(TreeBySource, WithoutHloItIsWhatTheTraceSays) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  tpu.Module({"jit_f", 1, 1000, 100});
  tpu.Op({.name = "a", .start_ps = 1000, .duration_ps = 10, .tf_op = "jit(f)/add:"});
  tpu.Line({.name = "XLA Ops"})
      .Event({.name = "b",
              .start_ps = 1020,
              .duration_ps = 5,
              .metadata_stats = {{"source", std::string("m.py:12")},
                                 {"source_stack", std::string("t.py:3:1\nm.py:12:4:30\n")}}})
      .Event({.name = "c",  // the format of newer producers
              .start_ps = 1030,
              .duration_ps = 6,
              .metadata_stats = {{"source", std::string("m.py:12")},
                                 {"source_stack", std::string("m.py:12:4:30\nt.py:3:-1:-1")}}});
  EXPECT_EQ(TreeOf(t, By(TreeBy::kScope)).at("jit(f) > add").total_ps, 10);
  const auto rows = TreeOf(t, By(TreeBy::kSource));
  EXPECT_EQ(rows.at("t.py:3 > m.py:12").total_ps, 5 + 6);
  EXPECT_EQ(rows.at("(no source)").total_ps, 10);
}

TEST(TreeByScope, TheProgramOfAnotherFunctionSaysNothing) {
  TraceBuilder t;
  Made made = {.main = {{.name = "a", .op_name = "jit(f)/dot"}}};
  RunAll(made, &t);
  made.function = "jit_g";
  AddProgram(made, 2, &t);
  t.Host().Thread("w").Thunk(
      {.start_ps = 5000, .duration_ps = 7, .hlo_op = "a", .hlo_module = "jit_f", .program_id = 2});
  EXPECT_EQ(TreeOf(t, By(TreeBy::kScope)).at("(no scope)").total_ps, 7);
  const auto report = TryTree(t, By(TreeBy::kScope));
  EXPECT_EQ(report->diagnostics.at(0).code, "hlo_unusable");
}

TEST(TreeByScope, FiltersLookAtWhatTheHloSaysAndLeaveOwnTimesAsTheyAre) {
  TraceBuilder t;
  RunAll({.main = {{.name = "a", .op_name = "jit(f)/attention/dot", .file = "m.py", .line = 3},
                   {.name = "b", .op_name = "jit(f)/mlp/dot"}}},
         &t);
  TreeOptions options = By(TreeBy::kScope);
  options.select.scope = "attention";
  EXPECT_EQ(TreeOf(t, options).at("jit(f)").total_ps, 10);
  options.select.scope = "m.py:3";
  EXPECT_EQ(TreeOf(t, options).at("jit(f)").total_ps, 10);
  options.select.scope = "";
  options.select.kernel = "^b$";
  EXPECT_EQ(TreeOf(t, options).at("jit(f)").total_ps, 11);
  options.select.scope = "attention";
  EXPECT_EQ(TryTree(t, options).status().code(), absl::StatusCode::kFailedPrecondition);
}

// ---- Comparison with sums over executions ------------------------------------------------------

struct Sums {
  uint64_t count = 0;
  int64_t total_ps = 0, self_ps = 0;
  friend bool operator==(const Sums&, const Sums&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Sums& sums) {
    return out << sums.count << " x, total " << sums.total_ps << ", self " << sums.self_ps;
  }
};

// A trace of ops with known paths, on threads with randomly nested thunks.
class RandomTrace {
 public:
  explicit RandomTrace(uint32_t seed) : random_(seed) {
    std::vector<int64_t> parents;
    for (int64_t id = 1; id <= 8; ++id) parents.push_back(random_.Below(id));  // 0: a root
    Made made = {.frames = Frames(parents)};
    for (int i = 0; i < 6; ++i) {
      MadeOp op = {.name = "op" + std::to_string(i)};
      for (int64_t depth = random_.Below(4); depth > 0; --depth) {
        const std::string part(1, static_cast<char>('a' + random_.Below(3)));
        op.op_name += (op.op_name.empty() ? "" : "/") + part;
        scopes_[op.name].push_back(part);
      }
      op.frame = random_.Below(9);
      for (int64_t id = op.frame; id != 0; id = parents[static_cast<size_t>(id) - 1]) {
        sources_[op.name].insert(sources_[op.name].begin(), FrameName(id));
      }
      made.main.push_back(op);
    }
    AddProgram(made, 1, &t);
    for (const char* thread : {"w/1", "w/2"}) AddThread(thread);
  }

  // The expected rows. With `op`, only executions of this op count.
  std::map<std::string, Sums> Expected(TreeBy by, const std::string& op) const {
    std::map<std::string, Sums> rows;
    for (const auto& [name, own_ps] : executions_) {
      if (!op.empty() && op != name) continue;
      const auto& paths = by == TreeBy::kScope ? scopes_ : sources_;
      const auto found = paths.find(name);
      Names path = found == paths.end() ? Names() : found->second;
      if (path.empty()) path = {by == TreeBy::kScope ? "(no scope)" : "(no source)"};
      std::string joined;
      for (const std::string& part : path) {
        joined += (joined.empty() ? "" : " > ") + part;
        ++rows[joined].count;
        rows[joined].total_ps += own_ps;
      }
      rows[joined].self_ps += own_ps;
    }
    return rows;
  }

  TraceBuilder t;

 private:
  void AddThread(const char* thread) {
    std::vector<Interval> intervals;
    Names names;
    for (int64_t i = random_.Below(12) + 1; i > 0; --i) {
      const int64_t start_ps = 1000 + random_.Below(30), length_ps = random_.Below(20);
      names.push_back("op" + std::to_string(random_.Below(6)));
      intervals.push_back({start_ps, start_ps + length_ps});
      t.Host().Thread(thread).Thunk({.start_ps = start_ps,
                                     .duration_ps = length_ps,
                                     .hlo_op = names.back(),
                                     .hlo_module = "jit_f",
                                     .program_id = 1});
    }
    const Nesting nesting = SlowNest(intervals, 0);
    for (size_t i = 0; i < names.size(); ++i) {
      executions_.emplace_back(names[i], nesting.self_ps[i]);
    }
  }

  Random random_;
  std::map<std::string, Names> scopes_, sources_;
  std::vector<std::pair<std::string, int64_t>> executions_;
};

TEST(TreeByScopeOrSource, CountsTheOwnTimeOfEachExecutionOnce) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    const RandomTrace trace(seed);
    for (const TreeBy by : {TreeBy::kScope, TreeBy::kSource}) {
      for (const std::string op : {"", "op1"}) {
        const auto expected = trace.Expected(by, op);
        if (expected.empty()) continue;
        TreeOptions options = By(by);
        if (!op.empty()) options.select.kernel = "^" + op + "$";
        options.select.threads = 1 + static_cast<int>(seed % 3);
        std::map<std::string, Sums> got;
        for (const auto& [path, row] : TreeOf(trace.t, options)) {
          got[path] = {row.count, row.total_ps, *row.self_ps};
          EXPECT_EQ(*row.self_ps + *row.child_ps, row.total_ps);
        }
        ASSERT_EQ(got, expected) << "seed " << seed << ", op " << op;
      }
    }
  }
}

}  // namespace
}  // namespace xplane_time::testing
