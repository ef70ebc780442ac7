// HloPrograms: reads the compiler's data on the ops that ran.
//
// The plane `/host:metadata` has one event metadata entry per program, with the program's Hlo
// Proto. A program is read at the first request for one of its ops; programs that never ran are not
// read. One pass finds names and opcodes. The details of an instruction are read on request.
//
//   HloPrograms programs(trace, plane);
//   const HloProgram* const program = programs.Find(19).program;   // null: see `state`
//   const HloInstruction* const gemm = program->Find("custom-call.1");
//   ReadDetails(*gemm)->custom_call_target                // "__cublas$gemm"
//   program->SourceOf(*ReadDetails(*gemm))                // "model.py", "attention", 12
//
// All texts are views into the trace. The wire format is read with bounds checks (read/wire.h).
// Fields that are not named here are skipped, so newer schemas cause no errors. Time: linear.
// Memory: about 100 bytes per instruction, at most kMostInstructions.
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

// The part of HloInstructionProto that is read for every instruction.
struct HloInstruction {
  std::string_view name = {}, opcode = {};  // "all_gather.7", "all-gather"
  int64_t id = 0;
  std::string_view message = {};  // bytes of the whole message
};

// ShapeProto. An array has `dims`, a tuple has `tuple` (and the type kTuple).
struct HloShape {
  // the types used by name
  enum Type : int32_t { kInvalid = 0, kF16 = 10, kTuple = 13, kBf16 = 16 };
  int32_t type = kInvalid;  // xla.PrimitiveType
  std::vector<int64_t> dims = {};
  std::vector<HloShape> tuple = {};
  int64_t memory_space = 0;  // memory space of the layout; 5: the host
  int64_t element_bits = 0;  // element size of the layout; 0: that of the type

  // Empty if the shape is invalid or the type is unknown.
  std::optional<int64_t> Elements() const;
  // For a tuple, the sum over all leaves.
  std::optional<int64_t> Bytes() const;
};

// The details of an instruction, which are read on request.
struct HloDetails {
  HloShape shape;
  // ids of instructions, ids of computations
  std::vector<int64_t> operands, called;
  std::vector<int64_t> lhs_contracting, rhs_contracting;  // dimensions of a dot
  std::string_view custom_call_target, backend_config;
  std::string_view op_name, source_file;
  int64_t source_line = 0;  // 0: unknown
  int64_t stack_frame = 0;  // argument of HloProgram::StackOf; 0: unknown
  // For collectives; 0: unknown.
  int64_t replica_groups = 0, replicas_a_group = 0;
};
// Reads the details of an instruction. Empty at damage, and if there are more operands, dimensions
// or tuple members than in any real program.
std::optional<HloDetails> ReadDetails(const HloInstruction& instruction);

// A source location. Empty or 0: unknown.
struct HloFrame {
  std::string_view file = {}, function = {};
  int64_t line = 0;
};
struct HloStack {
  std::vector<HloFrame> frames = {};  // outermost first
  // An id is dangling or the frames are cyclic. `frames` then holds only the innermost frame, if
  // valid.
  bool broken = false;
};

struct HloComputation {
  std::string_view name;
  int64_t id = 0;
  uint32_t first = 0, count = 0;  // range of HloProgram::instructions
};

// A parsed HloModuleProto.
class HloProgram {
 public:
  static constexpr size_t kMostInstructions = size_t{1} << 22;
  // maximum depth of a stack; Python stacks have some tens of frames
  static constexpr size_t kMostFrames = 256;

  // Reads a program. `hlo_proto` must outlive it. Errors: DataLoss (the place and kind of damage).
  static absl::StatusOr<HloProgram> Read(std::string_view hlo_proto);

  std::string_view name() const { return name_; }
  const std::vector<HloInstruction>& instructions() const { return instructions_; }
  const std::vector<HloComputation>& computations() const { return computations_; }

  // These return null if there is no match. If several have the name or id, the first one.
  const HloInstruction* Find(std::string_view name) const;
  const HloInstruction* FindId(int64_t id) const;
  const HloComputation* FindComputation(int64_t id) const;

  // The scheduled computations, each as its instructions in order of execution. Empty: there is no
  // schedule, or it is damaged.
  std::vector<std::vector<const HloInstruction*>> Schedules() const;

  // The stack of frames that ends in `stack_frame`.
  HloStack StackOf(int64_t stack_frame) const;
  // The source line of an instruction: that of the details, else the innermost frame.
  HloFrame SourceOf(const HloDetails& details) const;

 private:
  // StackFrameIndexProto. Ids are positions starting at 1; 0 means unset.
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
    const HloProgram* program = nullptr;  // set if kSound
    State state = State::kMissing;
  };

  // The programs of the file and host of `plane`. Both arguments must outlive this object.
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
