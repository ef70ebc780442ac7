#include "timing/graph_ops.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "read/event_names.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

using Instructions = std::vector<const HloInstruction*>;

// The executions of one program.
struct Seen {
  struct Node {
    std::string_view kernel, hlo_op;
    int64_t graph = 0;
  };
  std::map<int64_t, Node> nodes;
  absl::flat_hash_set<absl::string_view> outside;  // ops without a node
};

// A graph of a program: its nodes in the order in which they were added. Made anew, or for another
// device, it is another graph with the same kernels.
struct Graph {
  std::vector<std::string_view> kernels;
  std::vector<std::vector<int64_t>> nodes;  // of each such graph
};

bool IsPart(const std::vector<std::string_view>& of, const std::vector<std::string_view>& whole) {
  auto at = whole.begin();
  for (const std::string_view each : of) {
    at = std::find(at, whole.end(), each);
    if (at == whole.end()) return false;
    ++at;
  }
  return true;
}

// Without those of which only a part was seen: the capture began or ended in their only launch.
std::vector<Graph> GraphsOf(const Seen& seen) {
  struct Made {
    std::string_view op;
    std::vector<std::string_view> kernels;
    std::vector<int64_t> nodes;
  };
  std::map<int64_t, Made> by_id;
  for (const auto& [id, node] : seen.nodes) {
    Made& made = by_id[node.graph];
    if (made.nodes.empty()) made.op = node.hlo_op;
    made.kernels.push_back(node.kernel);
    made.nodes.push_back(id);
  }
  std::map<std::string_view, std::map<std::vector<std::string_view>, Graph>> alike;  // by op
  for (auto& [id, made] : by_id) {
    Graph& graph = alike[made.op][made.kernels];
    graph.kernels = std::move(made.kernels);
    graph.nodes.push_back(std::move(made.nodes));
  }
  std::vector<Graph> graphs;
  for (auto& [op, own] : alike) {
    const auto longest = std::ranges::max_element(
        own, {}, [](const auto& graph) { return graph.second.kernels.size(); });
    for (auto& [kernels, graph] : own) {
      if (&graph != &longest->second && IsPart(kernels, longest->first)) continue;
      graphs.push_back(std::move(graph));
    }
  }
  return graphs;
}

