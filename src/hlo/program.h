// HloPrograms: what the compiler says of the ops that ran.
//
// The plane `/host:metadata` has one event metadata entry a program, with the program's Hlo
// Proto. A program is read when one of its ops is first asked for, those that never ran are not.
// One pass finds names and opcodes; what else there is of an instruction is read when asked for.
//
//   HloPrograms programs(trace, plane);
//   programs.OpcodeOf(program_id, "pmax.7")               // "all-reduce"; empty: unknown
//   const HloProgram* const program = programs.Find(19).program;   // null: see `state`
//   const HloInstruction* const gemm = program->Find("custom-call.1");
//   ReadDetails(*gemm)->custom_call_target                // "__cublas$gemm"
//   program->SourceOf(*ReadDetails(*gemm))                // "model.py", "attention", 12
//
// All texts are views into the trace. The wire is walked with bounds checks (read/wire.h); of
// fields that are not named here nothing is read, so that newer schemas do no harm. Time: linear.
// Memory: some 100 bytes an instruction, at most kMostInstructions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xplane_time/trace.h"

namespace xplane_time {

struct WireField;

// HloInstructionProto, as far as every one is read.
struct HloInstruction {
  std::string_view name = {}, opcode = {};  // "all_gather.7", "all-gather"
  int64_t id = 0;
  std::string_view message = {};  // all of it
};

// ShapeProto. Of an array `dims`, of a tuple `tuple` (its type is kTuple).
struct HloShape {
  enum Type : int32_t { kInvalid = 0, kF16 = 10, kTuple = 13, kBf16 = 16 };  // those with names
  int32_t type = kInvalid;                                                   // xla.PrimitiveType
  std::vector<int64_t> dims = {};
  std::vector<HloShape> tuple = {};
  int64_t memory_space = 0;  // of the layout; 5: the host
  int64_t element_bits = 0;  // of the layout; 0: as the type has

  // Empty where the shape makes no sense, or the type is not known.
  std::optional<int64_t> Elements() const;
  // Of all leaves of a tuple.
  std::optional<int64_t> Bytes() const;
};

// What is read of an instruction when somebody asks.
struct HloDetails {
  HloShape shape;
  std::vector<int64_t> operands, called;                  // ids of instructions, of computations
  std::vector<int64_t> lhs_contracting, rhs_contracting;  // of a dot
  std::string_view custom_call_target, backend_config;
  std::string_view op_name, source_file;
  int64_t source_line = 0;  // 0: unknown
  int64_t stack_frame = 0;  // for HloProgram::StackOf; 0: none
  // Of a collective; 0: not told.
  int64_t replica_groups = 0, replicas_a_group = 0;
};
// Empty at damage, and where there are more operands, dimensions or tuple members than any
// program has.
std::optional<HloDetails> ReadDetails(const HloInstruction& instruction);

// Where a line of source is; empty, 0: not told.
struct HloFrame {
  std::string_view file = {}, function = {};
  int64_t line = 0;
};
struct HloStack {
  std::vector<HloFrame> frames = {};  // the outermost first
  // An id leads nowhere, or in a circle: all that is there is the innermost, where it is sound.
  bool broken = false;
};

struct HloComputation {
  std::string_view name;
  int64_t id = 0;
  uint32_t first = 0, count = 0;  // into HloProgram::instructions
};

// HloModuleProto.
class HloProgram {
 public:
  static constexpr size_t kMostInstructions = size_t{1} << 22;
  static constexpr size_t kMostFrames = 256;  // on each other; Python's are at most some tens

  // `hlo_proto` must outlive it. Errors: DataLoss (where, and what is damaged).
  static absl::StatusOr<HloProgram> Read(std::string_view hlo_proto);

  std::string_view name() const { return name_; }
  const std::vector<HloInstruction>& instructions() const { return instructions_; }
  const std::vector<HloComputation>& computations() const { return computations_; }

  // Null: there is none. Of several with a name or id, the first.
  const HloInstruction* Find(std::string_view name) const;
  const HloInstruction* FindId(int64_t id) const;
  const HloComputation* FindComputation(int64_t id) const;

  // Of each computation that has one, in the order in which they are executed. Empty: none is told,
  // or what tells it is damaged.
  std::vector<std::vector<const HloInstruction*>> Schedules() const;

  // The frames that end in `stack_frame`.
  HloStack StackOf(int64_t stack_frame) const;
  // The line itself: that of the details, else the innermost frame.
  HloFrame SourceOf(const HloDetails& details) const;

 private:
  // StackFrameIndexProto: ids are positions from 1 on; 0 is none.
  struct FrameIndex {
    struct Location {
      int32_t file = 0, function = 0, line = 0;
    };
    struct Frame {
      int32_t location = 0, parent = 0;
    };
    std::vector<std::string_view> files = {}, functions = {};
    std::vector<Location> locations = {};
    std::vector<Frame> frames = {};

    bool Add(const WireField& index);  // false: it is damaged
    HloFrame At(const Frame& frame) const;
  };
  using IndexOf = absl::flat_hash_map<int64_t, uint32_t>;
  std::string_view name_, schedule_;          // HloScheduleProto
  std::vector<HloInstruction> instructions_;  // by computation
  std::vector<HloComputation> computations_;
  FrameIndex frames_;
  absl::flat_hash_map<absl::string_view, uint32_t> by_name_;
  IndexOf by_id_, computation_by_id_;
};

// The programs of one file and host. Not thread-safe.
class HloPrograms {
 public:
  enum class State : uint8_t {
    kSound,
    kMissing,
    kDamaged,
    kAmbiguous,  // different Hlo Protos have this id
  };
  struct Found {
    const HloProgram* program = nullptr;  // of kSound
    State state = State::kMissing;
  };

  // Of the file and host of `plane`. Both must outlive it.
  HloPrograms(const Trace& trace, const Plane& plane) : trace_(trace), plane_(plane) {}

  Found Find(uint64_t program_id);

  struct FoundOp {
    const HloProgram* program = nullptr;          // null: unknown
    const HloInstruction* instruction = nullptr;  // null: unknown
  };
  FoundOp FindOp(const StatValue& program_id, std::string_view hlo_op);

 private:
  struct Program {
    std::string_view hlo_proto;
    State state = State::kSound;
    std::optional<HloProgram> read = {};
  };
  void Search();
  void AddPlane(const Plane& metadata);

  const Trace& trace_;
  const Plane& plane_;
  bool is_searched_ = false;
  absl::flat_hash_map<uint64_t, Program> programs_;  // by id
};

}  // namespace xplane_time
