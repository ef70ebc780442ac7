#include "insight/diff_match.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "insight/diff_amounts.h"

namespace xplane_time::insight {
namespace {

// Limits of a group, and of keys that link fusions: a key that is everywhere links nothing.
constexpr size_t kMostInGroup = 16, kMostWithKey = 2;
// Pairs of a bucket that are scored; of a larger one each is with its neighbours.
constexpr size_t kMostPairs = 1024, kNeighbours = 4;
// Ops that are less alike are one that is gone and one that is new. Less is enough for ops of one
// name, and for ops of one source line and shape: one replaced the other.
constexpr double kLeastScore = 0.5, kLeastScoreOfPlace = 0.35;
// No score reaches 1, because a score never proves a match.
constexpr double kMostScore = 0.99;

// The identifying features of an item, hashed.
struct Features {
  bool has_hlo;
  uint64_t name, bare, op_name, source, opcode, shapes, content, context, inner;
};

Features FeaturesOf(const MatchItem& item) {
  const OpTraits& t = *item.traits;
  Features f = {.has_hlo = !t.opcode.empty(),
                .name = Mixed(HashOf(t.kernel), HashOf(t.op)),
                .bare = HashOf(WithoutNumbers(t.kernel)),
                .op_name = HashOf(WithinFunction(t.op_name)),
                .source = t.source.empty() ? 0 : HashOf(t.source),
                .opcode = HashOf(t.opcode),
                .shapes = t.shapes,
                .content = t.content,
                .context = t.context,
                .inner = 0};
  for (const uint64_t each : t.inner) f.inner = Mixed(f.inner, each);
  return f;
}

using Key = std::optional<uint64_t>;  // empty: not for this pass
using KeyFunction = Key (*)(const Features&);

template <typename... Parts>
uint64_t MixParts(Parts... parts) {
  uint64_t key = sizeof...(parts);
  ((key = Mixed(key, parts)), ...);
  return key;
}

constexpr KeyFunction kExactKeys[] = {
    [](const Features& f) -> Key {
      if (!f.has_hlo) return MixParts(f.name, f.op_name, f.source);
      return MixParts(f.name, f.context, f.shapes, f.op_name, f.source);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return MixParts(f.name, f.op_name);
      return MixParts(f.bare, f.context, f.shapes, f.op_name, f.source);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return MixParts(f.name);
      return MixParts(f.bare, f.context, f.shapes, f.op_name);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return std::nullopt;
      return MixParts(f.bare, f.content, f.shapes, f.op_name, f.source);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return std::nullopt;
      return MixParts(f.bare, f.content, f.shapes, f.op_name);
    },
};

// The same work under another kernel or name.
constexpr KeyFunction kSameWorkKeys[] = {
    [](const Features& f) -> Key {
      if (!f.has_hlo) return MixParts(f.bare, f.op_name, f.source);
      return MixParts(f.content, f.shapes, f.op_name, f.source);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return MixParts(f.bare, f.op_name);
      return MixParts(f.content, f.shapes, f.op_name);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return std::nullopt;
      return MixParts(f.context, f.shapes, f.source);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo || f.inner == 0) return std::nullopt;
      return MixParts(f.inner, f.opcode, f.op_name);
    },
};

constexpr KeyFunction kSameOpKeys[] = {
    [](const Features& f) -> Key {
      if (!f.has_hlo) return std::nullopt;
      return MixParts(f.opcode, f.op_name, f.source, f.shapes);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return std::nullopt;
      return MixParts(f.opcode, f.op_name, f.source);
    },
    [](const Features& f) -> Key {
      if (!f.has_hlo) return std::nullopt;
      return MixParts(f.opcode, f.op_name);
    },
    [](const Features& f) -> Key {  // also if one side has no Hlo Proto
      return MixParts(f.name);
    },
};

bool HaveOneName(const OpTraits& a, const OpTraits& b) {
  return WithoutNumbers(a.kernel) == WithoutNumbers(b.kernel);
}

bool HaveOnePlace(const OpTraits& a, const OpTraits& b) {
  const bool on_one_line = !a.source.empty() && a.source == b.source;
  return HaveOneName(a, b) || (on_one_line && a.shapes != 0 && a.shapes == b.shapes);
}

double PathSimilarity(std::string_view a, std::string_view b) {
  if (a == b) return 1;
  const auto parts_of = [](std::string_view path) {
    std::vector<std::string_view> parts;
    for (size_t end; (end = path.find('/')) != path.npos; path.remove_prefix(end + 1)) {
      parts.push_back(path.substr(0, end));
    }
    parts.push_back(path);
    return parts;
  };
  const std::vector<std::string_view> of_a = parts_of(a), of_b = parts_of(b);
  const size_t least = std::min(of_a.size(), of_b.size());
  size_t common = 0, from_end = 0;
  while (common < least && of_a[common] == of_b[common]) ++common;
  while (from_end < least - common && of_a.rbegin()[static_cast<ptrdiff_t>(from_end)] ==
                                          of_b.rbegin()[static_cast<ptrdiff_t>(from_end)]) {
    ++from_end;
  }
  // The last part, the operation, is worth as much as the whole path.
  const double leaf = of_a.back() == of_b.back() ? 0.5 : 0;
  return leaf + 0.5 * static_cast<double>(common + from_end) /
                    static_cast<double>(std::max(of_a.size(), of_b.size()));
}

double SourceSimilarity(std::string_view a, std::string_view b) {
  if (a == b) return 1;
  const size_t at_a = a.rfind(':'), at_b = b.rfind(':');
  const bool same_file = at_a != a.npos && at_b != b.npos && a.substr(0, at_a) == b.substr(0, at_b);
  return same_file ? 0.4 : 0;
}

double ShapeSimilarity(const OpTraits& a, const OpTraits& b) {
  if (a.shapes == b.shapes) return 1;
  if (a.shape == b.shape) return 0.7;
  const size_t at_a = a.shape.find('['), at_b = b.shape.find('[');
  if (at_a == a.shape.npos || at_b == b.shape.npos) return 0;
  const std::string_view dims_a = std::string_view(a.shape).substr(at_a);
  const std::string_view dims_b = std::string_view(b.shape).substr(at_b);
  if (dims_a == dims_b) return 0.6;
  const bool same_type = a.shape.substr(0, at_a) == b.shape.substr(0, at_b);
  return same_type && std::ranges::count(dims_a, ',') == std::ranges::count(dims_b, ',') ? 0.4 : 0;
}

double InnerSimilarity(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<uint64_t> common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return static_cast<double>(common.size()) /
         static_cast<double>(a.size() + b.size() - common.size());
}

// Sets that merge.
class Components {
 public:
  explicit Components(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  }
  uint32_t Of(uint32_t item) {
    while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
    return item;
  }
  void Merge(uint32_t a, uint32_t b) {
    a = Of(a);
    b = Of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<uint32_t> parent_;
};

class Matcher {
 public:
  Matcher(std::span<const MatchItem> base, std::span<const MatchItem> head) : items_{base, head} {
    for (size_t side = 0; side < kSides; ++side) {
      for (const MatchItem& item : items_[side]) features_[side].push_back(FeaturesOf(item));
      taken_[side].assign(items_[side].size(), false);
      order_[side].resize(items_[side].size());
      std::iota(order_[side].begin(), order_[side].end(), uint32_t{0});
      std::ranges::stable_sort(order_[side], {},
                               [&](uint32_t at) { return items_[side][at].traits->position; });
    }
  }

