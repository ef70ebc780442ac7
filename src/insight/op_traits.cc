#include "insight/op_traits.h"

#include <algorithm>
#include <array>
#include <utility>

#include "read/wire.h"
#include "status.h"

namespace xplane_time::insight {
namespace {

constexpr int kMostNested = 8;
constexpr size_t kMostLines = 64, kMostLineBytes = 512, kMostInner = 4096;

// xla.PrimitiveType.
constexpr std::array<std::string_view, 34> kTypeNames = {
    "?",          "pred",       "s8",   "s16",    "s32",      "s64",    "u8",     "u16",
    "u32",        "u64",        "f16",  "f32",    "f64",      "tuple",  "opaque", "c64",
    "bf16",       "token",      "c128", "f8e5m2", "f8e4m3fn", "s4",     "u4",     "f8e4m3b11fnuz",
    "f8e5m2fnuz", "f8e4m3fnuz", "s2",   "u2",     "f8e4m3",   "f8e3m4", "s1",     "u1",
    "f4e2m1fn",   "f8e8m0fnu"};

std::string ShapeText(const HloShape& shape) {
  std::string text;
  if (shape.type == HloShape::kTuple) {
    text = "(";
    for (const HloShape& member : shape.tuple) {
      if (text.size() > 200) return text + ", ...)";
      Append(&text, text.size() > 1 ? ", " : "", ShapeText(member));
    }
    return text + ")";
  }
  const auto type = static_cast<size_t>(shape.type);
  Append(&text, shape.type >= 0 && type < kTypeNames.size() ? kTypeNames[type] : "?", "[");
  for (size_t i = 0; i < shape.dims.size(); ++i) Append(&text, i > 0 ? "," : "", shape.dims[i]);
  return text + "]";
}

// Fields of HloInstructionProto that say what is computed: not names (1, 7), the shape (3), numbers
// that a compiler gives anew (9, 26, 35 to 38, 45), sharding (40, 54, 55), layouts (57), what a
// backend chose (43, 73, 74, 79), what others may write (68), nor what a schema may yet add.
bool IsAttribute(uint32_t field) {
  constexpr std::array<uint32_t, 19> kOthers = {1,  3,  7,  9,  26, 35, 36, 37, 38, 40,
                                                43, 45, 54, 55, 57, 68, 73, 74, 79};
  return field < 80 && !std::ranges::binary_search(kOthers, field);
}

uint64_t AttributesOf(const HloInstruction& instruction) {
  uint64_t hash = HashOf(instruction.opcode);
  Damage ignored;
  ReadMessage(instruction.message, 0, 0, &ignored, [&](const WireField& field) {
    if (!IsAttribute(field.number)) return true;
    hash = Mixed(hash, Mixed(field.key(),
                             field.type == WireType::kLength ? HashOf(field.bytes) : field.bits));
    return true;
  });
  return hash;
}

// Called computations are listed separately.
bool RunsBodies(std::string_view opcode) {
  return opcode == "while" || opcode == "conditional" || opcode == "call" ||
         opcode.starts_with("async");
}

// These do not help to distinguish fusions.
bool IsTrivial(std::string_view opcode) {
  constexpr std::string_view kTrivial[] = {"parameter", "constant",          "broadcast", "bitcast",
                                           "tuple",     "get-tuple-element", "iota",      "convert",
                                           "copy",      "reshape",           "transpose"};
  return std::ranges::find(kTrivial, opcode) != std::end(kTrivial);
}

std::string SourceOf(const HloProgram& program, const HloDetails& details) {
  const HloFrame frame = program.SourceOf(details);
  return frame.file.empty() ? "" : Cat(frame.file, ":", frame.line);
}

void AddLine(std::string line, std::vector<std::string>* lines) {
  if (line.empty() || line.size() > kMostLineBytes || lines->size() >= kMostLines) return;
  if (std::ranges::find(*lines, line) == lines->end()) lines->push_back(std::move(line));
}

uint64_t InnerOf(std::string_view op_name, std::string_view opcode) {
  return Mixed(HashOf(WithinFunction(op_name)), HashOf(opcode));
}

}  // namespace

uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

uint64_t Mixed(uint64_t a, uint64_t b) {  // as splitmix64
  uint64_t mixed = a * 0x9e3779b97f4a7c15 + b;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

void SortUnique(std::vector<uint64_t>* hashes) {
  std::ranges::sort(*hashes);
  hashes->erase(std::unique(hashes->begin(), hashes->end()), hashes->end());
}

std::string WithoutNumbers(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c >= '0' && c <= '9') continue;
    const bool after_separator = text.empty() || text.back() == '.' || text.back() == '_';
    if ((c == '.' || c == '_') && after_separator) continue;
    text += c;
  }
  for (bool any = true; any;) {
    any = false;
    for (const std::string_view end : {".clone", ".remat", ".kd", ".", "_"}) {
      if (!text.ends_with(end) || text.size() == end.size()) continue;
      text.resize(text.size() - end.size());
      any = true;
    }
  }
  return text.empty() ? std::string(name) : text;
}

