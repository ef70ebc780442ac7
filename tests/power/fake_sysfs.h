// A fake sysfs and procfs in a temporary directory, which is removed at the end.
//
//   FakeSysfs fake;
//   fake.Write("class/hwmon/hwmon0/name", "amdgpu");
//   fake.WriteProc("meminfo", "MemTotal: 16 kB\n");
//   reader = NewHwmonReader(fake.options());
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "power/reader.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

class FakeSysfs {
 public:
  FakeSysfs() {
    std::string form = (std::filesystem::temp_directory_path() / "power_test.XXXXXX").string();
    EXPECT_NE(mkdtemp(form.data()), nullptr);
    root_ = form;
    std::filesystem::permissions(root_, std::filesystem::perms(0755));
    std::filesystem::create_directories(root_ / "sys");
    std::filesystem::create_directories(root_ / "proc");
  }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;
  ~FakeSysfs() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::filesystem::path sys(const std::string& path) const { return root_ / "sys" / path; }
  std::filesystem::path proc(const std::string& path) const { return root_ / "proc" / path; }
  PowerSourceOptions options() const {
    PowerSourceOptions options;
    options.roots.sysfs = (root_ / "sys").string();
    options.roots.procfs = (root_ / "proc").string();
    return options;
  }

  void Write(const std::string& path, const std::string& text) { WriteTo(sys(path), text + "\n"); }
  void WriteProc(const std::string& path, const std::string& text) { WriteTo(proc(path), text); }
  void WriteBytes(const std::string& path, const std::string& bytes) { WriteTo(sys(path), bytes); }
  void Remove(const std::string& path) { std::filesystem::remove_all(sys(path)); }
  void RemoveProc(const std::string& path) { std::filesystem::remove_all(proc(path)); }
  // Creates a link with exactly this target. Relative targets are relative to the link's directory.
  void Link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(sys(path).parent_path());
    std::filesystem::remove(sys(path));
    std::filesystem::create_symlink(target, sys(path));
  }
  // Creates a directory instead of a file. It can be opened, but not read.
  void Directory(const std::string& path) {
    Remove(path);
    std::filesystem::create_directories(sys(path));
  }

  void Deny(const std::string& path) {
    std::filesystem::permissions(sys(path), std::filesystem::perms::none);
  }
  void DenyProc(const std::string& path) {
    std::filesystem::permissions(proc(path), std::filesystem::perms::none);
  }

  // Creates a zone of powercap, without a file for the range if `range` is empty.
  void Zone(const std::string& id, const std::string& name, const std::string& energy_uj,
            const std::string& range = "262143328850") {
    const std::string zone = "class/powercap/" + id + "/";
    Write(zone + "name", name);
    Write(zone + "energy_uj", energy_uj);
    if (!range.empty()) Write(zone + "max_energy_range_uj", range);
  }

 private:
  // Replaces the file atomically, so a reader sees either the old text or the new one.
  static void WriteTo(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    const bool is_new = !std::filesystem::exists(path);
    const std::filesystem::path next = path.string() + (is_new ? "" : ".next");
    std::ofstream(next, std::ios::binary) << text;
    if (!is_new) std::filesystem::rename(next, path);
  }

  std::filesystem::path root_;
};

// Drops root privileges, so that file permissions apply even if the tests run as root.
class WithoutRoot {
 public:
  WithoutRoot() : was_root_(geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (was_root_ && seteuid(kNobody) != 0) is_bound_ = false;
  }
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;
  ~WithoutRoot() {
    if (was_root_ && is_bound_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }
  bool is_bound() const { return is_bound_; }

 private:
  const bool was_root_;
  bool is_bound_ = true;
};

// The results of a reader, by "device domain quantity".
class Discovered {
 public:
  explicit Discovered(std::unique_ptr<Reader> reader)
      : reader_(std::move(reader)), inventory_(reader_->Discover()) {}

  const PowerInventory& inventory() const { return inventory_; }
  const std::vector<PowerAbsence>& absences() const { return inventory_.absences; }

  static std::string KeyOf(const PowerChannel& channel) {
    return channel.device + " " + channel.domain + " " + channel.quantity;
  }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const PowerChannel& channel : inventory_.channels) keys.push_back(KeyOf(channel));
    return keys;
  }
  const PowerChannel& Channel(const std::string& key) const {
    const auto at = std::find_if(inventory_.channels.begin(), inventory_.channels.end(),
                                 [&](const auto& channel) { return KeyOf(channel) == key; });
    static const PowerChannel kNone;
    if (at != inventory_.channels.end()) return *at;
    ADD_FAILURE() << "no channel " << key;
    return kNone;
  }

  std::vector<Reading> Read(bool slow = true) {
    std::vector<Reading> readings;
    reader_->Read(slow, &readings);
    for (const Reading& reading : readings) {
      // Properties of every reading.
      EXPECT_LT(reading.channel, inventory_.channels.size());
      EXPECT_LE(reading.before_ns, reading.after_ns);
      EXPECT_EQ(reading.value.has_value(), reading.reason == PowerReason::kKnown);
    }
    return readings;
  }
  // The value, such as "123", or the name of the reason.
  std::string Value(const std::string& key, bool slow = true) {
    for (const Reading& reading : Read(slow)) {
      if (KeyOf(inventory_.channels[reading.channel]) != key) continue;
      return reading.value ? std::to_string(*reading.value)
                           : std::string(PowerReasonName(reading.reason));
    }
    return "no reading";
  }

 private:
  std::unique_ptr<Reader> reader_;
  PowerInventory inventory_;
};

}  // namespace xplane_time::power
