// A summary as a file: a protobuf message whose schema is in docs/fleet.md.
//
// The first field is the version. The last fields are the number of rows and a checksum, so a
// truncated file is detected. Visit lists the fields of each message once; an Encoder or a Decoder
// is passed through it. The Decoder checks all values and reports the byte of the first impossible
// one. Merging summaries that come from elsewhere is therefore safe. Linear in the bytes.
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "fleet/rows.h"
#include "io/whole_file.h"
#include "read/wire.h"
#include "read/wire_writer.h"
#include "status.h"
#include "xplane_time/normalize.h"

namespace xplane_time {
namespace {

constexpr std::string_view kFormat = "xplane-time.summary.v1";
// Fields of the message itself.
enum Part : uint32_t {
  kVersion = 1,
  kBy = 2,
  kOption = 3,
  kCapture = 4,
  kFailure = 5,
  kDiagnostic = 6,
  kName = 7,
  kDevice = 8,
  kFunction = 9,
  kKernel = 10,
  kSteps = 11,
  kCollective = 12,
  kMeetings = 13,
  kEnd = 15,
  kChecksum = 16,  // CRC-32 of all bytes before it
};

class Encoder {
 public:
  explicit Encoder(WireWriter* out) : out_(out) {}

  void Id(uint32_t number, const NameId* id) { Count(number, id); }
  template <typename Unsigned>
  void Count(uint32_t number, const Unsigned* count) {
    if (*count != 0) out_->AddVarint(number, *count);
  }
  template <typename Enum>
  void Choice(uint32_t number, const Enum* choice, Enum /*last*/) {
    if (const auto bits = static_cast<uint64_t>(*choice); bits != 0) out_->AddVarint(number, bits);
  }
  void Text(uint32_t number, const std::string* text) {
    if (!text->empty()) out_->AddText(number, *text);
  }
  template <typename Whole>
  void Maybe(uint32_t number, const std::optional<Whole>* value) {
    if (value->has_value()) out_->AddVarint(number, static_cast<uint64_t>(**value));
  }
  void Sum(uint32_t number, const Int128* sum) {
    const auto low = static_cast<uint64_t>(*sum), high = static_cast<uint64_t>(*sum >> 64);
    if (low != 0) out_->AddVarint(number, low);
    if (high != 0) out_->AddVarint(number + 1, high);
  }
  void Time(uint32_t number, const TimeSum* time);
  void Ascending(uint32_t number, const CaptureCentres* values) {
    if (values->empty()) return;
    int64_t last = 0;
    out_->AddMessage(number, [&] {
      for (const int64_t value : *values) {
        out_->AddVarint(1, static_cast<uint64_t>(value - std::exchange(last, value)));
      }
    });
  }
  void Signed(uint32_t number, const int64_t* value) {
    if (*value != 0) out_->AddVarint(number, static_cast<uint64_t>(*value));
  }
  void Times(uint32_t number, const std::vector<int64_t>* values) {
    if (values->empty()) return;
    out_->AddMessage(number, [&] {
      for (const int64_t value : *values) out_->AddVarint(1, static_cast<uint64_t>(value));
    });
  }
  void Buckets(uint32_t number, const DurationHistogram* durations) {
    if (durations->buckets().empty()) return;
    uint16_t last = 0;
    out_->AddMessage(number, [&] {
      for (const auto& [bucket, count] : durations->buckets()) {
        out_->AddVarint(1, static_cast<uint64_t>(bucket - std::exchange(last, bucket)));
        out_->AddVarint(2, count);
      }
    });
  }

 private:
  WireWriter* const out_;
};

// Reads a field if it has the requested number; records impossible values.
class Decoder {
 public:
  // `message` is the offset of the message.
  Decoder(const WireField& field, uint64_t message, size_t names, Damage* damage)
      : field_(field), message_(message), names_(names), damage_(damage) {}
  bool ok() const { return ok_; }

