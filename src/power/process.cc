// Memory of the measured process, of the processes that it started, and of the machine.
//
// A process is a number and the time at which it started: numbers are used again. Processes
// started by it are looked for with the slow channels, once a second, since that reads a file
// of every process; those once found stay, also when their parent ends. Of children only, those
// of the process's first thread are looked for in each pass, where the kernel lists them.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "power/reader.h"
#include "power/sysfs.h"

namespace xplane_time::power {
namespace {

// Of /proc/PID/stat.
struct Stat {
  char state = 0;
  int64_t parent = 0, start_ticks = 0;
  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

// Field `number` counts as in proc(5), from 1; those from 3 on follow the last ')', since a
// program's name may contain blanks and parentheses.
std::optional<std::string_view> FieldAt(std::string_view stat, int number) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  size_t at = name_end + 1;
  for (int field = 3;; ++field) {
    at = stat.find_first_not_of(' ', at);
    if (at == std::string_view::npos) return std::nullopt;
    const size_t end = std::min(stat.find(' ', at), stat.size());
    if (field == number) return stat.substr(at, end - at);
    at = end;
  }
}

class ProcessReader : public Reader {
 public:
  explicit ProcessReader(const PowerSourceOptions& options)
      : procfs_(options.roots.procfs),
        pid_(options.pid == 0 ? getpid() : options.pid),
        children_only_(options.children_only) {}

  std::string_view source() const override { return "process"; }

  PowerInventory Discover() override {
    PowerInventory inventory;
    const FileValue<Stat> stat = ReadStat(pid_);
    if (stat.value && !stat.value->ended()) {
      start_ticks_ = stat.value->start_ticks;
      members_[pid_] = *start_ticks_;
      AddProcess(&inventory);
    } else {
      AddAbsence(stat, &inventory);
    }
    const FileText meminfo = ReadText(procfs_ + "/meminfo", kMostBytes);
    has_machine_ = meminfo.value.has_value();
    if (has_machine_) {
      AddMachine(&inventory);
    } else {
      inventory.absences.push_back({.source = "process",
                                    .what = "machine",
                                    .reason = meminfo.reason,
                                    .message = FailureText(procfs_ + "/meminfo", meminfo.reason),
                                    .fix = ""});
    }
    return inventory;
  }

  void Read(bool slow, std::vector<Reading>* readings) override {
    uint32_t channel = 0;
    if (start_ticks_) {
      if (slow) FindDescendants();
      if (children_only_) {
        FindChildren();
        ReadChildren(&channel, readings);
      } else {
        ReadProcess(&channel, readings);
      }
    }
    if (has_machine_) ReadMachine(slow, channel, readings);
  }

  int64_t default_period_ns() const override { return 100'000'000; }

 private:
  static constexpr size_t kMostBytes = 1 << 14;

  std::string PathOf(int64_t pid, std::string_view file) const {
    return procfs_ + "/" + std::to_string(pid) + "/" + std::string(file);
  }

  FileValue<Stat> ReadStat(int64_t pid) const {
    const FileText text = ReadText(PathOf(pid, "stat"));
    if (!text.value) return Unknown<Stat>(text.reason);
    const auto state = FieldAt(*text.value, 3);
    const FileNumber parent = NumberIn(FieldAt(*text.value, 4).value_or(""));
    const FileNumber start = NumberIn(FieldAt(*text.value, 22).value_or(""));
    if (!state || state->size() != 1 || !parent.value || !start.value) {
      return Unknown<Stat>(PowerReason::kUnsupported);
    }
    return {Stat{state->front(), *parent.value, *start.value}, PowerReason::kKnown};
  }

