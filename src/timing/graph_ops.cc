#include "timing/graph_ops.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "read/event_names.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

using Instructions = std::vector<const HloInstruction*>;

// What ran of one program.
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

std::vector<Graph> GraphsOf(const Seen& seen) {
  std::map<int64_t, std::pair<std::vector<std::string_view>, std::vector<int64_t>>> by_id;
  for (const auto& [id, node] : seen.nodes) {
    auto& [kernels, nodes] = by_id[node.graph];
    kernels.push_back(node.kernel);
    nodes.push_back(id);
  }
  std::vector<Graph> graphs;
  std::map<std::pair<std::string_view, std::vector<std::string_view>>, size_t> known;
  for (auto& [id, graph] : by_id) {
    auto& [kernels, nodes] = graph;
    const std::string_view op = seen.nodes.at(nodes[0]).hlo_op;
    const auto [found, is_new] = known.try_emplace({op, kernels}, graphs.size());
    if (is_new) graphs.push_back({std::move(kernels), {}});
    graphs[found->second].nodes.push_back(std::move(nodes));
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

// Of a name that was taken already, as XLA's "fusion_3__1": the name without the number.
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

// What both begin with, up to a "/".
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

// Tells which kernels of one program are which ops.
class Matcher {
 public:
  Matcher(const HloProgram& program, const Seen& seen) : program_(program), seen_(seen) {
    for (const Instructions& schedule : program.Schedules()) {
      for (const HloInstruction* const op : schedule) Add(op, schedule.data());
    }
  }

  // By kernel; null: not known.
  Instructions Match(std::span<const std::string_view> kernels) {
    Instructions ops(kernels.size(), nullptr);
    std::map<uint64_t, std::vector<size_t>> of_class;  // which kernels
    std::vector<size_t> others;
    for (const std::string_view kernel : kernels) {
      // The name was taken when the op with this name was compiled: nobody knows by which.
      const std::string_view name = WithoutNumber(kernel);
      const auto named = by_kernel_name_.find(Absl(name));
      if (name != kernel && named != by_kernel_name_.end()) named->second = nullptr;
    }
    for (size_t i = 0; i < kernels.size(); ++i) {
      const auto named = by_kernel_name_.find(Absl(kernels[i]));
      const bool is_named = named != by_kernel_name_.end() && named->second != nullptr;
      if (is_named) of_class[ClassOf(*named->second)].push_back(i);
      if (!is_named && !Copies(kernels[i])) others.push_back(i);
    }
    for (const auto& [which, own] : of_class) Assign(alike_[which], own, &ops);
    MatchOwnKernels(kernels, &others, &ops);
    Assign(libraries_, others, &ops);
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i] != nullptr) named_right_.insert({kernels[i], ops[i]});
    }
    for (const auto& [which, own] : of_class) {
      for (const size_t i : own) {
        if (IsMisnamed(kernels[i])) ops[i] = nullptr;
      }
    }
    return ops;
  }

 private:
  // Ops alike, and whether they are of one computation: then they have an order.
  struct Alike {
    Instructions ops = {};
    const void* schedule = nullptr;
    bool has_order = true;
    void Add(const HloInstruction* op, const void* of) {
      has_order = has_order && (ops.empty() || schedule == of);
      schedule = of;
      ops.push_back(op);
    }
  };

  void Add(const HloInstruction* op, const void* schedule) {
    const auto [named, is_new] = by_kernel_name_.try_emplace(KernelName(op->name), op);
    if (!is_new) named->second = nullptr;
    if (RanOutside(*op)) return;
    alike_[ClassOf(*op)].Add(op, schedule);
    if (op->opcode != "custom-call") return;
    const std::optional<HloDetails> details = ReadDetails(*op);
    if (!details.has_value()) return;
    const std::string_view target = details->custom_call_target;
    if (target.starts_with("__cu")) libraries_.Add(op, schedule);  // __cublas$gemm, __cudnn$conv..
    if (target.find("triton") != target.npos) own_kernels_.push_back({op, *details, schedule});
  }

  // Equal for ops alike: opcode and shape, and those of all that is in what they call.
  uint64_t ClassOf(const HloInstruction& op) {
    const auto [known, is_new] = class_of_.try_emplace(&op, 0);
    if (!is_new) return known->second;
    std::vector<int64_t> parts;
    const auto add = [&](const HloInstruction& each) {
      const std::optional<HloDetails> details = ReadDetails(each);
      parts.push_back(static_cast<int64_t>(absl::Hash<absl::string_view>()(Absl(each.opcode))));
      if (details.has_value()) HashShape(details->shape, &parts);
      return details;
    };
    if (const std::optional<HloDetails> details = add(op); details.has_value()) {
      for (const int64_t id : details->called) {
        const HloComputation* const called = program_.FindComputation(id);
        if (called == nullptr) continue;
        for (const HloInstruction& each :
             std::span(program_.instructions()).subspan(called->first, called->count)) {
          add(each);
        }
      }
    }
    return class_of_[&op] = absl::Hash<std::vector<int64_t>>()(parts);
  }

  bool RanOutside(const HloInstruction& op) const { return seen_.outside.contains(Absl(op.name)); }

  // A copy, or what clears the workspace of a library: mostly of no op of its own.
  static bool Copies(std::string_view kernel) {
    Draft draft;
    draft.kernel = kernel;
    return Classify(draft) == Category::kCopy;
  }

  static void Assign(const Alike& alike, std::span<const size_t> kernels, Instructions* ops) {
    if (alike.ops.size() != kernels.size() || !alike.has_order) return;
    for (size_t i = 0; i < kernels.size(); ++i) (*ops)[kernels[i]] = alike.ops[i];
  }

  // Those of Pallas and Triton have names of their own, which the custom call has, too.
  void MatchOwnKernels(std::span<const std::string_view> kernels, std::vector<size_t>* others,
                       Instructions* ops) const {
    std::map<std::string_view, std::vector<size_t>> by_name;
    for (const size_t i : *others) by_name[WithoutNumber(kernels[i])].push_back(i);
    for (const auto& [name, own] : by_name) {
      Alike calls;
      for (const OwnKernel& each : own_kernels_) {
        if (each.details.backend_config.find(Cat("\"", name, "\"")) == std::string_view::npos) {
          continue;
        }
        calls.Add(each.op, each.schedule);
      }
      if (calls.ops.empty()) continue;
      Assign(calls, own, ops);
      std::erase_if(*others, [&](size_t i) { return WithoutNumber(kernels[i]) == name; });
    }
  }

  // A kernel has the name of an op that none of the nodes with this kernel is.
  bool IsMisnamed(std::string_view kernel) const {
    const HloInstruction* const op = by_kernel_name_.at(Absl(kernel));
    return !RanOutside(*op) && !named_right_.contains({kernel, op});
  }

  struct OwnKernel {
    const HloInstruction* op;
    HloDetails details;
    const void* schedule;
  };
  const HloProgram& program_;
  const Seen& seen_;
  absl::flat_hash_map<std::string, const HloInstruction*> by_kernel_name_;  // null: several
  absl::flat_hash_map<const HloInstruction*, uint64_t> class_of_;
  std::map<uint64_t, Alike> alike_;
  Alike libraries_;
  std::vector<OwnKernel> own_kernels_;
  absl::flat_hash_set<std::pair<std::string_view, const HloInstruction*>> named_right_;
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
    std::vector<std::string_view> together;
    for (const Graph& each : graphs) {
      together.insert(together.end(), each.kernels.begin(), each.kernels.end());
    }
    const Instructions instructions = Matcher(*program, own).Match(together);
    std::vector<Op> ops;
    for (const HloInstruction* const each : instructions) {
      ops.push_back({each, each == nullptr ? std::string_view() : ScopeOf(*program, *each)});
    }
    size_t place = 0;
    for (const Graph& each : graphs) {
      for (const std::vector<int64_t>& nodes : each.nodes) {
        for (size_t i = 0; i < nodes.size(); ++i) {
          const Op& op = ops[place + i];
          if (op.instruction != nullptr) all.op_of_node_.try_emplace(nodes[i], op);
        }
      }
      place += each.kernels.size();
    }
  }
  return all;
}

}  // namespace xplane_time