  void Id(uint32_t number, NameId* id) {
    if (field_.key() != Varint(number)) return;
    if (field_.bits >= names_) return Refuse("a name that does not exist");
    *id = static_cast<NameId>(field_.bits);
  }
  template <typename Unsigned>
  void Count(uint32_t number, Unsigned* count) {
    if (field_.key() != Varint(number)) return;
    if (field_.bits > std::numeric_limits<Unsigned>::max())
      return Refuse("a count that is too large");
    *count = static_cast<Unsigned>(field_.bits);
  }
  template <typename Enum>
  void Choice(uint32_t number, Enum* choice, Enum last) {
    if (field_.key() != Varint(number)) return;
    if (field_.bits > static_cast<uint64_t>(last))
      return Refuse("an enum value that this version does not support");
    *choice = static_cast<Enum>(field_.bits);
  }
  void Text(uint32_t number, std::string* text) {
    if (field_.key() == Length(number)) *text = field_.bytes;
  }
  template <typename Whole>
  void Maybe(uint32_t number, std::optional<Whole>* value) {
    if (field_.key() != Varint(number)) return;
    if (field_.bits > uint64_t{std::numeric_limits<Whole>::max()})
      return Refuse("a time that is too large");
    *value = static_cast<Whole>(field_.bits);
  }
  void Sum(uint32_t number, Int128* sum) {
    constexpr Int128 kLow = std::numeric_limits<uint64_t>::max();
    if (field_.key() == Varint(number)) *sum = (*sum & ~kLow) | Int128{field_.bits};
    if (field_.key() != Varint(number + 1)) return;
    if (field_.bits > uint64_t{std::numeric_limits<int64_t>::max()})
      return Refuse("a sum that is too large");
    *sum = (*sum & kLow) | (Int128{field_.bits} << 64);
  }
  void Time(uint32_t number, TimeSum* time);
  void Ascending(uint32_t number, CaptureCentres* values) {
    if (field_.key() != Length(number)) return;
    int64_t last = 0;
    ReadAll([&](const WireField& each) {
      if (each.key() != Varint(1)) return;
      if (each.bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() - last)) {
        return Refuse("a time that is too large");
      }
      values->push_back(last += each.whole());
    });
  }
  void Signed(uint32_t number, int64_t* value) {
    if (field_.key() == Varint(number)) *value = field_.whole();
  }
  void Times(uint32_t number, std::vector<int64_t>* values) {
    if (field_.key() != Length(number)) return;
    ReadAll([&](const WireField& each) {
      if (each.key() != Varint(1)) return;
      if (each.bits > kAxisLimitPs) return Refuse("a time that is too large");
      values->push_back(each.whole());
    });
  }
  void Buckets(uint32_t number, DurationHistogram* durations) {
    if (field_.key() != Length(number)) return;
    uint64_t bucket = 0;
    ReadAll([&](const WireField& each) {
      if (each.key() == Varint(1)) {
        if (each.bits >= DurationHistogram::kBuckets - bucket)
          return Refuse("a time that is too large");
        bucket += each.bits;
      }
      if (each.key() == Varint(2)) durations->Add(static_cast<uint16_t>(bucket), each.bits);
    });
  }

 private:
  void Refuse(const char* why) {
    if (std::exchange(ok_, false)) *damage_ = {message_, why};
  }
  template <typename OnField>
  void ReadAll(OnField on_field) {
    ok_ &= ReadMessage(field_, 2, damage_, [&](const WireField& each) {
      on_field(each);
      return ok_;
    });
  }

