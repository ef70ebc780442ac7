// Kineto traces: transcodes the Chrome JSON of torch.profiler to an XSpace, so that all code after
// the reader handles one format only.
//
//   kernel, gpu_memcpy, gpu_memset    plane "/device:GPU:<pid>", line "Stream #<tid>"
//   other events on a device          the same plane, a line per category and tid, which is not a
//                                     stream and has no executions
//   all other events                  plane "/host:CPU", a line per tid; it holds the process with
//                                     the most events, other processes are "/host:CPU [<pid>]"
//   python_function                   the same plane, a separate line with the display_id of the
//                                     thread's line
//
// The category of an event determines whether it ran on a device. The pid does not: a process may
// have the same pid as a device. Only complete events (ph X) become events. Their args become
// stats; `correlation` of executions and launches becomes the correlation_id of XPlane. The
// category becomes a stat of the event metadata. Another such stat marks ranges of host time
// (devices/gpu_runs/host_ranges.h): steps, annotations and nn.Modules.
//
// Times are exact: absolute = baseTimeNanoseconds + ts. The lines begin at a whole second up to two
// seconds before the first event of the file.
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

// Whether `head` may be the beginning of such a trace, to find traces among JSON files.
bool LooksLikeTrace(std::string_view head);

// Transcodes a trace. With more than one thread, one thread reads the JSON and this one writes.
// Errors: DataLoss with the byte offset (damaged, truncated, or JSON that is not such a trace).
// Defects of single events are counted in `diagnostics`, with the byte offset as their place.
absl::StatusOr<Space> Transcode(std::string_view json, const std::string& name, int threads,
                                Diagnostics* diagnostics);

// Checks the first bytes of a possibly endless stream: can they be the beginning of a trace?
absl::Status CheckHead(std::string_view head, const std::string& name);

}  // namespace xplane_time::kineto
