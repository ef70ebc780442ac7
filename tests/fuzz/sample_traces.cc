#include "tests/fuzz/sample_traces.h"

#include "tests/read/raw_message.h"
#include "tests/support/trace_builder.h"

namespace xplane_time::testing {
namespace {

// Two runs of two kernels on each of two GPUs, and the host that launched them.
std::string Gpu() {
  TraceBuilder t;
  for (int64_t ordinal = 0; ordinal < 2; ++ordinal) {
    auto stream = t.Gpu(ordinal).Stream(16, "Kernel", /*timestamp_ns=*/16204);
    auto host = t.Host().Thread("python");
    for (int64_t run = 0; run < 2; ++run) {
      const int64_t at = 20'000'000 + run * 1'000'000;
      for (int64_t kernel = 0; kernel < 2; ++kernel) {
        const auto correlation = static_cast<uint64_t>(1 + ordinal * 10 + run * 2 + kernel);
        stream.Kernel({.name = "kernel_" + std::to_string(kernel),
                       .start_ps = at + kernel * 2000,
                       .duration_ps = 1500 + run,
                       .hlo_module = "jit_autotune_fn_3",
                       .program_id = 3,
                       .hlo_op = "dot." + std::to_string(kernel),
                       .correlation_id = correlation,
                       .scope_range_id = run + 1,
                       .tf_op = "XlaModule:#hlo_module=jit_autotune_fn_3#"});
        host.Launch({.start_ps = at - 9000 + kernel * 100,
                     .duration_ps = 50,
                     .correlation_id = correlation});
      }
      host.ModuleExecution("jit_autotune_fn_3", at - 10'000, 5000);
    }
  }
  t.ScopeParent(1, 7).ScopeParent(2, 7).Hostname("alpha");
  return t.Bytes();
}

std::string Tpu() {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  for (int64_t run = 0; run < 3; ++run) {
    const int64_t at = 1000 + run * 100'000;
    tpu.Module({.name = "jit_f",
                .program_id = 12190760917235803885u,
                .start_ps = at,
                .duration_ps = 50'000,
                .run_id = run});
    tpu.Op({.name = "fusion.1",
            .start_ps = at + 1,
            .duration_ps = 20'003,
            .device_offset_ps = at,
            .device_duration_ps = 19'000,
            .hlo_category = "loop fusion",
            .tf_op = "jit(f)/scope/mul",
            .flops = 123,
            .bytes_accessed = 456});
    tpu.Op({.name = "all-reduce.2", .start_ps = at + 10, .duration_ps = 100});
    tpu.AsyncOp({.name = "copy-start.1", .start_ps = at + 5, .duration_ps = 60'000});
  }
  t.Plane("/device:TPU:0 SparseCore 0").Line({.id = 1, .name = "Sparse Core Ops"});
  t.Plane("#Chip0 TPU Non-Core HBM");
  t.Environment(1'770'000'000'000'000'000u, 1'770'000'001'000'000'000u).Hostname("beta");
  return t.Bytes();
}

std::string Cpu() {
  TraceBuilder t;
  auto thread = t.Host().Thread("tf_XLATfrtCpuClient/1", /*timestamp_ns=*/77);
  for (int64_t run = 0; run < 2; ++run) {
    for (int64_t device = 0; device < 2; ++device) {
      const int64_t at = 100'000 + run * 10'000 + device * 50;
      const ThunkSpec thunk = {.start_ps = at,
                               .duration_ps = 4000,
                               .hlo_op = "while.5",
                               .hlo_module = "jit_g",
                               .program_id = 9,
                               .run_id = run,
                               .device_ordinal = device};
      thread.Thunk(thunk);
      thread.Event({.name = "end: while.5", .start_ps = at + 4000, .duration_ps = 1});
    }
  }
  return t.Bytes();
}

std::string StatTypes() {
  TraceBuilder t;
  auto plane = t.Plane("/device:CUSTOM:Megascale Trace");
  plane.Stat({.name = "of_plane", .value = Ref{"text of the plane"}});
  const std::vector<StatSpec> stats = {{"double", -0.5},
                                       {"uint64", ~uint64_t{0}},
                                       {"int64", int64_t{-1}},
                                       {"zero", int64_t{0}},
                                       {"str", std::string("\xff\xfe bad UTF-8")},
                                       {"empty", std::string()},
                                       {"bytes", RawBytes{std::string("\0\1", 2)}},
                                       {"ref", Ref{"referenced"}},
                                       {"gzip", Gzipped{"not really"}}};
  plane.Line({.id = -559038737, .name = "l", .display_name = "shown"})
      .Event({.name = "own", .start_ps = 1, .duration_ps = 2, .stats = stats})
      .Event({.name = "from metadata", .start_ps = 3, .duration_ps = 0, .metadata_stats = stats})
      .Event({.name = "both",
              .display_name = "display",
              .start_ps = 2,
              .duration_ps = 9,
              .stats = {{"int64", int64_t{5}}, {"int64", int64_t{6}}},
              .metadata_stats = {{"int64", int64_t{7}}, {"double", 1.0}}});
  return t.Bytes();
}

std::string OddEvents() {
  TraceBuilder t;
  auto line = t.Gpu(0).Line({.id = 1, .name = "Stream #1", .timestamp_ns = 1000});
  line.Event({.name = "late", .start_ps = 9'000'000, .duration_ps = 5});
  line.Event({.name = "early", .start_ps = 2'000'000, .duration_ps = 5});
  line.Event({.name = "backwards", .start_ps = 3'000'000, .duration_ps = -5});
  line.Event({.duration_ps = 77, .num_occurrences = 4, .metadata_id = 404});
  line.Event({.name = "few", .duration_ps = 1, .num_occurrences = -4});
  line.Event({.name = "far", .start_ps = INT64_MAX - 1'000'000, .duration_ps = 2'000'000});
  t.Gpu(0).Line({.id = 1, .name = "Stream #1"}).Event({.name = "again", .start_ps = 1});
  t.proto().add_errors("an error");
  t.proto().add_warnings("a warning");
  return t.Bytes();
}

// A trace with causes: a program with a matrix product, a copy with its size, marked steps and
// peaks; and on a TPU, a transfer with separate -start and -done.
std::string Why() {
  const std::string dims = "\x04\x04";
  const RawMessage shape = RawMessage().Varint(2, 11).Bytes(3, dims);
  const auto op = [&](std::string_view name, std::string_view opcode, uint64_t id) {
    return RawMessage().Bytes(1, name).Bytes(2, opcode).Message(3, shape).Varint(35, id);
  };
  RawMessage dot = op("dot.1", "dot", 3);
  dot.Bytes(36, "\x01\x02").Message(30, RawMessage().Bytes(1, "\x01").Bytes(2, std::string(1, 0)));
  const RawMessage main = RawMessage()
                              .Message(2, op("a", "parameter", 1))
                              .Message(2, op("b", "parameter", 2))
                              .Message(2, dot)
                              .Varint(5, 1);
  const RawMessage program =
      RawMessage().Message(1, RawMessage().Bytes(1, "jit_f").Message(3, main));
  TraceBuilder t;
  t.Plane("/host:metadata")
      .Line({})
      .Event({.name = "jit_f", .metadata_stats = {{"Hlo Proto", RawBytes{program.bytes()}}}});
  t.Gpu(0).Stat({"compute_cap_major", int64_t{9}}).Stat({"core_count", int64_t{132}});
  t.Gpu(0).Stat({"memory_bandwidth", int64_t{3'350'000'000'000}});
  t.Gpu(0).Line({.id = 9, .name = "Steps"}).Event({.name = "0", .duration_ps = 900'000});
  auto host = t.Host().Thread("python");
  host.Event({.name = "step", .duration_ps = 90'000, .stats = {{"step_num", int64_t{0}}}});
  for (int64_t run = 0; run < 2; ++run) {
    const int64_t at_ps = 100'000 + run * 400'000;
    const auto launch = static_cast<uint64_t>(run + 1);
    t.Gpu(0).Stream(1).Kernel({.name = "gemm",
                               .start_ps = at_ps,
                               .duration_ps = 100'000,
                               .hlo_module = "jit_f",
                               .program_id = 1,
                               .hlo_op = "dot.1",
                               .correlation_id = launch});
    host.Launch({.start_ps = at_ps - 9000, .duration_ps = 50, .correlation_id = launch});
    t.Gpu(0)
        .Stream(2, "MemcpyH2D")
        .Kernel({.name = "MemcpyH2D",
                 .start_ps = at_ps + 50'000,
                 .duration_ps = 90'000,
                 .stats = {{"memcpy_details", "size:4096 async:1"}}});
    t.Tpu(0).Module({.name = "jit_g", .program_id = 7, .start_ps = at_ps, .duration_ps = 90'000});
  }
  auto ops = t.Tpu(0).Line({.id = 3, .name = "XLA Ops"});
  int64_t at_ps = 100'000;
  for (const char* text : {"%copy-start.1 = f32[8]{0} copy-start(f32[8]{0} %p)",
                           "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)",
                           "%copy-done.1 = f32[8]{0} copy-done(f32[8]{0} %copy-start.1)"}) {
    // The op reads 64 bytes of HBM.
    ops.Event({.name = text,
               .display_name = std::string(text + 1, std::string_view(text).find(' ') - 1),
               .start_ps = at_ps,
               .duration_ps = 10'000,
               .metadata_stats = {
                   {"memory_access_breakdown", RawBytes{"\x0a\x06\x08\x01\x10\x01\x18\x40"}}}});
    at_ps += 20'000;
  }
  return t.Bytes();
}

std::string Epoch() {
  TraceBuilder t;
  t.Gpu(0).Stream(1).Kernel({.name = "k", .start_ps = 7, .duration_ps = 3, .hlo_module = "jit_f"});
  t.Gpu(1).Stream(1).Kernel({.name = "k", .start_ps = 9, .duration_ps = 3, .hlo_module = "jit_f"});
  t.ShiftTimestamps(1'770'000'000'000'000'000);
  return t.Bytes();
}

std::string MakeStreamSpace(const RawMessage& event) {
  return Space(Named("/device:GPU:0").Message(3, Named("Stream #1").Message(4, event)));
}

// Maps after the lines, timestamp after the events, value before the stat's id.
std::string AnyOrder() {
  const RawMessage stat = RawMessage().Varint(4, 17).Varint(1, 3);
  const RawMessage event = RawMessage().Message(4, stat).Varint(3, 5).Varint(2, 1000).Varint(1, 2);
  const RawMessage line = RawMessage().Message(4, event).Varint(3, 50).Bytes(2, "Stream #1");
  return Space(RawMessage()
                   .Message(5, Entry(3, Named("program_id")))
                   .Message(3, line)
                   .Message(4, RawMessage().Message(2, Named("k")).Varint(1, 2))
                   .Bytes(2, "/device:GPU:0")
                   .Message(3, line));
}

std::string Maps() {
  const RawMessage stat = RawMessage().Varint(1, 3).Varint(3, 8);
  return Space(Named("/device:GPU:0")
                   .Message(5, Entry(3, Named("s")))
                   .Message(4, Entry(1, Named("first").Message(5, stat)))
                   .Message(4, Entry(1, Named("last")))
                   .Message(4, Entry(2, Named("in")).Message(2, RawMessage().Bytes(4, "pieces")))
                   .Message(4, RawMessage().Message(2, Named("no key")))
                   .Message(4, RawMessage().Int(1, -7))
                   .Message(4, Entry(4, RawMessage().Bytes(6, "\x01\x02")))
                   .Message(3, RawMessage().Message(4, RawMessage().Varint(1, 2).Varint(3, 1))));
}

std::string WrongTypes() {
  const RawMessage event = RawMessage()
                               .Bytes(1, "x")
                               .Fixed64(2, 5)
                               .Fixed32(3, 6)
                               .Varint(4, 7)
                               .Bytes(99, "unknown")
                               .StartGroup(98)
                               .Varint(1, 1)
                               .EndGroup(98);
  return Space(Named("p").Varint(3, 1).Fixed64(4, 2).Fixed32(1, 3).Message(
      3, RawMessage().Bytes(3, "x").Varint(2, 1).Message(4, event)));
}

void AddOverlong(std::vector<NamedBytes>* traces) {
  for (size_t length = 4; length <= 11; ++length) {
    const std::string of = std::to_string(length);
    const std::string tag = VarintBytes(3 << 3, length), five = VarintBytes(5);
    traces->push_back({"tag_bytes_" + of, MakeStreamSpace(RawMessage().Raw(tag).Raw(five))});
    traces->push_back(
        {"length_bytes_" + of,
         MakeStreamSpace(RawMessage().Tag(9, 2).Raw(VarintBytes(1, length)).Raw("x"))});
    traces->push_back(
        {"value_bytes_" + of, MakeStreamSpace(RawMessage().Tag(3, 0).Raw(VarintBytes(5, length)))});
  }
  const std::string high_bits("\x98\x80\x80\x80\x10\x05", 6);
  traces->push_back({"tag_beyond_32_bits", MakeStreamSpace(RawMessage().Raw(high_bits))});
}

void AddGroups(std::vector<NamedBytes>* traces) {
  constexpr int kAround[] = {97, 98, 99, 100};
  for (const int depth : kAround) {
    const RawMessage groups = NestedGroups(depth);
    const std::string of = std::to_string(depth);
    traces->push_back({"groups_in_event_" + of, MakeStreamSpace(groups)});
    traces->push_back({"groups_in_plane_" + of, Space(Named("p").Raw(groups.bytes()))});
  }
  traces->push_back({"group_mismatch", MakeStreamSpace(RawMessage().StartGroup(7).EndGroup(8))});
  traces->push_back({"group_end_alone", MakeStreamSpace(RawMessage().EndGroup(7))});
}

}  // namespace

std::vector<NamedBytes> BuiltTraces() {
  const std::string gpu = Gpu(), tpu = Tpu();
  return {{"gpu", gpu},
          {"tpu", tpu},
          {"cpu", Cpu()},
          {"hosts_appended", gpu + tpu},
          {"appended_to_itself", gpu + gpu},
          {"stat_types", StatTypes()},
          {"odd_events", OddEvents()},
          {"epoch", Epoch()},
          {"why", Why()}};
}

std::vector<NamedBytes> RawTraces() {
  std::vector<NamedBytes> traces = {
      {"any_order", AnyOrder()},
      {"maps", Maps()},
      {"wrong_types", WrongTypes()},
      {"oneof_repeated", MakeStreamSpace(RawMessage().Varint(2, 4).Varint(5, 3).Varint(2, 9))},
      {"packed_child_id_cut",
       Space(Named("p").Message(4, Entry(1, RawMessage().Bytes(6, "\x01\x82"))))},
      {"negative_ids", MakeStreamSpace(RawMessage().Int(1, -3).Int(2, -4).Int(3, 8))},
  };
  AddOverlong(&traces);
  AddGroups(&traces);
  return traces;
}

}  // namespace xplane_time::testing
