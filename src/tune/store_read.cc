// The reading half of TuneStore.
#include <zlib.h>

#include <bit>

#include "absl/strings/str_cat.h"
#include "tune/space_json.h"
#include "tune/store_impl.h"

namespace xplane_time {
namespace {

using tune::Json;
using tune::Statement;

constexpr const char* kSessionColumns =
    "SELECT s.id, workload, device_class, driver, framework, flags, code_hash, protocol_hash, "
    "objective, space_hash, config_json, seed, device, started_unix_s, "
    "(SELECT count(*) FROM round r WHERE r.session = s.id AND r.samples > 0), "
    "(SELECT coalesce(sum(samples), 0) FROM round r WHERE r.session = s.id), "
    "s.crc32, v.pick, v.claim, v.verdict_json, v.recorded_unix_s, v.crc32 "
    "FROM session s LEFT JOIN verdict v "
    "ON v.id = (SELECT max(id) FROM verdict WHERE session = s.id) ";

TuneKey KeyAt(const Statement& row, int column) {
  return {row.Text(column),     row.Text(column + 1), row.Text(column + 2), row.Text(column + 3),
          row.Text(column + 4), row.Text(column + 5), row.Text(column + 6), row.Text(column + 7)};
}

// Damage to the file that SQLite cannot see. Rows of version 1 have no checksum.
absl::Status CheckRow(const std::string& path, int64_t session, absl::string_view what,
                      const std::optional<int64_t>& stored, uint32_t computed) {
  if (stored.value_or(computed) == int64_t{computed}) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": session ", session, ": ", what,
                                          " does not have its checksum; the file was damaged "
                                          "after it was written"));
}

absl::StatusOr<SessionInfo> SessionAt(const Statement& row, const std::string& path) {
  SessionInfo info;
  info.id = row.Int(0);
  info.key = KeyAt(row, 1);
  info.space_hash = row.Text(9);
  info.config_json = row.Text(10);
  info.seed = std::bit_cast<uint64_t>(row.Int(11));
  info.device = row.Text(12);
  info.started_unix_s = row.Int(13);
  info.rounds = static_cast<uint64_t>(row.Int(14));
  info.samples = static_cast<uint64_t>(row.Int(15));
  info.verdict_json = row.OptionalText(19);
  const uint32_t own = tune::SessionChecksum(info.key, info.space_hash, info.config_json, info.seed,
                                             info.device, info.started_unix_s);
  auto status = CheckRow(path, info.id, "its key or rule", row.OptionalInt(16), own);
  if (status.ok() && info.verdict_json.has_value()) {
    status = CheckRow(
        path, info.id, "its verdict", row.OptionalInt(21),
        tune::VerdictChecksum(row.Text(17), row.Text(18), *info.verdict_json, row.Int(20)));
  }
  if (!status.ok()) return status;
  return info;
}

// What evidence remains of a verdict: all but its lists, which grow with the space.
std::string Evidence(const std::string& verdict_json) {
  const auto verdict = tune::ParseJson(verdict_json, "");
  Json out = Json::object();
  if (!verdict.ok() || !verdict->is_object()) return out.dump();
  for (const auto& [name, value] : verdict->items()) {
    if (!value.is_array() && name != "ratios" && name != "p_best") out[name] = value;
  }
  return tune::CanonicalJson(out);
}

}  // namespace

absl::StatusOr<std::vector<SessionInfo>> TuneStore::Sessions() const {
  auto rows = impl_->db.Prepare(absl::StrCat(kSessionColumns, "ORDER BY s.id").c_str());
  if (!rows.ok()) return rows.status();
  std::vector<SessionInfo> out;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return out;
    auto info = SessionAt(*rows, path());
    if (!info.ok()) return info.status();
    out.push_back(*std::move(info));
  }
}

absl::StatusOr<SessionInfo> TuneStore::Session(int64_t id) const {
  auto rows = impl_->db.Prepare(absl::StrCat(kSessionColumns, "WHERE s.id = ?").c_str());
  if (!rows.ok()) return rows.status();
  const auto row = rows->Bind(1, id).Step();
  if (!row.ok()) return row.status();
  if (*row) return SessionAt(*rows, path());
  return absl::NotFoundError(
      absl::StrCat(path(), ": no session ", id, "; tune show lists those that there are"));
}

