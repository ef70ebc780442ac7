// The reader of Hlo Protos: against the generated parser, cut and damaged at every byte.
#include "hlo/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stats/random.h"
#include "tests/hlo/hlo.pb.h"
#include "tests/read/raw_message.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// jit_f: a dot in a fusion, a GEMM call with a workspace, and a collective.
hlo::HloProto Example() {
  hlo::HloProto proto;
  hlo::HloModuleProto& module = *proto.mutable_hlo_module();
  module.set_name("jit_f");
  hlo::HloComputationProto& fused = *module.add_computations();
  fused.set_name("fused");
  fused.set_id(int64_t{1} << 40);
  hlo::HloInstructionProto& dot = *fused.add_instructions();
  dot.set_name("dot.1");
  dot.set_opcode("dot");
  dot.set_id(7);
  dot.add_operand_ids(5);
  dot.add_operand_ids(6);
  dot.mutable_shape()->set_element_type(16);
  dot.mutable_shape()->add_dimensions(64);
  dot.mutable_shape()->add_dimensions(32);
  dot.mutable_dot_dimension_numbers()->add_lhs_contracting_dimensions(1);
  dot.mutable_dot_dimension_numbers()->add_rhs_contracting_dimensions(0);
  hlo::HloComputationProto& main = *module.add_computations();
  main.set_name("main");
  main.set_id(2);
  hlo::HloInstructionProto& fusion = *main.add_instructions();
  fusion.set_name("fusion");
  fusion.set_opcode("fusion");
  fusion.set_id(8);
  fusion.add_called_computation_ids(fused.id());
  fusion.mutable_metadata()->set_op_name("jit(f)/dot_general");
  fusion.mutable_metadata()->set_source_file("model.py");
  fusion.mutable_metadata()->set_source_line(12);
  fusion.mutable_metadata()->set_stack_frame_id(2);
  hlo::HloInstructionProto& gemm = *main.add_instructions();
  gemm.set_name("custom-call.1");
  gemm.set_opcode("custom-call");
  gemm.set_id(9);
  gemm.set_custom_call_target("__cublas$gemm");
  gemm.set_backend_config("{}");
  gemm.mutable_shape()->set_element_type(13);
  gemm.mutable_shape()->add_tuple_shapes()->set_element_type(11);
  gemm.mutable_shape()->mutable_tuple_shapes(0)->mutable_layout()->set_memory_space(5);
  hlo::HloInstructionProto& reduce = *main.add_instructions();
  reduce.set_name("psum.1");
  reduce.set_opcode("all-reduce");
  reduce.set_id(10);
  for (const int64_t replica : {0, 2}) {
    hlo::ReplicaGroup& group = *reduce.add_replica_groups();
    group.add_replica_ids(replica);
    group.add_replica_ids(replica + 1);
  }
  for (const int64_t id : {8, 10, 9}) {
    (*module.mutable_schedule()->mutable_sequences())[main.id()].add_instruction_ids(id);
  }
  hlo::StackFrameIndexProto& index = *module.mutable_stack_frame_index();
  index.add_file_names("train.py");
  index.add_file_names("model.py");
  for (const char* name : {"<module>", "attention"}) {
    index.add_function_names(name);
    hlo::StackFrameIndexProto::FileLocation& location = *index.add_file_locations();
    location.set_file_name_id(index.function_names_size());
    location.set_function_name_id(index.function_names_size());
    location.set_line(6 * index.function_names_size());
    hlo::StackFrameIndexProto::StackFrame& frame = *index.add_stack_frames();
    frame.set_file_location_id(index.stack_frames_size());
    frame.set_parent_frame_id(index.stack_frames_size() - 1);
  }
  return proto;
}

