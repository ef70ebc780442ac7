// What ops are, by their opcode in the Hlo Proto and, without one, by their name.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hlo/program.h"
#include "hlo/tpu_metadata.h"
#include "tests/read/raw_message.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {
namespace {

using Instructions = std::vector<std::pair<std::string, std::string>>;  // name and opcode

// A module with other fields around those that are read.
std::string HloProto(const Instructions& instructions) {
  RawMessage computation;
  computation.Bytes(1, "main");
  for (const auto& [name, opcode] : instructions) {
    computation.Message(
        2, RawMessage().Bytes(1, name).Bytes(2, opcode).Bytes(3, "shape").Varint(35, 7));
  }
  const RawMessage module = RawMessage().Bytes(1, "jit_f").Message(3, computation).Varint(5, 9);
  return RawMessage().Message(1, module).Bytes(3, "buffers").bytes();
}

struct Op {
  std::string name;
  std::string opcode;  // empty: not in the Hlo Proto
};

class Categories : public ::testing::Test {
 protected:
  // A CPU program with these ops; `id`: of its Hlo Proto.
  std::map<std::string, std::string> Of(const std::vector<Op>& ops, int64_t id = 7) {
    TraceBuilder t;
    int64_t start_ps = 0;
    Instructions instructions;
    auto thread = t.Host().Thread("worker");
    for (const Op& op : ops) {
      thread.Thunk({.start_ps = start_ps += 1000,
                    .duration_ps = 500,
                    .hlo_op = op.name,
                    .hlo_module = "jit_f",
                    .program_id = 7,
                    .run_id = 1});
      if (!op.opcode.empty()) instructions.emplace_back(op.name, op.opcode);
    }
    AddHloProto(&t, id, HloProto(instructions));
    return CategoriesOf(t);
  }

  static void AddHloProto(TraceBuilder* t, int64_t id, const std::string& hlo_proto) {
    t->Plane("/host:metadata")
        .Line({})
        .Event({.name = "jit_f(" + std::to_string(hlo_proto.size()) + ")",
                .metadata_stats = {{"Hlo Proto", RawBytes{hlo_proto}}, {"program_id", id}}});
  }

