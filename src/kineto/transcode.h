// Kineto traces: the Chrome JSON of torch.profiler, written anew as an XSpace, so that nothing
// behind the reader knows of them.
//
//   kernel, gpu_memcpy, gpu_memset    "/device:GPU:<pid>", "Stream #<tid>"
//   what else is on a device          the same plane, a line of its own: no stream, no execution
//   everything else                   "/host:CPU", a line for each tid; other processes than that
//                                     with the most events "/host:CPU [<pid>]"
//   python_function                   the same plane, a line of its own with the display_id of the
//                                     thread's
//
// A device is told by the category of what ran there, never by its pid: that of a process may be
// the same. Only complete events (ph X) are events. Their args are stats; `correlation` of
// executions and launches is the correlation_id of XPlane. The category is a stat of the name, as
// is what a range of host time is (devices/gpu_runs/host_ranges.h): a step, an annotation, an
// nn.Module.
//
// Times are exact: absolute = baseTimeNanoseconds + ts. The lines begin at a whole second up to
// two seconds before the first event of the file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kineto/space_writer.h"
#include "xplane_time/diagnostics.h"

namespace xplane_time::kineto {

// Whether the content begins like JSON.
bool LooksLikeJson(std::string_view bytes);

// Whether this may be the beginning of such a trace, of several files of JSON.
bool LooksLikeTrace(std::string_view head);

// With more than one thread, one reads the JSON and this one writes. Errors: DataLoss with the byte
// offset: damaged, cut off, or JSON that is no such trace. What is wrong with single events is
// counted in `diagnostics`, with the byte offset alone.
absl::StatusOr<Space> Transcode(std::string_view json, const std::string& name, int threads,
                                Diagnostics* diagnostics);

// Of the first bytes of what may have no end: whether they can be the beginning of a trace.
absl::Status CheckHead(std::string_view head, const std::string& name);

}  // namespace xplane_time::kineto
