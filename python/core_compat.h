// compat.h for Python: times as lists of (key, seconds), tests of names as callables.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xplane_time/trace.h"

namespace xplane_time::python {

using KeyTimes = std::vector<std::tuple<std::string, double>>;
// Keys of a capture's planes, or of its one plane.
using PlaneKeyTimes = std::vector<std::tuple<std::string, KeyTimes>>;
using VariantTimes = std::vector<std::tuple<std::string, double, double>>;  // id, mean, std
using Test = std::optional<nanobind::typed<nanobind::callable, bool(std::string)>>;

std::vector<std::string> PlaneNames(const Trace& trace);
KeyTimes EjkernelTimes(const Trace& trace, size_t plane, const std::string& prefix,
                       double min_duration_ns, std::optional<uint64_t> max_events,
                       const Test& children);
KeyTimes TuneJaxTimes(const Trace& trace, size_t plane, const std::string& prefix, bool raw_protos,
                      const Test& children);
VariantTimes EjkernelVariants(const std::vector<KeyTimes>& captures);
VariantTimes TuneJaxVariants(const std::vector<PlaneKeyTimes>& captures);
// The summary as it is in xprof's JSON.
nanobind::typed<nanobind::dict, nanobind::str, nanobind::object> XprofDeviceTimes(
    const Trace& trace, uint64_t limit, bool intra_kernel_regions,
    const std::optional<std::string>& kernel_name, const Test& names);

}  // namespace xplane_time::python
