// Reads HloProto messages (xla/service/hlo.proto) directly on the wire. HloProgram::Read() makes
// one pass over all computations and keeps the name, opcode, id and bytes of each instruction, with
// hash maps by name and id. ReadDetails() parses the bytes of one instruction again for its shape,
// operands and metadata. Comments at the functions name the field numbers. Limits (kMost...) bound
// the memory that a damaged message can claim.
#include "hlo/program.h"

#include <algorithm>
#include <span>
#include <utility>

#include "read/plane_index.h"
#include "read/wire.h"
#include "status.h"

namespace xplane_time {
namespace {

// Far more than any real program has. A damaged message may claim more than memory holds.
constexpr size_t kMostNumbers = size_t{1} << 20, kMostShapes = size_t{1} << 20, kMostDims = 256;

bool IsNumber(const StatValue& value) {
  return value.type == StatType::kInt64 || value.type == StatType::kUint64;
}

// Adds a repeated integer field, packed or not. Other fields are ignored.
bool AddNumbers(const WireField& field, uint32_t number, size_t most, std::vector<int64_t>* all) {
  if (field.key() == Varint(number)) {
    all->push_back(field.whole());
    return all->size() <= most;
  }
  if (field.key() != Length(number)) return true;
  WireCursor cursor(field.bytes, 0);
  while (!cursor.done()) {
    uint64_t value;
    if (all->size() >= most || !cursor.ReadVarint(&value)) return false;
    all->push_back(static_cast<int64_t>(value));
  }
  return true;
}

// LayoutProto: memory_space 8, element_size_in_bits 9.
bool ReadLayout(const WireField& message, size_t depth, HloShape* shape) {
  Damage ignored;
  return ReadMessage(message, depth, &ignored, [&](const WireField& field) {
    if (field.key() == Varint(8)) shape->memory_space = field.whole();
    if (field.key() == Varint(9)) shape->element_bits = field.whole();
    return true;
  });
}

// ShapeProto: element_type 2, dimensions 3, tuple_shapes 4, layout 5.
bool ReadShape(const WireField& message, size_t depth, size_t* shapes, HloShape* shape) {
  if (++*shapes > kMostShapes) return false;
  Damage ignored;
  return ReadMessage(message, depth, &ignored, [&](const WireField& field) {
    if (field.key() == Varint(2)) shape->type = static_cast<int32_t>(field.bits);
    if (field.key() == Length(4)) {
      return depth < 100 && ReadShape(field, depth + 1, shapes, &shape->tuple.emplace_back());
    }
    if (field.key() == Length(5)) return ReadLayout(field, depth + 1, shape);
    return AddNumbers(field, 3, kMostDims, &shape->dims);
  });
}

// OpMetadata: op_name 2, source_file 3, source_line 4, stack_frame_id 15.
bool ReadMetadata(const WireField& message, HloDetails* details) {
  Damage ignored;
  return ReadMessage(message, 1, &ignored, [&](const WireField& field) {
    if (field.key() == Length(2)) details->op_name = field.bytes;
    if (field.key() == Length(3)) details->source_file = field.bytes;
    if (field.key() == Varint(4)) details->source_line = field.whole();
    if (field.key() == Varint(15)) details->stack_frame = static_cast<int32_t>(field.bits);
    return true;
  });
}

// DotDimensionNumbers: lhs_contracting_dimensions 1, rhs_contracting_dimensions 2.
bool ReadDot(const WireField& message, HloDetails* details) {
  Damage ignored;
  return ReadMessage(message, 1, &ignored, [&](const WireField& field) {
    return AddNumbers(field, 1, kMostDims, &details->lhs_contracting) &&
           AddNumbers(field, 2, kMostDims, &details->rhs_contracting);
  });
}

// ReplicaGroup: replica_ids 1.
bool AddReplicaGroup(const WireField& message, HloDetails* details) {
  std::vector<int64_t> ids;
  Damage ignored;
  const bool sound = ReadMessage(message, 2, &ignored, [&](const WireField& field) {
    return AddNumbers(field, 1, kMostNumbers, &ids);
  });
  ++details->replica_groups;
  details->replicas_a_group = std::max(details->replicas_a_group, static_cast<int64_t>(ids.size()));
  return sound;
}

// CollectiveDeviceListProto: replica_groups 1, or in short iota_replica_group_list 2 with
// num_replica_groups 1, num_devices_per_group 2.
bool ReadDeviceList(const WireField& message, HloDetails* details) {
  Damage ignored;
  return ReadMessage(message, 1, &ignored, [&](const WireField& field) {
    if (field.key() == Length(1)) return AddReplicaGroup(field, details);
    if (field.key() != Length(2)) return true;
    return ReadMessage(field, 2, &ignored, [&](const WireField& iota) {
      if (iota.key() == Varint(1)) details->replica_groups = iota.whole();
      if (iota.key() == Varint(2)) details->replicas_a_group = iota.whole();
      return true;
    });
  });
}

// Reads a field of HloInstructionProto that is only read on request. `shapes`: number of shapes so
// far.
bool ReadDetail(const WireField& field, size_t* shapes, HloDetails* details) {
  switch (field.key()) {
    case Length(3):
      return ReadShape(field, 1, shapes, &details->shape);
    case Length(7):
      return ReadMetadata(field, details);
    case Length(28):
      details->custom_call_target = field.bytes;
      return true;
    case Length(30):
      return ReadDot(field, details);
    case Length(43):
      details->backend_config = field.bytes;
      return true;
    case Length(49):
      return AddReplicaGroup(field, details);
    case Length(87):
      return ReadDeviceList(field, details);
    default:
      return AddNumbers(field, 36, kMostNumbers, &details->operands) &&
             AddNumbers(field, 38, kMostNumbers, &details->called);
  }
}

// Bits of an xla.PrimitiveType. 0: not an array type, or unknown.
int64_t BitsOf(int32_t type) {
  constexpr uint8_t kBits[] = {0, 8,   8, 16, 32, 64, 8, 16, 32, 64, 16, 32, 64, 0, 0, 64, 16,
                               0, 128, 8, 8,  4,  4,  8, 8,  8,  2,  2,  8,  8,  1, 1, 4,  8};
  const auto at = static_cast<size_t>(type);
  return type >= 0 && at < std::size(kBits) ? kBits[at] : 0;
}

}  // namespace

std::optional<int64_t> HloShape::Elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) return std::nullopt;
  }
  return elements;
}