  // The status of the process that had this number when it was found; kNoSamples once it has
  // ended. The start is read last, so that a number that changed hands is seen.
  FileText ReadStatus(int64_t pid, int64_t start_ticks) const {
    FileText status = ReadText(PathOf(pid, "status"), kMostBytes);
    const FileValue<Stat> stat = ReadStat(pid);
    for (const PowerReason reason : {status.reason, stat.reason}) {
      if (reason == PowerReason::kAbsent || reason == PowerReason::kDeviceLost) {
        return Unknown<std::string>(PowerReason::kNoSamples);
      }
      if (reason != PowerReason::kKnown) return Unknown<std::string>(reason);
    }
    if (stat.value->start_ticks != start_ticks || stat.value->ended()) {
      return Unknown<std::string>(PowerReason::kNoSamples);
    }
    return status;
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
    // A child may have a smaller number than its parent: until nothing is new.
    const auto is_new = [&](const Candidate& each) {
      const auto parent = members_.find(each.parent);
      // Nobody is older than their parent.
      if (parent == members_.end() || parent->second > each.start_ticks) return false;
      return members_.try_emplace(each.pid, each.start_ticks).second;
    };
    while (std::any_of(candidates.begin(), candidates.end(), is_new)) {
    }
  }

  void FindChildren() {
    const std::string self = std::to_string(pid_);
    const FileText children = ReadText(PathOf(pid_, "task/" + self + "/children"), kMostBytes);
    for (const absl::string_view each :
         absl::StrSplit(children.value.value_or(""), ' ', absl::SkipWhitespace())) {
      const FileNumber pid = NumberIn(std::string_view(each.data(), each.size()));
      if (!pid.value || members_.contains(*pid.value)) continue;
      const FileValue<Stat> stat = ReadStat(*pid.value);
      if (stat.value && !stat.value->ended()) members_[*pid.value] = stat.value->start_ticks;
    }
  }

  void ReadChildren(uint32_t* channel, std::vector<Reading>* readings) {
    const int64_t before_ns = MonotonicNow();
    const FileNumber sum = SumWithDescendants(Unknown<int64_t>(PowerReason::kNoSamples));
    Append((*channel)++, before_ns, sum, readings, MonotonicNow());
  }

  void ReadProcess(uint32_t* channel, std::vector<Reading>* readings) {
    const int64_t before_ns = MonotonicNow();
    const FileText own = ReadStatus(pid_, *start_ticks_);
    if (own.reason == PowerReason::kNoSamples) members_.erase(pid_);
    const auto field = [&](std::string_view key) {
      return own.value ? FieldOf(*own.value, key) : Unknown<int64_t>(own.reason);
    };
    const FileNumber rss = field("VmRSS"), peak = field("VmHWM");
    const int64_t after_ns = MonotonicNow();
    Append((*channel)++, before_ns, rss, readings, after_ns);
    Append((*channel)++, before_ns, peak, readings, after_ns);
    const FileNumber tree = SumWithDescendants(rss);
    Append((*channel)++, before_ns, tree, readings, MonotonicNow());
  }

  // Of those that live. One that cannot be read makes the sum unknown: it would be too small.
  FileNumber SumWithDescendants(const FileNumber& own) {
    if (!own.value && own.reason != PowerReason::kNoSamples) return own;
    FileNumber sum = own;
    for (auto each = members_.begin(); each != members_.end();) {
      const auto [pid, start_ticks] = *each++;
      if (pid == pid_) continue;
      const FileText status = ReadStatus(pid, start_ticks);
      if (status.reason == PowerReason::kNoSamples) {
        members_.erase(pid);
        continue;
      }
      const FileNumber rss =
          status.value ? FieldOf(*status.value, "VmRSS") : Unknown<int64_t>(status.reason);
      if (rss.reason == PowerReason::kNoSamples) continue;  // it ends, and its memory is gone
      if (!rss.value) return rss;
      int64_t total = 0;
      if (__builtin_add_overflow(sum.value.value_or(0), *rss.value, &total)) {
        return Unknown<int64_t>(PowerReason::kUnsupported);
      }
      sum = {total, PowerReason::kKnown};
    }
    return sum;
  }

