// What is the same after a recompilation, and what is not.
#include "insight/op_traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/read/raw_message.h"

namespace xplane_time::testing {
namespace {

using insight::OpTraits;

std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t each : numbers) bytes += VarintBytes(static_cast<uint64_t>(each));
  return bytes;
}

// What an edit or a recompilation changes.
struct Made {
  std::string name = "fusion.1", inner_opcode = "add", op_name = "jit(f)/add";
  uint64_t id = 10, line = 7, literal = 3, type = 11;
};

RawMessage Instruction(const std::string& name, const std::string& opcode, uint64_t id,
                       const Made& made) {
  const RawMessage metadata =
      RawMessage().Bytes(2, made.op_name).Bytes(3, "model.py").Varint(4, made.line);
  return RawMessage()
      .Bytes(1, name)
      .Bytes(2, opcode)
      .Message(3, RawMessage().Varint(2, made.type).Bytes(3, Packed({8, 4})))
      .Message(7, metadata)
      .Varint(35, id);
}

std::string Program(const Made& made) {
  RawMessage fused, main, module;
  fused.Message(2, Instruction("c.9", "constant", made.id + 1, made)
                       .Message(8, RawMessage().Varint(2, made.literal)));
  fused.Message(2, Instruction("i.9", made.inner_opcode, made.id + 2, made)).Varint(5, made.id);
  main.Message(2, Instruction("p.1", "parameter", made.id + 3, made));
  main.Message(2, Instruction(made.name, "fusion", made.id + 4, made)
                      .Bytes(36, Packed({static_cast<int64_t>(made.id) + 3}))
                      .Bytes(38, Packed({static_cast<int64_t>(made.id)})));
  main.Varint(5, made.id + 5);
  module.Bytes(1, "jit_f").Message(3, fused).Message(3, main);
  return RawMessage().Message(1, module).bytes();
}

OpTraits TraitsOf(const std::string& program, const std::string& op) {
  const auto read = HloProgram::Read(program);
  OpInfo info;
  info.kernel = info.hlo_op = op;
  return insight::TraitsReader(read.ok() ? &*read : nullptr).Of(info, 5);
}

TEST(OpTraitsTest, SayWhatTheCompilerSays) {
  const OpTraits traits = TraitsOf(Program({}), "fusion.1");
  EXPECT_EQ(traits.opcode, "fusion");
  EXPECT_EQ(traits.shape, "f32[8,4]");
  EXPECT_EQ(traits.op_name, "jit(f)/add");
  EXPECT_EQ(traits.source, "model.py:7");
  EXPECT_THAT(traits.lines, ::testing::ElementsAre("model.py:7"));
  EXPECT_EQ(traits.inner.size(), 1u);
}

TEST(OpTraitsTest, NamesNumbersAndLinesAreNoContent) {
  const OpTraits one = TraitsOf(Program({}), "fusion.1");
  const OpTraits other = TraitsOf(Program({.name = "fusion.8", .id = 90, .line = 9}), "fusion.8");
  EXPECT_EQ(one.content, other.content);
  EXPECT_EQ(one.context, other.context);
  EXPECT_EQ(one.shapes, other.shapes);
  EXPECT_EQ(one.inner, other.inner);
  EXPECT_NE(one.source, other.source);
}

TEST(OpTraitsTest, WhatIsComputedIs) {
  const OpTraits one = TraitsOf(Program({}), "fusion.1");
  EXPECT_NE(one.content, TraitsOf(Program({.inner_opcode = "multiply"}), "fusion.1").content);
  EXPECT_NE(one.content, TraitsOf(Program({.literal = 4}), "fusion.1").content);
  EXPECT_NE(one.shapes, TraitsOf(Program({.type = 16}), "fusion.1").shapes);
  EXPECT_EQ(one.content, TraitsOf(Program({.op_name = "jit(g)/b"}), "fusion.1").content);
}

TEST(OpTraitsTest, WithoutAProgramTheTraceTells) {
  OpInfo info;
  info.kernel = "k.kd";
  info.tf_op = "a/b";
  info.source = "m.py:3";
  const OpTraits traits = insight::TraitsReader(nullptr).Of(info, 5);
  EXPECT_EQ(traits.op_name, "a/b");
  EXPECT_EQ(traits.source, "m.py:3");
  EXPECT_EQ(traits.opcode, "");
  EXPECT_EQ(traits.content, 0u);
}

TEST(OpTraitsTest, CutAnywhereAProgramTellsLess) {
  const std::string whole = Program({});
  for (size_t size = 0; size <= whole.size(); ++size) {
    const OpTraits traits = TraitsOf(whole.substr(0, size), "fusion.1");
    EXPECT_EQ(traits.kernel, "fusion.1") << size;
  }
}

// A fusion calls the next computation twice, that the next, ... and the last the first.
TEST(OpTraitsTest, CallsThatMultiplyOrGoInCirclesEnd) {
  RawMessage module;
  module.Bytes(1, "jit_f");
  constexpr int64_t kComputations = 200;
  for (int64_t i = 0; i < kComputations; ++i) {
    const int64_t next = (i + 1) % kComputations;
    RawMessage computation;
    computation.Message(
        2, Instruction("f." + std::to_string(i), "fusion", static_cast<uint64_t>(1000 + i), {})
               .Bytes(38, Packed(std::vector<int64_t>(50, next))));
    module.Message(3, computation.Varint(5, static_cast<uint64_t>(i)));
  }
  const std::string program = RawMessage().Message(1, module).bytes();
  EXPECT_EQ(TraitsOf(program, "f.0").opcode, "fusion");
}

TEST(OpTraitsTest, NamesWithoutTheirNumbers) {
  EXPECT_EQ(insight::WithoutNumbers("loop_add_fusion.3.clone"), "loop_add_fusion");
  EXPECT_EQ(insight::WithoutNumbers("loop_add_fusion_3"), "loop_add_fusion");
  EXPECT_EQ(insight::WithoutNumbers("sgemm_128x64_nn"), "sgemm_x_nn");
  EXPECT_EQ(insight::WithoutNumbers("42"), "42");
  EXPECT_EQ(insight::WithoutNumbers(""), "");
}

TEST(OpTraitsTest, TheFirstPartOfAnOpNameIsTheFunction) {
  EXPECT_EQ(insight::WithinFunction("jit(f)/jit(main)/dot"), "jit(main)/dot");
  EXPECT_EQ(insight::WithinFunction("layer/dot"), "layer/dot");
  EXPECT_EQ(insight::WithinFunction("jit(f)"), "jit(f)");
}

}  // namespace
}  // namespace xplane_time::testing