std::optional<int64_t> HloShape::Bytes() const {
  int64_t bytes = 0;
  if (type == kTuple) {
    for (const HloShape& member : tuple) {
      const std::optional<int64_t> each = member.Bytes();
      if (!each.has_value() || __builtin_add_overflow(bytes, *each, &bytes)) return std::nullopt;
    }
    return bytes;
  }
  const int64_t bits = element_bits > 0 && element_bits <= 128 ? element_bits : BitsOf(type);
  const std::optional<int64_t> elements = Elements();
  if (BitsOf(type) == 0 || !elements.has_value()) return std::nullopt;
  if (__builtin_mul_overflow(*elements, bits, &bytes)) return std::nullopt;
  return bytes / 8 + (bytes % 8 != 0 ? 1 : 0);
}

std::optional<HloDetails> ReadDetails(const HloInstruction& instruction) {
  HloDetails details;
  size_t shapes = 0;
  Damage ignored;
  const bool sound = ReadMessage(instruction.message, 0, 0, &ignored, [&](const WireField& field) {
    return ReadDetail(field, &shapes, &details);
  });
  return sound ? std::optional(std::move(details)) : std::nullopt;
}

namespace {

// HloInstructionProto: name 1, opcode 2, id 35.
bool ReadInstruction(const WireField& message, Damage* damage, HloInstruction* instruction) {
  instruction->message = message.bytes;
  return ReadMessage(message, 3, damage, [&](const WireField& field) {
    if (field.key() == Length(1)) instruction->name = field.bytes;
    if (field.key() == Length(2)) instruction->opcode = field.bytes;
    if (field.key() == Varint(35)) instruction->id = field.whole();
    return true;
  });
}

// HloComputationProto: name 1, instructions 2, id 5.
bool ReadComputation(const WireField& message, Damage* damage, HloComputation* computation,
                     std::vector<HloInstruction>* instructions) {
  computation->first = static_cast<uint32_t>(instructions->size());
  const bool sound = ReadMessage(message, 2, damage, [&](const WireField& field) {
    if (field.key() == Length(1)) computation->name = field.bytes;
    if (field.key() == Varint(5)) computation->id = field.whole();
    if (field.key() != Length(2)) return true;
    if (instructions->size() >= HloProgram::kMostInstructions) {
      *damage = {field.offset, "too many instructions"};
      return false;
    }
    return ReadInstruction(field, damage, &instructions->emplace_back());
  });
  computation->count = static_cast<uint32_t>(instructions->size()) - computation->first;
  return sound;
}

}  // namespace

