// Matching: finds the kernel of head that corresponds to each kernel of base.
//
// The keys are used one after the other, from strict to loose. If a key occurs equally often on
// both sides, its items are matched in program order. The remaining items are matched if they fuse
// the same ops (connected components over the fused ops: a fusion that split, or several that
// merged), then by score, in buckets of a bounded size.
//
// Time: O(n log n).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "insight/op_traits.h"
#include "xplane_time/diff.h"

namespace xplane_time::insight {

struct MatchItem {
  const OpTraits* traits;
  uint32_t block;  // only items of one block match
};

struct OpMatch {
  DiffMatch match = DiffMatch::kExact;
  std::optional<double> similarity = {};
  std::vector<uint32_t> base = {}, head = {};  // items
};

// All items, each in one of them. `loosely`: not only what is exact.
std::vector<OpMatch> MatchOps(std::span<const MatchItem> base, std::span<const MatchItem> head,
                              bool loosely);

// Similarity from 0 to 1, computed from the features that both have.
double Similarity(const OpTraits& a, const OpTraits& b);

}  // namespace xplane_time::insight
