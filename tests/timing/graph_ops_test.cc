// Tests the ops of CUDA graph nodes, on synthetic programs and on recorded programs with and
// without graphs.
#include "timing/graph_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/insight/made_programs.h"
#include "tests/support/trace_builder.h"
#include "timing/analysis.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

constexpr GraphStats kStats = {.graph = "cuda_graph_id", .node = "cuda_graph_node_id"};

// A program. The ops of `main` are scheduled in the written order, those of other computations not.
class MadeProgram {
 public:
  // Adds a fusion with one op. Fusions with different `columns` compute different things.
  MadeProgram& Fusion(const std::string& name, int64_t columns) {
    const uint64_t inner = ++id_;
    computations_.push_back(
        Computation(inner, {Op("add." + name, "add", ++id_, Array(kF32, {columns}))}));
    return Add(Op(name, "fusion", id_ + 1, Array(kF32, {columns}))
                   .Bytes(38, Packed({static_cast<int64_t>(inner)})));
  }
  MadeProgram& Call(const std::string& name, std::string_view target,
                    std::string_view config = "{}") {
    return Add(
        Op(name, "custom-call", id_ + 1, Array(kF32, {64})).Bytes(28, target).Bytes(43, config));
  }
  MadeProgram& Plain(const std::string& name, std::string_view opcode) {
    return Add(Op(name, opcode, id_ + 1, Array(kF32, {64})));
  }
  // Later ops belong to a new computation.
  MadeProgram& NextComputation() {
    EndComputation();
    return *this;
  }
  std::string Bytes(bool is_scheduled = true) {
    EndComputation();
    RawMessage module;
    module.Bytes(1, "jit_f");
    for (const RawMessage& each : computations_) module.Message(3, each);
    if (is_scheduled) module.Message(7, schedule_);
    return RawMessage().Message(1, module).bytes();
  }

 private:
  MadeProgram& Add(const RawMessage& op) {
    main_.push_back(op);
    ids_.push_back(static_cast<int64_t>(++id_));
    return *this;
  }
  void EndComputation() {
    const uint64_t id = ++id_;
    computations_.push_back(Computation(id, main_));
    schedule_.Message(1,
                      RawMessage().Varint(1, id).Message(2, RawMessage().Bytes(1, Packed(ids_))));
    main_.clear();
    ids_.clear();
  }

  uint64_t id_ = 0;
  std::vector<RawMessage> computations_, main_;
  std::vector<int64_t> ids_;
  RawMessage schedule_;
};

struct Kernel {
  std::string name;
  std::optional<int64_t> node{};  // empty: launched outside of a graph
  std::string hlo_op = "command_buffer";
  int64_t graph = 1;
};

// The ops of all nodes in their order; "?" if an op is unknown.
Names OpsOf(const std::string& program, const std::vector<Kernel>& kernels) {
  TraceBuilder t;
  LineBuilder stream = t.Gpu(0).Stream(14);
  int64_t start_ps = 0;
  for (const Kernel& each : kernels) {
    KernelSpec spec = {.name = each.name,
                       .start_ps = start_ps += 10,
                       .duration_ps = 5,
                       .hlo_module = "jit_f",
                       .program_id = 1,
                       .hlo_op = each.hlo_op};
    if (each.node.has_value()) {
      spec.stats = {{"cuda_graph_id", each.graph}, {"cuda_graph_node_id", *each.node}};
    }
    stream.Kernel(spec);
  }
  AddProgram(program, &t);
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "made", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const Plane& plane = trace->planes[0];
  HloPrograms programs(*trace, plane);
  const auto ops = GraphOps::Read(*trace, plane, std::vector<uint32_t>{0}, kStats, &programs);
  EXPECT_TRUE(ops.ok()) << ops.status();
  std::map<int64_t, std::string> of_node;
  for (const Kernel& each : kernels) {
    if (!each.node.has_value()) continue;
    const GraphOps::Op* const op = ops->Find(1, *each.node);
    of_node[*each.node] = op == nullptr ? "?" : std::string(op->instruction->name);
  }
  Names names;
  for (const auto& [node, name] : of_node) names.push_back(name);
  return names;
}

TEST(GraphOps, AKernelIsTheOpWhoseNameItHas) {
  MadeProgram program;
  program.Fusion("fusion.1", 8).Fusion("loop_add_fusion", 9).Fusion("fusion-3", 10);
  EXPECT_THAT(OpsOf(program.Bytes(), {{"loop_add_fusion", 7}, {"fusion_3", 8}, {"fusion_1", 6}}),
              ElementsAre("fusion.1", "loop_add_fusion", "fusion-3"));
}

