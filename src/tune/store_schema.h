// The tables of a store, as steps from one version to the next. docs/store.md explains them.
#ifndef XPLANE_TIME_SRC_TUNE_STORE_SCHEMA_H_
#define XPLANE_TIME_SRC_TUNE_STORE_SCHEMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tune/store_sqlite.h"

namespace xplane_time::tune {

inline constexpr int64_t kStoreVersion = 3;
inline constexpr int64_t kStoreApplicationId = 0x5850544d;  // "XPTM"

// Brings a new or older database to kStoreVersion, in one transaction. Errors:
// FailedPrecondition (newer, or another program's), those of Database.
absl::Status PrepareSchema(const Database& db);

// Without writing; false: an older store. Errors: as above.
absl::StatusOr<bool> IsCurrentSchema(const Database& db);

}  // namespace xplane_time::tune

#endif  // XPLANE_TIME_SRC_TUNE_STORE_SCHEMA_H_
