// The energy for a token and for a second of answering, over all records of a run.
//
//   EnergyRates rates;
//   rates.Add(record);     // a line of records.jsonl
//   rates.ToJson();
//   // {"gpu": {"joules_per_output_token": {"value", "known", "unknown"}, ...}
//
// A rate is a sum of energies over the sum of their tokens or seconds, for the records that have
// both. So a long answer counts more than a short one. Failed records are excluded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "json/json.h"

namespace xplane_time::power {

class EnergyRates {
 public:
  void Add(const json::Json& record);
  json::Json ToJson() const;

 private:
  struct Rate {
    double joules = 0, of = 0;
    uint64_t known = 0, unknown = 0;
  };
  // For GPUs, for processors and for everything that counts; by input, output and all tokens, and
  // by time.
  std::array<std::array<Rate, 4>, 3> rates_ = {};
};

}  // namespace xplane_time::power