  static std::map<std::string, std::string> CategoriesOf(const TraceBuilder& t) {
    const std::string bytes = t.Bytes();
    Diagnostics reading;
    const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
    EXPECT_TRUE(trace.ok()) << trace.status();
    const auto report = BuildReport(*trace, {}, reading);
    EXPECT_TRUE(report.ok()) << report.status();
    std::map<std::string, std::string> found;
    for (const KernelRow& row : report->kernels) found[row.kernel] = CategoryName(row.category);
    return found;
  }
};

const std::map<std::string, std::string> kPrimitives = {
    {"all_gather.7", "collective"},     {"pmax.7", "collective"},  {"ppermute.3", "collective"},
    {"reduce_scatter.7", "collective"}, {"cond.1.clone", "other"},
};

TEST_F(Categories, OpcodesTellWhatPrimitivesAre) {
  auto expected = kPrimitives;
  expected["dot_general.2"] = "compute";
  expected["copied"] = "copy";
  expected["loop"] = "other";
  EXPECT_EQ(Of({{"all_gather.7", "all-gather"},
                {"pmax.7", "all-reduce"},
                {"ppermute.3", "collective-permute"},
                {"reduce_scatter.7", "reduce-scatter"},
                {"cond.1.clone", "conditional"},
                {"dot_general.2", "dot"},
                {"copied", "copy-start"},
                {"loop", "while"}}),
            expected);
}

TEST_F(Categories, NamesDecideWithoutAHloProto) {
  EXPECT_EQ(Of({{"all_gather.7", ""},
                {"pmax.7", ""},
                {"ppermute.3", ""},
                {"reduce_scatter.7", ""},
                {"cond.1.clone", ""}}),
            kPrimitives);
}

TEST_F(Categories, AnOpcodeComesBeforeNames) {
  const std::map<std::string, std::string> expected = {
      {"all-reduce_fusion", "compute"}, {"while_fusion", "compute"}, {"memcpy_fusion", "compute"}};
  EXPECT_EQ(Of({{"all-reduce_fusion", "fusion"},
                {"while_fusion", "fusion"},
                {"memcpy_fusion", "fusion"}}),
            expected);
}

TEST_F(Categories, OpcodesThatSayLittleLeaveItToNames) {
  const std::map<std::string, std::string> expected = {{"all-gather.1", "collective"},
                                                       {"gemm.1", "compute"}};
  EXPECT_EQ(Of({{"all-gather.1", "async-start"}, {"gemm.1", "custom-call"}}), expected);
}

TEST_F(Categories, AnotherProgramSaysNothing) {
  const std::map<std::string, std::string> expected = {{"odd", "compute"}};
  EXPECT_EQ(Of({{"odd", "all-reduce"}}, 8), expected);
}

TEST_F(Categories, TwoDifferentHloProtosOfOneIdAndDamagedOnesSayNothing) {
  const std::string proto = HloProto({{"odd", "all-reduce"}});
  for (const std::string& other : {HloProto({{"odd", "add"}}), std::string("\xff\xff")}) {
    TraceBuilder t;
    t.Host().Thread("worker").Thunk({.start_ps = 0,
                                     .duration_ps = 500,
                                     .hlo_op = "odd",
                                     .hlo_module = "jit_f",
                                     .program_id = 7,
                                     .run_id = 1});
    if (other.size() > 2) AddHloProto(&t, 7, proto);
    AddHloProto(&t, 7, other);
    const std::map<std::string, std::string> expected = {{"odd", "compute"}};
    EXPECT_EQ(CategoriesOf(t), expected);
  }
}

TEST_F(Categories, OnAGpuTheKeyIsTheProgramAndKernelsOfLibrariesKeepTheirs) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  const std::string ops[] = {"pmax.7", "loop", "fused"};
  const std::string kernels[] = {"ring", "MemcpyD2H", "ncclDevKernel"};
  for (int i = 0; i < 3; ++i) {
    stream.Kernel({.name = kernels[i],
                   .start_ps = 1000 * i,
                   .duration_ps = 500,
                   .hlo_module = "jit_f",
                   .program_id = 1,
                   .hlo_op = ops[i]});
  }
  const std::string proto =
      HloProto({{"pmax.7", "all-reduce"}, {"loop", "while"}, {"fused", "fusion"}});
  t.Plane("/host:metadata")
      .Line({})
      .Event({.name = "jit_f", .metadata_stats = {{"Hlo Proto", RawBytes{proto}}}});
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const auto report = BuildReport(*trace, {}, reading);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const KernelRow& row : report->kernels) {
    EXPECT_EQ(CategoryName(row.category), row.kernel == "MemcpyD2H" ? "copy" : "collective")
        << row.kernel;
  }
}

// ---- memory_access_breakdown -------------------------------------------------------------------

RawMessage Access(int64_t space, int64_t bytes) {
  return RawMessage().Varint(1, 1).Int(2, space).Int(3, bytes);
}

TEST(HbmBytes, AreThoseOfTheMainMemoryAndNothingWhereTheyMakeNoSense) {
  EXPECT_EQ(HbmBytes(""), 0);
  const auto of = [](const std::vector<RawMessage>& accesses) {
    RawMessage all;
    for (const RawMessage& each : accesses) all.Message(1, each);
    return HbmBytes(all.bytes());
  };
  EXPECT_EQ(of({Access(1, 100), Access(2, 7), Access(1, 300)}), 400);
  EXPECT_EQ(of({Access(1, -1)}), std::nullopt);
  EXPECT_EQ(of({Access(2, -1)}), 0);
  EXPECT_EQ(of({Access(1, INT64_MAX), Access(1, 1)}), std::nullopt);
}

TEST(HbmBytes, CutAnywhereAreThoseOfWholeAccessesOrNothing) {
  const int64_t kBytes[] = {100, 70'000, 5'000'000'000};
  std::string whole;
  std::map<size_t, int64_t> whole_at = {{0, 0}};  // by size, the sum of all before
  for (const int64_t bytes : kBytes) {
    const int64_t before = whole_at.at(whole.size());
    whole += RawMessage().Message(1, Access(1, bytes)).bytes();
    whole_at[whole.size()] = before + bytes;
  }
  for (size_t size = 0; size <= whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);  // a buffer of its own
    const auto found = whole_at.find(size);
    EXPECT_EQ(HbmBytes(cut), found == whole_at.end() ? std::nullopt : std::optional(found->second))
        << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(byte);
      EXPECT_GE(HbmBytes(damaged).value_or(0), 0);
    }
  }
}

}  // namespace
}  // namespace xplane_time::testing
