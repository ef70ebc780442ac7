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

void HashShape(const HloShape& shape, std::vector<int64_t>* parts) {
  parts->insert(parts->end(), {shape.type, static_cast<int64_t>(shape.dims.size())});
  parts->insert(parts->end(), shape.dims.begin(), shape.dims.end());
  for (const HloShape& member : shape.tuple) HashShape(member, parts);
}

// Tells which kernels of one program are which ops.
class Matcher {
 public:
  // In the order of their schedules, those that ran outside of graphs left out.
  Matcher(const HloProgram& program, const Seen& seen) : program_(program) {
    for (const Instructions& schedule : program.Schedules()) {
      for (const HloInstruction* const op : schedule) {
        if (!seen.outside.contains(Absl(op->name))) Add(op, schedule.data());
      }
    }
  }

  // By kernel; null: not known.
  Instructions Match(std::span<const std::string_view> kernels) {
    Instructions ops(kernels.size(), nullptr);
    std::map<uint64_t, std::vector<size_t>> of_class;  // which kernels
    std::vector<size_t> others;
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
    for (const size_t i : *others) by_name[kernels[i]].push_back(i);
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
      std::erase_if(*others, [&](size_t i) { return kernels[i] == name; });
    }
  }

  // A kernel has the name of an op that none of the nodes with this kernel is.
  bool IsMisnamed(std::string_view kernel) const {
    return !named_right_.contains({kernel, by_kernel_name_.at(Absl(kernel))});
  }

  struct OwnKernel {
    const HloInstruction* op;
    HloDetails details;
    const void* schedule;
  };
  const HloProgram& program_;
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
    const Instructions ops = Matcher(*program, own).Match(together);
    size_t place = 0;
    for (const Graph& each : graphs) {
      for (const std::vector<int64_t>& nodes : each.nodes) {
        for (size_t i = 0; i < nodes.size(); ++i) {
          if (ops[place + i] != nullptr) all.op_of_node_.try_emplace(nodes[i], ops[place + i]);
        }
      }
      place += each.kernels.size();
    }
  }
  return all;
}

}  // namespace xplane_time