  std::vector<OpMatch> Match(bool loosely) {
    for (const bool equally : {true, false}) {
      for (const KeyFunction key : kExactKeys) ByKey(key, equally, DiffMatch::kExact);
    }
    for (const KeyFunction key : kSameWorkKeys) ByKey(key, true, DiffMatch::kSimilar);
    if (loosely) {
      Group();
      for (const KeyFunction key : kSameOpKeys) {
        ByKey(key, true, DiffMatch::kSimilar, /*if_alike=*/true);
      }
      ByScore();
    }
    for (size_t side = 0; side < kSides; ++side) {
      for (const uint32_t at : Left(side)) {
        OpMatch& one = found_.emplace_back();
        one.match = side == 0 ? DiffMatch::kGone : DiffMatch::kNew;
        (side == 0 ? one.base : one.head).push_back(at);
      }
    }
    return std::move(found_);
  }

 private:
  std::vector<uint32_t> Left(size_t side) {
    std::erase_if(order_[side], [&](uint32_t at) { return taken_[side][at]; });
    return order_[side];
  }

  const OpTraits& Traits(size_t side, uint32_t at) const { return *items_[side][at].traits; }

  // `if_alike`: leaves two ops unmatched if they are hardly alike. Many fusions
  // share their opcode and op_name.
  void Pair(uint32_t base, uint32_t head, DiffMatch match, bool if_alike = false) {
    const OpTraits &a = Traits(0, base), &b = Traits(1, head);
    const double score = match == DiffMatch::kExact ? 1 : Similarity(a, b);
    if (if_alike && !HaveOnePlace(a, b) && score < kLeastScore) return;
    taken_[0][base] = taken_[1][head] = true;
    OpMatch& one = found_.emplace_back(OpMatch{match});
    one.base = {base};
    one.head = {head};
    if (match == DiffMatch::kExact) return;
    one.similarity = std::min(kMostScore, score);
  }