TEST(GraphOps, OpsAlikeShareAKernelAndComeInOrder) {
  const auto program = [] {
    return std::move(
               MadeProgram().Fusion("fusion.4", 8).Fusion("fusion.9", 9).Fusion("fusion.2", 8))
        .Bytes();
  };
  EXPECT_THAT(OpsOf(program(), {{"fusion_4", 1}, {"fusion_9", 2}, {"fusion_4", 3}}),
              ElementsAre("fusion.4", "fusion.9", "fusion.2"));
  // The kernels were compiled separately, but compute the same.
  EXPECT_THAT(OpsOf(program(), {{"fusion_4", 1}, {"fusion_9", 2}, {"fusion_2", 3}}),
              ElementsAre("fusion.4", "fusion.9", "fusion.2"));
  // The order differs from the schedule, so the names belong to other ops.
  EXPECT_THAT(OpsOf(program(), {{"fusion_2", 1}, {"fusion_9", 2}, {"fusion_4", 3}}),
              ElementsAre("?", "fusion.9", "?"));
}

TEST(GraphOps, WhereTheNumbersDifferNobodyKnows) {
  const auto program = [] {
    return MadeProgram().Fusion("fusion.4", 8).Fusion("fusion.2", 8).Bytes();
  };
  EXPECT_THAT(OpsOf(program(), {{"fusion_4", 1}}), ElementsAre("?"));
  EXPECT_THAT(OpsOf(program(), {{"fusion_4", 1}, {"fusion_4", 2}, {"fusion_4", 3}}),
              ElementsAre("?", "?", "?"));
  // One op ran outside of the graph and is known. The kernel in the graph may have its name.
  EXPECT_THAT(OpsOf(program(), {{"fusion_4", 1}, {"fusion_4", std::nullopt, "fusion.4"}}),
              ElementsAre("fusion.2"));
  EXPECT_THAT(OpsOf(program(), {{"fusion_4", 1}, {"fusion_4", std::nullopt, "fusion.2"}}),
              ElementsAre("fusion.4"));
}

TEST(GraphOps, WithoutAnOrderOnlyWhatIsThereOnceIsKnown) {
  const std::vector<Kernel> kernels = {{"fusion_4", 1}, {"fusion_4", 2}, {"fusion_9", 3}};
  MadeProgram apart;
  apart.Fusion("fusion.4", 8).NextComputation().Fusion("fusion.2", 8).Fusion("fusion.9", 9);
  EXPECT_THAT(OpsOf(apart.Bytes(), kernels), ElementsAre("?", "?", "fusion.9"));
  MadeProgram unscheduled;
  unscheduled.Fusion("fusion.4", 8).Fusion("fusion.2", 8).Fusion("fusion.9", 9);
  EXPECT_THAT(OpsOf(unscheduled.Bytes(/*is_scheduled=*/false), kernels),
              ElementsAre("?", "?", "?"));
}

TEST(GraphOps, NamesThatCannotBeToldApartAreNone) {
  MadeProgram program;
  program.Fusion("fusion.4", 8).Fusion("fusion-4", 9);
  EXPECT_THAT(OpsOf(program.Bytes(), {{"fusion_4", 1}, {"fusion_4", 2}}), ElementsAre("?", "?"));
}

TEST(GraphOps, NamesThatWereTakenAreOfNobody) {
  MadeProgram program;
  program.Fusion("fusion.4", 8).Fusion("fusion.9", 9).Fusion("fusion.2", 10);
  EXPECT_THAT(OpsOf(program.Bytes(), {{"fusion_4", 1}, {"fusion_4__1", 2}, {"fusion_2", 3}}),
              ElementsAre("?", "?", "fusion.2"));
}

TEST(GraphOps, LibrariesComeInTheOrderOfTheirCallsAndPallasByName) {
  const auto program = [](std::string_view last = "__cublas$gemm") {
    return MadeProgram()
        .Call("custom-call.3", "__cublas$lt$matmul")
        .Call("mine.1", "__gpu$xla.gpu.triton", R"({name = "product", num_warps = 4})")
        .Fusion("fusion", 8)
        .Call("mine.2", "__gpu$xla.gpu.triton", R"({name = "product", num_warps = 4})")
        .Call("custom-call.1", last)
        .Bytes();
  };
  const std::vector<Kernel> kernels = {{"product", 1},  {"fusion", 2},  {"product", 3},
                                       {"Memset 0", 4}, {"nvjet_a", 5}, {"nvjet_b", 6}};
  EXPECT_THAT(OpsOf(program(), kernels),
              ElementsAre("mine.1", "fusion", "mine.2", "?", "custom-call.3", "custom-call.1"));
  // Two different Pallas kernels with the same name.
  std::vector<Kernel> twice = kernels;
  twice[2].name = "product__1";
  EXPECT_EQ(OpsOf(program(), twice), OpsOf(program(), kernels));
  // A call of another library may launch any number of kernels.
  EXPECT_THAT(OpsOf(program("SomeCall"), kernels),
              ElementsAre("mine.1", "fusion", "mine.2", "?", "?", "?"));
}

