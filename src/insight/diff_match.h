// Matching: which kernels of base are which of head.
//
// Keys, from strict to loose, one after the other; what has the same key on both sides, equally
// often, is matched in the order of the program. What is left is matched where it fuses the same
// (components over what is fused: a fusion that split, or several that merged), then by score, in
// buckets of a bounded size.
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

// 0 to 1, of what is known of both.
double Similarity(const OpTraits& a, const OpTraits& b);

}  // namespace xplane_time::insight