  // `equally`: only keys that are as often on both sides; else as many as there are on both.
  void ByKey(KeyFunction key_of, bool equally, DiffMatch match, bool if_alike = false) {
    absl::flat_hash_map<uint64_t, std::array<std::vector<uint32_t>, kSides>> buckets;
    std::vector<uint64_t> order;  // of base
    for (size_t side = 0; side < kSides; ++side) {
      for (const uint32_t at : Left(side)) {
        const Key key = key_of(features_[side][at]);
        if (!key.has_value()) continue;
        const uint64_t of_block = Mixed(*key, items_[side][at].block);
        if (side == 1 && !buckets.contains(of_block)) continue;
        auto& bucket = buckets[of_block];
        if (bucket[0].empty()) order.push_back(of_block);
        bucket[side].push_back(at);
      }
    }
    for (const uint64_t key : order) {
      const auto& [base, head] = buckets[key];
      if (equally && base.size() != head.size()) continue;
      for (size_t i = 0; i < std::min(base.size(), head.size()); ++i)
        Pair(base[i], head[i], match, if_alike);
    }
  }

  // Matches items that share a computed op which few other items have.
  void Group() {
    const std::array<std::vector<uint32_t>, kSides> left = {Left(0), Left(1)};
    struct Having {
      std::array<std::vector<uint32_t>, kSides> of;
    };
    absl::flat_hash_map<uint64_t, Having> having;
    for (size_t side = 0; side < kSides; ++side) {
      for (uint32_t i = 0; i < left[side].size(); ++i) {
        const MatchItem& item = items_[side][left[side][i]];
        for (const uint64_t each : item.traits->inner) {
          having[Mixed(each, item.block)].of[side].push_back(i);
        }
      }
    }
    const auto head_first = static_cast<uint32_t>(left[0].size());
    Components components(left[0].size() + left[1].size());
    for (const auto& [key, have] : having) {
      const auto few = [](const auto& of) { return !of.empty() && of.size() <= kMostWithKey; };
      if (!few(have.of[0]) || !few(have.of[1])) continue;
      for (const uint32_t i : have.of[0]) components.Merge(have.of[0][0], i);
      for (const uint32_t i : have.of[1]) components.Merge(have.of[0][0], head_first + i);
    }
    std::map<uint32_t, OpMatch> groups;
    for (size_t side = 0; side < kSides; ++side) {
      for (uint32_t i = 0; i < left[side].size(); ++i) {
        OpMatch& group = groups[components.Of(i + (side == 1 ? head_first : 0))];
        (side == 0 ? group.base : group.head).push_back(left[side][i]);
      }
    }
    for (auto& [ignored, group] : groups) TakeGroup(std::move(group));
  }

  bool IsFusion(size_t side, uint32_t at) const { return Traits(side, at).inner.size() > 1; }

  void TakeGroup(OpMatch group) {
    if (group.base.empty() || group.head.empty()) return;
    if (group.base.size() == 1 && group.head.size() == 1) {
      Pair(group.base[0], group.head[0], DiffMatch::kSimilar);
      return;
    }
    std::array<std::vector<uint64_t>, kSides> inner;
    bool any_fusion = false;
    for (size_t side = 0; side < kSides; ++side) {
      for (const uint32_t at : side == 0 ? group.base : group.head) {
        const std::vector<uint64_t>& of = Traits(side, at).inner;
        inner[side].insert(inner[side].end(), of.begin(), of.end());
        any_fusion |= IsFusion(side, at);
      }
      SortUnique(&inner[side]);
    }
    if (!any_fusion || group.base.size() + group.head.size() > kMostInGroup) return;
    for (const uint32_t at : group.base) taken_[0][at] = true;
    for (const uint32_t at : group.head) taken_[1][at] = true;
    group.match = DiffMatch::kGroup;
    group.similarity = std::min(kMostScore, InnerSimilarity(inner[0], inner[1]));
    found_.push_back(std::move(group));
  }

  struct Scored {
    double score;
    uint32_t base, head;
  };