// FileLocation: file_name_id 1, function_name_id 2, line 3. StackFrame: file_location_id 1,
// parent_frame_id 2. Of the index: file_names 1, function_names 2, file_locations 3,
// stack_frames 4.
bool HloProgram::FrameIndex::Add(const WireField& index) {
  constexpr size_t kMost = kMostInstructions;
  Damage ignored;
  // Reads the integer fields 1, 2, ... of a message into `parts`.
  const auto read = [&](const WireField& message, std::initializer_list<int32_t*> parts) {
    return ReadMessage(message, 3, &ignored, [&](const WireField& field) {
      if (field.type != WireType::kVarint || field.number > parts.size()) return true;
      *parts.begin()[field.number - 1] = static_cast<int32_t>(field.bits);
      return true;
    });
  };
  return ReadMessage(index, 2, &ignored, [&](const WireField& field) {
    if (files.size() + functions.size() + locations.size() + frames.size() > kMost) return false;
    if (field.key() == Length(1)) files.push_back(field.bytes);
    if (field.key() == Length(2)) functions.push_back(field.bytes);
    if (field.key() == Length(3)) {
      Location& to = locations.emplace_back();
      return read(field, {&to.file, &to.function, &to.line});
    }
    if (field.key() != Length(4)) return true;
    Frame& to = frames.emplace_back();
    return read(field, {&to.location, &to.parent});
  });
}

namespace {

// The row with this id (from 1 on); null: there is no such row.
template <typename Row>
const Row* AtId(const std::vector<Row>& rows, int64_t id) {
  return id > 0 && static_cast<size_t>(id) <= rows.size() ? &rows[static_cast<size_t>(id) - 1]
                                                          : nullptr;
}

}  // namespace

HloFrame HloProgram::FrameIndex::At(const Frame& frame) const {
  const Location* const location = AtId(locations, frame.location);
  if (location == nullptr) return {};
  const std::string_view *const file = AtId(files, location->file), *const function =
                                                                        AtId(functions,
                                                                             location->function);
  return {.file = file == nullptr ? std::string_view() : *file,
          .function = function == nullptr ? std::string_view() : *function,
          .line = location->line};
}

HloStack HloProgram::StackOf(int64_t stack_frame) const {
  HloStack stack;
  for (int64_t id = stack_frame; id != 0;) {
    const FrameIndex::Frame* const frame = AtId(frames_.frames, id);
    stack.broken = frame == nullptr || stack.frames.size() == kMostFrames;
    if (stack.broken) break;
    stack.frames.push_back(frames_.At(*frame));
    id = frame->parent;
  }
  if (stack.broken && !stack.frames.empty()) stack.frames.resize(1);
  std::ranges::reverse(stack.frames);
  return stack;
}

HloFrame HloProgram::SourceOf(const HloDetails& details) const {
  if (!details.source_file.empty()) return {details.source_file, {}, details.source_line};
  const FrameIndex::Frame* const frame = AtId(frames_.frames, details.stack_frame);
  return frame == nullptr ? HloFrame() : frames_.At(*frame);
}

// HloProto: hlo_module 1. HloModuleProto: name 1, computations 3, schedule 7, stack_frame_index 17.
// If the index is missing or damaged, there are no frames.
absl::StatusOr<HloProgram> HloProgram::Read(std::string_view hlo_proto) {
  HloProgram program;
  Damage damage;
  const auto read_module = [&](const WireField& field) {
    if (field.key() == Length(1)) program.name_ = field.bytes;
    if (field.key() == Length(7)) program.schedule_ = field.bytes;
    if (field.key() == Length(17) && !program.frames_.Add(field)) program.frames_ = {};
    if (field.key() != Length(3)) return true;
    return ReadComputation(field, &damage, &program.computations_.emplace_back(),
                           &program.instructions_);
  };
  const bool sound = ReadMessage(hlo_proto, 0, 0, &damage, [&](const WireField& field) {
    return field.key() != Length(1) || ReadMessage(field, 1, &damage, read_module);
  });
  if (!sound) {
    return DataLoss("a damaged Hlo Proto: ", damage.why, " at its byte ", damage.byte_offset);
  }
  const std::vector<HloInstruction>& all = program.instructions_;
  program.by_name_.reserve(all.size());
  program.by_id_.reserve(all.size());
  for (uint32_t i = 0; i < all.size(); ++i) {
    program.by_name_.try_emplace(Absl(all[i].name), i);
    program.by_id_.try_emplace(all[i].id, i);
  }
  for (uint32_t i = 0; i < program.computations_.size(); ++i) {
    program.computation_by_id_.try_emplace(program.computations_[i].id, i);
  }
  return program;
}