TEST(HloProgram, TellsOpsShapesCallsAndSources) {
  const std::string bytes = Example().SerializeAsString();
  const auto program = HloProgram::Read(bytes);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name(), "jit_f");
  ASSERT_EQ(program->computations().size(), 2u);
  EXPECT_EQ(program->FindComputation(int64_t{1} << 40)->name, "fused");
  EXPECT_EQ(program->FindComputation(3), nullptr);
  EXPECT_EQ(program->Find("nothing"), nullptr);

  const auto schedules = program->Schedules();
  ASSERT_EQ(schedules.size(), 1u);
  EXPECT_THAT(schedules[0], ElementsAre(program->Find("fusion"), program->Find("psum.1"),
                                        program->Find("custom-call.1")));

  const auto fusion = ReadDetails(*program->Find("fusion"));
  EXPECT_THAT(fusion->called, ElementsAre(int64_t{1} << 40));
  EXPECT_EQ(fusion->op_name, "jit(f)/dot_general");
  EXPECT_EQ(fusion->source_file, "model.py");
  EXPECT_EQ(fusion->source_line, 12);
  const HloStack stack = program->StackOf(fusion->stack_frame);
  ASSERT_EQ(stack.frames.size(), 2u);
  EXPECT_FALSE(stack.broken);
  EXPECT_EQ(stack.frames[0].file, "train.py");
  EXPECT_EQ(stack.frames[0].function, "<module>");
  EXPECT_EQ(stack.frames[1].function, "attention");
  EXPECT_EQ(stack.frames[1].line, 12);
  HloDetails other;
  EXPECT_EQ(program->SourceOf(other).line, 0);
  other.stack_frame = 1;
  EXPECT_EQ(program->SourceOf(other).line, 6);
  const auto dot = ReadDetails(*program->FindId(7));
  EXPECT_THAT(dot->operands, ElementsAre(5, 6));
  EXPECT_THAT(dot->lhs_contracting, ElementsAre(1));
  EXPECT_EQ(dot->shape.Bytes(), 64 * 32 * 2);
  const auto gemm = ReadDetails(*program->Find("custom-call.1"));
  EXPECT_EQ(gemm->custom_call_target, "__cublas$gemm");
  EXPECT_EQ(gemm->shape.tuple[0].memory_space, 5);
  const auto reduce = ReadDetails(*program->Find("psum.1"));
  EXPECT_EQ(reduce->replica_groups, 2);
  EXPECT_EQ(reduce->replicas_a_group, 2);
}

