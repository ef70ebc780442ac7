// Which kernels are one another after a recompilation.
#include "insight/diff_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace xplane_time::insight {
namespace {

using xplane_time::testing::Random;

// An op as a compiler would name it; what it is made of decides its hashes.
OpTraits Op(const std::string& name, const std::string& op_name, int line,
            const std::string& shape = "f32[8,8]", const std::string& opcode = "dot") {
  OpTraits op;
  op.kernel = op.op = name;
  op.op_name = "jit(f)/" + op_name;
  op.source = "model.py:" + std::to_string(line);
  op.opcode = opcode;
  op.shape = shape;
  op.shapes = HashOf(shape);
  op.content = op.context = HashOf(opcode);
  op.inner = {Mixed(HashOf(op_name), HashOf(opcode))};
  return op;
}

OpTraits Fusion(const std::string& name, std::vector<std::string> inner, int line = 1) {
  OpTraits op = Op(name, inner.back(), line, "f32[8,8]", "fusion");
  op.inner.clear();
  op.content = 7;
  for (const std::string& each : inner) {
    op.inner.push_back(HashOf(each));
    op.content += HashOf(each);
  }
  op.context = op.content;
  std::ranges::sort(op.inner);
  return op;
}

struct Sides {
  std::vector<OpTraits> base, head;
};

std::vector<OpMatch> Matches(Sides sides, bool loosely = true) {
  std::vector<MatchItem> items[2];
  for (int side = 0; side < 2; ++side) {
    uint32_t position = 0;
    for (OpTraits& op : side == 0 ? sides.base : sides.head) {
      op.position = position++;
      items[side].push_back({&op, 0});
    }
  }
  return MatchOps(items[0], items[1], loosely);
}

// "exact 0-0", "group 1,2-3", in order.
std::vector<std::string> Told(const std::vector<OpMatch>& matches) {
  std::vector<std::string> told;
  for (const OpMatch& match : matches) {
    std::string text(DiffMatchName(match.match));
    const auto add = [&](const char* before, const std::vector<uint32_t>& items) {
      for (const uint32_t item : items) {
        text += before + std::to_string(item);
        before = ",";
      }
    };
    add(" ", match.base);
    add("-", match.head);
    told.push_back(text);
  }
  std::ranges::sort(told);
  return told;
}

using Strings = std::vector<std::string>;

TEST(DiffMatchTest, LinesThatMoveAndNumbersThatChangeAreNoDifference) {
  const Sides sides = {.base = {Op("dot.1", "a/dot", 10), Op("dot.2", "b/dot", 11)},
                       .head = {Op("dot.2", "a/dot", 12), Op("dot.7", "b/dot", 13)}};
  EXPECT_EQ(Told(Matches(sides)), (Strings{"exact 0-0", "exact 1-1"}));
}

TEST(DiffMatchTest, ANameAloneIsNotTheSameOp) {
  const Sides sides = {.base = {Op("dot.1", "a/dot", 10), Op("dot.2", "b/dot", 11)},
                       .head = {Op("dot.1", "b/dot", 11), Op("dot.2", "a/dot", 10)}};
  EXPECT_EQ(Told(Matches(sides)), (Strings{"exact 0-1", "exact 1-0"}));
}

TEST(DiffMatchTest, OfEqualOpsThoseWithoutAPartnerAreLeft) {
  const OpTraits layer = Op("dot.1", "layer/dot", 10);
  EXPECT_EQ(Told(Matches({.base = {layer, layer, layer}, .head = {layer, layer}})),
            (Strings{"exact 0-0", "exact 1-1", "gone 2"}));
  EXPECT_EQ(Told(Matches({.base = {}, .head = {layer}})), (Strings{"new-0"}));
}

TEST(DiffMatchTest, AnotherTypeOrAttributeIsSimilar) {
  OpTraits precise = Op("dot.1", "a/dot", 10);
  precise.content = precise.context = 3;
  const Sides sides = {.base = {Op("dot.1", "a/dot", 10), Op("dot.2", "b/dot", 11),
                                Op("wrapped_tanh", "c/tanh", 12, "f32[8]", "tanh")},
                       .head = {precise, Op("dot.2", "b/dot", 11, "bf16[8,8]"),
                                Op("wrapped_sine", "c/sin", 12, "f32[8]", "sine")}};
  const std::vector<OpMatch> matches = Matches(sides);
  EXPECT_EQ(Told(matches), (Strings{"similar 0-0", "similar 1-1", "similar 2-2"}));
  for (const OpMatch& match : matches) {
    EXPECT_GT(*match.similarity, 0.35);
    EXPECT_LT(*match.similarity, 1);
  }
}

TEST(DiffMatchTest, NothingAlikeIsNewAndGone) {
  OpTraits sort = Op("sort", "sort", 90, "s32[5]", "sort");
  sort.source = "other.py:90";
  EXPECT_EQ(Told(Matches({.base = {Op("dot.1", "a/dot", 10)}, .head = {sort}})),
            (Strings{"gone 0", "new-0"}));
}

// Most fusions have the same opcode, and several have the op_name of their root. This alone is a
// likeness of 38 %.
TEST(DiffMatchTest, FusionsThatShareOnlyTheOpNameAreNewAndGone) {
  const OpTraits base = Fusion("bitcast_add_fusion", {"a", "mul"});
  OpTraits head = Fusion("wrapped_multiply", {"b", "c"});
  head.op_name = base.op_name;
  head.source = "other.py:9";
  head.shape = "s32[5]";
  head.shapes = HashOf(head.shape);
  ASSERT_LT(Similarity(base, head), 0.5);
  EXPECT_EQ(Told(Matches({.base = {base}, .head = {head}})), (Strings{"gone 0", "new-0"}));
  // On the same line, with the same shapes, it is the edited op.
  head.source = base.source;
  head.shapes = base.shapes;
  EXPECT_EQ(Told(Matches({.base = {base}, .head = {head}})), Strings{"similar 0-0"});
}

TEST(DiffMatchTest, FusionsThatSplitOrMergedAreOneGroup) {
  const OpTraits whole = Fusion("fusion.1", {"add", "mul", "exp"});
  const OpTraits first = Fusion("fusion.1", {"add", "mul"}), second = Fusion("fusion.2", {"exp"});
  EXPECT_EQ(Told(Matches({.base = {whole}, .head = {first, second}})), Strings{"group 0-0,1"});
  EXPECT_EQ(Told(Matches({.base = {first, second}, .head = {whole}})), Strings{"group 0,1-0"});
}

TEST(DiffMatchTest, WhatIsInEveryFusionTiesNone) {
  const Sides sides = {.base = {Fusion("a", {"mul", "a1", "a2"}), Fusion("b", {"mul", "b1", "b2"}),
                                Fusion("c", {"mul", "c1", "c2"})},
                       .head = {Fusion("a", {"mul", "a1", "a3"}), Fusion("b", {"mul", "b1", "b3"}),
                                Fusion("c", {"mul", "c1", "c3"})}};
  EXPECT_EQ(Told(Matches(sides)), (Strings{"similar 0-0", "similar 1-1", "similar 2-2"}));
}

TEST(DiffMatchTest, WithoutAProgramNamesTell) {
  const auto named = [](const std::string& name) {
    OpTraits op;
    op.kernel = name;
    return op;
  };
  const Sides sides = {.base = {named("sgemm_nn"), named("add_3"), named("memcpy")},
                       .head = {named("sgemm_nn"), named("add_4"), named("sort")}};
  EXPECT_EQ(Told(Matches(sides)), (Strings{"exact 0-0", "gone 2", "new-2", "similar 1-1"}));
}

TEST(DiffMatchTest, OnlyWithinABlock) {
  const OpTraits op = Op("dot.1", "a/dot", 10);
  const MatchItem base[] = {{&op, 0}}, head[] = {{&op, 1}};
  EXPECT_EQ(Told(MatchOps(base, head, true)), (Strings{"gone 0", "new-0"}));
}

TEST(DiffMatchTest, EachItemIsInOneMatchAndAsideWithItselfIsExact) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto some = [&] {
      std::vector<OpTraits> ops;
      for (int64_t i = random.Below(14); i > 0; --i) {
        const std::string leaf(1, static_cast<char>('a' + random.Below(5)));
        if (random.OneIn(2)) {
          ops.push_back(Op("dot." + std::to_string(random.Below(9)), leaf,
                           static_cast<int>(random.Below(4)),
                           random.OneIn(3) ? "bf16[8]" : "f32[8]"));
        } else {
          ops.push_back(Fusion("fusion." + std::to_string(random.Below(9)),
                               {leaf, std::string(1, static_cast<char>('a' + random.Below(9)))}));
        }
      }
      return ops;
    };
    const Sides sides = {some(), some()};
    std::vector<int> of_base(sides.base.size(), 0), of_head(sides.head.size(), 0);
    for (const OpMatch& match : Matches(sides, random.OneIn(2))) {
      for (const uint32_t at : match.base) ++of_base[at];
      for (const uint32_t at : match.head) ++of_head[at];
      const bool both = !match.base.empty() && !match.head.empty();
      ASSERT_EQ(both, match.match != DiffMatch::kNew && match.match != DiffMatch::kGone) << seed;
      ASSERT_EQ(match.similarity.has_value(), both && match.match != DiffMatch::kExact) << seed;
    }
    ASSERT_EQ(std::ranges::count(of_base, 1), std::ssize(of_base)) << seed;
    ASSERT_EQ(std::ranges::count(of_head, 1), std::ssize(of_head)) << seed;
    for (const OpMatch& match : Matches({sides.base, sides.base})) {
      ASSERT_EQ(match.match, DiffMatch::kExact) << seed;
    }
  }
}

// All alike and no two the same: no pair of all is looked at.
TEST(DiffMatchTest, AHundredThousandKernelsThatAreHardToTellApart) {
  constexpr int kOps = 100'000;
  Sides sides;
  for (int i = 0; i < kOps; ++i) {
    sides.base.push_back(Op("dot." + std::to_string(i), "a/dot", 10));
    sides.head.push_back(Op("dot." + std::to_string(i), "a/dot", 10, "bf16[8,8]"));
    sides.base.back().content = static_cast<uint64_t>(i);
  }
  sides.head.pop_back();
  EXPECT_EQ(Matches(sides).size(), size_t{kOps});
}

}  // namespace
}  // namespace xplane_time::insight
