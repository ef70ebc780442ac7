// Meaning: what an event is, apart from its times and ids of its own. Events repeat the
// same few meanings millions of times, so each is worked out once.
//
// A meaning is found by the event's metadata and by those stats of the event itself that
// say what it is (StatUse). Values are compared, not only hashes of them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"
#include "hlo/opcodes.h"
#include "xplane_time/read.h"

namespace xplane_time {

struct Meaning {
  bool is_execution = false;
  bool is_completion = false, completes_body = false;
  uint32_t op = kNone, program = kNone;
  int64_t ordinal = kNoOrdinal;  // on the host
};

// The shown names of one plane's events; views live as long as this and the trace.
class EventNames {
 public:
  explicit EventNames(const Plane& plane) : plane_(plane) {}

  std::string_view Of(const EventBatch& batch, size_t row) {
    if (batch.metadata[row] == kNoMetadata) {
      std::string& name = missing_[batch.metadata_id[row]];
      if (name.empty()) name = EventName(plane_, kNoMetadata, batch.metadata_id[row]);
      return name;
    }
    const EventMetadata& metadata = plane_.event_metadata.entries[batch.metadata[row]];
    return metadata.display_name.empty() ? metadata.name : metadata.display_name;
  }

 private:
  const Plane& plane_;
  std::map<int64_t, std::string> missing_;  // by metadata id
};

// The meanings of one plane's events. Not thread-safe.
class Meanings {
 public:
  Meanings(const Trace& trace, const DevicePlane& device);

  // For batches of execution events, or of runs.
  void StartBatch(const EventBatch& batch, LineRole role);
  const Meaning& Of(const EventBatch& batch, size_t row) {
    const uint32_t metadata = batch.metadata[row];
    if (!own_stats_.empty() || metadata == kNoMetadata) return OfUnusual(batch, row);
    const Meaning*& known = (*by_metadata_)[metadata];
    if (known == nullptr) known = &Add(batch, row);
    return *known;
  }

  const std::shared_ptr<ExecutionTables>& tables() const { return tables_; }

 private:
  // A column of the batch that is part of the meaning.
  struct Own {
    uint32_t column;
    bool value_counts;
    const StatType* type;
    const uint64_t* bits;
    const std::string_view* text;
  };
  struct OwnValue {
    uint32_t column;
    StatValue value;
  };
  // What tells meanings apart, beside hashes.
  struct Key {
    LineRole role;
    uint32_t metadata;
    int64_t metadata_id;
    std::vector<OwnValue> stats;
  };
  struct Entry {
    Key key;
    const Meaning* meaning;
  };
  struct Recent {
    uint64_t hash = 0;
    const Entry* entry = nullptr;
  };

  const Meaning& OfUnusual(const EventBatch& batch, size_t row);
  uint64_t HashOf(const EventBatch& batch, size_t row) const;
  bool Matches(const Key& key, const EventBatch& batch, size_t row) const;
  const Meaning& Add(const EventBatch& batch, size_t row);
  uint32_t OpOf(const Draft& draft);
  uint32_t ProgramOf(const Draft& draft);

  const Plane& plane_;
  const KindRules& rules_;
  HloOpcodes opcodes_;
  std::shared_ptr<ExecutionTables> tables_;
  LineRole role_ = LineRole::kExecution;
  std::vector<Own> own_stats_;  // of the batch
  std::deque<Meaning> meanings_;
  std::vector<const Meaning*> execution_by_metadata_, run_by_metadata_;
  std::vector<const Meaning*>* by_metadata_ = nullptr;
  std::deque<Entry> entries_;
  absl::flat_hash_map<uint64_t, std::vector<const Entry*>> by_hash_;
  std::vector<Recent> recent_;  // by the hash's low bits
  EventNames names_;
  absl::flat_hash_map<std::tuple<absl::string_view, absl::string_view, absl::string_view,
                                 absl::string_view, absl::string_view, int64_t, int64_t, int>,
                      uint32_t>
      op_index_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> program_index_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> symbol_index_;
};

}  // namespace xplane_time