  void ReadMachine(bool slow, uint32_t channel, std::vector<Reading>* readings) const {
    const int64_t before_ns = MonotonicNow();
    const FileText meminfo = ReadText(procfs_ + "/meminfo", kMostBytes);
    const int64_t after_ns = MonotonicNow();
    const auto field = [&](std::string_view key) {
      if (!meminfo.value) return Unknown<int64_t>(meminfo.reason);
      FileNumber number = FieldOf(*meminfo.value, key);
      if (!number.value) number.reason = PowerReason::kUnsupported;
      return number;
    };
    const FileNumber total = field("MemTotal"), available = field("MemAvailable");
    FileNumber used = total;
    if (!available.value) used = available;
    if (total.value && available.value) *used.value = *total.value - *available.value;
    if (used.value.value_or(0) < 0) used = Unknown<int64_t>(PowerReason::kUnsupported);
    Append(channel, before_ns, used, readings, after_ns);
    if (slow) Append(channel + 1, before_ns, total, readings, after_ns);
  }

  static void Append(uint32_t channel, int64_t before_ns, const FileNumber& number,
                     std::vector<Reading>* readings, int64_t after_ns) {
    readings->push_back({.channel = channel,
                         .before_ns = before_ns,
                         .after_ns = after_ns,
                         .value = number.value,
                         .reason = number.reason});
  }

  void AddProcess(PowerInventory* inventory) const {
    const std::string device = "pid:" + std::to_string(pid_);
    const std::string name = ReadText(PathOf(pid_, "comm"), 256).value.value_or("");
    inventory->devices.push_back({.id = device, .name = name, .source = "process"});
    const auto add = [&](std::string domain, std::string quantity, std::string note) {
      inventory->channels.push_back({.source = "process",
                                     .device = device,
                                     .domain = std::move(domain),
                                     .quantity = std::move(quantity),
                                     .note = std::move(note)});
    };
    if (!children_only_) {
      add("process", "rss_bytes", "VmRSS");
      add("process", "peak_rss_bytes", "VmHWM, since the program began");
    }
    add("process_tree", "rss_bytes",
        "with the processes that it started; pages that they share count in each");
  }

  void AddMachine(PowerInventory* inventory) const {
    inventory->devices.push_back({.id = "machine", .name = "machine", .source = "process"});
    inventory->channels.push_back({.source = "process",
                                   .device = "machine",
                                   .domain = "machine",
                                   .quantity = "memory_used_bytes",
                                   .note = "MemTotal - MemAvailable"});
    inventory->channels.push_back({.source = "process",
                                   .device = "machine",
                                   .domain = "machine",
                                   .quantity = "memory_total_bytes",
                                   .slow = true,
                                   .note = "MemTotal"});
  }

  void AddAbsence(const FileValue<Stat>& stat, PowerInventory* inventory) const {
    const std::string path = PathOf(pid_, "stat");
    PowerAbsence absence = {.source = "process",
                            .what = "pid:" + std::to_string(pid_),
                            .reason = stat.reason,
                            .message = FailureText(path, stat.reason),
                            .fix = ""};
    if (stat.value) {
      absence.reason = PowerReason::kNoSamples;
      absence.message = path + ": the process has ended";
    } else if (stat.reason == PowerReason::kAbsent) {
      absence.message = path + ": no such process, or " + procfs_ + " hides those of others";
    } else if (stat.reason == PowerReason::kPermissionDenied) {
      absence.fix = "record as the user of the process, or as root";
    }
    inventory->absences.push_back(std::move(absence));
  }

  const std::string procfs_;
  const int64_t pid_;
  const bool children_only_;
  std::optional<int64_t> start_ticks_;  // of pid_; empty: it was not there
  // Starts of pid_ and of those that it started, by pid, as far as they are known to live.
  std::map<int64_t, int64_t> members_;
  bool has_machine_ = false;
};

}  // namespace

std::unique_ptr<Reader> NewProcessReader(const PowerSourceOptions& options) {
  return std::make_unique<ProcessReader>(options);
}

}  // namespace xplane_time::power