const HloInstruction* HloProgram::Find(std::string_view name) const {
  const auto found = by_name_.find(Absl(name));
  return found == by_name_.end() ? nullptr : &instructions_[found->second];
}

const HloInstruction* HloProgram::FindId(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &instructions_[found->second];
}

const HloComputation* HloProgram::FindComputation(int64_t id) const {
  const auto found = computation_by_id_.find(id);
  return found == computation_by_id_.end() ? nullptr : &computations_[found->second];
}

// HloScheduleProto: sequences 1, a map with values (field 2) of type InstructionSequence:
// instruction_ids 1.
std::vector<std::vector<const HloInstruction*>> HloProgram::Schedules() const {
  std::vector<std::vector<const HloInstruction*>> all;
  size_t left = instructions_.size();
  Damage ignored;
  const auto add = [&](const WireField& sequence) {
    std::vector<int64_t> ids;
    const bool sound = ReadMessage(sequence, 4, &ignored, [&](const WireField& field) {
      return AddNumbers(field, 1, left, &ids);
    });
    if (!sound) return false;
    left -= ids.size();
    std::vector<const HloInstruction*>& in_order = all.emplace_back();
    for (const int64_t id : ids) {
      const HloInstruction* const instruction = FindId(id);
      if (instruction == nullptr) return false;
      in_order.push_back(instruction);
    }
    return true;
  };
  const bool sound = ReadMessage(schedule_, 0, 2, &ignored, [&](const WireField& entry) {
    if (entry.key() != Length(1)) return true;
    return ReadMessage(entry, 3, &ignored, [&](const WireField& field) {
      return field.key() != Length(2) || add(field);
    });
  });
  return sound ? all : std::vector<std::vector<const HloInstruction*>>();
}

void HloPrograms::Search() {
  is_searched_ = true;
  const auto index = IndexPlanes(trace_);
  for (const uint32_t other : index->HostPlanes(plane_)) {
    if (trace_.planes[other].name == "/host:metadata") AddPlane(trace_.planes[other]);
  }
}

// The id of a program is its key. On a CPU a stat has it instead.
void HloPrograms::AddPlane(const Plane& metadata) {
  const std::span<const Stat> all(metadata.metadata_stats);
  for (const EventMetadata& entry : metadata.event_metadata.entries) {
    auto id = static_cast<uint64_t>(entry.id);
    std::string_view hlo_proto;
    for (const Stat& stat : all.subspan(entry.first_stat, entry.stat_count)) {
      const std::string_view name =
          ReferencedName(metadata.stat_metadata, static_cast<uint64_t>(stat.metadata_id));
      if (name == "program_id" && IsNumber(stat.value)) id = stat.value.bits;
      if (name == "Hlo Proto" && stat.value.type == StatType::kBytes) hlo_proto = stat.value.text;
    }
    if (hlo_proto.empty()) continue;
    const auto [found, inserted] = programs_.try_emplace(id, Program{hlo_proto});
    if (!inserted && found->second.hlo_proto != hlo_proto) found->second.state = State::kAmbiguous;
  }
}

HloPrograms::Found HloPrograms::Find(uint64_t program_id) {
  if (!is_searched_) Search();
  const auto found = programs_.find(program_id);
  if (found == programs_.end()) return {};
  Program& program = found->second;
  if (program.state == State::kSound && !program.read.has_value()) {
    absl::StatusOr<HloProgram> read = HloProgram::Read(program.hlo_proto);
    if (read.ok()) program.read = *std::move(read);
    if (!read.ok()) program.state = State::kDamaged;
  }
  return {program.read.has_value() ? &*program.read : nullptr, program.state};
}

HloPrograms::FoundOp HloPrograms::FindOp(const StatValue& program_id, std::string_view hlo_op) {
  if (hlo_op.empty() || !IsNumber(program_id)) return {};
  const HloProgram* const program = Find(program_id.bits).program;
  return {program, program == nullptr ? nullptr : program->Find(hlo_op)};
}

}  // namespace xplane_time