namespace {

// One whose sample is missing is left out: then the checksum does not agree.
absl::Status ReadWorkloads(int64_t round_id, Statement* rows, RoundRecord* round) {
  rows->Reset();
  rows->Bind(1, round_id);
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    const int64_t place = rows->Int(0);
    if (place < 0 || place >= static_cast<int64_t>(round->samples.size())) continue;
    round->samples[static_cast<size_t>(place)].workloads.push_back(
        {rows->Text(1), rows->Text(2), rows->OptionalInt(3), rows->OptionalInt(4)});
  }
}

}  // namespace

absl::Status TuneStore::VisitRounds(int64_t session,
                                    absl::FunctionRef<bool(const RoundRecord&)> visit) const {
  auto rounds = impl_->db.Prepare(
      "SELECT id, batch, round, discarded, notes_json, samples, crc32 FROM round "
      "WHERE session = ? ORDER BY id");
  if (!rounds.ok()) return rounds.status();
  auto samples = impl_->db.Prepare(
      "SELECT v.variant, slot, status, t_ps, energy_uj FROM sample s "
      "LEFT JOIN variant v ON v.id = s.variant WHERE s.round = ? ORDER BY place");
  if (!samples.ok()) return samples.status();
  auto workloads = impl_->db.Prepare(
      "SELECT place, workload, status, t_ps, energy_uj FROM workload_sample WHERE round = ? "
      "ORDER BY place, part");
  if (!workloads.ok()) return workloads.status();
  rounds->Bind(1, session);
  for (;;) {
    const auto row = rounds->Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    RoundRecord round = {rounds->Int(1), rounds->Int(2), rounds->Int(3) != 0, rounds->Text(4), {}};
    samples->Reset();
    samples->Bind(1, rounds->Int(0));
    for (;;) {
      const auto sample = samples->Step();
      if (!sample.ok()) return sample.status();
      if (!*sample) break;
      round.samples.push_back({samples->Text(0),
                               static_cast<int32_t>(samples->Int(1)),
                               samples->Text(2),
                               samples->OptionalInt(3),
                               samples->OptionalInt(4),
                               {}});
    }
    if (auto s = ReadWorkloads(rounds->Int(0), &*workloads, &round); !s.ok()) return s;
    if (int64_t{tune::RoundChecksum(round)} != rounds->Int(6)) {
      return absl::DataLossError(absl::StrCat(
          path(), ": session ", session, ": round ", round.round, " of batch ", round.batch,
          " does not have its checksum; the file was damaged after it was written"));
    }
    if (!visit(round)) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<RoundRecord>> TuneStore::ReadRounds(int64_t session) const {
  std::vector<RoundRecord> out;
  const absl::Status status =
      VisitRounds(session, [&](const RoundRecord& round) { return out.push_back(round), true; });
  if (!status.ok()) return status;
  return out;
}

absl::StatusOr<std::vector<Configuration>> TuneStore::ReadVariants(int64_t session) const {
  auto rows = impl_->db.Prepare(
      "SELECT variant, params_json, mem_bytes, crc32 FROM variant WHERE session = ? ORDER BY id");
  if (!rows.ok()) return rows.status();
  rows->Bind(1, session);
  std::vector<Configuration> out;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return out;
    out.push_back({rows->Text(0), rows->Text(1), rows->OptionalInt(2)});
    auto status = CheckRow(path(), session, absl::StrCat("the variant \"", out.back().id, "\""),
                           rows->OptionalInt(3), tune::VariantChecksum(out.back()));
    if (!status.ok()) return status;
  }
}

absl::StatusOr<TunedTable> TuneStore::Tuned(std::vector<Fallback> fallbacks,
                                            std::optional<int64_t> only_session) const {
  if (only_session.has_value()) {
    if (auto info = Session(*only_session); !info.ok()) return info.status();
  }
  // One that was stopped, or ran out of its budget, says nothing: what was decided stays.
  auto rows = impl_->db.Prepare(
      "SELECT workload, device_class, driver, framework, flags, code_hash, protocol_hash, "
      "objective, v.variant, v.params_json, v.mem_bytes, claim, verdict_json, recorded_unix_s, "
      "s.id, v.crc32, d.crc32 "
      "FROM verdict d JOIN session s ON s.id = d.session "
      "JOIN variant v ON v.session = s.id AND v.variant = d.pick "
      "WHERE (?1 IS NULL OR s.id = ?1) AND d.id = (SELECT max(id) FROM verdict "
      "WHERE session = s.id AND claim IN ('winner', 'pick', 'tie')) ORDER BY d.id");
  if (!rows.ok()) return rows.status();
  rows->Bind(1, only_session);
  std::vector<TunedEntry> entries;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    entries.push_back({KeyAt(*rows, 0),
                       {rows->Text(8), rows->Text(9), rows->OptionalInt(10)},
                       rows->Text(11),
                       Evidence(rows->Text(12)),
                       rows->Int(13)});
    const TunedEntry& entry = entries.back();
    auto status = CheckRow(path(), rows->Int(14), "the variant that it picked",
                           rows->OptionalInt(15), tune::VariantChecksum(entry.configuration));
    if (status.ok()) {
      status = CheckRow(path(), rows->Int(14), "its verdict", rows->OptionalInt(16),
                        tune::VerdictChecksum(entry.configuration.id, entry.claim, rows->Text(12),
                                              entry.recorded_unix_s));
    }
    if (!status.ok()) return status;
  }
  if (entries.empty() && only_session.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": session ", *only_session,
                     " has decided nothing; tune --resume goes on, tune show lists the others"));
  }
  return TunedTable(std::move(entries), std::move(fallbacks));
}