  const WireField& field_;
  const uint64_t message_;
  const size_t names_;
  Damage* const damage_;
  bool ok_ = true;
};

// The fields of each message, by number. A sum uses two numbers. `row` is const when writing.
template <typename Codec>
void Visit(Codec* codec, auto* row) requires
    std::is_same_v<std::remove_const_t<std::remove_pointer_t<decltype(row)>>, TimeSum> {
  codec->Count(1, &row->count);
  codec->Sum(2, &row->total_ps);
  codec->Maybe(4, &row->min_ps);
  codec->Maybe(5, &row->max_ps);
  codec->Buckets(6, &row->durations);
}
template <typename Row, typename Wanted>
concept Is = std::is_same_v<std::remove_const_t<Row>, Wanted>;

template <typename Codec, Is<FleetDevice> Row>
void Visit(Codec* codec, Row* row) {
  codec->Id(1, &row->host);
  codec->Id(2, &row->device);
  codec->Id(3, &row->model);
  codec->Choice(4, &row->kind, DeviceKind::kCustom);
  codec->Count(5, &row->captures);
  codec->Count(6, &row->executions);
  codec->Sum(7, &row->busy_ps);
  codec->Sum(9, &row->span_ps);
  codec->Sum(11, &row->compute_ps);
  codec->Sum(13, &row->collective_exposed_ps);
  codec->Sum(15, &row->copy_exposed_ps);
  codec->Sum(17, &row->other_ps);
  codec->Sum(19, &row->idle_ps);
}
template <typename Codec, Is<FleetFunction> Row>
void Visit(Codec* codec, Row* row) {
  codec->Id(1, &row->host);
  codec->Id(2, &row->device);
  codec->Id(3, &row->model);
  codec->Id(4, &row->function);
  codec->Choice(5, &row->is_range, true);
  codec->Count(6, &row->runs);
  codec->Count(7, &row->left_out);
  codec->Time(8, &row->active);
  codec->Sum(9, &row->span_ps);
  codec->Ascending(11, &row->centres_ps);
  codec->Ascending(12, &row->own.own_ps);
  codec->Ascending(13, &row->own.busy_ps);
  codec->Count(14, &row->own.captures_with_collectives);
}
template <typename Codec, Is<FleetKernel> Row>
void Visit(Codec* codec, Row* row) {
  codec->Id(1, &row->host);
  codec->Id(2, &row->device);
  codec->Id(3, &row->kernel);
  codec->Id(4, &row->function);
  codec->Choice(5, &row->category, Category::kOther);
  codec->Time(6, &row->time);
  codec->Count(7, &row->self_known);
  codec->Count(8, &row->captures);
  codec->Sum(9, &row->self_ps);
}
template <typename Codec, Is<FleetSteps> Row>
void Visit(Codec* codec, Row* row) {
  codec->Id(1, &row->host);
  codec->Id(2, &row->device);
  codec->Id(3, &row->model);
  codec->Time(4, &row->span);
  codec->Sum(5, &row->compute_ps);
  codec->Sum(7, &row->collective_exposed_ps);
  codec->Sum(9, &row->copy_exposed_ps);
  codec->Sum(11, &row->other_ps);
  codec->Sum(13, &row->idle_ps);
  codec->Ascending(15, &row->centres_ps);
  codec->Ascending(16, &row->own.own_ps);
  codec->Ascending(17, &row->own.busy_ps);
  codec->Count(18, &row->own.captures_with_collectives);
}
template <typename Codec, Is<FleetCollective> Row>
void Visit(Codec* codec, Row* row) {
  codec->Id(1, &row->host);
  codec->Id(2, &row->device);
  codec->Id(3, &row->kernel);
  codec->Count(4, &row->count);
  codec->Sum(5, &row->exposed_ps);
  codec->Sum(7, &row->hidden_ps);
  codec->Sum(9, &row->in_flight_ps);
}
template <typename Codec, Is<FleetMeetings> Row>
void Visit(Codec* codec, Row* row) {
  codec->Id(1, &row->host);
  codec->Id(2, &row->device);
  codec->Id(3, &row->kernel);
  codec->Id(4, &row->function);
  codec->Signed(5, &row->base_ns);
  codec->Ascending(6, &row->enters_ps);
  codec->Times(7, &row->lengths_ps);
  codec->Count(8, &row->content);
  codec->Count(9, &row->captures);
}
template <typename Codec, Is<FleetCapture> Row>
void Visit(Codec* codec, Row* row) {
  codec->Text(1, &row->path);
  codec->Text(2, &row->host);
  codec->Count(3, &row->bytes);
  codec->Count(4, &row->events);
  codec->Maybe(5, &row->start_unix_ns);
  codec->Count(6, &row->content);
}
template <typename Codec, Is<FleetFailure> Row>
void Visit(Codec* codec, Row* row) {
  codec->Text(1, &row->path);
  codec->Text(2, &row->message);
}
struct Option {
  std::string name, value;
};
template <typename Codec, Is<Option> Row>
void Visit(Codec* codec, Row* row) {
  codec->Text(1, &row->name);
  codec->Text(2, &row->value);
}
struct DiagnosticCount {
  std::string code, severity;
  uint64_t count = 0;
};
template <typename Codec, Is<DiagnosticCount> Row>
void Visit(Codec* codec, Row* row) {
  codec->Text(1, &row->code);
  codec->Text(2, &row->severity);
  codec->Count(3, &row->count);
}

// Returns null, or why a diagnostic is impossible in any version. A known code determines its
// severity. A later version may have further codes in the same form.
const char* CheckDiagnostic(DiagnosticCount* each) {
  for (size_t i = 0; i < static_cast<size_t>(DiagnosticCode::kCodeCount); ++i) {
    const auto code = static_cast<DiagnosticCode>(i);
    if (DiagnosticName(code) != each->code) continue;
    each->severity = SeverityName(SeverityOf(code));
    return nullptr;
  }
  constexpr size_t kMaxCodeBytes = 64;
  const auto is_of_code = [](char c) { return absl::ascii_islower(c) || c == '_'; };
  if (each->code.empty() || each->code.size() > kMaxCodeBytes ||
      !std::ranges::all_of(each->code, is_of_code)) {
    return "a diagnostic code that is not snake_case";
  }
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
    if (SeverityName(severity) == each->severity) return nullptr;
  }
  return "a severity other than info, warning and error";
}