TEST(HloProgram, NumbersComePackedOrOneByOneAndReplicaGroupsInShort) {
  RawMessage op;
  op.Bytes(1, "ag").Bytes(2, "all-gather").Varint(36, 1).Varint(36, 2).Bytes(36, "\x03\x04");
  op.Message(87, RawMessage().Message(2, RawMessage().Varint(1, 4).Varint(2, 8)));
  const auto details = ReadDetails({.message = op.bytes()});
  ASSERT_TRUE(details.has_value());
  EXPECT_THAT(details->operands, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(details->replica_groups, 4);
  EXPECT_EQ(details->replicas_a_group, 8);
}

HloShape Array(int32_t type, std::vector<int64_t> dims, int64_t element_bits = 0) {
  return {.type = type, .dims = std::move(dims), .element_bits = element_bits};
}

TEST(HloShapes, BytesAreThoseOfTheTypeOrOfTheLayout) {
  EXPECT_EQ(Array(1, {3}).Bytes(), 3);       // pred
  EXPECT_EQ(Array(16, {2, 3}).Bytes(), 12);  // bf16
  EXPECT_EQ(Array(18, {}).Bytes(), 16);      // c128, a scalar
  EXPECT_EQ(Array(19, {5}).Bytes(), 5);      // f8e5m2
  EXPECT_EQ(Array(21, {5}).Bytes(), 3);      // s4
  EXPECT_EQ(Array(2, {5}, 4).Bytes(), 3);    // s8, packed
  EXPECT_EQ(Array(11, {0, 7}).Bytes(), 0);
  HloShape tuple = {.type = HloShape::kTuple};
  tuple.tuple = {Array(11, {4}), Array(5, {2})};
  EXPECT_EQ(tuple.Bytes(), 32);
}

TEST(HloShapes, WhatMakesNoSenseIsUnknown) {
  EXPECT_EQ(Array(0, {3}).Bytes(), std::nullopt);    // no type
  EXPECT_EQ(Array(17, {}).Bytes(), std::nullopt);    // a token
  EXPECT_EQ(Array(199, {3}).Bytes(), std::nullopt);  // of a newer schema
  EXPECT_EQ(Array(-1, {3}).Bytes(), std::nullopt);
  EXPECT_EQ(Array(11, {-3}).Bytes(), std::nullopt);
  EXPECT_EQ(Array(11, {int64_t{1} << 40, int64_t{1} << 40}).Bytes(), std::nullopt);
  EXPECT_EQ(Array(11, {int64_t{1} << 60}).Bytes(), std::nullopt);
}

// ---- against the generated parser --------------------------------------------------------------

void ExpectSame(const hlo::ShapeProto& want, const HloShape& got) {
  EXPECT_EQ(got.type, want.element_type());
  EXPECT_EQ(got.dims, std::vector<int64_t>(want.dimensions().begin(), want.dimensions().end()));
  EXPECT_EQ(got.memory_space, want.layout().memory_space());
  EXPECT_EQ(got.element_bits, want.layout().element_size_in_bits());
  ASSERT_EQ(got.tuple.size(), static_cast<size_t>(want.tuple_shapes_size()));
  for (int i = 0; i < want.tuple_shapes_size(); ++i) {
    ExpectSame(want.tuple_shapes(i), got.tuple[static_cast<size_t>(i)]);
  }
}

template <typename Field>
std::vector<int64_t> Numbers(const Field& field) {
  return {field.begin(), field.end()};
}

void ExpectSame(const hlo::HloInstructionProto& want, const HloInstruction& instruction) {
  EXPECT_EQ(instruction.name, want.name());
  EXPECT_EQ(instruction.opcode, want.opcode());
  EXPECT_EQ(instruction.id, want.id());
  const auto got = ReadDetails(instruction);
  ASSERT_TRUE(got.has_value());
  ExpectSame(want.shape(), got->shape);
  EXPECT_EQ(got->operands, Numbers(want.operand_ids()));
  EXPECT_EQ(got->called, Numbers(want.called_computation_ids()));
  const hlo::DotDimensionNumbers& dot = want.dot_dimension_numbers();
  EXPECT_EQ(got->lhs_contracting, Numbers(dot.lhs_contracting_dimensions()));
  EXPECT_EQ(got->rhs_contracting, Numbers(dot.rhs_contracting_dimensions()));
  EXPECT_EQ(got->custom_call_target, want.custom_call_target());
  EXPECT_EQ(got->backend_config, want.backend_config());
  EXPECT_EQ(got->op_name, want.metadata().op_name());
  EXPECT_EQ(got->source_file, want.metadata().source_file());
  EXPECT_EQ(got->source_line, want.metadata().source_line());
  EXPECT_EQ(got->stack_frame, want.metadata().stack_frame_id());
  const auto& list = want.collective_device_list();
  const int groups = list.has_iota_replica_group_list() ? 0 : list.replica_groups_size();
  EXPECT_EQ(got->replica_groups, list.iota_replica_group_list().num_replica_groups() + groups +
                                     want.replica_groups_size());
}

// Of an id from 1 on; empty where there is none.
template <typename Names>
std::string AtId(const Names& names, int32_t id) {
  return id > 0 && id <= names.size() ? names[id - 1] : "";
}

// Each frame by itself: the stack that ends in it, walked up in the generated message.
void ExpectSame(const hlo::StackFrameIndexProto& want, const HloProgram& got) {
  for (int32_t id = 1; id <= want.stack_frames_size(); ++id) {
    const HloStack stack = got.StackOf(id);
    int32_t at = id;
    for (size_t i = stack.frames.size(); i-- > 0;) {
      ASSERT_TRUE(at > 0 && at <= want.stack_frames_size());
      const int32_t location_id = want.stack_frames(at - 1).file_location_id();
      const bool is_there = location_id > 0 && location_id <= want.file_locations_size();
      const auto location = is_there ? want.file_locations(location_id - 1)
                                     : hlo::StackFrameIndexProto::FileLocation();
      EXPECT_EQ(stack.frames[i].file, AtId(want.file_names(), location.file_name_id()));
      EXPECT_EQ(stack.frames[i].function, AtId(want.function_names(), location.function_name_id()));
      EXPECT_EQ(stack.frames[i].line, location.line());
      at = want.stack_frames(at - 1).parent_frame_id();
    }
    EXPECT_EQ(at != 0, stack.broken);
  }
  const int32_t past = want.stack_frames_size() + 1;
  for (const int64_t id : {int64_t{past}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_TRUE(got.StackOf(id).broken);
  }
}

// All or nothing of it is told.
void ExpectSame(const hlo::HloScheduleProto& want, const HloProgram& got) {
  std::multiset<std::vector<int64_t>> wanted, told;
  for (const auto& [id, sequence] : want.sequences()) {
    wanted.insert(Numbers(sequence.instruction_ids()));
  }
  for (const auto& schedule : got.Schedules()) {
    std::vector<int64_t> ids;
    for (const HloInstruction* const each : schedule) ids.push_back(each->id);
    told.insert(std::move(ids));
  }
  EXPECT_TRUE(told.empty() || told == wanted);
}

void ExpectSame(std::string_view bytes) {
  hlo::HloProto want;
  ASSERT_TRUE(want.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  const auto got = HloProgram::Read(bytes);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->name(), want.hlo_module().name());
  ExpectSame(want.hlo_module().stack_frame_index(), *got);
  ExpectSame(want.hlo_module().schedule(), *got);
  size_t at = 0;
  for (const hlo::HloComputationProto& computation : want.hlo_module().computations()) {
    for (const hlo::HloInstructionProto& each : computation.instructions()) {
      ExpectSame(each, got->instructions().at(at++));
    }
  }
  EXPECT_EQ(at, got->instructions().size());
}

TEST(HloProgram, ReadsTheProgramsOfRealTracesAsTheGeneratedParserDoes) {
  size_t programs = 0;
  for (const auto& file : std::filesystem::directory_iterator(XPLANE_TIME_TESTDATA)) {
    if (!file.path().string().ends_with(".xplane.pb")) continue;
    Diagnostics ignored;
    const Input input = {.path = file.path()};
    const auto trace = OpenTrace({&input, 1}, {}, &ignored);
    ASSERT_TRUE(trace.ok()) << trace.status();
    for (const Plane& plane : trace->planes) {
      for (const Stat& stat : plane.metadata_stats) {
        if (plane.name != "/host:metadata" || stat.value.type != StatType::kBytes) continue;
        ExpectSame(stat.value.text);
        ++programs;
      }
    }
  }
  EXPECT_GE(programs, 5u);
}

TEST(HloProgram, CutOrDamagedAnywhereItIsReadAsTheGeneratedParserDoesOrNamed) {
  const std::string whole = Example().SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);  // a buffer of its own
    if (hlo::HloProto().ParseFromString(cut)) {
      ExpectSame(cut);
    } else if (const auto program = HloProgram::Read(cut); program.ok()) {
      // Damage inside of details, which are read when asked for.
      size_t damaged = 0;
      for (const auto& each : program->instructions()) damaged += ReadDetails(each) ? 0 : 1;
      EXPECT_GT(damaged, 0u) << size;
    } else {
      EXPECT_THAT(std::string(program.status().message()), HasSubstr("at its byte"));
    }
  }
  stats::SplitMix64 random(7);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(random());
    if (hlo::HloProto().ParseFromString(damaged)) ExpectSame(damaged);
    const auto program = HloProgram::Read(damaged);
    if (!program.ok()) continue;
    for (const HloInstruction& each : program->instructions()) {
      if (const auto details = ReadDetails(each)) (void)details->shape.Bytes();
    }
  }
}