std::string_view WithinFunction(std::string_view op_name) {
  const size_t end = op_name.find('/');
  const bool named = op_name.starts_with("jit(") || op_name.starts_with("pjit(");
  return named && end != op_name.npos ? op_name.substr(end + 1) : op_name;
}

TraitsReader::TraitsReader(const HloProgram* program) : program_(program) {}

const TraitsReader::Known& TraitsReader::KnownOf(const HloInstruction& instruction) {
  const auto [place, is_new] = known_.try_emplace(&instruction);
  Known& known = place->second;
  if (!is_new) return known;
  known.content = AttributesOf(instruction);
  if (auto details = ReadDetails(instruction); details.has_value()) {
    known.details = *std::move(details);
    known.shape = HashOf(ShapeText(known.details.shape));
    known.is_sound = true;
  }
  return known;
}

// Independent of order: fused ops have no order. A computation that calls itself is empty at that
// point.
const TraitsReader::Called& TraitsReader::CalledOf(int64_t id, int depth) {
  const auto [place, is_new] = called_.try_emplace(id);
  Called& called = place->second;
  const HloComputation* const computation = program_->FindComputation(id);
  if (!is_new || computation == nullptr || depth > kMostNested) return called;
  Called found;
  for (uint32_t i = 0; i < computation->count; ++i) {
    const HloInstruction& each = program_->instructions()[computation->first + i];
    const Known& known = KnownOf(each);
    const Called within = AllCalled(known.details, depth + 1);
    found.content += Mixed(known.content, known.shape) + within.content;
    if (found.inner.size() < kMostInner) {
      found.inner.insert(found.inner.end(), within.inner.begin(), within.inner.end());
    }
    AddLine(SourceOf(*program_, known.details), &found.lines);
    for (const std::string& line : within.lines) AddLine(line, &found.lines);
    if (IsTrivial(each.opcode) || known.details.op_name.empty()) continue;
    found.inner.push_back(InnerOf(known.details.op_name, each.opcode));
  }
  SortUnique(&found.inner);
  return called = std::move(found);
}

TraitsReader::Called TraitsReader::AllCalled(const HloDetails& details, int depth) {
  Called all;
  for (const int64_t id : details.called) {
    const Called& each = CalledOf(id, depth);
    all.content += each.content;
    if (all.inner.size() < kMostInner) {
      all.inner.insert(all.inner.end(), each.inner.begin(), each.inner.end());
    }
    for (const std::string& line : each.lines) AddLine(line, &all.lines);
  }
  SortUnique(&all.inner);
  return all;
}

void TraitsReader::Fill(const HloInstruction& instruction, OpTraits* traits) {
  const Known& known = KnownOf(instruction);
  if (!known.is_sound) return;
  const HloDetails& details = known.details;
  traits->opcode = instruction.opcode;
  traits->shape = ShapeText(details.shape);
  if (!details.op_name.empty()) traits->op_name = details.op_name;
  std::string source = SourceOf(*program_, details);
  if (!source.empty()) traits->source = std::move(source);
  AddLine(traits->source, &traits->lines);
  traits->shapes = known.shape;
  traits->content = known.content;
  if (!RunsBodies(instruction.opcode)) {
    Called called = AllCalled(details, 0);
    traits->content = Mixed(known.content, called.content);
    traits->inner = std::move(called.inner);
    for (std::string& line : called.lines) AddLine(std::move(line), &traits->lines);
  }
  FillContext(details, traits);
  if (traits->inner.empty() && !traits->op_name.empty() && !IsTrivial(instruction.opcode)) {
    traits->inner.push_back(InnerOf(traits->op_name, instruction.opcode));
  }
  traits->position = static_cast<uint32_t>(&instruction - program_->instructions().data());
}

void TraitsReader::FillContext(const HloDetails& details, OpTraits* traits) {
  traits->context = traits->content;
  for (const int64_t id : details.operands) {
    const HloInstruction* const operand = program_->FindId(id);
    if (operand == nullptr) continue;
    const Known& known = KnownOf(*operand);
    traits->shapes = Mixed(traits->shapes, known.shape);
    uint64_t called = 0;
    if (!RunsBodies(operand->opcode)) {
      for (const int64_t each : known.details.called) called += CalledOf(each, 0).content;
    }
    traits->context = Mixed(traits->context, Mixed(known.content, called));
  }
}

OpTraits TraitsReader::Of(const OpInfo& op, uint32_t position) {
  OpTraits traits;
  traits.kernel = op.kernel;
  traits.op = op.hlo_op;
  traits.op_name = op.tf_op;
  traits.source = op.source;
  traits.category = op.category;
  traits.position = position;
  const HloInstruction* const instruction =
      program_ == nullptr || op.hlo_op.empty() ? nullptr : program_->Find(op.hlo_op);
  if (instruction != nullptr) Fill(*instruction, &traits);
  if (traits.lines.empty()) AddLine(traits.source, &traits.lines);
  return traits;
}

}  // namespace xplane_time::insight
