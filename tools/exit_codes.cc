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

constexpr std::pair<absl::StatusCode, int> kUsual[] = {
    {absl::StatusCode::kInvalidArgument, kExitUsage},
    {absl::StatusCode::kNotFound, kExitNoInput},
    {absl::StatusCode::kDataLoss, kExitBadTrace},
    {absl::StatusCode::kFailedPrecondition, kExitBadTrace},
    {absl::StatusCode::kResourceExhausted, kExitBadTrace},
    {absl::StatusCode::kPermissionDenied, kExitIo},
    {absl::StatusCode::kUnavailable, kExitIo}};

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
  int exit_code = kExitBug;
  const auto own = WithExits(error, kUsual).GetPayload(kPayload);
  if (own.has_value() && !absl::SimpleAtoi(std::string(*own), &exit_code)) return kExitBug;
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
