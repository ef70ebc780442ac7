// Page: lines of a table that fit a width, with colours where they are asked for. Only a number
// that is wider by itself sticks out; with OutputOptions::wide everything may.
#ifndef XPLANE_TIME_SRC_OUTPUT_PAGE_H_
#define XPLANE_TIME_SRC_OUTPUT_PAGE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "output/sections.h"

namespace xplane_time::output {

// ANSI sequences, for Page::Line.
inline constexpr char kDim[] = "\x1b[2m", kBold[] = "\x1b[1m", kRed[] = "\x1b[31m",
                      kYellow[] = "\x1b[33m", kGreen[] = "\x1b[32m";

// Collects lines that fit the width.
class Page {
 public:
  static constexpr size_t kDiagnostics = 8;

  explicit Page(const OutputOptions& options);

  size_t lines() const;
  std::string Take() && { return std::move(text_); }

  // Broken at spaces where it does not fit.
  void Line(std::string_view text, const char* style = nullptr);
  // Broken at spaces; several of them become one.
  void Wrapped(std::string_view text, const char* style = nullptr);
  // With a blank line before it, and a note that names columns that did not fit.
  void Add(const Section& section);
  void AddDiagnostics(const std::vector<DiagnosticRow>& rows, bool or_infos,
                      size_t most = kDiagnostics);

 private:
  void Put(std::string_view shown, const char* style);  // as it is
  void AddDiagnostic(const DiagnosticLine& line);

  const OutputOptions& options_;
  const Signs signs_;
  const size_t width_;
  std::string text_;
};

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_PAGE_H_
