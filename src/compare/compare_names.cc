// What verdicts and outcomes are called.
#include "xplane_time/compare.h"

namespace xplane_time {

std::string_view VerdictName(FunctionVerdict verdict) {
  switch (verdict) {
    case FunctionVerdict::kSame:
      return "same";
    case FunctionVerdict::kFaster:
      return "faster";
    case FunctionVerdict::kSlower:
      return "slower";
    case FunctionVerdict::kCannotTell:
      return "cannot_tell";
    case FunctionVerdict::kTooLittleData:
      return "too_little_data";
    case FunctionVerdict::kOnlyBase:
      return "only_base";
    case FunctionVerdict::kOnlyHead:
      return "only_head";
    case FunctionVerdict::kNotComparable:
      return "not_comparable";
    case FunctionVerdict::kFailed:
      break;
  }
  return "failed";
}

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNoRegression:
      return "no_regression";
    case Outcome::kSlower:
      return "slower";
    case Outcome::kCannotTell:
      return "cannot_tell";
    case Outcome::kTooLittleData:
      return "too_little_data";
    case Outcome::kAllFailed:
      break;
  }
  return "all_failed";
}

}  // namespace xplane_time
