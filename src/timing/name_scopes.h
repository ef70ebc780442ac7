// Name scopes: how the text of an op_name becomes a path.
//
//   ScopePath("jit(f)/layer/dot")                          // {"jit(f)", "layer", "dot"}
//   ScopePath("jit(f)/layer/mul;jit(f)/layer/add")         // {"jit(f)", "layer"}
//   ScopePath("jit(f)/transpose(jvp(layer))/dot", Passes::kFolded)   // {"jit(f)", "layer", "dot"}
//   ScopeText("jit(f)/transpose(jvp(layer))/dot", Passes::kFolded)   // "jit(f)/layer/dot"
//
// XLA joins the names of ops that it makes one with ';'. The path of a joined name is what its
// names begin with in common. If they have nothing in common, it is the path of the first name.
//
// JAX marks what a transformation made of a scope: `jvp(layer)` is the forward pass of a gradient,
// `transpose(jvp(layer))` the backward pass, `vmap(layer)` a batch. `checkpoint` and
// `rematted_computation` are scopes of their own around what is computed again. TensorFlow puts
// the backward pass below `gradient_tape` or `gradients`. Folding removes all of these, so that a
// layer has one path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time {

// Whether the forward and the backward pass of a layer have paths of their own.
enum class Passes : uint8_t { kApart, kFolded };

// The scopes of a name, the outermost first: views into it. A slash in brackets does not separate
// scopes, unless the brackets do not close. At most 256 parts, the last with the rest.
std::vector<std::string_view> ScopePath(std::string_view scope, Passes passes = Passes::kApart);

// The path as one text. A name that is neither joined nor folded stays as it is.
std::string ScopeText(std::string_view scope, Passes passes);

}  // namespace xplane_time