void Encoder::Time(uint32_t number, const TimeSum* time) {
  if (*time == TimeSum()) return;
  out_->AddMessage(number, [&] { Visit(this, time); });
}

void Decoder::Time(uint32_t number, TimeSum* time) {
  if (field_.key() != Length(number)) return;
  ok_ &= ReadMessage(field_, 2, damage_, [&](const WireField& each) {
    Decoder inner(each, field_.offset, names_, damage_);
    Visit(&inner, time);
    return inner.ok();
  });
  if (ok_ && time->min_ps > time->max_ps) Refuse("a minimum above its maximum");
}

template <typename Row>
void Write(Part part, const Row& row, WireWriter* out) {
  out->AddMessage(part, [&] {
    Encoder encoder(out);
    Visit(&encoder, &row);
  });
}
template <typename Row>
void WriteAll(Part part, const std::vector<Row>& rows, WireWriter* out) {
  for (const Row& row : rows) Write(part, row, out);
}

uint64_t RowsOf(const FleetSummary& summary) {
  return summary.devices.size() + summary.functions.size() + summary.kernels.size() +
         summary.steps.size() + summary.collectives.size() + summary.meetings.size();
}

class Reader {
 public:
  explicit Reader(FleetSummary* summary) : summary_(summary) { summary_->names.clear(); }

  bool Read(const WireField& field) {
    if (field.key() == Varint(kChecksum) && ended_) {
      checksum_ = field.bits;
      return true;
    }
    if (ended_) return Refuse("data after its end");
    if (field.type == WireType::kLength) offset_ = field.offset;
    switch (field.key()) {
      case Length(kBy): {
        auto by = ParseFleetBy(field.bytes);
        if (!by.ok())
          return Refuse("rows separated by a property that this version does not support");
        summary_->by = *by;
        return true;
      }
      case Length(kOption): {
        Option option;
        if (!ReadRow(field, &option)) return false;
        summary_->options[option.name] = option.value;
        return true;
      }
      case Length(kDiagnostic): {
        DiagnosticCount each;
        if (!ReadRow(field, &each)) return false;
        if (const char* const why = CheckDiagnostic(&each)) return Refuse(why);
        summary_->diagnostics[{each.code, each.severity}] = each.count;
        return true;
      }
      case Length(kName):
        summary_->names.emplace_back(field.bytes);
        return true;
      case Length(kCapture):
        return ReadRow(field, &summary_->captures.emplace_back());
      case Length(kFailure):
        return ReadRow(field, &summary_->failures.emplace_back());
      case Length(kDevice):
        return ReadRow(field, &summary_->devices.emplace_back());
      case Length(kFunction):
        return ReadRow(field, &summary_->functions.emplace_back());
      case Length(kKernel):
        return ReadRow(field, &summary_->kernels.emplace_back());
      case Length(kSteps):
        return ReadRow(field, &summary_->steps.emplace_back());
      case Length(kCollective):
        return ReadRow(field, &summary_->collectives.emplace_back());
      case Length(kMeetings): {
        FleetMeetings& row = summary_->meetings.emplace_back();
        if (!ReadRow(field, &row)) return false;
        if (row.enters_ps.size() != row.lengths_ps.size())
          return Refuse("the numbers of starts and ends differ");
        if (row.captures == 0) return Refuse("times of no capture");
        return row.enters_ps.empty() || row.enters_ps.back() <= kAxisLimitPs ||
               Refuse("a time that is too large");
      }
      case Varint(kEnd):
        ended_ = true;
        return field.bits == RowsOf(*summary_) ||
               Refuse("the number of rows differs from the stated one");
      default:
        return true;
    }
  }
  bool ended() const { return ended_ && checksum_.has_value(); }
  // Compares the checksum with that of the bytes before it.
  bool IsAsWritten(std::string_view bytes) const {
    WireWriter own;
    own.AddVarint(kChecksum, *checksum_);
    const size_t size = bytes.size() - std::min(bytes.size(), own.bytes().size());
    return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), size) == *checksum_;
  }
  const Damage& damage() const { return damage_; }
  Damage* mutable_damage() { return &damage_; }

 private:
  bool Refuse(const char* why) {
    damage_ = {offset_, why};
    return false;
  }
  template <typename Row>
  bool ReadRow(const WireField& message, Row* row) {
    return ReadMessage(message, 1, &damage_, [&](const WireField& field) {
      Decoder decoder(field, message.offset, summary_->names.size(), &damage_);
      Visit(&decoder, row);
      return decoder.ok();
    });
  }

  FleetSummary* const summary_;
  Damage damage_;
  uint64_t offset_ = 0;  // of the last field with a length
  bool ended_ = false;
  std::optional<uint64_t> checksum_;
};

}  // namespace

