// Memory of the measured process, of its descendants, and of the machine.
//
// A process is identified by its number and its start time, because numbers are reused. Descendants
// are searched with the slow channels, once a second, because the search reads a file of every
// process. Once found, they stay, even if their parent ends. If only children are wanted, each pass
// looks for those of the process's first thread, if the kernel lists them.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "power/reader.h"
#include "status.h"

namespace xplane_time::power {
namespace {

// Fields of /proc/PID/stat.
struct Stat {
  char state = 0;
  int64_t parent = 0, start_ticks = 0;
  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

class ProcessReader : public SensorReader {
 public:
  explicit ProcessReader(const PowerSourceOptions& options)
      : SensorReader("process", /*default_period_ns=*/100'000'000),
        procfs_(options.roots.procfs),
        pid_(options.pid == 0 ? getpid() : options.pid),
        children_only_(options.children_only) {}

  void Find(PowerInventory* inventory) override {
    const FileValue<Stat> stat = ReadStat(pid_);
    if (stat.value && !stat.value->ended()) {
      start_ticks_ = stat.value->start_ticks;
      members_[pid_] = *start_ticks_;
      AddProcess(inventory);
    } else {
      inventory->absences.push_back(AbsenceOfProcess(stat));
    }
    const FileText meminfo = ReadText(procfs_ + "/meminfo", kMostBytes);
    if (meminfo.value) {
      AddMachine(inventory);
    } else {
      inventory->absences.push_back(
          AbsenceOf("process", "machine", procfs_ + "/meminfo", meminfo.reason));
    }
  }

  void Read(bool slow, std::vector<Reading>* readings) override {
    if (start_ticks_ && slow) FindDescendants();
    if (start_ticks_ && children_only_) FindChildren();
    SensorReader::Read(slow, readings);
  }

 private:
  static constexpr size_t kMostBytes = 1 << 14;

  std::string PathOf(int64_t pid, std::string_view file) const {
    return Cat(procfs_, "/", pid, "/", file);
  }

  FileValue<Stat> ReadStat(int64_t pid) const {
    const FileText text = ReadText(PathOf(pid, "stat"));
    if (!text.value) return text.reason;
    const auto state = StatField(*text.value, 3);
    const FileNumber parent = NumberIn(StatField(*text.value, 4).value_or(""));
    const FileNumber start = NumberIn(StatField(*text.value, 22).value_or(""));
    if (!state || state->size() != 1 || !parent.value || !start.value) {
      return PowerReason::kUnsupported;
    }
    return Stat{state->front(), *parent.value, *start.value};
  }

  // The status of the process that had this number when it was found; kNoSamples after it has
  // ended. The start time is read last, so that a reused number is detected.
  FileText ReadStatus(int64_t pid, int64_t start_ticks) const {
    FileText status = ReadText(PathOf(pid, "status"), kMostBytes);
    const FileValue<Stat> stat = ReadStat(pid);
    for (const PowerReason reason : {status.reason, stat.reason}) {
      if (reason == PowerReason::kAbsent || reason == PowerReason::kDeviceLost) {
        return PowerReason::kNoSamples;
      }
      if (reason != PowerReason::kKnown) return reason;
    }
    const bool is_it = stat.value->start_ticks == start_ticks && !stat.value->ended();
    return is_it ? status : PowerReason::kNoSamples;
  }

  void FindDescendants() {
    struct Candidate {
      int64_t pid, parent, start_ticks;
    };
    std::vector<Candidate> candidates;
    for (const std::string& name : NamesIn(procfs_)) {
      const FileNumber pid = NumberIn(name);
      if (!pid.value) continue;
      const FileValue<Stat> stat = ReadStat(*pid.value);
      if (!stat.value) continue;
      const auto member = members_.find(*pid.value);
      const bool changed_hands =
          member != members_.end() && member->second != stat.value->start_ticks;
      if (changed_hands) members_.erase(member);
      if (members_.contains(*pid.value) || stat.value->ended()) continue;
      candidates.push_back({*pid.value, stat.value->parent, stat.value->start_ticks});
    }
    // A child may have a smaller number than its parent, so repeat until nothing new is found.
    const auto is_new = [&](const Candidate& each) {
      const auto parent = members_.find(each.parent);
      // A process is not older than its parent.
      if (parent == members_.end() || parent->second > each.start_ticks) return false;
      return members_.try_emplace(each.pid, each.start_ticks).second;
    };
    while (std::any_of(candidates.begin(), candidates.end(), is_new)) {
    }
  }

  void FindChildren() {
    const FileText children = ReadText(PathOf(pid_, Cat("task/", pid_, "/children")), kMostBytes);
    for (const absl::string_view each :
         absl::StrSplit(children.value.value_or(""), ' ', absl::SkipWhitespace())) {
      const FileNumber pid = NumberIn(std::string_view(each.data(), each.size()));
      if (!pid.value || members_.contains(*pid.value)) continue;
      const FileValue<Stat> stat = ReadStat(*pid.value);
      if (stat.value && !stat.value->ended()) members_[*pid.value] = stat.value->start_ticks;
    }
  }