TEST(HloProgram, FramesInACircleAreBroken) {
  RawMessage index;
  for (const int64_t parent : {2, 1, 3}) index.Message(4, RawMessage().Int(2, parent));
  const std::string bytes = RawMessage().Message(1, RawMessage().Message(17, index)).bytes();
  const auto program = HloProgram::Read(bytes);
  for (const int64_t id : {1, 2, 3}) {
    EXPECT_TRUE(program->StackOf(id).broken);
    EXPECT_EQ(program->StackOf(id).frames.size(), 1u);
  }
}

TEST(HloProgram, ADamagedIndexOfFramesLeavesTheProgram) {
  RawMessage module;
  module.Bytes(1, "jit_f").Bytes(17, "\x22\x05");  // a frame that reaches past its end
  const std::string bytes = RawMessage().Message(1, module).bytes();
  const auto program = HloProgram::Read(bytes);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name(), "jit_f");
  EXPECT_TRUE(program->StackOf(1).broken);
}

TEST(HloProgram, WhatClaimsMoreThanAnyProgramHasIsRefused) {
  // A tuple in a tuple in a tuple ...
  std::string shape;
  for (int depth = 0; depth < 2000; ++depth) shape = RawMessage().Bytes(4, shape).bytes();
  EXPECT_FALSE(ReadDetails({.message = RawMessage().Bytes(3, shape).bytes()}).has_value());
  const std::string dims(1000, '\1');
  const RawMessage ranks = RawMessage().Message(3, RawMessage().Bytes(3, dims));
  EXPECT_FALSE(ReadDetails({.message = ranks.bytes()}).has_value());
  const std::string many(size_t{2} << 20, '\1');
  EXPECT_FALSE(ReadDetails({.message = RawMessage().Bytes(36, many).bytes()}).has_value());
  std::string instructions;
  for (size_t i = 0; i <= HloProgram::kMostInstructions; ++i) instructions.append("\x12\0", 2);
  const RawMessage module = RawMessage().Bytes(3, instructions);
  const auto program = HloProgram::Read(RawMessage().Message(1, module).bytes());
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("too many instructions"));
}

}  // namespace
}  // namespace xplane_time::testing
