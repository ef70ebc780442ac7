// Sections: the parts of a text for people, before they become a table or Markdown.
//
// Enters: rows in their final order. Leaves: titled grids of printable cells, with what
// was left out. Columns that would say the same in every row (one device, one clock) are
// left to the title.
#ifndef XPLANE_TIME_SRC_OUTPUT_SECTIONS_H_
#define XPLANE_TIME_SRC_OUTPUT_SECTIONS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/grid.h"
#include "output/ordering.h"
#include "output/output.h"
#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

// The few signs beyond ASCII, or what stands for them.
struct Signs {
  std::string_view ellipsis, plus_minus, full, empty;
  static Signs For(const OutputOptions& options);
};

struct Section {
  std::string title;               // empty: none
  Grid grid;                       // no rows: the title and notes say why
  std::vector<std::string> notes;  // below the grid: what was left out
};

// Of executions, functions or kernels, "2 more kernels: xplane-time kernels".
std::string MoreNote(size_t hidden, std::string_view what, std::string_view where);

// "GPU:0" for "/device:GPU:0"; with the host or input where several are known.
class DeviceNames {
 public:
  explicit DeviceNames(const std::vector<const DeviceRef*>& devices);
  std::string Name(const DeviceRef& device) const;
  size_t count() const { return count_; }  // different devices

 private:
  bool several_hosts_ = false, several_inputs_ = false;
  size_t count_ = 0;
};

// sections_capture.cc. Lines on the inputs and the capture.
std::vector<std::string> InputLines(const std::vector<InputRow>& inputs, size_t most);
// With several captures no length is told.
std::vector<std::string> CaptureLines(const CaptureInfo& capture, bool one_capture);
bool OneCapture(const std::vector<InputRow>& inputs);
// Active devices, busiest first; the idle ones on a line of their own.
Section DeviceSection(const Report& report, const OutputOptions& options, size_t most);

struct DiagnosticLine {
  std::string severity;  // "info", "warning", "error"
  std::string text;      // with the count and the first place
};
// Errors, then warnings; infos where `infos` or where there is nothing else.
std::vector<DiagnosticLine> DiagnosticLines(const std::vector<DiagnosticRow>& rows, bool infos);

// sections_functions.cc. Rows past `most` are told of in a note.
// For the report: combined rows where several devices ran functions, and the rows of
// each device for functions that have no combined time.
Section OverviewSection(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options, size_t most);
// Shares are of `all`, shown or not; how many are not is a note.
Section FunctionSection(const std::vector<const FunctionRow*>& rows,
                        const std::vector<FunctionRow>& all, std::string_view what,
                        const OutputOptions& options);
Section VariantSection(const Report& report, const OrderedReport& rows,
                       const OutputOptions& options);
Section SampleSection(const std::vector<SampleRow>& samples, const OutputOptions& options);

// sections_kernels.cc. For the report: one row a kernel and function over all programs
// and devices.
std::vector<KernelRow> MergeKernels(const std::vector<KernelRow>& rows);
Section TopKernelSection(const std::vector<const KernelRow*>& merged, const OutputOptions& options,
                         size_t most);
// Of `all` kernels; how many are not in `rows` is a note.
Section KernelSection(const std::vector<const KernelRow*>& rows, size_t all,
                      const OutputOptions& options);

// sections_tree.cc. One section a device and line.
std::vector<Section> TreeSections(const TreeReport& report, const OutputOptions& options);
std::vector<Section> PlaneSections(const PlanesReport& report, const OutputOptions& options);

// Columns for the builders. `drop` as in Column.
Column TextColumn(std::string header, std::vector<std::string> cells);
Column NameColumn(std::string header, std::vector<std::string> cells, size_t flex_width);
Column NumberColumn(std::string header, std::vector<std::string> cells, int drop = 0);
// The header gets the unit: "median us".
Column TimesColumn(const std::string& header, const std::vector<std::optional<double>>& values_ps,
                   Unit unit, int drop = 0);
// False where all cells are equal: the column says nothing.
bool Varies(const std::vector<std::string>& cells);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_SECTIONS_H_