TEST(GraphOps, AGraphMadeAnewHasTheSameOps) {
  MadeProgram program;
  program.Fusion("fusion.4", 8).Fusion("fusion.2", 8).Fusion("fusion.9", 9);
  const int64_t next = int64_t{2} << 32;
  std::vector<Kernel> kernels;
  for (const int64_t graph : {1, 2}) {
    for (const auto& [name, node] : {std::pair("fusion_4", 0), {"fusion_4", 1}, {"fusion_9", 2}}) {
      kernels.push_back({name, graph * next + node, "command_buffer", graph});
    }
  }
  EXPECT_THAT(OpsOf(program.Bytes(), kernels),
              ElementsAre("fusion.4", "fusion.2", "fusion.9", "fusion.4", "fusion.2", "fusion.9"));
  // A graph that is truncated by the end of the capture has unknown ops. Other graphs are
  // unaffected.
  kernels.pop_back();
  EXPECT_THAT(OpsOf(program.Bytes(), kernels),
              ElementsAre("fusion.4", "fusion.2", "fusion.9", "?", "?"));
}

// The order of the graphs is unknown, because either may have been instantiated again.
TEST(GraphOps, OpsAlikeInTwoGraphsAreNotTold) {
  MadeProgram program;
  program.Fusion("fusion.4", 8).Fusion("fusion.9", 9).Fusion("fusion.2", 8);
  EXPECT_THAT(OpsOf(program.Bytes(), {{"fusion_4", 1, "first", 1},
                                      {"fusion_9", 2, "first", 1},
                                      {"fusion_4", 3, "second", 2}}),
              ElementsAre("?", "fusion.9", "?"));
}

TEST(GraphOps, WhatHasNoKernelGivesNoName) {
  MadeProgram program;
  program.Fusion("fusion", 8).Call("mine.1", "__gpu$xla.gpu.triton", R"({name = "copy", x = 4})");
  program.Plain("copy", "bitcast");
  EXPECT_THAT(OpsOf(program.Bytes(), {{"fusion", 1}, {"copy", 2}}),
              ElementsAre("fusion", "mine.1"));
}

TEST(GraphOps, LibrariesThatMayNotHaveRunGiveNoName) {
  const std::vector<Kernel> kernels = {{"fusion", 1}, {"rms_norm", 2}};
  // The call is in a branch that did not run.
  MadeProgram branch;
  branch.Fusion("fusion", 8).NextComputation().Call("custom-call.1", "__cublas$gemm");
  EXPECT_THAT(OpsOf(branch.Bytes(), kernels), ElementsAre("fusion", "?"));
  // The second kernel of an op, and a kernel with an op that ran outside of the graph.
  MadeProgram other;
  other.Fusion("fusion", 8).Fusion("sort.3", 9).Call("custom-call.1", "__cublas$gemm");
  EXPECT_THAT(OpsOf(other.Bytes(), {{"fusion", 1}, {"sort_3__1", 2}}), ElementsAre("fusion", "?"));
  EXPECT_THAT(OpsOf(other.Bytes(), {{"fusion", 1}, {"sort_3", 2}, {"sort_3", {}, "sort.3"}}),
              ElementsAre("fusion", "?"));
}

// The number of executions of each op in each scope.
std::map<std::pair<std::string, std::string>, int> RunsOfOps(const std::string& name) {
  Diagnostics reading;
  const Input input = {.path = XPLANE_TIME_TESTDATA "/gpu/" + name + ".xplane.pb.gz"};
  const auto trace = OpenTrace({&input, 1}, {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const auto analysis = Analyze(*trace, {}, reading, Keep::kExecutions);
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  std::map<std::pair<std::string, std::string>, int> runs;
  for (const DeviceAnalysis& device : analysis->devices) {
    for (const Execution& each : device.executions) {
      const OpInfo& op = device.tables->ops[each.op];
      if (each.program != kNone) ++runs[{op.hlo_op, op.scope}];
    }
  }
  return runs;
}

// A trace that was recorded without graphs has the op of each kernel.
class Recorded : public ::testing::TestWithParam<std::string> {};
TEST_P(Recorded, OpsAreThoseOfTheSameProgramWithoutGraphs) {
  auto with = RunsOfOps(GetParam()), without = RunsOfOps(GetParam() + "_plain");
  EXPECT_GT(with.size(), 14u);
  // Copies and kernels that clear a workspace are excluded, because the trace without graphs
  // assigns them to ops. The numbers of library kernels may differ, because libraries split other
  // products.
  for (auto* const each : {&with, &without}) {
    std::erase_if(*each, [](const auto& row) { return row.first.first.starts_with("copy"); });
    for (auto& [op, runs] : *each) {
      if (op.first.starts_with("custom-call")) runs = 1;
    }
  }
  EXPECT_EQ(with, without);
}
INSTANTIATE_TEST_SUITE_P(GraphOps, Recorded, ::testing::Values("h200_train", "h200_kernels"));

}  // namespace
}  // namespace xplane_time::testing