// As XLA names the kernel of an op.
std::string KernelName(std::string_view op) {
  std::string name(op);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

// The name without the number that XLA appends to a name in use, such as "fusion_3__1".
std::string_view WithoutNumber(std::string_view kernel) {
  const size_t at = kernel.rfind("__");
  if (at == std::string_view::npos || at + 2 == kernel.size()) return kernel;
  const bool is_number = kernel.find_first_not_of("0123456789", at + 2) == std::string_view::npos;
  return is_number ? kernel.substr(0, at) : kernel;
}

void HashShape(const HloShape& shape, std::vector<int64_t>* parts) {
  parts->insert(parts->end(), {shape.type, static_cast<int64_t>(shape.dims.size())});
  parts->insert(parts->end(), shape.dims.begin(), shape.dims.end());
  for (const HloShape& member : shape.tuple) HashShape(member, parts);
}

// The common prefix of both, up to a "/".
std::string_view CommonScope(std::string_view a, std::string_view b) {
  const auto parts_end = [](std::string_view text, size_t at) {
    return at == text.size() || text[at] == '/';
  };
  size_t common = 0, at = 0;
  for (; at < a.size() && at < b.size() && a[at] == b[at]; ++at) {
    if (a[at] == '/') common = at;
  }
  return a.substr(0, parts_end(a, at) && parts_end(b, at) ? at : common);
}

std::string_view ScopeOf(const HloProgram& program, const HloInstruction& op) {
  const std::optional<HloDetails> details = ReadDetails(op);
  if (!details.has_value()) return {};
  if (op.opcode != "fusion") return details->op_name;
  std::optional<std::string_view> scope;
  std::vector<int64_t> called = details->called;
  absl::flat_hash_set<int64_t> looked_at;
  while (!called.empty()) {
    const int64_t id = called.back();
    called.pop_back();
    const HloComputation* const inside = program.FindComputation(id);
    if (inside == nullptr || !looked_at.insert(id).second) continue;
    for (const HloInstruction& each :
         std::span(program.instructions()).subspan(inside->first, inside->count)) {
      const std::optional<HloDetails> of = ReadDetails(each);
      if (!of.has_value()) continue;
      called.insert(called.end(), of->called.begin(), of->called.end());
      if (of->op_name.empty()) continue;
      scope = CommonScope(scope.value_or(of->op_name), of->op_name);
    }
  }
  return scope.value_or(details->op_name);
}

// Has a place in a schedule, and never a kernel with its own name.
bool IsNoKernel(std::string_view opcode) {
  static constexpr std::string_view kNone[] = {
      "parameter",   "tuple", "get-tuple-element", "bitcast",      "constant", "while",
      "conditional", "call",  "after-all",         "partition-id", "domain"};
  return std::ranges::find(kNone, opcode) != std::end(kNone);
}

// The name in the configuration of a Triton call, {.., name = "product", ..}; empty: no name.
std::string_view OwnName(std::string_view config) {
  constexpr std::string_view kName = "name = \"";
  const size_t at = config.rfind(kName);  // behind the code
  if (at == std::string_view::npos) return {};
  const std::string_view rest = config.substr(at + kName.size());
  return rest.substr(0, rest.find('"'));
}

// Matches kernels of one program with its ops.
class Matcher {
 public:
  struct Kernel {
    std::string_view name;
    size_t graph = 0;
  };

  Matcher(const HloProgram& program, const Seen& seen) : program_(program), seen_(seen) {
    const std::vector<Instructions> schedules = program.Schedules();
    for (size_t i = 0; i < schedules.size(); ++i) {
      for (const HloInstruction* const op : schedules[i]) Add(op, i);
    }
  }

  // By kernel; null: not known.
  Instructions Match(std::span<const Kernel> kernels) {
    for (const Kernel& kernel : kernels) {
      // The name was in use when the op with this name was compiled, and its owner is unknown.
      const std::string_view name = WithoutNumber(kernel.name);
      const auto named = by_kernel_name_.find(Absl(name));
      if (name != kernel.name && named != by_kernel_name_.end()) named->second = nullptr;
    }
    Instructions ops(kernels.size(), nullptr);
    std::map<const Alike*, std::vector<size_t>> of;  // which kernels
    std::vector<size_t> others;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (const auto own = own_kernels_.find(Absl(WithoutNumber(kernels[i].name)));
          own != own_kernels_.end()) {
        of[&own->second].push_back(i);
      } else if (const auto named = by_kernel_name_.find(Absl(kernels[i].name));
                 named != by_kernel_name_.end()) {
        if (named->second != nullptr) of[&alike_[ClassOf(*named->second)]].push_back(i);
      } else if (!by_kernel_name_.contains(Absl(WithoutNumber(kernels[i].name))) &&
                 !Copies(kernels[i].name)) {
        others.push_back(i);
      }
    }
    for (const auto& [alike, own] : of) Assign(*alike, kernels, own, &ops);
    ForgetMisnamed(kernels, &ops);
    AssignLibraries(kernels, others, &ops);
    return ops;
  }

 private:
  // Equal ops, and whether they are of one computation, which gives them an order.
  struct Alike {
    Instructions ops = {};
    size_t schedule = 0;
    bool has_order = true;
    void Add(const HloInstruction* op, size_t of) {
      has_order = has_order && (ops.empty() || schedule == of);
      schedule = of;
      ops.push_back(op);
    }
  };

  void Add(const HloInstruction* op, size_t schedule) {
    schedule_of_[op] = schedule;
    if (IsNoKernel(op->opcode)) return;
    if (op->opcode == "custom-call") return AddCall(op, schedule);
    const auto [named, is_new] = by_kernel_name_.try_emplace(KernelName(op->name), op);
    if (!is_new) named->second = nullptr;
    if (!RanOutside(*op)) alike_[ClassOf(*op)].Add(op, schedule);
  }

  void AddCall(const HloInstruction* op, size_t schedule) {
    if (RanOutside(*op)) return;
    const std::optional<HloDetails> details = ReadDetails(*op);
    const std::string_view target =
        details.has_value() ? details->custom_call_target : std::string_view();
    const bool is_triton = target.find("triton") != std::string_view::npos;
    const std::string_view own = is_triton ? OwnName(details->backend_config) : std::string_view();
    if (!own.empty()) {
      own_kernels_[Absl(own)].Add(op, schedule);
    } else if (target.starts_with("__cu")) {  // __cublas$gemm, __cudnn$convForward
      libraries_[schedule].Add(op, schedule);
    } else {
      calls_unknown_.insert(schedule);
    }
  }

  // Equal for ops alike: opcode and shape, and those of all that is in what they call.
  uint64_t ClassOf(const HloInstruction& op) {
    const auto known = class_of_.find(&op);
    if (known != class_of_.end()) return known->second;
    std::vector<uint64_t> parts;
    const std::optional<HloDetails> details = ReadDetails(op);
    parts.push_back(HashOf(op, details));
    if (details.has_value()) {
      absl::flat_hash_set<int64_t> counted;
      for (const int64_t id : details->called) {
        if (counted.insert(id).second) parts.push_back(HashOfComputation(id));
      }
    }
    return class_of_[&op] = absl::Hash<std::vector<uint64_t>>()(parts);
  }

  static uint64_t HashOf(const HloInstruction& op, const std::optional<HloDetails>& details) {
    std::vector<int64_t> shape;
    if (details.has_value()) HashShape(details->shape, &shape);
    return absl::HashOf(Absl(op.opcode), shape);
  }

  uint64_t HashOfComputation(int64_t id) {
    const auto [known, is_new] = hash_of_computation_.try_emplace(id, 0);
    const HloComputation* const called = program_.FindComputation(id);
    if (!is_new || called == nullptr) return known->second;
    std::vector<uint64_t> parts;
    for (const HloInstruction& each :
         std::span(program_.instructions()).subspan(called->first, called->count)) {
      parts.push_back(HashOf(each, ReadDetails(each)));
    }
    return known->second = absl::Hash<std::vector<uint64_t>>()(parts);
  }

  bool RanOutside(const HloInstruction& op) const { return seen_.outside.contains(Absl(op.name)); }

  // A copy, or a fill that clears the workspace of a library: usually these belong to no op.
  static bool Copies(std::string_view kernel) {
    Draft draft;
    draft.kernel = kernel;
    return Classify(draft) == Category::kCopy;
  }

  // Assigns ops in order, if they have an order: all of one computation, in one graph.
  static void Assign(const Alike& alike, std::span<const Kernel> kernels,
                     std::span<const size_t> own, Instructions* ops) {
    if (alike.ops.size() != own.size() || !alike.has_order) return;
    const auto graph = [&](size_t i) { return kernels[i].graph; };
    if (std::ranges::adjacent_find(own, std::not_equal_to<>(), graph) != own.end()) return;
    for (size_t i = 0; i < own.size(); ++i) (*ops)[own[i]] = alike.ops[i];
  }

  // Kernels with the name of another op than the first of their nodes is.
  void ForgetMisnamed(std::span<const Kernel> kernels, Instructions* ops) const {
    absl::flat_hash_map<absl::string_view, const HloInstruction*> first;
    for (size_t i = 0; i < ops->size(); ++i) first.try_emplace(Absl(kernels[i].name), (*ops)[i]);
    for (size_t i = 0; i < ops->size(); ++i) {
      const auto named = by_kernel_name_.find(Absl(kernels[i].name));
      if (named == by_kernel_name_.end() || named->second == nullptr) continue;
      const HloInstruction* const op = named->second;
      if (!RanOutside(*op) && first.at(Absl(kernels[i].name)) != op) (*ops)[i] = nullptr;
    }
  }

  // The kernels without a matching op name, in a computation that is known to run and has no calls
  // with a variable number of kernels.
  void AssignLibraries(std::span<const Kernel> kernels, std::span<const size_t> others,
                       Instructions* ops) const {
    absl::flat_hash_set<size_t> runs;
    for (const HloInstruction* const op : *ops) {
      if (op != nullptr) runs.insert(schedule_of_.at(op));
    }
    const Alike* calls = nullptr;
    for (const auto& [schedule, own] : libraries_) {
      if (!runs.contains(schedule)) continue;
      if (calls != nullptr || calls_unknown_.contains(schedule)) return;
      calls = &own;
    }
    if (calls != nullptr) Assign(*calls, kernels, others, ops);
  }

  const HloProgram& program_;
  const Seen& seen_;
  absl::flat_hash_map<const HloInstruction*, size_t> schedule_of_;
  absl::flat_hash_map<std::string, const HloInstruction*> by_kernel_name_;  // null: several
  absl::flat_hash_map<const HloInstruction*, uint64_t> class_of_;
  absl::flat_hash_map<int64_t, uint64_t> hash_of_computation_;
  std::map<uint64_t, Alike> alike_;
  absl::node_hash_map<absl::string_view, Alike> own_kernels_;  // by name
  std::map<size_t, Alike> libraries_;                          // by schedule
  absl::flat_hash_set<size_t> calls_unknown_;                  // schedules
};

