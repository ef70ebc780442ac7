// Headroom against rooflines worked out by hand, and what must stay unknown.
#include "xplane_time/headroom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "insight/op_costs.h"
#include "tests/insight/made_programs.h"
#include "tests/read/raw_message.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using ::testing::HasSubstr;

// Its costs, from `main` after the operands and what it calls.
insight::OpCost CostOf(const RawMessage& op, const std::vector<RawMessage>& called = {}) {
  std::vector<RawMessage> main = Operands();
  main.push_back(op);
  std::vector<RawMessage> all = called;
  all.push_back(Computation(100, main));
  const std::string bytes = Program(all);
  const auto program = HloProgram::Read(bytes);
  EXPECT_TRUE(program.ok()) << program.status();
  return insight::OpCosts(*program).Of(*program->Find("op"));
}

RawMessage Fusion(const std::vector<int64_t>& called) {
  return Op("op", "fusion", 9, Array(kBf16, {64, 32}), {1, 2, 1}).Bytes(38, Packed(called));
}

RawMessage Gemm(std::string_view target, std::string_view config) {
  const RawMessage result =
      RawMessage().Varint(2, 13).Message(4, Array(kBf16, {64, 32})).Message(4, Array(2, {1 << 20}));
  return Op("op", "custom-call", 9, result, {1, 2}).Bytes(28, target).Bytes(43, config);
}
std::string Config(std::string_view beta) {
  return R"({"gemm_backend_config":{"alpha_real":1,"beta":)" + std::string(beta) +
         R"(,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}})";
}

TEST(OpCosts, OfProductsAndFusionsAreThoseOfTheirShapes) {
  const insight::OpCost fused = CostOf(Fusion({50}), {Computation(50, {Dot(7)})});
  EXPECT_EQ(fused.flops, kDotFlops);
  EXPECT_EQ(fused.bytes, kDotBytes);  // an operand that is there twice is read once
  EXPECT_EQ(fused.flops_type, kBf16);
  const insight::OpCost plain =
      CostOf(Fusion({50}), {Computation(50, {Op("x", "add", 7, Array(kF32, {2}))})});
  EXPECT_EQ(plain.flops, std::nullopt);  // element-wise work is not against a peak of products
  EXPECT_EQ(plain.bytes, kDotBytes);
  EXPECT_TRUE(plain.has_no_products);
  EXPECT_FALSE(fused.has_no_products);
  EXPECT_FALSE(CostOf(Gemm("__cublas$gemm", "{}")).has_no_products);
}

TEST(OpCosts, AWorkspaceOfAGemmCallIsNotMoved) {
  for (const char* target : {"__cublas$gemm", "__cublas$lt$matmul"}) {
    const insight::OpCost cost = CostOf(Gemm(target, Config("0")));
    EXPECT_EQ(cost.flops, kDotFlops);
    EXPECT_EQ(cost.bytes, kDotBytes);
  }
  EXPECT_EQ(CostOf(Gemm("__cublas$gemm", Config("1.5"))).bytes, std::nullopt);
  EXPECT_EQ(CostOf(Gemm("__cublas$gemm", Config("1.5"))).flops, kDotFlops);
  for (const char* config : {"", "{", "[]", R"({"gemm_backend_config":{}})",
                             R"({"gemm_backend_config":{"dot_dimension_numbers":
                                 {"lhs_contracting_dimensions":["x"]}}})",
                             R"({"gemm_backend_config":{"dot_dimension_numbers":
                                 {"lhs_contracting_dimensions":["7"]}}})"}) {
    EXPECT_EQ(CostOf(Gemm("__cublas$gemm", config)).flops, std::nullopt) << config;
  }
  EXPECT_EQ(CostOf(Gemm("my_kernel", Config("0"))).bytes, std::nullopt);
}

TEST(OpCosts, WhatReadsAPartOrIsACallIsUnknown) {
  for (const char* opcode : {"slice", "gather", "dynamic-update-slice", "scatter", "pad", "sort"}) {
    const insight::OpCost cost =
        CostOf(Fusion({50}), {Computation(50, {Op("x", opcode, 6, Array(kF32, {2})), Dot(7)})});
    EXPECT_EQ(cost.bytes, std::nullopt) << opcode;
    EXPECT_EQ(cost.flops, kDotFlops) << opcode;
  }
  for (const char* opcode : {"while", "call", "custom-call", "conditional"}) {
    const insight::OpCost cost =
        CostOf(Fusion({50}), {Computation(50, {Op("x", opcode, 6, Array(kF32, {2})), Dot(7)})});
    EXPECT_EQ(cost.bytes, std::nullopt) << opcode;
    EXPECT_EQ(cost.flops, std::nullopt) << opcode;
  }
  EXPECT_EQ(CostOf(Op("op", "while", 9, Array(kF32, {2}), {1})).bytes, std::nullopt);
}