  // The best pairs first.
  void ByScore() {
    std::vector<Scored> pairs;
    absl::flat_hash_set<std::pair<uint32_t, uint32_t>> seen;
    const std::array<std::vector<uint32_t>, kSides> left = {Left(0), Left(1)};
    constexpr KeyFunction kBuckets[] = {
        [](const Features& f) -> Key { return f.source == 0 ? std::nullopt : Key(f.source); },
        [](const Features& f) -> Key { return MixParts(f.op_name); },
        [](const Features& f) -> Key { return MixParts(f.bare, f.opcode); },
        [](const Features& f) -> Key {
          return f.has_hlo ? Key(MixParts(f.opcode, f.shapes)) : Key();
        },
        [](const Features& f) -> Key { return f.has_hlo ? Key(f.opcode) : Key(); },
    };
    for (const KeyFunction key_of : kBuckets) {
      std::map<uint64_t, std::array<std::vector<uint32_t>, kSides>> buckets;
      for (size_t side = 0; side < kSides; ++side) {
        for (const uint32_t at : left[side]) {
          const Key key = key_of(features_[side][at]);
          if (key.has_value()) buckets[Mixed(*key, items_[side][at].block)][side].push_back(at);
        }
      }
      for (const auto& [key, bucket] : buckets) ScoreBucket(bucket[0], bucket[1], &seen, &pairs);
    }
    std::ranges::sort(pairs, [](const Scored& a, const Scored& b) {
      return std::tuple(-a.score, a.base, a.head) < std::tuple(-b.score, b.base, b.head);
    });
    for (const Scored& pair : pairs) {
      if (taken_[0][pair.base] || taken_[1][pair.head]) continue;
      Pair(pair.base, pair.head, DiffMatch::kSimilar);
    }
  }

  void ScoreBucket(const std::vector<uint32_t>& base, const std::vector<uint32_t>& head,
                   absl::flat_hash_set<std::pair<uint32_t, uint32_t>>* seen,
                   std::vector<Scored>* pairs) const {
    const bool all = base.size() * head.size() <= kMostPairs;
    for (size_t i = 0; i < base.size(); ++i) {
      const size_t centre = i * head.size() / base.size();
      const size_t first = all ? 0 : centre - std::min(centre, kNeighbours);
      const size_t end = all ? head.size() : std::min(head.size(), centre + kNeighbours + 1);
      for (size_t j = first; j < end; ++j) {
        if (!seen->insert({base[i], head[j]}).second) continue;
        const OpTraits &a = Traits(0, base[i]), &b = Traits(1, head[j]);
        const double score = Similarity(a, b);
        if (score >= (HaveOnePlace(a, b) ? kLeastScoreOfPlace : kLeastScore))
          pairs->push_back({score, base[i], head[j]});
      }
    }
  }

  const std::array<std::span<const MatchItem>, kSides> items_;
  std::array<std::vector<Features>, kSides> features_;
  std::array<std::vector<bool>, kSides> taken_;
  std::array<std::vector<uint32_t>, kSides> order_;  // those left, by position
  std::vector<OpMatch> found_;
};

}  // namespace

double Similarity(const OpTraits& a, const OpTraits& b) {
  double sum = 0, weights = 0;
  const auto add = [&](bool known, double weight, double value) {
    if (!known) return;
    sum += weight * value;
    weights += weight;
  };
  add(true, 1.5, HaveOneName(a, b) ? 1 : 0);
  add(!a.opcode.empty() && !b.opcode.empty(), 2, a.opcode == b.opcode ? 1 : 0);
  add(!a.op_name.empty() && !b.op_name.empty(), 3,
      PathSimilarity(WithinFunction(a.op_name), WithinFunction(b.op_name)));
  add(!a.source.empty() && !b.source.empty(), 2, SourceSimilarity(a.source, b.source));
  add(a.shapes != 0 && b.shapes != 0, 1.5, ShapeSimilarity(a, b));
  add(a.content != 0 && b.content != 0, 1, a.content == b.content ? 1 : 0);
  if (a.inner.size() > 1 || b.inner.size() > 1) {
    add(!a.inner.empty() && !b.inner.empty(), 2, InnerSimilarity(a.inner, b.inner));
  }
  return sum / weights * (a.category == b.category ? 1 : 0.5);
}

std::vector<OpMatch> MatchOps(std::span<const MatchItem> base, std::span<const MatchItem> head,
                              bool loosely) {
  return Matcher(base, head).Match(loosely);
}

}  // namespace xplane_time::insight