  FileNumber OwnField(std::string_view key) {
    const FileText own = ReadStatus(pid_, *start_ticks_);
    if (own.reason == PowerReason::kNoSamples) members_.erase(pid_);
    return FieldOf(own, key);
  }

  // The sum over live processes. If one cannot be read, the sum is unknown, because it would be too
  // small.
  FileNumber RssOfTree() {
    FileNumber sum = children_only_ ? PowerReason::kNoSamples : OwnField("VmRSS");
    if (!sum.value && sum.reason != PowerReason::kNoSamples) return sum;
    for (auto each = members_.begin(); each != members_.end();) {
      const auto [pid, start_ticks] = *each++;
      if (pid == pid_) continue;
      const FileText status = ReadStatus(pid, start_ticks);
      if (status.reason == PowerReason::kNoSamples) {
        members_.erase(pid);
        continue;
      }
      const FileNumber rss = FieldOf(status, "VmRSS");
      if (rss.reason == PowerReason::kNoSamples)
        continue;  // the process is ending, and its memory
                   // has been freed
      if (!rss.value) return rss;
      int64_t total = 0;
      if (__builtin_add_overflow(sum.value.value_or(0), *rss.value, &total)) {
        return PowerReason::kUnsupported;
      }
      sum = total;
    }
    return sum;
  }

  // Total memory minus the field `without`.
  FileNumber ReadMachine(const char* without) const {
    const FileText meminfo = ReadText(procfs_ + "/meminfo", kMostBytes);
    if (!meminfo.value) return meminfo.reason;
    const FileNumber total = FieldOf(meminfo, "MemTotal");
    const FileNumber less = without == nullptr ? FileNumber(0) : FieldOf(meminfo, without);
    const bool known = total.value && less.value && *total.value >= *less.value;
    return known ? FileNumber(*total.value - *less.value) : PowerReason::kUnsupported;
  }

  void AddSensor(std::string device, std::string domain, std::string quantity, std::string note,
                 std::function<FileNumber()> read, bool slow = false) {
    sensors_.push_back({{.source = "process",
                         .device = std::move(device),
                         .domain = std::move(domain),
                         .quantity = std::move(quantity),
                         .slow = slow,
                         .note = std::move(note)},
                        std::move(read)});
  }

  void AddProcess(PowerInventory* inventory) {
    const std::string device = Cat("pid:", pid_);
    inventory->devices.push_back(
        {device, ReadText(PathOf(pid_, "comm"), 256).value.value_or(""), "process"});
    if (!children_only_) {
      AddSensor(device, "process", "rss_bytes", "VmRSS", [this] { return OwnField("VmRSS"); });
      AddSensor(device, "process", "peak_rss_bytes", "VmHWM, since the program started",
                [this] { return OwnField("VmHWM"); });
    }
    AddSensor(device, "process_tree", "rss_bytes",
              "including child processes; shared pages count in each",
              [this] { return RssOfTree(); });
  }

  void AddMachine(PowerInventory* inventory) {
    inventory->devices.push_back({"machine", "machine", "process"});
    AddSensor("machine", "machine", "memory_used_bytes", "MemTotal - MemAvailable",
              [this] { return ReadMachine("MemAvailable"); });
    AddSensor(
        "machine", "machine", "memory_total_bytes", "MemTotal",
        [this] { return ReadMachine(nullptr); }, /*slow=*/true);
  }

  PowerAbsence AbsenceOfProcess(const FileValue<Stat>& stat) const {
    const std::string path = PathOf(pid_, "stat");
    PowerAbsence absence = AbsenceOf("process", Cat("pid:", pid_), path, stat.reason);
    if (stat.value) {
      absence.reason = PowerReason::kNoSamples;
      absence.message = path + ": the process has ended";
    } else if (stat.reason == PowerReason::kAbsent) {
      absence.message =
          path + ": no such process, or " + procfs_ + " hides processes of other users";
    } else if (stat.reason == PowerReason::kPermissionDenied) {
      absence.fix = "record as the user of the process, or as root";
    }
    return absence;
  }

  const std::string procfs_;
  const int64_t pid_;
  const bool children_only_;
  std::optional<int64_t> start_ticks_;  // of pid_; empty if it did not exist
  // Start times of pid_ and its known live descendants, by pid.
  std::map<int64_t, int64_t> members_;
};

}  // namespace

std::unique_ptr<Reader> NewProcessReader(const PowerSourceOptions& options) {
  return std::make_unique<ProcessReader>(options);
}

}  // namespace xplane_time::power