TEST(OpCosts, CallsThatAreMissingCyclicOrTooDeepEndAndAreUnknown) {
  EXPECT_EQ(CostOf(Fusion({51})).bytes, std::nullopt);
  EXPECT_EQ(CostOf(Fusion({})).bytes, std::nullopt);
  const RawMessage inner = Op("x", "fusion", 6, Array(kF32, {2})).Bytes(38, Packed({50}));
  EXPECT_EQ(CostOf(Fusion({50}), {Computation(50, {inner})}).bytes, std::nullopt);
  std::vector<RawMessage> chain;
  for (int64_t id = 1000; id < 101'000; ++id) {
    chain.push_back(
        Computation(static_cast<uint64_t>(id),
                    {Op("x", "fusion", 6, Array(kF32, {2})).Bytes(38, Packed({id + 1}))}));
  }
  EXPECT_EQ(CostOf(Fusion({1000}), chain).bytes, std::nullopt);
}

// ---- reports -----------------------------------------------------------------------------------

// A GPU that executed dot.1 twice, 1 us each; its program's Hlo Proto has key 1.
struct DotTrace : TraceBuilder {
  DotTrace(const Peaks& peaks, const std::string& hlo_proto) {
    TellPeaks(peaks, Gpu(0));
    auto stream = Gpu(0).Stream(1);
    for (int64_t i = 0; i < 2; ++i) {
      stream.Kernel({.name = "gemm_kernel",
                     .start_ps = i * 2'000'000,
                     .duration_ps = 1'000'000,
                     .hlo_module = "jit_f",
                     .program_id = 1,
                     .hlo_op = "dot.1"});
    }
    AddProgram(hlo_proto, this);
  }
};

absl::StatusOr<HeadroomReport> MakeHeadroom(const TraceBuilder& t, HeadroomOptions options = {}) {
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return BuildHeadroom(*trace, options, reading);
}

HeadroomRow OnlyRow(const TraceBuilder& t, const HeadroomOptions& options = {}) {
  const auto report = MakeHeadroom(t, options);
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->ops.size(), 1u);
  return report->ops.at(0);
}

TEST(Headroom, TheRoofIsTheSlowerSide) {
  const HeadroomRow row = OnlyRow(DotTrace({}, DotProgram()));
  EXPECT_EQ(row.op, "dot.1");
  EXPECT_EQ(row.executions, 2u);
  EXPECT_EQ(row.flops, kDotFlops);
  EXPECT_EQ(row.bytes, kDotBytes);
  EXPECT_EQ(row.roof, Roof::kFull);
  const double memory_ps = 2 * kDotBytes / 1.555e12 * 1e12;  // above that of 312 TFLOP/s
  EXPECT_NEAR(*row.roof_ps, memory_ps, 1e-3);
  EXPECT_NEAR(*row.recoverable_ps, 2e6 - memory_ps, 1e-3);
  EXPECT_DOUBLE_EQ(*row.flops_per_s, kDotFlops / 1e-6);
  EXPECT_EQ(row.bound, Bound::kNeither);
  EXPECT_EQ(row.reason, std::nullopt);
}

TEST(Headroom, ATypeWithoutAPeakLeavesTheRoofOfTheMemory) {
  const HeadroomRow row = OnlyRow(DotTrace({}, DotProgram(kF32)));
  EXPECT_EQ(row.flops, kDotFlops);
  EXPECT_EQ(row.roof, Roof::kMemory);
  EXPECT_EQ(row.flops_share, std::nullopt);
  EXPECT_EQ(row.bound, std::nullopt);
  // The FLOPs may limit it.
  EXPECT_EQ(row.recoverable_ps, std::nullopt);
  EXPECT_EQ(row.reason, NoRoof::kNoPeak);
  const auto report = Report(DotTrace({}, DotProgram(kF32)));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->devices.at(0).recoverable_ps, std::nullopt);
  EXPECT_EQ(report->devices.at(0).roofed_ps, 0);
  const HeadroomRow with_peak = OnlyRow(DotTrace({}, DotProgram(kF32)), {.peak_flops_per_s = 1e15});
  EXPECT_EQ(with_peak.roof, Roof::kFull);
  EXPECT_EQ(with_peak.reason, std::nullopt);
  EXPECT_GT(with_peak.recoverable_ps.value_or(0), 0);
}

