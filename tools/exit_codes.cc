#include "exit_codes.h"

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "output/text.h"

namespace xplane_time::tools {
namespace {

constexpr char kPayload[] = "xplane-time/exit-code";

int ExitOfKind(absl::StatusCode kind) {
  switch (kind) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNoInput;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      return kExitBadTrace;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
      return kExitIo;
    default:
      return kExitBug;
  }
}

int ExitOf(const absl::Status& error) {
  int exit_code = 0;
  const auto own = error.GetPayload(kPayload);
  if (own.has_value() && absl::SimpleAtoi(std::string(*own), &exit_code)) return exit_code;
  return ExitOfKind(error.code());
}

}  // namespace

absl::Status WithExit(absl::Status error, int exit_code) {
  if (!error.ok() && !error.GetPayload(kPayload).has_value()) {
    error.SetPayload(kPayload, absl::Cord(absl::StrCat(exit_code)));
  }
  return error;
}

absl::Status WithExits(absl::Status status, Exits exits) {
  for (const auto& [kind, exit_code] : exits) {
    if (status.code() == kind) return WithExit(std::move(status), exit_code);
  }
  return status;
}

int Fail(const absl::Status& error) {
  const int exit_code = ExitOf(error);
  if (exit_code == 0) return 0;
  const std::string message(error.message());
  // A harness's traceback is told as it was printed.
  const bool traceback = absl::StrContains(message, "Traceback (most recent call last)");
  const std::string shown =
      traceback ? output::PrintableLines(message, 2) : output::Printable(message);
  std::fprintf(stderr, "xplane-time: %s\n", shown.c_str());
  return exit_code;
}

}  // namespace xplane_time::tools
