// What the writing and the reading half of TuneStore share.
#ifndef XPLANE_TIME_SRC_TUNE_STORE_IMPL_H_
#define XPLANE_TIME_SRC_TUNE_STORE_IMPL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tune/store_sqlite.h"
#include "xplane_time/store.h"

namespace xplane_time {

struct TuneStore::Impl {
  tune::Database db;
  bool writable = true;
  // Prepared when first used.
  std::optional<tune::Statement> insert_round = {}, find_round = {}, find_variant = {},
                                 insert_sample = {}, insert_workload = {};

  absl::StatusOr<tune::Statement*> Prepared(std::optional<tune::Statement>* slot, const char* sql) {
    if (!slot->has_value()) {
      auto prepared = db.Prepare(sql);
      if (!prepared.ok()) return prepared.status();
      slot->emplace(*std::move(prepared));
    }
    (*slot)->Reset();
    return &**slot;
  }

  absl::StatusOr<FileLock> Lock(const std::string& name, const std::string& what) const;
  absl::StatusOr<std::optional<int64_t>> FindSession(const SessionSpec& spec) const;
  absl::StatusOr<int64_t> InsertSession(const SessionSpec& spec) const;
  absl::Status NoteLease(const std::string& name) const;
  absl::StatusOr<int64_t> VariantRow(const TuneSession& session, const std::string& id);
  absl::Status InsertSamples(const TuneSession& session, int64_t round_id,
                             const RoundRecord& round);
  absl::Status InsertWorkloads(int64_t round_id, int64_t place, const SampleRecord& sample);
  absl::StatusOr<Appended> Repeated(const TuneSession& session, const RoundRecord& round);
  absl::Status Insert(const TuneSession& session, const RoundRecord& round, Appended* appended);
};

namespace tune {

// CRC-32 of what a round says: damage to the file that SQLite cannot see changes it.
uint32_t RoundChecksum(const RoundRecord& round);
uint32_t VariantChecksum(const Configuration& variant);
uint32_t SessionChecksum(const TuneKey& key, std::string_view space_hash,
                         std::string_view config_json, uint64_t seed, std::string_view device,
                         int64_t started_unix_s);
uint32_t VerdictChecksum(std::string_view pick, std::string_view claim,
                         std::string_view verdict_json, int64_t recorded_unix_s);

}  // namespace tune
}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_STORE_IMPL_H_
