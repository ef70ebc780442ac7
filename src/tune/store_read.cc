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
    "(SELECT verdict_json FROM verdict v WHERE v.session = s.id ORDER BY id DESC LIMIT 1) "
    "FROM session s ";

TuneKey KeyAt(const Statement& row, int column) {
  return {row.Text(column),     row.Text(column + 1), row.Text(column + 2), row.Text(column + 3),
          row.Text(column + 4), row.Text(column + 5), row.Text(column + 6), row.Text(column + 7)};
}

SessionInfo SessionAt(const Statement& row) {
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
  info.verdict_json = row.OptionalText(16);
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
    out.push_back(SessionAt(*rows));
  }
}

absl::StatusOr<SessionInfo> TuneStore::Session(int64_t id) const {
  auto rows = impl_->db.Prepare(absl::StrCat(kSessionColumns, "WHERE s.id = ?").c_str());
  if (!rows.ok()) return rows.status();
  const auto row = rows->Bind(1, id).Step();
  if (!row.ok()) return row.status();
  if (*row) return SessionAt(*rows);
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
      "SELECT variant, params_json, mem_bytes FROM variant WHERE session = ? ORDER BY id");
  if (!rows.ok()) return rows.status();
  rows->Bind(1, session);
  std::vector<Configuration> out;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return out;
    out.push_back({rows->Text(0), rows->Text(1), rows->OptionalInt(2)});
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
      "objective, v.variant, v.params_json, v.mem_bytes, claim, verdict_json, recorded_unix_s "
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
  }
  if (entries.empty() && only_session.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": session ", *only_session,
                     " has decided nothing; tune --resume goes on, tune show lists the others"));
  }
  return TunedTable(std::move(entries), std::move(fallbacks));
}

absl::Status TuneStore::Check() const {
  auto check = impl_->db.Prepare("PRAGMA integrity_check(1)");
  if (!check.ok()) return check.status();
  const auto row = check->Step();
  if (!row.ok()) return row.status();
  if (const std::string found = check->Text(0); found != "ok") {
    return absl::DataLossError(absl::StrCat(path(), ": the store is damaged: ", found,
                                            "; sqlite3's .recover saves what is left"));
  }
  const auto sessions = Sessions();
  if (!sessions.ok()) return sessions.status();
  for (const SessionInfo& session : *sessions) {
    const absl::Status status = VisitRounds(session.id, [](const RoundRecord&) { return true; });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace tune {

// Bytes of a round whose change must show: numbers as text, texts with their lengths.
uint32_t RoundChecksum(const RoundRecord& round) {
  std::string bytes = absl::StrCat(round.batch, ",", round.round, ",", round.discarded ? 1 : 0, ",",
                                   round.notes_json.size(), ":", round.notes_json);
  const auto optional = [](const std::optional<int64_t>& value) {
    return value.has_value() ? absl::StrCat(*value) : std::string("-");
  };
  for (const SampleRecord& s : round.samples) {
    absl::StrAppend(&bytes, ";", s.variant.size(), ":", s.variant, ",", s.slot, ",",
                    s.status.size(), ":", s.status, ",", optional(s.t_ps), ",",
                    optional(s.energy_uj));
    for (const WorkloadSample& own : s.workloads) {
      absl::StrAppend(&bytes, "/", own.workload.size(), ":", own.workload, ",", own.status.size(),
                      ":", own.status, ",", optional(own.t_ps), ",", optional(own.energy_uj));
    }
  }
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace tune
}  // namespace xplane_time
