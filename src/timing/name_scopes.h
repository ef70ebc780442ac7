// Name scopes: how the text of an op_name becomes a path.
//
//   ScopePath("jit(f)/layer/dot")                          // {"jit(f)", "layer", "dot"}
//   ScopePath("jit(f)/layer/mul;jit(f)/layer/add")         // {"jit(f)", "layer"}
//   ScopePath("jit(f)/transpose(jvp(layer))/dot", Passes::kFolded)   // {"jit(f)", "layer", "dot"}
//   ScopeText("jit(f)/transpose(jvp(layer))/dot", Passes::kFolded)   // "jit(f)/layer/dot"
//
// XLA joins the names of merged ops with ';'. The path of a joined name is the common prefix of its
// names. If it is empty, the path is that of the first name.
//
// JAX marks transformed scopes: `jvp(layer)` is the forward pass of a gradient,
// `transpose(jvp(layer))` the backward pass, `vmap(layer)` a batch. `checkpoint` and
// `rematted_computation` are additional scopes around recomputed ops. TensorFlow puts the backward
// pass below `gradient_tape` or `gradients`. Folding removes all of these, so that a layer has one
// path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time {

// Whether the forward and the backward pass of a layer have separate paths.
enum class Passes : uint8_t { kApart, kFolded };

// The scopes of a name, the outermost first: views into it. A slash in brackets does not separate
// scopes, unless the brackets do not close. At most 256 parts, the last with the rest.
std::vector<std::string_view> ScopePath(std::string_view scope, Passes passes = Passes::kApart);

// The path as one text. A name that is neither joined nor folded does not change.
std::string ScopeText(std::string_view scope, Passes passes);

}  // namespace xplane_time
