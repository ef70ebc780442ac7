#include "tests/tune/crash_vfs.h"

#include <sqlite3.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>

namespace xplane_time::testing {
namespace {

// Of one process, which has one thread.
sqlite3_vfs* real_vfs = nullptr;
int crash_at = 0, changes = 0;
Crash crash_kind = Crash::kKill;
std::map<std::string, std::optional<std::string>>* flushed = nullptr;  // nothing: never

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void CutPower() {
  for (const auto& [path, bytes] : *flushed) {
    std::error_code ignored;
    if (bytes.has_value()) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << *bytes;
    } else {
      std::filesystem::remove(path, ignored);
    }
    std::filesystem::remove(path + "-shm", ignored);
  }
}

void CountChange() {
  if (++changes != crash_at) return;
  if (crash_kind == Crash::kPowerCut) CutPower();
  raise(SIGKILL);
}

// SQLite's file, followed by that of the real file system.
struct CrashFile {
  sqlite3_file base;
  std::string* path;  // null: temporary
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

CrashFile* Of(sqlite3_file* file) { return reinterpret_cast<CrashFile*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real(); }
const sqlite3_io_methods* Methods(sqlite3_file* file) { return Real(file)->pMethods; }

int Close(sqlite3_file* file) {
  delete Of(file)->path;
  return Methods(file)->xClose(Real(file));
}
int Read(sqlite3_file* file, void* to, int count, sqlite3_int64 from) {
  return Methods(file)->xRead(Real(file), to, count, from);
}
int Write(sqlite3_file* file, const void* from, int count, sqlite3_int64 to) {
  CountChange();
  return Methods(file)->xWrite(Real(file), from, count, to);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  CountChange();
  return Methods(file)->xTruncate(Real(file), size);
}
int Sync(sqlite3_file* file, int flags) {
  CountChange();
  const int code = Methods(file)->xSync(Real(file), flags);
  if (Of(file)->path != nullptr) (*flushed)[*Of(file)->path] = BytesOf(*Of(file)->path);
  return code;
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Methods(file)->xFileSize(Real(file), size);
}
int Lock(sqlite3_file* file, int level) { return Methods(file)->xLock(Real(file), level); }
int Unlock(sqlite3_file* file, int level) { return Methods(file)->xUnlock(Real(file), level); }
int CheckReservedLock(sqlite3_file* file, int* out) {
  return Methods(file)->xCheckReservedLock(Real(file), out);
}
int FileControl(sqlite3_file* file, int op, void* argument) {
  return Methods(file)->xFileControl(Real(file), op, argument);
}
int SectorSize(sqlite3_file* file) { return Methods(file)->xSectorSize(Real(file)); }
int DeviceCharacteristics(sqlite3_file* file) {
  return Methods(file)->xDeviceCharacteristics(Real(file));
}
int ShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return Methods(file)->xShmMap(Real(file), page, size, extend, out);
}
int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return Methods(file)->xShmLock(Real(file), offset, count, flags);
}
void ShmBarrier(sqlite3_file* file) { Methods(file)->xShmBarrier(Real(file)); }
int ShmUnmap(sqlite3_file* file, int remove) {
  return Methods(file)->xShmUnmap(Real(file), remove);
}

constexpr sqlite3_io_methods kMethods = {2,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReservedLock,
                                         FileControl,
                                         SectorSize,
                                         DeviceCharacteristics,
                                         ShmMap,
                                         ShmLock,
                                         ShmBarrier,
                                         ShmUnmap,
                                         nullptr,
                                         nullptr};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  std::error_code ignored;
  const bool was_there = name != nullptr && std::filesystem::exists(name, ignored);
  file->pMethods = nullptr;
  const int code = real_vfs->xOpen(real_vfs, name, Real(file), flags, out_flags);
  if (code != SQLITE_OK) return code;
  file->pMethods = &kMethods;
  Of(file)->path = name == nullptr ? nullptr : new std::string(name);
  if (name != nullptr && !flushed->contains(name)) {
    (*flushed)[name] = was_there ? std::optional(BytesOf(name)) : std::nullopt;
  }
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char* name, int sync_directory) {
  CountChange();
  flushed->erase(name);
  return real_vfs->xDelete(real_vfs, name, sync_directory);
}

}  // namespace

void InstallCrashVfs(int at, Crash crash) {
  static sqlite3_vfs vfs;
  real_vfs = sqlite3_vfs_find(nullptr);
  flushed = new std::map<std::string, std::optional<std::string>>;
  crash_at = at;
  changes = 0;
  crash_kind = crash;
  vfs = *real_vfs;
  vfs.zName = "crash";
  vfs.szOsFile = real_vfs->szOsFile + static_cast<int>(sizeof(CrashFile));
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  sqlite3_vfs_register(&vfs, /*makeDflt=*/1);
}

int ChangesSeen() { return changes; }

}  // namespace xplane_time::testing