absl::Status TuneStore::CheckFile() const {
  auto check = impl_->db.Prepare("PRAGMA integrity_check(1)");
  if (!check.ok()) return check.status();
  const auto row = check->Step();
  if (!row.ok()) return row.status();
  if (const std::string found = check->Text(0); found != "ok") {
    return absl::DataLossError(absl::StrCat(path(), ": the store is damaged: ", found,
                                            "; sqlite3's .recover saves what is left"));
  }
  return absl::OkStatus();
}

absl::Status TuneStore::CheckRows(std::optional<int64_t> only_session) const {
  std::vector<int64_t> ids;
  if (only_session.has_value()) {
    if (const auto info = Session(*only_session); !info.ok()) return info.status();
    ids.push_back(*only_session);
  } else {
    const auto sessions = Sessions();
    if (!sessions.ok()) return sessions.status();
    for (const SessionInfo& each : *sessions) ids.push_back(each.id);
  }
  for (const int64_t id : ids) {
    if (const auto variants = ReadVariants(id); !variants.ok()) return variants.status();
    const absl::Status status = VisitRounds(id, [](const RoundRecord&) { return true; });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TuneStore::Check() const {
  if (auto s = CheckFile(); !s.ok()) return s;
  return CheckRows();
}

namespace tune {

namespace {

std::string OrDash(const std::optional<int64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : std::string("-");
}

uint32_t Crc32(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// BYTES:TEXT and a comma each.
std::string Framed(std::initializer_list<std::string_view> texts) {
  std::string out;
  for (const std::string_view text : texts) {
    absl::StrAppend(&out, text.size(), ":", std::string(text), ",");
  }
  return out;
}

}  // namespace

// What is written of a row, so that its change shows: numbers as text, texts with their lengths.
uint32_t RoundChecksum(const RoundRecord& round) {
  std::string bytes = absl::StrCat(round.batch, ",", round.round, ",", round.discarded ? 1 : 0, ",",
                                   round.notes_json.size(), ":", round.notes_json);
  for (const SampleRecord& s : round.samples) {
    absl::StrAppend(&bytes, ";", s.variant.size(), ":", s.variant, ",", s.slot, ",",
                    s.status.size(), ":", s.status, ",", OrDash(s.t_ps), ",", OrDash(s.energy_uj));
    for (const WorkloadSample& own : s.workloads) {
      absl::StrAppend(&bytes, "/", own.workload.size(), ":", own.workload, ",", own.status.size(),
                      ":", own.status, ",", OrDash(own.t_ps), ",", OrDash(own.energy_uj));
    }
  }
  return Crc32(bytes);
}

uint32_t VariantChecksum(const Configuration& variant) {
  return Crc32(Framed({variant.id, variant.params_json, OrDash(variant.mem_bytes)}));
}

uint32_t SessionChecksum(const TuneKey& key, std::string_view space_hash,
                         std::string_view config_json, uint64_t seed, std::string_view device,
                         int64_t started_unix_s) {
  return Crc32(Framed({key.workload, key.device_class, key.driver, key.framework, key.flags,
                       key.code_hash, key.protocol_hash, key.objective, space_hash, config_json,
                       absl::StrCat(seed), device, absl::StrCat(started_unix_s)}));
}

uint32_t VerdictChecksum(std::string_view pick, std::string_view claim,
                         std::string_view verdict_json, int64_t recorded_unix_s) {
  return Crc32(Framed({pick, claim, verdict_json, absl::StrCat(recorded_unix_s)}));
}

}  // namespace tune
}  // namespace xplane_time