std::optional<int64_t> NumberIn(const StatValue& value) {
  if (value.type != StatType::kInt64 && value.type != StatType::kUint64) return std::nullopt;
  return static_cast<int64_t>(value.bits);
}

}  // namespace

absl::StatusOr<GraphOps> GraphOps::Read(const Trace& trace, const Plane& plane,
                                        std::span<const uint32_t> lines, const GraphStats& stats,
                                        HloPrograms* programs) {
  GraphOps all;
  if (stats.node.empty() || !HasStat(plane, stats.node)) return all;
  enum Column : size_t { kProgram, kOp, kGraph, kNode };
  const std::array<std::string_view, 4> names = {"program_id", "hlo_op", stats.graph, stats.node};
  EventNames kernels(plane);
  std::map<uint64_t, Seen> seen;  // by program
  for (const uint32_t line : lines) {
    Diagnostics told_later;  // when executions are read
    const auto visit = [&](const EventBatch& batch) {
      for (size_t row = 0; row < batch.size(); ++row) {
        const std::optional<int64_t> program = NumberIn(batch.Stat(kProgram, row));
        const std::string_view op = batch.Stat(kOp, row).text;
        if (!program.has_value() || op.empty()) continue;
        Seen& own = seen[static_cast<uint64_t>(*program)];
        const std::optional<int64_t> node = NumberIn(batch.Stat(kNode, row));
        if (!node.has_value()) {
          own.outside.insert(Absl(op));
          continue;
        }
        const int64_t graph = NumberIn(batch.Stat(kGraph, row)).value_or(0);
        own.nodes.try_emplace(*node, Seen::Node{kernels.Of(batch, row), op, graph});
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(VisitEvents(trace, line, names, &told_later, visit));
  }
  for (const auto& [id, own] : seen) {
    const HloProgram* const program = own.nodes.empty() ? nullptr : programs->Find(id).program;
    if (program == nullptr) continue;
    const std::vector<Graph> graphs = GraphsOf(own);
    std::vector<Matcher::Kernel> together;
    for (size_t graph = 0; graph < graphs.size(); ++graph) {
      for (const std::string_view kernel : graphs[graph].kernels)
        together.push_back({kernel, graph});
    }
    const Instructions instructions = Matcher(*program, own).Match(together);
    size_t place = 0;
    for (const Graph& graph : graphs) {
      for (size_t i = 0; i < graph.kernels.size(); ++i, ++place) {
        const HloInstruction* const instruction = instructions[place];
        if (instruction == nullptr) continue;
        const Op op = {instruction, ScopeOf(*program, *instruction)};
        for (const std::vector<int64_t>& nodes : graph.nodes)
          all.ops_.try_emplace({id, nodes[i]}, op);
      }
    }
  }
  return all;
}

}  // namespace xplane_time
