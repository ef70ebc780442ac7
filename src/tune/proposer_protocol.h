// What driver and proposer say to each other: docs/space.md, as structs.
//
// Pure: texts to structs and back. An answer that does not fit is InvalidArgument that
// quotes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/space.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// Lines, without their end. `told`: results that come before the first `ask`.
std::string ProposerHello(const SearchSpace& space, uint64_t seed, size_t told);
std::string AskRequest(int64_t request, uint64_t count);
// Which of the proposals it was.
struct Proposal {
  int64_t request = 0;
  size_t index = 0;
};
struct Told {
  std::string id;  // empty: refused, no point of the space
  std::string params_json;
  std::string status;
  std::optional<double> value = {};
  std::string message = {};
  bool repeated = false;
  std::optional<Proposal> proposal = {};  // none: it was not proposed by this process
};
std::string TellRequest(const Told& told);
std::string ProposerBye();

absl::Status ParseProposerHello(std::string_view line);
// Objects of parameters. Errors: InvalidArgument, also where there are more than `most`.
absl::StatusOr<std::vector<std::string>> ParseProposals(std::string_view line, int64_t request,
                                                        uint64_t most);

}  // namespace xplane_time