std::string EncodeFleetSummary(const FleetSummary& summary) {
  WireWriter out;
  out.AddText(kVersion, kFormat);
  out.AddText(kBy, FleetByName(summary.by));
  for (const auto& [name, value] : summary.options) Write(kOption, Option{name, value}, &out);
  WriteAll(kCapture, summary.captures, &out);
  WriteAll(kFailure, summary.failures, &out);
  for (const auto& [code, count] : summary.diagnostics) {
    Write(kDiagnostic, DiagnosticCount{code.first, code.second, count}, &out);
  }
  for (const std::string& name : summary.names) out.AddText(kName, name);
  WriteAll(kDevice, summary.devices, &out);
  WriteAll(kFunction, summary.functions, &out);
  WriteAll(kKernel, summary.kernels, &out);
  WriteAll(kSteps, summary.steps, &out);
  WriteAll(kCollective, summary.collectives, &out);
  WriteAll(kMeetings, summary.meetings, &out);
  out.AddVarint(kEnd, RowsOf(summary));
  return fleet::WithChecksum(std::string(out.bytes()));
}

std::string fleet::WithChecksum(std::string bytes) {
  WireWriter checksum;
  checksum.AddVarint(kChecksum,
                     crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return bytes.append(checksum.bytes());
}

bool IsFleetSummary(std::string_view head) {
  constexpr std::string_view kAnyVersion = "xplane-time.summary.v";
  return head.size() > 2 && head[0] == static_cast<char>(Length(kVersion)) &&
         head.substr(2).starts_with(kAnyVersion);
}

std::string fleet::HeadOfSummary(const std::string& path) {
  constexpr size_t kHeadBytes = 64;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::string head = io::ReadFile(path, kHeadBytes).value_or("");
  return IsFleetSummary(head) ? head : "";
}

FleetBy FleetByOf(std::string_view head) {
  FleetBy by;
  Damage cut;  // damage after the head is ignored
  ReadMessage(head, 0, 0, &cut, [&](const WireField& field) {
    if (field.key() != Length(kBy)) return true;
    by = ParseFleetBy(field.bytes).value_or(by);
    return false;
  });
  return by;
}

absl::StatusOr<FleetSummary> DecodeFleetSummary(std::string_view bytes, const std::string& name) {
  if (!IsFleetSummary(bytes)) {
    return DataLoss(name,
                    ": not a summary (byte 0); create one from a trace with xplane-time summarize");
  }
  const size_t version_size = std::min<size_t>(static_cast<uint8_t>(bytes[1]), bytes.size() - 2);
  if (bytes.substr(2, version_size) != kFormat) {
    return DataLoss(name, ": a summary of another version (byte 2); this program supports ",
                    kFormat, "; summarize the traces again");
  }
  FleetSummary summary;
  Reader reader(&summary);
  const bool ok = ReadMessage(bytes, 0, 0, reader.mutable_damage(),
                              [&](const WireField& field) { return reader.Read(field); });
  if (ok && reader.ended() && !reader.IsAsWritten(bytes)) {
    return DataLoss(name, ": damaged summary: wrong checksum (byte ", bytes.size(),
                    "); summarize the traces again, or copy it again");
  }
  if (!ok || !reader.ended() || summary.names.empty() || !summary.names[0].empty()) {
    const Damage damage = ok ? Damage{bytes.size(), "it is truncated"} : reader.damage();
    return DataLoss(name, ": damaged summary: ", damage.why, " (byte ", damage.byte_offset,
                    "); summarize the traces again, or copy it again");
  }
  return summary;
}

}  // namespace xplane_time