TEST(Headroom, WhatIsFasterThanItsRoofHasNothingToGiveBack) {
  const HeadroomRow row = OnlyRow(DotTrace({.bytes_per_s = 1'000'000'000}, DotProgram()));
  EXPECT_EQ(row.above_peak, true);
  EXPECT_EQ(row.recoverable_ps, std::nullopt);
  EXPECT_EQ(row.reason, NoRoof::kAbovePeak);
}

TEST(Headroom, PeaksAreTheUsersBeforeTheTracesAndTheTables) {
  const auto report =
      MakeHeadroom(DotTrace({.vendor = "AMD", .major = 9, .minor = 4}, DotProgram()));
  const DevicePeaks& peaks = report->devices.at(0).peaks;
  EXPECT_EQ(peaks.flops_per_s, 108 * 1.41e9 * 2048);
  EXPECT_EQ(peaks.f8_flops_per_s, 2 * 108 * 1.41e9 * 2048);
  EXPECT_EQ(peaks.bytes_per_s, 2 * 1.555e12);
  EXPECT_EQ(peaks.bytes_source, PeakSource::kTable);
  const auto by_user = MakeHeadroom(DotTrace({}, DotProgram(kF32)),
                                    {.peak_flops_per_s = 1e12, .peak_bytes_per_s = 1e14});
  EXPECT_EQ(by_user->ops.at(0).roof, Roof::kFull);
  EXPECT_NEAR(*by_user->ops.at(0).roof_ps, 2. * kDotFlops, 1e-3);
  EXPECT_EQ(by_user->devices.at(0).peaks.flops_source, PeakSource::kUser);
}

TEST(Headroom, ADeviceThatIsNotInTheTableHasNoPeakOfFlops) {
  for (const Peaks& peaks :
       {Peaks{.vendor = ""}, Peaks{.major = 8, .minor = 9}, Peaks{.vendor = "AMD", .major = 8}}) {
    const auto report = MakeHeadroom(DotTrace(peaks, DotProgram()));
    EXPECT_EQ(report->devices.at(0).peaks.flops_per_s, std::nullopt);
    EXPECT_EQ(report->ops.at(0).roof, Roof::kMemory);
  }
}

TEST(Headroom, PeaksThatNoDeviceHasAreLeftOutAndNamed) {
  for (const Peaks& peaks : {Peaks{.cores = 0, .bytes_per_s = 0}, Peaks{.bytes_per_s = -5},
                             Peaks{.clock_khz = int64_t{1} << 60, .bytes_per_s = 1}}) {
    const auto report = MakeHeadroom(DotTrace(peaks, DotProgram()));
    EXPECT_EQ(report->devices.at(0).peaks.bytes_per_s, std::nullopt);
    ASSERT_FALSE(report->diagnostics.empty());
    EXPECT_EQ(report->diagnostics.back().code, "unbelievable_peak");
  }
  for (const double peak : {0., -1., 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    const auto report = MakeHeadroom(DotTrace({}, DotProgram()), {.peak_flops_per_s = peak});
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << peak;
  }
}

TEST(Headroom, AHloProtoThatIsDamagedAnothersOrMissingIsNamed) {
  const std::pair<std::string, const char*> cases[] = {{"\xff\xff", "damaged"},
                                                       {DotProgram(kBf16, "jit_g"), "of jit_g"}};
  for (const auto& [hlo_proto, why] : cases) {
    const auto report = MakeHeadroom(DotTrace({}, hlo_proto));
    ASSERT_TRUE(report.ok()) << report.status();
    const HeadroomRow& row = report->ops.at(0);
    EXPECT_EQ(row.flops, std::nullopt);
    EXPECT_EQ(row.bytes, std::nullopt);
    EXPECT_EQ(row.roof_ps, std::nullopt);
    EXPECT_EQ(row.reason, NoRoof::kNoProgram);
    EXPECT_EQ(report->diagnostics.back().code, "hlo_unusable");
    EXPECT_THAT(report->diagnostics.back().message, HasSubstr(why));
  }
  DotTrace two({}, DotProgram());
  AddProgram(DotProgram(), &two);  // under another key
  EXPECT_EQ(OnlyRow(two).flops, kDotFlops);
  const auto empty = MakeHeadroom(DotTrace({}, Program({})));
  EXPECT_EQ(empty->ops.at(0).reason, NoRoof::kNotInProgram);
}

TEST(Headroom, CutAnywhereAProgramCostsNothingElse) {
  const std::string whole = DotProgram();
  for (size_t size = 1; size < whole.size(); ++size) {
    const auto report = MakeHeadroom(DotTrace({}, whole.substr(0, size)));
    ASSERT_TRUE(report.ok()) << report.status();
    const HeadroomRow& row = report->ops.at(0);
    EXPECT_EQ(row.total_ps, 2'000'000);
    EXPECT_TRUE(!row.flops.has_value() || row.flops == kDotFlops) << size;
    EXPECT_TRUE(row.roof_ps.has_value() || row.reason.has_value()) << size;
  }
}

TEST(Headroom, CopiesAreCountedAndHaveNoRoof) {
  TraceBuilder t;
  TellPeaks({}, t.Gpu(0));
  auto stream = t.Gpu(0).Stream(1);
  for (int64_t i = 0; i < 2; ++i) {
    const std::string details = "kind_src:pageable size:" + std::to_string(100 + i) + " async:1";
    stream.Kernel({.name = "MemcpyH2D",
                   .start_ps = i * 2'000'000,
                   .duration_ps = 1'000'000,
                   .stats = {{"memcpy_details", details}}});
  }
  const HeadroomRow row = OnlyRow(t);
  EXPECT_EQ(row.bytes, 100.5);
  EXPECT_EQ(row.bytes_source, FigureSource::kCounted);
  EXPECT_DOUBLE_EQ(*row.bytes_per_s, 100.5e6);
  EXPECT_EQ(row.roof_ps, std::nullopt);
  EXPECT_EQ(row.reason, NoRoof::kNotCompute);
  stream.Kernel({.name = "MemcpyH2D",
                 .start_ps = 9'000'000,
                 .duration_ps = 1'000'000,
                 .stats = {{"memcpy_details", std::string("kind:Unknown size:x")}}});
  EXPECT_EQ(OnlyRow(t).bytes, std::nullopt);  // the size of one is not known
}

// The number of the first word that begins with "size:", where it is one above 0.
std::optional<double> SlowSize(const std::string& details) {
  std::istringstream words(details);
  for (std::string word; std::getline(words, word, ' ');) {
    if (word.compare(0, 5, "size:") != 0) continue;
    const std::string digits = word.substr(5);
    const bool whole = !digits.empty() && digits.size() < 19 &&
                       digits.find_first_not_of("0123456789") == std::string::npos;
    const double size = whole ? std::stod(digits) : 0;
    return size > 0 ? std::optional(size) : std::nullopt;
  }
  return std::nullopt;
}

TEST(Headroom, DetailsOfACopyMayBeCutOrDamagedAnywhere) {
  const std::string whole = "kind_src:pageable kind_dst:device size:40960 dest:1 size:7 async:1";
  std::vector<std::string> all = {"size:",
                                  " size:5",
                                  "size:5 ",
                                  "size:0",
                                  "size:-4",
                                  "size:9x",
                                  "size:99999999999999999999999",
                                  "xsize:5",
                                  "size: 5"};
  for (size_t size = 0; size <= whole.size(); ++size) all.push_back(whole.substr(0, size));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {' ', ':', '9', '\xff', '\0'}) {
      all.push_back(whole);
      all.back()[at] = byte;
    }
  }
  for (const std::string& details : all) {
    TraceBuilder t;
    t.Gpu(0).Stream(1).Kernel(
        {.name = "MemcpyH2D", .duration_ps = 1'000'000, .stats = {{"memcpy_details", details}}});
    EXPECT_EQ(OnlyRow(t).bytes, SlowSize(details)) << details;
  }
}

TEST(Headroom, OnACpuFiguresAreKnownButNoRoofIs) {
  TraceBuilder t;
  t.Host().Thread("worker").Thunk({.start_ps = 0,
                                   .duration_ps = 500,
                                   .hlo_op = "dot.1",
                                   .hlo_module = "jit_f",
                                   .program_id = 1,
                                   .run_id = 1});
  AddProgram(DotProgram(), &t);
  const HeadroomRow row = OnlyRow(t, {.peak_flops_per_s = 1e12, .peak_bytes_per_s = 1e11});
  EXPECT_EQ(row.flops, kDotFlops);
  EXPECT_EQ(row.roof_ps, std::nullopt);
  EXPECT_EQ(row.reason, NoRoof::kHost);
}

TEST(Headroom, KernelsThatAreNoMultiplesDoNotTellHowOftenAnOpRan) {
  DotTrace t({}, DotProgram());
  auto stream = t.Gpu(0).Stream(1);
  for (int64_t i = 0; i < 3; ++i) {
    stream.Kernel({.name = "split_k",
                   .start_ps = 10'000'000 + i * 2'000'000,
                   .duration_ps = 10,
                   .hlo_module = "jit_f",
                   .program_id = 1,
                   .hlo_op = "dot.1"});
  }
  const HeadroomRow row = OnlyRow(t);
  EXPECT_EQ(row.kernels, 5u);
  EXPECT_EQ(row.kernel, "gemm_kernel");
  EXPECT_EQ(row.executions, std::nullopt);
  EXPECT_EQ(row.flops_per_s, std::nullopt);
  EXPECT_EQ(row.reason, NoRoof::kExecutions);
}

// ---- kernels -----------------------------------------------------------------------------------

std::vector<KernelRow> Kernels(const TraceBuilder& t, const ReportOptions& options = {}) {
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const auto report = BuildReportWithRates(*trace, options, reading);
  EXPECT_TRUE(report.ok()) << report.status();
  return report->kernels;
}

void AddKernel(std::string name, std::string hlo_op, int64_t start_ps, TraceBuilder* t,
               std::vector<StatSpec> stats = {}) {
  t->Gpu(0).Stream(1).Kernel({.name = std::move(name),
                              .start_ps = start_ps,
                              .duration_ps = 1'000'000,
                              .hlo_module = "jit_f",
                              .program_id = 1,
                              .hlo_op = std::move(hlo_op),
                              .stats = std::move(stats)});
}

TEST(KernelRates, AreThoseThatHeadroomHas) {
  const DotTrace t({}, DotProgram());
  const HeadroomRow op = OnlyRow(t);
  const KernelRow kernel = Kernels(t).at(0);
  EXPECT_DOUBLE_EQ(*kernel.flops_per_s, *op.flops_per_s);
  EXPECT_DOUBLE_EQ(*kernel.bytes_per_s, *op.bytes_per_s);
  EXPECT_DOUBLE_EQ(*kernel.roof_share, *op.bytes_share);  // the side that binds
  EXPECT_GT(*op.bytes_share, *op.flops_share);
  EXPECT_EQ(kernel.flops, std::nullopt);  // which are the producer's
}

TEST(KernelRates, OfOneOfSeveralKernelsOfAnOpAreUnknown) {
  DotTrace t({}, DotProgram());
  AddKernel("reduce_kernel", "dot.1", 4'000'000, &t);
  AddKernel("reduce_kernel", "dot.1", 6'000'000, &t);
  for (const char* filter : {"", "gemm"}) {  // what is left out did its part, too
    ReportOptions options;
    options.kernel = filter;
    for (const KernelRow& kernel : Kernels(t, options)) {
      EXPECT_EQ(kernel.flops_per_s, std::nullopt) << kernel.kernel;
      EXPECT_EQ(kernel.roof_share, std::nullopt) << kernel.kernel;
    }
  }
}

TEST(KernelRates, OfAKernelOfSeveralOpsAreOfAllOrUnknown) {
  std::vector<RawMessage> main = Operands();
  main.push_back(Dot(7));
  RawMessage other = Op("dot.2", "dot", 8, Array(kBf16, {64, 32}), {1, 2});
  main.push_back(other.Message(30, RawMessage().Bytes(1, Packed({1})).Bytes(2, Packed({0}))));
  DotTrace t({}, Program({Computation(1, main)}));
  AddKernel("gemm_kernel", "dot.2", 4'000'000, &t);
  const KernelRow kernel = Kernels(t).at(0);
  EXPECT_EQ(kernel.count, 3u);
  EXPECT_DOUBLE_EQ(*kernel.flops_per_s, kDotFlops / 1e-6);
  AddKernel("gemm_kernel", "unknown.1", 6'000'000, &t);
  EXPECT_EQ(Kernels(t).at(0).flops_per_s, std::nullopt);
}

TEST(KernelRates, WithoutAModelAreTheProducers) {
  TraceBuilder t;
  AddKernel("k", "", 0, &t, {{"flops", int64_t{300}}, {"bytes_accessed", int64_t{20}}});
  const KernelRow kernel = Kernels(t).at(0);
  EXPECT_DOUBLE_EQ(*kernel.flops_per_s, 300 / 1e-6);
  EXPECT_DOUBLE_EQ(*kernel.bytes_per_s, 20 / 1e-6);
  EXPECT_EQ(kernel.roof_share, std::nullopt);
}

}  // namespace
}  // namespace xplane_time::testing
